//! Modules: loaded code, its kernels and its variables.

use std::ffi::{CString, c_char, c_uint, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use super::context::{self, Context};
use super::device::{MAX_SHARED, MAX_THREADS};
use super::entry::{Given, entries};
use super::handle::{self, Handles, pointer};
use super::image;
use super::memory::arena;
use super::options::Options;
use super::status::{Answer, Failure, Status};
use crate::cpu::blob::KernelImage;
use crate::cpu::code::{LoadError, LoadedModule};
use crate::driver::api::{CUdeviceptr, CUfunction, CUmodule};

static MODULES: Handles<Module> = Handles::new();
static FUNCTIONS: Handles<Function> = Handles::new();

struct Module {
    context: Weak<Context>,
    code: Arc<LoadedModule>,
    /// Handles of the kernels, in the order of the PTX.
    functions: Vec<usize>,
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
        let image = self.image();
        match image.required_threads.or(image.max_threads) {
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

/// The kernel of a handle.
pub(super) fn function<H>(function: Given<H>) -> Answer<Arc<Function>> {
    FUNCTIONS
        .get(function)
        .ok_or_else(|| Status::INVALID_HANDLE.because("no loaded kernel has this handle"))
}

/// Frees the handles of a context's modules and kernels.
pub(super) fn destroy_all(context: &Arc<Context>) {
    MODULES.remove_all(|module| std::ptr::eq(module.context.as_ptr(), &**context));
    FUNCTIONS.remove_all(|function| std::ptr::eq(function.context.as_ptr(), &**context));
}

fn load(result: Given<CUmodule>, given: Given<c_void>, mut options: Options) -> Answer {
    let context = context::working()?;
    if result.is_null() || given.is_null() {
        return Err(Status::INVALID_VALUE.because("no image, or nowhere to put the module"));
    }
    let image = image::load(given, &mut options)?;
    let code = LoadedModule::new(image, arena()?).map_err(|error| failure(&error))?;
    let code = Arc::new(code);
    let module = handle::reserve();
    let function = |(index, kernel): (usize, &KernelImage)| {
        let name = CString::new(kernel.name.as_str());
        let name =
            name.map_err(|_| Status::INVALID_IMAGE.because("a kernel's name holds a NUL"))?;
        Ok(FUNCTIONS.insert(Arc::new(Function {
            context: Arc::downgrade(&context),
            module,
            code: code.clone(),
            index,
            name,
            shared_limit: AtomicU32::new(MAX_SHARED.saturating_sub(kernel.shared_bytes)),
        })))
    };
    let functions = code
        .kernels()
        .iter()
        .enumerate()
        .map(function)
        .collect::<Answer<_>>()?;
    MODULES.insert_at(
        module,
        Arc::new(Module {
            context: Arc::downgrade(&context),
            code,
            functions,
        }),
    );
    result.put(pointer(module))
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
        let unloaded = find(module)?;
        MODULES.remove(module);
        FUNCTIONS.remove_all(|function| Arc::ptr_eq(&function.code, &unloaded.code));
        Ok(())
    }

    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) {
        let (module, name) = (find(module)?, name.text()?);
        let name = name.to_string_lossy();
        match module.code.kernel(&name) {
            Some(index) => function.put(pointer(module.functions[index])),
            None => {
                let there: Vec<_> = module
                    .code
                    .kernels()
                    .iter()
                    .map(|kernel| kernel.name.as_str())
                    .collect();
                let there = if there.is_empty() {
                    "none".to_owned()
                } else {
                    there.join(", ")
                };
                Err(Status::NOT_FOUND.because(format!(
                    "the module has no kernel {name}; its kernels: {there}"
                )))
            }
        }
    }

    fn cuModuleGetGlobal_v2(
        address: *mut CUdeviceptr,
        bytes: *mut usize,
        module: CUmodule,
        name: *const c_char,
    ) {
        let (module, name) = (find(module)?, name.text()?);
        let name = name.to_string_lossy();
        let found = module.code.variable(&name);
        let (start, size) = found.ok_or_else(|| {
            Status::NOT_FOUND.because(format!("the module has no variable {name}"))
        })?;
        address.put_if_asked(start);
        bytes.put_if_asked(size as usize);
        Ok(())
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
