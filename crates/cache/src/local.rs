//! The folders on this machine: one that is written to, and read-only ones below it.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use input::ShowName as _;
use tracing::{debug, info, warn};

use super::blob::Blob;
use super::counters::Counts;
use super::eviction::{Origin, Placed};
use super::key::Key;
use super::lock::FileLock;
use super::policy::Policy;
use super::store::{Found, Store};
use super::verified::Identity;

/// The folder under `CUDA_CACHE_PATH` that is ours alone, so that neither
/// this cache nor the driver's evicts the other's files.
pub(super) const FOLDER: &str = "ptxkit-v1";

#[derive(Debug)]
pub(super) struct Local {
    pub policy: Policy,
    pub counts: Counts,
    /// Opened by the first use; `None` where it cannot be used.
    writable: OnceLock<Option<Store>>,
    lower: OnceLock<Vec<Store>>,
    /// The kinds of error that a warning was given for.
    warned: Mutex<BTreeSet<io::ErrorKind>>,
}

impl Local {
    /// Nothing is touched before the first use.
    pub(super) fn new(policy: Policy) -> Local {
        Local {
            policy,
            counts: Counts::default(),
            writable: OnceLock::new(),
            lower: OnceLock::new(),
            warned: Mutex::default(),
        }
    }

    /// The folder that the blobs lie in, whether it is there yet or not.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        Some(self.policy.path()?.join(FOLDER))
    }

    /// Writes the hits so far, which a tool is about to read.
    pub(super) fn write_hits(&self) {
        if let Some(Some(store)) = self.writable.get() {
            store.write_hits();
        }
    }

    pub(super) fn writable(&self) -> Option<&Store> {
        let open = || {
            if !self.policy.enabled() {
                return None;
            }
            let path = self.folder()?;
            match Store::open(&path) {
                Ok(store) => Some(store),
                Err(error) => {
                    warn!(
                        "the cache in {} is not used: {error}; set CUDA_CACHE_PATH to a folder of your own",
                        path.shown()
                    );
                    None
                }
            }
        };
        self.writable.get_or_init(open).as_ref()
    }

    pub(super) fn lower(&self) -> &[Store] {
        self.lower.get_or_init(|| {
            let policy = &self.policy;
            let paths = policy.read_only().iter().filter(|_| policy.enabled());
            paths.filter_map(|path| match Store::read_only(&path.join(FOLDER)) {
                Ok(store) => Some(store),
                Err(error) => {
                    warn!(
                        "the read-only cache in {} is not used: {error}; PTXKIT_CACHE_READONLY names it",
                        path.shown()
                    );
                    None
                }
            })
            .collect()
        })
    }

    pub(super) fn all_tiers(&self) -> impl Iterator<Item = &Store> {
        self.writable().into_iter().chain(self.lower())
    }

    pub(super) fn get(&self, key: &Key) -> Option<Blob> {
        for store in self.all_tiers() {
            match store.get(key) {
                Ok(Found::Blob(blob)) => {
                    debug!(%key, path = %store.path(key).shown(), "blob read");
                    if store.is_read_only() {
                        self.counts.lower_hits.one();
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

    pub(super) fn quarantine(&self, store: &Store, key: &Key, file: Option<Identity>, why: &str) {
        self.counts.bad.one();
        let folder = store.root().shown();
        let short = key.short();
        match store.quarantine(key, file) {
            Ok(()) if store.is_read_only() => {
                warn!(key = %short, "a blob in {folder} is ignored: {why}");
            }
            Ok(()) => warn!(key = %short, "a blob in {folder} is quarantined: {why}"),
            Err(error) => {
                self.counts.errors.one();
                warn!(key = %short, "a blob in {folder} is ignored: {why}; it cannot be quarantined: {error}");
            }
        }
    }

    /// The lock on compiling `key` between processes, where it can be had, and
    /// whether another process was waited for.
    pub(super) fn lock(&self, key: &Key, deadline: Instant) -> (Option<FileLock>, bool) {
        let Some(store) = self.writable() else {
            return (None, false);
        };
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

    /// Stores blobs in the folder, all with one lock on the state file.
    pub(super) fn put(&self, all: &[(Key, &Blob)]) {
        let Some(store) = self.writable() else { return };
        let started = Instant::now();
        let limit = self.policy.max_size();
        let mut blobs = Vec::with_capacity(all.len());
        for (key, blob) in all {
            let bytes = blob.file().len() as u64;
            if bytes > limit {
                info!(key = %key.short(), bytes, limit, "not cached: larger than the cache");
            } else {
                blobs.push((*key, *blob));
            }
        }
        if blobs.is_empty() {
            return;
        }
        match store.put(&blobs, limit, Origin::Compiled) {
            Ok(results) => {
                for ((key, blob), placed) in blobs.iter().zip(results) {
                    self.report_put(store, key, blob, placed);
                }
            }
            Err(error) => self.failed("write", &error),
        }
        debug!(
            blobs = blobs.len(),
            us = started.elapsed().as_micros(),
            "put"
        );
        store.write_hits();
    }

    fn report_put(&self, store: &Store, key: &Key, blob: &Blob, placed: io::Result<Placed>) {
        let counts = &self.counts;
        let bytes = blob.file().len() as u64;
        let limit = self.policy.max_size();
        match placed {
            Ok(Placed::Stored(evicted)) => {
                counts.puts.one();
                counts.bytes_written.add(bytes);
                debug!(%key, path = %store.path(key).shown(), bytes, "blob written");
                for gone in evicted {
                    counts.evictions.one();
                    info!(key = %gone.short(), "cache evict");
                    debug!(key = %gone, path = %store.path(&gone).shown(), limit, "blob removed");
                }
            }
            Ok(Placed::Busy) => {
                let why = "another process holds the cache's state file for too long";
                let error = io::Error::new(io::ErrorKind::TimedOut, why);
                self.failed("write", &error);
            }
            Ok(Placed::NoRoom) => {
                info!(key = %key.short(), bytes, limit, "not cached: nothing left to evict");
            }
            Err(error) => self.failed("write", &error),
        }
    }

    /// Warns of the first error of each kind: a full disk fails every operation.
    pub(super) fn failed(&self, operation: &'static str, error: &io::Error) {
        self.counts.errors.one();
        let first = self
            .warned
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(error.kind());
        let folder = self.folder().unwrap_or_default();
        let folder = folder.shown();
        if first {
            warn!("the cache in {folder} cannot {operation}: {error}; loads go on without it");
        } else {
            debug!("the cache in {folder} cannot {operation}: {error}; loads go on without it");
        }
    }
}
