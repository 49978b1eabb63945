//! What a load is given.

use super::LoadError;
use crate::cache::Digest;
use image::{self, Image, ImageError, PtxText};
use ptx::Ptx;

/// An image and its name for messages.
///
/// From [`new`](Source::new) or a [`Ptx`], PTX alone is loaded, which is safe.
/// [`image`](Source::image) is for binaries that are trusted.
///
/// A hit spends much of its time on the digest of the text. Made from a [`Ptx`],
/// a source has it computed once; by [`include_ptx!`](crate::include_ptx), at
/// build time.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub(super) name: &'a str,
    bytes: &'a [u8],
    digest: KnownDigest<'a>,
    /// Whether its binaries may be loaded: whoever made the source vouches for them.
    trusted: bool,
}

/// The digest of the PTX text, where it is known.
#[derive(Clone, Copy, Debug)]
enum KnownDigest<'a> {
    Unknown,
    Given(Digest),
    /// Computed by the first use, and kept there.
    Of(&'a Ptx),
}

impl<'a> Source<'a> {
    /// `bytes` are PTX, or a fatbin, of which the PTX is loaded and not the binaries;
    /// `name`, mostly its path, stands for it in messages.
    pub const fn new(name: &'a str, bytes: &'a [u8]) -> Source<'a> {
        Source {
            name,
            bytes,
            digest: KnownDigest::Unknown,
            trusted: false,
        }
    }

    /// The same for any image: PTX, a cubin, a fatbin, or a binary of the CPU
    /// device.
    ///
    /// # Safety
    /// As for [`Module::load_image`](crate::driver::Module::load_image), of each
    /// binary in it.
    pub const unsafe fn image(name: &'a str, bytes: &'a [u8]) -> Source<'a> {
        Source::trusted(name, bytes)
    }

    /// For code that is compiled and not loaded.
    pub(super) const fn trusted(name: &'a str, bytes: &'a [u8]) -> Source<'a> {
        Source {
            trusted: true,
            ..Source::new(name, bytes)
        }
    }

    /// Whether its binaries may be loaded.
    pub(super) fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// The same with its digest, for PTX whose digest was computed elsewhere.
    ///
    /// # Safety
    /// The digest must be of the PTX text without the NULs at its end. Under another
    /// one this text is loaded in place of that, and that in place of this, by later
    /// processes too.
    #[allow(unsafe_code, reason = "a cache trusts its keys")]
    pub const unsafe fn with_digest(self, digest: Digest) -> Source<'a> {
        Source {
            digest: KnownDigest::Given(digest),
            ..self
        }
    }

    /// What it is. A [`Ptx`] was found to be text when it was made, and is not
    /// checked again.
    pub(super) fn open(&self) -> Result<Image<'a>, ImageError> {
        if let KnownDigest::Of(ptx) = self.digest
            && let Some(ptx) = PtxText::read(ptx.text())
        {
            return Ok(Image::Ptx(ptx));
        }
        image::open(self.bytes)
    }

    /// Whether its digest need not be computed.
    pub(super) fn knows_digest(&self) -> bool {
        matches!(self.digest, KnownDigest::Given(_))
    }

    /// The digest of the PTX that was selected, `text`. What is PTX and nothing else
    /// goes by its own bytes, also where `text` has them without invalid UTF-8.
    pub(super) fn digest(&self, text: &str) -> Digest {
        match self.digest {
            KnownDigest::Unknown if image::is_binary(self.bytes) => Digest::of(text.as_bytes()),
            KnownDigest::Unknown => {
                let length = self.bytes.iter().rposition(|byte| *byte != 0);
                Digest::of(&self.bytes[..length.map_or(0, |last| last + 1)])
            }
            KnownDigest::Given(digest) => digest,
            KnownDigest::Of(ptx) => ptx.digest(),
        }
    }

    pub(super) fn unreadable(&self, error: ImageError) -> LoadError {
        LoadError::Image {
            name: self.name.to_owned(),
            source: error,
        }
    }
}

impl<'a> From<&'a Ptx> for Source<'a> {
    fn from(ptx: &'a Ptx) -> Source<'a> {
        Source {
            name: ptx.name(),
            bytes: ptx.text().as_bytes(),
            digest: KnownDigest::Of(ptx),
            trusted: false,
        }
    }
}

/// A PTX file as a [`Source`](crate::loader::Source), included in the program with its
/// digest: a load that hits does not hash the text. The path is a literal, relative
/// to the file it is written in, as for [`include_bytes!`].
///
/// ```ignore
/// const KERNELS: Source<'static> = ptxkit::include_ptx!("kernels.ptx");
/// let loaded = loader.load(&KERNELS, &JitOptions::default())?;
/// ```
#[cfg(feature = "macros")]
#[macro_export]
macro_rules! include_ptx {
    ($path:tt) => {{
        const SOURCE: $crate::loader::Source<'static> = {
        let (bytes, digest) = $crate::loader::ptx_file!($crate $path);
            let source = $crate::loader::Source::new($path, bytes);
            // SAFETY: the digest is of the same file, read by the same run of the compiler.
            unsafe { source.with_digest($crate::cache::Digest::from_bytes(digest)) }
        };
        SOURCE
    }};
}

#[cfg(test)]
#[allow(unsafe_code, reason = "nothing is loaded")]
mod tests {
    use super::*;

    #[test]
    fn ptx_is_known_by_its_own_text() {
        let text = ".version 9.9\n.target sm_80\n.address_size 64\n";
        let ptx = Ptx::from_bytes(text, "a.ptx").unwrap();
        let bytes = format!("{text}\0\0");
        let digest = Digest::of(text.as_bytes());
        let of_bytes = Source::new("a.ptx", bytes.as_bytes());
        for source in [Source::from(&ptx), of_bytes] {
            // Whatever becomes of its bytes that are not UTF-8.
            assert_eq!(source.digest("changed"), digest);
        }
        // SAFETY: it is not loaded.
        let given = unsafe { of_bytes.with_digest(Digest::of(b"given")) };
        assert_eq!(given.digest(text), Digest::of(b"given"));
        assert_eq!(Source::new("", b"\0").digest(""), Digest::of(b""));
    }

    #[test]
    fn ptx_in_a_container_is_known_by_its_text() {
        for bytes in [&b"\x50\xed\x55\xba...."[..], b"\x7fELF....", b"PTXKCPU..."] {
            let source = Source::new("a.bin", bytes);
            assert_eq!(source.digest("selected"), Digest::of(b"selected"));
        }
    }

    #[test]
    #[cfg(feature = "macros")]
    fn included_ptx_has_the_digest_of_run_time() {
        const INCLUDED: Source<'static> = crate::include_ptx!("../../ptx-samples/vecadd.ptx");
        let bytes = include_bytes!("../../ptx-samples/vecadd.ptx");
        let KnownDigest::Given(digest) = INCLUDED.digest else {
            panic!("it has no digest")
        };
        assert_eq!(digest, Source::new("vecadd.ptx", bytes).digest(""));
        assert_eq!(INCLUDED.bytes, bytes);
        assert_eq!(INCLUDED.name, "../../ptx-samples/vecadd.ptx");
    }
}
