//! Libraries: code that is loaded into a context when the context first asks
//! for it.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::context::{self, Context};
use super::device;
use super::entry::{Given, entries};
use super::handle::{self, Handles, pointer};
use super::image;
use super::module::{self, Module};
use super::options::Options;
use super::status::{Answer, Status};
use crate::blob::{Image, ParamLayout};
use api::{CUdevice, CUdeviceptr, CUfunction, CUkernel, CUlibrary, CUmodule};

static LIBRARIES: Handles<Library> = Handles::new();
static KERNELS: Handles<Kernel> = Handles::new();

struct Library {
    handle: usize,
    image: Image,
    /// Handles of the kernels, in the order of the PTX.
    kernels: Vec<usize>,
    /// The module in each context that has asked, by `Context::id`.
    modules: Mutex<BTreeMap<usize, usize>>,
}

struct Kernel {
    library: Weak<Library>,
    index: usize,
    name: CString,
}

impl Library {
    /// The library as a module of a context, and the module's handle.
    fn in_context(&self, context: &Arc<Context>) -> Answer<(usize, Arc<Module>)> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let module = match modules.get(&context.id()) {
            Some(module) => *module,
            None => {
                let module = module::install(context, self.image.clone())?;
                modules.insert(context.id(), module);
                module
            }
        };
        let loaded = module::installed(module).ok_or(Status::INVALID_HANDLE)?;
        Ok((module, loaded))
    }
}

impl Kernel {
    fn library(&self) -> Answer<Arc<Library>> {
        Ok(self.library.upgrade().ok_or(Status::INVALID_HANDLE)?)
    }

    fn param(&self, index: usize) -> Answer<ParamLayout> {
        let library = self.library()?;
        let params = &library.image.kernels[self.index].params;
        let there = params.len();
        params.get(index).copied().ok_or_else(|| {
            let detail = format!("parameter {index} asked for, the kernel has {there}");
            Status::INVALID_VALUE.because(detail)
        })
    }
}

fn find<H>(library: Given<H>) -> Answer<Arc<Library>> {
    LIBRARIES
        .get(library)
        .ok_or_else(|| Status::INVALID_HANDLE.because("no loaded library has this handle"))
}

fn kernel<H>(kernel: Given<H>) -> Answer<Arc<Kernel>> {
    KERNELS
        .get(kernel)
        .ok_or_else(|| Status::INVALID_HANDLE.because("no library's kernel has this handle"))
}

/// The function of a library's kernel in the current context; `None` where the
/// handle is no kernel's.
pub(super) fn function<H>(handle: Given<H>) -> Answer<Option<usize>> {
    let Some(kernel) = KERNELS.get(handle) else {
        return Ok(None);
    };
    let (_, module) = kernel.library()?.in_context(&context::working()?)?;
    Ok(module.functions.get(kernel.index).copied())
}

/// A library of an image, and its handle.
fn make(image: Image) -> Answer<CUlibrary> {
    let names = module::c_names(&image)?;
    let number = handle::reserve();
    let made = Arc::new_cyclic(|library| {
        let kernel = |(index, name)| {
            let library = Weak::clone(library);
            KERNELS.insert(Arc::new(Kernel {
                library,
                index,
                name,
            }))
        };
        Library {
            handle: number,
            image,
            kernels: names.into_iter().enumerate().map(kernel).collect(),
            modules: Mutex::default(),
        }
    });
    LIBRARIES.insert_at(number, made);
    Ok(pointer(number))
}

