//! The transposed matrix of 8 rows of 8 halves: lane `4 * row + column / 2` has each.

use super::registers::Words;

#[cfg(target_arch = "x86_64")]
pub(super) use sse2::{row, transposed, transposed_rows};

#[cfg(target_arch = "x86_64")]
mod sse2 {
    #![allow(clippy::needless_range_loop, reason = "as in `halves`")]

    use super::Words;
    use std::arch::x86_64::{
        __m128i, _mm_loadu_si128, _mm_setzero_si128, _mm_storeu_si128, _mm_unpackhi_epi16,
        _mm_unpacklo_epi16,
    };

    /// Row `n` of a register, of the eight that it has.
    #[inline(always)]
    pub(in crate::matrix) fn row(register: &Words, n: usize) -> __m128i {
        // SAFETY: each has 16 bytes.
        unsafe { _mm_loadu_si128(register.as_chunks::<4>().0[n].as_ptr().cast()) }
    }

    #[inline(always)]
    pub(in crate::matrix) fn transposed_rows(rows: [__m128i; 8]) -> [__m128i; 8] {
        let mut rows = rows;
        // Each step moves one bit of the number of a row into that of the column.
        for _ in 0..3 {
            let before = rows;
            for n in 0..4 {
                // SAFETY: every x86-64 processor has SSE2.
                unsafe {
                    rows[2 * n] = _mm_unpacklo_epi16(before[n], before[n + 4]);
                    rows[2 * n + 1] = _mm_unpackhi_epi16(before[n], before[n + 4]);
                }
            }
        }
        rows
    }

    #[inline(always)]
    pub(in crate::matrix) fn transposed(words: &Words) -> Words {
        // SAFETY: every x86-64 processor has SSE2.
        let mut rows = [unsafe { _mm_setzero_si128() }; 8];
        for n in 0..8 {
            rows[n] = row(words, n);
        }
        let rows = transposed_rows(rows);
        let mut words = [0; 32];
        for n in 0..8 {
            let place = words.as_chunks_mut::<4>().0[n].as_mut_ptr();
            // SAFETY: 16 bytes.
            unsafe { _mm_storeu_si128(place.cast(), rows[n]) };
        }
        words
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn transposed(words: &Words) -> Words {
    let half =
        |row: usize, column: usize| words[4 * row + column / 2] >> (16 * (column % 2)) & 0xFFFF;
    std::array::from_fn(|lane| {
        let (row, column) = (lane / 4, 2 * (lane % 4));
        half(column, row) | half(column + 1, row) << 16
    })
}
