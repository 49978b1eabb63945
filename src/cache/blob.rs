//! The bytes of one blob file: header, provenance, payload.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | magic `PTXKBLOB` |
//! | 8 | 4 | schema |
//! | 12 | 4 | length of the provenance |
//! | 16 | 32 | key |
//! | 48 | 8 | offset of the payload, a multiple of 64 |
//! | 56 | 8 | length of the payload, which ends the file |
//! | 64 | 32 | SHA-256 of everything else |
//! | 96 | … | provenance, then zeros to the payload |
//!
//! Integers are little-endian. The payload is aligned so that a mapped or
//! loaded file can be handed to a driver as it lies.

use std::ops::{Deref, Range};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::key::{Key, SCHEMA};

const MAGIC: &[u8; 8] = b"PTXKBLOB";
const CHECKSUM: Range<usize> = 64..96;
/// Where the provenance starts.
pub(super) const FIXED: usize = 96;
const ALIGN: usize = 64;
/// Far above what any module's kernels take; bounds what a scan reads.
pub(super) const LARGEST_PROVENANCE: usize = 1 << 24;

/// Where a blob comes from: for people and tools, not part of the key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The name of the source: a path, or what the program called it.
    pub source: String,
    /// The names of its kernels.
    pub kernels: Vec<String>,
    /// The architecture compiled for: `sm_90a`, `cpu`.
    pub target: String,
    /// As in [`KeyParts::compiler`](super::KeyParts::compiler).
    pub compiler: String,
    /// How long it took to compile.
    pub compile_time: Duration,
}

impl Provenance {
    /// One `name value` a line, so that a new name does not break old readers.
    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            text.push_str(name);
            text.push(' ');
            text.extend(value.chars().map(|c| if c.is_control() { '?' } else { c }));
            text.push('\n');
        };
        line("source", &self.source);
        line("target", &self.target);
        line("compiler", &self.compiler);
        line(
            "compile_us",
            &self
                .compile_time
                .as_micros()
                .min(u64::MAX as u128)
                .to_string(),
        );
        for kernel in &self.kernels {
            line("kernel", kernel);
        }
        text
    }

    /// What `text` says; lines that it does not know are passed over.
    pub(super) fn from_text(text: &str) -> Provenance {
        let mut found = Provenance::default();
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("source", value)) => found.source = value.to_owned(),
                Some(("target", value)) => found.target = value.to_owned(),
                Some(("compiler", value)) => found.compiler = value.to_owned(),
                Some(("compile_us", value)) => {
                    found.compile_time = Duration::from_micros(value.parse().unwrap_or(0));
                }
                Some(("kernel", value)) => found.kernels.push(value.to_owned()),
                _ => {}
            }
        }
        found
    }
}

/// A compiled module as the cache gives it: the payload, by [`Deref`].
/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct Blob {
    file: Arc<Vec<u8>>,
    payload: Range<usize>,
}

impl Blob {
    /// Puts a blob together for `key`.
    pub(super) fn new(key: &Key, provenance: &Provenance, payload: &[u8]) -> Blob {
        let mut text = provenance.to_text();
        if text.len() > LARGEST_PROVENANCE {
            text = Provenance {
                kernels: Vec::new(),
                ..provenance.clone()
            }
            .to_text();
        }
        let start = (FIXED + text.len()).next_multiple_of(ALIGN);
        let mut file = Vec::with_capacity(start + payload.len());
        file.extend_from_slice(MAGIC);
        file.extend_from_slice(&SCHEMA.to_le_bytes());
        file.extend_from_slice(&(text.len() as u32).to_le_bytes());
        file.extend_from_slice(key.as_bytes());
        file.extend_from_slice(&(start as u64).to_le_bytes());
        file.extend_from_slice(&(payload.len() as u64).to_le_bytes());
        file.extend_from_slice(&[0; 32]);
        file.extend_from_slice(text.as_bytes());
        file.resize(start, 0);
        file.extend_from_slice(payload);
        let sum = checksum(&file);
        file[CHECKSUM].copy_from_slice(&sum);
        let payload = start..file.len();
        Blob {
            file: Arc::new(file),
            payload,
        }
    }

    /// Reads the blob of `key` out of a file's bytes.
    pub(super) fn read(file: Vec<u8>, key: &Key) -> Result<Blob, Damage> {
        let header = Header::read(&file, file.len() as u64)?;
        if header.key != *key {
            return Err(Damage::Key);
        }
        if file.get(CHECKSUM) != Some(checksum(&file).as_slice()) {
            return Err(Damage::Checksum);
        }
        Ok(Blob {
            payload: header.payload,
            file: Arc::new(file),
        })
    }

