//! Threads that run together in vectors do what each would do alone.

use std::cell::Cell;
use std::sync::Arc;

use crate::blob::Image;
use crate::memory::{DeviceMemory, Purpose};
use crate::module::LoadedModule;
use crate::run::{Engine, LaunchConfig};
use crate::simd::{IN_TESTS, Isa};
use crate::source::compile_image;
use crate::{CompileOptions, Vectorization};

mod atomics;
mod bounds;
mod butterflies;
mod carry;
mod checks;
mod clamped;
mod columns;
mod conversions;
mod copies;
mod divergent_regions;
mod elements;
mod extents;
mod grid_loops;
mod guarded;
mod halves;
mod indexed;
mod known_lanes;
mod large_grids;
mod lockstep;
mod masks;
mod order;
mod packed;
mod partial_writes;
mod regions;
mod scattered;
mod shuffle_loops;
mod waits;

const WORDS: usize = 4096;

thread_local! {
    /// The results of this thread's tests depend on the order in which lanes run.
    static ORDER_COUNTS: Cell<bool> = const { Cell::new(false) };
    /// Whether the next kernel of this thread's tests is compiled for AVX2 first.
    static TURN: Cell<bool> = const { Cell::new(false) };
}

/// A kernel `k(in, out, n)` over 32-bit words, with usual registers.
pub(super) fn kernel(body: &str) -> String {
    format!(
        ".version 9.0\n.target sm_90\n.address_size 64\n\
         .visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n) {{\n\
         .reg .b64 %in, %out, %x<8>;\n.reg .b32 %i, %n, %r<16>;\n.reg .f32 %f<8>;\n\
         .reg .f64 %g<4>;\n.reg .pred %p<8>;\n\
         .shared .align 16 .b8 tile[4096];\n\
         ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nld.param.u32 %n, [n];\n\
         mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %ntid.x;\nmov.u32 %r2, %tid.x;\n\
         mad.lo.u32 %i, %r0, %r1, %r2;\n\
         {body}\nret;\n}}\n"
    )
}

/// What the kernel leaves in its output, or its fault.
pub(super) fn run(
    source: &str,
    vectorization: Vectorization,
    grid: u32,
    block: [u32; 3],
    n: u32,
) -> Result<Vec<u32>, String> {
    run_with(source, vectorization, grid, block, (n, 0))
}

/// The same with dynamic shared memory.
pub(super) fn run_with(
    source: &str,
    vectorization: Vectorization,
    grid: u32,
    block: [u32; 3],
    (n, shared_bytes): (u32, u32),
) -> Result<Vec<u32>, String> {
    if vectorization == Vectorization::Never {
        let options = CompileOptions { vectorization };
        let image = compile_image(source, &options).map_err(|error| error.to_string())?;
        return run_image(image, grid, block, (n, shared_bytes));
    }
    let launch = |image| run_image(image, grid, block, (n, shared_bytes));
    let compile = |text: &str, vectorization| {
        let options = CompileOptions { vectorization };
        compile_image(text, &options).map_err(|error| error.to_string())
    };
    let [x, y, z] = block;
    let of_size = source.replacen(") {", &format!(") .reqntid {x}, {y}, {z} {{"), 1);
    // A block of known size has known warps, whose threads run in step: where threads race, the results
    // of a kernel without `.reqntid` may differ.
    let alone = launch(compile(&of_size, Vectorization::Never)?);
    let in_vectors = |text: &str, isa| {
        IN_TESTS.set(Some(isa));
        let image = compile(text, Vectorization::Always);
        IN_TESTS.set(None);
        let image = image?;
        Ok::<_, String>((image.kernels[0].vector.is_some(), launch(image)))
    };
    // The two take turns: a test runs its kernels more than once.
    let [one, other] = if TURN.replace(!TURN.get()) {
        [Isa::Avx2, Isa::Avx512]
    } else {
        [Isa::Avx512, Isa::Avx2]
    };
    let (is_compiled, result) = in_vectors(source, one)?;
    let (is_compiled_of_size, of_size_result) = in_vectors(&of_size, other)?;
    // Neither the processor nor the block decides whether a kernel is compiled to vectors.
    assert_eq!(is_compiled, is_compiled_of_size, "{source}");
    if !ORDER_COUNTS.get() && !is_alike(&of_size_result, &alone) {
        let starts =
            [&of_size_result, &alone].map(|result| result.as_ref().map(|words| &words[..64]));
        panic!("{starts:?}\n{of_size}");
    }
    result
}

/// Whether results are the same but for the bits of NaNs, or are both faults: which of several threads
/// is named is up to the order in which they run.
fn is_alike(one: &Result<Vec<u32>, String>, other: &Result<Vec<u32>, String>) -> bool {
    let is_nan = |bits: u32| f32::from_bits(bits).is_nan();
    match (one, other) {
        (Ok(one), Ok(other)) => {
            let mut pairs = one.iter().zip(other);
            pairs.all(|(&a, &b)| a == b || is_nan(a) && is_nan(b))
        }
        (one, other) => one.is_err() == other.is_err(),
    }
}

