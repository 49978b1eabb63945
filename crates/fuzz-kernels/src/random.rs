//! A random number generator that gives the same sequence on every platform.

/// SplitMix64, or numbers that bytes choose.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
    /// Bytes that choose the next numbers, the next one last.
    chosen: Vec<u8>,
}

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Random {
        let mut random = Random {
            state: seed ^ 0x5DEE_CE66_D1CE_B00D,
            chosen: Vec::new(),
        };
        random.bits();
        random
    }

    /// Returns a sequence in which every two bytes choose one number. A fuzzer that changes a few
    /// bytes then changes a part of the kernel. After the last byte, the numbers follow a fixed seed.
    pub fn of_bytes(bytes: &[u8]) -> Random {
        Random {
            chosen: bytes.iter().rev().copied().collect(),
            ..Random::new(0)
        }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let state = match (self.chosen.pop(), self.chosen.pop()) {
            (Some(low), Some(high)) => u64::from(u16::from_le_bytes([low, high])) << 40,
            _ => {
                self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
                self.state
            }
        };
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `limit`; 0 if `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        match limit {
            0 => 0,
            limit => (self.bits() >> 16) as usize % limit,
        }
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of the values, which must not be empty.
    pub fn pick<'a, T>(&mut self, values: &'a [T]) -> &'a T {
        &values[self.below(values.len())]
    }

    /// An index, each with a probability in proportion to its weight.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let total: u32 = weights.iter().sum();
        let mut at = self.below(total as usize) as u32;
        for (index, &weight) in weights.iter().enumerate() {
            if at < weight {
                return index;
            }
            at -= weight;
        }
        0
    }
}
