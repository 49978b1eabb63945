//! Notifications of a device.

use std::ffi::c_void;

use crate::driver::device::Device;
use crate::driver::device::context::report_drop;
use crate::driver::error::Error;
use crate::driver::process::listener::Listener;
use api::AsyncNotification;

/// `CU_ASYNC_NOTIFICATION_TYPE_OVER_BUDGET`
const OVER_BUDGET: u32 = 1;

type OnOverBudget = Box<dyn Fn(u64) + Send + Sync>;

/// A function that a driver calls when the process has more memory of a device than its budget,
/// until this is dropped; see [`Device::on_over_budget`].
#[derive(Debug)]
pub struct BudgetListener {
    device: Device,
    handle: *mut c_void,
}

// SAFETY: the handle is a name; the driver locks by itself.
unsafe impl Send for BudgetListener {}
// SAFETY: as above.
unsafe impl Sync for BudgetListener {}

impl Device {
    /// Calls a function with the bytes above the budget whenever the process has more of the
    /// device's memory than the system lets it have (`cuDeviceRegisterAsyncNotification`, from
    /// CUDA 12.4, and `cuDeviceUnregisterAsyncNotification` when the result is dropped). The
    /// function should return soon, and is kept as long as the process. Devices without budgets
    /// say `CUDA_ERROR_NOT_SUPPORTED`, as the CPU device does.
    pub fn on_over_budget(
        &self,
        function: impl Fn(u64) + Send + Sync + 'static,
    ) -> Result<BudgetListener, Error> {
        let listener = Listener::<OnOverBudget>::new(Box::new(function));
        let mut handle = std::ptr::null_mut();
        let api = self.api();
        let data = listener.data();
        // SAFETY: the function takes what it is given, which is never freed; writes one handle.
        unsafe {
            api.cuDeviceRegisterAsyncNotification(self.raw(), Some(called), data, &mut handle)
        }?;
        Ok(BudgetListener {
            device: *self,
            handle,
        })
    }
}

unsafe extern "C" fn called(
    notification: *mut AsyncNotification,
    data: *mut c_void,
    _handle: *mut c_void,
) {
    if data.is_null() || notification.is_null() {
        return;
    }
    // SAFETY: the driver gives back what was registered.
    let listener = unsafe { Listener::<OnOverBudget>::from_data(data) };
    // SAFETY: a notification, for the time of the call.
    let notification = unsafe { *notification };
    if notification.kind == OVER_BUDGET {
        listener.call(|function| function(notification.bytes_over_budget));
    }
}

impl Drop for BudgetListener {
    fn drop(&mut self) {
        let (api, handle) = (self.device.api(), self.handle);
        // SAFETY: registered once, ended once.
        report_drop(unsafe { api.cuDeviceUnregisterAsyncNotification(self.device.raw(), handle) });
    }
}
