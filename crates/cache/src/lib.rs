//! The compute cache: what was compiled once is not compiled again.
//!
//! A compiled module is a *blob*: one file, named by a [`Key`] that holds
//! everything that can change the code. A hit opens one file and checks its
//! header and checksum; it takes no lock. A miss returns a [`CompileLock`]: the
//! caller compiles while every other thread and process that wants the same key
//! waits for the result.
//!
//! ```
//! use ptxkit_cache::{Cache, Digest, Environment, Key, KeyParts, Lookup, Policy, Provenance};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let policy = Policy::from_environment(&Environment::of([("CUDA_CACHE_PATH", folder.path())]));
//! # let compile = |_: &str| b"code".to_vec();
//! let cache = Cache::new(policy);
//! let ptx = ".version 9.0\n.target sm_90\n.address_size 64\n";
//! let key = Key::new(&KeyParts {
//!     source: Digest::of(ptx.as_bytes()),
//!     target: "sm_90",
//!     driver_version: 13000,
//!     compiler: "nvidia",
//!     options: b"",
//! });
//! let code = match cache.lookup(&key) {
//!     Lookup::Hit(blob) => blob.to_vec(),
//!     // SAFETY: the code was compiled from this PTX.
//!     Lookup::Miss(lock) => unsafe { lock.put(&Provenance::default(), &compile(ptx)) }.to_vec(),
//!     Lookup::Failed(why) => panic!("it does not compile: {why}"),
//!     Lookup::Off => compile(ptx),
//! };
//! assert_eq!(code, b"code");
//! assert!(matches!(cache.lookup(&key), Lookup::Hit(_)));
//! ```
//!
//! Behind the writable folder there may be read-only ones
//! ([`Policy::read_only`]), such as a container image brings, and behind those a store
//! that machines share (the module `remote`, with one of the features `remote-redis`,
//! `remote-s3` and so on).
//!
//! **The cache never fails a load.** A full disk, no home folder, a read-only
//! or untrusted folder, a file system without locks: each is one warning
//! through `tracing`, and the caller compiles.

#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]
#![warn(missing_docs)]

#[cfg(feature = "remote")]
mod arrivals;
mod batch;
mod blob;
mod catalogue;
mod compile_lock;
mod contents;
mod counters;
mod eviction;
mod folder;
mod hit_log;
mod key;
mod local;
mod lock;
mod maintenance;
mod on_compile;
mod policy;
mod provenance;
mod record;
#[cfg(feature = "remote")]
pub mod remote;
#[cfg(feature = "remote")]
mod remote_transfer;
mod scan;
mod single_flight;
mod state;
mod store;
#[cfg(all(test, unix))]
mod tests;
mod transfer;
mod verified;
#[cfg(test)]
mod warnings;

use input::ShowName as _;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
#[cfg(feature = "remote")]
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tracing::{debug, info, warn};

#[doc(hidden)]
pub use batch::Batch;
pub use blob::Blob;
pub use compile_lock::CompileLock;
pub use counters::Counters;
#[cfg(feature = "remote")]
pub use counters::RemoteCounters;
pub use key::{Key, KeyParts, SCHEMA};
pub use maintenance::{Checked, Entry, Prune, Removed, Stats, TierStats, Verdict, Verification};
pub use on_compile::{NotAnOnCompile, OnCompile};
pub use policy::{
    DEFAULT_MAX_SIZE, EMBEDDED_MAX_SIZE, Environment, LARGEST_MAX_SIZE, NotASlicing, Policy,
    Slicing,
};
pub use provenance::Provenance;
pub use ptx::Digest;
pub use record::Record;
#[cfg(feature = "remote")]
pub use remote_transfer::{RemoteEntry, RemoteError, RemoteStatus};
pub use single_flight::CompileFailure;
pub use transfer::{Damaged, Moved, Moving};

#[cfg(feature = "remote")]
use arrivals::Arrivals;
use local::Local;
use single_flight::{Joined, SingleFlight};
use store::Store;

/// The compute cache. Cheap to clone; clones share one cache.
#[derive(Clone, Debug)]
pub struct Cache {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    local: Arc<Local>,
    #[cfg(feature = "remote")]
    remote: OnceLock<Option<remote::Remote>>,
    /// What came from there, on its way to the folder.
    #[cfg(feature = "remote")]
    arrivals: Arrivals,
    single_flight: Arc<SingleFlight>,
}

/// Where a blob lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tier {
    /// In the folder of `CUDA_CACHE_PATH`.
    Writable,
    /// In this folder, one of [`Policy::read_only`].
    ReadOnly(PathBuf),
}

