//! The opcodes of instructions on vectors of 512 bits. Names without a width are for lanes of 32 bits.

use super::machine::Evex;

/// Operations on two masks. The third is the second operand where the first is 0.
pub(super) const MASK_AND: u8 = 0x41;
pub(super) const MASK_OR: u8 = 0x45;
pub(super) const MASK_AND_NOT: u8 = 0x42;
pub(super) const MASK_XOR: u8 = 0x47;

macro_rules! opcodes {
    ($($name:ident = $code:expr;)+) => {
        $(pub(super) const $name: Evex = $code;)+

        /// The opcodes and their names.
        const NAMES: &[(Evex, &str)] = &[$(($name, stringify!($name)),)+];
    };
}

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

opcodes! {
    ADD = code(1, 1, false, 0xFE, true);
    ADD64 = code(1, 1, true, 0xD4, true);
    SUB = code(1, 1, false, 0xFA, true);
    SUB64 = code(1, 1, true, 0xFB, true);
    MUL = code(2, 1, false, 0x40, true);
    MUL64 = code(2, 1, true, 0x40, true);
    MUL_EVEN_U = code(1, 1, true, 0xF4, true);
    MUL_EVEN_S = code(2, 1, true, 0x28, true);
    AND = code(1, 1, false, 0xDB, true);
    AND64 = code(1, 1, true, 0xDB, true);
    ANDN = code(1, 1, false, 0xDF, true);
    ANDN64 = code(1, 1, true, 0xDF, true);
    OR = code(1, 1, false, 0xEB, true);
    OR64 = code(1, 1, true, 0xEB, true);
    XOR = code(1, 1, false, 0xEF, true);
    XOR64 = code(1, 1, true, 0xEF, true);
    ADD_HALVES = code(1, 1, false, 0xFD, false);
    ADD_HALVES_U = code(1, 1, false, 0xDD, false);
    ADD_HALVES_S = code(1, 1, false, 0xED, false);
    SUB_HALVES = code(1, 1, false, 0xF9, false);
    MIN_HALVES_U = code(2, 1, false, 0x3A, false);
    MIN_HALVES_S = code(1, 1, false, 0xEA, false);
    MAX_HALVES_U = code(2, 1, false, 0x3E, false);
    MAX_HALVES_S = code(1, 1, false, 0xEE, false);
    TERNARY = code(3, 1, false, 0x25, true);
    TERNARY64 = code(3, 1, true, 0x25, true);
    MIN_S = code(2, 1, false, 0x39, true);
    MIN_S64 = code(2, 1, true, 0x39, true);
    MIN_U = code(2, 1, false, 0x3B, true);
    MIN_U64 = code(2, 1, true, 0x3B, true);
    MAX_S = code(2, 1, false, 0x3D, true);
    MAX_S64 = code(2, 1, true, 0x3D, true);
    MAX_U = code(2, 1, false, 0x3F, true);
    MAX_U64 = code(2, 1, true, 0x3F, true);
    ABS = code(2, 1, false, 0x1E, true);
    ABS64 = code(2, 1, true, 0x1F, true);
    SHIFT_LEFT = code(2, 1, false, 0x47, true);
    SHIFT_LEFT64 = code(2, 1, true, 0x47, true);
    SHIFT_RIGHT = code(2, 1, false, 0x45, true);
    SHIFT_RIGHT64 = code(2, 1, true, 0x45, true);
    SHIFT_SIGNED = code(2, 1, false, 0x46, true);
    SHIFT_SIGNED64 = code(2, 1, true, 0x46, true);
    SHIFT_BY = code(1, 1, false, 0x72, true);
    SHIFT_BY64 = code(1, 1, true, 0x73, true);
    SHIFT_SIGNED_BY64 = code(1, 1, true, 0x72, true);
    FUNNEL_LEFT = code(2, 1, false, 0x71, true);
    FUNNEL_RIGHT = code(2, 1, false, 0x73, true);
    LEADING_ZEROS = code(2, 1, false, 0x44, true);
    LEADING_ZEROS64 = code(2, 1, true, 0x44, true);
    CONFLICTS = code(2, 1, false, 0xC4, true);
    HAVE_NO_BIT = code(2, 2, false, 0x27, false);
    COUNT_ONES = code(2, 1, false, 0x55, true);
    COUNT_ONES64 = code(2, 1, true, 0x55, true);
    SHUFFLE_BYTES = code(2, 1, false, 0x00, false);
    COMPARE_U = code(3, 1, false, 0x1E, false);
    COMPARE_U64 = code(3, 1, true, 0x1E, false);
    COMPARE_S = code(3, 1, false, 0x1F, false);
    COMPARE_S64 = code(3, 1, true, 0x1F, false);
    BROADCAST_INT = code(2, 1, false, 0x7C, true);
    BROADCAST_INT64 = code(2, 1, true, 0x7C, true);
    BROADCAST = code(2, 1, false, 0x58, true);
    BROADCAST64 = code(2, 1, true, 0x59, true);
    BLEND = code(2, 1, false, 0x64, false);
    BLEND64 = code(2, 1, true, 0x64, false);
    COPY = code(1, 1, false, 0x6F, true);
    COPY64 = code(1, 1, true, 0x6F, true);
    LOAD = code(1, 2, false, 0x6F, true);
    LOAD64 = code(1, 2, true, 0x6F, true);
    STORE = code(1, 2, false, 0x7F, true);
    STORE64 = code(1, 2, true, 0x7F, true);
    LOAD_BYTES_U = code(2, 1, false, 0x31, false);
    LOAD_BYTES_S = code(2, 1, false, 0x21, false);
    LOAD_HALVES_U = code(2, 1, false, 0x33, false);
    LOAD_HALVES_S = code(2, 1, false, 0x23, false);
    NARROW_TO_BYTES = code(2, 2, false, 0x31, false);
    NARROW_TO_HALVES = code(2, 2, false, 0x33, false);
    NARROW_TO_WORDS = code(2, 2, false, 0x35, false);
    WIDEN_U = code(2, 1, false, 0x35, false);
    WIDEN_S = code(2, 1, false, 0x25, false);
    INSERT_HALF = code(3, 1, true, 0x3A, false);
    EXTRACT_HALF = code(3, 1, true, 0x3B, false);
    TO_INT = Evex {
    length: 0,
    ..code(1, 1, false, 0x7E, false)
};
    TO_INT64 = Evex {
    length: 0,
    ..code(1, 1, true, 0x7E, false)
};
    PERMUTE = code(2, 1, false, 0x36, false);
    GATHER_BY_WORDS = code(2, 1, false, 0x90, false);
    GATHER_BY_LONGS = code(2, 1, false, 0x91, false);
    GATHER64_BY_WORDS = code(2, 1, true, 0x90, false);
    GATHER64_BY_LONGS = code(2, 1, true, 0x91, false);
    SCATTER_BY_WORDS = code(2, 1, false, 0xA0, false);
    SCATTER_BY_LONGS = code(2, 1, false, 0xA1, false);
    SCATTER64_BY_WORDS = code(2, 1, true, 0xA0, false);
    SCATTER64_BY_LONGS = code(2, 1, true, 0xA1, false);
    ADD_F32 = code(1, 0, false, 0x58, true);
    ADD_F64 = code(1, 1, true, 0x58, true);
    SUB_F32 = code(1, 0, false, 0x5C, true);
    SUB_F64 = code(1, 1, true, 0x5C, true);
    MUL_F32 = code(1, 0, false, 0x59, true);
    MUL_F64 = code(1, 1, true, 0x59, true);
    DIV_F32 = code(1, 0, false, 0x5E, true);
    DIV_F64 = code(1, 1, true, 0x5E, true);
    SQRT_F32 = code(1, 0, false, 0x51, true);
    SQRT_F64 = code(1, 1, true, 0x51, true);
    RANGE_F32 = code(3, 1, false, 0x50, true);
    RANGE_F64 = code(3, 1, true, 0x50, true);
    FMA_F32 = code(2, 1, false, 0xB8, true);
    FMA_F64 = code(2, 1, true, 0xB8, true);
    COMPARE_F32 = code(1, 0, false, 0xC2, false);
    COMPARE_F64 = code(1, 1, true, 0xC2, false);
    ROUND_F32 = code(3, 1, false, 0x08, true);
    ROUND_F64 = code(3, 1, true, 0x09, true);
    I32_TO_F32 = code(1, 0, false, 0x5B, true);
    U32_TO_F32 = code(1, 3, false, 0x7A, true);
    F32_TRUNCATED_TO_I32 = code(1, 2, false, 0x5B, true);
    F32_TRUNCATED_TO_U32 = code(1, 0, false, 0x78, true);
    I32_TO_F64 = code(1, 2, false, 0xE6, false);
    U32_TO_F64 = code(1, 2, false, 0x7A, false);
    F64_TRUNCATED_TO_I32 = code(1, 1, true, 0xE6, false);
    F64_TRUNCATED_TO_U32 = code(1, 0, true, 0x78, false);
    F32_TO_F64 = code(1, 0, false, 0x5A, false);
    F64_TO_F32 = code(1, 1, true, 0x5A, false);
    I64_TO_F64 = code(1, 2, true, 0xE6, true);
    U64_TO_F64 = code(1, 2, true, 0x7A, true);
    I64_TO_F32 = code(1, 0, true, 0x5B, false);
    U64_TO_F32 = code(1, 3, true, 0x7A, false);
    HALF_TO_F32 = code(2, 1, false, 0x13, false);
    F32_TO_HALF = code(3, 1, false, 0x1D, false);
    MIN_F32 = code(1, 0, false, 0x5D, true);
    MIN_F64 = code(1, 1, true, 0x5D, true);
    MAX_F32 = code(1, 0, false, 0x5F, true);
    MAX_F64 = code(1, 1, true, 0x5F, true);
    F64_TRUNCATED_TO_I64 = code(1, 1, true, 0x7A, true);
    F64_TRUNCATED_TO_U64 = code(1, 1, true, 0x78, true);
    PERMUTE_TWO = code(2, 1, false, 0x76, false);
}

/// The name of an opcode, whatever the length of its vectors.
pub(super) fn name(code: Evex) -> Option<&'static str> {
    let is_same = |known: Evex| {
        code == Evex {
            length: code.length,
            ..known
        }
    };
    let mut names = NAMES.iter();
    names
        .find(|(known, _)| is_same(*known))
        .map(|(_, name)| *name)
}
