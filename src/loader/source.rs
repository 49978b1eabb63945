//! What is given to be loaded.

use crate::cache::Digest;
use image::{self, Image, ImageError, PtxText};
use ptx::Ptx;

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

    /// The text of what is PTX and nothing else, or cannot be loaded at all.
    pub(super) fn ptx(&self) -> Option<&'a [u8]> {
        match self.digest {
            Known::By(_) => Some(self.bytes),
            _ if image::is_binary(self.bytes) => None,
            _ => {
                let length = self.bytes.iter().rposition(|byte| *byte != 0);
                Some(&self.bytes[..length.map_or(0, |last| last + 1)])
            }
        }
    }

    /// The digest, where it need not be computed.
    pub(super) fn known_digest(&self) -> Option<Digest> {
        match self.digest {
            Known::Nothing => None,
            Known::Given(digest) => Some(digest),
            Known::By(ptx) => ptx.has_digest().then(|| ptx.digest()),
        }
    }

    /// The digest of [`ptx`](Source::ptx), `text`, for the first time.
    pub(super) fn digest_of(&self, text: &[u8]) -> Digest {
        match self.digest {
            Known::By(ptx) => ptx.digest(),
            _ => Digest::of(text),
        }
    }

    /// The digest of the PTX that was chosen, `text`: what is PTX and nothing
    /// else is known by its own, whatever became of its `.version`.
    pub(super) fn digest(&self, text: &str) -> Digest {
        match self.digest {
            Known::Nothing => Digest::of(self.ptx().unwrap_or(text.as_bytes())),
            Known::Given(digest) => digest,
            Known::By(ptx) => ptx.digest(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_is_known_by_its_own_text() {
        let text = ".version 9.9\n.target sm_80\n.address_size 64\n";
        let ptx = Ptx::from_bytes(text, "a.ptx").unwrap();
        let bytes = format!("{text}\0\0");
        let [of_ptx, of_bytes] = [Source::from(&ptx), Source::new("a.ptx", bytes.as_bytes())];
        let digest = Digest::of(text.as_bytes());
        for source in [of_ptx, of_bytes] {
            assert_eq!(source.known_digest(), None);
            assert_eq!(source.ptx(), Some(text.as_bytes()));
            // However it was changed for a driver.
            assert_eq!(source.digest(".version 9.0"), digest);
        }
        assert_eq!(of_ptx.known_digest(), Some(digest));
        assert_eq!(Source::new("", b"\0").ptx(), Some(&b""[..]));
        let given = of_bytes.with_digest(Digest::of(b"given"));
        assert_eq!(given.known_digest(), Some(Digest::of(b"given")));
    }

    #[test]
    fn what_holds_ptx_is_known_by_the_one_chosen() {
        for bytes in [&b"\x50\xed\x55\xba...."[..], b"\x7fELF....", b"PTXKCPU..."] {
            let source = Source::new("a.bin", bytes);
            assert_eq!(source.ptx(), None);
            assert_eq!(source.digest("chosen"), Digest::of(b"chosen"));
        }
    }
}
