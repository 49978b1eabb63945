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
mod lock;
mod maintenance;
mod policy;
mod provenance;
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

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
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
pub use policy::{
    DEFAULT_MAX_SIZE, EMBEDDED_MAX_SIZE, Environment, LARGEST_MAX_SIZE, NotASlicing, Policy,
    Slicing,
};
pub use provenance::Provenance;
pub use ptx::Digest;
#[cfg(feature = "remote")]
pub use remote_transfer::{RemoteEntry, RemoteError, RemoteStatus};
pub use single_flight::CompileFailure;
pub use transfer::{Damaged, Moved, Moving};

use counters::Counts;
use lock::FileLock;
use single_flight::{Joined, SingleFlight};
use store::{Found, Store};
use verified::Identity;

/// The folder under `CUDA_CACHE_PATH` that is ours alone, so that neither
/// this cache nor the driver's evicts the other's files.
const FOLDER: &str = "ptxkit-v1";

/// The compute cache. Cheap to clone; clones share one cache.
#[derive(Clone, Debug)]
pub struct Cache {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    policy: Policy,
    /// Opened by the first use; `None` where it cannot be used.
    writable: OnceLock<Option<Store>>,
    lower: OnceLock<Vec<Store>>,
    #[cfg(feature = "remote")]
    remote: OnceLock<Option<remote::Remote>>,
    /// What came from there, on its way to the folder.
    #[cfg(feature = "remote")]
    arrived: batch::Combining<(Key, Blob)>,
    single_flight: Arc<SingleFlight>,
    counts: Counts,
    /// The kinds of error that a warning was given for.
    warned: Mutex<BTreeSet<io::ErrorKind>>,
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
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    #[error("there is no folder for the cache: set CUDA_CACHE_PATH")]
    NoFolder,
    #[error("{0} is not the start of a key: give up to 64 hexadecimal digits")]
    NotAKey(String),
    #[error("{} cannot be used: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
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
                policy,
                writable: OnceLock::new(),
                lower: OnceLock::new(),
                #[cfg(feature = "remote")]
                remote: OnceLock::new(),
                #[cfg(feature = "remote")]
                arrived: batch::Combining::default(),
                single_flight: Arc::default(),
                counts: Counts::default(),
                warned: Mutex::default(),
            }),
        }
    }

    /// A cache as the process's environment asks for it.
    pub fn from_environment() -> Cache {
        Cache::new(Policy::from_environment(&Environment::read()))
    }

    /// How it behaves.
    pub fn policy(&self) -> &Policy {
        &self.shared.policy
    }

    /// The folder that the blobs lie in, whether it is there yet or not.
    pub fn folder(&self) -> Option<PathBuf> {
        Some(self.shared.policy.path()?.join(FOLDER))
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
        if self.all_tiers().next().is_none() && !self.has_remote() {
            return Lookup::Off;
        }
        if let Some(blob) = self.get(key) {
            return self.hit(key, blob, started, Duration::ZERO);
        }
        let deadline = started + self.shared.policy.wait();
        let before = Instant::now();
        let leader = match self.shared.single_flight.join(key, deadline) {
            Joined::Leader(leader) => Some(leader),
            Joined::Compiled(blob) => return self.hit(key, blob, started, before.elapsed()),
            Joined::Failed(failure) => {
                self.shared.counts.failures.one();
                info!(key = %key.short(), "failed to compile before");
                return Lookup::Failed(failure);
            }
            Joined::TimedOut => None,
        };
        let (lock, waited_for_process) = match self.writable() {
            Some(store) => self.lock(store, key, deadline),
            None => (None, false),
        };
        let waited_for_thread = leader.as_ref().is_none_or(|leader| leader.waited);
        let waited = if waited_for_thread || waited_for_process {
            before.elapsed()
        } else {
            Duration::ZERO
        };
        // Whoever had the lock before has most likely put the blob.
        let found = self.get(key);
        if let Some(blob) = found.or_else(|| self.fetch(key, source_bytes)) {
            if let Some(leader) = leader {
                leader.publish(&blob);
            }
            if let Some(lock) = lock {
                lock.remove();
            }
            return self.hit(key, blob, started, waited);
        }
        self.count_wait(waited);
        self.shared.counts.misses.one();
        info!(key = %key.short(), "cache miss");
        debug!(%key, us = started.elapsed().as_micros(), "no blob found");
        Lookup::Miss(CompileLock::new(self, key, leader, lock))
    }

    /// The blob of `key`, if a folder has it: nothing is waited for, and nobody is about to
    /// compile it.
    pub fn stored(&self, key: &Key) -> Option<Blob> {
        let started = Instant::now();
        let blob = self.get(key)?;
        self.count_hit(key, &blob, started, Duration::ZERO);
        Some(blob)
    }

    /// Whether there is a file for `key`: nothing is read, counted or waited for.
    pub fn contains(&self, key: &Key) -> bool {
        self.all_tiers().any(|store| store.contains(key))
    }

    /// Quarantines the blob of `key`, which is whole but does not load.
    pub fn discard(&self, key: &Key, why: &str) {
        // A lookup takes the blob of the first tier that has it.
        if let Some(store) = self.all_tiers().find(|store| store.contains(key)) {
            self.quarantine(store, key, None, why);
        }
        #[cfg(feature = "remote")]
        if let Some(remote) = self.remote() {
            remote.ignore(key);
        }
    }

    /// Counts since this cache was made.
    pub fn counters(&self) -> Counters {
        self.shared.counts.snapshot()
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

    /// Writes the hits so far, which a tool is about to read.
    fn write_hits(&self) {
        if let Some(Some(store)) = self.shared.writable.get() {
            store.write_hits();
        }
    }

    /// The store that machines share, where there is one.
    #[cfg(feature = "remote")]
    fn remote(&self) -> Option<&remote::Remote> {
        let policy = &self.shared.policy;
        let config = policy.remote().filter(|_| policy.enabled())?;
        let open = || {
            let stamp = self.writable().map(|store| store.root().join("remote"));
            let counts = Arc::clone(&self.shared.counts.remote);
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

    /// Takes the blob of `key` from the store that machines share into the folder.
    #[cfg(feature = "remote")]
    fn fetch(&self, key: &Key, source_bytes: usize) -> Option<Blob> {
        let limit = self.shared.policy.max_size();
        let blob = self.remote()?.get(key, source_bytes, limit)?;
        // Slices of a module come many at once.
        let arrived = &self.shared.arrived;
        arrived.put((*key, blob.clone()), |all| {
            let all: Vec<_> = all.iter().map(|(key, blob)| (*key, blob)).collect();
            self.store_locally(&all);
        });
        Some(blob)
    }

    #[cfg(not(feature = "remote"))]
    fn fetch(&self, _: &Key, _: usize) -> Option<Blob> {
        None
    }

    fn writable(&self) -> Option<&Store> {
        let open = || {
            if !self.shared.policy.enabled() {
                return None;
            }
            let path = self.folder()?;
            match Store::open(&path) {
                Ok(store) => Some(store),
                Err(error) => {
                    warn!(
                        "the cache in {} is not used: {error}; set CUDA_CACHE_PATH to a folder of your own",
                        path.display()
                    );
                    None
                }
            }
        };
        self.shared.writable.get_or_init(open).as_ref()
    }

    fn lower(&self) -> &[Store] {
        self.shared.lower.get_or_init(|| {
            let policy = &self.shared.policy;
            let paths = policy.read_only().iter().filter(|_| policy.enabled());
            paths.filter_map(|path| match Store::read_only(&path.join(FOLDER)) {
                Ok(store) => Some(store),
                Err(error) => {
                    warn!(
                        "the read-only cache in {} is not used: {error}; PTXKIT_CACHE_READONLY names it",
                        path.display()
                    );
                    None
                }
            })
            .collect()
        })
    }

    fn all_tiers(&self) -> impl Iterator<Item = &Store> {
        self.writable().into_iter().chain(self.lower())
    }

    fn get(&self, key: &Key) -> Option<Blob> {
        for store in self.all_tiers() {
            match store.get(key) {
                Ok(Found::Blob(blob)) => {
                    debug!(%key, path = %store.path(key).display(), "blob read");
                    if store.is_read_only() {
                        self.shared.counts.lower_hits.one();
                    }
                    return Some(blob);
                }
                Ok(Found::Absent) => {}
                Ok(Found::Bad(why, file)) => self.quarantine(store, key, file, &why.to_string()),
                Err(error) => self.failed("read", &error),
            }
        }
        None
    }

    fn quarantine(&self, store: &Store, key: &Key, file: Option<Identity>, why: &str) {
        self.shared.counts.bad.one();
        let folder = store.root().display();
        let short = key.short();
        match store.quarantine(key, file) {
            Ok(()) if store.is_read_only() => {
                warn!(key = %short, "a blob in {folder} is ignored: {why}");
            }
            Ok(()) => warn!(key = %short, "a blob in {folder} is quarantined: {why}"),
            Err(error) => {
                self.shared.counts.errors.one();
                warn!(key = %short, "a blob in {folder} is ignored: {why}; it cannot be quarantined: {error}");
            }
        }
    }

    fn hit(&self, key: &Key, blob: Blob, started: Instant, waited: Duration) -> Lookup {
        self.count_hit(key, &blob, started, waited);
        Lookup::Hit(blob)
    }

    /// Counts and reports a hit, which waited for others as long as `waited`.
    fn count_hit(&self, key: &Key, blob: &Blob, started: Instant, waited: Duration) {
        let counts = &self.shared.counts;
        counts.hits.one();
        counts.bytes_read.add(blob.file().len() as u64);
        self.count_wait(waited);
        info!(key = %key.short(), "cache hit");
        debug!(%key, bytes = blob.file().len(), us = started.elapsed().as_micros(),
            waited_us = waited.as_micros(), "blob found");
    }

    fn count_wait(&self, time: Duration) {
        if !time.is_zero() {
            self.shared.counts.waits.one();
            self.shared.counts.wait_us.add_us(time);
        }
    }

    /// The lock on compiling `key` between processes, where it can be had, and
    /// whether another process was waited for.
    fn lock(&self, store: &Store, key: &Key, deadline: Instant) -> (Option<FileLock>, bool) {
        let lock = store
            .lock_path(key)
            .and_then(|path| FileLock::acquire(&path, deadline));
        match lock {
            Ok(Some(lock)) => {
                let waited = lock.waited;
                (Some(lock), waited)
            }
            Ok(None) => {
                info!(key = %key.short(), "another process compiles it for too long: not waiting");
                (None, true)
            }
            Err(error) => {
                self.failed("lock", &error);
                (None, false)
            }
        }
    }

    /// Warns of the first error of each kind: a full disk fails every operation.
    fn failed(&self, operation: &'static str, error: &io::Error) {
        self.shared.counts.errors.one();
        let first = self
            .shared
            .warned
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(error.kind());
        let folder = self.folder().unwrap_or_default();
        let folder = folder.display();
        if first {
            warn!("the cache in {folder} cannot {operation}: {error}; loads go on without it");
        } else {
            debug!("the cache in {folder} cannot {operation}: {error}; loads go on without it");
        }
    }
}
