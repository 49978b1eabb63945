//! The C structures of memory and semaphores that other libraries made, as Vulkan, with enums
//! and unions as plain integers.

use std::ffi::{c_int, c_uint};

use cudarc::driver::sys;

use crate::Array3dDesc;

/// The handle of imported memory.
pub type CUexternalMemory = *mut std::ffi::c_void;

/// The handle of an imported semaphore.
pub type CUexternalSemaphore = *mut std::ffi::c_void;

/// `CUDA_EXTERNAL_MEMORY_HANDLE_DESC` of a file descriptor.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ExternalMemoryDesc {
    /// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_*`: 1 an opaque file descriptor.
    pub kind: c_uint,
    /// 0.
    pub pad: c_uint,
    /// The file descriptor.
    pub descriptor: c_int,
    /// What handles of other kinds take, 0.
    pub rest_of_handle: [c_int; 3],
    /// Bytes of the memory object.
    pub size: u64,
    /// 1 for memory of one buffer or image alone.
    pub flags: c_uint,
    /// 0.
    pub reserved: [c_uint; 16],
}

/// `CUDA_EXTERNAL_MEMORY_BUFFER_DESC`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ExternalBufferDesc {
    /// From this byte on.
    pub offset: u64,
    /// So many bytes.
    pub size: u64,
    /// 0.
    pub flags: c_uint,
    /// 0.
    pub reserved: [c_uint; 16],
}

/// `CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ExternalArrayDesc {
    /// From this byte on.
    pub offset: u64,
    /// What the image is.
    pub array: Array3dDesc,
    /// How many levels it has.
    pub levels: c_uint,
    /// 0.
    pub reserved: [c_uint; 16],
}

/// `CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC` of a file descriptor.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ExternalSemaphoreDesc {
    /// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_*`: 1 an opaque file descriptor, 9 of a timeline.
    pub kind: c_uint,
    /// 0.
    pub pad: c_uint,
    /// The file descriptor.
    pub descriptor: c_int,
    /// What handles of other kinds take, 0.
    pub rest_of_handle: [c_int; 3],
    /// 0.
    pub flags: c_uint,
    /// 0.
    pub reserved: [c_uint; 16],
    /// 0.
    pub end: c_uint,
}

/// `CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS` and `CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS`, which
/// are alike for what a file descriptor names.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ExternalSemaphoreParams {
    /// The value of a timeline.
    pub value: u64,
    /// What other kinds of semaphore take, 0.
    pub others: [u64; 8],
    /// 0.
    pub flags: c_uint,
    /// 0.
    pub reserved: [c_uint; 16],
    /// 0.
    pub end: c_uint,
}

const _: () = assert!(
    size_of::<ExternalMemoryDesc>() == size_of::<sys::CUDA_EXTERNAL_MEMORY_HANDLE_DESC>()
        && size_of::<ExternalBufferDesc>() == size_of::<sys::CUDA_EXTERNAL_MEMORY_BUFFER_DESC>()
        && size_of::<ExternalArrayDesc>()
            == size_of::<sys::CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC>()
        && size_of::<ExternalSemaphoreDesc>()
            == size_of::<sys::CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC>()
        && size_of::<ExternalSemaphoreParams>()
            == size_of::<sys::CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS>()
        && size_of::<ExternalSemaphoreParams>()
            == size_of::<sys::CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS>()
        && std::mem::offset_of!(ExternalSemaphoreParams, flags)
            == std::mem::offset_of!(sys::CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, flags)
        && std::mem::offset_of!(ExternalSemaphoreDesc, flags)
            == std::mem::offset_of!(sys::CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC, flags)
        && std::mem::offset_of!(ExternalMemoryDesc, size)
            == std::mem::offset_of!(sys::CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size)
);
