//! PTX as an image. Only its head is parsed, so that a cached load does not parse megabytes of
//! PTX.

use std::borrow::Cow;
use std::fmt;

use super::{Target, first_driver_for, newest_ptx};
use ptx::ast::Version;
use ptx::diagnostic::{LineIndex, Report};
use ptx::isa::target;
use ptx::version::{lower, versions};
use ptx::{self, read_head};

/// PTX text with its parsed head.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PtxText<'a> {
    /// The text, without trailing NUL. Bytes that are not UTF-8 are converted as by
    /// [`text_of`](ptx::text_of).
    pub source: Cow<'a, str>,
    /// The original bytes.
    pub(super) original: &'a [u8],
    /// The `.version`, if present.
    pub version: Option<Version>,
    /// The architecture of `.target`, if present.
    pub target: Option<Target>,
}

impl<'a> PtxText<'a> {
    /// Parses the head of PTX text; `None` if it does not start like PTX.
    pub fn read(source: &'a str) -> Option<PtxText<'a>> {
        read(source)
    }

    /// The newest PTX version that a driver supports, if that of the text is newer.
    ///
    /// `driver_version` is in the format of `cuDriverGetVersion`: 13000 for 13.0.
    pub fn too_new_for(&self, driver_version: u32) -> Option<Version> {
        let newest = newest_ptx(driver_version)?;
        (self.version? > newest).then_some(newest)
    }

    /// The text with the newest `.version` that a driver supports, if its own is newer but it uses
    /// no newer features; `None` if it needs no change.
    ///
    /// Text with errors under its own `.version` is not changed: the compiler reports
    /// these.
    ///
    /// ```
    /// use ptxkit_image::{self as image, Image};
    ///
    /// let bytes = b".version 9.5\n.target sm_80\n.entry k() { ret; }";
    /// let Image::Ptx(ptx) = image::open(bytes).unwrap() else { panic!() };
    /// assert!(ptx.for_driver(12040).unwrap().unwrap().starts_with(".version 8.4\n"));
    /// assert_eq!(ptx.for_driver(13050), Ok(None));
    /// ```
    ///
    /// # Errors
    ///
    /// The first feature that the PTX version of the driver lacks, with its line.
    pub fn for_driver(&self, driver_version: u32) -> Result<Option<String>, PtxTooNew> {
        let (Some(newest), Some(found)) = (self.too_new_for(driver_version), self.version) else {
            return Ok(None);
        };
        let source = &*self.source;
        let reading = ptx::read(source);
        if !reading.diagnostics.is_empty() {
            return Ok(None);
        }
        match lower(&reading.module, source, newest) {
            Ok(text) => Ok(Some(text.into_owned())),
            Err(_) if !ptx::check(&reading.module, source).is_empty() => Ok(None),
            Err(why) => Err(PtxTooNew {
                found,
                newest,
                // Between the two.
                needed: versions()
                    .filter(|version| (newest..=found).contains(version))
                    .find(|version| lower(&reading.module, source, *version).is_ok()),
                line: LineIndex::new(source).locate(why.span.start).line,
                why: why.message,
            }),
        }
    }
}

/// The error for PTX whose features are too new for a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PtxTooNew {
    /// The text's version.
    pub found: Version,
    /// The newest version that the driver supports.
    pub newest: Version,
    /// The lowest version that has all that the text uses.
    pub needed: Option<Version>,
    /// The line of the first newer feature, from 1.
    pub line: u32,
    /// The diagnostic of that feature.
    pub why: String,
}

impl fmt::Display for PtxTooNew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "it has PTX version {}, the driver supports up to {}, and line {} needs more: {}",
            self.found, self.newest, self.line, self.why
        )?;
        match self.needed.and_then(first_driver_for) {
            Some(driver) => write!(f, "; {driver} has it"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for PtxTooNew {}

/// Parses the head of PTX text; `None` if the text does not start with `.version` or `.target`.
pub(super) fn read(source: &str) -> Option<PtxText<'_>> {
    let source = source.trim_end_matches('\0');
    of(source.into(), source.as_bytes())
}

/// Like [`read`], for bytes.
pub(super) fn open(bytes: &[u8]) -> Option<PtxText<'_>> {
    let length = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    let original = &bytes[..length];
    of(ptx::text_of(original), original)
}

