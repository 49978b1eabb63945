//! Findings as `rustc` draws them: the line, carets below what it is about,
//! the cause, a hint.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Patch, Renderer, Snippet};

use lint::{Edit, Finding};
use ptx::ast::Span;
use ptx::diagnostic::{LineIndex, Severity};

/// The library looks at all of what it is given, and a whole module may stand
/// on one line: so many bytes of it are enough.
const SHOWN: usize = 400;

/// Of what goes over more lines, the first is drawn.
const LINES: u32 = 8;

/// Draws findings over one text.
pub struct Drawing<'a> {
    lines: &'a LineIndex<'a>,
    path: &'a str,
    renderer: Renderer,
}

impl<'a> Drawing<'a> {
    pub fn new(lines: &'a LineIndex<'a>, path: &'a str, colour: bool) -> Drawing<'a> {
        let renderer = match colour {
            true => Renderer::styled(),
            false => Renderer::plain(),
        };
        Drawing {
            lines,
            path,
            renderer,
        }
    }

    /// Ends in a line break.
    pub fn of(&self, finding: &Finding) -> String {
        let level = match finding.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let title = level
            .primary_title(&finding.message)
            .id(finding.code.to_string());
        let mut about = self.about(Group::with_title(title), finding.span);
        let mut mended = None;
        if let Some(help) = &finding.help {
            let patches = finding
                .fix
                .as_ref()
                .and_then(|fix| self.patches(&fix.edits));
            match patches {
                Some(patches) => mended = Some(Level::HELP.secondary_title(help).element(patches)),
                None => about = about.element(Level::HELP.message(help)),
            }
        }
        let groups: Vec<Group<'_>> = std::iter::once(about).chain(mended).collect();
        self.renderer.render(&groups) + "\n"
    }

    /// The line or lines of a span, with carets below it.
    fn about<'g>(&self, group: Group<'g>, span: Span) -> Group<'g>
    where
        'a: 'g,
    {
        let Shown {
            text,
            line,
            skipped,
        } = self.shown(span);
        let start = (span.start as usize).clamp(skipped, skipped + text.len()) - skipped;
        let end = (span.end as usize).clamp(skipped + start, skipped + text.len()) - skipped;
        // What draws takes no part of a character.
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
        // A line that is cut would give another column.
        match skipped == self.line_start(line) {
            true => group.element(snippet.path(self.path)),
            false => group.element(origin).element(snippet),
        }
    }

    /// The text as the edits make it; `None` where they are too far apart.
    fn patches<'e>(&self, edits: &'e [Edit]) -> Option<Snippet<'e, Patch<'e>>>
    where
        'a: 'e,
    {
        let whole = Span {
            start: edits.iter().map(|edit| edit.span.start).min()?,
            end: edits.iter().map(|edit| edit.span.end).max()?,
        };
        let Shown {
            text,
            line,
            skipped,
        } = self.shown(whole);
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

    /// The lines that a span lies on, or the part of the first around its start.
    fn shown(&self, span: Span) -> Shown<'a> {
        let source = self.lines.source();
        let first = self.lines.locate(span.start).line;
        let last = self.lines.locate(span.end.max(span.start)).line;
        let last = if last - first < LINES { last } else { first };
        let start = self.line_start(first);
        let end = self.line_start(last) + self.lines.text(last).len();
        if end - start <= SHOWN {
            return Shown {
                text: &source[start..end],
                line: first,
                skipped: start,
            };
        }
        let at = span.start as usize;
        let from = source.floor_char_boundary(at.saturating_sub(SHOWN / 4).max(start));
        let end = start + self.lines.text(first).len();
        let to = source.floor_char_boundary((from + SHOWN).min(end.max(from)));
        Shown {
            text: &source[from..to],
            line: first,
            skipped: from,
        }
    }
}

/// A part of the source.
struct Shown<'a> {
    text: &'a str,
    /// The line that it begins on, from 1.
    line: u32,
    /// Bytes of the source before it.
    skipped: usize,
}

/// A mistake in a file of settings.
pub fn of_config(text: &str, path: &str, span: Range<usize>, message: &str) -> String {
    let help = "`ptxcheck --help` explains the options, which have the same names here";
    let snippet = Snippet::source(text)
        .path(path)
        .annotation(AnnotationKind::Primary.span(span));
    let group = Level::ERROR.primary_title(message).element(snippet);
    Renderer::plain().render(&[group.element(Level::HELP.message(help))])
}
