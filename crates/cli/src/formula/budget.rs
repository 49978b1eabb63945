//! Limits for the cost of the formulas of one run.

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

/// The limit for evaluated expressions, and elements that `sum` and `dot` read.
const STEPS: u64 = 4_000_000_000;
const TIME: Duration = Duration::from_secs(30);
/// The limit for all buffers and expectations on the host, in bytes.
const MEMORY: u64 = 8 << 30;
/// The number of steps between two reads of the clock.
const INTERVAL: u64 = 1 << 16;

/// The remaining steps, time and memory. The time starts with the first step.
#[derive(Debug)]
pub(super) struct Budget {
    max_steps: u64,
    max_time: Duration,
    max_memory: u64,
    steps: Cell<u64>,
    /// The number of steps of the next check of the limits.
    next: Cell<u64>,
    began: Cell<Option<Instant>>,
    memory: Cell<u64>,
}

/// The limit that a run has exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Limit {
    Steps(u64),
    Time(Duration),
    Memory(u64),
    /// The allocation of this number of bytes failed.
    OutOfMemory(u64),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Steps(steps) => write!(
                f,
                "the formulas of this run exceed the limit of {steps} steps"
            ),
            Limit::Time(time) => write!(
                f,
                "the formulas of this run exceed the limit of {} s",
                time.as_secs_f64()
            ),
            Limit::Memory(bytes) => write!(
                f,
                "the buffers and expectations of this run exceed the limit of {bytes} bytes"
            ),
            Limit::OutOfMemory(bytes) => {
                write!(f, "cannot allocate a buffer of {bytes} bytes")
            }
        }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Budget::new(STEPS, TIME, MEMORY)
    }
}

impl Budget {
    pub fn new(max_steps: u64, max_time: Duration, max_memory: u64) -> Budget {
        Budget {
            max_steps,
            max_time,
            max_memory,
            steps: Cell::new(0),
            next: Cell::new(0),
            began: Cell::new(None),
            memory: Cell::new(0),
        }
    }

    /// Consumes `count` steps.
    #[inline]
    pub fn step(&self, count: u64) -> Result<(), Limit> {
        let steps = self.steps.get().saturating_add(count);
        self.steps.set(steps);
        if steps < self.next.get() {
            return Ok(());
        }
        self.look(steps)
    }

    #[cold]
    fn look(&self, steps: u64) -> Result<(), Limit> {
        if steps > self.max_steps {
            return Err(Limit::Steps(self.max_steps));
        }
        let began = self.began.get().unwrap_or_else(Instant::now);
        self.began.set(Some(began));
        if began.elapsed() > self.max_time {
            return Err(Limit::Time(self.max_time));
        }
        let next = steps.saturating_add(INTERVAL);
        self.next.set(next.min(self.max_steps.saturating_add(1)));
        Ok(())
    }

    /// Consumes memory for the rest of the run.
    pub fn hold(&self, bytes: u64) -> Result<(), Limit> {
        let memory = self.memory.get().saturating_add(bytes);
        self.memory.set(memory);
        if memory > self.max_memory {
            Err(Limit::Memory(self.max_memory))
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_named() {
        let budget = Budget::new(10, Duration::MAX, 100);
        assert_eq!(budget.step(10), Ok(()));
        assert_eq!(budget.step(1), Err(Limit::Steps(10)));
        assert_eq!(budget.step(u64::MAX), Err(Limit::Steps(10)));
        assert_eq!(budget.hold(100), Ok(()));
        assert_eq!(budget.hold(1), Err(Limit::Memory(100)));
        let budget = Budget::new(u64::MAX, Duration::ZERO, 0);
        let _starts_the_clock = budget.step(1);
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(budget.step(INTERVAL), Err(Limit::Time(Duration::ZERO)));
    }
}
