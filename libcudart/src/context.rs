//! The driver, and the context that a thread works in: the current one, or the primary one
//! of the device that the thread chose.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use api::{Api, CUcontext};

use crate::entry::driver;
use crate::error::{Code, Result, check};

thread_local! {
    /// The device that this thread chose.
    static CHOSEN: Cell<c_int> = const { Cell::new(0) };
    static SET: Cell<Set> = const { Cell::new(Set { context: 0, resets: 0 }) };
}

/// The context that the runtime made current on a thread, and how many resets there had been.
#[derive(Clone, Copy)]
struct Set {
    context: usize,
    resets: usize,
}

/// How often a device was reset: a primary context that was current before is none any more.
static RESETS: AtomicUsize = AtomicUsize::new(0);

/// The handles of the primary contexts that the runtime retains, by device.
static RETAINED: Mutex<BTreeMap<c_int, usize>> = Mutex::new(BTreeMap::new());

fn retained() -> MutexGuard<'static, BTreeMap<c_int, usize>> {
    RETAINED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The driver's entries, after `cuInit`.
pub(crate) fn driver() -> Result<&'static Api> {
    static DRIVER: LazyLock<Result<&'static Api>> = LazyLock::new(|| {
        let api = Api::shared_library().map_err(|_| Code::INSUFFICIENT_DRIVER)?;
        match api.cuInit {
            // SAFETY: the entry takes a number.
            Some(init) => check(unsafe { init(0) }).map(|()| api),
            None => Err(Code::INSUFFICIENT_DRIVER),
        }
    });
    *DRIVER
}

pub(crate) fn device_count() -> Result<c_int> {
    let mut count = 0;
    driver!(cuDeviceGetCount(&mut count))?;
    match count {
        0 => Err(Code::NO_DEVICE),
        _ => Ok(count),
    }
}

/// Fails unless there is such a device.
pub(crate) fn check_device(device: c_int) -> Result {
    if (0..device_count()?).contains(&device) {
        Ok(())
    } else {
        Err(Code::INVALID_DEVICE)
    }
}

/// The primary context of a device.
pub(crate) fn primary(device: c_int) -> Result<CUcontext> {
    check_device(device)?;
    let mut retained = retained();
    if let Some(context) = retained.get(&device) {
        return Ok(std::ptr::with_exposed_provenance_mut(*context));
    }
    let mut context = std::ptr::null_mut();
    driver!(cuDevicePrimaryCtxRetain(&mut context, device))?;
    retained.insert(device, context.expose_provenance());
    Ok(context)
}

/// Makes a context current, if none is.
pub(crate) fn ready() -> Result {
    let mut context = std::ptr::null_mut();
    driver!(cuCtxGetCurrent(&mut context))?;
    let set = SET.get();
    let is_stale = context.addr() == set.context && set.resets != RESETS.load(Ordering::Acquire);
    if !context.is_null() && !is_stale {
        return Ok(());
    }
    choose(CHOSEN.get())
}

/// Makes the primary context of a device current on this thread.
pub(crate) fn choose(device: c_int) -> Result {
    let resets = RESETS.load(Ordering::Acquire);
    let context = primary(device)?;
    driver!(cuCtxSetCurrent(context))?;
    CHOSEN.set(device);
    SET.set(Set {
        context: context.addr(),
        resets,
    });
    Ok(())
}

/// Destroys all of a device's primary context; the next call makes it anew.
pub(crate) fn reset(device: c_int) -> Result {
    let was_retained = retained().remove(&device).is_some();
    RESETS.fetch_add(1, Ordering::AcqRel);
    if was_retained {
        driver!(cuCtxSetCurrent(std::ptr::null_mut()))?;
        driver!(cuDevicePrimaryCtxReset_v2(device))?;
        driver!(cuDevicePrimaryCtxRelease_v2(device))?;
    }
    Ok(())
}

/// The device of the current context, or the one that the thread chose.
pub(crate) fn device() -> Result<c_int> {
    let mut context = std::ptr::null_mut();
    driver!(cuCtxGetCurrent(&mut context))?;
    if context.is_null() {
        return Ok(CHOSEN.get());
    }
    let mut device = 0;
    driver!(cuCtxGetDevice(&mut device))?;
    Ok(device)
}
