//! Code that is put into the cache for others to load.
use std::path::Path;

use ptxkit::cache::{Cache, CompileLock};

fn puts(lock: CompileLock) {
    let _ = lock.put(&Default::default(), b"code"); //~ E0133
}

fn imports(cache: &Cache) {
    let _ = cache.import(Path::new("/tmp"), |_| {}); //~ E0133
}

fn main() {}
