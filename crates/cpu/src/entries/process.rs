//! What debuggers and operators ask of a driver: the CPU device has none of it, as it is part
//! of the process.

use std::ffi::{c_int, c_uint, c_void};

use super::entry::entries;
use crate::state::core_dump::{self, Scope};
use crate::state::status::{Result, Status};
use crate::state::{context, device};
use api::{AsyncCallback, CUdevice, CUdeviceptr, CheckpointLock, MulticastProp};

fn no_checkpoints() -> Result {
    Err(Status::NOT_SUPPORTED
        .because("the memory of the CPU device is the process's own: checkpoint the process"))
}

fn no_multicast() -> Result {
    Err(Status::NOT_SUPPORTED.because("the CPU device has no multicast memory"))
}

entries! {
    fn cuCoredumpGetAttribute(attribute: c_uint, value: *mut c_void, size: *mut usize) {
        context::working()?;
        core_dump::get(attribute, value, size, Scope::Context)
    }

    fn cuCoredumpGetAttributeGlobal(attribute: c_uint, value: *mut c_void, size: *mut usize) {
        core_dump::get(attribute, value, size, Scope::Process)
    }

    fn cuCoredumpSetAttribute(attribute: c_uint, value: *mut c_void, size: *mut usize) {
        context::working()?;
        core_dump::set(attribute, value, size, Scope::Context)
    }

    fn cuCoredumpSetAttributeGlobal(attribute: c_uint, value: *mut c_void, size: *mut usize) {
        core_dump::set(attribute, value, size, Scope::Process)
    }

    fn cuCheckpointProcessGetRestoreThreadId(_pid: c_int, _thread: *mut c_int) {
        no_checkpoints()
    }

    fn cuCheckpointProcessGetState(_pid: c_int, _state: *mut c_uint) {
        no_checkpoints()
    }

    fn cuCheckpointProcessLock(_pid: c_int, _args: *mut CheckpointLock) {
        no_checkpoints()
    }

    fn cuCheckpointProcessCheckpoint(_pid: c_int, _args: *mut c_void) {
        no_checkpoints()
    }

    fn cuCheckpointProcessRestore(_pid: c_int, _args: *mut c_void) {
        no_checkpoints()
    }

    fn cuCheckpointProcessUnlock(_pid: c_int, _args: *mut c_void) {
        no_checkpoints()
    }

    fn cuDeviceRegisterAsyncNotification(
        device: CUdevice,
        _callback: AsyncCallback,
        _user_data: *mut c_void,
        _handle: *mut *mut c_void,
    ) {
        device::check(device)?;
        Err(Status::NOT_SUPPORTED.because("no process has a budget of the CPU device's memory"))
    }

    fn cuDeviceUnregisterAsyncNotification(device: CUdevice, _handle: *mut c_void) {
        device::check(device)?;
        Err(Status::INVALID_VALUE.because("no function is registered so"))
    }

    fn cuMemGetHandleForAddressRange(
        _handle: *mut c_void,
        _address: CUdeviceptr,
        _size: usize,
        _kind: c_uint,
        _flags: u64,
    ) {
        Err(Status::NOT_SUPPORTED.because("other drivers reach no memory of the CPU device"))
    }

    fn cuMulticastGetGranularity(
        _granularity: *mut usize,
        _prop: *const MulticastProp,
        _option: c_uint,
    ) {
        no_multicast()
    }

    fn cuMulticastCreate(_handle: *mut u64, _prop: *const MulticastProp) {
        no_multicast()
    }

    fn cuMulticastAddDevice(_handle: u64, _device: CUdevice) {
        no_multicast()
    }

    fn cuMulticastBindMem(
        _handle: u64,
        _offset: usize,
        _memory: u64,
        _memory_offset: usize,
        _size: usize,
        _flags: u64,
    ) {
        no_multicast()
    }

    fn cuMulticastBindAddr(
        _handle: u64,
        _offset: usize,
        _address: CUdeviceptr,
        _size: usize,
        _flags: u64,
    ) {
        no_multicast()
    }

    fn cuMulticastUnbind(_handle: u64, _device: CUdevice, _offset: usize, _size: usize) {
        no_multicast()
    }
}
