//! Constants and constant expressions (PTX ISA, "Constant Expressions").

use nom::Err;

use super::input::{Parsed, SyntaxError, Tokens, join, text, token};
use crate::ast::{Float, FloatValue, Integer, Span};
use crate::diagnostic::Code;
use crate::token::TokenKind;

/// The maximum nesting of parentheses, signs and operators. ptxas 13.5 overflows its stack at
/// about this depth.
const MAX_DEPTH: usize = 4989;

/// The value of a constant expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Constant {
    Integer(Integer),
    Float(Float),
}

impl Constant {
    fn span(self) -> Span {
        match self {
            Constant::Integer(integer) => integer.span,
            Constant::Float(float) => float.span,
        }
    }

    fn at(self, span: Span) -> Constant {
        match self {
            Constant::Integer(integer) => Constant::Integer(Integer { span, ..integer }),
            Constant::Float(float) => Constant::Float(Float { span, ..float }),
        }
    }
}

/// Whether a constant can begin with this token.
pub fn starts_constant(kind: TokenKind) -> bool {
    use TokenKind::*;
    matches!(
        kind,
        Integer | Float | FloatBits | Minus | Plus | Tilde | Not | ParenOpen
    )
}

/// `0f3F800000`, or an expression of integers or of floats.
pub fn constant<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Constant> {
    let next = input.peek();
    match next.kind {
        TokenKind::FloatBits if !is_double(text(input.source, next.span)) => {
            let value = float_bits(text(input.source, next.span));
            let span = next.span;
            Ok((input.skip(), Constant::Float(Float { value, span })))
        }
        // Nearly all constants are single literals.
        TokenKind::Integer => {
            let literal = literal(input.source, next.span)?;
            let rest = input.skip();
            match rest.peek().kind {
                TokenKind::Semicolon
                | TokenKind::BracketClose
                | TokenKind::Comma
                | TokenKind::BraceClose => Ok((rest, Constant::Integer(literal))),
                _ => expression(input),
            }
        }
        _ => expression(input),
    }
}

/// The value of `WARP_SZ`.
const WARP_SIZE: u64 = 32;

/// An integer expression.
pub fn integer<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Integer> {
    match constant(input)? {
        (rest, Constant::Integer(integer)) => Ok((rest, integer)),
        (_, Constant::Float(float)) => Err(not_an_integer(float.span)),
    }
}

/// A single literal that fits `T`: an alignment, a line, the 9 of `%r<9>`, where the
/// following `>` is not an operator.
pub fn literal_number<'t, 'a, T: TryFrom<u64>>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, T> {
    let (rest, value, span) = if input.at(TokenKind::Identifier) && input.word_text() == "WARP_SZ" {
        (input.skip(), WARP_SIZE, input.peek().span)
    } else {
        let (rest, digits) = token(TokenKind::Integer)(input)?;
        let literal = literal(input.source, digits.span)?;
        (rest, literal.value, literal.span)
    };
    match T::try_from(value) {
        Ok(number) => Ok((rest, number)),
        Err(_) => SyntaxError::fatal(span, Code::Number, "this number is too large"),
    }
}

/// `0d3FF0000000000000`, which expressions treat like a decimal number.
fn is_double(literal: &str) -> bool {
    matches!(literal.as_bytes(), [_, b'd' | b'D', ..])
}

/// Malformed literals, which the lexer has reported, are zero.
fn float_bits(literal: &str) -> FloatValue {
    let digits = literal.get(2..).unwrap_or("");
    match literal.as_bytes() {
        [_, b'f' | b'F', ..] => FloatValue::F32(u32::from_str_radix(digits, 16).unwrap_or(0)),
        _ => FloatValue::F64(u64::from_str_radix(digits, 16).unwrap_or(0)),
    }
}

fn decimal(source: &str, span: Span) -> Result<Constant, Err<SyntaxError>> {
    let literal = text(source, span);
    let parsed = literal.parse::<f64>();
    // The lexer has reported invalid numbers.
    let value = parsed.clone().unwrap_or(0.0);
    let has_digits = |c: char| matches!(c, '1'..='9');
    let mantissa = literal.split(['e', 'E']).next().unwrap_or("");
    let too_small = value == 0.0 && mantissa.contains(has_digits);
    if parsed.is_ok() && (value.is_infinite() || too_small) {
        return Err(Err::Failure(SyntaxError::new(
            span,
            Code::Number,
            "this number is out of the range of double precision",
        )));
    }
    let value = FloatValue::F64(value.to_bits());
    Ok(Constant::Float(Float { value, span }))
}

