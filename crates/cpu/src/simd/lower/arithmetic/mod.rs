//! Arithmetic, bits, comparisons and conversions.

mod bits;
mod carry;
mod compare;
mod convert;
mod dot;
mod float;
mod half;
pub(super) mod integer;
