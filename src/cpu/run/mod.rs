//! Running compiled kernels: threads, blocks, barriers and warps.

/// What the helpers of compiled code need of the device.
pub struct Services {}
