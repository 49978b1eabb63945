//! `tcgen05`: tensor memory, its loads and stores, and products in it, as their documentation
//! has them: the CPU device alone runs them here.

use std::fmt::Write;

use ptxkit::driver::{
    Context, CudaError, DeviceBuffer, Driver, DriverKind, LaunchConfig, Module, Stream,
};

use crate::block::launch_blocks;
use crate::kernels::device;
use crate::matrix::{
    BF16, E2M1, E2M3, E3M2, E4M3, E5M2, Element, F16, F32, Matrix, S8, S32, TF32, U8, matrix,
    multiply, times,
};
use crate::parts::Parts;
use crate::warp_group::{Layout, layout};

/// A warp group, which has all lanes of tensor memory.
const THREADS: usize = 128;
/// Where B begins in shared memory.
const SECOND: usize = 16384;
/// The column of what else than D is in tensor memory.
const BEHIND: usize = 256;

fn is_nvidia() -> bool {
    device().driver().kind() == DriverKind::Nvidia
}

/// `%r5, %r6, …`
fn list(first: usize, count: usize) -> String {
    let names: Vec<String> = (first..first + count).map(|n| format!("%r{n}")).collect();
    names.join(", ")
}

/// A kernel that copies so many words to shared memory and allocates all columns, whose address
/// for the lanes of the warp is `%d`. Each thread finds its words behind the copied ones at `%in`.
fn kernel(copied: usize, of_thread: usize, results: usize, body: &str) -> String {
    format!(
        ".version 9.0\n.target sm_100a\n.address_size 64\n\
         .extern .shared .align 1024 .b8 memory[];\n\
         .visible .entry k(.param .u64 in, .param .u64 out) {{\n\
         .shared .align 8 .b64 barrier;\n.shared .b32 address;\n\
         .reg .b64 %in, %out, %x<4>, %a, %b;\n.reg .b32 %t, %i, %w, %s, %d, %base, %r<160>;\n\
         .reg .pred %p<4>;\n\
         ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\n\
         mov.u32 %i, %t;\nCOPY:\nsetp.ge.u32 %p0, %i, {copied};\n@%p0 bra COPIED;\n\
         mul.wide.u32 %x0, %i, 4;\nadd.s64 %x0, %x0, %in;\n\
         ld.global.b32 %w, [%x0];\nmov.u32 %s, memory;\nmad.lo.u32 %s, %i, 4, %s;\n\
         st.shared.b32 [%s], %w;\nadd.u32 %i, %i, {THREADS};\nbra COPY;\nCOPIED:\n\
         shr.u32 %w, %t, 5;\nsetp.eq.u32 %p0, %w, 0;\n\
         mov.u32 %s, address;\n\
         @%p0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%s], 512;\n\
         setp.eq.u32 %p1, %t, 0;\nmov.u32 %s, barrier;\n\
         @%p1 mbarrier.init.shared::cta.b64 [%s], 1;\n\
         fence.proxy.async;\nbar.sync 0;\n\
         ld.shared.b32 %base, [address];\nshl.b32 %w, %w, 21;\nadd.u32 %d, %base, %w;\n\
         mad.wide.u32 %in, %t, {}, %in;\nmad.wide.u32 %out, %t, {}, %out;\n\
         {body}\
         tcgen05.fence::before_thread_sync;\nbar.sync 0;\n\
         @%p0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %base, 512;\n\
         @%p0 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\nret;\n}}\n",
        4 * of_thread,
        4 * results,
    )
}

/// Moves words from the input to so many columns, from one on.
fn fill(text: &mut String, from: usize, to: usize, columns: usize) {
    for n in (0..columns).step_by(8) {
        for (half, first) in [(0, "%r0, %r1, %r2, %r3"), (4, "%r4, %r5, %r6, %r7")] {
            let at = 4 * (from + n + half);
            writeln!(text, "ld.global.v4.b32 {{{first}}}, [%in+{at}];").unwrap();
        }
        let (to, words) = (to + n, list(0, 8));
        writeln!(
            text,
            "tcgen05.st.sync.aligned.32x32b.x8.b32 [%d+{to}], {{{words}}};"
        )
        .unwrap();
    }
    text.push_str("tcgen05.wait::st.sync.aligned;\n");
}

