//! The header and sections of ELF files, for cubins and the programs that contain them.

use super::ImageError;
use super::bytes::Bytes;

const SECTION_HEADER: u64 = 64;
/// A section without bytes in the file.
const NOBITS: u32 = 8;
/// The marker for a number that exceeds 16 bits; the first section contains it.
const EXTENDED: u64 = 0xffff;

/// The machine of an ELF file; an error if it is not an ELF file.
pub(super) fn machine(bytes: &[u8]) -> Result<u16, ImageError> {
    Bytes::new(bytes, "ELF file").u16(18)
}

pub(super) fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

/// The size of the ELF file that `file` starts with, by its headers and sections. `None` if it is
/// damaged or has more sections than its header can count.
pub(super) fn size(file: Bytes<'_>) -> Option<u64> {
    let u16_at = |at| file.u16(at).map(u64::from).ok();
    let end = |offset: u64, stride: u64, count: u64| offset.checked_add(stride.checked_mul(count)?);
    let segments = end(file.u64(32).ok()?, u16_at(54)?, u16_at(56)?)?;
    let (table, stride, count) = (file.u64(40).ok()?, u16_at(58)?, u16_at(60)?);
    let mut size = segments.max(end(table, stride, count)?);
    if count == 0 || stride < SECTION_HEADER {
        return None;
    }
    for index in 0..count {
        let header = file
            .part(table + index * stride, SECTION_HEADER, "section")
            .ok()?;
        if header.u32(4).ok()? != NOBITS {
            size = size.max(end(header.u64(24).ok()?, header.u64(32).ok()?, 1)?);
        }
    }
    (size <= file.size()).then_some(size)
}

pub(super) struct Elf<'a> {
    pub file: Bytes<'a>,
    pub flags: u32,
    pub osabi: u8,
    pub sections: Vec<Section<'a>>,
}

#[derive(Clone, Copy)]
pub(super) struct Section<'a> {
    pub name: &'a [u8],
    pub kind: u32,
    pub flags: u64,
    pub offset: u64,
    pub size: u64,
    pub info: u32,
}

impl<'a> Elf<'a> {
    pub fn read(file: Bytes<'a>) -> Result<Elf<'a>, ImageError> {
        let class = file.u8(4)?;
        if class != 2 {
            return Err(file.invalid_field("ELF class", 4, class.into()));
        }
        let order = file.u8(5)?;
        if order != 1 {
            return Err(file.invalid_field("byte order", 5, order.into()));
        }
        let osabi = file.u8(7)?;
        let flags = file.u32(48)?;
        let table = file.u64(40)?;
        let stride = u64::from(file.u16(58)?);
        let mut count = u64::from(file.u16(60)?);
        let mut names_index = u64::from(file.u16(62)?);
        if table == 0 {
            count = 0;
        } else if stride < SECTION_HEADER {
            return Err(file.invalid_field("section header size", 58, stride));
        } else {
            file.slice(table, stride)?;
            if count == 0 {
                count = file.u64(table + 32)?;
            }
            if names_index == EXTENDED {
                names_index = u64::from(file.u32(table + 40)?);
            }
        }
        // Checks the whole table, so that the arithmetic below cannot overflow.
        file.slice(table, stride.saturating_mul(count))?;
        let names = if names_index < count {
            let header = table + names_index * stride;
            file.part(
                file.u64(header + 24)?,
                file.u64(header + 32)?,
                "table of section names",
            )?
        } else if count == 0 {
            Bytes::new(&[], "table of section names")
        } else {
            return Err(file.invalid_field("section of section names", 62, names_index));
        };
        // Names may share suffixes. But if their total length is many times the size of the string
        // table, the file is crafted to cost quadratic time.
        let mut name_bytes_left = names.bytes.len().saturating_mul(8);
        let mut sections = Vec::new();
        for index in 0..count {
            let at = table + index * stride;
            let name_at = u64::from(file.u32(at)?);
            let name = names.text(name_at)?;
            name_bytes_left = name_bytes_left
                .checked_sub(name.len())
                .ok_or_else(|| file.invalid_field("section name", at, name_at))?;
            sections.push(Section {
                name,
                kind: file.u32(at + 4)?,
                flags: file.u64(at + 8)?,
                offset: file.u64(at + 24)?,
                size: file.u64(at + 32)?,
                info: file.u32(at + 44)?,
            });
        }
        Ok(Elf {
            file,
            flags,
            osabi,
            sections,
        })
    }

    /// The bytes of a section in the file.
    pub fn data(&self, section: &Section<'a>, what: &'static str) -> Result<Bytes<'a>, ImageError> {
        let size = if section.kind == NOBITS {
            0
        } else {
            section.size
        };
        match size {
            0 => Ok(Bytes::new(&[], what)),
            _ => self.file.part(section.offset, size, what),
        }
    }

    pub fn section(&self, name: &[u8]) -> Option<&Section<'a>> {
        self.sections.iter().find(|section| section.name == name)
    }
}
