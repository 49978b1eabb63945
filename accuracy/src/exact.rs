//! Exact results: what is rounded in a given direction, from arithmetic that is rounded to nearest,
//! and what neither the standard library nor pxfm has.

use pxfm::f_tgamma;

/// A direction of rounding.
#[derive(Clone, Copy)]
pub enum Toward {
    Zero,
    Up,
    Down,
}

/// `value + rest` as an `f32`, where `rest` is too small to change `value`: only its sign counts.
fn rounded(value: f64, rest: f64, toward: Toward) -> f32 {
    let nearest = value as f32;
    if value.is_nan() || value.is_infinite() {
        return nearest;
    }
    if nearest.is_infinite() {
        let largest = f32::MAX.copysign(nearest);
        return match (toward, nearest > 0.0) {
            (Toward::Up, true) | (Toward::Down, false) => nearest,
            _ => largest,
        };
    }
    // Exact: `nearest` has the leading bits of `value`.
    let beyond = match value - f64::from(nearest) {
        0.0 => rest,
        difference => difference,
    };
    let up = match toward {
        Toward::Zero => value < 0.0,
        Toward::Up => true,
        Toward::Down => false,
    };
    if beyond > 0.0 && up {
        nearest.next_up()
    } else if beyond < 0.0 && !up {
        nearest.next_down()
    } else {
        nearest
    }
}

pub fn add(a: f32, b: f32, toward: Toward) -> f32 {
    let (a, b) = (f64::from(a), f64::from(b));
    let (sum, rest) = two_sum(a, b);
    rounded(sum, rest, toward)
}

/// The sum, and what was rounded off.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}

pub fn mul(a: f32, b: f32, toward: Toward) -> f32 {
    rounded(f64::from(a) * f64::from(b), 0.0, toward)
}

pub fn fma(a: f32, b: f32, c: f32, toward: Toward) -> f32 {
    let (sum, rest) = two_sum(f64::from(a) * f64::from(b), f64::from(c));
    rounded(sum, rest, toward)
}

pub fn div(a: f32, b: f32, toward: Toward) -> f32 {
    let (a, b) = (f64::from(a), f64::from(b));
    let quotient = a / b;
    let rest = (-quotient).mul_add(b, a) * b.signum();
    rounded(quotient, rest, toward)
}

pub fn sqrt(a: f32, toward: Toward) -> f32 {
    let a = f64::from(a);
    let root = a.sqrt();
    rounded(root, (-root).mul_add(root, a), toward)
}

pub fn is_number(x: f64, _: f64) -> bool {
    x.is_finite() && x != 0.0
}

pub fn fits_long(x: f64, _: f64) -> bool {
    x.abs() < 2f64.powi(63)
}

/// With the sign of zero, which pxfm's loses; and in 64 bits, as its own for `f32` is 0 where
/// results are subnormal.
pub fn tgamma(x: f64) -> f64 {
    if x == 0.0 { 1.0 / x } else { f_tgamma(x) }
}

/// The fraction, from ½ to 1, and the exponent.
pub fn frexp(x: f64) -> (f64, i32) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0);
    }
    if x.is_subnormal() {
        let (fraction, exponent) = frexp(x * 2f64.powi(54));
        return (fraction, exponent - 54);
    }
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1022;
    (f64::from_bits(bits & !(0x7ff << 52) | 1022 << 52), exponent)
}

/// IEEE's remainder: the quotient is rounded to nearest even.
pub fn remainder(x: f64, y: f64) -> f64 {
    if y.is_infinite() && x.is_finite() {
        return x;
    }
    // At most one and a half times y, or half of it the other way.
    let magnitude = y.abs();
    let mut rest = (x % (2.0 * magnitude)).abs();
    if rest > magnitude - rest {
        rest -= magnitude;
        if rest >= magnitude - rest {
            rest -= magnitude;
        }
    }
    if x.is_sign_negative() { -rest } else { rest }
}

/// The length of (x, y): pxfm's is the second nearest number at times.
pub fn hypot(x: f64, y: f64) -> f64 {
    let (large, small) = (x.abs().max(y.abs()), x.abs().min(y.abs()));
    if !x.is_finite() || !y.is_finite() || small == 0.0 || large / small > 2f64.powi(60) {
        return x.hypot(y);
    }
    // Near 1, where squares are exact in two numbers each.
    let exponent = frexp(large).1;
    let scaled = |x: f64| x * 2f64.powi(-exponent / 2) * 2f64.powi(-(exponent - exponent / 2));
    let (large, small) = (scaled(large), scaled(small));
    let square = |x: f64| (x * x, x.mul_add(x, -(x * x)));
    let ((a, a_rest), (b, b_rest)) = (square(large), square(small));
    let root = (a + b).sqrt();
    let (c, c_rest) = square(root);
    let rest = (a - c) + b + (a_rest + b_rest - c_rest);
    let length = root + rest / (2.0 * root);
    length * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2)
}
