//! What is wrong with a text, where, and what to do about it.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::OnceLock;

use super::ast::Span;

/// The default limit of a [`Report`]: a text of random bytes would fill the memory.
pub const MAX_DIAGNOSTICS: usize = 20_000;

/// Comparing two names takes a microsecond or so.
const MAX_COMPARISONS: usize = 200_000;

macro_rules! codes {
    ($($(#[$meta:meta])* $variant:ident $number:literal)*) => {
        /// The stable number of a finding, written `E0101`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Code { $($(#[$meta])* $variant),* }

        impl Code {
            /// Every code, in the order of the numbers.
            pub const ALL: &'static [Code] = &[$(Code::$variant),*];

            /// The number without the letter.
            pub const fn number(self) -> u16 {
                match self { $(Code::$variant => $number),* }
            }
        }
    };
}

codes! {
    /// A byte that begins no token.
    Character 1
    /// A comment or string without an end.
    Unterminated 2
    /// A malformed number, or one that its place cannot hold.
    Number 3
    /// Something else stands where the grammar wants a certain thing.
    Syntax 4
    /// A statement without its `;`.
    Semicolon 5
    /// A brace without its partner.
    Brace 6
    /// More nesting, names or bytes than this reader takes.
    Limit 7
    /// No `.version` line.
    MissingVersion 10
    /// No `.target` line.
    MissingTarget 11
    /// A `.target` that no toolkit knows.
    UnknownTarget 12
    /// A `.version` that no toolkit knows.
    UnknownVersion 13
    /// A word that is no opcode.
    UnknownOpcode 101
    /// A word that is no modifier.
    UnknownModifier 102
    /// A modifier that its instruction does not take, or takes elsewhere.
    Form 103
    /// A rounding mode, type or other modifier that must be written.
    MissingModifier 104
    /// A directive that its place does not take.
    UnknownDirective 105
    /// A name that nothing declares.
    Undeclared 201
    /// A name declared twice in one scope.
    Duplicate 202
    /// Too few or too many operands.
    OperandCount 301
    /// An operand of a kind that its place does not take.
    OperandKind 302
    /// An operand of a type that its instruction does not take.
    OperandType 303
    /// A guard that is no predicate register.
    Guard 304
    /// An address in another state space than the instruction says.
    StateSpace 305
    /// A call that does not fit the function.
    Call 306
    /// A constant outside the range that its place allows.
    Range 307
    /// An instruction newer than the module's `.version`.
    VersionFloor 401
    /// An instruction that the module's `.target` does not have.
    TargetFloor 402
    /// A function that is called and defined nowhere.
    Unresolved 501
    /// More shared or constant memory than a kernel or module can have.
    TooMuchMemory 502
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E{:04}", self.number())
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Doubtful, but no reason to refuse the module.
    Warning,
    /// The module cannot be compiled.
    Error,
}

/// One finding: `E0101` at a place, what it is, and the fix where one is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Stays the same when the wording changes: compare this, not the message.
    pub code: Code,
    /// Whether the module can be compiled nevertheless.
    pub severity: Severity,
    /// One line, without the place and the code.
    pub message: String,
    /// Bytes of the source.
    pub span: Span,
    /// What to do, one line: "did you mean `ret`?"
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

    /// The same with a line on what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Diagnostics as they come. Those beyond a limit are counted and dropped.
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
    /// How many names may still be compared with wrong ones.
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

    /// Adds a diagnostic, or counts it where the report is full.
    pub fn add(&mut self, diagnostic: Diagnostic) {
        if self.found.len() < self.limit {
            self.found.push(diagnostic);
        } else {
            *self.omitted.entry(diagnostic.code).or_default() += 1;
        }
    }

    /// Adds those of another report, and what that omitted.
    pub(crate) fn append(&mut self, other: Report) {
        for diagnostic in other.found {
            self.add(diagnostic);
        }
        for (code, count) in other.omitted {
            *self.omitted.entry(code).or_default() += count;
        }
    }

    /// Whether suggestions are worth computing: comparing every name with each of thousands of
    /// wrong ones takes longer than anyone reads.
    pub fn wants_suggestions(&self) -> bool {
        const ENOUGH: usize = 200;
        self.found.len() < ENOUGH
    }

    /// The same for a comparison with `names` declared names, whose number the text chooses: all
    /// comparisons together are linear in the size of the text.
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

    /// The diagnostics in the order of the text.
    pub fn into_vec(mut self) -> Vec<Diagnostic> {
        self.found.sort_by_key(|d| (d.span.start, d.code));
        self.found
    }
}

/// A place as an editor counts it, from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    /// From 1.
    pub line: u32,
    /// From 1, in characters: a tab is one.
    pub column: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Where the lines of a text begin.
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
    /// The number of characters before byte 0, [`STEP`], 2 × [`STEP`] …, and in all of the source.
    /// A module may stand on one line: a column must not cost a scan of the whole line. Computed
    /// for the first line that is so long.
    characters_before: OnceLock<Vec<u32>>,
}