/// Moves so many columns to the output.
fn read(text: &mut String, columns: usize) {
    for n in (0..columns).step_by(8) {
        let words = list(0, 8);
        writeln!(
            text,
            "tcgen05.ld.sync.aligned.32x32b.x8.b32 {{{words}}}, [%d+{n}];\n\
             tcgen05.wait::ld.sync.aligned;"
        )
        .unwrap();
        for (half, first) in [(0, "%r0, %r1, %r2, %r3"), (4, "%r4, %r5, %r6, %r7")] {
            writeln!(
                text,
                "st.global.v4.b32 [%out+{}], {{{first}}};",
                4 * (n + half)
            )
            .unwrap();
        }
    }
}

/// Lane and column of register `r` of a lane of the warp, in the figures of the PTX ISA.
fn place(shape: &str, r: usize, t: usize, split: usize) -> (usize, usize) {
    match shape {
        "32x32b" => (t, r),
        // Lanes 0 and 1 have row 0, lanes 2 and 3 row 8.
        "16x64b" => ((t >> 2) + ((t >> 1) & 1) * 8, 2 * r + (t & 1)),
        "16x128b" => ((t >> 2) + (r & 1) * 8, 4 * (r >> 1) + (t & 3)),
        "16x256b" => (
            (t >> 2) + ((r >> 1) & 1) * 8,
            8 * (r >> 2) + 2 * (t & 3) + (r & 1),
        ),
        _ => (t & 15, r + if t >= 16 { split } else { 0 }),
    }
}

#[test]
fn every_shape_is_loaded_and_stored() {
    if is_nvidia() {
        return;
    }
    const COLUMNS: usize = 64;
    let word = |lane: usize, column: usize| (lane * 1000 + column) as u32;
    for (shape, per, repeats) in [
        ("32x32b", 1, 1),
        ("32x32b", 1, 32),
        ("16x64b", 1, 4),
        ("16x128b", 2, 8),
        ("16x256b", 4, 4),
        ("16x32bx2", 1, 8),
    ] {
        for packed in [false, true] {
            for upper in [0, 16] {
                if upper == 16 && shape == "32x32b" {
                    continue;
                }
                let count = per * repeats;
                let split = 24;
                let (pack, unpack) = if packed {
                    (".pack::16b", ".unpack::16b")
                } else {
                    ("", "")
                };
                let halves = if shape == "16x32bx2" { ", 24" } else { "" };
                let words = list(8, count);
                let mut body = String::new();
                fill(&mut body, 0, 0, COLUMNS);
                let at = upper << 16;
                write!(
                    body,
                    "tcgen05.ld.sync.aligned.{shape}.x{repeats}{pack}.b32 \
                     {{{words}}}, [%d+{at}]{halves};\ntcgen05.wait::ld.sync.aligned;\n"
                )
                .unwrap();
                // Each word goes to the output, and back plus 7 to tensor memory.
                for n in 8..8 + count {
                    let to = 4 * (COLUMNS + n - 8);
                    writeln!(body, "st.global.b32 [%out+{to}], %r{n};").unwrap();
                    writeln!(body, "add.u32 %r{n}, %r{n}, 7;").unwrap();
                }
                write!(
                    body,
                    "tcgen05.st.sync.aligned.{shape}.x{repeats}{unpack}.b32 \
                     [%d+{at}]{halves}, {{{words}}};\ntcgen05.wait::st.sync.aligned;\n"
                )
                .unwrap();
                read(&mut body, COLUMNS);
                let results = COLUMNS + count.next_multiple_of(4);
                let text = kernel(0, COLUMNS, results, &body);
                let input: Vec<u32> = (0..THREADS)
                    .flat_map(|lane| (0..COLUMNS).map(move |column| word(lane, column)))
                    .collect();
                let found = launch_blocks(&text, 1, THREADS, &input, THREADS * results);
                let mut memory: Vec<Vec<u32>> = (0..THREADS)
                    .map(|lane| (0..COLUMNS).map(|column| word(lane, column)).collect())
                    .collect();
                for thread in 0..THREADS {
                    for r in 0..count {
                        let (lane, column) = place(shape, r, thread % 32, 0);
                        let split = match shape {
                            "16x32bx2" if thread % 32 >= 16 => split,
                            _ => 0,
                        };
                        let lane = thread / 32 * 32 + upper + lane;
                        let expected = if packed {
                            let column = 2 * column + split;
                            let row = &mut memory[lane];
                            let both = row[column] & 0xFFFF | row[column + 1] << 16;
                            row[column] = both.wrapping_add(7) & 0xFFFF;
                            row[column + 1] = both.wrapping_add(7) >> 16;
                            both
                        } else {
                            let one = &mut memory[lane][column + split];
                            *one += 7;
                            *one - 7
                        };
                        let loaded = found[thread * results + COLUMNS + r];
                        assert_eq!(loaded, expected, "{shape} {r} of {thread}");
                    }
                }
                for (lane, row) in memory.iter().enumerate() {
                    let stored = &found[lane * results..][..COLUMNS];
                    assert_eq!(stored, row, "{shape}, lane {lane}");
                }
            }
        }
    }
}

