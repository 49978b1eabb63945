//! The compiled code of a kernel.

use super::machine_code::MachineCode;
use crate::abi::SyncPoint;
use crate::matrix::Operation;

/// The machine code of one kernel and what the scheduler needs to run it.
#[derive(Clone, Debug, Default)]
pub(crate) struct KernelCode {
    pub scalar: MachineCode,
    /// The vector function, and how many threads it runs at a time.
    pub vector: Option<(MachineCode, u32)>,
    pub slots: u32,
    /// It has no resume points, so that its threads need no state.
    pub stateless: bool,
    pub sync_points: Vec<SyncPoint>,
    pub matrices: Vec<Operation>,
}
