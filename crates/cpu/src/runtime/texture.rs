//! The helper for texture and surface instructions.

use crate::abi::{Access, BlockContext, FaultKind};
use crate::access::{context, may_read, record};
use crate::math::convert::f32_to_f16;
use crate::math::rounding::Rounding;
use crate::texture::{
    self, Coordinates, FetchOperands, Geometry, Mode, Object, Operation, SurfaceError,
};

/// The operands of an instruction and its results.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct TextureAccess {
    /// The handle of an object, or the address of a reference.
    pub handle: u64,
    /// The values to store, or the results.
    pub values: [u64; 4],
    /// In the order of the instruction: the layer of an array comes first.
    pub coordinates: [u32; 4],
    /// The derivatives of the coordinates in x and y, for `.grad`.
    pub gradients: [[u32; 4]; 2],
    /// In texels.
    pub offset: [i32; 4],
    /// The level of detail for `.level`, or the level that `txq` queries.
    pub lod: u32,
}

/// Executes the instruction of a [`Mode`]. Returns 0, or 1 after recording a fault.
pub(super) unsafe extern "C" fn texture(
    context: *mut BlockContext,
    thread: u32,
    line: u32,
    mode: u64,
    access: *mut TextureAccess,
) -> u32 {
    // SAFETY: see `device`: compiled code passes its own context.
    let context = unsafe { self::context(&context) };
    // SAFETY: this is a stack slot of the calling code, to which nothing else refers. Any bits
    // are valid integers.
    let access = unsafe { &mut *access };
    let mode = Mode::from_number(mode);
    let readable = |address, bytes| may_read(context, address, bytes);
    let failed = texture::object(access.handle, |object| {
        perform(mode, access, object, &readable)
    });
    match failed {
        Ok(()) => 0,
        Err((kind, address, what)) => record(context, kind, thread, address, what, line),
    }
}

/// Kind, address and [`Access`] of a fault.
type Failure = (FaultKind, u64, u32);

fn perform(
    mode: Mode,
    access: &mut TextureAccess,
    object: Option<&Object>,
    readable: &dyn Fn(u64, u32) -> bool,
) -> Result<(), Failure> {
    let unknown = (FaultKind::BadTexture, access.handle, 0);
    let geometry = mode.geometry;
    match (mode.operation, object) {
        (Operation::IsTexture, _) => {
            access.values[0] = u64::from(matches!(object, Some(Object::Texture(_))));
        }
        (Operation::IsSurface, _) => {
            access.values[0] = u64::from(matches!(object, Some(Object::Surface(_))));
        }
        (Operation::QueryTexture, Some(Object::Texture(texture))) => {
            access.values[0] = texture.query(mode.query, access.lod).into();
        }
        (Operation::QuerySurface, Some(Object::Surface(surface))) => {
            access.values[0] = surface.query(mode.query).into();
        }
        (Operation::Fetch | Operation::Gather, Some(Object::Texture(texture)))
            if texture.supports(mode) =>
        {
            let texel = texture.fetch(mode, &fetch_operands(mode, access), readable);
            let texel = texel
                .map_err(|unmapped| (FaultKind::OutOfBounds, unmapped.address, unmapped.bytes))?;
            access.values = if !mode.halves {
                texel.map(u64::from)
            } else {
                halves(mode, texel)
            };
        }
        (
            Operation::Load
            | Operation::Store
            | Operation::StoreTexel
            | Operation::Reduce
            | Operation::ReduceTexel,
            Some(Object::Surface(surface)),
        ) if surface.supports(geometry) => {
            let at = place(geometry, access.coordinates.map(u32::cast_signed));
            let bytes = u32::from(mode.bytes) * u32::from(mode.count);
            surface
                .access(mode, at, &mut access.values)
                .map_err(|outside| match outside {
                    SurfaceError::OutOfBounds => (FaultKind::OutsideSurface, access.handle, 0),
                    SurfaceError::Misaligned => {
                        let write = match mode.operation {
                            Operation::Load => 0,
                            _ => Access::WRITE,
                        };
                        let at = u64::from(at[0].cast_unsigned());
                        (FaultKind::Misaligned, at, bytes | write)
                    }
                })?;
        }
        _ => return Err(unknown),
    }
    Ok(())
}

/// Separates the layer from the coordinates.
fn split<T: Copy>(geometry: Geometry, coordinates: [T; 4]) -> ([T; 3], T) {
    let [first, second, third, fourth] = coordinates;
    if geometry.is_layered() {
        ([second, third, fourth], first)
    } else {
        ([first, second, third], fourth)
    }
}

fn fetch_operands(mode: Mode, access: &TextureAccess) -> FetchOperands {
    let (place, layer) = split(mode.geometry, access.coordinates);
    let [x, y, z, _] = access.offset;
    FetchOperands {
        coordinates: if mode.integers {
            Coordinates::Integers(place.map(u32::cast_signed))
        } else {
            Coordinates::Floats(place.map(f32::from_bits))
        },
        layer,
        lod: if mode.integers {
            access.lod.cast_signed() as f32
        } else {
            f32::from_bits(access.lod)
        },
        gradients: access
            .gradients
            .map(|[x, y, z, _]| [x, y, z].map(f32::from_bits)),
        offset: [x, y, z],
    }
}

/// Column, row and plane of a surface access; missing coordinates are 0.
fn place(geometry: Geometry, coordinates: [i32; 4]) -> [i32; 3] {
    let (place, layer) = split(geometry, coordinates);
    let mut at = [0; 3];
    let count = geometry.dimensions();
    at[..count].copy_from_slice(&place[..count]);
    if geometry.is_layered() {
        at[2] = layer;
    }
    at
}

/// Converts a texel to four `f16`, or to two `f16x2`.
fn halves(mode: Mode, texel: [u32; 4]) -> [u64; 4] {
    let half = |bits| u64::from(f32_to_f16(f32::from_bits(bits), Rounding::Nearest as u32));
    let [a, b, c, d] = texel.map(half);
    match mode.count {
        2 => [a | b << 16, c | d << 16, 0, 0],
        _ => [a, b, c, d],
    }
}
