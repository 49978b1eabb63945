//! One operand against its place in the table.

use super::form;
use super::function::Checker;
use super::symbols::Symbol;
use crate::ptx::ast::{AddressBase, FloatValue, Instruction, Name, Operand, Space, Span};
use crate::ptx::diagnostic::{Code, Diagnostic};
use crate::ptx::isa::{Kind, OperandRule, Scale, TypeBase, TypeRule, Types};
use crate::ptx::names::{Modifier, Opcode, Type};

/// The type that a place asks for.
#[derive(Clone, Copy)]
pub struct Wanted {
    ty: Type,
    bits: u32,
    /// A wider register will do.
    wider: bool,
}

pub fn check<'a>(
    checker: &Checker<'_, '_, 'a>,
    instruction: &Instruction<'a>,
    place: &form::Place,
    operand: &Operand<'a>,
) -> Result<(), Diagnostic> {
    let rule = place.rule;
    let place = Place {
        checker,
        instruction,
        wanted: place.wanted,
    };
    if let (Some(range), Operand::Integer(integer)) = (&rule.range, operand)
        && !range.contains(integer.value as i64)
    {
        let message = format!("the constant here is {}", range.describe());
        return Err(Diagnostic::new(Code::Range, integer.span, message));
    }
    if rule.counts.is_empty() {
        place.kind(rule.kind, operand)
    } else {
        place.list(rule, operand)
    }
}

/// The type that a place asks for where the instruction has these types.
pub fn wanted(rule: TypeRule, types: &Types) -> Option<Wanted> {
    let ty = match rule.base {
        TypeBase::Any => return None,
        TypeBase::Fixed(ty) => ty,
        TypeBase::Named(number) => types.get(number).copied().flatten()?,
    };
    let bits = match rule.scale {
        Scale::Half => ty.bits() / 2,
        Scale::Same => ty.bits(),
        Scale::Twice => ty.bits() * 2,
    };
    Some(Wanted {
        ty,
        bits,
        wider: rule.wider,
    })
}

/// How types go together: registers agree with an instruction of the same size
/// if either has no interpretation, or both have the same one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Bits,
    Integer,
    Float,
    /// Two of them in one register.
    PackedFloat,
    Predicate,
}

fn class(ty: Type) -> Class {
    match ty {
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => Class::Integer,
        Type::S8 | Type::S16 | Type::S32 | Type::S64 => Class::Integer,
        Type::F16 | Type::F32 | Type::F64 => Class::Float,
        Type::F16x2 | Type::Bf16x2 => Class::PackedFloat,
        Type::Pred => Class::Predicate,
        // Registers of the remaining types are declared `.b16`, `.b32`, `.b64`.
        _ => Class::Bits,
    }
}

struct Place<'p, 'c, 'm, 'a> {
    checker: &'p Checker<'c, 'm, 'a>,
    instruction: &'p Instruction<'a>,
    wanted: Option<Wanted>,
}

