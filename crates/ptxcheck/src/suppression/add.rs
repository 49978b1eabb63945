//! `--add-suppressions`: comments for the findings that there are.

use std::collections::{BTreeMap, BTreeSet};

use super::{MARK, VERB};
use crate::selection::UNUSED;
use lint::{Code, Finding};
use ptx::diagnostic::LineIndex;
use ptx::printer::comments::{Comment, comments};

/// The text with a comment at each line with findings of rules that suppresses them, and the number
/// of these findings. Errors stay: a comment does not make ptxas accept them.
pub fn add(source: &str, found: &[Finding]) -> (String, usize) {
    let wanted = |finding: &&Finding| finding.code.letter() != 'E' && finding.code != UNUSED.code;
    let mut wanted = found.iter().filter(wanted).peekable();
    if wanted.peek().is_none() {
        return (source.to_owned(), 0);
    }
    let (comments, lines) = (comments(source), LineIndex::new(source));
    let mut codes: BTreeMap<u32, BTreeSet<Code>> = BTreeMap::new();
    let mut places = BTreeMap::new();
    let mut count = 0;
    for finding in wanted {
        let line = lines.locate(finding.span.start).line;
        let place = places
            .entry(line)
            .or_insert_with(|| place(source, lines.text(line), &comments));
        // A comment within a comment is none, and one on a line of its own is for the next.
        if place.is_some() && around(&comments, finding.span.start as usize).is_none() {
            codes.entry(line).or_default().insert(finding.code);
            count += 1;
        }
    }
    let (mut text, mut at) = (String::with_capacity(source.len()), 0);
    for (line, codes) in codes {
        let Some(Some((place, before, after))) = places.get(&line) else {
            continue;
        };
        let codes: Vec<String> = codes.iter().map(Code::to_string).collect();
        text += &source[at..*place];
        text += &format!("{before}{}{after}", codes.join(","));
        at = *place;
    }
    text += &source[at..];
    (text, count)
}

/// Where codes go on a line, and what stands around them; `None` if the line ends within a comment
/// that goes on.
fn place(source: &str, line: &str, comments: &[Comment]) -> Option<(usize, String, &'static str)> {
    let end = line.as_ptr() as usize - source.as_ptr() as usize + line.len();
    let new = |at| Some((at, format!(" // {MARK} {VERB}"), ""));
    let Some(last) = around(comments, end.saturating_sub(1)) else {
        return new(end);
    };
    let behind = last.span.start as usize + 2;
    if !source.get(..behind)?.ends_with("//") {
        return new(end).filter(|_| last.span.end as usize <= end);
    }
    let list = source.get(behind..end)?.trim_start().strip_prefix(MARK);
    match list.and_then(|rest| rest.trim_start().strip_prefix(VERB)) {
        Some(list) => Some((end - list.len(), String::new(), ",")),
        None => Some((behind, format!(" {MARK} {VERB}"), "")),
    }
}

/// The comment that a byte is of.
fn around(comments: &[Comment], at: usize) -> Option<&Comment> {
    let next = comments.partition_point(|comment| comment.span.end as usize <= at);
    comments
        .get(next)
        .filter(|comment| comment.span.start as usize <= at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptx::ast::Span;

    /// After comments for a finding of these codes at each place of `!`.
    fn added(marked: &str, codes: &[u16]) -> String {
        let source = marked.replace('!', "");
        let places = marked.match_indices('!').enumerate();
        let found = places.flat_map(|(before, (at, _))| {
            let start = (at - before) as u32;
            let span = Span {
                start,
                end: start + 1,
            };
            let finding = move |code: &u16| Finding::new(Code::new('W', *code), span, "");
            codes.iter().map(finding).collect::<Vec<_>>()
        });
        add(&source, &found.collect::<Vec<_>>()).0
    }

    #[test]
    fn codes_go_to_the_end_of_the_line() {
        for (marked, wanted) in [
            ("!a;\nb;", "a; // ptxcheck: disable=W0103\nb;"),
            ("!a; !b;\r\nc;", "a; b; // ptxcheck: disable=W0103\r\nc;"),
            ("!a;", "a; // ptxcheck: disable=W0103"),
            ("!a; // why\n", "a; // ptxcheck: disable=W0103 why\n"),
            (
                "!a; /* x */\n// y",
                "a; /* x */ // ptxcheck: disable=W0103\n// y",
            ),
            (
                "!a; // ptxcheck: disable=P why\n",
                "a; // ptxcheck: disable=W0103,P why\n",
            ),
            // No place on the line, or none that is for it alone.
            ("!a; /* x\n*/", "a; /* x\n*/"),
            ("// !a\nb;", "// a\nb;"),
            ("/* !a */\nb;", "/* a */\nb;"),
        ] {
            assert_eq!(added(marked, &[103]), wanted);
        }
        assert_eq!(
            added("!a;", &[205, 103, 103]),
            "a; // ptxcheck: disable=W0103,W0205"
        );
        // Neither errors nor comments that suppress nothing.
        assert_eq!(added("!a;", &[1]), "a;");
    }
}
