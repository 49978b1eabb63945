//! Inline assembly in what a compiler wrote.

use std::cell::Cell;

use ptx::ast::{Body, Space, Span, Statement};
use ptx::names::Opcode;

/// Where a function has inline assembly.
///
/// The compiler writes a comment before and behind each. Where tools have taken the
/// comments out of a text, the structure is left: the lines that the comments stood on,
/// and blocks with registers of their own, which the compiler writes for calls alone.
#[derive(Debug)]
pub(crate) struct InlineAssembly {
    /// What the comments or the blocks enclose, in the order of the text.
    regions: Vec<Span>,
    /// The comments have been taken out.
    stripped: bool,
    /// The lines between two empty ones that were looked at last, and whether there are
    /// two.
    lines: Cell<(Span, bool)>,
}

impl InlineAssembly {
    pub(crate) fn new(source: &str, function: Span, body: &Body<'_>) -> Self {
        let text = source.get(function.start as usize..function.end as usize);
        let text = text.unwrap_or_default();
        let mut regions = marked(text, function.start);
        let mut stripped = false;
        if regions.is_empty() {
            regions = blocks(body);
            stripped = !is_indented(text);
        }
        InlineAssembly {
            regions,
            stripped,
            lines: Cell::default(),
        }
    }

    /// Whether the byte `at` of the function is in inline assembly.
    pub(crate) fn contains(&self, source: &str, function: Span, at: u32) -> bool {
        let behind = self.regions.partition_point(|region| region.start <= at);
        if behind > 0 && at < self.regions[behind - 1].end {
            return true;
        }
        if !self.stripped {
            return false;
        }
        let (lines, enclosed) = self.lines.get();
        if lines.start <= at && at < lines.end {
            return enclosed;
        }
        // Each line is looked at once: instructions are asked for in their order.
        let found = between_blanks(source, function, at);
        self.lines.set(found);
        found.1
    }
}

/// Between `// begin inline asm` and `// end inline asm`.
fn marked(text: &str, offset: u32) -> Vec<Span> {
    const MARK: &str = " inline asm";
    let mut regions = Vec::new();
    // One byte is found in less time.
    if memchr::memchr(b'/', text.as_bytes()).is_none() {
        return regions;
    }
    let mut open = None;
    for at in memchr::memmem::find_iter(text.as_bytes(), MARK) {
        let place = offset + at as u32;
        if text[..at].ends_with("// begin") {
            open.get_or_insert(place);
        } else if text[..at].ends_with("// end")
            && let Some(start) = open.take()
        {
            regions.push(Span { start, end: place });
        }
    }
    if let Some(start) = open {
        let end = offset + text.len() as u32;
        regions.push(Span { start, end });
    }
    regions
}

/// The blocks that declare registers and call nothing, the outermost alone.
fn blocks(body: &Body<'_>) -> Vec<Span> {
    let mut regions = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    let (mut registers, mut calls) = (false, false);
    for statement in &body.statements {
        match statement {
            Statement::Begin(brace) => {
                if depth == 0 {
                    (start, registers, calls) = (brace.start, false, false);
                }
                depth += 1;
            }
            Statement::End(brace) => {
                depth = depth.saturating_sub(1);
                if depth == 0 && registers && !calls {
                    let end = brace.end;
                    regions.push(Span { start, end });
                }
            }
            Statement::Variable(variable) => registers |= variable.space == Space::Reg,
            Statement::Instruction(instruction) => calls |= instruction.opcode == Opcode::Call,
            _ => {}
        }
    }
    regions
}

/// Whether one of the first lines begins with a blank: compilers indent, what takes
/// comments out does not.
fn is_indented(text: &str) -> bool {
    const LINES: usize = 64;
    let mut lines = text.lines().take(LINES);
    lines.any(|line| line.starts_with([' ', '\t']) && !is_blank(line))
}

/// What is left of a line with a comment.
fn is_blank(line: &str) -> bool {
    // Nearly all lines begin with a word.
    let begins = line.as_bytes().first().is_some_and(u8::is_ascii_alphabetic);
    !begins && matches!(line.trim(), "" | "//")
}

/// The lines around a byte up to the next empty ones, and whether there is one before and
/// one behind them in the function.
fn between_blanks(source: &str, function: Span, at: u32) -> (Span, bool) {
    let (first, last) = (function.start as usize, function.end as usize);
    let text = |start: usize, end: usize| source.get(start..end).unwrap_or_default();
    let mut start = at as usize;
    let mut enclosed = false;
    for line in text(first, start).split_inclusive('\n').rev() {
        // The first piece is the start of the line itself.
        if line.ends_with('\n') && is_blank(line) {
            enclosed = true;
            break;
        }
        start -= line.len();
    }
    let mut end = at as usize;
    let mut ends = false;
    for line in text(end, last).split_inclusive('\n') {
        if end > at as usize && is_blank(line) {
            ends = true;
            break;
        }
        end += line.len();
    }
    let span = Span {
        start: start as u32,
        end: end as u32,
    };
    (span, enclosed && ends)
}
