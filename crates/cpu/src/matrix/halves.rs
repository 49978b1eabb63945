//! Products of matrices of 16-bit floats, with a vector of the processor for each row of sums.
//!
//! One function reads the registers, multiplies and writes the results. All loops have indices: an
//! iterator or a closure of the standard library that is not inlined costs more than the products.

#![allow(clippy::needless_range_loop, reason = "an iterator may be a call here")]

use std::arch::x86_64::{
    __m128i, __m256, _CMP_UNORD_Q, _MM_FROUND_TO_NEAREST_INT, _mm_setzero_si128, _mm_storeu_ps,
    _mm_storeu_si128, _mm256_blendv_ps, _mm256_castps256_ps128, _mm256_castsi256_ps, _mm256_cmp_ps,
    _mm256_cvtepu16_epi32, _mm256_cvtph_ps, _mm256_cvtps_ph, _mm256_extractf128_ps,
    _mm256_fmadd_ps, _mm256_loadu2_m128, _mm256_permutevar8x32_ps, _mm256_set1_epi32,
    _mm256_set1_ps, _mm256_setr_epi32, _mm256_setzero_ps, _mm256_slli_epi32, _mm256_storeu_ps,
};

use super::element::Element;
use super::factors::{ROWS, Tile};
use super::operation::Operation;
use super::registers::Registers;
use super::transpose::{row, transposed_rows};

/// Rows of a register, and elements of each.
const LINES: usize = 8;

/// The columns as the sums of a row have them: the even ones before the others, as they are in two
/// registers of C.
const ORDER: [usize; LINES] = [0, 2, 4, 6, 1, 3, 5, 7];

type Sums = [__m256; ROWS];

/// Whether this module multiplies such matrices, of 16 rows, with the instructions of the processor.
pub(super) fn applies(operation: &Operation) -> bool {
    use std::is_x86_feature_detected as has;
    matches!(operation.elements[1], Element::F16 | Element::Bf16)
        && !operation.has(Operation::SPARSE)
        && has!("avx2")
        && has!("fma")
        && has!("f16c")
}

/// The products of a `mma` (one tile) or a `wmma.mma` (two at most). `k` is 8 or 16.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn multiply<const TILES: usize>(
    [d, of_a, _, c]: [Element; 4],
    registers: &mut Registers<'_>,
    k: usize,
    tiles: [Tile; TILES],
) {
    // All is read before the first D is written: they may share registers.
    let mut sums = [[_mm256_setzero_ps(); ROWS]; TILES];
    for n in 0..TILES {
        read_sums(c, registers, &tiles[n], &mut sums[n]);
        match (of_a, k) {
            (Element::F16, 8) => add::<true, 1>(registers, &tiles[n], &mut sums[n]),
            (Element::F16, _) => add::<true, 2>(registers, &tiles[n], &mut sums[n]),
            (_, 8) => add::<false, 1>(registers, &tiles[n], &mut sums[n]),
            _ => add::<false, 2>(registers, &tiles[n], &mut sums[n]),
        }
    }
    for n in 0..TILES {
        write_sums(d, registers, &tiles[n], &sums[n]);
    }
}

