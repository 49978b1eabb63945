//! The compute cache: what was compiled once is not compiled again.
//!
//! A compiled module is a *blob*: one file, named by a [`Key`] that holds
//! everything that can change the code. A hit opens one file and checks its
//! header and checksum; it takes no lock. A miss hands the caller a [`Turn`]:
//! the right to compile while every other thread and process that wants the
//! same key waits for the result.
//!
//! ```
//! use ptxkit::cache::{Cache, Digest, Environment, Key, KeyParts, Lookup, Policy, Provenance};
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
//!     Lookup::Miss(turn) => turn.put(&Provenance::default(), &compile(ptx)).to_vec(),
//!     Lookup::Off => compile(ptx),
//! };
//! assert_eq!(code, b"code");
//! assert!(matches!(cache.lookup(&key), Lookup::Hit(_)));
//! ```
//!
//! **The cache never fails a load.** A full disk, no home folder, a read-only
//! or untrusted folder, a file system without locks: each is one warning
//! through `tracing`, and the caller compiles.

mod blob;
mod catalogue;
mod flight;
mod folder;
mod key;
mod lock;
mod policy;
mod store;
#[cfg(all(test, unix))]
mod tests;
#[cfg(test)]
mod warnings;

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use tracing::{debug, warn};

pub use blob::{Blob, Provenance};
pub use catalogue::Listed;
pub use key::{Digest, Key, KeyParts, SCHEMA};
pub use policy::{DEFAULT_MAX_SIZE, EMBEDDED_MAX_SIZE, Environment, LARGEST_MAX_SIZE, Policy};

use flight::{Boarding, Flights, Pilot};
use lock::FileLock;
use store::{Found, Store};

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
    /// Opened by the first lookup; `None` where it cannot be used.
    store: OnceLock<Option<Store>>,
    flights: Arc<Flights>,
    counts: Counts,
    /// The kinds of error that were warned of.
    warned: Mutex<HashSet<io::ErrorKind>>,
}

/// What a lookup found.
#[derive(Debug)]
pub enum Lookup {
    /// It is there.
    Hit(Blob),
    /// Compile it, and [`put`](Turn::put) it.
    Miss(Turn),
    /// There is no cache to look in.
    Off,
}

/// What happened since the [`Cache`] was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Blobs found.
    pub hits: u64,
    /// Turns to compile that were given.
    pub misses: u64,
    /// Hits that another thread or process was waited for.
    pub waits: u64,
    /// Blobs stored.
    pub puts: u64,
    /// Blobs removed to make room.
    pub evictions: u64,
    /// Blobs that were damaged and set aside.
    pub bad: u64,
    /// Operations on the folder that failed.
    pub errors: u64,
}

#[derive(Debug, Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    waits: AtomicU64,
    puts: AtomicU64,
    evictions: AtomicU64,
    bad: AtomicU64,
    errors: AtomicU64,
}

/// How full the cache is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The folder that the blobs lie in.
    pub path: PathBuf,
    /// How many there are.
    pub blobs: u64,
    /// Bytes of the blobs' files.
    pub bytes: u64,
    /// Kernels in all of them.
    pub kernels: u64,
    /// Bytes that they may take together.
    pub max_size: u64,
}

/// What a tool asked of the cache and did not get. Loads never see it.
#[allow(missing_docs, reason = "the messages say it all")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    #[error("there is no folder for the cache: set CUDA_CACHE_PATH")]
    NoFolder,
    #[error("the cache in {} cannot be used: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
}

