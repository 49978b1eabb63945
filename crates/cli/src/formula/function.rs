//! The functions of formulas.

use super::syntax::Binary;
use crate::element::{Element, Value};
use crate::random;

/// A function that a formula may call.
#[derive(Debug)]
pub struct Function {
    pub name: &'static str,
    /// The number of arguments.
    pub arity: usize,
    pub(super) body: Body,
}

/// The implementation of a function. Integers convert to floats if it takes a float.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    Float(fn(f64) -> f64),
    Float2(fn(f64, f64) -> f64),
    Float3(fn(f64, f64, f64) -> f64),
    Int(fn(i64) -> i64),
    Int2(fn(i64, i64) -> i64),
    /// The bits of a float.
    Bits(fn(f64) -> i64),
    /// A float in [0, 1) from two integers.
    Unit(fn(i64, i64) -> f64),
    Round(Element),
    Absolute,
    ToInt,
    Smaller,
    Larger,
    /// `len(a)`, `count(a, x)`, `sum(a, from, to)` and `dot(a, i, di, b, j, dj, n)` take buffers.
    Length,
    Count,
    Sum,
    Dot,
}

/// All functions, described in `docs/samples.md`.
pub const FUNCTIONS: &[Function] = &[
    function("abs", 1, Body::Absolute),
    function("min", 2, Body::Smaller),
    function("max", 2, Body::Larger),
    function("sqrt", 1, Body::Float(f64::sqrt)),
    function("exp", 1, Body::Float(f64::exp)),
    function("ln", 1, Body::Float(f64::ln)),
    function("log", 2, Body::Float2(f64::log)),
    function("sin", 1, Body::Float(f64::sin)),
    function("cos", 1, Body::Float(f64::cos)),
    function("tan", 1, Body::Float(f64::tan)),
    function("asin", 1, Body::Float(f64::asin)),
    function("acos", 1, Body::Float(f64::acos)),
    function("atan", 1, Body::Float(f64::atan)),
    function("sinh", 1, Body::Float(f64::sinh)),
    function("cosh", 1, Body::Float(f64::cosh)),
    function("tanh", 1, Body::Float(f64::tanh)),
    function("hypot", 2, Body::Float2(f64::hypot)),
    function("floor", 1, Body::Float(f64::floor)),
    function("ceiling", 1, Body::Float(f64::ceil)),
    function("round", 1, Body::Float(f64::round)),
    function("to_float", 1, Body::Float(|x| x)),
    function("to_int", 1, Body::ToInt),
    function("fma", 3, Body::Float3(f64::mul_add)),
    function("f32", 1, Body::Round(Element::F32)),
    function("f16", 1, Body::Round(Element::F16)),
    function("bf16", 1, Body::Round(Element::Bf16)),
    function("bits32", 1, Body::Bits(|x| i64::from((x as f32).to_bits()))),
    function("bits64", 1, Body::Bits(|x| x.to_bits() as i64)),
    function("wrap32", 1, Body::Int(|x| x & 0xffff_ffff)),
    function("mul64", 2, Body::Int2(i64::wrapping_mul)),
    function("popcount", 1, Body::Int(|x| i64::from(x.count_ones()))),
    function("random", 2, Body::Int2(random)),
    function("uniform", 2, Body::Unit(uniform)),
    function("len", 1, Body::Length),
    function("count", 2, Body::Count),
    function("sum", 3, Body::Sum),
    function("dot", 7, Body::Dot),
];

const fn function(name: &'static str, arity: usize, body: Body) -> Function {
    Function { name, arity, body }
}

fn random(seed: i64, index: i64) -> i64 {
    (random::random(seed as u64, index as u64) >> 1) as i64
}

fn uniform(seed: i64, index: i64) -> f64 {
    random::uniform(random::random(seed as u64, index as u64), 24)
}

pub(super) fn float(value: Value) -> f64 {
    match value {
        Value::Int(number) => number as f64,
        Value::Float(number) => number,
    }
}

pub(super) fn int(value: Value) -> Result<i64, String> {
    match value {
        Value::Int(number) => Ok(number),
        Value::Float(number) => Err(format!("expected an integer, found the float {number:?}")),
    }
}

