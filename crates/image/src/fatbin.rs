//! Fatbins: PTX and binaries for several architectures in one container.

use super::bytes::Bytes;
use super::entry::{Compression, Entry, EntryKind, Part};
use super::{ImageError, Suffix, Target, elf};
use ptx::ast::Version;

pub(super) const MAGIC: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();
pub(super) const HEADER: u64 = 16;
/// The minimum size of an entry's header.
pub(super) const ENTRY_HEADER: u64 = 64;
/// An entry that holds several, compressed as one block.
pub(super) const CONCATENATED: u16 = 0x100;
const ELF: u16 = 2;

pub(super) const FLAG_LZ4: u64 = 0x2000;
pub(super) const FLAG_ZSTD: u64 = 0x8000;
pub(super) const FLAG_SCRAMBLED: u64 = 0x1_0000;
pub(super) const FLAG_ARCHITECTURE: u64 = 1 << 20;
pub(super) const FLAG_FAMILY: u64 = 1 << 21;
pub(super) const FLAG_DEFERRED: u64 = 1 << 24;

/// A container of images.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fatbin<'a> {
    /// The whole container, without trailing bytes.
    pub bytes: &'a [u8],
    /// Its images, in file order.
    pub entries: Vec<Entry<'a>>,
}

pub(super) fn is_fatbin(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Reads the fatbin that `file` starts with.
pub(super) fn read(file: Bytes<'_>) -> Result<Fatbin<'_>, ImageError> {
    let header = u64::from(file.u16(6)?);
    if header < HEADER {
        return Err(file.invalid_field("header size", 6, header));
    }
    let size = file.u64(8)?;
    // Also checks the sum, so that the offsets below cannot overflow.
    file.slice(header, size)?;
    let end = header + size;
    let mut entries = Vec::new();
    let mut at = header;
    while at < end {
        let header_size = u64::from(file.u32(at + 4)?);
        if header_size < ENTRY_HEADER {
            return Err(file.invalid_field("entry header size", at + 4, header_size));
        }
        let padded = file.u64(at + 8)?;
        file.slice(at + header_size, padded)?;
        let next = at + header_size + padded;
        if next > end {
            return Err(file.invalid_field("entry size", at + 8, padded));
        }
        let header = Bytes {
            what: "entry of a fatbin",
            ..file.part(at, header_size, "fatbin")?
        };
        let payload = file.part(at + header_size, padded, "image in a fatbin")?;
        let entry = entry(header, payload)?;
        if header.u16(0)? == CONCATENATED {
            parts(header, &entry, &mut entries)?;
        } else {
            entries.push(entry);
        }
        at = next;
    }
    Ok(Fatbin {
        bytes: file.slice(0, end)?,
        entries,
    })
}

/// The entries of one block. Its header contains theirs, each with the offset of its image in the
/// unpacked block.
fn parts<'a>(
    block: Bytes<'a>,
    whole: &Entry<'a>,
    entries: &mut Vec<Entry<'a>>,
) -> Result<(), ImageError> {
    let table = u64::from(block.u32(20)?);
    let count = block.u32(table)?;
    let mut at = table + 8;
    for _ in 0..count {
        let rest = block.size().saturating_sub(at);
        let header = block.part(at, rest, "entry of a block in a fatbin")?;
        let part = Part {
            offset: header.u32(4)?.into(),
            size: header.u64(8)?,
        };
        let end = part.offset.checked_add(part.size);
        if end.is_none_or(|end| end > whole.size) {
            return Err(header.invalid_field("size", 8, part.size));
        }
        let mut entry = read_header(header)?;
        entry.compression = whole.compression;
        entry.scrambled = whole.scrambled;
        entry.payload = whole.payload;
        entry.offset = whole.offset;
        entry.size = part.size;
        entry.block = Some((whole.size, part));
        entries.push(entry);
        at += stride(header)?;
    }
    Ok(())
}

/// The distance to the next header in a block. The name and the options follow a header, each with
/// its NUL, padded to 8 bytes.
fn stride(header: Bytes<'_>) -> Result<u64, ImageError> {
    let end = |at: u64| -> Result<u64, ImageError> {
        Ok(u64::from(header.u32(at)?) + u64::from(header.u32(at + 4)?))
    };
    let name = end(32)?;
    let options = match header.u32(20)? {
        0 => 0,
        at => end(at.into())?,
    };
    Ok(match name.max(options) {
        0 => ENTRY_HEADER,
        end => (end + 1).max(ENTRY_HEADER).next_multiple_of(8),
    })
}

/// Reads an entry without its payload.
fn read_header<'a>(header: Bytes<'a>) -> Result<Entry<'a>, ImageError> {
    let flags = header.u64(40)?;
    let compression = if flags & FLAG_ZSTD != 0 {
        Compression::Zstd
    } else if flags & FLAG_LZ4 != 0 {
        Compression::Lz4
    } else {
        Compression::None
    };
    let suffix = if flags & FLAG_ARCHITECTURE != 0 {
        Suffix::Architecture
    } else if flags & FLAG_FAMILY != 0 {
        Suffix::Family
    } else {
        Suffix::None
    };
    let kind = header.u16(0)?;
    // For binaries these are records, for a block its table.
    let options = match header.u32(20)? {
        0 => "",
        _ if kind == ELF || kind == CONCATENATED => "",
        at => text(header, at.into()),
    };
    let number = |offset| {
        header
            .u16(offset)
            .map(|n| u8::try_from(n).unwrap_or(u8::MAX))
    };
    Ok(Entry {
        kind: EntryKind::from_number(kind),
        target: Target::new(header.u32(28)?, suffix),
        ptx_version: Version {
            major: number(26)?,
            minor: number(24)?,
        },
        compression,
        payload: &[],
        offset: header.base,
        size: 0,
        name: text(header, 32),
        options: options.trim_end(),
        deferred: flags & FLAG_DEFERRED != 0,
        scrambled: flags & FLAG_SCRAMBLED != 0,
        block: None,
        header: header.bytes,
    })
}

