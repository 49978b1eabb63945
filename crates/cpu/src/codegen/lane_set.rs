//! The threads of a lane group, and the vectors that hold their values.

use cranelift_codegen::ir::{Type, types};

use crate::program::RegClass;

/// The threads of a lane group for which an instruction is emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaneSet {
    /// All of them, as one scalar; in the scalar function, its thread.
    Scalar,
    /// The lanes of one vector: 4 of 32 bits or 2 of 64.
    Vector(u32),
    /// One lane.
    Lane(u32),
}

/// Lanes of a register class in one vector of 16 bytes.
pub(super) fn lanes_per_vector(class: RegClass) -> u32 {
    if class.bytes() == 8 { 2 } else { 4 }
}

/// The type of the vectors of a register class.
pub(super) fn vector_type(class: RegClass) -> Type {
    match class {
        RegClass::Pred | RegClass::I16 | RegClass::I32 => types::I32X4,
        RegClass::F32 => types::F32X4,
        RegClass::I64 => types::I64X2,
        RegClass::F64 => types::F64X2,
    }
}

/// Each lane of the group; in the scalar function, its thread.
pub(super) fn each_lane(width: u32) -> impl Iterator<Item = LaneSet> {
    (0..width).map(move |lane| {
        if width == 1 {
            LaneSet::Scalar
        } else {
            LaneSet::Lane(lane)
        }
    })
}

/// The vectors of a register; in the scalar function, its scalar.
pub(super) fn vectors(width: u32, class: RegClass) -> impl Iterator<Item = LaneSet> {
    let per_vector = lanes_per_vector(class);
    let count = if width == 1 { 1 } else { width / per_vector };
    (0..count).map(move |vector| {
        if width == 1 {
            LaneSet::Scalar
        } else {
            LaneSet::Vector(vector)
        }
    })
}
