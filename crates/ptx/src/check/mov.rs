//! The operands of `mov`, and the addresses that `mov` and `cvta` take.

use super::address::{is_opaque, named_space};
use super::operand::{Checked, Direction, OperandChecker};
use super::symbols::{Role, Symbol};
use crate::ast::{FunctionKind, List, Name, Operand, Space, Span, Variable};
use crate::diagnostic::{Code, Diagnostic};
use crate::features::since;
use crate::isa::special;
use crate::names::{Opcode, SpecialRegister, Type};
use crate::requirements::Requirement;

impl<'a> OperandChecker<'_, '_, '_, 'a> {
    /// The source of `mov`: a value, or something that has an address.
    pub(super) fn movable(&self, operand: &Operand<'a>) -> Checked {
        let operands = self.checker.body.list(self.instruction.operands);
        let unpacks = self.vector == 1 && operands.first().is_some_and(|to| self.is_vector(to));
        if unpacks && self.is_vector(operand) {
            return self.wrong(
                operand,
                "`mov` packs a vector into one register or unpacks it, not both",
            );
        }
        match *operand {
            Operand::Name(name) | Operand::Offset { name, .. } => {
                match self.checker.symbol(name.text) {
                    Some(Symbol::Register { ty, vector }) if vector > 1 => {
                        self.vector_register(name, ty, vector)
                    }
                    Some(Symbol::Variable(variable, role)) => {
                        let direct = matches!(operand, Operand::Name(_));
                        self.address_of(operand, name, variable, direct && role == Role::Own)
                    }
                    Some(Symbol::Function(function)) => self
                        .source(operand)
                        .and_then(|()| self.address_of_function(name, function.kind)),
                    Some(Symbol::Label) => {
                        self.wrong(operand, "`mov` cannot take the address of a label")
                    }
                    _ => self.source(operand),
                }
            }
            Operand::Element(list, _) => match self.array(operand, list)? {
                Some((name, variable)) => self.address_of(operand, name, variable, false),
                None => Ok(()),
            },
            Operand::Special(register, span) => self.special(register, span),
            Operand::Not(name)
                if self
                    .expected
                    .is_some_and(|expected| expected.ty == Type::Pred) =>
            {
                match SpecialRegister::from_text(name.text) {
                    Some(register) if self.checker.names.symbol(name.text).is_none() => {
                        self.special(register, self.name_span(name))
                    }
                    _ => self.source(operand),
                }
            }
            Operand::Vector(list, span) => self.parts(list, span, Direction::Read),
            _ => self.source(operand),
        }
    }

    /// The destination of `mov`.
    pub(super) fn unpacked(&self, operand: &Operand<'a>) -> Checked {
        match *operand {
            Operand::Vector(list, span) => self.parts(list, span, Direction::Written),
            Operand::Name(name) => match self.checker.symbol(name.text) {
                Some(Symbol::Register { ty, vector }) if vector > 1 => {
                    self.vector_register(name, ty, vector)
                }
                _ if self.vector > 1 => self.wrong(operand, "expected a vector"),
                _ => self.destination(operand),
            },
            _ if self.vector > 1 => self.wrong(operand, "expected a vector"),
            _ => self.destination(operand),
        }
    }

    /// Whether an operand consists of several registers.
    fn is_vector(&self, operand: &Operand<'a>) -> bool {
        match *operand {
            Operand::Vector(list, _) => list.len > 1,
            Operand::Name(name) => matches!(
                self.checker.symbol(name.text),
                Some(Symbol::Register { vector, .. }) if vector > 1
            ),
            _ => false,
        }
    }

    /// `{a, b}`: with `.v2` or `.v4` that many elements of the type of the instruction,
    /// otherwise the parts of one value of that type.
    fn parts(&self, list: List, span: Span, direction: Direction) -> Checked {
        if self.vector > 1 {
            if list.len != self.vector {
                let message = format!("expected {} elements, found {}", self.vector, list.len);
                return Err(Diagnostic::new(Code::OperandCount, span, message));
            }
            return self.elements(list, span, direction, true);
        }
        let Some(part) = self.part(list.len) else {
            let message = "the type of the instruction cannot be split into this many parts";
            return Err(Diagnostic::new(Code::OperandCount, span, message));
        };
        part.elements(list, span, direction, false)
    }

    /// The checker for one of `count` parts.
    fn part(&self, count: u32) -> Option<Self> {
        let mut expected = self.expected?;
        expected.ty = match (expected.ty, count) {
            (ty @ (Type::B16 | Type::B32 | Type::B64 | Type::B128), 1) => ty,
            (Type::B16, 2) | (Type::B32, 4) => Type::B8,
            (Type::B32, 2) | (Type::B64, 4) => Type::B16,
            (Type::B64, 2) | (Type::B128, 4) => Type::B32,
            (Type::B128, 2) => Type::B64,
            _ => return None,
        };
        expected.bits = expected.ty.bits();
        Some(OperandChecker {
            expected: Some(expected),
            ..*self
        })
    }

    /// `%v` of `.reg .v2 .b32 %v`
    fn vector_register(&self, name: Name<'a>, ty: Type, vector: u8) -> Checked {
        let count = u32::from(vector);
        if self.vector == count {
            return self.check_type(name, ty);
        }
        match self.part(count).filter(|_| self.vector == 1) {
            Some(part) => part.check_type(name, ty),
            None => {
                let message = format!("`{}` is a vector of {count}", name.text);
                let span = self.name_span(name);
                Err(Diagnostic::new(Code::OperandKind, span, message))
            }
        }
    }

    /// The address of a variable, which is an integer of any size.
    fn address_of(
        &self,
        operand: &Operand<'a>,
        name: Name<'a>,
        variable: &Variable<'a>,
        alone: bool,
    ) -> Checked {
        if alone && variable.space == Space::Param {
            let message = format!("`{}` belongs to a call and has no address", name.text);
            return self.wrong(operand, message);
        }
        let Some(expected) = self.expected else {
            return Ok(());
        };
        // Handles of textures are moved as `.u64`, whatever the address size.
        let fits = expected.takes_integer()
            && expected.ty != Type::Pred
            && (!is_opaque(variable)
                || expected.ty == Type::U64
                || self.instruction.opcode != Opcode::Mov);
        if fits {
            return Ok(());
        }
        Err(self.mistyped(self.span(operand), "an address", expected))
    }

    fn address_of_function(&self, name: Name<'a>, kind: FunctionKind) -> Checked {
        let (what, floor) = match kind {
            FunctionKind::Entry => ("the address of a kernel", since(3, 1, 35)),
            FunctionKind::Func => ("the address of a function", since(2, 1, 0)),
        };
        let span = self.name_span(name);
        let requirement = Requirement { what, floor, span };
        let missing = self.checker.context.missing_requirement(requirement);
        missing.map_or(Ok(()), Err)
    }

    pub(super) fn special(&self, register: SpecialRegister, span: Span) -> Checked {
        self.checker.context.special(register, span)?;
        let special = special::of(register);
        let written = register.text();
        let Some(expected) = self.expected else {
            return Ok(());
        };
        let part = match (special.elements, self.vector) {
            (1, _) => Some(expected),
            (elements, vector) if vector == elements => Some(expected),
            (elements, 1) if expected.ty == Type::B128 => {
                self.part(elements).and_then(|part| part.expected)
            }
            _ => None,
        };
        let fits = part.is_some_and(|part| special.types.iter().any(|ty| part.takes(*ty)));
        if fits {
            return Ok(());
        }
        let message = format!(
            "`{written}` is {}, expected {}",
            special.describe(),
            expected.describe()
        );
        Err(Diagnostic::new(Code::OperandType, span, message))
    }

    /// The source of `cvta` and similar: an address, or a variable in the space of the
    /// instruction.
    pub(super) fn named(&self, operand: &Operand<'a>) -> Checked {
        let (name, alone) = match *operand {
            Operand::Name(name) => (name, true),
            Operand::Offset { name, .. } => (name, false),
            Operand::Element(list, _) => match self.array(operand, list)? {
                Some((name, _)) => (name, false),
                None => return Ok(()),
            },
            _ => return self.source(operand),
        };
        let Some(Symbol::Variable(variable, role)) = self.checker.symbol(name.text) else {
            return match self.checker.symbol(name.text) {
                Some(Symbol::Function(_)) if self.instruction.opcode == Opcode::Cvta => {
                    self.wrong(operand, "a function has no state space")
                }
                _ => self.source(operand),
            };
        };
        let modifiers = self.checker.modifiers(self.instruction);
        let looks = named_space(modifiers).unwrap_or(Space::Shared);
        if variable.space != looks {
            let message = format!(
                "`{}` is in `.{}` memory, the instruction accesses `.{}`",
                name.text,
                variable.space.text(),
                looks.text()
            );
            let span = self.span(operand);
            return Err(Diagnostic::new(Code::StateSpace, span, message));
        }
        self.address_of(operand, name, variable, alone && role == Role::Own)
    }
}
