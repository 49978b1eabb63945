//! Green contexts. The worker threads of the CPU device are its multiprocessors, and serve all
//! contexts: so they cannot be divided, and a green context has all of them.

use std::ffi::{c_int, c_uint};
use std::sync::Arc;

use super::context::{self, Context, ContextKind};
use super::handle::Handles;
use super::status::{Result, Status};
use super::{device, stream, teardown};
use api::{CUdevice, DeviceResource};

/// `CU_DEV_RESOURCE_TYPE_SM`
const MULTIPROCESSORS: c_uint = 1;

/// `CU_STREAM_NON_BLOCKING`
const NON_BLOCKING: c_uint = 1;

/// A description of resources, which is never removed: all devices have the same workers.
struct Description;

static DESCRIPTIONS: Handles<Description> = Handles::new();
static GREEN: Handles<Context> = Handles::new();

/// All multiprocessors, of which no part can be had.
pub(crate) fn resource(device: CUdevice, kind: c_uint) -> Result<DeviceResource> {
    device::check(device)?;
    if kind != MULTIPROCESSORS {
        return Err(Status::INVALID_RESOURCE_TYPE
            .because("the CPU device has multiprocessors as a resource, and no other"));
    }
    let workers = device::workers()?;
    let mut resource = DeviceResource::EMPTY;
    resource.kind = MULTIPROCESSORS;
    resource.count = workers;
    resource.least = workers;
    resource.alignment = workers;
    Ok(resource)
}

/// Fails unless it is of the kind that [`resource`] gives.
pub(crate) fn check(resource: &DeviceResource) -> Result {
    let workers = device::workers()?;
    match (resource.kind, resource.count) {
        (MULTIPROCESSORS, count) if count == workers => Ok(()),
        (MULTIPROCESSORS, 0) => Err(Status::INVALID_VALUE.because("a part has multiprocessors")),
        (MULTIPROCESSORS, _) => Err(Status::INVALID_VALUE
            .because("the CPU device has no part with so many multiprocessors")),
        _ => Err(Status::INVALID_VALUE.because("the resource is no multiprocessors")),
    }
}

pub(crate) fn describe() -> usize {
    DESCRIPTIONS.insert(Arc::new(Description))
}

pub(crate) fn create(description: usize, device: CUdevice, flags: c_uint) -> Result<usize> {
    device::check(device)?;
    // Without a description it has all resources, as on NVIDIA's driver.
    let is_known = description == 0 || DESCRIPTIONS.get(description).is_some();
    if !is_known || flags > 1 {
        return Err(Status::INVALID_VALUE
            .because("a green context has a description of resources, and flag 0 or 1"));
    }
    Ok(GREEN.insert(Context::new(device, 0, ContextKind::Green)?))
}

pub(crate) fn destroy(green: usize) -> Result {
    let context = GREEN.remove(green).ok_or_else(unknown)?;
    context::pop_if(&context);
    teardown::destroy(&context);
    Ok(())
}

pub(crate) fn find(green: usize) -> Result<Arc<Context>> {
    GREEN.get(green).ok_or_else(unknown)
}

/// The handle of a green context, or 0 for other contexts.
pub(crate) fn handle_of(context: &Arc<Context>) -> usize {
    GREEN.find(|green| Arc::ptr_eq(green, context)).unwrap_or(0)
}

fn unknown() -> super::status::Failure {
    Status::INVALID_CONTEXT.because("no live green context has this handle")
}

/// A stream in a green context, whichever is current.
pub(crate) fn stream(green: usize, flags: c_uint, priority: c_int) -> Result<usize> {
    let context = find(green)?;
    if flags != NON_BLOCKING {
        return Err(Status::INVALID_VALUE
            .because("a stream of a green context is made with CU_STREAM_NON_BLOCKING"));
    }
    context::push(context);
    let made = stream::create(flags, priority);
    context::pop();
    made
}
