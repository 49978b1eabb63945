//! Blobs that are stored together, where many come at once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Cache;
use super::blob::Blob;
use super::compile_lock::CompileLock;
use super::provenance::Provenance;

/// What several threads store. One thread stores at a time; what the others bring
/// meanwhile it stores next, all with one lock on the state file. Nothing waits for more
/// to come: another process may wait for it.
#[derive(Debug)]
pub(super) struct Combining<T> {
    queue: Mutex<Queue<T>>,
}

#[derive(Debug)]
struct Queue<T> {
    waiting: Vec<T>,
    /// Whether a thread is storing.
    is_storing: bool,
}

impl<T> Default for Combining<T> {
    fn default() -> Combining<T> {
        Combining {
            queue: Mutex::new(Queue {
                waiting: Vec::new(),
                is_storing: false,
            }),
        }
    }
}

impl<T> Combining<T> {
    /// Stores this with what others bring, or leaves it to the thread that is storing.
    pub(super) fn put(&self, one: T, store: impl Fn(Vec<T>)) {
        let mut queue = self.queue();
        queue.waiting.push(one);
        if !std::mem::replace(&mut queue.is_storing, true) {
            while !queue.waiting.is_empty() {
                let all = std::mem::take(&mut queue.waiting);
                drop(queue);
                store(all);
                queue = self.queue();
            }
            queue.is_storing = false;
        }
    }

    /// A poisoned lock is used as it is: no code under it leaves a half-made state behind.
    fn queue(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stores what is compiled by several threads.
#[derive(Debug)]
pub struct Batch {
    cache: Cache,
    compiled: Combining<(CompileLock, Blob)>,
}

impl Batch {
    /// Nothing to store yet.
    pub fn new(cache: &Cache) -> Batch {
        Batch {
            cache: cache.clone(),
            compiled: Combining::default(),
        }
    }

    /// As [`CompileLock::put`], but this may return before the blob is stored: another
    /// thread that puts does it before it returns.
    ///
    /// # Safety
    /// As for [`CompileLock::put`].
    #[allow(unsafe_code, reason = "code in the cache is trusted")]
    pub unsafe fn put(&self, lock: CompileLock, provenance: &Provenance, code: &[u8]) -> Blob {
        let blob = lock.publish(provenance, code);
        self.compiled.put((lock, blob.clone()), |compiled| {
            let all: Vec<_> = compiled.iter().map(|(lock, blob)| (lock, blob)).collect();
            // Others may look for them when the locks are dropped.
            self.cache.store(&all);
        });
        blob
    }
}
