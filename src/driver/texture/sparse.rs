//! Sparse arrays, and arrays whose memory comes later: what the driver says of them.

use crate::driver::device::Device;
use crate::driver::error::Error;
use crate::driver::pod::texel::Texel;
use crate::driver::texture::array::Array;
use crate::driver::texture::mipmapped::MipmappedArray;
use api::{ArrayRequirements, SparseProperties};

/// How a sparse array is made of tiles (`CUDA_ARRAY_SPARSE_PROPERTIES`). Levels from `tail_level`
/// on are smaller than a tile, and lie together in the mip tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SparseTiles {
    /// Texels, rows and planes of a tile.
    pub tile: [u32; 3],
    /// The first level of the mip tail.
    pub tail_level: u32,
    /// Bytes of the mip tail.
    pub tail_bytes: u64,
    /// Whether all layers share one mip tail; else each has its own.
    pub has_single_tail: bool,
}

/// `CU_ARRAY_SPARSE_PROPERTIES_SINGLE_MIPTAIL`
const SINGLE_TAIL: u32 = 1;

impl From<SparseProperties> for SparseTiles {
    fn from(raw: SparseProperties) -> SparseTiles {
        SparseTiles {
            tile: raw.tile,
            tail_level: raw.tail_level,
            tail_bytes: raw.tail_size,
            has_single_tail: raw.flags & SINGLE_TAIL != 0,
        }
    }
}

impl<T: Texel> Array<T> {
    /// The tiles of an array made with [`sparse`](crate::driver::ArrayFlags::sparse)
    /// (`cuArrayGetSparseProperties`, from CUDA 11.1); `CUDA_ERROR_INVALID_VALUE` for others.
    pub fn sparse_tiles(&self) -> Result<SparseTiles, Error> {
        let mut raw = SparseProperties::default();
        let api = self.context().bind()?;
        // SAFETY: the array is live; writes one structure.
        unsafe { api.cuArrayGetSparseProperties(&mut raw, self.raw()) }?;
        Ok(raw.into())
    }

    /// Bytes and alignment of the memory that an array made with
    /// [`deferred_mapping`](crate::driver::ArrayFlags::deferred_mapping) needs on a device
    /// (`cuArrayGetMemoryRequirements`, from CUDA 11.6); `CUDA_ERROR_INVALID_VALUE` for others.
    pub fn memory_requirements(&self, device: &Device) -> Result<(usize, usize), Error> {
        self.context().device().driver().check_device(device)?;
        let mut raw = ArrayRequirements::default();
        let api = self.context().bind()?;
        // SAFETY: the array is live; writes one structure.
        unsafe { api.cuArrayGetMemoryRequirements(&mut raw, self.raw(), device.raw()) }?;
        Ok((raw.size, raw.alignment))
    }
}

impl<T: Texel> MipmappedArray<T> {
    /// The tiles of a sparse mipmapped array (`cuMipmappedArrayGetSparseProperties`), as
    /// [`Array::sparse_tiles`].
    pub fn sparse_tiles(&self) -> Result<SparseTiles, Error> {
        let mut raw = SparseProperties::default();
        let api = self.context().bind()?;
        // SAFETY: the array is live; writes one structure.
        unsafe { api.cuMipmappedArrayGetSparseProperties(&mut raw, self.raw()) }?;
        Ok(raw.into())
    }

    /// Bytes and alignment of its memory (`cuMipmappedArrayGetMemoryRequirements`), as
    /// [`Array::memory_requirements`].
    pub fn memory_requirements(&self, device: &Device) -> Result<(usize, usize), Error> {
        self.context().device().driver().check_device(device)?;
        let mut raw = ArrayRequirements::default();
        let api = self.context().bind()?;
        let device = device.raw();
        // SAFETY: the array is live; writes one structure.
        unsafe { api.cuMipmappedArrayGetMemoryRequirements(&mut raw, self.raw(), device) }?;
        Ok((raw.size, raw.alignment))
    }
}