/// A product and its operands.
#[derive(Clone)]
struct Product {
    kind: &'static str,
    m: usize,
    n: usize,
    types: [Element; 3],
    /// `None`: in tensor memory.
    a: Option<Layout>,
    b: Layout,
    negated: [bool; 2],
    adds: bool,
    saturates: bool,
    weights: bool,
    /// By which power of 2 D is divided.
    scale: Option<u32>,
    /// The lanes that stay.
    disabled: Option<[u32; 4]>,
    scales: Option<Scales>,
}

/// The scales of rows of A and columns of B.
#[derive(Clone, Copy)]
struct Scales {
    words: &'static str,
    ue4m3: bool,
    /// Of a line, and the first byte of those of A and of B.
    count: usize,
    first: [usize; 2],
}

impl Scales {
    /// The four bytes that a line has, each of another value.
    fn bytes(self, line: usize) -> [u8; 4] {
        let power = |n: usize| ((line / 3 + line * n) % 3) as u8;
        std::array::from_fn(|n| {
            if self.ue4m3 {
                // 0.5 to 2.
                0x30 + 8 * power(n)
            } else {
                126 + power(n)
            }
        })
    }

    /// What an element of a line is multiplied by.
    fn of(self, matrix: usize, line: usize, at: usize, k: usize) -> f64 {
        let byte = self.bytes(line)[self.first[matrix] + at * self.count / k];
        let exponent = if self.ue4m3 {
            i32::from(byte >> 3) - 7
        } else {
            i32::from(byte) - 127
        };
        2.0_f64.powi(exponent)
    }
}

const K_MAJOR: Layout = layout(false, 128, 0);

impl Product {
    fn new(kind: &'static str, [m, n]: [usize; 2], types: [Element; 3]) -> Product {
        Product {
            kind,
            m,
            n,
            types,
            a: Some(K_MAJOR),
            b: K_MAJOR,
            negated: [false; 2],
            adds: true,
            saturates: false,
            weights: false,
            scale: None,
            disabled: None,
            scales: None,
        }
    }

    /// The bits of an element in memory.
    fn container(&self, element: Element) -> usize {
        match element.bits {
            4 if self.kind.starts_with("mxf4") => 4,
            4 | 6 => 8,
            bits => bits,
        }
    }

    /// The lane and column of an element of D.
    fn place(&self, row: usize, column: usize) -> (usize, usize) {
        match (self.weights, self.m) {
            (_, 128) => (row, column),
            // Each warp has 16 of the rows in the lower half of its lanes.
            (false, _) => (32 * (row / 16) + row % 16, column),
            // The upper lanes have the columns of the second half, or the other quarters.
            (true, 64) => (row + 64 * (column / (self.n / 2)), column % (self.n / 2)),
            (true, _) => (row + 32 * (column / (self.n / 4)), column % (self.n / 4)),
        }
    }

    fn instruction(&self) -> u32 {
        let number = |element: Element| match element.name {
            "f16" | "e4m3" | "u8" => 0,
            "bf16" | "e5m2" | "s8" => 1,
            "tf32" => 2,
            "e2m3" => 3,
            "e3m2" => 4,
            _ if self.kind.starts_with("mxf4") => 1,
            _ => 5,
        };
        let [d, a, b] = self.types;
        let sums = match d.name {
            "f16" => 0,
            "f32" => 1,
            _ => 2,
        };
        let bit = |set: bool, at: u32| u32::from(set) << at;
        let of_sums = match self.scales {
            None => sums << 4,
            Some(Scales { ue4m3, first, .. }) => {
                bit(!ue4m3, 23) | (first[0] as u32) << 29 | (first[1] as u32) << 4
            }
        };
        bit(self.saturates, 3)
            | of_sums
            | number(a) << 7
            | number(b) << 10
            | bit(self.negated[0], 13)
            | bit(self.negated[1], 14)
            | bit(self.a.is_some_and(|layout| layout.transposed), 15)
            | bit(self.b.transposed, 16)
            | (self.n as u32 >> 3) << 17
            | (self.m as u32 >> 4) << 24
    }

