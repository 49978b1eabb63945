//! The devices: their names, limits and attributes, and the engine that they share.

use std::ffi::{c_int, c_uint};
use std::fmt::Write;
use std::sync::{Arc, LazyLock};

use super::status::{Failure, Result, Status};
use crate::memory::{DeviceMemory, MemoryError};
use crate::run::{Engine, MAX_BLOCK, MAX_GRID, MAX_THREADS, THREADS};
use crate::setting::Setting;
use crate::texture::{MAX_LINEAR_TEXELS, MAX_PITCH};
use api::CUdevice;
use occupancy::{Multiprocessor, WARP};

/// The newest architecture whose PTX the device runs, without what is of one architecture
/// alone.
const NEWEST: (c_int, c_int) = (9, 0);

/// The architecture that programs are told, such as `sm_80`, or one for each device:
/// `sm_80,sm_90`. The last is that of all further devices. A device with a named architecture loads
/// only PTX that a GPU of it loads.
pub(crate) const TARGET: &str = "PTXKIT_CPU_TARGET";

/// The architectures that programs can be told.
const TARGETS: [c_int; 19] = [
    50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121,
];

/// The compute capability of a device that programs are told, which tells them what PTX to
/// make.
pub(crate) fn compute_capability(device: CUdevice) -> (c_int, c_int) {
    named_capability(device).unwrap_or(NEWEST)
}

/// The same if the user names it.
pub(crate) fn named_capability(device: CUdevice) -> Option<(c_int, c_int)> {
    static ALL: LazyLock<Vec<(c_int, c_int)>> = LazyLock::new(|| {
        let targets = std::env::var(TARGET).ok();
        targets
            .and_then(|text| capabilities(&text))
            .unwrap_or_default()
    });
    let own = ALL.get(physical(device) as usize);
    own.or(ALL.last()).copied()
}

/// The compute capabilities of architectures by their names.
fn capabilities(targets: &str) -> Option<Vec<(c_int, c_int)>> {
    let names = targets.split(',');
    names.map(|name| capability(name.trim())).collect()
}

fn capability(target: &str) -> Option<(c_int, c_int)> {
    let number = target.strip_prefix("sm_")?.parse().ok()?;
    TARGETS
        .contains(&number)
        .then_some((number / 10, number % 10))
}

/// The multiprocessor that the device reports, and with which occupancy is calculated.
pub(crate) const MULTIPROCESSOR: &Multiprocessor = Multiprocessor::of(90).expect("published");

/// Bytes of shared memory of a block: by default, and after `cuFuncSetAttribute`.
pub(crate) const MAX_SHARED: u32 = 48 << 10;
pub(crate) const MAX_SHARED_OPTIN: u32 = MULTIPROCESSOR.shared_of_block;
// Addresses in the shared memory of a cluster have room for it.
const _: () = assert!(MAX_SHARED_OPTIN < 1 << crate::runtime::OFFSET_BITS);
const REGISTERS: u32 = MULTIPROCESSOR.registers;

/// Largest extents of arrays: 1D, 2D, 3D and layers.
pub(crate) const MAX_1D: usize = 131_072;
pub(crate) const MAX_2D: [usize; 2] = [131_072, 65_536];
pub(crate) const MAX_3D: usize = 16_384;
pub(crate) const MAX_LAYERED: usize = 32_768;
pub(crate) const MAX_LAYERS: usize = 2048;

/// The engine that runs the kernels of all devices, made at the first use.
pub(crate) fn engine() -> Result<&'static Engine> {
    static ENGINE: LazyLock<Result<Engine, MemoryError>> = LazyLock::new(|| {
        let memory = DeviceMemory::from_environment(visible().len())?;
        Ok(Engine::new(Arc::new(memory)))
    });
    Ok(ENGINE.as_ref()?)
}

/// The memory of all devices.
pub(crate) fn arena() -> Result<&'static Arc<DeviceMemory>> {
    Ok(engine()?.memory())
}

/// Total bytes of memory.
pub(crate) fn total() -> Result<usize> {
    Ok(arena()?.size() as usize)
}

