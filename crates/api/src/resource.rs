//! The C structures of what a process and its devices are divided into: multiprocessors of
//! green contexts, multicast objects, checkpoints.

use std::ffi::{c_uint, c_void};

/// `CUdevResource` of multiprocessors. What is not named here is the driver's own, and goes
/// from one call to the next as it is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceResource {
    /// `CU_DEV_RESOURCE_TYPE_*`: 1 multiprocessors.
    pub kind: c_uint,
    internal: [u8; 92],
    /// Multiprocessors.
    pub count: c_uint,
    /// The fewest that a part can have (from CUDA 13.0; before, 0).
    pub least: c_uint,
    /// What a part has a multiple of (from CUDA 13.0; before, 0).
    pub alignment: c_uint,
    rest: [c_uint; 7],
    next: *mut c_void,
}

impl DeviceResource {
    /// No resource, for a driver to write.
    pub const EMPTY: DeviceResource = DeviceResource {
        kind: 0,
        internal: [0; 92],
        count: 0,
        least: 0,
        alignment: 0,
        rest: [0; 7],
        next: std::ptr::null_mut(),
    };
}

const _: () = assert!(
    size_of::<DeviceResource>() == 144 && std::mem::offset_of!(DeviceResource, count) == 96
);

/// The handle of a description of resources, which is good for ever.
pub type CUdevResourceDesc = *mut c_void;

/// `CUmulticastObjectProp`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MulticastProp {
    /// Devices that memory is bound on.
    pub devices: c_uint,
    /// Bytes.
    pub size: usize,
    /// `CU_MEM_HANDLE_TYPE_*`
    pub handle_types: u64,
    /// 0.
    pub flags: u64,
}

/// `CUcheckpointLockArgs`; 64 bytes of zeros are the arguments of the other entries too.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckpointLock {
    /// Milliseconds to wait for calls that run; 0 for as long as it takes.
    pub timeout_ms: c_uint,
    reserved0: c_uint,
    reserved1: [u64; 7],
}

const _: () = assert!(size_of::<CheckpointLock>() == 64 && size_of::<MulticastProp>() == 32);

/// `CUasyncNotificationInfo`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AsyncNotification {
    /// `CU_ASYNC_NOTIFICATION_TYPE_*`: 1 for memory over its budget.
    pub kind: c_uint,
    /// By how many bytes.
    pub bytes_over_budget: u64,
}

/// `CUasyncCallback`
pub type AsyncCallback =
    Option<unsafe extern "C" fn(*mut AsyncNotification, *mut c_void, *mut c_void)>;

/// `CUlogsCallback`: the data, `CU_LOG_LEVEL_*`, and the message with its length.
pub type LogsCallback =
    Option<unsafe extern "C" fn(*mut c_void, c_uint, *mut std::ffi::c_char, usize)>;
