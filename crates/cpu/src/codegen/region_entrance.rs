//! Where the branches before a region enter its scalar copy.

use cranelift_frontend::Variable;

use super::lane_loop::LaneLoop;

/// The scalar copy of a region, which all its branches enter.
#[derive(Clone, Copy)]
pub(super) struct RegionEntrance {
    pub lanes: LaneLoop,
    /// The index of the branch at which the group diverged.
    pub branch: Variable,
}
