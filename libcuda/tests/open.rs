//! The shared library as a program that knows nothing of ptxkit opens it.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::PathBuf;

use libloading::{Library, Symbol};

/// Cargo puts the library beside the test.
fn library() -> Library {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    let name = libloading::library_filename("cuda");
    let path: PathBuf = folder.join(name);
    // SAFETY: the library has no initialisers of its own.
    unsafe { Library::new(&path) }.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn entries_are_there_by_symbol_and_by_get_proc_address() {
    type GetProcAddress =
        unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_uint) -> c_int;
    type GetCount = unsafe extern "C" fn(*mut c_int) -> c_int;
    let library = library();
    // SAFETY: the symbols have these signatures in CUDA's headers, and the
    // results go to variables of their types.
    unsafe {
        let init: Symbol<unsafe extern "C" fn(c_uint) -> c_int> = library.get(b"cuInit").unwrap();
        assert_eq!(init(0), 0);
        let get: Symbol<GetProcAddress> = library.get(b"cuGetProcAddress_v2").unwrap();
        let (mut address, mut status, mut count) = (std::ptr::null_mut(), 9, 0);
        let code = get(
            c"cuDeviceGetCount".as_ptr(),
            &mut address,
            12000,
            0,
            &mut status,
        );
        assert_eq!((code, status), (0, 0));
        let get_count: GetCount = std::mem::transmute(address);
        assert_eq!(get_count(&mut count), 0);
        assert!(count >= 1);
        let code = get(
            c"cuNoSuchEntry".as_ptr(),
            &mut address,
            12000,
            0,
            &mut status,
        );
        assert_eq!((code, status, address), (500, 1, std::ptr::null_mut()));
    }
    // Its threads may still run.
    std::mem::forget(library);
}

#[test]
fn a_private_table_is_asked_for_in_vain() {
    type GetExportTable = unsafe extern "C" fn(*mut *const c_void, *const [u8; 16]) -> c_int;
    let library = library();
    let mut table: *const c_void = std::ptr::dangling();
    // SAFETY: the symbol has this signature; the result goes to a pointer.
    let code = unsafe {
        let get: Symbol<GetExportTable> = library.get(b"cuGetExportTable").unwrap();
        get(&mut table, &[7; 16])
    };
    assert_eq!((code, table), (801, std::ptr::null()));
    std::mem::forget(library);
}

#[test]
fn ptxkit_itself_does_not_take_the_library_for_a_gpu() {
    // Cargo's search path holds the library, as a user's may.
    if let Ok(driver) = api::Api::nvidia() {
        assert!(driver.ptxkitGetLastFault.is_none());
    }
}
