//! Unpacking entries, within the sizes that their headers state.

use std::io::Read;

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::ImageError;
use super::entry::{Compression, Entry};

/// No image is larger.
const LARGEST: u64 = 1 << 30;
/// One byte of LZ4 stands for no more than so many of its text.
const LZ4_RATIO: u64 = 255;
/// So many bytes of text come from one block of Zstandard, which has three of header and one more.
const ZSTD_BLOCK: u64 = 128 << 10;
const ZSTD_BLOCK_HEADER: u64 = 4;
/// A Zstandard frame may be read with so much of its text at hand, however small the image is.
const WINDOW: u64 = 8 << 20;

/// The images of a file may unpack to so many bytes together, or to so many times the bytes of
/// the file where that is more.
const TOGETHER: u64 = 64 << 20;
const TIMES_THE_FILE: u64 = 100;

/// What the images of one file may unpack to together.
///
/// Compression can make many gigabytes of a small file. Whoever unpacks all images of a file that
/// anyone may have made asks this before each.
#[derive(Clone, Debug)]
pub struct UnpackLimit<'a> {
    limit: u64,
    left: u64,
    /// The block that was asked for last: its images are unpacked together.
    block: Option<&'a [u8]>,
}

impl<'a> UnpackLimit<'a> {
    /// For a file of so many bytes: 64 MiB, or a hundred times the file where that is more.
    #[must_use]
    pub fn of_file(bytes: usize) -> UnpackLimit<'a> {
        let limit = (bytes as u64).saturating_mul(TIMES_THE_FILE).max(TOGETHER);
        UnpackLimit {
            limit,
            left: limit,
            block: None,
        }
    }

    /// Counts an entry that is to be unpacked next.
    ///
    /// # Errors
    ///
    /// [`ImageError::UnpackLimit`], where it would be more than is left. A smaller one that comes
    /// after it may still fit.
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

/// Unpacks entries, one after the other, into memory of its own.
///
/// Entries that lie in one compressed block are unpacked together, once, as long as they are asked
/// for in their order.
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
    /// The block that `unpacked` was.
    block: Option<&'a [u8]>,
    zstd: FrameDecoder,
}

impl<'a> Unpacker<'a> {
    /// The bytes of an entry.
    ///
    /// # Errors
    ///
    /// Where they are damaged, or more or fewer than the entry's header states.
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
        if size > possible.min(LARGEST) {
            return Err(damaged(
                entry,
                &format!("its header states {size} bytes, more than {packed} bytes can stand for"),
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
                &format!("it has {unpacked} bytes, its header states {size}"),
            ));
        }
        Ok(())
    }
}

impl Unpacker<'_> {
    /// Unpacks one frame. What it gives is taken as it comes, so that a header that promises more
    /// than there is costs nothing.
    fn unpack_zstd(&mut self, mut packed: &[u8], size: usize) -> Result<usize, String> {
        let text = |error: &dyn std::error::Error| error.to_string();
        self.zstd.set_max_window_size(WINDOW.max(size as u64));
        self.zstd.init(&mut packed).map_err(|error| text(&error))?;
        let stated = self.zstd.content_size();
        if stated != 0 && stated != size as u64 {
            return Err(format!(
                "its frame states {stated} bytes, the entry's header {size}"
            ));
        }
        // One more than there may be, to see that there are too many.
        let most = size as u64 + 1;
        while !self.zstd.is_finished() || self.zstd.can_collect() != 0 {
            if !self.zstd.is_finished() {
                self.zstd
                    .decode_blocks(&mut packed, BlockDecodingStrategy::UptoBytes(1 << 20))
                    .map_err(|error| text(&error))?;
            }
            let room = most - self.unpacked.len() as u64;
            let ready = self.zstd.can_collect() as u64;
            (&mut self.zstd)
                .take(room.min(ready))
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