/// The number of threads that run blocks, which are the device's multiprocessors.
pub(crate) fn workers() -> Result<u32> {
    Ok(engine()?.workers())
}

/// The devices that the process sees, in order: one, or as many as
/// `PTXKIT_CPU_DEVICES` says, at most 8. They share the cores and the memory;
/// several are for testing programs that expect several, and `CUDA_VISIBLE_DEVICES`
/// selects among those. A single device stays visible in any case: a program that hides
/// its GPUs is meant to run on the CPU.
fn visible() -> &'static [CUdevice] {
    static VISIBLE: LazyLock<Vec<CUdevice>> = LazyLock::new(|| {
        let Ok(Some(count)) = DEVICES.read() else {
            return vec![0];
        };
        let count = count as c_int; // at most `MAX_DEVICES`
        match std::env::var("CUDA_VISIBLE_DEVICES") {
            Ok(list) => chosen(&list, count),
            Err(_) => (0..count).collect(),
        }
    });
    &VISIBLE
}

/// Parses a list of numbers and UUIDs as NVIDIA's driver does: it ends at the first that
/// names no device, and a list that names one twice is empty. A UUID is `GPU-` and enough
/// digits to identify one device.
fn chosen(list: &str, count: c_int) -> Vec<CUdevice> {
    let named = |word: &str| {
        let word = word.trim();
        match word.strip_prefix("GPU-") {
            Some(start) => {
                let mut all = (0..count).filter(|device| uuid_text(*device).starts_with(start));
                all.next().filter(|_| all.next().is_none())
            }
            None => word
                .parse()
                .ok()
                .filter(|number| (0..count).contains(number)),
        }
    };
    let mut chosen = Vec::new();
    for number in list.split(',').map_while(named) {
        if chosen.contains(&number) {
            return Vec::new();
        }
        chosen.push(number);
    }
    chosen
}

pub(crate) fn count() -> c_int {
    visible().len() as c_int // at most `MAX_DEVICES`
}

/// The number of a visible device among all devices; it has passed [`check`].
pub(crate) fn physical(device: CUdevice) -> CUdevice {
    visible().get(device as usize).copied().unwrap_or(device)
}

pub(crate) const MAX_DEVICES: c_int = 8;

/// The number of devices.
const DEVICES: Setting = Setting {
    variable: "PTXKIT_CPU_DEVICES",
    range: 1..=MAX_DEVICES as u32,
};

/// Fails if a variable of the environment has a value out of range.
pub(crate) fn check_settings() -> Result {
    for setting in [&THREADS, &DEVICES] {
        let read = setting.read();
        read.map_err(|error| Status::INVALID_VALUE.because(error.to_string()))?;
    }
    match std::env::var_os(TARGET) {
        Some(target) if !target.is_empty() && target.to_str().and_then(capabilities).is_none() => {
            let target = target.display();
            Err(Status::INVALID_VALUE.because(format!(
                "{TARGET}={target} is no architecture from sm_50 to sm_121: change or unset it"
            )))
        }
        _ => Ok(()),
    }
}

/// Fails unless there is such a device.
pub(crate) fn check(device: CUdevice) -> Result {
    if (0..count()).contains(&device) {
        Ok(())
    } else {
        Err(Status::INVALID_DEVICE.because(format!(
            "there is no device {device}, the number of devices is {}",
            count()
        )))
    }
}

/// Fails like [`check`], with the code for a device that a structure or a pool names.
pub(crate) fn check_location(device: CUdevice) -> Result {
    check(device).map_err(|failure| Failure {
        status: Status::INVALID_VALUE,
        ..failure
    })
}

/// "CPU: <model>, N threads".
pub(crate) fn name() -> Result<String> {
    static MODEL: LazyLock<String> = LazyLock::new(|| {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        model
            .map_or(std::env::consts::ARCH, |(_, model)| model.trim())
            .to_owned()
    });
    let threads = match workers()? {
        1 => "1 thread".to_owned(),
        count => format!("{count} threads"),
    };
    Ok(format!("CPU: {}, {threads}", *MODEL))
}