    fn check(&self) {
        let [d, a, b] = self.types;
        let container = |element| self.container(element);
        let (m, n, k) = (self.m, self.n, 256 / container(a));
        let left = matrix(m, k, a, 5);
        let right = matrix(k, n, b, 31);
        let before = matrix(THREADS, n, d, 17);
        let mut memory = vec![0_u8; 48 << 10];
        let mut put = |at: usize, place: usize, element: Element, value: f64| {
            // Elements below 8 bits are packed in the first bytes of a unit.
            let bit = match element.bits {
                4 if container(element) == 4 => place,
                4 | 6 => 8 * (place & !15) + (place & 15) * element.bits,
                _ => 8 * place,
            };
            let bits = element.encode(value);
            for n in 0..element.bits {
                let at = 8 * at + bit + n;
                memory[at / 8] |= ((bits >> n & 1) as u8) << (at % 8);
            }
        };
        // Of two to a byte, the bit.
        let place = |layout: Layout, lines: usize, line: usize, at: usize, bits: usize| match bits {
            4 => 8 * layout.place(lines, line, at / 2, 8) + 4 * (at % 2),
            _ => layout.place(lines, line, at, bits),
        };
        for at in 0..k {
            for (row, line) in left.iter().enumerate() {
                if let Some(layout) = self.a {
                    put(0, place(layout, m, row, at, container(a)), a, line[at]);
                }
            }
            for (column, value) in right[at].iter().enumerate() {
                put(
                    SECOND,
                    place(self.b, n, column, at, container(b)),
                    b,
                    *value,
                );
            }
        }
        let words = memory.as_chunks::<4>().0;
        let mut input: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let copied = input.len();
        let mut lanes: Vec<Vec<u32>> = before
            .iter()
            .map(|row| row.iter().map(|value| d.encode(*value) as u32).collect())
            .collect();
        for (lane, words) in lanes.iter().enumerate() {
            input.extend(words);
            // A where it is in tensor memory: 32 bytes of a row.
            let row = (0..m).find(|row| self.place(*row, 0).0 == lane);
            let mut bytes = [0_u8; 32];
            if let Some(row) = row {
                for (at, value) in left[row].iter().enumerate() {
                    if container(a) == 4 {
                        bytes[at / 2] |= (a.encode(*value) << (4 * (at % 2))) as u8;
                        continue;
                    }
                    // Of 4 bits, they are in the middle of their byte.
                    let bits = a.encode(*value) << if a.bits == 4 { 2 } else { 0 };
                    let size = container(a) / 8;
                    bytes[at * size..][..size].copy_from_slice(&bits.to_le_bytes()[..size]);
                }
            }
            let words = bytes.as_chunks::<4>().0.iter();
            input.extend(words.map(|word| u32::from_le_bytes(*word)));
            // The scales of A in four columns, those of B in four more.
            let scales = (0..8).map(|column| match self.scales {
                Some(scales) => u32::from_le_bytes(scales.bytes(column % 4 * 32 + lane % 32)),
                None => 0,
            });
            input.extend(scales);
        }

        let text = self.kernel(copied);
        let found = launch_blocks(&text, 1, THREADS, &input, THREADS * n);
        let sign = self.negated.iter().filter(|negated| **negated).count() % 2;
        let sign = if sign == 1 { -1.0 } else { 1.0 };
        let factor = 2.0_f64.powi(-(self.scale.unwrap_or(0) as i32));
        let start: Matrix = (0..m)
            .map(|row| {
                let value = |column: usize| {
                    let (lane, column) = self.place(row, column);
                    before[lane][column] * if self.adds { factor } else { 0.0 }
                };
                (0..n).map(value).collect()
            })
            .collect();
        let scaled = |matrix: usize, line: usize, at: usize| match self.scales {
            Some(scales) => scales.of(matrix, line, at, k),
            None => 1.0,
        };
        let mut matrices = [left, right];
        for (line, row) in matrices[0].iter_mut().enumerate() {
            (0..)
                .zip(row)
                .for_each(|(at, value)| *value *= scaled(0, line, at));
        }
        for (at, row) in matrices[1].iter_mut().enumerate() {
            (0..)
                .zip(row)
                .for_each(|(line, value)| *value *= scaled(1, line, at));
        }
        let [left, right] = matrices;
        let expected = multiply(&left, &right, &start, |x, y| sign * times(x, y));
        let disabled = self.disabled.unwrap_or_default();
        for (row, values) in expected.iter().enumerate() {
            for (column, value) in values.iter().enumerate() {
                let (lane, column) = self.place(row, column);
                if disabled[lane / 32] >> (lane % 32) & 1 == 0 {
                    lanes[lane][column] = d.encode(*value) as u32;
                }
            }
        }
        for (lane, expected) in lanes.iter().enumerate() {
            let found = &found[lane * n..][..n];
            assert_eq!(found, expected, "lane {lane} of\n{text}");
        }
    }

