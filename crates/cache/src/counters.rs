//! Counts of what a cache did.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A snapshot of what the [`Cache`](super::Cache) did since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Lookups that found a blob.
    pub hits: u64,
    /// Hits in a read-only folder.
    pub lower_hits: u64,
    /// Lookups that found none: the caller compiled.
    pub misses: u64,
    /// Lookups that waited for another thread or process.
    pub waits: u64,
    /// Lookups that returned an earlier compile error.
    pub failures: u64,
    /// Blobs stored.
    pub puts: u64,
    /// Blobs evicted.
    pub evictions: u64,
    /// Damaged blobs: quarantined, or ignored in a read-only folder.
    pub bad: u64,
    /// Operations on the folder that failed.
    pub errors: u64,
    /// Bytes of the files that hits read.
    pub bytes_read: u64,
    /// Bytes of the files that were stored.
    pub bytes_written: u64,
    /// Time that lookups waited for others.
    pub wait_time: Duration,
    /// Time that compiling took, as the provenance of what was put has it.
    pub compile_time: Duration,
    /// The store that machines share.
    #[cfg(feature = "remote")]
    pub remote: RemoteCounters,
}

/// What happened at the store that machines share ([`remote`](super::remote)).
#[cfg(feature = "remote")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteCounters {
    /// Lookups that found a blob there, and loaded it.
    pub hits: u64,
    /// Lookups that found none there.
    pub misses: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Requests without an answer in time.
    pub timeouts: u64,
    /// Blobs that were not loaded: signed by nobody who is trusted, damaged, too large.
    pub rejected: u64,
    /// How often the store failed so often that it was left alone for a while.
    pub breaker_opens: u64,
    /// Blobs written.
    pub puts: u64,
    /// Blobs that were not written: too many waited, the store failed, or they were larger
    /// than it takes.
    pub drops: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Time that lookups waited for the store.
    pub wait_time: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub hits: Count,
    pub lower_hits: Count,
    pub misses: Count,
    pub waits: Count,
    pub failures: Count,
    pub puts: Count,
    pub evictions: Count,
    pub bad: Count,
    pub errors: Count,
    pub bytes_read: Count,
    pub bytes_written: Count,
    pub wait_us: Count,
    pub compile_us: Count,
    #[cfg(feature = "remote")]
    pub remote: std::sync::Arc<RemoteCounts>,
}

#[cfg(feature = "remote")]
#[derive(Debug, Default)]
pub(super) struct RemoteCounts {
    pub hits: Count,
    pub misses: Count,
    pub errors: Count,
    pub timeouts: Count,
    pub rejected: Count,
    pub breaker_opens: Count,
    pub puts: Count,
    pub drops: Count,
    pub bytes_read: Count,
    pub bytes_written: Count,
    pub wait_us: Count,
}

#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn one(&self) {
        self.add(1);
    }

    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn add_us(&self, time: Duration) {
        self.add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counts {
    pub(super) fn snapshot(&self) -> Counters {
        Counters {
            hits: self.hits.get(),
            lower_hits: self.lower_hits.get(),
            misses: self.misses.get(),
            waits: self.waits.get(),
            failures: self.failures.get(),
            puts: self.puts.get(),
            evictions: self.evictions.get(),
            bad: self.bad.get(),
            errors: self.errors.get(),
            bytes_read: self.bytes_read.get(),
            bytes_written: self.bytes_written.get(),
            wait_time: Duration::from_micros(self.wait_us.get()),
            compile_time: Duration::from_micros(self.compile_us.get()),
            #[cfg(feature = "remote")]
            remote: self.remote.snapshot(),
        }
    }
}

#[cfg(feature = "remote")]
impl RemoteCounts {
    fn snapshot(&self) -> RemoteCounters {
        RemoteCounters {
            hits: self.hits.get(),
            misses: self.misses.get(),
            errors: self.errors.get(),
            timeouts: self.timeouts.get(),
            rejected: self.rejected.get(),
            breaker_opens: self.breaker_opens.get(),
            puts: self.puts.get(),
            drops: self.drops.get(),
            bytes_read: self.bytes_read.get(),
            bytes_written: self.bytes_written.get(),
            wait_time: Duration::from_micros(self.wait_us.get()),
        }
    }
}
