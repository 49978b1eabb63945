//! The fatbins in programs, shared objects and object files.

use super::contents::Piece;
use super::elf::{Elf, Section};
use super::{Image, ImageError, bytes::Bytes, fatbin};

/// The sections of linked and of relocatable code.
const LINKED: &[u8] = b".nv_fatbin";
const RELOCATABLE: &[u8] = b"__nv_relfatbin";

/// The fatbins of a program, in file order.
///
/// They are adjacent in their sections. The wrappers in `.nvFatBinSegment` contain their addresses,
/// which are only relocated when the program is loaded.
pub(super) fn read<'a>(
    file: Bytes<'a>,
    member: Option<&str>,
    pieces: &mut Vec<Piece<'a>>,
) -> Result<(), ImageError> {
    let elf = Elf::read(file)?;
    let of = |section: &Section<'_>| section.name == LINKED || section.name == RELOCATABLE;
    let mut sections: Vec<_> = elf.sections.iter().filter(|s| of(s)).collect();
    sections.sort_by_key(|section| section.offset);
    for section in sections {
        let data = elf.data(section, "section with fatbins")?;
        let mut at = 0;
        while let Some(offset) = next(data, at)? {
            let rest = Bytes {
                what: "fatbin",
                ..data.part(offset, data.size() - offset, "fatbin")?
            };
            let fatbin = fatbin::read(rest)?;
            at = offset + fatbin.bytes.len() as u64;
            pieces.push(Piece {
                member: member.map(str::to_owned),
                relocatable: section.name == RELOCATABLE,
                offset: data.base + offset,
                image: Image::Fatbin(fatbin),
            });
        }
    }
    Ok(())
}

/// The offset of the next fatbin, after zero padding to 8 bytes or more.
fn next(data: Bytes<'_>, at: u64) -> Result<Option<u64>, ImageError> {
    let rest = data.slice(at, data.size() - at)?;
    let Some(zeros) = rest.iter().position(|byte| *byte != 0) else {
        return Ok(None);
    };
    let offset = at + zeros as u64;
    if fatbin::is_fatbin(rest.get(zeros..).unwrap_or_default()) {
        return Ok(Some(offset));
    }
    let found = data.u8(offset)?;
    Err(data.invalid_field("first byte of a fatbin", offset, found.into()))
}
