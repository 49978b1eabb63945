//! The video instructions, scalar (`vadd` to `vset`) and SIMD (`vadd2` to
//! `vset4`): PTX ISA, "Video Instructions".

mod mode;

pub use mode::{VideoCompare, VideoMode, VideoOp, VideoPart, VideoSecondaryOp};

impl VideoPart {
    /// Its lowest bit and its length.
    fn place(self) -> (u32, u32) {
        match self {
            VideoPart::Word => (0, 32),
            VideoPart::H0 => (0, 16),
            VideoPart::H1 => (16, 16),
            VideoPart::B0 => (0, 8),
            VideoPart::B1 => (8, 8),
            VideoPart::B2 => (16, 8),
            VideoPart::B3 => (24, 8),
        }
    }
}

/// The value of `bits` bits from bit `at` on.
fn extract(word: u32, at: u32, bits: u32, signed: bool) -> i64 {
    let raised = word >> at << (32 - bits);
    if signed {
        i64::from(raised.cast_signed() >> (32 - bits))
    } else {
        i64::from(raised >> (32 - bits))
    }
}

/// Clamped to `bits` bits.
fn saturate(value: i64, bits: u32, signed: bool) -> i64 {
    let most = if signed {
        (1 << (bits - 1)) - 1
    } else {
        (1 << bits) - 1
    };
    value.clamp(if signed { -most - 1 } else { 0 }, most)
}

fn compare(a: i64, b: i64, how: VideoCompare) -> i64 {
    i64::from(match how {
        VideoCompare::Eq => a == b,
        VideoCompare::Ne => a != b,
        VideoCompare::Lt => a < b,
        VideoCompare::Le => a <= b,
        VideoCompare::Gt => a > b,
        VideoCompare::Ge => a >= b,
    })
}

/// The scalar instructions. NVIDIA's compiler makes them of others, and so their edges are not
/// those that the PTX ISA states; these are an H200's.
pub(crate) extern "C" fn video(mode: u64, a: u32, b: u32, c: u32) -> u32 {
    let mode = VideoMode::from_number(mode);
    if mode.op == VideoOp::Mad {
        return mad(&mode, a, b, c);
    }
    let (at, bits) = mode.a_part.place();
    let x = extract(a, at, bits, mode.a_signed);
    let (at, bits) = mode.b_part.place();
    let y = extract(b, at, bits, mode.b_signed);
    let shift = if mode.wrap { y & 31 } else { y.clamp(0, 32) };
    let value = match mode.op {
        VideoOp::Add | VideoOp::Mad => x + y,
        VideoOp::Sub => x - y,
        VideoOp::AbsDiff => (x - y).abs(),
        VideoOp::Min => x.min(y),
        VideoOp::Max => x.max(y),
        VideoOp::Average => (x + y + 1) >> 1,
        VideoOp::Set => compare(x, y, mode.compare),
        VideoOp::Shl => x << shift,
        VideoOp::Shr => x >> shift,
    };
    if mode.secondary == VideoSecondaryOp::Merge {
        return merge(&mode, value, c);
    }
    let is_sum = matches!(mode.op, VideoOp::Add | VideoOp::Sub);
    let is_shift = matches!(mode.op, VideoOp::Shl | VideoOp::Shr);
    let value = if mode.sat {
        saturate_word(&mode, value)
    } else {
        value
    };
    // What other instructions compare: the value, or its lower half with its sign.
    let value = match (mode.sat, mode.d_signed) {
        (true, false) if is_sum || is_shift => i64::from(value as i32),
        (false, _) if is_sum => i64::from(value as i32),
        _ => value,
    };
    let result = match (mode.secondary, mode.d_signed) {
        (VideoSecondaryOp::Add, _) => value.wrapping_add(c.into()),
        (VideoSecondaryOp::Min, true) => value.min(c.cast_signed().into()),
        (VideoSecondaryOp::Max, true) => value.max(c.cast_signed().into()),
        (VideoSecondaryOp::Min, false) => value.cast_unsigned().min(c.into()).cast_signed(),
        (VideoSecondaryOp::Max, false) => value.cast_unsigned().max(c.into()).cast_signed(),
        (VideoSecondaryOp::Nothing | VideoSecondaryOp::Merge, _) => value,
    };
    result as u32
}

