//! What is given to be loaded.

use crate::cache::Digest;
use crate::image::{self, Image, ImageError, PtxText};
use crate::ptx::Ptx;

/// An image and what to call it in messages.
///
/// Made from a [`Ptx`], it has its digest computed but once, which is the
/// larger part of a hit: keep PTX that is loaded more than once as a `Ptx`.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub(super) name: &'a str,
    pub(super) bytes: &'a [u8],
    digest: Known<'a>,
}

/// What is known of the digest of the PTX text.
#[derive(Clone, Copy, Debug)]
enum Known<'a> {
    Nothing,
    Given(Digest),
    /// It is computed on the first use, and kept there.
    By(&'a Ptx),
}

impl<'a> Source<'a> {
    /// `bytes` are the image; `name`, mostly its path, stands for it in messages.
    pub fn new(name: &'a str, bytes: &'a [u8]) -> Source<'a> {
        Source {
            name,
            bytes,
            digest: Known::Nothing,
        }
    }

    /// The same with its digest known: for PTX whose digest was computed
    /// elsewhere.
    ///
    /// The digest is of the PTX text without the NUL at its end.
    pub fn with_digest(self, digest: Digest) -> Source<'a> {
        Source {
            digest: Known::Given(digest),
            ..self
        }
    }

    /// What it is. A [`Ptx`] was found to be text when it was made, and is not
    /// gone through again.
    pub(super) fn image(&self) -> Result<Image<'a>, ImageError> {
        if let Known::By(ptx) = self.digest
            && let Some(ptx) = PtxText::read(ptx.text())
        {
            return Ok(Image::Ptx(ptx));
        }
        image::open(self.bytes)
    }

    /// The digest of what is PTX and nothing else.
    pub(super) fn digest_of_ptx(&self) -> Option<Digest> {
        match self.digest {
            Known::By(ptx) => Some(ptx.digest()),
            _ => None,
        }
    }

    /// PTX whose digest nobody computed yet.
    pub(super) fn undigested(&self) -> Option<&'a Ptx> {
        match self.digest {
            Known::By(ptx) if !ptx.has_digest() => Some(ptx),
            _ => None,
        }
    }

    /// The digest, where it need not be computed from bytes that may be no PTX.
    pub(super) fn known_digest(&self) -> Option<Digest> {
        match self.digest {
            Known::Nothing => None,
            Known::Given(digest) => Some(digest),
            Known::By(ptx) => Some(ptx.digest()),
        }
    }

    /// The digest of `text`, the PTX of this source.
    pub(super) fn digest(&self, text: &str) -> Digest {
        self.known_digest()
            .unwrap_or_else(|| Digest::of(text.as_bytes()))
    }
}

impl<'a> From<&'a Ptx> for Source<'a> {
    fn from(ptx: &'a Ptx) -> Source<'a> {
        Source {
            name: ptx.name(),
            bytes: ptx.text().as_bytes(),
            digest: Known::By(ptx),
        }
    }
}
