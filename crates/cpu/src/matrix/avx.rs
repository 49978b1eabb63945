//! Sums of products with a vector of the processor for each row.

use std::arch::x86_64::{
    __m256, _mm_loadu_si128, _mm256_cvtph_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps,
    _mm256_storeu_ps,
};

use super::element::{Float, Floats};
use super::factors::{COLUMNS, Factors, Sums};
use super::registers::Words;

/// Rows that are summed at a time, so that each sum waits for none of the others. All numbers
/// of rows are multiples of it.
const LINES: usize = 8;

/// Adds the products of A and B to the sums.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn add<A: Float, B: Float, const DEPTH: usize>(
    factors: &Factors<'_>,
    of_a: A,
    of_b: B,
    sums: &mut Sums<f32>,
) {
    let (left, right) = factors.rows::<DEPTH>(
        4 * A::IN_REGISTER,
        |register, out| {
            if A::IS_F16 {
                read_halves(register, out)
            } else {
                of_a.read(register, out)
            }
        },
        |register, out| {
            if B::IS_F16 {
                read_halves(register, out)
            } else {
                of_b.read(register, out)
            }
        },
    );
    for (left, sums) in left
        .chunks_exact(LINES)
        .zip(sums.chunks_exact_mut(LINES))
        .take(factors.rows / LINES)
    {
        let mut lines: [__m256; LINES] = std::array::from_fn(|line| load(&sums[line]));
        for (at, right) in right.iter().enumerate().take(factors.k) {
            let right = load(right);
            for (line, left) in lines.iter_mut().zip(left) {
                *line = _mm256_fmadd_ps(_mm256_set1_ps(left[at]), right, *line);
            }
        }
        for (sums, line) in sums.iter_mut().zip(lines) {
            // SAFETY: eight floats.
            unsafe { _mm256_storeu_ps(sums.as_mut_ptr(), line) };
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(row: &[f32; COLUMNS]) -> __m256 {
    // SAFETY: eight floats.
    unsafe { _mm256_loadu_ps(row.as_ptr()) }
}

/// The halves of a register.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn read_halves(register: &Words, out: &mut Floats) {
    let words = register.as_chunks::<4>().0;
    for (words, out) in words.iter().zip(out.as_chunks_mut::<8>().0) {
        // SAFETY: 16 bytes, which are eight halves, and as many floats.
        unsafe {
            let halves = _mm_loadu_si128(words.as_ptr().cast());
            _mm256_storeu_ps(out.as_mut_ptr(), _mm256_cvtph_ps(halves));
        }
    }
}
