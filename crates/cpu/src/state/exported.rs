//! Handles of what processes share: they name a file of the exporting process.

use std::ffi::c_char;
use std::fs::File;
#[cfg(unix)]
use std::io;

use super::status::{Result, Status};
#[cfg(target_os = "linux")]
use crate::memory::{page_size, sealed_size};

/// What a handle says after its title, in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Exported {
    pub(super) process: u64,
    descriptor: u64,
    /// Of the file, so that no other under the same descriptor is taken for it.
    inode: u64,
    pub(super) bytes: u64,
}

impl Exported {
    /// A file of this process, as long as it is open.
    #[cfg(unix)]
    pub(super) fn of(file: &File, bytes: u64) -> io::Result<Exported> {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::MetadataExt;

        Ok(Exported {
            process: u64::from(std::process::id()),
            descriptor: file.as_raw_fd() as u64, // it is not negative
            inode: file.metadata()?.ino(),
            bytes,
        })
    }

    pub(super) fn to_handle(self, title: &[u8; 8]) -> [c_char; 64] {
        let words = [self.process, self.descriptor, self.inode, self.bytes];
        let words = words.map(u64::to_le_bytes);
        let bytes = title.iter().chain(words.as_flattened());
        let mut handle = [0; 64];
        for (place, byte) in handle.iter_mut().zip(bytes) {
            *place = *byte as c_char;
        }
        handle
    }

    pub(super) fn from_handle(title: &[u8; 8], handle: &[c_char; 64]) -> Result<Exported> {
        let word = |at: usize| {
            let bytes = std::array::from_fn(|byte| handle[8 * at + byte] as u8);
            u64::from_le_bytes(bytes)
        };
        if word(0) != u64::from_le_bytes(*title) || word(5) != 0 {
            return Err(Status::INVALID_VALUE.because("no CPU device made this handle"));
        }
        Ok(Exported {
            process: word(1),
            descriptor: word(2),
            inode: word(3),
            bytes: word(4),
        })
    }

    /// The file of the exporting process.
    #[cfg(target_os = "linux")]
    pub(super) fn file(&self) -> Result<File> {
        use std::os::unix::fs::MetadataExt;

        let path = format!("/proc/{}/fd/{}", self.process, self.descriptor);
        let gone = |why: String| {
            Status::INVALID_VALUE.because(format!(
                "what process {} shares cannot be opened: {why}",
                self.process
            ))
        };
        let file = File::options().read(true).write(true).open(path);
        let file = file.map_err(|error| gone(error.to_string()))?;
        let metadata = file.metadata().map_err(|error| gone(error.to_string()))?;
        if metadata.ino() != self.inode {
            return Err(gone("it was freed".into()));
        }
        let bytes = sealed_size(&file).map_err(|error| gone(error.to_string()))?;
        if self.bytes.checked_next_multiple_of(page_size()) != Some(bytes) {
            return Err(gone(format!("it has {bytes} bytes")));
        }
        Ok(file)
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn file(&self) -> Result<File> {
        Err(Status::NOT_SUPPORTED.because("processes share memory on Linux alone"))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::memory::sealed_file;

    #[test]
    fn only_a_sealed_file_of_the_right_size_is_opened() {
        let opened = |file: &File, bytes| Exported::of(file, bytes).unwrap().file();
        let bytes = page_size();
        let file = sealed_file("test", bytes).unwrap();
        opened(&file, bytes).unwrap();
        opened(&file, bytes - 1).unwrap();
        for wrong in [0, bytes + 1, u64::MAX] {
            assert!(opened(&file, wrong).is_err(), "{wrong}");
        }
        let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
        let file = File::from(rustix::fs::memfd_create("test", flags).unwrap());
        file.set_len(bytes).unwrap();
        assert!(opened(&file, bytes).is_err());
    }
}
