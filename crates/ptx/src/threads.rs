//! Work on several threads.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A part of a text that a thread is started for: less is done sooner than it starts.
const LEAST: usize = 128 << 10;

/// In how many parts work on a text of this length is done by so many threads.
pub fn parts(length: usize, threads: usize) -> usize {
    threads.min(length / LEAST).max(1)
}

/// Does `work` on each of `parts`, on as many threads as there are parts. The results are in
/// the order of the parts.
pub fn on_threads<T: Send, R: Send>(parts: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let parts: Vec<_> = parts
        .into_iter()
        .map(|part| Mutex::new((Some(part), None)))
        .collect();
    let worker = || {
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            // Nobody else has this index.
            let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
            part.1 = part.0.take().map(&work);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..parts.len() {
            // Where no more threads can be started, the others do the work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, worker);
        }
        worker();
    });
    let parts = parts.into_iter();
    let results = parts.map(|part| part.into_inner().unwrap_or_else(PoisonError::into_inner).1);
    results.flatten().collect()
}

/// The indices of `weights` in `count` ranges of about equal weight.
pub fn shares(weights: impl Iterator<Item = usize>, count: usize) -> Vec<Range<usize>> {
    let mut sums = vec![0];
    let mut sum = 0_usize;
    sums.extend(weights.map(|weight| {
        sum = sum.saturating_add(weight);
        sum
    }));
    let all = sums.len() - 1;
    let mut start = 0;
    let ends = (1..=count).map(|share| {
        if share == count {
            all
        } else {
            sums.partition_point(|before| *before < sum / count * share)
                .min(all)
        }
    });
    let shares = ends.map(|end| std::mem::replace(&mut start, end)..end);
    shares.filter(|share| !share.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_parts() {
        let results = on_threads((0..100).collect(), |part| part * 2);
        assert_eq!(results, (0..100).map(|part| part * 2).collect::<Vec<_>>());
        assert_eq!(on_threads(Vec::<u8>::new(), |part| part), []);
    }

    #[test]
    fn shares_have_about_equal_weight() {
        let of = |weights: &[usize], count| -> Vec<(usize, usize)> {
            let shares = shares(weights.iter().copied(), count).into_iter();
            shares.map(|share| (share.start, share.end)).collect()
        };
        assert_eq!(of(&[1, 1, 1, 1, 1, 1], 3), [(0, 2), (2, 4), (4, 6)]);
        assert_eq!(of(&[9, 1, 1, 1], 2), [(0, 1), (1, 4)]);
        assert_eq!(of(&[0, 0, 9, 0], 2), [(0, 3), (3, 4)]);
        assert_eq!(of(&[5], 4), [(0, 1)]);
        assert_eq!(of(&[0, 0], 4), [(0, 2)]);
        assert_eq!(of(&[], 4), []);
    }
}
