//! Storing what was compiled while the load goes on.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::cache::Landed;

/// A disk that so many blobs wait for is one that loads should wait for too.
const MOST: usize = 16;

/// When a blob is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Store {
    Now,
    /// Until it is, lookups of this process find it all the same, and other
    /// processes wait for it.
    Behind,
}

/// The threads that store blobs. A disk takes milliseconds to say that a file is
/// safe, which nobody who loads has to wait for.
#[derive(Debug, Default)]
pub(super) struct Writers(Mutex<Vec<JoinHandle<()>>>);

impl Writers {
    pub(super) fn store(&self, landed: Landed, when: Store) {
        let mut threads = self.threads();
        threads.retain(|thread| !thread.is_finished());
        if when == Store::Now || threads.len() >= MOST {
            drop(threads);
            landed.store();
            return;
        }
        // What goes wrong is told to whom the load's events go.
        let dispatch = tracing::dispatcher::get_default(Clone::clone);
        let span = tracing::Span::current();
        let work = move || {
            tracing::dispatcher::with_default(&dispatch, || {
                span.in_scope(|| landed.store());
            });
        };
        // Where no thread is to be had, the blob is not stored: the process has
        // other sorrows, and the next compiles again.
        if let Ok(thread) = Builder::new().name("ptxkit-store".into()).spawn(work) {
            threads.push(thread);
        }
    }

    /// Waits for all of them.
    pub(super) fn finish(&self) {
        let threads = std::mem::take(&mut *self.threads());
        for thread in threads {
            // One that panicked has stored nothing, which is a miss.
            let _ = thread.join();
        }
    }

    /// No code runs under this lock that could leave half a state behind.
    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.finish();
    }
}
