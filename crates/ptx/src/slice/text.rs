//! Writes the text of a slice.

use std::collections::HashMap;
use std::fmt::{Display, Write as _};

use super::numbered::{Numbers, Stems};
use crate::ast::{Linkage, Span};
use crate::name_map::NameMap;
use crate::token::{LexicalErrors, TokenKind, token_at};

/// A declaration or directive of the module in a slice.
#[derive(Clone, Copy, Debug)]
pub enum Piece {
    /// A function, or a directive.
    Item(Span),
    /// A variable. Of `.global .u32 a, b;` each is a piece, which repeats the words
    /// before the names.
    Variable {
        linkage: Linkage,
        words: Span,
        declarator: Span,
    },
}

impl Piece {
    /// The length in the source.
    pub fn bytes(&self) -> u64 {
        let length = |span: &Span| u64::from(span.end.saturating_sub(span.start));
        match self {
            Piece::Item(span) => length(span),
            Piece::Variable {
                words, declarator, ..
            } => length(words) + length(declarator),
        }
    }
}

/// The parts of a module that slices refer to.
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// `.version`, `.target` and `.address_size`, with their places in the source.
    pub lines: Vec<(String, u32)>,
    /// The `.file` directives by their numbers.
    pub files: HashMap<u32, Span>,
    /// The data of each label in `.debug_str`: names of inlined functions.
    pub strings: HashMap<String, Span>,
}

/// The text of a slice.
#[derive(Debug, Default)]
pub struct Text {
    pub text: String,
    /// The offset in the source of each line; `None` for lines that are not of it.
    pub lines: Vec<Option<u32>>,
}

/// Writes a slice: the pieces in the order of the source, without comments, with numbers
/// of its own.
pub fn write(source: &str, head: &Head, pieces: &[Piece], kept: Stems) -> Text {
    let mut writer = Writer {
        source,
        errors: LexicalErrors::default(),
        out: Text::default(),
        numbers: Numbers::new(kept),
        files: Vec::new(),
        file_numbers: HashMap::new(),
        strings: Vec::new(),
        known_strings: NameMap::default(),
    };
    let length: u64 = pieces.iter().map(Piece::bytes).sum();
    let length = length.min(source.len() as u64) as usize;
    writer.out.text.reserve(length);
    for (line, start) in &head.lines {
        writer.line(line, Some(*start));
    }
    for piece in pieces {
        writer.piece(piece);
    }
    writer.strings(head);
    writer.files(head);
    writer.out
}

struct Writer<'s> {
    source: &'s str,
    errors: LexicalErrors,
    out: Text,
    numbers: Numbers<'s>,
    /// The `.file` numbers in the order in which they are used.
    files: Vec<u32>,
    file_numbers: HashMap<u32, usize>,
    /// The labels of the names of inlined functions in the order in which they are used.
    strings: Vec<&'s str>,
    known_strings: NameMap<'s, ()>,
}

/// What a byte is to [`Writer::plain`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plain {
    No,
    Space,
    /// Of a name, word or number, but for `$`, which begins most numbered names.
    Word,
    Mark,
}

const PLAIN: [Plain; 256] = {
    let mut plain = [Plain::No; 256];
    let mut byte = 0;
    while byte < 128 {
        plain[byte] = match byte as u8 {
            b' ' | b'\t' | b'\n' | b'\r' => Plain::Space,
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'%' | b'.' => Plain::Word,
            b',' | b';' | b':' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'<' | b'>' | b'+'
            | b'-' | b'@' | b'!' | b'|' | b'=' => Plain::Mark,
            _ => Plain::No,
        };
        byte += 1;
    }
    plain
};

fn plain_byte(bytes: &[u8], at: usize) -> Plain {
    bytes
        .get(at)
        .map_or(Plain::No, |byte| PLAIN[*byte as usize])
}

/// Whether a word may be one that is numbered, or that says what follows it.
fn is_special(word: &[u8]) -> bool {
    match word.first() {
        Some(b'_' | b'B' | b'L') => true,
        Some(b'p') => word.starts_with(b"prototype_"),
        Some(b'i') => word == b"inlined_at",
        Some(b'f') => word == b"function_name",
        Some(b'.') => word == b".loc" || word == b".file",
        _ => false,
    }
}

/// What the parts of a `.loc` directive make of the next token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Any,
    File,
    String,
}

impl<'s> Writer<'s> {
    /// A line that is not copied.
    fn line(&mut self, text: &str, start: Option<u32>) {
        self.out.text.push_str(text);
        self.out.text.push('\n');
        self.out.lines.push(start);
    }

    fn piece(&mut self, piece: &Piece) {
        match *piece {
            Piece::Item(span) => {
                self.out.lines.push(Some(span.start));
                self.tokens(span);
            }
            Piece::Variable {
                linkage,
                words,
                declarator,
            } => {
                self.out.lines.push(Some(words.start));
                self.out.text.push_str(match linkage {
                    Linkage::None => "",
                    Linkage::Extern => ".extern ",
                    Linkage::Visible => ".visible ",
                    Linkage::Weak => ".weak ",
                    Linkage::Common => ".common ",
                });
                self.tokens(words);
                self.out.text.push(' ');
                self.tokens(declarator);
                self.out.text.push(';');
            }
        }
        self.out.text.push('\n');
    }

