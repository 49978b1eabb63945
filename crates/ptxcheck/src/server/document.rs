//! Open documents: what the client calls them, their texts and settings.

use std::path::PathBuf;
use std::sync::Arc;

use super::text::Text;
use crate::config::Settings;

/// A document as it is at one time. Cloning shares the text.
#[derive(Clone, Debug)]
pub struct Document {
    pub uri: String,
    /// The client counts the changes.
    pub version: i32,
    pub text: Arc<Text>,
    /// Its file; only a name for a document that is no file.
    pub path: PathBuf,
    pub settings: Arc<Settings>,
}

/// The longest path of a file, in bytes: systems open none that is longer. The search for settings
/// takes a time that is quadratic in it.
const LONGEST_PATH: usize = 4096;

/// The file of a `file:` URI; of any other, or of one that is too long, a name that lies in no folder.
pub fn path(uri: &str) -> PathBuf {
    let Some(rest) = uri.strip_prefix("file://") else {
        let name = uri.rsplit(['/', ':']).next().unwrap_or(uri);
        return PathBuf::from(name);
    };
    // What stands before the path is a host: that of a share on Windows.
    let path = decoded(&rest[rest.find('/').unwrap_or(0)..]);
    if path.len() > LONGEST_PATH {
        return PathBuf::from("document.ptx");
    }
    // `/c:/folder` is `c:/folder`.
    let drive = matches!(path.as_bytes(), [b'/', letter, b':', ..] if letter.is_ascii_alphabetic());
    if drive && cfg!(windows) {
        PathBuf::from(&path[1..])
    } else {
        PathBuf::from(path)
    }
}

/// `%20` is a space.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        let code = behind.get(..2).filter(|_| *byte == b'%');
        let code = code.and_then(|code| u8::from_str_radix(str::from_utf8(code).ok()?, 16).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &behind[2..];
            }
            None => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_uris() {
        for (uri, expected) in [
            ("file:///a/b%20c/k.ptx", "/a/b c/k.ptx"),
            ("file:///a/%e2%88%9e.ptx", "/a/∞.ptx"),
            ("file:///a/100%25.ptx", "/a/100%.ptx"),
            ("untitled:Untitled-1", "Untitled-1"),
            ("git:/a/k.ptx", "k.ptx"),
            (
                &format!("file://{}/k.ptx", "/a".repeat(2045)),
                &format!("{}/k.ptx", "/a".repeat(2045)),
            ),
            (
                &format!("file://{}/k.ptx", "/a".repeat(20_000)),
                "document.ptx",
            ),
        ] {
            assert_eq!(path(uri), PathBuf::from(expected), "{uri}");
        }
    }
}
