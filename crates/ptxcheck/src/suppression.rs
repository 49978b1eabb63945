//! `// ptxcheck: disable=W0103`: comments that keep findings away.

use super::selection::{codes as known, meaning};
use lint::{Check, Code, Edit, Finding, Rule};
use ptx::ast::{Item, Module, Span};
use ptx::printer::comments::{Comment, comments};

/// A comment that suppresses nothing. No rule over a module finds it: what the
/// others find has to be known first.
pub static UNUSED: Rule = Rule {
    code: Code::new('W', 1),
    name: "unused-suppression",
    summary: "A comment suppresses a finding that there is not.",
    why: "What was once wrong here has been mended, or the comment stands elsewhere than it was \
          meant to. Left in place, it would hide the next mistake of its kind.",
    instead: "Take the comment away. Behind a statement it counts for its line, on a line of its \
              own for the next one; before a kernel or function for all of it, and before \
              `.version` for the whole file.",
    bad: "// ptxcheck: disable=W0103\n.entry k()\n{\n\tret;\n}\n",
    good: ".entry k()\n{\n\tret;\n}\n",
    default: true,
    check: Check::Module(|_, _| {}),
};

const MARK: &str = "ptxcheck:";
const VERB: &str = "disable=";

/// The comments of a text that suppress findings.
#[derive(Debug, Default)]
pub struct Suppressions {
    comments: Vec<Suppression>,
    /// Comments that were meant to, and cannot.
    wrong: Vec<Finding>,
}

#[derive(Debug)]
struct Suppression {
    /// The comment; with the line that it has for itself, if it has one.
    whole: Span,
    codes: Vec<Disabled>,
    /// Findings that begin here are suppressed.
    over: Span,
}

/// `W0103` of `disable=W0103,P`.
#[derive(Debug)]
struct Disabled {
    prefix: String,
    span: Span,
    used: bool,
}

impl Suppressions {
    /// Those of a text that `module` was read from.
    pub fn read(module: &Module<'_>, source: &str) -> Suppressions {
        let mut found = Suppressions::default();
        // Looking for comments takes longer than looking for the word.
        if !source.contains(MARK) {
            return found;
        }
        let all = comments(source);
        for (index, comment) in all.iter().enumerate() {
            let text = &source[comment.span.start as usize..comment.span.end as usize];
            let Some(said) = text.strip_prefix("//") else {
                continue;
            };
            let Some(said) = said.trim_start().strip_prefix(MARK) else {
                continue;
            };
            let Some(list) = said.trim_start().strip_prefix(VERB) else {
                found.wrong.push(finding(
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
                    over: over(&all[index..], module, source),
                });
            }
        }
        found
    }

    /// `W0103,P01 why that is`: what comes behind the first word is for people.
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
                    let message = format!("no code begins with `{word}`");
                    self.wrong
                        .push(finding(span, message, "`ptxcheck rules` lists them"));
                }
            }
            if word.len() < part.len() {
                break;
            }
        }
        codes
    }

    /// Whether a comment says that this finding is not wanted.
    pub fn suppress(&mut self, finding: &Finding) -> bool {
        let at = finding.span.start;
        let over = |comment: &&mut Suppression| comment.over.start <= at && at < comment.over.end;
        let mut suppressed = false;
        for comment in self.comments.iter_mut().filter(over) {
            for disabled in &mut comment.codes {
                if finding.code.begins_with(&disabled.prefix) {
                    disabled.used = true;
                    suppressed = true;
                }
            }
        }
        suppressed
    }

    /// Those that suppressed nothing of what was looked for.
    pub fn unused(self, looked_for: impl Fn(Code) -> bool) -> Vec<Finding> {
        let mut found = self.wrong;
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

/// How it is written.
const WRITTEN: &str = "write `// ptxcheck: disable=W0103`, with the codes that are not wanted";

fn finding(span: Span, message: impl Into<String>, help: &str) -> Finding {
    let mut finding = Finding::new(UNUSED.code, span, message);
    finding.help(help);
    finding
}

/// What is taken away with a comment: the blanks before it, and its line if
/// nothing else stands there.
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

/// What the first of `comments` counts for.
fn over(comments: &[Comment], module: &Module<'_>, source: &str) -> Span {
    let Some(comment) = comments.first() else {
        return Span::default();
    };
    let start = comment.span.start as usize;
    if comment.trailing {
        return line(source, start);
    }
    // What follows, past further comments.
    let mut at = comment.span.end as usize;
    for next in comments.iter().skip(1) {
        if !source[at..next.span.start as usize].trim().is_empty() {
            break;
        }
        at = next.span.end as usize;
    }
    let next = source.len() - source[at..].trim_start().len();
    let head = [
        module.version.map(|(_, span)| span.start),
        module.target.first().map(|name| name.span(source).start),
    ];
    let head = head.into_iter().flatten().min();
    if head.is_some_and(|head| next <= head as usize) {
        return Span {
            start: 0,
            end: u32::MAX,
        };
    }
    let item = module.items.iter().find_map(|item| match item {
        Item::Function(function) if function.span.start as usize == next => Some(function.span),
        _ => None,
    });
    item.unwrap_or_else(|| line(source, next))
}

/// The line that a byte lies on.
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
