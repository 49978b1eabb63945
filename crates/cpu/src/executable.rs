//! Executable memory for the code of modules.

use std::sync::Arc;

use memmap2::{Mmap, MmapMut};
use wasmtime_internal_jit_icache_coherence as icache;

use crate::abi::KernelFn;
use crate::blob::KernelImage;

/// The system did not map executable memory.
#[derive(Debug, thiserror::Error)]
#[error("cannot map {bytes} bytes of code as executable ({source})")]
pub struct MapError {
    /// Bytes of code.
    bytes: usize,
    /// The system's error.
    source: std::io::Error,
}

/// Machine code in executable memory, and the descriptions of its kernels.
#[derive(Debug)]
pub(crate) struct ExecutableCode {
    map: Option<Mmap>,
    kernels: Vec<KernelImage>,
}

impl ExecutableCode {
    /// Maps the code of an image that has been read or just compiled.
    pub(crate) fn new(code: &[u8], kernels: Vec<KernelImage>) -> Result<ExecutableCode, MapError> {
        Ok(ExecutableCode {
            map: executable(code)?,
            kernels,
        })
    }

    /// The kernel function at an offset of the code.
    fn function(&self, offset: u32) -> Option<KernelFn> {
        let map = self
            .map
            .as_ref()
            .filter(|map| (offset as usize) < map.len())?;
        // SAFETY: this crate's compiler made the code; for an image that was stored, that is the
        // contract of `Image::read`. The compiler puts a function of this type at each offset
        // that a kernel names.
        Some(unsafe {
            std::mem::transmute::<*const u8, KernelFn>(map.as_ptr().add(offset as usize))
        })
    }
}

/// A kernel in executable code.
#[derive(Clone, Debug)]
pub(crate) struct ExecutableKernel {
    code: Arc<ExecutableCode>,
    /// Of one of its kernels.
    index: usize,
}

impl ExecutableKernel {
    /// The kernels of some code, in the order of the PTX.
    pub(crate) fn all(code: &Arc<ExecutableCode>) -> impl Iterator<Item = ExecutableKernel> {
        (0..code.kernels.len()).map(|index| ExecutableKernel {
            code: Arc::clone(code),
            index,
        })
    }

    pub(crate) fn image(&self) -> &KernelImage {
        &self.code.kernels[self.index]
    }

    /// The function that runs one thread at a time.
    pub(crate) fn scalar(&self) -> Option<KernelFn> {
        self.code.function(self.image().scalar)
    }

    /// The vector function and its width, if there is one.
    pub(crate) fn vector(&self) -> Option<(KernelFn, u32)> {
        let vector = self.image().vector?;
        Some((self.code.function(vector.offset)?, vector.width))
    }
}

fn executable(code: &[u8]) -> Result<Option<Mmap>, MapError> {
    if code.is_empty() {
        return Ok(None);
    }
    let failed = |source| MapError {
        bytes: code.len(),
        source,
    };
    let mut map = MmapMut::map_anon(code.len()).map_err(failed)?;
    map.copy_from_slice(code);
    let map = map.make_exec().map_err(failed)?;
    // SAFETY: the range is the mapping above. On processors with separate caches for code
    // and data, the instruction cache may hold the previous contents.
    unsafe { icache::clear_cache(map.as_ptr().cast(), map.len()) }
        .and_then(|()| icache::pipeline_flush_mt())
        .map_err(|error| failed(std::io::Error::other(error)))?;
    Ok(Some(map))
}