    fn kernel(&self, copied: usize) -> String {
        let (m, n) = (self.m, self.n);
        let [_, a, b] = self.types.map(|element| self.container(element));
        let mut text = format!("add.s64 %in, %in, {};\n", 4 * copied);
        fill(&mut text, 0, 0, n);
        fill(&mut text, n, BEHIND, 16);
        text += "tcgen05.fence::before_thread_sync;\nbar.sync 0;\n\
                 tcgen05.fence::after_thread_sync;\n";
        let of_a = self.a.map_or(0, |layout| layout.descriptor(m, a));
        let first = self.a.map_or(0, |layout| 32 * layout.step);
        let second = SECOND + 32 * self.b.step;
        let of_b = self.b.descriptor(n, b);
        for (name, offset, bits) in [("a", first, of_a), ("b", second, of_b)] {
            writeln!(
                text,
                "mov.u32 %s, memory;\nadd.u32 %s, %s, {offset};\nshr.u32 %s, %s, 4;\n\
                 cvt.u64.u32 %{name}, %s;\nor.b64 %{name}, %{name}, {};",
                bits | 1 << 46
            )
            .unwrap();
        }
        let adds = if self.adds { "ge" } else { "lt" };
        let left = match self.a {
            Some(_) => "%a".to_owned(),
            None => format!("[%base+{BEHIND}]"),
        };
        let disabled = match self.disabled {
            Some(words) => {
                for (n, word) in words.iter().enumerate() {
                    writeln!(text, "mov.b32 %r{}, {word};", 20 + n).unwrap();
                }
                format!("{{{}}}, ", list(20, 4))
            }
            None => String::new(),
        };
        let scale = self
            .scale
            .map_or(String::new(), |scale| format!(", {scale}"));
        let scales = match self.scales {
            Some(_) => format!("[%base+{}], [%base+{}], ", BEHIND + 8, BEHIND + 12),
            None => String::new(),
        };
        let words = self.scales.map_or("", |scales| scales.words);
        let weights = if self.weights { ".ws" } else { "" };
        write!(
            text,
            "setp.{adds}.u32 %p2, %t, 0;\nmov.u32 %r30, {};\nmov.u32 %s, barrier;\n\
             @%p1 tcgen05.mma{weights}.cta_group::1.kind::{}{words} [%base], {left}, %b, %r30, \
             {scales}{disabled}%p2{scale};\n\
             @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%s];\n\
             WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p3, [%s], 0;\n@!%p3 bra WAIT;\n\
             tcgen05.fence::after_thread_sync;\n",
            self.instruction(),
            self.kind
        )
        .unwrap();
        read(&mut text, n);
        kernel(copied, n + 16, n, &text)
    }
}

#[test]
fn products_of_every_type() {
    if is_nvidia() {
        return;
    }
    for (kind, types) in [
        ("f16", [F16, F16, F16]),
        ("f16", [F32, F16, F16]),
        ("f16", [F32, BF16, BF16]),
        ("tf32", [F32, TF32, TF32]),
        ("f8f6f4", [F32, E4M3, E5M2]),
        ("f8f6f4", [F16, E5M2, E4M3]),
        ("f8f6f4", [F32, E2M1, E3M2]),
        ("f8f6f4", [F32, E2M3, E2M1]),
        ("f8f6f4", [F32, E3M2, E4M3]),
        ("i8", [S32, S8, U8]),
        ("i8", [S32, U8, S8]),
    ] {
        for m in [64, 128] {
            Product::new(kind, [m, 16], types).check();
            let mut product = Product::new(kind, [m, 32], types);
            product.a = None;
            product.check();
        }
    }
    let mut wide = Product::new("f16", [128, 256], [F32, F16, F16]);
    wide.b = layout(false, 32, 0);
    wide.check();
}

