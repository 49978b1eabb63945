//! What the formulas of one run may cost.

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

/// Expressions that are worked out, and elements that `sum` and `dot` read.
const STEPS: u64 = 4_000_000_000;
const TIME: Duration = Duration::from_secs(30);
/// Bytes of all buffers and expectations on the host.
const MEMORY: u64 = 8 << 30;
/// The clock is read once in so many steps.
const INTERVAL: u64 = 1 << 16;

/// Steps, time and memory that are left. Time runs from the first step on.
#[derive(Debug)]
pub(super) struct Budget {
    most_steps: u64,
    most_time: Duration,
    most_memory: u64,
    steps: Cell<u64>,
    /// The number of steps at which limits are looked at next.
    next: Cell<u64>,
    began: Cell<Option<Instant>>,
    memory: Cell<u64>,
}

/// A limit of a run that its formulas reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Limit {
    Steps(u64),
    Time(Duration),
    Memory(u64),
    /// The system has not so many bytes.
    OutOfMemory(u64),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Steps(steps) => write!(
                f,
                "the formulas of one run may take {steps} steps, these take more"
            ),
            Limit::Time(time) => write!(
                f,
                "the formulas of one run may take {} s, these take longer",
                time.as_secs_f64()
            ),
            Limit::Memory(bytes) => write!(
                f,
                "the buffers and expectations of one run may take {bytes} bytes, these take more"
            ),
            Limit::OutOfMemory(bytes) => {
                write!(f, "there is no memory for a buffer of {bytes} bytes")
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
    pub fn new(most_steps: u64, most_time: Duration, most_memory: u64) -> Budget {
        Budget {
            most_steps,
            most_time,
            most_memory,
            steps: Cell::new(0),
            next: Cell::new(0),
            began: Cell::new(None),
            memory: Cell::new(0),
        }
    }

    /// Takes `count` steps.
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
        if steps > self.most_steps {
            return Err(Limit::Steps(self.most_steps));
        }
        let began = self.began.get().unwrap_or_else(Instant::now);
        self.began.set(Some(began));
        if began.elapsed() > self.most_time {
            return Err(Limit::Time(self.most_time));
        }
        let next = steps.saturating_add(INTERVAL);
        self.next.set(next.min(self.most_steps.saturating_add(1)));
        Ok(())
    }

    /// Takes memory that lasts as long as the run.
    pub fn hold(&self, bytes: u64) -> Result<(), Limit> {
        let memory = self.memory.get().saturating_add(bytes);
        self.memory.set(memory);
        match memory > self.most_memory {
            true => Err(Limit::Memory(self.most_memory)),
            false => Ok(()),
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
