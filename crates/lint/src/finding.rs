//! Findings: what a rule reports, where, and how to fix it.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::str::FromStr;

use super::rule::Rule;
use ptx::ast::Span;
use ptx::diagnostic::{self, Diagnostic, Severity};

/// The stable number of a finding, written `W0103`.
///
/// ```
/// use ptxkit_lint::Code;
/// let code: Code = "W0103".parse().unwrap();
/// assert!(code.begins_with("W") && code.begins_with("W01") && !code.begins_with("P"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code {
    letter: char,
    number: u16,
}

impl Code {
    /// `Code::new('W', 103)` is `W0103`.
    pub const fn new(letter: char, number: u16) -> Code {
        Code { letter, number }
    }

    /// `E` for errors of ptxas, `W`, `P` or `D`.
    pub const fn letter(self) -> char {
        self.letter
    }

    /// The number without the letter.
    pub const fn number(self) -> u16 {
        self.number
    }

    /// Whether it has this prefix: `W`, `W01`, `W0103`.
    pub fn begins_with(self, prefix: &str) -> bool {
        self.to_string().starts_with(prefix)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}{:04}", self.letter, self.number))
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error for a text that is not a [`Code`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseCodeError {
    text: String,
}

impl fmt::Display for ParseCodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a code: a code is a letter and four digits, such as `W0103`",
            self.text
        )
    }
}

impl std::error::Error for ParseCodeError {}

impl FromStr for Code {
    type Err = ParseCodeError;

    fn from_str(text: &str) -> Result<Code, ParseCodeError> {
        let read = || {
            let letter = text.chars().next().filter(char::is_ascii_uppercase)?;
            let digits = &text[1..];
            let four = digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_digit());
            let number = four.then(|| digits.parse().ok()).flatten()?;
            Some(Code { letter, number })
        };
        read().ok_or_else(|| ParseCodeError {
            text: text.to_owned(),
        })
    }
}

impl From<diagnostic::Code> for Code {
    fn from(code: diagnostic::Code) -> Code {
        Code::new('E', code.number())
    }
}

/// One finding: an error of ptxas, or a warning of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The stable code, independent of the wording.
    pub code: Code,
    /// Errors of ptxas are errors, findings of rules are warnings.
    pub severity: Severity,
    /// One line, without the location and the code.
    pub message: String,
    /// The span in the source.
    pub span: Span,
    /// One line with the fix.
    pub help: Option<String>,
    /// A change of the text that fixes it.
    pub fix: Option<Fix>,
}

impl Finding {
    /// A warning without help or fix.
    pub fn new(code: Code, span: Span, message: impl Into<String>) -> Finding {
        Finding {
            code,
            severity: Severity::Warning,
            message: message.into(),
            span,
            help: None,
            fix: None,
        }
    }

    /// Sets the help line.
    pub fn help(&mut self, help: impl Into<String>) -> &mut Self {
        self.help = Some(help.into());
        self
    }

    /// Sets the fix. It must be safe: the fixed code has the same behaviour, or the clearly intended
    /// one.
    pub fn fix(&mut self, edits: impl Into<Vec<Edit>>) -> &mut Self {
        self.fix = Some(Fix {
            edits: edits.into(),
            safe: true,
        });
        self
    }

    /// Adds a fix that may change what the code does: the help says when. It is applied only where
    /// the user asks for such fixes.
    pub fn unsafe_fix(&mut self, edits: impl Into<Vec<Edit>>) -> &mut Self {
        self.fix = Some(Fix {
            edits: edits.into(),
            safe: false,
        });
        self
    }
}

impl From<Diagnostic> for Finding {
    fn from(diagnostic: Diagnostic) -> Finding {
        Finding {
            code: diagnostic.code.into(),
            severity: diagnostic.severity,
            message: diagnostic.message,
            span: diagnostic.span,
            help: diagnostic.help,
            fix: None,
        }
    }
}

/// A set of edits, applied all or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// They do not overlap.
    pub edits: Vec<Edit>,
    /// The code does afterwards what it did, or what it was clearly meant to do.
    pub safe: bool,
}

