//! Texture fetches: sampling and filtering.

use super::cube;
use super::mode::{Geometry, Lod, Mode, Operation, Query};
use super::sampler::{AddressMode, Sampler, linear_texels, nearest};
use super::texels::{CUBEMAP, LAYERED, Texels};
use crate::math::convert::f16_to_f32;
use api::ArrayFormat;

/// A mipmap level: rows of texels in planes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MipLevel {
    pub address: u64,
    pub extent: [usize; 3],
    pub pitch: usize,
    pub plane: usize,
}

impl From<&Texels> for MipLevel {
    fn from(texels: &Texels) -> MipLevel {
        MipLevel {
            address: texels.address,
            extent: texels.extent(),
            pitch: texels.pitch(),
            plane: texels.plane(),
        }
    }
}

/// A texture object.
pub(crate) struct Texture {
    pub levels: Vec<MipLevel>,
    pub format: ArrayFormat,
    pub channels: u32,
    /// Integer texels are not converted to floating point (`CU_TRSF_READ_AS_INTEGER`).
    pub integers: bool,
    pub sampler: Sampler,
    /// `CUDA_ARRAY3D_*`; 0 if the memory is not an array.
    pub flags: u32,
    /// The memory is linear, not an array or pitched.
    pub linear: bool,
    /// The memory is not an array and may be freed: each access is checked.
    pub checked: bool,
    /// Keeps the memory of the levels allocated.
    pub _retained: Vec<Texels>,
}

/// Coordinates of a fetch, without the layer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Coordinates {
    Floats([f32; 3]),
    Integers([i32; 3]),
}

/// The operands of a fetch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FetchOperands {
    pub coordinates: Coordinates,
    pub layer: u32,
    /// The level of detail, for [`Lod::Level`]; with integer coordinates, the number of a level.
    pub lod: f32,
    /// The derivatives of the coordinates in x and y, for [`Lod::Gradient`].
    pub gradients: [[f32; 3]; 2],
    /// In texels.
    pub offset: [i32; 3],
}

/// The four channels of a texel: integers, or the bits of floats.
type Texel = [u32; 4];

/// Whether a kernel may read a number of bytes at an address.
type Readable<'a> = &'a dyn Fn(u64, u32) -> bool;

/// The memory of a texel is not readable.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unmapped {
    pub address: u64,
    pub bytes: u32,
}

impl Texture {
    /// Whether an instruction can read the texture. In one dimension GPUs read linear
    /// memory with integer coordinates only, and arrays with float coordinates only.
    pub fn supports(&self, mode: Mode) -> bool {
        let flags = self.flags & (LAYERED | CUBEMAP);
        match mode.geometry {
            Geometry::A1 | Geometry::A2 => flags & LAYERED != 0 || flags & CUBEMAP != 0,
            Geometry::Cube => flags == CUBEMAP,
            Geometry::ACube => flags == LAYERED | CUBEMAP,
            Geometry::D1 => flags == 0 && mode.integers == self.linear,
            Geometry::D2 | Geometry::D3 => flags == 0,
        }
    }

    /// The four channels of the filtered texel, or for `tld4` one channel of four texels.
    pub fn fetch(
        &self,
        mode: Mode,
        at: &FetchOperands,
        readable: Readable<'_>,
    ) -> Result<Texel, Unmapped> {
        if mode.operation == Operation::Gather {
            return self.gather(mode, at, readable);
        }
        let Some(first) = self.levels.first() else {
            return Ok([0; 4]);
        };
        if mode.integers && mode.lod == Lod::Level {
            // As on an H200: neither the sampler nor the number of levels limits it.
            let levels = self.levels.iter().zip(0_u16..);
            let mut found = levels.filter(|(_, number)| f32::from(*number) == at.lod);
            return match found.next() {
                Some((level, _)) => self.sample(level, mode.geometry, at, readable),
                None => Ok([0; 4]),
            };
        }
        if self.levels.len() == 1 || mode.lod == Lod::Base {
            return self.sample(first, mode.geometry, at, readable);
        }
        let lod = match mode.lod {
            Lod::Gradient => self.gradient_lod(mode.geometry, at),
            _ => f64::from(at.lod),
        } + f64::from(self.sampler.bias);
        let [least, most] = self.sampler.levels.map(f64::from);
        let last = self.levels.len() - 1;
        let lod = lod.max(least).min(most).max(0.0).min(last as f64);
        if !self.sampler.linear_levels {
            let level = (lod + 0.5).floor() as usize;
            return self.sample(&self.levels[level.min(last)], mode.geometry, at, readable);
        }
        let fixed = (lod * 256.0 + 0.5).floor() as usize;
        let (level, weight) = ((fixed >> 8).min(last), fixed & 255);
        let near = self.sample(&self.levels[level], mode.geometry, at, readable)?;
        if weight == 0 || level == last {
            return Ok(near);
        }
        let far = self.sample(&self.levels[level + 1], mode.geometry, at, readable)?;
        Ok(weighted_mean(
            [(near, 256 - weight as u64), (far, weight as u64)],
            256.0,
        ))
    }

