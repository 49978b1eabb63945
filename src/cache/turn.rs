//! The right to compile one key.

use std::io;
use std::time::Instant;

use tracing::debug;

use super::Cache;
use super::blob::{Blob, Fixed};
use super::flight::{CompileFailure, Pilot};
use super::key::Key;
use super::lock::FileLock;
use super::provenance::Provenance;
use super::room::{Origin, Placed};
use super::store::Store;

/// The right to compile one key. Others wait until it is put, failed or
/// dropped; dropped, it lets the next of them try.
#[derive(Debug)]
pub struct Turn {
    cache: Cache,
    key: Key,
    /// Dropped with the turn, after the blob is stored: others board a new
    /// flight only once they find it there.
    pilot: Option<Pilot>,
    lock: Option<FileLock>,
    /// Parts that the blob has already.
    present: Option<Blob>,
}

impl Turn {
    pub(super) fn new(
        cache: &Cache,
        key: &Key,
        pilot: Option<Pilot>,
        lock: Option<FileLock>,
        present: Option<Blob>,
    ) -> Turn {
        Turn {
            cache: cache.clone(),
            key: *key,
            pilot,
            lock,
            present,
        }
    }

    /// What is to be compiled.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Stores what was compiled and gives it to those who wait. A failure to
    /// store is warned of; the blob given back is good in any case.
    pub fn put(self, provenance: &Provenance, code: &[u8]) -> Blob {
        self.put_parts(provenance, &[("", code)])
    }

    /// The same for several binaries in one blob, each under a name of its own:
    /// kernels that were compiled apart, or modules of one source.
    ///
    /// Where the turn comes from [`lookup_part`](Cache::lookup_part), the parts
    /// of other names that the blob has already stay in it.
    pub fn put_parts(self, provenance: &Provenance, parts: &[(&str, &[u8])]) -> Blob {
        let landed = self.land(provenance, parts);
        let blob = landed.blob().clone();
        landed.store();
        blob
    }

    /// Gives the blob to those of this process who wait. It is stored, and those
    /// of other processes have it, by [`Landed::store`].
    pub(crate) fn land(self, provenance: &Provenance, parts: &[(&str, &[u8])]) -> Landed {
        let is_new = |name: &str| parts.iter().any(|(new, _)| *new == name);
        let blob = match &self.present {
            Some(present) => {
                let kept = present.parts().filter(|(name, _)| !is_new(name));
                let all: Vec<(&str, &[u8])> = kept.chain(parts.iter().copied()).collect();
                let provenance = provenance.with(&present.provenance());
                Blob::new(&self.key, &provenance, &all)
            }
            None => Blob::new(&self.key, provenance, parts),
        };
        let counts = &self.cache.shared.counts;
        counts.compile_us.add_us(provenance.compile_time);
        if let Some(pilot) = &self.pilot {
            pilot.land(&blob);
        }
        Landed { turn: self, blob }
    }

    /// Says that it cannot be compiled. Those who wait, and all who ask in this
    /// process later, get this answer. For what may pass, as a lack of memory,
    /// drop the turn instead.
    pub fn fail(self, failure: CompileFailure) {
        debug!(key = %self.key.short(), "compile failed: {failure}");
        self.cache.shared.flights.remember(&self.key, failure);
    }

    fn store(&self, store: &Store, blob: &Blob) {
        let started = Instant::now();
        let shared = &self.cache.shared;
        let counts = &shared.counts;
        let key = self.key.short();
        let bytes = blob.file().len() as u64;
        let limit = shared.policy.max_size();
        if bytes > limit {
            debug!(%key, bytes, limit, "not cached: larger than the cache");
            return;
        }
        if let Err(damage) = Fixed::read(blob.file(), bytes) {
            debug!(%key, "not cached: the names of its parts are too long: {damage}");
            return;
        }
        match store.put(&self.key, blob, limit, Origin::Compiled) {
            Ok(Placed::Stored(evicted)) => {
                counts.puts.one();
                counts.bytes_written.add(bytes);
                debug!(%key, bytes, us = started.elapsed().as_micros(), "cache put");
                for gone in evicted {
                    counts.evictions.one();
                    debug!(key = %gone.short(), "cache evict");
                }
            }
            Ok(Placed::Busy) => {
                let why = "another process holds the ledger for too long";
                let error = io::Error::new(io::ErrorKind::TimedOut, why);
                self.cache.failed("write", &error);
            }
            Ok(Placed::NoRoom) => debug!(%key, bytes, limit, "not cached: no room"),
            Err(error) => self.cache.failed("write", &error),
        }
        store.settle();
    }
}

/// A blob that is not stored yet. Until it is, or this is dropped, lookups of
/// this process are given it, and those of others wait.
#[derive(Debug)]
pub(crate) struct Landed {
    turn: Turn,
    blob: Blob,
}

impl Landed {
    pub(crate) fn blob(&self) -> &Blob {
        &self.blob
    }

    /// Stores the blob. A failure to is warned of.
    pub(crate) fn store(self) {
        if let Some(store) = self.turn.cache.writable() {
            self.turn.store(store, &self.blob);
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