/// A replacement of a part of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Bytes of the source; an empty span is a place between two bytes.
    pub span: Span,
    /// Empty to remove the text.
    pub replacement: String,
}

/// The findings of the rules, with a limit for each rule. Those beyond it are only counted.
#[derive(Debug)]
pub struct Findings {
    found: Vec<Finding>,
    limit: usize,
    /// The number of findings of each rule, the dropped ones too.
    counts: BTreeMap<Code, usize>,
    /// The places of the findings that are added once.
    told: HashSet<(Code, u32)>,
    /// How often a rule had something to say, whether or not that was added.
    said: usize,
    /// The findings that hold unless something refutes them, each with what would.
    pending: Vec<(Vec<u32>, Finding)>,
    /// What was refuted, of each rule.
    refuted: HashSet<(Code, u32)>,
    code: Code,
    /// A placeholder for findings beyond the limit.
    dropped: Finding,
}

impl Findings {
    /// An empty list that keeps the first `limit` findings of each rule.
    pub fn with_limit(limit: usize) -> Findings {
        let code = Code::new('W', 0);
        Findings {
            found: Vec::new(),
            limit,
            counts: BTreeMap::new(),
            told: HashSet::new(),
            said: 0,
            pending: Vec::new(),
            refuted: HashSet::new(),
            code,
            dropped: Finding::new(code, Span::default(), ""),
        }
    }

    /// Sets the rule of the findings that are added next.
    pub(super) fn of(&mut self, rule: &Rule) -> &mut Self {
        self.code = rule.code;
        self
    }

    /// Adds a finding of the current rule; help and a fix can be added to the result.
    pub fn add(&mut self, span: Span, message: impl Into<String>) -> &mut Finding {
        self.said += 1;
        let count = self.counts.entry(self.code).or_default();
        *count += 1;
        if *count > self.limit {
            return &mut self.dropped;
        }
        self.found.push(Finding::new(self.code, span, message));
        // Not empty: one was just added.
        self.found.last_mut().unwrap_or(&mut self.dropped)
    }

    /// Adds a finding, unless the current rule has one of this place: what several
    /// functions show of one variable is said once.
    pub fn add_once(&mut self, span: Span, message: impl Into<String>) -> &mut Finding {
        if self.told.insert((self.code, span.start)) {
            self.add(span, message)
        } else {
            self.said += 1;
            &mut self.dropped
        }
    }

    /// Adds a finding of the current rule that is none where the rule [refutes](Self::refute)
    /// one of these, before or after: it depends on other functions.
    pub(super) fn add_unless(
        &mut self,
        refutations: &[u32],
        span: Span,
        message: impl Into<String>,
    ) -> &mut Finding {
        self.said += 1;
        let finding = Finding::new(self.code, span, message);
        self.pending.push((refutations.to_vec(), finding));
        match self.pending.last_mut() {
            Some((_, finding)) => finding,
            None => &mut self.dropped,
        }
    }

    /// Refutes findings of the current rule, by a number that the rule chooses.
    pub(super) fn refute(&mut self, refutation: u32) {
        self.said += 1;
        self.refuted.insert((self.code, refutation));
    }

    /// Adds the findings that nothing has refuted, if all functions were looked at: one of the
    /// others might.
    pub(super) fn settle(&mut self, all: bool) {
        for (refutations, finding) in std::mem::take(&mut self.pending) {
            let code = finding.code;
            let mut known = refutations.iter().map(|one| (code, *one));
            if all && !known.any(|one| self.refuted.contains(&one)) {
                let span = finding.span;
                self.code = code;
                *self.add(span, "") = finding;
            }
        }
        self.refuted.clear();
    }

    /// How often a rule had something to say.
    pub(super) fn said(&self) -> usize {
        self.said
    }

    /// The number of findings that were dropped, by code.
    pub fn omitted(&self) -> impl Iterator<Item = (Code, usize)> {
        let beyond = self.counts.iter().filter(|(_, count)| **count > self.limit);
        beyond.map(|(code, count)| (*code, *count - self.limit))
    }

    /// The findings in source order.
    pub fn into_vec(mut self) -> Vec<Finding> {
        self.found
            .sort_by_key(|f| (f.span.start, f.code, f.span.end));
        self.found
    }
}
