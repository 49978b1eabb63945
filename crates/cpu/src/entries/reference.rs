//! A module's references to textures and surfaces, the old way of binding them.
//!
//! A reference is a variable of the module: its address is the number under which
//! kernels find what is bound to it, and its handle.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_uint};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::array;
use super::context;
use super::entry::{Given, entries};
use super::handle::pointer;
use super::module;
use super::status::{Answer, Status};
use super::texture::{Source, surface};
use crate::blob::Reference;
use crate::texture::{self, Object, Texels};
use api::ArrayFormat;
use api::{
    ArrayDesc, CUarray, CUdeviceptr, CUmipmappedArray, CUmodule, CUsurfref, CUtexref, TextureDesc,
};

/// What a texture reference is set to.
#[derive(Clone, Default)]
struct Settings {
    desc: TextureDesc,
    /// Format and channels, of memory that is no array.
    format: (c_uint, c_uint),
    bound: Bound,
    /// The array that was asked for, to be told.
    array: usize,
}

#[derive(Clone, Default)]
enum Bound {
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

/// Of the references that callers asked for, by their addresses.
static TEXTURES: Mutex<BTreeMap<u64, Settings>> = Mutex::new(BTreeMap::new());
static SURFACES: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets the references of a module that is unloaded.
pub(super) fn forget(addresses: &[u64]) {
    for address in addresses {
        let known = lock(&TEXTURES).remove(address).is_some();
        let known = lock(&SURFACES).remove(address).is_some() || known;
        if known {
            texture::remove(*address);
        }
    }
}

/// `CU_TRSA_OVERRIDE_FORMAT`
const OVERRIDE_FORMAT: c_uint = 1;

impl Settings {
    fn source(&self) -> Answer<Option<Source>> {
        Ok(match &self.bound {
            Bound::Nothing => None,
            Bound::Levels(levels) => Some(Source::of_levels(levels.clone())?),
            Bound::Linear { address, bytes } => {
                let size = texel_bytes(self.format)?;
                let width = bytes / size;
                Some(Source::linear(self.format, *address, width, size)?)
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

fn texel_bytes((format, channels): (c_uint, c_uint)) -> Answer<usize> {
    let format = ArrayFormat::from_raw(format)
        .ok_or_else(|| Status::INVALID_VALUE.because("the reference has no format yet"))?;
    Ok(format.bytes() * channels.max(1) as usize)
}

/// Changes a reference once no kernel uses it, and binds what it then says.
fn change<H>(reference: Given<H>, change: impl FnOnce(&mut Settings) -> Answer) -> Answer {
    let context = context::working()?;
    let number = reference.addr() as u64;
    context.wait();
    let mut all = lock(&TEXTURES);
    let settings = all.get_mut(&number).ok_or_else(unknown)?;
    let mut changed = settings.clone();
    change(&mut changed)?;
    match changed.source()? {
        Some(source) => {
            let texture = source.texture(&changed.desc)?;
            texture::bind(number, Object::Texture(texture));
        }
        None => drop(texture::remove(number)),
    }
    *settings = changed;
    drop(all);
    context.settle()
}

fn settings<H>(reference: Given<H>) -> Answer<Settings> {
    context::working()?;
    let all = lock(&TEXTURES);
    all.get(&(reference.addr() as u64))
        .cloned()
        .ok_or_else(unknown)
}

fn unknown() -> super::status::Failure {
    Status::INVALID_HANDLE.because("no loaded module has this reference")
}

fn axis(dimension: c_int) -> Answer<usize> {
    match dimension {
        0..=2 => Ok(dimension as usize),
        _ => Err(Status::INVALID_VALUE.because("a dimension of a texture is 0, 1 or 2")),
    }
}

entries! {
    fn cuModuleGetTexRef(reference: *mut CUtexref, module: CUmodule, name: *const c_char) {
        let number = module::reference(module, name, Reference::Texture)?;
        lock(&TEXTURES).entry(number).or_default();
        reference.put(pointer(number as usize))
    }

    fn cuModuleGetSurfRef(reference: *mut CUsurfref, module: CUmodule, name: *const c_char) {
        let number = module::reference(module, name, Reference::Surface)?;
        lock(&SURFACES).entry(number).or_default();
        reference.put(pointer(number as usize))
    }

    fn cuTexRefSetArray(reference: CUtexref, array: CUarray, flags: c_uint) {
        if flags != OVERRIDE_FORMAT {
            return Err(Status::INVALID_VALUE
                .because("an array's own format is the one to use: CU_TRSA_OVERRIDE_FORMAT"));
        }
        let texels = array::find(array)?.texels.clone();
        change(reference, |settings| {
            settings.bound = Bound::Levels(vec![texels]);
            settings.array = array.addr();
            Ok(())
        })
    }

    fn cuTexRefSetMipmappedArray(
        reference: CUtexref,
        array: CUmipmappedArray,
        flags: c_uint,
    ) {
        if flags != OVERRIDE_FORMAT {
            return Err(Status::INVALID_VALUE
                .because("an array's own format is the one to use: CU_TRSA_OVERRIDE_FORMAT"));
        }
        let levels = array::mipmapped_at(array.addr())?.levels.clone();
        change(reference, |settings| {
            settings.bound = Bound::Levels(levels);
            settings.array = 0;
            Ok(())
        })
    }

    /// Memory that is aligned as textures must be has no offset.
    fn cuTexRefSetAddress_v2(
        offset: *mut usize,
        reference: CUtexref,
        address: CUdeviceptr,
        bytes: usize,
    ) {
        change(reference, |settings| {
            settings.bound = Bound::Linear { address, bytes };
            Ok(())
        })?;
        offset.put_if_asked(0);
        Ok(())
    }

    fn cuTexRefSetAddress2D_v3(
        reference: CUtexref,
        described: *const ArrayDesc,
        address: CUdeviceptr,
        pitch: usize,
    ) {
        let desc = described.get()?;
        let row = desc.width.saturating_mul(texel_bytes((desc.format, desc.channels))?);
        if desc.width == 0 || pitch < row {
            return Err(Status::INVALID_VALUE
                .because("the rows of the texture are empty or longer than the pitch"));
        }
        change(reference, |settings| {
            settings.bound = Bound::Rows { address, desc, pitch };
            Ok(())
        })
    }

    fn cuTexRefSetFormat(reference: CUtexref, format: c_uint, channels: c_int) {
        texel_bytes((format, channels.max(1) as c_uint))?;
        change(reference, |settings| {
            settings.format = (format, channels as c_uint);
            Ok(())
        })
    }

    fn cuTexRefSetAddressMode(reference: CUtexref, dimension: c_int, mode: c_uint) {
        let axis = axis(dimension)?;
        change(reference, |settings| {
            settings.desc.address_modes[axis] = mode;
            Ok(())
        })
    }

    fn cuTexRefSetFilterMode(reference: CUtexref, mode: c_uint) {
        change(reference, |settings| {
            settings.desc.filter_mode = mode;
            Ok(())
        })
    }

    fn cuTexRefSetMipmapFilterMode(reference: CUtexref, mode: c_uint) {
        change(reference, |settings| {
            settings.desc.mipmap_filter_mode = mode;
            Ok(())
        })
    }

    fn cuTexRefSetMipmapLevelBias(reference: CUtexref, bias: f32) {
        change(reference, |settings| {
            settings.desc.mipmap_level_bias = bias;
            Ok(())
        })
    }

    fn cuTexRefSetMipmapLevelClamp(reference: CUtexref, least: f32, most: f32) {
        change(reference, |settings| {
            settings.desc.min_mipmap_level = least;
            settings.desc.max_mipmap_level = most;
            Ok(())
        })
    }

    fn cuTexRefSetMaxAnisotropy(reference: CUtexref, most: c_uint) {
        change(reference, |settings| {
            settings.desc.max_anisotropy = most;
            Ok(())
        })
    }

    fn cuTexRefSetBorderColor(reference: CUtexref, colour: *mut f32) {
        let mut border = [0.0; 4];
        for (n, channel) in border.iter_mut().enumerate() {
            *channel = colour.get_at(n)?;
        }
        change(reference, |settings| {
            settings.desc.border_color = border;
            Ok(())
        })
    }

    fn cuTexRefSetFlags(reference: CUtexref, flags: c_uint) {
        change(reference, |settings| {
            settings.desc.flags = flags;
            Ok(())
        })
    }

    fn cuTexRefGetArray(array: *mut CUarray, reference: CUtexref) {
        match settings(reference)?.array {
            0 => Err(Status::INVALID_VALUE.because("no array is bound to the reference")),
            handle => array.put(pointer(handle)),
        }
    }

    fn cuTexRefGetAddressMode(mode: *mut c_uint, reference: CUtexref, dimension: c_int) {
        mode.put(settings(reference)?.desc.address_modes[axis(dimension)?])
    }

    fn cuTexRefGetFilterMode(mode: *mut c_uint, reference: CUtexref) {
        mode.put(settings(reference)?.desc.filter_mode)
    }

    fn cuTexRefGetFlags(flags: *mut c_uint, reference: CUtexref) {
        flags.put(settings(reference)?.desc.flags)
    }

    fn cuSurfRefSetArray(reference: CUsurfref, array: CUarray, flags: c_uint) {
        let context = context::working()?;
        if flags != 0 {
            return Err(Status::INVALID_VALUE.because("the flags of cuSurfRefSetArray must be 0"));
        }
        let surface = surface(&array::find(array)?.texels)?;
        let number = reference.addr() as u64;
        context.wait();
        match lock(&SURFACES).get_mut(&number) {
            Some(bound) => *bound = array.addr(),
            None => return Err(unknown()),
        }
        texture::bind(number, Object::Surface(surface));
        context.settle()
    }

    fn cuSurfRefGetArray(array: *mut CUarray, reference: CUsurfref) {
        context::working()?;
        match lock(&SURFACES).get(&(reference.addr() as u64)) {
            None => Err(unknown()),
            Some(0) => Err(Status::INVALID_VALUE.because("no array is bound to the reference")),
            Some(handle) => array.put(pointer(*handle)),
        }
    }
}
