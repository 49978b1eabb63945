//! What the file of a blob is read into.
//!
//! A fresh page of memory is given when it is first written to, and in a virtual
//! machine that takes longer than copying a page. So the pages for a large file
//! are asked for all at once: for 2.3 MB that halves the time of a read. The file
//! itself is not mapped: whoever cuts it short would kill the process.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;

use memmap2::{MmapMut, MmapOptions};

/// Smaller ones mostly find pages that were used before.
const LARGE: usize = 128 << 10;

/// Bytes that were read, or made.
#[derive(Debug)]
pub(super) enum Memory {
    Heap(Vec<u8>),
    Pages {
        pages: MmapMut,
        /// So many bytes of them were read.
        length: usize,
    },
}

impl Memory {
    /// Reads a file that was `length` bytes long when it was opened, and one
    /// byte more if it has grown since.
    pub(super) fn read(file: &mut File, length: usize) -> io::Result<Memory> {
        if length >= LARGE
            && let Ok(mut pages) = MmapOptions::new().len(length + 1).populate().map_anon()
        {
            let length = fill(file, &mut pages)?;
            return Ok(Memory::Pages { pages, length });
        }
        let mut bytes = vec![0; length + 1];
        let length = fill(file, &mut bytes)?;
        bytes.truncate(length);
        Ok(Memory::Heap(bytes))
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
            Memory::Pages { pages, length } => &pages[..*length],
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
        for length in [0, 1, LARGE - 1, LARGE, 3 * LARGE + 5] {
            let bytes: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            for said in [length, length + 9] {
                file.rewind().unwrap();
                assert!(
                    *Memory::read(&mut file, said).unwrap() == *bytes,
                    "{length} {said}"
                );
            }
            // Growth shows, but is not read on and on.
            file.write_all(b"more").unwrap();
            file.rewind().unwrap();
            assert_eq!(Memory::read(&mut file, length).unwrap().len(), length + 1);
        }
    }
}
