//! A PTX module as a value: its text, with its head, kernels and digest computed once.

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;

use super::ast::Version;
use super::diagnostic::{LineIndex, Report};
use super::parse::{self, read};
use super::signature::{KernelSignature, signatures};
use super::token::NO_UTF8;

/// The text and display name of a PTX module.
///
/// ```
/// use ptxkit_ptx::Ptx;
/// let ptx = Ptx::from_bytes(b".version 8.0\n.target sm_80\n.entry k(.param .u32 n) { ret; }\0", "k.ptx")?;
/// assert_eq!(ptx.target(), Some("sm_80"));
/// assert_eq!(ptx.kernels()[0].name, "k");
/// # Ok::<(), ptxkit_ptx::NotPtx>(())
/// ```
#[derive(Debug)]
pub struct Ptx {
    text: String,
    name: String,
    head: OnceLock<Head>,
    kernels: OnceLock<Vec<KernelSignature>>,
    #[cfg(feature = "digest")]
    digest: OnceLock<crate::Digest>,
}

/// The first lines of a module.
#[derive(Debug, Default)]
struct Head {
    version: Option<Version>,
    target: Option<String>,
}

/// The error for bytes that are not PTX text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the messages document the variants")]
#[non_exhaustive]
pub enum NotPtx {
    Empty {
        name: String,
    },
    /// Has the magic number of a known binary format.
    Binary {
        name: String,
        looks_like: &'static str,
        advice: &'static str,
    },
    Encoding {
        name: String,
        offset: usize,
    },
    Nul {
        name: String,
        line: u32,
        offset: usize,
    },
    OtherText {
        name: String,
    },
}

impl fmt::Display for NotPtx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotPtx::Empty { name } => {
                write!(f, "{name} is empty: a PTX module begins with `.version`")
            }
            NotPtx::Binary {
                name,
                looks_like,
                advice,
            } => write!(f, "{name} is not PTX text but {looks_like}: {advice}"),
            NotPtx::Encoding { name, offset } => write!(
                f,
                "{name} is not PTX text: byte {offset} is not UTF-8; PTX is ASCII outside comments"
            ),
            NotPtx::Nul { name, line, offset } => write!(
                f,
                "{name} is not PTX text: line {line} has a NUL byte (offset {offset}); NULs are \
                 only allowed at the end"
            ),
            NotPtx::OtherText { name } => write!(
                f,
                "{name} is text, but not PTX: it has no `.version`, no `.entry` and no `.func`"
            ),
        }
    }
}

impl std::error::Error for NotPtx {}

/// Magic numbers of formats that are passed by mistake, with advice.
const BINARIES: &[(&[u8], &str, &str)] = &[
    (
        b"\x7fELF",
        "an ELF file, such as a cubin",
        "load it as an image, or compile with `nvcc -ptx`",
    ),
    (
        b"\x50\xed\x55\xba",
        "a fatbin",
        "load it as an image, which selects an entry",
    ),
    (
        b"BC\xc0\xde",
        "LLVM bitcode",
        "compile it to PTX with `llc -march=nvptx64`",
    ),
    (b"!<arch>\n", "an archive", "extract its members first"),
    (b"\x1f\x8b", "gzip data", "unpack it first"),
    (b"\x28\xb5\x2f\xfd", "zstd data", "unpack it first"),
    (b"\xff\xfe", "UTF-16 text", "save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text", "save it as UTF-8"),
];

/// The text of a module's bytes.
///
/// PTX is ASCII outside comments, in which ptxas accepts any bytes. Bytes that are not
/// valid UTF-8 become DEL (0x7f), so that all offsets stay the same, and
/// [`read`](super::read) reports those outside comments.
///
/// ```
/// use ptxkit_ptx::{read, text_of};
/// let latin = text_of(b".version 8.0 // d\xe9but\n.target sm_80\n");
/// assert_eq!(read(&latin).diagnostics, []);
/// assert_eq!(latin.find(".target"), Some(22));
/// ```
#[inline]
pub fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => with_invalid_replaced(bytes).into(),
    }
}

#[cold]
fn with_invalid_replaced(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::from(NO_UTF8)));
    }
    text
}

/// The inner loop has no early exit, so that it is vectorized.
fn has_nul(bytes: &[u8]) -> bool {
    bytes
        .chunks(1024)
        .any(|chunk| chunk.iter().fold(false, |found, b| found | (*b == 0)))
}

