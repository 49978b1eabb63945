//! Arrays, textures and surfaces: memory that kernels access by coordinates.
//!
//! Compiled code calls [`Texture::fetch`] and [`Surface::access`] through a helper. They
//! follow the appendix "Texture Fetching" of the CUDA programming guide and the texture
//! and surface instructions of the PTX ISA.

mod cube;
mod fetch;
mod mode;
mod objects;
mod sampler;
mod surface;
mod texels;

pub(crate) use fetch::{Coordinates, FetchOperands, MipLevel, Texture};
pub(crate) use mode::{BoundaryMode, Geometry, Lod, Mode, Operation, Query, Reduction};
pub(crate) use objects::{Object, bind, object, remove};
pub(crate) use sampler::{KNOWN_FLAGS, NORMALIZED, READ_AS_INTEGER, Sampler};
pub(crate) use surface::{Surface, SurfaceError};
pub(crate) use texels::{CUBEMAP, GATHER, LAYERED, SURFACE, Texels, level};

/// The largest texture in linear memory, in texels.
pub(crate) const MAX_LINEAR_TEXELS: u32 = 1 << 28;
/// The largest pitch of a texture in pitched memory, in bytes.
pub(crate) const MAX_PITCH: usize = 1 << 21;
