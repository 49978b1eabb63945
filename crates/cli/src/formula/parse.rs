//! The parser of formulas, with nom.

use std::cell::Cell;

use nom::branch::alt;
use nom::bytes::complete::{is_not, tag, take_while, take_while1};
use nom::character::complete::{char, multispace1, one_of};
use nom::combinator::{cut, eof, not, opt, recognize, value, verify};
use nom::error::ErrorKind;
use nom::multi::{many0_count, separated_list1};
use nom::sequence::{delimited, pair, preceded, terminated};
use nom::{Err, IResult, Parser};

use super::syntax::{Binary, Block, If, Kind, Node, Span, Statement, Unary};
use crate::element::Value;

/// The maximum nesting of expressions and blocks: deeper nesting would overflow the stack.
const MAX_DEPTH: usize = 40;
/// The maximum number of expressions: the tree of a longer chain of operators would overflow the stack.
const MAX_NODES: usize = 500;

const KEYWORDS: [&str; 6] = ["let", "if", "else", "for", "in", "while"];

/// Longer symbols come before their prefixes.
const SYMBOLS: [&str; 40] = [
    "<<=", ">>=", "..", "**", "==", "!=", "<=", ">=", "&&", "||", "<<", ">>", "+=", "-=", "*=",
    "/=", "%=", "&=", "|=", "^=", "+", "-", "*", "/", "%", "&", "|", "^", "!", "<", ">", "=", "(",
    ")", "[", "]", "{", "}", ",", ";",
];

/// A syntax error with its span.
#[derive(Debug)]
pub(super) struct SyntaxError {
    pub span: Span,
    pub problem: String,
}

/// The error of nom's parsers, with the number of bytes left.
#[derive(Debug)]
struct Unexpected {
    left: usize,
    reason: Reason,
}

#[derive(Debug)]
enum Reason {
    /// No further information.
    Unknown,
    /// Expected syntax.
    Expected(&'static str),
    Problem(String),
}

impl nom::error::ParseError<&str> for Unexpected {
    fn from_error_kind(input: &str, _: ErrorKind) -> Self {
        Unexpected {
            left: input.len(),
            reason: Reason::Unknown,
        }
    }

    fn append(_: &str, _: ErrorKind, other: Self) -> Self {
        other
    }
}

type Parsed<'a, T> = IResult<&'a str, T, Unexpected>;

/// Parses a formula.
///
/// # Errors
/// The first syntax error.
pub(super) fn parse(source: &str) -> Result<Block<'_>, SyntaxError> {
    let grammar = Grammar {
        source,
        depth: Cell::new(0),
        nodes: Cell::new(0),
    };
    let end = expect(
        preceded(blank, eof),
        "an operator, `;` or the end of the formula",
    );
    match terminated(|input| grammar.statements(input), end).parse(source) {
        Ok((_, block)) => Ok(block),
        Err(Err::Error(error) | Err::Failure(error)) => Err(grammar.syntax_error(error)),
        // The parsers for complete input do not ask for more.
        Err(Err::Incomplete(_)) => Err(SyntaxError {
            span: source.len()..source.len(),
            problem: "the formula ends too early".to_owned(),
        }),
    }
}

struct Grammar<'a> {
    source: &'a str,
    depth: Cell<usize>,
    nodes: Cell<usize>,
}

impl<'a> Grammar<'a> {
    fn position(&self, input: &str) -> usize {
        self.source.len() - input.len()
    }

    /// The offset of the next token, after white space.
    fn start(&self, input: &str) -> usize {
        self.position(blank(input).map_or(input, |(rest, ())| rest))
    }

    fn syntax_error(&self, error: Unexpected) -> SyntaxError {
        let left = &self.source[self.source.len() - error.left..];
        let left = blank(left).map_or(left, |(rest, ())| rest);
        let start = self.position(left);
        let (length, found) = match token(left) {
            Ok((_, token)) => (token.len(), format!("`{token}`")),
            Err(_) => match left.chars().next() {
                Some(character) => (character.len_utf8(), format!("`{character}`")),
                None => (0, "the end of the formula".to_owned()),
            },
        };
        let problem = match error.reason {
            Reason::Unknown => format!("unexpected {found}"),
            Reason::Expected(what) => format!("expected {what}, found {found}"),
            Reason::Problem(problem) => problem,
        };
        SyntaxError {
            span: start..start + length,
            problem,
        }
    }

    /// Counts a level of nesting during `parser`.
    fn nested<T>(
        &self,
        input: &'a str,
        parser: impl FnOnce(&'a str) -> Parsed<'a, T>,
    ) -> Parsed<'a, T> {
        let depth = self.depth.get();
        if depth == MAX_DEPTH {
            let text = format!("this is nested deeper than {MAX_DEPTH} levels");
            return Err(problem(input, text));
        }
        self.depth.set(depth + 1);
        let parsed = parser(input);
        self.depth.set(depth);
        parsed
    }

