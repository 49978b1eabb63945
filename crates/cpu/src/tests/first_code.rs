//! The first code of kernels: the loop over threads around it, and the checks that unwind it.

use std::sync::Arc;

use crate::CompileOptions;
use crate::abi::FaultKind;
use crate::memory::{DeviceMemory, Purpose};
use crate::module::LoadedModule;
use crate::run::{Engine, Fault, LaunchConfig};
use crate::source::compile_image;

const BYTES: usize = 4096;

/// A kernel `k(out)` whose `body` is line 4, with `%out` and registers to use; what `out` has after a
/// launch of one block.
fn launch(block: [u32; 3], body: &str) -> (Vec<u8>, Result<(), Box<Fault>>, u64) {
    let source = format!(
        ".version 9.0\n.target sm_100\n.address_size 64\n\
         .visible .entry k(.param .u64 k_out) {{ .reg .b64 %out, %d<8>; .reg .b32 %r<16>; \
         .reg .b16 %h<4>; .reg .pred %p<4>; .shared .align 16 .b8 buffer[256]; \
         ld.param.u64 %out, [k_out]; {body}\nret;\n}}\n"
    );
    let image = compile_image(&source, &CompileOptions::default())
        .unwrap_or_else(|error| panic!("{body}: {error}"));
    let memory = Arc::new(DeviceMemory::with_size(32 << 20).unwrap());
    let module = LoadedModule::of_image(image, &memory).unwrap();
    let out = memory.allocate(BYTES as u64, 256, Purpose::Device).unwrap();
    // SAFETY: the allocation made above.
    unsafe { std::ptr::write_bytes(out as *mut u8, 0, BYTES) };
    let config = LaunchConfig {
        grid: [1; 3],
        block,
        shared_bytes: 0,
        cluster: [1; 3],
    };
    let engine = Engine::with_workers(memory, 1);
    let result = engine.launch(&module, 0, config, &out.to_le_bytes());
    // SAFETY: the same allocation, which no kernel uses now.
    let bytes = unsafe { std::slice::from_raw_parts(out as *const u8, BYTES) };
    (bytes.to_vec(), result, out)
}

fn words(bytes: &[u8]) -> Vec<u32> {
    let words = bytes.chunks(4).map(|word| word.try_into().unwrap());
    words.map(u32::from_le_bytes).collect()
}

/// Behind a barrier too, where threads resume.
#[test]
fn threads_have_their_coordinates() {
    let axes = [("x", 1), ("y", 100), ("z", 10_000)];
    for block in [
        [1, 1, 1],
        [7, 1, 1],
        [1, 6, 1],
        [1, 1, 5],
        [3, 5, 2],
        [4, 1, 3],
        [33, 2, 4],
    ] {
        for used in 0..16 {
            let axes = || (0..).zip(axes).filter(|(axis, _)| used >> axis & 1 != 0);
            let mut body = String::from("mov.u32 %r0, 1;");
            if used & 8 != 0 {
                body += "bar.sync 0;";
            }
            for (_, (axis, weight)) in axes() {
                body += &format!("mov.u32 %r1, %tid.{axis}; mad.lo.u32 %r0, %r1, {weight}, %r0;");
            }
            // Each thread appends its own: they run in their order.
            body += "ld.global.u32 %r2, [%out]; add.u32 %r3, %r2, 1; st.global.u32 [%out], %r3; \
                     mul.wide.u32 %d0, %r2, 4; add.u64 %d0, %d0, %out; st.global.u32 [%d0+4], %r0;";
            let (bytes, result, _) = launch(block, &body);
            result.unwrap_or_else(|fault| panic!("{fault}"));
            let count = block.iter().product::<u32>();
            let expected = (0..count).map(|thread| {
                let [x, y, _] = block;
                let tid = [thread % x, thread / x % y, thread / x / y];
                1 + axes()
                    .map(|(axis, (_, weight))| tid[axis] * weight)
                    .sum::<u32>()
            });
            let expected: Vec<u32> = std::iter::once(count).chain(expected).collect();
            assert_eq!(
                words(&bytes)[..expected.len()],
                expected,
                "{block:?} {body}"
            );
        }
    }
}