    /// The level of detail for the derivatives: log2 of the longer one in texels.
    fn gradient_lod(&self, geometry: Geometry, at: &FetchOperands) -> f64 {
        let [width, height, depth] = self.levels.first().map_or([1; 3], |level| level.extent);
        let sizes = match geometry {
            _ if !self.sampler.normalized => [1.0; 3],
            // A face spans 2 units of a direction whose major axis is 1.
            Geometry::Cube | Geometry::ACube => [width as f64 / 2.0; 3],
            _ => [width as f64, height as f64, depth as f64],
        };
        let steps = at.gradients.map(|gradient| {
            let parts = gradient.iter().zip(sizes).take(geometry.dimensions());
            parts
                .map(|(part, size)| (f64::from(*part) * size).powi(2))
                .sum::<f64>()
                .sqrt()
        });
        steps[0].max(steps[1]).log2()
    }

    fn sample(
        &self,
        level: &MipLevel,
        geometry: Geometry,
        at: &FetchOperands,
        readable: Readable<'_>,
    ) -> Result<Texel, Unmapped> {
        if matches!(geometry, Geometry::Cube | Geometry::ACube) {
            return self.sample_cube(level, geometry, at, readable);
        }
        let dimensions = geometry.dimensions();
        let layer = self.layer(level, geometry, at.layer);
        let floats = match at.coordinates {
            Coordinates::Integers(integers) => {
                return self.load(level, dimensions, integers, at.offset, layer, readable);
            }
            Coordinates::Floats(floats) => floats,
        };
        let mut firsts = [0; 3];
        let mut weights = [0; 3];
        for axis in 0..dimensions {
            let size = level.extent[axis];
            let position = self.sampler.position(axis, floats[axis], size);
            (firsts[axis], weights[axis]) = if self.sampler.linear {
                linear_texels(position)
            } else {
                (nearest(position), 0)
            };
            firsts[axis] += i64::from(at.offset[axis]);
        }
        let texel = |corner: usize| {
            let mut place = [0, 0, layer.unwrap_or(0)];
            for axis in 0..dimensions {
                let at = firsts[axis] + (corner >> axis & 1) as i64;
                match self.sampler.address[axis].texel(at, level.extent[axis]) {
                    Some(texel) => place[axis] = texel,
                    None => return Ok(self.sampler.border.map(f32::to_bits)),
                }
            }
            self.texel(level, place, readable)
        };
        if !self.sampler.linear {
            return texel(0);
        }
        let corners = (0..1 << dimensions).map(|corner: usize| {
            let weight = (0..dimensions).fold(1, |weight, axis| {
                let second = u64::from(weights[axis]);
                weight
                    * if corner >> axis & 1 == 1 {
                        second
                    } else {
                        256 - second
                    }
            });
            // A texel of weight 0 is not read.
            Ok((if weight == 0 { [0; 4] } else { texel(corner)? }, weight))
        });
        let corners = corners.collect::<Result<Vec<_>, Unmapped>>()?;
        Ok(weighted_mean(corners, 256.0_f64.powi(dimensions as i32)))
    }

    /// An unfiltered texel; zeros out of bounds.
    fn load(
        &self,
        level: &MipLevel,
        dimensions: usize,
        place: [i32; 3],
        offset: [i32; 3],
        layer: Option<usize>,
        readable: Readable<'_>,
    ) -> Result<Texel, Unmapped> {
        let mut texel = [0, 0, layer.unwrap_or(0)];
        for axis in 0..dimensions {
            let at = i64::from(place[axis]) + i64::from(offset[axis]);
            match AddressMode::Border.texel(at, level.extent[axis]) {
                Some(at) => texel[axis] = at,
                None => return Ok([0; 4]),
            }
        }
        self.texel(level, texel, readable)
    }

    /// The plane of a layer. Layers out of range are clamped.
    fn layer(&self, level: &MipLevel, geometry: Geometry, layer: u32) -> Option<usize> {
        let planes = match geometry {
            Geometry::ACube => level.extent[2] / 6,
            _ => level.extent[2],
        };
        geometry
            .is_layered()
            .then(|| (layer as usize).min(planes.saturating_sub(1)))
    }

