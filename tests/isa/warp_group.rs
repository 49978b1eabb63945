//! `wgmma`: products of four warps, from matrices in shared memory that this test lays out as
//! the PTX ISA describes canonical layouts.

use std::fmt::Write;

use crate::block::launch_blocks;
use crate::matrix::{
    B1, BF16, E4M3, E5M2, Element, F16, F32, Matrix, S8, S32, TF32, U8, fragment, matrix, multiply,
    place_of_a, place_of_c, times,
};
use crate::sparse::Sparse;

const THREADS: usize = 128;

/// How a matrix lies in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Lines (rows of A, columns of B) are contiguous, not `k`.
    pub transposed: bool,
    /// Bytes of a row of the swizzling; 16: none.
    pub width: usize,
    /// By how much the matrix begins behind the pattern: steps along `k` within it.
    pub step: usize,
}

pub const fn layout(transposed: bool, width: usize, step: usize) -> Layout {
    Layout {
        transposed,
        width,
        step,
    }
}

impl Layout {
    /// Distances of a matrix with so many lines of elements: leading and stride.
    fn distances(self, lines: usize, bits: usize) -> (usize, usize) {
        match (self.transposed, self.width) {
            // Units of eight lines follow each other, then the next along `k`.
            (false, 16) => (lines * 16, 128),
            (false, width) => (16, 8 * width),
            (true, 16) => (lines * bits, 128),
            // Rows of the pattern along the lines; eight places along `k`, then the next.
            (true, width) => (256 / bits * width, 8 * width),
        }
    }

    /// The byte of element `at` along `k` of a line, from the start of the pattern on.
    pub fn place(self, lines: usize, line: usize, at: usize, bits: usize) -> usize {
        let (leading, stride) = self.distances(lines, bits);
        let byte = at * bits / 8;
        let in_unit = 128 / bits;
        let offset = match (self.transposed, self.width) {
            (false, 16) => line % 8 * 16 + line / 8 * stride + byte / 16 * leading + byte % 16,
            (false, width) => line % 8 * width + line / 8 * stride + byte + 32 * self.step,
            (true, 16) => {
                let unit = line / in_unit * stride + at % 8 * 16 + at / 8 * leading;
                unit + line % in_unit * bits / 8
            }
            (true, width) => {
                let in_row = 8 * width / bits;
                let row = line / in_row * leading + at % 8 * width + at / 8 * stride;
                row + line % in_row * bits / 8
            }
        };
        let pattern = (self.width / 16 - 1) << 4;
        offset ^ (offset >> 3 & pattern)
    }

    /// The descriptor of a matrix without its address.
    pub fn descriptor(self, lines: usize, bits: usize) -> u64 {
        let (leading, stride) = self.distances(lines, bits);
        let mode = match self.width {
            16 => 0,
            32 => 3,
            64 => 2,
            _ => 1_u64,
        };
        (leading as u64 >> 4) << 16 | (stride as u64 >> 4) << 32 | mode << 62
    }
}

struct Product {
    n: usize,
    types: [Element; 3],
    /// `None`: in registers.
    a: Option<Layout>,
    b: Layout,
    negated: [bool; 2],
    adds: bool,
    /// Words before and behind the types.
    extra: [&'static str; 2],
    /// A is sparse, and these lanes have its metadata.
    selector: Option<usize>,
}

const K_MAJOR: Layout = layout(false, 128, 0);

impl Product {
    fn new(n: usize, types: [Element; 3], a: Option<Layout>, b: Layout) -> Product {
        Product {
            n,
            types,
            a,
            b,
            negated: [false; 2],
            adds: true,
            extra: [""; 2],
            selector: None,
        }
    }

    /// Elements along `k`.
    fn k(&self) -> usize {
        let of_all = if self.selector.is_some() { 512 } else { 256 };
        of_all / self.types[1].bits
    }

    /// The instruction's operands behind the descriptors.
    fn controls(&self) -> String {
        let [d, a, _] = self.types;
        let mut text = match self.selector {
            Some(selector) => {
                // Behind the other registers.
                let of_a = if self.a.is_some() { 0 } else { 4 };
                let metadata = self.n * d.bits / 64 + of_a;
                format!(", %r{metadata}, {selector}, %p1")
            }
            None => ", %p1".to_owned(),
        };
        if a.float.is_none() {
            return text;
        }
        for negated in self.negated {
            text += if negated { ", -1" } else { ", 1" };
        }
        if a.bits == 16 {
            for layout in self.a.into_iter().chain([self.b]) {
                text += if layout.transposed { ", 1" } else { ", 0" };
            }
        }
        text
    }

