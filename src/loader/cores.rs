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

/// So many threads copy a text.
const COPIERS: usize = 4;

/// A copy of a long text. Most of its time is page faults, which threads take side by side.
pub(super) fn copy_text(text: &str) -> String {
    let mut bytes = vec![0; text.len()];
    let length = text.len().div_ceil(cores().min(COPIERS)).max(1);
    let shares = bytes.chunks_mut(length).zip(text.as_bytes().chunks(length));
    let shares: Vec<_> = shares.map(Mutex::new).collect();
    on_all_cores(
        &shares,
        |_, ()| (),
        |share| {
            let (to, from) = &mut *share.lock().unwrap_or_else(PoisonError::into_inner);
            to.copy_from_slice(from);
        },
    );
    drop(shares);
    // SAFETY: the threads copied each share of `text` to its place: these are its bytes.
    unsafe { String::from_utf8_unchecked(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_the_text() {
        for length in [0, 1, 2, 3, 5, 4096, 100_003] {
            let text: String = "\u{e9}ab".chars().cycle().take(length).collect();
            assert_eq!(copy_text(&text), text);
        }
    }
}
