//! The report of a run, as text and JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::expect::Verdict;
use terminal::output::{Lines, json_line};

/// The facts of one run. The JSON form has exactly these keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunReport {
    pub device: String,
    pub image: String,
    pub cache: CacheUse,
    /// The full key; `null` if nothing was compiled.
    pub key: Option<String>,
    pub compile_ms: f64,
    pub load_ms: f64,
    /// The time of one launch, by the device's clock.
    pub launch_ms: Option<f64>,
    /// `null` without expectations.
    pub verified: Option<bool>,
    pub mismatches: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheUse {
    Hit,
    Miss,
    Off,
}

impl RunReport {
    pub fn json(&self) -> String {
        json_line(self)
    }

    /// A few aligned lines. `why` is the reason for the selected device, and `error` that of failed
    /// launches.
    pub fn text(
        &self,
        why: &str,
        launches: u32,
        verdict: Option<&Verdict>,
        error: Option<&str>,
    ) -> String {
        let mut lines = Lines::default();
        lines.add("device", format!("{} ({why})", self.device));
        lines.add("image", self.image.clone());
        let cache = match self.cache {
            CacheUse::Hit => "hit",
            CacheUse::Miss => "miss",
            CacheUse::Off => "off",
        };
        let key: String = self
            .key
            .iter()
            .flat_map(|key| key.chars())
            .take(12)
            .collect();
        lines.add("cache", format!("{cache} {key}"));
        lines.add("compile", milliseconds(self.compile_ms));
        lines.add("load", milliseconds(self.load_ms));
        if let Some(launch) = self.launch_ms {
            let mean = match launches {
                1 => String::new(),
                _ => format!("  (mean of {launches})"),
            };
            lines.add("launch", format!("{}{mean}", milliseconds(launch)));
        }
        lines.add("results", results(verdict, error));
        for mismatch in verdict.iter().flat_map(|verdict| &verdict.first) {
            lines.add("", mismatch.to_string());
        }
        for remark in verdict.iter().flat_map(|verdict| &verdict.remarks) {
            lines.add("", remark.clone());
        }
        lines.0
    }
}

fn results(verdict: Option<&Verdict>, error: Option<&str>) -> String {
    match (verdict, error) {
        (None, _) => "not checked: nothing is expected".into(),
        (Some(verdict), Some(error)) if verdict.verified => {
            format!("verified: {error}, as expected")
        }
        (Some(verdict), None) if verdict.verified => "verified".into(),
        (Some(verdict), _) => format!("WRONG: {} mismatches", verdict.mismatches),
    }
}

fn milliseconds(ms: f64) -> String {
    format!("{ms:>10.3} ms")
}

/// In milliseconds.
pub fn in_ms(duration: Duration) -> f64 {
    to_the_nanosecond(duration.as_secs_f64() * 1000.0)
}

/// Milliseconds, rounded to the precision of the clock.
pub fn to_the_nanosecond(ms: f64) -> f64 {
    (ms * 1e6).round() / 1e6
}
