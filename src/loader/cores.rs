//! Work on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Does `work` on each of `items`. Hands each result to `done`, one at a time, from any
/// thread; they come back in the order of the items.
pub(super) fn on_all_cores<T: Sync, R: Send>(
    items: &[T],
    done: impl FnMut(&T, &R) + Send,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Vec<Option<R>> = items.iter().map(|_| None).collect();
    let results = Mutex::new((done, results));
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { break };
            let result = work(item);
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            let (done, all) = &mut *results;
            done(item, &result);
            all[index] = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..cores().min(items.len()) {
            // Where no more threads can be started, the others do the work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, worker);
        }
        worker();
    });
    let (_, all) = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.into_iter().flatten().collect()
}
