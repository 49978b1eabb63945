//! Finds the file of NVIDIA's driver.

use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::ld_cache;

/// The variable with the driver's file.
pub const VARIABLE: &str = "PTXKIT_REAL_LIBCUDA";

const LIBRARY: &str = "libcuda.so.1";

/// Folders of the driver that the dynamic linker's list may lack: CUDA's forward compatibility, WSL, and
/// distributions.
const FOLDERS: &[&str] = &[
    "/usr/local/cuda/compat",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/run/opengl-driver/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
];

/// Returns the files to try, the best first: the file that the variable names, then those in `LD_LIBRARY_PATH`, in
/// the dynamic linker's list and in well-known folders. This library's own file is left out.
pub fn candidates() -> Vec<PathBuf> {
    if let Some(named) = super::variable(VARIABLE) {
        return vec![named.into()];
    }
    let path = super::variable("LD_LIBRARY_PATH").unwrap_or_default();
    let mut files: Vec<PathBuf> = std::env::split_paths(&path)
        .map(|folder| folder.join(LIBRARY))
        .collect();
    let cache = std::fs::read("/etc/ld.so.cache").unwrap_or_default();
    files.extend(ld_cache::files_of(&cache, LIBRARY));
    files.extend(FOLDERS.iter().map(|folder| Path::new(folder).join(LIBRARY)));
    let own = own_file().and_then(|file| identity(&file));
    let mut seen = Vec::new();
    files.retain(|file| match identity(file) {
        Some(found) if Some(found) != own && !seen.contains(&found) => {
            seen.push(found);
            true
        }
        _ => false,
    });
    files
}

/// Device and inode.
fn identity(file: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::metadata(file).ok()?;
    metadata.is_file().then(|| (metadata.dev(), metadata.ino()))
}

/// The file of this library.
fn own_file() -> Option<PathBuf> {
    // SAFETY: a structure of pointers, for which zeros are valid.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is of this library, and the structure is written.
    let found = unsafe { libc::dladdr(own_file as *const _, &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the dynamic linker's string, which lives as long as the library.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())))
}
