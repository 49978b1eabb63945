//! Why an image was not loaded.

use std::path::PathBuf;

use super::compile::Request;
use crate::driver::{self, Context, CudaError, DriverKind};
use image::{ImageError, NothingFits, PtxTooNew, newest_ptx};
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
    #[error(
        "{name} is a binary that nobody vouched for: `Source::image`, which is `unsafe`, loads binaries"
    )]
    Binary { name: String },
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
    #[error(
        "each slice that reads the constant `{variable}` has a copy, so it has no one address: write it by `constant`"
    )]
    Copied { variable: String },
    #[error(transparent)]
    Driver(#[from] driver::Error),
}

/// Names the versions where the driver refuses PTX as too new: its own error does
/// not.
pub(super) fn explain(context: &Context, request: &Request<'_>, error: LoadError) -> LoadError {
    let LoadError::Driver(error) = error else {
        return error;
    };
    let refused = matches!(
        error.code(),
        Some(CudaError::UNSUPPORTED_PTX_VERSION | CudaError::INVALID_PTX)
    );
    let driver = context.device().driver();
    let driver_version = driver.version().unsigned_abs();
    let newest = match driver.kind() {
        // The CPU device's CUDA version says nothing about the PTX that it reads.
        #[cfg(feature = "cpu")]
        DriverKind::Cpu => Some(cpu::NEWEST_PTX),
        _ => newest_ptx(driver_version),
    };
    match (request.ptx.version, newest) {
        (Some(found), Some(newest)) if refused && found > newest => LoadError::PtxTooNew {
            name: request.name.to_string(),
            found,
            newest,
            driver: driver.kind(),
            driver_version,
            source: error,
        },
        _ => error.into(),
    }
}
