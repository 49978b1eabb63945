//! Texture and surface objects.

use std::ffi::{c_int, c_uint};

use api::{CUsurfObject, CUtexObject, ResourceDesc, ResourceViewDesc, TextureDesc};

use crate::array::{channels, format};
use crate::context::ready;
use crate::entry::{driver, entries};
use crate::error::{Code, Result};
use crate::types::{Channels, Resource, Texture};

/// `cudaResourceType`, as `CU_RESOURCE_TYPE_…`
const LINEAR: c_uint = 2;
const PITCHED: c_uint = 3;

/// `CU_TRSF_…`
const READ_AS_INTEGER: c_uint = 1;
const NORMALIZED: c_uint = 2;
const SRGB: c_uint = 0x10;
const NO_TRILINEAR: c_uint = 0x20;
const SEAMLESS: c_uint = 0x40;

fn of_driver(resource: &Resource) -> Result<ResourceDesc> {
    let mut desc = ResourceDesc {
        kind: resource.kind,
        resource: resource.resource,
        flags: resource.flags,
        ..ResourceDesc::default()
    };
    if matches!(resource.kind, LINEAR | PITCHED) {
        (desc.format, desc.channels) = format(&resource.channels)?;
        desc.width = resource.width;
    }
    if resource.kind == PITCHED {
        (desc.height, desc.pitch) = (resource.height, resource.pitch);
    }
    Ok(desc)
}

fn of_runtime(desc: &ResourceDesc) -> Result<Resource> {
    let mut resource = Resource {
        kind: desc.kind,
        resource: desc.resource,
        flags: desc.flags,
        ..Resource::default()
    };
    if matches!(desc.kind, LINEAR | PITCHED) {
        resource.channels = channels(desc.format, desc.channels)?;
        resource.width = desc.width;
    }
    if desc.kind == PITCHED {
        (resource.height, resource.pitch) = (desc.height, desc.pitch);
    }
    Ok(resource)
}

fn sampler(texture: &Texture) -> TextureDesc {
    let flag = |on: bool, flag| if on { flag } else { 0 };
    TextureDesc {
        address_modes: texture.address_modes,
        filter_mode: texture.filter_mode,
        // The read mode is that of integers: 0 gives them as they are.
        flags: flag(texture.read_mode == 0, READ_AS_INTEGER)
            | flag(texture.normalized != 0, NORMALIZED)
            | flag(texture.srgb != 0, SRGB)
            | flag(texture.disable_trilinear != 0, NO_TRILINEAR)
            | flag(texture.seamless_cubemap != 0, SEAMLESS),
        max_anisotropy: texture.max_anisotropy,
        mipmap_filter_mode: texture.mipmap_filter_mode,
        mipmap_level_bias: texture.mipmap_level_bias,
        min_mipmap_level: texture.min_mipmap_level,
        max_mipmap_level: texture.max_mipmap_level,
        border_color: texture.border_color,
        ..TextureDesc::default()
    }
}

fn described(sampler: &TextureDesc) -> Texture {
    let has = |flag| c_int::from(sampler.flags & flag != 0);
    Texture {
        address_modes: sampler.address_modes,
        filter_mode: sampler.filter_mode,
        read_mode: c_uint::from(sampler.flags & READ_AS_INTEGER == 0),
        srgb: has(SRGB),
        border_color: sampler.border_color,
        normalized: has(NORMALIZED),
        max_anisotropy: sampler.max_anisotropy,
        mipmap_filter_mode: sampler.mipmap_filter_mode,
        mipmap_level_bias: sampler.mipmap_level_bias,
        min_mipmap_level: sampler.min_mipmap_level,
        max_mipmap_level: sampler.max_mipmap_level,
        disable_trilinear: has(NO_TRILINEAR),
        seamless_cubemap: has(SEAMLESS),
    }
}

/// Linear filtering of integers needs their normalized values.
fn check(resource: &ResourceDesc, texture: &Texture) -> Result {
    let is_linear = texture.filter_mode == 1;
    let is_integer = resource.kind >= LINEAR && resource.format < 0x10;
    if is_linear && is_integer && texture.read_mode == 0 {
        Err(Code(26))
    } else {
        Ok(())
    }
}

entries! {
    /// A texture: what is read, and how.
    fn cudaCreateTextureObject(
        object: *mut CUtexObject,
        resource: *const Resource,
        texture: *const Texture,
        view: *const ResourceViewDesc,
    ) {
        ready()?;
        let (resource, texture) = (of_driver(&resource.get()?)?, texture.get()?);
        check(&resource, &texture)?;
        driver!(cuTexObjectCreate(object.required()?, &resource, &sampler(&texture), view.ptr()))
    }

    /// Ends a texture.
    fn cudaDestroyTextureObject(object: u64) {
        ready()?;
        driver!(cuTexObjectDestroy(object))
    }

    /// What a texture reads.
    fn cudaGetTextureObjectResourceDesc(result: *mut Resource, object: u64) {
        ready()?;
        let mut found = ResourceDesc::default();
        driver!(cuTexObjectGetResourceDesc(&mut found, object))?;
        result.put(of_runtime(&found)?)
    }

    /// How a texture reads it.
    fn cudaGetTextureObjectTextureDesc(result: *mut Texture, object: u64) {
        ready()?;
        let mut found = TextureDesc::default();
        driver!(cuTexObjectGetTextureDesc(&mut found, object))?;
        result.put(described(&found))
    }

    /// A surface, which kernels write.
    fn cudaCreateSurfaceObject(object: *mut CUsurfObject, resource: *const Resource) {
        ready()?;
        driver!(cuSurfObjectCreate(object.required()?, &of_driver(&resource.get()?)?))
    }

    /// Ends a surface.
    fn cudaDestroySurfaceObject(object: u64) {
        ready()?;
        driver!(cuSurfObjectDestroy(object))
    }

    /// What a surface writes.
    fn cudaGetSurfaceObjectResourceDesc(result: *mut Resource, object: u64) {
        ready()?;
        let mut found = ResourceDesc::default();
        driver!(cuSurfObjectGetResourceDesc(&mut found, object))?;
        result.put(of_runtime(&found)?)
    }

    /// The most texels of linear memory that a texture reads.
    fn cudaDeviceGetTexture1DLinearMaxWidth(width: *mut usize, channels: *const Channels, device: c_int) {
        let (format, count) = format(&channels.get()?)?;
        driver!(cuDeviceGetTexture1DLinearMaxWidth(width.required()?, format, count, device))
    }
}
