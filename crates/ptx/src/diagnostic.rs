//! Diagnostics: codes, messages, spans, and their display.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::OnceLock;

use super::ast::Span;

/// The default limit of a [`Report`], so that random bytes cannot fill the memory.
pub const MAX_DIAGNOSTICS: usize = 20_000;

/// The limit for comparisons of names. One takes about a microsecond.
const MAX_COMPARISONS: usize = 200_000;

macro_rules! codes {
    ($($(#[$meta:meta])* $variant:ident $number:literal)*) => {
        /// The stable code of a diagnostic, written `E0101`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Code { $($(#[$meta])* $variant),* }

        impl Code {
            /// All codes, in numeric order.
            pub const ALL: &'static [Code] = &[$(Code::$variant),*];

            /// The number without the letter.
            pub const fn number(self) -> u16 {
                match self { $(Code::$variant => $number),* }
            }
        }
    };
}

codes! {
    /// A byte that does not start a token.
    Character 1
    /// An unterminated comment or string.
    Unterminated 2
    /// A malformed or too large number.
    Number 3
    /// A syntax error.
    Syntax 4
    /// A missing `;`.
    Semicolon 5
    /// An unmatched brace.
    Brace 6
    /// A limit of the parser is exceeded.
    Limit 7
    /// A missing `.version`.
    MissingVersion 10
    /// A missing `.target`.
    MissingTarget 11
    /// An unknown `.target`.
    UnknownTarget 12
    /// An unknown `.version`.
    UnknownVersion 13
    /// An unknown opcode.
    UnknownOpcode 101
    /// An unknown modifier.
    UnknownModifier 102
    /// A modifier that the instruction does not take, or not in this position.
    Form 103
    /// A missing modifier, such as a rounding mode or type.
    MissingModifier 104
    /// A directive in a wrong position.
    UnknownDirective 105
    /// An undeclared name.
    Undeclared 201
    /// A duplicate declaration in one scope.
    Duplicate 202
    /// A wrong number of operands.
    OperandCount 301
    /// An operand of a wrong kind.
    OperandKind 302
    /// An operand of a wrong type.
    OperandType 303
    /// A guard that is not a predicate register.
    Guard 304
    /// An address in a wrong state space.
    StateSpace 305
    /// A call that does not match the signature of the function.
    Call 306
    /// A constant out of range.
    Range 307
    /// An instruction that needs a newer `.version`.
    VersionFloor 401
    /// An instruction that the `.target` does not support.
    TargetFloor 402
    /// A function without a definition.
    Unresolved 501
    /// Too much shared or constant memory.
    TooMuchMemory 502
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E{:04}", self.number())
    }
}

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Suspicious, but valid.
    Warning,
    /// The module cannot be compiled.
    Error,
}

/// An error or warning at a span, with the fix if it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The stable code. Compare this instead of the message, whose wording may change.
    pub code: Code,
    /// Whether the module can still be compiled.
    pub severity: Severity,
    /// One line, without the location and the code.
    pub message: String,
    /// The span in the source.
    pub span: Span,
    /// One line with the fix: "did you mean `ret`?"
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error without help.
    pub fn new(code: Code, span: Span, message: impl Into<String>) -> Self {
        Diagnostic {
            code,
            severity: Severity::Error,
            message: message.into(),
            span,
            help: None,
        }
    }

    /// Sets the help line.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// A list of diagnostics with a limit. Those beyond the limit are only counted.
///
/// ```
/// use ptxkit_ptx::{check_into, read_into, CheckOptions, diagnostic::Report};
///
/// let source = ".version 8.0\n.target sm_80\n.entry k() { rte; rte; rte; }";
/// let mut report = Report::with_limit(1);
/// let module = read_into(source, &mut report);
/// check_into(&module, source, &CheckOptions::default(), &mut report);
/// assert_eq!(report.omitted().map(|(_, count)| count).sum::<usize>(), 2);
/// assert_eq!(report.into_vec().len(), 1);
/// ```
#[derive(Debug)]
pub struct Report {
    found: Vec<Diagnostic>,
    limit: usize,
    omitted: BTreeMap<Code, usize>,
    /// The remaining number of comparisons of names.
    comparisons: usize,
}

impl Default for Report {
    fn default() -> Report {
        Report::with_limit(MAX_DIAGNOSTICS)
    }
}

impl Report {
    /// An empty report that keeps the first `limit` diagnostics.
    pub fn with_limit(limit: usize) -> Report {
        Report {
            found: Vec::new(),
            limit,
            omitted: BTreeMap::new(),
            comparisons: MAX_COMPARISONS,
        }
    }

