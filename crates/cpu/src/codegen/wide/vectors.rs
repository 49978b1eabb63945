//! Functions of what Cranelift has no instructions for: prefetches, conversions of halves, and
//! non-temporal stores side by side, of vectors of 128 bits, or of words at one distance from each
//! other in memory, such as a column of a tile.
//!
//! Their first argument is an address; that which copies has a second one. What they store past the
//! caches they store to a multiple of 16.

use super::encoder::{Encoder, Gpr, Ymm};

const FROM: Gpr = Gpr::RDI;
const TO: Gpr = Gpr::RSI;
/// Words of a vector.
const WORDS: u32 = 4;

/// The most vectors that a function has in registers.
pub(in crate::codegen) const MAX_STREAMED: usize = 8;

/// A function that stores its vectors of 128 bits, which follow the address.
pub(in crate::codegen) fn stream_vectors(count: usize) -> Vec<u8> {
    let mut encoder = Encoder::default();
    for vector in 0..count.min(MAX_STREAMED) as u8 {
        encoder.stream_half(Ymm(vector), FROM, 16 * i32::from(vector));
    }
    encoder.return_();
    encoder.bytes
}

/// A function that copies so many words, a multiple of 4.
pub(in crate::codegen) fn copy_column(distance: i32, words: u32) -> Option<Vec<u8>> {
    let mut encoder = Encoder::default();
    for vector in 0..words / WORDS {
        let offset = |word: u32| distance.checked_mul((WORDS * vector + word).cast_signed());
        encoder.load_word_of(register(vector), FROM, offset(0)?);
        for word in 1..WORDS {
            encoder.insert(register(vector), word as u8, FROM, offset(word)?);
        }
        encoder.stream_half(register(vector), TO, 16 * vector.cast_signed());
    }
    encoder.return_();
    Some(encoder.bytes)
}

/// A function that prefetches so many lines from an address on.
pub(in crate::codegen) fn prefetch(lines: u32) -> Vec<u8> {
    let mut encoder = Encoder::default();
    for line in 0..lines {
        encoder.prefetch(FROM, 64 * line.cast_signed());
    }
    encoder.return_();
    encoder.bytes
}

/// Vectors that follow one another do not wait for each other.
fn register(vector: u32) -> Ymm {
    Ymm((vector % u32::from(Ymm::COUNT)) as u8)
}

/// A function that stores the floats of its vector of 128 bits as the nearest halves, side by side, at
/// the address before it.
pub(in crate::codegen) fn store_halves() -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.store_halves(Ymm(0), FROM);
    encoder.return_();
    encoder.bytes
}
