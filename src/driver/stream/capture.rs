//! Capture mode of a thread, and capture status of a stream as the driver reports it.

use std::ffi::c_uint;

use crate::driver::device::context::{Context, report_drop};
use crate::driver::error::Error;
use crate::driver::stream::Stream;

/// Which unsafe calls a capture prohibits (`CUstreamCaptureMode`): calls such as an
/// allocation may synchronise with the capturing stream, which would invalidate the
/// capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum CaptureMode {
    /// Prohibited in all threads.
    Global = 0,
    /// Prohibited in this thread.
    #[default]
    ThreadLocal = 1,
    /// Allowed.
    Relaxed = 2,
}

impl CaptureMode {
    /// Sets the mode of this thread and returns the former one
    /// (`cuThreadExchangeStreamCaptureMode`): with [`Relaxed`](CaptureMode::Relaxed) the
    /// thread may allocate and the like while another thread captures. `None` for a mode
    /// without a name.
    pub fn exchange(self, context: &Context) -> Result<Option<CaptureMode>, Error> {
        let mode = exchange(context, self as c_uint)?;
        let all = [
            CaptureMode::Global,
            CaptureMode::ThreadLocal,
            CaptureMode::Relaxed,
        ];
        Ok(all.get(mode as usize).copied())
    }
}

fn exchange(context: &Context, mut mode: c_uint) -> Result<c_uint, Error> {
    // SAFETY: reads and writes one integer.
    unsafe { context.bind()?.cuThreadExchangeStreamCaptureMode(&mut mode) }?;
    Ok(mode)
}

/// [`Relaxed`](CaptureMode::Relaxed) as the mode of this thread, until it is dropped: it may wait
/// for streams while others are captured.
pub(crate) struct RelaxedCapture<'a> {
    context: &'a Context,
    former: c_uint,
}

impl RelaxedCapture<'_> {
    pub fn enter(context: &Context) -> Result<RelaxedCapture<'_>, Error> {
        let former = exchange(context, CaptureMode::Relaxed as c_uint)?;
        Ok(RelaxedCapture { context, former })
    }
}

impl Drop for RelaxedCapture<'_> {
    fn drop(&mut self) {
        report_drop(exchange(self.context, self.former).map(drop));
    }
}

/// Capture status of a stream (`CUstreamCaptureStatus`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CaptureStatus {
    /// Not capturing.
    None,
    /// Capturing.
    Active,
    /// The capture was invalidated by a call, and has yet to be ended.
    Invalidated,
    /// Any other value.
    Other(u32),
}

impl CaptureStatus {
    fn of(status: c_uint) -> CaptureStatus {
        match status {
            0 => CaptureStatus::None,
            1 => CaptureStatus::Active,
            2 => CaptureStatus::Invalidated,
            other => CaptureStatus::Other(other),
        }
    }
}

impl Stream {
    /// Its capture status as the driver reports it, which includes captures by another
    /// library (`cuStreamIsCapturing`).
    pub fn capture_status(&self) -> Result<CaptureStatus, Error> {
        let mut status = 0;
        let api = self.context().bind()?;
        // SAFETY: the stream is live; writes one integer.
        unsafe { api.cuStreamIsCapturing(self.raw(), &mut status) }?;
        Ok(CaptureStatus::of(status))
    }

    /// Its capture status, and the number of the capture, which no other has
    /// (`cuStreamGetCaptureInfo_v3`, or `cuStreamGetCaptureInfo_v2` before CUDA 12.3): streams
    /// with the same number take part in the same one.
    pub fn capture_info(&self) -> Result<(CaptureStatus, Option<u64>), Error> {
        use std::ptr::null_mut;
        let (mut status, mut id) = (0, 0);
        let (api, stream) = (self.context().bind()?, self.raw());
        // SAFETY: the stream is live; writes two numbers, and nothing through null.
        unsafe {
            match api.cuStreamGetCaptureInfo_v3 {
                Some(_) => api.cuStreamGetCaptureInfo_v3(
                    stream,
                    &mut status,
                    &mut id,
                    null_mut(),
                    null_mut(),
                    null_mut(),
                    null_mut(),
                ),
                None => api.cuStreamGetCaptureInfo_v2(
                    stream,
                    &mut status,
                    &mut id,
                    null_mut(),
                    null_mut(),
                    null_mut(),
                ),
            }
        }?;
        let status = CaptureStatus::of(status);
        Ok((status, (status == CaptureStatus::Active).then_some(id)))
    }
}
