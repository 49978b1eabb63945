//! Modules.

use std::ffi::{c_char, c_uint, c_void};

use super::entry::entries;
use crate::state::handle::pointer;
use crate::state::options::Options;
use crate::state::status::{Result, Status};
use crate::state::user_pointer::UserPointer;
use crate::state::{context, image, module};
use api::{CUdeviceptr, CUfunction, CUmodule};

fn load(
    entry: &'static str,
    result: UserPointer<CUmodule>,
    image: UserPointer<c_void>,
    mut options: Options,
) -> Result {
    let context = context::working()?;
    if result.is_null() || image.is_null() {
        return Err(
            Status::INVALID_VALUE.because("the image or the pointer for the module is null")
        );
    }
    let image = image::load(entry, image, &mut options)?;
    let symbols = options.symbols()?;
    result.put(pointer(module::load(&context, &image, &symbols, None)?))
}

entries! {
    fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) {
        load("cuModuleLoadData", module, image, Options::default())
    }

    fn cuModuleLoad(module: *mut CUmodule, path: *const c_char) {
        let context = context::working()?;
        if module.is_null() {
            return Err(Status::INVALID_VALUE.because("the pointer for the module is null"));
        }
        let path = path.path()?;
        if path.as_os_str().is_empty() {
            return Err(Status::INVALID_VALUE.because("the path is empty"));
        }
        let image = image::read_file("cuModuleLoad", &path, &mut Options::default())?;
        module.put(pointer(module::load(&context, &image, &[], None)?))
    }

    fn cuModuleLoadDataEx(
        module: *mut CUmodule,
        image: *const c_void,
        count: c_uint,
        numbers: *mut c_uint,
        values: *mut *mut c_void,
    ) {
        load("cuModuleLoadDataEx", module, image, Options::read(count, numbers, values)?)
    }

    fn cuModuleLoadFatBinary(module: *mut CUmodule, image: *const c_void) {
        load("cuModuleLoadFatBinary", module, image, Options::default())
    }

    /// Launches that are queued still run.
    capture_unsafe cuModuleUnload(module: CUmodule) {
        if module::find(module.addr())?.is_of_library {
            return Err(Status::NOT_PERMITTED
                .because("the module belongs to a library; call cuLibraryUnload"));
        }
        module::unload(module.addr());
        Ok(())
    }

    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) {
        // It needs no current context, as on an H200.
        let (module, name) = (module::find_anywhere(module.addr())?, name.text()?);
        if name.is_empty() {
            return Err(Status::INVALID_VALUE.because("the name of the kernel is empty"));
        }
        let index = module::kernel_named(module.code.code(), &name.to_string_lossy())?;
        function.put(pointer(module.functions[index]))
    }

    fn cuModuleGetGlobal_v2(
        address: *mut CUdeviceptr,
        bytes: *mut usize,
        module: CUmodule,
        name: *const c_char,
    ) {
        let name = name.text()?.to_string_lossy();
        if address.is_null() && bytes.is_null() {
            return Err(Status::INVALID_VALUE.because("the pointers for the address and the size are both null"));
        }
        let (start, size) = module::find(module.addr())?.variable(&name)?;
        address.put_optional(start);
        bytes.put_optional(size as usize);
        Ok(())
    }

    fn cuModuleGetLoadingMode(mode: *mut c_uint) {
        mode.put(image::Loading::of_environment().mode())
    }

    fn cuModuleGetFunctionCount(count: *mut c_uint, module: CUmodule) {
        count.put(module::find(module.addr())?.functions.len() as c_uint)
    }

    fn cuModuleEnumerateFunctions(functions: *mut CUfunction, count: c_uint, module: CUmodule) {
        let module = module::find(module.addr())?;
        for (index, function) in module.functions.iter().take(count as usize).enumerate() {
            functions.put_at(index, pointer(*function))?;
        }
        Ok(())
    }
}
