//! Libraries: code that is loaded into a context when it is first used there. A library whose image
//! is invalid is made all the same; the first use of it fails.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::context::{self, Context};
use super::handle::{self, Handles};
use super::kernel_settings::KernelSettings;
use super::module::{self, CompiledFunction, ConfiguredKernel, Function, Module};
use super::status::{Result, Status};
use crate::blob::ParamLayout;
use crate::code::ModuleCode;
use api::CUdevice;

static LIBRARIES: Handles<Library> = Handles::new();
static KERNELS: Handles<Kernel> = Handles::new();

/// What is wrong with an image.
const OF_IMAGE: [Status; 5] = [
    Status::INVALID_IMAGE,
    Status::NO_BINARY_FOR_GPU,
    Status::INVALID_PTX,
    Status::UNSUPPORTED_PTX_VERSION,
    Status::NOT_SUPPORTED,
];

pub(crate) struct Library {
    handle: usize,
    code: Result<Arc<ModuleCode>>,
    /// Handles of the kernels, in the order of the PTX.
    pub(crate) kernels: Vec<usize>,
    /// The module in each context that uses it, by `Context::id`.
    modules: Mutex<BTreeMap<usize, usize>>,
}

pub(crate) struct Kernel {
    library: Weak<Library>,
    index: usize,
    pub(crate) name: CString,
    /// On each device for which a caller set or asked something.
    settings: Mutex<BTreeMap<CUdevice, Arc<KernelSettings>>>,
}

impl Library {
    pub(crate) fn handle(&self) -> usize {
        self.handle
    }

    /// # Errors
    /// Those of its image.
    pub(crate) fn code(&self) -> Result<&Arc<ModuleCode>> {
        self.code.as_ref().map_err(Clone::clone)
    }

    /// The library as a module of a context, and the module's handle.
    pub(crate) fn in_context(&self, context: &Arc<Context>) -> Result<(usize, Arc<Module>)> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let module = match modules.get(&context.id()) {
            Some(module) => *module,
            None => {
                let device = context.device();
                let kernels = self
                    .kernels
                    .iter()
                    .filter_map(|kernel| KERNELS.get(*kernel));
                let settings: Vec<_> = kernels.map(|kernel| kernel.settings(device)).collect();
                let module = module::load(context, self.code()?, &[], Some(&settings))?;
                modules.insert(context.id(), module);
                module
            }
        };
        let loaded = module::get(module).ok_or(Status::INVALID_HANDLE)?;
        Ok((module, loaded))
    }
}

impl Kernel {
    pub(crate) fn library(&self) -> Result<Arc<Library>> {
        Ok(self.library.upgrade().ok_or(Status::INVALID_HANDLE)?)
    }

    fn settings(&self, device: CUdevice) -> Arc<KernelSettings> {
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let of_device = settings.entry(device);
        Arc::clone(of_device.or_insert_with(|| KernelSettings::new(None)))
    }

    /// The kernel, compiled, with what callers set of it on a device.
    pub(crate) fn configured(&self, device: CUdevice) -> Result<ConfiguredKernel> {
        ConfiguredKernel::new(self.library()?.code()?, self.index, &self.settings(device))
    }

    /// The handle of its function in the current context.
    pub(crate) fn function(&self) -> Result<usize> {
        self.function_in(&context::working()?)
    }

    /// The same in another context.
    fn function_in(&self, context: &Arc<Context>) -> Result<usize> {
        let (_, module) = self.library()?.in_context(context)?;
        let function = module.functions.get(self.index).copied();
        Ok(function.ok_or(Status::INVALID_HANDLE)?)
    }

    pub(crate) fn param(&self, index: usize) -> Result<ParamLayout> {
        let library = self.library()?;
        let params = &module::compiled(library.code()?, self.index)?
            .image()
            .params;
        let count = params.len();
        params.get(index).copied().ok_or_else(|| {
            let detail = format!("parameter {index} of a kernel that has {count}");
            Status::INVALID_VALUE.because(detail)
        })
    }
}

pub(crate) fn find(library: usize) -> Result<Arc<Library>> {
    LIBRARIES
        .get(library)
        .ok_or_else(|| Status::INVALID_HANDLE.because("no loaded library has this handle"))
}

pub(crate) fn kernel(kernel: usize) -> Result<Arc<Kernel>> {
    KERNELS
        .get(kernel)
        .ok_or_else(|| Status::INVALID_HANDLE.because("no library's kernel has this handle"))
}

/// The function of a handle. A library's kernel stands for its function in the current
/// context, as launches take either.
pub(crate) fn function(handle: usize) -> Result<Arc<Function>> {
    if let Some(function) = module::function(handle) {
        return Ok(function);
    }
    let function = match KERNELS.get(handle) {
        Some(kernel) => module::function(kernel.function()?),
        None => None,
    };
    function.ok_or_else(|| Status::INVALID_HANDLE.because("no loaded kernel has this handle"))
}

/// The same, with its kernel compiled.
pub(crate) fn compiled(handle: usize) -> Result<CompiledFunction> {
    function(handle)?.compiled()
}

/// The compiled function of a library's kernel in a context.
pub(crate) fn compiled_in(handle: usize, context: &Arc<Context>) -> Result<CompiledFunction> {
    let function = module::function(kernel(handle)?.function_in(context)?);
    function.ok_or(Status::INVALID_HANDLE)?.compiled()
}

/// Makes a library of an image that was read; returns its handle.
///
/// # Errors
/// Fails if the image cannot be read. An invalid image is kept: the first use of the library fails.
pub(crate) fn create(code: Result<Arc<ModuleCode>>) -> Result<usize> {
    let names = match &code {
        Ok(code) => module::c_names(code)?,
        Err(failure) if OF_IMAGE.contains(&failure.status) => Vec::new(),
        Err(failure) => return Err(failure.clone()),
    };
    let number = handle::reserve();
    let made = Arc::new_cyclic(|library| {
        let kernel = |(index, name)| {
            let library = Weak::clone(library);
            KERNELS.insert(Arc::new(Kernel {
                library,
                index,
                name,
                settings: Mutex::default(),
            }))
        };
        Library {
            handle: number,
            code,
            kernels: names.into_iter().enumerate().map(kernel).collect(),
            modules: Mutex::default(),
        }
    });
    LIBRARIES.insert_at(number, made);
    Ok(number)
}

/// Unloads a library from all contexts.
pub(crate) fn unload(library: usize) -> Result {
    let unloaded = find(library)?;
    LIBRARIES.remove(library);
    KERNELS.remove_all(|kernel| std::ptr::eq(kernel.library.as_ptr(), &*unloaded));
    let modules = unloaded.modules.lock();
    for module in modules.unwrap_or_else(PoisonError::into_inner).values() {
        // It is unloaded already if its context was destroyed.
        let _ = module::unload(*module);
    }
    Ok(())
}
