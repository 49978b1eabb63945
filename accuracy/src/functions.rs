//! The functions: of the tables of the CUDA C Programming Guide 4.0, appendix C, and the PTX
//! instructions that they are made of.

use std::f64::consts::PI;

use pxfm::*;

use crate::doubles::{doubles, exact_doubles};
use crate::exact::{self, Toward, fits_long, frexp, is_number, remainder, tgamma};
use crate::row::Reference::{D1, D2, D3, F1, F2, F3, Wide};
use crate::row::Row;

/// All rows.
pub fn rows() -> Vec<Row> {
    [
        instructions(),
        singles(),
        exact_singles(),
        intrinsics(),
        doubles(),
        exact_doubles(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// PTX; the bounds are those of the PTX ISA.
fn instructions() -> Vec<Row> {
    let sin = "sin.approx.f32 %fd, %fa;";
    let cos = "cos.approx.f32 %fd, %fa;";
    let lg2 = "lg2.approx.f32 %fd, %fa;";
    vec![
        Row::ptx("sin.approx.f32", sin, Wide(f64::sin), -20.5)
            .absolute()
            .within("|x| ≤ 2π", |x, _| x.abs() <= 2.0 * PI),
        Row::ptx("sin.approx.f32", sin, Wide(f64::sin), -14.7)
            .absolute()
            .within("|x| ≤ 100π", |x, _| x.abs() <= 100.0 * PI),
        Row::ptx("cos.approx.f32", cos, Wide(f64::cos), -20.5)
            .absolute()
            .within("|x| ≤ 2π", |x, _| x.abs() <= 2.0 * PI),
        Row::ptx("cos.approx.f32", cos, Wide(f64::cos), -14.7)
            .absolute()
            .within("|x| ≤ 100π", |x, _| x.abs() <= 100.0 * PI),
        Row::ptx(
            "ex2.approx.f32",
            "ex2.approx.f32 %fd, %fa;",
            F1(f_exp2f),
            2.0,
        ),
        Row::ptx("lg2.approx.f32", lg2, Wide(f64::log2), -22.0)
            .absolute()
            .within("½ < x < 2", |x, _| x > 0.5 && x < 2.0),
        Row::ptx("lg2.approx.f32", lg2, Wide(f64::log2), -22.0)
            .relative()
            .within("x ≤ ½ or x ≥ 2", |x, _| !(x > 0.5 && x < 2.0)),
        Row::ptx(
            "tanh.approx.f32",
            "tanh.approx.f32 %fd, %fa;",
            Wide(f64::tanh),
            -11.0,
        )
        .relative(),
        Row::ptx(
            "ex2.approx.f16",
            "cvt.rn.f16.f32 %h, %fa;\n\tex2.approx.f16 %h, %h;\n\tcvt.f32.f16 %fd, %h;",
            Wide(f64::exp2),
            -9.9,
        )
        .relative()
        .within("all f16 with a normal result", |x, _| {
            is_half(x) && (-14.0..16.0).contains(&x)
        }),
        Row::ptx(
            "ex2.approx.ftz.bf16",
            "cvt.rn.bf16.f32 %h, %fa;\n\tex2.approx.ftz.bf16 %h, %h;\n\tmov.b32 %fd, {0, %h};",
            Wide(f64::exp2),
            -7.0,
        )
        .relative()
        .within("all bf16 with a normal result", |x, _| {
            is_bfloat(x) && (-126.0..128.0).contains(&x)
        }),
        Row::ptx(
            "tanh.approx.f16",
            "cvt.rn.f16.f32 %h, %fa;\n\ttanh.approx.f16 %h, %h;\n\tcvt.f32.f16 %fd, %h;",
            Wide(f64::tanh),
            -10.987,
        )
        .absolute()
        .within("all f16", |x, _| is_half(x)),
        Row::ptx(
            "tanh.approx.bf16",
            "cvt.rn.bf16.f32 %h, %fa;\n\ttanh.approx.bf16 %h, %h;\n\tmov.b32 %fd, {0, %h};",
            Wide(f64::tanh),
            -8.0,
        )
        .absolute()
        .within("all bf16", |x, _| is_bfloat(x)),
        Row::ptx(
            "rcp.approx.f32",
            "rcp.approx.f32 %fd, %fa;",
            F1(|x| 1.0 / x),
            1.0,
        ),
        Row::ptx(
            "rsqrt.approx.f32",
            "rsqrt.approx.f32 %fd, %fa;",
            Wide(|x| 1.0 / x.sqrt()),
            -22.9,
        )
        .relative(),
        Row::ptx(
            "sqrt.approx.f32",
            "sqrt.approx.f32 %fd, %fa;",
            Wide(f64::sqrt),
            -23.0,
        )
        .relative(),
        Row::ptx(
            "div.approx.f32",
            "div.approx.f32 %fd, %fa, %fb;",
            F2(|a, b| a / b),
            2.0,
        )
        .within("2⁻¹²⁶ ≤ |y| ≤ 2¹²⁶", |_, y| {
            (2f64.powi(-126)..=2f64.powi(126)).contains(&y.abs())
        }),
        Row::ptx(
            "div.full.f32",
            "div.full.f32 %fd, %fa, %fb;",
            F2(|a, b| a / b),
            2.0,
        ),
        Row::ptx("rcp.rn.f32", "rcp.rn.f32 %fd, %fa;", F1(|x| 1.0 / x), 0.0),
        Row::ptx(
            "rcp.rz.f32",
            "rcp.rz.f32 %fd, %fa;",
            F1(|x| exact::div(1.0, x, Toward::Zero)),
            0.0,
        ),
        Row::ptx(
            "rcp.rm.f32",
            "rcp.rm.f32 %fd, %fa;",
            F1(|x| exact::div(1.0, x, Toward::Down)),
            0.0,
        ),
        Row::ptx(
            "rcp.rp.f32",
            "rcp.rp.f32 %fd, %fa;",
            F1(|x| exact::div(1.0, x, Toward::Up)),
            0.0,
        ),
        Row::ptx("sqrt.rn.f32", "sqrt.rn.f32 %fd, %fa;", F1(f32::sqrt), 0.0),
        Row::ptx(
            "sqrt.rz.f32",
            "sqrt.rz.f32 %fd, %fa;",
            F1(|x| exact::sqrt(x, Toward::Zero)),
            0.0,
        ),
        Row::ptx(
            "sqrt.rm.f32",
            "sqrt.rm.f32 %fd, %fa;",
            F1(|x| exact::sqrt(x, Toward::Down)),
            0.0,
        ),
        Row::ptx(
            "sqrt.rp.f32",
            "sqrt.rp.f32 %fd, %fa;",
            F1(|x| exact::sqrt(x, Toward::Up)),
            0.0,
        ),
        Row::ptx(
            "add.rn.f32",
            "add.rn.f32 %fd, %fa, %fb;",
            F2(|a, b| a + b),
            0.0,
        ),
        Row::ptx(
            "add.rz.f32",
            "add.rz.f32 %fd, %fa, %fb;",
            F2(|a, b| exact::add(a, b, Toward::Zero)),
            0.0,
        ),
        Row::ptx(
            "add.rm.f32",
            "add.rm.f32 %fd, %fa, %fb;",
            F2(|a, b| exact::add(a, b, Toward::Down)),
            0.0,
        ),
        Row::ptx(
            "add.rp.f32",
            "add.rp.f32 %fd, %fa, %fb;",
            F2(|a, b| exact::add(a, b, Toward::Up)),
            0.0,
        ),
        Row::ptx(
            "mul.rn.f32",
            "mul.rn.f32 %fd, %fa, %fb;",
            F2(|a, b| a * b),
            0.0,
        ),
        Row::ptx(
            "mul.rz.f32",
            "mul.rz.f32 %fd, %fa, %fb;",
            F2(|a, b| exact::mul(a, b, Toward::Zero)),
            0.0,
        ),
        Row::ptx(
            "mul.rm.f32",
            "mul.rm.f32 %fd, %fa, %fb;",
            F2(|a, b| exact::mul(a, b, Toward::Down)),
            0.0,
        ),
        Row::ptx(
            "mul.rp.f32",
            "mul.rp.f32 %fd, %fa, %fb;",
            F2(|a, b| exact::mul(a, b, Toward::Up)),
            0.0,
        ),
        Row::ptx(
            "div.rn.f32",
            "div.rn.f32 %fd, %fa, %fb;",
            F2(|a, b| a / b),
            0.0,
        ),
        Row::ptx(
            "div.rz.f32",
            "div.rz.f32 %fd, %fa, %fb;",
            F2(|a, b| exact::div(a, b, Toward::Zero)),
            0.0,
        ),
        Row::ptx(
            "div.rm.f32",
            "div.rm.f32 %fd, %fa, %fb;",
            F2(|a, b| exact::div(a, b, Toward::Down)),
            0.0,
        ),
        Row::ptx(
            "div.rp.f32",
            "div.rp.f32 %fd, %fa, %fb;",
            F2(|a, b| exact::div(a, b, Toward::Up)),
            0.0,
        ),
        Row::ptx(
            "fma.rn.f32",
            "fma.rn.f32 %fd, %fa, %fb, %fc;",
            F3(f32::mul_add),
            0.0,
        ),
        Row::ptx(
            "fma.rz.f32",
            "fma.rz.f32 %fd, %fa, %fb, %fc;",
            F3(|a, b, c| exact::fma(a, b, c, Toward::Zero)),
            0.0,
        ),
        Row::ptx(
            "fma.rm.f32",
            "fma.rm.f32 %fd, %fa, %fb, %fc;",
            F3(|a, b, c| exact::fma(a, b, c, Toward::Down)),
            0.0,
        ),
        Row::ptx(
            "fma.rp.f32",
            "fma.rp.f32 %fd, %fa, %fb, %fc;",
            F3(|a, b, c| exact::fma(a, b, c, Toward::Up)),
            0.0,
        ),
        Row::ptx(
            "add.rn.f64",
            "add.rn.f64 %dd, %da, %db;",
            D2(|a, b| a + b),
            0.0,
        ),
        Row::ptx(
            "mul.rn.f64",
            "mul.rn.f64 %dd, %da, %db;",
            D2(|a, b| a * b),
            0.0,
        ),
        Row::ptx(
            "div.rn.f64",
            "div.rn.f64 %dd, %da, %db;",
            D2(|a, b| a / b),
            0.0,
        ),
        Row::ptx(
            "fma.rn.f64",
            "fma.rn.f64 %dd, %da, %db, %dc;",
            D3(f64::mul_add),
            0.0,
        ),
        Row::ptx("rcp.rn.f64", "rcp.rn.f64 %dd, %da;", D1(|x| 1.0 / x), 0.0),
        Row::ptx("sqrt.rn.f64", "sqrt.rn.f64 %dd, %da;", D1(f64::sqrt), 0.0),
        Row::ptx(
            "rcp.approx.ftz.f64",
            "rcp.approx.ftz.f64 %dd, %da;",
            D1(|x| 1.0 / flushed(x)),
            -20.0,
        )
        .relative()
        .within("1/x is normal", |x, _| is_normal(1.0 / flushed(x))),
        Row::ptx(
            "rsqrt.approx.ftz.f64",
            "rsqrt.approx.ftz.f64 %dd, %da;",
            D1(|x| f_rsqrt(flushed(x))),
            -20.0,
        )
        .relative(),
    ]
}

/// As `.ftz` takes it.
fn flushed(x: f64) -> f64 {
    if x.is_subnormal() {
        0f64.copysign(x)
    } else {
        x
    }
}

fn is_normal(x: f64) -> bool {
    x.is_normal() || x.is_infinite()
}

/// Whether an `f16` has this value.
fn is_half(x: f64) -> bool {
    let places = x * 2f64.powi(24);
    let magnitude = x.abs() as f32;
    !x.is_finite()
        || x.abs() <= 65504.0 && places.trunc() == places && magnitude.to_bits() & 0x1fff == 0
}

/// Whether a `bf16` has this value.
fn is_bfloat(x: f64) -> bool {
    !x.is_finite() || (x as f32).to_bits() & 0xffff == 0
}

/// Table C-1, what is not exact.
fn singles() -> Vec<Row> {
    vec![
        Row::cuda("rsqrtf(x)", F1(f_rsqrtf), 2.0).by("rsqrtf(a)"),
        Row::cuda("cbrtf(x)", F1(f_cbrtf), 1.0).by("cbrtf(a)"),
        Row::cuda("rcbrtf(x)", F1(f_rcbrtf), 2.0).by("rcbrtf(a)"),
        Row::cuda("hypotf(x,y)", F2(f_hypotf), 3.0).by("hypotf(a, b)"),
        Row::cuda("expf(x)", F1(f_expf), 2.0).by("expf(a)"),
        Row::cuda("exp2f(x)", F1(f_exp2f), 2.0).by("exp2f(a)"),
        Row::cuda("exp10f(x)", F1(f_exp10f), 2.0).by("exp10f(a)"),
        Row::cuda("expm1f(x)", F1(f_expm1f), 1.0).by("expm1f(a)"),
        Row::cuda("logf(x)", F1(f_logf), 1.0).by("logf(a)"),
        Row::cuda("log2f(x)", F1(f_log2f), 3.0).by("log2f(a)"),
        Row::cuda("log10f(x)", F1(f_log10f), 3.0).by("log10f(a)"),
        Row::cuda("log1pf(x)", F1(f_log1pf), 2.0).by("log1pf(a)"),
        Row::cuda("sinf(x)", F1(f_sinf), 2.0).by("sinf(a)"),
        Row::cuda("cosf(x)", F1(f_cosf), 2.0).by("cosf(a)"),
        Row::cuda("tanf(x)", F1(f_tanf), 4.0).by("tanf(a)"),
        Row::cuda("sincosf(x,sptr,cptr), sine", F1(f_sinf), 2.0)
            .by("[&] { float s, c; sincosf(a, &s, &c); return s; }()"),
        Row::cuda("sincosf(x,sptr,cptr), cosine", F1(f_cosf), 2.0)
            .by("[&] { float s, c; sincosf(a, &s, &c); return c; }()"),
        Row::cuda("sinpif(x)", F1(f_sinpif), 2.0).by("sinpif(a)"),
        Row::cuda("cospif(x)", F1(f_cospif), 2.0).by("cospif(a)"),
        Row::cuda("asinf(x)", F1(f_asinf), 4.0).by("asinf(a)"),
        Row::cuda("acosf(x)", F1(f_acosf), 3.0).by("acosf(a)"),
        Row::cuda("atanf(x)", F1(f_atanf), 2.0).by("atanf(a)"),
        Row::cuda("atan2f(y,x)", F2(f_atan2f), 3.0).by("atan2f(a, b)"),
        Row::cuda("sinhf(x)", F1(f_sinhf), 3.0).by("sinhf(a)"),
        Row::cuda("coshf(x)", F1(f_coshf), 2.0).by("coshf(a)"),
        Row::cuda("tanhf(x)", F1(f_tanhf), 2.0).by("tanhf(a)"),
        Row::cuda("asinhf(x)", F1(f_asinhf), 3.0).by("asinhf(a)"),
        Row::cuda("acoshf(x)", F1(f_acoshf), 4.0).by("acoshf(a)"),
        Row::cuda("atanhf(x)", F1(f_atanhf), 3.0).by("atanhf(a)"),
        Row::cuda("powf(x,y)", F2(f_powf), 8.0).by("powf(a, b)"),
        Row::cuda("erff(x)", F1(f_erff), 3.0).by("erff(a)"),
        Row::cuda("erfcf(x)", F1(f_erfcf), 6.0).by("erfcf(a)"),
        Row::cuda("erfinvf(x)", F1(f_erfinvf), 3.0).by("erfinvf(a)"),
        Row::cuda("erfcinvf(x)", F1(erfcinvf), 7.0).by("erfcinvf(a)"),
        Row::cuda("lgammaf(x)", F1(f_lgammaf), 6.0)
            .by("lgammaf(a)")
            .within("x < -10.001 or x > -2.264", |x, _| {
                !(-10.001..=-2.264).contains(&x)
            }),
        Row::cuda("tgammaf(x)", F1(|x| tgamma(x.into()) as f32), 11.0).by("tgammaf(a)"),
    ]
}

/// Table C-1, what is exact.
fn exact_singles() -> Vec<Row> {
    vec![
        Row::cuda("x+y, float", F2(|a, b| a + b), 0.0).by("a + b"),
        Row::cuda("x*y, float", F2(|a, b| a * b), 0.0).by("a * b"),
        Row::cuda("x/y, float", F2(|a, b| a / b), 0.0).by("a / b"),
        Row::cuda("1/x, float", F1(|x| 1.0 / x), 0.0).by("1 / a"),
        Row::cuda("sqrtf(x)", F1(f32::sqrt), 0.0).by("sqrtf(a)"),
        Row::cuda("fmaf(x,y,z)", F3(f32::mul_add), 0.0).by("fmaf(a, b, c)"),
        Row::cuda(
            "frexpf(x,exp), fraction",
            F1(|x| frexp(x.into()).0 as f32),
            0.0,
        )
        .by("[&] { int e; return frexpf(a, &e); }()"),
        Row::cuda(
            "frexpf(x,exp), exponent",
            F1(|x| frexp(x.into()).1 as f32),
            0.0,
        )
        .by("[&] { int e; frexpf(a, &e); return (float)e; }()")
        .within("finite", |x, _| x.is_finite()),
        Row::cuda(
            "ldexpf(x,exp)",
            F2(|a, b| (f64::from(a) * 2f64.powi(b as i32)) as f32),
            0.0,
        )
        .by("ldexpf(a, (int)b)")
        .within("|exp| < 300", |_, b| b.abs() < 300.0),
        Row::cuda(
            "scalbnf(x,n)",
            F2(|a, b| (f64::from(a) * 2f64.powi(b as i32)) as f32),
            0.0,
        )
        .by("scalbnf(a, (int)b)")
        .within("|n| < 300", |_, b| b.abs() < 300.0),
        Row::cuda(
            "scalblnf(x,l)",
            F2(|a, b| (f64::from(a) * 2f64.powi(b as i32)) as f32),
            0.0,
        )
        .by("scalblnf(a, (long)b)")
        .within("|l| < 300", |_, b| b.abs() < 300.0),
        Row::cuda("logbf(x)", F1(|x| (frexp(x.into()).1 - 1) as f32), 0.0)
            .by("logbf(a)")
            .within("finite, not 0", is_number),
        Row::cuda("ilogbf(x)", F1(|x| (frexp(x.into()).1 - 1) as f32), 0.0)
            .by("(float)ilogbf(a)")
            .within("finite, not 0", is_number),
        Row::cuda("fmodf(x,y)", F2(|a, b| a % b), 0.0).by("fmodf(a, b)"),
        Row::cuda(
            "remainderf(x,y)",
            F2(|a, b| remainder(a.into(), b.into()) as f32),
            0.0,
        )
        .by("remainderf(a, b)"),
        Row::cuda(
            "remquof(x,y,iptr)",
            F2(|a, b| remainder(a.into(), b.into()) as f32),
            0.0,
        )
        .by("[&] { int q; return remquof(a, b, &q); }()"),
        Row::cuda(
            "modff(x,iptr), fraction",
            F1(|x| if x.is_infinite() { 0.0 } else { x - x.trunc() }),
            0.0,
        )
        .by("[&] { float i; return modff(a, &i); }()"),
        Row::cuda("modff(x,iptr), whole", F1(f32::trunc), 0.0)
            .by("[&] { float i; modff(a, &i); return i; }()"),
        Row::cuda(
            "fdimf(x,y)",
            F2(|a, b| if a <= b { 0.0 } else { a - b }),
            0.0,
        )
        .by("fdimf(a, b)"),
        Row::cuda("truncf(x)", F1(f32::trunc), 0.0).by("truncf(a)"),
        Row::cuda("roundf(x)", F1(f32::round), 0.0).by("roundf(a)"),
        Row::cuda("rintf(x)", F1(f32::round_ties_even), 0.0).by("rintf(a)"),
        Row::cuda("nearbyintf(x)", F1(f32::round_ties_even), 0.0).by("nearbyintf(a)"),
        Row::cuda("ceilf(x)", F1(f32::ceil), 0.0).by("ceilf(a)"),
        Row::cuda("floorf(x)", F1(f32::floor), 0.0).by("floorf(a)"),
        Row::cuda("lrintf(x)", F1(f32::round_ties_even), 0.0)
            .by("(float)lrintf(a)")
            .within("|x| < 2⁶³", fits_long),
        Row::cuda("lroundf(x)", F1(f32::round), 0.0)
            .by("(float)lroundf(a)")
            .within("|x| < 2⁶³", fits_long),
        Row::cuda("llrintf(x)", F1(f32::round_ties_even), 0.0)
            .by("(float)llrintf(a)")
            .within("|x| < 2⁶³", fits_long),
        Row::cuda("llroundf(x)", F1(f32::round), 0.0)
            .by("(float)llroundf(a)")
            .within("|x| < 2⁶³", fits_long),
    ]
}

/// Table C-4, what is not one instruction.
fn intrinsics() -> Vec<Row> {
    let in_middle = |x: f64, _: f64| (0.5..=2.0).contains(&x);
    let outside = |x: f64, _: f64| !(0.5..=2.0).contains(&x);
    vec![
        Row::cuda("__fdividef(x,y)", F2(|a, b| a / b), 2.0)
            .by("__fdividef(a, b)")
            .within("2⁻¹²⁶ ≤ |y| ≤ 2¹²⁶", |_, y| {
                (2f64.powi(-126)..=2f64.powi(126)).contains(&y.abs())
            }),
        Row::cuda("__expf(x)", F1(f_expf), 2.0)
            .by("__expf(a)")
            .beyond(|x| (1.16 * x).abs()),
        Row::cuda("__exp10f(x)", F1(f_exp10f), 2.0)
            .by("__exp10f(a)")
            .beyond(|x| (2.95 * x).abs()),
        Row::cuda("__logf(x)", Wide(f64::ln), -21.41)
            .by("__logf(a)")
            .absolute()
            .within("½ ≤ x ≤ 2", in_middle),
        Row::cuda("__logf(x)", F1(f_logf), 3.0)
            .by("__logf(a)")
            .within("x < ½ or x > 2", outside),
        Row::cuda("__log2f(x)", Wide(f64::log2), -22.0)
            .by("__log2f(a)")
            .absolute()
            .within("½ ≤ x ≤ 2", in_middle),
        Row::cuda("__log2f(x)", F1(f_log2f), 2.0)
            .by("__log2f(a)")
            .within("x < ½ or x > 2", outside),
        Row::cuda("__log10f(x)", Wide(f64::log10), -24.0)
            .by("__log10f(a)")
            .absolute()
            .within("½ ≤ x ≤ 2", in_middle),
        Row::cuda("__log10f(x)", F1(f_log10f), 3.0)
            .by("__log10f(a)")
            .within("x < ½ or x > 2", outside),
        Row::cuda("__sinf(x)", Wide(f64::sin), -21.41)
            .by("__sinf(a)")
            .absolute()
            .within("|x| ≤ π", |x, _| x.abs() <= PI),
        Row::cuda("__cosf(x)", Wide(f64::cos), -21.19)
            .by("__cosf(a)")
            .absolute()
            .within("|x| ≤ π", |x, _| x.abs() <= PI),
    ]
}

/// In 64 bits, rounded: pxfm's own for `f32` is wrong in places.
fn erfcinvf(x: f32) -> f32 {
    let x = f64::from(x);
    let wide = if x > 0.5 {
        f_erfinv(1.0 - x)
    } else {
        f_erfcinv(x)
    };
    wide as f32
}
