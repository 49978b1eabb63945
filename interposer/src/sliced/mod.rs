//! Modules and libraries that are cut into slices, which are compiled when they are used.
//!
//! A slice is a library of the driver's. Kernel and function handles are the driver's own; the handle of the library
//! or module is this library's, and the entries that take one are in `libraries` and `modules`.

mod ahead;
mod handles;
pub mod libraries;
pub mod modules;
pub mod primary;

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use api::{CUkernel, CUlibrary};
use compiles::Saved;
use ptxkit::driver::{self, Context, Device};
use ptxkit::loader::{CacheUse, LoadError, SlicedCode};

use super::restored::Restored;
use super::serve::warns;
use super::{number, report};
use ahead::Ahead;

pub use handles::{add_library, add_module};

/// The numbers of CUDA's errors.
mod error {
    use std::ffi::c_int;

    pub const INVALID_VALUE: c_int = 1;
    pub const INVALID_IMAGE: c_int = 200;
    pub const INVALID_CONTEXT: c_int = 201;
    pub const UNSUPPORTED_PTX_VERSION: c_int = 222;
    pub const COMPILATION_DISABLED: c_int = 223;
    pub const NOT_FOUND: c_int = 500;
    pub const NOT_PERMITTED: c_int = 800;
    pub const UNKNOWN: c_int = 999;
}

/// A library or module that is cut.
pub struct Sliced {
    code: SlicedCode,
    /// In the list of what the program compiles.
    saved: Option<Saved>,
    /// One with the target of the code.
    device: Device,
    slots: Vec<Mutex<Option<Slice>>>,
    ahead: Mutex<Ahead>,
}

/// A slice that is loaded.
#[derive(Clone, Copy)]
struct Slice(CUlibrary);

// SAFETY: a library's handle may be used from any thread; the driver locks by itself.
unsafe impl Send for Slice {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sliced {
    /// Loads nothing.
    pub fn new(code: SlicedCode, device: Device, saved: Option<Saved>) -> Sliced {
        let slots = (0..code.slices()).map(|_| Mutex::default()).collect();
        Sliced {
            ahead: Mutex::new(Ahead::new(code.slices())),
            slots,
            code,
            saved,
            device,
        }
    }

    fn api(&self) -> &'static api::Api {
        self.device.driver().api()
    }

    /// The library of a slice, loaded by the first thread that asks for it.
    fn slice(
        self: &Arc<Self>,
        entry: &'static str,
        slice: usize,
        name: &str,
    ) -> Result<CUlibrary, c_int> {
        let mut slot = lock(self.slots.get(slice).ok_or(error::NOT_FOUND)?);
        if let Some(Slice(library)) = *slot {
            return Ok(library);
        }
        let started = Instant::now();
        let _restored = Restored::of(self.device.driver())?;
        let failed = |error: LoadError| {
            report::failed(entry, name, &error);
            code_of(&error)
        };
        let context = self.context().map_err(|error| failed(error.into()))?;
        let (bytes, cache) = self.code.code_in(&context, slice, None).map_err(failed)?;
        let library = match self.load(&bytes) {
            Ok(library) => library,
            // The cache is never the reason that a load fails.
            Err(code) => {
                let why = format!("the driver refuses it: {code}");
                self.code.discard(slice, &why);
                let (bytes, _) = self.code.code_in(&context, slice, None).map_err(failed)?;
                self.load(&bytes)?
            }
        };
        let is_compiled = cache != CacheUse::Hit;
        report::slice(entry, name, (is_compiled, warns()), started.elapsed());
        *slot = Some(Slice(library));
        ahead::used(self, slice, is_compiled, context.device());
        report::saved(self.saved.as_ref().map(|saved| saved.used(name)));
        Ok(library)
    }

    /// The context in which the compiler runs: the current one, or the first device's.
    fn context(&self) -> Result<Context, driver::Error> {
        // SAFETY: it is used during this call of the program, which keeps its context.
        match unsafe { Context::current(self.device.driver()) }? {
            Some(context) => Ok(context),
            None => Context::primary(&self.device),
        }
    }

    fn load(&self, code: &[u8]) -> Result<CUlibrary, c_int> {
        let mut library = null_mut();
        let (none, no) = (null_mut(), null_mut());
        // SAFETY: the device's compiler made the code, and the driver copies it; writes one handle.
        unsafe {
            self.api().cuLibraryLoadData(
                &mut library,
                code.as_ptr().cast(),
                none,
                no,
                0,
                null_mut(),
                null_mut(),
                0,
            )
        }
        .map_err(number)?;
        Ok(library)
    }

