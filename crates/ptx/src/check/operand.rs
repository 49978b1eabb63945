//! Checks one operand against its rule in the table.

use super::function::Checker;
use super::symbols::Symbol;
use super::type_match::{self, ExpectedType};
use super::{form, mismatch};
use crate::ast::{Instruction, List, Name, Operand, Space, Span};
use crate::diagnostic::{Code, Diagnostic};
use crate::isa::{Count, Kind};
use crate::names::{Modifier, Type};

pub(super) type Checked = Result<(), Diagnostic>;

pub fn check<'a>(
    checker: &Checker<'_, '_, 'a>,
    instruction: &Instruction,
    place: &form::OperandSlot,
    operand: &Operand<'a>,
) -> Checked {
    let rule = place.rule;
    if let (Some(range), Operand::Integer(integer)) = (&rule.range, operand)
        && !range.contains(integer.value as i64)
    {
        let message = format!("this constant must be {}", range.describe());
        return Err(Diagnostic::new(Code::Range, integer.span, message));
    }
    let here = OperandChecker {
        checker,
        instruction,
        expected: place.expected,
        vector: place.vector,
        space: rule.space,
    };
    match rule.kind {
        _ if rule.count.is_some() => {
            here.list(rule.kind, &place.counts, operand)?;
            match &rule.count {
                Some(Count::Pieces(pieces)) => here.pieces(rule.kind, pieces, operand),
                _ => Ok(()),
            }
        }
        Kind::Coordinates if place.elements.is_empty() => here.texture(operand),
        Kind::Coordinates | Kind::Elements => here.each(rule.kind, &place.elements, operand),
        kind => here.kind(kind, operand),
    }
}

/// Checks operands of one instruction.
pub(super) struct OperandChecker<'p, 'c, 'm, 'a> {
    pub(super) checker: &'p Checker<'c, 'm, 'a>,
    pub(super) instruction: &'p Instruction,
    pub(super) expected: Option<ExpectedType>,
    /// 2 for `.v2`; 1 if the instruction has no vector modifier.
    pub(super) vector: u32,
    /// The required state space of a variable whose address is the operand.
    pub(super) space: Option<Space>,
}

/// Whether the operand is read or written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Written,
    Read,
    /// Read, where `_` leaves an element in memory unchanged.
    Stored,
}

