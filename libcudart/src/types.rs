//! The runtime's own C structures, with enums as plain integers.

use std::ffi::{c_char, c_int, c_uint, c_void};

use api::{CUarray, CUdeviceptr};

/// `dim3`
#[allow(missing_docs)]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim3 {
    pub x: c_uint,
    pub y: c_uint,
    pub z: c_uint,
}

/// `cudaExtent`, and `cudaPos`: bytes or elements, rows, slices.
#[allow(missing_docs)]
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

/// `cudaPitchedPtr`
#[allow(missing_docs)]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PitchedPointer {
    pub start: *mut c_void,
    pub pitch: usize,
    pub width: usize,
    pub height: usize,
}

/// `cudaMemcpy3DParms`
#[allow(missing_docs)]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Copy3dParams {
    pub from_array: CUarray,
    pub from_position: Extent,
    pub from: PitchedPointer,
    pub to_array: CUarray,
    pub to_position: Extent,
    pub to: PitchedPointer,
    pub extent: Extent,
    /// `cudaMemcpyKind`
    pub kind: c_uint,
}

/// `cudaMemcpy3DPeerParms`
#[allow(missing_docs)]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CopyPeerParams {
    pub from_array: CUarray,
    pub from_position: Extent,
    pub from: PitchedPointer,
    pub from_device: c_int,
    pub to_array: CUarray,
    pub to_position: Extent,
    pub to: PitchedPointer,
    pub to_device: c_int,
    pub extent: Extent,
}

/// `cudaChannelFormatDesc`
#[allow(missing_docs)]
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    pub x: c_int,
    pub y: c_int,
    pub z: c_int,
    pub w: c_int,
    /// `cudaChannelFormatKind`
    pub kind: c_uint,
}

/// `cudaResourceDesc`: its union as the words that it is made of.
#[allow(missing_docs)]
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Resource {
    /// `cudaResourceType`
    pub kind: c_uint,
    /// An array, a mipmapped array, or an address.
    pub resource: u64,
    /// Of linear and of pitched memory.
    pub channels: Channels,
    /// Bytes of linear memory, or texels in a row of pitched memory.
    pub width: usize,
    pub height: usize,
    pub pitch: usize,
    pub reserved: [u64; 9],
    pub flags: c_uint,
}

/// `cudaTextureDesc`
#[allow(missing_docs)]
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Texture {
    pub address_modes: [c_uint; 3],
    pub filter_mode: c_uint,
    /// `cudaTextureReadMode`
    pub read_mode: c_uint,
    pub srgb: c_int,
    pub border_color: [f32; 4],
    pub normalized: c_int,
    pub max_anisotropy: c_uint,
    pub mipmap_filter_mode: c_uint,
    pub mipmap_level_bias: f32,
    pub min_mipmap_level: f32,
    pub max_mipmap_level: f32,
    pub disable_trilinear: c_int,
    pub seamless_cubemap: c_int,
}

/// `cudaFuncAttributes`
#[allow(missing_docs)]
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct FunctionAttributes {
    pub shared_bytes: usize,
    pub constant_bytes: usize,
    pub local_bytes: usize,
    pub max_threads: c_int,
    pub registers: c_int,
    pub ptx_version: c_int,
    pub binary_version: c_int,
    pub cache_mode: c_int,
    pub max_dynamic_shared: c_int,
    pub shared_carveout: c_int,
    pub cluster_required: c_int,
    pub cluster: [c_int; 3],
    pub cluster_policy: c_int,
    pub non_portable_cluster: c_int,
    pub reserved: [c_int; 16],
}

/// `cudaPointerAttributes`
#[allow(missing_docs)]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PointerAttributes {
    /// `cudaMemoryType`
    pub kind: c_uint,
    pub device: c_int,
    pub device_pointer: *mut c_void,
    pub host_pointer: *mut c_void,
    pub reserved: [u64; 8],
}

/// `cudaLaunchConfig_t`
#[allow(missing_docs)]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfig {
    pub grid: Dim3,
    pub block: Dim3,
    pub shared_bytes: usize,
    pub stream: api::CUstream,
    /// As the driver's: the structure is the same.
    pub attributes: *mut c_void,
    pub count: c_uint,
}

/// `cudaKernelNodeParams`
#[allow(missing_docs)]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelNodeParams {
    pub function: *mut c_void,
    pub grid: Dim3,
    pub block: Dim3,
    pub shared_bytes: c_uint,
    pub arguments: *mut *mut c_void,
    pub extra: *mut *mut c_void,
}

/// `cudaMemsetParams`
#[allow(missing_docs)]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemsetNodeParams {
    pub start: CUdeviceptr,
    pub pitch: usize,
    pub value: c_uint,
    pub element_bytes: c_uint,
    pub width: usize,
    pub height: usize,
}

/// `cudaDeviceProp` of CUDA 13.
#[allow(missing_docs)]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DeviceProperties {
    pub name: [c_char; 256],
    pub uuid: [u8; 16],
    pub luid: [c_char; 8],
    pub luid_mask: c_uint,
    pub total_global: usize,
    pub shared_per_block: usize,
    pub registers_per_block: c_int,
    pub warp_size: c_int,
    pub memory_pitch: usize,
    pub max_threads: c_int,
    pub max_block: [c_int; 3],
    pub max_grid: [c_int; 3],
    pub total_constant: usize,
    /// `major` and `minor`.
    pub capability: [c_int; 2],
    pub texture_alignment: usize,
    pub texture_pitch_alignment: usize,
    /// From `multiProcessorCount` to `canMapHostMemory`.
    pub multiprocessors: [c_int; 3],
    /// From `maxTexture1D` to `maxTextureCubemapLayered`.
    pub textures: [c_int; 25],
    /// From `maxSurface1D` to `maxSurfaceCubemapLayered`.
    pub surfaces: [c_int; 14],
    pub surface_alignment: usize,
    /// From `concurrentKernels` to `localL1CacheSupported`.
    pub numbers: [c_int; 15],
    pub shared_per_multiprocessor: usize,
    /// From `regsPerMultiprocessor` to `cooperativeLaunch`.
    pub more_numbers: [c_int; 10],
    pub shared_per_block_optin: usize,
    /// From `pageableMemoryAccessUsesHostPageTables` to `accessPolicyMaxWindowSize`.
    pub access: [c_int; 4],
    pub reserved_shared_per_block: usize,
    /// From `hostRegisterSupported` to `hostNumaMultinodeIpcSupported`.
    pub features: [c_int; 20],
    pub reserved: [c_int; 56],
}

// What nvcc's headers say of them.
const _: () = assert!(size_of::<Resource>() == 144 && size_of::<Channels>() == 20);
const _: () = assert!(size_of::<Texture>() == 72 && size_of::<FunctionAttributes>() == 144);
const _: () = assert!(size_of::<PointerAttributes>() == 88 && size_of::<LaunchConfig>() == 56);
const _: () = assert!(size_of::<CopyPeerParams>() == 168);
const _: () = assert!(size_of::<Copy3dParams>() == 160 && size_of::<KernelNodeParams>() == 56);
const _: () = assert!(size_of::<DeviceProperties>() == 1008);
