//! Integer instructions that would need many Cranelift instructions.

/// How `prmt` chooses its bytes.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrmtMode {
    /// Each byte by its nibble of `c`.
    Index = 0,
    /// `.f4e`
    F4e = 1,
    /// `.b4e`
    B4e = 2,
    /// `.rc8`
    Rc8 = 3,
    /// `.ecl`
    Ecl = 4,
    /// `.ecr`
    Ecr = 5,
    /// `.rc16`
    Rc16 = 6,
}

pub(crate) extern "C" fn prmt(a: u32, b: u32, c: u32, mode: u32) -> u32 {
    let bytes = (u64::from(b) << 32 | u64::from(a)).to_le_bytes();
    let amount = c & 3;
    // The numbers of the bytes, lowest first.
    let select = |chosen: [u32; 4]| u32::from_le_bytes(chosen.map(|i| bytes[(i & 7) as usize]));
    match mode {
        1 => select([0, 1, 2, 3].map(|i| amount + i)),
        2 => select([0, 1, 2, 3].map(|i: u32| amount.wrapping_sub(i))),
        3 => select([amount; 4]),
        4 => select([0, 1, 2, 3].map(|i: u32| i.max(amount))),
        5 => select([0, 1, 2, 3].map(|i: u32| i.min(amount))),
        6 => {
            let half = (amount & 1) * 2;
            select([half, half + 1, half, half + 1])
        }
        _ => {
            let chosen = [0, 4, 8, 12].map(|shift| {
                let nibble = c >> shift;
                let byte = bytes[(nibble & 7) as usize];
                // The highest bit of the nibble replicates the sign.
                if nibble & 8 != 0 {
                    (byte.cast_signed() >> 7).cast_unsigned()
                } else {
                    byte
                }
            });
            u32::from_le_bytes(chosen)
        }
    }
}

pub(crate) extern "C" fn fns(mask: u32, base: u32, offset: i32) -> u32 {
    const NONE: u32 = u32::MAX;
    if base > 31 {
        return NONE;
    }
    let set = |&bit: &u32| mask >> bit & 1 != 0;
    let nth = offset.unsigned_abs() as usize;
    match offset {
        0 => set(&base).then_some(base),
        1.. => (base..32).filter(set).nth(nth - 1),
        _ => (0..=base).rev().filter(set).nth(nth - 1),
    }
    .unwrap_or(NONE)
}

pub(crate) extern "C" fn clmad(a: u64, b: u64, c: u64, upper: u32) -> u64 {
    let partial = |bit: u32| match b >> bit & 1 {
        0 => 0,
        _ => u128::from(a) << bit,
    };
    let product = (0..u64::BITS).fold(0, |sum, bit| sum ^ partial(bit));
    let half = match upper {
        0 => product,
        _ => product >> u64::BITS,
    };
    half as u64 ^ c
}

/// The value of a byte or half word that may be signed.
fn part(value: u32, shift: u32, bits: u32, signed: bool) -> i64 {
    let raised = value >> shift << (32 - bits);
    if signed {
        i64::from(raised.cast_signed() >> (32 - bits))
    } else {
        i64::from(raised >> (32 - bits))
    }
}

pub(crate) extern "C" fn dp4a(a: u32, b: u32, c: u32, signs: u32) -> u32 {
    let products = [0, 8, 16, 24]
        .map(|shift| part(a, shift, 8, signs & 1 != 0) * part(b, shift, 8, signs & 2 != 0));
    // The sum wraps, so its lower half is all that matters.
    c.wrapping_add(products.iter().sum::<i64>() as u32)
}

pub(crate) extern "C" fn dp2a(a: u32, b: u32, c: u32, signs: u32) -> u32 {
    let from = if signs & 4 != 0 { 16 } else { 0 };
    let products = [0, 1]
        .map(|i| part(a, 16 * i, 16, signs & 1 != 0) * part(b, from + 8 * i, 8, signs & 2 != 0));
    c.wrapping_add(products.iter().sum::<i64>() as u32)
}

/// A position or length of a bit field. GPUs take those of 32-bit fields modulo 256, as the PTX ISA
/// says; fields of 64 bits are made of other instructions, which take all of the operand.
fn field_bits(operand: u32, bits: u32) -> u32 {
    if bits > 32 {
        operand.min(u32::from(u8::MAX))
    } else {
        operand & 0xff
    }
}

