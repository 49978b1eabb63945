//! The kernels that tests launch.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

use ptxkit::driver::api::{CUfunction, CUmodule, CUstream};

pub const PTX: &CStr = c"
.version 8.0
.target sm_90
.address_size 64
.global .align 4 .u32 counter = 7;

.visible .entry add(.param .u64 out, .param .u32 value, .param .u16 half)
{
    .reg .b16 %h;
    .reg .b32 %r<4>;
    .reg .b64 %a<3>;
    ld.param.u64 %a0, [out];
    ld.param.u32 %r0, [value];
    ld.param.u16 %h, [half];
    cvt.u32.u16 %r1, %h;
    add.u32 %r0, %r0, %r1;
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %a1, %r2, 4;
    add.u64 %a0, %a0, %a1;
    add.u32 %r0, %r0, %r2;
    st.global.u32 [%a0], %r0;
    ret;
}

.visible .entry small() .maxntid 64
{
    .shared .align 4 .b8 room[1024];
    ret;
}

.visible .entry spin(.param .u64 flag)
{
    .reg .pred %p;
    .reg .b32 %r;
    .reg .b64 %a;
    ld.param.u64 %a, [flag];
LOOP:
    ld.volatile.global.u32 %r, [%a];
    setp.eq.u32 %p, %r, 0;
    @%p bra LOOP;
    ret;
}
";

pub fn load(ptx: &CStr) -> CUmodule {
    let mut module = null_mut();
    ok!(cuModuleLoadData(&mut module, ptx.as_ptr().cast()));
    module
}

pub fn kernel(module: CUmodule, name: &CStr) -> CUfunction {
    let mut function = null_mut();
    ok!(cuModuleGetFunction(&mut function, module, name.as_ptr()));
    function
}

/// Launches one block, with a pointer to each argument.
pub fn launch(
    function: CUfunction,
    threads: u32,
    shared: u32,
    stream: CUstream,
    arguments: &mut [*mut c_void],
) -> i32 {
    cu!(cuLaunchKernel(
        function,
        1,
        1,
        1,
        threads,
        1,
        1,
        shared,
        stream,
        arguments.as_mut_ptr(),
        null_mut()
    ))
}