impl<'a> OperandChecker<'_, '_, '_, 'a> {
    /// `[tensor, {%r1, %r2}]` or `{0, 1}`, whose elements have slots of their own.
    fn each(&self, kind: Kind, places: &[form::OperandSlot], operand: &Operand<'a>) -> Checked {
        let (list, span) = match (kind, *operand) {
            (Kind::Coordinates, Operand::Indexed(list, span))
            | (Kind::Elements, Operand::Vector(list, span)) => (list, span),
            (Kind::Coordinates, _) => {
                let message = "expected an address with coordinates, as `[tensor, {x, y}]`";
                return self.wrong(operand, message);
            }
            _ => return self.wrong(operand, "expected a list in braces"),
        };
        let elements = self.checker.body.list(list);
        if places.len() != elements.len() {
            let message = format!(
                "expected {} elements, found {}",
                places.len(),
                elements.len()
            );
            return Err(Diagnostic::new(Code::OperandCount, span, message));
        }
        // In a list of `mma`, one element of `.b16` makes halves untyped too.
        let register = |element: &Operand<'a>| self.checker.register_type(element);
        let is_untyped = self.is_matrix_multiply()
            && elements
                .iter()
                .any(|element| register(element) == Some(Type::B16));
        let mut pairs = places.iter().zip(elements);
        pairs.try_for_each(|(place, element)| {
            if is_untyped && register(element) == Some(Type::F16) {
                return Ok(());
            }
            check(self.checker, self.instruction, place, element)
        })
    }

    pub(super) fn kind(&self, kind: Kind, operand: &Operand<'a>) -> Checked {
        match kind {
            Kind::Unchecked => Ok(()),
            Kind::Destination => self.destination(operand),
            Kind::DestinationOrVector => match operand {
                Operand::Sink(_) => Ok(()),
                _ => {
                    self.one_in_braces(operand)?;
                    self.vector(operand, Direction::Written)
                }
            },
            Kind::Loaded => self.vector(operand, Direction::Written),
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
            Kind::BothRegisterAndPredicate | Kind::BothPredicates => self.both(kind, operand),
            Kind::Sink => match operand {
                Operand::Sink(_) => Ok(()),
                _ => self.wrong(operand, "expected `_`: there is no result"),
            },
            Kind::SelectSource(_)
            | Kind::SelectDestination(_)
            | Kind::NegatedSelect
            | Kind::Negated => self.video(kind, operand),
            Kind::PredicateOrSink => match *operand {
                Operand::Pair(list, _) => self.kind(kind, self.only(operand, list)?),
                _ => self.predicate_destination(operand),
            },
            Kind::PredicateDestination => match *operand {
                Operand::Sink(_) => self.wrong(operand, "this result cannot be discarded with `_`"),
                Operand::Pair(list, _) => self.kind(kind, self.only(operand, list)?),
                _ => self.predicate_destination(operand),
            },
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
            Kind::RegisterOrFloat => match operand {
                Operand::Integer(_) => self.wrong(
                    operand,
                    "expected a register or a constant such as 0f3F800000",
                ),
                // ptxas accepts a predicate as a 32-bit register.
                Operand::Name(name) | Operand::Not(name)
                    if self.checker.may_be_predicate(name.text) =>
                {
                    Ok(())
                }
                _ => self.source(operand),
            },
            Kind::SourceOrVector => {
                // ptxas takes it in stores.
                if self.checker.modifiers(self.instruction).has(Modifier::Red) {
                    self.one_in_braces(operand)?;
                }
                self.vector(operand, Direction::Read)
            }
            Kind::Stored => self.vector(operand, Direction::Stored),
            Kind::Register => match operand {
                Operand::Name(_) | Operand::Component { .. } => self.source(operand),
                Operand::Not(_) if self.expected.is_some_and(|w| w.ty == Type::Pred) => {
                    self.predicate(operand)
                }
                _ => self.wrong(operand, "expected a register"),
            },
            Kind::SourceOrSpecial => match *operand {
                Operand::Special(register, span) => self.special(register, span),
                _ => self.source(operand),
            },
            Kind::Movable => self.movable(operand),
            Kind::Unpacked => self.unpacked(operand),
            Kind::Named => self.named(operand),
            Kind::Address => self.address(operand),
            Kind::BareAddress => match operand {
                Operand::Name(name) => match self.checker.symbol(name.text) {
                    Some(Symbol::Variable(variable, _)) => self.check_space(*name, variable),
                    Some(Symbol::Function(_) | Symbol::Label) => self.no_register(*name),
                    _ => Ok(()),
                },
                Operand::Offset { .. } | Operand::Not(_) | Operand::Float(_) => Ok(()),
                _ => self.address(operand),
            },
            // The slots of their elements check them.
            Kind::Coordinates | Kind::Elements => Ok(()),
            Kind::Constant => match operand {
                Operand::Integer(_) => Ok(()),
                _ => self.wrong(operand, "expected a constant"),
            },
            Kind::Label | Kind::Targets => {
                let symbol = match operand {
                    Operand::Name(name) => self.checker.symbol(name.text),
                    _ => return self.wrong(operand, "expected a name"),
                };
                match (kind, symbol) {
                    (Kind::Label, None | Some(Symbol::Label)) => Ok(()),
                    (Kind::Label, _) => self.wrong(operand, "expected a label"),
                    (_, None) => Ok(()),
                    (_, Some(Symbol::Targets(targets))) if !targets.calls => Ok(()),
                    _ => self.wrong(operand, "expected a list of `.branchtargets`"),
                }
            }
            Kind::Function => match operand {
                Operand::Name(_) => Ok(()),
                _ => self.wrong(operand, "expected a function"),
            },
        }
    }

    /// The result of `%r1|_` of an instruction with one result.
    fn only(&self, operand: &Operand<'a>, list: List) -> Result<&Operand<'a>, Diagnostic> {
        match self.checker.body.list(list) {
            [first, Operand::Sink(_)] if !matches!(first, Operand::Pair(..)) => Ok(first),
            _ => Err(Diagnostic::new(
                Code::OperandKind,
                self.span(operand),
                "this instruction has only one result",
            )),
        }
    }

    /// `register|predicate` or `predicate|predicate`, both of which are required.
    fn both(&self, kind: Kind, operand: &Operand<'a>) -> Checked {
        let Operand::Pair(list, _) = *operand else {
            return self.wrong(operand, "expected two results, joined by `|`");
        };
        let [first, second] = self.checker.body.list(list) else {
            return Ok(());
        };
        match (kind, first) {
            (Kind::BothPredicates, _) => self.kind(Kind::PredicateDestination, first)?,
            (_, Operand::Sink(_)) => {}
            _ if self.vector > 1 => self.vector(first, Direction::Written)?,
            _ => self.destination(first)?,
        }
        match kind {
            Kind::BothPredicates => self.predicate_destination(second),
            _ => self.kind(Kind::PredicateDestination, second),
        }
    }

    pub(super) fn span(&self, operand: &Operand<'a>) -> Span {
        operand.span(self.checker.context.source)
    }

    pub(super) fn name_span(&self, name: Name<'a>) -> Span {
        name.span(self.checker.context.source)
    }

    pub(super) fn wrong(&self, operand: &Operand<'a>, message: impl Into<String>) -> Checked {
        Err(Diagnostic::new(
            Code::OperandKind,
            self.span(operand),
            message,
        ))
    }

    pub(super) fn mistyped(&self, span: Span, what: &str, expected: ExpectedType) -> Diagnostic {
        let message = format!("{what}, expected {}", expected.describe());
        Diagnostic::new(Code::OperandType, span, message)
    }

    pub(super) fn destination(&self, operand: &Operand<'a>) -> Checked {
        match *operand {
            Operand::Name(name) => match self.checker.symbol(name.text) {
                Some(Symbol::Function(_)) => self.no_register(name),
                _ => self.register(name),
            },
            Operand::Component { name, .. } => self.component(name),
            Operand::Pair(list, _) => self.destination(self.only(operand, list)?),
            Operand::Special(register, _) => {
                self.wrong(operand, format!("`{}` is read-only", register.text()))
            }
            _ => self.wrong(operand, "expected a register for the result"),
        }
    }

    pub(super) fn source(&self, operand: &Operand<'a>) -> Checked {
        match *operand {
            Operand::Name(name) => self.register(name),
            Operand::Component { name, .. } => self.component(name),
            Operand::Integer(integer) => match self.expected {
                Some(expected) if !expected.takes_integer() => {
                    let found = self.mistyped(integer.span, "an integer", expected);
                    Err(if matches!(expected.ty, Type::F32 | Type::F64) {
                        found.help("write it with a decimal point, as 1.0")
                    } else {
                        found.help("move it to a register first")
                    })
                }
                _ => Ok(()),
            },
            Operand::Float(float) => match self.expected {
                Some(expected) if !expected.takes_float(float.value) => {
                    Err(self.mistyped(float.span, "a floating-point constant", expected))
                }
                _ => Ok(()),
            },
            Operand::Special(register, span) => Err(Diagnostic::new(
                Code::OperandKind,
                span,
                format!(
                    "only `mov` reads special registers such as `{}`",
                    register.text()
                ),
            )
            .help("move it to a register first")),
            Operand::Offset { name, .. } => match self.checker.symbol(name.text) {
                // To ptxas `gbuf+4` and `%r1+4` are constants of any type.
                Some(Symbol::Variable { .. }) => match self.expected {
                    Some(expected) if !expected.takes_integer() => {
                        Err(self.mistyped(self.span(operand), "an address", expected))
                    }
                    _ => Ok(()),
                },
                Some(Symbol::Function(_)) if self.expected.is_some_and(|w| !w.takes_function()) => {
                    self.no_register(name)
                }
                Some(Symbol::Label) => self.register(name),
                Some(Symbol::Register { ty, .. })
                    if !type_match::is_address(ty)
                        || self.expected.is_some_and(ExpectedType::is_count) =>
                {
                    self.check_type(name, ty)
                }
                _ => Ok(()),
            },
            Operand::Not(name)
                if self
                    .expected
                    .is_some_and(|expected| expected.ty == Type::Pred) =>
            {
                self.register(name)
            }
            Operand::Not(_) => self.wrong(operand, "`!` only negates predicates"),
            Operand::Negated(_) => {
                self.wrong(operand, "a register cannot be negated here; use `neg`")
            }
            _ => self.wrong(operand, "expected a register or a constant"),
        }
    }

    pub(super) fn no_register(&self, name: Name<'a>) -> Checked {
        Err(Diagnostic::new(
            Code::OperandKind,
            self.name_span(name),
            format!("`{}` is not a register", name.text),
        )
        .help("take its address with `mov`, or its value with `ld`"))
    }

    /// A register of the expected type, or an operand whose type is unknown.
    pub(super) fn register(&self, name: Name<'a>) -> Checked {
        match self.checker.symbol(name.text) {
            Some(Symbol::Register { ty, vector: 1 }) => self.check_type(name, ty),
            Some(Symbol::Register { .. }) => Err(Diagnostic::new(
                Code::OperandKind,
                self.name_span(name),
                format!("`{}` is a vector, expected one register", name.text),
            )
            .help(format!("select a component, as `{}.x`", name.text))),
            Some(Symbol::Function(_)) if self.expected.is_none_or(ExpectedType::takes_function) => {
                Ok(())
            }
            Some(Symbol::Variable { .. } | Symbol::Function(_)) => self.no_register(name),
            Some(Symbol::Label | Symbol::Targets(_) | Symbol::Prototype(_)) => {
                Err(Diagnostic::new(
                    Code::OperandKind,
                    self.name_span(name),
                    "expected a register, found a label",
                ))
            }
            None => Ok(()),
        }
    }

    /// `%v.x`
    pub(super) fn component(&self, name: Name<'a>) -> Checked {
        match self.checker.symbol(name.text) {
            Some(Symbol::Register { vector: 1, .. }) => Err(Diagnostic::new(
                Code::OperandKind,
                self.name_span(name),
                format!("`{}` is not a vector and has no components", name.text),
            )),
            Some(Symbol::Register { ty, .. }) => self.check_type(name, ty),
            _ => Ok(()),
        }
    }

    pub(super) fn check_type(&self, name: Name<'a>, ty: Type) -> Checked {
        match self.expected {
            Some(expected) if !expected.takes(ty) => {
                let what = format!("`{}` is `.{}`", name.text, ty.text());
                let mut found = self.mistyped(self.name_span(name), &what, expected);
                if !expected.fixed {
                    let modifiers = self.checker.modifiers(self.instruction);
                    let opcode = self.instruction.opcode;
                    found.help = mismatch::other_type(opcode, modifiers, ty);
                }
                Err(found)
            }
            _ => Ok(()),
        }
    }

    fn predicate_destination(&self, operand: &Operand<'a>) -> Checked {
        match operand {
            Operand::Sink(_) => Ok(()),
            Operand::Name(name) if self.checker.may_be_predicate(name.text) => Ok(()),
            _ => self.wrong(operand, "expected a `.pred` register"),
        }
    }

    fn predicate(&self, operand: &Operand<'a>) -> Checked {
        match operand {
            Operand::Integer(_) => Ok(()),
            Operand::Name(name) | Operand::Not(name)
                if self.checker.may_be_predicate(name.text) =>
            {
                Ok(())
            }
            _ => self.wrong(operand, "expected a predicate"),
        }
    }
}
