//! Random numbers: the generator SplitMix64.

/// Random word `index` of `seed`: step `index + 1` of the generator.
///
/// The same on every machine, and any element can be had without those before it. Integer
/// elements take the low bits; a float with p significant bits takes the top p as a fraction.
pub(crate) fn random(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The top `digits` bits of `word` as a fraction in [0, 1).
pub(crate) fn uniform(word: u64, digits: u32) -> f64 {
    (word >> (64 - digits)) as f64 / 2f64.powi(digits as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        // The first outputs of SplitMix64 with seed 1234567.
        assert_eq!(random(1_234_567, 0), 6_457_827_717_110_365_317);
        assert_eq!(random(1_234_567, 1), 3_203_168_211_198_807_973);
    }
}
