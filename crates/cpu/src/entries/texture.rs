//! Texture and surface objects.

use std::ffi::c_uint;
use std::sync::{Arc, Weak};

use super::array;
use super::context::{self, Context};
use super::entry::entries;
use super::handle::{self, Handles};
use super::status::{Answer, Failure, Status};
use crate::texture::{
    self, MAX_LINEAR_TEXELS, MipLevel, NORMALIZED, Object, READ_AS_INTEGER, SURFACE, Sampler,
    Surface, Texels, Texture,
};
use api::ArrayFormat;
use api::{CUdevice, CUsurfObject, CUtexObject, ResourceDesc, ResourceViewDesc, TextureDesc};

/// What an object was made of, to be told.
struct Made {
    resource: ResourceDesc,
    /// Of a texture: how it is read, and what it shows.
    texture: Option<(TextureDesc, Option<ResourceViewDesc>)>,
}

struct Entry {
    /// By which kernels find it.
    number: u64,
    context: Weak<Context>,
    made: Made,
}

/// By the same numbers as the objects that kernels find.
static MADE: Handles<Entry> = Handles::new();

/// `CU_RESOURCE_TYPE_*`
const ARRAY: c_uint = 0;
const MIPMAPPED: c_uint = 1;
const LINEAR: c_uint = 2;
const PITCHED: c_uint = 3;

/// Rows of a texture in pitched memory begin at multiples of this, as
/// `CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT` says.
const PITCH_ALIGNMENT: usize = 32;

fn refuse(why: &str) -> Failure {
    Status::INVALID_VALUE.because(format!("no such texture or surface: {why}"))
}

/// What a texture reads.
pub(super) struct Source {
    pub(super) levels: Vec<MipLevel>,
    pub(super) format: ArrayFormat,
    pub(super) channels: u32,
    pub(super) flags: u32,
    linear: bool,
    pub(super) hold: Vec<Texels>,
}

