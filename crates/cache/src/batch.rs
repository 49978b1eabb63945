//! Blobs that are stored together, where many come at once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Cache;
use super::blob::Blob;
use super::compile_lock::CompileLock;
use super::provenance::Provenance;

/// Stores what is compiled by several threads.
#[derive(Debug)]
pub struct Batch {
    cache: Cache,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    compiled: Vec<(CompileLock, Blob)>,
    /// Whether a thread is storing.
    is_storing: bool,
}

impl Batch {
    /// Nothing to store yet.
    pub fn new(cache: &Cache) -> Batch {
        Batch {
            cache: cache.clone(),
            queue: Mutex::default(),
        }
    }

    /// As [`CompileLock::put`], but this may return before the blob is stored. One thread
    /// stores at a time; what the others bring meanwhile it stores next, all with one lock on
    /// the state file. Nothing waits for more to come: another process may wait for it.
    ///
    /// # Safety
    /// As for [`CompileLock::put`].
    #[allow(unsafe_code, reason = "code in the cache is trusted")]
    pub unsafe fn put(&self, lock: CompileLock, provenance: &Provenance, code: &[u8]) -> Blob {
        let blob = lock.publish(provenance, code);
        let mut queue = self.queue();
        queue.compiled.push((lock, blob.clone()));
        if !std::mem::replace(&mut queue.is_storing, true) {
            while !queue.compiled.is_empty() {
                let compiled = std::mem::take(&mut queue.compiled);
                drop(queue);
                let all: Vec<_> = compiled.iter().map(|(lock, blob)| (lock, blob)).collect();
                self.cache.store(&all);
                // Others may look for them when the locks are dropped.
                drop(compiled);
                queue = self.queue();
            }
            queue.is_storing = false;
        }
        blob
    }

    /// A poisoned lock is used as it is: no code under it leaves a half-made state behind.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
