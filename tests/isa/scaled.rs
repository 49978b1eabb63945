//! `mma` whose A and B have scales, on the CPU device alone: it begins with sm_120a. Which lanes
//! hold the scales stands here as the figures of the PTX ISA have it.

use ptxkit::driver::DriverKind;

use crate::block::{THREADS, kernel, launch};
use crate::kernels::device;
use crate::matrix::{
    E2M1, E2M3, E3M2, E4M3, E5M2, Element, F32, Matrix, fragment, matrix, multiply, place_of_a,
    place_of_b, place_of_c, registers, times,
};

/// The scales of a line, and of which type.
#[derive(Clone, Copy)]
struct Scales {
    count: usize,
    ue4m3: bool,
}

impl Scales {
    /// The byte of a scale of a line, and its value.
    fn scale(self, line: usize, number: usize) -> (u8, f64) {
        let power = ((line / 3 + line * number + number) % 3) as u8;
        let byte = if self.ue4m3 {
            0x30 + 8 * power
        } else {
            126 + power
        };
        (byte, 2.0_f64.powi(i32::from(power) - 1))
    }

    /// The word of a lane that has them from a byte on.
    fn word(self, line: usize, byte: usize) -> u32 {
        let bytes = (0..self.count).map(|n| u32::from(self.scale(line, n).0) << (8 * (byte + n)));
        bytes.sum()
    }

    fn multiply(self, line: usize, at: usize, k: usize, value: &mut f64) {
        *value *= self.scale(line, at * self.count / k).1;
    }
}

/// Which byte is the first and which threads have the scales, of A and of B.
type Selectors = [[usize; 2]; 2];

fn check(
    k: usize,
    words: &str,
    [a, b]: [Element; 2],
    scales: Scales,
    [[byte_a, thread_a], [byte_b, thread_b]]: Selectors,
    in_registers: bool,
) {
    let shape = [16, 8, k];
    let warps: Vec<[Matrix; 3]> = (0..2)
        .map(|warp| {
            [
                matrix(16, k, a, 1 + 100 * warp),
                matrix(k, 8, b, 37 + 50 * warp),
                matrix(16, 8, F32, 11 * (warp + 1)),
            ]
        })
        .collect();
    // Each element of below 8 bits has a byte, where there may be wider ones: those of 4 bits are
    // in the middle.
    let factor = |matrix: &Matrix, of_a: bool, element: Element, lane: usize| -> Vec<u32> {
        let place = if of_a { place_of_a } else { place_of_b };
        if k == 64 {
            return fragment(matrix, place, shape, element, lane);
        }
        let count = matrix.len() * matrix[0].len() / 32;
        let byte = |i: usize| {
            let (row, column) = place(shape, 8, lane, i);
            let shift = if element.bits == 4 { 2 } else { 0 };
            (element.encode(matrix[row][column]) << shift) as u8
        };
        let bytes: Vec<u8> = (0..count).map(byte).collect();
        let words = bytes.as_chunks::<4>().0.iter();
        words.map(|word| u32::from_le_bytes(*word)).collect()
    };
    let of_lane = |thread: usize| -> [Vec<u32>; 4] {
        let [left, right, sums] = &warps[thread / 32];
        let lane = thread % 32;
        let (group, place) = (lane / 4, lane % 4);
        // A scale of 2^30 where none is read.
        let of_a = if place / 2 == thread_a {
            scales.word(group + 8 * (place % 2), byte_a)
        } else {
            0x9D9D_9D9D
        };
        let of_b = if place == thread_b {
            scales.word(group, byte_b)
        } else {
            0x9D9D_9D9D
        };
        [
            factor(left, true, a, lane),
            factor(right, false, b, lane),
            fragment(sums, place_of_c, shape, F32, lane),
            vec![of_a, of_b],
        ]
    };
    let sizes = of_lane(0).map(|words| words.len());
    let (mut input, mut output) = (0, 0);
    let [a_, b_, c_, s_] =
        [0, 1, 2, 3].map(|n| registers(sizes[n], false, &mut input, 10 * (n + 1), false));
    let d_ = registers(sizes[2], false, &mut output, 0, true);
    let (of_a, of_b) = s_.list.split_once(", ").unwrap();
    let type_ = if scales.ue4m3 { "ue4m3" } else { "ue8m0" };
    let instruction = format!(
        "mma.sync.aligned.m16n8k{k}.row.col{words}.f32.{}.{}.f32.{type_}",
        a.name, b.name
    );
    let numbers = [byte_a, thread_a, byte_b, thread_b];
    let (moves, selectors) = if !in_registers {
        (String::new(), numbers.map(|number| number.to_string()))
    } else {
        let moves = (0..4).map(|n| format!("mov.b16 %q{n}, {};\n", numbers[n]));
        let moves = moves.collect::<String>();
        (
            format!(".reg .b16 %q<4>;\n{moves}"),
            [0, 1, 2, 3].map(|n| format!("%q{n}")),
        )
    };
    let [first, second, third, fourth] = selectors;
    let body = format!(
        "{moves}{}{}{}{}{instruction} {{{}}}, {{{}}}, {{{}}}, {{{}}}, \
         {of_a}, {{{first}, {second}}}, {of_b}, {{{third}, {fourth}}};\n{}",
        a_.moves, b_.moves, c_.moves, s_.moves, d_.list, a_.list, b_.list, c_.list, d_.moves
    );
    let words: Vec<u32> = (0..THREADS).flat_map(|t| of_lane(t).concat()).collect();
    let text = kernel(input, output, &body).replace("sm_90a", "sm_120a");
    let found = launch(&text, 1, &words, THREADS * output);
    for thread in 0..THREADS {
        let [left, right, sums] = &warps[thread / 32];
        let (mut left, mut right) = (left.clone(), right.clone());
        for (line, row) in left.iter_mut().enumerate() {
            (0..)
                .zip(row)
                .for_each(|(at, value)| scales.multiply(line, at, k, value));
        }
        for (at, row) in right.iter_mut().enumerate() {
            (0..)
                .zip(row)
                .for_each(|(line, value)| scales.multiply(line, at, k, value));
        }
        let expected = multiply(&left, &right, sums, times);
        let expected = fragment(&expected, place_of_c, shape, F32, thread % 32);
        let found = &found[thread * output..][..output];
        assert_eq!(found, expected, "{instruction}, thread {thread} of\n{text}");
    }
}

