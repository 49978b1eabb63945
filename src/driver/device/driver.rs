//! A loaded and initialised driver.

use std::sync::Once;

use crate::driver::error::Error;
use api::cuda_version;
use api::{Api, DriverKind};

/// An initialised driver (`cuInit`). Both drivers can be open at once.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::Driver;
/// let driver = Driver::cpu()?;
/// println!("{} has {} device(s)", driver.describe(), driver.device_count()?);
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    api: &'static Api,
}

impl Driver {
    /// Opens NVIDIA's driver (`libcuda.so.1`, or the file that the environment
    /// variable `PTXKIT_LIBCUDA` names) and starts it (`cuInit`).
    ///
    /// A driver that is older than entries of this crate starts as well: what needs them is
    /// [`Error::EntryMissing`]. That some are missing is logged once a process (`tracing`, level
    /// info), and [`report`](Driver::report) lists them.
    pub fn nvidia() -> Result<Driver, Error> {
        let driver = Driver::start(Api::nvidia()?)?;
        static SAID: Once = Once::new();
        SAID.call_once(|| driver.say_what_is_missing());
        Ok(driver)
    }

    fn say_what_is_missing(&self) {
        let entries = self.api.entries();
        // Those without a version are of the CPU device alone.
        let missing: Vec<_> = entries
            .filter(|(_, present, since)| !present && *since > 0)
            .map(|(.., since)| since)
            .collect();
        if let Some(&newest) = missing.iter().max() {
            tracing::info!(
                driver = %self.describe(),
                missing = missing.len(),
                up_to = %cuda_version(newest),
                "the driver lacks entries of later CUDA versions; `ptxkit devices --report` lists them"
            );
        }
    }

    /// The embedded CPU device.
    #[cfg(feature = "cpu")]
    pub fn cpu() -> Result<Driver, Error> {
        Driver::start(cpu::table())
    }

    /// A driver with a table of entries that the caller made: with entries removed,
    /// wrapped, or implemented by another library.
    ///
    /// # Safety
    /// Each entry must be what the CUDA documentation says of its name.
    pub unsafe fn from_api(api: &'static Api) -> Result<Driver, Error> {
        Driver::start(api)
    }

    fn start(api: &'static Api) -> Result<Driver, Error> {
        // SAFETY: 0 is the only flag there is; the call may be repeated.
        unsafe { api.cuInit(0) }?;
        Ok(Driver { api })
    }

    /// The table of entry points, for calls that the safe layer does not have.
    pub fn api(&self) -> &'static Api {
        self.api
    }

    /// Which driver it is.
    pub fn kind(&self) -> DriverKind {
        self.api.kind()
    }

    /// The CUDA version it serves, 13000 for 13.0 (`cuDriverGetVersion`).
    pub fn version(&self) -> i32 {
        self.api.version()
    }

    /// Kind and version as text: `NVIDIA driver (CUDA 13.0)`.
    pub fn describe(&self) -> String {
        format!("{} (CUDA {})", self.kind(), cuda_version(self.version()))
    }

    /// The number of devices (`cuDeviceGetCount`) that `CUDA_VISIBLE_DEVICES` leaves
    /// visible.
    pub fn device_count(&self) -> Result<u32, Error> {
        let mut count = 0;
        // SAFETY: writes one integer.
        unsafe { self.api.cuDeviceGetCount(&mut count) }?;
        Ok(u32::try_from(count).unwrap_or(0))
    }
}
