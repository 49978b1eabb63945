//! Modules: loaded code, its kernels and its variables.

use std::ffi::{CString, c_char, c_uint, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use super::context::{self, Context};
use super::device::{MAX_SHARED, MAX_THREADS};
use super::entry::{Given, entries};
use super::handle::{self, Handles, pointer};
use super::image;
use super::library;
use super::memory::arena;
use super::options::Options;
use super::status::{Answer, Failure, Status};
use crate::blob::{Image, KernelImage, Reference};
use crate::module::{LoadError, LoadedModule};
use api::{CUdeviceptr, CUfunction, CUmodule};
use cudarc::driver::sys::CUmod_st as CUmodule_st;

static MODULES: Handles<Module> = Handles::new();
static FUNCTIONS: Handles<Function> = Handles::new();

pub(super) struct Module {
    context: Weak<Context>,
    pub(super) code: Arc<LoadedModule>,
    /// Handles of the kernels, in the order of the PTX.
    pub(super) functions: Vec<usize>,
}

/// A kernel, alive as long as its module is loaded.
pub(super) struct Function {
    context: Weak<Context>,
    pub(super) module: usize,
    pub(super) code: Arc<LoadedModule>,
    pub(super) index: usize,
    pub(super) name: CString,
    /// Bytes of dynamic shared memory that a launch may ask for.
    shared_limit: AtomicU32,
}

impl Function {
    pub(super) fn image(&self) -> &KernelImage {
        &self.code.kernels()[self.index]
    }

    pub(super) fn context(&self) -> Answer<Arc<Context>> {
        Ok(self.context.upgrade().ok_or(Status::CONTEXT_IS_DESTROYED)?)
    }

    /// Threads that a block of the kernel may have.
    pub(super) fn max_threads(&self) -> u32 {
        // `.reqntid` does not count here, as a driver for CUDA 13.0 has it: the
        // launch holds the block against it.
        match self.image().max_threads {
            Some([x, y, z]) => x.saturating_mul(y).saturating_mul(z).min(MAX_THREADS),
            None => MAX_THREADS,
        }
    }

    pub(super) fn shared_limit(&self) -> u32 {
        self.shared_limit.load(Ordering::Relaxed)
    }

    pub(super) fn set_shared_limit(&self, bytes: u32) {
        self.shared_limit.store(bytes, Ordering::Relaxed);
    }
}

fn find<H>(module: Given<H>) -> Answer<Arc<Module>> {
    context::working()?;
    MODULES
        .get(module)
        .ok_or_else(|| Status::INVALID_HANDLE.because("no loaded module has this handle"))
}

/// A loaded module by the number that [`install`] gave.
pub(super) fn installed(module: usize) -> Option<Arc<Module>> {
    MODULES.at(module)
}

/// The kernel of a handle; a library's kernel stands for its function in the
/// current context, as launches take either.
pub(super) fn function<H>(function: Given<H>) -> Answer<Arc<Function>> {
    if let Some(function) = FUNCTIONS.get(function) {
        return Ok(function);
    }
    let in_library = library::function(function)?;
    in_library
        .and_then(|function| FUNCTIONS.at(function))
        .ok_or_else(|| Status::INVALID_HANDLE.because("no loaded kernel has this handle"))
}

/// Frees the handles of a context's modules and kernels.
pub(super) fn destroy_all(context: &Arc<Context>) {
    let gone = MODULES.remove_all(|module| std::ptr::eq(module.context.as_ptr(), &**context));
    for module in gone {
        super::reference::forget(module.code.addresses());
    }
    FUNCTIONS.remove_all(|function| std::ptr::eq(function.context.as_ptr(), &**context));
}

fn load(result: Given<CUmodule>, given: Given<c_void>, mut options: Options) -> Answer {
    let context = context::working()?;
    if result.is_null() || given.is_null() {
        return Err(Status::INVALID_VALUE.because("no image, or nowhere to put the module"));
    }
    let image = image::load(given, &mut options)?;
    let symbols = options.symbols()?;
    result.put(pointer(install_with(&context, image, &symbols)?))
}

/// Loads an image into a context: a module's handle as a number.
pub(super) fn install(context: &Arc<Context>, image: Image) -> Answer<usize> {
    install_with(context, image, &[])
}

/// The same with variables that the caller defines.
fn install_with(context: &Arc<Context>, image: Image, symbols: &[(String, u64)]) -> Answer<usize> {
    let names = c_names(&image)?;
    let defined = |name: &str| {
        let symbol = symbols.iter().find(|(known, _)| known == name);
        symbol.map(|(_, address)| *address)
    };
    let code = LoadedModule::with_symbols(image, arena()?, defined);
    let code = code.map_err(|error| failure(&error))?;
    // Variables are their device's own, also where its allocations are not.
    for address in code.own_addresses() {
        arena()?.restrict_variable(address, context.device() as usize); // a device's number is not negative
    }
    let code = Arc::new(code);
    let module = handle::reserve();
    let function = |(index, name): (usize, CString)| {
        let own_shared = code.kernels()[index].shared_bytes;
        FUNCTIONS.insert(Arc::new(Function {
            context: Arc::downgrade(context),
            module,
            code: code.clone(),
            index,
            name,
            shared_limit: AtomicU32::new(MAX_SHARED.saturating_sub(own_shared)),
        }))
    };
    let functions = names.into_iter().enumerate().map(function).collect();
    MODULES.insert_at(
        module,
        Arc::new(Module {
            context: Arc::downgrade(context),
            code,
            functions,
        }),
    );
    Ok(module)
}

/// The kernels' names for C callers.
pub(super) fn c_names(image: &Image) -> Answer<Vec<CString>> {
    let name = |kernel: &KernelImage| {
        CString::new(kernel.name.as_str())
            .map_err(|_| Status::INVALID_IMAGE.because("a kernel's name holds a NUL"))
    };
    image.kernels.iter().map(name).collect()
}

/// The address of a module's texture or surface reference, which stands for it.
pub(super) fn reference(
    module: Given<CUmodule_st>,
    name: Given<c_char>,
    kind: Reference,
) -> Answer<u64> {
    let (module, name) = (find(module)?, name.text()?.to_string_lossy());
    module.code.reference(&name, kind).ok_or_else(|| {
        let detail = format!("the module has no texture or surface reference {name}");
        Status::NOT_FOUND.because(detail)
    })
}

/// Unloads a module and its kernels.
pub(super) fn unload(module: usize) -> Option<()> {
    let unloaded = MODULES.remove(module)?;
    super::reference::forget(unloaded.code.addresses());
    FUNCTIONS.remove_all(|function| Arc::ptr_eq(&function.code, &unloaded.code));
    Some(())
}

/// Tells where a module's variable is.
pub(super) fn variable(
    module: &Module,
    address: Given<CUdeviceptr>,
    bytes: Given<usize>,
    name: Given<c_char>,
) -> Answer {
    let name = name.text()?.to_string_lossy();
    let (start, size) = module.code.variable(&name).ok_or_else(|| {
        let detail = format!("the module has no variable {name}");
        Status::NOT_FOUND.because(detail)
    })?;
    address.put_if_asked(start);
    bytes.put_if_asked(size as usize);
    Ok(())
}

/// What is missing, and what is there.
pub(super) fn no_kernel(name: &str, kernels: &[KernelImage]) -> Failure {
    let there: Vec<_> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    let there = if there.is_empty() {
        "none".to_owned()
    } else {
        there.join(", ")
    };
    let detail = format!("the module has no kernel {name}; its kernels: {there}");
    Status::NOT_FOUND.because(detail)
}

fn failure(error: &LoadError) -> Failure {
    let status = match error {
        LoadError::Memory { .. } | LoadError::Executable { .. } => Status::OUT_OF_MEMORY,
        LoadError::Undefined { .. } => Status::SHARED_OBJECT_SYMBOL_NOT_FOUND,
        _ => Status::NO_BINARY_FOR_GPU,
    };
    status.because(error.to_string())
}

entries! {
    fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) {
        load(module, image, Options::default())
    }

    fn cuModuleLoad(module: *mut CUmodule, path: *const c_char) {
        let context = context::working()?;
        if module.is_null() {
            return Err(Status::INVALID_VALUE.because("nowhere to put the module"));
        }
        let image = image::read_file(path, &mut Options::default())?;
        module.put(pointer(install(&context, image)?))
    }

    fn cuModuleLoadDataEx(
        module: *mut CUmodule,
        image: *const c_void,
        count: c_uint,
        numbers: *mut c_uint,
        values: *mut *mut c_void,
    ) {
        load(module, image, Options::read(count, numbers, values)?)
    }

    fn cuModuleLoadFatBinary(module: *mut CUmodule, image: *const c_void) {
        load(module, image, Options::default())
    }

    /// Kernels of the module that were launched run to their end.
    fn cuModuleUnload(module: CUmodule) {
        find(module)?;
        unload(module.addr());
        Ok(())
    }

    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) {
        let (module, name) = (find(module)?, name.text()?);
        let name = name.to_string_lossy();
        match module.code.kernel(&name) {
            Some(index) => function.put(pointer(module.functions[index])),
            None => Err(no_kernel(&name, module.code.kernels())),
        }
    }

    fn cuModuleGetGlobal_v2(
        address: *mut CUdeviceptr,
        bytes: *mut usize,
        module: CUmodule,
        name: *const c_char,
    ) {
        variable(&*find(module)?, address, bytes, name)
    }

    /// Everything is loaded at once: `CU_MODULE_EAGER_LOADING`.
    fn cuModuleGetLoadingMode(mode: *mut c_uint) {
        mode.put(1)
    }

    fn cuModuleGetFunctionCount(count: *mut c_uint, module: CUmodule) {
        count.put(find(module)?.functions.len() as c_uint)
    }

    fn cuModuleEnumerateFunctions(functions: *mut CUfunction, count: c_uint, module: CUmodule) {
        let module = find(module)?;
        for (index, function) in module.functions.iter().take(count as usize).enumerate() {
            functions.put_at(index, pointer(*function))?;
        }
        Ok(())
    }
}