/// Calls a function of numbers. The number of `arguments` is its arity.
pub(super) fn call(body: Body, arguments: &[Value]) -> Result<Value, String> {
    let argument = |index: usize| arguments.get(index).copied().unwrap_or(Value::Int(0));
    let x = argument(0);
    Ok(match body {
        Body::Float(body) => Value::Float(body(float(x))),
        Body::Float2(body) => Value::Float(body(float(x), float(argument(1)))),
        Body::Float3(body) => Value::Float(body(float(x), float(argument(1)), float(argument(2)))),
        Body::Int(body) => Value::Int(body(int(x)?)),
        Body::Int2(body) => Value::Int(body(int(x)?, int(argument(1))?)),
        Body::Bits(body) => Value::Int(body(float(x))),
        Body::Unit(body) => Value::Float(body(int(x)?, int(argument(1))?)),
        Body::Round(element) => Value::Float(element.round(float(x))),
        Body::Absolute => match x {
            Value::Int(number) => Value::Int(number.checked_abs().ok_or_else(overflow)?),
            Value::Float(number) => Value::Float(number.abs()),
        },
        Body::ToInt => match x {
            Value::Float(number) if number.abs() < 9.2e18 => Value::Int(number as i64),
            Value::Float(number) => {
                return Err(format!("{number:?} is not a 64-bit integer"));
            }
            number => number,
        },
        Body::Smaller => match (x, argument(1)) {
            (Value::Int(a), Value::Int(b)) => Value::Int(a.min(b)),
            (a, b) => Value::Float(float(a).min(float(b))),
        },
        Body::Larger => match (x, argument(1)) {
            (Value::Int(a), Value::Int(b)) => Value::Int(a.max(b)),
            (a, b) => Value::Float(float(a).max(float(b))),
        },
        Body::Length | Body::Count | Body::Sum | Body::Dot => {
            return Err("this function takes a buffer".to_owned());
        }
    })
}

fn overflow() -> String {
    "integer overflow".to_owned()
}

/// Evaluates an operator, except `||` and `&&`, which short-circuit.
pub(super) fn binary(operator: Binary, left: Value, right: Value) -> Result<Value, String> {
    let truth = |truth: bool| Ok(Value::Int(i64::from(truth)));
    if let (Value::Int(a), Value::Int(b)) = (left, right) {
        let number = match operator {
            Binary::Add => a.checked_add(b),
            Binary::Subtract => a.checked_sub(b),
            Binary::Multiply => a.checked_mul(b),
            Binary::Divide | Binary::Remainder if b == 0 => {
                return Err("division by zero".to_owned());
            }
            Binary::Divide => a.checked_div(b),
            Binary::Remainder => a.checked_rem(b),
            Binary::Power if b < 0 => return Ok(Value::Float((a as f64).powf(b as f64))),
            Binary::Power => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
            Binary::BitAnd => Some(a & b),
            Binary::BitOr => Some(a | b),
            Binary::BitXor => Some(a ^ b),
            Binary::ShiftLeft | Binary::ShiftRight if !(0..64).contains(&b) => {
                return Err(format!("invalid shift by {b} bits: expected 0 to 63"));
            }
            Binary::ShiftLeft => Some(a << b),
            Binary::ShiftRight => Some(a >> b),
            Binary::Equal => return truth(a == b),
            Binary::NotEqual => return truth(a != b),
            Binary::Less => return truth(a < b),
            Binary::LessEqual => return truth(a <= b),
            Binary::Greater => return truth(a > b),
            Binary::GreaterEqual => return truth(a >= b),
            Binary::Or => return truth(a != 0 || b != 0),
            Binary::And => return truth(a != 0 && b != 0),
        };
        return number.map(Value::Int).ok_or_else(overflow);
    }
    let (a, b) = (float(left), float(right));
    let number = match operator {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a * b,
        Binary::Divide => a / b,
        Binary::Remainder => a % b,
        Binary::Power => a.powf(b),
        Binary::Equal => return truth(a == b),
        Binary::NotEqual => return truth(a != b),
        Binary::Less => return truth(a < b),
        Binary::LessEqual => return truth(a <= b),
        Binary::Greater => return truth(a > b),
        Binary::GreaterEqual => return truth(a >= b),
        // One of the two is a float.
        _ => return int(left).and(int(right)).map(Value::Int),
    };
    Ok(Value::Float(number))
}