pub(crate) extern "C" fn bfe_u64(a: u64, start: u32, length: u32, bits: u32) -> u64 {
    let (start, length) = (field_bits(start, bits), field_bits(length, bits));
    let shifted = a.checked_shr(start).unwrap_or(0);
    if length < 64 {
        shifted & ((1 << length) - 1)
    } else {
        shifted
    }
}

pub(crate) extern "C" fn bfe_s64(a: i64, start: u32, length: u32, bits: u32) -> i64 {
    let (start, length) = (field_bits(start, bits), field_bits(length, bits));
    if length == 0 {
        return 0;
    }
    // The sign is that of the field's highest bit, or of the operand where the
    // field reaches beyond it.
    let sign_at = (start + length - 1).min(bits.clamp(1, 64) - 1);
    let above = 63 - sign_at;
    a << above >> (above + start).min(63)
}

pub(crate) extern "C" fn bfi(a: u64, b: u64, start: u32, length: u32, bits: u32) -> u64 {
    let (start, length) = (field_bits(start, bits), field_bits(length, bits));
    let width = bits.clamp(1, 64);
    let all = u64::MAX >> (64 - width);
    if start >= width || length == 0 {
        return b & all;
    }
    let field = if length < 64 {
        (1_u64 << length) - 1
    } else {
        u64::MAX
    };
    let mask = field << start;
    (b & !mask | a << start & mask) & all
}

