//! What a source says at one time, and what became of it since.

use std::collections::VecDeque;
use std::time::SystemTime;

use super::metric::Metric;

/// Samples that are kept of each metric: as many as the widest terminals have columns for.
const SAMPLES: usize = 300;

/// The numbers of a source at one time.
#[derive(Debug, Default)]
pub struct Reading {
    pub values: Vec<(&'static Metric, f64)>,
    /// What a folder holds.
    pub modules: Option<Vec<Module>>,
    /// The limit of the cache in bytes.
    pub limit: Option<u64>,
}

/// A blob of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The start of its key.
    pub key: String,
    pub bytes: u64,
    pub used: SystemTime,
    pub hits: u64,
    /// Hits since the last reading.
    pub recent: u64,
    pub target: String,
    pub source: String,
    pub kernels: String,
}

/// What is listed first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Sort {
    /// Modules with the most hits: lately, then in all
    #[default]
    Hits,
    /// Modules that were used or stored last
    New,
}

impl Sort {
    #[cfg(feature = "top")]
    pub fn other(self) -> Sort {
        match self {
            Sort::Hits => Sort::New,
            Sort::New => Sort::Hits,
        }
    }

    pub fn sort(self, modules: &mut [Module]) {
        use std::cmp::Reverse;
        modules.sort_by(|a, b| match self {
            Sort::Hits => {
                let by = |one: &Module| Reverse((one.recent, one.hits, one.used));
                by(a).cmp(&by(b))
            }
            Sort::New => b.used.cmp(&a.used),
        });
    }
}

/// A metric over time.
#[derive(Debug)]
pub struct Row {
    pub metric: &'static Metric,
    pub value: f64,
    /// A second, since the last reading; `None` of gauges and after the first reading.
    pub rate: Option<f64>,
    /// The last rates, of gauges the last values; the newest is the last.
    pub samples: VecDeque<f64>,
}

/// All metrics over time.
#[derive(Debug, Default)]
pub struct History {
    pub rows: Vec<Row>,
}

impl History {
    /// Adds the values that were read so many seconds after those before them.
    pub fn add(&mut self, values: &[(&'static Metric, f64)], seconds: f64) {
        for (metric, value) in values {
            let found = self.rows.iter_mut().find(|row| row.metric == *metric);
            let Some(row) = found else {
                self.rows.push(Row::new(metric, *value));
                continue;
            };
            let grown = value - row.value;
            row.value = *value;
            let sample = match metric.is_total() {
                // One that shrinks is of a program that was started again.
                true => {
                    let grown = if grown < 0.0 { *value } else { grown };
                    let rate = if seconds > 0.0 { grown / seconds } else { 0.0 };
                    row.rate = Some(rate);
                    rate
                }
                false => *value,
            };
            if row.samples.len() == SAMPLES {
                row.samples.pop_front();
            }
            row.samples.push_back(sample);
        }
    }
}

impl Row {
    fn new(metric: &'static Metric, value: f64) -> Row {
        Row {
            metric,
            value,
            rate: None,
            samples: match metric.is_total() {
                true => VecDeque::new(),
                false => VecDeque::from([value]),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::metric::{BLOBS, HITS};

    #[test]
    fn totals_have_rates_and_gauges_values() {
        let mut history = History::default();
        history.add(&[(HITS, 100.0), (BLOBS, 3.0)], 0.0);
        assert_eq!(history.rows[0].rate, None);
        history.add(&[(HITS, 110.0), (BLOBS, 4.0)], 2.0);
        assert_eq!(history.rows[0].rate, Some(5.0));
        assert_eq!(history.rows[1].rate, None);
        assert_eq!(history.rows[1].samples, [3.0, 4.0]);
        // The service was started again.
        history.add(&[(HITS, 8.0)], 2.0);
        assert_eq!(history.rows[0].samples, [5.0, 4.0]);
        for _ in 0..1000 {
            history.add(&[(HITS, 8.0)], 2.0);
        }
        assert_eq!(history.rows[0].samples.len(), SAMPLES);
    }

    #[test]
    fn what_is_hit_now_comes_first() {
        let module = |key: &str, recent, hits, used| Module {
            key: key.to_owned(),
            bytes: 1,
            used: SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(used),
            hits,
            recent,
            target: String::new(),
            source: String::new(),
            kernels: String::new(),
        };
        let mut modules = [
            module("old", 0, 50, 1),
            module("hot", 2, 3, 2),
            module("new", 0, 0, 9),
        ];
        let order = |modules: &[Module]| {
            let keys = modules.iter().map(|one| one.key.clone());
            keys.collect::<Vec<_>>().join(" ")
        };
        Sort::Hits.sort(&mut modules);
        assert_eq!(order(&modules), "hot old new");
        Sort::New.sort(&mut modules);
        assert_eq!(order(&modules), "new hot old");
    }
}
