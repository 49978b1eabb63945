//! Instructions as compilers write them, `@%p1 ld.global.f32 %f1, [%rd4+8];`,
//! read from the bytes without cutting tokens.
//!
//! They are nearly all of a text. What is written in any other way is left to
//! [`BodyReader::instruction`], which would read these the same: nothing here
//! reports.

use super::bytes::{decimal, through_alphanumeric, through_digits, word_at};
use super::operand::{Pool, plain};
use super::statement::BodyReader;
use crate::ptx::ast::{
    AddressBase, Float, FloatValue, Guard, Instruction, Integer, List, Location, Name, Operand,
    Place, Span, Statement,
};
use crate::ptx::token::continues_identifier;

/// Longer lists are not usual.
const MANY: usize = 64;

impl<'a> BodyReader<'_, 'a> {
    /// Reads instructions and labels from `start` on while they are usual. Gives
    /// where the last of them ends.
    pub(super) fn usual_statements(&mut self, source: &'a str, start: usize) -> usize {
        let mut at = start;
        loop {
            let read = self.usual_instruction(source, at);
            match read.or_else(|| self.usual_place(source, at)) {
                Some(end) => at = end,
                None => return at,
            }
        }
    }

    fn usual_instruction(&mut self, source: &'a str, start: usize) -> Option<usize> {
        let mut text = Text {
            source,
            at: blanks(source.as_bytes(), start)?,
        };
        let start = text.at;
        let mut guard = None;
        if text.byte()? == b'@' {
            text.at += 1;
            let negated = text.byte()? == b'!';
            text.at += usize::from(negated);
            let (predicate, _) = text.register()?;
            text.at = blanks(source.as_bytes(), text.at)?;
            guard = Some(Guard { predicate, negated });
        }
        let opcode = text.at;
        let mnemonic = self.store.mnemonics.usual(source.as_bytes(), opcode)?;
        text.at = blanks(source.as_bytes(), mnemonic.end)?;
        let pool = &mut self.store.pool;
        let mark = pool.operands.len();
        // A statement that could not be read leaves its own behind.
        pool.open.clear();
        let Some(operands) = text.operands(pool, mark) else {
            pool.operands.truncate(mark);
            return None;
        };
        self.store
            .statements
            .push(Statement::Instruction(Instruction {
                guard,
                opcode: mnemonic.opcode,
                mnemonic: mnemonic.id,
                operands,
                span: span(start, text.at),
                opcode_span: span(opcode, mnemonic.end),
            }));
        Some(text.at)
    }
}

impl<'a> BodyReader<'_, 'a> {
    /// `$L__BB0_2:` or `.loc 1 20 7`, at the end of a line.
    fn usual_place(&mut self, source: &'a str, start: usize) -> Option<usize> {
        let mut text = Text {
            source,
            at: blanks(source.as_bytes(), start)?,
        };
        let start = text.at;
        let statement = match text.byte()? {
            b'.' => {
                text.at = blanks_after(source.as_bytes(), start, b".loc")?;
                let mut numbers = [0; 3];
                for number in &mut numbers {
                    text.at = blanks(source.as_bytes(), text.at)?;
                    *number = u32::try_from(text.unsigned()?).ok()?;
                }
                let [file, line, column] = numbers;
                Statement::Location(Box::new(Location {
                    place: Place { file, line, column },
                    inlined: None,
                    span: span(start, text.at),
                }))
            }
            b'$' => {
                text.skip_name()?;
                let label = Name {
                    text: source.get(start..text.at)?,
                };
                if text.byte()? != b':' {
                    return None;
                }
                text.at += 1;
                Statement::Label(label)
            }
            _ => return None,
        };
        // A clause of `.loc` or the directive of a label would follow.
        let lone = match text.next_line()? {
            b'.' => matches!(statement, Statement::Location(_)),
            first => begins_statement(first),
        };
        if !lone {
            return None;
        }
        self.store.statements.push(statement);
        Some(text.at)
    }
}

/// Past the data of a section that is usual, `.b8 1`, a line each.
pub fn usual_data(source: &str, start: usize) -> usize {
    let mut at = start;
    while let Some(end) = usual_bytes(source, at) {
        at = end;
    }
    at
}

