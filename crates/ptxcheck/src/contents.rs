//! The bytes of a file to check.
//!
//! A large file is read into huge pages, where the system has some: a page fault for each 4 KiB of
//! it takes longer than the copy. The file itself is not mapped: the text would change with it.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Deref;
use std::path::Path;

use input::Input;
use memmap2::MmapMut;

/// A huge page has to be cleared whole, which takes as long as this many bytes in small ones.
const LARGE: usize = 512 << 10;

/// The size of a huge page, which is also its alignment.
const HUGE: usize = 2 << 20;

/// The bytes of a file.
#[derive(Debug)]
pub enum Contents {
    Heap(Vec<u8>),
    Pages(Pages),
}

impl Contents {
    /// # Errors
    /// The file cannot be read.
    pub fn read(path: &Path) -> io::Result<Contents> {
        let input = Input::open(path)?;
        let mut bytes = Vec::new();
        if let Some(mut pages) = Pages::with_space(input.length()) {
            if pages.fill(input.file())? {
                return Ok(Contents::Pages(pages));
            }
            // It has grown.
            bytes.extend_from_slice(&pages);
        }
        input.read_to_end(&mut bytes)?;
        Ok(Contents::Heap(bytes))
    }
}

impl Deref for Contents {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Contents::Heap(bytes) => bytes,
            Contents::Pages(pages) => pages,
        }
    }
}

/// Anonymous memory, in which the bytes begin at a huge page.
#[derive(Debug)]
pub struct Pages {
    memory: MmapMut,
    start: usize,
    length: usize,
}

impl Pages {
    /// For more than `length` bytes; `None` where that does not pay or there is no such memory.
    fn with_space(length: u64) -> Option<Pages> {
        let length = usize::try_from(length).ok()?;
        if !cfg!(target_os = "linux") || length < LARGE {
            return None;
        }
        let space = length.checked_add(1)?.checked_next_multiple_of(HUGE)?;
        let memory = MmapMut::map_anon(space.checked_add(HUGE)?).ok()?;
        let start = memory.as_ptr().align_offset(HUGE).min(HUGE);
        // Without huge pages it is memory all the same.
        #[cfg(target_os = "linux")]
        let _ = memory.advise_range(memmap2::Advice::HugePage, start, space);
        Some(Pages {
            memory,
            start,
            length: 0,
        })
    }

    /// Reads a file to its end; `false` if there is no space for all of it.
    fn fill(&mut self, mut file: &File) -> io::Result<bool> {
        loop {
            match file.read(&mut self.memory[self.start + self.length..]) {
                Ok(0) => return Ok(self.start + self.length < self.memory.len()),
                Ok(more) => self.length += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..][..self.length]
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;

    #[test]
    fn a_file_is_read_as_it_is() {
        for length in [0, 1, LARGE - 1, LARGE, HUGE - 1, HUGE, 2 * HUGE + 5] {
            let bytes: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(&bytes).unwrap();
            assert!(*Contents::read(file.path()).unwrap() == *bytes, "{length}");
        }
        assert!(Contents::read(Path::new("/")).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_file_has_grown_by_shows() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes = vec![7; 3 * HUGE];
        file.write_all(&bytes).unwrap();
        for (expected, all) in [(3 * HUGE, true), (LARGE, false)] {
            file.rewind().unwrap();
            let mut pages = Pages::with_space(expected as u64).unwrap();
            assert_eq!(pages.fill(&file).unwrap(), all);
            assert!(all == (*pages == *bytes) && bytes.starts_with(&pages));
        }
        assert!(Pages::with_space(u64::MAX).is_none());
        assert!(Pages::with_space(LARGE as u64 - 1).is_none());
    }
}
