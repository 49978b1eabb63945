//! Texture objects, which kernels read by coordinates, with filtering.

pub(crate) mod array;
pub(crate) mod mipmapped;
pub(crate) mod mipmapped_memory;
pub(crate) mod object;
pub(crate) mod reference;
pub(crate) mod resource;
pub(crate) mod shape;
pub(crate) mod sparse;
pub(crate) mod surface;
pub(crate) mod transfer;

use std::ops::RangeInclusive;
use std::sync::{Arc, MutexGuard};

use crate::driver::device::Device;
use crate::driver::device::context::{Context, report_drop};
use crate::driver::error::Error;
use crate::driver::memory::order::Part;
use crate::driver::pod::texel::Texel;
use crate::driver::stream::Stream;
use crate::driver::stream::retained::{Retained, RetainedRef};
use crate::driver::stream::users::{Users, UsingStreams, Waits};
use crate::driver::texture::object::Object;
use crate::driver::texture::resource::{TextureResource, TextureSource};
use crate::driver::texture::shape::LAYERED;
use api::ArrayFormat;
use api::{CUtexObject, ResourceDesc, ResourceViewDesc, TextureDesc};

/// The address mode of an axis (`CUaddress_mode`): how coordinates outside of the texture
/// are read. [`Wrap`](AddressMode::Wrap) and [`Mirror`](AddressMode::Mirror) need
/// normalised coordinates, and are like [`Clamp`](AddressMode::Clamp) without them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum AddressMode {
    /// The texture repeats.
    Wrap = 0,
    /// Coordinates are clamped to the edge.
    #[default]
    Clamp = 1,
    /// The texture repeats, mirrored every second time.
    Mirror = 2,
    /// The border colour. A GPU filters a 1D texture as a 2D one of height 1: if the mode
    /// of y is the border, it is blended in along y too.
    Border = 3,
}

/// The filter mode (`CUfilter_mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum FilterMode {
    /// Nearest texel.
    #[default]
    Point = 0,
    /// Linear interpolation of the 2, 4 or 8 nearest texels, with weights of 8 bits. For
    /// floating-point texels and integers read as normalised floats.
    Linear = 1,
}

/// `CU_TRSF_*`
const READ_AS_INTEGER: u32 = 0x01;
const NORMALIZED_COORDINATES: u32 = 0x02;
const SRGB: u32 = 0x10;
const NO_TRILINEAR_OPTIMIZATION: u32 = 0x20;
const SEAMLESS_CUBEMAP: u32 = 0x40;

/// Texture descriptor (`CUDA_TEXTURE_DESC`).
///
/// ```
/// use ptxkit::driver::{AddressMode, FilterMode, TextureDescriptor};
/// let smooth = TextureDescriptor {
///     address: [AddressMode::Wrap; 3],
///     filter: FilterMode::Linear,
///     normalized_coordinates: true,
///     ..TextureDescriptor::default()
/// };
/// assert!(!smooth.read_as_integer);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TextureDescriptor {
    /// Address modes along x, y and z.
    pub address: [AddressMode; 3],
    /// Filter within a level.
    pub filter: FilterMode,
    /// Read integers of 8 and 16 bits as integers, not normalised to 0..1, or -1..1 for
    /// signed ones. Integers of 32 bits are always read as integers.
    pub read_as_integer: bool,
    /// Normalised coordinates: from 0 to 1 over the whole texture, else from 0 to its
    /// extent in texels. Required for mipmapped arrays and cubemaps.
    pub normalized_coordinates: bool,
    /// Convert channels of 8 bits, except the last, from sRGB to linear.
    pub srgb: bool,
    /// Maximum anisotropy, 1 to 16; 0 is as 1. The CPU device always uses 1.
    pub max_anisotropy: u32,
    /// Filter between levels of a mipmapped array.
    pub mipmap_filter: FilterMode,
    /// Level bias, added to the level that a kernel asks for.
    pub mipmap_bias: f32,
    /// Level clamp: the smallest and the largest level number read; 0 is the largest image.
    pub mipmap_levels: [f32; 2],
    /// The colour of [`AddressMode::Border`].
    pub border: [f32; 4],
    /// Seamless filtering across the faces of a cubemap (from CUDA 11.6).
    pub seamless_cubemap: bool,
    /// Allow approximate trilinear filtering.
    pub trilinear_optimization: bool,
}

