//! Memory between processes. Pools and events are not shared.

use std::ffi::{c_uint, c_void};

use super::entry::entries;
use crate::state::context;

use crate::state::device::arena;
use crate::state::event;
use crate::state::ipc;
use crate::state::pool;
use crate::state::status::{Result, Status};
use api::{
    CUdeviceptr, CUevent, CUipcEventHandle, CUipcMemHandle, CUmemPoolPtrExportData, CUmemoryPool,
};

/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`: peers have access once it is enabled for them.
const LAZY_PEER_ACCESS: c_uint = 1;

fn none<T>() -> Result<T> {
    Err(Status::NOT_SUPPORTED
        .because("the CPU device shares no pools and no events between processes"))
}

entries! {
    fn cuIpcGetEventHandle(_result: *mut CUipcEventHandle, event: CUevent) {
        event::find(event.addr())?;
        none()
    }

    fn cuIpcOpenEventHandle(_event: *mut CUevent, _handle: CUipcEventHandle) {
        context::working()?;
        none()
    }

    fn cuIpcGetMemHandle(result: *mut CUipcMemHandle, address: CUdeviceptr) {
        context::working()?;
        if result.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        result.put(ipc::export(address)?)
    }

    fn cuIpcOpenMemHandle_v2(address: *mut CUdeviceptr, handle: CUipcMemHandle, flags: c_uint) {
        context::working()?;
        if address.is_null() || flags & !LAZY_PEER_ACCESS != 0 {
            return Err(Status::INVALID_VALUE.because("unknown flags of cuIpcOpenMemHandle"));
        }
        address.put(ipc::open(&handle)?)
    }

    fn cuMemPoolExportToShareableHandle(
        _result: *mut c_void,
        pool: CUmemoryPool,
        _handle_type: c_uint,
        _flags: u64,
    ) {
        pool::find(pool.addr())?;
        none()
    }

    fn cuMemPoolImportFromShareableHandle(
        _pool: *mut CUmemoryPool,
        _handle: *mut c_void,
        _handle_type: c_uint,
        _flags: u64,
    ) {
        none()
    }

    fn cuMemPoolExportPointer(_result: *mut CUmemPoolPtrExportData, address: CUdeviceptr) {
        context::working()?;
        match arena()?.range_of(address) {
            Some(_) => none(),
            None => Err(Status::INVALID_VALUE.because("no allocation holds this address")),
        }
    }

    fn cuMemPoolImportPointer(
        _address: *mut CUdeviceptr,
        pool: CUmemoryPool,
        _data: *mut CUmemPoolPtrExportData,
    ) {
        pool::find(pool.addr())?;
        none()
    }

    fn cuIpcCloseMemHandle(address: CUdeviceptr) {
        ipc::close(address)
    }
}
