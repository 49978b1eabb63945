//! Surfaces: arrays that kernels read and write.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::mode::{BoundaryMode, Geometry, Mode, Operation, Query, Reduction};
use super::texels::{CUBEMAP, LAYERED, Texels};
use crate::math::convert::f32_to_f16;
use api::ArrayFormat;

/// A surface object.
pub(crate) struct Surface {
    pub texels: Texels,
}

/// Why an access is invalid.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SurfaceError {
    /// The coordinates are outside the surface.
    OutOfBounds,
    /// The byte coordinate is not a multiple of the access size.
    Misaligned,
}

impl Surface {
    /// Whether an instruction of this geometry can access the surface. Cube maps are
    /// accessed by face, as layers.
    pub fn supports(&self, geometry: Geometry) -> bool {
        let flags = self.texels.described.flags & (LAYERED | CUBEMAP);
        match geometry {
            Geometry::A1 | Geometry::A2 => flags != 0,
            _ => flags == 0,
        }
    }

    /// The address of an access of `bytes` bytes, where the x coordinate counts units of
    /// `unit` bytes. `None` if the boundary mode ignores the access.
    fn place(
        &self,
        mode: Mode,
        [x, y, z]: [i32; 3],
        unit: usize,
        bytes: usize,
    ) -> Result<Option<u64>, SurfaceError> {
        let [_, rows, planes] = self.texels.extent();
        let pitch = self.texels.pitch();
        let last = |count: usize| count as i64 - 1;
        // An access wider than a row is out of bounds everywhere.
        let Some(furthest) = self.texels.row().checked_sub(bytes) else {
            return match mode.boundary {
                BoundaryMode::Zero => Ok(None),
                _ => Err(SurfaceError::OutOfBounds),
            };
        };
        let mut at = [i64::from(x) * unit as i64, y.into(), z.into()];
        let most = [furthest as i64, last(rows), last(planes)];
        let inside = (0..3).all(|axis| (0..=most[axis]).contains(&at[axis]));
        match mode.boundary {
            _ if inside => {}
            BoundaryMode::Trap => return Err(SurfaceError::OutOfBounds),
            BoundaryMode::Zero => return Ok(None),
            BoundaryMode::Clamp => {
                for axis in 0..3 {
                    at[axis] = at[axis].clamp(0, most[axis]);
                }
            }
        }
        let [x, y, z] = at.map(|n| n as usize);
        if x % bytes.clamp(1, 8) != 0 {
            return Err(SurfaceError::Misaligned);
        }
        let offset = x + y * pitch + z * self.texels.plane();
        Ok(Some(self.texels.address + offset as u64))
    }

    /// Executes an instruction: stores `values`, or loads them.
    pub fn access(
        &self,
        mode: Mode,
        at: [i32; 3],
        values: &mut [u64; 4],
    ) -> Result<(), SurfaceError> {
        let count = usize::from(mode.count).min(4);
        let bytes = usize::from(mode.bytes);
        match mode.operation {
            Operation::StoreTexel => {
                let size = self.texels.texel_bytes();
                if let Some(address) = self.place(mode, at, size, size)? {
                    let channels = (self.texels.described.channels as usize).min(count);
                    for (channel, value) in values.iter().enumerate().take(channels) {
                        let width = self.texels.format.bytes();
                        let at = address + (channel * width) as u64;
                        write(at, width, u64::from(self.encode(*value as u32)));
                    }
                }
            }
            Operation::Reduce | Operation::ReduceTexel => {
                let unit = match mode.operation {
                    Operation::ReduceTexel => self.texels.texel_bytes(),
                    _ => 1,
                };
                if let Some(address) = self.place(mode, at, unit, bytes)? {
                    reduction(address, mode, values[0]);
                }
            }
            Operation::Store => {
                if let Some(address) = self.place(mode, at, 1, bytes * count)? {
                    for (n, value) in values.iter().enumerate().take(count) {
                        write(address + (n * bytes) as u64, bytes, *value);
                    }
                }
            }
            _ => {
                let address = self.place(mode, at, 1, bytes * count)?;
                for (n, value) in values.iter_mut().enumerate().take(count) {
                    *value = address.map_or(0, |address| read(address + (n * bytes) as u64, bytes));
                }
            }
        }
        Ok(())
    }

