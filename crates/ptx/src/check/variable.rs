//! Checks declarations of variables and parameters: types and state spaces,
//! alignment, missing sizes.

use super::head::separate_compilation;
use super::{Allowed, Context};
use crate::ast::{Attributes, FunctionKind, Initializer, Linkage, Space, Variable};
use crate::diagnostic::{Code, Diagnostic, Report};
use crate::names::Type;
use crate::parse::BANKS;

/// The place of a declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeclarationPlace {
    Module,
    /// In the body of a kernel or function.
    Body(FunctionKind),
    /// Among the parameters of a kernel or function.
    Parameter {
        kind: FunctionKind,
        /// It is the last one.
        last: bool,
        /// The function has no body in the module.
        declared: bool,
    },
    Return {
        declared: bool,
    },
    /// Among the parameters of a prototype, whose names are ignored.
    Prototype,
}

/// The maximum size of a vector in bits.
const MAX_VECTOR: u32 = 128;

/// How a declaration may use a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TypeUse {
    Any,
    /// Packed values: not in vectors and parameters.
    Packed,
    Predicate,
    /// Textures, samplers, surfaces.
    Opaque,
    /// Only for instructions, but ptxas accepts arrays of it.
    Array,
    Instruction,
}

fn type_use(ty: Type) -> TypeUse {
    use Type::*;
    match ty {
        B8 | B16 | B32 | B64 | B128 | U8 | U16 | U32 | U64 | S8 | S16 | S32 | S64 | F16 | F16x2
        | F32 | F64 => TypeUse::Any,
        E2m1x4 | E2m3x4 | E3m2x4 => TypeUse::Packed,
        Pred => TypeUse::Predicate,
        Texref | Samplerref | Surfref => TypeUse::Opaque,
        F32x2 | E4m3 | E5m2 | E4m3x2 | E5m2x2 | E3m2x2 | E2m3x2 | E2m1x2 | Ue8m0x2 | U16x2
        | S16x2 | E4m3x4 | E5m2x4 | S2f6x2 => TypeUse::Array,
        _ => TypeUse::Instruction,
    }
}

/// Checks one declaration; reports its first error.
pub fn check(
    variable: &Variable<'_>,
    place: DeclarationPlace,
    context: &Context<'_, '_>,
    report: &mut Report,
) {
    let declaration = Declaration {
        variable,
        place,
        allowed: context.allowed,
        source: context.source,
    };
    let found = declaration
        .alignment()
        .or_else(|| declaration.ty())
        .or_else(|| declaration.space())
        .or_else(|| declaration.bank())
        .or_else(|| declaration.size())
        .or_else(|| declaration.attributes())
        .or_else(|| declaration.linkage());
    if let Some(found) = found {
        report.add(found);
    }
}

