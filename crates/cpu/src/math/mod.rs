//! Arithmetic that Cranelift has no instructions for: rounding modes, approximations,
//! conversions, half precision, bit fields, and video instructions.
//!
//! Compiled code calls the `extern "C"` functions ([`crate::runtime`] lists them). f16 and bf16
//! are passed as their bits in the low half of a `u32`, whose upper half is 0. `rounding` is a
//! [`Rounding`](rounding::Rounding) as an integer. The caller implements `.ftz` and `.sat`: no
//! function flushes or clamps unless stated.

pub(crate) mod approximate;
pub(crate) mod convert;
mod exact;
pub(crate) mod half;
pub(crate) mod integer;
pub(crate) mod round;
pub(crate) mod rounding;
pub(crate) mod stochastic;
pub(crate) mod video;
