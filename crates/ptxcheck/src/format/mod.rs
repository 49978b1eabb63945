//! Output formats of findings.
//!
//! Files are checked in parallel, and the findings of each are formatted into one
//! string; the text around and between these strings is written once.

mod concise;
mod full;
mod github;
mod json;
mod sarif;

use crate::origin::{Origin, Origins};
use lint::Finding;
use ptx::ast::Span;
use ptx::diagnostic::{LineIndex, Location};

/// The output format of findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Each with its source line, carets, and help
    #[default]
    Full,
    /// One line each
    Concise,
    /// One array of objects
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Annotations of GitHub Actions
    Github,
}

/// The findings of one text.
#[derive(Clone, Copy)]
pub struct Findings<'f> {
    /// The file.
    pub file: &'f str,
    /// The file, and which part of it the text is.
    pub name: &'f str,
    pub lines: &'f LineIndex<'f>,
    pub found: &'f [Finding],
    /// What they were compiled from.
    pub origins: &'f Origins,
}

impl Findings<'_> {
    /// Whether the text is a part of a binary file: its lines are not lines of the file.
    fn is_part(&self) -> bool {
        self.name != self.file
    }

    /// What the PTX of a finding was compiled from; `None` outside of functions.
    fn origin(&self, finding: &Finding) -> Option<Origin<'_>> {
        self.origins.at(finding.span.start)
    }

    /// Message, help and origin; for a part of a file, also the place in the part.
    fn text(&self, finding: &Finding) -> String {
        let mut text = finding.message.clone();
        if let Some(help) = &finding.help {
            text = format!("{text}\n{help}");
        }
        if let Some(origin) = self.origin(finding) {
            text = format!("{text}\nin {origin}");
        }
        if self.is_part() {
            let Location { line, column, .. } = self.start(finding);
            text = format!("{text}\nin {}:{line}:{column}", self.name);
        }
        text
    }

    fn start(&self, finding: &Finding) -> Location {
        self.lines.locate(finding.span.start)
    }

    /// The location behind the last character.
    fn end(&self, Span { start, end }: Span) -> Location {
        self.lines.locate(end.max(start))
    }
}

impl Format {
    /// The text before all findings.
    pub fn head(self) -> String {
        match self {
            Format::Json => "[".to_owned(),
            Format::Sarif => sarif::head(),
            _ => String::new(),
        }
    }

    /// The findings of one text; empty if there are none.
    pub fn write(self, findings: Findings<'_>, colour: bool) -> String {
        match self {
            Format::Full => full::write(findings, colour),
            Format::Concise => concise::write(findings, colour),
            Format::Json => json::write(findings),
            Format::Sarif => sarif::write(findings),
            Format::Github => github::write(findings),
        }
    }

    /// The text between the findings of two texts.
    pub fn between(self) -> &'static str {
        match self {
            Format::Json | Format::Sarif => ",",
            Format::Full => "\n",
            _ => "",
        }
    }

    /// The text behind all findings.
    pub fn tail(self) -> String {
        match self {
            Format::Json => "\n]\n".to_owned(),
            Format::Sarif => sarif::TAIL.to_owned(),
            _ => String::new(),
        }
    }
}