    fn sample_cube(
        &self,
        level: &MipLevel,
        geometry: Geometry,
        at: &FetchOperands,
        readable: Readable<'_>,
    ) -> Result<Texel, Unmapped> {
        let Coordinates::Floats(direction) = at.coordinates else {
            return Ok([0; 4]);
        };
        let first = self.layer(level, geometry, at.layer).unwrap_or(0) * 6;
        let (face, place) = cube::face(direction.map(f64::from));
        let side = level.extent[0];
        let place = place.map(|n| n * side as f64);
        if !self.sampler.linear {
            let [column, row] = place.map(nearest);
            return self.face_texel(level, first, face, [column, row], readable);
        }
        let [(column, right), (row, down)] = place.map(linear_texels);
        let weigh =
            |second: u32, weight: u32| u64::from(if second == 1 { weight } else { 256 - weight });
        let mut corners = [([0; 4], 0); 4];
        let mut missing = None;
        for (n, corner) in corners.iter_mut().enumerate() {
            let (x, y) = (n as u32 & 1, n as u32 >> 1);
            corner.1 = weigh(x, right) * weigh(y, down);
            let at = [column + i64::from(x), row + i64::from(y)];
            if self.is_corner(at, side) {
                missing = Some(n);
            } else {
                corner.0 = self.face_texel(level, first, face, at, readable)?;
            }
        }
        if let Some(missing) = missing {
            // At a corner three faces meet: the fourth texel is the mean of the others.
            let others = (0..4).filter(|&n| n != missing).map(|n| (corners[n].0, 1));
            corners[missing].0 = weighted_mean(others.collect::<Vec<_>>(), 3.0);
        }
        Ok(weighted_mean(corners, 65536.0))
    }

    fn is_corner(&self, [column, row]: [i64; 2], side: usize) -> bool {
        let outside = |n: i64| !(0..side as i64).contains(&n);
        self.sampler.seamless && outside(column) && outside(row)
    }

    /// A texel of a face, or beyond its edge.
    fn face_texel(
        &self,
        level: &MipLevel,
        first: usize,
        face: usize,
        at: [i64; 2],
        readable: Readable<'_>,
    ) -> Result<Texel, Unmapped> {
        let side = level.extent[0];
        if self.sampler.seamless
            && !at.iter().all(|n| (0..side as i64).contains(n))
            && let Some((face, [column, row])) = cube::over_edge(face, at, side)
        {
            return self.texel(level, [column, row, first + face], readable);
        }
        let mut place = [0, 0, first + face];
        for axis in 0..2 {
            match self.sampler.address[axis].texel(at[axis], side) {
                Some(texel) => place[axis] = texel,
                None => return Ok(self.sampler.border.map(f32::to_bits)),
            }
        }
        self.texel(level, place, readable)
    }

    /// One channel of the four texels around a position, counter-clockwise from the lower
    /// left.
    fn gather(
        &self,
        mode: Mode,
        at: &FetchOperands,
        readable: Readable<'_>,
    ) -> Result<Texel, Unmapped> {
        let Some(level) = self.levels.first() else {
            return Ok([0; 4]);
        };
        let Coordinates::Floats(floats) = at.coordinates else {
            return Ok([0; 4]);
        };
        let layer = self.layer(level, mode.geometry, at.layer).unwrap_or(0);
        let is_cube = matches!(mode.geometry, Geometry::Cube | Geometry::ACube);
        let (face, place) = if is_cube {
            let (face, place) = cube::face(floats.map(f64::from));
            (face, place.map(|n| n * level.extent[0] as f64))
        } else {
            let place = [0, 1].map(|axis| {
                self.sampler
                    .position(axis, floats[axis], level.extent[axis])
            });
            (0, place)
        };
        let mut result = [0; 4];
        for (result, [right, down]) in result.iter_mut().zip([[0, 1], [1, 1], [1, 0], [0, 0]]) {
            let column = linear_texels(place[0]).0 + right + i64::from(at.offset[0]);
            let row = linear_texels(place[1]).0 + down + i64::from(at.offset[1]);
            let texel = if is_cube {
                self.face_texel(level, layer * 6, face, [column, row], readable)?
            } else {
                let texel =
                    |axis: usize, at| self.sampler.address[axis].texel(at, level.extent[axis]);
                match (texel(0, column), texel(1, row)) {
                    (Some(column), Some(row)) => {
                        self.texel(level, [column, row, layer], readable)?
                    }
                    _ => self.sampler.border.map(f32::to_bits),
                }
            };
            *result = texel[usize::from(mode.channel)];
        }
        Ok(result)
    }

