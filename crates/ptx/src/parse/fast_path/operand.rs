//! Operands: registers, addresses, constants, labels, and lists of these.

use super::text::Text;
use crate::ast::{AddressBase, Float, FloatValue, Integer, List, Name, Operand, Span};
use crate::names::SpecialRegister;
use crate::parse::operand::{Pool, name_operand};

/// Longer lists are left to the parsers of tokens.
const MAX_LIST: usize = 64;

/// The operands from `mark`.
fn list(pool: &Pool<'_>, mark: usize) -> Option<List> {
    let len = pool.operands.len() - mark;
    let list = List {
        start: mark as u32,
        len: len as u32,
    };
    (len <= MAX_LIST).then_some(list)
}

impl<'a> Text<'a> {
    /// Parses operands and the semicolon after them. A list in braces is stored before the list that
    /// contains it.
    #[inline(always)]
    pub fn operands(&mut self, pool: &mut Pool<'a>, mut mark: usize) -> Option<List> {
        if self.byte()? == b';' {
            self.at += 1;
            return Some(List::default());
        }
        loop {
            if self.byte()? == b'{' {
                // The operands before it are moved after it.
                pool.open.extend_from_slice(pool.operands.get(mark..)?);
                pool.operands.truncate(mark);
                let vector = self.vector(pool)?;
                mark = pool.operands.len();
                pool.operands.append(&mut pool.open);
                pool.operands.push(vector);
            } else {
                self.operand(&mut pool.operands)?;
            }
            let mut next = self.byte()?;
            if next != b',' && next != b';' {
                mark = self.pair(pool, mark)?;
                next = self.byte()?;
            }
            match next {
                b',' => self.comma()?,
                b';' => break,
                _ => return None,
            }
        }
        self.at += 1;
        list(pool, mark)
    }

    /// `%p|%q` after its first register. Returns the start of the list that contains it.
    #[cold]
    fn pair(&mut self, pool: &mut Pool<'a>, mark: usize) -> Option<usize> {
        if self.byte()? != b'|' {
            return None;
        }
        let first = pool.operands.pop()?;
        let start = match first {
            Operand::Name(Name { text }) => self.at - text.len(),
            Operand::Sink(_) => self.at - 1,
            _ => return None,
        };
        self.at += 1;
        pool.open.extend_from_slice(pool.operands.get(mark..)?);
        pool.operands.truncate(mark);
        pool.operands.push(first);
        self.operand(&mut pool.operands)?;
        let pair = Operand::Pair(list(pool, mark)?, self.span_from(start));
        let mark = pool.operands.len();
        pool.operands.append(&mut pool.open);
        pool.operands.push(pair);
        Some(mark)
    }

    /// `(results), function, (arguments), prototype;` on any number of lines.
    pub fn call(&mut self, pool: &mut Pool<'a>) -> Option<List> {
        loop {
            let operand = match self.byte()? {
                b'(' => self.arguments(pool)?,
                _ => {
                    self.operand(&mut pool.open)?;
                    pool.open.pop()?
                }
            };
            pool.open.push(operand);
            match self.skip_blanks()? {
                b',' => self.at += 1,
                b';' => break,
                _ => return None,
            }
            self.skip_blanks()?;
        }
        self.at += 1;
        let mark = pool.operands.len();
        pool.operands.append(&mut pool.open);
        list(pool, mark)
    }

