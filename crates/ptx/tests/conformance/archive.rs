//! The recorded sets: one text each, compressed.
//!
//! A text is a row of entries, each a head line and that many bytes:
//!
//! ```text
//! = NAME LENGTH VERDICT
//! ```

use std::fmt::{self, Write as _};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use lzma_rust2::{XzOptions, XzReader, XzWriter};

/// What ptxas says of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accepted,
    /// The line of its first error, where it names one.
    Rejected(Option<u32>),
}

impl Verdict {
    /// `ok`, `12`, or `?` for an error without a line.
    pub fn parse(text: &str) -> Option<Verdict> {
        match text {
            "ok" => Some(Verdict::Accepted),
            "?" => Some(Verdict::Rejected(None)),
            line => line.parse().ok().map(|line| Verdict::Rejected(Some(line))),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Accepted => f.write_str("ok"),
            Verdict::Rejected(None) => f.write_str("?"),
            Verdict::Rejected(Some(line)) => write!(f, "{line}"),
        }
    }
}

/// A module with its verdict.
#[derive(Clone, Debug)]
pub struct Entry {
    pub name: String,
    pub verdict: Verdict,
    pub text: String,
}

/// Where the archive of this name lies; packed programs find it by the environment.
pub fn path(name: &str) -> PathBuf {
    let recorded = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../ptx/tests/conformance/recorded"
    );
    let folder = std::env::var_os("PTXKIT_RECORDED").unwrap_or_else(|| recorded.into());
    Path::new(&folder).join(format!("{name}.xz"))
}

/// The text of an archive.
pub fn read(name: &str) -> String {
    let path = path(name);
    let packed = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut text = String::new();
    XzReader::new(packed.as_slice(), false)
        .read_to_string(&mut text)
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text
}

#[allow(dead_code, reason = "the test only reads")]
pub fn write(name: &str, text: &str) -> std::io::Result<()> {
    let mut options = XzOptions::with_preset(9);
    // Nothing is forgotten: most modules resemble one of megabytes before.
    options.lzma_options.dict_size = 1 << 27;
    let mut writer = XzWriter::new(Vec::new(), options)?;
    writer.write_all(text.as_bytes())?;
    std::fs::write(path(name), writer.finish()?)
}

/// The modules of a text.
pub fn entries(mut text: &str) -> Vec<Entry> {
    let mut found = Vec::new();
    while let Some((head, rest)) = text.strip_prefix("= ").and_then(|t| t.split_once('\n')) {
        let mut words = head.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let (name, length, verdict) = (word(), word(), word());
        let length: usize = length.parse().expect("a length in the head line");
        found.push(Entry {
            name: name.to_owned(),
            verdict: Verdict::parse(verdict).expect("a verdict in the head line"),
            text: rest[..length].to_owned(),
        });
        text = rest[length..].trim_start_matches('\n');
    }
    assert!(text.is_empty(), "an entry has no head line: {text:.40}");
    found
}

#[allow(dead_code, reason = "the test only reads")]
pub fn text_of(entries: &[Entry]) -> String {
    let mut text = String::new();
    for entry in entries {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "= {} {} {}\n{}",
            entry.name,
            entry.text.len(),
            entry.verdict,
            entry.text
        );
    }
    text
}