    /// The driver's handle of a kernel, whose slice is loaded for it.
    fn kernel(self: &Arc<Self>, entry: &'static str, name: &CStr) -> Result<CUkernel, c_int> {
        let text = name.to_str().map_err(|_| error::NOT_FOUND)?;
        let slice = self.code.slice_of(text).map_err(|_| error::NOT_FOUND)?;
        let library = self.slice(entry, slice, text)?;
        let mut kernel = null_mut();
        // SAFETY: the library is loaded and the name ends in NUL; writes one handle.
        unsafe {
            self.api()
                .cuLibraryGetKernel(&mut kernel, library, name.as_ptr())
        }
        .map_err(number)?;
        Ok(kernel)
    }

    /// The library of the slice that has a variable.
    fn variable(self: &Arc<Self>, entry: &'static str, name: &CStr) -> Result<CUlibrary, c_int> {
        let text = name.to_str().map_err(|_| error::NOT_FOUND)?;
        let slice = self.code.slice_of_variable(text);
        self.slice(entry, slice.map_err(|_| error::NOT_FOUND)?, text)
    }

    /// Compiles a slice that is not in the cache, for the time when it is used. Returns whether it was compiled.
    fn prepare(&self, context: &Context, slice: usize) -> bool {
        if self.code.is_cached(slice) {
            return false;
        }
        // An error is reported when the slice is used.
        let made = self.code.code_in(context, slice, Some(1));
        matches!(made, Ok((_, CacheUse::Miss)))
    }

    /// The driver's handles of the first `count` kernels, whose slices are loaded for it.
    fn kernels(
        self: &Arc<Self>,
        entry: &'static str,
        count: usize,
    ) -> Result<Vec<CUkernel>, c_int> {
        let names = self.code.kernel_names().into_iter().take(count);
        names
            .map(|name| {
                let name = CString::new(name).map_err(|_| error::NOT_FOUND)?;
                self.kernel(entry, &name)
            })
            .collect()
    }

    /// Unloads all slices. Returns the driver's error of the first that fails.
    fn unload(&self) -> Result<(), c_int> {
        let mut failed = Ok(());
        for slot in &self.slots {
            if let Some(Slice(library)) = lock(slot).take() {
                // SAFETY: loaded once, and unloaded once. The program's handle of the library ends too.
                let unloaded = unsafe { self.api().cuLibraryUnload(library) };
                failed = failed.and(unloaded.map_err(number));
            }
        }
        failed
    }
}

/// The driver's error for a slice that cannot be made.
fn code_of(error: &LoadError) -> c_int {
    match error {
        LoadError::Driver(error) => error.code().map_or(error::INVALID_IMAGE, |code| code.0),
        LoadError::CompileForbidden { .. } | LoadError::JitDisabled { .. } => {
            error::COMPILATION_DISABLED
        }
        LoadError::PtxUsesNewer { .. } | LoadError::PtxTooNew { .. } => {
            error::UNSUPPORTED_PTX_VERSION
        }
        _ => error::INVALID_IMAGE,
    }
}

/// The result of an entry for the program. No panic reaches it.
fn answer(entry: &'static str, body: impl FnOnce() -> Result<(), c_int>) -> c_int {
    match super::without_panic(body) {
        Some(Ok(())) => 0,
        Some(Err(code)) => code,
        None => {
            report::forwarded(entry, "an internal error: please report it");
            error::UNKNOWN
        }
    }
}

/// A name that a program passes.
///
/// # Safety
/// It must be null or a C string that lives as long as the result is used.
unsafe fn name<'a>(name: *const c_char) -> Result<&'a CStr, c_int> {
    if name.is_null() {
        return Err(error::INVALID_VALUE);
    }
    // SAFETY: the caller's.
    Ok(unsafe { CStr::from_ptr(name) })
}

/// Writes a result to the program's place for it.
///
/// # Safety
/// The place must be null or valid for the value.
unsafe fn put<T>(place: *mut T, value: T) -> Result<(), c_int> {
    if place.is_null() {
        return Err(error::INVALID_VALUE);
    }
    // SAFETY: the caller's.
    unsafe { place.write(value) };
    Ok(())
}

/// Defines entries of the driver. Calls with a handle of this library get the answer of the block, and all others are
/// forwarded.
macro_rules! entries {
    ($(
        $(#[$doc:meta])*
        $place:ident: fn $name:ident($($argument:ident: $type:ty),*)
            for $find:ident($handle:ident) |$ours:pat_param| $body:block
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As CUDA's documentation of the entry says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> std::ffi::c_int {
            if let Some($ours) = $crate::sliced::handles::$find($handle.addr()) {
                return $crate::sliced::answer(stringify!($name), || $body);
            }
            type Entry = unsafe extern "C" fn($($type),*) -> std::ffi::c_int;
            // SAFETY: the driver's function of this name has this type.
            let entry: Entry = unsafe { std::mem::transmute($crate::forward::real($crate::forward::$place)) };
            // SAFETY: the caller's.
            unsafe { entry($($argument),*) }
        }
    )*};
}
use entries;
