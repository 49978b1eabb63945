//! The approximations (`.approx`), within the errors that the PTX ISA states.

pub(super) extern "C" fn ex2_f32(_a: f32) -> f32 {
    0.0
}

pub(super) extern "C" fn lg2_f32(_a: f32) -> f32 {
    0.0
}

pub(super) extern "C" fn sin_f32(_a: f32) -> f32 {
    0.0
}

pub(super) extern "C" fn cos_f32(_a: f32) -> f32 {
    0.0
}

pub(super) extern "C" fn tanh_f32(_a: f32) -> f32 {
    0.0
}

pub(super) extern "C" fn rsqrt_f32(_a: f32) -> f32 {
    0.0
}

pub(super) extern "C" fn rcp_f32(_a: f32) -> f32 {
    0.0
}

pub(super) extern "C" fn sqrt_approx_f32(_a: f32) -> f32 {
    0.0
}

pub(super) extern "C" fn div_approx_f32(_a: f32, _b: f32) -> f32 {
    0.0
}

pub(super) extern "C" fn rcp_approx_f64(_a: f64) -> f64 {
    0.0
}

pub(super) extern "C" fn rsqrt_f64(_a: f64) -> f64 {
    0.0
}

pub(super) extern "C" fn rsqrt_approx_f64(_a: f64) -> f64 {
    0.0
}
