//! Texture and surface objects.

use std::ffi::c_uint;

use super::entry::entries;
use crate::state::status::Status;
use crate::state::{context, device, texture};
use crate::texture::MAX_LINEAR_TEXELS;
use api::{
    ArrayFormat, CUdevice, CUsurfObject, CUtexObject, ResourceDesc, ResourceViewDesc, TextureDesc,
};

entries! {
    fn cuTexObjectCreate(
        object: *mut CUtexObject,
        resource: *const ResourceDesc,
        params: *const TextureDesc,
        view: *const ResourceViewDesc,
    ) {
        context::working()?;
        if object.is_null() {
            return Err(Status::INVALID_VALUE.because("the pointer for the texture is null"));
        }
        let (resource, desc) = (resource.get()?, params.get()?);
        let view = if view.is_null() { None } else { Some(view.get()?) };
        object.put(texture::create_texture(resource, desc, view)?)
    }

    fn cuTexObjectDestroy(object: CUtexObject) {
        if object == 0 {
            return Ok(());
        }
        texture::texture_info(object)?;
        texture::destroy(object)
    }

    fn cuTexObjectGetResourceDesc(params: *mut ResourceDesc, object: CUtexObject) {
        params.put(texture::texture_info(object)?.0)
    }

    fn cuTexObjectGetTextureDesc(params: *mut TextureDesc, object: CUtexObject) {
        params.put(texture::texture_info(object)?.1)
    }

    fn cuTexObjectGetResourceViewDesc(params: *mut ResourceViewDesc, object: CUtexObject) {
        params.put(texture::texture_info(object)?.2.unwrap_or_default())
    }

    fn cuSurfObjectCreate(object: *mut CUsurfObject, resource: *const ResourceDesc) {
        context::working()?;
        let resource = resource.get()?;
        if object.is_null() {
            return Err(Status::INVALID_VALUE.because("the pointer for the surface is null"));
        }
        object.put(texture::create_surface(resource)?)
    }

    fn cuSurfObjectDestroy(object: CUsurfObject) {
        if object == 0 {
            return Ok(());
        }
        texture::surface_info(object)?;
        texture::destroy(object)
    }

    fn cuSurfObjectGetResourceDesc(params: *mut ResourceDesc, object: CUsurfObject) {
        params.put(texture::surface_info(object)?)
    }

    fn cuDeviceGetTexture1DLinearMaxWidth(
        width: *mut usize,
        format: c_uint,
        channels: c_uint,
        device: CUdevice,
    ) {
        device::check(device)?;
        if ArrayFormat::from_raw(format).is_none() || !matches!(channels, 1 | 2 | 4) {
            return Err(texture::refuse("its format is none that the CPU device has"));
        }
        width.put(MAX_LINEAR_TEXELS as usize)
    }
}
