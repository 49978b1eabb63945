//! What became of the numbers of a source.

use std::collections::VecDeque;

use super::metric::Metric;

/// Samples that are kept of each metric: as many as the widest terminals have columns for.
const SAMPLES: usize = 300;

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
            let sample = if metric.is_total() {
                // One that shrinks is of a program that was started again.
                let grown = if grown < 0.0 { *value } else { grown };
                let rate = if seconds > 0.0 { grown / seconds } else { 0.0 };
                row.rate = Some(rate);
                rate
            } else {
                *value
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
            samples: if metric.is_total() {
                VecDeque::new()
            } else {
                VecDeque::from([value])
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
}
