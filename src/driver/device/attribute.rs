//! Device attributes (`CUdevice_attribute`), each with the type of its value.

use std::fmt;
use std::marker::PhantomData;

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
    /// Any other value; 1 was one thread at a time.
    Other(i32),
}

/// An attribute of a device, for [`Device::attribute`](crate::driver::Device::attribute),
/// which returns it as a `T`: `u32` for counts, `usize` for bytes, `bool` for flags.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{DeviceAttribute, Driver};
/// let device = Driver::cpu()?.device(0)?;
/// assert_eq!(device.attribute(DeviceAttribute::WARP_SIZE)?, 32);
/// assert!(device.attribute(DeviceAttribute::MANAGED_MEMORY)?);
/// assert!(device.attribute(DeviceAttribute::CLOCK_RATE)?.hertz() >= 1_000_000);
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceAttribute<T = i32> {
    number: u32,
    value: PhantomData<fn() -> T>,
}

impl<T> DeviceAttribute<T> {
    const fn numbered(number: u32) -> DeviceAttribute<T> {
        DeviceAttribute {
            number,
            value: PhantomData,
        }
    }

    /// Its value in `cuda.h`.
    pub const fn number(self) -> u32 {
        self.number
    }
}

impl DeviceAttribute<i32> {
    /// An attribute by its number (`CU_DEVICE_ATTRIBUTE_*`), with or without a name here:
    /// its raw value.
    pub const fn new(number: u32) -> DeviceAttribute<i32> {
        DeviceAttribute::numbered(number)
    }
}

/// Types of attribute values.
pub trait AttributeValue: sealed::Sealed + Sized {
    #[doc(hidden)]
    fn from_number(number: i32) -> Self;
}

mod sealed {
    pub trait Sealed {}
}

/// The peak rate of a clock, in kilohertz.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kilohertz(pub u32);

impl Kilohertz {
    /// The same in hertz.
    pub const fn hertz(self) -> u64 {
        self.0 as u64 * 1000
    }
}

/// For whom GPUDirect RDMA writes are visible without a flush
/// (`CUGPUDirectRDMAWritesOrdering`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WritesOrdering {
    /// Nobody.
    None,
    /// The device itself.
    Owner,
    /// Every device of the process.
    AllDevices,
    /// Any other value.
    Other(i32),
}

/// Whether a device's memory is a NUMA node of the host (`CUdeviceNumaConfig`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NumaConfig {
    /// It is not.
    None,
    /// It is the node [`DeviceAttribute::NUMA_ID`].
    Node,
    /// Any other value.
    Other(i32),
}

macro_rules! values {
    ($($type:ty: |$number:ident| $read:expr;)*) => {
        $(
            impl sealed::Sealed for $type {}
            impl AttributeValue for $type {
                fn from_number($number: i32) -> $type {
                    $read
                }
            }
        )*
    };
}

values! {
    i32: |number| number;
    bool: |number| number != 0;
    u32: |number| number.cast_unsigned();
    usize: |number| number.cast_unsigned() as usize;
    Kilohertz: |number| Kilohertz(number.cast_unsigned());
    ComputeMode: |number| match number {
        0 => ComputeMode::Default,
        2 => ComputeMode::Prohibited,
        3 => ComputeMode::ExclusiveProcess,
        other => ComputeMode::Other(other),
    };
    WritesOrdering: |number| match number {
        0 => WritesOrdering::None,
        100 => WritesOrdering::Owner,
        200 => WritesOrdering::AllDevices,
        other => WritesOrdering::Other(other),
    };
    NumaConfig: |number| match number {
        0 => NumaConfig::None,
        1 => NumaConfig::Node,
        other => NumaConfig::Other(other),
    };
}

