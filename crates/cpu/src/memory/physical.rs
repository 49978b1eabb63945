//! Physical memory: anonymous files, which are mapped where they are needed.

use std::fs::File;

/// Physical memory, initially zero.
pub struct Physical {
    file: File,
    bytes: u64,
}

impl Physical {
    /// Creates memory of a size, which the system commits page by page on first access.
    #[cfg(target_os = "linux")]
    pub fn new(bytes: u64) -> std::io::Result<Physical> {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = File::from(rustix::fs::memfd_create("device memory", flags)?);
        file.set_len(bytes)?;
        Ok(Physical { file, bytes })
    }

    #[cfg(not(target_os = "linux"))]
    pub fn new(_: u64) -> std::io::Result<Physical> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    /// Imports memory that another process exported.
    pub fn of_file(file: File) -> std::io::Result<Physical> {
        let bytes = file.metadata()?.len();
        Ok(Physical { file, bytes })
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Duplicates the file, for another process.
    pub fn export(&self) -> std::io::Result<File> {
        self.file.try_clone()
    }
}
