//! How the texels of an array are arranged, and what it is for.

use crate::driver::error::Error;
use crate::driver::pod::texel::Texel;
use api::ArrayFormat;
use api::{Api, Array3dDesc, CUarray};

/// How the texels of an array are arranged. All numbers count texels, layers or
/// cubes, and are at least 1.
#[allow(missing_docs, reason = "the numbers say what they are")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ArrayShape {
    /// One row.
    D1 { width: usize },
    /// Rows.
    D2 { width: usize, height: usize },
    /// Planes of rows.
    D3 {
        width: usize,
        height: usize,
        depth: usize,
    },
    /// Rows that are no neighbours of each other.
    D1Layered { width: usize, layers: usize },
    /// Planes that are no neighbours of each other.
    D2Layered {
        width: usize,
        height: usize,
        layers: usize,
    },
    /// The six faces of a cube, in the order +x, -x, +y, -y, +z, -z.
    Cubemap { side: usize },
    /// Cubes, six faces each.
    CubemapLayered { side: usize, cubes: usize },
}

/// `CUDA_ARRAY3D_LAYERED`, `_SURFACE_LDST`, `_CUBEMAP`, `_TEXTURE_GATHER`
pub(crate) const LAYERED: u32 = 0x01;
const SURFACE: u32 = 0x02;
const CUBEMAP: u32 = 0x04;
const GATHER: u32 = 0x08;

impl ArrayShape {
    /// Texels in a row, rows of a plane, and planes: depth, layers or faces.
    pub fn extent(self) -> [usize; 3] {
        match self {
            ArrayShape::D1 { width } => [width, 1, 1],
            ArrayShape::D2 { width, height } => [width, height, 1],
            ArrayShape::D3 {
                width,
                height,
                depth,
            } => [width, height, depth],
            ArrayShape::D1Layered { width, layers } => [width, 1, layers],
            ArrayShape::D2Layered {
                width,
                height,
                layers,
            } => [width, height, layers],
            ArrayShape::Cubemap { side } => [side, side, 6],
            ArrayShape::CubemapLayered { side, cubes } => [side, side, cubes.saturating_mul(6)],
        }
    }

    /// How many texels there are.
    pub fn texels(self) -> usize {
        self.extent().into_iter().fold(1, usize::saturating_mul)
    }

    /// The shape of a level of a mipmapped array of this shape: half as large
    /// with each level, rounded down, and 1 at least. Layers and faces stay.
    pub fn level(self, level: u32) -> ArrayShape {
        let half = |n: usize| n.checked_shr(level).unwrap_or(0).max(1);
        match self {
            ArrayShape::D1 { width } => ArrayShape::D1 { width: half(width) },
            ArrayShape::D2 { width, height } => ArrayShape::D2 {
                width: half(width),
                height: half(height),
            },
            ArrayShape::D3 {
                width,
                height,
                depth,
            } => ArrayShape::D3 {
                width: half(width),
                height: half(height),
                depth: half(depth),
            },
            ArrayShape::D1Layered { width, layers } => ArrayShape::D1Layered {
                width: half(width),
                layers,
            },
            ArrayShape::D2Layered {
                width,
                height,
                layers,
            } => ArrayShape::D2Layered {
                width: half(width),
                height: half(height),
                layers,
            },
            ArrayShape::Cubemap { side } => ArrayShape::Cubemap { side: half(side) },
            ArrayShape::CubemapLayered { side, cubes } => ArrayShape::CubemapLayered {
                side: half(side),
                cubes,
            },
        }
    }

    /// The most levels that a mipmapped array of this shape has: the last is one
    /// texel large.
    pub fn most_levels(self) -> u32 {
        let [width, height, planes] = self.extent();
        let depth = match self {
            ArrayShape::D3 { .. } => planes,
            _ => 1,
        };
        width.max(height).max(depth).max(1).ilog2() + 1
    }

