//! The order of the work of one stream.
//!
//! Every piece of work takes a ticket and runs when all earlier tickets are done: on
//! the queue's thread, or on the thread of a caller that waits for it anyway, which
//! saves waking two threads. Work may also depend on [`Mark`]s of other queues. A mark
//! always points at work that was queued earlier, so queues cannot deadlock.
//!
//! Waking a thread takes longer than a small kernel. Where callers have waited for each of the
//! last pieces of work, and run them, the queue's thread dozes: it looks for work every
//! [`DOZE`], and who queues one piece does not wake it. It sleeps when no more work comes.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

type Work = Box<dyn FnOnce() + Send>;

/// How long work that nobody waits for may lie in a queue whose thread dozes.
const DOZE: Duration = Duration::from_micros(100);

/// The pieces of work in a row that callers have to run before the thread dozes.
const PATIENCE: u32 = 4;

pub(crate) struct Queue {
    state: Mutex<State>,
    /// Signalled when work is done.
    changed: Condvar,
    /// Signalled when there is work for the queue's thread.
    work: Condvar,
}

#[derive(Default)]
struct State {
    /// Tickets are 1, 2, 3 …: the last that was taken and the last that is done.
    taken: u64,
    done: u64,
    waiting: VecDeque<(u64, Vec<Mark>, Work)>,
    /// Callers in `changed.wait`: without any, the system call of a notification is saved.
    callers: u32,
    thread: ThreadState,
    /// The pieces of work in a row that callers have run.
    run_by_callers: u32,
    closed: bool,
}

/// What the thread of a queue does.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum ThreadState {
    /// It starts with the first work.
    #[default]
    None,
    /// It will look for work before it sleeps.
    Awake,
    Asleep,
    Dozing,
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
    /// Whether it is passed. Who asks instead of waiting leaves the work to the queue's thread.
    pub(crate) fn passed(&self) -> bool {
        let state = self.queue.lock();
        let passed = state.done >= self.ticket;
        if !passed && state.ready().is_some() {
            self.queue.wake_thread(state);
        }
        passed
    }

    /// Waits until the point is passed; runs work that no other thread has started.
    pub(crate) fn wait(&self) {
        loop {
            let mut state = self.queue.lock();
            while state.done < self.ticket && state.ready().is_none() {
                state.callers += 1;
                let changed = self.queue.changed.wait(state);
                state = changed.unwrap_or_else(PoisonError::into_inner);
                state.callers -= 1;
            }
            if state.done >= self.ticket {
                return;
            }
            state.run_by_callers = state.run_by_callers.saturating_add(1);
            self.queue.run_next(state);
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
        let callers = state.callers > 0;
        if state.closed || state.ready().is_some() {
            self.queue.wake_thread(state);
        } else {
            drop(state);
        }
        if callers {
            self.queue.changed.notify_all();
        }
    }
}

impl Queue {
    pub(crate) fn new() -> Arc<Queue> {
        Arc::new(Queue {
            state: Mutex::default(),
            changed: Condvar::new(),
            work: Condvar::new(),
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
        if state.thread == ThreadState::None {
            let queue = self.clone();
            let thread = thread::Builder::new().name("ptxkit-stream".into());
            if thread.spawn(move || queue.run_thread()).is_ok() {
                state.thread = ThreadState::Awake;
            } else {
                // The system has no more threads: the caller runs the work.
                drop(state);
                mark.wait();
            }
        } else if state.thread != ThreadState::Dozing || state.done + 1 < ticket {
            self.wake_thread(state);
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
        self.wake_thread(state);
    }

    /// The main loop of the queue's thread.
    fn run_thread(self: &Arc<Self>) {
        let mut state = self.lock();
        loop {
            if state.ready().is_some() {
                state.run_by_callers = 0;
                self.run_next(state);
                state = self.lock();
                continue;
            }
            if state.closed && state.waiting.is_empty() {
                return;
            }
            if state.run_by_callers < PATIENCE {
                state.thread = ThreadState::Asleep;
                let woken = self.work.wait(state);
                state = woken.unwrap_or_else(PoisonError::into_inner);
            } else {
                state.thread = ThreadState::Dozing;
                let taken = state.taken;
                let woken = self.work.wait_timeout(state, DOZE);
                state = woken.unwrap_or_else(PoisonError::into_inner).0;
                if state.taken == taken {
                    state.run_by_callers = 0;
                }
            }
            state.thread = ThreadState::Awake;
        }
    }

    /// Runs the work that is ready, if there is any.
    fn run_next(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let Some(ticket) = state.ready() else { return };
        let next = state.waiting.pop_front();
        drop(state);
        let Some((_, after, work)) = next else { return };
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

    /// Has the queue's thread look for work.
    fn wake_thread(&self, mut state: MutexGuard<'_, State>) {
        let sleeps = matches!(state.thread, ThreadState::Asleep | ThreadState::Dozing);
        if sleeps {
            // It is woken once.
            state.thread = ThreadState::Awake;
        }
        drop(state);
        if sleeps {
            self.work.notify_one();
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

    /// A queue whose callers have run its last pieces of work.
    fn dozing() -> Arc<Queue> {
        let queue = Queue::new();
        while queue.lock().thread != ThreadState::Dozing {
            queue.push(Vec::new(), Box::new(|| ())).wait();
        }
        queue
    }

    #[test]
    fn work_that_nobody_waits_for_runs_while_the_thread_dozes() {
        let queue = dozing();
        let (sender, ran) = mpsc::channel();
        queue.push(Vec::new(), Box::new(move || sender.send(()).unwrap()));
        ran.recv_timeout(Duration::from_secs(60)).unwrap();
    }

    #[test]
    fn the_thread_sleeps_when_no_more_work_comes() {
        let queue = dozing();
        while queue.lock().thread != ThreadState::Asleep {
            thread::sleep(DOZE);
        }
        // What is queued then wakes it.
        let (sender, ran) = mpsc::channel();
        queue.push(Vec::new(), Box::new(move || sender.send(()).unwrap()));
        ran.recv_timeout(Duration::from_secs(60)).unwrap();
    }

    #[test]
    fn a_second_piece_of_work_and_a_question_wake_the_thread() {
        for asks in [false, true] {
            let queue = dozing();
            let mut last = queue.push(Vec::new(), Box::new(|| ()));
            let passed = match asks {
                true => last.passed(),
                false => {
                    last = queue.push(Vec::new(), Box::new(|| ()));
                    false
                }
            };
            let state = queue.lock();
            assert!(passed || state.done >= last.ticket || state.thread == ThreadState::Awake);
        }
    }
}
