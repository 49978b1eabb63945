//! Decompression of entries, bounded by the sizes in their headers.

use std::io::Read;

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::ImageError;
use super::entry::{Compression, Entry};

/// The maximum size of an image.
const MAX_IMAGE: u64 = 1 << 30;
/// The maximum compression ratio of LZ4.
const LZ4_RATIO: u64 = 255;
/// The maximum output of one Zstandard block, whose minimum size is a header of three bytes and
/// one more byte.
const ZSTD_BLOCK: u64 = 128 << 10;
const ZSTD_BLOCK_HEADER: u64 = 4;
/// The window size of a Zstandard frame that is always accepted, however small the image is.
const WINDOW: u64 = 8 << 20;

/// The limit for the total size of the unpacked images of a file: this number of bytes, or this
/// multiple of the file size if that is more.
const MIN_TOTAL: u64 = 64 << 20;
const MAX_TOTAL_RATIO: u64 = 100;

/// A limit for the total size of the unpacked images of one file.
///
/// A small compressed file can unpack to many gigabytes. Check this limit before each image of an
/// untrusted file.
#[derive(Clone, Debug)]
pub struct UnpackLimit<'a> {
    limit: u64,
    left: u64,
    /// The block of the last entry. Its images are unpacked together, and counted once.
    block: Option<&'a [u8]>,
}

impl<'a> UnpackLimit<'a> {
    /// The limit for a file of this size: 64 MiB, or a hundred times the size if that is more.
    #[must_use]
    pub fn of_file(bytes: usize) -> UnpackLimit<'a> {
        let limit = (bytes as u64)
            .saturating_mul(MAX_TOTAL_RATIO)
            .max(MIN_TOTAL);
        UnpackLimit {
            limit,
            left: limit,
            block: None,
        }
    }

    /// Counts the entry to be unpacked next.
    ///
    /// # Errors
    ///
    /// [`ImageError::UnpackLimit`] if it exceeds the rest of the limit. A smaller entry after it may
    /// still fit.
    pub fn take(&mut self, entry: &Entry<'a>) -> Result<(), ImageError> {
        let same = |block: &'a [u8]| std::ptr::eq(block, entry.payload);
        let size = match entry.block {
            // Parts of a block may overlap.
            Some((whole, _)) if !self.block.is_some_and(same) => whole.saturating_add(entry.size),
            Some(_) => entry.size,
            None if entry.compression == Compression::None => return Ok(()),
            None => entry.size,
        };
        match self.left.checked_sub(size) {
            Some(left) => {
                self.left = left;
                self.block = Some(entry.payload);
                Ok(())
            }
            None => Err(ImageError::UnpackLimit {
                offset: entry.offset,
                size,
                limit: self.limit,
            }),
        }
    }
}

/// Unpacks entries one after the other, into its own buffer.
///
/// The entries of one compressed block are unpacked together, once, if they are requested in
/// order.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use ptxkit_image::{self as image, Image, Unpacker};
///
/// let bytes = std::fs::read("kernels.fatbin")?;
/// let mut unpacker = Unpacker::default();
/// if let Image::Fatbin(fatbin) = image::open(&bytes)? {
///     for entry in &fatbin.entries {
///         println!("{}: {} bytes", entry.target, unpacker.unpack(entry)?.len());
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Unpacker<'a> {
    unpacked: Vec<u8>,
    /// The block that `unpacked` contains.
    block: Option<&'a [u8]>,
    zstd: FrameDecoder,
}

impl<'a> Unpacker<'a> {
    /// The bytes of an entry.
    ///
    /// # Errors
    ///
    /// The bytes are damaged, or their number differs from the size in the entry's header.
    pub fn unpack(&mut self, entry: &Entry<'a>) -> Result<&[u8], ImageError> {
        if entry.compression == Compression::None {
            let Some((_, part)) = entry.block else {
                return Ok(entry.payload);
            };
            return within(entry.payload, part.offset, part.size)
                .ok_or_else(|| damaged(entry, "it ends beyond its block"));
        }
        if entry.scrambled {
            return Err(damaged(entry, "only NVIDIA's tools can read it"));
        }
        let (size, offset) = match entry.block {
            Some((whole, part)) => (whole, part.offset),
            None => (entry.size, 0),
        };
        if !self
            .block
            .is_some_and(|block| std::ptr::eq(block, entry.payload))
        {
            self.block = None;
            self.unpack_all(entry, size)?;
            self.block = Some(entry.payload);
        }
        within(&self.unpacked, offset, entry.size)
            .ok_or_else(|| damaged(entry, "it ends beyond its block"))
    }

    fn unpack_all(&mut self, entry: &Entry<'a>, size: u64) -> Result<(), ImageError> {
        let packed = entry.payload.len() as u64;
        let possible = match entry.compression {
            Compression::Zstd => (packed / ZSTD_BLOCK_HEADER + 1) * ZSTD_BLOCK,
            _ => packed * LZ4_RATIO,
        };
        if size > possible.min(MAX_IMAGE) {
            return Err(damaged(
                entry,
                &format!(
                    "its header says {size} bytes, more than {packed} compressed bytes can contain"
                ),
            ));
        }
        let size = size as usize;
        self.unpacked.clear();
        let unpacked = match entry.compression {
            Compression::Zstd => self
                .unpack_zstd(entry.payload, size)
                .map_err(|why| damaged(entry, &why))?,
            _ => {
                self.unpacked.resize(size, 0);
                lz4_flex::block::decompress_into(entry.payload, &mut self.unpacked)
                    .map_err(|error| damaged(entry, &error.to_string()))?
            }
        };
        if unpacked != size {
            return Err(damaged(
                entry,
                &format!("it has {unpacked} bytes, its header says {size}"),
            ));
        }
        Ok(())
    }
}

impl Unpacker<'_> {
    /// Unpacks one frame incrementally, so that a header with a too large size does not cost
    /// memory.
    fn unpack_zstd(&mut self, mut packed: &[u8], size: usize) -> Result<usize, String> {
        let text = |error: &dyn std::error::Error| error.to_string();
        self.zstd.set_max_window_size(WINDOW.max(size as u64));
        self.zstd.init(&mut packed).map_err(|error| text(&error))?;
        let stated = self.zstd.content_size();
        if stated != 0 && stated != size as u64 {
            return Err(format!(
                "its frame header says {stated} bytes, the entry's header {size}"
            ));
        }
        // One more than allowed, to detect excess bytes.
        let most = size as u64 + 1;
        while !self.zstd.is_finished() || self.zstd.can_collect() != 0 {
            if !self.zstd.is_finished() {
                self.zstd
                    .decode_blocks(&mut packed, BlockDecodingStrategy::UptoBytes(1 << 20))
                    .map_err(|error| text(&error))?;
            }
            let remaining = most - self.unpacked.len() as u64;
            let ready = self.zstd.can_collect() as u64;
            (&mut self.zstd)
                .take(remaining.min(ready))
                .read_to_end(&mut self.unpacked)
                .map_err(|error| text(&error))?;
            if self.unpacked.len() > size {
                return Err(format!("it has more bytes than the {size} of its header"));
            }
        }
        Ok(self.unpacked.len())
    }
}

fn within(bytes: &[u8], offset: u64, size: u64) -> Option<&[u8]> {
    let end = offset.checked_add(size)?;
    bytes.get(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
}

fn damaged(entry: &Entry<'_>, why: &str) -> ImageError {
    ImageError::Damaged {
        kind: entry.kind.word(),
        target: entry.target,
        offset: entry.offset,
        why: why.to_owned(),
    }
}