/// The value of the digits at `span`.
fn literal(source: &str, span: Span) -> Result<Integer, Err<SyntaxError>> {
    let written = text(source, span);
    let digits = written.trim_end_matches('U');
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
        [b'0', b'b' | b'B', ..] => (&digits[2..], 2),
        [b'0', ..] => (digits, 8),
        _ => (digits, 10),
    };
    let mut value = 0_u64;
    for digit in digits.bytes() {
        // The lexer has reported invalid numbers.
        let Some(digit) = char::from(digit).to_digit(radix) else {
            if radix == 8 && digit.is_ascii_digit() {
                return Err(Err::Failure(SyntaxError::new(
                    span,
                    Code::Number,
                    "invalid octal number: a number that begins with 0 is octal",
                )));
            }
            break;
        };
        // The last digit may overflow: ptxas accepts 18446744073709551616.
        let Some(tens) = value.checked_mul(u64::from(radix)) else {
            return Err(Err::Failure(SyntaxError::new(
                span,
                Code::Number,
                "this integer does not fit 64 bits",
            )));
        };
        value = tens.wrapping_add(u64::from(digit));
    }
    let unsigned = digits.len() < written.len() && written.ends_with('U');
    Ok(Integer {
        value,
        unsigned: unsigned || value > i64::MAX as u64,
        span,
    })
}

/// An entry of the parser's stack, which waits for the next value.
#[derive(Clone, Copy)]
enum StackEntry {
    Sign(TokenKind, Span),
    /// `(.s64)`, `(.u64)`
    Cast {
        unsigned: bool,
        start: Span,
    },
    Paren(Span),
    Operator(TokenKind, Span, Constant),
    /// `condition ?`
    Then(Constant),
    /// `condition ? yes :`
    Else(Constant, Constant),
}

/// Parses an expression with an explicit stack, so that deep nesting cannot overflow the
/// program's stack.
fn expression<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Constant> {
    let mut open: Vec<StackEntry> = Vec::new();
    let mut rest = input;
    'operand: loop {
        if open.len() > MAX_DEPTH {
            return SyntaxError::fatal(
                rest.peek().span,
                Code::Limit,
                "this expression is nested too deeply",
            );
        }
        let first = rest.peek();
        let mut value = match first.kind {
            TokenKind::Integer => Constant::Integer(literal(rest.source, first.span)?),
            TokenKind::Float => decimal(rest.source, first.span)?,
            // A 32-bit float must be alone, or alone in parentheses.
            TokenKind::FloatBits
                if is_double(text(rest.source, first.span))
                    || matches!(open.last(), Some(StackEntry::Paren(_)))
                        && rest.skip().at(TokenKind::ParenClose) =>
            {
                let value = float_bits(text(rest.source, first.span));
                let span = first.span;
                Constant::Float(Float { value, span })
            }
            TokenKind::Identifier if rest.word_text() == "WARP_SZ" => Constant::Integer(Integer {
                value: WARP_SIZE,
                unsigned: false,
                span: first.span,
            }),
            TokenKind::Minus | TokenKind::Plus | TokenKind::Tilde | TokenKind::Not => {
                open.push(StackEntry::Sign(first.kind, first.span));
                rest = rest.skip();
                continue;
            }
            TokenKind::ParenOpen => {
                rest = rest.skip();
                let unsigned = rest.at_word("u64");
                if unsigned || rest.at_word("s64") {
                    (rest, _) = expect(rest.skip(), TokenKind::ParenClose)?;
                    let start = first.span;
                    open.push(StackEntry::Cast { unsigned, start });
                } else {
                    open.push(StackEntry::Paren(first.span));
                }
                continue;
            }
            _ if open.is_empty() => return SyntaxError::expected(rest, "a number"),
            _ => return Err(failure::<()>(SyntaxError::expected(rest, "a number"))),
        };
        rest = rest.skip();
        // Reduce operators that bind tighter than the following one.
        loop {
            let next = rest.peek();
            let strength = precedence(next.kind);
            value = match open.last().copied() {
                Some(StackEntry::Sign(sign, at)) => signed(sign, at, value)?,
                Some(StackEntry::Cast { unsigned, start }) => cast(unsigned, start, value)?,
                Some(StackEntry::Operator(operator, at, left))
                    if strength.is_none_or(|next| precedence(operator) >= Some(next)) =>
                {
                    combine(operator, at, left, value)?
                }
                Some(StackEntry::Else(condition, yes))
                    if strength.is_none() && next.kind != TokenKind::Question =>
                {
                    choose(condition, yes, value)?
                }
                Some(StackEntry::Paren(start))
                    if strength.is_none() && next.kind != TokenKind::Question =>
                {
                    (rest, _) = expect(rest, TokenKind::ParenClose)?;
                    value.at(join(start, next.span))
                }
                Some(StackEntry::Then(condition))
                    if strength.is_none() && next.kind != TokenKind::Question =>
                {
                    (rest, _) = expect(rest, TokenKind::Colon)?;
                    open.pop();
                    open.push(StackEntry::Else(condition, value));
                    continue 'operand;
                }
                _ if strength.is_some() => {
                    open.push(StackEntry::Operator(next.kind, next.span, value));
                    rest = rest.skip();
                    continue 'operand;
                }
                _ if next.kind == TokenKind::Question => {
                    open.push(StackEntry::Then(value));
                    rest = rest.skip();
                    continue 'operand;
                }
                _ => return Ok((rest, value)),
            };
            open.pop();
        }
    }
}

