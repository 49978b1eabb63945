//! Memory locations, and access rights of devices.

use crate::driver::device::Device;
use api::MemLocation;

/// A memory location (`CUmemLocation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Location {
    /// A device, by its number among the driver's.
    Device(u32),
    /// The host.
    Host,
    /// A NUMA node of the host.
    HostNuma(u32),
    /// The NUMA node of the calling thread.
    HostNumaCurrent,
}

impl Location {
    pub(crate) fn raw(self) -> MemLocation {
        let (kind, id) = match self {
            Location::Device(device) => (1, device as i32),
            Location::Host => (2, 0),
            Location::HostNuma(node) => (3, node as i32),
            Location::HostNumaCurrent => (4, 0),
        };
        MemLocation { kind, id }
    }

    /// Its number for entries before CUDA 12.2; -1 is the host (`CU_DEVICE_CPU`).
    pub(crate) fn device_number(self) -> Option<i32> {
        match self {
            Location::Device(device) => Some(device as i32),
            Location::Host => Some(-1),
            Location::HostNuma(_) | Location::HostNumaCurrent => None,
        }
    }

    /// The location with such a number, if there is one (`CU_DEVICE_INVALID` is -2).
    pub(crate) fn from_device_number(number: i32) -> Option<Location> {
        match number {
            -1 => Some(Location::Host),
            _ => u32::try_from(number).ok().map(Location::Device),
        }
    }
}

impl From<&Device> for Location {
    fn from(device: &Device) -> Location {
        Location::Device(device.raw().max(0) as u32)
    }
}

/// Access of a device to memory (`CUmemAccess_flags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Access {
    /// Nothing.
    None = 0,
    /// Read.
    Read = 1,
    /// Read and write.
    ReadWrite = 3,
}

impl Access {
    pub(crate) fn from_bits(bits: u64) -> Access {
        match bits & 3 {
            0 | 2 => Access::None,
            1 => Access::Read,
            _ => Access::ReadWrite,
        }
    }
}
