//! How the values of a register differ from lane to lane.

/// How the lanes of a register differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// They have one value.
    Uniform,
    /// Each lane's value is the previous lane's plus a stride, modulo 2^32.
    Affine(i32),
    /// A 64-bit sum of a uniform value and a multiple of an affine one, extended from 32 bits.
    Extended {
        stride: i32,
        scale: i32,
        signed: bool,
    },
    Divergent,
}

/// The limit of strides and scales.
const MAX_STRIDE: i64 = 1 << 20;

pub(super) fn affine(stride: i64) -> Shape {
    match stride.abs() <= MAX_STRIDE {
        true => Shape::Affine(stride as i32),
        false => Shape::Divergent,
    }
}

pub(super) fn extended(stride: i32, scale: i64, signed: bool) -> Shape {
    match scale.abs() <= MAX_STRIDE {
        true => Shape::Extended {
            stride,
            scale: scale as i32,
            signed,
        },
        false => Shape::Divergent,
    }
}
