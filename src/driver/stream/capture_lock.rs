//! A reader-writer lock between calls that queue work and captures that begin or end. With
//! it each call knows whether its work is captured, and the graph what it uses.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::yield_now;

/// Calls that queue work hold it shared, also recursively; the beginning and the end of a
/// capture hold it exclusively. Nearly every call takes it, so it is one atomic integer
/// with the number of shared holders. Waiting spins: an exclusive holder makes only one
/// call of the driver. Launches with plain device memory do not take it: they check
/// afterwards whether a capture began.
#[derive(Debug, Default)]
pub(crate) struct CaptureLock(AtomicU32);

const EXCLUSIVE: u32 = 1 << 31;
/// A thread waits for exclusive access.
const EXCLUSIVE_WAITING: u32 = 1 << 30;

/// How often a shared locker yields to a waiting exclusive one. It is bounded, as that one
/// may be waiting for this very thread, which holds the lock already.
const MAX_YIELDS: u32 = 1000;

/// Shared access, until it is dropped.
#[derive(Debug)]
pub(crate) struct SharedGuard<'a>(&'a CaptureLock);

/// Exclusive access, until it is dropped.
#[derive(Debug)]
pub(crate) struct ExclusiveGuard<'a>(&'a CaptureLock);

impl CaptureLock {
    /// Waits while it is held exclusively.
    #[inline]
    pub fn shared(&self) -> SharedGuard<'_> {
        self.lock_shared();
        SharedGuard(self)
    }

    /// The same without a guard; [`unlock_shared`](CaptureLock::unlock_shared) releases it.
    #[inline]
    pub fn lock_shared(&self) {
        if self.0.fetch_add(1, Ordering::Acquire) >= EXCLUSIVE_WAITING {
            self.lock_shared_slow();
        }
    }

    /// Waits for a call that is counted already while the lock is held or wanted
    /// exclusively.
    #[cold]
    fn lock_shared_slow(&self) {
        let mut yields_left = MAX_YIELDS;
        loop {
            let state = self.0.load(Ordering::Acquire);
            if state & EXCLUSIVE == 0 && (state & EXCLUSIVE_WAITING == 0 || yields_left == 0) {
                return;
            }
            self.unlock_shared();
            yield_now();
            yields_left = yields_left.saturating_sub(1);
            self.0.fetch_add(1, Ordering::Acquire);
        }
    }

    #[inline]
    pub fn unlock_shared(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Waits until there is no shared holder. The caller must not be one, or it deadlocks.
    pub fn exclusive(&self) -> ExclusiveGuard<'_> {
        let (free, closed) = (Ordering::Relaxed, Ordering::Acquire);
        loop {
            self.0.fetch_or(EXCLUSIVE_WAITING, Ordering::Relaxed);
            let empty = self
                .0
                .compare_exchange(EXCLUSIVE_WAITING, EXCLUSIVE, closed, free);
            match empty {
                Ok(_) => return ExclusiveGuard(self),
                Err(_) => yield_now(),
            }
        }
    }
}

impl Drop for SharedGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.unlock_shared();
    }
}

impl Drop for ExclusiveGuard<'_> {
    fn drop(&mut self) {
        // Waiting calls change the count meanwhile: only the bit is cleared.
        self.0.0.fetch_and(!EXCLUSIVE, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn who_closes_it_is_alone() {
        let capture_lock = CaptureLock::default();
        let [exclusive, done] = [(); 2].map(|()| AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let _shared = capture_lock.shared();
                        let _again = capture_lock.shared();
                        assert!(!exclusive.load(Ordering::Relaxed));
                    }
                });
            }
            for _ in 0..100 {
                let _closed = capture_lock.exclusive();
                exclusive.store(true, Ordering::Relaxed);
                yield_now();
                exclusive.store(false, Ordering::Relaxed);
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