impl Cache {
    /// A cache as `policy` has it. Nothing is touched before the first lookup.
    pub fn new(policy: Policy) -> Cache {
        Cache {
            shared: Arc::new(Shared {
                policy,
                store: OnceLock::new(),
                flights: Arc::default(),
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

    /// Looks for the blob of `key`. Where there is none, the calling thread
    /// gets the [`Turn`] to compile it, once nobody else has it; it waits for
    /// others for [`Policy::wait`] at most.
    pub fn lookup(&self, key: &Key) -> Lookup {
        let started = Instant::now();
        let Some(store) = self.store() else {
            return Lookup::Off;
        };
        if let Some(blob) = self.get(store, key) {
            count(&self.shared.counts.hits);
            debug!(key = %key.short(), us = started.elapsed().as_micros(), "cache hit");
            return Lookup::Hit(blob);
        }
        let deadline = started + self.shared.policy.wait();
        let pilot = match self.shared.flights.board(key, deadline) {
            Boarding::Pilot(pilot) => Some(pilot),
            Boarding::Landed(blob) => return self.hit_after_wait(key, blob, started),
            Boarding::TimedOut => None,
        };
        let lock = self.lock(store, key, deadline);
        // Whoever had the lock before has most likely put the blob.
        if let Some(blob) = self.get(store, key) {
            if let Some(lock) = lock {
                lock.remove();
            }
            if let Some(pilot) = pilot {
                pilot.land(&blob);
            }
            return self.hit_after_wait(key, blob, started);
        }
        count(&self.shared.counts.misses);
        debug!(key = %key.short(), us = started.elapsed().as_micros(), "cache miss");
        Lookup::Miss(Turn {
            cache: self.clone(),
            key: *key,
            pilot,
            lock,
        })
    }

    /// Takes the blob of `key` out of use: it was whole, but did not serve.
    pub fn discard(&self, key: &Key, why: &str) {
        if let Some(store) = self.store() {
            self.set_aside(store, key, why);
        }
    }

    /// Counts since this cache was made.
    pub fn counters(&self) -> Counters {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &self.shared.counts;
        Counters {
            hits: read(&counts.hits),
            misses: read(&counts.misses),
            waits: read(&counts.waits),
            puts: read(&counts.puts),
            evictions: read(&counts.evictions),
            bad: read(&counts.bad),
            errors: read(&counts.errors),
        }
    }

    /// Every blob there is, the last used first.
    pub fn list(&self) -> Result<Vec<Listed>, CacheError> {
        self.tool(catalogue::list)
    }

    /// How full the cache is.
    pub fn stats(&self) -> Result<Stats, CacheError> {
        let listed = self.list()?;
        Ok(Stats {
            path: self.folder().unwrap_or_default(),
            blobs: listed.len() as u64,
            bytes: listed.iter().map(|blob| blob.size).sum(),
            kernels: listed
                .iter()
                .map(|blob| blob.provenance.kernels.len() as u64)
                .sum(),
            max_size: self.shared.policy.max_size(),
        })
    }

    /// Removes every blob; gives how many there were and their bytes.
    pub fn clear(&self) -> Result<(u64, u64), CacheError> {
        self.tool(|store| {
            catalogue::remove(store);
            store.clear()
        })
    }

    /// Runs `f` on the store; a folder that is not there is an empty one.
    fn tool<T: Default>(&self, f: impl FnOnce(&Store) -> io::Result<T>) -> Result<T, CacheError> {
        let path = self.folder().ok_or(CacheError::NoFolder)?;
        match Store::existing(&path).and_then(|store| f(&store)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
            result => result.map_err(|source| CacheError::Folder { path, source }),
        }
    }

    fn store(&self) -> Option<&Store> {
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
        self.shared.store.get_or_init(open).as_ref()
    }

    fn get(&self, store: &Store, key: &Key) -> Option<Blob> {
        match store.get(key) {
            Ok(Found::Blob(blob)) => return Some(blob),
            Ok(Found::Absent) => {}
            Ok(Found::Bad(why)) => self.set_aside(store, key, &why),
            Err(error) => self.failed("read", &error),
        }
        None
    }

    fn set_aside(&self, store: &Store, key: &Key, why: &str) {
        count(&self.shared.counts.bad);
        warn!(key = %key.short(), "a blob of the cache is set aside: {why}");
        if let Err(error) = store.set_aside(key) {
            self.failed("set aside", &error);
        }
    }

    fn hit_after_wait(&self, key: &Key, blob: Blob, started: Instant) -> Lookup {
        count(&self.shared.counts.hits);
        count(&self.shared.counts.waits);
        debug!(key = %key.short(), us = started.elapsed().as_micros(), "cache hit after a wait");
        Lookup::Hit(blob)
    }

    /// The lock on compiling `key` between processes, where it can be had.
    fn lock(&self, store: &Store, key: &Key, deadline: Instant) -> Option<FileLock> {
        let lock = store
            .lock_path(key)
            .and_then(|path| FileLock::acquire(&path, deadline));
        match lock {
            Ok(Some(lock)) => Some(lock),
            Ok(None) => {
                debug!(key = %key.short(), "the wait for another compiler is over: compiling alone");
                None
            }
            Err(error) => {
                self.failed("lock", &error);
                None
            }
        }
    }

    /// Says once what went wrong, however often it does: a full disk fails
    /// every operation, and is one thing to tell.
    fn failed(&self, operation: &'static str, error: &io::Error) {
        count(&self.shared.counts.errors);
        let first = self
            .shared
            .warned
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(error.kind());
        let folder = self.folder().unwrap_or_default();
        let folder = folder.display();
        if first {
            warn!("the cache in {folder} goes on without: {operation}: {error}");
        } else {
            debug!("the cache in {folder} goes on without: {operation}: {error}");
        }
    }
}

/// The right to compile one key. Others wait until it is put or dropped.
#[derive(Debug)]
pub struct Turn {
    cache: Cache,
    key: Key,
    pilot: Option<Pilot>,
    lock: Option<FileLock>,
}

impl Turn {
    /// Stores what was compiled and gives it to those who wait. A failure to
    /// store is warned of; the blob given back is good in any case.
    pub fn put(mut self, provenance: &Provenance, code: &[u8]) -> Blob {
        let started = Instant::now();
        let blob = Blob::new(&self.key, provenance, code);
        if let Some(store) = self.cache.store() {
            self.store(store, &blob, started);
        }
        if let Some(pilot) = self.pilot.take() {
            pilot.land(&blob);
        }
        blob
    }

    fn store(&self, store: &Store, blob: &Blob, started: Instant) {
        let shared = &self.cache.shared;
        let key = self.key.short();
        let bytes = blob.file().len() as u64;
        let limit = shared.policy.max_size();
        if bytes > limit {
            debug!(%key, bytes, limit, "not cached: larger than the cache");
            return;
        }
        match store.put(&self.key, blob, limit) {
            Ok(evicted) => {
                count(&shared.counts.puts);
                debug!(%key, bytes, us = started.elapsed().as_micros(), "cache put");
                for gone in evicted {
                    count(&shared.counts.evictions);
                    debug!(key = %gone.short(), "cache evict");
                }
            }
            Err(error) => self.cache.failed("write", &error),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(lock) = self.lock.take() {
            lock.remove();
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