    /// The node that was parsed from `start` to `rest`.
    fn node(&self, kind: Kind<'a>, start: usize, rest: &'a str) -> Parsed<'a, Node<'a>> {
        let nodes = self.nodes.get() + 1;
        self.nodes.set(nodes);
        if nodes > MAX_NODES {
            let text = format!("the formula has more than {MAX_NODES} operands and operators");
            return Err(problem(rest, text));
        }
        let span = start..self.position(rest);
        Ok((rest, Node { kind, span }))
    }

    fn block(&self, input: &'a str) -> Parsed<'a, Block<'a>> {
        self.nested(input, |input| {
            delimited(
                symbol("{"),
                |input| self.statements(input),
                expect(symbol("}"), "`}`, `;` or an operator"),
            )
            .parse(input)
        })
    }

    /// The contents of a block, or a whole formula.
    fn statements(&self, input: &'a str) -> Parsed<'a, Block<'a>> {
        let mut statements = Vec::new();
        let mut rest = input;
        let mut tail = None;
        while !self.at_end(rest) {
            let start = rest;
            let (after, statement) = opt(|input| self.statement(input)).parse(rest)?;
            if let Some(statement) = statement {
                let (after, semicolon) = opt(symbol(";")).parse(after)?;
                rest = after;
                let compound = !matches!(statement, Statement::Let(..) | Statement::Assign { .. });
                statements.push(statement);
                if semicolon.is_none() && !compound {
                    break;
                }
                continue;
            }
            let (after, node) = self.expression(rest)?;
            let (after, semicolon) = opt(symbol(";")).parse(after)?;
            match node.kind {
                // An `if` is only a value at the end of a block.
                Kind::If(inner)
                    if starts_with_if(start) && (semicolon.is_some() || !self.at_end(after)) =>
                {
                    statements.push(Statement::If(*inner));
                    rest = after;
                }
                _ if semicolon.is_some() => {
                    return Err(problem(
                        start,
                        "the value of this expression is not used".to_owned(),
                    ));
                }
                kind => {
                    tail = Some(Node {
                        kind,
                        span: node.span,
                    });
                    rest = after;
                    break;
                }
            }
        }
        let start = self.start(input).min(self.position(rest));
        let span = start..self.position(rest);
        Ok((
            rest,
            Block {
                statements,
                value: tail,
                span,
            },
        ))
    }

    fn at_end(&self, input: &'a str) -> bool {
        let closing = symbol("}").parse(input).is_ok();
        closing || self.start(input) == self.source.len()
    }

    fn statement(&self, input: &'a str) -> Parsed<'a, Statement<'a>> {
        alt((
            |input| self.binding(input),
            |input| self.while_loop(input),
            |input| self.for_loop(input),
            |input| self.assignment(input),
        ))
        .parse(input)
    }

    fn binding(&self, input: &'a str) -> Parsed<'a, Statement<'a>> {
        let name = expect(name, "a name");
        let (rest, (name, value)) = preceded(
            keyword("let"),
            pair(
                name,
                preceded(expect(symbol("="), "`=`"), |input| self.operand(input)),
            ),
        )
        .parse(input)?;
        Ok((rest, Statement::Let(name, value)))
    }

    fn assignment(&self, input: &'a str) -> Parsed<'a, Statement<'a>> {
        let (after, target) = name(input)?;
        let span = self.start(input)..self.position(after);
        let (rest, operator) = verify(punctuation, |symbol: &str| {
            symbol == "=" || Binary::of_assignment(symbol).is_some()
        })
        .parse(after)?;
        let (rest, value) = self.operand(rest)?;
        Ok((
            rest,
            Statement::Assign {
                name: target,
                span,
                operator: Binary::of_assignment(operator),
                value,
            },
        ))
    }

    fn while_loop(&self, input: &'a str) -> Parsed<'a, Statement<'a>> {
        let (rest, (condition, body)) = preceded(
            keyword("while"),
            pair(|input| self.operand(input), |input| self.body(input)),
        )
        .parse(input)?;
        Ok((rest, Statement::While(condition, body)))
    }

    fn for_loop(&self, input: &'a str) -> Parsed<'a, Statement<'a>> {
        let (rest, (name, _, from, _, to, body)) = preceded(
            keyword("for"),
            (
                expect(name, "a name"),
                expect(keyword("in"), "`in`"),
                |input| self.operand(input),
                expect(symbol(".."), "`..`"),
                |input| self.operand(input),
                |input| self.body(input),
            ),
        )
        .parse(input)?;
        let statement = Statement::For {
            name,
            from,
            to,
            body,
        };
        Ok((rest, statement))
    }

