//! What is counted, and how it is shown.

use crate::quantity::show_size;

/// A number of a service or of a cache.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    /// Its name in the text of Prometheus, without `ptxkit_`; empty if only a folder has it.
    pub series: &'static str,
    /// Counted since the program was started, so that one reading has nothing to show.
    pub since_start: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows: its rate is shown.
    Count,
    Bytes,
    Seconds,
    /// A state.
    Gauge,
    GaugeOfBytes,
}

macro_rules! metrics {
    ($($name:literal $kind:ident $series:literal;)*) => {
        /// What an endpoint may have, in the order of the rows.
        pub const METRICS: &[Metric] = &[$(Metric {
            name: $name,
            kind: Kind::$kind,
            series: $series,
            since_start: false,
        }),*];
    };
}

metrics! {
    "loads" Count "loads_total";
    "shared" Count "loads_shared_total";
    "failed" Count "loads_failed_total";
    "live" Gauge "modules";
    "hits" Count "cache_hits_total";
    "misses" Count "cache_misses_total";
    "compiles" Count "compiles_total";
    "compiling" Seconds "compile_seconds_total";
    "hot" Count "hot_compiles_total";
    "waits" Count "cache_waits_total";
    "waiting" Seconds "cache_wait_seconds_total";
    "stored" Count "cache_puts_total";
    "evicted" Count "cache_evictions_total";
    "damaged" Count "cache_bad_total";
    "errors" Count "cache_errors_total";
    "read" Bytes "cache_read_bytes_total";
    "written" Bytes "cache_written_bytes_total";
    "remote_hits" Count "remote_hits_total";
    "remote_misses" Count "remote_misses_total";
    "rejected" Count "remote_rejected_total";
    "breaks" Count "remote_breaker_opens_total";
}

const fn of_folder(name: &'static str, kind: Kind, since_start: bool) -> Metric {
    Metric {
        name,
        kind,
        series: "",
        since_start,
    }
}

pub const BLOBS: &Metric = &of_folder("blobs", Kind::Gauge, false);
pub const KERNELS: &Metric = &of_folder("kernels", Kind::Gauge, false);
pub const SIZE: &Metric = &of_folder("size", Kind::GaugeOfBytes, false);
pub const HITS: &Metric = &of_folder("hits", Kind::Count, false);
pub const IN_COMPILATION: &Metric = &of_folder("in_compilation", Kind::Gauge, false);
pub const STORED: &Metric = &of_folder("stored", Kind::Count, true);
pub const REMOVED: &Metric = &of_folder("removed", Kind::Count, true);

impl Metric {
    /// Whether it only grows.
    #[cfg(feature = "top")]
    pub fn is_total(&self) -> bool {
        !matches!(self.kind, Kind::Gauge | Kind::GaugeOfBytes)
    }

    /// A value as text: `12`, `1.5 MiB`, `0.25 s`.
    pub fn show(&self, value: f64) -> String {
        match self.kind {
            Kind::Count | Kind::Gauge => format!("{value:.0}"),
            Kind::Bytes | Kind::GaugeOfBytes => show_size(value as u64),
            Kind::Seconds => format!("{value:.2} s"),
        }
    }

    /// A rate as text: `12.5/s`; of seconds it is how many run at once.
    #[cfg(feature = "top")]
    pub fn show_rate(&self, rate: f64) -> String {
        match self.kind {
            Kind::Bytes => format!("{}/s", show_size(rate as u64)),
            Kind::Seconds => format!("{rate:.2}"),
            _ => format!("{rate:.1}/s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptxkit::cache::{Cache, Policy};
    use ptxkit::driver::{Context, Selection, select};
    use ptxkit::loader::Loader;

    #[test]
    fn every_series_is_one_that_a_loader_has() {
        let context = Context::primary(&select(Selection::Cpu).unwrap().device).unwrap();
        let loader = Loader::new(context, Cache::new(Policy::disabled()));
        let text = loader.counters().prometheus().to_string();
        for metric in METRICS {
            let is_remote = metric.series.starts_with("remote_");
            let line = format!("\nptxkit_{} ", metric.series);
            assert!(
                text.contains(&line) || is_remote && !cfg!(feature = "remote"),
                "{}",
                metric.series
            );
        }
        let mut names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS.len());
    }

    #[test]
    fn values_have_units() {
        assert_eq!(BLOBS.show(12.0), "12");
        assert_eq!(SIZE.show(1536.0), "1.5 KiB");
    }

    #[cfg(feature = "top")]
    #[test]
    fn rates_have_units() {
        assert_eq!(HITS.show_rate(0.25), "0.2/s");
        let written = METRICS.iter().find(|one| one.name == "written").unwrap();
        assert_eq!(written.show_rate(2048.0), "2.0 KiB/s");
    }
}
