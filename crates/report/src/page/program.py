"""A program for the tests of the page: it uses the driver under its C names.

`ptxkit exec -- python program.py [NAME]`; NAME is that of one more kernel.
"""

import ctypes
import sys

MODULE = """\
.version 8.0
.target sm_80
.address_size 64
.file 1 "/home/user/src/scale.cu"
.file 2 "/home/user/src/scale.cuh"

.visible .entry _Z5scaleIfEvPT_i(.param .u64 p, .param .u32 n)
{
	.reg .pred %p<3>;
	.reg .f32 %f<3>;
	.reg .b32 %r<8>;
	.reg .b64 %rd<4>;

	.loc 1 12 3
	ld.param.u64 %rd1, [p];
	ld.param.u32 %r6, [n];
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ntid.x;
	mov.u32 %r3, %tid.x;
	mad.lo.u32 %r4, %r1, %r2, %r3;	// the index
	setp.ge.u32 %p1, %r4, %r6;
	@%p1 bra END;
	.loc 2 7 5
	mul.wide.u32 %rd2, %r4, 4;
	add.s64 %rd3, %rd1, %rd2;
	mov.u32 %r5, 0;
REST:
	ld.global.f32 %f1, [%rd3];
	fma.rn.f32 %f2, %f1, 0f3F800000, 0f3F800000;
	st.global.f32 [%rd3], %f2;
	add.u32 %r5, %r5, 1;
	setp.lt.u32 %p2, %r5, 16;
	@%p2 bra REST;
END:
	.loc 1 18 1
	ret;
}

.visible .entry fill(.param .u64 p)
{
	.reg .b32 %r<5>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ntid.x;
	mov.u32 %r3, %tid.x;
	mad.lo.u32 %r4, %r1, %r2, %r3;
	mul.wide.u32 %rd2, %r4, 4;
	add.s64 %rd3, %rd1, %rd2;
	shl.b32 %r4, %r4, 32;
	st.global.u32 [%rd3], %r4;
	ret;
}
"""
REFUSED = """\
.version 8.6
.target sm_100a
.address_size 64
.visible .entry shift(.param .u32 p)
{
	.reg .b32 %r<2>;
	ld.param.u32 %r1, [p];
	tcgen05.shift.cta_group::1.down [%r1];
	ret;
}
"""
EMPTY = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry {}() {{ ret; }}\n"

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments, allowed=()):
    status = getattr(cuda, name)(*arguments)
    assert status == 0 or status in allowed, f"{name}: {status}"


def module(text):
    handle = ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(handle), text.encode())
    return handle


def kernel(module, name):
    handle = ctypes.c_void_p()
    call("cuModuleGetFunction", ctypes.byref(handle), module, name.encode())
    return handle


def launch(function, blocks, threads, stream, *values):
    values = [value if isinstance(value, ctypes._SimpleCData) else ctypes.c_uint32(value) for value in values]
    pointers = (ctypes.c_void_p * max(len(values), 1))(*[ctypes.addressof(value) for value in values])
    call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, stream, pointers, None)


def main():
    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    count = 1 << 16
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    code = module(MODULE)
    scale, fill = kernel(code, "_Z5scaleIfEvPT_i"), kernel(code, "fill")
    for name in sys.argv[1:]:
        # The names of PTX are words, but a `$` may stand in them.
        launch(kernel(module(EMPTY.format(name)), name), 1, 32, None)
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(4 * count))
    host = (ctypes.c_float * count)()
    streams = [ctypes.c_void_p() for _ in range(3)]
    for stream in streams:
        call("cuStreamCreate", ctypes.byref(stream), 1)
    for turn in range(6):
        call("cuMemcpyHtoDAsync_v2", memory, host, ctypes.c_size_t(4 * count), streams[0])
        call("cuMemsetD32_v2", memory, 7, ctypes.c_size_t(count))
        for number, stream in enumerate(streams):
            launch(scale, count // 256 >> number, 256, stream, memory, count)
            launch(fill, 64, 128 << turn % 2, stream, memory)
        call("cuMemcpyDtoH_v2", host, memory, ctypes.c_size_t(4 * count))
    handle = ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(handle), REFUSED.encode(), allowed=[801])
    call("cuMemFree_v2", ctypes.c_uint64(12345), allowed=[1])
    call("cuCtxSynchronize")
    launch(fill, 1, 32, streams[1], ctypes.c_uint64(64))
    call("cuCtxSynchronize", allowed=[700])


main()
