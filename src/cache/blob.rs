//! The bytes of one blob file: a head that says what it is, then its parts.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | magic `PTXKBLOB` |
//! | 8 | 4 | schema |
//! | 12 | 4 | length of the head: all up to the first part, less its padding |
//! | 16 | 32 | key |
//! | 48 | 8 | length of the file |
//! | 56 | 4 | number of parts |
//! | 60 | 4 | length of the provenance, which ends the head |
//! | 64 | 16 | checksum of the rest of the head |
//! | 80 | 28 a part | length (8), checksum (16), length of the name (4) |
//! | … | | the names of the parts, one after the other; the provenance |
//! | … | | the parts, each at the next multiple of 64, zeros between |
//!
//! Integers are little-endian. Parts are aligned so that they can be handed to
//! a driver as they lie, and each has a checksum of its own so that it can be
//! read alone.
//!
//! The checksums are XXH3-128. They tell damage, not intent: whoever may write
//! to the folder could make any checksum right, which is why the folder is the
//! user's alone. XXH3 takes a quarter of the time of SHA-256
//! (`cargo bench --bench cache_store`). It is the portable code of the crate: the
//! one for AVX2 saves microseconds a megabyte, and first asks the processor what
//! it can do, which costs a virtual machine more than most blobs take.

use std::ops::{Deref, Range};
use std::sync::Arc;

use twox_hash::XxHash3_128;

use super::key::{Key, SCHEMA};
use super::memory::Memory;
use super::provenance::Provenance;

const MAGIC: &[u8; 8] = b"PTXKBLOB";
const SUM: Range<usize> = 64..80;
/// Where the table of the parts starts.
pub(super) const FIXED: usize = 80;
const ROW: usize = 28;
const ALIGN: usize = 64;
/// Far above what any module's parts and kernels take; bounds what is read
/// before a checksum was seen.
pub(super) const LARGEST_HEAD: usize = 1 << 24;

/// A compiled module as the cache gives it: by [`Deref`] its first part, which
/// mostly is the only one. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Blob {
    file: Arc<Memory>,
    parts: Arc<[Part]>,
    text: Range<usize>,
}

/// Where a part lies in the file. The ranges were checked against its length.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub name: String,
    pub bytes: Range<usize>,
    sum: u128,
}

impl Part {
    /// Whether `bytes` are those that were put.
    pub(super) fn is_whole(&self, bytes: &[u8]) -> bool {
        sum(bytes) == self.sum
    }
}

impl Blob {
    /// Puts a blob together for `key`.
    pub(super) fn new(key: &Key, provenance: &Provenance, parts: &[(&str, &[u8])]) -> Blob {
        let names: usize = parts.iter().map(|(name, _)| name.len()).sum();
        let before = FIXED + ROW * parts.len() + names;
        let mut text = provenance.to_text();
        if before + text.len() > LARGEST_HEAD {
            text = Provenance {
                kernels: Vec::new(),
                ..provenance.clone()
            }
            .to_text();
        }
        let head = before + text.len();
        let length = parts.iter().fold(head, |end, (_, bytes)| {
            end.next_multiple_of(ALIGN) + bytes.len()
        });
        let mut file = Vec::with_capacity(length);
        file.extend_from_slice(MAGIC);
        file.extend_from_slice(&SCHEMA.to_le_bytes());
        file.extend_from_slice(&(head as u32).to_le_bytes());
        file.extend_from_slice(key.as_bytes());
        file.extend_from_slice(&(length as u64).to_le_bytes());
        file.extend_from_slice(&(parts.len() as u32).to_le_bytes());
        file.extend_from_slice(&(text.len() as u32).to_le_bytes());
        file.extend_from_slice(&[0; 16]);
        let sums: Vec<u128> = parts.iter().map(|(_, bytes)| sum(bytes)).collect();
        for ((name, bytes), sum) in parts.iter().zip(&sums) {
            file.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            file.extend_from_slice(&sum.to_le_bytes());
            file.extend_from_slice(&(name.len() as u32).to_le_bytes());
        }
        for (name, _) in parts {
            file.extend_from_slice(name.as_bytes());
        }
        file.extend_from_slice(text.as_bytes());
        let head_sum = head_sum(&file).to_le_bytes();
        file[SUM].copy_from_slice(&head_sum);
        let mut placed = Vec::with_capacity(parts.len());
        for ((name, bytes), sum) in parts.iter().zip(sums) {
            file.resize(file.len().next_multiple_of(ALIGN), 0);
            let start = file.len();
            file.extend_from_slice(bytes);
            placed.push(Part {
                name: (*name).to_owned(),
                bytes: start..file.len(),
                sum,
            });
        }
        Blob {
            file: Arc::new(file.into()),
            parts: placed.into(),
            text: before..head,
        }
    }

