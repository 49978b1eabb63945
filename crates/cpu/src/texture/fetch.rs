//! Textures: what a fetch gives.

use super::cube;
use super::mode::{Geometry, Lod, Mode, Operation, Question};
use super::sampler::{Address, Sampler, around, nearest};
use super::texels::{CUBEMAP, LAYERED, Texels};
use crate::math::convert::f16_to_f32;
use api::ArrayFormat;

/// Texels of one size: row by row and plane by plane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    pub address: u64,
    pub extent: [usize; 3],
    pub pitch: usize,
    pub plane: usize,
}

impl From<&Texels> for Level {
    fn from(texels: &Texels) -> Level {
        Level {
            address: texels.address,
            extent: texels.extent(),
            pitch: texels.pitch(),
            plane: texels.plane(),
        }
    }
}

/// A texture as kernels read it.
pub(crate) struct Texture {
    pub levels: Vec<Level>,
    pub format: ArrayFormat,
    pub channels: u32,
    /// Texels are read as the integers that they are.
    pub integers: bool,
    pub sampler: Sampler,
    /// `CUDA_ARRAY3D_*`; 0 of memory that is no array.
    pub flags: u32,
    /// It is of linear memory: no array, and no rows.
    pub linear: bool,
    /// Memory that is no array may be gone: each texel is looked up.
    pub checked: bool,
    /// Keeps what the levels are of.
    pub _hold: Vec<Texels>,
}

/// Coordinates of a fetch, without the layer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Coordinates {
    Floats([f32; 3]),
    Integers([i32; 3]),
}

/// Where an instruction fetches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub coordinates: Coordinates,
    pub layer: u32,
    /// The level, for [`Lod::Level`].
    pub lod: f32,
    /// What coordinates change by to the right and down, for [`Lod::Gradient`].
    pub gradients: [[f32; 3]; 2],
    /// In texels.
    pub offset: [i32; 3],
}

/// A texel: bits of numbers or integers, as the texture is read.
type Texel = [u32; 4];

/// Whether a kernel may read so many bytes at an address.
type Good<'a> = &'a dyn Fn(u64, u32) -> bool;

/// The memory of a texel is gone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    pub address: u64,
    pub bytes: u32,
}

impl Texture {
    /// Whether an instruction can read it. In one dimension a GPU has memory by
    /// the numbers of its texels and arrays by coordinates alone.
    pub fn has(&self, mode: Mode) -> bool {
        let flags = self.flags & (LAYERED | CUBEMAP);
        match mode.geometry {
            Geometry::A1 | Geometry::A2 => flags & LAYERED != 0 || flags & CUBEMAP != 0,
            Geometry::Cube => flags == CUBEMAP,
            Geometry::ACube => flags == LAYERED | CUBEMAP,
            Geometry::D1 => flags == 0 && mode.integers == self.linear,
            Geometry::D2 | Geometry::D3 => flags == 0,
        }
    }

    /// What the instruction gives: four channels, or a channel of four texels.
    pub fn fetch(&self, mode: Mode, at: &At, good: Good<'_>) -> Result<Texel, Gone> {
        if mode.operation == Operation::Gather {
            return self.gather(mode, at, good);
        }
        let Some(first) = self.levels.first() else {
            return Ok([0; 4]);
        };
        if self.levels.len() == 1 || mode.lod == Lod::Base {
            return self.sample(first, mode.geometry, at, good);
        }
        let lod = match mode.lod {
            Lod::Gradient => self.slope(mode.geometry, at),
            _ => f64::from(at.lod),
        } + f64::from(self.sampler.bias);
        let [least, most] = self.sampler.levels.map(f64::from);
        let last = self.levels.len() - 1;
        let lod = lod.max(least).min(most).max(0.0).min(last as f64);
        if !self.sampler.linear_levels {
            let level = (lod + 0.5).floor() as usize;
            return self.sample(&self.levels[level.min(last)], mode.geometry, at, good);
        }
        let fixed = (lod * 256.0 + 0.5).floor() as usize;
        let (level, weight) = ((fixed >> 8).min(last), fixed & 255);
        let near = self.sample(&self.levels[level], mode.geometry, at, good)?;
        if weight == 0 || level == last {
            return Ok(near);
        }
        let far = self.sample(&self.levels[level + 1], mode.geometry, at, good)?;
        Ok(mix(
            [(near, 256 - weight as u64), (far, weight as u64)],
            256.0,
        ))
    }

