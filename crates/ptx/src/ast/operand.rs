//! Operands of instructions, and constants.

use std::fmt;

use super::name::{Name, Span};
use crate::names::SpecialRegister;

/// A range of [`Body::operands`](super::Body::operands).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct List {
    /// Index of the first operand.
    pub start: u32,
    /// The number of operands. Those of a nested list are elsewhere in the pool.
    pub len: u32,
}

/// An operand (PTX ISA, "Instruction Operands").
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand<'a> {
    /// A register, variable, label or function, depending on the symbols in scope.
    Name(Name<'a>),
    /// `%tid.x`, `%laneid`
    Special(SpecialRegister, Span),
    /// `%v.x`: component 0 to 3 of a vector register.
    Component {
        /// The vector register.
        name: Name<'a>,
        /// 0 for `.x` or `.r`, up to 3 for `.w` or `.a`.
        component: u8,
    },
    /// `42`, `0xFF`, `WARP_SZ`
    Integer(Integer),
    /// `1.5`, `0f3F800000`
    Float(Float),
    /// `!%p`
    Not(Name<'a>),
    /// `-%r` (`vadd` and the other video instructions), `-name`.
    Negated(Name<'a>),
    /// `%r.b0`, `%r.h1`: a byte or half selected by a video instruction.
    Select {
        /// The 32-bit register.
        name: Name<'a>,
        /// `-%r.b0`
        negated: bool,
        /// `.b0` … `.b3`, `.h0`, `.h1`, or several bytes as in `.b3210`.
        selector: Selector,
    },
    /// `name+4` outside brackets, as in `mov.u64 %rd, name+4`.
    Offset {
        /// The variable whose address it is.
        name: Name<'a>,
        /// Bytes added to it.
        offset: i64,
    },
    /// `[name+4]`, `[%rd]`, `[16]`
    Address {
        /// The base of the offset.
        base: AddressBase<'a>,
        /// The offset in bytes; the whole address if there is no base.
        offset: i64,
        /// Followed by `.unified`: declares a generic address.
        unified: bool,
    },
    /// `name[4]`, `name[%r1+1]`: an array element by its index.
    /// The pool holds the array and the index.
    Element(List, Span),
    /// `{a, b}`
    Vector(List, Span),
    /// `(a, b)`: the argument or return list of a call.
    Arguments(List, Span),
    /// `[tex, {x, y}]`, `[tensor, {x}, …]`: an address with coordinates.
    Indexed(List, Span),
    /// `%p|%q`: the pool holds both.
    Pair(List, Span),
    /// `_`
    Sink(Span),
}

impl<'a> Operand<'a> {
    /// The name in it; `None` for numbers and for lists, whose elements have theirs.
    pub fn name(&self) -> Option<Name<'a>> {
        match *self {
            Operand::Name(name)
            | Operand::Component { name, .. }
            | Operand::Not(name)
            | Operand::Negated(name)
            | Operand::Select { name, .. }
            | Operand::Offset { name, .. }
            | Operand::Address {
                base: AddressBase::Name(name),
                ..
            } => Some(name),
            _ => None,
        }
    }
}

/// The base of an address.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AddressBase<'a> {
    /// A register that holds an address, or a variable: `[%rd1]`, `[tile+4]`.
    Name(Name<'a>),
    /// An immediate, `[16]`, by its span.
    Immediate(Span),
}

/// The bytes or halves of a register that a video instruction takes: `.b0`,
/// `.h1`, `.b3210`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Selector {
    word: [u8; 5],
    len: u8,
}

impl Selector {
    /// Parses a selector without its dot.
    pub fn from_text(text: &str) -> Option<Selector> {
        let (first, digits) = text.as_bytes().split_first()?;
        let known = match first {
            b'b' => (1..=4).contains(&digits.len()),
            b'h' => (1..=2).contains(&digits.len()),
            _ => false,
        };
        if !known || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let mut word = [0; 5];
        word[..text.len()].copy_from_slice(text.as_bytes());
        let len = text.len() as u8;
        Some(Selector { word, len })
    }

    /// The word without its dot.
    pub fn text(&self) -> &str {
        // `from_text` takes nothing but ASCII.
        str::from_utf8(&self.word[..self.len as usize]).unwrap_or("")
    }
}

impl fmt::Debug for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ".{}", self.text())
    }
}

/// An integer constant; constant expressions are already evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Integer {
    /// Two's complement, 64 bits, as the ISA evaluates constants.
    pub value: u64,
    /// Has the suffix `U`, or does not fit `.s64`.
    pub unsigned: bool,
    /// The whole expression, `2*(3+4)`.
    pub span: Span,
}

/// A floating-point constant (PTX ISA, "Floating-Point Constants").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Float {
    /// The bits, so that NaN payloads are preserved.
    pub value: FloatValue,
    /// The span, including the sign.
    pub span: Span,
}

/// The bits of a constant in its written width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FloatValue {
    /// `0f3F800000`
    F32(u32),
    /// `0d3FF0000000000000` and decimal literals, which the ISA reads as double.
    F64(u64),
}
