//! Conversions, rounded as PTX says.

pub(super) extern "C" fn f64_to_f32(_a: f64, _rounding: u32) -> f32 {
    0.0
}

pub(super) extern "C" fn i64_to_f32(_a: i64, _rounding: u32) -> f32 {
    0.0
}

pub(super) extern "C" fn u64_to_f32(_a: u64, _rounding: u32) -> f32 {
    0.0
}

pub(super) extern "C" fn i64_to_f64(_a: i64, _rounding: u32) -> f64 {
    0.0
}

pub(super) extern "C" fn u64_to_f64(_a: u64, _rounding: u32) -> f64 {
    0.0
}

pub(super) extern "C" fn integral_f32(_a: f32, _rounding: u32) -> f32 {
    0.0
}

pub(super) extern "C" fn integral_f64(_a: f64, _rounding: u32) -> f64 {
    0.0
}

pub(super) extern "C" fn f64_to_int(_a: f64, _bits: u32, _rounding: u32) -> i64 {
    0
}

pub(super) extern "C" fn f64_to_uint(_a: f64, _bits: u32, _rounding: u32) -> u64 {
    0
}

pub(super) extern "C" fn f32_to_tf32(_a: f32, _rounding: u32) -> f32 {
    0.0
}

pub(super) extern "C" fn f16_to_f32(_a: u32) -> f32 {
    0.0
}

pub(super) extern "C" fn bf16_to_f32(_a: u32) -> f32 {
    0.0
}

pub(super) extern "C" fn f32_to_f16(_a: f32, _rounding: u32) -> u32 {
    0
}

pub(super) extern "C" fn f32_to_bf16(_a: f32, _rounding: u32) -> u32 {
    0
}

pub(super) extern "C" fn f64_to_f16(_a: f64, _rounding: u32) -> u32 {
    0
}

pub(super) extern "C" fn f64_to_bf16(_a: f64, _rounding: u32) -> u32 {
    0
}

pub(super) extern "C" fn i64_to_f16(_a: i64, _rounding: u32) -> u32 {
    0
}

pub(super) extern "C" fn u64_to_f16(_a: u64, _rounding: u32) -> u32 {
    0
}

pub(super) extern "C" fn i64_to_bf16(_a: i64, _rounding: u32) -> u32 {
    0
}

pub(super) extern "C" fn u64_to_bf16(_a: u64, _rounding: u32) -> u32 {
    0
}

pub(super) extern "C" fn f32_to_e4m3(_a: f32) -> u32 {
    0
}

pub(super) extern "C" fn f32_to_e5m2(_a: f32) -> u32 {
    0
}

pub(super) extern "C" fn e4m3_to_f16(_a: u32) -> u32 {
    0
}

pub(super) extern "C" fn e5m2_to_f16(_a: u32) -> u32 {
    0
}
