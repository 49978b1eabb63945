//! How the values of a register differ from lane to lane.

/// How the lanes of a register differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// They have one value.
    Uniform,
    /// Each is that of the lane before plus a stride, in 32 bits.
    Affine(i32),
    /// A sum of 64 bits: a value that all lanes have, and a multiple of such an index, extended.
    Extended {
        stride: i32,
        scale: i32,
        signed: bool,
    },
    Divergent,
}

/// The most bytes or units that consecutive lanes are apart in these shapes.
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
