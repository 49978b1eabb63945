//! Passes over instructions like others before.
//!
//! Compilers write the same instruction again and again with other registers. Whether it is
//! right depends on its mnemonic, the kinds of its operands and the types of its registers,
//! which are packed into a key. Of the instructions with one key the first is read for the
//! check; the others need no syntax tree.

use super::text::Text;
use crate::ast::{
    Attributes, FloatValue, Function, FunctionKind, Name, Operand, Space, Statement, Variable,
};
use crate::bytes::{
    before_and_through_digits, decimal_length, through_alphanumeric, through_digits, word_at,
};
use crate::names::{SpecialRegister, Type};
use crate::parse::mnemonic::Mnemonics;
use crate::scope::{MAX_COMPARED, Meaning, Scopes};

/// The size of the table; a new key replaces the old one in its slot.
const SLOTS: usize = 2048;

/// The bits of one operand: its kind, and below it the type of its registers.
const OPERAND_BITS: usize = 10;
const TYPE_BITS: u32 = 6;

/// The type of a register; `None` for other names.
#[derive(Clone, Copy, Debug)]
struct Declared(Option<Type>);

impl Meaning for Declared {
    type Register = Type;

    fn register(&self) -> Option<Type> {
        self.0
    }
}

impl Declared {
    fn of(variable: &Variable<'_>) -> Declared {
        let is_register = variable.space == Space::Reg && variable.vector == 1;
        Declared(is_register.then_some(variable.ty))
    }
}

/// What an instruction has at the place of an operand.
#[derive(Clone, Copy)]
enum OperandKind {
    Register = 1,
    Address,
    AddressWithOffset,
    Integer,
    Float32,
    Float64,
    List1,
    List2,
    List4,
    List8,
    Parameter,
    ParameterWithOffset,
}

impl OperandKind {
    fn of(self, ty: Type) -> u64 {
        (self as u64) << TYPE_BITS | ty as u64
    }

    /// For a constant.
    fn untyped(self) -> u64 {
        (self as u64) << TYPE_BITS
    }
}

/// What an instruction is known by: all that its check depends on.
#[derive(Clone, Copy)]
pub struct Key(u64);

/// The instructions of a module so far, and the registers of the function being read.
#[derive(Debug)]
pub struct Skimmer<'a> {
    /// For each mnemonic, whether the check of its instructions depends on their key alone.
    /// Those without a flag are new.
    pub memoizable: Vec<bool>,
    keys: Vec<u64>,
    scopes: Scopes<'a, Declared>,
    /// The first parameters of the function; those that its instructions may treat in different
    /// ways are empty.
    parameters: Vec<&'a str>,
    /// The statements of the function whose declarations are in `scopes`.
    declared: usize,
    /// The part of a key for the kind of the function.
    kind: u64,
    /// A name may have another meaning than `scopes` has for it.
    ambiguous: bool,
}

impl Default for Skimmer<'_> {
    fn default() -> Self {
        Skimmer {
            memoizable: Vec::new(),
            keys: vec![0; SLOTS],
            scopes: Scopes::default(),
            parameters: Vec::new(),
            declared: 0,
            kind: 0,
            ambiguous: false,
        }
    }
}

impl<'a> Skimmer<'a> {
    /// Begins with the body of a function.
    pub fn begin(&mut self, function: &Function<'a>) {
        self.scopes = Scopes::new(&[], |_| Declared(None), |_| {});
        self.declared = 0;
        self.kind = 1 | u64::from(function.kind == FunctionKind::Func) << 1;
        self.parameters.clear();
        let parameters = function.params.iter().take(MAX_COMPARED).map(parameter);
        self.parameters.extend(parameters);
        for variable in function.returns.iter().chain(&function.params) {
            if variable.space == Space::Reg {
                self.declare(variable);
            }
        }
    }