/// The same in every process and on every machine: binaries of the CPU device depend
/// on the host's features, not on this.
pub(crate) fn uuid(device: CUdevice) -> [u8; 16] {
    let mut uuid = *b"ptxkit CPU dev 0";
    uuid[15] += device as u8; // below 8, as `check` saw to
    uuid
}

/// The same in the notation of `nvidia-smi`.
fn uuid_text(device: CUdevice) -> String {
    let mut text = String::new();
    for (index, byte) in uuid(device).into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}"); // to a string cannot fail
    }
    text
}

pub(crate) fn pci_address(device: CUdevice) -> String {
    format!("0000:{:02x}:00.0", device + 1)
}

/// `CU_DEVICE_ATTRIBUTE_…` number `number` of a device with `workers` workers.
pub(crate) fn attribute(number: c_uint, device: CUdevice, workers: u32) -> Option<c_int> {
    let value: u32 = match number {
        1 => MAX_THREADS,
        2..=4 => MAX_BLOCK[number as usize - 2],
        5..=7 => MAX_GRID[number as usize - 5],
        8 => MAX_SHARED,
        9 => 65536,                  // TOTAL_CONSTANT_MEMORY
        10 => crate::abi::WARP_SIZE, // WARP_SIZE
        11 => i32::MAX as u32,       // MAX_PITCH
        12 | 82 => REGISTERS,        // MAX_REGISTERS_PER_BLOCK, _PER_MULTIPROCESSOR
        13 => 1_000_000,             // CLOCK_RATE in kHz: %clock counts nanoseconds
        14 | 30 => 512,              // TEXTURE_ALIGNMENT, SURFACE_ALIGNMENT
        15 => 1,                     // GPU_OVERLAP
        16 => workers,               // MULTIPROCESSOR_COUNT: one a worker
        18 | 19 => 1,                // INTEGRATED, CAN_MAP_HOST_MEMORY
        31 => 1,                     // CONCURRENT_KERNELS
        33 => device as u32 + 1,     // PCI_BUS_ID, as in `pci_address`
        36 => 1_000_000,             // MEMORY_CLOCK_RATE in kHz
        37 => 64,                    // GLOBAL_MEMORY_BUS_WIDTH
        38 => 1 << 20,               // L2_CACHE_SIZE
        39 => MULTIPROCESSOR.warps * WARP,
        40 => 1,  // ASYNC_ENGINE_COUNT
        41 => 1,  // UNIFIED_ADDRESSING
        51 => 32, // TEXTURE_PITCH_ALIGNMENT
        75 => compute_capability(device).0.cast_unsigned(),
        76 => compute_capability(device).1.cast_unsigned(),
        81 => MAX_SHARED_OPTIN + 1024, // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
        83 => 1,                       // MANAGED_MEMORY
        86 => 1,                       // HOST_NATIVE_ATOMIC_SUPPORTED
        87 => 2,                       // SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO
        89 => 1,                       // CONCURRENT_MANAGED_ACCESS
        90 => 1,                       // COMPUTE_PREEMPTION_SUPPORTED
        91 => 1,                       // CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
        95 => 1,                       // COOPERATIVE_LAUNCH
        97 => MAX_SHARED_OPTIN,        // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        98 | 122 | 123 => 1,           // CAN_FLUSH_REMOTE_WRITES, CAN_USE_…: values of streams
        99 => 1,                       // HOST_REGISTER_SUPPORTED
        101 => 1,                      // DIRECT_MANAGED_MEM_ACCESS_FROM_HOST
        102 | 103 => 1, // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
        106 => MULTIPROCESSOR.blocks,
        111 => 1024,                                 // RESERVED_SHARED_MEMORY_PER_BLOCK
        119 => u32::from(cfg!(unix)), // MEMPOOL_SUPPORTED_HANDLE_TYPES: descriptors of files
        120 => 1,                     // CLUSTER_LAUNCH
        125 => u32::from(cfg!(target_os = "linux")), // IPC_EVENT_SUPPORTED
        126 => 1,                     // MEM_SYNC_DOMAIN_COUNT
        127 => u32::from(compute_capability(device).0 >= 9), // TENSOR_MAP_ACCESS_SUPPORTED
        21..=29 | 42..=46 | 52..=74 | 77 => array_limit(number)?,
        // GPU_DIRECT_RDMA_SUPPORTED, _FLUSH_WRITES_OPTIONS (by the host) and _WRITES_ORDERING (for
        // all devices): a network card reaches the memory as memory of the host.
        116 | 117 => 1,
        118 => 200,
        115 | 144 => 1, // MEMORY_POOLS_SUPPORTED, HOST_MEMORY_POOLS_SUPPORTED
        // Attributes of features that the device lacks
        17
        | 20
        | 32
        | 34
        | 35
        | 47..=50
        | 78..=80
        | 84
        | 85
        | 88
        | 92..=94
        | 96
        | 100
        | 104
        | 105
        | 107..=110
        | 112..=114
        | 121
        | 124
        | 128..=143
        | 145..=148 => 0,
        _ => return None,
    };
    Some(value.cast_signed())
}

