//! The key of a blob: everything that can change the code.

use std::fmt;

use ptx::Digest;
use xxhash_rust::xxh3::xxh3_128;

/// The version of the blob layout and of the key's fields. A change of either
/// raises it, so that versions of this crate never read each other's blobs.
pub const SCHEMA: u32 = 5;

/// Bytes of a key that tell sources and their parts apart.
const HASH: usize = 24;

/// The name of a blob: 32 bytes, printed as 64 hexadecimal digits.
///
/// The first 24 are of the source's digest; the first 16 of them are mixed with a hash of
/// everything else that can change the code. The last 8 repeat in plain which driver and
/// compiler made it, so that eviction tells what an upgrade left behind by the names of the
/// files.
///
/// ```
/// use ptxkit_cache::{Digest, Key, KeyParts};
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
        let mut rest = Vec::with_capacity(256);
        rest.extend_from_slice(&SCHEMA.to_le_bytes());
        rest.extend_from_slice(&parts.driver_version.to_le_bytes());
        // With their lengths, so that no two divisions of the same bytes agree.
        for field in [
            parts.target.as_bytes(),
            parts.compiler.as_bytes(),
            parts.options,
        ] {
            rest.extend_from_slice(&(field.len() as u64).to_le_bytes());
            rest.extend_from_slice(field);
        }
        let mut key = *parts.source.as_bytes();
        mix(&mut key, &rest);
        key[HASH..].copy_from_slice(&Generation::of(parts).to_bytes());
        Key(key)
    }

    /// The key of what the same compiler made of this key's source beside the code: `part`
    /// says what.
    ///
    /// ```
    /// # use ptxkit_cache::Key;
    /// # let key = Key::from_bytes([7; 32]);
    /// assert_ne!(key.of_part(b"first"), key.of_part(b"second"));
    /// ```
    #[must_use]
    pub fn of_part(&self, part: &[u8]) -> Key {
        let mut key = self.0;
        mix(&mut key, &[&self.0, part].concat());
        Key(key)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The driver and compiler that made its blob.
    pub(super) fn generation(&self) -> Generation {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[HASH..]);
        Generation::from_bytes(bytes)
    }

    /// A key from its bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Key {
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

    /// The first 12 digits: enough to name it in messages.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }

    /// Its 64 digits, which name its file.
    pub(super) fn digits(&self) -> String {
        digits(&self.0)
    }
}

/// A driver and its compiler, as the last bytes of a key name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generation {
    /// Of the compiler's first word: NVIDIA's or the CPU device's. Neither
    /// makes the other's blobs old.
    pub family: u16,
    /// As in [`KeyParts::driver_version`].
    pub version: u32,
    /// Of the compiler's whole name.
    pub compiler: u16,
}

impl Generation {
    fn of(parts: &KeyParts<'_>) -> Generation {
        let family = parts.compiler.split(' ').next().unwrap_or_default();
        Generation {
            family: tag(family),
            version: parts.driver_version,
            compiler: tag(parts.compiler),
        }
    }

    pub(super) fn to_bytes(self) -> [u8; 8] {
        let [a, b] = self.family.to_be_bytes();
        let [c, d, e, f] = self.version.to_be_bytes();
        let [g, h] = self.compiler.to_be_bytes();
        [a, b, c, d, e, f, g, h]
    }

    pub(super) fn from_bytes([a, b, c, d, e, f, g, h]: [u8; 8]) -> Generation {
        Generation {
            family: u16::from_be_bytes([a, b]),
            version: u32::from_be_bytes([c, d, e, f]),
            compiler: u16::from_be_bytes([g, h]),
        }
    }
}

/// The text may be a stranger's, so its digest is cryptographic and stays whole: whoever finds
/// two keys that agree has found it for BLAKE3. The rest is chosen by this program and its
/// user, so a fast hash tells it apart. A process that knows the digest runs no BLAKE3, whose
/// first call costs more than all else that a key takes.
fn mix(key: &mut [u8; 32], rest: &[u8]) {
    for (byte, hash) in key.iter_mut().zip(xxh3_128(rest).to_le_bytes()) {
        *byte ^= hash;
    }
}

fn tag(text: &str) -> u16 {
    let [first, second, ..] = xxh3_128(text.as_bytes()).to_be_bytes();
    u16::from_be_bytes([first, second])
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

/// Every hit formats a key: this takes half the time of an iterator of characters.
fn digits(bytes: &[u8; 32]) -> String {
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        for n in [byte >> 4, byte & 15] {
            digits.push(char::from(b"0123456789abcdef"[usize::from(n)]));
        }
    }
    digits
}

fn write_hex(bytes: &[u8; 32], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(&digits(bytes))
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
    fn a_key_tells_its_generation() {
        let of = |parts: &KeyParts<'_>| Key::new(parts).generation();
        let one = of(&parts());
        assert_eq!(one.version, 13000);
        assert_eq!(Generation::from_bytes(one.to_bytes()), one);
        let source = Digest::of(b"another");
        assert_eq!(of(&KeyParts { source, ..parts() }), one);
        let [a, b, c] = ["nvidia a", "nvidia b", "ptxkit a"].map(|compiler| {
            of(&KeyParts {
                compiler,
                ..parts()
            })
        });
        assert_eq!(a.family, b.family);
        assert_ne!(a.compiler, b.compiler);
        assert_ne!(a.family, c.family);
    }

    #[test]
    fn parts_have_keys_of_their_own_in_the_same_generation() {
        let other = KeyParts {
            options: b"",
            ..parts()
        };
        let (one, other) = (Key::new(&parts()), Key::new(&other));
        let mut keys = vec![one, other];
        for part in [&b"a"[..], b"b", b""] {
            keys.extend([one.of_part(part), other.of_part(part)]);
            assert_eq!(one.of_part(part).generation(), one.generation());
        }
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 8);
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
