//! What nvcc's host code registers before `main`: fatbins, with the kernels and the variables
//! that host code names. A fatbin is loaded when something of it is first used.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use api::{CUdeviceptr, CUfunction, CUkernel, CUlibrary};

use crate::context::ready;
use crate::entry::{Place, driver, entries};
use crate::error::{Code, Result};

/// A registered fatbin.
struct Binary {
    /// What nvcc wraps it in; the driver reads it.
    wrapper: usize,
    /// The handle of the driver's library.
    library: OnceLock<Result<usize>>,
    managed: Mutex<Vec<Managed>>,
}

/// A kernel, by the address of the host function that launches it.
struct Kernel {
    binary: Arc<Binary>,
    name: CString,
    handle: OnceLock<usize>,
}

/// A variable, by the address of the host variable that stands for it.
#[derive(Clone)]
struct Variable {
    binary: Arc<Binary>,
    name: CString,
    bytes: usize,
}

/// A managed variable: where host code has its address.
struct Managed {
    place: usize,
    name: CString,
}

#[derive(Default)]
struct Registered {
    binaries: BTreeMap<usize, Arc<Binary>>,
    kernels: BTreeMap<usize, Arc<Kernel>>,
    variables: BTreeMap<usize, Variable>,
    /// Handles of kernels that the driver gave.
    known: BTreeMap<usize, ()>,
}

static REGISTERED: LazyLock<Mutex<Registered>> = LazyLock::new(Mutex::default);

fn registered() -> MutexGuard<'static, Registered> {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Binary {
    fn library(&self) -> Result<CUlibrary> {
        ready()?;
        let load = || {
            let mut library = std::ptr::null_mut();
            let image = std::ptr::with_exposed_provenance::<c_void>(self.wrapper);
            let (numbers, values) = (std::ptr::null_mut(), std::ptr::null_mut());
            driver!(cuLibraryLoadData(
                &mut library,
                image,
                numbers,
                values,
                0,
                numbers,
                values,
                0
            ))?;
            Ok(library.expose_provenance())
        };
        let library = *self.library.get_or_init(load);
        library.map(std::ptr::with_exposed_provenance_mut)
    }

    /// Address and bytes of a variable in the current context.
    fn variable(&self, name: &CStr) -> Result<(CUdeviceptr, usize)> {
        let (mut address, mut bytes) = (0, 0);
        let library = self.library()?;
        driver!(cuLibraryGetGlobal(
            &mut address,
            &mut bytes,
            library,
            name.as_ptr()
        ))?;
        Ok((address, bytes))
    }

    /// Gives host code the addresses of managed variables.
    fn place_managed(&self) -> Result {
        let managed = self.managed.lock().unwrap_or_else(PoisonError::into_inner);
        for variable in managed.iter() {
            let library = self.library()?;
            let (mut address, mut bytes) = (0, 0);
            let name = variable.name.as_ptr();
            driver!(cuLibraryGetManaged(&mut address, &mut bytes, library, name))?;
            let place = std::ptr::with_exposed_provenance_mut::<*mut c_void>(variable.place);
            // SAFETY: nvcc's host code registered the variable for this pointer.
            unsafe { place.write(std::ptr::with_exposed_provenance_mut(address as usize)) };
        }
        Ok(())
    }
}

impl Kernel {
    fn handle(&self) -> Result<CUkernel> {
        let library = self.binary.library()?;
        if let Some(handle) = self.handle.get() {
            return Ok(std::ptr::with_exposed_provenance_mut(*handle));
        }
        let mut kernel = std::ptr::null_mut();
        driver!(cuLibraryGetKernel(&mut kernel, library, self.name.as_ptr()))
            // The fatbin has code for other devices only, or none of this kernel.
            .map_err(|code| {
                if code == Code::NOT_FOUND {
                    Code::INVALID_FUNCTION
                } else {
                    code
                }
            })?;
        self.binary.place_managed()?;
        know(kernel);
        let _ = self.handle.set(kernel.expose_provenance()); // another thread found the same
        Ok(kernel)
    }
}

/// Lets functions of the runtime take a kernel's handle.
pub(crate) fn know(kernel: CUkernel) {
    registered().known.insert(kernel.expose_provenance(), ());
}

/// The kernel of a host function, or of a handle.
pub(crate) fn kernel(function: Place<c_void>) -> Result<CUkernel> {
    let address = function.ptr().addr();
    let found = {
        let registered = registered();
        match registered.kernels.get(&address) {
            Some(kernel) => Arc::clone(kernel),
            None if registered.known.contains_key(&address) => return Ok(function.ptr().cast()),
            None => return Err(Code::INVALID_FUNCTION),
        }
    };
    found.handle()
}

/// The same as a function, which launches take for a kernel of a library.
pub(crate) fn function(function: Place<c_void>) -> Result<CUfunction> {
    ready()?;
    Ok(kernel(function)?.cast())
}

/// Address and bytes of the variable of a symbol.
pub(crate) fn symbol(symbol: Place<c_void>) -> Result<(CUdeviceptr, usize)> {
    ready()?;
    let address = symbol.ptr().addr();
    let found = registered().variables.get(&address).cloned();
    if let Some(variable) = found {
        let (start, bytes) = variable.binary.variable(&variable.name)?;
        return Ok((start, bytes.max(variable.bytes)));
    }
    managed_symbol(symbol.addr()).ok_or(Code::INVALID_SYMBOL)
}

