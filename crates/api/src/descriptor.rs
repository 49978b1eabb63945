//! The C structures that describe arrays, textures and surfaces, with enums as
//! plain integers: what a driver writes there need not be known to the bindings.

use std::ffi::{c_int, c_uint};

use cudarc::driver::sys;

/// `CUDA_ARRAY_DESCRIPTOR`
#[allow(missing_docs)]
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayDesc {
    pub width: usize,
    /// 0 of a 1D array.
    pub height: usize,
    /// `CU_AD_FORMAT_*`
    pub format: c_uint,
    pub channels: c_uint,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`
#[allow(missing_docs)]
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Array3dDesc {
    pub width: usize,
    /// 0 of a 1D array.
    pub height: usize,
    /// 0 of a 2D array; the layers, faces or layers times 6 of the others.
    pub depth: usize,
    /// `CU_AD_FORMAT_*`
    pub format: c_uint,
    pub channels: c_uint,
    /// `CUDA_ARRAY3D_*`
    pub flags: c_uint,
}

/// `CUDA_RESOURCE_DESC`. All members of its union begin alike, so they are one
/// structure here, of which `kind` says how much counts.
#[allow(missing_docs)]
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceDesc {
    /// `CU_RESOURCE_TYPE_*`
    pub kind: c_uint,
    /// The handle of an array or a mipmapped array, or a device address.
    pub resource: u64,
    /// `CU_AD_FORMAT_*`, of linear and of pitched memory.
    pub format: c_uint,
    pub channels: c_uint,
    /// Bytes of linear memory, or texels in a row of pitched memory.
    pub width: usize,
    pub height: usize,
    /// Bytes from one row to the next.
    pub pitch: usize,
    pub reserved: [u64; 11],
    pub flags: c_uint,
}

/// `CUDA_TEXTURE_DESC`
#[allow(missing_docs)]
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TextureDesc {
    /// `CU_TR_ADDRESS_MODE_*`
    pub address_modes: [c_uint; 3],
    /// `CU_TR_FILTER_MODE_*`
    pub filter_mode: c_uint,
    /// `CU_TRSF_*`
    pub flags: c_uint,
    pub max_anisotropy: c_uint,
    pub mipmap_filter_mode: c_uint,
    pub mipmap_level_bias: f32,
    pub min_mipmap_level: f32,
    pub max_mipmap_level: f32,
    pub border_color: [f32; 4],
    pub reserved: [c_int; 12],
}

/// `CUDA_RESOURCE_VIEW_DESC`
#[allow(missing_docs)]
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceViewDesc {
    /// `CU_RES_VIEW_FORMAT_*`
    pub format: c_uint,
    pub width: usize,
    pub height: usize,
    pub depth: usize,
    pub first_mipmap_level: c_uint,
    pub last_mipmap_level: c_uint,
    pub first_layer: c_uint,
    pub last_layer: c_uint,
    pub reserved: [c_uint; 16],
}

const _: () = assert!(size_of::<ArrayDesc>() == size_of::<sys::CUDA_ARRAY_DESCRIPTOR_st>());
const _: () = assert!(size_of::<Array3dDesc>() == size_of::<sys::CUDA_ARRAY3D_DESCRIPTOR_st>());
const _: () = assert!(size_of::<ResourceDesc>() == size_of::<sys::CUDA_RESOURCE_DESC_st>());
const _: () = assert!(size_of::<TextureDesc>() == size_of::<sys::CUDA_TEXTURE_DESC_st>());
const _: () =
    assert!(size_of::<ResourceViewDesc>() == size_of::<sys::CUDA_RESOURCE_VIEW_DESC_st>());

/// `CUDA_ARRAY_SPARSE_PROPERTIES`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SparseProperties {
    /// Texels, rows and planes of a tile.
    pub tile: [c_uint; 3],
    /// The first level of the mip tail.
    pub tail_level: c_uint,
    /// Bytes of the mip tail.
    pub tail_size: u64,
    /// 1 where all layers share one mip tail.
    pub flags: c_uint,
    reserved: [c_uint; 4],
}

/// `CUDA_ARRAY_MEMORY_REQUIREMENTS`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayRequirements {
    /// Bytes.
    pub size: usize,
    /// What its place in memory is a multiple of.
    pub alignment: usize,
    reserved: [c_uint; 4],
}

/// `CUmemcpy3DOperand`: one end of a copy of a batch.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyOperand {
    /// `CU_MEMCPY_OPERAND_TYPE_*`: 1 memory, 2 an array.
    pub kind: c_uint,
    /// An address, or the handle of an array.
    pub place: u64,
    /// Of memory: values of a row, rows of a plane, and the location as kind and number. Of an
    /// array: where the box begins.
    pub numbers: [u64; 3],
}

/// `CUDA_MEMCPY3D_BATCH_OP`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoxCopy {
    /// What is read.
    pub from: CopyOperand,
    /// What is written.
    pub to: CopyOperand,
    /// Values of a row, rows of a plane, planes.
    pub extent: [usize; 3],
    /// `CU_MEMCPY_SRC_ACCESS_ORDER_*`
    pub source_order: c_uint,
    /// `CU_MEMCPY_FLAG_*`
    pub flags: c_uint,
}

const _: () = assert!(
    size_of::<SparseProperties>() == size_of::<sys::CUDA_ARRAY_SPARSE_PROPERTIES>()
        && size_of::<ArrayRequirements>() == 32
        && size_of::<CopyOperand>() == 40
        && size_of::<BoxCopy>() == 112
);