/// The same of a kernel that is compiled.
pub(super) fn run_image(
    image: Image,
    grid: u32,
    block: [u32; 3],
    (n, shared_bytes): (u32, u32),
) -> Result<Vec<u32>, String> {
    let memory = Arc::new(DeviceMemory::with_size(64 << 20).map_err(|e| e.to_string())?);
    let module = LoadedModule::of_image(image, &memory).map_err(|e| e.to_string())?;
    let engine = Engine::with_workers(Arc::clone(&memory), 1);
    let [a, b] = [(); 2].map(|()| {
        memory
            .allocate(4 * WORDS as u64, 256, Purpose::Device)
            .unwrap()
    });
    // SAFETY: allocations of this many words.
    unsafe {
        for i in 0..WORDS {
            *(a as *mut u32).add(i) = (i as u32).wrapping_mul(2_654_435_761) >> 7;
            *(b as *mut u32).add(i) = 0;
        }
    }
    let mut params: Vec<u8> = [a, b].iter().flat_map(|p| p.to_le_bytes()).collect();
    params.extend(n.to_le_bytes());
    let config = LaunchConfig {
        grid: [grid, 1, 1],
        block,
        shared_bytes,
        cluster: [1; 3],
    };
    engine
        .launch(&module, 0, config, &params)
        .map_err(|f| format!("thread {:?}: {}", f.thread, hide(&f.message)))?;
    // SAFETY: as above.
    Ok(unsafe { std::slice::from_raw_parts(b as *const u32, WORDS) }.to_vec())
}

/// The blocks, their size, and the parameter `n` of a launch.
type Launch = (u32, [u32; 3], u32);

/// Small launches, whose kernels know no bounds of allocations.
const SMALL: [Launch; 6] = [
    (4, [64, 1, 1], 256),
    (3, [64, 1, 1], 150),
    (1, [16, 16, 1], 256),
    (2, [32, 2, 1], 77),
    (2, [24, 1, 1], 48),
    (1, [40, 1, 1], 37),
];

/// Launches of at least 1,024 threads, whose kernels know the bounds of allocations.
const LARGE: [Launch; 3] = [
    (16, [64, 1, 1], 1024),
    (5, [16, 16, 1], 1000),
    (12, [32, 4, 1], 77),
];

/// The kernel is compiled to vectors. Together and alone must agree, and something must have been
/// written.
pub(super) fn agree(body: &str) {
    let options = CompileOptions {
        vectorization: Vectorization::Always,
    };
    let image = compile_image(&kernel(body), &options).unwrap();
    let has_vectors = Isa::of_processor().is_some();
    assert_eq!(image.kernels[0].vector.is_some(), has_vectors, "{body}");
    agree_in(&SMALL, body);
}

/// The same in large launches, too.
pub(super) fn agree_with_bounds(body: &str) {
    agree(body);
    agree_in(&LARGE, body);
}

fn agree_in(launches: &[Launch], body: &str) {
    let source = kernel(body);
    for &(grid, block, n) in launches {
        // Rows of threads have the same `%i` and write the same words.
        let order_counts = ORDER_COUNTS.replace(ORDER_COUNTS.get() || block[1] > 1);
        let alone = run(&source, Vectorization::Never, grid, block, n);
        let together = run(&source, Vectorization::Always, grid, block, n);
        ORDER_COUNTS.set(order_counts);
        let launch = format!("{body}\n{grid} blocks of {block:?}, n = {n}");
        if let (Ok(together), Ok(alone)) = (&together, &alone)
            && let Some(at) = (0..WORDS).find(|&at| together[at] != alone[at])
        {
            let (together, alone) = (together[at], alone[at]);
            panic!("word {at}: {together} in vectors, {alone} one by one: {launch}");
        }
        assert_eq!(together, alone, "{launch}");
        let written = alone.map(|words| words.iter().any(|&w| w != 0));
        assert_eq!(written, Ok(true), "{body}");
    }
}

pub(super) const ADDRESSES: &str =
    "mul.wide.u32 %x0, %i, 4; add.u64 %x1, %in, %x0; add.u64 %x2, %out, %x0;";

#[test]
fn neighbouring_loads_and_stores() {
    agree(&format!(
        "{ADDRESSES} ld.global.u32 %r3, [%x1]; ld.global.u32 %r4, [%x1+4]; add.u32 %r3, %r3, %r4; st.global.u32 [%x2], %r3;"
    ));
    // From granule to granule, and backwards.
    agree(&format!(
        "{ADDRESSES} ld.global.f32 %f0, [%x1+12]; add.f32 %f0, %f0, %f0; st.global.f32 [%x2+4], %f0;"
    ));
    agree(
        "sub.u32 %r3, 1000, %i; mul.wide.u32 %x0, %r3, 4; add.u64 %x1, %in, %x0; ld.global.u32 %r4, [%x1]; mul.wide.u32 %x0, %i, 8; add.u64 %x2, %out, %x0; cvt.u64.u32 %x3, %r4; st.global.u64 [%x2], %x3;",
    );
}

#[test]
fn the_last_group_is_cut() {
    agree(&format!(
        "setp.ge.u32 %p0, %i, %n; @%p0 ret; {ADDRESSES} ld.global.u32 %r3, [%x1]; not.b32 %r3, %r3; st.global.u32 [%x2], %r3;"
    ));
}