    /// Reads a texel and converts its channels. Missing channels are 0.
    fn texel(
        &self,
        level: &MipLevel,
        [x, y, z]: [usize; 3],
        readable: Readable<'_>,
    ) -> Result<Texel, Unmapped> {
        let bytes = self.format.bytes();
        let size = bytes * self.channels as usize;
        let offset = x * size + y * level.pitch + z * level.plane;
        let address = level.address.wrapping_add(offset as u64);
        if self.checked && !readable(address, size as u32) {
            let bytes = size as u32;
            return Err(Unmapped { address, bytes });
        }
        let mut texel = [0; 4];
        for (channel, value) in texel.iter_mut().enumerate().take(self.channels as usize) {
            let at = (address as usize + channel * bytes) as *const u8;
            // SAFETY: the address is in the array, which `_retained` keeps allocated, or was
            // checked above. Reads are volatile because other threads may write. Arrays and
            // their rows are aligned to 16 bytes; the alignment of other memory was checked
            // when the texture was created.
            let bits = unsafe {
                match bytes {
                    1 => u32::from(at.read_volatile()),
                    2 => u32::from(at.cast::<u16>().read_volatile()),
                    _ => at.cast::<u32>().read_volatile(),
                }
            };
            *value = self.decode(bits, channel);
        }
        Ok(texel)
    }

    fn decode(&self, bits: u32, channel: usize) -> u32 {
        let fraction = |n: f32, of: f32| (n / of).max(-1.0).to_bits();
        match self.format {
            ArrayFormat::F32 | ArrayFormat::U32 | ArrayFormat::I32 => bits,
            ArrayFormat::F16 => f16_to_f32(bits).to_bits(),
            ArrayFormat::U8 | ArrayFormat::U16 if self.integers => bits,
            ArrayFormat::I8 if self.integers => i32::from(bits as u8 as i8).cast_unsigned(),
            ArrayFormat::I16 if self.integers => i32::from(bits as u16 as i16).cast_unsigned(),
            ArrayFormat::U8 if self.sampler.srgb && channel < 3 => {
                from_srgb(bits as f32 / 255.0).to_bits()
            }
            ArrayFormat::U8 => fraction(bits as f32, 255.0),
            ArrayFormat::I8 => fraction(f32::from(bits as u8 as i8), 127.0),
            ArrayFormat::U16 => fraction(bits as f32, 65535.0),
            ArrayFormat::I16 => fraction(f32::from(bits as u16 as i16), 32767.0),
        }
    }

    /// The result of `txq`; an extent is that of `level`.
    pub fn query(&self, query: Query, level: u32) -> u32 {
        let Some(found) = self.levels.get(level as usize) else {
            return 0;
        };
        let [width, height, planes] = found.extent;
        let layers = self.flags & (LAYERED | CUBEMAP) != 0;
        // The numbers of the PTX ISA: wrap, mirror, clamp_to_edge, clamp_to_border.
        let address = |axis: usize| match self.sampler.address[axis] {
            AddressMode::Wrap => 0,
            AddressMode::Mirror => 1,
            AddressMode::Clamp => 3,
            AddressMode::Border => 4,
        };
        match query {
            Query::Width => width as u32,
            Query::Height => height as u32,
            Query::Depth if layers => 1,
            Query::Depth => planes as u32,
            Query::Layers if layers => planes as u32,
            Query::Layers => 1,
            Query::Levels => self.levels.len() as u32,
            Query::Samples => 1,
            Query::Normalized => u32::from(self.sampler.normalized),
            Query::Filter => u32::from(self.sampler.linear),
            Query::Address0 => address(0),
            Query::Address1 => address(1),
            Query::Address2 => address(2),
        }
    }
}

/// The weighted mean of texels, whose weights add up to `whole`. It is rounded once.
fn weighted_mean(texels: impl IntoIterator<Item = (Texel, u64)>, whole: f64) -> Texel {
    let mut sums = [0.0_f64; 4];
    for (texel, weight) in texels {
        if weight == 0 {
            continue;
        }
        for (sum, bits) in sums.iter_mut().zip(texel) {
            *sum += f64::from(f32::from_bits(bits)) * weight as f64;
        }
    }
    sums.map(|sum| ((sum / whole) as f32).to_bits())
}

/// Converts sRGB to linear (IEC 61966-2-1).
fn from_srgb(value: f32) -> f32 {
    if value <= 0.04045 {
        value / 12.92
    } else {
        ((value + 0.055) / 1.055).powf(2.4)
    }
}
