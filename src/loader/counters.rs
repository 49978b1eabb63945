//! Counts of what a loader did.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tracing::info;

use crate::cache;

/// A snapshot of what the [`Loader`](super::Loader) and its clones did since it
/// was made.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// # use ptxkit::{cache::{Cache, Policy}, driver::{Context, Selection, select}, loader::Loader};
/// # let context = Context::primary(&select(Selection::Cpu)?.device)?;
/// # let loader = Loader::new(context, Cache::new(Policy::disabled()));
/// let counters = loader.counters();
/// // What a service answers at its `/metrics`.
/// let text = counters.prometheus().to_string();
/// assert!(text.contains("\nptxkit_loads_total 0\n"));
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Loads.
    pub loads: u64,
    /// Loads that returned a module that was loaded already.
    pub shared: u64,
    /// Loads that failed.
    pub failed: u64,
    /// Modules that this loader shares and that are in use now.
    pub modules: u64,
    /// Compilations, of loads and of [`warm`](super::Loader::warm), with those
    /// that failed.
    pub compiles: u64,
    /// How long they took together, summed over threads.
    pub compile_time: Duration,
    /// Hot kernels of the CPU device that were compiled a second time, with optimization.
    pub hot_compiles: u64,
    /// How long that took together, in the background.
    pub hot_compile_time: Duration,
    /// Hot kernels whose optimized code was in the cache.
    pub hot_hits: u64,
    /// How long the driver took to load binaries.
    pub load_time: Duration,
    /// What the compute cache did, for every loader that uses it.
    pub cache: cache::Counters,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub loads: AtomicU64,
    pub shared: AtomicU64,
    pub failed: AtomicU64,
    pub compiles: AtomicU64,
    pub compile_us: AtomicU64,
    pub hot_compiles: AtomicU64,
    pub hot_compile_us: AtomicU64,
    pub hot_hits: AtomicU64,
    pub load_us: AtomicU64,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

pub(super) fn add_time(counter: &AtomicU64, time: Duration) {
    let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    counter.fetch_add(us, Ordering::Relaxed);
}

impl Counts {
    pub(super) fn snapshot(&self, modules: u64, cache: cache::Counters) -> Counters {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counters {
            loads: read(&self.loads),
            shared: read(&self.shared),
            failed: read(&self.failed),
            modules,
            compiles: read(&self.compiles),
            compile_time: Duration::from_micros(read(&self.compile_us)),
            hot_compiles: read(&self.hot_compiles),
            hot_compile_time: Duration::from_micros(read(&self.hot_compile_us)),
            hot_hits: read(&self.hot_hits),
            load_time: Duration::from_micros(read(&self.load_us)),
            cache,
        }
    }
}

impl Counters {
    /// One `tracing` event with all of them, at level info: for services that
    /// log what they did every so often.
    pub fn trace(&self) {
        let cache = &self.cache;
        info!(
            loads = self.loads,
            shared = self.shared,
            failed = self.failed,
            modules = self.modules,
            compiles = self.compiles,
            compile_ms = self.compile_time.as_millis(),
            hot_compiles = self.hot_compiles,
            hot_compile_ms = self.hot_compile_time.as_millis(),
            hot_hits = self.hot_hits,
            load_ms = self.load_time.as_millis(),
            hits = cache.hits,
            misses = cache.misses,
            waits = cache.waits,
            puts = cache.puts,
            evictions = cache.evictions,
            bad = cache.bad,
            errors = cache.errors,
            bytes_read = cache.bytes_read,
            bytes_written = cache.bytes_written,
            "counters"
        );
    }

    /// Them in the text format of Prometheus, to be printed.
    pub fn prometheus(&self) -> Prometheus<'_> {
        Prometheus(self)
    }

    fn metrics(&self) -> Vec<Metric> {
        let cache = &self.cache;
        let metrics = vec![
            total("loads_total", "Loads.", self.loads),
            total(
                "loads_shared_total",
                "Loads that returned a module that was loaded already.",
                self.shared,
            ),
            total("loads_failed_total", "Loads that failed.", self.failed),
            Metric {
                name: "modules",
                help: "Shared modules that are in use now.",
                kind: "gauge",
                value: Value::Count(self.modules),
            },
            total(
                "compiles_total",
                "Compilations of PTX, with those that failed.",
                self.compiles,
            ),
            seconds(
                "compile_seconds_total",
                "Time that compilations took, summed over threads.",
                self.compile_time,
            ),
            total(
                "hot_compiles_total",
                "Hot kernels of the CPU device that were compiled a second time.",
                self.hot_compiles,
            ),
            seconds(
                "hot_compile_seconds_total",
                "Time that this took, in the background.",
                self.hot_compile_time,
            ),
            total(
                "hot_hits_total",
                "Hot kernels whose optimized code was in the cache.",
                self.hot_hits,
            ),
            seconds(
                "load_seconds_total",
                "Time that the driver took to load binaries.",
                self.load_time,
            ),
            total("cache_hits_total", "Lookups that found a blob.", cache.hits),
            total(
                "cache_lower_hits_total",
                "Hits in a read-only folder.",
                cache.lower_hits,
            ),
            total(
                "cache_misses_total",
                "Lookups that found no blob.",
                cache.misses,
            ),
            total(
                "cache_waits_total",
                "Lookups that waited for another thread or process.",
                cache.waits,
            ),
            seconds(
                "cache_wait_seconds_total",
                "Time that lookups waited for others.",
                cache.wait_time,
            ),
            total(
                "cache_failures_total",
                "Lookups that returned an earlier compile error.",
                cache.failures,
            ),
            total("cache_puts_total", "Blobs stored.", cache.puts),
            total("cache_evictions_total", "Blobs evicted.", cache.evictions),
            total("cache_bad_total", "Blobs that were damaged.", cache.bad),
            total(
                "cache_errors_total",
                "Operations on the cache's folder that failed.",
                cache.errors,
            ),
            total(
                "cache_read_bytes_total",
                "Bytes of the blobs that hits read.",
                cache.bytes_read,
            ),
            total(
                "cache_written_bytes_total",
                "Bytes of the blobs stored.",
                cache.bytes_written,
            ),
            seconds(
                "cache_stored_compile_seconds_total",
                "Compile time of the blobs stored.",
                cache.compile_time,
            ),
        ];
        #[cfg(feature = "remote")]
        let metrics = [metrics, remote_metrics(&cache.remote)].concat();
        metrics
    }
}

