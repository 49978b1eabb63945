//! Modules: loaded code, its kernels and its variables.

use std::ffi::CString;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use super::context::{self, Context};
use super::device::{MAX_SHARED, arena};
use super::handle::{self, Handles};
use super::kernel_settings::{CLUSTER, KernelSettings, Setting};
use super::reference;
use super::status::{Failure, Result, Status};
use crate::blob::KernelImage;
use crate::code::{CodeError, ModuleCode};
use crate::code_store::CodeStore;
use crate::compile::CompileErrorKind;
use crate::executable::ExecutableKernel;
use crate::module::{LoadError, LoadedModule};
use crate::run::MAX_THREADS;
use api::CUmodule;

static MODULES: Handles<Module> = Handles::new();
static FUNCTIONS: Handles<Function> = Handles::new();

pub(crate) struct Module {
    context: Weak<Context>,
    pub(crate) code: Arc<LoadedModule>,
    /// Handles of the kernels, in the order of the PTX.
    pub(crate) functions: Vec<usize>,
    /// It is a library's, which unloads it.
    pub(crate) is_of_library: bool,
}

/// A kernel, alive as long as its module is loaded.
pub(crate) struct Function {
    context: Weak<Context>,
    pub(crate) module: usize,
    pub(crate) code: Arc<LoadedModule>,
    pub(crate) index: usize,
    pub(crate) name: CString,
    settings: Arc<KernelSettings>,
}

/// A compiled kernel with what callers set of it.
pub(crate) struct ConfiguredKernel {
    code: Arc<ModuleCode>,
    kernel: ExecutableKernel,
    settings: Arc<KernelSettings>,
}

/// A function whose kernel is compiled.
pub(crate) struct CompiledFunction {
    pub(crate) function: Arc<Function>,
    kernel: ConfiguredKernel,
}

impl Module {
    /// Address and bytes of a variable.
    pub(crate) fn variable(&self, name: &str) -> Result<(u64, u64)> {
        self.code.variable(name).ok_or_else(|| {
            if self.code.code().names().any(|kernel| kernel == name) {
                Status::INVALID_VALUE.because(format!("{name} is a kernel, not a variable"))
            } else {
                Status::NOT_FOUND.because(format!("the module has no variable {name}"))
            }
        })
    }
}

impl Function {
    pub(crate) fn context(&self) -> Result<Arc<Context>> {
        Ok(self.context.upgrade().ok_or(Status::CONTEXT_IS_DESTROYED)?)
    }

    pub(crate) fn is_compiled(&self) -> bool {
        self.code.code().is_compiled(self.index)
    }

    /// The function with its kernel, which is compiled if it is not.
    pub(crate) fn compiled(self: Arc<Function>) -> Result<CompiledFunction> {
        let kernel = ConfiguredKernel::new(self.code.code(), self.index, &self.settings)?;
        Ok(CompiledFunction {
            function: self,
            kernel,
        })
    }
}

impl Deref for CompiledFunction {
    type Target = ConfiguredKernel;

    fn deref(&self) -> &ConfiguredKernel {
        &self.kernel
    }
}

impl ConfiguredKernel {
    /// A kernel of a module's code, which is compiled if it is not.
    pub(crate) fn new(
        code: &Arc<ModuleCode>,
        index: usize,
        settings: &Arc<KernelSettings>,
    ) -> Result<ConfiguredKernel> {
        Ok(ConfiguredKernel {
            kernel: compiled(code, index)?.clone(),
            code: Arc::clone(code),
            settings: Arc::clone(settings),
        })
    }

    pub(crate) fn image(&self) -> &KernelImage {
        self.kernel.image()
    }

    /// Bytes of its module's variables in `.const`.
    pub(crate) fn constant_bytes(&self) -> u64 {
        self.code.constant_bytes()
    }

    /// Threads that a block of the kernel may have.
    pub(crate) fn max_threads(&self) -> u32 {
        // `.reqntid` does not count here, as in a driver for CUDA 13.0: the launch
        // checks it.
        match self.image().max_threads {
            Some([x, y, z]) => x.saturating_mul(y).saturating_mul(z).min(MAX_THREADS),
            None => MAX_THREADS,
        }
    }

