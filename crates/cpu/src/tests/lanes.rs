//! Threads that run together in vectors do what each would do alone.

use std::sync::Arc;

use crate::memory::{DeviceMemory, Purpose};
use crate::module::LoadedModule;
use crate::run::{Engine, LaunchConfig};
use crate::source::compile_image;
use crate::{CompileOptions, Vectorization};

const WORDS: usize = 4096;

/// A kernel `k(in, out, n)` over 32-bit words, with usual registers.
fn kernel(body: &str) -> String {
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
fn run(
    source: &str,
    vectorization: Vectorization,
    grid: u32,
    block: [u32; 3],
    n: u32,
) -> Result<Vec<u32>, String> {
    let options = CompileOptions { vectorization };
    let image = compile_image(source, &options).map_err(|e| e.to_string())?;
    assert_eq!(
        image.kernels[0].vector.is_some(),
        vectorization == Vectorization::Always
    );
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
        shared_bytes: 0,
        cluster: [1; 3],
    };
    engine
        .launch(&module, 0, config, &params)
        .map_err(|f| format!("thread {:?}: {}", f.thread, hide(&f.message)))?;
    // SAFETY: as above.
    Ok(unsafe { std::slice::from_raw_parts(b as *const u32, WORDS) }.to_vec())
}

/// Together and alone must agree, and something must have been written.
fn agree(body: &str) {
    let source = kernel(body);
    for (grid, block, n) in [
        (4, [64, 1, 1], 256),
        (3, [64, 1, 1], 150),
        (1, [16, 16, 1], 256),
        (2, [32, 2, 1], 77),
        (1, [24, 2, 1], 48),
    ] {
        let alone = run(&source, Vectorization::Never, grid, block, n);
        let together = run(&source, Vectorization::Always, grid, block, n);
        assert_eq!(
            together, alone,
            "{body}\n{grid} blocks of {block:?}, n = {n}"
        );
        let written = alone.map(|words| words.iter().any(|&w| w != 0));
        assert_eq!(written, Ok(true), "{body}");
    }
}

const ADDRESSES: &str = "mul.wide.u32 %x0, %i, 4; add.u64 %x1, %in, %x0; add.u64 %x2, %out, %x0;";

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

#[test]
fn gathers_and_atomics() {
    agree(&format!(
        "{ADDRESSES} ld.global.u32 %r3, [%x1]; and.b32 %r3, %r3, 1023; mul.wide.u32 %x3, %r3, 4; \
         add.u64 %x3, %in, %x3; ld.global.u32 %r4, [%x3]; st.global.u32 [%x2], %r4; \
         and.b32 %r5, %r4, 7; mul.wide.u32 %x4, %r5, 4; add.u64 %x4, %out, %x4; \
         red.global.add.u32 [%x4+8192], 1; atom.global.max.u32 %r6, [%x4+12288], %r4;"
    ));
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