    /// Adds a diagnostic, or counts it if the report is full.
    pub fn add(&mut self, diagnostic: Diagnostic) {
        if self.found.len() < self.limit {
            self.found.push(diagnostic);
        } else {
            *self.omitted.entry(diagnostic.code).or_default() += 1;
        }
    }

    /// Adds the diagnostics and the omitted counts of another report.
    pub(crate) fn append(&mut self, other: Report) {
        for diagnostic in other.found {
            self.add(diagnostic);
        }
        for (code, count) in other.omitted {
            *self.omitted.entry(code).or_default() += count;
        }
    }

    /// Whether to compute suggestions. They are omitted after some hundred errors, as comparing
    /// every name with each wrong one takes too long.
    pub fn wants_suggestions(&self) -> bool {
        const ENOUGH: usize = 200;
        self.found.len() < ENOUGH
    }

    /// Like [`wants_suggestions`](Self::wants_suggestions), for a comparison with `names` names.
    /// The total number of comparisons is bounded, whatever the number of declarations.
    pub fn wants_suggestions_among(&mut self, names: usize) -> bool {
        let wanted = self.wants_suggestions() && self.comparisons > 0;
        if wanted {
            self.comparisons = self.comparisons.saturating_sub(names);
        }
        wanted
    }

    /// The number of diagnostics that were dropped, by code.
    pub fn omitted(&self) -> impl Iterator<Item = (Code, usize)> {
        self.omitted.iter().map(|(code, count)| (*code, *count))
    }

    /// The diagnostics in source order.
    pub fn into_vec(mut self) -> Vec<Diagnostic> {
        self.found.sort_by_key(|d| (d.span.start, d.code));
        self.found
    }
}

/// A source location as excerpt by editors: line and column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    /// From 1.
    pub line: u32,
    /// From 1, in characters; a tab counts as one.
    pub column: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// An index of line starts, to convert byte offsets to locations.
///
/// ```
/// use ptxkit_ptx::diagnostic::LineIndex;
/// let lines = LineIndex::new("a\nbc\n");
/// assert_eq!(lines.locate(3).to_string(), "2:2");
/// ```
#[derive(Clone, Debug)]
pub struct LineIndex<'a> {
    source: &'a str,
    starts: Vec<u32>,
    /// The number of characters before byte 0, [`STEP`], 2 × [`STEP`] …, and in the whole source.
    /// A module may consist of one line, and a column must not cost a scan of it. Computed at the
    /// first long line.
    characters_before: OnceLock<Vec<u32>>,
}

/// The distance in bytes between two entries of `characters_before`.
const STEP: usize = 1024;

/// Counts characters: every byte other than a UTF-8 continuation byte starts one.
fn characters(bytes: &[u8]) -> u32 {
    bytes.iter().filter(|b| **b & 0xC0 != 0x80).count() as u32
}

impl<'a> LineIndex<'a> {
    /// Scans the source once. Reuse the index for several lookups.
    pub fn new(source: &'a str) -> Self {
        let ends = source.bytes().enumerate().filter(|(_, b)| *b == b'\n');
        let starts = std::iter::once(0)
            .chain(ends.map(|(at, _)| at as u32 + 1))
            .collect();
        LineIndex {
            source,
            starts,
            characters_before: OnceLock::new(),
        }
    }

    /// The number of characters before a byte. `offset` is at most the length of the source.
    fn characters_before(&self, offset: usize) -> u32 {
        let bytes = self.source.as_bytes();
        let before = self.characters_before.get_or_init(|| {
            let mut before = vec![0];
            for chunk in bytes.chunks(STEP) {
                before.push(before.last().copied().unwrap_or(0) + characters(chunk));
            }
            before
        });
        let step = offset / STEP;
        before[step] + characters(&bytes[step * STEP..offset])
    }

