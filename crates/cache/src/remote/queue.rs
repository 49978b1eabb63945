//! Blobs on their way to the store, behind the loads that compiled them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// More than these wait for nobody: they are dropped.
const MAX_BLOBS: usize = 64;
const MAX_BYTES: u64 = 64 << 20;

#[derive(Clone, Debug, Default)]
pub(super) struct Queue(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    blobs: usize,
    bytes: u64,
}

/// The place of one blob, until it is written or given up.
#[derive(Debug)]
pub(super) struct Place {
    queue: Queue,
    bytes: u64,
}

impl Queue {
    /// A place for a blob of `bytes`; `None` where the queue is full.
    pub(super) fn enter(&self, bytes: u64) -> Option<Place> {
        let mut waiting = self.waiting();
        if waiting.blobs >= MAX_BLOBS || waiting.bytes.saturating_add(bytes) > MAX_BYTES {
            return None;
        }
        waiting.blobs += 1;
        waiting.bytes += bytes;
        Some(Place {
            queue: self.clone(),
            bytes,
        })
    }

    /// Waits until it is empty, `wait` at most; whether it is.
    pub(super) fn wait(&self, wait: Duration) -> bool {
        let deadline = Instant::now() + wait;
        let mut waiting = self.waiting();
        while waiting.blobs > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            waiting = self
                .0
                .changed
                .wait_timeout(waiting, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }

    /// A poisoned lock is used as it is: no code under it leaves a half-made state behind.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.queue.waiting();
        waiting.blobs -= 1;
        waiting.bytes -= self.bytes;
        self.queue.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bounded_in_blobs_and_in_bytes() {
        let queue = Queue::default();
        let places: Vec<_> = (0..100).map_while(|_| queue.enter(1)).collect();
        assert_eq!(places.len(), 64);
        assert!(!queue.wait(Duration::ZERO));
        drop(places);
        assert!(queue.wait(Duration::ZERO));
        let large: Vec<_> = (0..100).map_while(|_| queue.enter(MAX_BYTES / 4)).collect();
        assert_eq!(large.len(), 4);
        assert!(queue.enter(0).is_some());
        assert!(Queue::default().enter(MAX_BYTES + 1).is_none());
        assert!(Queue::default().enter(u64::MAX).is_none());
    }

    #[test]
    fn whoever_waits_is_told_when_it_is_empty() {
        let queue = Queue::default();
        let place = queue.enter(1).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.wait(Duration::from_secs(60)));
            drop(place);
            assert!(waiting.join().unwrap());
        });
    }
}
