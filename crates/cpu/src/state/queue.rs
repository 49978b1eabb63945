//! The order of the work of one stream.
//!
//! Every piece of work takes a ticket and runs when all earlier tickets are done: on
//! the queue's thread, or on the thread of a caller that waits for it anyway, which
//! saves waking two threads. Work may also depend on [`Mark`]s of other queues. A mark
//! always points at work that was queued earlier, so queues cannot deadlock.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

type Work = Box<dyn FnOnce() + Send>;

pub(crate) struct Queue {
    state: Mutex<State>,
    /// Signalled when work is done or was queued.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Tickets are 1, 2, 3 …: the last that was taken and the last that is done.
    taken: u64,
    done: u64,
    waiting: VecDeque<(u64, Vec<Mark>, Work)>,
    /// Threads in `changed.wait`: without any, the system call of a notification is saved.
    sleeping: u32,
    threaded: bool,
    closed: bool,
}

impl State {
    /// The ticket of the waiting work that can start now.
    fn ready(&self) -> Option<u64> {
        let (ticket, ..) = self.waiting.front()?;
        (self.done + 1 == *ticket).then_some(*ticket)
    }
}

/// A point in a queue: all work that was queued before it.
#[derive(Clone)]
pub(crate) struct Mark {
    queue: Arc<Queue>,
    ticket: u64,
}

impl Mark {
    pub(crate) fn passed(&self) -> bool {
        self.queue.lock().done >= self.ticket
    }

    /// Waits until the point is passed; runs work that no other thread has started.
    pub(crate) fn wait(&self) {
        loop {
            let ready = |state: &State| state.done >= self.ticket || state.ready().is_some();
            let state = self.queue.wait_until(ready);
            let next = state.ready().filter(|next| *next <= self.ticket);
            drop(state);
            match next {
                Some(next) => self.queue.run_one(next),
                None => return,
            }
        }
    }
}

/// Exclusive use of the queue: all earlier tickets are done. Dropping the guard
/// completes its own ticket, also when the work panics.
pub(crate) struct QueueGuard<'a> {
    queue: &'a Arc<Queue>,
    ticket: u64,
}

impl QueueGuard<'_> {
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            queue: self.queue.clone(),
            ticket: self.ticket,
        }
    }
}

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.done = self.ticket;
        self.queue.notify(state);
    }
}

impl Queue {
    pub(crate) fn new() -> Arc<Queue> {
        Arc::new(Queue {
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Everything that was queued until now.
    pub(crate) fn mark(self: &Arc<Self>) -> Mark {
        Mark {
            queue: self.clone(),
            ticket: self.lock().taken,
        }
    }

    /// The same; `None` if all of it is done.
    pub(crate) fn unfinished(self: &Arc<Self>) -> Option<Mark> {
        let state = self.lock();
        (state.done < state.taken).then(|| Mark {
            queue: self.clone(),
            ticket: state.taken,
        })
    }

    /// Queues work for the queue's own thread.
    pub(crate) fn push(self: &Arc<Self>, after: Vec<Mark>, work: Work) -> Mark {
        let mut state = self.lock();
        state.taken += 1;
        let ticket = state.taken;
        state.waiting.push_back((ticket, after, work));
        let mark = Mark {
            queue: self.clone(),
            ticket,
        };
        if !state.threaded {
            let queue = self.clone();
            let thread = thread::Builder::new().name("ptxkit-stream".into());
            state.threaded = thread.spawn(move || queue.run_thread()).is_ok();
        }
        if state.threaded {
            self.notify(state);
        } else {
            // The system has no more threads: the caller runs the work.
            drop(state);
            mark.wait();
        }
        mark
    }

    /// Waits until all earlier work and `after` are done.
    pub(crate) fn enter(self: &Arc<Self>, after: &[Mark]) -> QueueGuard<'_> {
        let ticket = {
            let mut state = self.lock();
            state.taken += 1;
            state.taken
        };
        let earlier = Mark {
            queue: self.clone(),
            ticket: ticket - 1,
        };
        earlier.wait();
        let guard = QueueGuard {
            queue: self,
            ticket,
        };
        after.iter().for_each(Mark::wait);
        guard
    }

    /// The same; `None` if there is something to wait for.
    pub(crate) fn try_enter(self: &Arc<Self>, after: &[Mark]) -> Option<QueueGuard<'_>> {
        if !after.iter().all(Mark::passed) {
            return None;
        }
        let mut state = self.lock();
        if state.done < state.taken {
            return None;
        }
        state.taken += 1;
        let ticket = state.taken;
        drop(state);
        Some(QueueGuard {
            queue: self,
            ticket,
        })
    }

    /// No more work will come: the thread ends when the queue is empty.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.notify(state);
    }

