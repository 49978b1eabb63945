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
        match self.wanted {
            Some(wanted) if wanted.wider => self.whole(operand)?,
            Some(ExpectedType {
                ty: ty @ (Type::Texref | Type::Samplerref | Type::Surfref),
                ..
            }) => return self.handle(operand, ty),
            Some(wanted) => return self.tensor_memory(operand, wanted),
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
                    return self.wrong(operand, "`.unified` does not belong to this address");
                }
                Ok(())
            }
            Operand::Element(list, _) if self.indexes() => match self.array(operand, list)? {
                Some((name, variable)) => self.lies(name, variable),
                None => Ok(()),
            },
            // PTX 1.x has addresses without brackets.
            Operand::Name(name) | Operand::Offset { name, .. }
                if self.checker.context.allowed.before(1, 2) =>
            {
                self.base(name).map(|_| ())
            }
            // ptxas reduces into nothing, though no other instruction does.
            Operand::Sink(_) if self.reduces() => Ok(()),
            _ => self.wrong(operand, "an address in brackets belongs here"),
        }
    }

    /// An address that ptxas moves elsewhere first; others may lie in registers of
    /// 8 and 16 bits too.
    fn whole(&self, operand: &Operand<'a>) -> Checked {
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
                "a register of 32 or 64 bits belongs in these brackets",
            ),
            _ => Ok(()),
        }
    }

    /// `[%r1+4]` in tensor memory, whose addresses are 32-bit registers.
    fn tensor_memory(&self, operand: &Operand<'a>, wanted: ExpectedType) -> Checked {
        let Operand::Address {
            base: AddressBase::Name(name),
            ..
        } = *operand
        else {
            return self.wrong(operand, "an address in tensor memory belongs here");
        };
        match self.checker.symbol(name.text) {
            None => Ok(()),
            Some(Symbol::Register { ty, vector: 1 })
                if wanted.takes(ty) && (type_match::is_bits(ty) || wanted.ty != Type::B32) =>
            {
                Ok(())
            }
            _ => self.wrong(operand, "a register of 32 bits belongs in these brackets"),
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
                let message = format!("`{}` is no array", name.text);
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
        let message = "only addresses in `.local` memory may be numbers";
        Err(Diagnostic::new(Code::OperandKind, span, message)
            .help("move the number to a register first"))
    }

    /// The name in an address; gives whether `.unified` may be said of it.
    fn base(&self, name: Name<'a>) -> Result<bool, Diagnostic> {
        let span = || self.name_span(name);
        match self.checker.symbol(name.text) {
            Some(Symbol::Register { ty, vector: 1 })
                if type_match::is_address(ty) && ty.bits() >= self.least_address() =>
            {
                self.parameter_by_register(span())?;
                self.written_out(span(), Some(ty))?;
                Ok(true)
            }
            Some(Symbol::Register { ty, .. }) => Err(Diagnostic::new(
                Code::OperandType,
                span(),
                format!("`{}` is `.{}`, which is no address", name.text, ty.text()),
            )),
            Some(Symbol::Variable(variable, role)) => {
                self.lies(name, variable)?;
                self.parameter(name, variable, role)?;
                self.written_out(span(), None)?;
                Ok(variable.attributes.unified.is_some())
            }
            Some(
                Symbol::Function(_) | Symbol::Label | Symbol::Targets(_) | Symbol::Prototype(_),
            ) => Err(Diagnostic::new(
                Code::OperandKind,
                span(),
                format!("`{}` is code, which has no address here", name.text),
            )),
            None if self.checker.is_special(name) => match self.instruction.opcode {
                Opcode::Mbarrier | Opcode::Prefetchu => Err(Diagnostic::new(
                    Code::OperandKind,
                    span(),
                    format!("`{}` is a special register, no address here", name.text),
                )
                .help("move it to a register first")),
                _ => Ok(false),
            },
            None => Ok(true),
        }
    }

    /// Some instructions ptxas writes out as several others, which ask for more
    /// of an address: of the register of this type, or the variable.
    fn written_out(&self, span: Span, register: Option<Type>) -> Checked {
        let modifiers = self.checker.modifiers(self.instruction);
        let (message, help) = match (self.instruction.opcode, register) {
            (Opcode::St, None) if modifiers.has(Modifier::Bulk) => {
                if named_space(modifiers).is_none() {
                    return Ok(());
                }
                (
                    "this address has to stand in a register",
                    "take it with `mov`",
                )
            }
            (Opcode::Multimem, Some(ty)) if modifiers.has(Modifier::Red) && ty.bits() != 64 => (
                "this address has to stand in a register of 64 bits",
                "widen it with `cvt`",
            ),
            _ => return Ok(()),
        };
        Err(Diagnostic::new(Code::OperandKind, span, message).help(help))
    }

    /// How wide an address is at least; most take any register.
    fn least_address(&self) -> u32 {
        match self.instruction.opcode {
            Opcode::Wmma | Opcode::Tcgen05 => 32,
            _ => 0,
        }
    }

    /// Whether the instruction looks at memory of the host that has one address
    /// everywhere.
    fn may_be_unified(&self) -> bool {
        let modifiers = self.checker.modifiers(self.instruction);
        let opcode = self.instruction.opcode;
        let reads = matches!(
            opcode,
            Opcode::Ld | Opcode::Ldu | Opcode::Atom | Opcode::Createpolicy
        ) || modifiers.has(Modifier::LdReduce);
        reads && named_space(modifiers).is_none_or(|space| space == Space::Global)
    }

    fn reduces(&self) -> bool {
        let modifiers = self.checker.modifiers(self.instruction);
        self.instruction.opcode == Opcode::Red && !modifiers.has(Modifier::Async)
    }

    /// Whether the instruction takes `array[4]` for an address.
    fn indexes(&self) -> bool {
        let modifiers = self.checker.modifiers(self.instruction);
        !modifiers.has(Modifier::Bulk)
            && matches!(
                self.instruction.opcode,
                Opcode::Ld | Opcode::Ldu | Opcode::St
            )
    }

    /// Checks that a variable is in the state space of the instruction.
    pub(super) fn lies(&self, name: Name<'a>, variable: &Variable<'a>) -> Checked {
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
        let looks = match (self.space, self.instruction.opcode) {
            (Some(space), _) => Some(space),
            // These accept any variable.
            (None, Opcode::Fence | Opcode::Tcgen05) => return Ok(()),
            (None, _) => named_space(modifiers),
        };
        let space = variable.space;
        match looks {
            Some(looks) if looks == space => Ok(()),
            Some(looks) => wrong(format!(
                "`{}` lies in `.{}` memory, the instruction looks in `.{}`",
                name.text,
                space.text(),
                looks.text()
            )),
            None if matches!(space, Space::Const | Space::Param) => wrong(format!(
                "`{}` lies in `.{}` memory, which the instruction has to say",
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
                "is no parameter of a kernel"
            }
            (Opcode::Ld, Role::KernelParameter) if modifiers.has(Modifier::ParamFunc) => {
                "is a parameter of a kernel"
            }
            (Opcode::Prefetch, Role::Own) => "belongs to a call and has no address",
            (Opcode::Ld | Opcode::St, Role::Own) if self.instruction.guarded => {
                "belongs to a call, for which no thread may be skipped"
            }
            _ => return Ok(()),
        };
        let span = self.name_span(name);
        let message = format!("`{}` {message}", name.text);
        Err(Diagnostic::new(Code::StateSpace, span, message))
    }

    /// `.param::func` in a kernel is the memory of its calls, which has to be
    /// named.
    fn parameter_by_register(&self, span: Span) -> Checked {
        let modifiers = self.checker.modifiers(self.instruction);
        if self.checker.kind == FunctionKind::Func || !modifiers.has(Modifier::ParamFunc) {
            return Ok(());
        }
        let message = "in a kernel `.param::func` memory has to be named";
        Err(Diagnostic::new(Code::StateSpace, span, message))
    }
}