impl Default for TextureDescriptor {
    /// The nearest texel by coordinates in texels, clamped to the edge; integers
    /// as fractions of their range; all levels.
    fn default() -> TextureDescriptor {
        TextureDescriptor {
            address: [AddressMode::Clamp; 3],
            filter: FilterMode::Point,
            read_as_integer: false,
            normalized_coordinates: false,
            srgb: false,
            max_anisotropy: 0,
            mipmap_filter: FilterMode::Point,
            mipmap_bias: 0.0,
            mipmap_levels: [0.0, 1000.0],
            border: [0.0; 4],
            seamless_cubemap: false,
            trilinear_optimization: true,
        }
    }
}

impl TextureDescriptor {
    pub(crate) fn flags(&self) -> u32 {
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        flag(self.read_as_integer, READ_AS_INTEGER)
            | flag(self.normalized_coordinates, NORMALIZED_COORDINATES)
            | flag(self.srgb, SRGB)
            | flag(!self.trilinear_optimization, NO_TRILINEAR_OPTIMIZATION)
            | flag(self.seamless_cubemap, SEAMLESS_CUBEMAP)
    }

    pub(crate) fn raw(&self) -> TextureDesc {
        TextureDesc {
            address_modes: self.address.map(|mode| mode as u32),
            filter_mode: self.filter as u32,
            flags: self.flags(),
            max_anisotropy: self.max_anisotropy,
            mipmap_filter_mode: self.mipmap_filter as u32,
            mipmap_level_bias: self.mipmap_bias,
            min_mipmap_level: self.mipmap_levels[0],
            max_mipmap_level: self.mipmap_levels[1],
            border_color: self.border,
            reserved: [0; 12],
        }
    }

    pub(crate) fn from_raw(raw: &TextureDesc) -> TextureDescriptor {
        let filter = |mode| match mode {
            1 => FilterMode::Linear,
            _ => FilterMode::Point,
        };
        let has = |flag| raw.flags & flag != 0;
        TextureDescriptor {
            address: raw.address_modes.map(|mode| match mode {
                0 => AddressMode::Wrap,
                2 => AddressMode::Mirror,
                3 => AddressMode::Border,
                _ => AddressMode::Clamp,
            }),
            filter: filter(raw.filter_mode),
            read_as_integer: has(READ_AS_INTEGER),
            normalized_coordinates: has(NORMALIZED_COORDINATES),
            srgb: has(SRGB),
            max_anisotropy: raw.max_anisotropy,
            mipmap_filter: filter(raw.mipmap_filter_mode),
            mipmap_bias: raw.mipmap_level_bias,
            mipmap_levels: [raw.min_mipmap_level, raw.max_mipmap_level],
            border: raw.border_color,
            seamless_cubemap: has(SEAMLESS_CUBEMAP),
            trilinear_optimization: !has(NO_TRILINEAR_OPTIMIZATION),
        }
    }

    /// Fails if texels of the format cannot be filtered so.
    pub(crate) fn check(&self, format: ArrayFormat) -> Result<(), Error> {
        let integers = format.is_integer() && (self.read_as_integer || format.bytes() == 4);
        let filters = [self.filter, self.mipmap_filter];
        if integers && filters.contains(&FilterMode::Linear) {
            return Err(Error::IntegerFilter { format });
        }
        Ok(())
    }
}

/// A resource view: part of an array, or its texels reinterpreted as others of the same
/// size (`CUDA_RESOURCE_VIEW_DESC`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceView {
    format: (ArrayFormat, u32),
    levels: Option<RangeInclusive<u32>>,
    layers: Option<RangeInclusive<u32>>,
}

impl ResourceView {
    /// A view of a whole array with texels `T`, of the size of its own.
    pub fn of<T: Texel>() -> ResourceView {
        ResourceView {
            format: (T::FORMAT, T::CHANNELS),
            levels: None,
            layers: None,
        }
    }

    /// Restricts it to levels of a mipmapped array; the first is level 0 of the texture.
    pub fn levels(self, levels: RangeInclusive<u32>) -> ResourceView {
        ResourceView {
            levels: Some(levels),
            ..self
        }
    }

    /// Restricts it to layers of a layered array; the first is layer 0 of the texture.
    pub fn layers(self, layers: RangeInclusive<u32>) -> ResourceView {
        ResourceView {
            layers: Some(layers),
            ..self
        }
    }