    /// Reads the blob of `key` out of a file's bytes. Where the file is
    /// `known` to be whole, its parts are not checked again.
    pub(super) fn read(file: impl Into<Memory>, key: &Key, known: bool) -> Result<Blob, Damage> {
        let file = file.into();
        let fixed = Fixed::read(&file, file.len() as u64)?;
        let head = fixed.head(&file)?;
        if head.key != *key {
            return Err(Damage::Key);
        }
        if !known {
            let mut end = fixed.length;
            for part in &head.parts {
                if file[end..part.bytes.start].iter().any(|&byte| byte != 0) {
                    return Err(Damage::Padding);
                }
                if !part.is_whole(&file[part.bytes.clone()]) {
                    return Err(Damage::Checksum);
                }
                end = part.bytes.end;
            }
        }
        Ok(Blob {
            parts: head.parts.into(),
            text: head.text,
            file: Arc::new(file),
        })
    }

    /// The part of this name: the whole of what one compile made.
    pub fn part(&self, name: &str) -> Option<&[u8]> {
        let part = self.parts.iter().find(|part| part.name == name)?;
        Some(&self.file[part.bytes.clone()])
    }

    /// Every part with its name, in the order in which they were put.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = (&str, &[u8])> {
        self.parts
            .iter()
            .map(|part| (part.name.as_str(), &self.file[part.bytes.clone()]))
    }

    /// Where it comes from.
    pub fn provenance(&self) -> Provenance {
        Provenance::from_text(&String::from_utf8_lossy(&self.file[self.text.clone()]))
    }

    /// Its provenance's image, without reading the rest.
    #[cfg(feature = "driver")]
    pub(crate) fn image(&self) -> Option<String> {
        Provenance::image_in(&self.file[self.text.clone()])
    }

    /// The whole file, as [`read`](Blob::read) takes it.
    pub(super) fn file(&self) -> &[u8] {
        &self.file
    }
}

impl Deref for Blob {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.parts
            .first()
            .map_or(&[], |part| &self.file[part.bytes.clone()])
    }
}

/// What the first bytes of a blob file say, as far as its length allows.
#[derive(Debug)]
pub(super) struct Fixed {
    /// Of the head, in bytes.
    pub length: usize,
    file: usize,
    parts: usize,
    text: usize,
}

/// The head of a blob file, with its checksum found right.
#[derive(Debug)]
pub(super) struct Head {
    pub key: Key,
    pub parts: Vec<Part>,
    /// Where the provenance lies.
    pub text: Range<usize>,
}

impl Fixed {
    /// Reads the start of a file that is `length` bytes long.
    pub(super) fn read(start: &[u8], length: u64) -> Result<Fixed, Damage> {
        let start: &[u8; FIXED] = start.first_chunk().ok_or(Damage::Truncated)?;
        if &field::<8>(start, 0) != MAGIC {
            return Err(Damage::Magic);
        }
        let schema = u32::from_le_bytes(field(start, 8));
        if schema != SCHEMA {
            return Err(Damage::Schema { found: schema });
        }
        let head = u32::from_le_bytes(field(start, 12)) as usize;
        let said = u64::from_le_bytes(field(start, 48));
        let parts = u32::from_le_bytes(field(start, 56)) as usize;
        let text = u32::from_le_bytes(field(start, 60)) as usize;
        let least = parts
            .checked_mul(ROW)
            .and_then(|rows| rows.checked_add(FIXED)?.checked_add(text));
        if said > length {
            return Err(Damage::Truncated);
        }
        if said != length
            || head > LARGEST_HEAD
            || head as u64 > length
            || least.is_none_or(|least| least > head)
        {
            return Err(Damage::Lengths);
        }
        Ok(Fixed {
            length: head,
            file: usize::try_from(length).map_err(|_| Damage::Lengths)?,
            parts,
            text,
        })
    }

