//! The bytes of a file, without reading what nobody looks at.

use std::fs::File;
use std::io::Read;
use std::ops::Deref;
use std::path::Path;

use memmap2::Mmap;

use terminal::failure::Failure;

/// Below this, reading is as fast.
const WORTH_MAPPING: u64 = 1 << 20;

/// A file's bytes: a large file is mapped, so that libraries of hundreds of
/// megabytes cost the memory of the pages looked at.
pub enum FileBytes {
    Mapped(Mmap),
    Read(Vec<u8>),
}

impl FileBytes {
    /// What standard input has, up to its end.
    pub fn standard_input() -> Result<FileBytes, Failure> {
        let mut bytes = Vec::new();
        match std::io::stdin().read_to_end(&mut bytes) {
            Ok(_) => Ok(FileBytes::Read(bytes)),
            Err(error) => Err(Failure::new(format!("standard input: {error}"))),
        }
    }

    pub fn open(path: &Path) -> Result<FileBytes, Failure> {
        read(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
    }
}

// Only this function: everything else that the programs do is safe.
#[allow(unsafe_code)]
fn read(path: &Path) -> std::io::Result<FileBytes> {
    let file = File::open(path)?;
    if file.metadata()?.is_file() && file.metadata()?.len() >= WORTH_MAPPING {
        // SAFETY: nothing here writes to it. Another program that changes the file meanwhile may
        // change what is read, which is checked as it is read; one that cuts it ends this process,
        // as it does every program that runs from a file.
        if let Ok(map) = unsafe { Mmap::map(&file) } {
            return Ok(FileBytes::Mapped(map));
        }
    }
    std::fs::read(path).map(FileBytes::Read)
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