    fn raw(&self, source: &TextureSource) -> Result<ResourceViewDesc, Error> {
        let (format, channels) = self.format;
        let (own, own_channels) = source.format;
        if format.bytes() as u32 * channels != own.bytes() as u32 * own_channels {
            return Err(Error::ArrayFormat {
                expected: self.format,
                found: Some(own),
                channels: own_channels,
            });
        }
        let Some((shape, count)) = source.array else {
            return Err(Error::NotAnArray);
        };
        let levels = self.levels.clone().unwrap_or(0..=count - 1);
        if levels.is_empty() || *levels.end() >= count {
            return Err(Error::MipmapLevel {
                what: "the last level of a view",
                given: *levels.end(),
                levels: count,
            });
        }
        let ([width, height, depth], flags) = shape.raw();
        let all = match flags & LAYERED {
            0 => 0,
            _ => (depth as u32).saturating_sub(1),
        };
        let layers = self.layers.clone().unwrap_or(0..=all);
        if layers.is_empty() || *layers.end() > all {
            return Err(Error::ArrayBox {
                what: "layers of a view",
                axis: 2,
                start: *layers.start() as usize,
                end: *layers.end() as usize + 1,
                capacity: all as usize + 1,
            });
        }
        // `CU_RES_VIEW_FORMAT_*` counts 1, 2 and 4 channels of each type.
        let row = match format {
            ArrayFormat::U8 => 0,
            ArrayFormat::I8 => 1,
            ArrayFormat::U16 => 2,
            ArrayFormat::I16 => 3,
            ArrayFormat::U32 => 4,
            ArrayFormat::I32 => 5,
            ArrayFormat::F16 => 6,
            ArrayFormat::F32 => 7,
        };
        Ok(ResourceViewDesc {
            format: 1 + row * 3 + channels.ilog2(),
            width,
            height,
            depth,
            first_mipmap_level: *levels.start(),
            last_mipmap_level: *levels.end(),
            first_layer: *layers.start(),
            last_layer: *layers.end(),
            reserved: [0; 16],
        })
    }
}

/// A texture object (`cuTexObjectCreate`). A kernel takes it as a `.u64`
/// parameter, which `&texture` fills, and reads it with `tex` and `tld4`.
///
/// It retains its resource, which may be written meanwhile: kernels launched later read the
/// new values. Destroyed when dropped (`cuTexObjectDestroy`), after the kernels that were
/// launched with it, or with the last graph that uses it.
///
/// `tex.1d` reads linear memory by texel index (`.s32`) and an array by coordinate
/// (`.f32`). With the wrong kind an H200 returns 0, and the CPU device stops the kernel.
/// Missing channels are 0. With several levels, coordinates are normalised whatever the
/// descriptor says.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::*;
/// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
/// let row = Array::from_slice(&context, ArrayShape::D1 { width: 4 }, &[0.0_f32, 1.0, 4.0, 9.0])?;
/// let smooth = TextureDescriptor { filter: FilterMode::Linear, ..Default::default() };
/// let texture = Texture::new(&row, &smooth)?;
///
/// let module = Module::load(&context, b"
///     .version 8.0 .target sm_80 .address_size 64
///     .visible .entry fetch(.param .u64 texture, .param .f32 x, .param .u64 result) {
///         .reg .b64 %t, %to; .reg .f32 %x, %r, %g, %b, %a;
///         ld.param.u64 %t, [texture];
///         ld.param.f32 %x, [x];
///         ld.param.u64 %to, [result];
///         tex.1d.v4.f32.f32 {%r, %g, %b, %a}, [%t, {%x}];
///         st.global.f32 [%to], %r;
///         ret;
///     }")?;
/// let result = DeviceBuffer::<f32>::zeroed(&context, 1)?;
/// let stream = Stream::new(&context)?;
/// // Halfway between the middles of the texels 1 and 2.
/// let arguments = (&texture, 2.0_f32, &result);
/// // SAFETY: the kernel reads the texture and writes one number.
/// unsafe { module.kernel("fetch")?.launch(LaunchConfig::default(), &stream, arguments) }?;
/// stream.synchronize()?;
/// assert_eq!(result.to_vec()?, [2.5]);
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
#[derive(Debug)]
pub struct Texture {
    pub(crate) object: Arc<TextureObject>,
}

/// The texture's handle, destroyed after its last use.
#[derive(Debug)]
pub(crate) struct TextureObject {
    context: Context,
    pub(crate) raw: CUtexObject,
    has_view: bool,
    users: UsingStreams,
    memory: Option<Part>,
    resource: RetainedRef,
}

impl Retained for TextureObject {
    fn before_launch(
        &self,
        stream: &Stream,
        _waits: &mut Waits,
    ) -> Result<Option<MutexGuard<'_, Users>>, Error> {
        self.users.record(stream);
        Ok(None)
    }
}

impl Object for Arc<TextureObject> {
    fn context(&self) -> &Context {
        &self.context
    }

    fn retained(&self) -> RetainedRef {
        self.clone()
    }

    fn memory(&self) -> Option<Part> {
        self.memory.clone()
    }
}

