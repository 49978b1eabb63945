//! Memory, pools and events between processes: the CPU device has none. Its memory is
//! the process's own, in which an allocation begins in the middle of a page.

use std::ffi::{c_uint, c_void};

use super::entry::entries;
use crate::state::context;

use crate::state::device::arena;
use crate::state::event;
use crate::state::pool;
use crate::state::status::{Result, Status};
use api::{
    CUdeviceptr, CUevent, CUipcEventHandle, CUipcMemHandle, CUmemPoolPtrExportData, CUmemoryPool,
};

fn none<T>() -> Result<T> {
    Err(Status::NOT_SUPPORTED.because("the CPU device shares nothing between processes"))
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

    fn cuIpcGetMemHandle(_result: *mut CUipcMemHandle, address: CUdeviceptr) {
        context::working()?;
        match arena()?.range_of(address) {
            Some(_) => none(),
            None => Err(Status::INVALID_VALUE.because("no allocation holds this address")),
        }
    }

    fn cuIpcOpenMemHandle_v2(_address: *mut CUdeviceptr, _handle: CUipcMemHandle, _flags: c_uint) {
        context::working()?;
        none()
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

    fn cuIpcCloseMemHandle(_address: CUdeviceptr) {
        context::working()?;
        Err(Status::INVALID_VALUE.because("the address is of no other process's memory"))
    }
}