    /// Converts a 32-bit value to a channel of the surface's format.
    fn encode(&self, value: u32) -> u32 {
        let signed = value.cast_signed();
        match self.texels.format {
            ArrayFormat::U8 => value.min(0xff),
            ArrayFormat::U16 => value.min(0xffff),
            ArrayFormat::I8 => signed.clamp(-128, 127).cast_unsigned(),
            ArrayFormat::I16 => signed.clamp(-32768, 32767).cast_unsigned(),
            ArrayFormat::F16 => f32_to_f16(f32::from_bits(value), 0),
            _ => value,
        }
    }

    /// The result of `suq`.
    pub fn query(&self, query: Query) -> u32 {
        let [width, height, planes] = self.texels.extent();
        let layers = self.texels.described.flags & (LAYERED | CUBEMAP) != 0;
        let answer = match query {
            Query::Width => width,
            Query::Height => height,
            Query::Layers if layers => planes,
            Query::Depth if !layers => planes,
            _ => 1,
        };
        answer as u32
    }
}

fn read(address: u64, bytes: usize) -> u64 {
    let at = address as usize;
    // SAFETY: `place` has checked bounds and alignment, and the surface keeps the array
    // allocated. Accesses are atomic because other threads may write.
    unsafe {
        match bytes {
            1 => AtomicU8::from_ptr(at as *mut u8)
                .load(Ordering::Relaxed)
                .into(),
            2 => AtomicU16::from_ptr(at as *mut u16)
                .load(Ordering::Relaxed)
                .into(),
            4 => AtomicU32::from_ptr(at as *mut u32)
                .load(Ordering::Relaxed)
                .into(),
            _ => AtomicU64::from_ptr(at as *mut u64).load(Ordering::Relaxed),
        }
    }
}

fn write(address: u64, bytes: usize, value: u64) {
    let at = address as usize;
    // SAFETY: as in `read`.
    unsafe {
        match bytes {
            1 => AtomicU8::from_ptr(at as *mut u8).store(value as u8, Ordering::Relaxed),
            2 => AtomicU16::from_ptr(at as *mut u16).store(value as u16, Ordering::Relaxed),
            4 => AtomicU32::from_ptr(at as *mut u32).store(value as u32, Ordering::Relaxed),
            _ => AtomicU64::from_ptr(at as *mut u64).store(value, Ordering::Relaxed),
        }
    }
}

fn reduction(address: u64, mode: Mode, value: u64) {
    let at = address as usize;
    macro_rules! reduction {
        ($atomic:ty, $value:expr, $signed:expr) => {{
            let value = $value;
            // SAFETY: as in `read`.
            let atomic = unsafe { <$atomic>::from_ptr(at as *mut _) };
            match mode.reduction {
                Reduction::Add => drop(atomic.fetch_add(value, Ordering::SeqCst)),
                Reduction::And => drop(atomic.fetch_and(value, Ordering::SeqCst)),
                Reduction::Or => drop(atomic.fetch_or(value, Ordering::SeqCst)),
                Reduction::Min | Reduction::Max => {
                    let less = |a, b| {
                        if mode.signed {
                            $signed(a) < $signed(b)
                        } else {
                            a < b
                        }
                    };
                    let better = |old| match mode.reduction {
                        Reduction::Min => less(value, old),
                        _ => less(old, value),
                    };
                    // It fails if the old value is retained.
                    let _ = atomic.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| {
                        better(old).then_some(value)
                    });
                }
            }
        }};
    }
    match mode.bytes {
        8 => reduction!(AtomicU64, value, u64::cast_signed),
        _ => reduction!(AtomicU32, value as u32, u32::cast_signed),
    }
}
