//! Addresses: operands in brackets, and the state spaces of the variables in them.

use super::operand::{Checked, OperandChecker};
use super::symbols::{Role, Symbol};
use super::type_match::{self, ExpectedType};
use crate::ast::{
    AddressBase, FunctionKind, List, Modifiers, Name, Operand, Space, Span, Variable,
};
use crate::diagnostic::{Code, Diagnostic};
use crate::names::{Modifier, Opcode, Type};

/// The state space of an instruction, if it names one.
pub fn named_space(modifiers: &Modifiers) -> Option<Space> {
    modifiers.as_slice().iter().find_map(|word| {
        Some(match word {
            Modifier::Const => Space::Const,
            Modifier::Global => Space::Global,
            Modifier::Local => Space::Local,
            Modifier::Param | Modifier::ParamEntry | Modifier::ParamFunc => Space::Param,
            Modifier::Shared | Modifier::SharedCta | Modifier::SharedCluster => Space::Shared,
            _ => return None,
        })
    })
}

/// Whether a variable is a texture, sampler or surface.
pub fn is_opaque(variable: &Variable<'_>) -> bool {
    matches!(variable.ty, Type::Texref | Type::Samplerref | Type::Surfref)
}

impl<'m, 'a> OperandChecker<'_, '_, 'm, 'a> {
    pub(super) fn address(&self, operand: &Operand<'a>) -> Checked {
        match self.expected {
            Some(expected) if expected.wider => self.wide_register(operand)?,
            Some(ExpectedType {
                ty: ty @ (Type::Texref | Type::Samplerref | Type::Surfref),
                ..
            }) => return self.handle(operand, ty),
            Some(expected) => return self.tensor_memory(operand, expected),
            None => {}
        }
        match *operand {
            Operand::Address { base, unified, .. } => {
                let of_unified = match base {
                    AddressBase::Immediate(span) => {
                        self.number(span)?;
                        false
                    }
                    AddressBase::Name(name) => self.base(name)?,
                };
                if unified && !(of_unified && self.may_be_unified()) {
                    return self.wrong(operand, "this address does not take `.unified`");
                }
                Ok(())
            }
            Operand::Element(list, _) if self.takes_element() => match self.array(operand, list)? {
                Some((name, variable)) => self.check_space(name, variable),
                None => Ok(()),
            },
            // PTX 1.x has addresses without brackets.
            Operand::Name(name) | Operand::Offset { name, .. }
                if self.checker.context.allowed.before(1, 2) =>
            {
                self.base(name).map(|_| ())
            }
            // ptxas accepts `_` as the destination of a reduction only.
            Operand::Sink(_) if self.is_reduction() => Ok(()),
            _ => self.wrong(operand, "expected an address in brackets"),
        }
    }

    /// An address that ptxas first moves to another register. It needs 32 or 64 bits;
    /// other addresses may be in registers of 8 and 16 bits too.
    fn wide_register(&self, operand: &Operand<'a>) -> Checked {
        let Operand::Address {
            base: AddressBase::Name(name),
            ..
        } = *operand
        else {
            return Ok(());
        };
        match self.checker.symbol(name.text) {
            Some(Symbol::Register { ty, .. }) if ty.bits() < 32 => self.wrong(
                operand,
                "expected a register of 32 or 64 bits in these brackets",
            ),
            _ => Ok(()),
        }
    }

    /// `[%r1+4]` in tensor memory, whose addresses are 32-bit registers.
    fn tensor_memory(&self, operand: &Operand<'a>, expected: ExpectedType) -> Checked {
        let Operand::Address {
            base: AddressBase::Name(name),
            ..
        } = *operand
        else {
            return self.wrong(operand, "expected an address in tensor memory");
        };
        match self.checker.symbol(name.text) {
            None => Ok(()),
            Some(Symbol::Register { ty, vector: 1 })
                if expected.takes(ty) && (type_match::is_bits(ty) || expected.ty != Type::B32) =>
            {
                Ok(())
            }
            _ => self.wrong(operand, "expected a register of 32 bits in these brackets"),
        }
    }

    /// The array of `array[4]`, if it is declared.
    pub(super) fn array(
        &self,
        operand: &Operand<'a>,
        list: List,
    ) -> Result<Option<(Name<'a>, &'m Variable<'a>)>, Diagnostic> {
        let Some(Operand::Name(name)) = self.checker.body.list(list).first() else {
            return Ok(None);
        };
        match self.checker.symbol(name.text) {
            Some(Symbol::Variable(variable, _)) if !variable.dims.is_empty() => {
                Ok(Some((*name, variable)))
            }
            None => Ok(None),
            _ => {
                let message = format!("`{}` is not an array", name.text);
                self.wrong(operand, message).map(|()| None)
            }
        }
    }