/// `.b8 1,2,3`, and no more of it in the next line.
fn usual_bytes(source: &str, start: usize) -> Option<usize> {
    let bytes = source.as_bytes();
    let start = blanks(bytes, start)?;
    let mut text = Text {
        source,
        at: blanks_after(bytes, start, b".b8")?,
    };
    loop {
        if text.unsigned()? > 255 {
            return None;
        }
        match text.byte()? {
            b',' => text.comma()?,
            b'\n' => break,
            _ => return None,
        }
    }
    let first = text.next_line()?;
    (first == b'.' || begins_statement(first)).then_some(text.at)
}

/// Whether this byte is the first of a statement other than a directive, or
/// ends a block, and cannot go on with what stands before it.
fn begins_statement(first: u8) -> bool {
    first.is_ascii_lowercase() || matches!(first, b'@' | b'$' | b'{' | b'}')
}

/// The first byte that is no white space after this word and a blank.
fn blanks_after(bytes: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    let end = at + word.len();
    if bytes.get(at..end)? != word || !matches!(bytes.get(end)?, b' ' | b'\t') {
        return None;
    }
    blanks(bytes, end)
}

fn span(start: usize, end: usize) -> Span {
    Span {
        start: start as u32,
        end: end as u32,
    }
}

/// The operands from `mark` on.
fn list(pool: &Pool<'_>, mark: usize) -> Option<List> {
    let len = pool.operands.len() - mark;
    let list = List {
        start: mark as u32,
        len: len as u32,
    };
    (len <= MANY).then_some(list)
}

/// The first byte from `at` on that is no white space, if there is one.
#[inline]
fn blanks(bytes: &[u8], mut at: usize) -> Option<usize> {
    while matches!(bytes.get(at)?, b' ' | b'\t' | b'\n' | b'\r') {
        at += 1;
    }
    Some(at)
}

/// What is left of a text from `at` on.
struct Text<'a> {
    source: &'a str,
    at: usize,
}

impl<'a> Text<'a> {
    #[inline]
    fn byte(&self) -> Option<u8> {
        self.source.as_bytes().get(self.at).copied()
    }

    #[inline]
    fn word(&self) -> Option<u64> {
        word_at(self.source.as_bytes(), self.at)
    }

    /// The operands and the semicolon behind them. Lists in braces lie before
    /// the list that they are in.
    #[inline(always)]
    fn operands(&mut self, pool: &mut Pool<'a>, mut mark: usize) -> Option<List> {
        loop {
            if self.byte()? == b'{' {
                // What stands before it has to wait.
                pool.open.extend_from_slice(pool.operands.get(mark..)?);
                pool.operands.truncate(mark);
                let vector = self.vector(pool)?;
                mark = pool.operands.len();
                pool.operands.append(&mut pool.open);
                pool.operands.push(vector);
            } else {
                self.operand(&mut pool.operands)?;
            }
            match self.byte()? {
                b',' => self.comma()?,
                b';' => break,
                _ => return None,
            }
        }
        self.at += 1;
        list(pool, mark)
    }

    #[inline]
    fn comma(&mut self) -> Option<()> {
        self.at += 1;
        if self.byte()? == b' ' {
            self.at += 1;
        }
        Some(())
    }