/// Rows that are no whole groups, and threads that are left over.
#[test]
fn rows_within_groups() {
    let body = "mov.u32 %r5, %tid.y; mad.lo.u32 %r5, %r5, %r1, %r2; mov.u32 %r6, %tid.z; \
                mov.u32 %r7, %ntid.y; mul.lo.u32 %r7, %r7, %r1; mad.lo.u32 %r5, %r6, %r7, %r5; \
                mul.wide.u32 %x0, %r5, 4; add.u64 %x1, %in, %x0; add.u64 %x2, %out, %x0; \
                ld.global.u32 %r3, [%x1]; setp.lt.u32 %p0, %r2, 3; @%p0 add.u32 %r3, %r3, %r6; \
                mov.u32 %r4, tile; mad.lo.u32 %r4, %r5, 4, %r4; st.shared.u32 [%r4], %r3; bar.sync 0; \
                ld.shared.u32 %r8, [tile+8]; xor.b32 %r3, %r3, %r8; \
                shfl.sync.down.b32 %r9, %r3, 1, 31, -1; add.u32 %r3, %r3, %r9; st.global.u32 [%x2], %r3;";
    let alone_body = body.replace(
        "shfl.sync.down.b32 %r9, %r3, 1, 31, -1;",
        "mov.u32 %r9, %r6;",
    );
    for body in [body, &alone_body] {
        for block in [
            [8, 8, 1],
            [24, 2, 1],
            [5, 7, 2],
            [10, 10, 10],
            [3, 3, 3],
            [100, 1, 1],
        ] {
            let source = kernel(body);
            let alone = run(&source, Vectorization::Never, 1, block, 0);
            let together = run(&source, Vectorization::Always, 1, block, 0);
            assert_eq!(together, alone, "{block:?}\n{body}");
        }
    }
}

#[test]
fn branches_part_the_group() {
    agree(&format!(
        "{ADDRESSES} ld.global.u32 %r3, [%x1]; and.b32 %r4, %r3, 1; setp.eq.u32 %p0, %r4, 0; \
         @%p0 bra EVEN; mul.lo.u32 %r3, %r3, 3; bra DONE; EVEN: shr.u32 %r3, %r3, 1; DONE: \
         st.global.u32 [%x2], %r3;"
    ));
    // Loops of different lengths, with a value carried around them.
    agree(&format!(
        "{ADDRESSES} ld.global.u32 %r3, [%x1]; and.b32 %r4, %r3, 31; mov.u32 %r5, 1; \
         L: mad.lo.u32 %r5, %r5, %r4, %r3; sub.u32 %r4, %r4, 1; setp.gt.s32 %p0, %r4, 0; @%p0 bra L; \
         st.global.u32 [%x2], %r5;"
    ));
}

/// After its threads have parted, a group that meets again at a barrier holds
/// values that are no longer shared.
#[test]
fn barriers_after_parting() {
    agree(&format!(
        "{ADDRESSES} mov.u32 %r9, 0; mov.u32 %r10, tile; mad.lo.u32 %r10, %r2, 4, %r10; \
         ld.global.u32 %r3, [%x1]; and.b32 %r4, %r3, 3; \
         AGAIN: bar.sync 0; setp.eq.u32 %p0, %r9, %r4; @!%p0 bra SKIP; add.u32 %r9, %r9, 1; SKIP: \
         add.u32 %r9, %r9, 1; st.shared.u32 [%r10], %r9; bar.sync 0; ld.shared.u32 %r5, [tile]; \
         setp.lt.u32 %p1, %r5, 9; @%p1 bra AGAIN; add.u32 %r9, %r9, 100; st.global.u32 [%x2], %r9;"
    ));
}

/// What is live across barriers and the same, or a stride apart, in the lanes of a group is saved
/// once; where the group parts later, each of its threads has its own.
#[test]
fn values_saved_once_for_a_group() {
    for parts in ["%r3, 1", "%r9, 2"] {
        agree(&format!(
            ".reg .b16 %h<4>; {ADDRESSES} mov.u32 %r10, tile; mad.lo.u32 %r10, %r2, 4, %r10; \
             shr.u32 %r4, %r2, 4; mul.lo.u32 %r5, %i, -3; shr.u32 %r6, %n, 1; setp.gt.u32 %p1, %r4, 0; \
             cvt.u16.u32 %h0, %r4; cvt.rn.f32.u32 %f0, %n; cvt.rn.f64.u32 %g0, %r4; \
             ld.global.u32 %r3, [%x1]; mov.u32 %r9, 0; \
             AGAIN: st.shared.u32 [%r10], %r9; bar.sync 0; add.u32 %r9, %r9, 1; add.u32 %r6, %r6, %r4; \
             and.b32 %r7, {parts}; setp.eq.u32 %p0, %r7, 0; @%p0 bra SKIP; \
             add.u32 %r9, %r9, %r5; sub.u32 %r9, %r9, %r5; @%p1 add.u32 %r9, %r9, %r4; SKIP: \
             bar.sync 0; ld.shared.u32 %r8, [tile+60]; bar.sync 0; setp.lt.u32 %p2, %r8, 5; @%p2 bra AGAIN; \
             cvt.u32.u16 %r7, %h0; mad.lo.u32 %r9, %r9, 31, %r7; cvt.rzi.u32.f32 %r7, %f0; mad.lo.u32 %r9, %r9, 31, %r7; \
             cvt.rzi.u32.f64 %r7, %g0; mad.lo.u32 %r9, %r9, 31, %r7; mad.lo.u32 %r9, %r9, 31, %r5; \
             mad.lo.u32 %r9, %r9, 31, %r6; @%p1 add.u32 %r9, %r9, 7; st.global.u32 [%x2], %r9;"
        ));
    }
}

/// Where a thread reads its index after a barrier, it is that of the thread.
#[test]
fn indices_after_barriers() {
    for read in [
        "mov.u32 %r3, %tid.x; mov.u32 %r4, %tid.y;",
        "mov.u32 %r3, %laneid; mov.u32 %r4, %warpid;",
    ] {
        agree(&format!(
            "{ADDRESSES} mov.u32 %r9, 3; mov.u32 %r8, 0; \
             L: bar.sync 0; {read} mad.lo.u32 %r9, %r9, 5, %r3; mad.lo.u32 %r9, %r9, 7, %r4; add.u32 %r8, %r8, 1; \
             setp.lt.u32 %p0, %r8, 3; @%p0 bra L; st.global.u32 [%x2], %r9;"
        ));
    }
}

