//! The kernels of these tests.

/// `vecadd(a, b, sum, n)`, one thread an element.
pub const VECADD: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry vecadd(.param .u64 a, .param .u64 b, .param .u64 sum, .param .u32 n)
{
    .reg .pred %p;
    .reg .b32 %r<6>;
    .reg .f32 %f<3>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    ld.param.u64 %rd3, [sum];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p, %r5, %r1;
    @%p ret;
    mul.wide.u32 %rd4, %r5, 4;
    add.s64 %rd5, %rd1, %rd4;
    add.s64 %rd6, %rd2, %rd4;
    add.s64 %rd7, %rd3, %rd4;
    ld.global.f32 %f1, [%rd5];
    ld.global.f32 %f2, [%rd6];
    add.f32 %f1, %f1, %f2;
    st.global.f32 [%rd7], %f1;
    ret;
}
";

/// `mixed(flag: u8, short: u16, wide: f64, vector: 16 bytes, out)`: writes what
/// it got as five 8-byte words, of the vector the two halves.
pub const MIXED: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry mixed(.param .u8 flag, .param .u16 short, .param .f64 wide,
                      .param .align 16 .b8 vector[16], .param .u64 out)
{
    .reg .b16 %h<3>;
    .reg .b64 %rd<8>;
    .reg .f64 %d<2>;
    ld.param.u64 %rd1, [out];
    ld.param.u8 %h1, [flag];
    cvt.u64.u16 %rd2, %h1;
    st.global.u64 [%rd1], %rd2;
    ld.param.u16 %h2, [short];
    cvt.u64.u16 %rd3, %h2;
    st.global.u64 [%rd1+8], %rd3;
    ld.param.f64 %d1, [wide];
    st.global.f64 [%rd1+16], %d1;
    ld.param.v2.u64 {%rd4, %rd5}, [vector];
    st.global.u64 [%rd1+24], %rd4;
    st.global.u64 [%rd1+32], %rd5;
    ret;
}
";

/// `place(out)`: each thread writes its number in the whole grid, at that number.
pub const PLACE: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry place(.param .u64 out)
{
    .reg .b32 %r<20>;
    .reg .b64 %rd<4>;
    mov.u32 %r1, %ctaid.z;
    mov.u32 %r2, %nctaid.y;
    mov.u32 %r3, %ctaid.y;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    mov.u32 %r5, %nctaid.x;
    mov.u32 %r6, %ctaid.x;
    mad.lo.u32 %r7, %r4, %r5, %r6;
    mov.u32 %r8, %ntid.z;
    mov.u32 %r9, %tid.z;
    mad.lo.u32 %r10, %r7, %r8, %r9;
    mov.u32 %r11, %ntid.y;
    mov.u32 %r12, %tid.y;
    mad.lo.u32 %r13, %r10, %r11, %r12;
    mov.u32 %r14, %ntid.x;
    mov.u32 %r15, %tid.x;
    mad.lo.u32 %r16, %r13, %r14, %r15;
    ld.param.u64 %rd1, [out];
    mul.wide.u32 %rd2, %r16, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r16;
    ret;
}
";

/// `reverse(data, n)`: reverses n words within one block, through dynamic
/// shared memory, at its far end: `n` words before `bytes`.
pub const REVERSE: &str = "
.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 4 .b8 tile[];
.visible .entry reverse(.param .u64 data, .param .u32 n, .param .u32 bytes)
{
    .reg .b32 %r<12>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [n];
    ld.param.u32 %r2, [bytes];
    mov.u32 %r3, %tid.x;
    mul.wide.u32 %rd2, %r3, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r4, [%rd3];
    mov.u32 %r5, tile;
    shl.b32 %r6, %r1, 2;
    sub.u32 %r7, %r2, %r6;
    add.u32 %r5, %r5, %r7;
    shl.b32 %r8, %r3, 2;
    add.u32 %r9, %r5, %r8;
    st.shared.u32 [%r9], %r4;
    bar.sync 0;
    sub.u32 %r10, %r6, %r8;
    add.u32 %r10, %r10, %r5;
    ld.shared.u32 %r11, [%r10+-4];
    st.global.u32 [%rd3], %r11;
    ret;
}
";

/// `scale(out)`: `out[i] = factors[i] * step`, from `.const` and `.global` data.
pub const SCALE: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .const .align 4 .f32 factors[4] = {0f3F800000, 0f40000000, 0f40400000, 0f40800000};
.visible .global .align 4 .f32 step = 0f41200000;
.visible .entry scale(.param .u64 out)
{
    .reg .b32 %r<2>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<7>;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd1, %r1, 4;
    mov.u64 %rd2, factors;
    add.s64 %rd3, %rd2, %rd1;
    ld.const.f32 %f1, [%rd3];
    ld.global.f32 %f2, [step];
    mul.f32 %f3, %f1, %f2;
    ld.param.u64 %rd4, [out];
    add.s64 %rd5, %rd4, %rd1;
    st.global.f32 [%rd5], %f3;
    ret;
}
";

/// `slow(data, rounds)`: one thread steps a generator `rounds` times and writes
/// where it ends.
pub const SLOW: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry slow(.param .u64 data, .param .u32 rounds)
{
    .reg .pred %p;
    .reg .b32 %r<4>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [rounds];
    mov.u32 %r2, 1;
AGAIN:
    mad.lo.u32 %r2, %r2, 1664525, 1013904223;
    sub.u32 %r1, %r1, 1;
    setp.ne.u32 %p, %r1, 0;
    @%p bra AGAIN;
    st.global.u32 [%rd1], %r2;
    ret;
}
";

/// What `slow` writes.
pub fn slow_result(rounds: u32) -> u32 {
    (0..rounds).fold(1_u32, |n, _| {
        n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)
    })
}

/// `stray(address)`: stores 4 bytes there.
pub const STRAY: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry stray(.param .u64 address)
{
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [address];
    st.global.u32 [%rd1], 1;
    ret;
}
";

/// `fixed(out)`: runs with blocks of 8 x 4 only; writes the threads of a block.
pub const FIXED: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry fixed(.param .u64 out)
.reqntid 8, 4, 1
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, %ntid.y;
    mul.lo.u32 %r3, %r1, %r2;
    st.global.u32 [%rd1], %r3;
    ret;
}
";

/// `add(data, n)`: one thread adds `n` to the word there.
pub const ADD: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 data, .param .u32 n)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [n];
    ld.global.u32 %r2, [%rd1];
    add.u32 %r3, %r2, %r1;
    st.global.u32 [%rd1], %r3;
    ret;
}
";

/// `structure(value, out)`: the float and the vector of a structure with 12
/// bytes of padding between them, as five words.
pub const STRUCTURE: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry structure(.param .align 16 .b8 value[32], .param .u64 out)
{
    .reg .b32 %r<6>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [value];
    ld.param.v4.u32 {%r2, %r3, %r4, %r5}, [value+16];
    st.global.u32 [%rd1], %r1;
    st.global.u32 [%rd1+4], %r2;
    st.global.u32 [%rd1+8], %r3;
    st.global.u32 [%rd1+12], %r4;
    st.global.u32 [%rd1+16], %r5;
    ret;
}
";

/// `trapped(n)`: ends abnormally if `n` is not 0.
pub const TRAPPED: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry trapped(.param .u32 n)
{
    .reg .pred %p;
    .reg .b32 %r<2>;
    ld.param.u32 %r1, [n];
    setp.ne.u32 %p, %r1, 0;
    @%p trap;
    ret;
}
";