/// Adds the products of so many registers along `k`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add<const IS_F16: bool, const DEPTH: usize>(
    registers: &Registers<'_>,
    tile: &Tile,
    sums: &mut Sums,
) {
    // In memory, from which an element is loaded into all places of a vector at once.
    let mut left = [[[0.0; LINES]; ROWS]; DEPTH];
    let mut right = [[_mm256_setzero_ps(); LINES]; DEPTH];
    for at in 0..DEPTH {
        for block in 0..ROWS / LINES {
            let register = registers.words(tile.a + ROWS / LINES * at + block);
            for line in 0..LINES {
                let floats = floats::<IS_F16>(row(register, line));
                // SAFETY: eight floats.
                unsafe {
                    let place = &mut left[at][LINES * block + line];
                    _mm256_storeu_ps(place.as_mut_ptr(), floats);
                };
            }
        }
        let register = registers.words(tile.b + at);
        let mut columns = [_mm_setzero_si128(); LINES];
        for n in 0..LINES {
            columns[n] = row(register, ORDER[n]);
        }
        let rows = transposed_rows(columns);
        for n in 0..LINES {
            right[at][n] = floats::<IS_F16>(rows[n]);
        }
    }
    // Each sum waits for the one before it, so that eight rows overlap.
    for block in 0..ROWS / LINES {
        let mut lines = [_mm256_setzero_ps(); LINES];
        for line in 0..LINES {
            lines[line] = sums[LINES * block + line];
        }
        for at in 0..DEPTH {
            for n in 0..LINES {
                for line in 0..LINES {
                    let left = _mm256_set1_ps(left[at][LINES * block + line][n]);
                    lines[line] = _mm256_fmadd_ps(left, right[at][n], lines[line]);
                }
            }
        }
        for line in 0..LINES {
            sums[LINES * block + line] = lines[line];
        }
    }
}

/// The values of eight numbers of 16 bits.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn floats<const IS_F16: bool>(bits: __m128i) -> __m256 {
    if IS_F16 {
        _mm256_cvtph_ps(bits)
    } else {
        // The upper half of a float.
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(bits)))
    }
}

/// Reads C.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn read_sums(c: Element, registers: &Registers<'_>, tile: &Tile, sums: &mut Sums) {
    for block in 0..ROWS / LINES {
        if c == Element::F16 {
            let register = registers.words(tile.c + block);
            let order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
            for line in 0..LINES {
                let floats = floats::<true>(row(register, line));
                sums[LINES * block + line] = _mm256_permutevar8x32_ps(floats, order);
            }
            continue;
        }
        let even = registers.words(tile.c + 2 * block).as_chunks::<4>().0;
        let odd = registers.words(tile.c + 2 * block + 1).as_chunks::<4>().0;
        for line in 0..LINES {
            // SAFETY: four floats each.
            sums[LINES * block + line] = unsafe {
                _mm256_loadu2_m128(odd[line].as_ptr().cast(), even[line].as_ptr().cast())
            };
        }
    }
}

/// Writes D.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn write_sums(d: Element, registers: &mut Registers<'_>, tile: &Tile, sums: &Sums) {
    let nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFF_FFFF));
    for block in 0..ROWS / LINES {
        let mut rows = [nan; LINES];
        for line in 0..LINES {
            let sum = sums[LINES * block + line];
            // There is one NaN.
            rows[line] = _mm256_blendv_ps(sum, nan, _mm256_cmp_ps::<_CMP_UNORD_Q>(sum, sum));
        }
        if d == Element::F16 {
            let Some(register) = registers.words_mut(tile.d + block) else {
                continue;
            };
            let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
            for line in 0..LINES {
                let row = _mm256_permutevar8x32_ps(rows[line], order);
                let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(row);
                let place = register.as_chunks_mut::<4>().0[line].as_mut_ptr();
                // SAFETY: 16 bytes.
                unsafe { _mm_storeu_si128(place.cast(), halves) };
            }
            continue;
        }
        if let Some(register) = registers.words_mut(tile.d + 2 * block) {
            for line in 0..LINES {
                let place = register.as_chunks_mut::<4>().0[line].as_mut_ptr();
                // SAFETY: four floats.
                unsafe { _mm_storeu_ps(place.cast(), _mm256_castps256_ps128(rows[line])) };
            }
        }
        if let Some(register) = registers.words_mut(tile.d + 2 * block + 1) {
            for line in 0..LINES {
                let place = register.as_chunks_mut::<4>().0[line].as_mut_ptr();
                // SAFETY: four floats.
                unsafe { _mm_storeu_ps(place.cast(), _mm256_extractf128_ps::<1>(rows[line])) };
            }
        }
    }
}
