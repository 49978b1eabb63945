//! The memory of arrays: rows of texels in planes.

use std::sync::Arc;

use crate::memory::{DeviceMemory, MemoryError, Purpose};
use api::Array3dDesc;
use api::ArrayFormat;

/// `CUDA_ARRAY3D_LAYERED`, `_SURFACE_LDST`, `_CUBEMAP`, `_TEXTURE_GATHER`
pub(crate) const LAYERED: u32 = 0x01;
pub(crate) const SURFACE: u32 = 0x02;
pub(crate) const CUBEMAP: u32 = 0x04;
pub(crate) const GATHER: u32 = 0x08;

/// The memory of an array. It is freed with the last clone.
#[derive(Clone)]
pub(crate) struct Texels {
    pub format: ArrayFormat,
    /// The descriptor of the caller: extents that the array does not have are 0.
    pub described: Array3dDesc,
    pub address: u64,
    _memory: Arc<ArrayMemory>,
}

struct ArrayMemory {
    memory: Arc<DeviceMemory>,
    address: u64,
}

impl Drop for ArrayMemory {
    fn drop(&mut self) {
        // Nothing else frees this allocation, so that this cannot fail.
        let _ = self.memory.free(self.address);
    }
}

impl Texels {
    /// Allocates an array. The descriptor must be valid.
    pub fn new(
        memory: &Arc<DeviceMemory>,
        format: ArrayFormat,
        described: Array3dDesc,
    ) -> Result<Texels, MemoryError> {
        let [width, rows, planes] = extent(&described);
        let row = width.saturating_mul(texel_bytes(format, described.channels));
        let bytes = padded(row).saturating_mul(rows).saturating_mul(planes);
        let address = memory.allocate(bytes as u64, 256, Purpose::Array)?;
        Ok(Texels {
            format,
            described,
            address,
            _memory: Arc::new(ArrayMemory {
                memory: memory.clone(),
                address,
            }),
        })
    }

    /// Texels of a row, rows of a plane, number of planes.
    pub fn extent(&self) -> [usize; 3] {
        extent(&self.described)
    }

    pub fn texel_bytes(&self) -> usize {
        texel_bytes(self.format, self.described.channels)
    }

    /// Bytes of a row's texels.
    pub fn row(&self) -> usize {
        self.described.width * self.texel_bytes()
    }

    /// Bytes from one row to the next.
    pub fn pitch(&self) -> usize {
        padded(self.row())
    }

    /// Bytes from one plane to the next.
    pub fn plane(&self) -> usize {
        self.pitch() * self.extent()[1]
    }
}

/// Rows are aligned to 16 bytes, the largest surface access.
fn padded(row: usize) -> usize {
    row.checked_next_multiple_of(16).unwrap_or(usize::MAX)
}

fn texel_bytes(format: ArrayFormat, channels: u32) -> usize {
    format.bytes() * channels as usize
}

pub(crate) fn extent(described: &Array3dDesc) -> [usize; 3] {
    let Array3dDesc {
        width,
        height,
        depth,
        ..
    } = *described;
    [width, height.max(1), depth.max(1)]
}

/// The descriptor of a mipmap level: extents are halved, layers are not.
pub(crate) fn level(described: Array3dDesc, level: u32) -> Array3dDesc {
    let half = |n: usize| match n {
        0 => 0,
        n => n.checked_shr(level).unwrap_or(0).max(1),
    };
    Array3dDesc {
        width: half(described.width),
        height: half(described.height),
        depth: match described.flags & (LAYERED | CUBEMAP) {
            0 => half(described.depth),
            _ => described.depth,
        },
        ..described
    }
}
