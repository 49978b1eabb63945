//! What the compilation of a kernel gives.

use super::machine_code::MachineCode;
use crate::abi::SyncPoint;
use crate::matrix::Operation;

/// The machine code of one kernel and what the scheduler needs to run it.
#[derive(Clone, Debug, Default)]
pub(crate) struct KernelCode {
    pub scalar: MachineCode,
    /// The function that runs a lane group at a time, and the group's width.
    pub vector: Option<(MachineCode, u32)>,
    pub slots: u32,
    /// It has no resume points, so that its threads need no state.
    pub stateless: bool,
    pub sync_points: Vec<SyncPoint>,
    pub matrices: Vec<Operation>,
}
