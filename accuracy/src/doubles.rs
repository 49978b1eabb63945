//! Functions of `double`: table C-2 of the guide.

use pxfm::*;

use crate::exact::{fits_long, frexp, hypot, is_number, remainder, tgamma};
use crate::row::Reference::{D1, D2, D3};
use crate::row::Row;

/// Table C-2, what is not exact.
pub fn doubles() -> Vec<Row> {
    vec![
        Row::cuda("rsqrt(x)", D1(f_rsqrt), 1.0).by("rsqrt(a)"),
        Row::cuda("cbrt(x)", D1(f_cbrt), 1.0).by("cbrt(a)"),
        Row::cuda("rcbrt(x)", D1(f_rcbrt), 1.0).by("rcbrt(a)"),
        Row::cuda("hypot(x,y)", D2(hypot), 2.0).by("hypot(a, b)"),
        Row::cuda("exp(x)", D1(f_exp), 1.0)
            .by("exp(a)")
            // pxfm is wrong for subnormal results; and just below the least x that overflows, where
            // its exponent of 2 is one too large.
            .within("the result is no subnormal, x not near 709.7827", |x, _| {
                !(-746.0..-708.396).contains(&x) && !(709.7826..=709.7828).contains(&x)
            }),
        Row::cuda("exp2(x)", D1(f_exp2), 1.0).by("exp2(a)"),
        Row::cuda("exp10(x)", D1(f_exp10), 1.0)
            .by("exp10(a)")
            .within("the result is no subnormal", |x, _| {
                !(-324.0..-307.6).contains(&x)
            }),
        Row::cuda("expm1(x)", D1(f_expm1), 1.0).by("expm1(a)"),
        Row::cuda("log(x)", D1(f_log), 1.0).by("log(a)"),
        Row::cuda("log2(x)", D1(f_log2), 1.0).by("log2(a)"),
        Row::cuda("log10(x)", D1(f_log10), 1.0).by("log10(a)"),
        Row::cuda("log1p(x)", D1(f_log1p), 1.0).by("log1p(a)"),
        Row::cuda("sin(x)", D1(f_sin), 2.0).by("sin(a)"),
        Row::cuda("cos(x)", D1(f_cos), 2.0).by("cos(a)"),
        Row::cuda("tan(x)", D1(f_tan), 2.0).by("tan(a)"),
        Row::cuda("sincos(x,sptr,cptr), sine", D1(f_sin), 2.0)
            .by("[&] { double s, c; sincos(a, &s, &c); return s; }()"),
        Row::cuda("sincos(x,sptr,cptr), cosine", D1(f_cos), 2.0)
            .by("[&] { double s, c; sincos(a, &s, &c); return c; }()"),
        Row::cuda("sinpi(x)", D1(f_sinpi), 2.0).by("sinpi(a)"),
        Row::cuda("cospi(x)", D1(f_cospi), 2.0).by("cospi(a)"),
        Row::cuda("asin(x)", D1(f_asin), 2.0).by("asin(a)"),
        Row::cuda("acos(x)", D1(f_acos), 2.0).by("acos(a)"),
        Row::cuda("atan(x)", D1(f_atan), 2.0).by("atan(a)"),
        Row::cuda("atan2(y,x)", D2(f_atan2), 2.0).by("atan2(a, b)"),
        Row::cuda("sinh(x)", D1(f_sinh), 1.0).by("sinh(a)"),
        Row::cuda("cosh(x)", D1(f_cosh), 1.0).by("cosh(a)"),
        Row::cuda("tanh(x)", D1(f_tanh), 1.0).by("tanh(a)"),
        Row::cuda("asinh(x)", D1(f_asinh), 2.0).by("asinh(a)"),
        Row::cuda("acosh(x)", D1(f_acosh), 2.0).by("acosh(a)"),
        Row::cuda("atanh(x)", D1(f_atanh), 2.0).by("atanh(a)"),
        Row::cuda("pow(x,y)", D2(f_pow), 2.0).by("pow(a, b)"),
        Row::cuda("erf(x)", D1(f_erf), 2.0).by("erf(a)"),
        Row::cuda("erfc(x)", D1(f_erfc), 4.0).by("erfc(a)"),
        Row::cuda("erfinv(x)", D1(f_erfinv), 8.0).by("erfinv(a)"),
        Row::cuda("erfcinv(x)", D1(|x| f_erfinv(1.0 - x)), 8.0)
            .by("erfcinv(a)")
            // Where 1 - x is exact; pxfm is wrong for small x.
            .within("½ < x < 2", |x, _| x > 0.5 && x < 2.0),
        Row::cuda("lgamma(x)", D1(f_lgamma), 4.0)
            .by("lgamma(a)")
            .within("x < -11.0001 or -2.2637 < x < 10³⁰⁵", |x, _| {
                !(-11.0001..=-2.2637).contains(&x) && x < 1e305
            }),
        Row::cuda("tgamma(x)", D1(tgamma), 8.0)
            .by("tgamma(a)")
            // pxfm has an infinite result below the least x that overflows, too.
            .within("x < 171.624 or x > 171.6244", |x, _| {
                !(171.624..=171.6244).contains(&x)
            }),
    ]
}

