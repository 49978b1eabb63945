//! Compression of images, as fatbins contain it.

use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::entry::Compression;

const ZSTD_MAGIC: u32 = 0xfd2f_b528;
/// The frame header that the encoder writes: magic number, descriptor, window size.
const ENCODED_HEADER: usize = 6;
/// A descriptor: the window is the whole content, whose size follows in four bytes.
const SINGLE_SEGMENT: u8 = 0xa0;

/// Compresses an image; `None` if that does not make it smaller.
pub(super) fn compress(bytes: &[u8], compression: Compression) -> Option<Vec<u8>> {
    let packed = match compression {
        Compression::None => return None,
        Compression::Lz4 => lz4_flex::block::compress(bytes),
        Compression::Zstd => zstd(bytes)?,
    };
    (packed.len() < bytes.len()).then_some(packed)
}

/// One Zstandard frame. Its header has the size of the content, as NVIDIA's tools write it; the
/// encoder leaves the size out.
fn zstd(bytes: &[u8]) -> Option<Vec<u8>> {
    let size = u32::try_from(bytes.len()).ok()?;
    let encoded = compress_to_vec(bytes, CompressionLevel::Fastest);
    let blocks = encoded.get(ENCODED_HEADER..)?;
    let mut frame = Vec::with_capacity(blocks.len() + 9);
    frame.extend(ZSTD_MAGIC.to_le_bytes());
    frame.push(SINGLE_SEGMENT);
    frame.extend(size.to_le_bytes());
    frame.extend(blocks);
    Some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frame_header_of_the_encoder_is_the_one_that_is_replaced() {
        let encoded = compress_to_vec(&[7; 1000][..], CompressionLevel::Fastest);
        assert_eq!(encoded[..4], ZSTD_MAGIC.to_le_bytes());
        // No content size, no single segment, no checksum, no dictionary.
        assert_eq!(encoded[4], 0);
        let frame = zstd(&[7; 1000]).unwrap();
        assert_eq!(frame[..9], [0x28, 0xb5, 0x2f, 0xfd, 0xa0, 232, 3, 0, 0]);
        assert_eq!(frame[9..], encoded[6..]);
    }

    #[test]
    fn incompressible_bytes_stay() {
        for compression in [Compression::Lz4, Compression::Zstd, Compression::None] {
            assert_eq!(compress(&[], compression), None);
            assert_eq!(compress(b"abc", compression), None);
        }
        assert!(compress(&[7; 1000], Compression::Lz4).is_some());
    }
}
