//! The opcodes of instructions on vectors of 512 bits. Names without a width are for lanes of 32 bits.

use super::machine::Evex;

/// Operations on two masks. The third is the second operand where the first is 0.
pub(super) const MASK_AND: u8 = 0x41;
pub(super) const MASK_OR: u8 = 0x45;
pub(super) const MASK_AND_NOT: u8 = 0x42;
pub(super) const MASK_XOR: u8 = 0x47;

const fn code(map: u8, prefix: u8, wide: bool, opcode: u8, maskable: bool) -> Evex {
    Evex {
        map,
        prefix,
        wide,
        opcode,
        length: 2,
        maskable,
    }
}

pub(super) const ADD: Evex = code(1, 1, false, 0xFE, true);
pub(super) const ADD64: Evex = code(1, 1, true, 0xD4, true);
pub(super) const SUB: Evex = code(1, 1, false, 0xFA, true);
pub(super) const SUB64: Evex = code(1, 1, true, 0xFB, true);
pub(super) const MUL: Evex = code(2, 1, false, 0x40, true);
pub(super) const MUL64: Evex = code(2, 1, true, 0x40, true);
pub(super) const MUL_EVEN_U: Evex = code(1, 1, true, 0xF4, true);
pub(super) const MUL_EVEN_S: Evex = code(2, 1, true, 0x28, true);
pub(super) const AND: Evex = code(1, 1, false, 0xDB, true);
pub(super) const AND64: Evex = code(1, 1, true, 0xDB, true);
pub(super) const ANDN: Evex = code(1, 1, false, 0xDF, true);
pub(super) const ANDN64: Evex = code(1, 1, true, 0xDF, true);
pub(super) const OR: Evex = code(1, 1, false, 0xEB, true);
pub(super) const OR64: Evex = code(1, 1, true, 0xEB, true);
pub(super) const XOR: Evex = code(1, 1, false, 0xEF, true);
pub(super) const XOR64: Evex = code(1, 1, true, 0xEF, true);
pub(super) const ADD_HALVES: Evex = code(1, 1, false, 0xFD, false);
pub(super) const ADD_HALVES_U: Evex = code(1, 1, false, 0xDD, false);
pub(super) const ADD_HALVES_S: Evex = code(1, 1, false, 0xED, false);
pub(super) const SUB_HALVES: Evex = code(1, 1, false, 0xF9, false);
pub(super) const MIN_HALVES_U: Evex = code(2, 1, false, 0x3A, false);
pub(super) const MIN_HALVES_S: Evex = code(1, 1, false, 0xEA, false);
pub(super) const MAX_HALVES_U: Evex = code(2, 1, false, 0x3E, false);
pub(super) const MAX_HALVES_S: Evex = code(1, 1, false, 0xEE, false);
pub(super) const TERNARY: Evex = code(3, 1, false, 0x25, true);
pub(super) const TERNARY64: Evex = code(3, 1, true, 0x25, true);
pub(super) const MIN_S: Evex = code(2, 1, false, 0x39, true);
pub(super) const MIN_S64: Evex = code(2, 1, true, 0x39, true);
pub(super) const MIN_U: Evex = code(2, 1, false, 0x3B, true);
pub(super) const MIN_U64: Evex = code(2, 1, true, 0x3B, true);
pub(super) const MAX_S: Evex = code(2, 1, false, 0x3D, true);
pub(super) const MAX_S64: Evex = code(2, 1, true, 0x3D, true);
pub(super) const MAX_U: Evex = code(2, 1, false, 0x3F, true);
pub(super) const MAX_U64: Evex = code(2, 1, true, 0x3F, true);
pub(super) const ABS: Evex = code(2, 1, false, 0x1E, true);
pub(super) const ABS64: Evex = code(2, 1, true, 0x1F, true);
pub(super) const SHIFT_LEFT: Evex = code(2, 1, false, 0x47, true);
pub(super) const SHIFT_LEFT64: Evex = code(2, 1, true, 0x47, true);
pub(super) const SHIFT_RIGHT: Evex = code(2, 1, false, 0x45, true);
pub(super) const SHIFT_RIGHT64: Evex = code(2, 1, true, 0x45, true);
pub(super) const SHIFT_SIGNED: Evex = code(2, 1, false, 0x46, true);
pub(super) const SHIFT_SIGNED64: Evex = code(2, 1, true, 0x46, true);
pub(super) const SHIFT_BY: Evex = code(1, 1, false, 0x72, true);
pub(super) const SHIFT_BY64: Evex = code(1, 1, true, 0x73, true);
pub(super) const SHIFT_SIGNED_BY64: Evex = code(1, 1, true, 0x72, true);
pub(super) const FUNNEL_LEFT: Evex = code(2, 1, false, 0x71, true);
pub(super) const FUNNEL_RIGHT: Evex = code(2, 1, false, 0x73, true);
pub(super) const LEADING_ZEROS: Evex = code(2, 1, false, 0x44, true);
pub(super) const LEADING_ZEROS64: Evex = code(2, 1, true, 0x44, true);
pub(super) const CONFLICTS: Evex = code(2, 1, false, 0xC4, true);
pub(super) const HAVE_NO_BIT: Evex = code(2, 2, false, 0x27, false);
pub(super) const COUNT_ONES: Evex = code(2, 1, false, 0x55, true);
pub(super) const COUNT_ONES64: Evex = code(2, 1, true, 0x55, true);
pub(super) const SHUFFLE_BYTES: Evex = code(2, 1, false, 0x00, false);
pub(super) const COMPARE_U: Evex = code(3, 1, false, 0x1E, false);
pub(super) const COMPARE_U64: Evex = code(3, 1, true, 0x1E, false);
pub(super) const COMPARE_S: Evex = code(3, 1, false, 0x1F, false);
pub(super) const COMPARE_S64: Evex = code(3, 1, true, 0x1F, false);
pub(super) const BROADCAST_INT: Evex = code(2, 1, false, 0x7C, true);
pub(super) const BROADCAST_INT64: Evex = code(2, 1, true, 0x7C, true);
pub(super) const BROADCAST: Evex = code(2, 1, false, 0x58, true);
pub(super) const BROADCAST64: Evex = code(2, 1, true, 0x59, true);
pub(super) const BLEND: Evex = code(2, 1, false, 0x64, false);
pub(super) const BLEND64: Evex = code(2, 1, true, 0x64, false);
pub(super) const COPY: Evex = code(1, 1, false, 0x6F, true);
pub(super) const COPY64: Evex = code(1, 1, true, 0x6F, true);
pub(super) const LOAD: Evex = code(1, 2, false, 0x6F, true);
pub(super) const LOAD64: Evex = code(1, 2, true, 0x6F, true);
pub(super) const STORE: Evex = code(1, 2, false, 0x7F, true);
pub(super) const STORE64: Evex = code(1, 2, true, 0x7F, true);
pub(super) const LOAD_BYTES_U: Evex = code(2, 1, false, 0x31, false);
pub(super) const LOAD_BYTES_S: Evex = code(2, 1, false, 0x21, false);
pub(super) const LOAD_HALVES_U: Evex = code(2, 1, false, 0x33, false);
pub(super) const LOAD_HALVES_S: Evex = code(2, 1, false, 0x23, false);
pub(super) const NARROW_TO_BYTES: Evex = code(2, 2, false, 0x31, false);
pub(super) const NARROW_TO_HALVES: Evex = code(2, 2, false, 0x33, false);
pub(super) const NARROW_TO_WORDS: Evex = code(2, 2, false, 0x35, false);
pub(super) const WIDEN_U: Evex = code(2, 1, false, 0x35, false);
pub(super) const WIDEN_S: Evex = code(2, 1, false, 0x25, false);
pub(super) const INSERT_HALF: Evex = code(3, 1, true, 0x3A, false);
pub(super) const EXTRACT_HALF: Evex = code(3, 1, true, 0x3B, false);
pub(super) const TO_INT: Evex = Evex {
    length: 0,
    ..code(1, 1, false, 0x7E, false)
};
pub(super) const TO_INT64: Evex = Evex {
    length: 0,
    ..code(1, 1, true, 0x7E, false)
};
pub(super) const PERMUTE: Evex = code(2, 1, false, 0x36, false);
pub(super) const GATHER_BY_WORDS: Evex = code(2, 1, false, 0x90, false);
pub(super) const GATHER_BY_LONGS: Evex = code(2, 1, false, 0x91, false);
pub(super) const GATHER64_BY_WORDS: Evex = code(2, 1, true, 0x90, false);
pub(super) const GATHER64_BY_LONGS: Evex = code(2, 1, true, 0x91, false);
pub(super) const SCATTER_BY_WORDS: Evex = code(2, 1, false, 0xA0, false);
pub(super) const SCATTER_BY_LONGS: Evex = code(2, 1, false, 0xA1, false);
pub(super) const SCATTER64_BY_WORDS: Evex = code(2, 1, true, 0xA0, false);
pub(super) const SCATTER64_BY_LONGS: Evex = code(2, 1, true, 0xA1, false);
pub(super) const ADD_F32: Evex = code(1, 0, false, 0x58, true);
pub(super) const ADD_F64: Evex = code(1, 1, true, 0x58, true);
pub(super) const SUB_F32: Evex = code(1, 0, false, 0x5C, true);
pub(super) const SUB_F64: Evex = code(1, 1, true, 0x5C, true);
pub(super) const MUL_F32: Evex = code(1, 0, false, 0x59, true);
pub(super) const MUL_F64: Evex = code(1, 1, true, 0x59, true);
pub(super) const DIV_F32: Evex = code(1, 0, false, 0x5E, true);
pub(super) const DIV_F64: Evex = code(1, 1, true, 0x5E, true);
pub(super) const SQRT_F32: Evex = code(1, 0, false, 0x51, true);
pub(super) const SQRT_F64: Evex = code(1, 1, true, 0x51, true);
pub(super) const RANGE_F32: Evex = code(3, 1, false, 0x50, true);
pub(super) const RANGE_F64: Evex = code(3, 1, true, 0x50, true);
pub(super) const FMA_F32: Evex = code(2, 1, false, 0xB8, true);
pub(super) const FMA_F64: Evex = code(2, 1, true, 0xB8, true);
pub(super) const COMPARE_F32: Evex = code(1, 0, false, 0xC2, false);
pub(super) const COMPARE_F64: Evex = code(1, 1, true, 0xC2, false);
pub(super) const ROUND_F32: Evex = code(3, 1, false, 0x08, true);
pub(super) const ROUND_F64: Evex = code(3, 1, true, 0x09, true);
pub(super) const I32_TO_F32: Evex = code(1, 0, false, 0x5B, true);
pub(super) const U32_TO_F32: Evex = code(1, 3, false, 0x7A, true);
pub(super) const F32_TRUNCATED_TO_I32: Evex = code(1, 2, false, 0x5B, true);
pub(super) const F32_TRUNCATED_TO_U32: Evex = code(1, 0, false, 0x78, true);
pub(super) const I32_TO_F64: Evex = code(1, 2, false, 0xE6, false);
pub(super) const U32_TO_F64: Evex = code(1, 2, false, 0x7A, false);
pub(super) const F64_TRUNCATED_TO_I32: Evex = code(1, 1, true, 0xE6, false);
pub(super) const F64_TRUNCATED_TO_U32: Evex = code(1, 0, true, 0x78, false);
pub(super) const F32_TO_F64: Evex = code(1, 0, false, 0x5A, false);
pub(super) const F64_TO_F32: Evex = code(1, 1, true, 0x5A, false);
pub(super) const I64_TO_F64: Evex = code(1, 2, true, 0xE6, true);
pub(super) const U64_TO_F64: Evex = code(1, 2, true, 0x7A, true);
pub(super) const I64_TO_F32: Evex = code(1, 0, true, 0x5B, false);
pub(super) const U64_TO_F32: Evex = code(1, 3, true, 0x7A, false);
pub(super) const HALF_TO_F32: Evex = code(2, 1, false, 0x13, false);
pub(super) const F32_TO_HALF: Evex = code(3, 1, false, 0x1D, false);
pub(super) const MIN_F32: Evex = code(1, 0, false, 0x5D, true);
pub(super) const MIN_F64: Evex = code(1, 1, true, 0x5D, true);
pub(super) const MAX_F32: Evex = code(1, 0, false, 0x5F, true);
pub(super) const MAX_F64: Evex = code(1, 1, true, 0x5F, true);
pub(super) const F64_TRUNCATED_TO_I64: Evex = code(1, 1, true, 0x7A, true);
pub(super) const F64_TRUNCATED_TO_U64: Evex = code(1, 1, true, 0x78, true);
pub(super) const PERMUTE_TWO: Evex = code(2, 1, false, 0x76, false);
