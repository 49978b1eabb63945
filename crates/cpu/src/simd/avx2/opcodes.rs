//! The opcodes of AVX2 that have no counterpart on vectors of 512 bits, or another encoding there.

use crate::simd::machine::Evex;

const fn code(map: u8, prefix: u8, wide: bool, opcode: u8) -> Evex {
    Evex {
        map,
        prefix,
        wide,
        opcode,
        length: 1,
        maskable: false,
    }
}

pub(super) const ADD_BYTES: Evex = code(1, 1, false, 0xFC);
pub(super) const BLEND: Evex = code(3, 1, false, 0x4A);
pub(super) const BLEND64: Evex = code(3, 1, false, 0x4B);
pub(super) const EQUAL: Evex = code(1, 1, false, 0x76);
pub(super) const EQUAL64: Evex = code(2, 1, false, 0x29);
pub(super) const EXTRACT: Evex = code(3, 1, false, 0x39);
pub(super) const FROM_INT: Evex = code(1, 1, false, 0x6E).of_128_bits();
pub(super) const FROM_INT64: Evex = code(1, 1, true, 0x6E).of_128_bits();
pub(super) const GREATER: Evex = code(1, 1, false, 0x66);
pub(super) const GREATER64: Evex = code(2, 1, false, 0x37);
pub(super) const INSERT: Evex = code(3, 1, false, 0x38);
pub(super) const LOAD_MASKED: Evex = code(2, 1, false, 0x8C);
pub(super) const LOAD_MASKED64: Evex = code(2, 1, true, 0x8C);
pub(super) const PACK_TO_BYTES: Evex = code(1, 1, false, 0x67);
pub(super) const PACK_TO_HALVES: Evex = code(2, 1, false, 0x2B);
pub(super) const PERMUTE_LONGS: Evex = code(3, 1, true, 0x00);
pub(super) const SHUFFLE_TWO: Evex = code(1, 0, false, 0xC6);
pub(super) const SHUFFLE_WORDS: Evex = code(1, 1, false, 0x70);
pub(super) const STORE_MASKED: Evex = code(2, 1, false, 0x8E);
pub(super) const STORE_MASKED64: Evex = code(2, 1, true, 0x8E);
pub(super) const SUM_OF_BYTES: Evex = code(1, 1, false, 0xF6);
pub(super) const SUM_PAIRS_OF_BYTES: Evex = code(2, 1, false, 0x04);
pub(super) const SUM_PAIRS_OF_HALVES: Evex = code(1, 1, false, 0xF5);
pub(super) const UPPER_LONGS: Evex = code(1, 1, false, 0x6D);
