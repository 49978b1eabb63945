//! `--output-format concise`: `k.ptx:4:14: error[E0101]: unknown instruction foo`

use super::Findings;
use lint::Finding;
use ptx::diagnostic::Severity;
use terminal::output::Escaped;

const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[1;33m";
const RESET: &str = "\x1b[0m";

pub fn write(findings: Findings<'_>, colour: bool) -> String {
    let line = |finding: &Finding| {
        let place = findings.start(finding);
        let Finding {
            code,
            severity,
            message,
            ..
        } = finding;
        let (style, word) = match severity {
            Severity::Error => (RED, "error"),
            Severity::Warning => (YELLOW, "warning"),
        };
        let origin = findings.origin(finding);
        let origin = origin.map(|origin| format!(" [{origin}]"));
        let message = format!("{message}{}", origin.unwrap_or_default());
        let (name, message) = (Escaped::new(findings.name), Escaped::new(&message));
        if colour {
            format!("{BOLD}{name}:{place}{RESET}: {style}{word}[{code}]{RESET}: {message}\n")
        } else {
            format!("{name}:{place}: {word}[{code}]: {message}\n")
        }
    };
    findings.found.iter().map(line).collect()
}
