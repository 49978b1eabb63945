//! The findings of a text as a page has them.

use serde::Serialize;

use super::text::Places;
use crate::origin::Origins;
use lint::{Edit, Finding, Fix};
use ptx::diagnostic::Severity;

/// One finding.
#[derive(Serialize)]
pub struct Found<'t> {
    code: String,
    severity: &'static str,
    message: &'t str,
    line: u32,
    /// Offsets in the text.
    start: u32,
    end: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<&'t str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<Mend>,
    /// The line of CUDA or Python.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// Where that was inlined.
    #[serde(skip_serializing_if = "Option::is_none")]
    inlined_at: Option<String>,
}

/// A fix.
#[derive(Serialize)]
struct Mend {
    safe: bool,
    hunks: Vec<Hunk>,
}

/// Lines that a fix changes.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Hunk {
    /// The first.
    line: u32,
    old: Vec<String>,
    new: Vec<String>,
}

/// More lines of a fix, or longer ones, are not shown: then the help has to do.
const MAX_CHANGED: usize = 4000;

pub fn found<'t>(finding: &'t Finding, places: &Places<'_>, origins: &Origins) -> Found<'t> {
    let span = finding.span;
    let origin = origins.at(span.start);
    let line = |line: Option<crate::origin::SourceLine<'_>>| line.map(|line| line.to_string());
    Found {
        code: finding.code.to_string(),
        severity: match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        },
        message: &finding.message,
        line: places.line(span.start),
        start: places.offset(span.start),
        end: places.offset(span.end.max(span.start)),
        help: finding.help.as_deref(),
        fix: finding.fix.as_ref().and_then(|fix| mend(fix, places)),
        from: line(origin.and_then(|origin| origin.line)),
        inlined_at: line(origin.and_then(|origin| origin.inlined_at)),
    }
}

/// `None` for one that changes too much to be shown.
fn mend(fix: &Fix, places: &Places<'_>) -> Option<Mend> {
    let mut edits: Vec<&Edit> = fix.edits.iter().collect();
    edits.sort_by_key(|edit| (edit.span.start, edit.span.end));
    let mut hunks: Vec<(u32, u32, Vec<&Edit>)> = Vec::new();
    for edit in edits {
        let (first, last) = (places.line(edit.span.start), places.line(edit.span.end));
        match hunks.last_mut() {
            Some((_, end, edits)) if first <= *end => {
                *end = last.max(*end);
                edits.push(edit);
            }
            _ => hunks.push((first, last, vec![edit])),
        }
    }
    let hunks = hunks
        .iter()
        .map(|(first, last, edits)| hunk(*first, *last, edits, places));
    Some(Mend {
        safe: fix.safe,
        hunks: hunks.collect::<Option<Vec<Hunk>>>()?,
    })
}

/// Lines before and after the edits in them.
fn hunk(first: u32, last: u32, edits: &[&Edit], places: &Places<'_>) -> Option<Hunk> {
    let source = places.lines.source();
    let at = |text: &str| text.as_ptr() as usize - source.as_ptr() as usize;
    let (first_line, last_line) = (places.lines.text(first), places.lines.text(last));
    let (start, end) = (at(first_line), at(last_line) + last_line.len());
    let old = source
        .get(start..end)
        .filter(|old| old.len() <= MAX_CHANGED)?;
    let (mut new, mut done) = (String::new(), start);
    for edit in edits {
        new += source.get(done..edit.span.start as usize)?;
        new += &edit.replacement;
        done = edit.span.end as usize;
    }
    // An edit may take the line break with it.
    let rest = source.get(done..end.max(done))?;
    new += rest;
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<String>>();
    let (mut line, mut old, mut new) = (first, lines(old), lines(&new));
    while !old.is_empty() && old.first() == new.first() {
        old.remove(0);
        new.remove(0);
        line += 1;
    }
    while !old.is_empty() && old.last() == new.last() {
        old.pop();
        new.pop();
    }
    Some(Hunk { line, old, new })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptx::ast::Span;

    fn hunks(source: &str, edits: &[(u32, u32, &str)]) -> Vec<Hunk> {
        let edit = |(start, end, text): &(u32, u32, &str)| Edit {
            span: Span {
                start: *start,
                end: *end,
            },
            replacement: (*text).to_owned(),
        };
        let fix = Fix {
            edits: edits.iter().map(edit).collect(),
            safe: true,
        };
        mend(&fix, &Places::new(source)).unwrap().hunks
    }

    fn hunk(line: u32, old: &[&str], new: &[&str]) -> Hunk {
        let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        Hunk {
            line,
            old: owned(old),
            new: owned(new),
        }
    }

    #[test]
    fn a_fix_is_the_lines_that_it_changes() {
        let source = "ab\ncd\nef\ngh\n";
        assert_eq!(hunks(source, &[(3, 4, "X")]), [hunk(2, &["cd"], &["Xd"])]);
        // Edits of one line are one hunk, those of others are others.
        assert_eq!(
            hunks(source, &[(9, 10, "Y"), (0, 1, "X"), (1, 2, "Z")]),
            [hunk(1, &["ab"], &["XZ"]), hunk(4, &["gh"], &["Yh"])]
        );
        assert_eq!(hunks(source, &[(2, 2, "\n\tx")]), [hunk(2, &[], &["\tx"])]);
        // A line that goes with its line break.
        assert_eq!(hunks(source, &[(3, 6, "")]), [hunk(2, &["cd"], &[])]);
        assert_eq!(hunks("a", &[(0, 1, "b")]), [hunk(1, &["a"], &["b"])]);
    }
}
