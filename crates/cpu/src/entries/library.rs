//! Libraries and their kernels.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::entry::entries;
use crate::state::handle::pointer;
use crate::state::options::Options;
use crate::state::status::Status;
use crate::state::{context, device, function, image, library, module};
use api::{CUdevice, CUdeviceptr, CUfunction, CUkernel, CUlibrary, CUmodule};

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
            return Err(Status::INVALID_VALUE.because("the code or the pointer for the library is null"));
        }
        let image = image::load("cuLibraryLoadData", code, &mut Options::read(count, numbers, values)?);
        library.put(pointer(library::create(image)?))
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
            return Err(Status::INVALID_VALUE.because("the pointer for the library is null"));
        }
        let options = &mut Options::read(count, numbers, values)?;
        let image = image::read_file("cuLibraryLoadFromFile", &path.path()?, options);
        library.put(pointer(library::create(image)?))
    }

    capture_unsafe cuLibraryUnload(library: CUlibrary) {
        library::unload(library.addr())
    }

    fn cuLibraryGetKernel(result: *mut CUkernel, library: CUlibrary, name: *const c_char) {
        let (library, name) = (library::find(library.addr())?, name.text()?);
        let index = module::kernel_named(library.code()?, &name.to_string_lossy())?;
        result.put(pointer(library.kernels[index]))
    }

    fn cuLibraryGetModule(result: *mut CUmodule, library: CUlibrary) {
        let (module, _) = library::find(library.addr())?.in_context(&context::working()?)?;
        result.put(pointer(module))
    }

    fn cuLibraryGetGlobal(
        address: *mut CUdeviceptr,
        bytes: *mut usize,
        library: CUlibrary,
        name: *const c_char,
    ) {
        let (_, module) = library::find(library.addr())?.in_context(&context::working()?)?;
        let (start, size) = module.variable(&name.text()?.to_string_lossy())?;
        address.put_optional(start);
        bytes.put_optional(size as usize);
        Ok(())
    }

    fn cuLibraryGetManaged(
        address: *mut CUdeviceptr,
        bytes: *mut usize,
        library: CUlibrary,
        name: *const c_char,
    ) {
        let library = library::find(library.addr())?;
        let name = name.text()?.to_string_lossy();
        let absent = || Status::NOT_FOUND.because(format!("the library has no managed variable {name}"));
        let variables = library.code()?.variables();
        if !variables.iter().any(|variable| variable.managed && variable.name == name) {
            return Err(absent());
        }
        let (_, module) = library.in_context(&context::working()?)?;
        let (start, size) = module.code.managed(&name).ok_or_else(absent)?;
        address.put_optional(start);
        bytes.put_optional(size as usize);
        Ok(())
    }

    fn cuLibraryGetKernelCount(count: *mut c_uint, library: CUlibrary) {
        count.put(library::find(library.addr())?.kernels.len() as c_uint)
    }

    fn cuLibraryEnumerateKernels(kernels: *mut CUkernel, count: c_uint, library: CUlibrary) {
        let library = library::find(library.addr())?;
        for (index, kernel) in library.kernels.iter().take(count as usize).enumerate() {
            kernels.put_at(index, pointer(*kernel))?;
        }
        Ok(())
    }

    fn cuKernelGetFunction(result: *mut CUfunction, handle: CUkernel) {
        result.put(pointer(library::kernel(handle.addr())?.function()?))
    }

    /// The name is good until the library is unloaded.
    fn cuKernelGetName(name: *mut *const c_char, handle: CUkernel) {
        if handle.is_null() {
            return Err(Status::INVALID_VALUE.because("the kernel is null"));
        }
        name.put(library::kernel(handle.addr())?.name.as_ptr())
    }

    fn cuKernelGetLibrary(result: *mut CUlibrary, handle: CUkernel) {
        let library = library::kernel(handle.addr())?.library()?;
        result.put(pointer(library.handle()))
    }

    fn cuKernelGetAttribute(
        value: *mut c_int,
        number: c_uint,
        handle: CUkernel,
        device: CUdevice,
    ) {
        device::check(device)?;
        let kernel = library::kernel(handle.addr())?.configured(device)?;
        value.put(function::attribute(number, &kernel, device).ok_or(Status::INVALID_VALUE)?)
    }

    fn cuKernelSetAttribute(number: c_uint, value: c_int, handle: CUkernel, device: CUdevice) {
        device::check(device)?;
        let kernel = library::kernel(handle.addr())?.configured(device)?;
        function::set_attribute(&kernel, number, value)
    }

    /// A preference that has no effect here.
    fn cuKernelSetCacheConfig(handle: CUkernel, config: c_uint, device: CUdevice) {
        device::check(device)?;
        library::kernel(handle.addr())?;
        match config {
            0..=3 => Ok(()),
            _ => Err(Status::INVALID_VALUE.into()),
        }
    }

    fn cuKernelGetParamInfo(handle: CUkernel, index: usize, offset: *mut usize, size: *mut usize) {
        if handle.is_null() {
            return Err(Status::INVALID_VALUE.because("the kernel is null"));
        }
        context::working()?;
        let param = library::kernel(handle.addr())?.param(index)?;
        offset.put(param.offset as usize)?;
        size.put_optional(param.size as usize);
        Ok(())
    }
}
