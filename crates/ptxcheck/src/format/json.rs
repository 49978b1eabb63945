//! `--format json`: one array; lines and columns from 1, columns in characters.

use serde::Serialize;

use super::Findings;
use ptx::diagnostic::Severity;

#[derive(Serialize)]
struct Object<'f> {
    file: &'f str,
    code: String,
    severity: &'static str,
    message: &'f str,
    line: u32,
    column: u32,
    end_line: u32,
    end_column: u32,
    byte_start: u32,
    byte_end: u32,
    help: Option<&'f str>,
}

pub fn write(findings: Findings<'_>) -> String {
    let objects = findings.found.iter().map(|finding| {
        let (start, end) = (findings.start(finding), findings.end(finding.span));
        let object = Object {
            file: findings.name,
            code: finding.code.to_string(),
            severity: match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            },
            message: &finding.message,
            line: start.line,
            column: start.column,
            end_line: end.line,
            end_column: end.column,
            byte_start: finding.span.start,
            byte_end: finding.span.end,
            help: finding.help.as_deref(),
        };
        // Strings and numbers: there is nothing that JSON cannot hold.
        format!("\n  {}", serde_json::to_string(&object).unwrap_or_default())
    });
    objects.collect::<Vec<String>>().join(",")
}
