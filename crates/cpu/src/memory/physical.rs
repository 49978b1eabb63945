//! Physical memory: anonymous files, which are mapped where they are needed.

use std::fs::File;

use super::sealed_file::{sealed_file, sealed_size};

/// Physical memory, initially zero.
pub struct Physical {
    file: File,
    bytes: u64,
}

impl Physical {
    /// Creates memory of a size, which the system commits page by page on first access.
    pub fn new(bytes: u64) -> std::io::Result<Physical> {
        let file = sealed_file("device memory", bytes)?;
        Ok(Physical { file, bytes })
    }

    /// Imports memory that another process exported.
    pub fn of_file(file: File) -> std::io::Result<Physical> {
        let bytes = sealed_size(&file)?;
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
