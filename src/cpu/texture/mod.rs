//! Arrays, textures and surfaces: memory that kernels reach by coordinates.

mod texels;

pub(crate) use texels::{CUBEMAP, GATHER, LAYERED, SURFACE, Texels, level};

/// The most texels of a texture of linear memory.
pub(crate) const MOST_LINEAR: u32 = 1 << 28;