    /// A required block.
    fn body(&self, input: &'a str) -> Parsed<'a, Block<'a>> {
        expect(|input| self.block(input), "`{`").parse(input)
    }

    /// A required expression.
    fn operand(&self, input: &'a str) -> Parsed<'a, Node<'a>> {
        cut(|input| self.expression(input)).parse(input)
    }

    fn expression(&self, input: &'a str) -> Parsed<'a, Node<'a>> {
        self.nested(input, |input| self.binary(input, 0))
    }

    /// Operators with a precedence of at least `level`.
    fn binary(&self, input: &'a str, level: u8) -> Parsed<'a, Node<'a>> {
        let (mut rest, mut left) = self.unary(input)?;
        while let Ok((after, symbol)) = punctuation(rest) {
            let Some((operator, tightness)) = Binary::of_symbol(symbol) else {
                break;
            };
            if tightness < level {
                break;
            }
            let (after, right) = cut(|input| self.binary(input, tightness + 1)).parse(after)?;
            let start = left.span.start;
            let kind = Kind::Binary(operator, Box::new([left, right]));
            (rest, left) = self.node(kind, start, after)?;
        }
        Ok((rest, left))
    }

    fn unary(&self, input: &'a str) -> Parsed<'a, Node<'a>> {
        let operator = alt((
            value(Unary::Negate, symbol("-")),
            value(Unary::Not, symbol("!")),
        ));
        let (rest, operator) = opt(operator).parse(input)?;
        let Some(operator) = operator else {
            return self.power(input);
        };
        let (rest, of) = self.nested(rest, |input| cut(|input| self.unary(input)).parse(input))?;
        let kind = Kind::Unary(operator, Box::new(of));
        self.node(kind, self.start(input), rest)
    }

    fn power(&self, input: &'a str) -> Parsed<'a, Node<'a>> {
        let (rest, base) = self.primary(input)?;
        let (after, power) = opt(symbol("**")).parse(rest)?;
        if power.is_none() {
            return Ok((rest, base));
        }
        let (rest, exponent) =
            self.nested(after, |input| cut(|input| self.unary(input)).parse(input))?;
        let kind = Kind::Binary(Binary::Power, Box::new([base, exponent]));
        self.node(kind, self.start(input), rest)
    }

    fn primary(&self, input: &'a str) -> Parsed<'a, Node<'a>> {
        let kind = alt((
            |input| self.number(input),
            |input| self.conditional(input),
            |input| self.choice(input),
            |input| self.named(input),
        ));
        let (rest, kind) = alt((
            delimited(
                symbol("("),
                |input| self.operand(input),
                expect(symbol(")"), "`)` or an operator"),
            )
            .map(|node| node.kind),
            kind,
        ))
        .parse(input)
        .map_err(|error| match error {
            Err::Error(_) => expected(input, "a number, a name or `(`"),
            committed => committed,
        })?;
        self.node(kind, self.start(input), rest)
    }

    fn number(&self, input: &'a str) -> Parsed<'a, Kind<'a>> {
        let (rest, text) = preceded(blank, numeral).parse(input)?;
        match number(text) {
            Some(number) => Ok((rest, Kind::Number(number))),
            None => {
                let text = format!("`{text}` is not a 64-bit number");
                Err(problem(input, text))
            }
        }
    }

    fn conditional(&self, input: &'a str) -> Parsed<'a, Kind<'a>> {
        let otherwise = preceded(
            keyword("else"),
            cut(alt((
                |input| self.else_if(input),
                expect(|input| self.block(input), "`{` or `if`"),
            ))),
        );
        let (rest, (condition, then, otherwise)) = preceded(
            keyword("if"),
            (
                |input| self.operand(input),
                |input| self.body(input),
                opt(otherwise),
            ),
        )
        .parse(input)?;
        let inner = If {
            condition,
            then,
            otherwise,
        };
        Ok((rest, Kind::If(Box::new(inner))))
    }

    /// The `if` of an `else if`, as a block.
    fn else_if(&self, input: &'a str) -> Parsed<'a, Block<'a>> {
        let (rest, kind) = self.nested(input, |input| self.conditional(input))?;
        let (rest, node) = self.node(kind, self.start(input), rest)?;
        let block = Block {
            statements: Vec::new(),
            span: node.span.clone(),
            value: Some(node),
        };
        Ok((rest, block))
    }

    /// `[x, y, z][i]`
    fn choice(&self, input: &'a str) -> Parsed<'a, Kind<'a>> {
        let list = delimited(
            symbol("["),
            separated_list1(symbol(","), |input| self.operand(input)),
            expect(symbol("]"), "`,` or `]`"),
        );
        let index = delimited(
            expect(symbol("["), "`[` and an index"),
            |input| self.operand(input),
            expect(symbol("]"), "`]` or an operator"),
        );
        let (rest, (list, index)) = pair(list, index).parse(input)?;
        Ok((rest, Kind::Choice(list, Box::new(index))))
    }

