//! Texture resources: arrays and memory.

use crate::driver::device::context::Context;
use crate::driver::error::Error;
use crate::driver::memory::buffer::DeviceBuffer;
use crate::driver::memory::order::Part;
use crate::driver::memory::pitched::PitchedBuffer;
use crate::driver::pod::texel::Texel;
use crate::driver::stream::retained::RetainedRef;
use crate::driver::texture::array::Array;
use crate::driver::texture::mipmapped::MipmappedArray;
use crate::driver::texture::shape::ArrayShape;
use api::ArrayFormat;
use api::{CUarray, CUdeviceptr, CUmipmappedArray, ResourceDesc};

/// The resource behind a texture or a surface.
#[derive(Debug)]
pub struct TextureSource {
    pub(crate) context: Context,
    pub(crate) desc: ResourceDesc,
    pub(crate) format: (ArrayFormat, u32),
    /// Shape and levels of an array.
    pub(crate) array: Option<(ArrayShape, u32)>,
    pub(crate) retained: RetainedRef,
    /// Whether the context must be synchronised first, as the memory is allocated in stream
    /// order.
    pub(crate) needs_synchronize: bool,
}

/// A resource as the entries for texture references take it.
pub(crate) enum BoundResource {
    Array(CUarray),
    Mipmapped(CUmipmappedArray),
    Linear {
        address: CUdeviceptr,
        bytes: usize,
    },
    Rows {
        address: CUdeviceptr,
        width: usize,
        height: usize,
        pitch: usize,
    },
}

impl TextureSource {
    /// The memory of a resource that is no array.
    pub(crate) fn memory(&self) -> Option<Part> {
        match self.bound() {
            BoundResource::Array(_) | BoundResource::Mipmapped(_) => None,
            BoundResource::Linear { address, bytes } => Some(Part::new(address, bytes)),
            BoundResource::Rows {
                address,
                height,
                pitch,
                ..
            } => Some(Part::new(address, height.saturating_mul(pitch))),
        }
    }

    pub(crate) fn bound(&self) -> BoundResource {
        let address = self.desc.resource;
        match self.desc.kind {
            ARRAY => BoundResource::Array(std::ptr::with_exposed_provenance_mut(address as usize)),
            MIPMAPPED => {
                BoundResource::Mipmapped(std::ptr::with_exposed_provenance_mut(address as usize))
            }
            LINEAR => BoundResource::Linear {
                address,
                bytes: self.desc.width,
            },
            _ => BoundResource::Rows {
                address,
                width: self.desc.width,
                height: self.desc.height,
                pitch: self.desc.pitch,
            },
        }
    }
}

pub(crate) mod sealed {
    pub trait Sealed {
        fn source(&self) -> Result<super::TextureSource, super::Error>;
    }
}

/// What textures can be of: [`Array`], [`MipmappedArray`], [`DeviceBuffer`] (one
/// row, point filter) and [`PitchedBuffer`] (rows).
pub trait TextureResource: sealed::Sealed {}

/// `CU_RESOURCE_TYPE_*`
const ARRAY: u32 = 0;
const MIPMAPPED: u32 = 1;
const LINEAR: u32 = 2;
const PITCHED: u32 = 3;

impl<T: Texel> TextureResource for Array<T> {}
impl<T: Texel> sealed::Sealed for Array<T> {
    fn source(&self) -> Result<TextureSource, Error> {
        Ok(TextureSource {
            context: self.context().clone(),
            desc: ResourceDesc {
                kind: ARRAY,
                resource: self.raw().expose_provenance() as u64,
                ..ResourceDesc::default()
            },
            format: (T::FORMAT, T::CHANNELS),
            array: Some((self.shape(), 1)),
            retained: self.memory().clone(),
            needs_synchronize: false,
        })
    }
}

impl<T: Texel> TextureResource for MipmappedArray<T> {}
impl<T: Texel> sealed::Sealed for MipmappedArray<T> {
    fn source(&self) -> Result<TextureSource, Error> {
        Ok(TextureSource {
            context: self.context().clone(),
            desc: ResourceDesc {
                kind: MIPMAPPED,
                resource: self.raw().expose_provenance() as u64,
                ..ResourceDesc::default()
            },
            format: (T::FORMAT, T::CHANNELS),
            array: Some((self.shape(), self.levels())),
            retained: self.memory().clone(),
            needs_synchronize: false,
        })
    }
}

impl<T: Texel> TextureResource for DeviceBuffer<T> {}
impl<T: Texel> sealed::Sealed for DeviceBuffer<T> {
    fn source(&self) -> Result<TextureSource, Error> {
        self.allocation().refuse_graph_memory()?;
        Ok(TextureSource {
            context: self.context().clone(),
            desc: ResourceDesc {
                kind: LINEAR,
                resource: self.address(),
                format: T::FORMAT as u32,
                channels: T::CHANNELS,
                width: self.bytes(),
                ..ResourceDesc::default()
            },
            format: (T::FORMAT, T::CHANNELS),
            array: None,
            retained: self.allocation().clone(),
            needs_synchronize: self.allocation().is_tracked(),
        })
    }
}

impl<T: Texel> TextureResource for PitchedBuffer<T> {}
impl<T: Texel> sealed::Sealed for PitchedBuffer<T> {
    fn source(&self) -> Result<TextureSource, Error> {
        Ok(TextureSource {
            context: self.context().clone(),
            desc: ResourceDesc {
                kind: PITCHED,
                resource: self.address(),
                format: T::FORMAT as u32,
                channels: T::CHANNELS,
                width: self.width(),
                height: self.height(),
                pitch: self.pitch(),
                ..ResourceDesc::default()
            },
            format: (T::FORMAT, T::CHANNELS),
            array: None,
            retained: self.allocation().clone(),
            needs_synchronize: self.allocation().is_tracked(),
        })
    }
}
