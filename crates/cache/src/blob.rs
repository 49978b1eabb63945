//! The bytes of one blob file: a head that describes it, then the code.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | magic `PTXKBLOB` |
//! | 8 | 4 | schema |
//! | 12 | 4 | length of the head |
//! | 16 | 32 | key |
//! | 48 | 8 | length of the file |
//! | 56 | 16 | checksum of the code |
//! | 72 | 16 | checksum of the rest of the head |
//! | 88 | … | the provenance, which ends the head |
//! | … | | the code, at the next multiple of 64, zeros before it |
//!
//! Integers are little-endian. The code is aligned so that a driver can read it
//! where it lies.
//!
//! The checksums are XXH3-128. They detect damage, not intent: whoever may write
//! to the folder could make any checksum right, which is why only the user may.
//! A blob is not synced when it is written: one that a power failure tore fails
//! its checksum, and is compiled anew. XXH3 takes a tenth of the time of SHA-256
//! (`cargo bench --bench cache_store`). It is the crate's code for what the compiler's
//! target has, which is SSE2: to ask for AVX2 at run time means CPUID, which costs a
//! virtual machine more than it saves on most blobs.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::contents::Contents;
use super::key::{Key, SCHEMA};
use super::provenance::Provenance;

const MAGIC: &[u8; 8] = b"PTXKBLOB";
const CODE_SUM: Range<usize> = 56..72;
const HEAD_SUM: Range<usize> = 72..88;
/// Bytes of the head before the provenance.
pub(super) const FIXED: usize = 88;
const ALIGN: usize = 64;
/// Far above what any module's kernel names take; bounds what is read before a
/// checksum was verified.
pub(super) const MAX_HEAD: usize = 1 << 24;

/// A compiled module from the cache: its code, by [`Deref`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Blob {
    file: Arc<Contents>,
    /// Where the code lies. The range was checked against the file's length.
    code: Range<usize>,
    provenance: Range<usize>,
}

impl Blob {
    /// Builds the blob of `key`.
    pub(super) fn new(key: &Key, provenance: &Provenance, code: &[u8]) -> Blob {
        let mut text = provenance.to_text();
        if FIXED + text.len() > MAX_HEAD {
            text = provenance.without_kernels().to_text();
        }
        let head = FIXED + text.len();
        let start = head.next_multiple_of(ALIGN);
        let length = start + code.len();
        let mut file = Vec::with_capacity(length);
        file.extend_from_slice(MAGIC);
        file.extend_from_slice(&SCHEMA.to_le_bytes());
        file.extend_from_slice(&(head as u32).to_le_bytes());
        file.extend_from_slice(key.as_bytes());
        file.extend_from_slice(&(length as u64).to_le_bytes());
        file.extend_from_slice(&sum(code).to_le_bytes());
        file.extend_from_slice(&[0; HEAD_SUM.end - HEAD_SUM.start]);
        file.extend_from_slice(text.as_bytes());
        let head_sum = head_sum(&file).to_le_bytes();
        file[HEAD_SUM].copy_from_slice(&head_sum);
        file.resize(start, 0);
        file.extend_from_slice(code);
        Blob {
            file: Arc::new(file.into()),
            code: start..length,
            provenance: FIXED..head,
        }
    }

    /// Reads the blob of `key` out of a file's bytes. Where the file is
    /// `verified` already, its code is not checked again.
    pub(super) fn read(
        file: impl Into<Contents>,
        key: &Key,
        verified: bool,
    ) -> Result<Blob, Damage> {
        let file = file.into();
        let head = Fixed::read(&file, file.len() as u64)?.head(&file)?;
        if head.key != *key {
            return Err(Damage::Key);
        }
        if !verified {
            let padding = &file[head.provenance.end..head.code.start];
            if padding.iter().any(|&byte| byte != 0) {
                return Err(Damage::Padding);
            }
            if sum(&file[head.code.clone()]).to_le_bytes() != file[CODE_SUM] {
                return Err(Damage::Checksum);
            }
        }
        Ok(Blob {
            file: Arc::new(file),
            code: head.code,
            provenance: head.provenance,
        })
    }

    /// Where it comes from.
    pub fn provenance(&self) -> Provenance {
        Provenance::from_bytes(&self.file[self.provenance.clone()])
    }

    /// The whole file, as [`read`](Blob::read) takes it.
    pub(super) fn file(&self) -> &[u8] {
        &self.file
    }
}

impl Deref for Blob {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.file[self.code.clone()]
    }
}

/// The lengths in the first bytes of a blob file, checked against the file's.
#[derive(Debug)]
pub(super) struct Fixed {
    /// Bytes of the head.
    pub head: usize,
    file: usize,
}

/// The head of a blob file, its checksum verified.
#[derive(Debug)]
pub(super) struct Head {
    pub key: Key,
    pub provenance: Range<usize>,
    code: Range<usize>,
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
        let expected = u64::from_le_bytes(field(start, 48));
        if expected > length {
            return Err(Damage::Truncated);
        }
        let is_head = (FIXED..=MAX_HEAD).contains(&head);
        if expected != length || !is_head || head.next_multiple_of(ALIGN) as u64 > length {
            return Err(Damage::Lengths);
        }
        Ok(Fixed {
            head,
            file: usize::try_from(length).map_err(|_| Damage::Lengths)?,
        })
    }

    /// Reads the head, which `start` must hold all of.
    pub(super) fn head(&self, start: &[u8]) -> Result<Head, Damage> {
        let head = start.get(..self.head).ok_or(Damage::Truncated)?;
        if head_sum(head).to_le_bytes() != head[HEAD_SUM] {
            return Err(Damage::Checksum);
        }
        Ok(Head {
            key: Key::from_bytes(*head[16..].first_chunk().ok_or(Damage::Lengths)?),
            provenance: FIXED..self.head,
            code: self.head.next_multiple_of(ALIGN)..self.file,
        })
    }
}

