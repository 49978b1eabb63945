//! `--output-format github`: workflow commands, which GitHub shows as annotations.

use super::Findings;
use lint::Finding;
use ptx::diagnostic::Severity;
use terminal::output::Escaped;

pub fn write(findings: Findings<'_>) -> String {
    let line = |finding: &Finding| {
        let Finding {
            code,
            severity,
            span,
            ..
        } = finding;
        let (start, end) = (findings.start(finding), findings.end(*span));
        let word = match severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let text = findings.text(finding);
        // GitHub takes columns only within one line.
        let columns = if start.line == end.line {
            format!(",col={},endColumn={}", start.column, end.column)
        } else {
            String::new()
        };
        let place = if findings.is_part() {
            String::new()
        } else {
            format!(",line={},endLine={}{columns}", start.line, end.line)
        };
        format!(
            "::{word} file={}{place},title={code}::{}\n",
            property(findings.file),
            data(&text),
        )
    };
    findings.found.iter().map(line).collect()
}

/// Escapes the characters that a message must not contain, as in a URL.
fn data(text: &str) -> String {
    // The log of a job is shown in terminals too.
    let text = Escaped::lines(text).to_string();
    text.replace('%', "%25").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_the_command_are_written_otherwise() {
        assert_eq!(data("100%\nof a:b"), "100%25%0Aof a:b");
        assert_eq!(data("\x1b[2J"), "\\u{1b}[2J");
        assert_eq!(property("C:\\a,b"), "C%3A\\a%2Cb");
    }
}