    /// The main loop of the queue's thread.
    fn run_thread(self: &Arc<Self>) {
        loop {
            let finished = |state: &State| state.closed && state.waiting.is_empty();
            let state = self.wait_until(|state| state.ready().is_some() || finished(state));
            let next = state.ready();
            drop(state);
            match next {
                Some(ticket) => self.run_one(ticket),
                None => return,
            }
        }
    }

    /// Runs the work of `ticket`, which is ready, unless another thread has taken it.
    fn run_one(self: &Arc<Self>, ticket: u64) {
        let work = self
            .lock()
            .waiting
            .pop_front_if(|(next, ..)| *next == ticket);
        let Some((_, after, work)) = work else { return };
        let guard = QueueGuard {
            queue: self,
            ticket,
        };
        after.iter().for_each(Mark::wait);
        // Work reports its failures itself. A panic is a bug, which the hook has
        // printed; later work of the stream still runs.
        let _ = catch_unwind(AssertUnwindSafe(work));
        drop(guard);
    }

    fn wait_until(&self, ready: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        while !ready(&state) {
            state.sleeping += 1;
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.sleeping -= 1;
        }
        state
    }

    fn notify(&self, state: MutexGuard<'_, State>) {
        let sleeping = state.sleeping > 0;
        drop(state);
        if sleeping {
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn work_of_both_kinds_runs_in_the_order_of_its_tickets() {
        let queue = Queue::new();
        let order = Arc::new(Mutex::new(Vec::new()));
        for round in 0..50 {
            let (on_thread, here) = (order.clone(), order.clone());
            queue.push(
                Vec::new(),
                Box::new(move || on_thread.lock().unwrap().push(2 * round)),
            );
            let _guard = queue.enter(&[]);
            here.lock().unwrap().push(2 * round + 1);
        }
        assert_eq!(*order.lock().unwrap(), (0..100).collect::<Vec<_>>());
        queue.close();
    }

    #[test]
    fn work_waits_for_the_mark_of_another_queue() {
        let (first, second) = (Queue::new(), Queue::new());
        let (release, held) = mpsc::channel::<()>();
        let order = Arc::new(Mutex::new(Vec::new()));
        let (a, b) = (order.clone(), order.clone());
        let mark = first.push(
            Vec::new(),
            Box::new(move || {
                held.recv().unwrap();
                a.lock().unwrap().push("first");
            }),
        );
        let last = second.push(
            vec![mark],
            Box::new(move || b.lock().unwrap().push("second")),
        );
        assert!(!last.passed());
        assert!(second.try_enter(&[]).is_none());
        release.send(()).unwrap();
        last.wait();
        assert_eq!(*order.lock().unwrap(), ["first", "second"]);
        assert!(second.unfinished().is_none());
    }

    #[test]
    fn a_panic_does_not_stop_the_queue() {
        let queue = Queue::new();
        queue.push(
            Vec::new(),
            Box::new(|| std::panic::resume_unwind(Box::new(()))),
        );
        drop(queue.enter(&[]));
        assert!(queue.unfinished().is_none());
    }
}
