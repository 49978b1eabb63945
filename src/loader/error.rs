//! Why an image was not loaded.

use std::path::PathBuf;

use crate::driver::{self, Context, CudaError, DriverKind};
use image::{Image, ImageError, NothingFits, PtxTooNew};
use ptx::ast::Version;

/// Why an image was not loaded.
#[allow(missing_docs, reason = "the messages say it all")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{name} cannot be loaded: {source}")]
    Image { name: String, source: ImageError },
    #[error("{name}: {source}")]
    NothingFits { name: String, source: NothingFits },
    #[error("{name} was compiled for the CPU device and does not run on a GPU: give its PTX")]
    ForTheCpu { name: String },
    #[error(
        "{name} holds no PTX, and the CPU device runs no binaries for GPUs: give PTX, or run it on a GPU"
    )]
    NoPtx { name: String },
    #[error(
        "{name} is PTX, and CUDA_DISABLE_PTX_JIT forbids compiling it: unset it, or give a binary"
    )]
    JitDisabled { name: String },
    #[error(
        "{name} has PTX version {found}, the {driver} (CUDA {}.{}) reads up to {newest}",
        driver_version / 1000, driver_version % 1000 / 10
    )]
    PtxTooNew {
        name: String,
        found: Version,
        newest: Version,
        driver: DriverKind,
        /// As `cuDriverGetVersion` gives it: 13000 for 13.0.
        driver_version: u32,
        source: driver::Error,
    },
    #[error("{name} cannot be compiled: {source}")]
    PtxUsesNewer { name: String, source: PtxTooNew },
    #[error(transparent)]
    Driver(#[from] driver::Error),
}

/// The driver's "unsupported PTX version" names neither of the versions.
pub(super) fn explain(
    context: &Context,
    name: &str,
    image: &Image<'_>,
    error: driver::Error,
) -> LoadError {
    let driver = context.device().driver();
    let driver_version = driver.version().unsigned_abs();
    let refused = matches!(
        error.code(),
        Some(CudaError::UNSUPPORTED_PTX_VERSION | CudaError::INVALID_PTX)
    );
    let too_new = match image {
        // The CPU device's CUDA version says nothing of the PTX that it reads.
        #[cfg(feature = "cpu")]
        Image::Ptx(ptx) if refused && driver.kind() == DriverKind::Cpu => ptx
            .version
            .filter(|found| *found > cpu::NEWEST_PTX)
            .map(|found| (found, cpu::NEWEST_PTX)),
        Image::Ptx(ptx) if refused => ptx.version.zip(ptx.too_new_for(driver_version)),
        _ => None,
    };
    match too_new {
        Some((found, newest)) => LoadError::PtxTooNew {
            name: name.to_owned(),
            found,
            newest,
            driver: driver.kind(),
            driver_version,
            source: error,
        },
        None => error.into(),
    }
}
