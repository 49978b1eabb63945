//! Calls that queue work, and captures that begin and end, kept apart: so each
//! call knows whether what it queues is captured, and the graph what it uses.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::yield_now;

/// Any number of calls are inside, or nobody while it is closed. Who is inside may
/// enter again. On the way of nearly every call, so it is one number: calls count in
/// it, and they wait for who closed it as short as a call of the driver takes.
/// Launches that pass nothing but device memory stay outside: they look afterwards
/// whether a capture began.
#[derive(Debug, Default)]
pub(crate) struct Gate(AtomicU32);

const CLOSED: u32 = 1 << 31;
/// Somebody is about to close it.
const WANTED: u32 = 1 << 30;

/// How often a call steps back for who wants to close it: not for ever, as that
/// one may wait for this very thread, which is inside already.
const PATIENCE: u32 = 1000;

/// Within a gate, until it is dropped.
#[derive(Debug)]
pub(crate) struct Inside<'a>(&'a Gate);

/// The only one at a gate, until it is dropped.
#[derive(Debug)]
pub(crate) struct Alone<'a>(&'a Gate);

impl Gate {
    /// Waits while it is closed.
    #[inline]
    pub fn enter(&self) -> Inside<'_> {
        self.count_in();
        Inside(self)
    }

    /// The same without a guard: [`count_out`](Gate::count_out) is the end.
    #[inline]
    pub fn count_in(&self) {
        if self.0.fetch_add(1, Ordering::Acquire) >= WANTED {
            self.count_in_later();
        }
    }

    /// Counted in, but not yet let in.
    #[cold]
    fn count_in_later(&self) {
        let mut patience = PATIENCE;
        loop {
            let state = self.0.load(Ordering::Acquire);
            if state & CLOSED == 0 && (state & WANTED == 0 || patience == 0) {
                return;
            }
            self.count_out();
            yield_now();
            patience = patience.saturating_sub(1);
            self.0.fetch_add(1, Ordering::Acquire);
        }
    }

    #[inline]
    pub fn count_out(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Waits until nobody is inside: never to be called from within.
    pub fn close(&self) -> Alone<'_> {
        let (free, closed) = (Ordering::Relaxed, Ordering::Acquire);
        loop {
            self.0.fetch_or(WANTED, Ordering::Relaxed);
            let empty = self.0.compare_exchange(WANTED, CLOSED, closed, free);
            match empty {
                Ok(_) => return Alone(self),
                Err(_) => yield_now(),
            }
        }
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.count_out();
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        // Who waits counts in and out meanwhile: only the mark is taken away.
        self.0.0.fetch_and(!CLOSED, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn who_closes_it_is_alone() {
        let gate = Gate::default();
        let [alone, done] = [(); 2].map(|()| AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let _inside = gate.enter();
                        let _again = gate.enter();
                        assert!(!alone.load(Ordering::Relaxed));
                    }
                });
            }
            for _ in 0..100 {
                let _closed = gate.close();
                alone.store(true, Ordering::Relaxed);
                yield_now();
                alone.store(false, Ordering::Relaxed);
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
