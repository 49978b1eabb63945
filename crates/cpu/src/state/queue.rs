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
//!
//! The thread takes several pieces at once, so that it and who queues more of them seldom want
//! the lock at the same time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

type Work = Box<dyn FnOnce() + Send>;

/// How long work that nobody waits for may lie in a queue whose thread dozes.
const DOZE: Duration = Duration::from_micros(100);

/// The pieces of work in a row that callers have to run before the thread dozes.
const PATIENCE: u32 = 4;

/// The pieces of work that the thread takes at once, at most.
const BATCH: usize = 32;

pub(crate) struct Queue {
    state: Mutex<State>,
    progress: Progress,
    /// Signalled when work is done that is wanted.
    changed: Condvar,
    /// Signalled when there is work for the queue's thread.
    work: Condvar,
}

/// Written for each piece of work, on the thread that runs it, and therefore in a cache line of its
/// own: who queues more of them has the others.
#[repr(align(128))]
struct Progress {
    /// The last ticket that is done. The tickets in front of it are, too.
    done: AtomicU64,
    /// The least ticket that a caller in `changed.wait` waits for: without any, the system call of
    /// a notification is saved.
    wanted: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Tickets are 1, 2, 3 …: the last that was taken.
    taken: u64,
    waiting: VecDeque<Piece>,
    thread: ThreadState,
    /// The pieces of work in a row that callers have run.
    run_by_callers: u32,
    closed: bool,
}

impl State {
    /// Moves the first pieces of work to `batch`: those whose tickets follow each other.
    fn take(&mut self, batch: &mut Vec<Piece>) {
        while batch.len() < BATCH
            && let Some(first) = self.waiting.front()
            && batch
                .last()
                .is_none_or(|last| last.ticket + 1 == first.ticket)
        {
            batch.extend(self.waiting.pop_front());
        }
    }
}

/// A piece of work.
struct Piece {
    ticket: u64,
    after: Vec<Mark>,
    work: Work,
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

/// A point in a queue: all work that was queued before it.
#[derive(Clone)]
pub(crate) struct Mark {
    queue: Arc<Queue>,
    ticket: u64,
}

impl Mark {
    /// Whether it is passed. Who asks instead of waiting leaves the work to the queue's thread.
    pub(crate) fn passed(&self) -> bool {
        let queue = &self.queue;
        if queue.is_done(self.ticket) {
            return true;
        }
        let state = queue.lock();
        if queue.is_ready(&state) {
            queue.wake_thread(state);
        }
        queue.is_done(self.ticket)
    }

