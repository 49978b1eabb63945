//! `--output-format sarif`: SARIF 2.1.0 (OASIS), which code scanning reads.

use serde_json::{Value, json};

use super::Findings;
use crate::explain;
use crate::origin::SourceLine;
use crate::selection::codes;
use lint::{Edit, Finding};
use ptx::ast::Span;
use ptx::diagnostic::Severity;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The text before the results, with the rules.
pub fn head() -> String {
    let rules: Vec<Value> = codes()
        .map(|code| {
            let text = explain::of(code);
            json!({
                "id": code.to_string(),
                "name": text.name,
                "shortDescription": { "text": text.summary },
                "fullDescription": { "text": text.why },
                "help": { "text": text.markdown, "markdown": text.markdown },
                "defaultConfiguration": {
                    "enabled": text.default,
                    "level": if code.letter() == 'E' { "error" } else { "warning" },
                },
            })
        })
        .collect();
    let driver = json!({
        "name": "ptxcheck",
        "version": env!("CARGO_PKG_VERSION"),
        "rules": rules,
    });
    format!(
        "{{\"$schema\":\"{SCHEMA}\",\"version\":\"2.1.0\",\"runs\":[{{\
         \"tool\":{{\"driver\":{driver}}},\"columnKind\":\"unicodeCodePoints\",\"results\":["
    )
}

/// What closes [`head`].
pub const TAIL: &str = "\n]}]}\n";

pub fn write(findings: Findings<'_>) -> String {
    let results = findings
        .found
        .iter()
        .map(|finding| format!("\n{}", result(finding, findings)));
    results.collect::<Vec<String>>().join(",")
}

fn result(finding: &Finding, findings: Findings<'_>) -> Value {
    let index = codes().position(|code| code == finding.code);
    let text = findings.text(finding);
    let artifact = json!({ "uri": uri(findings.file) });
    let mut place = json!({ "artifactLocation": artifact });
    if !findings.is_part() {
        place["region"] = region(finding.span, findings);
    }
    let mut result = json!({
        "ruleId": finding.code.to_string(),
        "ruleIndex": index,
        "level": match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        },
        "message": { "text": text },
        "locations": [{ "physicalLocation": place }],
    });
    if let Some(origin) = findings.origin(finding) {
        result["locations"][0]["logicalLocations"] = json!([{
            "name": origin.readable_name(),
            "decoratedName": origin.name,
            "kind": "function",
        }]);
        let lines = [
            (origin.line, "compiled from"),
            (origin.inlined_at, "inlined at"),
        ];
        let related: Vec<Value> = lines
            .into_iter()
            .filter_map(|(line, message)| Some(source_line(line?, message)))
            .collect();
        if !related.is_empty() {
            result["relatedLocations"] = json!(related);
        }
    }
    if let Some(fix) = &finding.fix {
        let replacement = |edit: &Edit| {
            json!({
                "deletedRegion": region(edit.span, findings),
                "insertedContent": { "text": edit.replacement },
            })
        };
        let replacements: Vec<Value> = fix.edits.iter().map(replacement).collect();
        result["fixes"] = json!([{
            "description": { "text": finding.help.as_deref().unwrap_or("fix it") },
            "artifactChanges": [{ "artifactLocation": artifact, "replacements": replacements }],
        }]);
    }
    result
}

fn source_line(SourceLine { file, line, column }: SourceLine<'_>, message: &str) -> Value {
    let mut region = json!({ "startLine": line });
    if column > 0 {
        region["startColumn"] = json!(column);
    }
    json!({
        "message": { "text": message },
        "physicalLocation": { "artifactLocation": { "uri": uri(file) }, "region": region },
    })
}

fn region(span: Span, findings: Findings<'_>) -> Value {
    let (start, end) = (findings.lines.locate(span.start), findings.end(span));
    json!({
        "startLine": start.line,
        "startColumn": start.column,
        "endLine": end.line,
        "endColumn": end.column,
    })
}

/// A path as a URI reference, percent-encoded (RFC 3986).
fn uri(path: &str) -> String {
    let path = path.replace('\\', "/");
    let mut uri = String::new();
    if path.starts_with('/') {
        uri += "file://";
    }
    for byte in path.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(byte.into());
            }
            _ => uri += &format!("%{byte:02X}"),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_references() {
        assert_eq!(uri("a b/k.ptx"), "a%20b/k.ptx");
        assert_eq!(uri("/x/<stdin>"), "file:///x/%3Cstdin%3E");
    }
}
