//! Constants and constant expressions (PTX ISA, "Constant Expressions").

use nom::combinator::cut;
use nom::{Err, Parser};

use super::input::{Parsed, Problem, Tokens, join, text, token};
use crate::ptx::ast::{self, Float, FloatValue, Integer, Span};
use crate::ptx::diagnostic::Code;
use crate::ptx::token::TokenKind;

/// Parentheses and signs inside one another; a text may not choose how much
/// stack this program uses.
const MAX_DEPTH: u32 = 64;

/// An integer expression.
pub fn integer<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Integer> {
    // Nearly every constant is a lone literal.
    if input.at(TokenKind::Integer)
        && matches!(
            input.peek_at(1).kind,
            TokenKind::Comma
                | TokenKind::Semicolon
                | TokenKind::BracketClose
                | TokenKind::BraceClose
                | TokenKind::ParenClose
        )
    {
        return literal(input);
    }
    ternary(input, MAX_DEPTH)
}

/// A lone literal that fits `T`, or `WARP_SZ`: the 9 of `%r<9>`, where a `>`
/// follows that is no operator.
pub fn literal_number<'t, 'a, T: TryFrom<u64>>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, T> {
    match input.peek().kind {
        TokenKind::Identifier => fitting(unary(input, 0)?),
        _ => fitting(literal(input)?),
    }
}

fn fitting<'t, 'a, T: TryFrom<u64>>((rest, value): (Tokens<'t, 'a>, Integer)) -> Parsed<'t, 'a, T> {
    match T::try_from(value.value) {
        Ok(number) => Ok((rest, number)),
        Err(_) => Problem::fatal(value.span, Code::Number, "this number is too large here"),
    }
}

/// A float literal, with a sign or without.
pub fn float<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Float> {
    let (digits, negative) = match input.peek().kind {
        TokenKind::Minus => (input.skip(), true),
        TokenKind::Plus => (input.skip(), false),
        _ => (input, false),
    };
    let (rest, literal) = token(TokenKind::Float)(digits)?;
    let value = float_value(text(input.source, literal.span), negative);
    let span = input.span_to(rest);
    Ok((rest, Float { value, span }))
}

/// Whether a float literal, signed or not, comes next.
pub fn at_float(input: Tokens<'_, '_>) -> bool {
    match input.peek().kind {
        TokenKind::Float => true,
        TokenKind::Minus | TokenKind::Plus => input.peek_at(1).kind == TokenKind::Float,
        _ => false,
    }
}

/// The lexer has reported malformed literals: they count as zero here.
fn float_value(literal: &str, negative: bool) -> FloatValue {
    let sign = u64::from(negative);
    match literal.as_bytes() {
        [b'0', b'f' | b'F', ..] => {
            let bits = u32::from_str_radix(&literal[2..], 16).unwrap_or(0);
            FloatValue::F32(bits ^ (sign as u32) << 31)
        }
        [b'0', b'd' | b'D', ..] => {
            let bits = u64::from_str_radix(&literal[2..], 16).unwrap_or(0);
            FloatValue::F64(bits ^ sign << 63)
        }
        _ => FloatValue::F64(literal.parse::<f64>().unwrap_or(0.0).to_bits() ^ sign << 63),
    }
}

fn literal<'t, 'a>(input: Tokens<'t, 'a>) -> Parsed<'t, 'a, Integer> {
    let (rest, literal) = token(TokenKind::Integer)(input)?;
    let span = literal.span;
    let digits = text(input.source, span);
    let unsigned = digits.ends_with(['U', 'u']);
    let digits = digits.trim_end_matches(['U', 'u']);
    let parsed = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => u64::from_str_radix(&digits[2..], 16),
        [b'0', b'b' | b'B', ..] => u64::from_str_radix(&digits[2..], 2),
        [b'0', _, ..] => u64::from_str_radix(digits, 8),
        _ => digits.parse(),
    };
    match parsed {
        Ok(value) => {
            let unsigned = unsigned || value > i64::MAX as u64;
            Ok((
                rest,
                Integer {
                    value,
                    unsigned,
                    span,
                },
            ))
        }
        Err(error) if *error.kind() == std::num::IntErrorKind::PosOverflow => Problem::fatal(
            span,
            Code::Number,
            "an integer constant has 64 bits, this needs more",
        ),
        Err(_) if matches!(digits.as_bytes(), [b'0', b'0'..=b'9', ..]) => Problem::fatal(
            span,
            Code::Number,
            "a number that begins with 0 is octal, and this is none",
        ),
        // The lexer has reported it.
        Err(_) => Ok((
            rest,
            Integer {
                value: 0,
                unsigned,
                span,
            },
        )),
    }
}

fn ternary<'t, 'a>(input: Tokens<'t, 'a>, depth: u32) -> Parsed<'t, 'a, Integer> {
    let (rest, condition) = binary(input, 0, depth)?;
    if !rest.at(TokenKind::Question) {
        return Ok((rest, condition));
    }
    let depth = deeper(rest, depth)?;
    let (rest, yes) = ternary(rest.skip(), depth)?;
    let (rest, _) = cut(token(TokenKind::Colon)).parse(rest)?;
    let (rest, no) = ternary(rest, depth)?;
    let chosen = if condition.value != 0 { yes } else { no };
    let result = Integer {
        value: chosen.value,
        unsigned: yes.unsigned || no.unsigned,
        span: join(condition.span, no.span),
    };
    Ok((rest, result))
}