    /// `(param0, param1)`
    fn arguments(&mut self, pool: &mut Pool<'a>) -> Option<Operand<'a>> {
        let (start, mark) = (self.at, pool.operands.len());
        self.at += 1;
        let mut arguments = List::default();
        if self.skip_blanks()? != b')' {
            loop {
                self.operand(&mut pool.operands)?;
                match self.skip_blanks()? {
                    b',' => self.at += 1,
                    b')' => break,
                    _ => return None,
                }
                self.skip_blanks()?;
            }
            arguments = list(pool, mark)?;
        }
        self.at += 1;
        Some(Operand::Arguments(arguments, self.span_from(start)))
    }

    #[inline]
    pub fn comma(&mut self) -> Option<()> {
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
        Some(Operand::Vector(list(pool, mark)?, self.span_from(start)))
    }

    /// A register, an address, a constant or a label. The caller checks what follows.
    #[inline(always)]
    fn operand(&mut self, operands: &mut Vec<Operand<'a>>) -> Option<()> {
        let start = self.at;
        let operand = match self.byte()? {
            b'%' => match self.register() {
                Some((name, true)) => Operand::Name(name),
                Some((name, false)) => name_operand(name, self.span_from(start)),
                None => self.unlike_registers(start)?,
            },
            b'[' => self.address()?,
            b'0'..=b'9' | b'-' => self.number()?,
            _ => name_operand(self.name()?, self.span_from(start)),
        };
        operands.push(operand);
        Some(())
    }

    /// `%tid.x`, `%lanemask_le`, or another uncommon name.
    #[cold]
    fn unlike_registers(&mut self, start: usize) -> Option<Operand<'a>> {
        self.at = start + 1;
        self.skip_identifier()?;
        if self.byte()? != b'.' {
            let name = self.ended(start).filter(|name| name.text != "%")?;
            return Some(name_operand(name, self.span_from(start)));
        }
        self.at += 1;
        self.skip_identifier()?;
        let register = SpecialRegister::from_text(self.since(start)?)?;
        let ends = matches!(self.byte()?, b',' | b';' | b'}');
        ends.then_some(Operand::Special(register, self.span_from(start)))
    }

    /// `[%rd1+8]`, `[kernel_param_0]`
    #[inline(always)]
    fn address(&mut self) -> Option<Operand<'a>> {
        self.at += 1;
        let (name, common) = match self.byte()? {
            b'%' => self.register()?,
            _ => (self.name()?, false),
        };
        if !common && !matches!(name_operand(name, Span::default()), Operand::Name(_)) {
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
        // `.unified` may follow.
        if !matches!(self.byte()?, b',' | b';') {
            return None;
        }
        Some(Operand::Address {
            base: AddressBase::Name(name),
            offset,
            unified: false,
        })
    }

    /// `42`, `-1`, `0xFF`, `0x7770U`, `0f3F800000`
    #[inline]
    pub fn number(&mut self) -> Option<Operand<'a>> {
        let start = self.at;
        let negative = self.byte()? == b'-';
        self.at += usize::from(negative);
        if let Some(kind @ (b'f' | b'd')) = self.source.as_bytes().get(self.at + 1) {
            if negative || self.byte()? != b'0' {
                return None;
            }
            self.at += 2;
            let high = self.hexadecimal()?;
            let value = match kind {
                b'f' => FloatValue::F32(high),
                _ => FloatValue::F64(u64::from(high) << 32 | u64::from(self.hexadecimal()?)),
            };
            let span = self.span_from(start);
            return matches!(self.byte()?, b',' | b';' | b'}')
                .then_some(Operand::Float(Float { value, span }));
        }
        let mut unsigned = false;
        let value = match self.source.as_bytes().get(self.at + 1) {
            Some(b'x') if self.byte()? == b'0' => {
                self.at += 2;
                let value = self.hexadecimal_digits()?;
                // As in the selector of `prmt`.
                unsigned = !negative && self.byte()? == b'U';
                self.at += usize::from(unsigned);
                matches!(self.byte()?, b',' | b';' | b'}').then_some(value)?
            }
            _ => self.digits()?,
        };
        Some(Operand::Integer(Integer {
            value: if negative {
                value.wrapping_neg()
            } else {
                value
            },
            unsigned,
            span: self.span_from(start),
        }))
    }

    /// A decimal number at the end of an operand.
    #[inline]
    fn digits(&mut self) -> Option<u64> {
        let value = self.unsigned()?;
        matches!(self.byte()?, b',' | b';' | b']' | b'}').then_some(value)
    }
}
