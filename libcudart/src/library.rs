//! Libraries that a program loads itself.

use std::ffi::{c_char, c_int, c_uint, c_void};

use api::{CUkernel, CUlibrary};

use crate::binary::know;
use crate::context::ready;
use crate::entry::{driver, entries};
use crate::error::Code;

entries! {
    /// Loads PTX or a fatbin.
    fn cudaLibraryLoadData(
        library: *mut CUlibrary,
        code: *const c_void,
        numbers: *mut c_uint,
        values: *mut *mut c_void,
        count: c_uint,
        library_numbers: *mut c_uint,
        library_values: *mut *mut c_void,
        library_count: c_uint,
    ) {
        ready()?;
        driver!(cuLibraryLoadData(
            library.required()?, code.required()?, numbers.ptr(), values.ptr(), count,
            library_numbers.ptr(), library_values.ptr(), library_count
        ))
    }

    /// The same from a file.
    fn cudaLibraryLoadFromFile(
        library: *mut CUlibrary,
        path: *const c_char,
        numbers: *mut c_uint,
        values: *mut *mut c_void,
        count: c_uint,
        library_numbers: *mut c_uint,
        library_values: *mut *mut c_void,
        library_count: c_uint,
    ) {
        ready()?;
        driver!(cuLibraryLoadFromFile(
            library.required()?, path.required()?, numbers.ptr(), values.ptr(), count,
            library_numbers.ptr(), library_values.ptr(), library_count
        ))
    }

    /// Unloads a library.
    fn cudaLibraryUnload(library: CUlibrary) {
        ready()?;
        driver!(cuLibraryUnload(library.ptr()))
    }

    /// A kernel of a library, which can be launched as a host function can.
    fn cudaLibraryGetKernel(kernel: *mut CUkernel, library: CUlibrary, name: *const c_char) {
        ready()?;
        driver!(cuLibraryGetKernel(kernel.required()?, library.ptr(), name.required()?))?;
        know(kernel.get()?);
        Ok(())
    }

    /// Address and bytes of a library's variable.
    fn cudaLibraryGetGlobal(address: *mut *mut c_void, bytes: *mut usize, library: CUlibrary, name: *const c_char) {
        ready()?;
        let (mut found, mut size) = (0, 0);
        driver!(cuLibraryGetGlobal(&mut found, &mut size, library.ptr(), name.required()?))?;
        bytes.put_optional(size);
        address.put_address(found)
    }

    /// Address and bytes of a library's managed variable.
    fn cudaLibraryGetManaged(address: *mut *mut c_void, bytes: *mut usize, library: CUlibrary, name: *const c_char) {
        ready()?;
        let (mut found, mut size) = (0, 0);
        driver!(cuLibraryGetManaged(&mut found, &mut size, library.ptr(), name.required()?))?;
        bytes.put_optional(size);
        address.put_address(found)
    }

    /// A function that the host calls as kernels do: there is none.
    fn cudaLibraryGetUnifiedFunction(function: *mut *mut c_void, library: CUlibrary, name: *const c_char) {
        let _ = (function.required()?, library.ptr(), name.required()?);
        Err(Code::NOT_SUPPORTED)
    }

    /// How many kernels a library has.
    fn cudaLibraryGetKernelCount(count: *mut c_uint, library: CUlibrary) {
        ready()?;
        driver!(cuLibraryGetKernelCount(count.required()?, library.ptr()))
    }

    /// The first `count` kernels of a library, which can be launched as host functions can.
    fn cudaLibraryEnumerateKernels(kernels: *mut CUkernel, count: c_uint, library: CUlibrary) {
        ready()?;
        let mut has = 0;
        driver!(cuLibraryGetKernelCount(&mut has, library.ptr()))?;
        let mut found = vec![std::ptr::null_mut(); count.min(has) as usize];
        driver!(cuLibraryEnumerateKernels(found.as_mut_ptr(), found.len() as c_uint, library.ptr()))?;
        for (index, kernel) in found.into_iter().enumerate() {
            kernels.put_at(index, kernel)?;
            know(kernel);
        }
        Ok(())
    }

    /// Sets one attribute of a kernel on a device.
    fn cudaKernelSetAttributeForDevice(kernel: CUkernel, number: c_uint, value: c_int, device: c_int) {
        ready()?;
        driver!(cuKernelSetAttribute(number, value, kernel.ptr(), device))
    }
}