/// Table C-2, what is exact.
pub fn exact_doubles() -> Vec<Row> {
    vec![
        Row::cuda("x+y, double", D2(|a, b| a + b), 0.0).by("a + b"),
        Row::cuda("x*y, double", D2(|a, b| a * b), 0.0).by("a * b"),
        Row::cuda("x/y, double", D2(|a, b| a / b), 0.0).by("a / b"),
        Row::cuda("1/x, double", D1(|x| 1.0 / x), 0.0).by("1 / a"),
        Row::cuda("sqrt(x)", D1(f64::sqrt), 0.0).by("sqrt(a)"),
        Row::cuda("fma(x,y,z)", D3(f64::mul_add), 0.0).by("fma(a, b, c)"),
        Row::cuda("frexp(x,exp), fraction", D1(|x| frexp(x).0), 0.0)
            .by("[&] { int e; return frexp(a, &e); }()"),
        Row::cuda("frexp(x,exp), exponent", D1(|x| frexp(x).1.into()), 0.0)
            .by("[&] { int e; frexp(a, &e); return (double)e; }()")
            .within("finite", |x, _| x.is_finite()),
        Row::cuda("ldexp(x,exp)", D2(|a, b| a * 2f64.powi(b as i32)), 0.0)
            .by("ldexp(a, (int)b)")
            .within("|exp| < 1000", |_, b| b.abs() < 1000.0),
        Row::cuda("scalbn(x,n)", D2(|a, b| a * 2f64.powi(b as i32)), 0.0)
            .by("scalbn(a, (int)b)")
            .within("|n| < 1000", |_, b| b.abs() < 1000.0),
        Row::cuda("scalbln(x,l)", D2(|a, b| a * 2f64.powi(b as i32)), 0.0)
            .by("scalbln(a, (long)b)")
            .within("|l| < 1000", |_, b| b.abs() < 1000.0),
        Row::cuda("logb(x)", D1(|x| f64::from(frexp(x).1 - 1)), 0.0)
            .by("logb(a)")
            .within("finite, not 0", is_number),
        Row::cuda("ilogb(x)", D1(|x| f64::from(frexp(x).1 - 1)), 0.0)
            .by("(double)ilogb(a)")
            .within("finite, not 0", is_number),
        Row::cuda("fmod(x,y)", D2(|a, b| a % b), 0.0).by("fmod(a, b)"),
        Row::cuda("remainder(x,y)", D2(remainder), 0.0)
            .by("remainder(a, b)")
            .within("|y| < 2¹⁰²³", |_, b| b.abs() < 2f64.powi(1023)),
        Row::cuda("remquo(x,y,iptr)", D2(remainder), 0.0)
            .by("[&] { int q; return remquo(a, b, &q); }()")
            .within("|y| < 2¹⁰²³", |_, b| b.abs() < 2f64.powi(1023)),
        Row::cuda(
            "modf(x,iptr), fraction",
            D1(|x| if x.is_infinite() { 0.0 } else { x - x.trunc() }),
            0.0,
        )
        .by("[&] { double i; return modf(a, &i); }()"),
        Row::cuda("modf(x,iptr), whole", D1(f64::trunc), 0.0)
            .by("[&] { double i; modf(a, &i); return i; }()"),
        Row::cuda(
            "fdim(x,y)",
            D2(|a, b| if a <= b { 0.0 } else { a - b }),
            0.0,
        )
        .by("fdim(a, b)"),
        Row::cuda("trunc(x)", D1(f64::trunc), 0.0).by("trunc(a)"),
        Row::cuda("round(x)", D1(f64::round), 0.0).by("round(a)"),
        Row::cuda("rint(x)", D1(f64::round_ties_even), 0.0).by("rint(a)"),
        Row::cuda("nearbyint(x)", D1(f64::round_ties_even), 0.0).by("nearbyint(a)"),
        Row::cuda("ceil(x)", D1(f64::ceil), 0.0).by("ceil(a)"),
        Row::cuda("floor(x)", D1(f64::floor), 0.0).by("floor(a)"),
        Row::cuda("lrint(x)", D1(f64::round_ties_even), 0.0)
            .by("(double)lrint(a)")
            .within("|x| < 2⁶³", fits_long),
        Row::cuda("lround(x)", D1(f64::round), 0.0)
            .by("(double)lround(a)")
            .within("|x| < 2⁶³", fits_long),
        Row::cuda("llrint(x)", D1(f64::round_ties_even), 0.0)
            .by("(double)llrint(a)")
            .within("|x| < 2⁶³", fits_long),
        Row::cuda("llround(x)", D1(f64::round), 0.0)
            .by("(double)llround(a)")
            .within("|x| < 2⁶³", fits_long),
    ]
}
