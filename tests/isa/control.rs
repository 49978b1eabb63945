//! Moves, guards, branches and the spaces of memory.

use ptxkit::cpu::Vectorization;

use crate::kernels::{Kernels, device};
use crate::row::{Row, check};

pub const MOVES: &[Row] = &[
    // A register plus a constant is an operand.
    ("mov.u32 %rd, %r0+5;", &[0xFFFF_FFFE], 3),
    ("add.u64 %d, %a0+5, %a1;", &[0xFFFF_FFFE, 1], 0x1_0000_0004),
    (
        "mov.b64 {%r4, %r5}, %a0; mov.b64 %d, {%r5, %r4};",
        &[0x1_0000_0002],
        0x2_0000_0001,
    ),
    (
        "mov.b32 {%h0, %h1}, %r0; mov.b32 %r1, {%h1, %h0}; cvt.u64.u32 %d, %r1;",
        &[0x1234_5678],
        0x5678_1234,
    ),
    ("mov.f32 %fd, %f0;", &[0xFFFF_FFFF], 0xFFFF_FFFF),
    ("mov.u32 %rd, WARP_SZ;", &[], 32),
    // An index counts elements.
    (
        "{ .shared .align 4 .b32 a[64]; .local .b64 b[3]; mov.u32 %r4, a[0]; mov.u32 %r5, %tid.x; shl.b32 %r5, %r5, 2; add.u32 %r4, %r4, %r5; st.shared.u32 [%r4+4], %r0; st.local.u64 b[2], %a1; bar.warp.sync -1; mov.u32 %r6, a[1]; add.u32 %r6, %r6, %r5; ld.shared.u32 %r7, [%r6]; mov.u64 %x0, b[0]; ld.local.u64 %x1, [%x0+16]; cvt.u64.u32 %d, %r7; add.u64 %d, %d, %x1; }",
        &[77, 1000],
        1077,
    ),
    (
        "mov.b64 %d, {%h0, %h0, %h0, %h0};",
        &[0xABCD],
        0xABCD_ABCD_ABCD_ABCD,
    ),
];

pub const CONTROL: &[Row] = &[
    (
        "setp.eq.u32 %p0, %r0, 1; mov.u64 %d, 5; @%p0 mov.u64 %d, 6;",
        &[1],
        6,
    ),
    (
        "setp.eq.u32 %p0, %r0, 1; mov.u64 %d, 5; @!%p0 mov.u64 %d, 6;",
        &[1],
        5,
    ),
    // The guard's own register changes under it.
    (
        "setp.eq.u32 %p0, %r0, 1; mov.u64 %d, 5; @%p0 div.u32 %r2, %r0, 1; @%p0 setp.eq.u32 %p0, %r0, 2; @%p0 mov.u64 %d, 7;",
        &[1],
        5,
    ),
    (
        "mov.u32 %r4, 0; mov.u32 %r5, 0; L: add.u32 %r5, %r5, %r4; add.u32 %r4, %r4, 1; setp.lt.u32 %p0, %r4, %r0; @%p0 bra L; cvt.u64.u32 %d, %r5;",
        &[10],
        45,
    ),
    (
        "setp.eq.u32 %p0, %r0, 1; @%p0 bra A; mov.u64 %d, 1; bra.uni B; A: mov.u64 %d, 2; B: add.u64 %d, %d, 10;",
        &[1],
        12,
    ),
    (
        "T: .branchtargets A, B, C; brx.idx %r0, T; A: mov.u64 %d, 1; bra E; B: mov.u64 %d, 2; bra E; C: mov.u64 %d, 3; E:",
        &[2],
        3,
    ),
    (
        "{ .reg .pred q; setp.eq.u32 q, %r0, 3; @q bra X; mov.u64 %d, 1; X: } { .reg .pred q; setp.eq.u32 q, %r0, 4; @q bra X; add.u64 %d, %d, 1; X: }",
        &[3],
        1,
    ),
];