/// `.sat` of a result of 32 bits. Without a sign nothing but a shifted value is clamped from above.
fn saturate_word(mode: &VideoMode, value: i64) -> i64 {
    match mode.op {
        // Of a shifted value 34 bits are saturated.
        VideoOp::Shl => saturate(value << 30 >> 30, 32, mode.d_signed),
        _ if mode.d_signed => saturate(value, 32, true),
        _ => value.max(0),
    }
}

/// The result goes into the part of `c` that `d` names; into `.h1` goes its upper half.
fn merge(mode: &VideoMode, value: i64, c: u32) -> u32 {
    let (at, bits) = mode.d_part.place();
    let value = match mode.op {
        _ if !mode.sat => value,
        VideoOp::Shl | VideoOp::Shr => saturate_word(mode, value),
        // Values below 0 are clamped from above.
        _ => {
            let most = (1 << (bits - u32::from(mode.d_signed))) - 1;
            value.cast_unsigned().min(most).cast_signed()
        }
    };
    let mask = u32::MAX >> (32 - bits) << at;
    let placed = match mode.d_part {
        VideoPart::H1 => value as u32,
        _ => (value as u32) << at,
    };
    c & !mask | placed & mask
}

/// `vmad`: `±(a * b) ± c`, one more with `.po`, shifted right. Whole words are signed, whatever
/// their types are.
fn mad(mode: &VideoMode, a: u32, b: u32, c: u32) -> u32 {
    let factor = |word, part: VideoPart, signed| {
        let (at, bits) = part.place();
        extract(word, at, bits, signed || part == VideoPart::Word)
    };
    let x = factor(a, mode.a_part, mode.a_signed);
    let y = factor(b, mode.b_part, mode.b_signed);
    let product = if mode.negate_product { -x * y } else { x * y };
    let third = i64::from(c.cast_signed());
    let third = if mode.negate_c { -third } else { third };
    let sum = (product + third + i64::from(mode.plus_one)) >> mode.scale;
    if !mode.sat {
        return sum as u32;
    }
    let signed = mode.a_signed || mode.b_signed || mode.negate_product || mode.negate_c;
    if signed || mode.scale == 0 {
        saturate(sum, 32, signed) as u32
    } else {
        // A shifted sum below 0 is clamped from above.
        sum.cast_unsigned().min(u32::MAX.into()) as u32
    }
}

