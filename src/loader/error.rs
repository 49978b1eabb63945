//! Why an image was not loaded.

use std::fmt;
use std::path::PathBuf;

use super::compile::Request;
use crate::driver::{self, Context, CudaError, DriverKind};
use image::{ImageError, NothingFits, PtxTooNew, first_driver_for, newest_ptx};
use input::ShowName as _;
use ptx::ast::Version;

/// Why an image was not loaded.
#[allow(missing_docs, reason = "the messages say it all")]
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    Image {
        name: String,
        source: ImageError,
    },
    NothingFits {
        name: String,
        source: NothingFits,
    },
    Binary {
        name: String,
    },
    ForTheCpu {
        name: String,
    },
    NoPtx {
        name: String,
    },
    JitDisabled {
        name: String,
    },
    CompileForbidden {
        name: String,
        target: String,
    },
    PtxTooNew {
        name: String,
        found: Version,
        newest: Version,
        driver: DriverKind,
        /// As `cuDriverGetVersion` gives it: 13000 for 13.0.
        driver_version: u32,
        source: driver::Error,
    },
    PtxUsesNewer {
        name: String,
        source: PtxTooNew,
    },
    Copied {
        variable: String,
    },
    Driver(driver::Error),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Read { path, source } => {
                write!(f, "{} cannot be read: {source}", path.shown())
            }
            LoadError::Image { name, source } => write!(f, "{name} cannot be loaded: {source}"),
            LoadError::NothingFits { name, source } => write!(f, "{name}: {source}"),
            LoadError::Binary { name } => write!(
                f,
                "{name} is a binary that nobody vouched for: `Source::image`, which is `unsafe`, \
                 loads binaries"
            ),
            LoadError::ForTheCpu { name } => write!(
                f,
                "{name} was compiled for the CPU device and does not run on a GPU: give its PTX"
            ),
            LoadError::NoPtx { name } => write!(
                f,
                "{name} holds no PTX, and the CPU device runs no binaries for GPUs: give PTX, or \
                 run it on a GPU"
            ),
            LoadError::JitDisabled { name } => write!(
                f,
                "{name} is PTX, and CUDA_DISABLE_PTX_JIT forbids compiling it: unset it, or give \
                 a binary"
            ),
            LoadError::CompileForbidden { name, target } => write!(
                f,
                "{name} is not in the cache for {target}, and PTXKIT_ON_COMPILE=error forbids compiling it: \
                 compile it before with `ptxkit cache warm`, or set PTXKIT_ON_COMPILE to warn or allow"
            ),
            LoadError::PtxTooNew {
                name,
                found,
                newest,
                driver,
                driver_version,
                ..
            } => {
                let (major, minor) = (driver_version / 1000, driver_version % 1000 / 10);
                write!(
                    f,
                    "{name} has PTX version {found}, the {driver} (CUDA {major}.{minor}) reads up \
                     to {newest}"
                )?;
                match first_driver_for(*found) {
                    Some(release) if *driver == DriverKind::Nvidia => {
                        write!(f, "; {release} reads it")
                    }
                    _ => Ok(()),
                }
            }
            LoadError::PtxUsesNewer { name, source } => write!(
                f,
                "{name} cannot be compiled: {source}. nvptxcompiler compiles it for this driver: see \
                 `ptxkit nvptxcompiler --help`"
            ),
            LoadError::Copied { variable } => write!(
                f,
                "each slice that reads `{variable}` has a copy, so it has no one address: write it by \
                 `constant`"
            ),
            LoadError::Driver(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LoadError::Read { source, .. } => Some(source),
            LoadError::Image { source, .. } => Some(source),
            LoadError::NothingFits { source, .. } => Some(source),
            LoadError::PtxTooNew { source, .. } => Some(source),
            LoadError::PtxUsesNewer { source, .. } => Some(source),
            LoadError::Driver(error) => error.source(),
            _ => None,
        }
    }
}

impl From<driver::Error> for LoadError {
    fn from(error: driver::Error) -> LoadError {
        LoadError::Driver(error)
    }
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
