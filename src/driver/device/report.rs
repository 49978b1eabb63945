//! What a driver and its devices can do.

use std::ffi::c_int;
use std::fmt;

use crate::driver::device::attribute::{DeviceAttribute, Kilohertz};
use crate::driver::device::driver::Driver;
use crate::driver::device::{Device, DeviceLimits};
use crate::driver::error::Error;
use api::{DriverKind, cuda_version};

/// What a driver and its devices can do, for bug reports, and for services that say at their
/// start what is missing.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::Driver;
///
/// let report = Driver::cpu()?.report()?;
/// let lacks = report.devices[0].capabilities.iter().filter(|one| !one.is_supported());
/// println!("{}: no {:?}", report.devices[0].name, lacks.map(|one| one.what).collect::<Vec<_>>());
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DriverReport {
    /// Which driver it is.
    pub kind: DriverKind,
    /// Its CUDA version, 13000 for 13.0.
    pub version: i32,
    /// The number of entries that this crate knows.
    pub entries: usize,
    /// Those that the driver lacks.
    pub missing: Vec<MissingEntry>,
    /// Its devices.
    pub devices: Vec<DeviceReport>,
}

/// An entry that a driver lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingEntry {
    /// Its name in the header.
    pub name: &'static str,
    /// The CUDA version that has it: 12000.
    pub since: i32,
}

/// What a device can do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceReport {
    /// Its number among the driver's devices.
    pub ordinal: u32,
    /// Its name.
    pub name: String,
    /// What PTX is compiled for: `sm_90a`.
    pub target: String,
    /// Bytes of its memory.
    pub memory: usize,
    /// Multiprocessors; of the CPU device, threads.
    pub multiprocessors: u32,
    /// The highest clock, in kilohertz.
    pub clock: Kilohertz,
    /// What launches are checked against.
    pub limits: DeviceLimits,
    /// The devices of this driver whose memory it can access, by number.
    pub peers: Vec<u32>,
    /// What it can do or not.
    pub capabilities: Vec<Capability>,
}

/// A part of CUDA that not every device and driver has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capability {
    /// `cluster launches`
    pub what: &'static str,
    /// Why it is not there; `None` if it is.
    pub missing: Option<Missing>,
}

impl Capability {
    /// Whether it is there.
    pub fn is_supported(&self) -> bool {
        self.missing.is_none()
    }
}

/// Why a [`Capability`] is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// The driver lacks an entry.
    Entry(MissingEntry),
    /// The device says that it has it not.
    Device,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::Entry(entry) => {
                write!(f, "the driver lacks {}", entry.name)?;
                match entry.since {
                    0 => Ok(()),
                    since => write!(f, ", of CUDA {}", cuda_version(since)),
                }
            }
            Missing::Device => f.write_str("the device has none"),
        }
    }
}

/// What is asked: a name, the attribute that a device answers by, and the entry that it takes.
const CAPABILITIES: [(&str, Option<DeviceAttribute<bool>>, &str); 14] = [
    ("graphs", None, "cuGraphInstantiateWithFlags"),
    (
        "conditional graph nodes",
        None,
        "cuGraphConditionalHandleCreate",
    ),
    ("libraries", None, "cuLibraryLoadData"),
    (
        "cooperative launches",
        Some(DeviceAttribute::COOPERATIVE_LAUNCH),
        "cuLaunchCooperativeKernel",
    ),
    (
        "cluster launches",
        Some(DeviceAttribute::CLUSTER_LAUNCH),
        "cuLaunchKernelEx",
    ),
    (
        "tensor maps",
        Some(DeviceAttribute::TENSOR_MAP_ACCESS_SUPPORTED),
        "cuTensorMapEncodeTiled",
    ),
    (
        "memory pools",
        Some(DeviceAttribute::MEMORY_POOLS_SUPPORTED),
        "cuMemAllocAsync",
    ),
    (
        "managed memory",
        Some(DeviceAttribute::MANAGED_MEMORY),
        "cuMemAllocManaged",
    ),
    (
        "concurrent managed access",
        Some(DeviceAttribute::CONCURRENT_MANAGED_ACCESS),
        "cuMemAllocManaged",
    ),
    (
        "virtual memory management",
        Some(DeviceAttribute::VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED),
        "cuMemCreate",
    ),
    (
        "memory between processes",
        Some(DeviceAttribute::UNIFIED_ADDRESSING),
        "cuIpcOpenMemHandle_v2",
    ),
    (
        "pageable memory access",
        Some(DeviceAttribute::PAGEABLE_MEMORY_ACCESS),
        "cuMemAlloc_v2",
    ),
    (
        "waits for values in streams",
        Some(DeviceAttribute::CAN_USE_64_BIT_STREAM_MEM_OPS),
        "cuStreamWaitValue32_v2",
    ),
    (
        "ECC",
        Some(DeviceAttribute::ECC_ENABLED),
        "cuDeviceGetAttribute",
    ),
];

