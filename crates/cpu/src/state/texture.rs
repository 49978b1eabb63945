//! Texture and surface objects.

use std::ffi::c_uint;
use std::sync::{Arc, Weak};

use super::array;
use super::context::{self, Context};
use super::device::MAX_2D;
use super::handle::{self, Handles};
use super::status::{Failure, Result, Status};
use crate::texture::{
    self, MAX_LINEAR_TEXELS, MAX_PITCH, MipLevel, NORMALIZED, Object, READ_AS_INTEGER, Sampler,
    Surface, Texels, Texture,
};
use api::{ArrayFormat, ResourceDesc, ResourceViewDesc, TextureDesc};

/// A texture or surface object.
struct ObjectInfo {
    /// The number by which kernels find it.
    number: u64,
    context: Weak<Context>,
    resource: ResourceDesc,
    /// Of a texture only.
    texture: Option<(TextureDesc, Option<ResourceViewDesc>)>,
}

/// By the numbers by which kernels find the objects.
static OBJECTS: Handles<ObjectInfo> = Handles::new();

/// `CU_RESOURCE_TYPE_*`
const ARRAY: c_uint = 0;
const MIPMAPPED: c_uint = 1;
const LINEAR: c_uint = 2;
const PITCHED: c_uint = 3;

/// Rows of a texture in pitched memory begin at multiples of this, as
/// `CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT` says.
const PITCH_ALIGNMENT: usize = 32;

/// `CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT`
pub(crate) const BASE_ALIGNMENT: u64 = 512;

pub(crate) fn refuse(why: &str) -> Failure {
    Status::INVALID_VALUE.because(format!("no such texture or surface: {why}"))
}

/// What a texture reads.
pub(crate) struct Source {
    pub(crate) levels: Vec<MipLevel>,
    pub(crate) format: ArrayFormat,
    pub(crate) channels: u32,
    pub(crate) flags: u32,
    linear: bool,
    pub(crate) hold: Vec<Texels>,
}

impl Source {
    pub(crate) fn of_levels(levels: Vec<Texels>) -> Result<Source> {
        let first = levels.first().ok_or(Status::INVALID_VALUE)?;
        Ok(Source {
            levels: levels.iter().map(MipLevel::from).collect(),
            format: first.format,
            channels: first.described.channels,
            flags: first.described.flags,
            linear: false,
            hold: levels,
        })
    }

    /// Texels in memory, one after the other.
    pub(crate) fn linear(
        format: (c_uint, c_uint),
        address: u64,
        width: usize,
        texel_bytes: usize,
    ) -> Result<Source> {
        Ok(Source {
            linear: true,
            ..Source::in_memory(format, address, [width, 1], width * texel_bytes)?
        })
    }

    /// Rows in memory.
    pub(crate) fn in_memory(
        (format, channels): (c_uint, c_uint),
        address: u64,
        [width, height]: [usize; 2],
        pitch: usize,
    ) -> Result<Source> {
        let format = ArrayFormat::from_raw(format)
            .ok_or_else(|| refuse("its format is none that the CPU device has"))?;
        if !matches!(channels, 1 | 2 | 4) {
            return Err(refuse("it has 1, 2 or 4 channels"));
        }
        if address == 0 || !address.is_multiple_of(BASE_ALIGNMENT) {
            return Err(refuse(&format!(
                "its memory begins at {address:#x}, no multiple of {BASE_ALIGNMENT}"
            )));
        }
        let level = MipLevel {
            address,
            extent: [width, height, 1],
            pitch,
            plane: pitch.saturating_mul(height),
        };
        let is_empty = width == 0 || height == 0;
        Ok(Source {
            levels: if is_empty { Vec::new() } else { vec![level] },
            format,
            channels,
            flags: 0,
            linear: false,
            hold: Vec::new(),
        })
    }

    fn new(resource: &ResourceDesc) -> Result<Source> {
        if resource.flags != 0 {
            return Err(refuse("the flags of a resource must be 0"));
        }
        let handle = resource.resource as usize;
        if matches!(resource.kind, ARRAY | MIPMAPPED) && handle == 0 {
            return Err(refuse("its array is null"));
        }
        let format = (resource.format, resource.channels);
        let size = ArrayFormat::from_raw(resource.format).map_or(1, |format| {
            format.bytes() * resource.channels.max(1) as usize
        });
        match resource.kind {
            ARRAY => Source::of_levels(vec![array::find(handle)?.texels.clone()]),
            MIPMAPPED => Source::of_levels(array::find_mipmapped(handle)?.levels.clone()),
            LINEAR => {
                let width = resource.width / size;
                if width > MAX_LINEAR_TEXELS as usize {
                    return Err(refuse("its linear memory is too large"));
                }
                Source::linear(format, resource.resource, width, size)
            }
            PITCHED => {
                let (width, height, pitch) = (resource.width, resource.height, resource.pitch);
                if !pitch.is_multiple_of(PITCH_ALIGNMENT) {
                    return Err(refuse(&format!(
                        "its pitch is {pitch}, no multiple of {PITCH_ALIGNMENT}"
                    )));
                }
                if width > MAX_2D[0] || height > MAX_2D[1] || pitch > MAX_PITCH {
                    return Err(refuse("its rows are too many or too long"));
                }
                Source::in_memory(format, resource.resource, [width, height], pitch)
            }
            _ => Err(refuse("unknown type of a resource")),
        }
    }