/// Host code names a managed variable by its address.
fn managed_symbol(address: CUdeviceptr) -> Option<(CUdeviceptr, usize)> {
    let binaries: Vec<_> = registered().binaries.values().cloned().collect();
    binaries.iter().find_map(|binary| {
        let managed = binary
            .managed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let names: Vec<_> = managed
            .iter()
            .map(|variable| variable.name.clone())
            .collect();
        drop(managed);
        let found = names.iter().filter_map(|name| binary.variable(name).ok());
        found.into_iter().find(|(start, _)| *start == address)
    })
}

/// # Safety
/// `name` is null or a C string.
unsafe fn name(name: *const c_char) -> CString {
    if name.is_null() {
        CString::default()
    } else {
        // SAFETY: not null, so a C string.
        unsafe { CStr::from_ptr(name) }.to_owned()
    }
}

fn binary(handle: *mut *mut c_void) -> Option<Arc<Binary>> {
    registered().binaries.get(&handle.addr()).cloned()
}

/// Registers a fatbin; the handle is for the calls that register what is in it.
///
/// # Safety
/// `wrapper` is nvcc's, and stays until it is unregistered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFatBinary(wrapper: *mut c_void) -> *mut *mut c_void {
    let binary = Arc::new(Binary {
        wrapper: wrapper.expose_provenance(),
        library: OnceLock::new(),
        managed: Mutex::default(),
    });
    let handle = Arc::as_ptr(&binary).cast_mut().cast::<*mut c_void>();
    registered().binaries.insert(handle.addr(), binary);
    handle
}

/// Ends the registration of what a fatbin has.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterFatBinaryEnd(_binary: *mut *mut c_void) {}

/// Forgets a fatbin, at the end of the program or of a shared library.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaUnregisterFatBinary(handle: *mut *mut c_void) {
    let Some(removed) = registered().binaries.remove(&handle.addr()) else {
        return;
    };
    let mut registered = registered();
    registered
        .kernels
        .retain(|_, kernel| !Arc::ptr_eq(&kernel.binary, &removed));
    registered
        .variables
        .retain(|_, variable| !Arc::ptr_eq(&variable.binary, &removed));
    // The library stays loaded: launches of it may be queued.
}

/// Registers a kernel.
///
/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // as nvcc's host code calls it
pub unsafe extern "C" fn __cudaRegisterFunction(
    handle: *mut *mut c_void,
    host_function: *const c_void,
    _device_function: *mut c_char,
    device_name: *const c_char,
    _thread_limit: c_int,
    _thread: *mut c_void,
    _block: *mut c_void,
    _block_size: *mut c_void,
    _grid_size: *mut c_void,
    _warp_size: *mut c_int,
) {
    let Some(binary) = binary(handle) else { return };
    let kernel = Arc::new(Kernel {
        binary,
        // SAFETY: a C string, by the caller's word.
        name: unsafe { name(device_name) },
        handle: OnceLock::new(),
    });
    registered().kernels.insert(host_function.addr(), kernel);
}

/// Registers a variable.
///
/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // as nvcc's host code calls it
pub unsafe extern "C" fn __cudaRegisterVar(
    handle: *mut *mut c_void,
    host_variable: *mut c_char,
    _device_address: *mut c_char,
    device_name: *const c_char,
    _external: c_int,
    bytes: usize,
    _constant: c_int,
    _global: c_int,
) {
    let Some(binary) = binary(handle) else { return };
    let variable = Variable {
        binary,
        // SAFETY: a C string, by the caller's word.
        name: unsafe { name(device_name) },
        bytes,
    };
    registered()
        .variables
        .insert(host_variable.addr(), variable);
}

/// Registers a managed variable, whose address host code reads from a pointer.
///
/// # Safety
/// `name` is a C string, and `place` stays until the fatbin is unregistered.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // as nvcc's host code calls it
pub unsafe extern "C" fn __cudaRegisterManagedVar(
    handle: *mut *mut c_void,
    place: *mut *mut c_void,
    _device_address: *mut c_char,
    device_name: *const c_char,
    _external: c_int,
    _bytes: usize,
    _constant: c_int,
    _global: c_int,
) {
    let Some(binary) = binary(handle) else { return };
    let variable = Managed {
        place: place.expose_provenance(),
        // SAFETY: a C string, by the caller's word.
        name: unsafe { name(device_name) },
    };
    let mut managed = binary
        .managed
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    managed.push(variable);
}

/// Gives host code the addresses of a fatbin's managed variables; 0 where it cannot.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaInitModule(handle: *mut *mut c_void) -> c_char {
    let place = || match binary(handle) {
        Some(binary) => binary.place_managed(),
        None => Err(Code::INVALID_HANDLE),
    };
    c_char::from(crate::error::outcome(place) == 0)
}

entries! {
    /// The kernel of a host function, for the launches that nvcc's host code makes. Where
    /// there is none, the launch says why.
    fn __cudaGetKernel(result: *mut CUkernel, host_function: *const c_void) {
        result.put(kernel(host_function).unwrap_or(host_function.ptr().cast()))
    }

    /// The kernel of a host function.
    fn cudaGetKernel(result: *mut CUkernel, host_function: *const c_void) {
        result.put(kernel(host_function)?)
    }

    /// The kernel of a host function in the current context.
    fn cudaGetFuncBySymbol(result: *mut CUfunction, host_function: *const c_void) {
        ready()?;
        driver!(cuKernelGetFunction(result.required()?, kernel(host_function)?))
    }

    /// The address of a variable.
    fn cudaGetSymbolAddress(address: *mut *mut c_void, variable: *const c_void) {
        address.put_address(symbol(variable)?.0)
    }

    /// The bytes of a variable.
    fn cudaGetSymbolSize(bytes: *mut usize, variable: *const c_void) {
        bytes.put(symbol(variable)?.1)
    }
}
