//! The results of an assembly, as the cache stores them.
//!
//! | bytes | what |
//! |---|---|
//! | … | the cubin |
//! | … | the text of standard output |
//! | … | the text of standard error |
//! | 24 | the lengths of these three, little-endian |
//! | 8 | magic `PTXASRES` |
//!
//! The texts have a NUL in the place of the input file's name.

use std::ffi::OsStr;
use std::io::{self, Write};

use super::invocation::Invocation;

const MAGIC: &[u8; 8] = b"PTXASRES";

/// Stands for the name of the input file.
const NAME: u8 = 0;

/// The texts of both output streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    output: Vec<u8>,
    error: Vec<u8>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    pub cubin: Vec<u8>,
    pub texts: Texts,
}

impl Texts {
    /// The texts of a run that called its input file `input`. `None` if they cannot be printed
    /// for another name: they contain a NUL, or `unique`, which only the names of that run contain,
    /// elsewhere than in `input`.
    pub fn of(output: &[u8], error: &[u8], input: &[u8], unique: &[u8]) -> Option<Texts> {
        let with_place = |text: &[u8]| {
            let text = replaced(text, input)?;
            (!contains(&text, unique)).then_some(text)
        };
        Some(Texts {
            output: with_place(output)?,
            error: with_place(error)?,
        })
    }

    /// Prints both, with the name of the input file on the command line.
    pub fn print(&self, invocation: &Invocation) {
        let name = invocation.input().as_os_str();
        // A closed stream is no error of ptxas either.
        let _ = io::stdout().write_all(&with_name(&self.output, name));
        let _ = io::stdout().flush();
        let _ = io::stderr().write_all(&with_name(&self.error, name));
    }
}

impl Stored {
    /// Whether both texts have bytes.
    pub fn writes_both(&self) -> bool {
        !self.texts.output.is_empty() && !self.texts.error.is_empty()
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let fields = [&self.cubin, &self.texts.output, &self.texts.error];
        let mut bytes =
            Vec::with_capacity(fields.iter().map(|field| field.len()).sum::<usize>() + 32);
        for field in fields {
            bytes.extend_from_slice(field);
        }
        for field in fields {
            bytes.extend_from_slice(&(field.len() as u64).to_le_bytes());
        }
        bytes.extend_from_slice(MAGIC);
        bytes
    }

    /// Reads what `to_bytes` wrote.
    pub fn read(bytes: &[u8]) -> Option<Stored> {
        let (bytes, magic) = bytes.split_last_chunk::<8>()?;
        if magic != MAGIC {
            return None;
        }
        let (bytes, lengths) = bytes.split_last_chunk::<24>()?;
        let mut left = bytes;
        let mut fields = lengths.chunks_exact(8).map(|length| {
            let length = u64::from_le_bytes(length.try_into().ok()?);
            let (field, rest) = left.split_at_checked(usize::try_from(length).ok()?)?;
            left = rest;
            Some(field.to_vec())
        });
        let (cubin, output, error) = (fields.next()??, fields.next()??, fields.next()??);
        drop(fields);
        left.is_empty().then_some(Stored {
            cubin,
            texts: Texts { output, error },
        })
    }
}

pub fn contains(bytes: &[u8], part: &[u8]) -> bool {
    find(bytes, part).is_some()
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    let first = *part.first()?;
    let mut from = 0;
    while let Some(next) = bytes.get(from..)?.iter().position(|byte| *byte == first) {
        if bytes[from + next..].starts_with(part) {
            return Some(from + next);
        }
        from += next + 1;
    }
    None
}

/// The text with [`NAME`] in the place of `name`; `None` if it contains one already.
fn replaced(text: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    if text.contains(&NAME) {
        return None;
    }
    let mut left = text;
    let mut replaced = Vec::with_capacity(text.len());
    while let Some(at) = find(left, name) {
        replaced.extend_from_slice(&left[..at]);
        replaced.push(NAME);
        left = &left[at + name.len()..];
    }
    replaced.extend_from_slice(left);
    Some(replaced)
}

/// The text with `name` in the place of [`NAME`].
fn with_name(text: &[u8], name: &OsStr) -> Vec<u8> {
    let pieces: Vec<&[u8]> = text.split(|byte| *byte == NAME).collect();
    pieces.join(name.as_encoded_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else_is() {
        let stored = Stored {
            cubin: b"\x7fELF\0".to_vec(),
            texts: Texts {
                output: Vec::new(),
                error: b"info".to_vec(),
            },
        };
        let bytes = stored.to_bytes();
        assert_eq!(Stored::read(&bytes), Some(stored));
        for length in 0..bytes.len() {
            assert_eq!(Stored::read(&bytes[..length]), None);
        }
        for at in bytes.len() - 32..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x80;
            assert_eq!(Stored::read(&bad), None, "byte {at}");
        }
    }

    #[test]
    fn texts_are_stored_without_the_name_of_the_file() {
        let (input, unique) = (b"/tmp/u123/u123.ptx", b"u123");
        let texts = |error: &[u8]| Texts::of(b"", error, input, unique);
        let text = b"ptxas /tmp/u123/u123.ptx, line 3; in /tmp/u123/u123.ptx\n";
        let stored = texts(text).unwrap();
        assert_eq!(stored.error, b"ptxas \0, line 3; in \0\n");
        assert_eq!(
            with_name(&stored.error, OsStr::new("k.ptx")),
            b"ptxas k.ptx, line 3; in k.ptx\n"
        );
        assert_eq!(texts(b"plain").unwrap().error, b"plain");
        assert_eq!(with_name(b"plain", OsStr::new("k.ptx")), b"plain");
        // A part of a name alone, and a byte that stands for the name.
        assert_eq!(texts(b"ptxas u123.ptx, line 3"), None);
        assert_eq!(texts(b"a\0b"), None);
    }

    #[test]
    fn overlapping_starts_are_found() {
        assert!(contains(b"aab", b"ab") && contains(b"ab", b"ab"));
        assert!(!contains(b"aa", b"ab") && !contains(b"a", b"ab"));
    }
}
