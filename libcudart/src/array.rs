//! Arrays, and what their elements are.

use std::ffi::{c_int, c_uint};

use api::{Array3dDesc, CUarray, CUmipmappedArray};

use crate::context::ready;
use crate::entry::{driver, entries};
use crate::error::{Code, Result};
use crate::types::{Channels, Extent};

/// `cudaChannelFormatKind`
const SIGNED: c_uint = 0;
const UNSIGNED: c_uint = 1;
const FLOAT: c_uint = 2;

/// `CU_AD_FORMAT_…`, bits of a channel and `cudaChannelFormatKind`.
const FORMATS: [(c_uint, c_int, c_uint); 8] = [
    (0x01, 8, UNSIGNED),
    (0x02, 16, UNSIGNED),
    (0x03, 32, UNSIGNED),
    (0x08, 8, SIGNED),
    (0x09, 16, SIGNED),
    (0x0a, 32, SIGNED),
    (0x10, 16, FLOAT),
    (0x20, 32, FLOAT),
];

/// The driver's format and number of channels.
pub(crate) fn format(channels: &Channels) -> Result<(c_uint, c_uint)> {
    let Channels { x, y, z, w, kind } = *channels;
    let count = [x, y, z, w].iter().take_while(|bits| **bits != 0).count();
    let alike = [x, y, z, w][..count].iter().all(|bits| *bits == x);
    let rest_is_none = [x, y, z, w][count..].iter().all(|bits| *bits == 0);
    let found = FORMATS
        .iter()
        .find(|(_, bits, of)| (*bits, *of) == (x, kind));
    match found {
        Some((format, ..)) if alike && rest_is_none && matches!(count, 1 | 2 | 4) => {
            Ok((*format, count as c_uint))
        }
        _ => Err(Code::INVALID_CHANNEL),
    }
}

/// The runtime's description of a format.
pub(crate) fn channels(format: c_uint, count: c_uint) -> Result<Channels> {
    let found = FORMATS.iter().find(|(known, ..)| *known == format);
    let (_, bits, kind) = *found.ok_or(Code::INVALID_CHANNEL)?;
    let nth = |index| if index < count { bits } else { 0 };
    Ok(Channels {
        x: nth(0),
        y: nth(1),
        z: nth(2),
        w: nth(3),
        kind,
    })
}

fn descriptor(array: CUarray) -> Result<Array3dDesc> {
    let mut found = Array3dDesc::default();
    driver!(cuArray3DGetDescriptor_v2(&mut found, array))?;
    Ok(found)
}

/// Bytes of an element.
pub(crate) fn element_bytes(array: CUarray) -> Result<usize> {
    let found = descriptor(array)?;
    let one = channels(found.format, found.channels)?.x as usize / 8; // not negative
    Ok(one * found.channels as usize)
}

/// Bytes of a row.
pub(crate) fn row_bytes(array: CUarray) -> Result<usize> {
    let width = descriptor(array)?.width;
    Ok(width.saturating_mul(element_bytes(array)?))
}

fn described(channels: &Channels, extent: Extent, flags: c_uint) -> Result<Array3dDesc> {
    let (format, count) = format(channels)?;
    Ok(Array3dDesc {
        width: extent.width,
        height: extent.height,
        depth: extent.depth,
        format,
        channels: count,
        flags,
    })
}

/// What the channels of an element are.
#[unsafe(no_mangle)]
pub extern "C" fn cudaCreateChannelDesc(
    x: c_int,
    y: c_int,
    z: c_int,
    w: c_int,
    kind: c_uint,
) -> Channels {
    Channels { x, y, z, w, kind }
}

entries! {
    /// An array of one or two dimensions.
    fn cudaMallocArray(array: *mut CUarray, channels: *const Channels, width: usize, height: usize, flags: c_uint) {
        ready()?;
        let extent = Extent { width, height, depth: 0 };
        let desc = described(&channels.get()?, extent, flags)?;
        driver!(cuArray3DCreate_v2(array.required()?, &desc))
    }

    /// An array of up to three dimensions, of layers or of cubes.
    fn cudaMalloc3DArray(array: *mut CUarray, channels: *const Channels, extent: Extent, flags: c_uint) {
        ready()?;
        let desc = described(&channels.get()?, extent, flags)?;
        driver!(cuArray3DCreate_v2(array.required()?, &desc))
    }

    /// An array with smaller copies of itself.
    fn cudaMallocMipmappedArray(array: *mut CUmipmappedArray, channels: *const Channels, extent: Extent, levels: c_uint, flags: c_uint) {
        ready()?;
        let desc = described(&channels.get()?, extent, flags)?;
        driver!(cuMipmappedArrayCreate(array.required()?, &desc, levels))
    }

    /// One of them.
    fn cudaGetMipmappedArrayLevel(level: *mut CUarray, array: CUmipmappedArray, number: c_uint) {
        ready()?;
        driver!(cuMipmappedArrayGetLevel(level.required()?, array.ptr(), number))
    }

    /// Frees an array; null is nothing to free.
    fn cudaFreeArray(array: CUarray) {
        ready()?;
        if array.is_null() { Ok(()) } else { driver!(cuArrayDestroy(array.ptr())) }
    }

    /// Frees an array and its copies.
    fn cudaFreeMipmappedArray(array: CUmipmappedArray) {
        ready()?;
        if array.is_null() { Ok(()) } else { driver!(cuMipmappedArrayDestroy(array.ptr())) }
    }

    /// The channels of an array's elements.
    fn cudaGetChannelDesc(result: *mut Channels, array: CUarray) {
        ready()?;
        let desc = descriptor(array.ptr())?;
        result.put(channels(desc.format, desc.channels)?)
    }

    /// Channels, extent and flags of an array.
    fn cudaArrayGetInfo(result: *mut Channels, extent: *mut Extent, flags: *mut c_uint, array: CUarray) {
        ready()?;
        let desc = descriptor(array.ptr())?;
        result.put_optional(channels(desc.format, desc.channels)?);
        extent.put_optional(Extent { width: desc.width, height: desc.height, depth: desc.depth });
        flags.put_optional(desc.flags);
        Ok(())
    }
}