/// `N` bytes at `at`; the callers' offsets all lie within the array.
fn field<const N: usize>(bytes: &[u8; FIXED], at: usize) -> [u8; N] {
    let mut found = [0; N];
    found.copy_from_slice(&bytes[at..at + N]);
    found
}

fn head_sum(head: &[u8]) -> u128 {
    let mut hash = Xxh3::new();
    hash.update(&head[..HEAD_SUM.start]);
    hash.update(&head[HEAD_SUM.end..]);
    hash.digest128()
}

fn sum(bytes: &[u8]) -> u128 {
    xxh3_128(bytes)
}

/// Why a file is not the blob that it is named for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    Truncated,
    Magic,
    Schema { found: u32 },
    Lengths,
    Key,
    Checksum,
    Padding,
    TooLong(u64),
    Untrusted(String),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Truncated => f.write_str("it is truncated"),
            Damage::Magic => f.write_str("it does not start like a blob"),
            Damage::Schema { found } => {
                write!(f, "it has schema {found}, this program reads {SCHEMA}")
            }
            Damage::Lengths => f.write_str("its lengths do not add up"),
            Damage::Key => f.write_str("it holds the blob of another key"),
            Damage::Checksum => f.write_str("its checksum does not match"),
            Damage::Padding => f.write_str("there are bytes between head and code"),
            Damage::TooLong(bytes) => write!(f, "it has {bytes} bytes, more than any cache holds"),
            Damage::Untrusted(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Damage {}

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
            slices: vec![key(1), key(2)],
            module: Some(key(3)),
        }
    }

    fn bytes() -> Vec<u8> {
        Blob::new(&key(7), &provenance(), b"the code")
            .file()
            .to_vec()
    }

    fn read(file: Vec<u8>) -> Result<Blob, Damage> {
        Blob::read(file, &key(7), false)
    }

    #[test]
    fn what_is_written_is_read() {
        let file = bytes();
        let fixed = Fixed::read(&file, file.len() as u64).unwrap();
        assert_eq!(fixed.head(&file).unwrap().key, key(7));
        let blob = read(file).unwrap();
        assert_eq!(blob.provenance(), provenance());
        assert_eq!(&*blob, b"the code");
        assert_eq!(blob.code.start % 64, 0);
    }

    #[test]
    fn the_code_may_be_empty() {
        let file = Blob::new(&key(7), &provenance(), b"").file().to_vec();
        assert_eq!(&*read(file).unwrap(), b"");
    }

    #[test]
    fn more_names_than_a_head_holds_are_left_out() {
        let names = Provenance {
            kernels: vec!["k".repeat(1000); MAX_HEAD / 1000],
            ..provenance()
        };
        let file = Blob::new(&key(7), &names, b"the code").file().to_vec();
        let blob = read(file).unwrap();
        assert_eq!(blob.provenance(), names.without_kernels());
        assert_eq!(&*blob, b"the code");
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
        let code = bytes().len() - b"the code".len();
        assert_eq!(damage(0, b"ELF"), Damage::Magic);
        assert_eq!(damage(8, &[9]), Damage::Schema { found: 9 });
        assert_eq!(damage(12, &[0xff; 4]), Damage::Lengths);
        assert_eq!(damage(12, &[0; 4]), Damage::Lengths);
        assert_eq!(damage(16, &[8]), Damage::Checksum);
        assert_eq!(damage(48, &[0xff; 2]), Damage::Truncated);
        assert_eq!(damage(56, &[0; 16]), Damage::Checksum);
        assert_eq!(damage(72, &[0; 16]), Damage::Checksum);
        assert_eq!(damage(code - 1, &[1]), Damage::Padding);
        assert_eq!(damage(code, &[1]), Damage::Checksum);
        assert_eq!(
            Blob::read(bytes(), &key(8), false).unwrap_err(),
            Damage::Key
        );
    }

    /// With the head's checksum made right, as no accident makes it.
    #[test]
    fn lengths_are_checked_though_the_checksum_is_right() {
        let resigned = |at: usize, with: &[u8]| {
            let mut bad = bytes();
            bad[at..at + with.len()].copy_from_slice(with);
            let head = u32::from_le_bytes(bad[12..16].try_into().unwrap()) as usize;
            if let Some(head) = bad.get(..head).filter(|head| head.len() >= FIXED) {
                let sum = head_sum(head).to_le_bytes();
                bad[HEAD_SUM].copy_from_slice(&sum);
            }
            read(bad)
        };
        for length in 0..=bytes().len() as u32 + 1 {
            // A head may reach into the zeros behind it; the code stays the same.
            if let Ok(blob) = resigned(12, &length.to_le_bytes()) {
                assert_eq!(&*blob, b"the code", "a head of {length} bytes");
            }
        }
        for length in [0, u64::MAX, u64::MAX / 2, bytes().len() as u64 - 1] {
            assert!(resigned(48, &length.to_le_bytes()).is_err(), "{length}");
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
            if let Some(length) = file.get(12..16)
                && let length = u32::from_le_bytes(length.try_into().unwrap()) as usize
                && (FIXED..=file.len()).contains(&length)
            {
                let sum = head_sum(&file[..length]).to_le_bytes();
                file[HEAD_SUM].copy_from_slice(&sum);
            }
            if let Ok(blob) = Blob::read(file, &key(7), round % 3 == 0) {
                assert!(blob.len() <= blob.file().len());
                blob.provenance();
            }
        }
    }
}