impl<'a> Place<'_, '_, '_, 'a> {
    /// `{a, b}`, of as many elements as the row says.
    fn list(&self, rule: &OperandRule, operand: &Operand<'a>) -> Result<(), Diagnostic> {
        let Operand::Vector(list, span) = *operand else {
            // A list of one may do without its braces.
            if rule.counts.contains(&1) {
                return self.kind(rule.kind, operand);
            }
            return self.wrong(operand.span(self.text()), "a list in braces belongs here");
        };
        if !rule
            .counts
            .iter()
            .any(|count| u32::from(*count) == list.len)
        {
            let counts: Vec<_> = rule.counts.iter().map(u8::to_string).collect();
            let message = format!(
                "a list of {}, where {} elements belong",
                list.len,
                counts.join(" or ")
            );
            return Err(Diagnostic::new(Code::OperandCount, span, message));
        }
        let mut elements = self.checker.body.list(list).iter();
        elements.try_for_each(|element| match element {
            Operand::Sink(_) => Ok(()),
            _ => self.kind(rule.kind, element),
        })
    }

    fn kind(&self, kind: Kind, operand: &Operand<'a>) -> Result<(), Diagnostic> {
        match kind {
            Kind::Unchecked => Ok(()),
            Kind::Destination => self.destination(operand),
            Kind::DestinationOrVector => match operand {
                Operand::Vector(..) => self.vector(operand),
                Operand::Sink(_) => Ok(()),
                _ => self.destination(operand),
            },
            Kind::DestinationAndPredicate | Kind::SinkAndPredicate => match *operand {
                Operand::Pair(list, _) => match self.checker.body.list(list) {
                    [first, second] => {
                        if !matches!(first, Operand::Sink(_)) {
                            self.destination(first)?;
                        }
                        self.predicate_destination(second)
                    }
                    _ => Ok(()),
                },
                Operand::Sink(_) => Ok(()),
                _ => self.destination(operand),
            },
            Kind::PredicateDestination => self.predicate_destination(operand),
            Kind::PredicatePair => match *operand {
                Operand::Pair(list, _) => self
                    .checker
                    .body
                    .list(list)
                    .iter()
                    .try_for_each(|one| self.predicate_destination(one)),
                _ => self.predicate_destination(operand),
            },
            Kind::Predicate => self.predicate(operand),
            Kind::Source => self.source(operand),
            Kind::SourceOrVector => match operand {
                Operand::Vector(..) => self.vector(operand),
                _ => self.source(operand),
            },
            Kind::Movable => match operand {
                Operand::Name(name) => match self.checker.symbol(name.text) {
                    Some(Symbol::Register { .. }) => self.source(operand),
                    _ => Ok(()),
                },
                Operand::Special(..)
                | Operand::Offset { .. }
                | Operand::Vector(..)
                | Operand::Element(..) => Ok(()),
                Operand::Address { .. } if self.instruction.opcode == Opcode::Mov => Ok(()),
                _ => self.source(operand),
            },
            Kind::Register => match operand {
                Operand::Name(_) | Operand::Component { .. } => self.source(operand),
                _ => self.wrong(operand.span(self.text()), "a register belongs here"),
            },
            Kind::Address => self.address(operand),
            Kind::Coordinates => match operand {
                Operand::Indexed(..) => Ok(()),
                _ => self.wrong(
                    operand.span(self.text()),
                    "an address with coordinates belongs here",
                ),
            },
            Kind::Function => match operand {
                Operand::Name(_) => Ok(()),
                _ => self.wrong(operand.span(self.text()), "a function belongs here"),
            },
            Kind::Constant => match operand {
                Operand::Integer(_) => Ok(()),
                _ => self.wrong(operand.span(self.text()), "a constant belongs here"),
            },
            Kind::Label => match operand {
                Operand::Name(name) => match self.checker.symbol(name.text) {
                    Some(Symbol::Register { .. } | Symbol::Variable { .. }) => {
                        self.wrong(name.span(self.text()), "a label belongs here")
                    }
                    _ => Ok(()),
                },
                _ => self.wrong(operand.span(self.text()), "a label belongs here"),
            },
        }
    }

    fn text(&self) -> &'a str {
        self.checker.context.source
    }

    fn wrong(&self, span: Span, message: &str) -> Result<(), Diagnostic> {
        Err(Diagnostic::new(Code::OperandKind, span, message))
    }

    fn destination(&self, operand: &Operand<'a>) -> Result<(), Diagnostic> {
        match *operand {
            Operand::Name(name) => self.register(name),
            Operand::Component { .. } => Ok(()),
            Operand::Special(register, span) => {
                self.wrong(span, &format!("`{}` can only be read", register.text()))
            }
            _ => self.wrong(
                operand.span(self.text()),
                "a register belongs here: the result goes there",
            ),
        }
    }

    fn source(&self, operand: &Operand<'a>) -> Result<(), Diagnostic> {
        match *operand {
            Operand::Name(name) => self.register(name),
            Operand::Component { .. } => Ok(()),
            Operand::Integer(integer) => self.integer(integer.span),
            Operand::Float(float) => self.float(float.value, float.span),
            Operand::Special(register, span) => Err(Diagnostic::new(
                Code::OperandKind,
                span,
                format!(
                    "special registers such as `{}` are read by `mov` alone",
                    register.text()
                ),
            )
            .help("move it to a register first")),
            Operand::Not(name) => self.wrong(
                name.span(self.text()),
                "only predicates are negated with `!`",
            ),
            Operand::Negated(name) => self.wrong(
                name.span(self.text()),
                "a register cannot be negated here; use `neg`",
            ),
            _ => self.wrong(
                operand.span(self.text()),
                "a register or a constant belongs here",
            ),
        }
    }

    fn integer(&self, span: Span) -> Result<(), Diagnostic> {
        match self.wanted.map(|wanted| (class(wanted.ty), wanted.ty)) {
            Some((Class::Float, ty)) => Err(Diagnostic::new(
                Code::OperandType,
                span,
                format!("an integer, where `.{}` belongs", ty.text()),
            )
            .help("write it with a decimal point, as 1.0")),
            _ => Ok(()),
        }
    }

    fn float(&self, value: FloatValue, span: Span) -> Result<(), Diagnostic> {
        let Some(wanted) = self.wanted else {
            return Ok(());
        };
        // Constants without a type go by their size: 0f3F800000 is a `.b32`.
        let bits = match value {
            FloatValue::F32(_) => 32,
            FloatValue::F64(_) => 64,
        };
        match class(wanted.ty) {
            Class::Integer | Class::Predicate => {}
            Class::Bits if matches!(wanted.ty, Type::B32 | Type::B64) && wanted.bits != bits => {}
            _ => return Ok(()),
        }
        Err(Diagnostic::new(
            Code::OperandType,
            span,
            format!(
                "a floating-point constant, where `.{}` belongs",
                wanted.ty.text()
            ),
        ))
    }

    /// A register of the type that belongs here, or something not known to be
    /// none.
    fn register(&self, name: Name<'a>) -> Result<(), Diagnostic> {
        match self.checker.symbol(name.text) {
            Some(Symbol::Register { ty, vector }) => {
                // Vector registers go with `.v2` and `.v4`, which say how.
                if vector > 1 {
                    return Ok(());
                }
                self.agrees(name, ty)
            }
            Some(Symbol::Variable { .. } | Symbol::Function(_)) => Err(Diagnostic::new(
                Code::OperandKind,
                name.span(self.text()),
                format!("`{}` is no register", name.text),
            )
            .help("take its address with `mov`, or its value with `ld`")),
            Some(Symbol::Label) => self.wrong(
                name.span(self.text()),
                "a register belongs here, this is a label",
            ),
            None => Ok(()),
        }
    }

    fn agrees(&self, name: Name<'a>, ty: Type) -> Result<(), Diagnostic> {
        let Some(wanted) = self.wanted else {
            return Ok(());
        };
        let (given, asked) = (class(ty), class(wanted.ty));
        let size_fits = ty.bits() == wanted.bits || (wanted.wider && ty.bits() > wanted.bits);
        let class_fits = match (given, asked) {
            (Class::Predicate, Class::Predicate) => true,
            (Class::Predicate, _) | (_, Class::Predicate) => false,
            (Class::Bits, _) | (_, Class::Bits) => true,
            // ptxas takes a `.f16x2` register for an integer, though not the
            // other way round.
            (Class::PackedFloat, Class::Integer) => true,
            // Of a wider register only integers fill a part.
            (Class::Float, Class::Float) => ty.bits() == wanted.bits,
            (given, asked) => given == asked,
        };
        if size_fits && class_fits {
            return Ok(());
        }
        let written = if wanted.bits == wanted.ty.bits() {
            format!("`.{}`", wanted.ty.text())
        } else {
            format!("{} bits", wanted.bits)
        };
        Err(Diagnostic::new(
            Code::OperandType,
            name.span(self.text()),
            format!(
                "`{}` is `.{}`, where {written} belongs",
                name.text,
                ty.text()
            ),
        ))
    }

    fn vector(&self, operand: &Operand<'a>) -> Result<(), Diagnostic> {
        let Operand::Vector(list, span) = *operand else {
            return Ok(());
        };
        // The elements of a vector that mov packs have types of their own.
        if self.instruction.opcode == Opcode::Mov {
            return Ok(());
        }
        let modifiers = self.checker.modifiers(self.instruction);
        let length = match modifiers.first_of(&[Modifier::V2, Modifier::V4, Modifier::V8]) {
            Some(Modifier::V2) => 2,
            Some(Modifier::V4) => 4,
            Some(_) => 8,
            None => 1,
        };
        if list.len != length {
            let message = if length == 1 {
                "a vector, but the instruction has no `.v2` or `.v4`".to_owned()
            } else {
                format!("a vector of {}, where {length} elements belong", list.len)
            };
            return Err(Diagnostic::new(Code::OperandCount, span, message));
        }
        self.checker
            .body
            .list(list)
            .iter()
            .try_for_each(|element| match element {
                Operand::Sink(_) => Ok(()),
                element => self.source(element),
            })
    }

    fn predicate_destination(&self, operand: &Operand<'a>) -> Result<(), Diagnostic> {
        match operand {
            Operand::Sink(_) => Ok(()),
            Operand::Name(name) if self.checker.may_be_predicate(name.text) => Ok(()),
            _ => self.wrong(operand.span(self.text()), "a `.pred` register belongs here"),
        }
    }

    fn predicate(&self, operand: &Operand<'a>) -> Result<(), Diagnostic> {
        match operand {
            Operand::Integer(_) => Ok(()),
            Operand::Name(name) | Operand::Not(name)
                if self.checker.may_be_predicate(name.text) =>
            {
                Ok(())
            }
            _ => self.wrong(operand.span(self.text()), "a predicate belongs here"),
        }
    }

    fn address(&self, operand: &Operand<'a>) -> Result<(), Diagnostic> {
        let base = match operand {
            Operand::Address { base, .. } => *base,
            Operand::Indexed(..) | Operand::Element(..) => return Ok(()),
            _ => {
                return self.wrong(
                    operand.span(self.text()),
                    "an address in brackets belongs here",
                );
            }
        };
        let AddressBase::Name(name) = base else {
            return Ok(());
        };
        match self.checker.symbol(name.text) {
            Some(Symbol::Register { ty, .. })
                if matches!(
                    class(ty),
                    Class::Float | Class::PackedFloat | Class::Predicate
                ) =>
            {
                Err(Diagnostic::new(
                    Code::OperandType,
                    name.span(self.text()),
                    format!("`{}` is `.{}`, which is no address", name.text, ty.text()),
                ))
            }
            Some(Symbol::Variable { space, input }) => self.space(name, space, input),
            _ => Ok(()),
        }
    }

    /// A variable lies where the instruction looks.
    fn space(&self, name: Name<'a>, space: Space, input: bool) -> Result<(), Diagnostic> {
        let opcode = self.instruction.opcode;
        if !matches!(opcode, Opcode::Ld | Opcode::St | Opcode::Atom | Opcode::Red) {
            return Ok(());
        }
        let wrong = |message: String| {
            Err(Diagnostic::new(
                Code::StateSpace,
                name.span(self.text()),
                message,
            ))
        };
        for modifier in self.checker.modifiers(self.instruction).as_slice() {
            let looks = match modifier {
                Modifier::Const => Space::Const,
                Modifier::Global => Space::Global,
                Modifier::Local => Space::Local,
                Modifier::Param | Modifier::ParamEntry | Modifier::ParamFunc => Space::Param,
                Modifier::Shared | Modifier::SharedCta | Modifier::SharedCluster => Space::Shared,
                _ => continue,
            };
            if looks != space {
                return wrong(format!(
                    "`{}` lies in `.{}` memory, the instruction looks in `.{}`",
                    name.text,
                    space.text(),
                    modifier.text()
                ));
            }
            if opcode == Opcode::St && space == Space::Param && input {
                return wrong(format!(
                    "`{}` is a parameter, which only the caller writes",
                    name.text
                ));
            }
        }
        Ok(())
    }
}
