//! A device and what it says about itself.

use std::ffi::{c_char, c_int};

use super::api::{Api, CUdevice, DriverKind};
use super::attribute::Attribute;
use super::context::ContextFlags;
use super::error::Error;
use super::open::Driver;

/// One device of a [`Driver`]. Cheap to copy; owns nothing.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    driver: Driver,
    handle: CUdevice,
    ordinal: u32,
}

/// Who may use a device (`CUcomputemode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ComputeMode {
    /// Any number of processes.
    Default,
    /// Nobody.
    Prohibited,
    /// One process at a time.
    ExclusiveProcess,
    /// What CUDA numbers otherwise; 1 was one thread at a time.
    Other(i32),
}

/// What a launch is checked against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceLimits {
    /// The most threads of a block in all.
    pub threads_per_block: u32,
    /// The most threads of a block in x, y and z.
    pub block: [u32; 3],
    /// The most blocks of a grid in x, y and z.
    pub grid: [u32; 3],
    /// Bytes of shared memory a block has without asking.
    pub shared_per_block: u32,
    /// Bytes a block can have when the kernel opts in
    /// (`CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`).
    pub shared_per_block_optin: u32,
}

impl Device {
    pub(crate) fn new(driver: Driver, handle: CUdevice, ordinal: u32) -> Device {
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
        self.text(|buffer, len| unsafe { self.api().cuDeviceGetName(buffer, len, self.handle) })
    }

    /// Its PCI address, `0000:3b:00.0` (`cuDeviceGetPCIBusId`).
    pub fn pci_bus_id(&self) -> Result<String, Error> {
        // SAFETY: the buffer has the length given.
        self.text(|buffer, len| unsafe { self.api().cuDeviceGetPCIBusId(buffer, len, self.handle) })
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

    /// Its 16-byte identity (`cuDeviceGetUuid_v2`).
    pub fn uuid(&self) -> Result<[u8; 16], Error> {
        let mut uuid = super::api::CUuuid { bytes: [0; 16] };
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

    /// One number about the device (`cuDeviceGetAttribute`).
    pub fn attribute(&self, attribute: Attribute) -> Result<i32, Error> {
        let mut value = 0;
        // SAFETY: writes one integer; an unknown attribute is an error of the driver's.
        unsafe {
            self.api()
                .cuDeviceGetAttribute(&mut value, attribute.0, self.handle)
        }?;
        Ok(value)
    }

    /// Who may use the device (`CU_DEVICE_ATTRIBUTE_COMPUTE_MODE`).
    pub fn compute_mode(&self) -> Result<ComputeMode, Error> {
        Ok(match self.attribute(Attribute::COMPUTE_MODE)? {
            0 => ComputeMode::Default,
            2 => ComputeMode::Prohibited,
            3 => ComputeMode::ExclusiveProcess,
            other => ComputeMode::Other(other),
        })
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
            self.api()
                .cuDevicePrimaryCtxSetFlags_v2(self.handle, flags.into().0)
        }
    }

    /// Destroys what lives in the primary context, whoever uses it
    /// (`cuDevicePrimaryCtxReset_v2`).
    ///
    /// # Safety
    /// Nothing made in the primary context may be used any more, by any library
    /// of the process.
    pub unsafe fn reset_primary(&self) -> Result<(), Error> {
        // SAFETY: the caller answers for the users.
        unsafe { self.api().cuDevicePrimaryCtxReset_v2(self.handle) }
    }

    /// Compute capability, `(9, 0)` for an H200.
    pub fn compute_capability(&self) -> Result<(u32, u32), Error> {
        let major = self.attribute(Attribute::COMPUTE_CAPABILITY_MAJOR)?;
        let minor = self.attribute(Attribute::COMPUTE_CAPABILITY_MINOR)?;
        Ok((major.max(0) as u32, minor.max(0) as u32))
    }

    /// What code for this device is compiled for: `sm_90a` and the like on
    /// NVIDIA's driver (from 9.0 on with the suffix `a`: the driver compiles for
    /// the exact architecture), `cpu-x86_64` on the CPU device.
    pub fn target(&self) -> Result<String, Error> {
        if self.driver.kind() == DriverKind::Cpu {
            return Ok(format!("cpu-{}", std::env::consts::ARCH));
        }
        let (major, minor) = self.compute_capability()?;
        let suffix = if major >= 9 { "a" } else { "" };
        Ok(format!("sm_{major}{minor}{suffix}"))
    }

    /// What launches on it are checked against.
    pub fn limits(&self) -> Result<DeviceLimits, Error> {
        let get = |attribute| Ok::<_, Error>(self.attribute(attribute)?.max(0) as u32);
        let shared_per_block = get(Attribute::MAX_SHARED_MEMORY_PER_BLOCK)?;
        Ok(DeviceLimits {
            threads_per_block: get(Attribute::MAX_THREADS_PER_BLOCK)?,
            block: [
                get(Attribute::MAX_BLOCK_DIM_X)?,
                get(Attribute::MAX_BLOCK_DIM_Y)?,
                get(Attribute::MAX_BLOCK_DIM_Z)?,
            ],
            grid: [
                get(Attribute::MAX_GRID_DIM_X)?,
                get(Attribute::MAX_GRID_DIM_Y)?,
                get(Attribute::MAX_GRID_DIM_Z)?,
            ],
            shared_per_block,
            shared_per_block_optin: get(Attribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?
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
