//! Arithmetic of f16 and bf16, rounded once.

pub(super) extern "C" fn add_f16(_a: u32, _b: u32) -> u32 {
    0
}

pub(super) extern "C" fn mul_f16(_a: u32, _b: u32) -> u32 {
    0
}

pub(super) extern "C" fn fma_f16(_a: u32, _b: u32, _c: u32) -> u32 {
    0
}

pub(super) extern "C" fn add_bf16(_a: u32, _b: u32) -> u32 {
    0
}

pub(super) extern "C" fn mul_bf16(_a: u32, _b: u32) -> u32 {
    0
}

pub(super) extern "C" fn fma_bf16(_a: u32, _b: u32, _c: u32) -> u32 {
    0
}

pub(super) extern "C" fn ex2_f16(_a: u32) -> u32 {
    0
}

pub(super) extern "C" fn ex2_bf16(_a: u32) -> u32 {
    0
}

pub(super) extern "C" fn tanh_f16(_a: u32) -> u32 {
    0
}

pub(super) extern "C" fn tanh_bf16(_a: u32) -> u32 {
    0
}
