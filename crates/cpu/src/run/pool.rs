//! The pool of worker threads.
//!
//! They start with the first task that is shared. The thread that submits a task takes
//! part in it, so that a task never waits for a free worker.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};

use crate::setting::Setting;

/// The number of threads that run blocks.
pub(crate) const THREADS: Setting = Setting {
    variable: "PTXKIT_CPU_THREADS",
    range: 1..=1024,
};

/// A pool of threads.
pub(super) struct Pool {
    shared: Arc<Shared>,
    start: Once,
    workers: u32,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
    idle: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    next_id: u64,
    closed: bool,
}

/// A task that workers may join.
struct Job {
    id: u64,
    task: Task,
    /// The number of workers that may still join.
    wanted: u32,
    /// The number of workers running it, without the submitting thread.
    running: u32,
}

/// A function of the worker's number.
#[derive(Clone, Copy)]
struct Task(*const (dyn Fn(u32) + Sync));

// SAFETY: the function is `Sync`, and `Pool::share` returns only when no worker runs it.
unsafe impl Send for Task {}

impl Pool {
    /// As many threads as [`THREADS`] says, or else one for each core.
    pub(super) fn new() -> Pool {
        let set = THREADS.read().unwrap_or_else(|error| {
            // `cuInit` refuses an invalid number. An engine without the driver's entries, as in
            // tests, has the default.
            tracing::warn!("{error}");
            None
        });
        let cores = || std::thread::available_parallelism().map_or(1, NonZero::get) as u32;
        Pool::with_workers(set.unwrap_or_else(cores))
    }

    /// `workers` threads, the caller of [`share`](Self::share) among them.
    pub(super) fn with_workers(workers: u32) -> Pool {
        Pool {
            shared: Arc::default(),
            start: Once::new(),
            workers: workers.clamp(1, 1024),
        }
    }

    /// The largest number of threads for one task.
    pub(super) fn workers(&self) -> u32 {
        self.workers
    }

    /// Runs `task` on this thread, as worker 0, and on up to `extra_workers` others
    /// concurrently. Returns when all have returned.
    pub(super) fn share(&self, extra_workers: u32, task: &(dyn Fn(u32) + Sync)) {
        let extra_workers = extra_workers.min(self.workers - 1);
        if extra_workers == 0 {
            return task(0);
        }
        self.start.call_once(|| self.start_threads());
        // SAFETY: only the lifetime changes. Also if `task` panics here, `JobGuard` waits until
        // no worker runs the task and none can join.
        let erased = Task(unsafe {
            std::mem::transmute::<
                *const (dyn Fn(u32) + Sync + '_),
                *const (dyn Fn(u32) + Sync + 'static),
            >(task)
        });
        let id = {
            let mut queue = self.shared.lock();
            let id = queue.next_id;
            queue.next_id += 1;
            queue.jobs.push_back(Job {
                id,
                task: erased,
                wanted: extra_workers,
                running: 0,
            });
            id
        };
        if extra_workers == 1 {
            self.shared.work.notify_one();
        } else {
            self.shared.work.notify_all();
        }
        let _guard = JobGuard {
            shared: &self.shared,
            id,
        };
        task(0);
    }

    fn start_threads(&self) {
        for worker in 1..self.workers {
            let shared = Arc::clone(&self.shared);
            let name = format!("ptxkit-cpu-{worker}");
            // If the system creates no thread, the caller does all the work.
            let _ = std::thread::Builder::new()
                .name(name)
                .spawn(move || shared.worker_loop(worker));
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.work.notify_all();
    }
}

/// Removes a job: workers can no longer join, and all that did have returned.
struct JobGuard<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for JobGuard<'_> {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        loop {
            let Some(at) = queue.jobs.iter().position(|job| job.id == self.id) else {
                return;
            };
            queue.jobs[at].wanted = 0;
            if queue.jobs[at].running == 0 {
                queue.jobs.remove(at);
                return;
            }
            queue = self
                .shared
                .idle
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn worker_loop(&self, worker: u32) {
        let mut queue = self.lock();
        while !queue.closed {
            let Some(job) = queue.jobs.iter_mut().find(|job| job.wanted > 0) else {
                queue = self
                    .work
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            job.wanted -= 1;
            job.running += 1;
            let (id, Task(task)) = (job.id, job.task);
            drop(queue);
            let guard = WorkerGuard { shared: self, id };
            // SAFETY: `running` counts this worker, so that the submitting thread waits.
            unsafe { (*task)(worker) };
            drop(guard);
            queue = self.lock();
        }
    }
}

/// Removes a worker from its job, also if the task panicked.
struct WorkerGuard<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for WorkerGuard<'_> {
    fn drop(&mut self) {
        if let Some(job) = self
            .shared
            .lock()
            .jobs
            .iter_mut()
            .find(|job| job.id == self.id)
        {
            job.running -= 1;
            if job.running == 0 {
                self.shared.idle.notify_all();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    #[test]
    fn all_work_is_done_once_by_several_threads() {
        let pool = Pool::with_workers(4);
        for _ in 0..200 {
            let next = AtomicU64::new(0);
            let sum = AtomicU64::new(0);
            pool.share(3, &|worker| {
                assert!(worker < 4);
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= 100 {
                        break;
                    }
                    sum.fetch_add(n, Ordering::Relaxed);
                }
            });
            assert_eq!(sum.load(Ordering::Relaxed), 4950);
        }
    }

    #[test]
    fn tasks_that_wait_for_each_other_run_at_once() {
        let pool = Pool::with_workers(2);
        let arrived = AtomicU32::new(0);
        pool.share(1, &|_| {
            arrived.fetch_add(1, Ordering::SeqCst);
            while arrived.load(Ordering::SeqCst) < 2 {
                std::thread::yield_now();
            }
        });
        assert_eq!(arrived.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn several_callers_share_one_pool() {
        let pool = Pool::with_workers(3);
        let sum = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let once = AtomicU32::new(0);
                        pool.share(2, &|_| {
                            if once.fetch_add(1, Ordering::Relaxed) == 0 {
                                sum.fetch_add(1, Ordering::Relaxed);
                            }
                        });
                    }
                });
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), 400);
    }

    #[test]
    fn a_pool_of_one_needs_no_other_thread() {
        let pool = Pool::with_workers(1);
        let here = std::thread::current().id();
        pool.share(7, &|worker| {
            assert_eq!(worker, 0);
            assert_eq!(std::thread::current().id(), here);
        });
    }
}
