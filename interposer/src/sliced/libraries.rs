//! The entries that take libraries.

use std::ffi::{c_char, c_int, c_uint, c_void};

use api::{CUdeviceptr, CUfunction, CUkernel, CUlibrary, CUmodule};

use super::super::number;
use super::super::restored::Restored;
use super::handles::{self, Address};
use super::{entries, error, name, put};

entries! {
    /// Unloads a library.
    CULIBRARYUNLOAD: fn cuLibraryUnload(library: CUlibrary) for library(library) |sliced| {
        handles::remove(library.addr());
        sliced.unload()
    }

    /// Finds a kernel, whose slice is compiled and loaded for it.
    CULIBRARYGETKERNEL: fn cuLibraryGetKernel(kernel: *mut CUkernel, library: CUlibrary, symbol: *const c_char)
        for library(library) |sliced|
    {
        // SAFETY: the caller's.
        let symbol = unsafe { name(symbol) }?;
        let found = sliced.kernel("cuLibraryGetKernel", symbol)?;
        handles::add_kernel(found.addr(), library.addr());
        // SAFETY: the caller's.
        unsafe { put(kernel, found) }
    }

    /// Counts the kernels.
    CULIBRARYGETKERNELCOUNT: fn cuLibraryGetKernelCount(count: *mut c_uint, library: CUlibrary)
        for library(library) |sliced|
    {
        // SAFETY: the caller's.
        unsafe { put(count, sliced.code.kernel_names().len() as c_uint) }
    }

    /// Finds all kernels, whose slices are compiled and loaded for it.
    CULIBRARYENUMERATEKERNELS: fn cuLibraryEnumerateKernels(kernels: *mut CUkernel, count: c_uint, library: CUlibrary)
        for library(library) |sliced|
    {
        if kernels.is_null() {
            return Err(error::INVALID_VALUE);
        }
        let found = sliced.kernels("cuLibraryEnumerateKernels", count as usize)?;
        for (index, kernel) in found.into_iter().enumerate() {
            handles::add_kernel(kernel.addr(), library.addr());
            // SAFETY: the caller's array has `count` elements.
            unsafe { kernels.add(index).write(kernel) };
        }
        Ok(())
    }

    /// Returns the module of a library in the context that is current.
    CULIBRARYGETMODULE: fn cuLibraryGetModule(module: *mut CUmodule, library: CUlibrary)
        for library(library) |sliced|
    {
        let context = Restored::of(sliced.device.driver())?.context();
        if context.is_null() {
            return Err(error::INVALID_CONTEXT);
        }
        let found = handles::module_of_library(sliced, library.addr(), context.addr());
        // SAFETY: the caller's.
        unsafe { put(module, std::ptr::without_provenance_mut(found)) }
    }

    /// Finds a variable in the context that is current. Its slice is compiled and loaded for it.
    CULIBRARYGETGLOBAL: fn cuLibraryGetGlobal(
        address: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, symbol: *const c_char
    ) for library(library) |sliced| {
        // SAFETY: the caller's.
        let symbol = unsafe { name(symbol) }?;
        let slice = sliced.variable("cuLibraryGetGlobal", symbol)?;
        // SAFETY: the slice is loaded; the rest is the caller's.
        unsafe { sliced.api().cuLibraryGetGlobal(address, bytes, slice, symbol.as_ptr()) }
            .map_err(number)
    }

    /// Finds a managed variable. Its slice is compiled and loaded for it.
    CULIBRARYGETMANAGED: fn cuLibraryGetManaged(
        address: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, symbol: *const c_char
    ) for library(library) |sliced| {
        // SAFETY: the caller's.
        let symbol = unsafe { name(symbol) }?;
        let slice = sliced.variable("cuLibraryGetManaged", symbol)?;
        // SAFETY: the slice is loaded; the rest is the caller's.
        unsafe { sliced.api().cuLibraryGetManaged(address, bytes, slice, symbol.as_ptr()) }
            .map_err(number)
    }

    /// Finds a function of the host. Libraries that have those are not cut.
    CULIBRARYGETUNIFIEDFUNCTION: fn cuLibraryGetUnifiedFunction(
        _function: *mut *mut c_void, library: CUlibrary, _symbol: *const c_char
    ) for library(library) |_| { Err(error::INVALID_VALUE) }

    /// Returns the library of a kernel.
    CUKERNELGETLIBRARY: fn cuKernelGetLibrary(library: *mut CUlibrary, kernel: CUkernel)
        for library_of_kernel(kernel) |found|
    {
        // SAFETY: the caller's.
        unsafe { put(library, std::ptr::without_provenance_mut(found)) }
    }

    /// Returns the function of a kernel in the context that is current.
    CUKERNELGETFUNCTION: fn cuKernelGetFunction(function: *mut CUfunction, kernel: CUkernel)
        for library_of_kernel(kernel) |library|
    {
        // SAFETY: the caller's.
        unsafe { function_of(function, kernel, library) }
    }
}

/// # Safety
/// `function` must be valid for a handle, and `kernel` a kernel of the driver's, which is of this library.
unsafe fn function_of(
    function: *mut CUfunction,
    kernel: CUkernel,
    library: Address,
) -> Result<(), c_int> {
    let sliced = handles::library(library).ok_or(error::INVALID_VALUE)?;
    // SAFETY: the caller's.
    unsafe { sliced.api().cuKernelGetFunction(function, kernel) }.map_err(number)?;
    let context = Restored::of(sliced.device.driver())?.context();
    let module = handles::module_of_library(sliced, library, context.addr());
    // SAFETY: the driver has written it.
    handles::add_function(unsafe { *function }.addr(), module);
    Ok(())
}
