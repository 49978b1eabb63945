//! The exit status of a check.

use std::collections::HashMap;
use std::sync::Arc;

use super::config::Settings;
use super::statistics::Counts;
use ptx::diagnostic::Severity;
use terminal::failure::{FAILED, MISMATCHES, VERIFIED};

/// What the exit status depends on.
#[derive(Default)]
pub struct Verdict {
    /// A file could not be read or written.
    pub failed: bool,
    errors: usize,
    /// The number of warnings for each settings, by the address of the settings.
    warnings: HashMap<*const Settings, (Arc<Settings>, usize)>,
}

impl Verdict {
    /// Counts the findings of a file.
    pub fn add(&mut self, settings: &Arc<Settings>, counts: &Counts) {
        self.errors += counts.of(Severity::Error);
        let under = self
            .warnings
            .entry(Arc::as_ptr(settings))
            .or_insert((settings.clone(), 0));
        under.1 += counts.of(Severity::Warning);
    }

    /// Whether there are errors, or more warnings than the settings of their files allow.
    pub fn is_bad(&self) -> bool {
        let too_many = |(settings, warnings): &(Arc<Settings>, usize)| {
            *warnings > settings.max_warnings.unwrap_or(0)
        };
        self.errors > 0 || self.warnings.values().any(too_many)
    }

    /// The exit status where `bad` says whether findings count.
    pub fn status(&self, bad: bool) -> u8 {
        match (self.failed, bad) {
            (true, _) => FAILED,
            (false, true) => MISMATCHES,
            (false, false) => VERIFIED,
        }
    }
}
