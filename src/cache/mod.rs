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
//!     Lookup::Failed(why) => panic!("it does not compile: {why}"),
//!     Lookup::Off => compile(ptx),
//! };
//! assert_eq!(code, b"code");
//! assert!(matches!(cache.lookup(&key), Lookup::Hit(_)));
//! ```
//!
//! A blob may hold several named parts ([`Turn::put_parts`]), each of which can
//! be read alone. Behind the writable folder there may be read-only ones
//! ([`Policy::read_only`]), as a container image brings them.
//!
//! **The cache never fails a load.** A full disk, no home folder, a read-only
//! or untrusted folder, a file system without locks: each is one warning
//! through `tracing`, and the caller compiles.

mod blob;
mod catalogue;
mod counters;
mod flight;
mod folder;
#[cfg(feature = "driver")]
mod guesses;
mod key;
mod ledger;
mod lock;
mod memory;
mod part;
mod policy;
mod provenance;
mod room;
mod scan;
mod seen;
mod store;
#[cfg(all(test, unix))]
mod tests;
mod transfer;
mod turn;
mod upkeep;
mod uses;
#[cfg(test)]
mod warnings;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tracing::{debug, warn};

pub use blob::Blob;
pub use counters::Counters;
pub use flight::CompileFailure;
#[cfg(feature = "driver")]
pub(crate) use guesses::Guess;
pub use key::{Key, KeyParts, SCHEMA};
pub use part::PartFile;
pub use policy::{DEFAULT_MAX_SIZE, EMBEDDED_MAX_SIZE, Environment, LARGEST_MAX_SIZE, Policy};
pub use provenance::Provenance;
pub use ptx::Digest;
pub use transfer::{Moved, Moving};
#[cfg(feature = "driver")]
pub(crate) use turn::Landed;
pub use turn::Turn;
pub use upkeep::{Checked, Entry, Prune, Removed, Stats, TierStats, Verdict, Verification};

use counters::Counts;
use flight::{Boarding, Flights};
use lock::FileLock;
use seen::Identity;
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
    writable: OnceLock<Option<Store>>,
    lower: OnceLock<Vec<Store>>,
    flights: Arc<Flights>,
    counts: Counts,
    /// The kinds of error that were warned of.
    warned: Mutex<HashSet<io::ErrorKind>>,
}

/// Where a blob lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tier {
    /// In the folder of `CUDA_CACHE_PATH`.
    Writable,
    /// In this folder, one of [`Policy::read_only`].
    ReadOnly(PathBuf),
}

/// What a lookup found.
#[derive(Debug)]
pub enum Lookup {
    /// It is there.
    Hit(Blob),
    /// Compile it, and [`put`](Turn::put) it.
    Miss(Turn),
    /// This process tried to compile it, and was told that it cannot be.
    Failed(CompileFailure),
    /// There is no cache to look in.
    Off,
}