    /// Copies the tokens of a part of the source. Of what is between two of them, a line
    /// end stays, or else one blank.
    fn tokens(&mut self, span: Span) {
        let source = self.source;
        // A text that was not cut may be shorter.
        let Some(source) = source.get(..span.end as usize) else {
            return;
        };
        let mut next = Next::Any;
        // The text from `copied` to `end` is still to be copied.
        let first = span.start as usize;
        let (mut copied, mut end) = (first, first);
        loop {
            if next == Next::Any && end > first {
                end = self.plain(source.as_bytes(), &mut copied, end);
            }
            let (kind, token) = token_at(source, end as u32, &self.errors);
            if kind == TokenKind::End {
                break;
            }
            let (start, token_end) = (token.start() as usize, token.end() as usize);
            let between = source.get(end..start).unwrap_or_default();
            if end == first {
                copied = start;
            } else if !between.is_empty() {
                let line_end = between.contains('\n');
                if between != "\n" && between != " " {
                    self.copy(copied, end);
                    copied = start;
                    self.out.text.push(if line_end { '\n' } else { ' ' });
                }
                if line_end {
                    self.out.lines.push(Some(start as u32));
                }
            }
            end = token_end;
            let text = source.get(start..token_end).unwrap_or_default();
            let expected = std::mem::replace(&mut next, Next::Any);
            match kind {
                TokenKind::Identifier => {
                    if expected == Next::String && self.known_strings.insert(text, ()).is_none() {
                        self.strings.push(text);
                    }
                    match text {
                        "inlined_at" => next = Next::File,
                        "function_name" => next = Next::String,
                        _ => {}
                    }
                    if let Some(new) = self.numbers.renamed(text) {
                        self.copy(copied, start);
                        copied = token_end;
                        self.push(new);
                    }
                }
                TokenKind::Word if matches!(text, ".loc" | ".file") => next = Next::File,
                TokenKind::Integer if expected == Next::File => {
                    if let Ok(file) = text.parse() {
                        self.copy(copied, start);
                        copied = token_end;
                        let number = self.file(file);
                        self.push(number);
                    }
                }
                TokenKind::Text => {
                    let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
                    let starts = ends.map(|(at, _)| Some((start + at + 1) as u32));
                    self.out.lines.extend(starts);
                }
                _ => {}
            }
        }
        self.copy(copied, end);
    }

    /// Passes what is copied token by token: no comment, string, numbered name or `.loc`.
    /// Returns where it ends.
    fn plain(&mut self, bytes: &[u8], copied: &mut usize, at: usize) -> usize {
        let mut end = at;
        loop {
            let start = end;
            match plain_byte(bytes, start) {
                Plain::No => return start,
                Plain::Mark => end += 1,
                Plain::Word => {
                    while plain_byte(bytes, end) == Plain::Word {
                        end += 1;
                    }
                    let word = bytes.get(start..end).unwrap_or_default();
                    if is_special(word) || bytes.get(end) == Some(&b'$') {
                        return start;
                    }
                }
                Plain::Space => {
                    let mut line_end = false;
                    while plain_byte(bytes, end) == Plain::Space {
                        line_end |= bytes.get(end) == Some(&b'\n');
                        end += 1;
                    }
                    // A comment is white space too.
                    if plain_byte(bytes, end) == Plain::No {
                        return start;
                    }
                    let is_one = matches!(bytes.get(start..end), Some(b"\n" | b" "));
                    if !is_one {
                        self.copy(*copied, start);
                        *copied = end;
                        self.out.text.push(if line_end { '\n' } else { ' ' });
                    }
                    if line_end {
                        self.out.lines.push(Some(end as u32));
                    }
                }
            }
        }
    }

    fn copy(&mut self, start: usize, end: usize) {
        let text = self.source.get(start..end).unwrap_or_default();
        self.out.text.push_str(text);
    }

    fn push(&mut self, new: impl Display) {
        // Writing to a String cannot fail.
        let _ = write!(self.out.text, "{new}");
    }

    /// The new number of a file, from 1.
    fn file(&mut self, file: u32) -> usize {
        *self.file_numbers.entry(file).or_insert_with(|| {
            self.files.push(file);
            self.files.len()
        })
    }

    /// `.section .debug_str` with the names of the functions that are inlined here.
    fn strings(&mut self, head: &Head) {
        if self.strings.is_empty() {
            return;
        }
        self.line(".section .debug_str", None);
        self.line("{", None);
        for label in std::mem::take(&mut self.strings) {
            self.out.lines.push(None);
            match self.numbers.renamed(label) {
                Some(new) => self.push(new),
                None => self.out.text.push_str(label),
            }
            self.out.text.push_str(":\n");
            if let Some(data) = head.strings.get(label) {
                self.piece(&Piece::Item(*data));
            }
        }
        self.line("}", None);
    }

    fn files(&mut self, head: &Head) {
        for file in std::mem::take(&mut self.files) {
            if let Some(directive) = head.files.get(&file) {
                self.piece(&Piece::Item(*directive));
            }
        }
    }
}
