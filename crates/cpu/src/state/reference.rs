//! Texture and surface references: variables of modules, to which textures and
//! surfaces are bound. The address of the variable is the handle of the reference, and
//! the number by which kernels find what is bound to it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_uint;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::context;
use super::handle;
use super::status::{Failure, Result, Status};
use super::texture::{Source, surface};
use crate::texture::{self, Object, Texels};
use api::{ArrayDesc, ArrayFormat, TextureDesc};

/// The settings of a texture reference.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    pub(crate) desc: TextureDesc,
    /// Format and channels, of memory that is no array.
    pub(crate) format: (c_uint, c_uint),
    pub(crate) bound: Bound,
    /// The handle of the array that is bound, or 0.
    pub(crate) array: usize,
    /// That of the mipmapped array, or 0.
    pub(crate) mipmapped: usize,
}

#[derive(Clone, Default)]
pub(crate) enum Bound {
    #[default]
    Nothing,
    Levels(Vec<Texels>),
    Linear {
        address: u64,
        bytes: usize,
    },
    Rows {
        address: u64,
        desc: ArrayDesc,
        pitch: usize,
    },
}

/// The references that were looked up, by their addresses; of surfaces the handle of
/// the array that is bound, or 0.
static TEXTURES: Mutex<BTreeMap<u64, Settings>> = Mutex::new(BTreeMap::new());
static SURFACES: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());

/// The texture references that belong to no module.
static CREATED: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the references of a module that is unloaded.
pub(crate) fn remove_all(addresses: &[u64]) {
    for address in addresses {
        let known = lock(&TEXTURES).remove(address).is_some();
        let known = lock(&SURFACES).remove(address).is_some() || known;
        if known {
            texture::remove(*address);
        }
    }
}

impl Settings {
    fn source(&self) -> Result<Option<Source>> {
        Ok(match &self.bound {
            Bound::Nothing => None,
            Bound::Levels(levels) => Some(Source::of_levels(levels.clone())?),
            Bound::Linear { address, bytes } => {
                // Without a format nothing is bound yet.
                let Ok(size) = texel_bytes(self.format) else {
                    return Ok(None);
                };
                Some(Source::linear(self.format, *address, bytes / size, size)?)
            }
            Bound::Rows {
                address,
                desc,
                pitch,
            } => {
                let format = (desc.format, desc.channels);
                let extent = [desc.width, desc.height.max(1)];
                Some(Source::in_memory(format, *address, extent, *pitch)?)
            }
        })
    }
}

pub(crate) fn texel_bytes((format, channels): (c_uint, c_uint)) -> Result<usize> {
    let format = ArrayFormat::from_raw(format)
        .ok_or_else(|| Status::INVALID_VALUE.because("the reference has no format yet"))?;
    Ok(format.bytes() * channels.max(1) as usize)
}

/// Changes a texture reference after all work, which may still use it, and binds the
/// texture that it then describes.
pub(crate) fn change(reference: u64, change: impl FnOnce(&mut Settings) -> Result) -> Result {
    let context = context::working()?;
    context.wait();
    let mut all = lock(&TEXTURES);
    let settings = all.get_mut(&reference).ok_or_else(unknown)?;
    let mut changed = settings.clone();
    change(&mut changed)?;
    match changed.source()? {
        Some(source) => {
            let texture = source.texture(&changed.desc)?;
            texture::bind(reference, Object::Texture(texture));
        }
        None => drop(texture::remove(reference)),
    }
    *settings = changed;
    drop(all);
    context.finish_wait()
}

/// The settings of a texture reference.
pub(crate) fn settings(reference: u64) -> Result<Settings> {
    context::working()?;
    let all = lock(&TEXTURES);
    all.get(&reference).cloned().ok_or_else(unknown)
}

fn unknown() -> Failure {
    Status::INVALID_HANDLE.because("no loaded module has this reference")
}

/// Makes a texture reference that belongs to no module; returns its handle.
pub(crate) fn create_texture() -> Result<usize> {
    context::working()?;
    let handle = handle::reserve();
    add_texture(handle as u64);
    lock(&CREATED).insert(handle as u64);
    Ok(handle)
}

/// Destroys a reference that [`create_texture`] made, after all work, which may still use it.
pub(crate) fn destroy_texture(reference: u64) -> Result {
    let context = context::working()?;
    if !lock(&CREATED).remove(&reference) {
        return Err(Status::INVALID_HANDLE.because("cuTexRefCreate made no such reference"));
    }
    context.wait();
    remove_all(&[reference]);
    context.finish_wait()
}

/// Makes the texture reference at an address usable.
pub(crate) fn add_texture(reference: u64) {
    lock(&TEXTURES).entry(reference).or_default();
}

/// Makes the surface reference at an address usable.
pub(crate) fn add_surface(reference: u64) {
    lock(&SURFACES).entry(reference).or_default();
}

/// Binds an array to a surface reference after all work, which may still use it.
pub(crate) fn bind_surface(reference: u64, array: usize, texels: &Texels) -> Result {
    let context = context::working()?;
    let surface = surface(texels);
    context.wait();
    match lock(&SURFACES).get_mut(&reference) {
        Some(bound) => *bound = array,
        None => return Err(unknown()),
    }
    texture::bind(reference, Object::Surface(surface));
    context.finish_wait()
}

/// The handle of the array that is bound to a surface reference, or 0.
pub(crate) fn surface_array(reference: u64) -> Result<usize> {
    context::working()?;
    lock(&SURFACES).get(&reference).copied().ok_or_else(unknown)
}