pub(crate) extern "C" fn video_simd(mode: u64, a: u32, b: u32, c: u32) -> u32 {
    let mode = VideoMode::from_number(mode);
    let lanes = if mode.lanes == 2 { 2 } else { 4_u32 };
    let bits = 32 / lanes;
    // A lane is chosen from those of both operands, `a` lowest.
    let choose = |lane: u8, signed: bool| {
        let lane = u32::from(lane) % (2 * lanes);
        let word = if lane < lanes { a } else { b };
        extract(word, lane % lanes * bits, bits, signed)
    };
    let mut result = c;
    let mut sum = 0;
    for lane in (0..lanes).filter(|lane| mode.mask >> lane & 1 != 0) {
        let x = choose(mode.a_lanes[lane as usize], mode.a_signed);
        let y = choose(mode.b_lanes[lane as usize], mode.b_signed);
        let value = match mode.op {
            VideoOp::Sub => x - y,
            VideoOp::AbsDiff => (x - y).abs(),
            VideoOp::Min => x.min(y),
            VideoOp::Max => x.max(y),
            // Rounds halves away from zero (PTX ISA, `vavrg`).
            VideoOp::Average => {
                let sum = x + y;
                (sum + i64::from(sum >= 0)) >> 1
            }
            VideoOp::Set => compare(x, y, mode.compare),
            VideoOp::Add | VideoOp::Shl | VideoOp::Shr | VideoOp::Mad => x + y,
        };
        let value = if mode.sat {
            saturate(value, bits, mode.d_signed)
        } else {
            value
        };
        let mask = u32::MAX >> (32 - bits);
        let at = lane * bits;
        result = result & !(mask << at) | (value as u32 & mask) << at;
        // The sum adds results that are not truncated to their lane.
        sum += value;
    }
    if mode.secondary == VideoSecondaryOp::Add {
        return c.wrapping_add(sum as u32);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODE: VideoMode = VideoMode {
        op: VideoOp::Add,
        compare: VideoCompare::Eq,
        secondary: VideoSecondaryOp::Nothing,
        d_signed: false,
        a_signed: false,
        b_signed: false,
        sat: false,
        wrap: false,
        negate_product: false,
        negate_c: false,
        plus_one: false,
        scale: 0,
        a_part: VideoPart::Word,
        b_part: VideoPart::Word,
        d_part: VideoPart::Word,
        lanes: 4,
        a_lanes: [0, 1, 2, 3],
        b_lanes: [4, 5, 6, 7],
        mask: 15,
    };

    const PAIRS: VideoMode = VideoMode {
        lanes: 2,
        a_lanes: [0, 1, 0, 0],
        b_lanes: [2, 3, 0, 0],
        mask: 3,
        ..MODE
    };

    fn run(mode: VideoMode, a: u32, b: u32, c: u32) -> u32 {
        video(mode.number(), a, b, c)
    }

    fn simd(mode: VideoMode, a: u32, b: u32, c: u32) -> u32 {
        video_simd(mode.number(), a, b, c)
    }

    #[test]
    fn modes_survive_their_number() {
        let mode = VideoMode {
            op: VideoOp::Mad,
            compare: VideoCompare::Ge,
            secondary: VideoSecondaryOp::Max,
            b_signed: true,
            plus_one: true,
            scale: 15,
            a_part: VideoPart::H1,
            d_part: VideoPart::B3,
            a_lanes: [7, 0, 5, 2],
            mask: 9,
            ..MODE
        };
        assert_eq!(VideoMode::from_number(mode.number()), mode);
        for number in [u64::MAX, 0x0123_4567_89ab_cdef] {
            // The helpers accept any number.
            video(number, 1, 2, 3);
            video_simd(number, 1, 2, 3);
        }
    }

    #[test]
    fn four_bytes_at_once() {
        let diff = VideoMode {
            op: VideoOp::AbsDiff,
            ..MODE
        };
        assert_eq!(simd(diff, 0x0a14_1eff, 0x1405_1e00, 0), 0x0a0f_00ff);
        let sum = VideoMode {
            secondary: VideoSecondaryOp::Add,
            ..diff
        };
        assert_eq!(
            simd(sum, 0x0a14_1eff, 0x1405_1e00, 1000),
            1000 + 10 + 15 + 255
        );
        assert_eq!(simd(MODE, 0xff01_7f80, 0x0101_0180, 0), 0x0002_8000);
        let sat = VideoMode { sat: true, ..MODE };
        assert_eq!(simd(sat, 0xff01_7f80, 0x0101_0180, 0), 0xff02_80ff);
        let signed = VideoMode {
            sat: true,
            d_signed: true,
            a_signed: true,
            b_signed: true,
            ..MODE
        };
        assert_eq!(simd(signed, 0xff01_7f80, 0x0101_0180, 0), 0x0002_7f80);
        let masked = VideoMode {
            mask: 0b0101,
            ..MODE
        };
        assert_eq!(
            simd(masked, 0x0101_0101, 0x0202_0202, 0xaabb_ccdd),
            0xaa03_cc03
        );
        let reversed = VideoMode {
            a_lanes: [3, 2, 1, 0],
            op: VideoOp::Max,
            ..MODE
        };
        assert_eq!(simd(reversed, 0x0102_0304, 0, 0), 0x0403_0201);
        let set = VideoMode {
            op: VideoOp::Set,
            compare: VideoCompare::Lt,
            a_signed: true,
            ..MODE
        };
        assert_eq!(simd(set, 0xff02_0304, 0x0002_0500, 0), 0x0100_0100);
    }

    #[test]
    fn two_halves_at_once() {
        assert_eq!(simd(PAIRS, 0xffff_0001, 0x0001_0002, 0), 0x0000_0003);
        let average = VideoMode {
            op: VideoOp::Average,
            ..PAIRS
        };
        assert_eq!(simd(average, 0x0003_0004, 0x0004_0004, 0), 0x0004_0004);
        let signed = VideoMode {
            a_signed: true,
            b_signed: true,
            d_signed: true,
            ..average
        };
        assert_eq!(simd(signed, 0xfffd_0000, 0xfffc_0001, 0), 0xfffc_0001);
        let crossed = VideoMode {
            b_lanes: [1, 0, 0, 0],
            op: VideoOp::Sub,
            ..PAIRS
        };
        assert_eq!(simd(crossed, 0x0005_0003, 0, 0), 0x0002_fffe);
        let signed_sum = VideoMode {
            secondary: VideoSecondaryOp::Add,
            op: VideoOp::Sub,
            d_signed: true,
            ..PAIRS
        };
        assert_eq!(simd(signed_sum, 0x0001_0001, 0x0002_0003, 10), 7);
    }

    #[test]
    fn scalar_parts_saturation_and_merging() {
        let add = VideoMode {
            a_part: VideoPart::B3,
            b_part: VideoPart::H0,
            a_signed: true,
            ..MODE
        };
        assert_eq!(run(add, 0xff00_0000, 0x1234_0010, 0), 15);
        let sat = VideoMode { sat: true, ..add };
        assert_eq!(run(sat, 0xff00_0000, 0, 0), 0);
        let merge = VideoMode {
            secondary: VideoSecondaryOp::Merge,
            d_part: VideoPart::B1,
            sat: true,
            ..MODE
        };
        assert_eq!(run(merge, 200, 100, 0x1122_3344), 0x1122_ff44);
        let accumulate = VideoMode {
            op: VideoOp::AbsDiff,
            secondary: VideoSecondaryOp::Add,
            ..MODE
        };
        assert_eq!(run(accumulate, 3, 10, 100), 107);
        let least = VideoMode {
            op: VideoOp::Max,
            secondary: VideoSecondaryOp::Min,
            ..MODE
        };
        assert_eq!(run(least, 3, 10, 5), 5);
        let set = VideoMode {
            op: VideoOp::Set,
            compare: VideoCompare::Gt,
            secondary: VideoSecondaryOp::Add,
            ..MODE
        };
        assert_eq!(run(set, 11, 10, 5), 6);
    }

    #[test]
    fn scalar_shifts() {
        let shl = VideoMode {
            op: VideoOp::Shl,
            ..MODE
        };
        assert_eq!((run(shl, 3, 4, 0), run(shl, 3, 40, 0)), (48, 0));
        let wrap = VideoMode { wrap: true, ..shl };
        assert_eq!(run(wrap, 3, 36, 0), 48);
        // Of 34 bits only the sign is left, then none.
        let sat = VideoMode {
            sat: true,
            d_signed: true,
            ..shl
        };
        assert_eq!(
            [31, 32, 40].map(|by| run(sat, 6, by, 0)),
            [i32::MIN as u32, i32::MIN as u32, i32::MIN as u32]
        );
        let shr = VideoMode {
            op: VideoOp::Shr,
            a_signed: true,
            d_signed: true,
            ..MODE
        };
        assert_eq!(
            (run(shr, 0x8000_0000, 31, 0), run(shr, 0x8000_0000, 99, 0)),
            (u32::MAX, u32::MAX)
        );
    }

    #[test]
    fn scalar_products() {
        let mad = VideoMode {
            op: VideoOp::Mad,
            ..MODE
        };
        assert_eq!(run(mad, 7, 6, 8), 50);
        assert_eq!(
            run(
                VideoMode {
                    plus_one: true,
                    ..mad
                },
                7,
                6,
                8
            ),
            51
        );
        assert_eq!(
            run(
                VideoMode {
                    negate_product: true,
                    ..mad
                },
                7,
                6,
                8
            ) as i32,
            -34
        );
        assert_eq!(
            run(
                VideoMode {
                    negate_c: true,
                    scale: 7,
                    ..mad
                },
                1000,
                1000,
                64
            ),
            999_936 >> 7
        );
        assert_eq!(run(VideoMode { sat: true, ..mad }, u32::MAX, 1, 0), 0);
        let signed = VideoMode {
            sat: true,
            a_signed: true,
            b_signed: true,
            ..mad
        };
        assert_eq!(run(signed, i32::MIN as u32, 2, 0), i32::MIN as u32);
    }
}
