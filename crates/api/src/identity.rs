//! Which build of NVIDIA's driver this is: no entry tells.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::sync::OnceLock;

/// The file that NVIDIA's driver was loaded from: its name ends in the build's
/// number, as `libcuda.so.580.159.04`, and the compiler library beside it is
/// always of the same build. Containers may bring another than the kernel
/// module's, so the file loaded is asked and not the kernel.
pub fn driver_build() -> &'static str {
    // A process has one driver.
    static BUILD: OnceLock<String> = OnceLock::new();
    BUILD.get_or_init(mapped_build)
}

fn mapped_build() -> String {
    let Some(path) = mapped_driver() else {
        return "of unknown build".to_owned();
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.matches('.').count() > 2 {
        return name.into_owned();
    }
    // Without a number in its name, a file is known by its size and its time.
    let metadata = std::fs::metadata(&path).ok();
    let size = metadata.as_ref().map_or(0, std::fs::Metadata::len);
    let time = metadata
        .and_then(|metadata| metadata.modified().ok())
        .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok())
        .map_or(0, |since| since.as_nanos());
    format!("{name} {size} {time}")
}

/// The path of the driver that the process loaded. The dynamic linker knows it at
/// once; where it does not tell, the process's mappings are searched.
fn mapped_driver() -> Option<PathBuf> {
    linked_file("libcuda.so.1", b"cuInit\0").or_else(|| {
        // Nothing after the driver's line is read: the kernel formats hundreds.
        let maps = BufReader::new(File::open("/proc/self/maps").ok()?);
        maps.lines().map_while(Result::ok).find_map(|line| {
            let path = &line[line.find('/')?..];
            let name = path.rsplit('/').next()?;
            name.starts_with("libcuda.so").then(|| path.into())
        })
    })
}

/// The file that the dynamic linker loaded for a library's name. `symbol` is one of
/// the library's, with a NUL.
#[cfg(target_os = "linux")]
fn linked_file(library: &str, symbol: &[u8]) -> Option<PathBuf> {
    use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
    use std::os::unix::ffi::OsStrExt;

    use libloading::os::unix::{Library, RTLD_LAZY};

    /// `Dl_info` of `dlfcn.h`.
    #[repr(C)]
    struct DlInfo {
        file_name: *const c_char,
        file_base: *mut c_void,
        symbol_name: *const c_char,
        symbol: *mut c_void,
    }
    unsafe extern "C" {
        fn dladdr(address: *const c_void, info: *mut DlInfo) -> c_int;
    }
    /// Opens only what is loaded already. The value is that of x86-64 and AArch64.
    const RTLD_NOLOAD: c_int = 4;

    // SAFETY: nothing is loaded by this, so no initialiser runs.
    let library = unsafe { Library::open(Some(library), RTLD_LAZY | RTLD_NOLOAD) }.ok()?;
    // SAFETY: the symbol is not called.
    let entry = unsafe { library.get::<*const c_void>(symbol) }.ok()?;
    let mut info = DlInfo {
        file_name: std::ptr::null(),
        file_base: std::ptr::null_mut(),
        symbol_name: std::ptr::null(),
        symbol: std::ptr::null_mut(),
    };
    // SAFETY: writes the structure, whose layout is that of the header.
    let found = unsafe { dladdr(*entry, &mut info) };
    if found == 0 || info.file_name.is_null() {
        return None;
    }
    // SAFETY: a C string of the dynamic linker's, there while the library is loaded.
    let name = unsafe { CStr::from_ptr(info.file_name) };
    // `libcuda.so.1` is a link to the file whose name has the build's number.
    std::fs::canonicalize(OsStr::from_bytes(name.to_bytes())).ok()
}

#[cfg(not(target_os = "linux"))]
fn linked_file(_: &str, _: &[u8]) -> Option<PathBuf> {
    None
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn the_linker_names_the_file_that_is_mapped() {
        let linked = linked_file("libc.so.6", b"malloc\0").unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert!(maps.contains(&*linked.to_string_lossy()), "{linked:?}");
        assert_eq!(linked_file("libnothing.so.1", b"malloc\0"), None);
        assert_eq!(linked_file("libc.so.6", b"cuInit\0"), None);
    }
}
