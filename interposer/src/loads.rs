//! The entries that load modules and libraries. If the image has PTX that the driver would compile, the driver is
//! given code from ptxkit's cache instead.

use std::borrow::Cow;
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;

use super::forward::{self, real};
use super::options::{self, Options};
use super::serve::{Decision, Kind, Served, serve};
use super::{image_bytes, sliced};

type Handle = *mut *mut c_void;
type Load = unsafe extern "C" fn(Handle, *const c_void) -> c_int;
type LoadEx =
    unsafe extern "C" fn(Handle, *const c_void, c_uint, *const c_uint, *const *mut c_void) -> c_int;
type LoadFile = unsafe extern "C" fn(Handle, *const c_char) -> c_int;
type LoadLibrary = unsafe extern "C" fn(
    Handle,
    *const c_void,
    *const c_uint,
    *const *mut c_void,
    c_uint,
    *const c_uint,
    *const *mut c_void,
    c_uint,
) -> c_int;

/// `CU_LIBRARY_BINARY_IS_PRESERVED`: the driver refers to the image after the call.
const BINARY_IS_PRESERVED: c_uint = 1;

/// Larger files are left to the driver.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Calls the driver with the image that was decided for: `load` with this library's, otherwise `forward`. Writes the
/// handle of a module or library that is cut. Returns the entry's result, and the image if it was loaded.
///
/// # Safety
/// `handle` must be null or valid for a handle.
unsafe fn decided(
    (entry, kind, handle): (&str, Kind, Handle),
    decision: Decision,
    load: impl FnOnce(*const c_void) -> c_int,
    forward: impl FnOnce() -> c_int,
) -> (c_int, Option<Served>) {
    match decision {
        Decision::Serve(served) if load(served.image.as_ptr().cast()) == 0 => {
            served.report(entry);
            (0, Some(served))
        }
        Decision::Serve(_) => {
            super::report::forwarded(entry, "the driver refuses the code");
            (forward(), None)
        }
        Decision::Forward => (forward(), None),
        Decision::Cut(..) if handle.is_null() => (forward(), None),
        Decision::Cut(cut, context) => {
            let made = match kind {
                Kind::Library => sliced::add_library(cut),
                Kind::Module | Kind::Link => sliced::add_module(cut, context),
            };
            // SAFETY: the caller's.
            unsafe { handle.write(made) };
            (0, None)
        }
        Decision::Refuse(code) => (code, None),
    }
}

/// Loads a module.
///
/// # Safety
/// As CUDA's documentation of the entry says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(module: Handle, image: *const c_void) -> c_int {
    // SAFETY: the driver's function of this name has this type.
    let entry: Load = unsafe { std::mem::transmute(real(forward::CUMODULELOADDATA)) };
    // SAFETY: the caller's.
    unsafe { load_data("cuModuleLoadData", entry, module, image) }
}

/// Loads a module from a fatbin.
///
/// # Safety
/// As CUDA's documentation of the entry says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadFatBinary(module: Handle, fatbin: *const c_void) -> c_int {
    // SAFETY: the driver's function of this name has this type.
    let entry: Load = unsafe { std::mem::transmute(real(forward::CUMODULELOADFATBINARY)) };
    // SAFETY: the driver's function of this name has this type.
    let data: Load = unsafe { std::mem::transmute(real(forward::CUMODULELOADDATA)) };
    // SAFETY: the caller's.
    let decision = unsafe { decide_on_data("cuModuleLoadFatBinary", fatbin) };
    // SAFETY: the image is whole; the handle is the caller's place.
    let load = |code| unsafe { data(module, code) };
    // SAFETY: the caller's.
    let forward = || unsafe { entry(module, fatbin) };
    let call = ("cuModuleLoadFatBinary", Kind::Module, module);
    // SAFETY: the caller's.
    unsafe { decided(call, decision, load, forward) }.0
}