/// The distance in bytes between two places whose characters are counted beforehand.
const STEP: usize = 1024;

/// Every byte but the continuation bytes of UTF-8 begins a character.
fn characters(bytes: &[u8]) -> u32 {
    bytes.iter().filter(|b| **b & 0xC0 != 0x80).count() as u32
}

impl<'a> LineIndex<'a> {
    /// Looks at every byte once; keep it where several places are wanted.
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

    /// The number of characters before a byte; `offset` is at most the length of the source.
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

    /// The text whose lines they are.
    pub fn source(&self) -> &'a str {
        self.source
    }

    /// The place of a byte; an offset past the end is the end.
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

    /// The line, from 1, that a byte lies on. `starts` begins with 0, so there
    /// always is one.
    fn line(&self, offset: u32) -> usize {
        self.starts.partition_point(|start| *start <= offset)
    }

    /// The text of a line, from 1, without its end; empty past the last.
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

/// Draws a finding with its line and carets below what it is about.
///
/// `path` is what the reader calls the text: a file name, `<stdin>` …
pub fn render(source: &str, path: &str, diagnostic: &Diagnostic) -> String {
    draw(&LineIndex::new(source), path, diagnostic)
}

/// So many characters of a line are drawn: a whole module may stand on one.
const SHOWN: usize = 200;

/// Control characters could change the state of a terminal: they are drawn as symbols.
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
    let severity = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let place = lines.locate(span.start);
    let number = place.line.to_string();
    let margin = " ".repeat(number.len());
    let line = lines.text(place.line);
    // The place within the line; it may be the `\r` that ends it.
    let start = lines.starts[place.line as usize - 1];
    let at = line.floor_char_boundary((span.start - start.min(span.start)) as usize);
    // Of a line that is too long, the part around the place.
    let from = match line.chars().nth(SHOWN) {
        Some(_) => line[..at].char_indices().rev().nth(SHOWN / 4 - 1),
        None => None,
    };
    let from = from.map_or(0, |(from, _)| from);
    let shown: String = line[from..].chars().take(SHOWN).map(printable).collect();
    let before: String = line[from..at]
        .chars()
        .map(|c| if c == '\t' { '\t' } else { ' ' })
        .collect();
    // Carets stay on the first line of the span.
    let left = shown.chars().count() - before.chars().count();
    let end = lines.locate(span.end);
    let wanted = if end.line == place.line {
        end.column.saturating_sub(place.column) as usize
    } else {
        left
    };
    let carets = "^".repeat(wanted.min(left).max(1));
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "{severity}[{code}]: {message}\n{margin}--> {path}:{place}\n\
         {margin} |\n{number} | {shown}\n{margin} | {before}{carets}\n"
    );
    if let Some(help) = &diagnostic.help {
        let _ = writeln!(out, "{margin} = help: {help}");
    }
    out
}

/// All findings of one text, as an error.
///
/// Its `Display` is the drawing of each finding, one after the other.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    rendered: String,
    found: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Draws `found` over `source` while it is at hand.
    pub fn new(source: &str, path: &str, found: Vec<Diagnostic>) -> Self {
        let lines = LineIndex::new(source);
        let drawings: Vec<_> = found.iter().map(|d| draw(&lines, path, d)).collect();
        Diagnostics {
            rendered: drawings.join("\n"),
            found,
        }
    }

    /// The findings, in the order they were given.
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

/// The candidate that `wrong` most likely meant, if one is near enough.
pub fn nearest<'c>(wrong: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let allowed = (wrong.len() / 3).clamp(1, 3);
    candidates
        .filter(|c| c.len().abs_diff(wrong.len()) <= allowed)
        .map(|c| (distance(wrong.as_bytes(), c.as_bytes()), c))
        .filter(|(d, _)| *d <= allowed)
        .min_by_key(|(d, _)| *d)
        .map(|(_, c)| c)
}

/// `did you mean …?` for a name near to `wrong`.
pub(crate) fn suggestion<'c>(
    wrong: &str,
    candidates: impl Iterator<Item = &'c str>,
) -> Option<String> {
    nearest(wrong, candidates).map(|near| format!("did you mean `{near}`?"))
}

/// The edit distance of Levenshtein, with two neighbours swapped counted as one.
fn distance(a: &[u8], b: &[u8]) -> usize {
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
    fn columns_of_long_lines_are_counted_from_steps() {
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
    fn of_a_long_line_the_part_around_the_span_is_drawn() {
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
        assert_eq!(lines[3].len(), "1 | ".len() + SHOWN);
        let at = lines[4].find("^^^^^").unwrap();
        assert_eq!(lines[3].get(at..at + 5), Some("wrong"));
        assert!(!lines[4].contains("^^^^^^"));
    }

    #[test]
    fn nearest_wants_a_near_name() {
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
}
