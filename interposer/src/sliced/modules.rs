//! The entries that take modules.

use std::ffi::{c_char, c_int, c_uint};
use std::ptr::null_mut;
use std::sync::Arc;

use api::{CUdeviceptr, CUfunction, CUkernel, CUlibrary, CUmodule, CUsurfref, CUtexref};

use super::super::restored::Restored;
use super::super::{NOT_SUPPORTED, number};
use super::handles::{self, SlicedModule};
use super::{entries, error, name, put};

entries! {
    /// Unloads a module.
    CUMODULEUNLOAD: fn cuModuleUnload(module: CUmodule) for module(module) |ours| {
        if ours.library.is_some() {
            // The module of a library ends with it.
            return Err(error::NOT_PERMITTED);
        }
        handles::remove(module.addr());
        ours.sliced.unload()
    }

    /// Finds a function, whose slice is compiled and loaded for it.
    CUMODULEGETFUNCTION: fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, symbol: *const c_char)
        for module(module) |ours|
    {
        // SAFETY: the caller's.
        let symbol = unsafe { name(symbol) }?;
        let kernel = ours.sliced.kernel("cuModuleGetFunction", symbol)?;
        let found = ours.function(module, kernel)?;
        // SAFETY: the caller's.
        unsafe { put(function, found) }
    }

    /// Counts the functions.
    CUMODULEGETFUNCTIONCOUNT: fn cuModuleGetFunctionCount(count: *mut c_uint, module: CUmodule)
        for module(module) |ours|
    {
        // SAFETY: the caller's.
        unsafe { put(count, ours.sliced.code.kernel_names().len() as c_uint) }
    }

    /// Finds all functions, whose slices are compiled and loaded for it.
    CUMODULEENUMERATEFUNCTIONS: fn cuModuleEnumerateFunctions(
        functions: *mut CUfunction, count: c_uint, module: CUmodule
    ) for module(module) |ours| {
        if functions.is_null() {
            return Err(error::INVALID_VALUE);
        }
        let kernels = ours.sliced.kernels("cuModuleEnumerateFunctions", count as usize)?;
        for (index, kernel) in kernels.into_iter().enumerate() {
            let function = ours.function(module, kernel)?;
            // SAFETY: the caller's array has `count` elements.
            unsafe { functions.add(index).write(function) };
        }
        Ok(())
    }

    /// Finds a variable. Its slice is compiled and loaded for it.
    CUMODULEGETGLOBAL_V2: fn cuModuleGetGlobal_v2(
        address: *mut CUdeviceptr, bytes: *mut usize, module: CUmodule, symbol: *const c_char
    ) for module(module) |ours| {
        // SAFETY: the caller's.
        let symbol = unsafe { name(symbol) }?;
        let slice = ours.sliced.variable("cuModuleGetGlobal_v2", symbol)?;
        let _current = ours.make_current()?;
        let slice = ours.module_of(slice)?;
        // SAFETY: the slice is loaded; the rest is the caller's.
        unsafe { ours.sliced.api().cuModuleGetGlobal_v2(address, bytes, slice, symbol.as_ptr()) }
            .map_err(number)
    }

    /// The form with addresses of 32 bits, which no driver of a 64-bit system gives out for a name.
    CUMODULEGETGLOBAL: fn cuModuleGetGlobal(
        _address: *mut c_uint, _bytes: *mut c_uint, module: CUmodule, _symbol: *const c_char
    ) for module(module) |_| { Err(NOT_SUPPORTED) }

    /// Finds a texture reference. Modules that have those are not cut.
    CUMODULEGETTEXREF: fn cuModuleGetTexRef(_reference: *mut CUtexref, module: CUmodule, _symbol: *const c_char)
        for module(module) |_| { Err(error::NOT_FOUND) }

    /// Finds a surface reference. Modules that have those are not cut.
    CUMODULEGETSURFREF: fn cuModuleGetSurfRef(_reference: *mut CUsurfref, module: CUmodule, _symbol: *const c_char)
        for module(module) |_| { Err(error::NOT_FOUND) }

    /// Returns the module of a function.
    CUFUNCGETMODULE: fn cuFuncGetModule(module: *mut CUmodule, function: CUfunction)
        for module_of_function(function) |found|
    {
        // SAFETY: the caller's.
        unsafe { put(module, std::ptr::without_provenance_mut(found)) }
    }
}

impl SlicedModule {
    /// Makes its context current, until the result is dropped.
    fn make_current(&self) -> Result<Restored, c_int> {
        let restored = Restored::of(self.sliced.device.driver())?;
        let context = std::ptr::without_provenance_mut(self.context);
        // SAFETY: a module lives as long as its context.
        unsafe { self.sliced.api().cuCtxSetCurrent(context) }.map_err(number)?;
        Ok(restored)
    }

    /// The function of a kernel in its context. `handle` is its own.
    fn function(self: &Arc<Self>, handle: CUmodule, kernel: CUkernel) -> Result<CUfunction, c_int> {
        let _current = self.make_current()?;
        let mut function = null_mut();
        // SAFETY: the kernel is of a slice that is loaded; writes one handle.
        unsafe { self.sliced.api().cuKernelGetFunction(&mut function, kernel) }.map_err(number)?;
        handles::add_function(function.addr(), handle.addr());
        Ok(function)
    }

    /// The module of a slice in the context that is current.
    fn module_of(&self, slice: CUlibrary) -> Result<CUmodule, c_int> {
        let mut module = null_mut();
        // SAFETY: the slice is loaded; writes one handle.
        unsafe { self.sliced.api().cuLibraryGetModule(&mut module, slice) }.map_err(number)?;
        Ok(module)
    }
}
