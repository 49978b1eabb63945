//! The handle of a library, which its modules share.

use crate::driver::device::context::report_drop;
use crate::driver::device::driver::Driver;
use crate::driver::module::bindings::Bindings;
use api::CUlibrary;

/// Unloaded when the last module, kernel and clone is gone.
#[derive(Debug)]
pub(crate) struct LibraryHandle {
    pub driver: Driver,
    pub handle: CUlibrary,
    /// Resources bound to references. They are kept here, as
    /// [`Library::module`](crate::driver::Library::module) returns a new module value each
    /// time.
    pub bound: Bindings,
}

// SAFETY: a library's handle may be used from any thread; the driver locks by itself.
unsafe impl Send for LibraryHandle {}
// SAFETY: as above.
unsafe impl Sync for LibraryHandle {}

impl Drop for LibraryHandle {
    fn drop(&mut self) {
        // A kernel may still run the code: leak it.
        if !self.bound.wait_until_unused() {
            return self.bound.leak();
        }
        // SAFETY: loaded once, unloaded once; modules hold the library.
        report_drop(unsafe { self.driver.api().cuLibraryUnload(self.handle) });
    }
}