impl Drop for TextureObject {
    fn drop(&mut self) {
        // A kernel may still read it: leak the resource.
        if !self.users.wait_until_done() {
            std::mem::forget(self.resource.clone());
            return;
        }
        report_drop(
            self.context
                .bind()
                // SAFETY: made once and destroyed once, when nothing uses it any more.
                .and_then(|api| unsafe { Ok(api.cuTexObjectDestroy(self.raw)?) }),
        );
    }
}

impl Texture {
    /// A texture of all of a resource. Integers that are read as such cannot be
    /// filtered ([`Error::IntegerFilter`]).
    pub fn new(
        resource: &impl TextureResource,
        descriptor: &TextureDescriptor,
    ) -> Result<Texture, Error> {
        let source = resource.source()?;
        descriptor.check(source.format.0)?;
        Texture::new_object(source, descriptor, None)
    }

    /// A texture of a view of an array. Its texels must have the size of the array's
    /// ([`Error::ArrayFormat`]).
    pub fn with_view(
        resource: &impl TextureResource,
        descriptor: &TextureDescriptor,
        view: &ResourceView,
    ) -> Result<Texture, Error> {
        let source = resource.source()?;
        let raw = view.raw(&source)?;
        descriptor.check(view.format.0)?;
        Texture::new_object(source, descriptor, Some(raw))
    }

    fn new_object(
        source: TextureSource,
        descriptor: &TextureDescriptor,
        view: Option<ResourceViewDesc>,
    ) -> Result<Texture, Error> {
        if source.needs_synchronize {
            source.context.synchronize()?;
        }
        let api = source.context.bind()?;
        let desc = descriptor.raw();
        let view = view.as_ref();
        let view_pointer = view.map_or(std::ptr::null(), std::ptr::from_ref);
        let mut raw = 0;
        // SAFETY: reads the descriptions, of which the resource is live and kept; writes a
        // handle.
        unsafe { api.cuTexObjectCreate(&mut raw, &source.desc, &desc, view_pointer) }?;
        Ok(Texture {
            object: Arc::new(TextureObject {
                memory: source.memory(),
                context: source.context,
                raw,
                has_view: view.is_some(),
                users: UsingStreams::default(),
                resource: source.retained,
            }),
        })
    }

    /// The context it lives in.
    pub fn context(&self) -> &Context {
        &self.object.context
    }

    /// The driver's handle, for calls that the safe layer does not have. It is
    /// good as long as the texture.
    pub fn raw(&self) -> CUtexObject {
        self.object.raw
    }

    /// Its descriptor as the driver reports it (`cuTexObjectGetTextureDesc`). NVIDIA's
    /// driver reports zeros for the border colour.
    pub fn descriptor(&self) -> Result<TextureDescriptor, Error> {
        let mut desc = TextureDesc::default();
        let api = self.context().bind()?;
        // SAFETY: the texture is live; writes one structure.
        unsafe { api.cuTexObjectGetTextureDesc(&mut desc, self.raw()) }?;
        Ok(TextureDescriptor::from_raw(&desc))
    }

    /// Its resource as the driver reports it (`cuTexObjectGetResourceDesc`).
    pub fn resource(&self) -> Result<ResourceDesc, Error> {
        let mut desc = ResourceDesc::default();
        let api = self.context().bind()?;
        // SAFETY: the texture is live; writes one structure.
        unsafe { api.cuTexObjectGetResourceDesc(&mut desc, self.raw()) }?;
        Ok(desc)
    }

    /// Its view as the driver reports it (`cuTexObjectGetResourceViewDesc`), if it has one.
    pub fn view(&self) -> Result<Option<ResourceViewDesc>, Error> {
        if !self.object.has_view {
            return Ok(None);
        }
        let mut desc = ResourceViewDesc::default();
        let api = self.context().bind()?;
        // SAFETY: the texture is live and has a view; writes one structure.
        unsafe { api.cuTexObjectGetResourceViewDesc(&mut desc, self.raw()) }?;
        Ok(Some(desc))
    }
}

impl Device {
    /// The maximum number of texels `T` in a texture of a
    /// [`DeviceBuffer`](crate::driver::DeviceBuffer) (`cuDeviceGetTexture1DLinearMaxWidth`,
    /// from CUDA 11.1).
    pub fn most_linear_texels<T: Texel>(&self) -> Result<usize, Error> {
        let mut texels = 0;
        let api = self.driver().api();
        let (format, channels) = (T::FORMAT as u32, T::CHANNELS);
        // SAFETY: the device is the driver's; writes one number.
        unsafe {
            api.cuDeviceGetTexture1DLinearMaxWidth(&mut texels, format, channels, self.raw())
        }?;
        Ok(texels)
    }
}
