//! Where the branches before a region enter its scalar copy.

use cranelift_codegen::ir::Block;
use cranelift_frontend::Variable;

/// The scalar copy of a region, which all its branches enter.
#[derive(Clone, Copy)]
pub(super) struct RegionEntrance {
    /// Takes the first lane.
    pub body: Block,
    /// Behind the last one.
    pub done: Block,
    /// The lanes that are left, a bit each.
    pub left: Variable,
    /// The number of the branch.
    pub branch: Variable,
}