entries! {
    fn cuLibraryLoadData(
        library: *mut CUlibrary,
        code: *const c_void,
        numbers: *mut c_uint,
        values: *mut *mut c_void,
        count: c_uint,
        _library_numbers: *mut c_uint,
        _library_values: *mut *mut c_void,
        _library_count: c_uint,
    ) {
        if library.is_null() || code.is_null() {
            return Err(Status::INVALID_VALUE.because("no code, or nowhere to put the library"));
        }
        let image = image::load(code, &mut Options::read(count, numbers, values)?)?;
        library.put(make(image)?)
    }

    fn cuLibraryLoadFromFile(
        library: *mut CUlibrary,
        path: *const c_char,
        numbers: *mut c_uint,
        values: *mut *mut c_void,
        count: c_uint,
        _library_numbers: *mut c_uint,
        _library_values: *mut *mut c_void,
        _library_count: c_uint,
    ) {
        if library.is_null() {
            return Err(Status::INVALID_VALUE.because("nowhere to put the library"));
        }
        let image = image::read_file(path, &mut Options::read(count, numbers, values)?)?;
        library.put(make(image)?)
    }

    fn cuLibraryUnload(library: CUlibrary) {
        let unloaded = find(library)?;
        LIBRARIES.remove(library.addr());
        KERNELS.remove_all(|kernel| std::ptr::eq(kernel.library.as_ptr(), &*unloaded));
        let modules = unloaded
            .modules
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for module in modules.values() {
            // One whose context was destroyed is gone already.
            let _ = module::unload(*module);
        }
        Ok(())
    }

    fn cuLibraryGetKernel(result: *mut CUkernel, library: CUlibrary, name: *const c_char) {
        let (library, name) = (find(library)?, name.text()?);
        let kernels = &library.image.kernels;
        match kernels
            .iter()
            .position(|kernel| kernel.name.as_bytes() == name.to_bytes())
        {
            Some(index) => result.put(pointer(library.kernels[index])),
            None => Err(module::no_kernel(&name.to_string_lossy(), kernels)),
        }
    }

    fn cuLibraryGetModule(result: *mut CUmodule, library: CUlibrary) {
        let (module, _) = find(library)?.in_context(&context::working()?)?;
        result.put(pointer(module))
    }

    fn cuLibraryGetGlobal(
        address: *mut CUdeviceptr,
        bytes: *mut usize,
        library: CUlibrary,
        name: *const c_char,
    ) {
        let (_, module) = find(library)?.in_context(&context::working()?)?;
        module::variable(&module, address, bytes, name)
    }

    fn cuLibraryGetManaged(
        address: *mut CUdeviceptr,
        bytes: *mut usize,
        library: CUlibrary,
        name: *const c_char,
    ) {
        let (_, module) = find(library)?.in_context(&context::working()?)?;
        let name = name.text()?.to_string_lossy();
        let (start, size) = module.code.managed(&name).ok_or_else(|| {
            Status::NOT_FOUND.because(format!("the library has no managed variable {name}"))
        })?;
        address.put_if_asked(start);
        bytes.put_if_asked(size as usize);
        Ok(())
    }

    fn cuLibraryGetKernelCount(count: *mut c_uint, library: CUlibrary) {
        count.put(find(library)?.kernels.len() as c_uint)
    }

    fn cuLibraryEnumerateKernels(kernels: *mut CUkernel, count: c_uint, library: CUlibrary) {
        let library = find(library)?;
        for (index, kernel) in library.kernels.iter().take(count as usize).enumerate() {
            kernels.put_at(index, pointer(*kernel))?;
        }
        Ok(())
    }

    fn cuKernelGetFunction(result: *mut CUfunction, handle: CUkernel) {
        kernel(handle)?;
        match function(handle)? {
            Some(found) => result.put(pointer(found)),
            None => Err(Status::INVALID_HANDLE.into()),
        }
    }

    /// The name is good until the library is unloaded.
    fn cuKernelGetName(name: *mut *const c_char, handle: CUkernel) {
        name.put(kernel(handle)?.name.as_ptr())
    }

    fn cuKernelGetLibrary(result: *mut CUlibrary, handle: CUkernel) {
        let library = kernel(handle)?.library()?;
        result.put(pointer(library.handle))
    }

    fn cuKernelGetAttribute(
        value: *mut c_int,
        number: c_uint,
        handle: CUkernel,
        device: CUdevice,
    ) {
        device::check(device)?;
        kernel(handle)?;
        let function = module::function(handle)?;
        value.put(super::function::attribute(number, &function).ok_or(Status::INVALID_VALUE)?)
    }

    fn cuKernelSetAttribute(number: c_uint, value: c_int, handle: CUkernel, device: CUdevice) {
        device::check(device)?;
        kernel(handle)?;
        super::function::set_attribute(&*module::function(handle)?, number, value)
    }

    /// A preference that has no meaning here.
    fn cuKernelSetCacheConfig(handle: CUkernel, config: c_uint, device: CUdevice) {
        device::check(device)?;
        kernel(handle)?;
        match config {
            0..=3 => Ok(()),
            _ => Err(Status::INVALID_VALUE.into()),
        }
    }

    fn cuKernelGetParamInfo(handle: CUkernel, index: usize, offset: *mut usize, size: *mut usize) {
        let param = kernel(handle)?.param(index)?;
        offset.put(param.offset as usize)?;
        size.put_if_asked(param.size as usize);
        Ok(())
    }
}