    /// The indexed source.
    pub fn source(&self) -> &'a str {
        self.source
    }

    /// The location of a byte. An offset past the end is clamped.
    pub fn locate(&self, offset: u32) -> Location {
        let line = self.line(offset);
        let start = self.starts[line - 1] as usize;
        let offset = (offset as usize).min(self.source.len());
        let start = start.min(offset);
        let column = match offset - start {
            0..=STEP => characters(&self.source.as_bytes()[start..offset]),
            _ => self.characters_before(offset) - self.characters_before(start),
        };
        Location {
            line: line as u32,
            column: column + 1,
        }
    }

    /// The line of a byte, from 1. `starts` begins with 0, so there always is one.
    fn line(&self, offset: u32) -> usize {
        self.starts.partition_point(|start| *start <= offset)
    }

    /// The text of a line, from 1, without the line break; empty past the last line.
    pub fn text(&self, line: u32) -> &'a str {
        let Some(index) = (line as usize).checked_sub(1) else {
            return "";
        };
        let Some(start) = self.starts.get(index) else {
            return "";
        };
        let end = self
            .starts
            .get(index + 1)
            .map_or(self.source.len(), |next| *next as usize - 1);
        self.source[*start as usize..end].trim_end_matches('\r')
    }
}

/// Renders a diagnostic with its source line and carets below the span.
///
/// `path` is the displayed name of the source: a file name, `<stdin>` …
pub fn render(source: &str, path: &str, diagnostic: &Diagnostic) -> String {
    draw(&LineIndex::new(source), path, diagnostic)
}

/// The maximum number of characters excerpt of a line: a module may consist of one line.
const MAX_SHOWN: usize = 200;

/// The maximum number of characters of the name of a source, which each diagnostic repeats.
const MAX_NAME: usize = 4096;

/// Replaces control characters, which could change the state of the terminal, by symbols.
fn printable(c: char) -> char {
    match c {
        '\t' => c,
        '\0'..='\x1f' => char::from_u32(0x2400 + c as u32).unwrap_or(c),
        '\x7f' => '\u{2421}',
        _ if c.is_control() => char::REPLACEMENT_CHARACTER,
        _ => c,
    }
}

fn draw(lines: &LineIndex<'_>, path: &str, diagnostic: &Diagnostic) -> String {
    let Diagnostic {
        code,
        span,
        message,
        ..
    } = diagnostic;
    let path: String = path.chars().take(MAX_NAME).map(printable).collect();
    let severity = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let place = lines.locate(span.start);
    let number = place.line.to_string();
    let margin = " ".repeat(number.len());
    let line = lines.text(place.line);
    // The offset within the line, which may be that of the `\r` at its end.
    let start = lines.starts[place.line as usize - 1];
    let at = line.floor_char_boundary((span.start - start.min(span.start)) as usize);
    // Of a long line, show the part around the offset.
    let from = match line.chars().nth(MAX_SHOWN) {
        Some(_) => line[..at].char_indices().rev().nth(MAX_SHOWN / 4 - 1),
        None => None,
    };
    let from = from.map_or(0, |(from, _)| from);
    let excerpt: String = line[from..]
        .chars()
        .take(MAX_SHOWN)
        .map(printable)
        .collect();
    let before: String = line[from..at]
        .chars()
        .map(|c| if c == '\t' { '\t' } else { ' ' })
        .collect();
    // Carets only mark the first line of the span.
    let left = excerpt.chars().count() - before.chars().count();
    let end = lines.locate(span.end);
    let width = if end.line == place.line {
        end.column.saturating_sub(place.column) as usize
    } else {
        left
    };
    let carets = "^".repeat(width.min(left).max(1));
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "{severity}[{code}]: {message}\n{margin}--> {path}:{place}\n\
         {margin} |\n{number} | {excerpt}\n{margin} | {before}{carets}\n"
    );
    if let Some(help) = &diagnostic.help {
        let _ = writeln!(out, "{margin} = help: {help}");
    }
    out
}

/// All diagnostics of a source, as an error.
///
/// `Display` shows all rendered diagnostics.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    rendered: String,
    found: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Renders `found`, so that the error does not borrow `source`.
    pub fn new(source: &str, path: &str, found: Vec<Diagnostic>) -> Self {
        let lines = LineIndex::new(source);
        let drawings: Vec<_> = found.iter().map(|d| draw(&lines, path, d)).collect();
        Diagnostics {
            rendered: drawings.join("\n"),
            found,
        }
    }

    /// The diagnostics, in the order in which they were passed.
    pub fn as_slice(&self) -> &[Diagnostic] {
        &self.found
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.rendered.trim_end())
    }
}

impl std::error::Error for Diagnostics {}

/// The candidate closest to `wrong`, if one is similar enough.
pub fn nearest<'c>(wrong: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let allowed = (wrong.len() / 3).clamp(1, 3);
    candidates
        .filter(|c| c.len().abs_diff(wrong.len()) <= allowed)
        .map(|c| (distance(wrong.as_bytes(), c.as_bytes()), c))
        .filter(|(d, _)| *d <= allowed)
        .min_by_key(|(d, _)| *d)
        .map(|(_, c)| c)
}

