//! One compile per key among the threads of a process.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::blob::Blob;
use super::key::Key;

/// The keys that are being compiled in this process.
#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<HashMap<Key, Arc<Flight>>>);

#[derive(Debug, Default)]
struct Flight {
    state: Mutex<State>,
    landed: Condvar,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Compiling,
    /// With the blob, or without one where the compile failed.
    Landed(Option<Blob>),
}

pub(super) enum Boarding {
    /// It is the caller's to compile.
    Pilot(Pilot),
    /// Another thread compiled it meanwhile.
    Landed(Blob),
    /// Another thread is still compiling it.
    TimedOut,
}

/// The duty to compile a key. Dropped without a blob, it lets the next try.
#[derive(Debug)]
pub(super) struct Pilot {
    flights: Arc<Flights>,
    flight: Arc<Flight>,
    key: Key,
}

impl Flights {
    pub(super) fn board(self: &Arc<Flights>, key: &Key, deadline: Instant) -> Boarding {
        loop {
            let flight = {
                let mut flights = lock(&self.0);
                match flights.get(key) {
                    Some(flight) => Arc::clone(flight),
                    None => {
                        let flight = Arc::new(Flight::default());
                        flights.insert(*key, Arc::clone(&flight));
                        return Boarding::Pilot(Pilot {
                            flights: Arc::clone(self),
                            flight,
                            key: *key,
                        });
                    }
                }
            };
            let mut state = lock(&flight.state);
            while matches!(*state, State::Compiling) {
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
            if let State::Landed(Some(blob)) = &*state {
                return Boarding::Landed(blob.clone());
            }
        }
    }
}

impl Pilot {
    /// Hands the blob to every thread that waits for it.
    pub(super) fn land(self, blob: &Blob) {
        *lock(&self.flight.state) = State::Landed(Some(blob.clone()));
    }
}

impl Drop for Pilot {
    fn drop(&mut self) {
        lock(&self.flights.0).remove(&self.key);
        let mut state = lock(&self.flight.state);
        if matches!(*state, State::Compiling) {
            *state = State::Landed(None);
        }
        drop(state);
        self.flight.landed.notify_all();
    }
}

/// No code runs under these locks that could leave half a state behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
