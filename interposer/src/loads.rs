//! The entries that load modules and libraries. If the image has PTX that the driver would compile, the driver is
//! given code from ptxkit's cache instead.

use std::borrow::Cow;
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;

use super::forward::{self, real};
use super::serve::{Kind, Served, serve};
use super::{image_bytes, options};
use ptxkit::jit::JitOptions;

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

/// Calls the driver with an image of this library. Returns whether it was loaded: otherwise the program's own follows.
fn loads(entry: &str, served: &Served, load: impl FnOnce(*const c_void) -> c_int) -> bool {
    let is_loaded = load(served.image.as_ptr().cast()) == 0;
    if is_loaded {
        served.report(entry);
    } else {
        super::report::forwarded(entry, "the driver refuses the code");
    }
    is_loaded
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
    let served = unsafe { serve_data("cuModuleLoadFatBinary", fatbin) };
    if let Some(served) = served
        // SAFETY: the image is whole; the handle is the caller's place.
        && loads("cuModuleLoadFatBinary", &served, |code| unsafe { data(module, code) })
    {
        return 0;
    }
    // SAFETY: the caller's.
    unsafe { entry(module, fatbin) }
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
    let served = unsafe { serve_data(name, image) };
    if let Some(served) = served
        // SAFETY: the image is whole; the handle is the caller's place.
        && loads(name, &served, |code| unsafe { entry(module, code) })
    {
        return 0;
    }
    // SAFETY: the caller's.
    unsafe { entry(module, image) }
}

/// # Safety
/// As for `cuModuleLoadData`.
unsafe fn serve_data(name: &'static str, image: *const c_void) -> Option<Served> {
    // SAFETY: the caller's.
    let bytes = || unsafe { image_bytes::of_image(image) };
    serve(name, Kind::Module, bytes, || Ok(JitOptions::default()))
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
    if let Some(served) = serve(NAME, Kind::Module, bytes, options)
        // SAFETY: the image is whole; the rest is the caller's.
        && loads(NAME, &served, |code| unsafe {
            entry(module, code, count, names, values)
        })
    {
        return 0;
    }
    // SAFETY: the caller's.
    unsafe { entry(module, image, count, names, values) }
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
    if let Some(served) = serve(NAME, Kind::Module, bytes, || Ok(JitOptions::default()))
        // SAFETY: the image is whole; the handle is the caller's place.
        && loads(NAME, &served, |code| unsafe { data(module, code) })
    {
        return 0;
    }
    // SAFETY: the caller's.
    unsafe { entry(module, file) }
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
    const NAME: &str = "cuLibraryLoadData";
    // SAFETY: the driver's function of this name has this type.
    let entry: LoadLibrary = unsafe { std::mem::transmute(real(forward::CULIBRARYLOADDATA)) };
    let load = |image: *const c_void| {
        // SAFETY: the image is the caller's or whole; the rest is the caller's.
        unsafe {
            entry(
                library,
                image,
                names,
                values,
                count,
                library_names,
                library_values,
                library_count,
            )
        }
    };
    // SAFETY: the caller's.
    let bytes = || unsafe { image_bytes::of_image(image) };
    // SAFETY: the caller's.
    let options = || unsafe { options::read(count, names, values) };
    if let Some(served) = serve(NAME, Kind::Library, bytes, options)
        && loads(NAME, &served, load)
    {
        // SAFETY: the caller's.
        if unsafe { is_preserved(library_names, library_count) } {
            // The driver refers to it until the library is unloaded.
            std::mem::forget(served);
        }
        return 0;
    }
    load(image)
}

/// # Safety
/// The array must have `count` elements.
unsafe fn is_preserved(names: *const c_uint, count: c_uint) -> bool {
    if names.is_null() || count == 0 {
        return false;
    }
    // SAFETY: the caller's.
    let names = unsafe { std::slice::from_raw_parts(names, count as usize) };
    names.contains(&BINARY_IS_PRESERVED)
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
    const NAME: &str = "cuLibraryLoadFromFile";
    // SAFETY: both of the driver's functions have this type: the second argument is a file or an image.
    let [entry, data]: [LoadLibrary; 2] = unsafe {
        [
            std::mem::transmute::<*mut c_void, LoadLibrary>(real(forward::CULIBRARYLOADFROMFILE)),
            std::mem::transmute::<*mut c_void, LoadLibrary>(real(forward::CULIBRARYLOADDATA)),
        ]
    };
    let load = |entry: LoadLibrary, image: *const c_void| {
        // SAFETY: the file or the image is the caller's, or whole; the rest is the caller's.
        unsafe {
            entry(
                library,
                image,
                names,
                values,
                count,
                library_names,
                library_values,
                library_count,
            )
        }
    };
    // SAFETY: the caller's.
    let bytes = || unsafe { read_file(file) };
    // SAFETY: the caller's.
    let options = || unsafe { options::read(count, names, values) };
    if let Some(served) = serve(NAME, Kind::Library, bytes, options)
        && loads(NAME, &served, |code| load(data, code))
    {
        // SAFETY: the caller's.
        if unsafe { is_preserved(library_names, library_count) } {
            std::mem::forget(served);
        }
        return 0;
    }
    load(entry, file.cast())
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