/// Fills the tile, so that what follows reads it.
pub(super) const FILL: &str = "mov.u32 %r11, tile; mov.u32 %r12, %ntid.x; mov.u32 %r13, %tid.y; mad.lo.u32 %r12, %r13, %r12, %r2; \
     mad.lo.u32 %r10, %r12, 4, %r11; st.shared.u32 [%r10], %i; not.b32 %r9, %i; st.shared.u32 [%r10+1024], %r9; bar.sync 0;";

/// `%i` wraps around in the middle of a group: its extension is not affine.
#[test]
fn indices_that_wrap() {
    for (add, extend) in [
        ("0xFFFFFFF8", "mul.wide.u32 %x0, %r3, 4;"),
        ("0x7FFFFFF8", "mul.wide.s32 %x0, %r3, 4;"),
        ("0x7FFFFFF8", "cvt.s64.s32 %x0, %r3;"),
        ("0xFFFFFFF8", "cvt.u64.u32 %x0, %r3;"),
    ] {
        agree(&format!(
            "{ADDRESSES} add.u32 %r3, %i, {add}; {extend} shr.u64 %x3, %x0, 20; xor.b64 %x0, %x0, %x3; \
             cvt.u32.u64 %r4, %x0; or.b32 %r4, %r4, 1; st.global.u32 [%x2], %r4;"
        ));
    }
}

/// What a warp or half of it shares is computed once, and lanes of it are consecutive.
#[test]
fn parts_of_the_index() {
    let store = "st.global.u32 [%x2], %r9;";
    for body in [
        "and.b32 %r3, %r2, 31; shr.u32 %r4, %r2, 5; mad.lo.u32 %r5, %r4, 40, %r3; mul.wide.u32 %x3, %r5, 4; \
         add.u64 %x3, %x3, %in; ld.global.u32 %r9, [%x3];",
        "and.b32 %r3, %i, -8; and.b32 %r4, %i, 20; xor.b32 %r5, %i, 5; or.b32 %r6, %r4, 3; shl.b32 %r7, %r3, 8; \
         mad.lo.u32 %r9, %r5, 3, %r6; add.u32 %r9, %r9, %r7;",
        "sub.u32 %r3, %i, 24; shr.s32 %r4, %r3, 4; shr.u32 %r5, %r3, 5; div.s32 %r6, %r3, 16; rem.s32 %r7, %r3, 16; \
         mad.lo.u32 %r9, %r4, 7, %r5; mad.lo.u32 %r9, %r6, 77, %r9; mad.lo.u32 %r9, %r7, 777, %r9;",
        "shr.u32 %r3, %i, 4; setp.lt.u32 %p0, %r3, 3; @%p0 bra FEW; mov.u32 %r9, 5; bra DONE; FEW: \
         bfe.u32 %r9, %i, 0, 3; add.u32 %r9, %r9, 1; DONE:",
        "mov.u32 %r9, %laneid; mov.u32 %r3, %warpid; mad.lo.u32 %r9, %r3, 100, %r9; bfe.s32 %r4, %i, 1, 4; \
         add.u32 %r9, %r9, %r4; cvt.u16.u32 %h0, %i; cvt.u32.u16 %r5, %h0; add.u32 %r9, %r9, %r5;",
        "mov.b64 %x3, {%i, %n}; mov.b64 {%r3, %r4}, %x3; mad.lo.u32 %r9, %r3, 5, %r4; add.cc.u32 %r9, %r9, %r3; \
         addc.u32 %r9, %r9, %r4;",
    ] {
        agree(&format!(".reg .b16 %h<2>; {ADDRESSES} {body} {store}"));
    }
}

/// A register that nothing has written is 0 for every thread.
#[test]
fn registers_never_written() {
    agree(&format!(
        "{ADDRESSES} ld.global.u32 %r3, [%x1]; setp.gt.u32 %p0, %r3, %r14; setp.lt.u32 %p1, %i, %r15; \
         selp.u32 %r4, 1, 2, %p0; @%p1 add.u32 %r4, %r4, 7; st.global.u32 [%x2], %r4;"
    ));
}