#[test]
fn products_of_every_layout() {
    if is_nvidia() {
        return;
    }
    for width in [16, 32, 64, 128] {
        for transposed in [false, true] {
            for (kind, types) in [
                ("f16", [F32, F16, F16]),
                ("f8f6f4", [F32, E4M3, E4M3]),
                ("i8", [S32, S8, S8]),
            ] {
                let mut product = Product::new(kind, [128, 64], types);
                product.a = Some(layout(transposed, width, 0));
                product.b = layout(!transposed, width, 0);
                product.check();
            }
        }
    }
    let mut packed = Product::new("f8f6f4", [64, 64], [F32, E2M1, E2M3]);
    packed.a = Some(layout(true, 64, 0));
    packed.check();
    for step in 1..4 {
        let mut product = Product::new("tf32", [128, 16], [F32, TF32, TF32]);
        product.a = Some(layout(false, 128, step));
        product.b = layout(false, 128, step);
        product.check();
    }
}

#[test]
fn what_is_added_negated_scaled_and_left() {
    if is_nvidia() {
        return;
    }
    let halves = Product::new("f16", [128, 16], [F32, F16, F16]);
    for (negated, adds, scale) in [
        ([true, false], true, None),
        ([false, true], false, None),
        ([true, true], true, Some(3)),
        ([false, false], true, Some(0)),
    ] {
        Product {
            negated,
            adds,
            scale,
            ..halves.clone()
        }
        .check();
    }
    for m in [64, 128] {
        let disabled = Some([0x8000_0001, 0, 0x0000_FF0F, u32::MAX]);
        Product {
            m,
            disabled,
            ..halves.clone()
        }
        .check();
    }
    Product {
        saturates: true,
        ..Product::new("i8", [128, 16], [S32, S8, S8])
    }
    .check();
}

#[test]
fn products_with_scales() {
    if is_nvidia() {
        return;
    }
    let scales = |words, ue4m3, count, first| {
        Some(Scales {
            words,
            ue4m3,
            count,
            first,
        })
    };
    let fours = [F32, E2M1, E2M1];
    for (kind, types, scales) in [
        (
            "mxf8f6f4",
            [F32, E4M3, E5M2],
            scales(".block_scale.block32", false, 1, [0, 3]),
        ),
        (
            "mxf8f6f4",
            [F32, E2M1, E3M2],
            scales(".block_scale", false, 1, [2, 1]),
        ),
        (
            "mxf4",
            fours,
            scales(".block_scale.block32", false, 2, [0, 2]),
        ),
        (
            "mxf4nvf4",
            fours,
            scales(".block_scale.block32", false, 2, [2, 0]),
        ),
        (
            "mxf4nvf4",
            fours,
            scales(".block_scale.block16", true, 4, [0, 0]),
        ),
        (
            "mxf4nvf4",
            fours,
            scales(".block_scale.scale_vec::4X", false, 4, [0, 0]),
        ),
    ] {
        let product = Product {
            scales,
            ..Product::new(kind, [128, 8], types)
        };
        product.check();
        Product { a: None, ..product }.check();
    }
    // Of more than 32 columns there are more words.
    Product {
        scales: scales(".block_scale.block16", true, 4, [0, 0]),
        ..Product::new("mxf4nvf4", [128, 64], fours)
    }
    .check();
}

#[test]
fn products_with_weights_that_stay() {
    if is_nvidia() {
        return;
    }
    for m in [32, 64, 128] {
        Product {
            weights: true,
            ..Product::new("f16", [m, 64], [F32, BF16, BF16])
        }
        .check();
    }
}

