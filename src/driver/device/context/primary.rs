//! Resets of primary contexts, which make their handles invalid.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::driver::device::Device;
use crate::driver::error::Error;
use api::DriverKind;

/// Reset counts of primary contexts, by driver and device.
static RESETS: [[AtomicU32; MOST_DEVICES]; 2] =
    [const { [const { AtomicU32::new(0) }; MOST_DEVICES] }; 2];
/// The reset count of contexts that are not primary.
pub(super) static NEVER: AtomicU32 = AtomicU32::new(0);
const MOST_DEVICES: usize = 64;

/// The reset count of a device's primary context.
pub(super) fn reset_count(device: &Device) -> &'static AtomicU32 {
    let driver = usize::from(device.driver().kind() == DriverKind::Cpu);
    let place = (device.ordinal() as usize).min(MOST_DEVICES - 1);
    &RESETS[driver][place]
}

impl Device {
    /// Resets the primary context, for all its users (`cuDevicePrimaryCtxReset_v2`). Every
    /// call on a [`Context::primary`](crate::driver::Context::primary) created before
    /// returns [`Error::ContextReset`], and its objects are dropped without calling the
    /// driver.
    ///
    /// # Safety
    /// No other thread may be using the primary context now, and no other library
    /// of the process anything made in it any more.
    pub unsafe fn reset_primary(&self) -> Result<(), Error> {
        let reset_count = reset_count(self);
        reset_count.fetch_add(1, Ordering::AcqRel);
        // SAFETY: the caller answers for the users.
        let reset = unsafe { self.api().cuDevicePrimaryCtxReset_v2(self.handle) };
        if reset.is_err() {
            reset_count.fetch_sub(1, Ordering::AcqRel);
        }
        Ok(reset?)
    }
}