    /// `[16]`
    fn number(&self, span: Span) -> Checked {
        let modifiers = self.checker.modifiers(self.instruction);
        if named_space(modifiers) == Some(Space::Local) {
            return Ok(());
        }
        let message = "only an address in `.local` memory may be a constant";
        Err(Diagnostic::new(Code::OperandKind, span, message)
            .help("move the constant to a register first"))
    }

    /// Checks the name in an address; returns whether it may be `.unified`.
    fn base(&self, name: Name<'a>) -> Result<bool, Diagnostic> {
        let span = || self.name_span(name);
        match self.checker.symbol(name.text) {
            Some(Symbol::Register { ty, vector: 1 })
                if type_match::is_address(ty) && ty.bits() >= self.min_address_bits() =>
            {
                self.parameter_by_register(span())?;
                self.expanded_address(span(), Some(ty))?;
                self.address_of_code(name, ty)?;
                Ok(true)
            }
            Some(Symbol::Register { ty, .. }) => Err(Diagnostic::new(
                Code::OperandType,
                span(),
                format!(
                    "`{}` is `.{}`, which is not an address",
                    name.text,
                    ty.text()
                ),
            )),
            Some(Symbol::Variable(variable, role)) => {
                self.check_space(name, variable)?;
                self.parameter(name, variable, role)?;
                self.expanded_address(span(), None)?;
                Ok(variable.attributes.unified.is_some())
            }
            Some(
                Symbol::Function(_) | Symbol::Label | Symbol::Targets(_) | Symbol::Prototype(_),
            ) => Err(Diagnostic::new(
                Code::OperandKind,
                span(),
                format!("`{}` is code, not an address", name.text),
            )),
            None if self.checker.is_special(name) => match self.instruction.opcode {
                Opcode::Mbarrier | Opcode::Prefetchu => Err(Diagnostic::new(
                    Code::OperandKind,
                    span(),
                    format!("`{}` is a special register, not an address", name.text),
                )
                .help("move it to a register first")),
                _ => Ok(false),
            },
            None => Ok(true),
        }
    }

    /// ptxas expands some instructions into several others, which have more requirements
    /// for an address: for the register of this type, or the variable.
    fn expanded_address(&self, span: Span, register: Option<Type>) -> Checked {
        let modifiers = self.checker.modifiers(self.instruction);
        let (message, help) = match (self.instruction.opcode, register) {
            (Opcode::St, None) if modifiers.has(Modifier::Bulk) => {
                if named_space(modifiers).is_none() {
                    return Ok(());
                }
                ("this address must be in a register", "take it with `mov`")
            }
            (Opcode::Multimem, Some(ty)) if modifiers.has(Modifier::Red) && ty.bits() != 64 => (
                "this address must be in a 64-bit register",
                "widen it with `cvt`",
            ),
            _ => return Ok(()),
        };
        Err(Diagnostic::new(Code::OperandKind, span, message).help(help))
    }

    /// Where ptxas generates code, addresses of global memory and generic ones have 64 bits.
    fn address_of_code(&self, name: Name<'a>, ty: Type) -> Checked {
        let opcode = self.instruction.opcode;
        // Others take an address of shared memory, or are expanded.
        let of_memory = matches!(
            opcode,
            Opcode::Ld
                | Opcode::St
                | Opcode::Ldu
                | Opcode::Atom
                | Opcode::Red
                | Opcode::Prefetch
                | Opcode::Prefetchu
                | Opcode::Discard
                | Opcode::Applypriority
                | Opcode::Mbarrier
        );
        if !self.checker.context.allowed.codegen || ty.bits() != 32 || !of_memory {
            return Ok(());
        }
        let modifiers = self.checker.modifiers(self.instruction);
        let space = match named_space(modifiers) {
            Some(Space::Global) => "global",
            None if !modifiers.has(Modifier::Async) => "generic",
            _ => return Ok(()),
        };
        let message = format!(
            "`{}` is `.{}`, ptxas compiles only 64-bit {space} addresses",
            name.text,
            ty.text()
        );
        Err(
            Diagnostic::new(Code::OperandType, self.name_span(name), message)
                .help("widen it with `cvt.u64.u32`, or name the state space, as in `ld.shared`"),
        )
    }

    /// The minimum width of an address register in bits; most instructions take any.
    fn min_address_bits(&self) -> u32 {
        match self.instruction.opcode {
            Opcode::Wmma | Opcode::Tcgen05 => 32,
            _ => 0,
        }
    }

