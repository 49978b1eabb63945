//! `// ptxcheck: disable=W0103`: comments that suppress findings.

mod add;

pub use add::add;

use std::collections::HashMap;

use super::selection::{UNUSED, codes as known, meaning};
use lint::{Code, Edit, Finding};
use ptx::ast::{Item, Module, Span};
use ptx::printer::comments::{Comment, comments};

const MARK: &str = "ptxcheck:";
const VERB: &str = "disable=";

/// Whether a text may have comments that suppress findings.
pub fn is_mentioned(source: &str) -> bool {
    memchr::memmem::find(source.as_bytes(), MARK.as_bytes()).is_some()
}

/// The comments of a text that suppress findings.
#[derive(Debug, Default)]
pub struct Suppressions {
    comments: Vec<Suppression>,
    /// Findings about invalid comments.
    invalid: Vec<Finding>,
}

#[derive(Debug)]
struct Suppression {
    /// The comment, with its line if there is nothing else on it.
    whole: Span,
    codes: Vec<Disabled>,
    /// Findings that begin in this span are suppressed.
    scope: Span,
}

/// `W0103` of `disable=W0103,P`.
#[derive(Debug)]
struct Disabled {
    prefix: String,
    span: Span,
    used: bool,
}

impl Suppressions {
    /// The comments of a text from which `module` was parsed.
    pub fn read(module: &Module<'_>, source: &str) -> Suppressions {
        let mut found = Suppressions::default();
        // Finding comments takes longer than searching the word.
        if !is_mentioned(source) {
            return found;
        }
        let all = comments(source);
        let places = Anchors::new(&all, module, source);
        for (index, comment) in all.iter().enumerate() {
            let text = &source[comment.span.start as usize..comment.span.end as usize];
            let Some(rest) = text.strip_prefix("//") else {
                continue;
            };
            let Some(rest) = rest.trim_start().strip_prefix(MARK) else {
                continue;
            };
            let Some(list) = rest.trim_start().strip_prefix(VERB) else {
                found.invalid.push(finding(
                    comment.span,
                    "the comment suppresses nothing",
                    WRITTEN,
                ));
                continue;
            };
            let codes = found.codes(list, source);
            if !codes.is_empty() {
                found.comments.push(Suppression {
                    whole: whole(comment, source),
                    codes,
                    scope: places.scope(index, comment),
                });
            }
        }
        found
    }

    /// Parses `W0103,P01 reason`: the text after the codes is a comment for readers.
    fn codes(&mut self, list: &str, source: &str) -> Vec<Disabled> {
        let mut codes = Vec::new();
        for part in list.split(',').map(str::trim) {
            let Some(word) = part.split_whitespace().next() else {
                break;
            };
            let start = (word.as_ptr() as usize - source.as_ptr() as usize) as u32;
            let span = Span {
                start,
                end: start + word.len() as u32,
            };
            match meaning(word) {
                Some(prefix) => codes.push(Disabled {
                    prefix,
                    span,
                    used: false,
                }),
                None => {
                    let message = format!("no code begins with `{}`", word.escape_debug());
                    self.invalid
                        .push(finding(span, message, "`ptxcheck rules` lists them"));
                }
            }
            if word.len() < part.len() {
                break;
            }
        }
        codes
    }

    /// Removes the findings that a comment suppresses.
    pub fn suppress(&mut self, found: &mut Vec<Finding>) {
        if self.comments.is_empty() {
            return;
        }
        // Both are in source order, so each finding is only compared with the comments of its scope.
        found.sort_by_key(|finding| finding.span.start);
        self.comments.sort_by_key(|comment| comment.scope.start);
        let (mut next, mut active) = (0, Vec::new());
        found.retain(|finding| {
            let at = finding.span.start;
            while let Some(comment) = self.comments.get(next)
                && comment.scope.start <= at
            {
                active.push(next);
                next += 1;
            }
            active.retain(|index| at < self.comments[*index].scope.end);
            let code = finding.code.to_string();
            let mut suppressed = false;
            for index in &active {
                for disabled in &mut self.comments[*index].codes {
                    if code.starts_with(&disabled.prefix) {
                        disabled.used = true;
                        suppressed = true;
                    }
                }
            }
            !suppressed
        });
    }

