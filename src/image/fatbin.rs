//! Fatbins: PTX and binaries for several architectures in one container.

use super::bytes::Bytes;
use super::{ImageError, Suffix, Target};
use crate::ptx::ast::Version;

const MAGIC: u32 = 0xba55_ed50;
/// What every entry's header has at least.
const ENTRY_HEADER: u64 = 64;

const FLAG_LZ4: u64 = 0x2000;
const FLAG_ZSTD: u64 = 0x8000;
const FLAG_ARCHITECTURE: u64 = 1 << 20;
const FLAG_FAMILY: u64 = 1 << 21;

/// A container of images, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fatbin<'a> {
    /// The whole container, without what follows it.
    pub bytes: &'a [u8],
    /// Its images.
    pub entries: Vec<FatbinEntry<'a>>,
}

/// One image of a fatbin.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FatbinEntry<'a> {
    /// What it is.
    pub kind: EntryKind,
    /// The architecture it is for.
    pub target: Target,
    /// The PTX version of a PTX entry.
    pub ptx_version: Version,
    /// How `payload` is packed.
    pub compression: Compression,
    /// As it lies in the file, padding cut off.
    pub payload: &'a [u8],
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

pub(super) fn is_fatbin(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC.to_le_bytes())
}

pub(super) fn read(bytes: &[u8]) -> Result<Fatbin<'_>, ImageError> {
    let what = "fatbin";
    let file = Bytes { bytes, what };
    let wrong = |field, offset, value| ImageError::Field {
        what,
        field,
        offset,
        value,
    };
    let header = u64::from(file.u16(6)?);
    if header < 16 {
        return Err(wrong("header size", 6, header));
    }
    let size = file.u64(8)?;
    // Checks the sum too: offsets below cannot overflow.
    file.slice(header, size)?;
    let end = header + size;
    let mut entries = Vec::new();
    let mut at = header;
    while at < end {
        let entry_header = u64::from(file.u32(at + 4)?);
        if entry_header < ENTRY_HEADER {
            return Err(wrong("entry header size", at + 4, entry_header));
        }
        let padded = file.u64(at + 8)?;
        let payload = file.slice(at + entry_header, padded)?;
        let flags = file.u64(at + 40)?;
        let compression = if flags & FLAG_ZSTD != 0 {
            Compression::Zstd
        } else if flags & FLAG_LZ4 != 0 {
            Compression::Lz4
        } else {
            Compression::None
        };
        // The size without padding stands in the header of compressed entries alone.
        let used = match compression {
            Compression::None => payload,
            _ => {
                let size = u64::from(file.u32(at + 16)?);
                let fits = usize::try_from(size)
                    .ok()
                    .and_then(|size| payload.get(..size));
                fits.ok_or_else(|| wrong("compressed size", at + 16, size))?
            }
        };
        let suffix = if flags & FLAG_ARCHITECTURE != 0 {
            Suffix::Architecture
        } else if flags & FLAG_FAMILY != 0 {
            Suffix::Family
        } else {
            Suffix::None
        };
        entries.push(FatbinEntry {
            kind: match file.u16(at)? {
                1 => EntryKind::Ptx,
                2 => EntryKind::Elf,
                8 => EntryKind::LtoIr,
                other => EntryKind::Other(other),
            },
            target: Target::new(file.u32(at + 28)?, suffix),
            ptx_version: Version {
                major: u8::try_from(file.u16(at + 26)?).unwrap_or(u8::MAX),
                minor: u8::try_from(file.u16(at + 24)?).unwrap_or(u8::MAX),
            },
            compression,
            payload: used,
        });
        at += entry_header + padded;
        if at > end {
            return Err(wrong("entry size", at - padded, padded));
        }
    }
    Ok(Fatbin {
        bytes: file.slice(0, end)?,
        entries,
    })
}