pub const MEMORY: &[Row] = &[
    // Variables of the module that a function declares.
    (
        "{ .global .b32 from[4] = {1, 2, 3, 4}; .const .b32 of[2] = {5, 6}; \
         ld.global.b32 %rd, [from+4]; ld.const.b32 %r4, [of+4]; add.u32 %rd, %rd, %r4; }",
        &[],
        8,
    ),
    (
        "{ .shared .align 8 .b8 m[64]; st.shared.u64 [m+8], %a0; mov.u32 %r4, m; ld.shared.u64 %d, [%r4+8]; }",
        &[0x1234_5678_9ABC_DEF0],
        0x1234_5678_9ABC_DEF0,
    ),
    (
        "{ .local .align 8 .b8 m[64]; .reg .b64 p, q; mov.u64 p, m; cvta.local.u64 q, p; st.u32 [q+12], %r0; ld.local.u32 %r1, [p+12]; cvt.u64.u32 %d, %r1; }",
        &[77],
        77,
    ),
    (
        "{ .shared .align 8 .b8 m[64]; .reg .b64 p; mov.u64 p, m; cvta.shared.u64 p, p; st.v2.u32 [p], {%r0, %r1}; ld.shared.u64 %d, [m]; isspacep.shared %p0, p; @!%p0 mov.u64 %d, 0; }",
        &[1, 2],
        2 << 32 | 1,
    ),
    (
        "st.global.u8 [%out], %r0; ld.global.s8 %r1, [%out]; cvt.s64.s32 %d, %r1;",
        &[0x80],
        -128_i64 as u64,
    ),
    (
        "st.global.u16 [%out+2], %r0; ld.global.u16 %hd, [%out+2];",
        &[0x1_8001],
        0x8001,
    ),
    (
        "st.volatile.global.u32 [%out], %r0; fence.sc.gpu; ld.acquire.gpu.global.u32 %rd, [%out];",
        &[9],
        9,
    ),
    (
        "{ .shared .align 16 .b8 m[16]; .reg .b32 p; mov.u32 p, m; cp.async.ca.shared.global [p], [%in+8], 8; cp.async.commit_group; cp.async.wait_group 0; ld.shared.u64 %d, [m]; }",
        &[1, 42],
        42,
    ),
    // A cache policy is no number of bytes.
    (
        "{ .shared .align 16 .b8 m[16]; .reg .b32 p; .reg .b64 policy; mov.u32 p, m; createpolicy.fractional.L2::evict_first.b64 policy, 1.0; cp.async.cg.shared.global.L2::cache_hint [p], [%in], 16, policy; cp.async.wait_all; ld.shared.u64 %d, [m+8]; }",
        &[0, 7],
        7,
    ),
    (
        "{ .shared .align 16 .b8 m[16]; .reg .b32 p; mov.u32 p, m; st.shared.u64 [m+8], %a0; cp.async.cg.shared.global [p], [%in], 16, 4; cp.async.wait_all; ld.shared.v2.u64 {%d, %x0}, [m]; add.u64 %d, %d, %x0; }",
        &[0x5_0000_0007],
        7,
    ),
];

#[test]
fn moves() {
    check(MOVES);
}

#[test]
fn guards_and_branches() {
    check(CONTROL);
}

#[test]
fn memory_spaces() {
    check(MEMORY);
}

/// A register and what it holds in a thread of a block of `THREADS`.
type Special = (&'static str, fn(u32) -> u32);

const THREADS: u32 = 40;

#[test]
fn special_registers() {
    const REGISTERS: &[Special] = &[
        ("%tid.x", |thread| thread),
        ("%tid.y", |_| 0),
        ("%ntid.x", |_| THREADS),
        ("%ctaid.x", |_| 0),
        ("%nctaid.x", |_| 1),
        ("%laneid", |thread| thread % 32),
        ("%lanemask_eq", |thread| 1 << (thread % 32)),
        ("%lanemask_lt", |thread| (1 << (thread % 32)) - 1),
        ("%lanemask_le", |thread| u32::MAX >> (31 - thread % 32)),
        ("%lanemask_gt", |thread| !(u32::MAX >> (31 - thread % 32))),
        ("%lanemask_ge", |thread| u32::MAX << (thread % 32)),
    ];
    let bodies: Vec<String> = REGISTERS
        .iter()
        .map(|(register, _)| format!("mov.u32 %rd, {register};"))
        .collect();
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    for lanes in [Vectorization::Never, Vectorization::Always] {
        let kernels = Kernels::load(&device(), &bodies, lanes);
        for (number, (register, value)) in REGISTERS.iter().enumerate() {
            let expected: Vec<u64> = (0..THREADS).map(|t| u64::from(value(t))).collect();
            let found = kernels.run(number, &[[0; 4]; THREADS as usize]);
            assert_eq!(found, Ok(expected), "{register}");
        }
    }
}
