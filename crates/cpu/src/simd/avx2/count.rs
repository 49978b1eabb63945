//! Counts of bits.

use super::instructions::word;
use super::{Legalizer, Pair, Source, opcodes as a};
use crate::simd::machine::Value;
use crate::simd::opcodes as v;

impl Legalizer {
    /// The leading zeros of 32 bits, from the exponent of a float.
    pub(super) fn leading_zeros(&mut self, value: Value) -> Value {
        // Without the bits that could round it up to the next power of two.
        let below = self.shift(2, false, value, 1);
        let value = self.of_values(v::ANDN, below, value);
        let float = self.unary(v::I32_TO_F32, value);
        let exponent = self.shift(2, false, float, 23);
        let most = self.in_register(word(158));
        let zeros = self.of_values(v::SUB, most, exponent);
        // A number whose top bit is set was negative, and a zero has no exponent.
        let zeros = self.binary(v::MIN_S, zeros, word(32));
        let zero = self.zero();
        self.of_values(v::MAX_S, zeros, zero)
    }

    pub(super) fn leading_zeros_of_longs(&mut self, value: Value) -> Value {
        let zeros = self.leading_zeros(value);
        let high = self.shift(2, true, zeros, 32);
        let up = self.shift(6, true, zeros, 32);
        let low = self.shift(2, true, up, 32);
        let is_empty = self.binary(a::EQUAL64, high, super::instructions::long(32));
        let low = self.of_values(v::AND, low, is_empty);
        self.of_values(v::ADD64, high, low)
    }

    /// The number of bits that are set, by a table of half bytes.
    pub(super) fn count_ones(&mut self, value: Value, wide: bool) -> Value {
        let counts: [u8; 16] = std::array::from_fn(|n| n.count_ones() as u8);
        let words = std::array::from_fn(|n| {
            let at = n % 4 * 4;
            u32::from_le_bytes([counts[at], counts[at + 1], counts[at + 2], counts[at + 3]])
        });
        let table = self.words(words);
        let table = self.in_register(table);
        let high = self.shift(2, false, value, 4);
        let [low, high] = [value, high].map(|part| {
            let nibbles = self.binary(v::AND, part, word(0x0F0F_0F0F));
            self.of_values(v::SHUFFLE_BYTES, table, nibbles)
        });
        let bytes = self.of_values(a::ADD_BYTES, low, high);
        if wide {
            let zero = self.zero();
            return self.of_values(a::SUM_OF_BYTES, bytes, zero);
        }
        let pairs = self.binary(a::SUM_PAIRS_OF_BYTES, bytes, word(0x0101_0101));
        self.binary(a::SUM_PAIRS_OF_HALVES, pairs, word(0x0001_0001))
    }

    /// For each lane, the bits of the lanes before it that have its value.
    pub(super) fn conflicts(&mut self, lanes: Pair) -> Pair {
        let mut found = [None; 2];
        for other in 0..15_usize {
            let index = self.words([other as u32 % 8; 8]);
            let index = self.in_register(index);
            let all = self.of_values(v::PERMUTE, index, lanes[other / 8]);
            for (half, found) in found.iter_mut().enumerate() {
                if other >= 8 * half + 7 {
                    continue;
                }
                let bits = self.words(std::array::from_fn(|lane| {
                    u32::from(8 * half + lane > other) << other
                }));
                let equal = self.of_values(a::EQUAL, lanes[half], all);
                let bits = self.binary(v::AND, equal, bits);
                *found = Some(match *found {
                    None => bits,
                    Some(known) => self.of_values(v::OR, known, bits),
                });
            }
        }
        found.map(|found| match found {
            Some(found) => found,
            None => self.zero(),
        })
    }

    /// Lanes of two vectors by index, of which four bits count.
    pub(super) fn permuted(&mut self, index: Value, from: Pair) -> Value {
        let [low, high] = from.map(|half| self.of_values(v::PERMUTE, index, half));
        let is_high = self.shift(6, false, index, 28);
        self.blended(false, is_high, Source::Value(high), low)
    }
}
