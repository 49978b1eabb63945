//! Renders findings as `rustc` does: the source line, carets below the span, the
//! message, help.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Patch, Renderer, Snippet};

use lint::{Edit, Finding};
use ptx::ast::Span;
use ptx::diagnostic::{LineIndex, Severity};

/// The maximum size of an excerpt in bytes. The time of the renderer grows with it, and a module may
/// consist of one line.
const MAX_EXCERPT: usize = 400;

/// The maximum number of lines. A longer span is truncated to its first line.
const MAX_LINES: u32 = 8;

/// Renders the findings of one text.
pub struct Drawing<'a> {
    lines: &'a LineIndex<'a>,
    path: &'a str,
    renderer: Renderer,
}

impl<'a> Drawing<'a> {
    pub fn new(lines: &'a LineIndex<'a>, path: &'a str, colour: bool) -> Drawing<'a> {
        let renderer = if colour {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        Drawing {
            lines,
            path,
            renderer,
        }
    }

    /// One finding, with a note where there is one and a line break at the end.
    pub fn of(&self, finding: &Finding, note: Option<&str>) -> String {
        let level = match finding.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let title = level
            .primary_title(&finding.message)
            .id(finding.code.to_string());
        let mut about = self.about(Group::with_title(title), finding.span);
        about = about.elements(note.map(|note| Level::NOTE.message(note)));
        let mut fixed = None;
        if let Some(help) = &finding.help {
            let patches = finding
                .fix
                .as_ref()
                .and_then(|fix| self.patches(&fix.edits));
            match patches {
                Some(patches) => fixed = Some(Level::HELP.secondary_title(help).element(patches)),
                None => about = about.element(Level::HELP.message(help)),
            }
        }
        let groups: Vec<Group<'_>> = std::iter::once(about).chain(fixed).collect();
        self.renderer.render(&groups) + "\n"
    }

    /// The lines of a span, with carets below it.
    fn about<'g>(&self, group: Group<'g>, span: Span) -> Group<'g>
    where
        'a: 'g,
    {
        let Excerpt {
            text,
            line,
            skipped,
        } = self.excerpt(span);
        let start = (span.start as usize).clamp(skipped, skipped + text.len()) - skipped;
        let end = (span.end as usize).clamp(skipped + start, skipped + text.len()) - skipped;
        // The renderer needs offsets at character boundaries.
        let (start, end) = (
            text.floor_char_boundary(start),
            text.ceil_char_boundary(end),
        );
        let place = self.lines.locate(span.start);
        let origin = Origin::path(self.path)
            .line(place.line as usize)
            .char_column(place.column as usize);
        let snippet = Snippet::source(text)
            .line_start(line as usize)
            .annotation(AnnotationKind::Primary.span(start..end));
        // The renderer would compute a wrong column for a truncated line.
        if skipped == self.line_start(line) {
            group.element(snippet.path(self.path))
        } else {
            group.element(origin).element(snippet)
        }
    }

    /// The text after the edits; `None` if they are too far apart.
    fn patches<'e>(&self, edits: &'e [Edit]) -> Option<Snippet<'e, Patch<'e>>>
    where
        'a: 'e,
    {
        let whole = Span {
            start: edits.iter().map(|edit| edit.span.start).min()?,
            end: edits.iter().map(|edit| edit.span.end).max()?,
        };
        let Excerpt {
            text,
            line,
            skipped,
        } = self.excerpt(whole);
        if skipped != self.line_start(line) || (whole.end as usize) > skipped + text.len() {
            return None;
        }
        let patches = edits.iter().map(|edit| {
            let span = edit.span.start as usize - skipped..edit.span.end as usize - skipped;
            Patch::new(span, edit.replacement.as_str())
        });
        Some(
            Snippet::source(text)
                .line_start(line as usize)
                .patches(patches),
        )
    }

    fn line_start(&self, line: u32) -> usize {
        self.lines.text(line).as_ptr() as usize - self.lines.source().as_ptr() as usize
    }

    /// The lines of a span, or the part of the first line around its start.
    fn excerpt(&self, span: Span) -> Excerpt<'a> {
        let source = self.lines.source();
        let first = self.lines.locate(span.start).line;
        let last = self.lines.locate(span.end.max(span.start)).line;
        let last = if last - first < MAX_LINES {
            last
        } else {
            first
        };
        let start = self.line_start(first);
        let end = self.line_start(last) + self.lines.text(last).len();
        if end - start <= MAX_EXCERPT {
            return Excerpt {
                text: &source[start..end],
                line: first,
                skipped: start,
            };
        }
        let at = span.start as usize;
        let from = source.floor_char_boundary(at.saturating_sub(MAX_EXCERPT / 4).max(start));
        let end = start + self.lines.text(first).len();
        let to = source.floor_char_boundary((from + MAX_EXCERPT).min(end.max(from)));
        Excerpt {
            text: &source[from..to],
            line: first,
            skipped: from,
        }
    }
}

/// An excerpt of the source.
struct Excerpt<'a> {
    text: &'a str,
    /// The number of its first line, from 1.
    line: u32,
    /// The number of bytes of the source before it.
    skipped: usize,
}

/// An error in a configuration file.
pub fn of_config(text: &str, path: &str, span: Range<usize>, message: &str) -> String {
    let help = "`ptxcheck --help` explains the options, which have the same names here";
    let snippet = Snippet::source(text)
        .path(path)
        .annotation(AnnotationKind::Primary.span(span));
    let group = Level::ERROR.primary_title(message).element(snippet);
    Renderer::plain().render(&[group.element(Level::HELP.message(help))])
}
