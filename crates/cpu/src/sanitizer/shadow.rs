//! What is known of each word of memory: who wrote it last, and who has read it since.

use std::collections::HashMap;
use std::ops::Range;

/// Bytes of a word.
pub(super) const WORD: u64 = 4;
/// Words of a page of [`Shadow`].
const PAGE: u64 = 1024;

/// An access to a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The bytes of the word, a bit each; 0 where there was no access.
    pub bytes: u8,
    /// An atomic operation, or one that other threads may observe while it is made.
    pub strong: bool,
    pub thread: u32,
    /// The block's number in the grid.
    pub block: u64,
    /// How many barriers the block has passed.
    pub epoch: u32,
    /// The thread's own time since then.
    pub time: u32,
    pub line: u32,
}

/// A word of memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub write: Stamp,
    /// The word after that write.
    pub value: u32,
    /// The last reads of two threads since then.
    pub reads: [Stamp; 2],
}

impl Cell {
    pub(super) fn read(&mut self, stamp: Stamp) {
        let same = |old: &Stamp| old.thread == stamp.thread && old.block == stamp.block;
        if self.reads[0].bytes != 0 && !same(&self.reads[0]) {
            self.reads[1] = self.reads[0];
        }
        self.reads[0] = stamp;
    }

    pub(super) fn written(&mut self, stamp: Stamp, value: u32) {
        *self = Cell {
            write: stamp,
            value,
            reads: Default::default(),
        };
    }

    /// The accesses that one of these bytes follows: those of others that wrote, and to a
    /// write also those that read.
    pub(super) fn before(&self, bytes: u8, write: bool) -> impl Iterator<Item = (Stamp, bool)> {
        let reads = self.reads.iter().filter(move |_| write);
        let all = std::iter::once((self.write, true)).chain(reads.map(|read| (*read, false)));
        all.filter(move |(stamp, _)| stamp.bytes & bytes != 0)
    }
}

/// The words that a launch has accessed, by address.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    pages: HashMap<u64, Box<[Cell]>>,
}

impl Shadow {
    /// The cell of the word at this address.
    pub(super) fn cell(&mut self, address: u64) -> &mut Cell {
        let word = address / WORD;
        let page = self
            .pages
            .entry(word / PAGE)
            .or_insert_with(|| vec![Cell::default(); PAGE as usize].into());
        &mut page[(word % PAGE) as usize]
    }

    pub(super) fn clear(&mut self) {
        self.pages.clear();
    }
}

/// Which bytes of a range were written.
#[derive(Debug, Default)]
pub(super) struct Written {
    start: u64,
    bytes: Vec<bool>,
}

impl Written {
    /// None of these bytes.
    pub(super) fn none(start: u64, length: u64) -> Written {
        Written {
            start,
            bytes: vec![false; usize::try_from(length).unwrap_or(0)],
        }
    }

    pub(super) fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.bytes.len() as u64
    }

    /// Those that are outside are left out.
    pub(super) fn write(&mut self, address: u64, size: u64) {
        if let Some(bytes) = self.inside(address, size) {
            bytes.fill(true);
        }
    }

    /// Which of these bytes were; `None` if some are outside.
    pub(super) fn states(&self, address: u64, size: u64) -> Option<Vec<bool>> {
        let range = self.range(address, size)?;
        self.bytes.get(range).map(<[bool]>::to_vec)
    }

    /// Sets whether they were.
    pub(super) fn set(&mut self, address: u64, states: &[bool]) {
        if let Some(bytes) = self.inside(address, states.len() as u64) {
            let inside = bytes.len();
            bytes.copy_from_slice(&states[..inside]);
        }
    }

    fn inside(&mut self, address: u64, size: u64) -> Option<&mut [bool]> {
        let range = self.range(address, size)?;
        let end = range.end.min(self.bytes.len());
        self.bytes.get_mut(range.start..end)
    }

    /// Whether all of them were. Bytes outside are none of ours.
    pub(super) fn is_written(&self, address: u64, size: u64) -> bool {
        let range = self.range(address, size);
        let bytes = range.and_then(|range| self.bytes.get(range));
        bytes.is_none_or(|bytes| bytes.iter().all(|written| *written))
    }

    pub(super) fn clear(&mut self) {
        self.bytes.fill(false);
    }

    fn range(&self, address: u64, size: u64) -> Option<Range<usize>> {
        let first = usize::try_from(address.wrapping_sub(self.start)).ok()?;
        Some(first..first.checked_add(usize::try_from(size).ok()?)?)
    }
}