impl Ptx {
    /// Creates a module from its bytes. Trailing NULs, as in C strings, are removed. `name` is
    /// the name of the module in messages.
    ///
    /// This only checks that the bytes are text that may be PTX. [`read`](super::read) reports
    /// errors in it.
    ///
    /// # Errors
    /// [`NotPtx`] if the bytes cannot be a PTX module.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>, name: impl Into<String>) -> Result<Ptx, NotPtx> {
        let (mut bytes, name) = (bytes.into(), name.into());
        let length = bytes
            .iter()
            .rposition(|b| *b != 0)
            .map_or(0, |last| last + 1);
        bytes.truncate(length);
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(NotPtx::Empty { name });
        }
        for (magic, looks_like, advice) in BINARIES {
            if bytes.starts_with(magic) {
                return Err(NotPtx::Binary {
                    name,
                    looks_like,
                    advice,
                });
            }
        }
        #[cfg(feature = "digest")]
        let digest = OnceLock::new();
        let (text, foreign) = match String::from_utf8(bytes) {
            Ok(text) => (text, None),
            Err(error) => {
                // The text differs from the bytes, so their digest is computed here.
                #[cfg(feature = "digest")]
                let _ = digest.set(crate::Digest::of(error.as_bytes()));
                let offset = error.utf8_error().valid_up_to();
                (text_of(error.as_bytes()).into_owned(), Some(offset))
            }
        };
        if has_nul(text.as_bytes())
            && let Some(offset) = text.bytes().position(|b| b == 0)
        {
            let line = LineIndex::new(&text).locate(offset as u32).line;
            return Err(NotPtx::Nul { name, line, offset });
        }
        if ![".version", ".entry", ".func"]
            .iter()
            .any(|word| text.contains(word))
        {
            return Err(match foreign {
                Some(offset) => NotPtx::Encoding { name, offset },
                None => NotPtx::OtherText { name },
            });
        }
        Ok(Ptx {
            text,
            name,
            head: OnceLock::new(),
            kernels: OnceLock::new(),
            #[cfg(feature = "digest")]
            digest,
        })
    }

    /// The text without trailing NULs, as converted by [`text_of`].
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The `.version`, if the module has one.
    pub fn version(&self) -> Option<Version> {
        self.head().version
    }

    /// The architecture of `.target`, such as `sm_90a`, if the module has one.
    pub fn target(&self) -> Option<&str> {
        self.head().target.as_deref()
    }

    /// The kernels, in source order. The first call parses the module. Kernels after a syntax
    /// error are included.
    pub fn kernels(&self) -> &[KernelSignature] {
        self.kernels
            .get_or_init(|| signatures(&read(&self.text).module, &self.text))
    }

    /// The kernel with this name.
    pub fn kernel(&self, name: &str) -> Option<&KernelSignature> {
        self.kernels().iter().find(|kernel| kernel.name == name)
    }

    /// The BLAKE3 hash of the original bytes without trailing NULs, for cache keys. Computed once.
    #[cfg(feature = "digest")]
    pub fn digest(&self) -> crate::Digest {
        *self
            .digest
            .get_or_init(|| crate::Digest::of(self.text.as_bytes()))
    }

    fn head(&self) -> &Head {
        self.head.get_or_init(|| {
            let module = parse::read_head(&self.text, &mut Report::default());
            let architecture = module
                .target
                .iter()
                .find(|word| word.text.starts_with("sm_"));
            Head {
                version: module.version.map(|(version, _)| version),
                target: architecture.map(|word| word.text.to_owned()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binaries_are_named() {
        let message = |bytes: &[u8]| {
            Ptx::from_bytes(bytes, "x")
                .map(|_| ())
                .unwrap_err()
                .to_string()
        };
        assert!(message(b"\x7fELF\x02").contains("ELF"));
        assert!(message(b"\x50\xed\x55\xba\x01").contains("fatbin"));
        assert!(message(b" \n\0").contains("empty"));
        assert!(message(b"pickled\x80\xff").contains("byte 7"));
        assert!(message(b".version\n\0x").contains("line 2"));
        assert!(message(b"int main() { return 0; }").contains("not PTX"));
    }

    #[test]
    fn the_head_is_read_past_comments() {
        let text =
            "// { } .target sm_10\n/* x */ .version 8.7\n.target debug, sm_90a\n.global .u32 x;";
        let ptx = Ptx::from_bytes(text, "x").unwrap();
        assert_eq!(ptx.version(), Some(Version { major: 8, minor: 7 }));
        assert_eq!(ptx.target(), Some("sm_90a"));
        assert_eq!(ptx.kernels(), []);
    }
}
