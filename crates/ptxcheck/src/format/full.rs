//! `--format full`

use super::Findings;
use crate::drawing::Drawing;

pub fn write(findings: Findings<'_>, colour: bool) -> String {
    let drawing = Drawing::new(findings.lines, findings.name, colour);
    let drawn: Vec<String> = findings
        .found
        .iter()
        .map(|finding| drawing.of(finding))
        .collect();
    drawn.join("\n")
}