/// What a tool asked of the cache and did not get. Loads never see it.
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

    /// Opens the folders, which the first lookup does otherwise: for programs
    /// that would rather wait for that when they start. Whether there is one to
    /// look in.
    pub fn open(&self) -> bool {
        self.all_tiers().next().is_some()
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
        self.look(key, None)
    }

    /// The same where only one part of the blob is wanted: a blob without it
    /// is a miss, and what that [`Turn`] puts is added to the blob.
    pub fn lookup_part(&self, key: &Key, part: &str) -> Lookup {
        self.look(key, Some(part))
    }

    fn look(&self, key: &Key, part: Option<&str>) -> Lookup {
        let started = Instant::now();
        if !self.open() {
            return Lookup::Off;
        }
        let serves = |blob: &Blob| part.is_none_or(|part| blob.part(part).is_some());
        if let Some(blob) = self.get(key).filter(serves) {
            return self.hit(key, blob, started, Duration::ZERO);
        }
        let counts = &self.shared.counts;
        let deadline = started + self.shared.policy.wait();
        let before = Instant::now();
        let pilot = match self.shared.flights.board(key, deadline, serves) {
            Boarding::Pilot(pilot) => Some(pilot),
            Boarding::Landed(blob) => return self.hit(key, blob, started, before.elapsed()),
            Boarding::Failed(failure) => {
                counts.failures.one();
                debug!(key = %key.short(), "failed before");
                return Lookup::Failed(failure);
            }
            Boarding::TimedOut => None,
        };
        let (lock, waited_for_lock) = match self.writable() {
            Some(store) => self.lock(store, key, deadline),
            None => (None, false),
        };
        let waited_for_thread = pilot.as_ref().is_none_or(|pilot| pilot.waited);
        let waited = if waited_for_thread || waited_for_lock {
            before.elapsed()
        } else {
            Duration::ZERO
        };
        // Whoever had the lock before has most likely put the blob.
        let found = self.get(key);
        if let Some(blob) = found.as_ref().filter(|blob| serves(blob)) {
            if let Some(lock) = lock {
                lock.remove();
            }
            if let Some(pilot) = pilot {
                pilot.land(blob);
            }
            return self.hit(key, blob.clone(), started, waited);
        }
        self.waited(waited);
        counts.misses.one();
        debug!(key = %key.short(), us = started.elapsed().as_micros(), "cache miss");
        // What the blob has already is kept, but only where parts are asked for.
        let present = found.filter(|_| part.is_some());
        Lookup::Miss(Turn::new(self, key, pilot, lock, present))
    }

    /// The blob of `key` if it is there: a hit, or nothing that counts. Nobody
    /// is waited for.
    #[cfg(feature = "driver")]
    pub(crate) fn find_blob(&self, key: &Key) -> Option<Blob> {
        let started = Instant::now();
        let blob = self.get(key)?;
        self.count_hit(key, &blob, started, Duration::ZERO);
        Some(blob)
    }

    /// A guess at the digest of `text`; `None` where none is kept.
    #[cfg(feature = "driver")]
    pub(crate) fn guess(&self, text: &[u8]) -> Option<Guess> {
        Some(Guess::of(text, self.writable()?.root()))
    }

    /// Goes the way of a hit for `key`, which is nobody's, and gives a blob that
    /// holds nothing.
    #[cfg(feature = "driver")]
    pub(crate) fn rehearse(&self, key: &Key) -> Option<Blob> {
        self.get(key);
        let rehearsed = self.writable()?.rehearse(key);
        rehearsed
            .inspect_err(|error| debug!("the first hit is not rehearsed: {error}"))
            .ok()
    }

    /// Whether a guess was kept ever.
    #[cfg(feature = "driver")]
    pub(crate) fn has_guesses(&self) -> bool {
        self.writable()
            .is_some_and(|store| guesses::are_kept(store.root()))
    }

    /// Keeps what the digest turned out to be, for the next guess.
    #[cfg(feature = "driver")]
    pub(crate) fn correct(&self, guess: &Guess, digest: Digest) {
        if let Some(store) = self.writable()
            && let Err(error) = guess.correct(digest, store.root())
        {
            // The next load computes the digest first, as this one did.
            debug!("the digest cannot be guessed the next time: {error}");
        }
    }

    /// Whether there is a file for `key`: nothing is read, counted or waited for.
    pub fn contains(&self, key: &Key) -> bool {
        self.all_tiers().any(|store| store.contains(key))
    }

    /// Opens the blob of `key` to read single parts of it, without the rest.
    /// Nothing is counted, but it is used: eviction takes others first.
    pub fn parts(&self, key: &Key) -> Option<PartFile> {
        self.all_tiers()
            .find_map(|store| match store.open_parts(key, true) {
                Ok(opened) => {
                    opened.map(|(file, head, provenance)| PartFile::new(file, head, provenance))
                }
                // A lookup of the whole blob sets it aside.
                Err(error) => {
                    debug!(key = %key.short(), "its parts cannot be read: {error}");
                    None
                }
            })
    }

    /// Takes the blob of `key` out of use: it was whole, but did not serve.
    pub fn discard(&self, key: &Key, why: &str) {
        // The first that has it is the one that gave it.
        if let Some(store) = self.all_tiers().find(|store| store.contains(key)) {
            self.set_aside(store, key, None, why);
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

    /// What came of reading `store`, for a tool.
    fn of<T>(&self, store: &Store, result: io::Result<T>) -> Result<T, CacheError> {
        result.map_err(|error| CacheError::of(store.root(), error))
    }

    /// Writes what a tool is about to read.
    fn settle(&self) {
        if let Some(Some(store)) = self.shared.writable.get() {
            store.settle();
        }
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
                    if store.is_read_only() {
                        self.shared.counts.lower_hits.one();
                    }
                    return Some(blob);
                }
                Ok(Found::Absent) => {}
                Ok(Found::Bad(why, file)) => self.set_aside(store, key, file, &why.to_string()),
                Err(error) => self.failed("read", &error),
            }
        }
        None
    }

    fn set_aside(&self, store: &Store, key: &Key, file: Option<Identity>, why: &str) {
        self.shared.counts.bad.one();
        let folder = store.root().display();
        let short = key.short();
        match store.set_aside(key, file) {
            Ok(()) if store.is_read_only() => {
                warn!(key = %short, "a blob in {folder} is passed over: {why}");
            }
            Ok(()) => warn!(key = %short, "a blob in {folder} is set aside: {why}"),
            Err(error) => {
                self.shared.counts.errors.one();
                warn!(key = %short, "a blob in {folder} is passed over: {why}; it cannot be set aside: {error}");
            }
        }
    }

    fn hit(&self, key: &Key, blob: Blob, started: Instant, waited: Duration) -> Lookup {
        self.count_hit(key, &blob, started, waited);
        Lookup::Hit(blob)
    }

    fn count_hit(&self, key: &Key, blob: &Blob, started: Instant, waited: Duration) {
        let counts = &self.shared.counts;
        counts.hits.one();
        counts.bytes_read.add(blob.file().len() as u64);
        self.waited(waited);
        let us = started.elapsed().as_micros();
        if waited.is_zero() {
            debug!(key = %key.short(), us, bytes = blob.file().len(), "cache hit");
        } else {
            debug!(key = %key.short(), us, bytes = blob.file().len(), "cache hit after a wait");
        }
    }

    fn waited(&self, time: Duration) {
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
                debug!(key = %key.short(), "the wait for another compiler is over: compiling alone");
                (None, true)
            }
            Err(error) => {
                self.failed("lock", &error);
                (None, false)
            }
        }
    }

    /// Says once what went wrong, however often it does: a full disk fails
    /// every operation, and is one thing to tell.
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
            warn!("the cache in {folder} goes on without: {operation}: {error}");
        } else {
            debug!("the cache in {folder} goes on without: {operation}: {error}");
        }
    }
}
