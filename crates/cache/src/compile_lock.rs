//! The exclusive right to compile one key.

use tracing::debug;

use super::Cache;
use super::blob::Blob;
use super::key::Key;
use super::lock::FileLock;
use super::provenance::Provenance;
use super::single_flight::{CompileFailure, Leader};

/// The exclusive right to compile one key, among threads and processes. The
/// others wait until the code is put, the compile fails or this is dropped;
/// dropped, it lets the next of them try.
#[derive(Debug)]
pub struct CompileLock {
    cache: Cache,
    key: Key,
    /// Dropped after the blob is stored: a thread that asks then finds the file.
    leader: Option<Leader>,
    file: Option<FileLock>,
}

impl CompileLock {
    pub(super) fn new(
        cache: &Cache,
        key: &Key,
        leader: Option<Leader>,
        file: Option<FileLock>,
    ) -> CompileLock {
        CompileLock {
            cache: cache.clone(),
            key: *key,
            leader,
            file,
        }
    }

    /// What is to be compiled.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Stores what was compiled and gives it to those who wait. A failure to
    /// store is a warning; the blob returned is good in any case.
    ///
    /// # Safety
    /// `code` must be what the compiler in the key made of the source in the key:
    /// whoever looks the key up loads it and runs it.
    #[allow(unsafe_code, reason = "code in the cache is trusted")]
    pub unsafe fn put(self, provenance: &Provenance, code: &[u8]) -> Blob {
        let blob = self.publish(provenance, code);
        self.cache.store(&[(&self, &blob)]);
        blob
    }

    /// Gives what was compiled to the threads that wait for it.
    pub(super) fn publish(&self, provenance: &Provenance, code: &[u8]) -> Blob {
        let blob = Blob::new(&self.key, provenance, code);
        let counts = &self.cache.local().counts;
        counts.compile_us.add_us(provenance.compile_time);
        if let Some(leader) = &self.leader {
            leader.publish(&blob);
        }
        blob
    }

    /// Reports that it cannot be compiled. Those who wait, and all who ask in this
    /// process later, get this answer. For a failure that may pass, such as a lack
    /// of memory, drop the lock instead.
    pub fn fail(self, failure: CompileFailure) {
        debug!(key = %self.key, "compile failed: {failure}");
        let single_flight = &self.cache.shared.single_flight;
        single_flight.remember_failure(&self.key, failure);
    }
}

impl Cache {
    /// Stores what was compiled, later also in the store that machines share.
    pub(super) fn store(&self, compiled: &[(&CompileLock, &Blob)]) {
        let blobs = compiled.iter().map(|(lock, blob)| (lock.key, *blob));
        self.local().put(&blobs.collect::<Vec<_>>());
        #[cfg(feature = "remote")]
        if let Some(remote) = self.remote() {
            for (lock, blob) in compiled {
                remote.put(&lock.key, blob);
            }
        }
    }
}

impl Drop for CompileLock {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            file.remove();
        }
    }
}
