//! Texture and surface instructions, as compiled code calls them.

use super::Rounding;
use super::convert::f32_to_f16;
use super::services::{context, may_read, record};
use crate::block::{Access, BlockContext, FaultKind};
use crate::texture::{self, At, Coordinates, Geometry, Mode, Object, Operation, Outside};

/// The operands of an instruction and its results.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct TextureAccess {
    /// Of a texture or surface object, or the address of a reference.
    pub handle: u64,
    /// What is stored, and what was fetched or loaded.
    pub values: [u64; 4],
    /// As the instruction has them: the layer of an array comes first.
    pub coordinates: [u32; 4],
    /// Of `.grad`: what coordinates change by in both directions.
    pub gradients: [[u32; 4]; 2],
    /// In texels.
    pub offset: [i32; 4],
    /// Of `.level`, or the level that `txq` asks about.
    pub lod: u32,
}

/// Does what a [`Mode`] says; 0, or 1 with the fault recorded.
pub(super) unsafe extern "C" fn texture(
    context: *mut BlockContext,
    thread: u32,
    line: u32,
    mode: u64,
    access: *mut TextureAccess,
) -> u32 {
    // SAFETY: as in `services`: compiled code hands over its own context.
    let context = unsafe { self::context(context) };
    // SAFETY: a place on the stack of compiled code that nobody else knows, of which it has
    // written what the mode needs; any bits are numbers.
    let access = unsafe { &mut *access };
    let mode = Mode::from_number(mode);
    let good = |address, bytes| may_read(context, address, bytes);
    let failed = texture::object(access.handle, |object| perform(mode, access, object, &good));
    match failed {
        Ok(()) => 0,
        Err((kind, address, what)) => record(context, kind, thread, address, what, line),
    }
}

/// What a fault is, of which address, in how many bytes.
type Failure = (FaultKind, u64, u32);

fn perform(
    mode: Mode,
    access: &mut TextureAccess,
    object: Option<&Object>,
    good: &dyn Fn(u64, u32) -> bool,
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
        (Operation::AskTexture, Some(Object::Texture(texture))) => {
            access.values[0] = texture.ask(mode.question, access.lod).into();
        }
        (Operation::AskSurface, Some(Object::Surface(surface))) => {
            access.values[0] = surface.ask(mode.question).into();
        }
        (Operation::Fetch | Operation::Gather, Some(Object::Texture(texture)))
            if texture.has(mode) =>
        {
            let texel = texture.fetch(mode, &at(mode, access), good);
            let texel = texel.map_err(|gone| (FaultKind::OutOfBounds, gone.address, gone.bytes))?;
            access.values = match mode.halves {
                false => texel.map(u64::from),
                true => halves(mode, texel),
            };
        }
        (
            Operation::Load
            | Operation::Store
            | Operation::StoreTexel
            | Operation::Change
            | Operation::ChangeTexel,
            Some(Object::Surface(surface)),
        ) if surface.has(geometry) => {
            let at = place(geometry, access.coordinates.map(u32::cast_signed));
            let bytes = u32::from(mode.bytes) * u32::from(mode.count);
            surface
                .access(mode, at, &mut access.values)
                .map_err(|outside| match outside {
                    Outside::Beyond => (FaultKind::OutsideSurface, access.handle, 0),
                    Outside::Misaligned => {
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

/// Coordinates without the layer, and the layer.
fn split<T: Copy>(geometry: Geometry, given: [T; 4]) -> ([T; 3], T) {
    let [first, second, third, fourth] = given;
    match geometry.is_layered() {
        true => ([second, third, fourth], first),
        false => ([first, second, third], fourth),
    }
}

fn at(mode: Mode, access: &TextureAccess) -> At {
    let (place, layer) = split(mode.geometry, access.coordinates);
    let [x, y, z, _] = access.offset;
    At {
        coordinates: match mode.integers {
            true => Coordinates::Integers(place.map(u32::cast_signed)),
            false => Coordinates::Floats(place.map(f32::from_bits)),
        },
        layer,
        lod: f32::from_bits(access.lod),
        gradients: access
            .gradients
            .map(|[x, y, z, _]| [x, y, z].map(f32::from_bits)),
        offset: [x, y, z],
    }
}

/// Column, row and plane of a surface: what the geometry lacks is 0.
fn place(geometry: Geometry, given: [i32; 4]) -> [i32; 3] {
    let (place, layer) = split(geometry, given);
    let mut at = [0; 3];
    let count = geometry.dimensions();
    at[..count].copy_from_slice(&place[..count]);
    if geometry.is_layered() {
        at[2] = layer;
    }
    at
}

/// Half-precision numbers: four, or two pairs.
fn halves(mode: Mode, texel: [u32; 4]) -> [u64; 4] {
    let half = |bits| u64::from(f32_to_f16(f32::from_bits(bits), Rounding::Nearest as u32));
    let [a, b, c, d] = texel.map(half);
    match mode.count {
        2 => [a | b << 16, c | d << 16, 0, 0],
        _ => [a, b, c, d],
    }
}
