//! Vector clocks of the threads of a block: which accesses happen before which.

/// A thread at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub thread: u32,
    pub waits: bool,
}

/// What the threads of a block know of one another since the last barrier of all of them,
/// which orders everything before it.
#[derive(Debug)]
pub(super) struct Clocks {
    threads: usize,
    /// How often each thread has released what it did.
    own: Vec<u32>,
    /// `seen[t * threads + u]`: how many releases of `u` thread `t` has acquired. Empty until
    /// the first.
    seen: Vec<u32>,
    /// What fences have released: all fences of a block are taken as ordered.
    fences: Vec<u32>,
}

impl Clocks {
    pub(super) fn new(threads: u32) -> Clocks {
        let threads = threads as usize;
        Clocks {
            threads,
            own: vec![0; threads],
            seen: Vec::new(),
            fences: Vec::new(),
        }
    }

    /// Forgets everything: all threads have met.
    pub(super) fn reset(&mut self) {
        if !self.seen.is_empty() {
            self.own.fill(0);
            self.seen.clear();
            self.fences.clear();
        }
    }

    /// The time of an access that `thread` makes now.
    pub(super) fn now(&self, thread: u32) -> u32 {
        self.own.get(thread as usize).copied().unwrap_or(0)
    }

    /// Whether what `other` did at this time of its own happens before what `thread` does now.
    pub(super) fn is_before(&self, other: u32, time: u32, thread: u32) -> bool {
        let at = thread as usize * self.threads + other as usize;
        self.seen.get(at).is_some_and(|seen| *seen > time)
    }

    /// These threads arrive, and those of them that wait then know what all of them did.
    pub(super) fn meet(&mut self, threads: &[Arrived]) {
        let mut known = vec![0; self.threads];
        for arrived in threads {
            self.release(arrived.thread);
            merge(&mut known, self.row(arrived.thread));
        }
        for arrived in threads.iter().filter(|arrived| arrived.waits) {
            self.row(arrived.thread).copy_from_slice(&known);
        }
    }

    /// A fence of a thread.
    pub(super) fn fence(&mut self, thread: u32) {
        self.release(thread);
        let mut fences = std::mem::take(&mut self.fences);
        fences.resize(self.threads, 0);
        merge(&mut fences, self.row(thread));
        self.row(thread).copy_from_slice(&fences);
        self.fences = fences;
    }

    fn release(&mut self, thread: u32) {
        self.seen.resize(self.threads * self.threads, 0);
        let at = thread as usize;
        self.own[at] += 1;
        let own = self.own[at];
        self.row(thread)[at] = own;
    }

    /// What a thread has acquired, by thread.
    fn row(&mut self, thread: u32) -> &mut [u32] {
        let start = thread as usize * self.threads;
        &mut self.seen[start..start + self.threads]
    }
}

fn merge(known: &mut [u32], more: &[u32]) {
    for (known, more) in known.iter_mut().zip(more) {
        *known = (*known).max(*more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(threads: impl IntoIterator<Item = (u32, bool)>) -> Vec<Arrived> {
        let threads = threads.into_iter();
        threads
            .map(|(thread, waits)| Arrived { thread, waits })
            .collect()
    }

    #[test]
    fn only_those_who_wait_acquire() {
        let mut clocks = Clocks::new(4);
        let before = clocks.now(0);
        clocks.meet(&arrived([(0, true), (1, true), (2, false)]));
        assert!(clocks.is_before(0, before, 1));
        assert!(!clocks.is_before(0, before, 2), "it arrived and went on");
        assert!(!clocks.is_before(0, before, 3), "it was not there");
        // Nor what thread 0 does from now on.
        assert!(!clocks.is_before(0, clocks.now(0), 1));
    }

    #[test]
    fn what_a_thread_acquired_it_releases_too() {
        let mut clocks = Clocks::new(3);
        let before = clocks.now(0);
        clocks.fence(0);
        clocks.fence(1);
        clocks.meet(&arrived([(1, true), (2, true)]));
        assert!(clocks.is_before(0, before, 2));
        clocks.reset();
        assert!(!clocks.is_before(0, 0, 2));
    }
}
