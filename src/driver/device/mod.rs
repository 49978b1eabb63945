//! Devices and their properties.

pub(crate) mod attribute;
pub(crate) mod context;
pub(crate) mod driver;
pub(crate) mod report;
pub(crate) mod select;
pub(crate) mod settings;

use std::ffi::{CString, c_char, c_int};

use crate::driver::device::attribute::{AttributeValue, ComputeMode, DeviceAttribute};
use crate::driver::device::driver::Driver;
use crate::driver::device::settings::ContextFlags;
use crate::driver::error::Error;
use api::CudaError;
use api::{Api, CUdevice, DriverKind};
use image::{Suffix, Target};

/// One device of a [`Driver`]. Cheap to copy; owns nothing.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    driver: Driver,
    handle: CUdevice,
    ordinal: u32,
}

/// The limits that a launch is checked against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Maximum number of threads in a block.
    pub threads_per_block: u32,
    /// Maximum block dimensions in x, y and z.
    pub block: [u32; 3],
    /// Maximum grid dimensions in x, y and z.
    pub grid: [u32; 3],
    /// Bytes of shared memory per block without opt-in.
    pub shared_per_block: u32,
    /// Bytes of shared memory per block with opt-in
    /// (`CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`).
    pub shared_per_block_optin: u32,
}

impl Device {
    fn new(driver: Driver, handle: CUdevice, ordinal: u32) -> Device {
        Device {
            driver,
            handle,
            ordinal,
        }
    }

    /// The driver the device belongs to.
    pub fn driver(&self) -> Driver {
        self.driver
    }

