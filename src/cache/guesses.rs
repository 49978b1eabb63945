//! Guesses at digests: which SHA-256 a text will turn out to have.
//!
//! The digest of a large text takes as long as finding, reading and checking
//! its blob. To do both at once, the key must be known before the digest is: a
//! table in the folder tells, by the XXH3 of a text, which digest a text of
//! that hash had the last time. That is a head start and nothing more. Whoever
//! follows a guess computes the digest meanwhile, and where the two differ, or
//! where there is no guess, goes the way without.
//!
//! The table is the file `guesses`, of rows of 64 bytes. A hash has one row that
//! may hold it, whoever came last has that row, and a row that two processes
//! wrote at once fails its checksum:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 16 | XXH3-128 of the text |
//! | 16 | 32 | SHA-256 of the text |
//! | 48 | 16 | XXH3-128 of the 48 before |

use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use twox_hash::XxHash3_128;

use super::folder::{self, Owner};
use ptx::Digest;

const ROW: usize = 64;
/// One megabyte of a sparse file.
const ROWS: u128 = 1 << 14;

/// What is known of the digest of a text before it is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guess {
    hash: u128,
    pub(crate) digest: Option<Digest>,
}

impl Guess {
    /// What the table in the store at `root` has of `text`.
    pub(super) fn of(text: &[u8], root: &Path) -> Guess {
        let hash = XxHash3_128::oneshot(text);
        let digest = read(root, hash).ok().flatten();
        Guess { hash, digest }
    }

    /// Enters what the digest is instead.
    pub(super) fn correct(&self, digest: Digest, root: &Path) -> io::Result<()> {
        let path = path(root);
        let mut file = match folder::open_to_write(&path, Owner::User) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match folder::create_file(&path) {
                    // Another process was faster.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        folder::open_to_write(&path, Owner::User)?
                    }
                    created => created?,
                }
            }
            opened => opened?,
        };
        file.seek(SeekFrom::Start(place(self.hash)))?;
        file.write_all(&row(self.hash, digest))
    }
}

/// Whether there is a table.
pub(super) fn are_kept(root: &Path) -> bool {
    path(root).is_file()
}

/// Removes the table.
pub(super) fn clear(root: &Path) -> io::Result<()> {
    match fs::remove_file(path(root)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn path(root: &Path) -> PathBuf {
    root.join("guesses")
}

fn place(hash: u128) -> u64 {
    (hash % ROWS) as u64 * ROW as u64
}

fn read(root: &Path, hash: u128) -> io::Result<Option<Digest>> {
    let (mut file, _) = folder::open(&path(root), Owner::User)?;
    file.seek(SeekFrom::Start(place(hash)))?;
    let mut found = [0; ROW];
    file.read_exact(&mut found)?;
    let mut digest = [0; 32];
    digest.copy_from_slice(&found[16..48]);
    let digest = Digest::from_bytes(digest);
    // A row of another text, or of none, is not this one.
    Ok((found == row(hash, digest)).then_some(digest))
}

fn row(hash: u128, digest: Digest) -> [u8; ROW] {
    let mut row = [0; ROW];
    row[..16].copy_from_slice(&hash.to_le_bytes());
    row[16..48].copy_from_slice(digest.as_bytes());
    let sum = XxHash3_128::oneshot(&row[..48]);
    row[48..].copy_from_slice(&sum.to_le_bytes());
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guess_is_what_was_entered() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let of = |text: &[u8]| Guess::of(text, root).digest;
        assert_eq!(of(b"one"), None);
        for text in [&b"one"[..], b"two", b"one"] {
            let digest = Digest::of(text);
            Guess::of(text, root).correct(digest, root).unwrap();
            assert_eq!(of(text), Some(digest));
        }
        assert_eq!(of(b"three"), None);
        // A wrong one is corrected.
        let wrong = Digest::of(b"another");
        Guess::of(b"two", root).correct(wrong, root).unwrap();
        assert_eq!(of(b"two"), Some(wrong));
        assert_eq!(of(b"one"), Some(Digest::of(b"one")));
        clear(root).unwrap();
        clear(root).unwrap();
        assert_eq!(of(b"one"), None);
    }

    #[test]
    fn a_damaged_row_is_no_guess() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let guess = Guess::of(b"text", root);
        guess.correct(Digest::of(b"text"), root).unwrap();
        let good = fs::read(path(root)).unwrap();
        let first = place(guess.hash) as usize;
        for at in first..first + ROW {
            let mut bad = good.clone();
            bad[at] ^= 4;
            fs::write(path(root), bad).unwrap();
            assert_eq!(Guess::of(b"text", root).digest, None, "byte {at}");
        }
        for length in [0, 1, first, first + ROW - 1] {
            fs::write(path(root), &good[..length]).unwrap();
            assert_eq!(Guess::of(b"text", root).digest, None, "{length} bytes");
        }
        fs::write(path(root), &good).unwrap();
        assert_eq!(
            Guess::of(b"text", root),
            Guess {
                digest: Some(Digest::of(b"text")),
                ..guess
            }
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_neither_read_nor_written() {
        let [folder, elsewhere] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [root, other] = [folder.path(), elsewhere.path()];
        let digest = Digest::of(b"text");
        Guess::of(b"text", other).correct(digest, other).unwrap();
        let theirs = fs::read(path(other)).unwrap();
        std::os::unix::fs::symlink(path(other), path(root)).unwrap();
        let guess = Guess::of(b"text", root);
        assert_eq!(guess.digest, None);
        assert!(guess.correct(Digest::of(b"evil"), root).is_err());
        assert_eq!(fs::read(path(other)).unwrap(), theirs);
    }
}
