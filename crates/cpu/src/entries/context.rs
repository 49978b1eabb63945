//! Contexts.

use std::ffi::{c_int, c_uint};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::entry::entries;
use crate::state::context::{self, Context, ContextKind};
use crate::state::status::{Result, Status};
use crate::state::user_pointer::UserPointer;
use crate::state::{capture, device, event, stream, teardown};
use api::{CUcontext, CUdevice, CUevent, ContextParams, ExecAffinity};

/// Makes a context and pushes it on this thread.
fn create(context: UserPointer<CUcontext>, flags: c_uint, device: CUdevice) -> Result {
    device::check(device)?;
    context::check_flags(flags)?;
    if context.is_null() {
        return Err(Status::INVALID_VALUE.into());
    }
    let made = Context::new(device, flags, ContextKind::Created)?;
    context.put(made.pointer())?;
    context::push(made);
    Ok(())
}

/// A context by its handle; the current one for null.
pub(super) fn named_or_current(handle: usize) -> Result<Arc<Context>> {
    match handle {
        0 => context::current(),
        _ => context::find(handle),
    }
}

/// Finds a context by its handle. A null handle is an invalid value, not an invalid context.
fn named(handle: usize) -> Result<Arc<Context>> {
    match handle {
        0 => Err(Status::INVALID_VALUE.because("the context is null")),
        _ => context::find(handle),
    }
}

