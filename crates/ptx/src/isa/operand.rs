//! The operands of a row.

use super::count::Count;
use crate::ast::Space;
use crate::names::{Modifier, Type};

/// The kind of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A register written.
    Destination,
    /// A register written, or a vector, or `_`.
    DestinationOrVector,
    /// A register or constant.
    Source,
    /// A register, constant or vector.
    SourceOrVector,
    /// A register.
    Register,
    /// A register or float constant, and with a count a list of them.
    RegisterOrFloat,
    /// A register, constant or special register: the source of `cvt`.
    SourceOrSpecial,
    /// A register, constant, special register, address or function: the source of `mov`.
    Movable,
    /// A register written, or the parts that it is unpacked to.
    Unpacked,
    /// A register, or a vector for `.v2`; not `_`.
    Loaded,
    /// A register or constant, or a vector. Elements that are `_` are not stored.
    Stored,
    /// A register, a constant or a variable of the state space of the instruction.
    Named,
    /// A register or constant of a video instruction, with an optional selector: `%r1.b0`.
    SelectSource(Lanes),
    /// A register written by a video instruction, with an optional selector.
    SelectDestination(Lanes),
    /// `-%r1.b0`
    NegatedSelect,
    /// `-%r1`
    Negated,
    /// A predicate register written.
    PredicateDestination,
    /// A predicate register written, or `_`.
    PredicateOrSink,
    /// `%p|%q`, both written, or `%p` alone: the result of `setp`.
    PredicatePair,
    /// `register|predicate`, or the register alone.
    DestinationAndPredicate,
    /// `register|predicate`, or the register alone. The register may be `_`.
    SinkAndPredicate,
    /// `register|predicate`. The register may be `_`.
    BothRegisterAndPredicate,
    /// `%p|%q`
    BothPredicates,
    /// `_`
    Sink,
    /// A predicate register read, or `!%p`.
    Predicate,
    /// `[%rd1+4]`
    Address,
    /// An address, or a register or variable without brackets, which ptxas accepts next to
    /// coordinates.
    BareAddress,
    /// `[tensor, {%r1, %r2}]`
    Coordinates,
    /// `{0, 1}`, with a rule for each element.
    Elements,
    /// A number, as in `bar.sync 0`.
    Constant,
    /// A label of the function: `bra LOOP`.
    Label,
    /// The name of a `.branchtargets`: `brx.idx %r1, TARGETS`.
    Targets,
    /// A function, or a register with its address.
    Function,
    /// Anything.
    Unchecked,
}

/// The notation of each kind in rows, and its description.
pub const KINDS: &[(&str, Kind, &str)] = &[
    ("d", Kind::Destination, "register"),
    ("D", Kind::DestinationOrVector, "register, vector or _"),
    ("V", Kind::Loaded, "register or vector"),
    ("W", Kind::Stored, "vector with elements that may be _"),
    ("s", Kind::Source, "register or constant"),
    ("S", Kind::SourceOrVector, "register, constant or vector"),
    ("r", Kind::Register, "register"),
    ("R", Kind::RegisterOrFloat, "register or float constant"),
    (
        "g",
        Kind::SourceOrSpecial,
        "register, constant or special register",
    ),
    (
        "m",
        Kind::Movable,
        "register, constant, special register, address, function or vector",
    ),
    (
        "M",
        Kind::Unpacked,
        "register, or the parts that it is unpacked to",
    ),
    ("n", Kind::Named, "register, constant or variable"),
    (
        "v1",
        Kind::SelectSource(Lanes::One),
        "register or constant, with or without a selector",
    ),
    (
        "v2",
        Kind::SelectSource(Lanes::Two),
        "register, with or without a selector",
    ),
    (
        "v4",
        Kind::SelectSource(Lanes::Four),
        "register, with or without a selector",
    ),
    (
        "w1",
        Kind::SelectDestination(Lanes::One),
        "register, with or without a selector",
    ),
    (
        "w2",
        Kind::SelectDestination(Lanes::Two),
        "register, with or without a selector",
    ),
    (
        "w4",
        Kind::SelectDestination(Lanes::Four),
        "register, with or without a selector",
    ),
    (
        "-v1",
        Kind::NegatedSelect,
        "negated register with a selector",
    ),
    ("-r", Kind::Negated, "negated register"),
    ("q", Kind::PredicateDestination, "predicate"),
    ("Q", Kind::PredicateOrSink, "predicate or _"),
    ("q/q", Kind::PredicatePair, "predicate, or two"),
    ("q|q", Kind::BothPredicates, "two predicates"),
    (
        "d/q",
        Kind::DestinationAndPredicate,
        "register, or register and predicate",
    ),
    (
        "D/q",
        Kind::SinkAndPredicate,
        "register or _, and predicate",
    ),
    (
        "D|q",
        Kind::BothRegisterAndPredicate,
        "register or _, and predicate",
    ),
    ("_", Kind::Sink, "_"),
    ("p", Kind::Predicate, "predicate or !predicate"),
    ("a", Kind::Address, "address"),
    ("A", Kind::BareAddress, "address, with or without brackets"),
    ("t", Kind::Coordinates, "address with coordinates"),
    ("{}", Kind::Elements, "list"),
    ("i", Kind::Constant, "constant"),
    ("l", Kind::Label, "label"),
    ("L", Kind::Targets, "name of `.branchtargets`"),
    (
        "f",
        Kind::Function,
        "function, or register with its address",
    ),
    ("x", Kind::Unchecked, "anything"),
];