    /// Reads the head, which `start` must hold all of.
    pub(super) fn head(&self, start: &[u8]) -> Result<Head, Damage> {
        let head = start.get(..self.length).ok_or(Damage::Truncated)?;
        if head_sum(head).to_le_bytes() != head[SUM] {
            return Err(Damage::Checksum);
        }
        // The lengths below were put by this program, but a checksum is no proof.
        let (rows, names) = head[FIXED..].split_at(self.parts * ROW);
        let mut names = &names[..names.len() - self.text];
        let mut end = self.length;
        let mut parts = Vec::with_capacity(self.parts);
        for row in rows.chunks_exact(ROW) {
            let row: &[u8; ROW] = row.try_into().map_err(|_| Damage::Lengths)?;
            let length = u64::from_le_bytes(field(row, 0));
            let name = u32::from_le_bytes(field(row, 24)) as usize;
            let (name, rest) = names.split_at_checked(name).ok_or(Damage::Lengths)?;
            names = rest;
            let begin = end.next_multiple_of(ALIGN);
            end = usize::try_from(length)
                .ok()
                .and_then(|length| begin.checked_add(length))
                .filter(|&end| end <= self.file)
                .ok_or(Damage::Lengths)?;
            parts.push(Part {
                name: String::from_utf8(name.to_vec()).map_err(|_| Damage::Lengths)?,
                bytes: begin..end,
                sum: u128::from_le_bytes(field(row, 8)),
            });
        }
        if end != self.file || !names.is_empty() {
            return Err(Damage::Lengths);
        }
        Ok(Head {
            key: Key::from_bytes(*head[16..].first_chunk().ok_or(Damage::Lengths)?),
            parts,
            text: self.length - self.text..self.length,
        })
    }
}

/// `N` bytes at `at`; the callers' offsets all lie within the array.
fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut found = [0; N];
    found.copy_from_slice(&bytes[at..at + N]);
    found
}

fn head_sum(head: &[u8]) -> u128 {
    let mut hash = XxHash3_128::new();
    hash.write(&head[..SUM.start]);
    hash.write(&head[SUM.end..]);
    hash.finish_128()
}

fn sum(bytes: &[u8]) -> u128 {
    XxHash3_128::oneshot(bytes)
}

