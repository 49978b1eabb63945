//! Green contexts and their resources.

use std::ffi::{c_int, c_uint};

use super::entry::entries;
use crate::state::handle::pointer;
use crate::state::status::Status;
use crate::state::{context, event, green, stream};
use api::{CUcontext, CUdevResourceDesc, CUdevice, CUevent, CUgreenCtx, CUstream, DeviceResource};

entries! {
    fn cuDeviceGetDevResource(device: CUdevice, resource: *mut DeviceResource, kind: c_uint) {
        resource.put(green::resource(device, kind)?)
    }

    fn cuCtxGetDevResource(context: CUcontext, resource: *mut DeviceResource, kind: c_uint) {
        let context = context::find(context.addr())?;
        resource.put(green::resource(context.device(), kind)?)
    }

    fn cuGreenCtxGetDevResource(
        context: CUgreenCtx,
        resource: *mut DeviceResource,
        kind: c_uint,
    ) {
        resource.put(green::resource(green::find(context.addr())?.device(), kind)?)
    }

    /// One group, of all, and no rest.
    fn cuDevSmResourceSplitByCount(
        result: *mut DeviceResource,
        groups: *mut c_uint,
        input: *const DeviceResource,
        rest: *mut DeviceResource,
        flags: c_uint,
        least: c_uint,
    ) {
        let whole = input.get()?;
        green::check(&whole)?;
        if flags > 3 || least > whole.count {
            return Err(Status::INVALID_VALUE
                .because("the flags are unknown, or there are not so many multiprocessors"));
        }
        if !result.is_null() {
            if groups.get()? == 0 {
                return Err(Status::INVALID_VALUE.because("there is room for no group"));
            }
            result.put(whole)?;
        }
        rest.put_optional(DeviceResource::EMPTY);
        groups.put(1)
    }

    fn cuDevResourceGenerateDesc(
        desc: *mut CUdevResourceDesc,
        resources: *mut DeviceResource,
        count: c_uint,
    ) {
        if count != 1 {
            return Err(Status::INVALID_VALUE
                .because("all multiprocessors are one resource, which is described once"));
        }
        green::check(&resources.get()?)?;
        desc.put(pointer(green::describe()))
    }

    fn cuGreenCtxCreate(
        context: *mut CUgreenCtx,
        desc: CUdevResourceDesc,
        device: CUdevice,
        flags: c_uint,
    ) {
        if context.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        context.put(pointer(green::create(desc.addr(), device, flags)?))
    }

    fn cuGreenCtxDestroy(context: CUgreenCtx) {
        green::destroy(context.addr())
    }

    fn cuCtxFromGreenCtx(context: *mut CUcontext, green: CUgreenCtx) {
        context.put(green::find(green.addr())?.pointer())
    }

    fn cuGreenCtxStreamCreate(
        stream: *mut CUstream,
        context: CUgreenCtx,
        flags: c_uint,
        priority: c_int,
    ) {
        if stream.is_null() {
            return Err(Status::INVALID_VALUE.into());
        }
        stream.put(pointer(green::stream(context.addr(), flags, priority)?))
    }

    fn cuStreamGetGreenCtx(stream: CUstream, context: *mut CUgreenCtx) {
        let (of_stream, _) = stream::find(stream.addr())?;
        context.put(pointer(green::handle_of(&of_stream)))
    }

    fn cuGreenCtxRecordEvent(context: CUgreenCtx, event: CUevent) {
        event::record_in_context(event.addr(), &green::find(context.addr())?)
    }

    fn cuGreenCtxWaitEvent(context: CUgreenCtx, event: CUevent) {
        event::wait_in_context(event.addr(), &green::find(context.addr())?)
    }

    fn cuGreenCtxGetId(context: CUgreenCtx, id: *mut u64) {
        id.put(green::find(context.addr())?.id() as u64)
    }
}