impl Kind {
    /// Parses the notation of a kind.
    pub fn from_letters(letters: &str) -> Option<Kind> {
        let known = KINDS.iter().find(|(written, ..)| *written == letters);
        known.map(|(_, kind, _)| *kind)
    }

    /// `register or constant`
    pub fn describe(self) -> &'static str {
        let known = KINDS.iter().find(|(_, kind, _)| *kind == self);
        known.map_or("", |(.., what)| *what)
    }

    /// Whether the instruction writes it.
    pub const fn is_written(self) -> bool {
        match self {
            Kind::Destination
            | Kind::DestinationOrVector
            | Kind::Unpacked
            | Kind::Loaded
            | Kind::SelectDestination(_)
            | Kind::PredicateDestination
            | Kind::PredicateOrSink
            | Kind::PredicatePair
            | Kind::DestinationAndPredicate
            | Kind::SinkAndPredicate
            | Kind::BothRegisterAndPredicate
            | Kind::BothPredicates
            | Kind::Sink => true,
            Kind::Source
            | Kind::SourceOrVector
            | Kind::Register
            | Kind::RegisterOrFloat
            | Kind::SourceOrSpecial
            | Kind::Movable
            | Kind::Stored
            | Kind::Named
            | Kind::SelectSource(_)
            | Kind::NegatedSelect
            | Kind::Negated
            | Kind::Predicate
            | Kind::Address
            | Kind::BareAddress
            | Kind::Coordinates
            | Kind::Elements
            | Kind::Constant
            | Kind::Label
            | Kind::Targets
            | Kind::Function
            | Kind::Unchecked => false,
        }
    }
}

/// The number of lanes of a video instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// `vadd`: a selector is one byte or half, `.b0` or `.h1`.
    One,
    /// `vadd2`: halves in any order, `.h10`.
    Two,
    /// `vadd4`: bytes in any order, `.b3210`.
    Four,
}

/// The rule of one operand: `s:T?`.
#[derive(Clone, Debug, PartialEq)]
pub struct OperandRule {
    /// The kind, before the colon.
    pub kind: Kind,
    /// The number of elements of a list in braces; `None` without a list.
    pub count: Option<Count>,
    /// The elements of [`Kind::Coordinates`], or of [`Kind::Elements`]. Empty for the
    /// coordinates of a texture or surface.
    pub elements: Vec<OperandRule>,
    /// The type, after the colon.
    pub ty: TypeRule,
    /// The state space of an address, after the colon.
    pub space: Option<Space>,
    /// The range of a constant.
    pub range: Option<Range>,
    /// Whether the operand is required.
    pub presence: Presence,
}

/// Whether an operand is required.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Always.
    Required,
    /// `?`: optional.
    Optional,
    /// `?word`: present if and only if one of these modifiers is.
    With(Vec<Modifier>),
}

/// The allowed values of a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// Inclusive ranges; any value if empty.
    pub spans: Vec<(i64, i64)>,
    /// The value must be a multiple of this.
    pub multiple: i64,
}

impl Range {
    /// Whether `value` is allowed.
    pub fn contains(&self, value: i64) -> bool {
        let within = |&(low, high): &(i64, i64)| (low..=high).contains(&value);
        value % self.multiple == 0 && (self.spans.is_empty() || self.spans.iter().any(within))
    }

    /// `0 to 15`, `4, 8 or 16`, `a multiple of 32`
    pub fn describe(&self) -> String {
        let span = |&(low, high): &(i64, i64)| match (low, high) {
            (low, i64::MAX) => format!("{low} or more"),
            (low, high) if low == high => low.to_string(),
            (low, high) => format!("{low} to {high}"),
        };
        let mut spans: Vec<_> = self.spans.iter().map(span).collect();
        let last = spans.pop();
        let spans = match (spans.is_empty(), last) {
            (_, None) => None,
            (true, Some(last)) => Some(last),
            (false, Some(last)) => Some(format!("{} or {last}", spans.join(", "))),
        };
        match (spans, self.multiple) {
            (Some(spans), 1) => spans,
            (Some(spans), multiple) => format!("{spans}, a multiple of {multiple}"),
            (None, multiple) => format!("a multiple of {multiple}"),
        }
    }
}

/// How the type of an operand depends on the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeRule {
    /// The type that it is based on.
    pub base: TypeBase,
    /// The width relative to that type.
    pub scale: Scale,
    /// Wider registers are accepted: `ld`, `st` and `cvt`.
    pub wider: bool,
    /// Registers of other types are rejected: the random bits of `cvt.rs`.
    pub alone: bool,
}

/// The base of the type of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeBase {
    /// Any type.
    Any,
    /// A fixed type, independent of the modifiers: the `.u32` count of `shl`.
    Fixed(Type),
    /// The type of the instruction with this number.
    Named(usize),
}

/// A relative width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Half as wide.
    Half,
    /// The same width.
    Same,
    /// Twice as wide: the product of `mul.wide`.
    Twice,
}

/// The types of an instruction, in order.
pub type Types = [Option<Type>; 5];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_one_notation() {
        for (letters, kind, what) in KINDS {
            assert_eq!(Kind::from_letters(letters), Some(*kind), "{letters}");
            assert_eq!(kind.describe(), *what);
        }
    }

    /// The module documentation, for authors of rows, must explain them all.
    #[test]
    fn every_kind_is_explained() {
        let head = include_str!("mod.rs");
        for (letters, ..) in KINDS {
            // A list is explained with its elements.
            let notation = match *letters {
                "{}" => "`{".to_owned(),
                letters => format!("`{}`", letters.replace('|', "\\|")),
            };
            assert!(head.contains(&notation), "{notation}");
        }
    }
}
