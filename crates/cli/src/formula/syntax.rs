//! The syntax tree of a formula.

use std::ops::Range;

use crate::element::Value;

/// A range of bytes of the formula.
pub(super) type Span = Range<usize>;

/// An expression with its span.
#[derive(Debug)]
pub(super) struct Node<'a> {
    pub kind: Kind<'a>,
    pub span: Span,
}

#[derive(Debug)]
pub(super) enum Kind<'a> {
    Number(Value),
    Name(&'a str),
    /// `a[i]`
    Element(&'a str, Box<Node<'a>>),
    /// `[x, y, z][i]`
    Choice(Vec<Node<'a>>, Box<Node<'a>>),
    Unary(Unary, Box<Node<'a>>),
    Binary(Binary, Box<[Node<'a>; 2]>),
    Call(&'a str, Vec<Node<'a>>),
    If(Box<If<'a>>),
}

#[derive(Debug)]
pub(super) struct If<'a> {
    pub condition: Node<'a>,
    pub then: Block<'a>,
    pub otherwise: Option<Block<'a>>,
}

/// Statements, and an optional final expression with the value of the block.
#[derive(Debug)]
pub(super) struct Block<'a> {
    pub statements: Vec<Statement<'a>>,
    pub value: Option<Node<'a>>,
    pub span: Span,
}

#[derive(Debug)]
pub(super) enum Statement<'a> {
    Let(&'a str, Node<'a>),
    /// `name = value`, or with an operator `name += value`.
    Assign {
        name: &'a str,
        span: Span,
        operator: Option<Binary>,
        value: Node<'a>,
    },
    If(If<'a>),
    While(Node<'a>, Block<'a>),
    For {
        name: &'a str,
        from: Node<'a>,
        to: Node<'a>,
        body: Block<'a>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unary {
    Negate,
    Not,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    BitOr,
    BitXor,
    BitAnd,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
}

impl Binary {
    /// All operators except [`Power`](Binary::Power), which is right-associative and binds tighter than a
    /// sign.
    const LEFT_ASSOCIATIVE: [(&'static str, Binary, u8); 18] = [
        ("||", Binary::Or, 0),
        ("&&", Binary::And, 1),
        ("==", Binary::Equal, 2),
        ("!=", Binary::NotEqual, 2),
        ("<", Binary::Less, 2),
        ("<=", Binary::LessEqual, 2),
        (">", Binary::Greater, 2),
        (">=", Binary::GreaterEqual, 2),
        ("|", Binary::BitOr, 3),
        ("^", Binary::BitXor, 4),
        ("&", Binary::BitAnd, 5),
        ("<<", Binary::ShiftLeft, 6),
        (">>", Binary::ShiftRight, 6),
        ("+", Binary::Add, 7),
        ("-", Binary::Subtract, 7),
        ("*", Binary::Multiply, 8),
        ("/", Binary::Divide, 8),
        ("%", Binary::Remainder, 8),
    ];

    /// The operator with its precedence.
    pub fn of_symbol(symbol: &str) -> Option<(Binary, u8)> {
        Self::LEFT_ASSOCIATIVE
            .iter()
            .find(|(text, ..)| *text == symbol)
            .map(|&(_, operator, level)| (operator, level))
    }

    /// The operator of `+=` and similar.
    pub fn of_assignment(symbol: &str) -> Option<Binary> {
        let (operator, level) = Binary::of_symbol(symbol.strip_suffix('=')?)?;
        (level > 2).then_some(operator)
    }
}