    /// The maximum of a launch's dynamic shared memory, in bytes.
    pub(crate) fn shared_limit(&self) -> u32 {
        match self.settings.get(Setting::SharedLimit) {
            Some(limit) => u32::try_from(limit).unwrap_or(u32::MAX),
            None => MAX_SHARED.saturating_sub(self.image().shared_bytes),
        }
    }

    /// The percentage of the on-chip memory that it prefers as shared memory; -1 for none.
    pub(crate) fn carveout(&self) -> i32 {
        let set = self.settings.get(Setting::Carveout);
        set.and_then(|percent| percent.try_into().ok())
            .unwrap_or(-1)
    }

    /// The blocks of a cluster that the PTX requires, or else the caller.
    pub(crate) fn required_cluster(&self) -> Option<[u32; 3]> {
        self.image().required_cluster.or_else(|| {
            let set = CLUSTER.map(|axis| self.settings.get(axis).unwrap_or(0));
            let set = set.map(|blocks| u32::try_from(blocks).unwrap_or(0));
            (!set.contains(&0)).then_some(set)
        })
    }

    /// Whether the caller allows clusters of more than 8 blocks.
    pub(crate) fn allows_large_clusters(&self) -> bool {
        self.settings.get(Setting::LargeClusters) == Some(1)
    }

    pub(crate) fn set(&self, setting: Setting, value: impl Into<i64>) {
        self.settings.set(setting, value);
    }
}

/// A kernel, which is compiled if it is not.
pub(crate) fn compiled(code: &ModuleCode, index: usize) -> Result<&ExecutableKernel> {
    let compiled = code.kernel(index).ok_or(Status::INVALID_HANDLE)?;
    compiled.map_err(code_failure)
}

pub(crate) fn find(module: usize) -> Result<Arc<Module>> {
    context::working()?;
    find_anywhere(module)
}

/// A loaded module, for calls that need no current context.
pub(crate) fn find_anywhere(module: usize) -> Result<Arc<Module>> {
    context::check_current()?;
    MODULES
        .get(module)
        .ok_or_else(|| Status::INVALID_HANDLE.because("no loaded module has this handle"))
}

/// A loaded module, also without a current context.
pub(crate) fn get(module: usize) -> Option<Arc<Module>> {
    MODULES.get(module)
}

/// A kernel of a module.
pub(crate) fn function(function: usize) -> Option<Arc<Function>> {
    FUNCTIONS.get(function)
}

/// Frees the handles of a context's modules and kernels.
pub(crate) fn destroy_all(context: &Arc<Context>) {
    let unloaded = MODULES.remove_all(|module| std::ptr::eq(module.context.as_ptr(), &**context));
    for module in unloaded {
        reference::remove_all(module.code.addresses());
    }
    FUNCTIONS.remove_all(|function| std::ptr::eq(function.context.as_ptr(), &**context));
}

/// Loads code into a context, with variables that the caller defines by name and
/// address; returns the handle of the module. `library` has the settings of each kernel of a
/// library.
pub(crate) fn load(
    context: &Arc<Context>,
    code: &Arc<ModuleCode>,
    symbols: &[(String, u64)],
    library: Option<&[Arc<KernelSettings>]>,
) -> Result<usize> {
    let names = c_names(code)?;
    let defined = |name: &str| {
        let symbol = symbols.iter().find(|(known, _)| known == name);
        symbol.map(|(_, address)| *address)
    };
    let code = LoadedModule::new(code, arena()?, defined);
    let code = code.map_err(|error| failure(&error))?;
    // Only the module's device accesses its variables.
    for address in code.own_addresses() {
        arena()?.restrict_variable(address, context.device() as usize); // a device's number is not negative
    }
    let code = Arc::new(code);
    let module = handle::reserve();
    let function = |(index, name): (usize, CString)| {
        FUNCTIONS.insert(Arc::new(Function {
            context: Arc::downgrade(context),
            module,
            code: code.clone(),
            index,
            name,
            settings: KernelSettings::new(library.and_then(|kernels| kernels.get(index).cloned())),
        }))
    };
    let functions = names.into_iter().enumerate().map(function).collect();
    MODULES.insert_at(
        module,
        Arc::new(Module {
            context: Arc::downgrade(context),
            code,
            functions,
            is_of_library: library.is_some(),
        }),
    );
    Ok(module)
}

