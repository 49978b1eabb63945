//! What the file of a blob is read into.
//!
//! A fresh page of memory is given when it is first written to, and in a virtual
//! machine that takes longer than copying a page. So the pages for a large file
//! are asked for all at once, which halves the time of a read of 2.3 MB, and are
//! kept for the next one. The file itself is not mapped: whoever cuts it short
//! would kill the process.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use memmap2::{MmapMut, MmapOptions};

/// Smaller ones mostly find pages that were used before.
const LARGE: usize = 128 << 10;
/// Larger ones are too much to keep for a file that may never come.
const KEPT: usize = 8 << 20;

/// Bytes that were read, or made.
#[derive(Debug)]
pub(super) enum Memory {
    Heap(Vec<u8>),
    Pages(Pages),
}

/// Pages of which the first `length` bytes were read.
#[derive(Debug)]
pub(super) struct Pages {
    /// Taken when this is dropped, and never else.
    pages: Option<MmapMut>,
    length: usize,
    spare: Weak<Spare>,
}

/// The pages of a file that nobody needs any more.
#[derive(Debug, Default)]
pub(super) struct Spare(Mutex<Option<MmapMut>>);

impl Memory {
    /// Reads a file that was `length` bytes long when it was opened, and one
    /// byte more if it has grown since.
    pub(super) fn read(file: &mut File, length: usize, spare: &Arc<Spare>) -> io::Result<Memory> {
        let room = length + 1;
        if length >= LARGE
            && let Some(mut pages) = spare.take(room).or_else(|| map(room))
        {
            let length = fill(file, &mut pages[..room])?;
            return Ok(Memory::Pages(Pages {
                pages: Some(pages),
                length,
                spare: Arc::downgrade(spare),
            }));
        }
        let mut bytes = vec![0; room];
        let length = fill(file, &mut bytes)?;
        bytes.truncate(length);
        Ok(Memory::Heap(bytes))
    }
}

fn map(length: usize) -> Option<MmapMut> {
    MmapOptions::new().len(length).populate().map_anon().ok()
}

impl Spare {
    /// Pages for so many bytes, if they are there.
    fn take(&self, room: usize) -> Option<MmapMut> {
        self.pages().take_if(|pages| pages.len() >= room)
    }

    /// Keeps the larger ones.
    fn put(&self, pages: MmapMut) {
        let mut kept = self.pages();
        if kept.as_ref().is_none_or(|kept| kept.len() < pages.len()) {
            *kept = Some(pages);
        }
    }

    /// No code runs under this lock that could leave half a state behind.
    fn pages(&self) -> MutexGuard<'_, Option<MmapMut>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if let Some(pages) = self.pages.take()
            && pages.len() <= KEPT
            && let Some(spare) = self.spare.upgrade()
        {
            spare.put(pages);
        }
    }
}

/// Reads until `bytes` are full or the file ends; gives how many it read. The
/// last byte is for what should not be there: a read that leaves that one alone
/// has come to the end.
fn fill(file: &mut File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read(&mut bytes[done..]) {
            Ok(0) => break,
            Ok(more) if done + more + 1 == bytes.len() => {
                done += more;
                break;
            }
            Ok(more) => done += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Memory::Heap(bytes) => bytes,
            Memory::Pages(Pages { pages, length, .. }) => {
                pages.as_ref().map_or(&[], |pages| &pages[..*length])
            }
        }
    }
}

impl From<Vec<u8>> for Memory {
    fn from(bytes: Vec<u8>) -> Memory {
        Memory::Heap(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;

    #[test]
    fn a_file_is_read_as_it_is_however_long_it_was_said_to_be() {
        let spare = Arc::default();
        for length in [0, 1, LARGE - 1, LARGE, 3 * LARGE + 5] {
            let bytes: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            for said in [length, length + 9] {
                file.rewind().unwrap();
                assert!(
                    *Memory::read(&mut file, said, &spare).unwrap() == *bytes,
                    "{length} {said}"
                );
            }
            // Growth shows, but is not read on and on.
            file.write_all(b"more").unwrap();
            file.rewind().unwrap();
            assert_eq!(
                Memory::read(&mut file, length, &spare).unwrap().len(),
                length + 1
            );
        }
    }

    #[test]
    fn pages_are_used_again() {
        let spare: Arc<Spare> = Arc::default();
        let read = |byte: u8, length: usize| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&vec![byte; length]).unwrap();
            file.rewind().unwrap();
            let memory = Memory::read(&mut file, length, &spare).unwrap();
            assert!(memory.len() == length && memory.iter().all(|b| *b == byte));
            memory
        };
        let kept = || spare.pages().as_ref().map_or(0, |pages| pages.len());
        let (first, second) = (read(1, 3 * LARGE), read(2, 2 * LARGE));
        let place = first.as_ptr();
        assert_eq!(kept(), 0);
        drop(first);
        assert_eq!(kept(), 3 * LARGE + 1);
        // The smaller ones are not worth a place beside them.
        drop(second);
        assert_eq!(kept(), 3 * LARGE + 1);
        let third = read(3, LARGE);
        assert_eq!((third.as_ptr(), kept()), (place, 0));
        drop(third);
        // They are too few, and go when larger ones come.
        drop(read(4, 4 * LARGE));
        assert_eq!(kept(), 4 * LARGE + 1);
        drop(read(5, KEPT + 1));
        assert_eq!(kept(), 4 * LARGE + 1);
        // A blob may outlive its cache.
        let last = read(6, LARGE);
        drop(spare);
        assert_eq!(last[LARGE - 1], 6);
    }
}
