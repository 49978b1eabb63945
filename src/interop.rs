//! Beside cudarc: its contexts, streams and kernels here, and modules for it
//! that come through the compute cache.
//!
//! A cudarc application adopts cached loading in one line, in place of
//! `context.load_module(Ptx::from_file("kernels.ptx"))?`:
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let context = cudarc::driver::CudaContext::new(0)?;
//! let module = ptxkit::interop::load(&context, "kernels.ptx", &std::fs::read("kernels.ptx")?)?;
//! let kernel = module.load_function("vecadd")?;
//! # Ok(())
//! # }
//! ```
//!
//! Of a large module [`load_sliced`] compiles a kernel when it is first used, and not all
//! of them before:
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let context = cudarc::driver::CudaContext::new(0)?;
//! let module = ptxkit::interop::load_sliced(&context, "kernels.ptx", &std::fs::read("kernels.ptx")?)?;
//! let kernel = module.load_function("vecadd")?;
//! # Ok(())
//! # }
//! ```
//!
//! Both libraries call the one driver that is loaded in the process. The other
//! way round, what ptxkit has is lent to cudarc by [`to_context`] and
//! [`to_stream`].

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{CudaContext, CudaFunction, CudaModule, CudaStream, DriverError};
use cudarc::nvrtc::Ptx;

use crate::cache::Cache;
use crate::driver::{Context, Driver, DriverKind, Error, Kernel, Stream};
use crate::jit::JitOptions;
use crate::loader::{LoadError, Loader, SlicedCode, Source};

/// Why something could not be handed to cudarc.
#[allow(missing_docs, reason = "the messages say it all")]
#[derive(Debug)]
#[non_exhaustive]
pub enum InteropError {
    Load(LoadError),
    Driver(Error),
    Cudarc(DriverError),
    NotPrimary,
    OtherDriver,
}

impl fmt::Display for InteropError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InteropError::Load(error) => error.fmt(f),
            InteropError::Driver(error) => error.fmt(f),
            InteropError::Cudarc(error) => write!(f, "cudarc failed: {error:?}"),
            InteropError::NotPrimary => f.write_str(
                "cudarc shares primary contexts only: make this one with `Context::primary`",
            ),
            InteropError::OtherDriver => {
                f.write_str("cudarc works with NVIDIA's driver, and the context is another's")
            }
        }
    }
}

impl std::error::Error for InteropError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            InteropError::Load(error) => error.source(),
            InteropError::Driver(error) => error.source(),
            _ => None,
        }
    }
}

impl From<LoadError> for InteropError {
    fn from(error: LoadError) -> InteropError {
        InteropError::Load(error)
    }
}

impl From<Error> for InteropError {
    fn from(error: Error) -> InteropError {
        InteropError::Driver(error)
    }
}

/// cudarc's context as ptxkit's; it is kept as long as anything made in it.
pub fn context(context: &Arc<CudaContext>) -> Result<Context, Error> {
    let devices = Driver::nvidia()?.devices()?;
    let device = devices
        .into_iter()
        .find(|device| device.raw() == context.cu_device())
        .ok_or(Error::NoSuchDevice {
            driver: DriverKind::Nvidia,
            asked: context.ordinal() as u32,
            count: 0,
        })?;
    // SAFETY: the context lives as long as its `Arc`, which is handed over.
    unsafe { Context::from_shared(&device, context.cu_ctx(), context.clone()) }
}

/// cudarc's stream as ptxkit's; it is kept as long as the value returned.
///
/// # Safety
/// cudarc must not capture the stream while it is used here: the graph would not
/// keep what is used.
pub unsafe fn stream(stream: &Arc<CudaStream>) -> Result<Stream, Error> {
    let context = context(stream.context())?;
    // SAFETY: the stream lives as long as its `Arc`, which is handed over; the caller
    // answers for captures.
    Ok(unsafe { Stream::from_shared(&context, stream.cu_stream(), stream.clone()) })
}

/// cudarc's kernel as ptxkit's, whose arguments are checked; its module is
/// kept as long as the value returned. The other kernels of the module are at
/// [`Kernel::module`]. `context` is the one in which cudarc loaded it: NVIDIA's
/// driver refuses the kernel in another.
pub fn kernel(context: &Context, function: &CudaFunction) -> Result<Kernel, Error> {
    if is_other_driver(context) {
        return Err(Error::DifferentContexts {
            what: "cudarc's kernel, which is of NVIDIA's driver, and the context",
        });
    }
    // SAFETY: the function keeps its module loaded, and is handed over; the driver is its own.
    unsafe { Kernel::from_shared(context, function.cu_function(), Arc::new(function.clone())) }
}