    /// `{%f1, %f2}`
    fn vector(&mut self, pool: &mut Pool<'a>) -> Option<Operand<'a>> {
        let (start, mark) = (self.at, pool.operands.len());
        self.at += 1;
        loop {
            self.operand(&mut pool.operands)?;
            match self.byte()? {
                b',' => self.comma()?,
                b'}' => break,
                _ => return None,
            }
        }
        self.at += 1;
        Some(Operand::Vector(list(pool, mark)?, span(start, self.at)))
    }

    /// What stands between commas: a register, an address, a constant or a
    /// label. What follows it is seen to by the caller.
    #[inline(always)]
    fn operand(&mut self, operands: &mut Vec<Operand<'a>>) -> Option<()> {
        let start = self.at;
        let operand = match self.byte()? {
            b'%' => {
                let (name, common) = self.register()?;
                if common {
                    Operand::Name(name)
                } else {
                    plain(name, span(start, self.at))
                }
            }
            b'[' => self.address()?,
            b'0'..=b'9' | b'-' => self.number()?,
            _ => plain(self.name()?, span(start, self.at)),
        };
        operands.push(operand);
        Some(())
    }

    /// `%r1`, `%SP`; and whether it is called as most are, and so is none of
    /// the special ones.
    #[inline(always)]
    fn register(&mut self) -> Option<(Name<'a>, bool)> {
        let start = self.at;
        if self.byte()? != b'%' {
            return None;
        }
        self.at += 1;
        let word = self.word()?;
        let length = through_alphanumeric(word);
        self.at += length;
        if length == 0 || length == 8 {
            return None;
        }
        let [first, second, ..] = word.to_le_bytes();
        let common = match first {
            b'r' => second != b'e',
            b'f' => true,
            b'p' => second.is_ascii_digit(),
            _ => false,
        };
        Some((self.ended(start)?, common))
    }

    /// The name of a variable or label.
    #[inline]
    fn name(&mut self) -> Option<Name<'a>> {
        let start = self.at;
        self.skip_name()?;
        match self.ended(start)? {
            Name { text: "WARP_SZ" } => None,
            name => Some(name),
        }
    }

    #[inline]
    fn skip_name(&mut self) -> Option<()> {
        let first = self.byte()?;
        self.at += 1;
        let begins = match first {
            // `$` alone is no name.
            b'$' => continues_identifier(self.byte()?),
            _ => first.is_ascii_alphabetic() || first == b'_',
        };
        if !begins {
            return None;
        }
        loop {
            let length = through_alphanumeric(self.word()?);
            self.at += length;
            if length == 8 {
                continue;
            }
            if !matches!(self.byte()?, b'_' | b'$') {
                return Some(());
            }
            self.at += 1;
        }
    }

    /// The first byte of the next token, behind the end of the line that has to
    /// be here.
    fn next_line(&self) -> Option<u8> {
        let bytes = self.source.as_bytes();
        if self.byte()? != b'\n' {
            return None;
        }
        let at = blanks(bytes, self.at)?;
        match *bytes.get(at)? {
            // Alone these are no tokens, and what comes behind them is the next.
            b'.' | b'$' if !bytes.get(at + 1)?.is_ascii_alphabetic() => None,
            first => Some(first),
        }
    }