    /// The level where a step of the derivatives is one texel long.
    fn slope(&self, geometry: Geometry, at: &At) -> f64 {
        let [width, height, depth] = self.levels.first().map_or([1; 3], |level| level.extent);
        let sizes = match geometry {
            _ if !self.sampler.normalized => [1.0; 3],
            // A face spans 2 of a direction whose longest part is 1.
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
        level: &Level,
        geometry: Geometry,
        at: &At,
        good: Good<'_>,
    ) -> Result<Texel, Gone> {
        if matches!(geometry, Geometry::Cube | Geometry::ACube) {
            return self.sample_cube(level, geometry, at, good);
        }
        let dimensions = geometry.dimensions();
        let layer = self.layer(level, geometry, at.layer);
        let floats = match at.coordinates {
            Coordinates::Integers(integers) => {
                return self.load(level, dimensions, integers, at.offset, layer, good);
            }
            Coordinates::Floats(floats) => floats,
        };
        let mut firsts = [0; 3];
        let mut weights = [0; 3];
        for axis in 0..dimensions {
            let size = level.extent[axis];
            let position = self.sampler.position(axis, floats[axis], size);
            (firsts[axis], weights[axis]) = match self.sampler.linear {
                true => around(position),
                false => (nearest(position), 0),
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
            self.texel(level, place, good)
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
            // What weighs nothing is not looked at.
            Ok((if weight == 0 { [0; 4] } else { texel(corner)? }, weight))
        });
        let corners = corners.collect::<Result<Vec<_>, Gone>>()?;
        Ok(mix(corners, 256.0_f64.powi(dimensions as i32)))
    }

    /// A texel by its place, unfiltered; zeros where none is.
    fn load(
        &self,
        level: &Level,
        dimensions: usize,
        place: [i32; 3],
        offset: [i32; 3],
        layer: Option<usize>,
        good: Good<'_>,
    ) -> Result<Texel, Gone> {
        let mut texel = [0, 0, layer.unwrap_or(0)];
        for axis in 0..dimensions {
            let at = i64::from(place[axis]) + i64::from(offset[axis]);
            match Address::Border.texel(at, level.extent[axis]) {
                Some(at) => texel[axis] = at,
                None => return Ok([0; 4]),
            }
        }
        self.texel(level, texel, good)
    }

    /// The plane of a layer, the last one of those beyond.
    fn layer(&self, level: &Level, geometry: Geometry, layer: u32) -> Option<usize> {
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
        level: &Level,
        geometry: Geometry,
        at: &At,
        good: Good<'_>,
    ) -> Result<Texel, Gone> {
        let Coordinates::Floats(direction) = at.coordinates else {
            return Ok([0; 4]);
        };
        let first = self.layer(level, geometry, at.layer).unwrap_or(0) * 6;
        let (face, place) = cube::face(direction.map(f64::from));
        let side = level.extent[0];
        let place = place.map(|n| n * side as f64);
        if !self.sampler.linear {
            let [column, row] = place.map(nearest);
            return self.face_texel(level, first, face, [column, row], good);
        }
        let [(column, right), (row, down)] = place.map(around);
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
                corner.0 = self.face_texel(level, first, face, at, good)?;
            }
        }
        if let Some(missing) = missing {
            // Where three faces meet, there is no fourth texel: the mean of the others.
            let others = (0..4).filter(|&n| n != missing).map(|n| (corners[n].0, 1));
            corners[missing].0 = mix(others.collect::<Vec<_>>(), 3.0);
        }
        Ok(mix(corners, 65536.0))
    }

    fn is_corner(&self, [column, row]: [i64; 2], side: usize) -> bool {
        let outside = |n: i64| !(0..side as i64).contains(&n);
        self.sampler.seamless && outside(column) && outside(row)
    }

    /// A texel of a face, or over its edge.
    fn face_texel(
        &self,
        level: &Level,
        first: usize,
        face: usize,
        at: [i64; 2],
        good: Good<'_>,
    ) -> Result<Texel, Gone> {
        let side = level.extent[0];
        if self.sampler.seamless
            && !at.iter().all(|n| (0..side as i64).contains(n))
            && let Some((face, [column, row])) = cube::over_edge(face, at, side)
        {
            return self.texel(level, [column, row, first + face], good);
        }
        let mut place = [0, 0, first + face];
        for axis in 0..2 {
            match self.sampler.address[axis].texel(at[axis], side) {
                Some(texel) => place[axis] = texel,
                None => return Ok(self.sampler.border.map(f32::to_bits)),
            }
        }
        self.texel(level, place, good)
    }

    /// One channel of the four texels around a place, counter-clockwise from the
    /// lower left.
    fn gather(&self, mode: Mode, at: &At, good: Good<'_>) -> Result<Texel, Gone> {
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
            let column = around(place[0]).0 + right + i64::from(at.offset[0]);
            let row = around(place[1]).0 + down + i64::from(at.offset[1]);
            let texel = if is_cube {
                self.face_texel(level, layer * 6, face, [column, row], good)?
            } else {
                let texel =
                    |axis: usize, at| self.sampler.address[axis].texel(at, level.extent[axis]);
                match (texel(0, column), texel(1, row)) {
                    (Some(column), Some(row)) => self.texel(level, [column, row, layer], good)?,
                    _ => self.sampler.border.map(f32::to_bits),
                }
            };
            *result = texel[usize::from(mode.channel)];
        }
        Ok(result)
    }

    /// A texel as the texture gives it; channels that it lacks are 0.
    fn texel(&self, level: &Level, [x, y, z]: [usize; 3], good: Good<'_>) -> Result<Texel, Gone> {
        let bytes = self.format.bytes();
        let size = bytes * self.channels as usize;
        let address = level.address + (x * size + y * level.pitch + z * level.plane) as u64;
        if self.checked && !good(address, size as u32) {
            let bytes = size as u32;
            return Err(Gone { address, bytes });
        }
        let mut texel = [0; 4];
        for (channel, value) in texel.iter_mut().enumerate().take(self.channels as usize) {
            let at = (address as usize + channel * bytes) as *const u8;
            // SAFETY: within the array, which the texture keeps, or checked just now; volatile,
            // as other threads may write it, which a GPU does not mind either. Arrays begin
            // aligned and rows of them, too; memory that is none was found to be.
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

    /// What `txq` gives; of an extent, that of a level.
    pub fn ask(&self, question: Question, level: u32) -> u32 {
        let Some(found) = self.levels.get(level as usize) else {
            return 0;
        };
        let [width, height, planes] = found.extent;
        let layers = self.flags & (LAYERED | CUBEMAP) != 0;
        // As the PTX ISA counts them: wrap, mirror, clamp to the edge, to the border.
        let address = |axis: usize| match self.sampler.address[axis] {
            Address::Wrap => 0,
            Address::Mirror => 1,
            Address::Clamp => 3,
            Address::Border => 4,
        };
        match question {
            Question::Width => width as u32,
            Question::Height => height as u32,
            Question::Depth if layers => 1,
            Question::Depth => planes as u32,
            Question::Layers if layers => planes as u32,
            Question::Layers => 1,
            Question::Levels => self.levels.len() as u32,
            Question::Samples => 1,
            Question::Normalized => u32::from(self.sampler.normalized),
            Question::Filter => u32::from(self.sampler.linear),
            Question::Address0 => address(0),
            Question::Address1 => address(1),
            Question::Address2 => address(2),
        }
    }
}

/// Sums texels by their weights, which make up `whole`. The sum is rounded once.
fn mix(texels: impl IntoIterator<Item = (Texel, u64)>, whole: f64) -> Texel {
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

/// The light of a value on the sRGB curve (IEC 61966-2-1).
fn from_srgb(value: f32) -> f32 {
    if value <= 0.04045 {
        value / 12.92
    } else {
        ((value + 0.055) / 1.055).powf(2.4)
    }
}