/// Makes an error fatal: inside an expression there are no alternatives.
fn failure<O>(result: Parsed<'_, '_, O>) -> Err<SyntaxError> {
    match result {
        Err(Err::Error(problem) | Err::Failure(problem)) => Err::Failure(problem),
        Err(incomplete) => incomplete,
        Ok((rest, _)) => Err::Failure(SyntaxError::new(
            rest.peek().span,
            Code::Syntax,
            "no expression",
        )),
    }
}

fn expect<'t, 'a>(input: Tokens<'t, 'a>, kind: TokenKind) -> Parsed<'t, 'a, ()> {
    match token(kind)(input) {
        Ok((rest, _)) => Ok((rest, ())),
        wrong => Err(failure(wrong)),
    }
}

/// The precedence of an operator, 0 for the lowest.
fn precedence(operator: TokenKind) -> Option<u8> {
    use TokenKind::*;
    Some(match operator {
        OrOr => 0,
        AndAnd => 1,
        Or => 2,
        Caret => 3,
        And => 4,
        Equal | NotEqual => 5,
        Less | LessEqual | Greater | GreaterEqual => 6,
        ShiftLeft | ShiftRight => 7,
        Plus | Minus => 8,
        Star | Slash | Percent => 9,
        _ => return None,
    })
}

fn not_an_integer(span: Span) -> Err<SyntaxError> {
    let message = "expected an integer, found a floating-point number";
    Err::Failure(SyntaxError::new(span, Code::Number, message))
}

fn to_integer(value: Constant) -> Result<Integer, Err<SyntaxError>> {
    match value {
        Constant::Integer(integer) => Ok(integer),
        Constant::Float(float) => Err(not_an_integer(float.span)),
    }
}

fn signed(sign: TokenKind, at: Span, operand: Constant) -> Result<Constant, Err<SyntaxError>> {
    let span = join(at, operand.span());
    if let (Constant::Float(float), TokenKind::Minus | TokenKind::Plus) = (operand, sign) {
        let flip = u64::from(sign == TokenKind::Minus) << 63;
        let bits = match float.value {
            FloatValue::F64(bits) => bits,
            FloatValue::F32(bits) => f64::from(f32::from_bits(bits)).to_bits(),
        };
        let value = FloatValue::F64(bits ^ flip);
        return Ok(Constant::Float(Float { value, span }));
    }
    let Integer {
        value, unsigned, ..
    } = to_integer(operand)?;
    let (value, unsigned) = match sign {
        TokenKind::Minus => (value.wrapping_neg(), unsigned),
        TokenKind::Tilde => (!value, unsigned),
        TokenKind::Not => (u64::from(value == 0), false),
        _ => (value, unsigned),
    };
    Ok(Constant::Integer(Integer {
        value,
        unsigned,
        span,
    }))
}