/// Comparisons that hold for all threads of a group if they do for its first and its last, and
/// those where a value wraps around between them.
#[test]
fn branches_on_comparisons() {
    for condition in [
        "setp.lt.u32 %p0, %i, 40;",
        "setp.ge.s32 %p0, 40, %i;",
        "sub.u32 %r3, 40, %i; setp.gt.u32 %p0, %r3, 8;",
        "sub.u32 %r3, 40, %i; setp.gt.s32 %p0, %r3, 8;",
        "add.u32 %r3, %i, 0x7FFFFFD8; setp.lt.s32 %p0, %r3, 5;",
        "add.u32 %r3, %i, 0xFFFFFFD8; setp.hi.u32 %p0, %r3, 5;",
        "mul.lo.u32 %r3, %i, 8; cvt.u64.u32 %x3, %r3; setp.le.u64 %p0, %x3, 333;",
        "setp.lt.u32 %p0, %i, 90; setp.gt.and.u32 %p0, %i, 40, %p0;",
        "setp.lt.u32 %p1, %i, 40; setp.ge.or.u32 %p0, %r0, 1, %p1;",
        "setp.lt.u32 %p1, %i, 40; setp.gt.xor.u32 %p0, %i, 70, %p1;",
        "add.u32 %r3, %i, 5; setp.lt.u32 %p0, %r3, 40; add.u32 %r3, %r3, 9;",
        "setp.lt.u32 %p0, %i, %n; @%p0 setp.lt.u32 %p0, %i, 40;",
        "setp.lt.u32 %p1, %i, 40; mov.pred %p0, %p1; setp.lt.and.u32 %p1, %i, %n, %p0; not.pred %p0, %p1;",
    ] {
        agree(&format!(
            "{ADDRESSES} {condition} mov.u32 %r9, 1; @%p0 bra YES; ld.global.u32 %r9, [%x1]; \
             YES: @!%p0 bra NO; add.u32 %r9, %r9, 3; NO: st.global.u32 [%x2], %r9;"
        ));
    }
    agree(&format!(
        "{ADDRESSES} mov.u32 %r3, %i; mov.u32 %r9, 0; bra TEST; \
         L: add.u32 %r9, %r9, %r3; add.u32 %r3, %r3, 24; TEST: setp.lt.u32 %p0, %r3, 333; @%p0 bra L; \
         add.u32 %r9, %r9, 1; st.global.u32 [%x2], %r9;"
    ));
}

/// An index that is clamped at the ends of a row is consecutive between them.
#[test]
fn clamped_indices() {
    for index in [
        "sub.s32 %r3, %i, 1; max.s32 %r3, %r3, 0;",
        "add.u32 %r3, %i, 1; sub.u32 %r4, %n, 1; min.u32 %r3, %r3, %r4;",
        "sub.s32 %r3, %i, 40; max.s32 %r3, %r3, -3; min.s32 %r3, 100, %r3; add.s32 %r3, %r3, 3;",
        "sub.s32 %r3, 60, %i; max.s32 %r3, %r3, 9; min.s32 %r3, %r3, 50;",
        "sub.u32 %r3, %i, 1; min.u32 %r3, %r3, 70;",
        "add.s32 %r3, %i, 0x7FFFFFD8; max.s32 %r3, %r3, 0x7FFFFFD0; sub.s32 %r3, %r3, 0x7FFFFFD0; min.s32 %r3, %r3, 40; max.s32 %r3, %r3, 0;",
        "min.u32 %r3, %i, 5;",
        "min.u32 %r3, %i, 30; mov.u32 %r4, %r3; max.u32 %r3, %r4, 20;",
    ] {
        agree(&format!(
            "{ADDRESSES} {index} mul.wide.u32 %x3, %r3, 4; add.u64 %x3, %in, %x3; ld.global.u32 %r9, [%x3]; \
             add.u32 %r9, %r9, 1; st.global.u32 [%x2], %r9;"
        ));
    }
}

/// Consecutive bytes and halves are loaded together and extended.
#[test]
fn neighbouring_bytes() {
    for (ty, bytes, register) in [
        ("u8", 1, "%r3"),
        ("s8", 1, "%r3"),
        ("u16", 2, "%r3"),
        ("s16", 2, "%r3"),
        ("u8", 1, "%h0"),
        ("s8", 1, "%h0"),
        ("u16", 2, "%h0"),
        ("b16", 2, "%h0"),
    ] {
        let extend = match register {
            "%h0" => "cvt.s32.s16 %r3, %h0;",
            _ => "",
        };
        agree(&format!(
            ".reg .b16 %h<2>; {ADDRESSES} mul.wide.u32 %x3, %i, {bytes}; add.u64 %x3, %in, %x3; \
             ld.global.{ty} {register}, [%x3+{}]; {extend} or.b32 %r3, %r3, 256; st.global.u32 [%x2], %r3;",
            253 * bytes
        ));
    }
}

#[test]
fn doubles_predicates_and_halves() {
    agree(&format!(
        "{ADDRESSES} ld.global.u32 %r3, [%x1]; cvt.rn.f64.u32 %g0, %r3; fma.rn.f64 %g1, %g0, %g0, %g0; \
         setp.gt.f64 %p0, %g1, 0d4270000000000000; selp.f64 %g1, %g0, %g1, %p0; cvt.rzi.u32.f64 %r4, %g1; \
         cvt.rn.f32.u32 %f0, %r3; mul.ftz.f32 %f1, %f0, 0f3E800000; setp.lt.f32 %p1, %f1, 0f49800000; \
         @%p1 add.f32 %f1, %f1, 0f3F800000; cvt.rzi.u32.f32 %r5, %f1; xor.b32 %r4, %r4, %r5; st.global.u32 [%x2], %r4;"
    ));
}

#[test]
fn warp_operations_together() {
    agree(&format!(
        "{ADDRESSES} mov.u32 %r5, %laneid; shfl.sync.bfly.b32 %r4|%p0, %i, 1, 31, 0xFFFFFFFF; \
         mad.lo.u32 %r4, %r4, 64, %r5; add.u32 %r4, %r4, 1; st.global.u32 [%x2], %r4;"
    ));
}

