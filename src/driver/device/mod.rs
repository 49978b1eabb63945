//! A device and what it says about itself.

pub(crate) mod attribute;
pub(crate) mod context;
pub(crate) mod open;
pub(crate) mod select;
pub(crate) mod settings;

use std::ffi::{c_char, c_int};
use std::sync::atomic::Ordering;

use crate::driver::device::attribute::{Attribute, AttributeValue};
use crate::driver::device::context::resets;
use crate::driver::device::open::Driver;
use crate::driver::device::settings::ContextFlags;
use crate::driver::error::Error;
use api::{Api, CUdevice, DriverKind};

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

    /// Its 16-byte identity (`cuDeviceGetUuid_v2`).
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

    /// A fact about the device, in the type of what it says
    /// (`cuDeviceGetAttribute`); an attribute newer than the driver is
    /// `CUDA_ERROR_INVALID_VALUE`.
    pub fn attribute<T: AttributeValue>(&self, attribute: Attribute<T>) -> Result<T, Error> {
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
        self.attribute(Attribute::COMPUTE_MODE)
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

    /// Destroys what lives in the primary context, whoever uses it
    /// (`cuDevicePrimaryCtxReset_v2`). What was made here of
    /// [`Context::primary`](crate::driver::Context::primary) says
    /// [`Error::ContextReset`] from then on, and is dropped without the driver.
    ///
    /// # Safety
    /// No other thread may be using the primary context now, and no other library
    /// of the process anything made in it any more.
    pub unsafe fn reset_primary(&self) -> Result<(), Error> {
        let resets = resets(self);
        resets.fetch_add(1, Ordering::AcqRel);
        // SAFETY: the caller answers for the users.
        let reset = unsafe { self.api().cuDevicePrimaryCtxReset_v2(self.handle) };
        if reset.is_err() {
            resets.fetch_sub(1, Ordering::AcqRel);
        }
        Ok(reset?)
    }

    /// Compute capability, `(9, 0)` for an H200.
    pub fn compute_capability(&self) -> Result<(u32, u32), Error> {
        let major = self.attribute(Attribute::COMPUTE_CAPABILITY_MAJOR)?;
        let minor = self.attribute(Attribute::COMPUTE_CAPABILITY_MINOR)?;
        Ok((major, minor))
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
        let get = |attribute: Attribute<u32>| self.attribute(attribute);
        // Far below 4 GiB on any device.
        let bytes = |attribute: Attribute<usize>| Ok::<_, Error>(self.attribute(attribute)? as u32);
        let shared_per_block = bytes(Attribute::MAX_SHARED_MEMORY_PER_BLOCK)?;
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
            shared_per_block_optin: bytes(Attribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?
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
