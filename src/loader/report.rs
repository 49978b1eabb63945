//! The result of a load.

use std::time::Duration;

use crate::cache::Key;
use crate::driver::Module;

/// A module and how it was loaded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Loaded {
    /// The module, ready for its kernels to be launched.
    pub module: Module,
    /// How it was loaded.
    pub report: Report,
}

/// What a load did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// Which image was selected, and why.
    pub image: String,
    /// How the cache was used.
    pub cache: CacheUse,
    /// `None` for a binary, which is not compiled.
    pub key: Option<Key>,
    /// The lookup in the cache: finding, reading and verifying the blob, and waiting
    /// for another thread or process that compiles it.
    pub lookup: Duration,
    /// Zero where nothing was compiled.
    pub compile: Duration,
    /// Writing the code to the cache.
    pub store: Duration,
    /// The driver's part: loading the binary.
    pub load: Duration,
    /// What the compiler said.
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

/// How a load used the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheUse {
    /// The module was loaded already: it is the same one.
    Shared,
    /// The code was in the cache.
    Hit,
    /// The code was compiled, and put there if that was possible.
    Miss,
    /// There is no cache, or nothing was compiled.
    Off,
}