impl Source {
    pub(super) fn of_levels(levels: Vec<Texels>) -> Answer<Source> {
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
    pub(super) fn linear(
        format: (c_uint, c_uint),
        address: u64,
        width: usize,
        texel_bytes: usize,
    ) -> Answer<Source> {
        Ok(Source {
            linear: true,
            ..Source::in_memory(format, address, [width, 1], width * texel_bytes)?
        })
    }

    /// Rows in memory.
    pub(super) fn in_memory(
        (format, channels): (c_uint, c_uint),
        address: u64,
        [width, height]: [usize; 2],
        pitch: usize,
    ) -> Answer<Source> {
        let format = ArrayFormat::from_raw(format)
            .ok_or_else(|| refuse("its format is none that the CPU device has"))?;
        if !matches!(channels, 1 | 2 | 4) {
            return Err(refuse("it has 1, 2 or 4 channels"));
        }
        if address == 0 || !address.is_multiple_of(16) {
            return Err(refuse("its memory is misaligned, or there is none"));
        }
        Ok(Source {
            levels: vec![MipLevel {
                address,
                extent: [width, height, 1],
                pitch,
                plane: pitch.saturating_mul(height),
            }],
            format,
            channels,
            flags: 0,
            linear: false,
            hold: Vec::new(),
        })
    }

    fn described(resource: &ResourceDesc) -> Answer<Source> {
        if resource.flags != 0 {
            return Err(refuse("the flags of a resource must be 0"));
        }
        let handle = resource.resource as usize;
        let format = (resource.format, resource.channels);
        let size = ArrayFormat::from_raw(resource.format).map_or(1, |format| {
            format.bytes() * resource.channels.max(1) as usize
        });
        match resource.kind {
            ARRAY => Source::of_levels(vec![array::at(handle)?.texels.clone()]),
            MIPMAPPED => Source::of_levels(array::mipmapped_at(handle)?.levels.clone()),
            LINEAR => {
                let width = resource.width / size;
                if width == 0 || width > MAX_LINEAR_TEXELS as usize {
                    return Err(refuse("its linear memory is empty or too large"));
                }
                Source::linear(format, resource.resource, width, size)
            }
            PITCHED => {
                let (width, height, pitch) = (resource.width, resource.height, resource.pitch);
                let row = width.saturating_mul(size);
                if row == 0 || height == 0 || pitch < row || !pitch.is_multiple_of(PITCH_ALIGNMENT)
                {
                    return Err(refuse(
                        "its rows are empty, longer than the pitch, or misaligned",
                    ));
                }
                Source::in_memory(format, resource.resource, [width, height], pitch)
            }
            _ => Err(refuse("unknown type of a resource")),
        }
    }

    /// Cuts it to what a view shows.
    fn viewed(mut self, view: &ResourceViewDesc) -> Answer<Source> {
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
    pub(super) fn texture(self, desc: &TextureDesc) -> Answer<Texture> {
        let mut read = *desc;
        if self.levels.len() > 1 {
            // Levels have no other coordinates.
            read.flags |= NORMALIZED;
        }
        let sampler = Sampler::new(&read).ok_or_else(|| refuse("an unknown mode or flag"))?;
        // Only narrow integers have a fraction of their range.
        let integers = self.format.is_integer()
            && (desc.flags & READ_AS_INTEGER != 0 || self.format.bytes() == 4);
        if integers && (sampler.linear || sampler.linear_levels && self.levels.len() > 1) {
            return Err(refuse("integers that are read as such are not filtered"));
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

/// The surface of an array.
pub(super) fn surface(texels: &Texels) -> Answer<Surface> {
    if texels.described.flags & SURFACE == 0 {
        return Err(refuse(
            "the array was not made with CUDA_ARRAY3D_SURFACE_LDST",
        ));
    }
    Ok(Surface {
        texels: texels.clone(),
    })
}

fn publish(context: &Arc<Context>, object: Object, made: Made) -> u64 {
    let number = handle::reserve();
    texture::bind(number as u64, object);
    MADE.insert_at(
        number,
        Arc::new(Entry {
            number: number as u64,
            context: Arc::downgrade(context),
            made,
        }),
    );
    number as u64
}

/// Frees the objects of a context.
pub(super) fn destroy_all(context: &Arc<Context>) {
    for entry in MADE.remove_all(|entry| std::ptr::eq(entry.context.as_ptr(), &**context)) {
        texture::remove(entry.number);
    }
}

fn made(number: u64) -> Answer<Arc<Entry>> {
    context::working()?;
    MADE.at(number as usize)
        .ok_or_else(|| Status::INVALID_VALUE.because("no live texture or surface has this handle"))
}

type TextureMade = (ResourceDesc, TextureDesc, Option<ResourceViewDesc>);

fn texture_made(number: u64) -> Answer<TextureMade> {
    let made = &made(number)?.made;
    match made.texture {
        Some((desc, view)) => Ok((made.resource, desc, view)),
        None => Err(refuse("it is a surface")),
    }
}

fn surface_made(number: u64) -> Answer<ResourceDesc> {
    let made = &made(number)?.made;
    match made.texture {
        None => Ok(made.resource),
        Some(_) => Err(refuse("it is a texture")),
    }
}

/// Takes an object away once no work uses it.
fn destroy(number: u64) -> Answer {
    let context = context::working()?;
    context.wait();
    MADE.remove(number as usize);
    texture::remove(number);
    context.settle()
}

entries! {
    fn cuTexObjectCreate(
        object: *mut CUtexObject,
        resource: *const ResourceDesc,
        described: *const TextureDesc,
        view: *const ResourceViewDesc,
    ) {
        let context = context::working()?;
        if object.is_null() {
            return Err(Status::INVALID_VALUE.because("nowhere to put the texture"));
        }
        let (resource, desc) = (resource.get()?, described.get()?);
        let view = if view.is_null() { None } else { Some(view.get()?) };
        let mut source = Source::described(&resource)?;
        if let Some(view) = &view {
            if !matches!(resource.kind, ARRAY | MIPMAPPED) {
                return Err(refuse("only arrays have views"));
            }
            source = source.viewed(view)?;
        }
        let texture = source.texture(&desc)?;
        let made = Made {
            resource,
            texture: Some((desc, view)),
        };
        object.put(publish(&context, Object::Texture(texture), made))
    }

    fn cuTexObjectDestroy(object: CUtexObject) {
        texture_made(object)?;
        destroy(object)
    }

    fn cuTexObjectGetResourceDesc(described: *mut ResourceDesc, object: CUtexObject) {
        described.put(texture_made(object)?.0)
    }

    fn cuTexObjectGetTextureDesc(described: *mut TextureDesc, object: CUtexObject) {
        described.put(texture_made(object)?.1)
    }

    fn cuTexObjectGetResourceViewDesc(described: *mut ResourceViewDesc, object: CUtexObject) {
        match texture_made(object)?.2 {
            Some(view) => described.put(view),
            None => Err(refuse("it has no view")),
        }
    }

    fn cuSurfObjectCreate(object: *mut CUsurfObject, resource: *const ResourceDesc) {
        let context = context::working()?;
        let resource = resource.get()?;
        if object.is_null() || resource.kind != ARRAY || resource.flags != 0 {
            return Err(refuse("a surface is one of an array"));
        }
        let surface = surface(&array::at(resource.resource as usize)?.texels)?;
        let made = Made {
            resource,
            texture: None,
        };
        object.put(publish(&context, Object::Surface(surface), made))
    }

    fn cuSurfObjectDestroy(object: CUsurfObject) {
        surface_made(object)?;
        destroy(object)
    }

    fn cuSurfObjectGetResourceDesc(described: *mut ResourceDesc, object: CUsurfObject) {
        described.put(surface_made(object)?)
    }

    fn cuDeviceGetTexture1DLinearMaxWidth(
        width: *mut usize,
        format: c_uint,
        channels: c_uint,
        device: CUdevice,
    ) {
        super::device::check(device)?;
        if ArrayFormat::from_raw(format).is_none() || !matches!(channels, 1 | 2 | 4) {
            return Err(refuse("its format is none that the CPU device has"));
        }
        width.put(MAX_LINEAR_TEXELS as usize)
    }
}
