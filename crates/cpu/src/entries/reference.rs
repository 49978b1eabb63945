//! Texture and surface references.

use std::ffi::{c_char, c_int, c_uint};

use super::entry::entries;
use crate::blob::Reference;
use crate::state::handle::pointer;
use crate::state::reference::{self, Bound};
use crate::state::status::{Result, Status};
use crate::state::texture::BASE_ALIGNMENT;
use crate::state::user_pointer::UserPointer;
use crate::state::{array, context, module};
use crate::texture::KNOWN_FLAGS;
use api::{ArrayDesc, CUarray, CUdeviceptr, CUmipmappedArray, CUmodule, CUsurfref, CUtexref};
use cudarc::driver::sys::CUmod_st;

/// The address of a module's reference.
fn address_of(
    module: UserPointer<CUmod_st>,
    name: UserPointer<c_char>,
    kind: Reference,
) -> Result<u64> {
    let module = module::find(module.addr())?;
    let name = name.text()?.to_string_lossy();
    module.code.reference(&name, kind).ok_or_else(|| {
        let detail = format!("the module has no texture or surface reference {name}");
        Status::NOT_FOUND.because(detail)
    })
}

fn axis(dimension: c_int) -> Result<usize> {
    match dimension {
        0..=2 => Ok(dimension as usize),
        _ => Err(Status::INVALID_VALUE.because(format!(
            "the dimension of a texture is {dimension}; pass 0, 1 or 2"
        ))),
    }
}

