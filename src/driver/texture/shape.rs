//! Shapes and flags of arrays.

use crate::driver::error::Error;
use crate::driver::pod::texel::Texel;
use api::ArrayFormat;
use api::{Api, Array3dDesc, CUarray};

/// The shape of an array. All numbers count texels, layers or cubes, and are at least 1.
#[allow(missing_docs, reason = "the numbers say what they are")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ArrayShape {
    /// 1D.
    D1 { width: usize },
    /// 2D.
    D2 { width: usize, height: usize },
    /// 3D.
    D3 {
        width: usize,
        height: usize,
        depth: usize,
    },
    /// 1D layered: layers are not filtered into each other.
    D1Layered { width: usize, layers: usize },
    /// 2D layered.
    D2Layered {
        width: usize,
        height: usize,
        layers: usize,
    },
    /// A cubemap; faces in the order +x, -x, +y, -y, +z, -z.
    Cubemap { side: usize },
    /// A layered cubemap, six faces per layer.
    CubemapLayered { side: usize, cubes: usize },
}

/// `CUDA_ARRAY3D_LAYERED`, `_SURFACE_LDST`, `_CUBEMAP`, `_TEXTURE_GATHER`
pub(crate) const LAYERED: u32 = 0x01;
const SURFACE: u32 = 0x02;
const CUBEMAP: u32 = 0x04;
const GATHER: u32 = 0x08;
/// `CUDA_ARRAY3D_SPARSE`, `_DEFERRED_MAPPING`
const SPARSE: u32 = 0x40;
const DEFERRED_MAPPING: u32 = 0x80;

impl ArrayShape {
    /// Width, height, and depth, layers or faces.
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

    /// The number of texels.
    pub fn texels(self) -> usize {
        self.extent().into_iter().fold(1, usize::saturating_mul)
    }

    /// The shape of a level of a mipmapped array of this shape: halved with each level,
    /// rounded down, and at least 1. Layers and faces stay.
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

    /// The maximum number of levels of a mipmapped array of this shape: the last has one
    /// texel.
    pub fn most_levels(self) -> u32 {
        let [width, height, planes] = self.extent();
        let depth = match self {
            ArrayShape::D3 { .. } => planes,
            _ => 1,
        };
        width.max(height).max(depth).max(1).ilog2() + 1
    }

    /// The C API's width, height, depth and flags. There an absent dimension is 0, so a
    /// shape that contains a 0 would pass for one of fewer dimensions: it gets width 0,
    /// which every driver refuses.
    pub(crate) fn raw(self) -> ([usize; 3], u32) {
        let extent = self.extent();
        let [width, height, planes] = if extent.contains(&0) {
            [0, extent[1], extent[2]]
        } else {
            extent
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

/// Uses of an array besides textures (`CUDA_ARRAY3D_*`).
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

    /// For `tld4`, which gathers four neighbours of a 2D array
    /// (`CUDA_ARRAY3D_TEXTURE_GATHER`).
    pub const fn gather(self) -> ArrayFlags {
        ArrayFlags(self.0 | GATHER)
    }

    /// Of tiles, to which memory is mapped one by one (`CUDA_ARRAY3D_SPARSE`, from CUDA 11.1).
    pub const fn sparse(self) -> ArrayFlags {
        ArrayFlags(self.0 | SPARSE)
    }

    /// Without memory at first (`CUDA_ARRAY3D_DEFERRED_MAPPING`, from CUDA 11.6).
    pub const fn deferred_mapping(self) -> ArrayFlags {
        ArrayFlags(self.0 | DEFERRED_MAPPING)
    }

    /// Whether surfaces can use it.
    pub const fn has_surface(self) -> bool {
        self.0 & SURFACE != 0
    }

    /// Whether `tld4` can read it.
    pub const fn has_gather(self) -> bool {
        self.0 & GATHER != 0
    }
}

/// The descriptor of an array as the driver reports it (`cuArray3DGetDescriptor_v2`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArrayDescriptor {
    /// Its shape.
    pub shape: ArrayShape,
    /// The format of a channel; `None` for one without a name here.
    pub format: Option<ArrayFormat>,
    /// Channels of a texel.
    pub channels: u32,
    /// Its flags.
    pub flags: ArrayFlags,
}

impl ArrayDescriptor {
    /// Queries the driver.
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
