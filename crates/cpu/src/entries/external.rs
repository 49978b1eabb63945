//! Memory and semaphores of other libraries: none of them exports what the CPU device could
//! map, as its memory is a range of addresses of its own.

use std::ffi::c_uint;

use super::entry::entries;
use crate::state::context;
use crate::state::status::{Result, Status};
use api::{
    CUdeviceptr, CUexternalMemory, CUexternalSemaphore, CUmipmappedArray, CUstream,
    ExternalArrayDesc, ExternalBufferDesc, ExternalMemoryDesc, ExternalSemaphoreDesc,
    ExternalSemaphoreParams,
};

/// Nothing was ever imported, so no handle is one.
fn unknown<T>() -> Result<T> {
    context::working()?;
    Err(Status::INVALID_VALUE.because("no imported memory or semaphore has this handle"))
}

entries! {
    fn cuImportExternalMemory(memory: *mut CUexternalMemory, desc: *const ExternalMemoryDesc) {
        context::working()?;
        let desc = desc.get()?;
        if memory.is_null() || !matches!(desc.kind, 1..=9) || desc.size == 0 || desc.flags > 1 {
            return Err(Status::INVALID_VALUE
                .because("memory is imported by a known kind of handle, and has bytes"));
        }
        Err(Status::NOT_SUPPORTED.because(
            "the CPU device maps no memory of other libraries: copy, or share by cuIpcGetMemHandle",
        ))
    }

    fn cuExternalMemoryGetMappedBuffer(
        _address: *mut CUdeviceptr,
        _memory: CUexternalMemory,
        _desc: *const ExternalBufferDesc,
    ) {
        unknown()
    }

    fn cuExternalMemoryGetMappedMipmappedArray(
        _mipmap: *mut CUmipmappedArray,
        _memory: CUexternalMemory,
        _desc: *const ExternalArrayDesc,
    ) {
        unknown()
    }

    fn cuDestroyExternalMemory(_memory: CUexternalMemory) {
        unknown()
    }

    fn cuImportExternalSemaphore(
        semaphore: *mut CUexternalSemaphore,
        desc: *const ExternalSemaphoreDesc,
    ) {
        context::working()?;
        let desc = desc.get()?;
        if semaphore.is_null() || !matches!(desc.kind, 1..=10) || desc.flags != 0 {
            return Err(Status::INVALID_VALUE
                .because("a semaphore is imported by a known kind of handle"));
        }
        Err(Status::NOT_SUPPORTED.because(
            "the CPU device waits for no semaphore of other libraries: use a host function",
        ))
    }

    fn cuSignalExternalSemaphoresAsync(
        _semaphores: *const CUexternalSemaphore,
        _params: *const ExternalSemaphoreParams,
        _count: c_uint,
        _stream: CUstream,
    ) {
        unknown()
    }

    fn cuWaitExternalSemaphoresAsync(
        _semaphores: *const CUexternalSemaphore,
        _params: *const ExternalSemaphoreParams,
        _count: c_uint,
        _stream: CUstream,
    ) {
        unknown()
    }

    fn cuDestroyExternalSemaphore(_semaphore: CUexternalSemaphore) {
        unknown()
    }
}