/// The result of a lookup.
#[derive(Debug)]
pub enum Lookup {
    /// It is in the cache.
    Hit(Blob),
    /// Compile it, and [`put`](CompileLock::put) it.
    Miss(CompileLock),
    /// It failed to compile in this process before.
    Failed(CompileFailure),
    /// The cache is disabled, or no folder can be used.
    Off,
}

/// Why an operation of a tool on the cache failed. Loads never see it.
#[allow(missing_docs, reason = "the messages say it all")]
#[derive(Debug)]
#[non_exhaustive]
pub enum CacheError {
    NoFolder,
    NotAKey(String),
    Folder { path: PathBuf, source: io::Error },
}

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CacheError::NoFolder => {
                f.write_str("there is no folder for the cache: set CUDA_CACHE_PATH")
            }
            CacheError::NotAKey(text) => write!(
                f,
                "{text} is not the start of a key: give up to 64 hexadecimal digits"
            ),
            CacheError::Folder { path, source } => {
                write!(f, "{} cannot be used: {source}", path.shown())
            }
        }
    }
}

impl std::error::Error for CacheError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CacheError::Folder { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl CacheError {
    fn of(path: &Path, source: io::Error) -> CacheError {
        CacheError::Folder {
            path: path.to_owned(),
            source,
        }
    }
}

impl Cache {
    /// A cache as `policy` has it. Nothing is touched before the first lookup.
    pub fn new(policy: Policy) -> Cache {
        Cache {
            shared: Arc::new(Shared {
                local: Arc::new(Local::new(policy)),
                #[cfg(feature = "remote")]
                remote: OnceLock::new(),
                #[cfg(feature = "remote")]
                arrivals: Arrivals::default(),
                single_flight: Arc::default(),
            }),
        }
    }

    /// A cache as the process's environment asks for it.
    pub fn from_environment() -> Cache {
        Cache::new(Policy::from_environment(&Environment::read()))
    }

    /// How it behaves.
    pub fn policy(&self) -> &Policy {
        &self.local().policy
    }

    /// The folder that the blobs lie in, whether it is there yet or not.
    pub fn folder(&self) -> Option<PathBuf> {
        self.local().folder()
    }

    /// Looks for the blob of `key`. On a miss the calling thread gets the
    /// [`CompileLock`], once no other thread or process has it: it waits for
    /// [`Policy::wait`] at most.
    pub fn lookup(&self, key: &Key) -> Lookup {
        self.lookup_of(key, 0)
    }

    /// The same for what is compiled of `source_bytes` of text: the longer compiling takes,
    /// the longer a store that machines share may take.
    pub fn lookup_of(&self, key: &Key, source_bytes: usize) -> Lookup {
        let started = Instant::now();
        if self.local().all_tiers().next().is_none() && !self.has_remote() {
            return Lookup::Off;
        }
        if let Some(blob) = self.local().get(key) {
            return self.hit(key, blob, started, Duration::ZERO);
        }
        let deadline = started + self.local().policy.wait();
        let before = Instant::now();
        let leader = match self.shared.single_flight.join(key, deadline) {
            Joined::Leader(leader) => Some(leader),
            Joined::Compiled(blob) => return self.hit(key, blob, started, before.elapsed()),
            Joined::Failed(failure) => {
                self.local().counts.failures.one();
                info!(key = %key.short(), "failed to compile before");
                return Lookup::Failed(failure);
            }
            Joined::TimedOut => None,
        };
        let local = self.local();
        let waited_for_thread = leader.as_ref().is_none_or(|leader| leader.waited);
        // Without the lock: its file would cost a hit more than the request does.
        let (found, lock, waited_for_process) = match self.fetch(key, source_bytes) {
            Some(blob) => (Some(blob), None, false),
            None => {
                let (lock, waited) = local.lock(key, deadline);
                // Whoever had the lock before has most likely put the blob.
                (local.get(key), lock, waited)
            }
        };
        let waited = if waited_for_thread || waited_for_process {
            before.elapsed()
        } else {
            Duration::ZERO
        };
        if let Some(blob) = found {
            if let Some(leader) = leader {
                leader.publish(&blob);
            }
            if let Some(lock) = lock {
                lock.remove();
            }
            return self.hit(key, blob, started, waited);
        }
        self.count_wait(waited);
        self.local().counts.misses.one();
        info!(key = %key.short(), "cache miss");
        debug!(%key, us = started.elapsed().as_micros(), "no blob found");
        Lookup::Miss(CompileLock::new(self, key, leader, lock))
    }

    /// The blob of `key`, if a folder has it: nothing is waited for, and nobody is about to
    /// compile it.
    pub fn stored(&self, key: &Key) -> Option<Blob> {
        let started = Instant::now();
        let blob = self.local().get(key)?;
        self.count_hit(key, &blob, started, Duration::ZERO);
        Some(blob)
    }

