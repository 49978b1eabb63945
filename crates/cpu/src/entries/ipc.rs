//! Memory, pools and events between processes.

use std::ffi::{c_uint, c_void};

use super::descriptor::{self, FILE_DESCRIPTOR};
use super::entry::entries;
use crate::state::context;
use crate::state::event;
use crate::state::handle::pointer;
use crate::state::ipc;
use crate::state::pool::{self, Sharing};
use crate::state::status::Status;
use api::{
    CUdeviceptr, CUevent, CUipcEventHandle, CUipcMemHandle, CUmemPoolPtrExportData, CUmemoryPool,
};

const _: () = assert!(size_of::<CUmemPoolPtrExportData>() == size_of::<CUipcMemHandle>());

/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`: peers have access once it is enabled for them.
const LAZY_PEER_ACCESS: c_uint = 1;

entries! {
    fn cuIpcGetEventHandle(result: *mut CUipcEventHandle, event: CUevent) {
        if result.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        let reserved = event::export(event.addr())?;
        result.put(CUipcEventHandle { reserved })
    }

    fn cuIpcOpenEventHandle(event: *mut CUevent, handle: CUipcEventHandle) {
        if event.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        event.put(pointer(event::open(&handle.reserved)?))
    }

    fn cuIpcGetMemHandle(result: *mut CUipcMemHandle, address: CUdeviceptr) {
        context::working()?;
        if result.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        result.put(ipc::export(address, false)?)
    }

    fn cuIpcOpenMemHandle_v2(address: *mut CUdeviceptr, handle: CUipcMemHandle, flags: c_uint) {
        context::working()?;
        if address.is_null() || flags & !LAZY_PEER_ACCESS != 0 {
            return Err(Status::INVALID_VALUE.because("unknown flags of cuIpcOpenMemHandle"));
        }
        address.put(ipc::open(&handle, 0)?)
    }

    fn cuMemPoolExportToShareableHandle(
        result: *mut c_void,
        pool: CUmemoryPool,
        handle_type: c_uint,
        flags: u64,
    ) {
        let pool = pool::find(pool.addr())?;
        if handle_type != FILE_DESCRIPTOR || flags != 0 || pool.sharing != Sharing::Shareable {
            return Err(Status::INVALID_VALUE.because("the pool was not made to be exported so"));
        }
        if result.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        descriptor::export(result.cast(), ipc::export_pool(pool.place)?)
    }

    fn cuMemPoolImportFromShareableHandle(
        pool: *mut CUmemoryPool,
        handle: *mut c_void,
        handle_type: c_uint,
        flags: u64,
    ) {
        if handle_type != FILE_DESCRIPTOR || flags != 0 || pool.is_null() {
            return Err(Status::INVALID_VALUE.because("a pool is imported from a file (1) alone"));
        }
        let file = descriptor::import(handle.addr())?;
        pool.put(pointer(ipc::import_pool(&file)?))
    }

    fn cuMemPoolExportPointer(result: *mut CUmemPoolPtrExportData, address: CUdeviceptr) {
        if result.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        result.cast().put(ipc::export(address, true)?)
    }

    fn cuMemPoolImportPointer(
        address: *mut CUdeviceptr,
        pool: CUmemoryPool,
        data: *mut CUmemPoolPtrExportData,
    ) {
        pool::find(pool.addr())?;
        if address.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        let handle = data.cast::<CUipcMemHandle>().get()?;
        address.put(ipc::open(&handle, pool.addr())?)
    }

    fn cuIpcCloseMemHandle(address: CUdeviceptr) {
        ipc::close(address)
    }
}