    fn check(&self) {
        const SECOND: usize = 16384;
        let [d, a, b] = self.types;
        let (n, k) = (self.n, self.k());
        let sparse = self.selector.map(|_| Sparse::new(64, k, a, 5));
        // What there is of A, and all of it.
        let (left, whole) = match &sparse {
            Some(sparse) => (sparse.stored.clone(), sparse.whole.clone()),
            None => (matrix(64, k, a, 5), matrix(64, k, a, 5)),
        };
        let right = matrix(k, n, b, 31);
        let before = matrix(64, n, d, 17);
        let mut memory = vec![0_u8; 48 << 10];
        let mut put = |at: usize, element: Element, within: usize, value: f64| {
            let bits = element.encode(value);
            for byte in 0..element.bits.div_ceil(8) {
                memory[at + byte] |= ((bits >> (8 * byte)) as u8) << (within % 8);
            }
        };
        for at in 0..k {
            for (row, line) in left.iter().enumerate() {
                if let Some(layout) = self.a
                    && at < line.len()
                {
                    let place = layout.place(64, row, at, a.bits);
                    put(place, a, at * a.bits, line[at]);
                }
            }
            for (column, value) in right[at].iter().enumerate() {
                let place = SECOND + self.b.place(n, column, at, b.bits);
                put(place, b, at * b.bits, *value);
            }
        }
        let words = memory.as_chunks::<4>().0;
        let mut input: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let copied = input.len();
        let rows = |matrix: &Matrix, warp: usize| matrix[16 * warp..16 * warp + 16].to_vec();
        // A fragment of D is one of `mma` for each eight columns.
        let of_d = |matrix: &Matrix, thread: usize| -> Vec<u32> {
            let rows = rows(matrix, thread / 32);
            let columns = (0..n).step_by(8).map(|first| {
                let part: Matrix = rows
                    .iter()
                    .map(|row| row[first..first + 8].to_vec())
                    .collect();
                fragment(&part, place_of_c, [16, 8, k], d, thread % 32)
            });
            columns.flatten().collect()
        };
        let mut of_thread = 0;
        for thread in 0..THREADS {
            let mut own = of_d(&before, thread);
            if self.a.is_none() {
                let rows = rows(&left, thread / 32);
                let shape = [16, 8, rows[0].len()];
                own.extend(fragment(&rows, place_of_a, shape, a, thread % 32));
            }
            if let (Some(sparse), Some(selector)) = (&sparse, self.selector) {
                let first = thread / 32 * 16;
                let metadata = sparse.metadata(first, a.bits, selector, thread % 32);
                own.extend([metadata, 0]);
            }
            of_thread = own.len();
            input.extend(own);
        }
        let results = n * d.bits / 64;
        let text = self.kernel(copied, of_thread, results, SECOND);
        let found = launch_blocks(&text, 1, THREADS, &input, THREADS * results);

        let sign = self.negated.iter().filter(|negated| **negated).count() % 2;
        let sign = if sign == 1 { -1.0 } else { 1.0 };
        let zero = vec![vec![0.0; n]; 64];
        let before = if self.adds { &before } else { &zero };
        let expected = multiply(&whole, &right, before, |x, y| sign * times(x, y));
        for thread in 0..THREADS {
            let expected = of_d(&expected, thread);
            let found = &found[thread * results..][..results];
            assert_eq!(found, expected, "thread {thread} of\n{text}");
        }
    }

