//! Calls that queue work, and captures that begin and end, kept apart: so each
//! call knows whether what it queues is captured, and the graph what it uses.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::yield_now;

/// Any number of calls are inside, or nobody while it is closed. Who is inside may
/// enter again. On the way of every launch, so it is one number: calls count in
/// it, and they wait for who closed it as short as a call of the driver takes.
#[derive(Debug, Default)]
pub(crate) struct Gate(AtomicU32);

const CLOSED: u32 = 1 << 31;

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
        if self.0.fetch_add(1, Ordering::Acquire) & CLOSED != 0 {
            self.count_in_later();
        }
    }

    #[cold]
    fn count_in_later(&self) {
        loop {
            self.count_out();
            while self.0.load(Ordering::Relaxed) & CLOSED != 0 {
                yield_now();
            }
            if self.0.fetch_add(1, Ordering::Acquire) & CLOSED == 0 {
                return;
            }
        }
    }

    #[inline]
    pub fn count_out(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Waits until nobody is inside: never to be called from within.
    pub fn close(&self) -> Alone<'_> {
        let (free, closed) = (Ordering::Relaxed, Ordering::Acquire);
        while self.0.compare_exchange(0, CLOSED, closed, free).is_err() {
            yield_now();
        }
        Alone(self)
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
        let alone = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
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
        });
    }
}
