//! `--output-format full`

use super::Findings;
use crate::drawing::Drawing;
use terminal::output::Escaped;

pub fn write(findings: Findings<'_>, colour: bool) -> String {
    let name = Escaped::new(findings.name).to_string();
    let drawing = Drawing::new(findings.lines, &name, colour);
    let drawn: Vec<String> = findings
        .found
        .iter()
        .map(|finding| {
            let origin = findings.origin(finding);
            let origin = origin.map(|origin| format!("in {origin}"));
            drawing.of(finding, origin.as_deref())
        })
        .collect();
    drawn.join("\n")
}
