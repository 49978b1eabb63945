//! What a load gives.

use std::time::Duration;

use crate::cache::Key;
use crate::driver::Module;

/// A module and how it came to be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Loaded {
    /// The module, ready for its kernels to be launched.
    pub module: Module,
    /// How it came to be.
    pub report: Report,
}

/// What a load did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// Which image was taken, and why.
    pub image: String,
    /// Whether it was in the cache.
    pub cache: CacheUse,
    /// `None` where nothing was to compile.
    pub key: Option<Key>,
    /// Looking in the cache: finding, reading and checking the blob, or waiting
    /// for whoever compiles it.
    pub lookup: Duration,
    /// Zero where nothing was compiled.
    pub compile: Duration,
    /// Handing what was compiled to the cache. It is written and synced on a
    /// thread of its own while the load goes on: see
    /// [`flush`](super::Loader::flush).
    pub store: Duration,
    /// Handing the binary to the driver.
    pub load: Duration,
    /// What the compiler had to say.
    pub log: String,
}

impl Report {
    pub(super) fn new(image: String, cache: CacheUse) -> Report {
        Report {
            image,
            cache,
            key: None,
            lookup: Duration::ZERO,
            compile: Duration::ZERO,
            store: Duration::ZERO,
            load: Duration::ZERO,
            log: String::new(),
        }
    }
}

/// What the cache had to do with a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheUse {
    /// The module was loaded already: it is the same one.
    Shared,
    /// The code was there.
    Hit,
    /// The code was compiled, and put there if it could be.
    Miss,
    /// There is no cache, or nothing was to compile.
    Off,
}
