//! Chooses the compiler of PTX.

use std::time::Instant;

use super::{Compiled, JitOptions, warnings_of};
use crate::driver::log::read_log;
use crate::driver::nvptxcompiler::{
    COMPILATION_FAILURE, NvPtxCompiler, NvPtxCompilerError, OUT_OF_MEMORY, UNSUPPORTED_PTX_VERSION,
};
use crate::driver::{Context, CudaError, Driver, DriverKind, Error, JitError};
use image::newest_ptx;
use ptx::ast::Version;

/// The first major version of CUDA whose library compiles with several threads.
const SPLIT_COMPILE_MAJOR: u32 = 13;

/// A compiler of PTX for a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PtxCompiler {
    /// The driver's (`cuLinkCreate`).
    Driver,
    /// [`NvPtxCompiler`]. Its code does not depend on the driver's version.
    NvPtxCompiler,
}

impl JitOptions {
    /// Returns the compiler of PTX of a version: the one asked for; otherwise the driver's, or nvptxcompiler
    /// if only that one reads the version.
    ///
    /// # Errors
    /// [`Error::NvPtxCompiler`] if it is asked for and cannot be used.
    pub(crate) fn compiler_for(
        &self,
        driver: Driver,
        version: Option<Version>,
    ) -> Result<PtxCompiler, Error> {
        if driver.kind() == DriverKind::Cpu {
            return Ok(PtxCompiler::Driver);
        }
        match self.compiler {
            Some(PtxCompiler::NvPtxCompiler) => {
                NvPtxCompiler::open().map_err(Error::NvPtxCompiler)?;
                self.not_in_nvptxcompiler().map_or(Ok(()), Err)?;
                Ok(PtxCompiler::NvPtxCompiler)
            }
            Some(PtxCompiler::Driver) => Ok(PtxCompiler::Driver),
            None => {
                let newest = newest_ptx(driver.version().unsigned_abs());
                let is_newer = version
                    .zip(newest)
                    .is_some_and(|(one, newest)| one > newest);
                // A driver loads code of its own major version of CUDA, and of earlier ones.
                let reads = |library: &NvPtxCompiler| {
                    let (major, _) = library.version();
                    library.newest_ptx() >= version
                        && major <= driver.version().unsigned_abs() / 1000
                };
                let is_chosen = is_newer
                    && self.not_in_nvptxcompiler().is_none()
                    && NvPtxCompiler::open().is_ok_and(reads);
                Ok(if is_chosen {
                    PtxCompiler::NvPtxCompiler
                } else {
                    PtxCompiler::Driver
                })
            }
        }
    }

    /// An option that nvptxcompiler does not have.
    fn not_in_nvptxcompiler(&self) -> Option<Error> {
        let name = match self {
            JitOptions {
                threads_per_block: Some(_),
                ..
            } => "threads_per_block",
            JitOptions {
                position_independent: true,
                ..
            } => "position_independent",
            _ => return None,
        };
        Some(Error::NvPtxCompiler(NvPtxCompilerError::Option { name }))
    }
}

/// Compiles PTX with nvptxcompiler for the device of a context.
pub(super) fn compile_with_library(
    context: &Context,
    ptx: &str,
    options: &JitOptions,
) -> Result<Compiled, Error> {
    let library = NvPtxCompiler::open().map_err(Error::NvPtxCompiler)?;
    let own = context.device().architecture()?;
    let Some(target) = options.target.or(own) else {
        return Err(Error::NvPtxCompiler(NvPtxCompilerError::Off));
    };
    let started = Instant::now();
    // Earlier libraries may not know the option.
    let (major, _) = library.version();
    let options = JitOptions {
        threads: if major < SPLIT_COMPILE_MAJOR {
            Some(1)
        } else {
            options.threads
        },
        ..*options
    };
    let made = library.compile(ptx, &options.arguments(target, ptx.len()));
    let (binary, info_log) = made.map_err(of_library)?;
    let wall_time_ms = started.elapsed().as_secs_f32() * 1e3;
    tracing::debug!(
        bytes = binary.len(),
        wall_time_ms,
        log = info_log,
        compiler = library.identity(),
        "compiled PTX"
    );
    Ok(Compiled {
        binary,
        warnings: warnings_of(&info_log),
        info_log,
        wall_time_ms: Some(wall_time_ms),
    })
}

/// PTX that does not compile is the same error from each compiler.
fn of_library(error: NvPtxCompilerError) -> Error {
    match error {
        NvPtxCompilerError::Failed { code, log } => Error::Jit(JitError {
            entry: "nvPTXCompilerCompile",
            code: match code {
                COMPILATION_FAILURE => CudaError::INVALID_PTX,
                UNSUPPORTED_PTX_VERSION => CudaError::UNSUPPORTED_PTX_VERSION,
                OUT_OF_MEMORY => CudaError::OUT_OF_MEMORY,
                // CUDA_ERROR_UNKNOWN
                _ => CudaError(999),
            },
            diagnostics: read_log(&log),
            log,
        }),
        error => Error::NvPtxCompiler(error),
    }
}