/// Of the store that machines share.
#[cfg(feature = "remote")]
fn remote_metrics(remote: &cache::RemoteCounters) -> Vec<Metric> {
    vec![
        total(
            "remote_hits_total",
            "Lookups that found a blob in the remote cache.",
            remote.hits,
        ),
        total(
            "remote_misses_total",
            "Lookups that found no blob in the remote cache.",
            remote.misses,
        ),
        total(
            "remote_errors_total",
            "Requests to the remote cache that failed.",
            remote.errors,
        ),
        total(
            "remote_timeouts_total",
            "Requests to the remote cache without an answer in time.",
            remote.timeouts,
        ),
        total(
            "remote_rejected_total",
            "Blobs of the remote cache that were not loaded: not signed by a trusted key, or damaged.",
            remote.rejected,
        ),
        total(
            "remote_breaker_opens_total",
            "How often the remote cache was left alone after failures.",
            remote.breaker_opens,
        ),
        total(
            "remote_puts_total",
            "Blobs written to the remote cache.",
            remote.puts,
        ),
        total(
            "remote_drops_total",
            "Blobs that were not written to the remote cache.",
            remote.drops,
        ),
        total(
            "remote_read_bytes_total",
            "Bytes read from the remote cache.",
            remote.bytes_read,
        ),
        total(
            "remote_written_bytes_total",
            "Bytes written to the remote cache.",
            remote.bytes_written,
        ),
        seconds(
            "remote_wait_seconds_total",
            "Time that lookups waited for the remote cache.",
            remote.wait_time,
        ),
    ]
}

fn total(name: &'static str, help: &'static str, value: u64) -> Metric {
    Metric {
        name,
        help,
        kind: "counter",
        value: Value::Count(value),
    }
}

fn seconds(name: &'static str, help: &'static str, value: Duration) -> Metric {
    Metric {
        name,
        help,
        kind: "counter",
        value: Value::Seconds(value),
    }
}

#[derive(Clone)]
struct Metric {
    name: &'static str,
    help: &'static str,
    kind: &'static str,
    value: Value,
}

#[derive(Clone)]
enum Value {
    Count(u64),
    Seconds(Duration),
}

/// Counters in Prometheus's text format (version 0.0.4), by [`Display`](fmt::Display).
#[derive(Clone, Copy, Debug)]
pub struct Prometheus<'a>(&'a Counters);

impl fmt::Display for Prometheus<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for metric in self.0.metrics() {
            let Metric {
                name, help, kind, ..
            } = metric;
            writeln!(f, "# HELP ptxkit_{name} {help}")?;
            writeln!(f, "# TYPE ptxkit_{name} {kind}")?;
            match metric.value {
                Value::Count(count) => writeln!(f, "ptxkit_{name} {count}")?,
                Value::Seconds(time) => writeln!(f, "ptxkit_{name} {:.6}", time.as_secs_f64())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_help_type_and_value() {
        let counters = Counters {
            loads: 3,
            compile_time: Duration::from_micros(1_500_001),
            ..Counters::default()
        };
        let text = counters.prometheus().to_string();
        assert!(text.starts_with(
            "# HELP ptxkit_loads_total Loads.\n\
             # TYPE ptxkit_loads_total counter\n\
             ptxkit_loads_total 3\n"
        ));
        assert!(text.contains("\nptxkit_compile_seconds_total 1.500001\n"));
        assert!(text.contains("# TYPE ptxkit_modules gauge\nptxkit_modules 0\n"));
        let mut names: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split(' ').next())
            .collect();
        assert_eq!(names.len() * 3, text.lines().count());
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), counters.metrics().len(), "a name twice");
    }
}
