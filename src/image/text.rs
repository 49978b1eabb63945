//! PTX as an image: its head alone is read, so that a cached load of
//! megabytes of PTX does not parse them.

use super::{Target, newest_ptx};
use crate::ptx::ast::Version;
use crate::ptx::diagnostic::Report;
use crate::ptx::read_head;

/// PTX text and what its head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PtxText<'a> {
    /// Without the NUL that C strings end in.
    pub source: &'a str,
    /// `.version`; `None` where it is missing.
    pub version: Option<Version>,
    /// The architecture of `.target`; `None` where it is missing.
    pub target: Option<Target>,
}

impl PtxText<'_> {
    /// The newest PTX version that a driver reads, where this text's is newer.
    ///
    /// `driver_version` is as `cuDriverGetVersion` gives it: 13000 for 13.0.
    pub fn too_new_for(&self, driver_version: u32) -> Option<Version> {
        let newest = newest_ptx(driver_version)?;
        (self.version? > newest).then_some(newest)
    }
}

/// Reads the head of PTX text; `None` where the text does not start like PTX,
/// with `.version` or `.target`.
pub(super) fn read(source: &str) -> Option<PtxText<'_>> {
    let source = source.trim_end_matches('\0');
    // What is wrong with the head is for the compiler to say.
    let head = read_head(source, &mut Report::default());
    if head.version.is_none() && head.target.is_empty() {
        return None;
    }
    Some(PtxText {
        source,
        version: head.version.map(|(version, _)| version),
        target: head.target.iter().find_map(|word| word.text.parse().ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_is_read_past_comments() {
        let text = "// nvcc\n/* two\nlines */ .version 9.5 // new\n\
                    .target sm_90a, debug\n.address_size 64\0";
        let found = read(text).unwrap();
        assert_eq!(found.version, Some(Version { major: 9, minor: 5 }));
        assert_eq!(found.target, "sm_90a".parse().ok());
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
        assert_eq!(
            text.too_new_for(13000),
            Some(Version { major: 9, minor: 0 })
        );
        assert_eq!(text.too_new_for(13010), None);
    }
}
