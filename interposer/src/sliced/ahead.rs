//! Slices compiled ahead of their use, in the background, as a file system reads ahead.
//!
//! A program that uses one kernel of a module after another would wait for each compile. If it uses two in the order of
//! the module, those behind them are compiled on the other cores: [`FIRST`], and twice as many whenever one of them is
//! used, up to [`MOST`]. A program that has waited for [`MANY`] in another order will use more of them: all are
//! compiled.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::{Arc, Condvar, Mutex, Once, PoisonError};

use ptxkit::driver::{Context, Device};

use super::super::without_panic;
use super::{Sliced, lock};

const FIRST: usize = 4;
const MOST: usize = 64;
const MANY: usize = 64;
const MOST_THREADS: usize = 32;

/// The slices of a library that were used, and those that were compiled ahead.
#[derive(Default)]
pub struct Ahead {
    /// The slice for which the program waited last.
    waited: Option<usize>,
    waits: usize,
    /// How many slices behind one that is used are compiled.
    window: usize,
    /// By slice: it was in the queue.
    queued: Vec<bool>,
}

impl Ahead {
    pub fn new(slices: usize) -> Ahead {
        Ahead {
            queued: vec![false; slices],
            ..Ahead::default()
        }
    }

    /// Notes that a slice is used, and whether the program waited for its compile. Returns the slices to be compiled.
    fn used(&mut self, slice: usize, is_compiled: bool) -> Vec<usize> {
        let was_queued = self.queued.get(slice).is_some_and(|queued| *queued);
        let mut last = self.queued.len();
        let mut first = slice + 1;
        if was_queued {
            self.window = MOST.min(self.window.max(FIRST / 2) * 2);
        } else if is_compiled {
            self.waits += 1;
            let is_next = self.waited.replace(slice) == slice.checked_sub(1) && slice > 0;
            self.window = if is_next { FIRST } else { self.window / 2 };
        } else {
            return Vec::new();
        }
        if self.waits < MANY {
            last = last.min(first + self.window);
        } else {
            first = 0;
        }
        let fresh = (first..last).filter(|slice| !self.queued[*slice]).collect();
        self.queued[first.min(last)..last].fill(true);
        fresh
    }
}

/// A slice in the queue.
struct Waiting {
    sliced: Arc<Sliced>,
    slice: usize,
    /// The compiler runs in its primary context.
    device: Device,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    threads: usize,
    /// Nothing is compiled meanwhile.
    paused: usize,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    waiting: VecDeque::new(),
    threads: 0,
    paused: 0,
});
/// A thread ended.
static ENDED: Condvar = Condvar::new();

/// A slice was loaded because it is used. `is_compiled` if the program waited for its compile.
pub fn used(sliced: &Arc<Sliced>, slice: usize, is_compiled: bool, device: &Device) {
    let slices = lock(&sliced.ahead).used(slice, is_compiled);
    if slices.is_empty() {
        return;
    }
    let mut queue = lock(&QUEUE);
    if queue.paused > 0 {
        return;
    }
    let slices = slices.into_iter();
    queue.waiting.extend(slices.map(|slice| Waiting {
        sliced: Arc::clone(sliced),
        slice,
        device: *device,
    }));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let most = (cores - 1).min(MOST_THREADS).min(queue.waiting.len());
    while queue.threads < most {
        let name = "ptxkit-ahead".to_owned();
        if std::thread::Builder::new().name(name).spawn(work).is_err() {
            break;
        }
        queue.threads += 1;
    }
    wait_at_exit();
}

fn work() {
    // The thread is counted until it has left the driver.
    let _ = without_panic(compile_waiting);
    lock(&QUEUE).threads -= 1;
    ENDED.notify_all();
}

fn compile_waiting() {
    let mut context: Option<(Device, Context)> = None;
    while let Some(next) = next() {
        let device = next.device;
        let context = match &context {
            Some((of, context)) if of.ordinal() == device.ordinal() => context,
            _ => match primary(&device) {
                Some(made) => &context.insert((device, made)).1,
                None => continue,
            },
        };
        next.sliced.prepare(context, next.slice);
    }
}

/// The device's primary context, if the program uses it.
fn primary(device: &Device) -> Option<Context> {
    let (_, is_active) = device.primary_state().ok()?;
    Context::primary(device).ok().filter(|_| is_active)
}

fn next() -> Option<Waiting> {
    let mut queue = lock(&QUEUE);
    if queue.paused > 0 {
        return None;
    }
    queue.waiting.pop_front()
}

/// Nothing is compiled ahead until this is dropped.
pub struct Paused(());

impl Paused {
    /// Drops the queue, and waits for compiles that run.
    pub fn new() -> Paused {
        let mut queue = lock(&QUEUE);
        queue.paused += 1;
        let dropped = std::mem::take(&mut queue.waiting);
        while queue.threads > 0 {
            queue = ENDED.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        drop(queue);
        // The last use of a library gives its context back.
        drop(dropped);
        Paused(())
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        lock(&QUEUE).paused -= 1;
    }
}

/// The driver must not end while threads are in it.
fn wait_at_exit() {
    static ONCE: Once = Once::new();
    extern "C" fn at_exit() {
        let _ = without_panic(|| std::mem::forget(Paused::new()));
    }
    ONCE.call_once(|| {
        // SAFETY: the function has this type, and the library is never unloaded by then: the driver's table of
        // functions in it is in use.
        let _: c_int = unsafe { libc::atexit(at_exit) };
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_go_through_a_module_have_more_and_more_compiled() {
        let mut ahead = Ahead::new(500);
        assert!(ahead.used(0, true).is_empty());
        assert_eq!(ahead.used(1, true), [2, 3, 4, 5]);
        assert_eq!(ahead.used(2, false), [6, 7, 8, 9, 10]);
        assert_eq!(ahead.used(3, false).last(), Some(&19));
        let all: usize = (4..400).map(|slice| ahead.used(slice, false).len()).sum();
        assert_eq!(all, 399 + MOST - 19);
    }

    #[test]
    fn programs_that_use_a_few_kernels_have_no_others_compiled() {
        let mut ahead = Ahead::new(500);
        for use_number in 0..50 {
            assert!(ahead.used(use_number * 10, true).is_empty());
        }
        // What is in the cache is not compiled, and says nothing of what is not.
        let mut ahead = Ahead::new(500);
        assert!((0..500).all(|slice| ahead.used(slice, false).is_empty()));
    }

    #[test]
    fn programs_that_use_many_kernels_in_another_order_have_all_compiled() {
        let mut ahead = Ahead::new(500);
        let compiled: usize = (0..64)
            .map(|number| ahead.used(499 - number * 3, true).len())
            .sum();
        assert_eq!(compiled, 500);
    }
}
