//! Reads or maps the bytes of a file.

use std::ops::Deref;
use std::path::Path;

use input::{Input, ShowName as _};
use memmap2::Mmap;

use terminal::failure::Failure;

/// The size from which mapping is faster than reading.
const MIN_MAPPED_SIZE: u64 = 1 << 20;

/// The bytes of a file. A large file is mapped, so that only the accessed pages of libraries with
/// hundreds of megabytes use memory.
pub enum FileBytes {
    Mapped(Mmap),
    Read(Vec<u8>),
}

impl FileBytes {
    /// Reads standard input to its end.
    pub fn standard_input() -> Result<FileBytes, Failure> {
        input::standard_input()
            .map(FileBytes::Read)
            .map_err(|error| Failure::new(format!("standard input: {error}")))
    }

    pub fn open(path: &Path) -> Result<FileBytes, Failure> {
        read(path).map_err(|error| Failure::new(format!("{}: {error}", path.shown())))
    }
}

// Only this function has unsafe code.
#[allow(unsafe_code)]
fn read(path: &Path) -> std::io::Result<FileBytes> {
    let input = Input::open(path)?;
    if input.length() >= MIN_MAPPED_SIZE {
        // SAFETY: the mapping is read-only. If another program changes the file, the contents change,
        // which are validated as untrusted bytes. If it truncates the file, this process is killed, as
        // for any mapped executable.
        if let Ok(map) = unsafe { Mmap::map(input.file()) } {
            return Ok(FileBytes::Mapped(map));
        }
    }
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes)?;
    Ok(FileBytes::Read(bytes))
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            FileBytes::Mapped(map) => map,
            FileBytes::Read(bytes) => bytes,
        }
    }
}