fn of<'a>(source: Cow<'a, str>, original: &'a [u8]) -> Option<PtxText<'a>> {
    if let Some((version, target)) = usual_head(&source) {
        return Some(PtxText {
            source,
            original,
            version: Some(version),
            target: Some(target.into()),
        });
    }
    // The compiler reports errors in the head.
    let head = read_head(&source, &mut Report::default());
    if head.version.is_none() && head.target.is_empty() {
        return None;
    }
    let version = head.version.map(|(version, _)| version);
    let mut words = head.target.iter();
    let target = words.find_map(|word| target::Target::from_text(word.text));
    let target = target.map(Target::from);
    Some(PtxText {
        source,
        original,
        version,
        target,
    })
}

/// The head that every compiler writes: `.version 8.0`, then `.target sm_90`, behind
/// comments and white space. `None` for any other, which the parser reads.
///
/// A hit of the cache needs no more of the text. The pages of the parser's code, which a
/// process touches here for the first time, cost more than the driver's load of a small
/// cubin.
fn usual_head(source: &str) -> Option<(Version, target::Target)> {
    let rest = directive(source, ".version")?;
    let (line, _) = rest.split_once('\n')?;
    let number = line.trim_ascii();
    let [major, b'.', minor] = *number.as_bytes() else {
        return None;
    };
    let digit = |byte: u8| byte.is_ascii_digit().then(|| byte - b'0');
    let version = Version {
        major: digit(major)?,
        minor: digit(minor)?,
    };
    let rest = directive(&rest[line.len()..], ".target")?.trim_ascii_start();
    let end = rest.find(|c: char| c == ',' || c.is_ascii_whitespace())?;
    Some((version, target::Target::from_text(&rest[..end])?))
}

/// What follows a directive and a blank, where the text begins with it behind comments and
/// white space.
fn directive<'a>(source: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = source.trim_ascii_start();
    loop {
        if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.split_once('\n')?.1;
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/")?.1;
        } else {
            let behind = rest.strip_prefix(name)?;
            return behind.starts_with([' ', '\t']).then_some(behind);
        }
        rest = rest.trim_ascii_start();
    }
}