    /// The C API's width, height, depth and flags: a number that the shape does
    /// not have is 0. So a shape with a 0 of its own would pass for another one:
    /// it has no width instead, which every driver refuses.
    pub(crate) fn raw(self) -> ([usize; 3], u32) {
        let extent = self.extent();
        let [width, height, planes] = match extent.contains(&0) {
            true => [0, extent[1], extent[2]],
            false => extent,
        };
        match self {
            ArrayShape::D1 { .. } => ([width, 0, 0], 0),
            ArrayShape::D2 { .. } => ([width, height, 0], 0),
            ArrayShape::D3 { .. } => ([width, height, planes], 0),
            ArrayShape::D1Layered { .. } => ([width, 0, planes], LAYERED),
            ArrayShape::D2Layered { .. } => ([width, height, planes], LAYERED),
            ArrayShape::Cubemap { .. } => ([width, height, planes], CUBEMAP),
            ArrayShape::CubemapLayered { .. } => ([width, height, planes], CUBEMAP | LAYERED),
        }
    }

    fn from_raw(desc: &Array3dDesc) -> ArrayShape {
        let (width, height, depth) = (desc.width, desc.height, desc.depth);
        match (desc.flags & (LAYERED | CUBEMAP), height, depth) {
            (0, 0, _) => ArrayShape::D1 { width },
            (0, _, 0) => ArrayShape::D2 { width, height },
            (0, ..) => ArrayShape::D3 {
                width,
                height,
                depth,
            },
            (LAYERED, 0, layers) => ArrayShape::D1Layered { width, layers },
            (LAYERED, _, layers) => ArrayShape::D2Layered {
                width,
                height,
                layers,
            },
            (CUBEMAP, ..) => ArrayShape::Cubemap { side: width },
            _ => ArrayShape::CubemapLayered {
                side: width,
                cubes: depth / 6,
            },
        }
    }
}

/// What an array is to be used for beside textures (`CUDA_ARRAY3D_*`).
///
/// ```
/// use ptxkit::driver::ArrayFlags;
/// let flags = ArrayFlags::default().surface();
/// assert!(flags.has_surface() && !flags.has_gather());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ArrayFlags(pub u32);

impl ArrayFlags {
    /// For [surfaces](crate::driver::Surface), which kernels write
    /// (`CUDA_ARRAY3D_SURFACE_LDST`).
    pub const fn surface(self) -> ArrayFlags {
        ArrayFlags(self.0 | SURFACE)
    }

    /// For `tld4`, which fetches four neighbours at once; of 2D arrays
    /// (`CUDA_ARRAY3D_TEXTURE_GATHER`).
    pub const fn gather(self) -> ArrayFlags {
        ArrayFlags(self.0 | GATHER)
    }

    /// Whether it can be a surface.
    pub const fn has_surface(self) -> bool {
        self.0 & SURFACE != 0
    }

    /// Whether `tld4` may fetch from it.
    pub const fn has_gather(self) -> bool {
        self.0 & GATHER != 0
    }
}

/// What a driver says of an array (`cuArray3DGetDescriptor_v2`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArrayDescriptor {
    /// How its texels are arranged.
    pub shape: ArrayShape,
    /// The type of a channel; `None` for one that this crate has no name for.
    pub format: Option<ArrayFormat>,
    /// Channels of a texel.
    pub channels: u32,
    /// What it is for.
    pub flags: ArrayFlags,
}

impl ArrayDescriptor {
    /// Asks the driver.
    ///
    /// # Safety
    /// The array is live, and of the context that is current.
    pub(crate) unsafe fn of(api: &Api, array: CUarray) -> Result<ArrayDescriptor, Error> {
        let mut desc = Array3dDesc::default();
        // SAFETY: the caller's; writes one structure.
        unsafe { api.cuArray3DGetDescriptor_v2(&mut desc, array) }?;
        Ok(ArrayDescriptor {
            shape: ArrayShape::from_raw(&desc),
            format: ArrayFormat::from_raw(desc.format),
            channels: desc.channels,
            flags: ArrayFlags(desc.flags & !(LAYERED | CUBEMAP)),
        })
    }
}

/// The C API's description of an array of `T`.
pub(crate) fn raw_descriptor<T: Texel>(shape: ArrayShape, flags: ArrayFlags) -> Array3dDesc {
    let ([width, height, depth], own) = shape.raw();
    Array3dDesc {
        width,
        height,
        depth,
        format: T::FORMAT as u32,
        channels: T::CHANNELS,
        flags: own | flags.0,
    }
}