entries! {
    fn cuModuleGetTexRef(reference: *mut CUtexref, module: CUmodule, name: *const c_char) {
        let address = address_of(module, name, Reference::Texture)?;
        reference::add_texture(address);
        reference.put(pointer(address as usize))
    }

    fn cuModuleGetSurfRef(reference: *mut CUsurfref, module: CUmodule, name: *const c_char) {
        let address = address_of(module, name, Reference::Surface)?;
        reference::add_surface(address);
        reference.put(pointer(address as usize))
    }

    fn cuTexRefCreate(reference: *mut CUtexref) {
        if reference.is_null() {
            return Err(Status::INVALID_VALUE.because("the pointer for the reference is null"));
        }
        reference.put(pointer(reference::create_texture()?))
    }

    fn cuTexRefDestroy(reference: CUtexref) {
        reference::destroy_texture(reference.addr() as u64)
    }

    /// The array's own format is used, with or without CU_TRSA_OVERRIDE_FORMAT.
    fn cuTexRefSetArray(reference: CUtexref, array: CUarray, _flags: c_uint) {
        context::working()?;
        let texels = array::find(array.addr())?.texels.clone();
        reference::change(reference.addr() as u64, |settings| {
            settings.bound = Bound::Levels(vec![texels]);
            (settings.array, settings.mipmapped) = (array.addr(), 0);
            Ok(())
        })
    }

    /// As [`cuTexRefSetArray`].
    fn cuTexRefSetMipmappedArray(
        reference: CUtexref,
        array: CUmipmappedArray,
        _flags: c_uint,
    ) {
        let levels = array::find_mipmapped(array.addr())?.levels.clone();
        reference::change(reference.addr() as u64, |settings| {
            settings.bound = Bound::Levels(levels);
            (settings.array, settings.mipmapped) = (0, array.addr());
            Ok(())
        })
    }

    /// A texture begins at an aligned address; the offset is the distance from there.
    fn cuTexRefSetAddress_v2(
        offset: *mut usize,
        reference: CUtexref,
        address: CUdeviceptr,
        bytes: usize,
    ) {
        let before = address % BASE_ALIGNMENT;
        if before != 0 && offset.is_null() {
            return Err(Status::INVALID_VALUE.because(format!(
                "{address:#x} is no multiple of {BASE_ALIGNMENT}; pass a pointer for the offset"
            )));
        }
        let bound = Bound::Linear {
            address: address - before,
            bytes: bytes.saturating_add(before as usize),
        };
        reference::change(reference.addr() as u64, |settings| {
            settings.bound = bound;
            (settings.array, settings.mipmapped) = (0, 0);
            Ok(())
        })?;
        offset.put_optional(before as usize);
        Ok(())
    }

    fn cuTexRefSetAddress2D_v3(
        reference: CUtexref,
        params: *const ArrayDesc,
        address: CUdeviceptr,
        pitch: usize,
    ) {
        let desc = params.get()?;
        let row = desc.width.saturating_mul(reference::texel_bytes((desc.format, desc.channels))?);
        if desc.width == 0 || pitch < row {
            return Err(Status::INVALID_VALUE
                .because("the rows of the texture are empty or longer than the pitch"));
        }
        reference::change(reference.addr() as u64, |settings| {
            settings.bound = Bound::Rows { address, desc, pitch };
            (settings.array, settings.mipmapped) = (0, 0);
            Ok(())
        })
    }

    fn cuTexRefSetFormat(reference: CUtexref, format: c_uint, channels: c_int) {
        if !matches!(channels, 1 | 2 | 4) {
            return Err(Status::INVALID_VALUE
                .because(format!("a texel has {channels} channels; pass 1, 2 or 4")));
        }
        reference::change(reference.addr() as u64, |settings| {
            settings.format = (format, channels as c_uint);
            Ok(())
        })
    }

    fn cuTexRefSetAddressMode(reference: CUtexref, dimension: c_int, mode: c_uint) {
        let axis = axis(dimension)?;
        reference::change(reference.addr() as u64, |settings| {
            // Like NVIDIA's driver, it accepts unknown modes. They have no effect here.
            if mode <= 3 {
                settings.desc.address_modes[axis] = mode;
            }
            Ok(())
        })
    }

    fn cuTexRefSetFilterMode(reference: CUtexref, mode: c_uint) {
        reference::change(reference.addr() as u64, |settings| {
            settings.desc.filter_mode = mode.min(1); // as NVIDIA's driver, which takes any number
            Ok(())
        })
    }

    fn cuTexRefSetMipmapFilterMode(reference: CUtexref, mode: c_uint) {
        reference::change(reference.addr() as u64, |settings| {
            settings.desc.mipmap_filter_mode = mode;
            Ok(())
        })
    }

    fn cuTexRefSetMipmapLevelBias(reference: CUtexref, bias: f32) {
        reference::change(reference.addr() as u64, |settings| {
            settings.desc.mipmap_level_bias = bias;
            Ok(())
        })
    }

    fn cuTexRefSetMipmapLevelClamp(reference: CUtexref, least: f32, most: f32) {
        reference::change(reference.addr() as u64, |settings| {
            settings.desc.min_mipmap_level = least;
            settings.desc.max_mipmap_level = most;
            Ok(())
        })
    }

    fn cuTexRefSetMaxAnisotropy(reference: CUtexref, most: c_uint) {
        reference::change(reference.addr() as u64, |settings| {
            settings.desc.max_anisotropy = most;
            Ok(())
        })
    }

    fn cuTexRefSetBorderColor(reference: CUtexref, colour: *mut f32) {
        let mut border = [0.0; 4];
        for (n, channel) in border.iter_mut().enumerate() {
            *channel = colour.get_at(n)?;
        }
        reference::change(reference.addr() as u64, |settings| {
            settings.desc.border_color = border;
            Ok(())
        })
    }

    fn cuTexRefSetFlags(reference: CUtexref, flags: c_uint) {
        if flags & !KNOWN_FLAGS != 0 {
            return Err(Status::INVALID_VALUE.because(format!("unknown flags {flags:#x}")));
        }
        reference::change(reference.addr() as u64, |settings| {
            settings.desc.flags = flags;
            Ok(())
        })
    }

    fn cuTexRefGetArray(array: *mut CUarray, reference: CUtexref) {
        match reference::settings(reference.addr() as u64)?.array {
            0 => Err(Status::INVALID_VALUE.because("no array is bound to the reference")),
            handle => array.put(pointer(handle)),
        }
    }

    fn cuTexRefGetAddressMode(mode: *mut c_uint, reference: CUtexref, dimension: c_int) {
        mode.put(reference::settings(reference.addr() as u64)?.desc.address_modes[axis(dimension)?])
    }

    fn cuTexRefGetFilterMode(mode: *mut c_uint, reference: CUtexref) {
        mode.put(reference::settings(reference.addr() as u64)?.desc.filter_mode)
    }

    fn cuTexRefGetFlags(flags: *mut c_uint, reference: CUtexref) {
        flags.put(reference::settings(reference.addr() as u64)?.desc.flags)
    }

    fn cuTexRefGetFormat(format: *mut c_uint, channels: *mut c_int, reference: CUtexref) {
        let settings = reference::settings(reference.addr() as u64)?;
        format.put_optional(settings.format.0);
        channels.put_optional(settings.format.1 as c_int);
        Ok(())
    }

    fn cuTexRefGetAddress_v2(address: *mut CUdeviceptr, reference: CUtexref) {
        match reference::settings(reference.addr() as u64)?.bound {
            Bound::Linear { address: bound, .. } | Bound::Rows { address: bound, .. } => {
                address.put(bound)
            }
            _ => Err(Status::INVALID_VALUE.because("no memory is bound to the reference")),
        }
    }

    fn cuTexRefGetMipmappedArray(array: *mut CUmipmappedArray, reference: CUtexref) {
        match reference::settings(reference.addr() as u64)?.mipmapped {
            0 => Err(Status::INVALID_VALUE.because("no mipmapped array is bound to the reference")),
            handle => array.put(pointer(handle)),
        }
    }

    fn cuTexRefGetMipmapFilterMode(mode: *mut c_uint, reference: CUtexref) {
        mode.put(reference::settings(reference.addr() as u64)?.desc.mipmap_filter_mode)
    }

    fn cuTexRefGetMipmapLevelBias(bias: *mut f32, reference: CUtexref) {
        bias.put(reference::settings(reference.addr() as u64)?.desc.mipmap_level_bias)
    }

    fn cuTexRefGetMipmapLevelClamp(least: *mut f32, most: *mut f32, reference: CUtexref) {
        let desc = reference::settings(reference.addr() as u64)?.desc;
        least.put(desc.min_mipmap_level)?;
        most.put(desc.max_mipmap_level)
    }

    fn cuTexRefGetMaxAnisotropy(most: *mut c_int, reference: CUtexref) {
        most.put(reference::settings(reference.addr() as u64)?.desc.max_anisotropy as c_int)
    }

    fn cuTexRefGetBorderColor(color: *mut f32, reference: CUtexref) {
        let border = reference::settings(reference.addr() as u64)?.desc.border_color;
        let mut channels = border.iter().enumerate();
        channels.try_for_each(|(n, channel)| color.put_at(n, *channel))
    }

    fn cuSurfRefSetArray(reference: CUsurfref, array: CUarray, flags: c_uint) {
        context::working()?;
        if flags != 0 {
            return Err(Status::INVALID_VALUE.because("the flags of cuSurfRefSetArray must be 0"));
        }
        let found = array::find(array.addr())?;
        reference::bind_surface(reference.addr() as u64, array.addr(), &found.texels)
    }

    fn cuSurfRefGetArray(array: *mut CUarray, reference: CUsurfref) {
        match reference::surface_array(reference.addr() as u64)? {
            0 => Err(Status::INVALID_VALUE.because("no array is bound to the reference")),
            handle => array.put(pointer(handle)),
        }
    }
}