fn entry<'a>(header: Bytes<'a>, payload: Bytes<'a>) -> Result<Entry<'a>, ImageError> {
    let described = read_header(header)?;
    // Only headers of compressed entries have the size without padding.
    let (used, size) = match described.compression {
        Compression::None => {
            let used = if described.kind == EntryKind::Elf {
                without_padding(payload)
            } else {
                payload.bytes
            };
            (used, used.len() as u64)
        }
        _ => {
            let used = u64::from(header.u32(16)?);
            let fits = usize::try_from(used)
                .ok()
                .and_then(|used| payload.bytes.get(..used));
            (
                fits.ok_or_else(|| header.invalid_field("compressed size", 16, used))?,
                header.u64(56)?,
            )
        }
    };
    Ok(Entry {
        payload: used,
        offset: payload.base,
        size,
        ..described
    })
}

/// A cubin without the zeros that align the next entry.
fn without_padding(cubin: Bytes<'_>) -> &[u8] {
    let size = elf::size(cubin).and_then(|size| usize::try_from(size).ok());
    match size.and_then(|size| cubin.bytes.split_at_checked(size)) {
        Some((used, padding)) if padding.len() < 8 && padding.iter().all(|byte| *byte == 0) => used,
        _ => cubin.bytes,
    }
}

/// The text whose offset and length are at `at`. It is informational, so an invalid one is
/// ignored.
fn text<'a>(header: Bytes<'a>, at: u64) -> &'a str {
    let found = || {
        let offset = u64::from(header.u32(at).ok()?);
        let bytes = header.slice(offset, header.u32(at + 4).ok()?.into()).ok()?;
        std::str::from_utf8(bytes).ok()
    };
    found().unwrap_or_default()
}
