//! Which build of NVIDIA's driver this is: no entry tells.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
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
    // `libcuda.so.1` is a link to the file whose name has the build's number: one step
    // nearly always, and the whole way costs a system call for each folder.
    let of_build = |path: &Path| {
        let name = path.file_name()?.to_string_lossy();
        (name.matches('.').count() > 2).then(|| name.into_owned())
    };
    let target = std::fs::read_link(&path).ok();
    if let Some(name) = of_build(target.as_deref().unwrap_or(&path)) {
        return name;
    }
    let path = std::fs::canonicalize(&path).unwrap_or(path);
    if let Some(name) = of_build(&path) {
        return name;
    }
    // Without a number in its name, a file is known by what the linker wrote into it: that is
    // equal on all machines that have the file.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if let Some(id) = build_id(&path) {
        return format!("{name} {id}");
    }
    let metadata = std::fs::metadata(&path).ok();
    let size = metadata.as_ref().map_or(0, std::fs::Metadata::len);
    let time = metadata
        .and_then(|metadata| metadata.modified().ok())
        .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok())
        .map_or(0, |since| since.as_nanos());
    format!("{name} {size} {time}")
}

/// The build id of an ELF file of 64 bits, in hexadecimal digits: the note `GNU` of type 3.
fn build_id(path: &Path) -> Option<String> {
    const NOTES: u32 = 4;
    const BUILD_ID: u32 = 3;
    /// Far above what any library has, so that no length is believed.
    const MAX_HEADERS: usize = 256;
    const MAX_NOTES: usize = 1 << 16;
    let mut file = File::open(path).ok()?;
    let header = read_at(&mut file, 0, 64)?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let count = usize::from(number(&header, 56).map(u16::from_le_bytes)?).min(MAX_HEADERS);
    let start = number(&header, 32).map(u64::from_le_bytes)?;
    let headers = read_at(&mut file, start, count * 56)?;
    headers.chunks_exact(56).find_map(|header| {
        if number(header, 0).map(u32::from_le_bytes)? != NOTES {
            return None;
        }
        let start = number(header, 8).map(u64::from_le_bytes)?;
        let length = number(header, 32).map(u64::from_le_bytes)?;
        let length = usize::try_from(length).ok()?.min(MAX_NOTES);
        let notes = read_at(&mut file, start, length)?;
        let mut rest = &notes[..];
        // Lengths of name and text, type; name and text, each padded to four bytes.
        while let Some(kind) = number(rest, 8).map(u32::from_le_bytes) {
            let length = |at| Some(number(rest, at).map(u32::from_le_bytes)? as usize);
            let (name_length, text_length) = (length(0)?, length(4)?);
            let text_start = name_length.checked_next_multiple_of(4)?.checked_add(12)?;
            let text = rest.get(text_start..text_start.checked_add(text_length)?)?;
            if kind == BUILD_ID && rest.get(12..12 + name_length) == Some(b"GNU\0") {
                return Some(text.iter().map(|byte| format!("{byte:02x}")).collect());
            }
            rest = rest.get(text_start + text_length.checked_next_multiple_of(4)?..)?;
        }
        None
    })
}

fn read_at(file: &mut File, start: u64, length: usize) -> Option<Vec<u8>> {
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut bytes = vec![0; length];
    file.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// The path of the driver that the process loaded. The dynamic linker knows it at
/// once; where it does not tell, the process's mappings are searched.
fn mapped_driver() -> Option<PathBuf> {
    if let Some(file) = super::driver_file() {
        return Some(file.clone());
    }
    linked_file("libcuda.so.1").or_else(|| {
        // Nothing after the driver's line is read: the kernel formats hundreds.
        let maps = BufReader::new(File::open("/proc/self/maps").ok()?);
        maps.lines().map_while(Result::ok).find_map(|line| {
            let path = &line[line.find('/')?..];
            let name = path.rsplit('/').next()?;
            name.starts_with("libcuda.so").then(|| path.into())
        })
    })
}

/// The file that the dynamic linker loaded for a library's name.
#[cfg(target_os = "linux")]
fn linked_file(library: &str) -> Option<PathBuf> {
    use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
    use std::os::unix::ffi::OsStrExt;

    use libloading::os::unix::{Library, RTLD_LAZY};

    /// `link_map` of `link.h`, as far as it is public.
    #[repr(C)]
    struct LinkMap {
        base: usize,
        name: *const c_char,
    }
    unsafe extern "C" {
        fn dlinfo(handle: *mut c_void, request: c_int, info: *mut c_void) -> c_int;
    }
    /// Opens only what is loaded already. The value is that of x86-64 and AArch64.
    const RTLD_NOLOAD: c_int = 4;
    /// Asks for the library's `link_map`.
    const RTLD_DI_LINKMAP: c_int = 2;

    // SAFETY: nothing is loaded by this, so no initialiser runs.
    let library = unsafe { Library::open(Some(library), RTLD_LAZY | RTLD_NOLOAD) }.ok()?;
    let handle = library.into_raw();
    let mut map: *const LinkMap = std::ptr::null();
    // SAFETY: the handle is open; this request writes one pointer.
    let failed = unsafe { dlinfo(handle, RTLD_DI_LINKMAP, (&raw mut map).cast()) };
    let found = (failed == 0 && !map.is_null()).then(|| {
        // SAFETY: the map and its name are the dynamic linker's, there while the library is loaded.
        let name = unsafe { CStr::from_ptr((*map).name) };
        PathBuf::from(OsStr::from_bytes(name.to_bytes()))
    });
    // SAFETY: the handle is this function's own; its drop closes it.
    drop(unsafe { Library::from_raw(handle) });
    found
}

#[cfg(not(target_os = "linux"))]
fn linked_file(_: &str) -> Option<PathBuf> {
    None
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn the_linker_names_the_file_that_is_mapped() {
        let linked = linked_file("libc.so.6").unwrap();
        let linked = std::fs::canonicalize(linked).unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert!(maps.contains(&*linked.to_string_lossy()), "{linked:?}");
        assert_eq!(linked_file("libnothing.so.1"), None);
    }

    #[test]
    fn a_copy_of_a_library_has_its_build_id_and_another_time() {
        let libc = std::fs::canonicalize(linked_file("libc.so.6").unwrap()).unwrap();
        let id = build_id(&libc).unwrap();
        assert!(id.len() >= 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let folder = std::env::temp_dir().join(format!("ptxkit-build-id-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let copy = folder.join("copy.so");
        let bytes = std::fs::read(&libc).unwrap();
        std::fs::write(&copy, &bytes).unwrap();
        assert_eq!(build_id(&copy), Some(id));
        // Whatever the lengths say, and wherever it ends.
        for at in 0..4096.min(bytes.len()) {
            if at % 16 == 0 {
                std::fs::write(&copy, &bytes[..at]).unwrap();
                build_id(&copy);
            }
        }
        for at in (0..1024).step_by(4) {
            let mut bad = bytes[..4096].to_vec();
            bad[at..at + 4].fill(0xff);
            std::fs::write(&copy, &bad).unwrap();
            build_id(&copy);
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