    /// The name from `start` on, if nothing that follows makes it more than one.
    #[inline(always)]
    fn ended(&self, start: usize) -> Option<Name<'a>> {
        if !matches!(
            self.byte()?,
            b',' | b';' | b']' | b'+' | b'}' | b' ' | b'\t'
        ) {
            return None;
        }
        let text = self.source.get(start..self.at)?;
        Some(Name { text })
    }

    /// `[%rd1+8]`, `[kernel_param_0]`
    #[inline(always)]
    fn address(&mut self) -> Option<Operand<'a>> {
        self.at += 1;
        let (name, common) = match self.byte()? {
            b'%' => self.register()?,
            _ => (self.name()?, false),
        };
        if !common && !matches!(plain(name, Span::default()), Operand::Name(_)) {
            return None;
        }
        let mut offset = 0;
        if self.byte()? == b'+' {
            self.at += 1;
            let sign = if self.byte()? == b'-' { -1 } else { 1 };
            self.at += usize::from(sign < 0);
            offset = sign * self.digits()? as i64;
        }
        if self.byte()? != b']' {
            return None;
        }
        self.at += 1;
        // A word may follow, `.unified`.
        if !matches!(self.byte()?, b',' | b';') {
            return None;
        }
        Some(Operand::Address {
            base: AddressBase::Name(name),
            offset,
            unified: false,
        })
    }

    /// `42`, `-1`, `0f3F800000`
    #[inline]
    fn number(&mut self) -> Option<Operand<'a>> {
        let start = self.at;
        let negative = self.byte()? == b'-';
        self.at += usize::from(negative);
        let kind = self.source.as_bytes().get(self.at + 1);
        let float = match kind {
            Some(b'f') => Some(8),
            Some(b'd') => Some(16),
            _ => None,
        };
        if let Some(digits) = float {
            if negative || self.byte()? != b'0' {
                return None;
            }
            self.at += 2;
            let value = self.hexadecimal(digits)?;
            let value = match digits {
                8 => FloatValue::F32(value as u32),
                _ => FloatValue::F64(value),
            };
            let span = span(start, self.at);
            return Some(Operand::Float(Float { value, span }));
        }
        let value = self.digits()?;
        Some(Operand::Integer(Integer {
            value: if negative {
                value.wrapping_neg()
            } else {
                value
            },
            unsigned: false,
            span: span(start, self.at),
        }))
    }

    /// A decimal number where an operand ends.
    #[inline]
    fn digits(&mut self) -> Option<u64> {
        let value = self.unsigned()?;
        matches!(self.byte()?, b',' | b';' | b']' | b'}').then_some(value)
    }

    /// A decimal number of at most 15 digits. What follows it is seen to by the
    /// caller.
    #[inline]
    fn unsigned(&mut self) -> Option<u64> {
        let start = self.at;
        let word = self.word()?;
        let mut length = through_digits(word);
        let mut value = decimal(word, length);
        self.at += length;
        if length == 8 {
            let word = self.word()?;
            let more = through_digits(word);
            if more == 8 {
                return None;
            }
            value = value * 10_u64.pow(more as u32) + decimal(word, more);
            self.at += more;
            length += more;
        }
        // A zero in front makes it octal.
        let octal = length > 1 && self.source.as_bytes().get(start) == Some(&b'0');
        (length > 0 && !octal).then_some(value)
    }

    /// So many digits and no more.
    fn hexadecimal(&mut self, digits: usize) -> Option<u64> {
        let text = self.source.get(self.at..self.at + digits)?;
        self.at += digits;
        if text.as_bytes().first() == Some(&b'+') || !matches!(self.byte()?, b',' | b';' | b'}') {
            return None;
        }
        u64::from_str_radix(text, 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use crate::ptx::parse::read;

    /// The same text with a blank after the first words of statements that is
    /// none of the usual ones.
    fn unusual(text: &str) -> String {
        let text = text.replace(".b8 ", ".b8\u{c}");
        text.replace(".loc\t", ".loc\u{c}")
    }

    #[test]
    fn places_and_data_are_read_as_anything_else() {
        let ends = [
            "\n", ",\n", "\n,", "\n.", "U\n", " \n", "\n}", "\n//\n", ";\n", "\n$",
        ];
        for place in [
            "1 2 3",
            "1 2",
            "1 2 3 4",
            "1 4294967296 0",
            "1 010 0",
            "1 2\n3",
            "1 2-3",
        ] {
            for end in ends {
                for next in [
                    "",
                    "ret;",
                    ".loc\t1 2 3\n",
                    ", function_name $L, inlined_at 1 2 3\n",
                ] {
                    let text =
                        format!(".entry k() {{\n\t.loc\t{place}{end}{next}\n}}\n// the end\n");
                    assert_eq!(read(&text), read(&unusual(&text)), "{text}");
                }
            }
        }
        for label in ["$L", "$", "$L_1$2", "$L.", "L", "$function_name"] {
            for next in [
                "ret;",
                ".branchtargets $L;",
                ".loc\t1 2 3\n",
                "}",
                "\"",
                "$M:\nret;",
                "",
            ] {
                let text = format!(".entry k() {{\n{label}:\n\n{next}\n}}\n// the end\n");
                // Only the end of a line is usual behind a label.
                let other = text.replace(":\n\n", ":\r\n");
                assert_eq!(read(&text), read(&other), "{text}");
            }
        }
        for data in [
            "1", "255", "256", "-1", "1,2, 3", "1,,2", "1,", "012", "0x1", "a", "1+1", "1.5",
        ] {
            for end in ends {
                for next in ["", ".b8 7\n", ".b32 a+1\n", "a: .b8 1\n"] {
                    let text =
                        format!(".section .debug_x {{\n.b8 {data}{end}{next}}}\n// the end\n");
                    let (usual, other) = (read(&text), unusual(&text));
                    let other = read(&other);
                    assert_eq!(usual.diagnostics, other.diagnostics, "{text}");
                    assert_eq!(usual.module.items.len(), other.module.items.len());
                }
            }
        }
    }

    #[test]
    fn the_usual_is_read_as_anything_else() {
        let operands = [
            "",
            "%r1",
            "%r1, %r2",
            "%r1,%r2,%r3",
            "%rd1, [%rd2]",
            "%rd1, [%rd2+8]",
            "%rd1, [%rd2+-8]",
            "%rd1, [%rd2+-0]",
            "%r1, [k_param_0]",
            "%r1, [_]",
            "%r1, [x+010]",
            "%r1, [WARP_SZ]",
            "%r1, [%tid]",
            "[%rd1], {%f1, %f2, %f3,%f4}",
            "{%f1, %f2}, [%rd1+16], {%r1,%r2}, {1, -1}",
            "{{%f1, %f2}, %f3}, %r1",
            "[%rd1].unified, %r1",
            "[%rd1] .unified, %r1",
            "%r1, 0",
            "%r1, 00",
            "%r1, 07",
            "%r1, 09",
            "%r1, -1",
            "%r1, - 1",
            "%r1, -0",
            "%r1, 0x1F",
            "%r1, 12345678",
            "%r1, 123456789",
            "%r1, 123456789012345",
            "%r1, 1234567890123456",
            "%r1, 18446744073709551615",
            "%r1, 18446744073709551616",
            "%r1, 99999999999999999999",
            "%r1, 10U",
            "%r1, 1+2",
            "%r1, 1f",
            "%r1, 0f3F800000",
            "%r1, 0F3f800000",
            "%r1, 0f3F80000",
            "%r1, 0f3F8000000",
            "%r1, 0f+F800000",
            "%r1, -0f3F800000",
            "%r1, 0d3FF0000000000000",
            "%r1, 0d3FF000000000000",
            "%r1, 1.5",
            "%r1, %tid.x",
            "%r1, %laneid",
            "%r1, %retval",
            "%r1, %r2.b0",
            "%r1, %v2.x",
            "%r1, !%p1",
            "%r1, -%r2",
            "%r1, _",
            "_, %r1",
            "%p1|%p2, %r1",
            "%p1|_, %r1",
            "%r1, x+4",
            "%r1, x[4]",
            "%r1, WARP_SZ",
            "%r1, WARP_SZ1",
            "%r1, $",
            "%r1, $L__BB0_2",
            "$L__BB0_2",
            "_a",
            "a",
            "%",
            "%r1 , %r2",
            "%r1,  %r2",
            "%r1, %r2 ",
            "%r1, /* no */ %r2",
            "%r1,, %r2",
            "%r1 %r2",
            "%register_with_a_long_name, %r12345678, %r1_2, %r$",
            "%r1234567, %r123456",
            "\u{e4}, %r1",
            "%r\u{e4}, %r1",
            "%r1\u{e4}, %r1",
            "{}",
            "{%r1",
            "[%rd1",
            "(%r1), f, (%r2)",
        ];
        let long = "%r1, ".repeat(5000) + "%r1";
        let vector = format!("{{{}%r1}}, %r2", "%r1,".repeat(100));
        let operands = operands.iter().copied().chain([long.as_str(), &vector]);
        for operands in operands {
            for head in [
                "mov.b32",
                "@%p1 mov.b32",
                "@!%p1 mov.b32",
                "call",
                "wrong",
                "mov.wrong",
            ] {
                for end in [";", "\nret;", "}"] {
                    // A form feed is a blank too, and not among the usual ones.
                    let text = |blank| {
                        format!(
                            ".entry k() {{\nmov.b32 %r1, %r2;\n\t{head}{blank}{operands}{end}\n\
                             \tmov.b32\t%r1, %r2;\n}} // the end\n"
                        )
                    };
                    let (usual, other) = (text(' '), text('\u{c}'));
                    assert_eq!(read(&usual), read(&other), "{usual}");
                }
            }
        }
    }
}