/// The third thread of four makes a bad access, with values in registers that live across all checks.
#[test]
fn a_bad_access_ends_the_launch_at_its_thread() {
    let accesses = [
        ("u8", "%h1", 1),
        ("u16", "%h1", 2),
        ("u32", "%r8", 4),
        ("u64", "%d6", 8),
        ("v2.u64", "{%d6, %d7}", 16),
        ("v4.u64", "{%d6, %d7, %d6, %d7}", 32),
    ];
    let mut checked = 0;
    for (ty, operand, size) in accesses {
        for (space, end, is_store, misaligned) in [
            ("global", BYTES as u64, false, false),
            ("global", BYTES as u64, true, false),
            ("global", 0, false, true),
            ("shared", 256, false, false),
            ("shared", 256, true, false),
            ("shared", 0, true, true),
        ] {
            let offset = match misaligned {
                true if size == 1 => continue,
                true => size / 2,
                false => end,
            };
            if size == 32 && space == "shared" {
                continue;
            }
            let start = match space {
                "global" => "mov.u64 %d1, %out;",
                _ => "mov.u64 %d1, buffer;",
            };
            let access = if is_store {
                format!("st.{space}.{ty} [%d2], {operand};")
            } else {
                format!("ld.{space}.{ty} {operand}, [%d2];")
            };
            // By the block's number: lanes do not wait for others of their warp then.
            let body = format!(
                "mov.u32 %r0, %tid.x; mul.lo.u32 %r1, %r0, 3; mul.lo.u32 %r2, %r0, 5; {start} \
                 mov.u32 %r4, %ctaid.x; add.u32 %r4, %r4, %r0; setp.eq.u32 %p0, %r4, 2; selp.u64 %d3, {offset}, 0, %p0; add.u64 %d2, %d1, %d3;\n{access}\n\
                 xor.b32 %r3, %r1, %r2; mul.wide.u32 %d4, %r0, 4; add.u64 %d4, %d4, %out; \
                 add.u32 %r3, %r3, 100; st.global.u32 [%d4+64], %r3;"
            );
            let (bytes, result, out) = launch([4, 1, 1], &body);
            let fault = result.expect_err(&body);
            let kind = if misaligned {
                FaultKind::Misaligned
            } else {
                FaultKind::OutOfBounds
            };
            let base = if space == "global" { out } else { 0 };
            assert_eq!(
                (fault.kind, fault.thread, fault.line, fault.address),
                (kind, [2, 0, 0], Some(5), Some(base + offset)),
                "{body}"
            );
            let access = fault.access.expect("an access");
            assert_eq!(
                (access.writes, access.size),
                (is_store, size as u32),
                "{body}"
            );
            assert_eq!(words(&bytes)[16..20], [100, 106, 0, 0], "{body}");
            checked += 1;
        }
    }
    assert_eq!(checked, 5 * 6 + 3 - 2);
}

#[test]
fn a_bad_access_behind_a_barrier_ends_the_launch() {
    let body = "mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 4; add.u64 %d1, %d1, %out; bar.sync 0;\n\
        setp.eq.u32 %p0, %r0, 5; @%p0 add.u64 %d1, %d1, 4096;\nst.global.u32 [%d1], 7;";
    let (bytes, result, out) = launch([8, 1, 1], body);
    let fault = result.expect_err("it is out of bounds");
    assert_eq!((fault.thread, fault.line), ([5, 0, 0], Some(6)));
    assert_eq!(fault.address, Some(out + 4096 + 20));
    assert_eq!(words(&bytes)[..8], [7, 7, 7, 7, 7, 0, 0, 0]);
}

/// A second block that is a loop, a table whose targets all end, and registers that are read before they
/// are written.
#[test]
fn kernels_start_and_end_in_any_block() {
    let (bytes, result, _) = launch(
        [3, 1, 1],
        "again: ld.global.u32 %r0, [%out]; add.u32 %r0, %r0, 1; st.global.u32 [%out], %r0; \
         rem.u32 %r1, %r0, 5; setp.ne.u32 %p0, %r1, 0; @%p0 bra again;",
    );
    result.unwrap();
    assert_eq!(words(&bytes)[0], 15);
    let (bytes, result, _) = launch(
        [4, 1, 1],
        "mov.u32 %r0, %tid.x; mul.wide.u32 %d0, %r0, 4; add.u64 %d0, %d0, %out; \
         setp.gt.u32 %p0, %r0, 2; @%p0 ret; \
         table: .branchtargets first, last, last; brx.idx %r0, table; \
         first: st.global.u32 [%d0], 9; last:",
    );
    result.unwrap();
    assert_eq!(words(&bytes)[..4], [9, 0, 0, 0]);
    let (bytes, result, _) = launch(
        [3, 1, 1],
        "ld.global.u32 %r0, [%out]; add.u32 %r1, %r1, %r0; add.u32 %r1, %r1, 1; st.global.u32 [%out], %r1;",
    );
    result.unwrap();
    assert_eq!(words(&bytes)[0], 3);
}