    /// A name, a call of a function, or an element of a buffer.
    fn named(&self, input: &'a str) -> Parsed<'a, Kind<'a>> {
        let (rest, name) = name(input)?;
        let arguments = terminated(
            separated_list1(symbol(","), |input| self.operand(input)),
            expect(symbol(")"), "`,`, `)` or an operator"),
        );
        let call = preceded(
            symbol("("),
            alt((symbol(")").map(|_| Vec::new()), arguments)),
        );
        let index = delimited(
            symbol("["),
            |input| self.operand(input),
            expect(symbol("]"), "`]` or an operator"),
        );
        let kind = alt((
            call.map(|arguments| Kind::Call(name, arguments)),
            index.map(|index| Kind::Element(name, Box::new(index))),
        ));
        let (rest, kind) = opt(kind).parse(rest)?;
        Ok((rest, kind.unwrap_or(Kind::Name(name))))
    }
}

fn expected(input: &str, what: &'static str) -> Err<Unexpected> {
    Err::Error(Unexpected {
        left: input.len(),
        reason: Reason::Expected(what),
    })
}

/// A fatal error, for which no alternatives are tried.
fn problem(input: &str, problem: String) -> Err<Unexpected> {
    Err::Failure(Unexpected {
        left: input.len(),
        reason: Reason::Problem(problem),
    })
}

/// Makes an error fatal.
fn committed(error: Err<Unexpected>) -> Err<Unexpected> {
    match error {
        Err::Error(error) => Err::Failure(error),
        error => error,
    }
}

/// Requires `parser` to match.
fn expect<'a, T>(
    mut parser: impl Parser<&'a str, Output = T, Error = Unexpected>,
    what: &'static str,
) -> impl FnMut(&'a str) -> Parsed<'a, T> {
    move |input| {
        parser.parse(input).map_err(|error| match error {
            Err::Error(_) => committed(expected(input, what)),
            error => error,
        })
    }
}

/// White space and comments.
fn blank(input: &str) -> Parsed<'_, ()> {
    let comment = pair(tag("//"), opt(is_not("\n")));
    value(
        (),
        many0_count(alt((value((), multispace1), value((), comment)))),
    )
    .parse(input)
}

fn word(input: &str) -> Parsed<'_, &str> {
    let first = take_while1(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '$');
    let rest = take_while(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$');
    preceded(blank, recognize(pair(first, rest))).parse(input)
}

fn name(input: &str) -> Parsed<'_, &str> {
    verify(word, |word: &str| !KEYWORDS.contains(&word)).parse(input)
}

fn keyword<'a>(
    expected: &'static str,
) -> impl Parser<&'a str, Output = &'a str, Error = Unexpected> {
    verify(word, move |word: &str| word == expected)
}

fn punctuation(input: &str) -> Parsed<'_, &str> {
    let (rest, ()) = blank(input)?;
    match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
        Some(symbol) => tag(*symbol).parse(rest),
        None => Err(expected(rest, "an operator")),
    }
}

fn symbol<'a>(
    expected: &'static str,
) -> impl Parser<&'a str, Output = &'a str, Error = Unexpected> {
    verify(punctuation, move |symbol: &str| symbol == expected)
}

/// The characters of a number, or of an invalid one.
fn numeral(input: &str) -> Parsed<'_, &str> {
    let word = || take_while(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let digits = || take_while1(|c: char| c.is_ascii_digit() || c == '_');
    let exponent = (one_of("eE"), opt(one_of("+-")), digits());
    let radix = (char('0'), one_of("xXbB"), word());
    let fraction = (
        char('.'),
        not(char('.')),
        take_while(|c: char| c.is_ascii_digit() || c == '_'),
    );
    let decimal = (
        verify(digits(), |digits: &str| !digits.starts_with('_')),
        opt(fraction),
        opt(exponent),
        word(),
    );
    alt((recognize(radix), recognize(decimal))).parse(input)
}

fn number(text: &str) -> Option<Value> {
    let digits = text.replace('_', "");
    let bits = |radix| {
        let bits = u64::from_str_radix(digits.get(2..)?, radix).ok()?;
        Some(Value::Int(bits as i64))
    };
    match digits.get(..2) {
        Some("0x" | "0X") => bits(16),
        Some("0b" | "0B") => bits(2),
        _ if digits.contains(['.', 'e', 'E']) => digits.parse().ok().map(Value::Float),
        _ => digits.parse().ok().map(Value::Int),
    }
}

fn starts_with_if(input: &str) -> bool {
    keyword("if").parse(input).is_ok()
}

/// The next token of any kind, for messages.
fn token(input: &str) -> Parsed<'_, &str> {
    alt((word, numeral, punctuation)).parse(input)
}