fn deeper(input: Tokens<'_, '_>, depth: u32) -> Result<u32, Err<Problem>> {
    depth.checked_sub(1).ok_or(Err::Failure(Problem::new(
        input.peek().span,
        Code::Limit,
        "this expression is nested too deeply",
    )))
}

/// How strongly an operator binds, 0 for the weakest.
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

fn binary<'t, 'a>(input: Tokens<'t, 'a>, weakest: u8, depth: u32) -> Parsed<'t, 'a, Integer> {
    let (mut rest, mut left) = unary(input, depth)?;
    while let Some(strength) = precedence(rest.peek().kind).filter(|s| *s >= weakest) {
        let operator = rest.peek();
        // `strength + 1` is at most 10, so this recurses ten deep at most.
        let (after, right) = binary(rest.skip(), strength + 1, depth)?;
        let Some(value) = combine(operator.kind, left, right) else {
            return Problem::fatal(operator.span, Code::Number, "division by zero");
        };
        left = value;
        rest = after;
    }
    Ok((rest, left))
}

fn unary<'t, 'a>(input: Tokens<'t, 'a>, depth: u32) -> Parsed<'t, 'a, Integer> {
    let first = input.peek();
    match first.kind {
        TokenKind::Integer => literal(input),
        TokenKind::Identifier if text(input.source, first.span) == "WARP_SZ" => Ok((
            input.skip(),
            Integer {
                value: 32,
                unsigned: false,
                span: first.span,
            },
        )),
        TokenKind::Minus | TokenKind::Plus | TokenKind::Tilde | TokenKind::Not => {
            let (rest, operand) = unary(input.skip(), deeper(input, depth)?)?;
            let (value, unsigned) = match first.kind {
                TokenKind::Minus => (operand.value.wrapping_neg(), operand.unsigned),
                TokenKind::Tilde => (!operand.value, operand.unsigned),
                TokenKind::Not => (u64::from(operand.value == 0), false),
                _ => (operand.value, operand.unsigned),
            };
            let span = join(first.span, operand.span);
            Ok((
                rest,
                Integer {
                    value,
                    unsigned,
                    span,
                },
            ))
        }
        TokenKind::ParenOpen => {
            let depth = deeper(input, depth)?;
            let inside = input.skip();
            if inside.at_word("s64") || inside.at_word("u64") {
                let unsigned = inside.at_word("u64");
                let (rest, _) = cut(token(TokenKind::ParenClose)).parse(inside.skip())?;
                let (rest, operand) = unary(rest, depth)?;
                let span = join(first.span, operand.span);
                let value = operand.value;
                return Ok((
                    rest,
                    Integer {
                        value,
                        unsigned,
                        span,
                    },
                ));
            }
            let (rest, value) = ternary(inside, depth)?;
            let (rest, close) = cut(token(TokenKind::ParenClose)).parse(rest)?;
            let span: Span = join(first.span, close.span);
            Ok((rest, Integer { span, ..value }))
        }
        _ => Problem::expected(input, "a number"),
    }
}

/// The value of one operation; `None` for a division by zero.
fn combine(operator: TokenKind, left: Integer, right: Integer) -> Option<Integer> {
    use TokenKind::*;
    let unsigned = left.unsigned || right.unsigned;
    let (a, b) = (left.value, right.value);
    let (signed_a, signed_b) = (a as i64, b as i64);
    let less = if unsigned { a < b } else { signed_a < signed_b };
    let boolean = |value: bool| (u64::from(value), false);
    let shift = u32::try_from(b).ok().filter(|count| *count < 64);
    let (value, unsigned) = match operator {
        OrOr => boolean(a != 0 || b != 0),
        AndAnd => boolean(a != 0 && b != 0),
        Or => (a | b, unsigned),
        Caret => (a ^ b, unsigned),
        And => (a & b, unsigned),
        Equal => boolean(a == b),
        NotEqual => boolean(a != b),
        Less => boolean(less),
        LessEqual => boolean(less || a == b),
        Greater => boolean(!less && a != b),
        GreaterEqual => boolean(!less),
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
    };
    Some(ast::Integer {
        value,
        unsigned,
        span: join(left.span, right.span),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptx::diagnostic::Report;
    use crate::ptx::token::tokenize;

    fn value(source: &str) -> Option<i64> {
        let tokens = tokenize(source, &mut Report::default());
        match integer(Tokens::new(source, &tokens)) {
            Ok((rest, value)) if rest.is_empty() => Some(value.value as i64),
            _ => None,
        }
    }

    #[test]
    fn precedence_is_that_of_c() {
        assert_eq!(value("1+2*3"), Some(7));
        assert_eq!(value("(1+2)*3"), Some(9));
        assert_eq!(value("10-4-3"), Some(3));
        assert_eq!(value("1|6&3^1<<2"), Some(1 | ((6 & 3) ^ 4)));
        assert_eq!(value("1 ? 2 : 0 ? 3 : 4"), Some(2));
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

    #[test]
    fn bad_constants_are_errors() {
        assert_eq!(value("1/0"), None);
        assert_eq!(value("1 % 0"), None);
        assert_eq!(value("0x10000000000000000"), None);
        assert_eq!(value("089"), None);
        assert_eq!(value(&format!("{}1", "(".repeat(100_000))), None);
        assert_eq!(value(&"-".repeat(100_000)), None);
    }
}