    /// The comments that suppressed none of the enabled codes.
    pub fn unused(self, looked_for: impl Fn(Code) -> bool) -> Vec<Finding> {
        let mut found = self.invalid;
        for Suppression { whole, codes, .. } in &self.comments {
            let unused: Vec<&Disabled> = codes
                .iter()
                .filter(|disabled| !disabled.used)
                .filter(|disabled| {
                    known().any(|code| code.begins_with(&disabled.prefix) && looked_for(code))
                })
                .collect();
            for (index, disabled) in unused.iter().enumerate() {
                let message = format!("`{}` suppresses nothing here", disabled.prefix);
                let mut finding = finding(disabled.span, message, "take it away");
                if unused.len() == codes.len() && index == 0 {
                    finding.fix([Edit {
                        span: *whole,
                        replacement: String::new(),
                    }]);
                }
                found.push(finding);
            }
        }
        found
    }
}

/// Help for an invalid comment.
const WRITTEN: &str = "write `// ptxcheck: disable=W0103`, with the codes to suppress";

fn finding(span: Span, message: impl Into<String>, help: &str) -> Finding {
    let mut finding = Finding::new(UNUSED.code, span, message);
    finding.help(help);
    finding
}

/// The span to remove with a comment: the blanks before it, and its line if there is nothing else
/// on it.
fn whole(comment: &Comment, source: &str) -> Span {
    let before = source[..comment.span.start as usize]
        .trim_end_matches([' ', '\t'])
        .len();
    let after = comment.span.end as usize;
    let line_end = source[after..]
        .find('\n')
        .map_or(source.len(), |length| after + length + 1);
    let end = if comment.trailing { after } else { line_end };
    Span {
        start: before as u32,
        end: end as u32,
    }
}

/// The anchors of comments in a text.
struct Anchors<'s> {
    source: &'s str,
    /// For each comment, the first byte after it that is neither blank nor in a comment.
    following: Vec<usize>,
    /// The functions, by their first byte.
    functions: HashMap<usize, Span>,
    /// The offset of `.version` or `.target`.
    head: Option<u32>,
}

impl<'s> Anchors<'s> {
    fn new(comments: &[Comment], module: &Module<'_>, source: &'s str) -> Anchors<'s> {
        let mut following = vec![0; comments.len()];
        let mut later: Option<(usize, usize)> = None;
        for (index, comment) in comments.iter().enumerate().rev() {
            let end = comment.span.end as usize;
            let next = source.len() - source[end..].trim_start().len();
            following[index] = match later {
                Some((start, following)) if next == start => following,
                _ => next,
            };
            later = Some((comment.span.start as usize, following[index]));
        }
        let functions = module.items.iter().filter_map(|item| match item {
            Item::Function(function) => Some((function.span.start as usize, function.span)),
            _ => None,
        });
        let head = [
            module.version.map(|(_, span)| span.start),
            module.target.first().map(|name| name.span(source).start),
        ];
        Anchors {
            source,
            following,
            functions: functions.collect(),
            head: head.into_iter().flatten().min(),
        }
    }

    /// The part of the text whose findings a comment suppresses.
    fn scope(&self, index: usize, comment: &Comment) -> Span {
        if comment.trailing {
            return line(self.source, comment.span.start as usize);
        }
        let next = self.following[index];
        if self.head.is_some_and(|head| next <= head as usize) {
            return Span {
                start: 0,
                end: u32::MAX,
            };
        }
        let function = self.functions.get(&next).copied();
        function.unwrap_or_else(|| line(self.source, next))
    }
}

/// The line of a byte.
fn line(source: &str, at: usize) -> Span {
    let start = source[..at].rfind('\n').map_or(0, |end| end + 1);
    let end = source[at..]
        .find('\n')
        .map_or(source.len(), |length| at + length + 1);
    Span {
        start: start as u32,
        end: end as u32,
    }
}
