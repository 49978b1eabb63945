//! `--output-format json`: one array; lines and columns from 1, columns in characters.

use serde::Serialize;

use super::Findings;
use crate::origin::SourceLine;
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
    /// The name in the PTX.
    function: Option<&'f str>,
    /// The name in the source, where that is another one.
    demangled: Option<&'f str>,
    source: Option<Line<'f>>,
    /// Where `source` was inlined.
    inlined_at: Option<Line<'f>>,
}

/// A line of CUDA or Python.
#[derive(Serialize)]
struct Line<'f> {
    file: &'f str,
    line: u32,
    column: u32,
}

impl<'f> From<SourceLine<'f>> for Line<'f> {
    fn from(SourceLine { file, line, column }: SourceLine<'f>) -> Line<'f> {
        Line { file, line, column }
    }
}

pub fn write(findings: Findings<'_>) -> String {
    let objects = findings.found.iter().map(|finding| {
        let (start, end) = (findings.start(finding), findings.end(finding.span));
        let origin = findings.origin(finding);
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
            function: origin.map(|origin| origin.name),
            demangled: origin.and_then(|origin| origin.demangled),
            source: origin.and_then(|origin| origin.line).map(Line::from),
            inlined_at: origin.and_then(|origin| origin.inlined_at).map(Line::from),
        };
        // Strings and numbers: there is nothing that JSON cannot hold.
        format!("\n  {}", serde_json::to_string(&object).unwrap_or_default())
    });
    objects.collect::<Vec<String>>().join(",")
}
