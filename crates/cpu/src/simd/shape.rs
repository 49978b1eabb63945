//! How the values of a register differ from lane to lane.

use crate::optimization::Optimization;

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
    /// A 64-bit sum of a value that all lanes share and a power of two times an index of 32 bits.
    Indexed {
        scale: i32,
        signed: bool,
    },
    Divergent,
}

impl Shape {
    /// The optimization that a register of this shape is due to.
    pub fn optimization(&self) -> Option<Optimization> {
        match self {
            Shape::Uniform | Shape::Divergent => None,
            Shape::Affine(_) => Some(Optimization::Affine),
            Shape::Extended { .. } => Some(Optimization::Extended),
            Shape::Indexed { .. } => Some(Optimization::Indexed),
        }
    }

    /// Whether registers may have this shape.
    pub fn is_used(&self) -> bool {
        self.optimization().is_none_or(Optimization::is_on)
    }

    /// The shape of a register that has either.
    pub fn met(self, other: Shape) -> Shape {
        use Shape::{Divergent, Extended, Indexed, Uniform};
        match (self, other) {
            (one, other) if one == other => one,
            (indexed @ Indexed { .. }, Uniform) | (Uniform, indexed @ Indexed { .. }) => indexed,
            (
                indexed @ Indexed { scale, signed },
                Extended {
                    scale: s,
                    signed: e,
                    ..
                },
            )
            | (
                Extended {
                    scale: s,
                    signed: e,
                    ..
                },
                indexed @ Indexed { scale, signed },
            ) if (scale, signed) == (s, e) => indexed,
            _ => Divergent,
        }
    }
}

/// The limit of strides and scales.
const MAX_STRIDE: i64 = 1 << 20;

pub(super) fn affine(stride: i64) -> Shape {
    if stride.abs() <= MAX_STRIDE {
        Shape::Affine(stride as i32)
    } else {
        Shape::Divergent
    }
}

pub(super) fn indexed(scale: i64, signed: bool) -> Shape {
    if scale <= MAX_STRIDE && u64::try_from(scale).is_ok_and(u64::is_power_of_two) {
        Shape::Indexed {
            scale: scale as i32,
            signed,
        }
    } else {
        Shape::Divergent
    }
}

pub(super) fn extended(stride: i32, scale: i64, signed: bool) -> Shape {
    if scale.abs() <= MAX_STRIDE {
        Shape::Extended {
            stride,
            scale: scale as i32,
            signed,
        }
    } else {
        Shape::Divergent
    }
}