    /// The whole file, as [`read`](Blob::read) takes it.
    pub(super) fn file(&self) -> &[u8] {
        &self.file
    }
}

impl Deref for Blob {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // The range was checked against the file when the blob was made.
        &self.file[self.payload.clone()]
    }
}

/// The fixed part of a blob file, checked against the file's length.
#[derive(Debug)]
pub(super) struct Header {
    pub key: Key,
    pub provenance: Range<usize>,
    payload: Range<usize>,
}

impl Header {
    /// Reads the first bytes of a file that is `length` bytes long.
    pub(super) fn read(start: &[u8], length: u64) -> Result<Header, Damage> {
        let start: &[u8; FIXED] = start.first_chunk().ok_or(Damage::Truncated)?;
        if &field::<8>(start, 0) != MAGIC {
            return Err(Damage::Magic);
        }
        let schema = u32::from_le_bytes(field(start, 8));
        if schema != SCHEMA {
            return Err(Damage::Schema { found: schema });
        }
        let text = u32::from_le_bytes(field(start, 12)) as usize;
        let payload_start = u64::from_le_bytes(field(start, 48));
        let payload_length = u64::from_le_bytes(field(start, 56));
        let end = payload_start
            .checked_add(payload_length)
            .ok_or(Damage::Lengths)?;
        if end > length {
            return Err(Damage::Truncated);
        }
        if end != length
            || text > LARGEST_PROVENANCE
            || payload_start != (FIXED + text).next_multiple_of(ALIGN) as u64
        {
            return Err(Damage::Lengths);
        }
        let end = usize::try_from(end).map_err(|_| Damage::Lengths)?;
        Ok(Header {
            key: Key::from_bytes(field(start, 16)),
            provenance: FIXED..FIXED + text,
            payload: payload_start as usize..end,
        })
    }
}

/// `N` bytes at `at`; the callers' offsets all lie within the fixed part.
fn field<const N: usize>(start: &[u8; FIXED], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&start[at..at + N]);
    bytes
}

fn checksum(file: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(&file[..CHECKSUM.start]);
    hash.update(&file[CHECKSUM.end..]);
    hash.finalize().into()
}

/// Why a file is not the blob that it is named for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
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
}

#[cfg(test)]
mod tests {
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
        }
    }

    fn bytes() -> Vec<u8> {
        Blob::new(&key(7), &provenance(), b"the code")
            .file()
            .to_vec()
    }

    #[test]
    fn what_is_written_is_read() {
        let file = bytes();
        let header = Header::read(&file, file.len() as u64).unwrap();
        let text = std::str::from_utf8(&file[header.provenance.clone()]).unwrap();
        assert_eq!(Provenance::from_text(text), provenance());
        let blob = Blob::read(file, &key(7)).unwrap();
        assert_eq!(&*blob, b"the code");
        assert_eq!(blob.payload.start % 64, 0);
    }

    #[test]
    fn a_flipped_bit_is_found_wherever_it_lies() {
        let good = bytes();
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert!(Blob::read(bad, &key(7)).is_err(), "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn every_other_length_is_refused() {
        let good = bytes();
        for length in 0..good.len() {
            assert!(Blob::read(good[..length].to_vec(), &key(7)).is_err());
        }
        let mut longer = good.clone();
        longer.push(0);
        assert_eq!(Blob::read(longer, &key(7)).unwrap_err(), Damage::Lengths);
    }

    #[test]
    fn each_damage_has_its_name() {
        let damage = |at: usize, with: &[u8]| {
            let mut bad = bytes();
            bad[at..at + with.len()].copy_from_slice(with);
            Blob::read(bad, &key(7)).unwrap_err()
        };
        assert_eq!(damage(0, b"ELF"), Damage::Magic);
        assert_eq!(damage(8, &[2]), Damage::Schema { found: 2 });
        assert_eq!(damage(16, &[8]), Damage::Key);
        assert_eq!(damage(48, &[0xff; 16]), Damage::Lengths);
        assert_eq!(damage(56, &[0xff; 4]), Damage::Truncated);
        assert_eq!(damage(64, &[0; 32]), Damage::Checksum);
        assert_eq!(Blob::read(bytes(), &key(8)).unwrap_err(), Damage::Key);
    }

    #[test]
    fn a_name_with_a_line_break_stays_one_line() {
        let odd = Provenance {
            source: "a\nkernel b".into(),
            ..Provenance::default()
        };
        let read = Provenance::from_text(&odd.to_text());
        assert_eq!(read.source, "a?kernel b");
        assert!(read.kernels.is_empty());
    }
}