pub(crate) extern "C" fn bfind(a: u64, bits: u32, signed: u32, shift_amount: u32) -> u32 {
    let width = bits.clamp(1, 64);
    let all = u64::MAX >> (64 - width);
    let negative = signed != 0 && a >> (width - 1) & 1 != 0;
    let a = if negative { !a & all } else { a & all };
    match a.checked_ilog2() {
        None => u32::MAX,
        Some(at) if shift_amount != 0 => width - 1 - at,
        Some(at) => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prmt_follows_its_tables() {
        let (a, b) = (0x3322_1100, 0x7766_5544);
        assert_eq!(prmt(a, b, 0x7531, 0), 0x7755_3311);
        assert_eq!(prmt(0x8000_0000, b, 0x00bb, 0), 0x0000_ffff);
        assert_eq!(
            [0, 1, 2, 3].map(|c| prmt(a, b, c, PrmtMode::F4e as u32)),
            [0x3322_1100, 0x4433_2211, 0x5544_3322, 0x6655_4433]
        );
        assert_eq!(
            [0, 1, 2, 3].map(|c| prmt(a, b, c, PrmtMode::B4e as u32)),
            [0x5566_7700, 0x6677_0011, 0x7700_1122, 0x0011_2233]
        );
        assert_eq!(prmt(a, b, 2, PrmtMode::Rc8 as u32), 0x2222_2222);
        assert_eq!(
            [0, 1, 2, 3].map(|c| prmt(a, b, c, PrmtMode::Ecl as u32)),
            [0x3322_1100, 0x3322_1111, 0x3322_2222, 0x3333_3333]
        );
        assert_eq!(
            [0, 1, 2, 3].map(|c| prmt(a, b, c, PrmtMode::Ecr as u32)),
            [0, 0x1111_1100, 0x2222_1100, 0x3322_1100]
        );
        assert_eq!(
            [0, 1].map(|c| prmt(a, b, c, PrmtMode::Rc16 as u32)),
            [0x1100_1100, 0x3322_3322]
        );
    }

    #[test]
    fn clmad_multiplies_without_carries() {
        // (x + 1)² = x² + 1 over GF(2), and x⁶³ · x² = x⁶⁵.
        assert_eq!(clmad(3, 3, 0, 0), 5);
        assert_eq!(clmad(3, 3, 0xF0, 0), 0xF5);
        assert_eq!(clmad(1 << 63, 4, 8, 1), 2 ^ 8);
        let (a, b) = (0x9E37_79B9_7F4A_7C15, 0xD1B5_4A32_D192_ED03);
        assert_eq!(clmad(a, b, 0, 0), clmad(b, a, 0, 0));
        assert_eq!(clmad(a, b ^ 1, 0, 1), clmad(a, b, 0, 1));
    }

    #[test]
    fn fns_counts_from_the_base() {
        let mask = 0b1010_1010;
        assert_eq!([1, 2, 4, 5].map(|n| fns(mask, 0, n)), [1, 3, 7, u32::MAX]);
        assert_eq!([-1, -2, -4].map(|n| fns(mask, 5, n)), [5, 3, u32::MAX]);
        assert_eq!(
            (fns(mask, 3, 0), fns(mask, 2, 0), fns(mask, 40, 1)),
            (3, u32::MAX, u32::MAX)
        );
        assert_eq!(fns(mask, 0, i32::MIN), u32::MAX);
    }

    #[test]
    fn dot_products() {
        assert_eq!(dp4a(0x0102_0304, 0x0101_0101, 5, 0), 15);
        assert_eq!(dp4a(0xff00_0000, 0x0200_0000, 0, 0), 510);
        assert_eq!(dp4a(0xff00_0000, 0x0200_0000, 0, 1) as i32, -2);
        assert_eq!(dp4a(0x0200_0000, 0xff00_0000, 1, 2) as i32, -1);
        assert_eq!(dp2a(0x0003_0002, 0x0605_0403, 0, 0), 2 * 3 + 3 * 4);
        assert_eq!(dp2a(0x0003_0002, 0x0605_0403, 1, 4), 1 + 2 * 5 + 3 * 6);
        assert_eq!(dp2a(0xffff_0001, 0x0000_0201, 0, 1) as i32, 1 - 2);
    }

    /// The position and length that a GPU takes. No length is larger than the operands' here.
    fn places(start: u32, length: u32, bits: u32) -> (u32, u32) {
        match bits {
            64 => (start.min(64), length.min(64)),
            _ => (start & 0xff, length & 0xff),
        }
    }

    /// The PTX ISA's own loop over the bits.
    fn bfe_by_the_book(a: u64, start: u32, length: u32, bits: u32, signed: bool) -> u64 {
        let (pos, len) = places(start, length, bits);
        let msb = bits - 1;
        let bit = |at: u32| a >> at & 1;
        let sign = if !signed || len == 0 {
            0
        } else {
            bit((pos + len - 1).min(msb))
        };
        (0..64).fold(0, |d, i| {
            // Beyond the operand's width the result is extended as its type is.
            let i_in = i.min(if signed { msb } else { 64 });
            let value = if i_in <= msb && i_in < len && pos + i_in <= msb {
                bit(pos + i_in)
            } else {
                sign
            };
            d | value << i
        })
    }

    #[test]
    fn bit_fields_follow_the_definition() {
        for a in [
            0xdead_beef_8765_4321_u64,
            0x7fff_ffff_ffff_fffe,
            u64::MAX,
            1,
        ] {
            for start in [0, 1, 5, 31, 32, 33, 62, 63, 64, 200, 256, 257, u32::MAX] {
                for length in [0, 1, 7, 31, 32, 33, 63, 64, 65, 255, 256, 264, u32::MAX] {
                    let words = format!("{a:#x} {start} {length}");
                    assert_eq!(
                        bfe_u64(a, start, length, 64),
                        bfe_by_the_book(a, start, length, 64, false),
                        "u64 {words}"
                    );
                    assert_eq!(
                        bfe_s64(a as i64, start, length, 64) as u64,
                        bfe_by_the_book(a, start, length, 64, true),
                        "s64 {words}"
                    );
                    let low = a & 0xffff_ffff;
                    assert_eq!(
                        bfe_u64(low, start, length, 32),
                        bfe_by_the_book(low, start, length, 32, false),
                        "u32 {words}"
                    );
                    let extended = low as i32 as i64;
                    assert_eq!(
                        bfe_s64(extended, start, length, 32),
                        i64::from(bfe_by_the_book(low, start, length, 32, true) as i32),
                        "s32 {words}"
                    );
                    for bits in [32, 64] {
                        let b = !a;
                        let (pos, len) = places(start, length, bits);
                        let all = u64::MAX >> (64 - bits);
                        let expected = (0..len).filter(|i| pos + i < bits).fold(b & all, |d, i| {
                            d & !(1 << (pos + i))
                                | (if i < 64 { a >> i & 1 } else { 0 }) << (pos + i)
                        });
                        assert_eq!(
                            bfi(a, b, start, length, bits),
                            expected,
                            "bfi {bits} {words}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn bfind_finds_the_highest_bit_that_differs_from_the_sign() {
        assert_eq!(bfind(0, 32, 0, 0), u32::MAX);
        assert_eq!(bfind(0xffff_ffff, 32, 1, 0), u32::MAX);
        assert_eq!(bfind(0x0001_0000, 32, 0, 0), 16);
        assert_eq!(bfind(0x0001_0000, 32, 0, 1), 15);
        assert_eq!(bfind(-256_i64 as u64, 64, 1, 0), 7);
        assert_eq!(bfind(-256_i64 as u64, 32, 1, 1), 24);
        assert_eq!(bfind(u64::MAX, 64, 0, 0), 63);
    }
}
