//! Streams.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use super::entry::{entries, initialised};
use crate::state::context::{Context, StreamKind};
use crate::state::handle::pointer;
use crate::state::node::NodeKind;
use crate::state::queue::Mark;
use crate::state::status::{Result, Status};
use crate::state::stream::{self, LEAST_PRIORITY, NON_BLOCKING};
use crate::state::user_pointer::UserPointer;
use crate::state::{capture, context, event, host_function};
use api::{
    AttributeBits, CUcontext, CUdevice, CUevent, CUgreenCtx, CUhostFn, CUstream, StreamCallback,
};

/// The reason for a failed query of a capturing stream.
const CAPTURES: &str = "the stream is capturing; call this before or after the capture";

fn create(result: UserPointer<CUstream>, flags: c_uint, priority: c_int) -> Result {
    context::working()?;
    if result.is_null() {
        return Err(Status::INVALID_VALUE.into());
    }
    result.put(pointer(stream::create(flags, priority)?))
}

entries! {
    fn cuStreamCreate(stream: *mut CUstream, flags: c_uint) {
        create(stream, flags, LEAST_PRIORITY)
    }

    fn cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int) {
        create(stream, flags, priority)
    }

    /// Returns at once; the work that the stream still has runs.
    fn cuStreamDestroy_v2(stream: CUstream) {
        stream::destroy(stream.addr())
    }

    capture_unsafe cuStreamSynchronize(stream: CUstream) {
        let (context, stream) = stream::find_any(stream.addr())?;
        stream.refuse_captured("a capturing stream has nothing to wait for")?;
        stream.unfinished(&context).iter().for_each(Mark::wait);
        context.finish_wait()
    }

    /// A host function may call it.
    early cuStreamQuery(stream: CUstream) {
        initialised()?;
        capture::refuse_unsafe_call()?;
        let (context, stream) = stream::find(stream.addr())?;
        stream.refuse_captured("a capturing stream has nothing to wait for")?;
        if stream.unfinished(&context).iter().all(Mark::passed) {
            context.check()
        } else {
            Err(Status::NOT_READY.into())
        }
    }

    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint) {
        let (context, stream) = stream::find(stream.addr())?;
        if flags > 1 {
            return Err(Status::INVALID_VALUE.because("unknown flags of cuStreamWaitEvent"));
        }
        if flags == 1 && stream.captured()?.is_none() {
            return Err(Status::ILLEGAL_STATE
                .because("the stream is not capturing; CU_EVENT_WAIT_EXTERNAL needs a capture"));
        }
        if let Some(part) = event::captured(event.addr())? {
            return stream.join(&part);
        }
        if event::is_recorded(event.addr())? {
            stream.refuse_uncaptured_event()?;
        }
        if let Some(mark) = event::unfinished(event.addr())? {
            stream.push_always(&context, Some(mark), || ());
        }
        Ok(())
    }

    fn cuStreamAddCallback(
        stream: CUstream,
        callback: StreamCallback,
        data: *mut c_void,
        flags: c_uint,
    ) {
        let handle = stream.addr();
        let (context, stream) = stream::find(stream.addr())?;
        let callback = callback.ok_or(Status::INVALID_VALUE)?;
        if flags != 0 {
            return Err(Status::INVALID_VALUE.because("the flags of cuStreamAddCallback must be 0"));
        }
        stream.refuse_captured("a capturing stream has nothing to wait for")?;
        // It is called also after a fault, with the fault's status.
        let own = context.clone();
        stream.push_always(&context, None, move || {
            let status = own
                .check()
                .map_or_else(|failure| failure.status.0, |()| 0);
            host_function::run(&own, || {
                // SAFETY: the caller passed the function and its argument for this call.
                unsafe { callback(pointer(handle), status.cast_unsigned(), data.as_ptr()) }
            });
        });
        Ok(())
    }

    fn cuLaunchHostFunc(stream: CUstream, function: CUhostFn, data: *mut c_void) {
        let (context, stream) = stream::find(stream.addr())?;
        let function = function.ok_or(Status::INVALID_VALUE)?;
        let work = move |context: &Arc<Context>| {
            host_function::run(context, || {
                // SAFETY: the caller passed the function and its argument for this call.
                unsafe { function(data.as_ptr()) }
            });
        };
        if stream.record(NodeKind::Host, || Arc::new(work))? {
            return Ok(());
        }
        stream.push(&context, work);
        Ok(())
    }

    fn cuStreamGetCtx(stream: CUstream, context: *mut CUcontext) {
        context.put(stream::find(stream.addr())?.0.pointer())
    }

    fn cuStreamGetCtx_v2(
        stream: CUstream,
        context: *mut CUcontext,
        green_context: *mut CUgreenCtx,
    ) {
        let (of_stream, _) = stream::find(stream.addr())?;
        green_context.put_optional(std::ptr::null_mut());
        context.put(of_stream.pointer())
    }

    fn cuStreamGetFlags(stream: CUstream, flags: *mut c_uint) {
        let (_, stream) = stream::find(stream.addr())?;
        stream.refuse_captured(CAPTURES)?;
        flags.put(if stream.kind() == StreamKind::NonBlocking {
            NON_BLOCKING
        } else {
            0
        })
    }

    fn cuStreamGetPriority(stream: CUstream, priority: *mut c_int) {
        priority.put(stream::find(stream.addr())?.1.priority())
    }

    fn cuStreamGetAttribute(stream: CUstream, number: c_uint, value: *mut AttributeBits) {
        let (_, stream) = stream::find(stream.addr())?;
        value.put(stream.attribute(number)?)
    }

    fn cuStreamSetAttribute(stream: CUstream, number: c_uint, value: *const AttributeBits) {
        let (_, stream) = stream::find(stream.addr())?;
        stream.set_attribute(number, value.get()?)
    }

    fn cuStreamCopyAttributes(to: CUstream, from: CUstream) {
        let ((_, to), (_, from)) = (stream::find(to.addr())?, stream::find(from.addr())?);
        let attributes = from.attributes().clone();
        *to.attributes() = attributes;
        Ok(())
    }

    fn cuStreamGetDevice(stream: CUstream, device: *mut CUdevice) {
        device.put(stream::find(stream.addr())?.0.device())
    }

    fn cuStreamGetId(stream: CUstream, id: *mut u64) {
        let (_, stream) = stream::find(stream.addr())?;
        stream.refuse_captured(CAPTURES)?;
        id.put(stream.id())
    }
}
