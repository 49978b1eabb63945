//! The places of operands in a row.

use super::count::Count;
use crate::ast::Space;
use crate::names::{Modifier, Type};

/// What may stand in the place of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A register written.
    Destination,
    /// The same, or a vector, or `_`.
    DestinationOrVector,
    /// A register or constant.
    Source,
    /// The same, or a vector.
    SourceOrVector,
    /// A register.
    Register,
    /// The same or a float constant, and with a count a list of them.
    RegisterOrFloat,
    /// A register or constant, or a special register: what `cvt` takes.
    SourceOrSpecial,
    /// A register or constant, special register, address or function.
    Movable,
    /// A register written or the parts that it is taken apart into.
    Unpacked,
    /// A register, a vector as `.v2` says; never `_`.
    Loaded,
    /// A register or constant, or a vector with some of its elements `_`: what
    /// is not stored.
    Stored,
    /// A register, constant or the name of a variable of a state space.
    Named,
    /// A register or constant of which a video instruction may take a part:
    /// `%r1.b0`.
    SelectSource(Lanes),
    /// A register of which a video instruction may write a part.
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
    /// The same, where the register may be `_`.
    SinkAndPredicate,
    /// `register|predicate`, where the register may be `_`.
    BothRegisterAndPredicate,
    /// `%p|%q`
    BothPredicates,
    /// `_`
    Sink,
    /// A predicate register read; `!%p` too.
    Predicate,
    /// `[%rd1+4]`
    Address,
    /// The same, or what ptxas takes for one beside coordinates: a register or
    /// variable without brackets.
    BareAddress,
    /// `[tensor, {%r1, %r2}]`
    Coordinates,
    /// `{0, 1}`, with a rule for each
    Elements,
    /// A number, as in `bar.sync 0`.
    Constant,
    /// A label of the function: `bra LOOP`.
    Label,
    /// The name of a `.branchtargets`: `brx.idx %r1, TARGETS`.
    Targets,
    /// A function, or a register with the address of one.
    Function,
    /// Anything: the table says no more.
    Unchecked,
}

/// How rows write each kind, and what may stand there.
pub const KINDS: &[(&str, Kind, &str)] = &[
    ("d", Kind::Destination, "register"),
    ("D", Kind::DestinationOrVector, "register, vector or _"),
    ("V", Kind::Loaded, "register or vector"),
    ("W", Kind::Stored, "vector, some of it _"),
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
        "register, or the parts that it is taken apart into",
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
    /// The kind that a row writes so.
    pub fn from_letters(letters: &str) -> Option<Kind> {
        let known = KINDS.iter().find(|(written, ..)| *written == letters);
        known.map(|(_, kind, _)| *kind)
    }

    /// `register or constant`
    pub fn describe(self) -> &'static str {
        let known = KINDS.iter().find(|(_, kind, _)| *kind == self);
        known.map_or("", |(.., what)| *what)
    }
}

/// How many values a video instruction works on at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// `vadd`: a selector is one byte or half, `.b0` or `.h1`.
    One,
    /// `vadd2`: halves in any order, `.h10`.
    Two,
    /// `vadd4`: bytes in any order, `.b3210`.
    Four,
}

/// One operand of a row: `s:T?`.
#[derive(Clone, Debug, PartialEq)]
pub struct OperandRule {
    /// Before the colon.
    pub kind: Kind,
    /// How many elements a list in braces has; `None` for no list.
    pub count: Option<Count>,
    /// Between the brackets of [`Kind::Coordinates`], which are those of a
    /// texture or surface if this is empty, and the braces of [`Kind::Elements`].
    pub elements: Vec<OperandRule>,
    /// After the colon.
    pub ty: TypeRule,
    /// After the colon of an address: where a variable must lie.
    pub space: Option<Space>,
    /// What a constant may be.
    pub range: Option<Range>,
    /// Whether it must stand.
    pub presence: Presence,
}

/// Whether an operand must stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Always.
    Required,
    /// `?`: it may be left out.
    Optional,
    /// `?word`: if and only if one of these modifiers stands.
    With(Vec<Modifier>),
}

/// The values that a constant may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// From and to, inclusive; any value if there is none.
    pub spans: Vec<(i64, i64)>,
    /// Only multiples of this.
    pub multiple: i64,
}

impl Range {
    /// Whether `value` is one of them.
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

/// How the type of an operand follows from the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeRule {
    /// Where the type comes from.
    pub base: TypeBase,
    /// Its width beside that type's.
    pub scale: Scale,
    /// A wider register will do: `ld`, `st` and `cvt`.
    pub wider: bool,
    /// No register of another type will do: the random bits of `cvt.rs`.
    pub alone: bool,
}

/// Where the type of an operand comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeBase {
    /// The instruction does not say.
    Any,
    /// This type whatever the modifiers: the `.u32` count of `shl`.
    Fixed(Type),
    /// The type of the instruction of this number.
    Named(usize),
}

/// A width beside another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Half as wide.
    Half,
    /// As wide.
    Same,
    /// Twice as wide: the product of `mul.wide`.
    Twice,
}

/// The types that an instruction names, in order.
pub type Types = [Option<Type>; 5];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_written_in_one_way() {
        for (letters, kind, what) in KINDS {
            assert_eq!(Kind::from_letters(letters), Some(*kind), "{letters}");
            assert_eq!(kind.describe(), *what);
        }
    }

    /// The head of the table explains them all to who writes rows.
    #[test]
    fn every_kind_is_explained() {
        let head = include_str!("mod.rs");
        for (letters, ..) in KINDS {
            // A list shows its elements.
            let shown = match *letters {
                "{}" => "`{".to_owned(),
                letters => format!("`{}`", letters.replace('|', "\\|")),
            };
            assert!(head.contains(&shown), "{shown}");
        }
    }
}