/// Why a file is not the blob that it is named for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Damage {
    #[error("it is cut short")]
    Truncated,
    #[error("it does not start like a blob")]
    Magic,
    #[error("it has schema {found}, this program reads {SCHEMA}")]
    Schema { found: u32 },
    #[error("its lengths do not add up")]
    Lengths,
    #[error("it holds the blob of another key")]
    Key,
    #[error("its checksum does not match")]
    Checksum,
    #[error("there is something between its parts")]
    Padding,
    #[error("it has {0} bytes, more than any cache holds")]
    TooLong(u64),
    #[error("{0}")]
    Untrusted(String),
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(n: u8) -> Key {
        Key::from_bytes([n; 32])
    }

    fn provenance() -> Provenance {
        Provenance {
            source: "a b.ptx".into(),
            kernels: vec!["one".into(), "two".into()],
            target: "sm_90a".into(),
            compiler: "nvidia 13.0".into(),
            compile_time: Duration::from_micros(1234),
            image: "PTX for sm_90: the only image".into(),
        }
    }

    fn bytes() -> Vec<u8> {
        let parts: [(&str, &[u8]); 3] = [("", b"the code"), ("b", b""), ("c", &[7; 65])];
        Blob::new(&key(7), &provenance(), &parts).file().to_vec()
    }

    fn read(file: Vec<u8>) -> Result<Blob, Damage> {
        Blob::read(file, &key(7), false)
    }

    #[test]
    fn what_is_written_is_read() {
        let file = bytes();
        let fixed = Fixed::read(&file, file.len() as u64).unwrap();
        let head = fixed.head(&file).unwrap();
        assert_eq!(head.key, key(7));
        let blob = read(file).unwrap();
        assert_eq!(blob.provenance(), provenance());
        assert_eq!(&*blob, b"the code");
        let names: Vec<&str> = blob.parts().map(|(name, _)| name).collect();
        assert_eq!(names, ["", "b", "c"]);
        assert_eq!(blob.part("b"), Some(&b""[..]));
        assert_eq!(blob.part("c"), Some(&[7; 65][..]));
        assert_eq!(blob.part("d"), None);
        assert!(blob.parts.iter().all(|part| part.bytes.start % 64 == 0));
    }

    #[test]
    fn a_blob_may_have_no_parts() {
        let file = Blob::new(&key(7), &provenance(), &[]).file().to_vec();
        assert_eq!(&*read(file).unwrap(), b"");
    }

    #[test]
    fn a_flipped_bit_is_found_wherever_it_lies() {
        let good = bytes();
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert!(read(bad).is_err(), "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn every_other_length_is_refused() {
        let good = bytes();
        for length in 0..good.len() {
            assert!(read(good[..length].to_vec()).is_err());
        }
        let mut longer = good.clone();
        longer.push(0);
        assert_eq!(read(longer).unwrap_err(), Damage::Lengths);
    }

    #[test]
    fn each_damage_has_its_name() {
        let damage = |at: usize, with: &[u8]| {
            let mut bad = bytes();
            bad[at..at + with.len()].copy_from_slice(with);
            read(bad).unwrap_err()
        };
        assert_eq!(damage(0, b"ELF"), Damage::Magic);
        assert_eq!(damage(8, &[9]), Damage::Schema { found: 9 });
        assert_eq!(damage(16, &[8]), Damage::Checksum);
        assert_eq!(damage(48, &[0xff; 2]), Damage::Truncated);
        assert_eq!(damage(56, &[0xff; 4]), Damage::Lengths);
        assert_eq!(damage(60, &[0xff; 4]), Damage::Lengths);
        assert_eq!(damage(64, &[0; 16]), Damage::Checksum);
        assert_eq!(damage(bytes().len() - 66, &[1]), Damage::Padding);
        assert_eq!(damage(bytes().len() - 1, &[1]), Damage::Checksum);
        assert_eq!(
            Blob::read(bytes(), &key(8), false).unwrap_err(),
            Damage::Key
        );
    }

    /// With the checksum of the head made right, as no accident makes it.
    #[test]
    fn lengths_that_lie_are_found_behind_a_right_checksum() {
        for at in (12..16).chain(48..64).chain(FIXED..FIXED + 3 * ROW) {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bad = bytes();
                bad[at] = value;
                let length = u32::from_le_bytes(field(&bad, 12)) as usize;
                if length >= FIXED && length <= bad.len() {
                    let sum = head_sum(&bad[..length]).to_le_bytes();
                    bad[SUM].copy_from_slice(&sum);
                }
                assert!(bad == bytes() || read(bad).is_err(), "byte {at} = {value}");
            }
        }
    }
    #[test]
    fn no_bytes_make_it_panic() {
        let mut state = 1_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as usize
        };
        for round in 0..20_000 {
            let mut file = bytes();
            for _ in 0..1 + random() % 4 {
                let at = random() % file.len();
                file[at] = [0, 1, 0x7f, 0xff, random() as u8][random() % 5];
            }
            file.truncate(file.len() - random() % file.len() * (round % 2));
            // A right checksum lets the rest of the head be read.
            if let Some(length) = file.get(12..16).map(|bytes| field(bytes, 0))
                && let length = u32::from_le_bytes(length) as usize
                && (FIXED..=file.len()).contains(&length)
            {
                let sum = head_sum(&file[..length]).to_le_bytes();
                file[SUM].copy_from_slice(&sum);
            }
            if let Ok(blob) = Blob::read(file, &key(7), round % 3 == 0) {
                let bytes: usize = blob.parts().map(|(_, bytes)| bytes.len()).sum();
                assert!(bytes <= blob.file().len());
                blob.provenance();
            }
        }
    }
}
