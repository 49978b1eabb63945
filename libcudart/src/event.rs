//! Events.

use std::ffi::c_uint;

use api::{CUevent, CUipcEventHandle};

use crate::context::ready;
use crate::entry::{Stream, driver, entries};

entries! {
    /// A new event.
    fn cudaEventCreate(event: *mut CUevent) {
        ready()?;
        driver!(cuEventCreate(event.required()?, 0))
    }

    /// A new event with flags.
    fn cudaEventCreateWithFlags(event: *mut CUevent, flags: c_uint) {
        ready()?;
        driver!(cuEventCreate(event.required()?, flags))
    }

    /// Destroys an event.
    fn cudaEventDestroy(event: CUevent) {
        ready()?;
        driver!(cuEventDestroy_v2(event.ptr()))
    }

    /// Records an event in a stream.
    fn cudaEventRecord / cudaEventRecord_ptsz(event: CUevent, stream: Stream) {
        ready()?;
        driver!(cuEventRecord(event.ptr(), stream))
    }

    /// The same with flags.
    fn cudaEventRecordWithFlags / cudaEventRecordWithFlags_ptsz(event: CUevent, stream: Stream, flags: c_uint) {
        ready()?;
        driver!(cuEventRecordWithFlags(event.ptr(), stream, flags))
    }

    /// Waits for an event.
    fn cudaEventSynchronize(event: CUevent) {
        ready()?;
        driver!(cuEventSynchronize(event.ptr()))
    }

    /// Whether an event was reached.
    fn cudaEventQuery(event: CUevent) {
        ready()?;
        driver!(cuEventQuery(event.ptr()))
    }

    /// Milliseconds between two events.
    fn cudaEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent) {
        ready()?;
        driver!(cuEventElapsedTime(milliseconds.required()?, start.ptr(), end.ptr()))
    }

    /// What another process opens an event with.
    fn cudaIpcGetEventHandle(handle: *mut CUipcEventHandle, event: CUevent) {
        ready()?;
        driver!(cuIpcGetEventHandle(handle.required()?, event.ptr()))
    }

    /// The event of another process.
    fn cudaIpcOpenEventHandle(event: *mut CUevent, handle: CUipcEventHandle) {
        ready()?;
        driver!(cuIpcOpenEventHandle(event.required()?, handle))
    }
}
