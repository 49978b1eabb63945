//! Launches of kernels.

use std::ffi::{c_uint, c_void};

use super::entry::{Argument, entries};
use crate::run::LaunchConfig;
use crate::state::status::{Result, Status};
use crate::state::user_pointer::UserPointer;
use crate::state::{event, launch};
use api::{CUfunction, CUlaunchConfig, CUstream};

/// `CU_LAUNCH_ATTRIBUTE_…` that the device accepts; most have no effect here.
const IGNORE: c_uint = 0;
const ACCESS_POLICY_WINDOW: c_uint = 1;
const COOPERATIVE: c_uint = 2;
const CLUSTER_DIMENSION: c_uint = 4;
const CLUSTER_SCHEDULING: c_uint = 5;
const PROGRAMMATIC_SERIALIZATION: c_uint = 6;
const PROGRAMMATIC_EVENT: c_uint = 7;
const PRIORITY: c_uint = 8;
const MEMORY_SYNC_MAP: c_uint = 9;
const MEMORY_SYNC_DOMAIN: c_uint = 10;
const COMPLETION_EVENT: c_uint = 12;
const SHARED_CARVEOUT: c_uint = 14;

/// `CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING`
const NEWEST_ATTRIBUTE: c_uint = 16;

/// `CUlaunchAttribute` with its number as an integer.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct LaunchAttribute {
    pub(super) number: c_uint,
    pad: u32,
    pub(super) value: [u32; 16],
}

const _: () =
    assert!(size_of::<LaunchAttribute>() == size_of::<cudarc::driver::sys::CUlaunchAttribute>());

impl LaunchAttribute {
    /// The handle of the event that begins the value of some attributes.
    fn event(&self) -> usize {
        let [low, high] = [self.value[0], self.value[1]].map(u32::to_ne_bytes);
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&low);
        bytes[4..].copy_from_slice(&high);
        u64::from_ne_bytes(bytes) as usize
    }
}

/// More than there are attributes.
const MAX_ATTRIBUTES: u32 = 64;

/// The attributes of a launch.
pub(super) fn attributes(config: &CUlaunchConfig) -> impl Iterator<Item = Result<LaunchAttribute>> {
    // SAFETY: a field of the caller's structure, for which its contract holds as well.
    let attributes = unsafe { config.attrs.decode() }.cast::<LaunchAttribute>();
    (0..config.numAttrs as usize).map(move |index| attributes.get_at(index))
}

/// Fails for an attribute that the device does not support.
fn check_attribute(attribute: &LaunchAttribute) -> Result {
    match attribute.number {
        // A kernel that may start early starts after the one before it.
        IGNORE
        | ACCESS_POLICY_WINDOW
        | COOPERATIVE
        | CLUSTER_SCHEDULING
        | PROGRAMMATIC_SERIALIZATION
        | PROGRAMMATIC_EVENT
        | PRIORITY
        | MEMORY_SYNC_MAP
        | MEMORY_SYNC_DOMAIN
        | COMPLETION_EVENT
        | CLUSTER_DIMENSION
        | SHARED_CARVEOUT => Ok(()),
        number if number > NEWEST_ATTRIBUTE => {
            Err(Status::INVALID_VALUE.because(format!("unknown launch attribute {number}")))
        }
        number => Err(Status::NOT_SUPPORTED.because(format!(
            "the CPU device does not support launch attribute {number}"
        ))),
    }
}

entries! {
    fn cuLaunchKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: CUstream,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let config = LaunchConfig {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes,
            cluster: [1; 3],
        };
        launch::launch(function.addr(), config, stream.addr(), params, extra)
    }

    fn cuLaunchKernelEx(
        config: *const CUlaunchConfig,
        function: CUfunction,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let config = config.get()?;
        if config.numAttrs > MAX_ATTRIBUTES {
            return Err(Status::INVALID_VALUE.because("a launch has no so many attributes"));
        }
        let mut cluster = [1; 3];
        let mut cooperative = false;
        for attribute in attributes(&config) {
            let attribute = attribute?;
            check_attribute(&attribute)?;
            if attribute.number == CLUSTER_DIMENSION {
                cluster = [0, 1, 2].map(|axis| attribute.value[axis]);
            }
            cooperative |= attribute.number == COOPERATIVE && attribute.value[0] != 0;
        }
        let launch_config = LaunchConfig {
            grid: [config.gridDimX, config.gridDimY, config.gridDimZ],
            block: [config.blockDimX, config.blockDimY, config.blockDimZ],
            shared_bytes: config.sharedMemBytes,
            cluster,
        };
        if cooperative {
            launch::check_cooperative(function.addr(), &launch_config)?;
        }
        launch::launch(function.addr(), launch_config, config.hStream.addr(), params, extra)?;
        // Events that may be recorded before the kernel's end are recorded after it.
        for attribute in attributes(&config) {
            let attribute = attribute?;
            if matches!(attribute.number, PROGRAMMATIC_EVENT | COMPLETION_EVENT) {
                event::record(attribute.event(), config.hStream.addr(), false)?;
            }
        }
        Ok(())
    }

    fn cuLaunchCooperativeKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: CUstream,
        params: *mut *mut c_void,
    ) {
        let config = LaunchConfig {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes,
            cluster: [1; 3],
        };
        launch::check_cooperative(function.addr(), &config)?;
        launch::launch(function.addr(), config, stream.addr(), params, UserPointer::null())
    }
}