/// Shuffles by constants and by registers, of segments, and from lanes that do not exist.
#[test]
fn shuffles_together() {
    let of_constants = [
        "up.b32 %r4|%p0, %r3, 1, 0",
        "up.b32 %r4|%p0, %r3, 7, 0",
        "up.b32 %r4|%p0, %r3, 3, 0x1800",
        "down.b32 %r4|%p0, %r3, 1, 31",
        "down.b32 %r4|%p0, %r3, 16, 31",
        "down.b32 %r4|%p0, %r3, 5, 0x181F",
        "bfly.b32 %r4|%p0, %r3, 1, 31",
        "bfly.b32 %r4|%p0, %r3, 2, 31",
        "bfly.b32 %r4|%p0, %r3, 16, 31",
        "bfly.b32 %r4|%p0, %r3, 9, 7",
        "idx.b32 %r4|%p0, %r3, 11, 31",
        "idx.b32 %r4|%p0, %r3, 2, 0x1C1F",
        "idx.b32 %r4|%p0, %r3, 30, 9",
    ];
    let of_registers = [
        "up.b32 %r4|%p0, %r3, %r5, 0",
        "up.b32 %r4|%p0, %r3, %r6, 0x1800",
        "down.b32 %r4|%p0, %r3, %r5, 31",
        "down.b32 %r4|%p0, %r3, %r7, %r8",
        "bfly.b32 %r4|%p0, %r3, %r5, 31",
        "bfly.b32 %r4|%p0, %r3, %r7, 31",
        "idx.b32 %r4|%p0, %r3, %r5, 31",
        "idx.b32 %r4|%p0, %r3, %r7, 31",
        "idx.b32 %r4|%p0, %r3, %r7, %r8",
        "idx.b32 %r4|%p0, 5, %r7, 31",
    ];
    for shuffle in of_constants.iter().chain(&of_registers) {
        agree(&format!(
            "{ADDRESSES} ld.global.u32 %r3, [%x1]; shr.u32 %r5, %n, 3; add.u32 %r6, %r0, 2; and.b32 %r7, %r3, 63; \
             shr.u32 %r8, %r3, 3; shfl.sync.{shuffle}, 0xFFFFFFFF; @%p0 add.u32 %r4, %r4, 1000; \
             or.b32 %r4, %r4, 1; st.global.u32 [%x2], %r4;"
        ));
    }
}

/// What a whole warp agrees on is one value, also for a branch.
#[test]
fn votes_together() {
    for (operation, result) in [
        ("vote.sync.ballot.b32 %r4, %p0, -1", "%r4"),
        ("vote.sync.any.pred %p1, %p0, -1", "%p1"),
        ("vote.sync.all.pred %p1, !%p0, -1", "%p1"),
        ("vote.sync.uni.pred %p1, %p0, -1", "%p1"),
        ("vote.sync.uni.pred %p1, %p2, -1", "%p1"),
        ("redux.sync.add.u32 %r4, %r3, -1", "%r4"),
        ("redux.sync.min.s32 %r4, %r5, -1", "%r4"),
        ("redux.sync.max.u32 %r4, %r3, -1", "%r4"),
        ("redux.sync.or.b32 %r4, %r3, -1", "%r4"),
        ("redux.sync.xor.b32 %r4, %r3, -1", "%r4"),
        ("match.all.sync.b32 %r4|%p1, %r6, -1", "%r4"),
        ("match.all.sync.b32 %r4|%p1, %r3, -1", "%p1"),
        ("match.any.sync.b32 %r4, %r6, -1", "%r4"),
        ("activemask.b32 %r4", "%r4"),
        ("elect.sync %r4|%p1, -1", "%p1"),
        ("shfl.sync.idx.b32 %r4, %r3, 3, 31, -1", "%r4"),
    ] {
        let branch = match result {
            "%p1" => "@%p1 bra YES;",
            _ => "and.b32 %r7, %r4, 1; setp.ne.u32 %p3, %r7, 0; @%p3 bra YES;",
        };
        agree(&format!(
            "{ADDRESSES} ld.global.u32 %r3, [%x1]; and.b32 %r4, %r3, 7; setp.lt.u32 %p0, %r4, 2; setp.gt.u32 %p2, %n, 100; \
             sub.u32 %r5, %r3, 9999999; shr.u32 %r6, %i, 5; mov.u32 %r4, 3; bar.warp.sync -1; \
             {operation}; mov.u32 %r9, 5; {branch} mov.u32 %r9, 6; YES: mad.lo.u32 %r9, %r4, 77, %r9; st.global.u32 [%x2], %r9;"
        ));
    }
}

/// Warps of which some lanes are suspended at the operation, after they have parted.
#[test]
fn warp_operations_after_parting() {
    agree(&format!(
        "{ADDRESSES} ld.global.u32 %r3, [%x1]; mov.u32 %r9, 0; mov.u32 %r4, 0; \
         L: setp.gt.u32 %p0, %r3, 9000000; @%p0 bra MANY; mad.lo.u32 %r3, %r3, 5, %r4; bra.uni JOIN; MANY: \
         shr.u32 %r3, %r3, 1; add.u32 %r3, %r3, %n; add.u32 %r9, %r9, 1; \
         JOIN: shfl.sync.bfly.b32 %r5, %r3, 3, 31, -1; add.u32 %r9, %r9, %r5; bar.sync 0; \
         vote.sync.any.pred %p1, %p0, -1; @%p1 add.u32 %r9, %r9, 12; add.u32 %r4, %r4, 1; \
         redux.sync.add.u32 %r6, %r9, -1; add.u32 %r9, %r9, %r6; \
         setp.lt.u32 %p2, %r4, 5; @%p2 bra L; st.global.u32 [%x2], %r9;"
    ));
}

