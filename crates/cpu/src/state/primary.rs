//! The primary context of each device, which its users share and count.

use std::ffi::c_uint;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::context::{self, Context, ContextKind};
use super::device::MAX_DEVICES;
use super::handle;
use super::status::{Result, Status};
use super::teardown;
use api::CUdevice;

#[derive(Default)]
struct Primary {
    context: Option<Arc<Context>>,
    /// The handle of all primary contexts of the device; 0 before the first.
    handle: usize,
    references: u32,
    flags: c_uint,
}

static PRIMARIES: [Mutex<Primary>; MAX_DEVICES as usize] = [const {
    Mutex::new(Primary {
        context: None,
        handle: 0,
        references: 0,
        flags: 0,
    })
}; MAX_DEVICES as usize];

/// `device` has passed `device::check`.
fn primary(device: CUdevice) -> MutexGuard<'static, Primary> {
    PRIMARIES[device as usize]
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn retain(device: CUdevice) -> Result<Arc<Context>> {
    let mut primary = primary(device);
    if let Some(context) = primary.context.clone() {
        context.check()?;
        primary.references += 1;
        return Ok(context);
    }
    if primary.handle == 0 {
        primary.handle = handle::reserve();
    }
    let context =
        Context::with_handle(primary.handle, device, primary.flags, ContextKind::Primary)?;
    primary.references += 1;
    primary.context = Some(context.clone());
    Ok(context)
}

pub(crate) fn release(device: CUdevice) -> Result {
    let mut primary = primary(device);
    primary.references = primary.references.checked_sub(1).ok_or_else(|| {
        Status::INVALID_CONTEXT.because("the primary context is released more often than retained")
    })?;
    // Like on NVIDIA's driver, a context with a fault stays.
    let has_fault = primary
        .context
        .as_ref()
        .is_some_and(|context| context.check().is_err());
    let last = if primary.references == 0 && !has_fault {
        primary.context.take()
    } else {
        None
    };
    drop(primary);
    if let Some(context) = last {
        teardown::destroy(&context);
    }
    Ok(())
}

/// Destroys the primary context; whoever retained it still has to release it.
pub(crate) fn reset(device: CUdevice) {
    let taken = primary(device).context.take();
    if let Some(context) = taken {
        teardown::destroy(&context);
    }
}

pub(crate) fn set_flags(device: CUdevice, flags: c_uint) -> Result {
    context::check_flags(flags)?;
    let mut primary = primary(device);
    primary.flags = flags;
    if let Some(context) = &primary.context {
        context.flags.store(flags, Ordering::Relaxed);
    }
    Ok(())
}

pub(crate) fn state(device: CUdevice) -> (c_uint, bool) {
    let primary = primary(device);
    (primary.flags, primary.context.is_some())
}
