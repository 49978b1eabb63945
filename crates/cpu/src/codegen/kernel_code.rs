//! The compiled code of a kernel.

use super::emitter::machine_code::MachineCode;
use crate::abi::SyncPoint;
use crate::matrix::Operation;

/// The code of a vector function.
#[derive(Clone, Debug)]
pub(crate) struct VectorCode {
    pub machine_code: MachineCode,
    /// How many threads it runs at a time.
    pub width: u32,
    /// The size of a group's packed registers.
    pub packed_bytes: u32,
}

/// The machine code of one kernel and what the scheduler needs to run it.
#[derive(Clone, Debug, Default)]
pub(crate) struct KernelCode {
    pub scalar: MachineCode,
    pub vector: Option<VectorCode>,
    pub slots: u32,
    /// It has no resume points, so that its threads need no state.
    pub stateless: bool,
    pub sync_points: Vec<SyncPoint>,
    pub matrices: Vec<Operation>,
}
