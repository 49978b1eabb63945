//! PTX as an image: its head alone is read, so that a cached load of
//! megabytes of PTX does not parse them.

use super::{Target, newest_ptx};

/// PTX text and what its head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PtxText<'a> {
    /// Without the NUL that C strings end in.
    pub source: &'a str,
    /// `.version`; `None` where it is missing or no number.
    pub version: Option<(u16, u16)>,
    /// The architecture of `.target`.
    pub target: Option<Target>,
}

impl PtxText<'_> {
    /// The newest PTX version that a driver reads, where this text's is newer.
    ///
    /// `driver_version` is as `cuDriverGetVersion` gives it: 13000 for 13.0.
    pub fn too_new_for(&self, driver_version: u32) -> Option<(u16, u16)> {
        let newest = newest_ptx(driver_version)?;
        (self.version? > newest).then_some(newest)
    }
}

/// Reads the head of PTX text; `None` where the text does not start like PTX.
pub(super) fn read(source: &str) -> Option<PtxText<'_>> {
    let source = source.trim_end_matches('\0');
    let mut words = Words { rest: source };
    let mut found = PtxText {
        source,
        version: None,
        target: None,
    };
    let mut word = words.next()?;
    if !(word.starts_with('.') && word[1..].starts_with(|c: char| c.is_ascii_alphabetic())) {
        return None;
    }
    // The two directives stand at the start, `.version` first.
    for _ in 0..2 {
        match word {
            ".version" => found.version = version(words.next().unwrap_or_default()),
            ".target" => {
                found.target = words
                    .next()
                    .unwrap_or_default()
                    .split(',')
                    .find_map(|name| name.parse().ok());
            }
            _ => break,
        }
        word = words.next().unwrap_or_default();
    }
    Some(found)
}

fn version(text: &str) -> Option<(u16, u16)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// What stands between white space and comments.
struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a str> {
        loop {
            // Some writers start files with a byte order mark.
            self.rest = self
                .rest
                .trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
            if let Some(comment) = self.rest.strip_prefix("//") {
                self.rest = comment.split_once('\n').map_or("", |(_, rest)| rest);
            } else if let Some(comment) = self.rest.strip_prefix("/*") {
                self.rest = comment.split_once("*/").map_or("", |(_, rest)| rest);
            } else {
                break;
            }
        }
        let end = self
            .rest
            .find(|c: char| c.is_whitespace() || c == '/' || c == ';')
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_is_read_past_comments() {
        let text = "// nvcc\n/* two\nlines */ .version 9.5 // new\n.target sm_90a, debug\n.address_size 64\0";
        let found = read(text).unwrap();
        assert_eq!(found.version, Some((9, 5)));
        assert_eq!(found.target, Some("sm_90a".parse().unwrap()));
        assert!(found.source.ends_with("64"));
    }

    #[test]
    fn a_missing_version_is_still_ptx() {
        let found = read(".target sm_80\n.visible .entry k() { ret; }").unwrap();
        assert_eq!(found.version, None);
        assert!(found.target.is_some());
    }

    #[test]
    fn other_text_is_not_ptx() {
        for text in [
            "",
            "// only a comment",
            "/* open",
            "int main",
            ".5 + x",
            ".",
        ] {
            assert!(read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_version_is_too_new_only_when_it_is() {
        let text = read(".version 9.1\n.target sm_90").unwrap();
        assert_eq!(text.too_new_for(13000), Some((9, 0)));
        assert_eq!(text.too_new_for(13010), None);
    }
}
