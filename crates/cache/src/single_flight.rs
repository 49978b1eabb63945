//! Single flight: one compile per key among the threads of a process. Also
//! remembers which keys failed to compile.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::blob::Blob;
use super::key::Key;

/// Why a compile failed, as [`CompileLock::fail`](super::CompileLock::fail) was told.
pub type CompileFailure = Arc<dyn std::error::Error + Send + Sync>;

/// The most failures remembered: a service that receives broken sources for
/// ever must not grow with them.
const MAX_FAILURES: usize = 4096;

/// The keys that are being compiled in this process, and those that failed.
#[derive(Debug, Default)]
pub(super) struct SingleFlight(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    flights: BTreeMap<Key, Arc<Flight>>,
    failures: BTreeMap<Key, CompileFailure>,
}

/// One compile in progress.
#[derive(Debug, Default)]
struct Flight {
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Progress {
    /// What was compiled, once it is.
    blob: Option<Blob>,
    /// Whether the leader is gone.
    is_over: bool,
}

pub(super) enum Joined {
    /// The caller compiles.
    Leader(Leader),
    /// Another thread compiled it meanwhile.
    Compiled(Blob),
    /// It failed to compile in this process before.
    Failed(CompileFailure),
    /// Another thread was still compiling it at the deadline.
    TimedOut,
}

/// The thread that compiles a key. Dropped without a blob, it lets the next
/// thread try.
#[derive(Debug)]
pub(super) struct Leader {
    group: Arc<SingleFlight>,
    flight: Arc<Flight>,
    key: Key,
    /// Whether it waited for another thread first.
    pub waited: bool,
}

impl SingleFlight {
    /// Becomes the leader for `key`, or waits for the one that there is.
    pub(super) fn join(self: &Arc<SingleFlight>, key: &Key, deadline: Instant) -> Joined {
        let mut waited = false;
        loop {
            let flight = {
                let mut state = lock(&self.0);
                if let Some(failure) = state.failures.get(key) {
                    return Joined::Failed(Arc::clone(failure));
                }
                match state.flights.get(key) {
                    Some(flight) => Arc::clone(flight),
                    None => {
                        let flight = Arc::new(Flight::default());
                        state.flights.insert(*key, Arc::clone(&flight));
                        return Joined::Leader(Leader {
                            group: Arc::clone(self),
                            flight,
                            key: *key,
                            waited,
                        });
                    }
                }
            };
            let mut progress = lock(&flight.progress);
            loop {
                if let Some(blob) = &progress.blob {
                    return Joined::Compiled(blob.clone());
                }
                if progress.is_over {
                    break;
                }
                waited = true;
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Joined::TimedOut;
                }
                progress = flight
                    .changed
                    .wait_timeout(progress, left)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
        }
    }

    /// Answers every later lookup of `key` with `failure`.
    pub(super) fn remember_failure(&self, key: &Key, failure: CompileFailure) {
        let mut state = lock(&self.0);
        if state.failures.len() >= MAX_FAILURES {
            state.failures.clear();
        }
        state.failures.insert(*key, failure);
    }
}

impl Leader {
    /// Gives the blob to every thread that waits for it, and to those that ask
    /// until this is dropped: they need not wait for the disk.
    pub(super) fn publish(&self, blob: &Blob) {
        lock(&self.flight.progress).blob = Some(blob.clone());
        self.flight.changed.notify_all();
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        lock(&self.group.0).flights.remove(&self.key);
        lock(&self.flight.progress).is_over = true;
        self.flight.changed.notify_all();
    }
}

/// A poisoned lock is used as it is: no code under these locks leaves a
/// half-made state behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
