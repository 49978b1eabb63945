//! The number of findings of each code.

use std::collections::BTreeMap;

use serde::Serialize;

use super::args::CheckArgs;
use super::explain;
use super::format::Format;
use super::linter::TextFindings;
use lint::Code;
use ptx::diagnostic::Severity;
use terminal::output::json_line;

/// What makes the fixes that are not safe.
const UNSAFE: &str = "--fix --unsafe-fixes";

/// The number of findings of each code.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    by_code: BTreeMap<Code, Count>,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    severity: Severity,
    findings: usize,
    /// Findings that are counted, but not shown.
    omitted: usize,
    fixable: usize,
    /// Fixable by fixes that are not safe.
    unsafely: usize,
}

#[derive(Serialize)]
struct Row {
    code: String,
    name: String,
    count: usize,
    fixable: usize,
    unsafely_fixable: usize,
}

impl Counts {
    /// `unsafe_fixes` says whether fixes that are not safe are made as others are.
    pub fn add(&mut self, found: &TextFindings, unsafe_fixes: bool) {
        for finding in &found.findings {
            let made = finding.fix.as_ref().map(|fix| fix.safe || unsafe_fixes);
            self.count(
                finding.code,
                Count {
                    severity: finding.severity,
                    findings: 1,
                    omitted: 0,
                    fixable: usize::from(made == Some(true)),
                    unsafely: usize::from(made == Some(false)),
                },
            );
        }
        for &(code, severity, omitted) in &found.omitted {
            self.count(
                code,
                Count {
                    severity,
                    findings: omitted,
                    omitted,
                    fixable: 0,
                    unsafely: 0,
                },
            );
        }
    }

    pub fn merge(&mut self, other: Counts) {
        for (code, count) in other.by_code {
            self.count(code, count);
        }
    }

    fn count(&mut self, code: Code, more: Count) {
        let none = Count {
            findings: 0,
            omitted: 0,
            fixable: 0,
            unsafely: 0,
            ..more
        };
        let count = self.by_code.entry(code).or_insert(none);
        count.severity = count.severity.max(more.severity);
        count.findings += more.findings;
        count.omitted += more.omitted;
        count.fixable += more.fixable;
        count.unsafely += more.unsafely;
    }

    /// The number of findings of this severity.
    pub fn of(&self, severity: Severity) -> usize {
        let such = self
            .by_code
            .values()
            .filter(|count| count.severity == severity);
        such.map(|count| count.findings).sum()
    }

    /// A note on the findings that are not shown; empty if all are.
    pub fn note(&self) -> String {
        let omitted: usize = self.by_code.values().map(|count| count.omitted).sum();
        match omitted {
            0 => String::new(),
            1 => "note: 1 more finding is not shown; --max-findings 0 shows all\n".to_owned(),
            _ => {
                format!("note: {omitted} more findings are not shown; --max-findings 0 shows all\n")
            }
        }
    }

    /// A line for each code, the most frequent first.
    pub fn table(&self, format: Format) -> String {
        let mut rows: Vec<Row> = self
            .by_code
            .iter()
            .map(|(code, count)| Row {
                code: code.to_string(),
                name: explain::of(*code).name,
                count: count.findings,
                fixable: count.fixable,
                unsafely_fixable: count.unsafely,
            })
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.count));
        match format {
            Format::Json | Format::Sarif => json_line(&rows),
            _ => {
                let line = |row: &Row| {
                    let fixes = [(row.fixable, "--fix"), (row.unsafely_fixable, UNSAFE)];
                    let fixes = fixes.iter().filter(|(count, _)| *count > 0);
                    let fixes = fixes.map(|(count, option)| format!(" ({count} with {option})"));
                    let Row {
                        code, name, count, ..
                    } = row;
                    format!("{count:>7}  {code}  {name}{}\n", fixes.collect::<String>())
                };
                rows.iter().map(line).collect()
            }
        }
    }

    /// `2 errors and 1 warning; --fix mends 1`; nothing if there are none.
    pub fn sum(&self, fixes: usize, args: &CheckArgs) -> String {
        let CheckArgs {
            fix: fixed, diff, ..
        } = *args;
        let plural = |count: usize, what: &str| match count {
            0 => None,
            1 => Some(format!("1 {what}")),
            _ => Some(format!("{count} {what}s")),
        };
        let fixable: usize = self.by_code.values().map(|count| count.fixable).sum();
        let unsafely: usize = self.by_code.values().map(|count| count.unsafely).sum();
        let found = [
            plural(self.of(Severity::Error), "error"),
            plural(self.of(Severity::Warning), "warning"),
        ];
        let found: Vec<String> = found.into_iter().flatten().collect();
        let more = if fixable > 0 && !fixed { " more" } else { "" };
        let mut parts = Vec::new();
        match plural(fixes, "change") {
            Some(changes) if diff => parts.push(format!("--fix would make {changes}")),
            Some(changes) => parts.push(format!("{changes} made")),
            None => {}
        }
        if !found.is_empty() {
            parts.push(found.join(" and ") + if fixes > 0 { " left" } else { "" });
        }
        if fixable > 0 && !fixed {
            parts.push(format!("--fix mends {fixable}"));
        }
        if unsafely > 0 {
            parts.push(format!("{UNSAFE} mends {unsafely}{more}"));
        }
        if parts.is_empty() {
            String::new()
        } else {
            format!("\n{}\n", parts.join("; "))
        }
    }
}
