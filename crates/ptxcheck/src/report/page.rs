//! The page as HTML.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::explain;
use lint::Code;
use terminal::failure::Failure;

/// The script, by subject; together they are one function.
const SCRIPT: [&str; 9] = [
    include_str!("page/data.js"),
    include_str!("page/elements.js"),
    include_str!("page/explanation.js"),
    include_str!("page/source.js"),
    include_str!("page/layout.js"),
    include_str!("page/graph.js"),
    include_str!("page/tables.js"),
    include_str!("page/sidebar.js"),
    include_str!("page/page.js"),
];

/// What a page says of a code.
#[derive(Serialize)]
struct Rule {
    code: String,
    name: String,
    summary: &'static str,
    /// Markdown
    explanation: String,
}

/// The page on these texts, each of which is JSON already.
pub fn write(
    title: &str,
    texts: &[String],
    codes: &BTreeSet<Code>,
    failures: &[Failure],
) -> String {
    let rules = codes.iter().map(|code| {
        let text = explain::of(*code);
        Rule {
            code: code.to_string(),
            name: text.name,
            summary: text.summary,
            explanation: text.markdown,
        }
    });
    let failures: Vec<String> = failures.iter().map(Failure::to_string).collect();
    let data = format!(
        "{{\"version\":{},\n\"title\":{},\n\"failures\":{},\n\"rules\":{},\n\"texts\":[\n{}\n]}}",
        json(&env!("CARGO_PKG_VERSION")),
        json(&title),
        json(&failures),
        json(&rules.collect::<Vec<Rule>>()),
        texts.join(",\n"),
    );
    format!(
        include_str!("page/page.html"),
        title = text(title),
        style = include_str!("page/page.css"),
        data = data,
        script = SCRIPT.concat(),
    )
}

/// As JSON that may stand in a `<script>`: no text in it ends the element, or begins a comment.
pub fn json(value: &impl Serialize) -> String {
    // Strings and numbers: there is nothing that JSON cannot hold.
    let json = serde_json::to_string(value).unwrap_or_default();
    json.replace('<', "\\u003c")
}

/// As text of an element.
fn text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_says_stays_text() {
        let name = "</script><!--<script>\u{2028}\0&quot;</title>";
        let json = json(&name);
        assert!(!json.contains('<'), "{json}");
        let back: String = serde_json::from_str(&json).unwrap();
        assert_eq!(back, name);
        assert_eq!(text("a</title>&lt;"), "a&lt;/title>&amp;lt;");
    }
}