impl Driver {
    /// Asks the driver and each of its devices what they can do. Creates no context.
    ///
    /// # Errors
    /// What a device answers to a question about its limits.
    pub fn report(&self) -> Result<DriverReport, Error> {
        let entries: Vec<_> = self.api().entries().collect();
        let missing: Vec<MissingEntry> = entries
            .iter()
            .filter(|(_, present, _)| !present)
            .map(|&(name, _, since)| MissingEntry { name, since })
            .collect();
        let devices = self.devices()?;
        let devices = devices
            .iter()
            .map(|device| device.report(&devices, &missing))
            .collect::<Result<_, _>>()?;
        Ok(DriverReport {
            kind: self.kind(),
            version: self.version(),
            entries: entries.len(),
            missing,
            devices,
        })
    }
}

impl Device {
    fn report(&self, all: &[Device], missing: &[MissingEntry]) -> Result<DeviceReport, Error> {
        let capabilities = CAPABILITIES.iter().map(|(what, attribute, entry)| {
            let lacks = missing.iter().find(|lacks| lacks.name == *entry);
            // A driver that does not know an attribute has nothing of it.
            let has = attribute.is_none_or(|attribute| self.attribute(attribute).unwrap_or(false));
            Capability {
                what,
                missing: match lacks {
                    Some(entry) => Some(Missing::Entry(*entry)),
                    None => (!has).then_some(Missing::Device),
                },
            }
        });
        Ok(DeviceReport {
            ordinal: self.ordinal(),
            name: self.name()?,
            target: self.target()?,
            memory: self.total_memory()?,
            multiprocessors: self.attribute(DeviceAttribute::MULTIPROCESSOR_COUNT)?,
            clock: self.attribute(DeviceAttribute::CLOCK_RATE)?,
            limits: self.limits()?,
            peers: all
                .iter()
                .filter(|peer| *peer != self && self.reaches(peer))
                .map(Device::ordinal)
                .collect(),
            capabilities: capabilities.collect(),
        })
    }

    fn reaches(&self, peer: &Device) -> bool {
        let mut can: c_int = 0;
        // SAFETY: writes one integer; both devices are of this driver.
        let asked = unsafe {
            self.api()
                .cuDeviceCanAccessPeer(&mut can, self.raw(), peer.raw())
        };
        asked.is_ok() && can != 0
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;

    #[test]
    fn every_capability_asks_for_an_entry_of_the_table() {
        let driver = Driver::cpu().unwrap();
        for (what, _, entry) in CAPABILITIES {
            assert!(
                driver.api().entries().any(|(name, ..)| name == entry),
                "{what}: {entry}"
            );
        }
    }

    #[test]
    fn the_cpu_device_says_what_it_has() {
        let report = Driver::cpu().unwrap().report().unwrap();
        let device = &report.devices[0];
        let of = |what| device.capabilities.iter().find(|one| one.what == what);
        assert_eq!(of("cooperative launches").unwrap().missing, None);
        assert_eq!(of("ECC").unwrap().missing, Some(Missing::Device));
        assert!(device.multiprocessors > 0 && device.memory > 0);
    }

    #[test]
    fn a_reason_names_the_version() {
        let entry = MissingEntry {
            name: "cuLibraryLoadData",
            since: 12000,
        };
        let reason = Missing::Entry(entry).to_string();
        assert_eq!(reason, "the driver lacks cuLibraryLoadData, of CUDA 12.0");
    }
}
