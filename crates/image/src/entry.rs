//! One image among others: what is said of it, and its bytes.

use std::borrow::Cow;

use super::unpack::Unpacker;
use super::{ImageError, Target, text};
use ptx::ast::Version;
use ptx::text_of;

/// One image of a fatbin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry<'a> {
    /// What it is.
    pub kind: EntryKind,
    /// The architecture it is for.
    pub target: Target,
    /// The PTX version of a PTX entry; for other kinds, that of their own format.
    pub ptx_version: Version,
    /// How `payload` is packed.
    pub compression: Compression,
    /// As it lies in the file, padding of compressed entries cut off. Entries of one block have the
    /// same.
    pub payload: &'a [u8],
    /// Where `payload` begins in the file.
    pub offset: u64,
    /// Bytes of the image itself, unpacked; with the padding where it is not packed.
    pub size: u64,
    /// What the compiler called it, mostly the name of its source; may be empty.
    pub name: &'a str,
    /// Options that its compiler is to be given.
    pub options: &'a str,
    /// Bit 24 of its flags: of two equal binaries, the driver takes the one without it.
    pub(super) deferred: bool,
    /// Bytes that only NVIDIA's tools read.
    pub(super) scrambled: bool,
    /// The size of the block that it is a part of, and which part.
    pub(super) block: Option<(u64, Part)>,
}

/// Where an image lies in a block of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub offset: u64,
    pub size: u64,
}

/// What an entry of a fatbin holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryKind {
    /// PTX text.
    Ptx,
    /// A cubin.
    Elf,
    /// NVIDIA's intermediate code for linking, which no driver loads alone.
    LtoIr,
    /// An index of other entries.
    Index,
    /// PTX text to be linked with other.
    RelocatablePtx,
    /// Intermediate code of CUDA's tile language.
    TileIr,
    /// A module that the CPU device compiled; stands in no fatbin.
    Cpu,
    /// A kind that this version does not know, by its number.
    Other(u16),
}

/// How an entry of a fatbin is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
    None,
    /// As one LZ4 block.
    Lz4,
    /// As one Zstandard frame.
    Zstd,
}

impl EntryKind {
    pub(super) fn from_number(number: u16) -> EntryKind {
        match number {
            1 => EntryKind::Ptx,
            2 => EntryKind::Elf,
            8 => EntryKind::LtoIr,
            0x20 => EntryKind::Index,
            0x40 => EntryKind::RelocatablePtx,
            0x80 => EntryKind::TileIr,
            other => EntryKind::Other(other),
        }
    }

    /// One word for it: `ptx`, `cubin`, `lto-ir`.
    pub fn word(self) -> &'static str {
        match self {
            EntryKind::Ptx => "ptx",
            EntryKind::Elf => "cubin",
            EntryKind::LtoIr => "lto-ir",
            EntryKind::Index => "index",
            EntryKind::RelocatablePtx => "relocatable-ptx",
            EntryKind::TileIr => "tile-ir",
            EntryKind::Cpu => "cpu",
            EntryKind::Other(_) => "unknown",
        }
    }

    /// Whether it is PTX text, to be linked or not.
    pub fn is_ptx(self) -> bool {
        matches!(self, EntryKind::Ptx | EntryKind::RelocatablePtx)
    }
}

impl Compression {
    /// One word for it: `none`, `lz4`, `zstd`.
    pub fn word(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }
}

impl<'a> Entry<'a> {
    /// An image that is the whole of a file, or of a member of an archive.
    pub(super) fn whole(kind: EntryKind, target: Target, bytes: &'a [u8], offset: u64) -> Self {
        Entry {
            kind,
            target,
            ptx_version: Version::default(),
            compression: Compression::None,
            payload: bytes,
            offset,
            size: bytes.len() as u64,
            name: "",
            options: "",
            deferred: false,
            scrambled: false,
            block: None,
        }
    }

    /// The image's own bytes. Those of a compressed entry are unpacked, to no more than the size
    /// that its header states.
    ///
    /// Where several entries are unpacked one after the other, an [`Unpacker`] is faster.
    pub fn unpack(&self) -> Result<Cow<'a, [u8]>, ImageError> {
        match self.borrowed() {
            Some(bytes) => Ok(Cow::Borrowed(bytes)),
            None => Ok(Cow::Owned(Unpacker::default().unpack(self)?.to_vec())),
        }
    }

    /// The image's own bytes where they lie in the file as they are.
    pub(super) fn borrowed(&self) -> Option<&'a [u8]> {
        let as_it_is = self.compression == Compression::None && self.block.is_none();
        as_it_is.then_some(self.payload)
    }

    /// The text of a PTX entry, without the NUL at its end. Where the container took the
    /// `.version` out of the text, it is put back.
    ///
    /// An error for other kinds.
    pub fn ptx(&self) -> Result<Cow<'a, str>, ImageError> {
        match self.borrowed() {
            Some(bytes) => self.text_of(bytes),
            None => {
                let mut unpacker = Unpacker::default();
                let text = self.text_of(unpacker.unpack(self)?)?;
                Ok(Cow::Owned(text.into_owned()))
            }
        }
    }

    /// The same of bytes that [`Unpacker::unpack`] gave for this entry.
    pub fn text_of<'b>(&self, bytes: &'b [u8]) -> Result<Cow<'b, str>, ImageError> {
        if !self.kind.is_ptx() {
            return Err(ImageError::Unknown(format!(
                "the image at offset {} is {}, not PTX",
                self.offset,
                self.kind.word()
            )));
        }
        let length = bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        let text = text_of(&bytes[..length]);
        Ok(text::with_version(&text, self.ptx_version).map_or(text, Cow::Owned))
    }
}
