//! Vectors: `{a, b}` and registers of several elements.

use super::operand::{Checked, Direction, OperandChecker};
use super::symbols::Symbol;
use super::type_match::{self, ExpectedType};
use crate::ast::{FloatValue, List, Operand, Span};
use crate::diagnostic::{Code, Diagnostic};
use crate::isa::{Kind, special};
use crate::names::{Modifier, Opcode, Type};

impl<'a> OperandChecker<'_, '_, '_, 'a> {
    /// A vector for `.v2`, `.v4` and `.v8`; one register without them.
    pub(super) fn vector(&self, operand: &Operand<'a>, direction: Direction) -> Checked {
        let count = self.vector;
        if let Some(checked) = self.surface_data(operand) {
            return checked;
        }
        match *operand {
            Operand::Vector(list, span) if list.len != count => {
                let message = if count == 1 {
                    "found a vector, but the instruction has no `.v2` or `.v4`".to_owned()
                } else {
                    format!("expected {count} elements, found {}", list.len)
                };
                Err(Diagnostic::new(Code::OperandCount, span, message))
            }
            Operand::Vector(list, span) => self.elements(list, span, direction, true),
            Operand::Name(name) if count > 1 => match self.checker.symbol(name.text) {
                Some(Symbol::Register { ty, vector }) if u32::from(vector) == count => {
                    match self.expected {
                        Some(expected) if expected.takes_integers_for_floats(ty) => Ok(()),
                        _ => self.check_type(name, ty),
                    }
                }
                None => Ok(()),
                _ => self.wrong(operand, format!("expected a vector of {count} elements")),
            },
            _ if count > 1 => self.wrong(operand, format!("expected a vector of {count} elements")),
            _ if direction == Direction::Written => self.destination(operand),
            _ => self.source(operand),
        }
    }

    /// Fails for `{a}` in an instruction without `.v2`.
    pub(super) fn one_in_braces(&self, operand: &Operand<'a>) -> Checked {
        match operand {
            Operand::Vector(list, _) if self.vector == 1 && list.len == 1 => {
                self.wrong(operand, "found a list, expected a register")
            }
            _ => Ok(()),
        }
    }

    /// Surface instructions without `.v2` accept vectors of sufficient total size. With
    /// `.v2`, stores accept one register for all elements.
    fn surface_data(&self, operand: &Operand<'a>) -> Option<Checked> {
        let opcode = self.instruction.opcode;
        if !matches!(opcode, Opcode::Suld | Opcode::Sust) {
            return None;
        }
        let expected = self.expected?;
        let direction = match opcode {
            Opcode::Suld => Direction::Written,
            _ => Direction::Read,
        };
        let part_of = |length: u32| OperandChecker {
            expected: Some(ExpectedType {
                bits: expected.bits / length,
                wider: true,
                ..expected
            }),
            ..*self
        };
        match *operand {
            Operand::Vector(list, span) if self.vector == 1 && matches!(list.len, 2 | 4) => {
                Some(part_of(list.len).elements(list, span, direction, true))
            }
            Operand::Name(name) => match self.checker.symbol(name.text) {
                Some(Symbol::Register { ty, vector }) if self.vector == 1 && vector > 1 => {
                    Some(part_of(u32::from(vector)).check_type(name, ty))
                }
                Some(Symbol::Register { vector: 1, .. }) if opcode == Opcode::Sust => {
                    Some(self.source(operand))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// `{a, b}` with the number of elements of the row.
    pub(super) fn list(&self, kind: Kind, counts: &[u8], operand: &Operand<'a>) -> Checked {
        let (list, span) = match *operand {
            Operand::Vector(list, span) => (list, span),
            // A vector register is a list of its elements.
            Operand::Name(name) => match self.checker.symbol(name.text) {
                Some(Symbol::Register { ty, vector }) if vector > 1 && counts.contains(&vector) => {
                    return self.check_type(name, ty);
                }
                None => return Ok(()),
                _ if kind == Kind::SourceOrVector => return self.source(operand),
                _ if kind == Kind::RegisterOrFloat => return self.kind(kind, operand),
                _ if kind == Kind::Loaded => return self.destination(operand),
                _ => return self.wrong(operand, "expected a list in braces"),
            },
            // ptxas accepts one register for all elements.
            _ if kind == Kind::RegisterOrFloat => return self.kind(kind, operand),
            _ if kind == Kind::SourceOrVector => return self.source(operand),
            _ if kind == Kind::Loaded => return self.destination(operand),
            _ => return self.wrong(operand, "expected a list in braces"),
        };
        let fits = |count: &u8| u32::from(*count) == list.len;
        if !counts.iter().any(fits) {
            let counts: Vec<_> = counts.iter().map(u8::to_string).collect();
            let message = format!(
                "a list of {}, expected {} elements",
                list.len,
                counts.join(" or ")
            );
            return Err(Diagnostic::new(Code::OperandCount, span, message));
        }
        match kind {
            Kind::Destination => {
                let sink = |element: &&Operand<'a>| matches!(element, Operand::Sink(_));
                if let Some(sink) = self.checker.body.list(list).iter().find(sink) {
                    return self.wrong(
                        sink,
                        "an element of this result cannot be discarded with `_`",
                    );
                }
                self.elements(list, span, Direction::Written, false)
            }
            Kind::DestinationOrVector | Kind::Loaded => {
                self.elements(list, span, Direction::Written, false)
            }
            // Without a type, each integer constant has 64 bits.
            Kind::Register | Kind::RegisterOrFloat if self.integers_alone(list) => {
                self.wrong(operand, "expected at least one register in this list")
            }
            Kind::Source | Kind::Register => self.elements(list, span, Direction::Read, false),
            Kind::SourceOrVector | Kind::RegisterOrFloat => {
                self.elements(list, span, Direction::Read, true)
            }
            kind => {
                let mut elements = self.checker.body.list(list).iter();
                elements.try_for_each(|element| self.kind(kind, element))
            }
        }
    }

    /// Checks the pieces of a list that is valid as a whole.
    pub(super) fn pieces(&self, kind: Kind, pieces: &[u8], operand: &Operand<'a>) -> Checked {
        let Operand::Vector(List { mut start, .. }, span) = *operand else {
            return Ok(());
        };
        // If only registers are allowed, a piece is untyped.
        let bits = |expected: ExpectedType| match kind {
            Kind::Register => ExpectedType {
                ty: type_match::bits_of(expected.ty),
                ..expected
            },
            _ => expected,
        };
        let alone = OperandChecker {
            expected: self.expected.map(bits),
            ..*self
        };
        for piece in pieces {
            let len = u32::from(*piece);
            alone.list(kind, &[*piece], &Operand::Vector(List { start, len }, span))?;
            start += len;
        }
        Ok(())
    }

    fn integers_alone(&self, list: List) -> bool {
        let mut elements = self.checker.body.list(list).iter();
        elements.all(|element| matches!(element, Operand::Integer(_)))
    }

    /// The registers and constants between braces. Adjacent elements must be compatible, and
    /// their common type must be the expected one.
    pub(super) fn elements(
        &self,
        list: List,
        span: Span,
        direction: Direction,
        integers_for_floats: bool,
    ) -> Checked {
        let Some(expected) = self.expected else {
            return Ok(());
        };
        let first = self.checker.body.list(list).first();
        let is_constant = |e: &Operand<'a>| matches!(e, Operand::Integer(_) | Operand::Float(_));
        // After a constant ptxas does not compare adjacent elements in the data of `st`.
        let loose = integers_for_floats && first.is_some_and(is_constant);
        let mut left: Option<Type> = None;
        let mut same_type = true;
        let mut sinks = 0;
        for element in self.checker.body.list(list) {
            let ty = match *element {
                Operand::Sink(_) if direction != Direction::Read => {
                    sinks += 1;
                    continue;
                }
                Operand::Name(name) | Operand::Component { name, .. } => {
                    match self.checker.symbol(name.text) {
                        Some(Symbol::Register { ty, vector }) => {
                            let part = matches!(element, Operand::Component { .. });
                            if part != (vector > 1) {
                                self.source(element)?;
                            }
                            ty
                        }
                        None => continue,
                        Some(_) => return self.no_register(name),
                    }
                }
                // Next to others, special registers are untyped.
                Operand::Special(register, _) if direction != Direction::Written => {
                    if special::of(register).elements > 1 {
                        return self.wrong(element, "expected one register, found a vector");
                    }
                    match special::of(register).types.last() {
                        Some(ty) => type_match::bits_of(*ty),
                        None => continue,
                    }
                }
                // Next to a constant, registers are untyped.
                Operand::Integer(_) | Operand::Float(_) if direction != Direction::Written => {
                    same_type = false;
                    continue;
                }
                _ if direction == Direction::Written => {
                    return self.wrong(element, "expected a register for the result");
                }
                _ => return self.wrong(element, "expected a register or a constant"),
            };
            if let Some(left) = left.replace(ty) {
                if !loose && !type_match::compatible_in_vector(left, ty) {
                    let (left, ty) = (left.text(), ty.text());
                    let message = format!("a vector cannot combine `.{left}` and `.{ty}`");
                    return Err(Diagnostic::new(
                        Code::OperandType,
                        self.span(element),
                        message,
                    ));
                }
                same_type &= left == ty;
            }
        }
        if self.is_matrix_multiply() && first.is_some_and(is_constant) {
            return self.matrix(list, span, left.is_none());
        }
        self.constants(list, left)?;
        if self.instruction.opcode == Opcode::Wmma && expected.ty == Type::F32 {
            self.no_decimals(list)?;
        }
        // After a leading constant the other elements are not checked. Only half
        // precision does not allow it.
        if first.is_some_and(is_constant) {
            let halves = match expected.ty {
                _ if !integers_for_floats => false,
                Type::Bf16 | Type::F16x2 | Type::Bf16x2 => true,
                Type::F16 => matches!(first, Some(Operand::Float(_))),
                _ => false,
            };
            if left.is_some() && halves {
                return Err(self.mistyped(span, "a vector that begins with a constant", expected));
            }
            return Ok(());
        }
        if sinks == list.len {
            let message = "no element of this vector has a type";
            return Err(Diagnostic::new(Code::OperandType, span, message));
        }
        // A vector of registers of different types is untyped.
        let fits = |ty: Type| match (same_type, integers_for_floats) {
            (true, true) => expected.takes(ty) || expected.takes_integers_for_floats(ty),
            (true, false) => expected.takes(ty),
            (false, _) => expected.takes(type_match::bits_of(ty)),
        };
        match left {
            Some(ty) if !fits(ty) => {
                let what = format!("a vector of `.{}`", ty.text());
                Err(self.mistyped(span, &what, expected))
            }
            _ => Ok(()),
        }
    }

    /// Checks constants in a vector. A vector of constants must have the expected type; next
    /// to registers, constants must be of the same kind.
    fn constants(&self, list: List, register: Option<Type>) -> Checked {
        let elements = self.checker.body.list(list).iter();
        let is_constant = |e: &&Operand<'a>| matches!(e, Operand::Integer(_) | Operand::Float(_));
        let constants = elements.clone().filter(is_constant);
        if register.is_none() {
            return constants.copied().try_for_each(|one| self.source(&one));
        }
        self.neighbours(list)
    }

    /// Checks that each constant matches the adjacent elements.
    fn neighbours(&self, list: List) -> Checked {
        let list = self.checker.body.list(list);
        for (left, right) in list.iter().zip(list.iter().skip(1)) {
            let clash = match (left, right) {
                (Operand::Integer(_), Operand::Float(_)) => Some(left),
                (Operand::Float(_), Operand::Integer(_)) => Some(left),
                (Operand::Integer(_) | Operand::Float(_), adjacent) => {
                    self.conflicts(left, adjacent).then_some(left)
                }
                (adjacent, Operand::Integer(_) | Operand::Float(_)) => {
                    self.conflicts(right, adjacent).then_some(right)
                }
                _ => None,
            };
            if let Some(constant) = clash {
                let message = "the constant and the adjacent element have different types";
                let span = self.span(constant);
                return Err(Diagnostic::new(Code::OperandType, span, message));
            }
        }
        Ok(())
    }

    /// Whether the instruction is a matrix multiplication.
    pub(super) fn is_matrix_multiply(&self) -> bool {
        let opcode = self.instruction.opcode;
        opcode == Opcode::Mma
            || opcode == Opcode::Wmma && self.checker.modifiers(self.instruction).has(Modifier::Mma)
    }

    /// Checks a matrix that begins with a constant. ptxas uses the width of the first element
    /// whose width differs from that constant, if any. Integer and decimal constants have
    /// 64 bits.
    fn matrix(&self, list: List, span: Span, alone: bool) -> Checked {
        let Some(expected) = self.expected else {
            return Ok(());
        };
        self.neighbours(list)?;
        let elements = self.checker.body.list(list);
        let mut widths = elements.iter().filter_map(|element| self.width(element));
        let Some(first) = widths.next() else {
            return Ok(());
        };
        let width = widths.find(|width| *width != first);
        if expected.ty == Type::F64 || width == Some(expected.bits) {
            return Ok(());
        }
        let integers = matches!(elements.first(), Some(Operand::Integer(_)));
        if alone
            && width.is_none()
            && (first == expected.bits || integers && expected.ty != Type::B32)
        {
            return elements.iter().try_for_each(|one| self.source(one));
        }
        if !alone && width.is_none() && first == expected.bits {
            return Ok(());
        }
        let what = format!("a matrix of {} bits", width.unwrap_or(first));
        let found = self.mistyped(span, &what, expected);
        Err(found.help("write 32-bit constants as 0f3F800000; others have 64 bits"))
    }

    /// ptxas first moves the data of `wmma.store`, element by element.
    fn no_decimals(&self, list: List) -> Checked {
        let elements = self.checker.body.list(list).iter();
        let mut wide = elements.filter(
            |one| matches!(one, Operand::Float(float) if matches!(float.value, FloatValue::F64(_))),
        );
        match wide.next() {
            Some(decimal) if !self.is_matrix_multiply() => {
                let span = self.span(decimal);
                let message = "expected `.f32`, found a 64-bit constant";
                Err(Diagnostic::new(Code::OperandType, span, message)
                    .help("write it as 0f3F800000"))
            }
            _ => Ok(()),
        }
    }

    fn width(&self, element: &Operand<'a>) -> Option<u32> {
        match *element {
            Operand::Integer(_) => Some(64),
            Operand::Float(float) => match float.value {
                FloatValue::F32(_) => Some(32),
                FloatValue::F64(_) => Some(64),
            },
            Operand::Name(name) | Operand::Component { name, .. } => {
                match self.checker.symbol(name.text) {
                    Some(Symbol::Register { ty, .. }) => Some(ty.bits()),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether an element conflicts with the constant next to it.
    fn conflicts(&self, constant: &Operand<'a>, adjacent: &Operand<'a>) -> bool {
        let integer = matches!(constant, Operand::Integer(_));
        match *adjacent {
            Operand::Special(..) | Operand::Component { .. } => true,
            Operand::Name(name) => match self.checker.symbol(name.text) {
                Some(Symbol::Register { ty: Type::Pred, .. }) => true,
                Some(Symbol::Register { ty, .. }) if integer => type_match::is_float(ty),
                Some(Symbol::Register { ty, .. }) => {
                    type_match::is_integer(ty) || ty == Type::F16x2
                }
                _ => false,
            },
            _ => false,
        }
    }
}