/// `tcgen05.cp` of rows of 16 and 32 bytes.
#[test]
fn copies_from_shared_memory() {
    if is_nvidia() {
        return;
    }
    for (form, rows, columns, quarters) in [
        ("128x256b", 128, 8, [0, 1, 2, 3]),
        ("128x128b", 128, 4, [0, 1, 2, 3]),
        ("64x128b.warpx2::02_13", 64, 4, [0, 1, 0, 1]),
        ("64x128b.warpx2::01_23", 64, 4, [0, 0, 1, 1]),
        ("32x128b.warpx4", 32, 4, [0, 0, 0, 0]),
    ] {
        let matrix = layout(false, 16, 0);
        let mut memory = vec![0; 4096];
        for row in 0..rows {
            for column in 0..columns {
                let at = matrix.place(rows, row, column, 32);
                memory[at / 4] = (1000 * row + column) as u32;
            }
        }
        let mut body = format!(
            "mov.u32 %s, memory;\nshr.u32 %s, %s, 4;\ncvt.u64.u32 %a, %s;\nor.b64 %a, %a, {};\n\
             @%p1 tcgen05.cp.cta_group::1.{form} [%base], %a;\nmov.u32 %s, barrier;\n\
             @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%s];\n\
             WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p3, [%s], 0;\n@!%p3 bra WAIT;\n\
             tcgen05.fence::after_thread_sync;\n",
            matrix.descriptor(rows, 32) | 1 << 46
        );
        read(&mut body, 8);
        let text = kernel(memory.len(), 0, 8, &body);
        let found = launch_blocks(&text, 1, THREADS, &memory, THREADS * 8);
        for (lane, words) in found.chunks(8).enumerate() {
            let row = quarters[lane / 32] * 32 + lane % 32;
            let expected: Vec<u32> = (0..columns).map(|n| (1000 * row + n) as u32).collect();
            assert_eq!(words[..columns], expected, "{form}, lane {lane}");
        }
    }
}

/// What is wrong ends the launch, with the thread and the line.
#[test]
fn faults() {
    let mut parts = Parts::of("tensor_memory::faults");
    for (body, expected) in [
        (
            "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r0}, [%d+512];",
            "access to lane 0, column 512 of tensor memory, which is not allocated",
        ),
        (
            "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r0}, [%base+2097152];",
            "access from lane 32, column 0 of tensor memory on by a warp of other lanes",
        ),
        (
            "tcgen05.ld.sync.aligned.16x64b.x1.b32 {%r0}, [%d+1572864];",
            "access from lane 24, column 0 of tensor memory on by a warp of other lanes",
        ),
        (
            "@%p0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%s], 32;",
            "no 32 columns of tensor memory are free",
        ),
        (
            "@%p0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %base, 256;",
            "0x0 with this number of columns is no allocation of tensor memory",
        ),
        (
            "mov.b64 %a, 0; mov.b32 %r0, 1; \
             @%p1 tcgen05.mma.cta_group::1.kind::f16 [%base], %a, %a, %r0, %p1;",
            "the instruction descriptor 0x1 is not one of this instruction",
        ),
        (
            "mov.b64 %a, 0x6000000000000000; mov.b32 %r0, 0x8100010; \
             @%p1 tcgen05.mma.cta_group::1.kind::f16 [%base], %a, %a, %r0, %p1;",
            "the upper half 0x60000000 of a matrix descriptor has a mode that does not exist",
        ),
    ] {
        parts.run(|| fault(body, expected));
    }
}

fn fault(body: &str, expected: &str) {
    let text = kernel(0, 0, 0, &format!("{body}\n"));
    let line = text
        .lines()
        .position(|line| line == body)
        .unwrap_or_else(|| panic!("{text}"))
        + 1;
    let device = Driver::cpu().unwrap().device(0).unwrap();
    let context = Context::create(&device, 0).unwrap();
    let stream = Stream::new(&context).unwrap();
    let module = Module::load(&context, text.as_bytes()).unwrap();
    let buffers = [1, 1].map(|words| DeviceBuffer::<u32>::zeroed(&context, words).unwrap());
    let kernel = module.kernel("k").unwrap();
    let config = LaunchConfig::for_elements(THREADS as u32, THREADS as u32);
    unsafe { kernel.launch(config, &stream, (&buffers[0], &buffers[1])) }.unwrap();
    let error = stream.synchronize().expect_err(body);
    assert_eq!(error.code(), Some(CudaError::ILLEGAL_INSTRUCTION), "{body}");
    let said = error.to_string();
    let place = format!("block (0,0,0), thread (0,0,0): {expected}");
    assert!(said.contains(&place), "{said}");
    assert!(said.ends_with(&format!("; PTX line {line}")), "{said}");
}