/// # Safety
/// As for `cuModuleLoadData`.
unsafe fn load_data(
    name: &'static str,
    entry: Load,
    module: Handle,
    image: *const c_void,
) -> c_int {
    // SAFETY: the caller's.
    let decision = unsafe { decide_on_data(name, image) };
    // SAFETY: the image is whole, or the caller's; the handle is the caller's place.
    let load = |image| unsafe { entry(module, image) };
    let call = (name, Kind::Module, module);
    // SAFETY: the caller's.
    unsafe { decided(call, decision, load, || load(image)) }.0
}

/// # Safety
/// As for `cuModuleLoadData`.
unsafe fn decide_on_data(name: &'static str, image: *const c_void) -> Decision {
    // SAFETY: the caller's.
    let bytes = || unsafe { image_bytes::of_image(image) };
    serve(name, Kind::Module, bytes, || Ok(Options::none()))
}

/// Loads a module, with options.
///
/// # Safety
/// As CUDA's documentation of the entry says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadDataEx(
    module: Handle,
    image: *const c_void,
    count: c_uint,
    names: *const c_uint,
    values: *const *mut c_void,
) -> c_int {
    const NAME: &str = "cuModuleLoadDataEx";
    // SAFETY: the driver's function of this name has this type.
    let entry: LoadEx = unsafe { std::mem::transmute(real(forward::CUMODULELOADDATAEX)) };
    // SAFETY: the caller's.
    let bytes = || unsafe { image_bytes::of_image(image) };
    // SAFETY: the caller's.
    let options = || unsafe { options::read(count, names, values) };
    // SAFETY: the image is whole, or the caller's; the rest is the caller's.
    let load = |image| unsafe { entry(module, image, count, names, values) };
    let decision = serve(NAME, Kind::Module, bytes, options);
    let call = (NAME, Kind::Module, module);
    // SAFETY: the caller's.
    unsafe { decided(call, decision, load, || load(image)) }.0
}

/// Loads a module from a file.
///
/// # Safety
/// As CUDA's documentation of the entry says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoad(module: Handle, file: *const c_char) -> c_int {
    const NAME: &str = "cuModuleLoad";
    // SAFETY: the driver's function of this name has this type.
    let entry: LoadFile = unsafe { std::mem::transmute(real(forward::CUMODULELOAD)) };
    // SAFETY: the driver's function of this name has this type.
    let data: Load = unsafe { std::mem::transmute(real(forward::CUMODULELOADDATA)) };
    // SAFETY: the caller's.
    let bytes = || unsafe { read_file(file) };
    let decision = serve(NAME, Kind::Module, bytes, || Ok(Options::none()));
    // SAFETY: the image is whole; the handle is the caller's place.
    let load = |code| unsafe { data(module, code) };
    // SAFETY: the caller's.
    let forward = || unsafe { entry(module, file) };
    let call = (NAME, Kind::Module, module);
    // SAFETY: the caller's.
    unsafe { decided(call, decision, load, forward) }.0
}

/// The arguments of a load of a library, other than the image or the file.
struct LibraryArguments {
    library: Handle,
    names: *const c_uint,
    values: *const *mut c_void,
    count: c_uint,
    library_names: *const c_uint,
    library_values: *const *mut c_void,
    library_count: c_uint,
}

impl LibraryArguments {
    /// Calls a function of the driver with an image or a file.
    ///
    /// # Safety
    /// As CUDA's documentation of the entry says.
    unsafe fn call(&self, number: usize, image: *const c_void) -> c_int {
        // SAFETY: both of the driver's functions have this type.
        let entry: LoadLibrary = unsafe { std::mem::transmute(real(number)) };
        // SAFETY: the caller's.
        unsafe {
            entry(
                self.library,
                image,
                self.names,
                self.values,
                self.count,
                self.library_names,
                self.library_values,
                self.library_count,
            )
        }
    }