/// Several results must be registers.
pub fn several_results(returns: &[Variable<'_>], report: &mut Report) {
    if returns.len() < 2 {
        return;
    }
    if let Some(result) = returns.iter().find(|result| result.space != Space::Reg) {
        report.add(Diagnostic::new(
            Code::UnknownDirective,
            result.span,
            "multiple results must be in `.reg`",
        ));
    }
}

#[derive(Clone, Copy)]
struct Declaration<'m, 'a> {
    variable: &'m Variable<'a>,
    place: DeclarationPlace,
    allowed: Allowed,
    source: &'m str,
}

impl Declaration<'_, '_> {
    fn wrong(&self, code: Code, message: impl Into<String>) -> Option<Diagnostic> {
        Some(Diagnostic::new(
            code,
            self.variable.name.span(self.source),
            message,
        ))
    }

    fn array(&self) -> bool {
        !self.variable.dims.is_empty()
    }

    /// Whether the declaration only describes what a call passes. ptxas does not check
    /// scalars then.
    fn nameless(&self) -> bool {
        matches!(
            self.place,
            DeclarationPlace::Prototype
                | DeclarationPlace::Parameter { declared: true, .. }
                | DeclarationPlace::Return { declared: true }
        )
    }

    fn alignment(&self) -> Option<Diagnostic> {
        let pointed = self.variable.pointer.and_then(|pointer| pointer.align);
        let found = [self.variable.align, pointed].into_iter().flatten();
        if found.into_iter().all(u32::is_power_of_two) {
            return None;
        }
        self.wrong(Code::Range, "the alignment must be a power of two")
    }

    /// Checks that variables can have this type.
    fn ty(&self) -> Option<Diagnostic> {
        let Variable { ty, vector, .. } = *self.variable;
        let written = ty.text();
        let type_use = type_use(ty);
        let single = vector == 1 && !(type_use == TypeUse::Predicate && self.array());
        if self.nameless() && single && type_use != TypeUse::Instruction {
            return None;
        }
        match type_use {
            TypeUse::Instruction => self.wrong(
                Code::OperandType,
                format!("`.{written}` is only a type of instructions, not of variables"),
            ),
            TypeUse::Array if !self.array() || vector > 1 => self.wrong(
                Code::OperandType,
                format!("`.{written}` is only a type of instructions, not of variables"),
            ),
            TypeUse::Predicate
                if self.variable.space != Space::Reg || vector > 1 || self.array() =>
            {
                self.wrong(
                    Code::OperandType,
                    "a predicate must be a scalar register in `.reg`",
                )
            }
            TypeUse::Opaque | TypeUse::Packed if vector > 1 => self.wrong(
                Code::OperandType,
                format!("`.{written}` cannot be the element type of a vector"),
            ),
            _ if vector > 1 && ty.bits() * u32::from(vector) > MAX_VECTOR => self.wrong(
                Code::Range,
                format!("`.v{vector} .{written}` exceeds 128 bits, the limit for a vector"),
            ),
            _ => None,
        }
    }

    /// `.const[2]` is only for arrays of another module, and was removed in PTX 2.2.
    fn bank(&self) -> Option<Diagnostic> {
        let bank = self.variable.bank.unwrap_or(0);
        if self.variable.space != Space::Const || self.nameless() {
            return None;
        }
        if !self.allowed.before(2, 2) {
            self.variable.bank?;
            return self.wrong(Code::UnknownDirective, "banks were removed in PTX 2.2");
        }
        if !BANKS.contains(&bank) {
            return self.wrong(
                Code::Range,
                "a bank of constant memory is a number from 0 to 10",
            );
        }
        if bank > 0 && self.allowed.before(1, 5) {
            return self.wrong(Code::VersionFloor, "banks need `.version 1.5` or later");
        }
        let elsewhere = self.variable.linkage == Linkage::Extern
            && matches!(self.variable.dims.first(), Some(None | Some(0)));
        if elsewhere == (bank > 0) {
            return None;
        }
        let message = "banks 1 to 10 are only for `.extern` arrays without a size";
        self.wrong(Code::StateSpace, message)
    }

    fn space(&self) -> Option<Diagnostic> {
        let Variable { space, ty, .. } = *self.variable;
        let before = |major, minor| self.allowed.before(major, minor);
        let message = match (self.place, space) {
            (DeclarationPlace::Module, Space::Param) => {
                "a parameter must be declared with its function"
            }
            (DeclarationPlace::Module, Space::Reg | Space::Local) if !before(3, 0) => {
                "`.reg` and `.local` variables must be declared in a function"
            }
            (DeclarationPlace::Body(_), Space::Tex) => {
                "`.tex` variables must be declared outside functions"
            }
            (_, Space::Tex) if !before(1, 5) => {
                "`.tex` was removed in PTX 1.5: use `.global .texref`"
            }
            (DeclarationPlace::Body(FunctionKind::Func), Space::Param) if before(2, 0) => {
                "`.param` variables of functions need PTX 2.0 or later"
            }
            (DeclarationPlace::Body(FunctionKind::Entry), Space::Param)
                if before(2, 0) && !before(1, 4) =>
            {
                "the parameters of a kernel must be declared in its parameter list"
            }
            (
                DeclarationPlace::Parameter {
                    kind: FunctionKind::Entry,
                    ..
                },
                space,
            ) if space != Space::Param => "the parameters of a kernel must be in `.param`",
            (
                DeclarationPlace::Parameter { .. }
                | DeclarationPlace::Return { .. }
                | DeclarationPlace::Prototype,
                space,
            ) if !matches!(space, Space::Param | Space::Reg) => {
                "a parameter must be in `.param` or `.reg`"
            }
            _ => return self.type_in_space(space, ty),
        };
        self.wrong(Code::StateSpace, message)
    }

    fn type_in_space(&self, space: Space, ty: Type) -> Option<Diagnostic> {
        if self.nameless() {
            return None;
        }
        let array = self.array();
        if type_use(ty) == TypeUse::Opaque {
            let independent = self.allowed.independent;
            let message = match (self.place, space) {
                (DeclarationPlace::Module, Space::Global)
                | (
                    DeclarationPlace::Parameter {
                        kind: FunctionKind::Entry,
                        ..
                    },
                    _,
                ) if ty == Type::Samplerref && !array && !independent => {
                    "samplers need `.target texmode_independent`"
                }
                (DeclarationPlace::Module, Space::Global) => return None,
                // ptxas treats arrays of them as bytes.
                (DeclarationPlace::Module, _) if array => return None,
                (
                    DeclarationPlace::Parameter {
                        kind: FunctionKind::Entry,
                        ..
                    },
                    _,
                ) => return None,
                (
                    DeclarationPlace::Parameter { .. } | DeclarationPlace::Return { .. },
                    Space::Param,
                ) if array => {
                    return None;
                }
                _ => {
                    "a texture, sampler or surface must be in `.global`, or a parameter of a kernel"
                }
            };
            return self.wrong(Code::StateSpace, message);
        }
        match space {
            Space::Reg if array => self.wrong(
                Code::StateSpace,
                "registers cannot be an array: write `%r<9>`",
            ),
            Space::Param
                if !array
                    && (self.variable.vector > 1
                        || ty == Type::F16x2
                        || type_use(ty) == TypeUse::Packed) =>
            {
                self.wrong(
                    Code::OperandType,
                    "a parameter must be a scalar or an array of bytes",
                )
            }
            Space::Tex if array || !matches!(ty, Type::U32 | Type::U64) => self.wrong(
                Code::OperandType,
                "a `.tex` variable must be `.u32` or `.u64`",
            ),
            _ => None,
        }
    }

    /// Checks `[]` and `[0]`, arrays without a size.
    fn size(&self) -> Option<Diagnostic> {
        let (first, inner) = self.variable.dims.split_first()?;
        if inner.contains(&Some(0)) {
            return self.wrong(Code::Range, "an array cannot have zero elements");
        }
        let parameter = matches!(
            self.place,
            DeclarationPlace::Parameter { .. }
                | DeclarationPlace::Return { .. }
                | DeclarationPlace::Prototype
        );
        let large = |size: &Option<u64>| size.is_some_and(|size| size > u64::from(u32::MAX));
        if parameter && self.variable.dims.iter().any(large) {
            return self.wrong(Code::Range, "the size of a parameter must fit 32 bits");
        }
        let counted =
            matches!(&self.variable.init, Some(Initializer::List(list)) if !list.is_empty());
        if first.is_some_and(|size| size > 0) || counted {
            return None;
        }
        let message = match self.place {
            DeclarationPlace::Parameter {
                kind: FunctionKind::Func,
                last: true,
                ..
            }
            | DeclarationPlace::Prototype => return None,
            DeclarationPlace::Parameter {
                kind: FunctionKind::Func,
                last: false,
                ..
            } => "only the last parameter may have no size",
            DeclarationPlace::Parameter {
                kind: FunctionKind::Entry,
                ..
            } => "a parameter of a kernel needs a size",
            DeclarationPlace::Return { .. } => "a result needs a size",
            DeclarationPlace::Module if self.variable.linkage == Linkage::Extern => return None,
            _ => "this array needs a size: only `.extern` arrays may omit it",
        };
        self.wrong(Code::Range, message)
    }

    fn attributes(&self) -> Option<Diagnostic> {
        let Attributes { managed, unified } = self.variable.attributes;
        let parameter = matches!(
            self.place,
            DeclarationPlace::Parameter { .. }
                | DeclarationPlace::Return { .. }
                | DeclarationPlace::Prototype
        );
        if (managed || unified.is_some()) && (parameter || self.variable.space != Space::Global) {
            return self.wrong(
                Code::UnknownDirective,
                "only `.global` variables can have attributes",
            );
        }
        if unified.is_some() {
            return Some(separate_compilation(self.variable.name.span(self.source)));
        }
        let function = matches!(
            self.place,
            DeclarationPlace::Parameter {
                kind: FunctionKind::Func,
                ..
            } | DeclarationPlace::Return { .. }
        );
        if self.variable.pointer.is_some() && function {
            return self.wrong(
                Code::UnknownDirective,
                "`.ptr` is only for parameters of kernels",
            );
        }
        None
    }

    fn linkage(&self) -> Option<Diagnostic> {
        if self.variable.linkage == Linkage::Common && self.variable.space != Space::Global {
            return self.wrong(
                Code::StateSpace,
                "a `.common` variable must be in `.global`",
            );
        }
        self.variable.init.as_ref()?;
        if self.variable.linkage == Linkage::Extern {
            return self.wrong(
                Code::UnknownDirective,
                "an `.extern` variable cannot have an initializer",
            );
        }
        if !matches!(self.variable.space, Space::Global | Space::Const) {
            return self.wrong(
                Code::StateSpace,
                "only `.global` and `.const` variables can have an initializer",
            );
        }
        None
    }
}
