//! The order of the work of one stream.
//!
//! Every piece of work draws a ticket and runs when all earlier tickets are
//! done: on the queue's thread, or on the thread of a caller that waits for it
//! anyway, which saves waking two threads. Work may also have to come after a [`Mark`] of another
//! queue. A mark always points at work that was handed in earlier, so queues
//! cannot wait for each other in a circle.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

type Work = Box<dyn FnOnce() + Send>;

pub(super) struct Queue {
    state: Mutex<State>,
    /// Something became done, or the queue's thread has something to do.
    moved: Condvar,
}

#[derive(Default)]
struct State {
    /// Tickets are 1, 2, 3 …; these are the last drawn and the last done.
    drawn: u64,
    done: u64,
    waiting: VecDeque<(u64, Vec<Mark>, Work)>,
    /// Threads in `moved.wait`: a notification costs a system call.
    sleeping: u32,
    threaded: bool,
    closed: bool,
}

impl State {
    /// The ticket of the work that waits and could begin.
    fn ready(&self) -> Option<u64> {
        let (ticket, ..) = self.waiting.front()?;
        (self.done + 1 == *ticket).then_some(*ticket)
    }
}

/// A point in a queue: all the work handed in up to it.
#[derive(Clone)]
pub(super) struct Mark {
    queue: Arc<Queue>,
    ticket: u64,
}

impl Mark {
    pub(super) fn passed(&self) -> bool {
        self.queue.lock().done >= self.ticket
    }

    /// Returns when the point is passed; does what nobody else has begun.
    pub(super) fn wait(&self) {
        loop {
            let ready = |state: &State| state.done >= self.ticket || state.ready().is_some();
            let state = self.queue.wait_until(ready);
            let next = state.ready().filter(|next| *next <= self.ticket);
            drop(state);
            match next {
                Some(next) => self.queue.serve_one(next),
                None => return,
            }
        }
    }
}

/// The right to work now: all earlier tickets are done. Its own is done when it
/// is dropped, so work that panics does not stop the queue for ever.
pub(super) struct Turn<'a> {
    queue: &'a Arc<Queue>,
    ticket: u64,
}

impl Turn<'_> {
    pub(super) fn mark(&self) -> Mark {
        Mark {
            queue: self.queue.clone(),
            ticket: self.ticket,
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.done = self.ticket;
        self.queue.notify(state);
    }
}

impl Queue {
    pub(super) fn new() -> Arc<Queue> {
        Arc::new(Queue {
            state: Mutex::default(),
            moved: Condvar::new(),
        })
    }

    /// Everything handed in until now.
    pub(super) fn mark(self: &Arc<Self>) -> Mark {
        Mark {
            queue: self.clone(),
            ticket: self.lock().drawn,
        }
    }

    /// The same, or nothing if all of it is done.
    pub(super) fn unfinished(self: &Arc<Self>) -> Option<Mark> {
        let state = self.lock();
        (state.done < state.drawn).then(|| Mark {
            queue: self.clone(),
            ticket: state.drawn,
        })
    }

    /// Hands in work for the queue's own thread.
    pub(super) fn push(self: &Arc<Self>, after: Vec<Mark>, work: Work) -> Mark {
        let mut state = self.lock();
        state.drawn += 1;
        let ticket = state.drawn;
        state.waiting.push_back((ticket, after, work));
        let mark = Mark {
            queue: self.clone(),
            ticket,
        };
        if !state.threaded {
            let queue = self.clone();
            let thread = thread::Builder::new().name("ptxkit-stream".into());
            state.threaded = thread.spawn(move || queue.serve()).is_ok();
        }
        if state.threaded {
            self.notify(state);
        } else {
            // No thread to be had: the caller does it, which only costs the
            // overlap.
            drop(state);
            mark.wait();
        }
        mark
    }

    /// Waits on this thread for its turn.
    pub(super) fn turn(self: &Arc<Self>, after: &[Mark]) -> Turn<'_> {
        let ticket = {
            let mut state = self.lock();
            state.drawn += 1;
            state.drawn
        };
        let earlier = Mark {
            queue: self.clone(),
            ticket: ticket - 1,
        };
        earlier.wait();
        let turn = Turn {
            queue: self,
            ticket,
        };
        after.iter().for_each(Mark::wait);
        turn
    }

    /// The same if there is nothing to wait for.
    pub(super) fn turn_now(self: &Arc<Self>, after: &[Mark]) -> Option<Turn<'_>> {
        if !after.iter().all(Mark::passed) {
            return None;
        }
        let mut state = self.lock();
        if state.done < state.drawn {
            return None;
        }
        state.drawn += 1;
        let ticket = state.drawn;
        drop(state);
        Some(Turn {
            queue: self,
            ticket,
        })
    }

    /// No more work will come: the thread ends when it has done what there is.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.notify(state);
    }

    /// The life of the queue's thread.
    fn serve(self: &Arc<Self>) {
        loop {
            let over = |state: &State| state.closed && state.waiting.is_empty();
            let state = self.wait_until(|state| state.ready().is_some() || over(state));
            let next = state.ready();
            drop(state);
            match next {
                Some(ticket) => self.serve_one(ticket),
                None => return,
            }
        }
    }

    /// Does the work of `ticket`, which is ready, unless another thread takes it.
    fn serve_one(self: &Arc<Self>, ticket: u64) {
        let mine = self
            .lock()
            .waiting
            .pop_front_if(|(next, ..)| *next == ticket);
        let Some((_, after, work)) = mine else { return };
        let turn = Turn {
            queue: self,
            ticket,
        };
        after.iter().for_each(Mark::wait);
        // Work reports its failures itself; a panic is a bug that must not
        // take the stream's later work with it, and the hook has printed it.
        let _ = catch_unwind(AssertUnwindSafe(work));
        drop(turn);
    }

    fn wait_until(&self, ready: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        while !ready(&state) {
            state.sleeping += 1;
            state = self
                .moved
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
            self.moved.notify_all();
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
        let seen = Arc::new(Mutex::new(Vec::new()));
        for round in 0..50 {
            let (on_thread, here) = (seen.clone(), seen.clone());
            queue.push(
                Vec::new(),
                Box::new(move || on_thread.lock().unwrap().push(2 * round)),
            );
            let _turn = queue.turn(&[]);
            here.lock().unwrap().push(2 * round + 1);
        }
        assert_eq!(*seen.lock().unwrap(), (0..100).collect::<Vec<_>>());
        queue.close();
    }

    #[test]
    fn work_waits_for_the_mark_of_another_queue() {
        let (first, second) = (Queue::new(), Queue::new());
        let (release, held) = mpsc::channel::<()>();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (a, b) = (seen.clone(), seen.clone());
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
        assert!(second.turn_now(&[]).is_none());
        release.send(()).unwrap();
        last.wait();
        assert_eq!(*seen.lock().unwrap(), ["first", "second"]);
        assert!(second.unfinished().is_none());
    }

    #[test]
    fn a_panic_does_not_stop_the_queue() {
        let queue = Queue::new();
        queue.push(
            Vec::new(),
            Box::new(|| std::panic::resume_unwind(Box::new(()))),
        );
        drop(queue.turn(&[]));
        assert!(queue.unfinished().is_none());
    }
}