    /// Ends with the body whose statements these are; whether all names had the meaning that
    /// they were taken for.
    pub fn end(&mut self, statements: &[Statement<'a>]) -> bool {
        self.follow(statements);
        !self.ambiguous
    }

    /// Whether an instruction with this key was read before.
    pub fn has(&self, key: Key) -> bool {
        self.keys.get(slot(key)) == Some(&key.0)
    }

    pub fn add(&mut self, key: Key) {
        if let Some(slot) = self.keys.get_mut(slot(key)) {
            *slot = key.0;
        }
    }

    /// Declares what new statements declare. The check reports duplicates.
    #[inline(always)]
    pub fn follow(&mut self, statements: &[Statement<'a>]) {
        if statements.len() > self.declared {
            self.enter(&statements[self.declared..]);
            self.declared = statements.len();
        }
    }

    fn enter(&mut self, new: &[Statement<'a>]) {
        for statement in new {
            match statement {
                Statement::Begin(_) => self.scopes.open(),
                Statement::End(_) => self.scopes.close(),
                Statement::Variable(variable) if variable.space == Space::Reg => {
                    self.declare(variable);
                }
                Statement::Variable(variable) => self.hides(variable.name),
                // A label holds in all of its block, also before it.
                Statement::Label(name) => self.hides(*name),
                Statement::Targets(targets) => self.hides(targets.name),
                Statement::Prototype(prototype) => self.hides(prototype.name),
                _ => {}
            }
        }
    }

    /// A name of another kind may hide a register or parameter.
    fn hides(&mut self, name: Name<'a>) {
        self.ambiguous |=
            self.parameters.contains(&name.text) || self.scopes.get(name.text).is_some();
    }

    fn declare(&mut self, variable: &Variable<'a>) {
        self.ambiguous |=
            is_like_special(variable) || self.parameters.contains(&variable.name.text);
        let meaning = Declared::of(variable);
        // The check reports a duplicate.
        let _ = self.scopes.declare(variable.name, variable.count, meaning);
    }

    /// The key of the instruction at the cursor, which is then behind it; `None` if there is
    /// none that the fast path reads, or if its check depends on more.
    #[inline]
    pub fn key(&self, text: &mut Text<'a>, mnemonics: &Mnemonics<'a>) -> Option<Key> {
        let guarded = text.byte()? == b'@';
        if guarded {
            text.at += 1;
            text.at += usize::from(text.byte()? == b'!');
            if self.register(text)? != Type::Pred || !matches!(text.byte()?, b' ' | b'\t') {
                return None;
            }
            text.skip_blanks()?;
        }
        let mnemonic = mnemonics.before_blank(text.source.as_bytes(), text.at)?;
        let id = mnemonic.id.index();
        if !*self.memoizable.get(id)? || id >= 1 << 12 {
            return None;
        }
        text.at = mnemonic.end;
        text.skip_blanks()?;
        let mut key = self.kind | (id as u64) << 2;
        for shift in (14..64).step_by(OPERAND_BITS) {
            key |= self.operand(text, guarded)? << shift;
            match text.byte()? {
                b',' => text.comma()?,
                b';' => {
                    text.at += 1;
                    return Some(Key(key));
                }
                _ => return None,
            }
        }
        None
    }

    #[inline(always)]
    fn operand(&self, text: &mut Text<'a>, guarded: bool) -> Option<u64> {
        match text.byte()? {
            b'%' | b'A'..=b'Z' | b'a'..=b'z' => {
                Some(OperandKind::Register.of(self.register(text)?))
            }
            b'0'..=b'9' | b'-' => number(text),
            b'[' => self.address(text, guarded),
            b'{' => self.list(text),
            _ => None,
        }
    }

    /// The type of the register at the cursor. The caller checks what follows.
    #[inline(always)]
    fn register(&self, text: &mut Text<'a>) -> Option<Type> {
        let word = text.eight()?;
        let (letters, digits) = before_and_through_digits(word);
        let length = letters + digits;
        // What stands before the digits is no name, or that of a range.
        if length < 8
            && let name = word.swap_bytes() >> (64 - 8 * length)
            && let Some(ty) = self.scopes.numbered_register(name, digits as u32)
        {
            text.at += length;
            return Some(ty);
        }
        self.lone_register(text, word)
    }

    /// The same of one without a number, `%SP`.
    fn lone_register(&self, text: &mut Text<'a>, word: u64) -> Option<Type> {
        const PERCENT: u64 = (b'%' ^ b'a') as u64;
        let is_percent = u64::from(word as u8 == b'%');
        let length = through_alphanumeric(word ^ (PERCENT * is_percent));
        if length == 0 {
            return None;
        }
        text.at += length;
        self.scopes.register(word.swap_bytes() >> (64 - 8 * length))
    }

    /// `[%rd1+8]`, `[kernel_param_0]`
    #[inline]
    fn address(&self, text: &mut Text<'a>, guarded: bool) -> Option<u64> {
        text.at += 1;
        let (bits, with_offset) = match text.byte()? {
            b'%' => (self.register(text)? as u64, OperandKind::AddressWithOffset),
            _ if guarded => return None,
            _ => {
                self.parameter(text)?;
                (0, OperandKind::ParameterWithOffset)
            }
        };
        let without_offset = match with_offset {
            OperandKind::AddressWithOffset => OperandKind::Address,
            _ => OperandKind::Parameter,
        };
        let mut kind = without_offset;
        if text.byte()? == b'+' {
            text.at += 1;
            text.at += usize::from(text.byte()? == b'-');
            // An offset of zero is none.
            let digits = text.eight()?;
            text.at += decimal_length(digits).filter(|_| digits as u8 != b'0')?;
            kind = with_offset;
        }
        if text.byte()? != b']' {
            return None;
        }
        text.at += 1;
        Some(kind.untyped() | bits)
    }

    /// The name of a parameter, whose number compilers write at its end.
    #[inline]
    fn parameter(&self, text: &mut Text<'a>) -> Option<()> {
        let rest = text.source.as_bytes().get(text.at..)?;
        let name = &rest[..memchr::memchr2(b']', b'+', rest)?];
        let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit());
        let digits = name.len() - digits.take(4).count();
        let number = name[digits..]
            .iter()
            .fold(0, |number, digit| number * 10 + usize::from(digit - b'0'));
        let known = self.parameters.get(number)?;
        if name.is_empty() || known.as_bytes() != name {
            return None;
        }
        text.at += name.len();
        Some(())
    }

    /// `{%f1, %f2}`, registers of one type.
    #[inline]
    fn list(&self, text: &mut Text<'a>) -> Option<u64> {
        text.at += 1;
        let ty = self.register(text)?;
        let mut length = 1;
        while text.byte()? == b',' {
            text.comma()?;
            if self.register(text)? != ty {
                return None;
            }
            length += 1;
        }
        if text.byte()? != b'}' {
            return None;
        }
        text.at += 1;
        let kind = match length {
            1 => OperandKind::List1,
            2 => OperandKind::List2,
            4 => OperandKind::List4,
            8 => OperandKind::List8,
            _ => return None,
        };
        Some(kind.of(ty))
    }
}

fn slot(key: Key) -> usize {
    (key.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % SLOTS
}

/// `42`, `-1`, `0xFF`, `0f3F800000`
#[inline]
fn number(text: &mut Text<'_>) -> Option<u64> {
    let sign = usize::from(text.byte()? == b'-');
    let word = text.eight()? >> (8 * sign);
    if let Some(length) = decimal_length(word)
        && sign + length < 8
        && matches!((word >> (8 * length)) as u8, b',' | b';')
    {
        text.at += sign + length;
        return Some(OperandKind::Integer.untyped());
    }
    if let Some(end) = long_decimal(text, text.at + sign) {
        text.at = end;
        return Some(OperandKind::Integer.untyped());
    }
    let kind = match text.number()? {
        Operand::Float(float) => match float.value {
            FloatValue::F32(_) => OperandKind::Float32,
            FloatValue::F64(_) => OperandKind::Float64,
        },
        _ => OperandKind::Integer,
    };
    Some(kind.untyped())
}

/// The end of a number of 8 to 18 digits at the end of an operand.
fn long_decimal(text: &Text<'_>, start: usize) -> Option<usize> {
    let bytes = text.source.as_bytes();
    let mut end = start;
    loop {
        let length = through_digits(word_at(bytes, end)?);
        end += length;
        if length < 8 {
            break;
        }
    }
    let octal = bytes.get(start) == Some(&b'0');
    let ends = matches!(bytes.get(end)?, b',' | b';');
    ((8..=18).contains(&(end - start)) && !octal && ends).then_some(end)
}

/// The name of a parameter in memory; empty for others, as no operand is.
fn parameter<'a>(variable: &Variable<'a>) -> &'a str {
    let is_plain = variable.space == Space::Param
        && variable.attributes == Attributes::default()
        && !matches!(variable.ty, Type::Texref | Type::Samplerref | Type::Surfref);
    if is_plain { variable.name.text } else { "" }
}

/// Whether a declared name, or one of the range `%pm<9>`, is that of a special register.
fn is_like_special(variable: &Variable<'_>) -> bool {
    let name = variable.name.text;
    match name.as_bytes() {
        // The names that compilers give.
        [b'%', b'p' | b'r' | b'f'] | [b'%', b'r' | b'f', b'd' | b's'] => false,
        [b'%', ..] if variable.count.is_none() => SpecialRegister::from_text(name).is_some(),
        [b'%', ..] => SpecialRegister::ALL.iter().any(|register| {
            let number = register.text().strip_prefix(name);
            number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        }),
        _ => false,
    }
}