fn cast(unsigned: bool, start: Span, operand: Constant) -> Result<Constant, Err<SyntaxError>> {
    let operand = to_integer(operand)?;
    Ok(Constant::Integer(Integer {
        unsigned,
        span: join(start, operand.span),
        ..operand
    }))
}

fn choose(condition: Constant, yes: Constant, no: Constant) -> Result<Constant, Err<SyntaxError>> {
    let (condition, yes, no) = (to_integer(condition)?, to_integer(yes)?, to_integer(no)?);
    let chosen = if condition.value != 0 { yes } else { no };
    Ok(Constant::Integer(Integer {
        value: chosen.value,
        unsigned: yes.unsigned || no.unsigned,
        span: join(condition.span, no.span),
    }))
}

/// `at` is the span of the operator.
fn combine(
    operator: TokenKind,
    at: Span,
    left: Constant,
    right: Constant,
) -> Result<Constant, Err<SyntaxError>> {
    let wrong = |message| Err::Failure(SyntaxError::new(at, Code::Number, message));
    let span = join(left.span(), right.span());
    match (left, right) {
        (Constant::Integer(a), Constant::Integer(b)) => {
            let (value, unsigned) =
                integers(operator, a, b).ok_or_else(|| wrong("division by zero"))?;
            Ok(Constant::Integer(Integer {
                value,
                unsigned,
                span,
            }))
        }
        (Constant::Float(a), Constant::Float(b)) => {
            let value = |float: Float| match float.value {
                FloatValue::F64(bits) => f64::from_bits(bits),
                FloatValue::F32(bits) => f32::from_bits(bits).into(),
            };
            let (a, b) = (value(a), value(b));
            if operator == TokenKind::Slash && b == 0.0 {
                return Err(wrong("division by zero"));
            }
            if let Some(holds) = compare(operator, a, b) {
                return Ok(Constant::Integer(Integer {
                    value: u64::from(holds),
                    unsigned: false,
                    span,
                }));
            }
            let value = match operator {
                TokenKind::Plus => a + b,
                TokenKind::Minus => a - b,
                TokenKind::Star => a * b,
                TokenKind::Slash => a / b,
                _ => return Err(not_an_integer(left.span())),
            };
            let value = FloatValue::F64(value.to_bits());
            Ok(Constant::Float(Float { value, span }))
        }
        _ => Err(wrong(
            "cannot combine an integer and a floating-point number",
        )),
    }
}

fn compare<T: PartialOrd>(operator: TokenKind, a: T, b: T) -> Option<bool> {
    Some(match operator {
        TokenKind::Equal => a == b,
        TokenKind::NotEqual => a != b,
        TokenKind::Less => a < b,
        TokenKind::LessEqual => a <= b,
        TokenKind::Greater => a > b,
        TokenKind::GreaterEqual => a >= b,
        _ => return None,
    })
}