/// Branches around a few instructions, for some lanes of a group.
#[test]
fn arms_for_some_lanes() {
    let setup = format!(
        "{ADDRESSES} {FILL} ld.global.u32 %r3, [%x1]; and.b32 %r4, %r3, 3; setp.eq.u32 %p0, %r4, 1; \
         mov.u32 %r5, 0; st.shared.u32 [tile+4080], %r5; bar.sync 0; and.b32 %r5, %r2, 15; setp.eq.u32 %p1, %r5, 15; setp.lt.u32 %p2, %i, 40; mov.u32 %r9, 7; mov.u32 %r8, 1;"
    );
    for arms in [
        "@%p0 st.shared.u32 [%r10], %r3; bar.sync 0; ld.shared.u32 %r9, [tile+20];",
        "@!%p1 bra SKIP; ld.shared.u32 %r6, [%r10+1024]; add.u32 %r9, %r6, %r9; st.shared.u32 [%r10], %r9; SKIP:",
        "@%p2 bra SKIP; add.u32 %r8, %r8, 5; mul.lo.u32 %r7, %r3, 3; ld.shared.u32 %r9, [tile+12]; add.u32 %r9, %r9, %r7; SKIP: \
         add.u32 %r9, %r9, %r8;",
        "@%p0 bra ODD; shr.u32 %r7, %r3, 3; st.shared.u32 [%r10], %r7; mov.u32 %r9, %r7; bra JOIN; \
         ODD: mul.lo.u32 %r7, %r3, 9; xor.b32 %r9, %r7, %r2; red.shared.add.u32 [tile+4080], 3; JOIN: bar.sync 0; \
         ld.shared.u32 %r6, [%r10]; add.u32 %r9, %r9, %r6; ld.shared.u32 %r6, [tile+4080]; add.u32 %r9, %r9, %r6;",
        "@!%p0 bra SKIP; sub.u32 %r6, %i, 8; mul.wide.u32 %x3, %r6, 4; shr.u64 %x4, %x3, 31; cvt.u32.u64 %r9, %x4; \
         add.u32 %r9, %r9, %r3; SKIP:",
        "@%p0 atom.shared.add.u32 %r9, [tile], 5; add.u32 %r9, %r9, 1;",
        "@!%p0 bra SKIP; ld.global.v2.u32 {%r9, %r7}, [%in+8]; add.u32 %r9, %r9, %r7; cvt.rn.f32.u32 %f0, %r9; \
         div.rn.f32 %f1, %f0, 0f40400000; cvt.rzi.u32.f32 %r9, %f1; SKIP:",
        "@!%p0 bra SKIP; cvt.rn.f64.u32 %g0, %r3; st.shared.f64 [tile+8], %g0; setp.gt.u32 %p3, %r3, 5000000; \
         selp.u32 %r9, 3, 4, %p3; SKIP: add.u32 %r9, %r9, 1;",
        "@%p0 bra SKIP; mul.lo.u32 %r6, %r2, 8; mul.wide.u32 %x3, %r6, 1; add.u64 %x3, %x3, %in; ld.global.u16 %r9, [%x3+2]; \
         ld.global.s8 %r7, [%x3+5]; ld.global.u64 %x4, [%x3]; cvt.u32.u64 %r6, %x4; add.u32 %r9, %r9, %r7; add.u32 %r9, %r9, %r6; SKIP:",
        "mad.lo.u32 %r6, %r12, 8, %r11; @%p0 bra SKIP; st.shared.v2.u32 [%r6], {%r3, %tid.x}; ld.shared.u32 %r9, [%r6+4]; SKIP:",
    ] {
        agree(&format!("{setup} {arms} st.global.u32 [%x2], %r9;"));
        // Also where a barrier, and a loop, follow.
        agree(&format!(
            "{setup} mov.u32 %r14, 0; L: bar.sync 0; {arms} bar.sync 0; ld.shared.u32 %r13, [%r10]; add.u32 %r9, %r9, %r13; \
             xor.b32 %r3, %r3, %r9; add.u32 %r14, %r14, 1; setp.lt.u32 %p5, %r14, 3; @%p5 bra L; st.global.u32 [%x2], %r9;"
        ));
        agree(&format!(
            "{setup} {arms} shfl.sync.bfly.b32 %r7, %r9, 5, 31, -1; add.u32 %r9, %r9, %r7; st.global.u32 [%x2], %r9;"
        ));
    }
    // The access of one lane is out of bounds.
    let source = kernel(&format!(
        "{setup} setp.eq.u32 %p0, %i, 37; shl.b32 %r6, %r2, 10; @%p0 st.shared.u32 [%r6], %r9; st.global.u32 [%x2], %r9;"
    ));
    let alone = run(&source, Vectorization::Never, 1, [64, 1, 1], 0).unwrap_err();
    assert!(alone.contains("thread [37, 0, 0]"), "{alone}");
    let together = run(&source, Vectorization::Always, 1, [64, 1, 1], 0);
    assert_eq!(together.unwrap_err(), alone);
}

