//! Code that is put into the cache for others to load.
use std::path::Path;

use ptxkit::cache::{Cache, Turn};

fn puts(turn: Turn) {
    let _ = turn.put(&Default::default(), b"code");
}

fn imports(cache: &Cache) {
    let _ = cache.import(Path::new("/tmp"), |_| {});
}

fn main() {}