/// The result of an operation and whether it is unsigned; `None` for a division by zero.
fn integers(operator: TokenKind, left: Integer, right: Integer) -> Option<(u64, bool)> {
    use TokenKind::*;
    let unsigned = left.unsigned || right.unsigned;
    let (a, b) = (left.value, right.value);
    let (signed_a, signed_b) = (a as i64, b as i64);
    let holds = if unsigned {
        compare(operator, a, b)
    } else {
        compare(operator, signed_a, signed_b)
    };
    if let Some(holds) = holds {
        return Some((u64::from(holds), false));
    }
    let shift = u32::try_from(b).ok().filter(|count| *count < 64);
    Some(match operator {
        OrOr => (u64::from(a != 0 || b != 0), false),
        AndAnd => (u64::from(a != 0 && b != 0), false),
        Or => (a | b, unsigned),
        Caret => (a ^ b, unsigned),
        And => (a & b, unsigned),
        ShiftLeft => (shift.map_or(0, |count| a << count), left.unsigned),
        ShiftRight if left.unsigned => (shift.map_or(0, |count| a >> count), true),
        ShiftRight => ((signed_a >> shift.unwrap_or(63)) as u64, false),
        Plus => (a.wrapping_add(b), unsigned),
        Minus => (a.wrapping_sub(b), unsigned),
        Star => (a.wrapping_mul(b), unsigned),
        Slash if unsigned => (a.checked_div(b)?, true),
        Slash if b != 0 => (signed_a.wrapping_div(signed_b) as u64, false),
        Percent if unsigned => (a.checked_rem(b)?, true),
        Percent if b != 0 => (signed_a.wrapping_rem(signed_b) as u64, false),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::LexicalErrors;

    fn parse(source: &str) -> Option<Constant> {
        match constant(Tokens::new(source, &LexicalErrors::default())) {
            Ok((rest, value)) if rest.is_empty() => Some(value),
            _ => None,
        }
    }

    fn value(source: &str) -> Option<i64> {
        match parse(source)? {
            Constant::Integer(integer) => Some(integer.value as i64),
            Constant::Float(_) => None,
        }
    }

    fn float(source: &str) -> Option<FloatValue> {
        match parse(source)? {
            Constant::Float(float) => Some(float.value),
            Constant::Integer(_) => None,
        }
    }

    #[test]
    fn precedence_is_that_of_c() {
        assert_eq!(value("1+2*3"), Some(7));
        assert_eq!(value("(1+2)*3"), Some(9));
        assert_eq!(value("10-4-3"), Some(3));
        assert_eq!(value("-2*-(3+-1)"), Some(4));
        assert_eq!(value("1|6&3^1<<2"), Some(1 | ((6 & 3) ^ 4)));
        assert_eq!(value("1 ? 2 : 0 ? 3 : 4"), Some(2));
        assert_eq!(value("0 ? 2 : 0 ? 3 : 4+1"), Some(5));
        assert_eq!(value("(1 ? 0 ? 5 : 6 : 7) == 6"), Some(1));
        assert_eq!(value("!0 + ~0"), Some(0));
        assert_eq!(value("017 + 0x10 + 0b11 + WARP_SZ"), Some(15 + 16 + 3 + 32));
    }

    #[test]
    fn signs_decide_division_and_order() {
        assert_eq!(value("-8/2"), Some(-4));
        assert_eq!(value("-1 < 0"), Some(1));
        assert_eq!(value("(.u64)-1 < 0"), Some(0));
        assert_eq!(value("-16 >> 2"), Some(-4));
    }

    /// As in ptxas, decimal floats can be combined.
    #[test]
    fn floats_are_no_integers() {
        let double = |value: f64| Some(FloatValue::F64(value.to_bits()));
        assert_eq!(float("-(1.5 + .5e1)*2."), double(-13.0));
        assert_eq!(float("0f3F800000"), Some(FloatValue::F32(0x3F80_0000)));
        assert_eq!(float("0D3FF8000000000000"), double(1.5));
        assert_eq!(value("1.5 == 1.5"), Some(1));
        for wrong in [
            "1.5*2",
            "1.5<2",
            "!1.5",
            "1 ? 2.0 : 3.0",
            "(.s64)1.5",
            "1.0/0.0",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert_eq!(parse("-0f3F800000"), None);
        assert_eq!((parse("1e999"), parse("1e-999")), (None, None));
    }

    #[test]
    fn bad_constants_are_errors() {
        assert_eq!(value("1/0"), None);
        assert_eq!(value("1 % 0"), None);
        assert_eq!(value("18446744073709551616"), Some(0));
        assert_eq!(value("100000000000000000000"), None);
        assert_eq!(value("089"), None);
        let nested = |depth| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
        assert_eq!(value(&nested(4000)), Some(1));
        assert_eq!(value(&nested(100_000)), None);
        assert_eq!(value(&format!("{}1", "-".repeat(100_000))), None);
        assert_eq!(value(&format!("1{}", "?1:1".repeat(100_000))), None);
        assert_eq!(value(&format!("1{}", "+1".repeat(100_000))), Some(100_001));
    }
}