/// The kernels' names for C callers.
pub(crate) fn c_names(code: &ModuleCode) -> Result<Vec<CString>> {
    let name = |name| {
        CString::new(name).map_err(|_| Status::INVALID_IMAGE.because("a kernel's name holds a NUL"))
    };
    code.names().map(name).collect()
}

/// Has the faults of a module's kernels name lines of the text from which its PTX was cut.
///
/// `original` is given a line of the module's PTX, from 1, and returns `None` for one that
/// was added. The first call for a module counts; one for no module does nothing.
///
/// ```
/// use ptxkit_cpu::set_original_lines;
///
/// set_original_lines(std::ptr::null_mut(), |line| Some(line + 100));
/// ```
pub fn set_original_lines(
    module: CUmodule,
    original: impl Fn(u32) -> Option<u32> + Send + Sync + 'static,
) {
    if let Some(module) = get(module.addr()) {
        module.code.set_original_lines(Box::new(original));
    }
}

/// Has the optimized code of a module's hot kernels kept in what `store` returns.
///
/// It is asked for a store if kernels of the module are compiled again when they are hot. The
/// first call for a module counts; one for no module does nothing.
///
/// # Safety
/// What the store returns for a kernel must be what this version of the crate compiled, on a
/// processor with the features of this one, of the same kernel of the same PTX: it is run.
///
/// ```
/// use ptxkit_cpu::{CodeStore, set_code_store};
///
/// fn store() -> Box<dyn CodeStore> {
///     unreachable!("there is no module")
/// }
/// // SAFETY: no store is made.
/// unsafe { set_code_store(std::ptr::null_mut(), store) };
/// ```
pub unsafe fn set_code_store(module: CUmodule, store: impl FnOnce() -> Box<dyn CodeStore>) {
    if let Some(module) = get(module.addr()) {
        module.code.code().set_store(store);
    }
}

/// Unloads a module and its kernels.
pub(crate) fn unload(module: usize) -> Option<()> {
    let unloaded = MODULES.remove(module)?;
    reference::remove_all(unloaded.code.addresses());
    FUNCTIONS.remove_all(|function| Arc::ptr_eq(&function.code, &unloaded.code));
    Some(())
}

/// The index of a kernel, which is compiled if it is not. The error for one that is missing
/// names those that the module has.
pub(crate) fn kernel_named(code: &ModuleCode, name: &str) -> Result<usize> {
    if let Some(index) = code.index_of(name) {
        compiled(code, index)?;
        return Ok(index);
    }
    let names: Vec<&str> = code.names().collect();
    let names = if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    };
    let detail = format!("the module has no kernel {name}; its kernels: {names}");
    Err(Status::NOT_FOUND.because(detail))
}

/// The failure of a call that needs code.
pub(crate) fn code_failure(error: &CodeError) -> Failure {
    let status = match error {
        CodeError::Executable(_) => Status::OUT_OF_MEMORY,
        CodeError::Compile(error) if error.kind == CompileErrorKind::Invalid => Status::INVALID_PTX,
        CodeError::Compile(_) => Status::NOT_SUPPORTED,
        CodeError::Blob(_) => Status::NO_BINARY_FOR_GPU,
    };
    status.because(error.to_string())
}

fn failure(error: &LoadError) -> Failure {
    let status = match error {
        LoadError::Memory { .. } => Status::OUT_OF_MEMORY,
        LoadError::Undefined { .. } => Status::INVALID_PTX,
    };
    status.because(error.to_string())
}
