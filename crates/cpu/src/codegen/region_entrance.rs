//! Loops over lanes, and where the branches before a region enter its scalar copy.

use cranelift_codegen::ir::Block;
use cranelift_frontend::Variable;

/// A loop over lanes of a group, in which each lane runs scalar code.
#[derive(Clone, Copy)]
pub(super) struct LaneLoop {
    pub body: Block,
    /// Follows the last lane.
    pub done: Block,
    /// The lanes that are left, a bit each.
    pub left: Variable,
}

/// The scalar copy of a region, which all its branches enter.
#[derive(Clone, Copy)]
pub(super) struct RegionEntrance {
    pub lanes: LaneLoop,
    /// The index of the branch at which the group diverged.
    pub branch: Variable,
}