    /// Whether there is a file for `key`, or its blob is on its way to the folder: nothing is
    /// read, counted or waited for.
    pub fn contains(&self, key: &Key) -> bool {
        self.local().all_tiers().any(|store| store.contains(key)) || self.is_on_its_way(key)
    }

    #[cfg(feature = "remote")]
    fn is_on_its_way(&self, key: &Key) -> bool {
        self.shared.arrivals.find(key).is_some()
    }

    #[cfg(not(feature = "remote"))]
    fn is_on_its_way(&self, _: &Key) -> bool {
        false
    }

    /// Quarantines the blob of `key`, which is whole but does not load.
    pub fn discard(&self, key: &Key, why: &str) {
        #[cfg(feature = "remote")]
        if let Some(remote) = self.remote() {
            remote.ignore(key);
            self.shared.arrivals.forget(key);
            // It may be half in the folder by now.
            self.shared.arrivals.wait(remote::FLUSH_WAIT);
        }
        let local = self.local();
        // A lookup takes the blob of the first tier that has it.
        if let Some(store) = local.all_tiers().find(|store| store.contains(key)) {
            local.quarantine(store, key, None, why);
        }
    }

    /// Counts since this cache was made.
    pub fn counters(&self) -> Counters {
        self.local().counts.snapshot()
    }

    /// Runs `f` on the store; a folder that is not there is an empty one.
    fn tool<T: Default>(&self, f: impl FnOnce(&Store) -> io::Result<T>) -> Result<T, CacheError> {
        let path = self.folder().ok_or(CacheError::NoFolder)?;
        match Store::existing(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
            opened => opened
                .and_then(|store| f(&store))
                .map_err(|error| CacheError::of(&path, error)),
        }
    }

    /// The result of reading `store`, for a tool.
    fn of<T>(&self, store: &Store, result: io::Result<T>) -> Result<T, CacheError> {
        result.map_err(|error| CacheError::of(store.root(), error))
    }

    fn local(&self) -> &Local {
        &self.shared.local
    }

    /// Writes what a tool is about to read: hits, and what is on its way to the folder.
    fn write_behind(&self) {
        #[cfg(feature = "remote")]
        self.shared.arrivals.wait(remote::FLUSH_WAIT);
        self.local().write_hits();
    }

    /// The store that machines share, where there is one.
    #[cfg(feature = "remote")]
    fn remote(&self) -> Option<&remote::Remote> {
        let policy = &self.local().policy;
        let config = policy.remote().filter(|_| policy.enabled())?;
        let open = || {
            let stamp = self
                .local()
                .writable()
                .map(|store| store.root().join("remote"));
            let counts = Arc::clone(&self.local().counts.remote);
            remote::Remote::open(config, stamp, counts)
        };
        self.shared.remote.get_or_init(open).as_ref()
    }

    #[cfg(feature = "remote")]
    fn has_remote(&self) -> bool {
        self.remote().is_some()
    }

    #[cfg(not(feature = "remote"))]
    fn has_remote(&self) -> bool {
        false
    }

    /// Takes the blob of `key` from the store that machines share. It is written to the
    /// folder behind the load.
    #[cfg(feature = "remote")]
    fn fetch(&self, key: &Key, source_bytes: usize) -> Option<Blob> {
        let remote = self.remote()?;
        let arrivals = &self.shared.arrivals;
        // What is no longer on its way came to the folder after the lookup there.
        if let Some(blob) = arrivals.find(key).or_else(|| self.local().get(key)) {
            return Some(blob);
        }
        let limit = self.local().policy.max_size();
        let blob = remote.get(key, source_bytes, limit)?;
        arrivals.put(&self.shared.local, key, &blob);
        Some(blob)
    }

    #[cfg(not(feature = "remote"))]
    fn fetch(&self, _: &Key, _: usize) -> Option<Blob> {
        None
    }

    fn hit(&self, key: &Key, blob: Blob, started: Instant, waited: Duration) -> Lookup {
        self.count_hit(key, &blob, started, waited);
        Lookup::Hit(blob)
    }

    /// Counts and reports a hit, which waited for others as long as `waited`.
    fn count_hit(&self, key: &Key, blob: &Blob, started: Instant, waited: Duration) {
        let counts = &self.local().counts;
        counts.hits.one();
        counts.bytes_read.add(blob.file().len() as u64);
        self.count_wait(waited);
        info!(key = %key.short(), "cache hit");
        debug!(%key, bytes = blob.file().len(), us = started.elapsed().as_micros(),
            waited_us = waited.as_micros(), "blob found");
    }

    fn count_wait(&self, time: Duration) {
        if !time.is_zero() {
            self.local().counts.waits.one();
            self.local().counts.wait_us.add_us(time);
        }
    }
}
