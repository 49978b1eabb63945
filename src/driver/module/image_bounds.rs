//! Checks that an image's headers stay within its bytes.
//!
//! `cuModuleLoadData` takes no length: the driver reads PTX up to its NUL, and binaries as
//! far as their headers say. So the headers are checked before a driver reads them.

use std::borrow::Cow;

use crate::driver::error::Error;

const ELF: &[u8] = b"\x7fELF";
const FATBIN: [u8; 4] = 0xBA55_ED50_u32.to_le_bytes();
const CPU_BLOB: &[u8] = b"PTXKCPU1";

/// An image that is safe to pass to a driver.
pub(crate) enum CheckedImage<'a> {
    /// Text with a NUL at its end.
    Ptx(Cow<'a, [u8]>),
    Binary(&'a [u8]),
}

/// Distinguishes text from binaries and checks that neither leads outside of `image`.
pub(crate) fn check(image: &[u8]) -> Result<CheckedImage<'_>, Error> {
    let fits = if image.starts_with(ELF) {
        elf_fits(image)
    } else if image.starts_with(&FATBIN) {
        fatbin_fits(image)
    } else if image.starts_with(CPU_BLOB) {
        cpu_blob_fits(image)
    } else {
        return terminated(image).map(CheckedImage::Ptx);
    };
    match fits {
        Some(true) => Ok(CheckedImage::Binary(image)),
        _ => Err(Error::BadImage(
            "its headers lead outside of it: the file is cut short or damaged".to_owned(),
        )),
    }
}

fn terminated(text: &[u8]) -> Result<Cow<'_, [u8]>, Error> {
    match text.iter().position(|&byte| byte == 0) {
        _ if text.is_empty() => Err(Error::BadImage("it is empty".to_owned())),
        None => {
            let mut owned = Vec::with_capacity(text.len() + 1);
            owned.extend_from_slice(text);
            owned.push(0);
            Ok(Cow::Owned(owned))
        }
        // The driver would take the text before the NUL for all of it.
        Some(at) if text[at..].iter().any(|&byte| byte != 0) => Err(Error::BadImage(format!(
            "it is no binary known here, and as text it has a NUL at byte {at}"
        ))),
        Some(_) => Ok(Cow::Borrowed(text)),
    }
}

fn elf_fits(image: &[u8]) -> Option<bool> {
    let table = |start: usize, entry: usize, count: usize| {
        let start = usize::try_from(number(image, start, 8)?).ok()?;
        let entry = number(image, entry, 2)? as usize;
        let count = number(image, count, 2)? as usize;
        let end = start.checked_add(entry.checked_mul(count)?)?;
        (end <= image.len()).then_some((start, entry, count))
    };
    // Class 2 is ELF64; offsets below are its.
    if image.get(4) != Some(&2) {
        return Some(false);
    }
    let within = |offset: usize, size: usize| {
        let end = number(image, offset, 8)?.checked_add(number(image, size, 8)?)?;
        (end <= image.len() as u64).then_some(())
    };
    let (segments, entry, count) = table(0x20, 0x36, 0x38)?;
    if count > 0 && entry < 56 {
        return Some(false);
    }
    for at in (0..count).map(|segment| segments + segment * entry) {
        within(at + 8, at + 32)?;
    }
    let (sections, entry, count) = table(0x28, 0x3A, 0x3C)?;
    // No sections but a table: their number would stand in the table itself, which is
    // for files of more than 65,279 sections and would lead past what is checked here.
    if (count == 0 && sections != 0) || (count > 0 && entry < 64) {
        return Some(false);
    }
    for at in (0..count).map(|section| sections + section * entry) {
        const NOBITS: u64 = 8;
        if number(image, at + 4, 4)? == NOBITS {
            continue;
        }
        within(at + 24, at + 32)?;
    }
    Some(true)
}

fn fatbin_fits(image: &[u8]) -> Option<bool> {
    let header = number(image, 6, 2)?;
    let end = header.checked_add(number(image, 8, 8)?)?;
    if header < 16 || end > image.len() as u64 {
        return Some(false);
    }
    let mut at = header;
    while at < end {
        let entry = usize::try_from(at).ok()?;
        let (header, payload) = (number(image, entry + 4, 4)?, number(image, entry + 8, 8)?);
        at = at.checked_add(header)?.checked_add(payload)?;
        // An entry of size 0 would loop forever.
        if header < 16 || at > end {
            return Some(false);
        }
    }
    Some(true)
}

fn cpu_blob_fits(image: &[u8]) -> Option<bool> {
    let end = number(image, 16, 8)?.checked_add(32)?;
    Some(end <= image.len() as u64)
}

/// A little-endian number, if it is within the image.
fn number(image: &[u8], at: usize, len: usize) -> Option<u64> {
    let bytes = image.get(at..at.checked_add(len)?)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |n, &byte| n << 8 | u64::from(byte)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fatbin(entry_payload: u64, bytes: usize) -> Vec<u8> {
        let mut image = FATBIN.to_vec();
        image.extend(1_u16.to_le_bytes());
        image.extend(16_u16.to_le_bytes());
        image.extend((64 + 8_u64).to_le_bytes());
        image.extend([2, 0, 1, 1]);
        image.extend(64_u32.to_le_bytes());
        image.extend(entry_payload.to_le_bytes());
        image.resize(bytes, 0);
        image
    }

    #[test]
    fn text_gets_its_nul() {
        for text in [&b".version 8.0"[..], b".version 8.0\0", b".version 8.0\0\0"] {
            match check(text).unwrap() {
                CheckedImage::Ptx(text) => assert_eq!(text.last(), Some(&0)),
                CheckedImage::Binary(_) => panic!("text taken for a binary"),
            }
        }
        assert!(check(b"").is_err());
        assert!(check(b"one\0two").is_err());
    }

    #[test]
    fn a_fatbin_must_hold_its_entries() {
        assert!(check(&fatbin(8, 88)).is_ok());
        assert!(check(&fatbin(8, 87)).is_err());
        assert!(check(&fatbin(9, 88)).is_err());
        assert!(check(&fatbin(u64::MAX, 88)).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn segments_and_sections_must_lie_within_the_file() {
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let field = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().unwrap()) as usize;
        // The first segment's bytes in the file, and those of the second section: the first is empty.
        for size_at in [field(0x20) + 32, field(0x28) + 64 + 32] {
            let mut bad = whole.clone();
            bad[size_at..size_at + 8].copy_from_slice(&(whole.len() as u64 + 1).to_le_bytes());
            assert!(check(&bad).is_err());
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn no_prefix_of_an_elf_file_passes() {
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(check(&whole).is_ok());
        for len in [4, 5, 16, 63, 64, 100, whole.len() / 2] {
            assert!(check(&whole[..len]).is_err(), "{len} bytes");
        }
    }
}