    fn kernel(&self, copied: usize, of_thread: usize, results: usize, second: usize) -> String {
        let [d, a, b] = self.types;
        let (n, k) = (self.n, self.k());
        let list = |first: usize, count: usize| {
            let names: Vec<String> = (first..first + count).map(|n| format!("%r{n}")).collect();
            names.join(", ")
        };
        let mut text = format!(
            ".version 9.0\n.target sm_90a\n.address_size 64\n\
             .visible .entry k(.param .u64 in, .param .u64 out) {{\n\
             .shared .align 1024 .b8 memory[49152];\n\
             .reg .b64 %in, %out, %x<4>, %a, %b;\n.reg .b32 %t, %i, %w, %s, %r<160>;\n\
             .reg .pred %p<4>;\n\
             ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\n\
             mov.u32 %i, %t;\nCOPY:\nmul.wide.u32 %x0, %i, 4;\nadd.s64 %x0, %x0, %in;\n\
             ld.global.b32 %w, [%x0];\nmov.u32 %s, memory;\nmad.lo.u32 %s, %i, 4, %s;\n\
             st.shared.b32 [%s], %w;\nadd.u32 %i, %i, {THREADS};\n\
             setp.lt.u32 %p0, %i, {copied};\n@%p0 bra COPY;\n\
             fence.proxy.async;\nbar.sync 0;\n\
             mad.wide.u32 %x1, %t, {}, %in;\nmad.wide.u32 %out, %t, {}, %out;\n",
            4 * of_thread,
            4 * results
        );
        // Vectors compile in a fraction of the time that single words take.
        let width = |words: usize| if words.is_multiple_of(4) { 4 } else { 2 };
        let vector = width(of_thread);
        for n in (0..of_thread).step_by(vector) {
            let (into, at) = (list(n, vector), 4 * (copied + n));
            writeln!(text, "ld.global.v{vector}.b32 {{{into}}}, [%x1+{at}];").unwrap();
        }
        let step = |layout: Layout| 32 * layout.step;
        let first = self.a.map_or(0, step);
        let bits = [
            self.a.map_or(0, |layout| layout.descriptor(64, a.bits)),
            self.b.descriptor(n, b.bits),
        ];
        for (name, offset, bits) in [("a", first, bits[0]), ("b", second + step(self.b), bits[1])] {
            writeln!(
                text,
                "mov.u32 %s, memory;\nadd.u32 %s, %s, {offset};\nshr.u32 %s, %s, 4;\n\
                 cvt.u64.u32 %{name}, %s;\nor.b64 %{name}, %{name}, {bits};"
            )
            .unwrap();
        }
        let left = match self.a {
            Some(_) => "%a".to_owned(),
            None => format!("{{{}}}", list(results, 4)),
        };
        let adds = if self.adds { "ge" } else { "lt" };
        writeln!(
            text,
            "setp.{adds}.u32 %p1, %t, 0;\nwgmma.fence.sync.aligned;\n\
             wgmma.mma_async{}.sync.aligned.m64n{n}k{k}{}.{}.{}.{}{} {{{}}}, {left}, %b{};\n\
             wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;",
            if self.selector.is_some() { ".sp" } else { "" },
            self.extra[0],
            d.name,
            a.name,
            b.name,
            self.extra[1],
            list(0, results),
            self.controls()
        )
        .unwrap();
        let vector = width(results);
        for n in (0..results).step_by(vector) {
            let from = list(n, vector);
            writeln!(
                text,
                "st.global.v{vector}.b32 [%out+{}], {{{from}}};",
                4 * n
            )
            .unwrap();
        }
        text + "ret;\n}\n"
    }
}

#[test]
fn every_layout_of_halves() {
    for width in [16, 32, 64, 128] {
        let layouts = [false, true].map(|transposed| layout(transposed, width, 0));
        for b in layouts {
            for a in [Some(layouts[0]), Some(layouts[1]), None] {
                Product::new(64, [F32, F16, F16], a, b).check();
            }
        }
    }
    // Steps along k within a row of the pattern.
    for (width, step) in [(64, 1), (128, 1), (128, 2), (128, 3)] {
        let stepped = layout(false, width, step);
        Product::new(32, [F32, F16, F16], Some(stepped), stepped).check();
    }
}

#[test]
fn every_type() {
    // Other elements than those of 16 bits lie in units without swizzling, too.
    for (n, b) in [(8, K_MAJOR), (32, layout(false, 16, 0))] {
        for a in [Some(K_MAJOR), None] {
            for types in [
                [F16, F16, F16],
                [F32, F16, F16],
                [F32, BF16, BF16],
                [F32, TF32, TF32],
                [F16, E4M3, E5M2],
                [F32, E5M2, E4M3],
                [F32, E4M3, E4M3],
                [F32, E5M2, E5M2],
                [S32, S8, S8],
                [S32, S8, U8],
                [S32, U8, S8],
                [S32, U8, U8],
            ] {
                Product::new(n, types, a, b).check();
            }
            let mut bits = Product::new(n, [S32, B1, B1], a, b);
            bits.extra[1] = ".and.popc";
            bits.check();
        }
    }
    Product::new(136, [F32, F16, F16], Some(K_MAJOR), K_MAJOR).check();
    Product::new(256, [F32, BF16, BF16], None, K_MAJOR).check();
}

#[test]
fn what_is_added_negated_and_clamped() {
    for (negated, adds) in [
        ([true, false], true),
        ([false, true], false),
        ([true, true], true),
        ([false, false], false),
    ] {
        let mut product = Product::new(16, [F32, F16, F16], Some(K_MAJOR), K_MAJOR);
        product.negated = negated;
        product.adds = adds;
        product.check();
    }
    let mut clamped = Product::new(16, [S32, S8, S8], None, K_MAJOR);
    clamped.extra[0] = ".satfinite";
    clamped.check();
    clamped.adds = false;
    clamped.check();
}

#[test]
fn products_with_a_sparse_matrix() {
    let plain = layout(false, 16, 0);
    for (a, b) in [
        (Some(K_MAJOR), K_MAJOR),
        (Some(plain), plain),
        (None, K_MAJOR),
    ] {
        for (types, selectors) in [
            ([F16, F16, F16], 2),
            ([F32, BF16, BF16], 2),
            ([F32, TF32, TF32], 2),
            ([F32, E4M3, E5M2], 1),
            ([S32, S8, U8], 1),
        ] {
            for selector in 0..selectors {
                let mut product = Product::new(32, types, a, b);
                product.selector = Some(selector);
                product.check();
            }
        }
    }
    let mut product = Product::new(16, [F32, F16, F16], Some(layout(true, 64, 0)), K_MAJOR);
    product.selector = Some(1);
    product.negated = [true, false];
    product.check();
}
