//! A driver, started.

use std::ffi::CString;

use crate::driver::device::Device;
use crate::driver::error::Error;
use api::CudaError;
use api::cuda_version;
use api::{Api, CUdevice, DriverKind};

/// A driver that answered to `cuInit`. Both drivers can be open at once.
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
    pub fn nvidia() -> Result<Driver, Error> {
        Driver::start(Api::nvidia()?)
    }

    /// The embedded CPU device.
    #[cfg(feature = "cpu")]
    pub fn cpu() -> Result<Driver, Error> {
        Driver::start(cpu::entries::table())
    }

    /// A driver behind a table of the caller's making: entries taken away,
    /// wrapped, or served by another library.
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

    /// Kind and version in words: `NVIDIA driver (CUDA 13.0)`.
    pub fn describe(&self) -> String {
        format!("{} (CUDA {})", self.kind(), cuda_version(self.version()))
    }

    /// How many devices it has (`cuDeviceGetCount`): as many as
    /// `CUDA_VISIBLE_DEVICES` lets be seen.
    pub fn device_count(&self) -> Result<u32, Error> {
        let mut count = 0;
        // SAFETY: writes one integer.
        unsafe { self.api.cuDeviceGetCount(&mut count) }?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// Device `ordinal`, counted from 0 (`cuDeviceGet`).
    pub fn device(&self, ordinal: u32) -> Result<Device, Error> {
        let count = self.device_count()?;
        if ordinal >= count {
            return Err(Error::NoSuchDevice {
                driver: self.kind(),
                asked: ordinal,
                count,
            });
        }
        let mut handle = 0;
        // SAFETY: writes one integer; the ordinal is below the count, which is an `i32`.
        unsafe { self.api.cuDeviceGet(&mut handle, ordinal as i32) }?;
        Ok(Device::new(*self, handle, ordinal))
    }

    /// The device at a PCI address, as `0000:3b:00.0` (`cuDeviceGetByPCIBusId`).
    pub fn device_by_pci(&self, address: &str) -> Result<Device, Error> {
        let unknown = || Error::UnknownDevice {
            driver: self.kind(),
            asked: format!("PCI address {address}"),
        };
        let text = CString::new(address).map_err(|_| unknown())?;
        let mut handle = 0;
        // SAFETY: the text ends in NUL; writes one integer.
        match unsafe { self.api.cuDeviceGetByPCIBusId(&mut handle, text.as_ptr()) } {
            Ok(()) => self.device_of(handle),
            Err(error) if error.code() == Some(CudaError::INVALID_DEVICE) => Err(unknown()),
            Err(error) if error.code() == Some(CudaError::INVALID_VALUE) => Err(unknown()),
            Err(error) => Err(error.into()),
        }
    }

    /// The device with an identity, 16 bytes as [`Device::uuid`] gives them.
    pub fn device_by_uuid(&self, uuid: [u8; 16]) -> Result<Device, Error> {
        for device in self.devices()? {
            if device.uuid()? == uuid {
                return Ok(device);
            }
        }
        let digits: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        Err(Error::UnknownDevice {
            driver: self.kind(),
            asked: format!("identity {digits}"),
        })
    }

    /// The device of the context that is current on this thread (`cuCtxGetDevice`).
    pub(crate) fn current_device(&self) -> Result<Device, Error> {
        let mut handle = 0;
        // SAFETY: writes one integer.
        unsafe { self.api.cuCtxGetDevice(&mut handle) }?;
        self.device_of(handle)
    }

    pub(crate) fn device_of(&self, handle: CUdevice) -> Result<Device, Error> {
        let found = self
            .devices()?
            .into_iter()
            .find(|device| device.raw() == handle);
        found.ok_or_else(|| Error::UnknownDevice {
            driver: self.kind(),
            asked: format!("handle {handle}"),
        })
    }

    /// Fails for a device of another driver, whose number means another one here.
    pub(crate) fn knows(&self, device: &Device) -> Result<(), Error> {
        match std::ptr::eq(self.api, device.api()) {
            true => Ok(()),
            false => Err(Error::UnknownDevice {
                driver: self.kind(),
                asked: format!("other driver's handle {}", device.raw()),
            }),
        }
    }

    /// All devices in order.
    pub fn devices(&self) -> Result<Vec<Device>, Error> {
        (0..self.device_count()?).map(|i| self.device(i)).collect()
    }
}
