//! Our verdicts beside those of ptxas.

use std::fmt;

use ptxkit_ptx::{self as ptx, CheckOptions, Level, diagnostic::LineIndex};

use crate::archive::Verdict;
use crate::parallel::parallel;

/// A module and what ptxas says of it.
pub struct Case {
    pub name: String,
    pub verdict: Verdict,
    pub text: Vec<u8>,
}

/// What we say of a text, and the finding behind it.
pub fn judge(text: &[u8]) -> (Verdict, String) {
    judge_at(text, Level::default())
}

/// The same at a level of the check.
pub fn judge_at(text: &[u8], level: Level) -> (Verdict, String) {
    let Ok(source) = std::str::from_utf8(text) else {
        return (Verdict::Rejected(None), "no UTF-8".to_owned());
    };
    let reading = ptx::read(source);
    let mut found = reading.diagnostics;
    let options = CheckOptions {
        level,
        ..CheckOptions::default()
    };
    found.extend(ptx::check_with(&reading.module, source, &options));
    let surely_valid = ptx::is_surely_valid(source, &options);
    assert!(found.is_empty() || !surely_valid, "{found:?} in\n{source}");
    match found.iter().min_by_key(|diagnostic| diagnostic.span.start) {
        None => (Verdict::Accepted, String::new()),
        Some(first) => {
            let line = LineIndex::new(source).locate(first.span.start).line;
            (
                Verdict::Rejected(Some(line)),
                format!("{} {}", first.code, first.message),
            )
        }
    }
}

/// How far we agree on a set.
#[derive(Default)]
pub struct Figures {
    cases: usize,
    wrongly_rejected: usize,
    wrongly_accepted: usize,
    /// Of what both reject, where ptxas names a line …
    rejected: usize,
    /// … what we reject in another.
    other_line: usize,
    /// Each case on which we differ, drawn.
    pub differences: Vec<String>,
}

impl Figures {
    pub fn of(cases: &[Case]) -> Figures {
        let judged = parallel(cases, |case| judge(&case.text));
        let mut figures = Figures {
            cases: cases.len(),
            ..Figures::default()
        };
        for (case, (ours, finding)) in cases.iter().zip(judged) {
            figures.count(case, ours, &finding);
        }
        figures
    }

    fn count(&mut self, case: &Case, ours: Verdict, finding: &str) {
        let kind = match (case.verdict, ours) {
            (Verdict::Accepted, Verdict::Accepted)
            | (Verdict::Rejected(None), Verdict::Rejected(_)) => return,
            (Verdict::Accepted, Verdict::Rejected(_)) => {
                self.wrongly_rejected += 1;
                "wrongly rejected"
            }
            (Verdict::Rejected(_), Verdict::Accepted) => {
                self.wrongly_accepted += 1;
                "wrongly accepted"
            }
            (Verdict::Rejected(theirs), Verdict::Rejected(ours)) => {
                self.rejected += 1;
                if theirs == ours {
                    return;
                }
                self.other_line += 1;
                "other line"
            }
        };
        self.differences.push(format!(
            "{kind}: {} (ptxas: {}, here: {ours} {finding})\n",
            case.name, case.verdict
        ));
    }

    /// Per cent that agree on accepting or rejecting.
    pub fn verdicts(&self) -> f64 {
        per_cent(
            self.cases - self.wrongly_rejected - self.wrongly_accepted,
            self.cases,
        )
    }

    /// Per cent with the same first line, of what both reject.
    pub fn lines(&self) -> f64 {
        per_cent(self.rejected - self.other_line, self.rejected)
    }
}

fn per_cent(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        100.0
    } else {
        part as f64 * 100.0 / whole as f64
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} cases, {:.2} % of the verdicts agree ({} wrongly rejected, {} wrongly accepted); \
             of {} rejected by both, {:.2} % in the same line",
            self.cases,
            self.verdicts(),
            self.wrongly_rejected,
            self.wrongly_accepted,
            self.rejected,
            self.lines()
        )
    }
}
