//! Events.

use std::ffi::c_uint;

use super::entry::entries;
use crate::state::handle::pointer;
use crate::state::status::{Result, Status};
use crate::state::user_pointer::UserPointer;
use crate::state::{capture, context, event};
use api::{CUevent, CUstream};

/// `CU_EVENT_…`
const DISABLE_TIMING: c_uint = 2;
const INTERPROCESS: c_uint = 4;
const KNOWN_FLAGS: c_uint = 7;

/// Writes the milliseconds between two events.
fn elapsed(milliseconds: UserPointer<f32>, start: usize, end: usize) -> Result {
    if milliseconds.is_null() {
        return Err(Status::INVALID_HANDLE.because("the pointer for the milliseconds is null"));
    }
    let (start, end) = (event::find(start)?, event::find(end)?);
    start.context()?.check()?;
    start.check_uncaptured()?;
    end.check_uncaptured()?;
    if !start.timed || !end.timed {
        return Err(Status::INVALID_HANDLE
            .because("an event made with CU_EVENT_DISABLE_TIMING has no time"));
    }
    let (Some(first), Some(last)) = (start.last(), end.last()) else {
        return Err(Status::INVALID_HANDLE.because("an event that was never recorded has no time"));
    };
    if !first.mark.passed() || !last.mark.passed() {
        return Err(Status::NOT_READY.into());
    }
    // A fault skips the recording.
    let (Some(first), Some(last)) = (first.reached.get(), last.reached.get()) else {
        return Err(start
            .context()?
            .finish_wait()
            .err()
            .unwrap_or(Status::NOT_READY.into()));
    };
    let seconds = match last.checked_duration_since(*first) {
        Some(ahead) => ahead.as_secs_f64(),
        None => -first.duration_since(*last).as_secs_f64(),
    };
    milliseconds.put((seconds * 1e3) as f32)
}

entries! {
    fn cuEventCreate(event: *mut CUevent, flags: c_uint) {
        context::working()?;
        if event.is_null() || flags & !KNOWN_FLAGS != 0 {
            return Err(
                Status::INVALID_VALUE.because("unknown event flags, or the pointer for the event is null")
            );
        }
        let timed = flags & DISABLE_TIMING == 0;
        if flags & INTERPROCESS == 0 {
            return event.put(pointer(event::create(timed)?));
        }
        if timed {
            return Err(Status::INVALID_VALUE
                .because("an event between processes has no time: CU_EVENT_DISABLE_TIMING"));
        }
        event.put(pointer(event::create_shared()?))
    }

    fn cuEventDestroy_v2(event: CUevent) {
        event::destroy(event.addr())
    }

    fn cuEventRecord(event: CUevent, stream: CUstream) {
        event::record(event.addr(), stream.addr(), false)
    }

    fn cuEventRecordWithFlags(event: CUevent, stream: CUstream, flags: c_uint) {
        if flags > 1 {
            return Err(Status::INVALID_VALUE.because("unknown flags of cuEventRecordWithFlags"));
        }
        event::record(event.addr(), stream.addr(), flags == 1)
    }

    fn cuEventSynchronize(event: CUevent) {
        let event = event::find(event.addr())?;
        event.refuse_captured()?;
        capture::refuse_unsafe_call()?;
        event.wait();
        event.context()?.finish_wait()
    }

    fn cuEventQuery(event: CUevent) {
        let event = event::find(event.addr())?;
        event.context()?.check()?;
        event.refuse_captured()?;
        capture::refuse_unsafe_call()?;
        if !event.is_reached() { Err(Status::NOT_READY.into()) } else { event.context()?.check() }
    }

    fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent) {
        elapsed(milliseconds, start.addr(), end.addr())
    }

    fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: CUevent, end: CUevent) {
        elapsed(milliseconds, start.addr(), end.addr())
    }
}
