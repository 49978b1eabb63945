//! One compile per key among the threads of a process, and what failed in it.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::blob::Blob;
use super::key::Key;

/// Why a compile failed, as [`Turn::fail`](super::Turn::fail) was told.
pub type CompileFailure = Arc<dyn std::error::Error + Send + Sync>;

/// More keys than this are not remembered as failed: a service that is fed
/// broken sources for ever must not grow by them.
const MOST_FAILURES: usize = 4096;

/// The keys that are being compiled in this process, and those that cannot be.
#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    flying: HashMap<Key, Arc<Flight>>,
    failed: HashMap<Key, CompileFailure>,
}

#[derive(Debug, Default)]
struct Flight {
    state: Mutex<State>,
    landed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// What was compiled, once it is.
    blob: Option<Blob>,
    /// Whether the turn is given up, or the blob stored.
    is_over: bool,
}

pub(super) enum Boarding {
    /// It is the caller's to compile.
    Pilot(Pilot),
    /// Another thread compiled it meanwhile.
    Landed(Blob),
    /// It was tried in this process, and cannot be compiled.
    Failed(CompileFailure),
    /// Another thread is still compiling it.
    TimedOut,
}

/// The duty to compile a key. Dropped without a blob, it lets the next try.
#[derive(Debug)]
pub(super) struct Pilot {
    flights: Arc<Flights>,
    flight: Arc<Flight>,
    key: Key,
    /// Whether another thread was waited for.
    pub waited: bool,
}

impl Flights {
    /// Waits for whoever compiles `key`, until there is a blob that `serves`.
    pub(super) fn board(
        self: &Arc<Flights>,
        key: &Key,
        deadline: Instant,
        serves: impl Fn(&Blob) -> bool,
    ) -> Boarding {
        let mut waited = false;
        loop {
            let flight = {
                let mut book = lock(&self.0);
                if let Some(failure) = book.failed.get(key) {
                    return Boarding::Failed(Arc::clone(failure));
                }
                match book.flying.get(key) {
                    Some(flight) => Arc::clone(flight),
                    None => {
                        let flight = Arc::new(Flight::default());
                        book.flying.insert(*key, Arc::clone(&flight));
                        return Boarding::Pilot(Pilot {
                            flights: Arc::clone(self),
                            flight,
                            key: *key,
                            waited,
                        });
                    }
                }
            };
            let mut state = lock(&flight.state);
            loop {
                if let Some(blob) = state.blob.as_ref().filter(|blob| serves(blob)) {
                    return Boarding::Landed(blob.clone());
                }
                if state.is_over {
                    break;
                }
                waited = true;
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Boarding::TimedOut;
                }
                state = flight
                    .landed
                    .wait_timeout(state, left)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
        }
    }

    /// Answers every later lookup of `key` with `failure`.
    pub(super) fn remember(&self, key: &Key, failure: CompileFailure) {
        let mut book = lock(&self.0);
        if book.failed.len() >= MOST_FAILURES {
            book.failed.clear();
        }
        book.failed.insert(*key, failure);
    }
}

impl Pilot {
    /// Hands the blob to every thread that waits for it, and to those that come
    /// until this is dropped.
    pub(super) fn land(&self, blob: &Blob) {
        lock(&self.flight.state).blob = Some(blob.clone());
        self.flight.landed.notify_all();
    }
}

impl Drop for Pilot {
    fn drop(&mut self) {
        lock(&self.flights.0).flying.remove(&self.key);
        lock(&self.flight.state).is_over = true;
        self.flight.landed.notify_all();
    }
}

/// No code runs under these locks that could leave half a state behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