entries! {
    fn cuCtxCreate_v2(context: *mut CUcontext, flags: c_uint, device: CUdevice) {
        create(context, flags, device)
    }

    fn cuCtxCreate_v3(
        _context: *mut CUcontext,
        _affinities: *mut ExecAffinity,
        _count: c_int,
        flags: c_uint,
        device: CUdevice,
    ) {
        device::check(device)?;
        context::check_flags(flags)?;
        Err(Status::UNSUPPORTED_EXEC_AFFINITY
            .because("a context of the CPU device has all workers"))
    }

    fn cuCtxCreate_v4(
        context: *mut CUcontext,
        params: *mut ContextParams,
        flags: c_uint,
        device: CUdevice,
    ) {
        if !params.is_null() {
            let params = params.get()?;
            if params.num_affinities != 0 {
                return Err(Status::UNSUPPORTED_EXEC_AFFINITY
                    .because("a context of the CPU device has all workers"));
            }
            if !params.graphics.is_null() {
                return Err(Status::NOT_SUPPORTED
                    .because("the CPU device shares nothing with graphics clients"));
            }
        }
        create(context, flags, device)
    }

    fn cuCtxGetExecAffinity(affinity: *mut ExecAffinity, kind: c_uint) {
        context::working()?;
        if kind != 0 {
            return Err(Status::UNSUPPORTED_EXEC_AFFINITY.because(format!("unknown kind of affinity {kind}; pass 0")));
        }
        let count = device::workers()?;
        affinity.put(ExecAffinity { kind, count })
    }

    fn cuCtxDestroy_v2(context: CUcontext) {
        let context = named(context.addr())?;
        if context.kind() == ContextKind::Primary {
            return Err(
                Status::INVALID_CONTEXT.because("a primary context is released, not destroyed")
            );
        }
        if context.kind() == ContextKind::Green {
            return Err(
                Status::INVALID_CONTEXT.because("a green context is destroyed by cuGreenCtxDestroy")
            );
        }
        context::pop_if(&context);
        teardown::destroy(&context);
        Ok(())
    }

    fn cuCtxAttach(context: *mut CUcontext, flags: c_uint) {
        if flags != 0 {
            return Err(Status::INVALID_VALUE.because("the flags of cuCtxAttach must be 0"));
        }
        let current = context::current()?;
        context.put(current.pointer())?;
        current.attached.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    fn cuCtxDetach(context: CUcontext) {
        let context = context::find(context.addr())?;
        if !context::top().is_some_and(|current| Arc::ptr_eq(&current, &context)) {
            return Err(Status::INVALID_CONTEXT
                .because("the context is not the current one of this thread"));
        }
        if context.kind() == ContextKind::Primary {
            return Ok(()); // cuDevicePrimaryCtxRelease counts its uses
        }
        let one_less = context
            .attached
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |uses| uses.checked_sub(1));
        if one_less.is_err() {
            context::pop_if(&context);
            teardown::destroy(&context);
        }
        Ok(())
    }

    fn cuCtxGetId(context: CUcontext, id: *mut u64) {
        id.put(named_or_current(context.addr())?.id() as u64)
    }

    /// Returns banks of four bytes (1), the only kind of current GPUs.
    fn cuCtxGetSharedMemConfig(config: *mut c_uint) {
        context::working()?;
        config.put(1)
    }

    fn cuCtxSetSharedMemConfig(config: c_uint) {
        if config > 2 {
            return Err(Status::INVALID_VALUE.into());
        }
        context::working().map(drop)
    }

    fn cuCtxResetPersistingL2Cache() {
        context::working()?;
        Ok(())
    }

    fn cuCtxPushCurrent_v2(context: CUcontext) {
        context::push(named(context.addr())?);
        Ok(())
    }

    fn cuCtxPopCurrent_v2(context: *mut CUcontext) {
        let popped = context::pop().ok_or_else(|| {
            Status::INVALID_CONTEXT.because("no context is current on this thread")
        })?;
        context.put_optional(popped.pointer());
        Ok(())
    }

    fn cuCtxSetCurrent(context: CUcontext) {
        let context = if context.is_null() {
            None
        } else {
            Some(context::find(context.addr())?)
        };
        context::pop();
        if let Some(context) = context {
            context::push(context);
        }
        Ok(())
    }

    fn cuCtxGetCurrent(context: *mut CUcontext) {
        context.put(context::top().map_or(std::ptr::null_mut(), |context| context.pointer()))
    }

    fn cuCtxGetDevice(device: *mut CUdevice) {
        let context = context::top().ok_or(Status::INVALID_CONTEXT)?;
        device.put(context.device())
    }

    fn cuCtxGetDevice_v2(device: *mut CUdevice, context: CUcontext) {
        device.put(named_or_current(context.addr())?.device())
    }

    fn cuCtxSetFlags(flags: c_uint) {
        context::check_flags(flags)?;
        context::working()?.flags.store(flags, Ordering::Relaxed);
        Ok(())
    }

    fn cuCtxGetFlags(flags: *mut c_uint) {
        flags.put(context::current()?.flags.load(Ordering::Relaxed))
    }

    fn cuCtxRecordEvent(context: CUcontext, event: CUevent) {
        event::record_in_context(event.addr(), &named_or_current(context.addr())?)
    }

    fn cuCtxWaitEvent(context: CUcontext, event: CUevent) {
        event::wait_in_context(event.addr(), &named_or_current(context.addr())?)
    }

    fn cuCtxSynchronize() {
        let context = context::current()?;
        capture::refuse_wait(&context)?;
        context.wait();
        context.finish_wait()
    }

    fn cuCtxSynchronize_v2(context: CUcontext) {
        let context = named_or_current(context.addr())?;
        capture::refuse_wait(&context)?;
        context.wait();
        context.finish_wait()
    }

    fn cuCtxGetLimit(value: *mut usize, limit: c_uint) {
        value.put(context::working()?.limit(limit)?)
    }

    capture_unsafe cuCtxSetLimit(limit: c_uint, value: usize) {
        context::working()?.set_limit(limit, value)
    }

    fn cuCtxGetCacheConfig(config: *mut c_uint) {
        config.put(context::working()?.cache_config.load(Ordering::Relaxed))
    }

    capture_unsafe cuCtxSetCacheConfig(config: c_uint) {
        if config > 3 {
            return Err(Status::INVALID_VALUE.into());
        }
        context::working()?.cache_config.store(config, Ordering::Relaxed);
        Ok(())
    }

    fn cuCtxGetApiVersion(context: CUcontext, version: *mut c_uint) {
        named_or_current(context.addr())?;
        version.put(3020)
    }

    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        context::working()?;
        least.put_optional(stream::LEAST_PRIORITY);
        greatest.put_optional(stream::GREATEST_PRIORITY);
        Ok(())
    }
}