    /// Loads the library from this library's image, or calls the program's entry.
    ///
    /// # Safety
    /// As CUDA's documentation of the entry says.
    unsafe fn load<'a>(
        &self,
        name: &'static str,
        bytes: impl FnOnce() -> Option<Cow<'a, [u8]>>,
        (number, image): (usize, *const c_void),
    ) -> c_int {
        // SAFETY: the caller's.
        let library_options = unsafe { self.library_options() };
        let options = || {
            // SAFETY: the caller's.
            let mut options = unsafe { options::read(self.count, self.names, self.values) }?;
            options.can_be_cut &= library_options
                .iter()
                .all(|option| *option == BINARY_IS_PRESERVED);
            Ok(options)
        };
        let decision = serve(name, Kind::Library, bytes, options);
        // SAFETY: the image is whole; the rest is the caller's.
        let load = |code| unsafe { self.call(forward::CULIBRARYLOADDATA, code) };
        // SAFETY: the caller's.
        let forward = || unsafe { self.call(number, image) };
        let call = (name, Kind::Library, self.library);
        // SAFETY: the caller's.
        let (result, served) = unsafe { decided(call, decision, load, forward) };
        if library_options.contains(&BINARY_IS_PRESERVED) {
            // The driver refers to the image until the library is unloaded.
            std::mem::forget(served);
        }
        result
    }

    /// The options of the library (`CUlibraryOption`).
    ///
    /// # Safety
    /// The array must have `library_count` elements.
    unsafe fn library_options(&self) -> &[c_uint] {
        if self.library_names.is_null() || self.library_count == 0 {
            return &[];
        }
        let count = self.library_count as usize;
        // SAFETY: the caller's.
        unsafe { std::slice::from_raw_parts(self.library_names, count) }
    }
}

/// Loads a library.
///
/// # Safety
/// As CUDA's documentation of the entry says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLibraryLoadData(
    library: Handle,
    image: *const c_void,
    names: *const c_uint,
    values: *const *mut c_void,
    count: c_uint,
    library_names: *const c_uint,
    library_values: *const *mut c_void,
    library_count: c_uint,
) -> c_int {
    let arguments = LibraryArguments {
        library,
        names,
        values,
        count,
        library_names,
        library_values,
        library_count,
    };
    // SAFETY: the caller's.
    let bytes = || unsafe { image_bytes::of_image(image) };
    let entry = (forward::CULIBRARYLOADDATA, image);
    // SAFETY: the caller's.
    unsafe { arguments.load("cuLibraryLoadData", bytes, entry) }
}

/// Loads a library from a file.
///
/// # Safety
/// As CUDA's documentation of the entry says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLibraryLoadFromFile(
    library: Handle,
    file: *const c_char,
    names: *const c_uint,
    values: *const *mut c_void,
    count: c_uint,
    library_names: *const c_uint,
    library_values: *const *mut c_void,
    library_count: c_uint,
) -> c_int {
    let arguments = LibraryArguments {
        library,
        names,
        values,
        count,
        library_names,
        library_values,
        library_count,
    };
    // SAFETY: the caller's.
    let bytes = || unsafe { read_file(file) };
    let entry = (forward::CULIBRARYLOADFROMFILE, file.cast());
    // SAFETY: the caller's.
    unsafe { arguments.load("cuLibraryLoadFromFile", bytes, entry) }
}

/// The bytes of a file of moderate size, up to the NUL if it is text.
///
/// # Safety
/// `file` must be null or a C string.
unsafe fn read_file<'a>(file: *const c_char) -> Option<Cow<'a, [u8]>> {
    if file.is_null() {
        return None;
    }
    // SAFETY: the caller's.
    let name = unsafe { CStr::from_ptr(file) };
    let opened = File::open(OsStr::from_bytes(name.to_bytes())).ok()?;
    let metadata = opened.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return None;
    }
    let mut bytes = Vec::new();
    opened.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    if bytes.starts_with(b"\x7fELF") {
        return None;
    }
    Some(Cow::Owned(bytes))
}