#[test]
fn kernels_may_be_empty() {
    let text = ".version 9.0\n.target sm_100\n.address_size 64\n.visible .entry k() { ret; }\n";
    let image = compile_image(text, &CompileOptions::default()).unwrap();
    let memory = Arc::new(DeviceMemory::with_size(32 << 20).unwrap());
    let module = LoadedModule::of_image(image, &memory).unwrap();
    let config = LaunchConfig {
        grid: [3, 1, 1],
        block: [5, 2, 1],
        shared_bytes: 0,
        cluster: [1; 3],
    };
    let engine = Engine::with_workers(memory, 1);
    engine.launch(&module, 0, config, &[]).unwrap();
}

/// Values of all kinds live across checks of which the slow path finds the access right, and of those
/// one that is wrong in local memory.
#[test]
fn values_live_across_slow_checks() {
    let mut body = String::from("cvt.u32.u64 %r1, %out;");
    for n in 0..20 {
        body += &format!(
            "add.u32 %n{n}, %r1, {n}; mov.u32 %r2, {}; cvt.rn.f32.u32 %f{n}, %r2;",
            3 * n
        );
    }
    body += "ld.global.u32 %r3, [%out]; st.global.u32 [%out+4], %r3; mov.u32 %r4, 0; mov.f32 %f20, 0f00000000;";
    for n in 0..20 {
        body += &format!("sub.u32 %n{n}, %n{n}, %r1; mad.lo.u32 %r4, %n{n}, {n}, %r4;");
        body += &format!("add.f32 %f20, %f20, %f{n};");
    }
    body += "st.global.u32 [%out+8], %r4; st.global.f32 [%out+12], %f20;";
    let text = format!(
        ".version 9.0\n.target sm_100\n.address_size 64\n.visible .entry k(.param .u64 k_out) {{ \
         .reg .b64 %out; .reg .b32 %r<8>, %n<20>; .reg .f32 %f<21>; ld.param.u64 %out, [k_out];\n{body}\nret; }}\n"
    );
    let image = compile_image(&text, &CompileOptions::default()).unwrap();
    let memory = Arc::new(DeviceMemory::with_size(32 << 20).unwrap());
    let module = LoadedModule::of_image(image, &memory).unwrap();
    let mut host = vec![0_u32; 64];
    host[0] = 77;
    let address = host.as_mut_ptr() as u64;
    // SAFETY: nobody else uses the vector until the end of the registration.
    unsafe { memory.register(address, 256) }.unwrap();
    let config = LaunchConfig {
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        cluster: [1; 3],
    };
    let engine = Engine::with_workers(Arc::clone(&memory), 1);
    engine
        .launch(&module, 0, config, &address.to_le_bytes())
        .unwrap();
    memory.unregister(address).unwrap();
    let squares = (0..20).map(|n| n * n).sum::<u32>();
    let sum = (0..20).map(|n| 3.0 * n as f32).sum::<f32>();
    assert_eq!(host[..4], [77, 77, squares, sum.to_bits()]);
}

#[test]
fn a_bad_access_to_local_memory_ends_the_launch() {
    let body = ".local .align 4 .b8 own[16]; mov.u32 %r0, %tid.x; mov.u64 %d1, own; \
        mul.wide.u32 %d0, %r0, 8; add.u64 %d1, %d1, %d0;\nst.local.u32 [%d1], 5;\n\
        mul.wide.u32 %d0, %r0, 4; add.u64 %d0, %d0, %out; st.global.u32 [%d0], 1;";
    let (bytes, result, _) = launch([4, 1, 1], body);
    let fault = result.expect_err("it is out of bounds");
    assert_eq!((fault.thread, fault.line), ([2, 0, 0], Some(5)));
    assert_eq!(words(&bytes)[..4], [1, 1, 0, 0]);
}
