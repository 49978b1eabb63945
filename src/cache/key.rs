//! What a blob is found by: everything that can change the code.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// The layout of blobs and the make-up of keys. A change of either counts it
/// up, so that versions of this crate never read each other's blobs.
pub const SCHEMA: u32 = 1;

/// SHA-256 of a source text. Computing it is the larger part of a hit, so
/// keep it with the text where that is loaded more than once.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

/// The name of a blob: 32 bytes, printed as 64 hexadecimal digits.
///
/// ```
/// use ptxkit::cache::{Digest, Key, KeyParts};
///
/// let parts = KeyParts {
///     source: Digest::of(b".version 9.0\n.target sm_90a\n"),
///     target: "sm_90a",
///     driver_version: 13000,
///     compiler: "nvidia 580.159.04",
///     options: b"",
/// };
/// let key = Key::new(&parts);
/// assert_eq!(key.to_string().len(), 64);
/// // A driver upgrade changes the key, so stale code is never found.
/// assert_ne!(key, Key::new(&KeyParts { driver_version: 13010, ..parts }));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key([u8; 32]);

/// What goes into a [`Key`].
#[derive(Clone, Copy, Debug)]
pub struct KeyParts<'a> {
    /// Of the PTX text, without the NUL at its end.
    pub source: Digest,
    /// The architecture compiled for, with its suffix: `sm_90a`.
    pub target: &'a str,
    /// As `cuDriverGetVersion` gives it: 13000 for CUDA 13.0.
    pub driver_version: u32,
    /// Which compiler, and which build of it.
    pub compiler: &'a str,
    /// The options that change code, in a form that differs where they do.
    pub options: &'a [u8],
}

impl Key {
    /// The key of what is made from `parts`.
    pub fn new(parts: &KeyParts<'_>) -> Key {
        let mut hash = Sha256::new();
        hash.update(SCHEMA.to_le_bytes());
        hash.update(parts.source.0);
        hash.update(parts.driver_version.to_le_bytes());
        // With their lengths, so that no two divisions of the same bytes agree.
        for field in [
            parts.target.as_bytes(),
            parts.compiler.as_bytes(),
            parts.options,
        ] {
            hash.update((field.len() as u64).to_le_bytes());
            hash.update(field);
        }
        Key(hash.finalize().into())
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub(super) fn from_bytes(bytes: [u8; 32]) -> Key {
        Key(bytes)
    }

    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Key> {
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Key(bytes))
    }

    /// The first 12 digits: enough for a person.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> KeyParts<'static> {
        KeyParts {
            source: Digest::of(b"text"),
            target: "sm_90",
            driver_version: 13000,
            compiler: "c1",
            options: b"o",
        }
    }

    #[test]
    fn every_part_changes_the_key() {
        let changed = [
            KeyParts {
                source: Digest::of(b"texT"),
                ..parts()
            },
            KeyParts {
                target: "sm_90a",
                ..parts()
            },
            KeyParts {
                driver_version: 13010,
                ..parts()
            },
            KeyParts {
                compiler: "c2",
                ..parts()
            },
            KeyParts {
                options: b"",
                ..parts()
            },
            // The same bytes, divided otherwise.
            KeyParts {
                target: "sm_90c",
                compiler: "1",
                ..parts()
            },
        ];
        let mut keys: Vec<Key> = changed.iter().map(Key::new).collect();
        keys.push(Key::new(&parts()));
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 7);
    }

    #[test]
    fn printed_keys_are_read_back() {
        let key = Key::new(&parts());
        assert_eq!(Key::parse(&key.to_string()), Some(key));
        assert_eq!(Key::parse(&key.to_string()[1..]), None);
        assert_eq!(Key::parse(&"g".repeat(64)), None);
        assert_eq!(Key::parse(&"é".repeat(32)), None);
    }
}