    /// Restricts it to what a view shows.
    fn viewed(mut self, view: &ResourceViewDesc) -> Result<Source> {
        let (format, channels) = view_format(view.format)
            .ok_or_else(|| Status::NOT_SUPPORTED.because("views of this format"))?;
        if format.bytes() as u32 * channels != self.format.bytes() as u32 * self.channels {
            return Err(refuse(
                "the view's texels have another size than the array's",
            ));
        }
        (self.format, self.channels) = (format, channels);
        let [width, height, depth] = self.levels[0].extent;
        let layered = self.flags & texture::LAYERED != 0;
        let flat = layered || self.flags & texture::CUBEMAP != 0;
        let same = view.width == width
            && view.height.max(1) == height
            && (flat || view.depth.max(1) == depth);
        if !same {
            return Err(refuse("the view has another extent than the array"));
        }
        let (first, last) = (
            view.first_mipmap_level as usize,
            view.last_mipmap_level as usize,
        );
        if first > last || last >= self.levels.len() {
            return Err(refuse("the view has levels that the array has not"));
        }
        self.levels = self.levels[first..=last].to_vec();
        if layered {
            let (first, last) = (view.first_layer as usize, view.last_layer as usize);
            if first > last || last >= depth {
                return Err(refuse("the view has layers that the array has not"));
            }
            for level in &mut self.levels {
                level.address += (first * level.plane) as u64;
                level.extent[2] = last - first + 1;
            }
        }
        Ok(self)
    }

    /// The texture of it.
    pub(crate) fn texture(self, desc: &TextureDesc) -> Result<Texture> {
        let mut read = *desc;
        if self.levels.len() > 1 {
            // Levels have no other coordinates.
            read.flags |= NORMALIZED;
        }
        let mut sampler = Sampler::new(&read).ok_or_else(|| refuse("an unknown mode or flag"))?;
        // Only narrow integers have a fraction of their range.
        let integers = self.format.is_integer()
            && (desc.flags & READ_AS_INTEGER != 0 || self.format.bytes() == 4);
        if integers {
            // As an H200: they are not filtered.
            (sampler.linear, sampler.linear_levels) = (false, false);
        }
        Ok(Texture {
            levels: self.levels,
            format: self.format,
            channels: self.channels,
            integers,
            sampler,
            flags: self.flags,
            linear: self.linear,
            checked: self.hold.is_empty(),
            _retained: self.hold,
        })
    }
}

/// `CU_RES_VIEW_FORMAT_*` of channels that are not compressed: each type with 1,
/// 2 and 4 channels.
fn view_format(number: c_uint) -> Option<(ArrayFormat, u32)> {
    use ArrayFormat::*;
    let at = number.checked_sub(1)? as usize;
    let format = [U8, I8, U16, I16, U32, I32, F16, F32].get(at / 3)?;
    Some((*format, [1, 2, 4][at % 3]))
}

/// The surface of an array, also of one without `CUDA_ARRAY3D_SURFACE_LDST`, as on a GPU.
pub(crate) fn surface(texels: &Texels) -> Surface {
    Surface {
        texels: texels.clone(),
    }
}

/// Makes a texture of the current context; returns its number.
pub(crate) fn create_texture(
    resource: ResourceDesc,
    desc: TextureDesc,
    view: Option<ResourceViewDesc>,
) -> Result<u64> {
    let context = context::working()?;
    let mut source = Source::new(&resource)?;
    if let Some(view) = &view {
        if !matches!(resource.kind, ARRAY | MIPMAPPED) {
            return Err(refuse("only arrays have views"));
        }
        source = source.viewed(view)?;
    }
    let object = Object::Texture(source.texture(&desc)?);
    Ok(insert(&context, object, resource, Some((desc, view))))
}

/// Makes a surface of the current context; returns its number.
pub(crate) fn create_surface(resource: ResourceDesc) -> Result<u64> {
    let context = context::working()?;
    if resource.kind != ARRAY || resource.flags != 0 || resource.resource == 0 {
        return Err(refuse("a surface is one of an array"));
    }
    let surface = surface(&array::find(resource.resource as usize)?.texels);
    Ok(insert(&context, Object::Surface(surface), resource, None))
}

fn insert(
    context: &Arc<Context>,
    object: Object,
    resource: ResourceDesc,
    texture: Option<(TextureDesc, Option<ResourceViewDesc>)>,
) -> u64 {
    let handle = handle::reserve();
    let number = handle as u64;
    texture::bind(number, object);
    let info = ObjectInfo {
        number,
        context: Arc::downgrade(context),
        resource,
        texture,
    };
    OBJECTS.insert_at(handle, Arc::new(info));
    number
}

/// Frees the objects of a context.
pub(crate) fn destroy_all(context: &Arc<Context>) {
    for object in OBJECTS.remove_all(|object| std::ptr::eq(object.context.as_ptr(), &**context)) {
        texture::remove(object.number);
    }
}

fn find(number: u64) -> Result<Arc<ObjectInfo>> {
    context::working()?;
    OBJECTS
        .get(number as usize)
        .ok_or_else(|| Status::INVALID_VALUE.because("no live texture or surface has this handle"))
}

/// What a texture was made of.
pub(crate) fn texture_info(
    number: u64,
) -> Result<(ResourceDesc, TextureDesc, Option<ResourceViewDesc>)> {
    let object = find(number)?;
    match object.texture {
        Some((desc, view)) => Ok((object.resource, desc, view)),
        None => Err(refuse("it is a surface")),
    }
}

/// What a surface was made of.
pub(crate) fn surface_info(number: u64) -> Result<ResourceDesc> {
    let object = find(number)?;
    match object.texture {
        None => Ok(object.resource),
        Some(_) => Err(refuse("it is a texture")),
    }
}

/// Destroys an object after all work, which may still use it.
pub(crate) fn destroy(number: u64) -> Result {
    let context = context::working()?;
    context.wait();
    OBJECTS.remove(number as usize);
    texture::remove(number);
    context.finish_wait()
}