#[test]
fn products_with_scales() {
    if device().driver().kind() == DriverKind::Nvidia {
        return;
    }
    let scales = |count, ue4m3| Scales { count, ue4m3 };
    for in_registers in [false, true] {
        let one = scales(1, false);
        for (types, selectors) in [
            ([E4M3, E5M2], [[0, 0], [0, 0]]),
            ([E2M1, E3M2], [[3, 1], [2, 3]]),
            ([E5M2, E2M3], [[1, 0], [3, 2]]),
        ] {
            let words = ".kind::mxf8f6f4.block_scale.scale_vec::1X";
            check(32, words, types, one, selectors, in_registers);
        }
        let fours = [E2M1, E2M1];
        for (words, scales, selectors) in [
            (
                ".kind::mxf4.block_scale",
                scales(2, false),
                [[2, 1], [0, 3]],
            ),
            (
                ".kind::mxf4nvf4.block_scale.scale_vec::2X",
                scales(2, false),
                [[0, 0], [2, 1]],
            ),
            (
                ".kind::mxf4nvf4.block_scale.scale_vec::4X",
                scales(4, true),
                [[0, 1], [0, 2]],
            ),
        ] {
            check(64, words, fours, scales, selectors, in_registers);
        }
    }
}

/// CUTLASS and FlashInfer write the scales as lists of one.
#[test]
fn scales_in_braces() {
    if device().driver().kind() != DriverKind::Cpu {
        return;
    }
    let text = ".version 8.7\n.target sm_120a\n.address_size 64\n\
        .visible .entry k(.param .u64 in, .param .u64 out)\n{\n\
        .reg .b32 %r<9>; .reg .f32 %f<6>; .reg .b64 %out; .reg .b16 %h;\n\
        ld.param.u64 %out, [out];\n\
        mov.b32 %r1, 0x22222222; mov.b32 %r7, 0x7f7f; mov.b16 %h, 0; mov.f32 %f5, 0f00000000;\n\
        mma.sync.aligned.kind::mxf4.block_scale.scale_vec::2X.m16n8k64.row.col\
        .f32.e2m1.e2m1.f32.ue8m0 {%f1, %f2, %f3, %f4}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, \
        {%f5, %f5, %f5, %f5}, {%r7}, {%h, %h}, {%r7}, {%h, %h};\n\
        mov.u32 %r8, %tid.x; mad.wide.u32 %out, %r8, 16, %out;\n\
        st.global.v4.f32 [%out], {%f1, %f2, %f3, %f4};\nret;\n}\n";
    // Sums of 64 products of ones.
    let found = launch(text, 1, &[0], THREADS * 4);
    assert_eq!(found, [64.0_f32.to_bits(); THREADS * 4]);
}
