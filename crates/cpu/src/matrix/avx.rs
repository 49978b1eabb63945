//! Sums of products with a vector of the processor for each row.

use std::arch::x86_64::{
    __m256, _mm_loadu_si128, _mm256_castsi256_ps, _mm256_cvtepu16_epi32, _mm256_cvtph_ps,
    _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_permute2f128_ps, _mm256_set1_ps, _mm256_shuffle_ps,
    _mm256_slli_epi32, _mm256_storeu_ps, _mm256_unpackhi_ps, _mm256_unpacklo_ps,
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
    if A::IN_REGISTER == 2 && B::IN_REGISTER == 2 && factors.selection.is_none() {
        return add_halves::<A, B>(factors, sums);
    }
    let (left, right) = factors.rows::<DEPTH>(
        4 * A::IN_REGISTER,
        |register, out| match A::IS_F16 {
            true => read_halves(register, out),
            false => of_a.read(register, out),
        },
        |register, out| match B::IS_F16 {
            true => read_halves(register, out),
            false => of_b.read(register, out),
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

/// The same for values of 16 bits, of which a register has eight rows of eight: they are multiplied
/// where they are converted. By index, as iterators are no inline code here.
#[target_feature(enable = "avx2,fma,f16c")]
#[allow(clippy::needless_range_loop, reason = "iterators are calls here")]
fn add_halves<A: Float, B: Float>(factors: &Factors<'_>, sums: &mut Sums<f32>) {
    let blocks = factors.rows / LINES;
    // In memory, from which an element is loaded into all places of a vector at once.
    let mut left = [[[0.0; COLUMNS]; LINES]; 4];
    for number in 0..(blocks * factors.k / LINES).min(4) {
        let rows = read::<A>(factors.a[number]);
        for line in 0..LINES {
            store(&mut left[number][line], rows[line]);
        }
    }
    for at in 0..(factors.k / LINES).min(4) {
        let right = transposed(read::<B>(factors.b[at]));
        for block in 0..blocks {
            let Some(left) = left.get(at * blocks + block) else {
                return;
            };
            let sums = &mut sums[block * LINES..][..LINES];
            let mut lines = [right[0]; LINES];
            for line in 0..LINES {
                lines[line] = load(&sums[line]);
            }
            for n in 0..COLUMNS {
                for line in 0..LINES {
                    let left = _mm256_set1_ps(left[line][n]);
                    lines[line] = _mm256_fmadd_ps(left, right[n], lines[line]);
                }
            }
            for line in 0..LINES {
                store(&mut sums[line], lines[line]);
            }
        }
    }
}

/// The rows of a register of values of 16 bits.
#[inline]
#[target_feature(enable = "avx2,f16c")]
#[allow(clippy::needless_range_loop, reason = "iterators are calls here")]
fn read<T: Float>(register: &Words) -> [__m256; LINES] {
    let rows = register.as_chunks::<4>().0;
    let mut read = [_mm256_set1_ps(0.0); LINES];
    for line in 0..LINES {
        // SAFETY: 16 bytes.
        let row = unsafe { _mm_loadu_si128(rows[line].as_ptr().cast()) };
        read[line] = match T::IS_F16 {
            true => _mm256_cvtph_ps(row),
            // The upper half of a float.
            false => _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(row))),
        };
    }
    read
}

/// The columns of eight rows.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed(rows: [__m256; LINES]) -> [__m256; LINES] {
    let [a, b, c, d, e, f, g, h] = rows;
    let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
    let (ef, gh) = (_mm256_unpacklo_ps(e, f), _mm256_unpacklo_ps(g, h));
    let (ab_high, cd_high) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
    let (ef_high, gh_high) = (_mm256_unpackhi_ps(e, f), _mm256_unpackhi_ps(g, h));
    let low = [
        _mm256_shuffle_ps::<0x44>(ab, cd),
        _mm256_shuffle_ps::<0xEE>(ab, cd),
        _mm256_shuffle_ps::<0x44>(ab_high, cd_high),
        _mm256_shuffle_ps::<0xEE>(ab_high, cd_high),
    ];
    let high = [
        _mm256_shuffle_ps::<0x44>(ef, gh),
        _mm256_shuffle_ps::<0xEE>(ef, gh),
        _mm256_shuffle_ps::<0x44>(ef_high, gh_high),
        _mm256_shuffle_ps::<0xEE>(ef_high, gh_high),
    ];
    [
        _mm256_permute2f128_ps::<0x20>(low[0], high[0]),
        _mm256_permute2f128_ps::<0x20>(low[1], high[1]),
        _mm256_permute2f128_ps::<0x20>(low[2], high[2]),
        _mm256_permute2f128_ps::<0x20>(low[3], high[3]),
        _mm256_permute2f128_ps::<0x31>(low[0], high[0]),
        _mm256_permute2f128_ps::<0x31>(low[1], high[1]),
        _mm256_permute2f128_ps::<0x31>(low[2], high[2]),
        _mm256_permute2f128_ps::<0x31>(low[3], high[3]),
    ]
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(row: &mut [f32; COLUMNS], value: __m256) {
    // SAFETY: eight floats.
    unsafe { _mm256_storeu_ps(row.as_mut_ptr(), value) };
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
