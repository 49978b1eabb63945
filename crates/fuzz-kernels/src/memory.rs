//! The memory that kernels get, the same for all of them.

use crate::kernel::{INPUT_BYTES, Kernel, THREAD_BYTES, TOTALS_BYTES};
use crate::random::Random;
use crate::template::{double, float, integer};

/// Each byte of the totals before a launch, so that `min` and `and` change them too.
pub const TOTALS_BYTE: u8 = 0x5A;

/// The input: integers, floats of 16, 32 and 64 bits, many of them special.
pub fn input() -> Vec<u8> {
    let mut random = Random::new(52);
    let mut bytes = Vec::with_capacity(INPUT_BYTES);
    while bytes.len() < INPUT_BYTES {
        let value = match random.below(6) {
            0 => random.bits(),
            1 => double(&mut random),
            2 => integer(&mut random, 64),
            3 => integer(&mut random, 32) | integer(&mut random, 32) << 32,
            4 => {
                let half = [
                    0x3C00, 0x7C00, 0x7E00, 0x0001, 0xBC00, 0x3F80, 0x7F80, 0x4248,
                ];
                (0..4).fold(0, |all, _| all << 16 | random.pick(&half))
            }
            _ => u64::from(float(&mut random)) | u64::from(float(&mut random)) << 32,
        };
        bytes.extend(value.to_le_bytes());
    }
    bytes
}

impl Kernel {
    /// Bytes of the output buffer.
    pub fn output_bytes(&self) -> usize {
        self.grid as usize * self.threads() as usize * THREAD_BYTES
    }
}

/// A digest of the output and the totals.
pub fn digest(output: &[u8], totals: &[u8]) -> u64 {
    debug_assert_eq!(totals.len(), TOTALS_BYTES);
    let mut state = 0x243F_6A88_85A3_08D3_u64;
    for bytes in [output, totals] {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            state = (state ^ u64::from_le_bytes(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            state ^= state >> 29;
        }
    }
    state
}