    /// Waits until the point is passed; runs work that no other thread has started.
    pub(crate) fn wait(&self) {
        let queue = &self.queue;
        while !queue.is_done(self.ticket) {
            let mut state = queue.lock();
            let first = state.waiting.front();
            // The mark may be passed by now. What follows it may wait for this caller.
            let is_before = first.is_some_and(|first| first.ticket <= self.ticket);
            if is_before && queue.is_ready(&state) {
                state.run_by_callers = state.run_by_callers.saturating_add(1);
                queue.run_next(state);
                continue;
            }
            // Without a thread, callers run what is ready when any other work is done.
            let wanted = match state.thread {
                ThreadState::None => 0,
                _ => self.ticket,
            };
            queue.progress.wanted.fetch_min(wanted, Ordering::SeqCst);
            // Work that ends from here on finds that it is wanted.
            if !queue.is_done(self.ticket) && !queue.is_ready(&state) {
                drop(queue.changed.wait(state));
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
        self.queue.complete(self.ticket);
        let state = self.queue.lock();
        if state.closed || self.queue.is_ready(&state) {
            self.queue.wake_thread(state);
        }
    }
}

impl Queue {
    pub(crate) fn new() -> Arc<Queue> {
        Arc::new(Queue {
            state: Mutex::default(),
            progress: Progress {
                done: AtomicU64::new(0),
                wanted: AtomicU64::new(u64::MAX),
            },
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
        let ticket = self.lock().taken;
        (!self.is_done(ticket)).then(|| Mark {
            queue: self.clone(),
            ticket,
        })
    }

    /// Queues work for the queue's own thread.
    pub(crate) fn push(self: &Arc<Self>, after: Vec<Mark>, work: Work) -> Mark {
        let mut state = self.lock();
        state.taken += 1;
        let ticket = state.taken;
        state.waiting.push_back(Piece {
            ticket,
            after,
            work,
        });
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
        } else if state.thread != ThreadState::Dozing || !self.is_done(ticket - 1) {
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
        if !self.is_done(state.taken) {
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

    fn is_done(&self, ticket: u64) -> bool {
        self.progress.done.load(Ordering::SeqCst) >= ticket
    }

    /// Whether the waiting work can start now.
    fn is_ready(&self, state: &State) -> bool {
        let first = state.waiting.front();
        first.is_some_and(|first| self.is_done(first.ticket - 1))
    }

    fn complete(&self, ticket: u64) {
        self.progress.done.store(ticket, Ordering::SeqCst);
        if self.progress.wanted.load(Ordering::SeqCst) <= ticket {
            // Who wants it waits already, or has the lock and looks again.
            let state = self.lock();
            self.progress.wanted.store(u64::MAX, Ordering::SeqCst);
            drop(state);
            self.changed.notify_all();
        }
    }

    /// The main loop of the queue's thread.
    fn run_thread(self: &Arc<Self>) {
        let mut batch = Vec::with_capacity(BATCH);
        let mut state = self.lock();
        loop {
            if self.is_ready(&state) {
                state.run_by_callers = 0;
                state.take(&mut batch);
                drop(state);
                for piece in batch.drain(..) {
                    let ticket = piece.ticket;
                    piece.run();
                    self.complete(ticket);
                }
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

    /// Runs the first of the waiting work.
    fn run_next(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let next = state.waiting.pop_front();
        drop(state);
        let Some(piece) = next else { return };
        let _guard = QueueGuard {
            queue: self,
            ticket: piece.ticket,
        };
        piece.run();
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

impl Piece {
    fn run(self) {
        self.after.iter().for_each(Mark::wait);
        // Work reports its failures itself. A panic is a bug, which the hook has
        // printed; later work of the stream still runs.
        let _ = api::contain_panic(self.work);
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
    fn each_piece_is_done_when_it_has_run() {
        for asks in [false, true] {
            let queue = Queue::new();
            let push = |work: Work| queue.push(Vec::new(), work);
            let (release, held) = mpsc::channel::<()>();
            push(Box::new(move || held.recv().unwrap()));
            // While the thread runs that, these wait, and it takes both at once.
            let first = push(Box::new(|| ()));
            let (seen, is_seen) = mpsc::channel();
            let (sender, result) = mpsc::channel();
            let second = push(Box::new(move || {
                let seen = is_seen.recv_timeout(Duration::from_secs(60));
                sender.send(seen).unwrap();
            }));
            release.send(()).unwrap();
            if asks {
                while !first.passed() {}
            } else {
                first.wait()
            }
            seen.send(()).unwrap();
            second.wait();
            assert_eq!(result.recv().unwrap(), Ok(()));
        }
    }

    /// It may wait for what the caller does next.
    #[test]
    fn a_caller_runs_nothing_behind_its_mark() {
        let caller = thread::current().id();
        let queue = Queue::new();
        let flag = || Arc::new(AtomicU64::new(0));
        let is_set = |flag: &AtomicU64| flag.load(Ordering::SeqCst) == 1;
        for round in 0..3000 {
            let (started, ended) = (flag(), flag());
            let (starts, ends) = (started.clone(), ended.clone());
            let work = move || {
                starts.store(1, Ordering::SeqCst);
                while !is_set(&ends) {}
            };
            let first = queue.push(Vec::new(), Box::new(work));
            while !is_set(&started) {
                first.passed();
            }
            let (sender, ran_on) = mpsc::channel();
            let work = move || sender.send(thread::current().id()).unwrap();
            let second = queue.push(Vec::new(), Box::new(work));
            // The first piece ends while the caller looks whether it has.
            ended.store(1, Ordering::SeqCst);
            for _ in 0..round % 200 {
                std::hint::spin_loop();
            }
            first.wait();
            while !second.passed() {
                thread::yield_now();
            }
            assert_ne!(ran_on.recv().unwrap(), caller);
        }
    }

    #[test]
    fn one_piece_runs_at_a_time_whoever_runs_it() {
        const ROUNDS: u64 = 500;
        let queue = Queue::new();
        let count = Arc::new(AtomicU64::new(0));
        let add = |count: &AtomicU64| {
            let before = count.load(Ordering::Relaxed);
            thread::yield_now();
            count.store(before + 1, Ordering::Relaxed);
        };
        thread::scope(|scope| {
            for first in 0..4 {
                let (queue, count) = (&queue, &count);
                scope.spawn(move || {
                    for round in first..first + ROUNDS {
                        let counted = Arc::clone(count);
                        let work = Box::new(move || add(&counted));
                        match round % 4 {
                            0 => drop(queue.push(Vec::new(), work)),
                            1 => queue.push(Vec::new(), work).wait(),
                            2 => {
                                let _guard = queue.enter(&[]);
                                add(count);
                            }
                            _ => match queue.try_enter(&[]) {
                                Some(_guard) => add(count),
                                None => drop(queue.push(Vec::new(), work)),
                            },
                        }
                    }
                });
            }
        });
        queue.mark().wait();
        assert_eq!(count.load(Ordering::Relaxed), 4 * ROUNDS);
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
            let passed = if asks {
                last.passed()
            } else {
                last = queue.push(Vec::new(), Box::new(|| ()));
                false
            };
            let state = queue.lock();
            let is_done = queue.is_done(last.ticket);
            assert!(passed || is_done || state.thread == ThreadState::Awake);
        }
    }
}
