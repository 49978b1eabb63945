//! Modules: loaded code, its kernels and its variables.

use std::ffi::CString;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use super::context::{self, Context};
use super::device::{MAX_SHARED, arena};
use super::handle::{self, Handles};
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
    pub(crate) owner: ModuleOwner,
}

/// Who unloads a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModuleOwner {
    Caller,
    Library,
}

/// A kernel, alive as long as its module is loaded.
pub(crate) struct Function {
    context: Weak<Context>,
    pub(crate) module: usize,
    pub(crate) code: Arc<LoadedModule>,
    pub(crate) index: usize,
    pub(crate) name: CString,
    /// The maximum of a launch's dynamic shared memory that the caller set, in bytes;
    /// otherwise [`UNSET`].
    shared_limit: AtomicU32,
    /// The percentage of the on-chip memory that it prefers as shared memory; -1 for none.
    carveout: AtomicI32,
    /// The cluster that the caller set, in blocks; 0 for none.
    cluster: [AtomicU32; 3],
    /// The caller allows clusters of more than 8 blocks.
    large_clusters: AtomicBool,
}

const UNSET: u32 = u32::MAX;

/// A function whose kernel is compiled.
pub(crate) struct CompiledFunction {
    function: Arc<Function>,
    kernel: ExecutableKernel,
}

impl Module {
    /// Address and bytes of a variable.
    pub(crate) fn variable(&self, name: &str) -> Result<(u64, u64)> {
        self.code.variable(name).ok_or_else(|| {
            match self.code.code().names().any(|kernel| kernel == name) {
                true => {
                    Status::INVALID_VALUE.because(format!("{name} is a kernel, not a variable"))
                }
                false => Status::NOT_FOUND.because(format!("the module has no variable {name}")),
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
        let kernel = compiled(self.code.code(), self.index)?.clone();
        Ok(CompiledFunction {
            function: self,
            kernel,
        })
    }
}

impl Deref for CompiledFunction {
    type Target = Function;

    fn deref(&self) -> &Function {
        &self.function
    }
}

impl CompiledFunction {
    pub(crate) fn image(&self) -> &KernelImage {
        self.kernel.image()
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

    pub(crate) fn shared_limit(&self) -> u32 {
        match self.shared_limit.load(Ordering::Relaxed) {
            UNSET => MAX_SHARED.saturating_sub(self.image().shared_bytes),
            limit => limit,
        }
    }

    pub(crate) fn set_shared_limit(&self, bytes: u32) {
        self.shared_limit.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn carveout(&self) -> i32 {
        self.carveout.load(Ordering::Relaxed)
    }

    pub(crate) fn set_carveout(&self, percent: i32) {
        self.carveout.store(percent, Ordering::Relaxed);
    }

    /// The blocks of a cluster that the PTX requires, or else the caller.
    pub(crate) fn required_cluster(&self) -> Option<[u32; 3]> {
        self.image().required_cluster.or_else(|| {
            let set = self
                .cluster
                .each_ref()
                .map(|axis| axis.load(Ordering::Relaxed));
            (!set.contains(&0)).then_some(set)
        })
    }

    /// Sets one axis of the cluster. All three are needed.
    pub(crate) fn set_required_cluster(&self, axis: usize, blocks: u32) {
        self.cluster[axis].store(blocks, Ordering::Relaxed);
    }

    pub(crate) fn allows_large_clusters(&self) -> bool {
        self.large_clusters.load(Ordering::Relaxed)
    }

    pub(crate) fn set_large_clusters(&self, allowed: bool) {
        self.large_clusters.store(allowed, Ordering::Relaxed);
    }
}

/// A kernel, which is compiled if it is not.
pub(crate) fn compiled(code: &ModuleCode, index: usize) -> Result<&ExecutableKernel> {
    let compiled = code.kernel(index).ok_or(Status::INVALID_HANDLE)?;
    compiled.map_err(code_failure)
}

pub(crate) fn find(module: usize) -> Result<Arc<Module>> {
    context::working()?;
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
/// address; returns the handle of the module.
pub(crate) fn load(
    context: &Arc<Context>,
    code: &Arc<ModuleCode>,
    symbols: &[(String, u64)],
    owner: ModuleOwner,
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
            shared_limit: AtomicU32::new(UNSET),
            carveout: AtomicI32::new(-1),
            cluster: [const { AtomicU32::new(0) }; 3],
            large_clusters: AtomicBool::new(false),
        }))
    };
    let functions = names.into_iter().enumerate().map(function).collect();
    MODULES.insert_at(
        module,
        Arc::new(Module {
            context: Arc::downgrade(context),
            code,
            functions,
            owner,
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