/// A handle of NVIDIA's driver is nothing to the CPU device.
fn is_other_driver(context: &Context) -> bool {
    context.device().driver().kind() != DriverKind::Nvidia
}

/// Loads PTX for cudarc, through the compute cache that the environment names:
/// compiled once for this device and driver, and taken from the cache by every
/// later process. `name` stands for the PTX in messages. [`load_with`] takes
/// binaries too.
pub fn load(
    context: &Arc<CudaContext>,
    name: &str,
    image: &[u8],
) -> Result<Arc<CudaModule>, InteropError> {
    let loader = Loader::new(self::context(context)?, Cache::from_environment());
    load_with(
        context,
        &loader,
        &Source::new(name, image),
        &JitOptions::default(),
    )
}

/// The same through a loader of the caller's, made in cudarc's [`context`()].
pub fn load_with(
    context: &Arc<CudaContext>,
    loader: &Loader,
    source: &Source<'_>,
    options: &JitOptions,
) -> Result<Arc<CudaModule>, InteropError> {
    let code = loader.code(source, options)?;
    let module = context.load_module(Ptx::from_binary(code));
    module.map_err(InteropError::Cudarc)
}

/// Loads PTX for cudarc by slices, as [`Loader::load_sliced`] does, through the compute
/// cache that the environment names.
pub fn load_sliced(
    context: &Arc<CudaContext>,
    name: &str,
    image: &[u8],
) -> Result<SlicedCudaModule, InteropError> {
    let loader = Loader::new(self::context(context)?, Cache::from_environment());
    let code = loader.code_sliced(&Source::new(name, image), &JitOptions::default())?;
    Ok(SlicedCudaModule {
        context: Arc::clone(context),
        code,
        loaded: Mutex::default(),
    })
}

/// A module for cudarc whose kernels are compiled and loaded when they are first used.
#[derive(Debug)]
pub struct SlicedCudaModule {
    context: Arc<CudaContext>,
    code: SlicedCode,
    loaded: Mutex<BTreeMap<usize, Arc<CudaModule>>>,
}

impl SlicedCudaModule {
    /// A kernel, as [`CudaModule::load_function`].
    pub fn load_function(&self, name: &str) -> Result<CudaFunction, InteropError> {
        let module = self.module(name)?;
        module.load_function(name).map_err(InteropError::Cudarc)
    }

    /// The slice that has a kernel: the variables that the kernel shares with others are
    /// there. A constant has a copy in each slice whose kernels read it.
    pub fn module(&self, kernel: &str) -> Result<Arc<CudaModule>, InteropError> {
        let slice = self.code.slice_of(kernel)?;
        let loaded = || self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = loaded().get(&slice) {
            return Ok(Arc::clone(module));
        }
        let code = self.code.code(slice)?;
        // Of two threads that load one slice the first wins: its variables are one.
        match loaded().entry(slice) {
            Entry::Occupied(entry) => Ok(Arc::clone(entry.get())),
            Entry::Vacant(entry) => {
                let module = self.context.load_module(Ptx::from_binary(code));
                Ok(Arc::clone(
                    entry.insert(module.map_err(InteropError::Cudarc)?),
                ))
            }
        }
    }
}

/// ptxkit's context as cudarc's: both use the primary context, each counted by
/// the driver.
pub fn to_context(context: &Context) -> Result<Arc<CudaContext>, InteropError> {
    if is_other_driver(context) {
        return Err(InteropError::OtherDriver);
    }
    if !context.is_primary() {
        return Err(InteropError::NotPrimary);
    }
    let ordinal = context.device().ordinal() as usize;
    CudaContext::new(ordinal).map_err(InteropError::Cudarc)
}

/// ptxkit's stream as cudarc's, which does not destroy it.
///
/// # Safety
/// `stream` must live as long as the value returned and its clones, and be of
/// `context`.
pub unsafe fn to_stream(context: &Arc<CudaContext>, stream: &Stream) -> Arc<CudaStream> {
    // SAFETY: the caller answers for the stream's life.
    unsafe { context.wrap_borrowed_stream(stream.raw()) }
}