    pub(crate) fn api(&self) -> &'static Api {
        self.driver.api()
    }

    /// Its number among the driver's devices, from 0.
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// The raw handle.
    pub fn raw(&self) -> CUdevice {
        self.handle
    }

    /// Its name (`cuDeviceGetName`).
    pub fn name(&self) -> Result<String, Error> {
        // SAFETY: the buffer has the length given.
        self.text(|buffer, len| unsafe {
            Ok(self.api().cuDeviceGetName(buffer, len, self.handle)?)
        })
    }

    /// Its PCI address, `0000:3b:00.0` (`cuDeviceGetPCIBusId`).
    pub fn pci_bus_id(&self) -> Result<String, Error> {
        // SAFETY: the buffer has the length given.
        self.text(|buffer, len| unsafe {
            Ok(self.api().cuDeviceGetPCIBusId(buffer, len, self.handle)?)
        })
    }

    fn text(
        &self,
        get: impl FnOnce(*mut c_char, c_int) -> Result<(), Error>,
    ) -> Result<String, Error> {
        let mut buffer = [0u8; 256];
        get(buffer.as_mut_ptr().cast(), buffer.len() as c_int)?;
        let end = buffer.iter().position(|&byte| byte == 0);
        Ok(String::from_utf8_lossy(&buffer[..end.unwrap_or(buffer.len())]).into_owned())
    }

    /// Its UUID, 16 bytes (`cuDeviceGetUuid_v2`).
    pub fn uuid(&self) -> Result<[u8; 16], Error> {
        let mut uuid = api::CUuuid { bytes: [0; 16] };
        // SAFETY: writes 16 bytes.
        unsafe { self.api().cuDeviceGetUuid_v2(&mut uuid, self.handle) }?;
        Ok(uuid.bytes.map(|byte| byte as u8))
    }

    /// Bytes of memory (`cuDeviceTotalMem_v2`).
    pub fn total_memory(&self) -> Result<usize, Error> {
        let mut bytes = 0;
        // SAFETY: writes one integer.
        unsafe { self.api().cuDeviceTotalMem_v2(&mut bytes, self.handle) }?;
        Ok(bytes)
    }

    /// An attribute of the device (`cuDeviceGetAttribute`). An attribute newer than the
    /// driver is `CUDA_ERROR_INVALID_VALUE`.
    pub fn attribute<T: AttributeValue>(&self, attribute: DeviceAttribute<T>) -> Result<T, Error> {
        let mut value = 0;
        // SAFETY: writes one integer; an unknown attribute is an error of the driver's.
        unsafe {
            self.api()
                .cuDeviceGetAttribute(&mut value, attribute.number(), self.handle)
        }?;
        Ok(T::from_number(value))
    }

    /// Who may use the device.
    pub fn compute_mode(&self) -> Result<ComputeMode, Error> {
        self.attribute(DeviceAttribute::COMPUTE_MODE)
    }

    /// Windows' name for the device, 8 bytes, and its place among the linked
    /// adapters of that name, one bit (`cuDeviceGetLuid`), which D3D12 and
    /// Vulkan give too. Drivers of other systems lack the entry.
    pub fn luid(&self) -> Result<([u8; 8], u32), Error> {
        let (mut luid, mut node) = ([0_u8; 8], 0);
        // SAFETY: writes 8 bytes and an integer.
        unsafe {
            self.api()
                .cuDeviceGetLuid(luid.as_mut_ptr().cast(), &mut node, self.handle)
        }?;
        Ok((luid, node))
    }

    /// Whether contexts can have some of its multiprocessors only
    /// (`cuDeviceGetExecAffinitySupport`, from CUDA 11.4), which takes MPS; see
    /// [`Context::with_multiprocessors`](crate::driver::Context::with_multiprocessors).
    pub fn can_divide_multiprocessors(&self) -> Result<bool, Error> {
        let mut supported = 0;
        // SAFETY: writes one integer.
        unsafe {
            self.api()
                .cuDeviceGetExecAffinitySupport(&mut supported, 0, self.handle)
        }?;
        Ok(supported != 0)
    }

    /// The flags that the primary context has or will have, and whether anybody
    /// uses it (`cuDevicePrimaryCtxGetState`).
    pub fn primary_state(&self) -> Result<(ContextFlags, bool), Error> {
        let (mut flags, mut active) = (0, 0);
        // SAFETY: writes two integers.
        unsafe {
            self.api()
                .cuDevicePrimaryCtxGetState(self.handle, &mut flags, &mut active)
        }?;
        Ok((ContextFlags(flags), active != 0))
    }

    /// Sets the flags of the primary context (`cuDevicePrimaryCtxSetFlags_v2`).
    pub fn set_primary_flags(&self, flags: impl Into<ContextFlags>) -> Result<(), Error> {
        // SAFETY: plain numbers.
        unsafe {
            Ok(self
                .api()
                .cuDevicePrimaryCtxSetFlags_v2(self.handle, flags.into().0)?)
        }
    }

    /// Compute capability, `(9, 0)` for an H200.
    pub fn compute_capability(&self) -> Result<(u32, u32), Error> {
        let major = self.attribute(DeviceAttribute::COMPUTE_CAPABILITY_MAJOR)?;
        let minor = self.attribute(DeviceAttribute::COMPUTE_CAPABILITY_MINOR)?;
        Ok((major, minor))
    }

    /// The compilation target of this device: `sm_90a` and the like on NVIDIA's driver
    /// (with the suffix `a` from 9.0 on, as the driver compiles for the exact
    /// architecture), `cpu-x86_64` on the CPU device.
    pub fn target(&self) -> Result<String, Error> {
        self.architecture().map(Device::target_of)
    }

    /// The target of a device with this architecture.
    pub(crate) fn target_of(architecture: Option<Target>) -> String {
        match architecture {
            Some(architecture) => architecture.to_string(),
            None => format!("cpu-{}", std::env::consts::ARCH),
        }
    }

    /// The architecture that NVIDIA's driver compiles for; `None` for the CPU device, which
    /// takes PTX for any.
    pub(crate) fn architecture(&self) -> Result<Option<Target>, Error> {
        if self.driver.kind() == DriverKind::Cpu {
            return Ok(None);
        }
        let (major, minor) = self.compute_capability()?;
        let suffix = match major {
            9.. => Suffix::Architecture,
            _ => Suffix::None,
        };
        Ok(Some(Target::new(10 * major + minor, suffix)))
    }

    /// The limits that launches on it are checked against.
    pub fn limits(&self) -> Result<DeviceLimits, Error> {
        let get = |attribute: DeviceAttribute<u32>| self.attribute(attribute);
        // Far below 4 GiB on any device.
        let bytes =
            |attribute: DeviceAttribute<usize>| Ok::<_, Error>(self.attribute(attribute)? as u32);
        let shared_per_block = bytes(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK)?;
        Ok(DeviceLimits {
            threads_per_block: get(DeviceAttribute::MAX_THREADS_PER_BLOCK)?,
            block: [
                get(DeviceAttribute::MAX_BLOCK_DIM_X)?,
                get(DeviceAttribute::MAX_BLOCK_DIM_Y)?,
                get(DeviceAttribute::MAX_BLOCK_DIM_Z)?,
            ],
            grid: [
                get(DeviceAttribute::MAX_GRID_DIM_X)?,
                get(DeviceAttribute::MAX_GRID_DIM_Y)?,
                get(DeviceAttribute::MAX_GRID_DIM_Z)?,
            ],
            shared_per_block,
            shared_per_block_optin: bytes(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?
                .max(shared_per_block),
        })
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        std::ptr::eq(self.api(), other.api()) && self.handle == other.handle
    }
}

impl Eq for Device {}

impl Driver {
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
        unsafe { self.api().cuDeviceGet(&mut handle, ordinal as i32) }?;
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
        match unsafe { self.api().cuDeviceGetByPCIBusId(&mut handle, text.as_ptr()) } {
            Ok(()) => self.device_of(handle),
            Err(error) if error.code() == Some(CudaError::INVALID_DEVICE) => Err(unknown()),
            Err(error) if error.code() == Some(CudaError::INVALID_VALUE) => Err(unknown()),
            Err(error) => Err(error.into()),
        }
    }

    /// The device with a UUID, 16 bytes as returned by [`Device::uuid`].
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
        unsafe { self.api().cuCtxGetDevice(&mut handle) }?;
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

    /// Fails for a device of another driver, whose handle means another device here.
    pub(crate) fn check_device(&self, device: &Device) -> Result<(), Error> {
        if std::ptr::eq(self.api(), device.api()) {
            Ok(())
        } else {
            Err(Error::UnknownDevice {
                driver: self.kind(),
                asked: format!("other driver's handle {}", device.raw()),
            })
        }
    }

    /// All devices in order.
    pub fn devices(&self) -> Result<Vec<Device>, Error> {
        (0..self.device_count()?).map(|i| self.device(i)).collect()
    }
}
