//! An entry of a container: its header and its image.

use std::borrow::Cow;

use super::unpack::Unpacker;
use super::{ImageError, Target, text};
use ptx::ast::Version;
use ptx::text_of;

/// One image of a fatbin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry<'a> {
    /// The kind of image.
    pub kind: EntryKind,
    /// The target architecture.
    pub target: Target,
    /// The PTX version of a PTX entry; for other kinds, that of their own format.
    pub ptx_version: Version,
    /// The compression of `payload`.
    pub compression: Compression,
    /// The bytes in the file, without the padding of cubins and of compressed entries. Entries of
    /// one block share them.
    pub payload: &'a [u8],
    /// The offset of `payload` in the file.
    pub offset: u64,
    /// The unpacked size of the image in bytes. PTX that is not compressed includes its padding.
    pub size: u64,
    /// The name from the compiler, usually that of the source file; may be empty.
    pub name: &'a str,
    /// Options for the compiler of the entry.
    pub options: &'a str,
    /// Bit 24 of its flags: of two equal binaries the driver selects the one without it.
    pub(super) deferred: bool,
    /// Whether only NVIDIA's tools can read the payload.
    pub(super) scrambled: bool,
    /// The size of the unpacked block that contains the image, and its position there.
    pub(super) block: Option<(u64, Part)>,
    /// Its header in the fatbin; empty for an image that is a whole file.
    pub(super) header: &'a [u8],
}

/// The position of an image in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub offset: u64,
    pub size: u64,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryKind {
    /// PTX text.
    Ptx,
    /// A cubin.
    Elf,
    /// NVIDIA's intermediate representation for link-time optimization, which a driver does not load
    /// by itself.
    LtoIr,
    /// An index of other entries.
    Index,
    /// Relocatable PTX, to be linked.
    RelocatablePtx,
    /// The intermediate representation of CUDA Tile.
    TileIr,
    /// A module compiled by the CPU device; not in fatbins.
    Cpu,
    /// An unknown kind, by its number.
    Other(u16),
}

/// The compression of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Uncompressed.
    None,
    /// One LZ4 block.
    Lz4,
    /// One Zstandard frame.
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

    /// The number in a fatbin; `None` for a kind that fatbins do not contain.
    pub(super) fn number(self) -> Option<u16> {
        Some(match self {
            EntryKind::Ptx => 1,
            EntryKind::Elf => 2,
            EntryKind::LtoIr => 8,
            EntryKind::Index => 0x20,
            EntryKind::RelocatablePtx => 0x40,
            EntryKind::TileIr => 0x80,
            EntryKind::Other(number) => number,
            EntryKind::Cpu => return None,
        })
    }

    /// A short name: `ptx`, `cubin`, `lto-ir`.
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

    /// Whether it is PTX text, relocatable or not.
    pub fn is_ptx(self) -> bool {
        matches!(self, EntryKind::Ptx | EntryKind::RelocatablePtx)
    }
}

impl Compression {
    /// A short name: `none`, `lz4`, `zstd`.
    pub fn word(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }
}

impl<'a> Entry<'a> {
    /// An entry for an image that is a whole file or archive member.
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
            header: &[],
        }
    }

    /// The bytes of the image. A compressed entry is unpacked to at most the size in its header.
    ///
    /// To unpack several entries, an [`Unpacker`] is faster.
    pub fn unpack(&self) -> Result<Cow<'a, [u8]>, ImageError> {
        match self.borrowed() {
            Some(bytes) => Ok(Cow::Borrowed(bytes)),
            None => Ok(Cow::Owned(Unpacker::default().unpack(self)?.to_vec())),
        }
    }

    /// The bytes of an uncompressed image, borrowed from the file.
    pub(super) fn borrowed(&self) -> Option<&'a [u8]> {
        let as_it_is = self.compression == Compression::None && self.block.is_none();
        as_it_is.then_some(self.payload)
    }

    /// The text of a PTX entry, without the NUL at its end. A `.version` that the container has
    /// removed from the text is restored.
    ///
    /// # Errors
    ///
    /// The entry is damaged or not PTX.
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

    /// Like [`ptx`](Self::ptx), for bytes that [`Unpacker::unpack`] returned for this entry.
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
        Ok(text::whole(text_of(&bytes[..length]), self.ptx_version))
    }
}