/// `did you mean …?` for a name similar to `wrong`.
pub(crate) fn suggestion<'c>(
    wrong: &str,
    candidates: impl Iterator<Item = &'c str>,
) -> Option<String> {
    nearest(wrong, candidates).map(|near| format!("did you mean `{near}`?"))
}

/// The Damerau-Levenshtein distance: a swap of adjacent characters counts as one edit. Its
/// time is the product of the lengths.
pub fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let mut best = (last[j] + usize::from(a[i] != b[j]))
                .min(last[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = last;
        last = row;
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_long_lines_are_counted_from_the_index() {
        let source = "é∞x".repeat(2 * STEP);
        let lines = LineIndex::new(&source);
        for (column, (offset, _)) in source.char_indices().enumerate() {
            let found = lines.locate(offset as u32);
            assert_eq!((found.line, found.column as usize), (1, column + 1));
        }
        let end = lines.locate(u32::MAX);
        assert_eq!(end.column as usize, 6 * STEP + 1);
    }

    #[test]
    fn a_report_counts_what_it_omits() {
        let mut report = Report::with_limit(1);
        for code in [Code::Syntax, Code::Form, Code::Form] {
            report.add(Diagnostic::new(code, Span::default(), ""));
        }
        let mut whole = Report::with_limit(2);
        whole.append(report);
        assert_eq!(whole.omitted().collect::<Vec<_>>(), [(Code::Form, 2)]);
        assert_eq!(whole.into_vec().len(), 1);
    }

    #[test]
    fn locates_by_characters() {
        let lines = LineIndex::new("ab\nöc\r\n");
        assert_eq!(lines.locate(0), Location { line: 1, column: 1 });
        assert_eq!(lines.locate(5), Location { line: 2, column: 2 });
        assert_eq!(lines.locate(999), Location { line: 3, column: 1 });
        assert_eq!(lines.text(2), "öc");
        assert_eq!(lines.text(4), "");
    }

    #[test]
    fn draws_carets_below_the_span() {
        let source = "first\n\tadd.s23 %r1;\n";
        let span = Span { start: 10, end: 14 };
        let diagnostic = Diagnostic::new(Code::UnknownModifier, span, "no such modifier `.s23`")
            .help("did you mean `.s32`?");
        assert_eq!(
            render(source, "k.ptx", &diagnostic),
            "error[E0102]: no such modifier `.s23`\n --> k.ptx:2:5\n  |\n\
             2 | \tadd.s23 %r1;\n  | \t   ^^^^\n  = help: did you mean `.s32`?\n"
        );
    }

    #[test]
    fn a_long_line_is_cut_around_the_span() {
        let source = format!("{}wrong{}", "a".repeat(100_000), "b".repeat(100_000));
        let span = Span {
            start: 100_000,
            end: 100_005,
        };
        let drawn = render(
            &source,
            "k.ptx",
            &Diagnostic::new(Code::UnknownModifier, span, "no"),
        );
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[1], " --> k.ptx:1:100001");
        assert_eq!(lines[3].len(), "1 | ".len() + MAX_SHOWN);
        let at = lines[4].find("^^^^^").unwrap();
        assert_eq!(lines[3].get(at..at + 5), Some("wrong"));
        assert!(!lines[4].contains("^^^^^^"));
    }

    #[test]
    fn nearest_needs_a_similar_name() {
        let words = ["add", "ld", "fma", "setp"];
        assert_eq!(nearest("step", words.into_iter()), Some("setp"));
        assert_eq!(nearest("fmad", words.into_iter()), Some("fma"));
        assert_eq!(nearest("xyzzy", words.into_iter()), None);
    }

    #[test]
    fn numbers_are_unique_and_rise() {
        assert!(Code::ALL.windows(2).all(|w| w[0].number() < w[1].number()));
        assert_eq!(Code::UnknownOpcode.to_string(), "E0101");
    }

    #[test]
    fn the_name_of_a_source_has_one_line() {
        let diagnostic = Diagnostic::new(Code::Syntax, Span::default(), "wrong");
        let drawn = render("x", "a\n\x1b[2J", &diagnostic);
        assert!(drawn.contains("a\u{240a}\u{241b}[2J:1:1"), "{drawn}");
        let drawn = render("x", &"a".repeat(1 << 20), &diagnostic);
        assert!(drawn.len() < 5000, "{}", drawn.len());
    }
}