/// The message without addresses: each run has an arena of its own.
fn hide(message: &str) -> String {
    let mut words = message.split("0x");
    let mut hidden = words.next().unwrap_or_default().to_owned();
    for word in words {
        hidden.push_str("ADDRESS");
        hidden.push_str(word.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    hidden
}

/// The fault names the thread that did it, not its group.
#[test]
fn faults_name_the_thread() {
    let beyond = format!(
        "{ADDRESSES} add.u32 %r3, %i, 3991; mul.wide.u32 %x0, %r3, 4; add.u64 %x2, %out, %x0; st.global.u32 [%x2], %i;"
    );
    let shared =
        "mov.u32 %r10, tile; mad.lo.u32 %r10, %r2, 4, %r10; st.shared.u32 [%r10+3980], %i;"
            .to_owned();
    for body in [beyond, shared] {
        let source = kernel(&body);
        let alone = run(&source, Vectorization::Never, 1, [128, 1, 1], 0).unwrap_err();
        let together = run(&source, Vectorization::Always, 1, [128, 1, 1], 0).unwrap_err();
        assert_eq!(together, alone);
        assert!(!alone.contains("thread [0, 0, 0]"), "{alone}");
    }
}

/// Of lanes whose addresses are checked together, the first that is out of bounds is named.
#[test]
fn faults_name_the_lane() {
    for (start, stride, access) in [
        ("0", "132", "ld.shared.u32 %r6, [%r4]"),
        ("0", "132", "ld.shared.u32 %r6, [%r4+8]"),
        ("16", "100", "st.shared.u32 [%r4+-8], %i"),
        ("4", "132", "ld.shared.u32 %r6, [%r4+-8]"),
        ("2", "64", "ld.shared.u32 %r6, [%r4]"),
        ("3996", "-132", "ld.shared.u32 %r6, [%r4]"),
        ("3996", "-100", "st.shared.u32 [%r4+4], %i"),
        ("0", "33", "ld.shared.u32 %r6, [%r4]"),
        ("0", "80", "st.shared.v2.u32 [%r4+8], {%i, %i}"),
        ("0xFFFFFF00", "80", "atom.shared.add.u32 %r6, [%r4], 1"),
    ] {
        // The second has nothing in common with its neighbours.
        for scatter in [
            "",
            "xor.b32 %r5, %r2, 9; mad.lo.u32 %r4, %r5, %r7, %r11; add.u32 %r4, %r4, %r8;",
        ] {
            let source = kernel(&format!(
                "{FILL}\n mov.u32 %r7, {stride}; mov.u32 %r8, {start}; mad.lo.u32 %r4, %r2, {stride}, %r11; add.u32 %r4, %r4, {start}; {scatter}\n\
                 {access};\n st.global.u32 [%out], %r6;"
            ));
            let alone = run(&source, Vectorization::Never, 1, [128, 1, 1], 0).unwrap_err();
            let together = run(&source, Vectorization::Always, 1, [128, 1, 1], 0).unwrap_err();
            assert_eq!(together, alone, "{start} {stride} {access}");
        }
    }
}

/// The same in global memory, at the end of an allocation.
#[test]
fn faults_name_the_lane_in_global_memory() {
    for (start, stride, access) in [
        ("15000", "6", "ld.global.u16 %r6, [%x3]"),
        ("16000", "4", "ld.global.u8 %r6, [%x3+100]"),
        ("15900", "8", "st.global.v2.u8 [%x3+1], {%i, %i}"),
        ("15900", "8", "st.global.v2.u16 [%x3], {%i, %i}"),
        ("500", "-8", "ld.global.u16 %r6, [%x3]"),
        ("500", "-8", "ld.global.u16 %r6, [%x3+-20]"),
        ("1", "4", "ld.global.u16 %r6, [%x3]"),
    ] {
        let source = kernel(&format!(
            "cvt.u64.u32 %x4, %i; mul.lo.u64 %x3, %x4, {stride}; add.u64 %x3, %x3, {start}; add.u64 %x3, %x3, %in;\n\
             {access};\n st.global.u32 [%out], %r6;"
        ));
        for grid in [1, 4] {
            let alone = run(&source, Vectorization::Never, grid, [128, 1, 1], 0);
            let together = run(&source, Vectorization::Always, grid, [128, 1, 1], 0);
            assert_eq!(together, alone, "{start} {stride} {access}");
        }
    }
    for (stride, at, load) in [
        (4, 1, "u8 %r4"),
        (4, 3, "b8 %r4"),
        (4, 2, "u16 %r4"),
        (4, 2, "s16 %r4"),
        (8, 0, "b16 %r4"),
        (8, 7, "u8 %r4"),
        (8, 6, "u16 %r4"),
        (8, 4, "u32 %r4"),
        (8, 12, "f32 %f0"),
    ] {
        for space in ["global", "shared"] {
            let base = match space {
                "global" => "mad.wide.u32 %x3, %i, STRIDE, %in;",
                _ => "mad.lo.u32 %r3, %r12, STRIDE, %r11; cvt.u64.u32 %x3, %r3;",
            };
            let base = base.replace("STRIDE", &stride.to_string());
            agree(&format!(
                "{ADDRESSES} {FILL} {base} mov.u32 %r4, 0; mov.f32 %f0, 0f00000000; ld.{space}.{load}, [%x3+{at}]; \
                 mov.b32 %r5, %f0; mad.lo.u32 %r9, %r4, 3, %r5; add.u32 %r9, %r9, %i; st.global.u32 [%x2], %r9;"
            ));
        }
    }
    let near = "mul.lo.u32 %r3, %i, 8; cvt.u64.u32 %x3, %r3; add.u64 %x3, %x3, %in;";
    agree(&format!(
        "{ADDRESSES} {near} ld.global.u16 %r4, [%x3+2]; ld.global.u8 %r5, [%x3+7]; mad.lo.u32 %r9, %r4, 3, %r5; \
         st.global.u32 [%x2], %r9; mul.lo.u32 %r3, %i, 4; add.u64 %x4, %out, 8192; cvt.u64.u32 %x3, %r3; add.u64 %x4, %x4, %x3; \
         st.global.u16 [%x4+2], %r4;"
    ));
}