/// `CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE…` and `…_SURFACE…`
fn array_limit(attribute: c_uint) -> Option<c_uint> {
    let limit = match attribute {
        21 | 55 | 77 => MAX_1D,
        22 | 56 | 70 | 73 => MAX_2D[0],
        23 | 57 | 71 | 74 => MAX_2D[1],
        24..=26 | 58..=60 => MAX_3D,
        27 | 28 | 42 | 45 | 46 | 52 | 53 | 61 | 63 | 64 | 66 | 67 => MAX_LAYERED,
        29 | 43 | 62 | 65 => MAX_LAYERS,
        54 | 68 => MAX_LAYERS - 2, // layers of cubes, six each
        69 => MAX_LINEAR_TEXELS as usize,
        72 => MAX_PITCH,
        44 => 1, // CAN_TEX2D_GATHER
        _ => return None,
    };
    Some(limit as c_uint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_where_cuda_numbers_them() {
        assert_eq!(attribute(1, 0, 2), Some(1024)); // MAX_THREADS_PER_BLOCK
        assert_eq!(attribute(4, 0, 2), Some(64)); // MAX_BLOCK_DIM_Z
        assert_eq!(attribute(6, 0, 2), Some(65535)); // MAX_GRID_DIM_Y
        assert_eq!(attribute(97, 0, 2), Some(232_448)); // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        assert_eq!(attribute(0, 0, 2), None);
        assert_eq!(attribute(9999, 0, 2), None);
    }

    #[test]
    fn programs_are_told_an_architecture_that_is_one() {
        assert_eq!(capability("sm_80"), Some((8, 0)));
        assert_eq!(capability("sm_53"), Some((5, 3)));
        assert_eq!(capability("sm_100"), Some((10, 0)));
        for wrong in ["sm_81", "sm_101", "80", "compute_80", "sm_", "sm_90a"] {
            assert_eq!(capability(wrong), None, "{wrong}");
        }
        assert_eq!(capabilities("sm_80, sm_90"), Some(vec![(8, 0), (9, 0)]));
        assert_eq!(capabilities("sm_80,"), None);
    }

    #[test]
    fn lists_of_visible_devices_end_at_what_is_none() {
        assert_eq!(chosen("2,0", 4), [2, 0]);
        assert_eq!(chosen(" 1 , 3,4,0", 4), [1, 3]);
        assert!(chosen("", 4).is_empty());
        assert!(chosen("-1", 4).is_empty());
        assert!(chosen("1,1", 4).is_empty());
        assert!(chosen("GPU-abc,1", 4).is_empty());
        let third = "GPU-7074786b-6974-2043-5055-206465762032";
        assert_eq!(chosen(&format!("{third},0"), 4), [2, 0]);
        assert!(chosen("GPU-7074786b", 4).is_empty(), "it names several");
        assert_eq!(chosen("GPU-7074786b", 1), [0]);
    }

    #[test]
    fn devices_differ_in_identity_and_address() {
        assert_ne!(uuid(0), uuid(1));
        assert_ne!(pci_address(0), pci_address(1));
    }
}
