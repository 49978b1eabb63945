//! Arrays, textures and surfaces: memory that kernels reach by coordinates.
//!
//! [`Texture::fetch`] and [`Surface::place`] are what compiled code comes to; the
//! rules are those of the CUDA guide's appendix "Texture Fetching" and of PTX's
//! texture and surface instructions.

mod cube;
mod fetch;
mod mode;
mod objects;
mod sampler;
mod surface;
mod texels;

pub(crate) use fetch::{At, Coordinates, Level, Texture};
pub(crate) use mode::{Beyond, Change, Geometry, Lod, Mode, Operation, Question};
pub(crate) use objects::{Object, bind, object, remove};
pub(crate) use sampler::{NORMALIZED, READ_AS_INTEGER, Sampler};
pub(crate) use surface::{Outside, Surface};
pub(crate) use texels::{CUBEMAP, GATHER, LAYERED, SURFACE, Texels, level};

/// The most texels of a texture of linear memory.
pub(crate) const MOST_LINEAR: u32 = 1 << 28;