    /// Whether the instruction takes an address with `.unified`.
    fn may_be_unified(&self) -> bool {
        let modifiers = self.checker.modifiers(self.instruction);
        let opcode = self.instruction.opcode;
        let reads = matches!(
            opcode,
            Opcode::Ld | Opcode::Ldu | Opcode::Atom | Opcode::Createpolicy
        ) || modifiers.has(Modifier::LdReduce);
        reads && named_space(modifiers).is_none_or(|space| space == Space::Global)
    }

    fn is_reduction(&self) -> bool {
        let modifiers = self.checker.modifiers(self.instruction);
        self.instruction.opcode == Opcode::Red && !modifiers.has(Modifier::Async)
    }

    /// Whether the instruction takes `array[4]` as an address.
    fn takes_element(&self) -> bool {
        let modifiers = self.checker.modifiers(self.instruction);
        !modifiers.has(Modifier::Bulk)
            && matches!(
                self.instruction.opcode,
                Opcode::Ld | Opcode::Ldu | Opcode::St
            )
    }

    /// Checks that a variable is in the state space of the instruction.
    pub(super) fn check_space(&self, name: Name<'a>, variable: &Variable<'a>) -> Checked {
        let wrong = |message: String| {
            let span = self.name_span(name);
            Err(Diagnostic::new(Code::StateSpace, span, message))
        };
        if is_opaque(variable) {
            return match self.instruction.opcode {
                Opcode::Ld | Opcode::Ldu | Opcode::St | Opcode::Multimem | Opcode::Createpolicy => {
                    wrong(format!("`{}` is opaque, not memory", name.text))
                }
                Opcode::Mbarrier => wrong(format!("`{}` is opaque, not memory", name.text)),
                Opcode::Wmma | Opcode::Tcgen05 => {
                    wrong(format!("`{}` is opaque, not memory", name.text))
                }
                _ => Ok(()),
            };
        }
        let modifiers = self.checker.modifiers(self.instruction);
        let accessed = match (self.space, self.instruction.opcode) {
            (Some(space), _) => Some(space),
            // These accept any variable.
            (None, Opcode::Fence | Opcode::Tcgen05) => return Ok(()),
            (None, _) => named_space(modifiers),
        };
        let space = variable.space;
        match accessed {
            Some(accessed) if accessed == space => Ok(()),
            Some(accessed) => wrong(format!(
                "`{}` is in `.{}` memory, the instruction accesses `.{}`",
                name.text,
                space.text(),
                accessed.text()
            )),
            None if matches!(space, Space::Const | Space::Param) => wrong(format!(
                "`{}` is in `.{}` memory, which the instruction must name",
                name.text,
                space.text()
            )),
            None => Ok(()),
        }
    }

    /// Checks that a function reads its parameters and writes its results.
    fn parameter(&self, name: Name<'a>, variable: &Variable<'a>, role: Role) -> Checked {
        if variable.space != Space::Param {
            return Ok(());
        }
        let modifiers = self.checker.modifiers(self.instruction);
        let message = match (self.instruction.opcode, role) {
            (Opcode::St, Role::KernelParameter | Role::Parameter) => {
                "is a parameter, which only the caller writes"
            }
            (Opcode::Ld, Role::Returned) => "is returned, which only the caller reads",
            (Opcode::Ld, Role::Own) if modifiers.has(Modifier::ParamEntry) => {
                "is not a parameter of a kernel"
            }
            (Opcode::Ld, Role::KernelParameter) if modifiers.has(Modifier::ParamFunc) => {
                "is a parameter of a kernel"
            }
            (Opcode::Prefetch, Role::Own) => "belongs to a call and has no address",
            (Opcode::Ld | Opcode::St, Role::Own) if self.instruction.guarded => {
                "belongs to a call, which cannot have a guard"
            }
            _ => return Ok(()),
        };
        let span = self.name_span(name);
        let message = format!("`{}` {message}", name.text);
        Err(Diagnostic::new(Code::StateSpace, span, message))
    }

    /// `.param::func` in a kernel is the memory of its calls, which is accessed by
    /// name only.
    fn parameter_by_register(&self, span: Span) -> Checked {
        let modifiers = self.checker.modifiers(self.instruction);
        if self.checker.kind == FunctionKind::Func || !modifiers.has(Modifier::ParamFunc) {
            return Ok(());
        }
        let message = "in a kernel `.param::func` memory is accessed by name";
        Err(Diagnostic::new(Code::StateSpace, span, message))
    }
}