/// A text with the `.version` that its container has removed.
pub(super) fn whole(text: Cow<'_, str>, version: Version) -> Cow<'_, str> {
    with_version(&text, version).map_or(text, Cow::Owned)
}

/// Restores a missing `.version` from the header of the container: NVIDIA's fatbin library removes
/// the line. It is inserted at its original position, or before `.target`.
fn with_version(source: &str, version: Version) -> Option<String> {
    let head = read_head(source, &mut Report::default());
    if head.version.is_some() {
        return None;
    }
    let word = head.target.first()?;
    let before = source.get(..word.span(source).start as usize)?;
    let at = before.rfind(".target")?;
    let (before, rest) = source.split_at_checked(at)?;
    let Version { major, minor } = version;
    Some(match before.strip_suffix('\n') {
        // The empty line that remains of it.
        Some(lines) if lines.is_empty() || lines.ends_with('\n') => {
            format!("{lines}.version {major}.{minor}\n{rest}")
        }
        _ => format!("{before}.version {major}.{minor}\n{rest}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_new_says_what_it_needs() {
        let text = ".version 9.0\n.target sm_100a\n.address_size 64\n.entry k() {\n\
                    .reg .f32 f;\nredux.sync.min.f32 f, f, -1;\nret;\n}\n";
        let error = read(text).unwrap().for_driver(12050).unwrap_err();
        assert_eq!(error.line, 2);
        assert_eq!(
            error.needed.map(|version| version.to_string()),
            Some("8.6".into())
        );
        let said = error.to_string();
        assert!(said.ends_with("; driver 565 (CUDA 12.7) has it"), "{said}");
    }

    #[test]
    fn the_head_is_read_past_comments() {
        let text = "// nvcc\n/* two\nlines */ .version 9.5 // new\n\
                    .target sm_90a, debug\n.address_size 64\0";
        let found = read(text).unwrap();
        assert_eq!(found.version, Some(Version { major: 9, minor: 5 }));
        assert_eq!(found.target, "sm_90a".parse().ok());
        assert!(found.source.ends_with("64"));
    }

    /// What is read without the parser is what the parser reads.
    #[test]
    fn a_usual_head_is_that_of_the_parser() {
        let usual = [
            ".version 8.0\n.target sm_90\n",
            "//\n// made by hand\n//\n\n.version 7.4\r\n.target compute_52, debug\n.address_size 64",
            "/* two\nlines */ .version\t9.1 \n /**/ .target  sm_100f\n",
            ".version 1.4\n.target sm_13,map_f64_to_f32\n",
        ];
        let unusual = [
            ".version 8.0 .target sm_90\n",
            ".version 8.0\n.target texmode_unified, sm_90\n",
            ".version\n8.0\n.target sm_90\n",
            ".version 10.0\n.target sm_90\n",
            ".version 8.0\n.target/**/sm_90\n",
            ".version 8.0 // new\n.target sm_90\n",
            ".versions 8.0\n.target sm_90\n",
            ".target sm_90\n.version 8.0\n",
            ".version 8.0\n.target sm_90",
            ".version 8.0\n.target sm_90/**/\n",
            "/* .version 8.0\n.target sm_90\n",
        ];
        for text in usual {
            let (version, target) = usual_head(text).unwrap();
            let head = read_head(text, &mut Report::default());
            assert_eq!(
                head.version.map(|(version, _)| version),
                Some(version),
                "{text}"
            );
            let words = head.target.iter().map(|word| word.text);
            let found = words.filter_map(target::Target::from_text).next();
            assert_eq!(found, Some(target), "{text}");
        }
        for text in unusual {
            assert_eq!(usual_head(text), None, "{text}");
        }
    }

    #[test]
    fn a_missing_version_is_still_ptx() {
        let found = read(".target sm_80\n.visible .entry k() { ret; }").unwrap();
        assert_eq!(found.version, None);
        assert!(found.target.is_some());
    }

    #[test]
    fn a_removed_version_is_restored() {
        let version = Version { major: 8, minor: 8 };
        let with = |text| with_version(text, version);
        assert_eq!(
            with("// nvcc\n\n.target sm_90\n").as_deref(),
            Some("// nvcc\n.version 8.8\n.target sm_90\n")
        );
        assert_eq!(
            with("\n.target sm_90").as_deref(),
            Some(".version 8.8\n.target sm_90")
        );
        assert_eq!(
            with("// a\n.target sm_90").as_deref(),
            Some("// a\n.version 8.8\n.target sm_90")
        );
        assert_eq!(with(".version 8.0\n.target sm_90"), None);
        assert_eq!(with("nothing"), None);
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

    #[test]
    fn the_first_newer_feature_is_reported_with_its_line() {
        let source = ".version 9.5\n.target sm_100\n.entry k() {\n\
                      .reg .b64 a;\nmul.f32x2 a, a, a;\nret; }";
        let why = read(source).unwrap().for_driver(12040).unwrap_err();
        assert_eq!((why.line, why.newest), (2, Version { major: 8, minor: 4 }));
        assert!(why.why.contains("sm_100"), "{}", why.why);
        let invalid = source.replace("mul.f32x2", "mul.f32x3");
        // Text with errors under any version is left to the compiler.
        assert_eq!(read(&invalid).unwrap().for_driver(12040), Ok(None));
    }
}
