//! Files in memory whose size nobody can change.
//!
//! A process that maps a file gets SIGBUS where another makes it shorter. So what processes share
//! is sealed, and only sealed files are mapped.

use std::fs::File;
use std::io;

/// A file of zeros with this size, which it keeps. The name is shown in `/proc`.
#[cfg(target_os = "linux")]
pub(crate) fn sealed_file(name: &str, bytes: u64) -> io::Result<File> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create(name, flags)?);
    file.set_len(bytes)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

/// The size of a file that keeps it, as one of [`sealed_file`].
#[cfg(target_os = "linux")]
pub(crate) fn sealed_size(file: &File) -> io::Result<u64> {
    use rustix::fs::{SealFlags, fcntl_get_seals};

    // Before the size: it may change until the file is sealed.
    let seals = fcntl_get_seals(file)?;
    if !seals.contains(SealFlags::SHRINK | SealFlags::GROW) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the file is not sealed against changes of its size",
        ));
    }
    Ok(file.metadata()?.len())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn sealed_file(_: &str, _: u64) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn sealed_size(_: &File) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_file_keeps_its_size() {
        let file = sealed_file("test", 4096).unwrap();
        for bytes in [0, 4095, 4097, 1 << 30] {
            file.set_len(bytes).unwrap_err();
        }
        assert_eq!(sealed_size(&file).unwrap(), 4096);
    }

    #[test]
    fn other_files_have_no_lasting_size() {
        use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

        let on_disk = File::open(std::env::current_exe().unwrap()).unwrap();
        sealed_size(&on_disk).unwrap_err();
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("test", flags).unwrap());
        for (seal, is_enough) in [(SealFlags::GROW, false), (SealFlags::SHRINK, true)] {
            sealed_size(&file).unwrap_err();
            fcntl_add_seals(&file, seal).unwrap();
            assert_eq!(sealed_size(&file).is_ok(), is_enough);
        }
    }
}