/// One attribute per row: type of the value, name, number.
macro_rules! attributes {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $number:literal,)*) => {
        $(
            impl DeviceAttribute<$type> {
                $(#[$doc])*
                pub const $name: DeviceAttribute<$type> = DeviceAttribute::numbered($number);
            }
        )*

        impl DeviceAttribute<i32> {
            /// Every attribute with a name, as of CUDA 13.4.
            pub const ALL: &[DeviceAttribute<i32>] = &[$(DeviceAttribute::numbered($number),)*];
        }

        /// The name in `cuda.h` without `CU_DEVICE_ATTRIBUTE_`.
        const fn name(number: u32) -> Option<&'static str> {
            match number {
                $($number => Some(stringify!($name)),)*
                _ => None,
            }
        }
    };
}

impl<T> DeviceAttribute<T> {
    /// The name in `cuda.h` without `CU_DEVICE_ATTRIBUTE_`.
    pub const fn name(self) -> Option<&'static str> {
        name(self.number)
    }
}

impl<T> fmt::Debug for DeviceAttribute<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match name(self.number) {
            Some(name) => f.write_str(name),
            None => write!(f, "DeviceAttribute({})", self.number),
        }
    }
}

attributes! {
    /// Threads of a block.
    MAX_THREADS_PER_BLOCK: u32 = 1,
    /// Threads of a block in x.
    MAX_BLOCK_DIM_X: u32 = 2,
    /// Threads of a block in y.
    MAX_BLOCK_DIM_Y: u32 = 3,
    /// Threads of a block in z.
    MAX_BLOCK_DIM_Z: u32 = 4,
    /// Blocks of a grid in x.
    MAX_GRID_DIM_X: u32 = 5,
    /// Blocks of a grid in y.
    MAX_GRID_DIM_Y: u32 = 6,
    /// Blocks of a grid in z.
    MAX_GRID_DIM_Z: u32 = 7,
    /// Bytes of shared memory of a block that does not ask for more.
    MAX_SHARED_MEMORY_PER_BLOCK: usize = 8,
    /// Bytes of the `.const` variables of a module.
    TOTAL_CONSTANT_MEMORY: usize = 9,
    /// Threads of a warp.
    WARP_SIZE: u32 = 10,
    /// Bytes from one row to the next in a copy, at most.
    MAX_PITCH: usize = 11,
    /// 32-bit registers of a block.
    MAX_REGISTERS_PER_BLOCK: u32 = 12,
    /// Highest clock of the multiprocessors.
    CLOCK_RATE: Kilohertz = 13,
    /// Bytes that a texture's memory is aligned to.
    TEXTURE_ALIGNMENT: usize = 14,
    /// It copies while a kernel runs; `ASYNC_ENGINE_COUNT` says more.
    GPU_OVERLAP: bool = 15,
    /// Multiprocessors.
    MULTIPROCESSOR_COUNT: u32 = 16,
    /// Kernels may run for a limited time only.
    KERNEL_EXEC_TIMEOUT: bool = 17,
    /// It is part of the host's chip and shares its memory.
    INTEGRATED: bool = 18,
    /// Pinned memory can be mapped.
    CAN_MAP_HOST_MEMORY: bool = 19,
    /// Who may use it.
    COMPUTE_MODE: ComputeMode = 20,
    /// Elements of a texture of one dimension.
    MAXIMUM_TEXTURE1D_WIDTH: u32 = 21,
    /// Width of a texture of two dimensions.
    MAXIMUM_TEXTURE2D_WIDTH: u32 = 22,
    /// Height of a texture of two dimensions.
    MAXIMUM_TEXTURE2D_HEIGHT: u32 = 23,
    /// Width of a texture of three dimensions.
    MAXIMUM_TEXTURE3D_WIDTH: u32 = 24,
    /// Height of a texture of three dimensions.
    MAXIMUM_TEXTURE3D_HEIGHT: u32 = 25,
    /// Depth of a texture of three dimensions.
    MAXIMUM_TEXTURE3D_DEPTH: u32 = 26,
    /// Width of a layered texture of two dimensions.
    MAXIMUM_TEXTURE2D_LAYERED_WIDTH: u32 = 27,
    /// Height of a layered texture of two dimensions.
    MAXIMUM_TEXTURE2D_LAYERED_HEIGHT: u32 = 28,
    /// Layers of a layered texture of two dimensions.
    MAXIMUM_TEXTURE2D_LAYERED_LAYERS: u32 = 29,
    /// Bytes that a surface's memory is aligned to.
    SURFACE_ALIGNMENT: usize = 30,
    /// Several kernels run at once.
    CONCURRENT_KERNELS: bool = 31,
    /// Its memory corrects errors.
    ECC_ENABLED: bool = 32,
    /// Number of its PCI bus.
    PCI_BUS_ID: u32 = 33,
    /// Its number on the PCI bus.
    PCI_DEVICE_ID: u32 = 34,
    /// It runs with the driver model TCC of Windows.
    TCC_DRIVER: bool = 35,
    /// Highest clock of its memory.
    MEMORY_CLOCK_RATE: Kilohertz = 36,
    /// Bits of the bus to its memory.
    GLOBAL_MEMORY_BUS_WIDTH: u32 = 37,
    /// Bytes of L2.
    L2_CACHE_SIZE: usize = 38,
    /// Threads that a multiprocessor holds.
    MAX_THREADS_PER_MULTIPROCESSOR: u32 = 39,
    /// Copies that run beside kernels: 2 is both directions at once.
    ASYNC_ENGINE_COUNT: u32 = 40,
    /// It shares one space of addresses with the host and other devices.
    UNIFIED_ADDRESSING: bool = 41,
    /// Width of a layered texture of one dimension.
    MAXIMUM_TEXTURE1D_LAYERED_WIDTH: u32 = 42,
    /// Layers of a layered texture of one dimension.
    MAXIMUM_TEXTURE1D_LAYERED_LAYERS: u32 = 43,
    /// It has `tld4`; CUDA calls the number deprecated.
    CAN_TEX2D_GATHER: bool = 44,
    /// Width of a texture for `tld4`.
    MAXIMUM_TEXTURE2D_GATHER_WIDTH: u32 = 45,
    /// Height of a texture for `tld4`.
    MAXIMUM_TEXTURE2D_GATHER_HEIGHT: u32 = 46,
    /// Another width of a texture of three dimensions.
    MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE: u32 = 47,
    /// The height that goes with it.
    MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE: u32 = 48,
    /// The depth that goes with it.
    MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE: u32 = 49,
    /// Number of its PCI domain.
    PCI_DOMAIN_ID: u32 = 50,
    /// Bytes that the rows of a texture's pitched memory are aligned to.
    TEXTURE_PITCH_ALIGNMENT: usize = 51,
    /// Width and height of a cubemap's faces.
    MAXIMUM_TEXTURECUBEMAP_WIDTH: u32 = 52,
    /// Width and height of the faces of a layered cubemap.
    MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH: u32 = 53,
    /// Layers of a layered cubemap.
    MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS: u32 = 54,
    /// Elements of a surface of one dimension.
    MAXIMUM_SURFACE1D_WIDTH: u32 = 55,
    /// Width of a surface of two dimensions.
    MAXIMUM_SURFACE2D_WIDTH: u32 = 56,
    /// Height of a surface of two dimensions.
    MAXIMUM_SURFACE2D_HEIGHT: u32 = 57,
    /// Width of a surface of three dimensions.
    MAXIMUM_SURFACE3D_WIDTH: u32 = 58,
    /// Height of a surface of three dimensions.
    MAXIMUM_SURFACE3D_HEIGHT: u32 = 59,
    /// Depth of a surface of three dimensions.
    MAXIMUM_SURFACE3D_DEPTH: u32 = 60,
    /// Width of a layered surface of one dimension.
    MAXIMUM_SURFACE1D_LAYERED_WIDTH: u32 = 61,
    /// Layers of a layered surface of one dimension.
    MAXIMUM_SURFACE1D_LAYERED_LAYERS: u32 = 62,
    /// Width of a layered surface of two dimensions.
    MAXIMUM_SURFACE2D_LAYERED_WIDTH: u32 = 63,
    /// Height of a layered surface of two dimensions.
    MAXIMUM_SURFACE2D_LAYERED_HEIGHT: u32 = 64,
    /// Layers of a layered surface of two dimensions.
    MAXIMUM_SURFACE2D_LAYERED_LAYERS: u32 = 65,
    /// Width and height of the faces of a cubemap as a surface.
    MAXIMUM_SURFACECUBEMAP_WIDTH: u32 = 66,
    /// Width and height of the faces of a layered cubemap as a surface.
    MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH: u32 = 67,
    /// Layers of a layered cubemap as a surface.
    MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS: u32 = 68,
    /// Elements of a texture in linear memory; the element counts too, see
    /// `cuDeviceGetTexture1DLinearMaxWidth`.
    MAXIMUM_TEXTURE1D_LINEAR_WIDTH: u32 = 69,
    /// Width of a texture in pitched memory.
    MAXIMUM_TEXTURE2D_LINEAR_WIDTH: u32 = 70,
    /// Height of a texture in pitched memory.
    MAXIMUM_TEXTURE2D_LINEAR_HEIGHT: u32 = 71,
    /// Bytes from one row to the next of a texture in pitched memory.
    MAXIMUM_TEXTURE2D_LINEAR_PITCH: usize = 72,
    /// Width of a mipmapped texture of two dimensions.
    MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH: u32 = 73,
    /// Height of a mipmapped texture of two dimensions.
    MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT: u32 = 74,
    /// The number before the dot of the compute capability.
    COMPUTE_CAPABILITY_MAJOR: u32 = 75,
    /// The number after the dot.
    COMPUTE_CAPABILITY_MINOR: u32 = 76,
    /// Elements of a mipmapped texture of one dimension.
    MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH: u32 = 77,
    /// Streams have priorities.
    STREAM_PRIORITIES_SUPPORTED: bool = 78,
    /// Global memory is cached in L1.
    GLOBAL_L1_CACHE_SUPPORTED: bool = 79,
    /// Local memory is cached in L1.
    LOCAL_L1_CACHE_SUPPORTED: bool = 80,
    /// Bytes of shared memory of a multiprocessor.
    MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: usize = 81,
    /// 32-bit registers of a multiprocessor.
    MAX_REGISTERS_PER_MULTIPROCESSOR: u32 = 82,
    /// It has managed memory.
    MANAGED_MEMORY: bool = 83,
    /// It is on a board with other GPUs.
    MULTI_GPU_BOARD: bool = 84,
    /// A number that the GPUs of one board share.
    MULTI_GPU_BOARD_GROUP_ID: u32 = 85,
    /// Atomic operations on the host's memory are native.
    HOST_NATIVE_ATOMIC_SUPPORTED: bool = 86,
    /// How many times faster single precision is than double.
    SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO: u32 = 87,
    /// Kernels reach the host's memory that nobody registered.
    PAGEABLE_MEMORY_ACCESS: bool = 88,
    /// Host and kernels may use managed memory at once.
    CONCURRENT_MANAGED_ACCESS: bool = 89,
    /// A kernel can be stopped between two instructions.
    COMPUTE_PREEMPTION_SUPPORTED: bool = 90,
    /// Registered memory has one address for host and kernels.
    CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM: bool = 91,
    /// The first form of `cuStreamWaitValue32` works.
    CAN_USE_STREAM_MEM_OPS_V1: bool = 92,
    /// The first form of `cuStreamWaitValue64` works.
    CAN_USE_64_BIT_STREAM_MEM_OPS_V1: bool = 93,
    /// The first form has `CU_STREAM_WAIT_VALUE_NOR`.
    CAN_USE_STREAM_WAIT_VALUE_NOR_V1: bool = 94,
    /// It has cooperative launches.
    COOPERATIVE_LAUNCH: bool = 95,
    /// It has cooperative launches on several devices; CUDA calls the number
    /// deprecated.
    COOPERATIVE_MULTI_DEVICE_LAUNCH: bool = 96,
    /// Bytes of shared memory of a block that opts in.
    MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: usize = 97,
    /// `CU_STREAM_WAIT_VALUE_FLUSH` works.
    CAN_FLUSH_REMOTE_WRITES: bool = 98,
    /// Memory of the host's can be registered.
    HOST_REGISTER_SUPPORTED: bool = 99,
    /// Kernels reach the host's memory through the host's own page tables.
    PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES: bool = 100,
    /// The host reaches managed memory on the device without moving it.
    DIRECT_MANAGED_MEM_ACCESS_FROM_HOST: bool = 101,
    /// It has `cuMemAddressReserve`, `cuMemCreate` and `cuMemMap`.
    VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED: bool = 102,
    /// Memory goes to other processes by a file descriptor.
    HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: bool = 103,
    /// Memory goes to other processes by a Win32 handle.
    HANDLE_TYPE_WIN32_HANDLE_SUPPORTED: bool = 104,
    /// Memory goes to other processes by a handle of Windows' kernel.
    HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED: bool = 105,
    /// Blocks that a multiprocessor holds.
    MAX_BLOCKS_PER_MULTIPROCESSOR: u32 = 106,
    /// Memory can be compressed.
    GENERIC_COMPRESSION_SUPPORTED: bool = 107,
    /// Bytes of L2 that can be set aside for lines that persist.
    MAX_PERSISTING_L2_CACHE_SIZE: usize = 108,
    /// Bytes that the access policy of a stream or a launch can cover.
    MAX_ACCESS_POLICY_WINDOW_SIZE: usize = 109,
    /// Memory of `cuMemCreate` can be used by GPUDirect RDMA.
    GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED: bool = 110,
    /// Bytes of shared memory of a block that the driver keeps.
    RESERVED_SHARED_MEMORY_PER_BLOCK: usize = 111,
    /// Arrays can be mapped in part.
    SPARSE_CUDA_ARRAY_SUPPORTED: bool = 112,
    /// Memory of the host's can be registered for reading alone.
    READ_ONLY_HOST_REGISTER_SUPPORTED: bool = 113,
    /// Semaphores of other libraries can be timelines.
    TIMELINE_SEMAPHORE_INTEROP_SUPPORTED: bool = 114,
    /// It has memory pools and `cuMemAllocAsync`.
    MEMORY_POOLS_SUPPORTED: bool = 115,
    /// It has GPUDirect RDMA.
    GPU_DIRECT_RDMA_SUPPORTED: bool = 116,
    /// How writes of GPUDirect RDMA can be flushed: bit 0 by the host, bit 1 by a
    /// stream.
    GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS: u32 = 117,
    /// Who sees writes of GPUDirect RDMA without a flush.
    GPU_DIRECT_RDMA_WRITES_ORDERING: WritesOrdering = 118,
    /// Handles that memory pools go to other processes by, one bit each
    /// (`CUmemAllocationHandleType`).
    MEMPOOL_SUPPORTED_HANDLE_TYPES: u32 = 119,
    /// It has clusters.
    CLUSTER_LAUNCH: bool = 120,
    /// Arrays can be mapped later than they are made.
    DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED: bool = 121,
    /// `cuStreamWaitValue64` works.
    CAN_USE_64_BIT_STREAM_MEM_OPS: bool = 122,
    /// A stream can wait for `CU_STREAM_WAIT_VALUE_NOR`.
    CAN_USE_STREAM_WAIT_VALUE_NOR: bool = 123,
    /// Memory goes to other drivers as a DMA buffer.
    DMA_BUF_SUPPORTED: bool = 124,
    /// Events can be shared between processes.
    IPC_EVENT_SUPPORTED: bool = 125,
    /// Domains in which memory is ordered.
    MEM_SYNC_DOMAIN_COUNT: u32 = 126,
    /// It has tensor maps.
    TENSOR_MAP_ACCESS_SUPPORTED: bool = 127,
    /// Memory goes to other machines by a fabric handle.
    HANDLE_TYPE_FABRIC_SUPPORTED: bool = 128,
    /// Functions have one address for host and kernels.
    UNIFIED_FUNCTION_POINTERS: bool = 129,
    /// Whether its memory is a NUMA node of the host.
    NUMA_CONFIG: NumaConfig = 130,
    /// The NUMA node that its memory is, if it is one.
    NUMA_ID: i32 = 131,
    /// It has multicast objects.
    MULTICAST_SUPPORTED: bool = 132,
    /// Several processes share it through MPS.
    MPS_ENABLED: bool = 133,
    /// The NUMA node of the host that is nearest; -1 where the system does not say.
    HOST_NUMA_ID: i32 = 134,
    /// It shares contexts with graphics of D3D12.
    D3D12_CIG_SUPPORTED: bool = 135,
    /// Formats that it decompresses, one bit each (`CUmemDecompressAlgorithm`).
    MEM_DECOMPRESS_ALGORITHM_MASK: u32 = 136,
    /// Bytes that it decompresses at once.
    MEM_DECOMPRESS_MAXIMUM_LENGTH: usize = 137,
    /// It shares contexts with graphics of Vulkan.
    VULKAN_CIG_SUPPORTED: bool = 138,
    /// Its PCI device and vendor, 16 bits each.
    GPU_PCI_DEVICE_ID: u32 = 139,
    /// Its PCI subsystem and that one's vendor, 16 bits each.
    GPU_PCI_SUBSYSTEM_ID: u32 = 140,
    /// `cuMemCreate` takes memory of a NUMA node of the host.
    HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: bool = 141,
    /// Memory pools can lie on a NUMA node of the host.
    HOST_NUMA_MEMORY_POOLS_SUPPORTED: bool = 142,
    /// Memory of a NUMA node of the host goes to other machines.
    HOST_NUMA_MULTINODE_IPC_SUPPORTED: bool = 143,
    /// Memory pools can lie on the host.
    HOST_MEMORY_POOLS_SUPPORTED: bool = 144,
    /// `cuMemCreate` takes memory of the host.
    HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: bool = 145,
    /// Pinned memory goes to other drivers as a DMA buffer.
    HOST_ALLOC_DMA_BUF_SUPPORTED: bool = 146,
    /// Of the atomic operations on the host's memory only some are native.
    ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED: bool = 147,
    /// Streams can reduce into memory.
    ATOMIC_REDUCTION_SUPPORTED: bool = 148,
    /// Domains of memory that lie near some multiprocessors.
    LOCALITY_DOMAIN_COUNT: u32 = 149,
    /// Bytes of shared memory of a block with the oversized kind.
    MAX_OVERSIZED_SHARED_MEMORY_PER_BLOCK: usize = 150,
    /// It shares streams with graphics of D3D12.
    D3D12_CIG_STREAMS_SUPPORTED: bool = 151,
    /// DMA buffers can be mapped by the host.
    DMA_BUF_MMAP_SUPPORTED: bool = 152,
    /// It has logical endpoints for one receiver.
    LOGICAL_ENDPOINT_UNICAST_SUPPORTED: bool = 153,
    /// It has logical endpoints for several receivers.
    LOGICAL_ENDPOINT_MULTICAST_SUPPORTED: bool = 154,
    /// Logical endpoints count operations.
    LOGICAL_ENDPOINT_COUNTED_OPS_SUPPORTED: bool = 155,
    /// The device that owns a logical endpoint can use it.
    LOGICAL_ENDPOINT_UNICAST_ACCESS_ON_OWNER_DEVICE_SUPPORTED: bool = 156,
    /// Multiprocessors of a locality domain.
    LOCALITY_DOMAIN_MULTIPROCESSOR_COUNT: u32 = 157,
    /// Handles that logical endpoints go to other processes by, one bit each.
    LOGICAL_ENDPOINT_SUPPORTED_HANDLE_TYPES: u32 = 158,
    /// It shares streams with graphics of Vulkan.
    VULKAN_CIG_STREAMS_SUPPORTED: bool = 159,
    /// Bytes from which on a tensor map counts as large.
    TENSOR_MAP_LARGE_TENSOR_MIN_SIZE: usize = 160,
    /// Memory near some multiprocessors can be used by GPUDirect RDMA.
    GPU_DIRECT_RDMA_WITH_LOCALIZED_MEMORY_SUPPORTED: bool = 161,
}
