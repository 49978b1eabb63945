//! The driver API of the CPU device as a C program meets it: numbers, handles
//! and pointers through the table.

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use ptxkit::cpu::api::table;
use ptxkit::driver::api::{
    CUcontext, CUdeviceptr, CUevent, CUfunction, CUlaunchConfig, CUmodule, CUstream,
};

/// Calls an entry and gives its number.
macro_rules! cu {
    ($entry:ident($($argument:expr),* $(,)?)) => {{
        let entry = table().$entry.expect(stringify!($entry));
        // SAFETY: each test passes what the entry's documentation asks for, or
        // what it must refuse without following it.
        unsafe { entry($($argument),*) }
    }};
}

/// Calls an entry that must succeed.
macro_rules! ok {
    ($entry:ident($($argument:expr),* $(,)?)) => {
        assert_eq!(cu!($entry($($argument),*)), 0, "{}: {}", stringify!($entry), detail())
    };
}

const INVALID_VALUE: i32 = 1;
const OUT_OF_MEMORY: i32 = 2;
const INVALID_DEVICE: i32 = 101;
const INVALID_CONTEXT: i32 = 201;
const INVALID_HANDLE: i32 = 400;
const NOT_READY: i32 = 600;
const CONTEXT_IS_DESTROYED: i32 = 709;
const NOT_PERMITTED: i32 = 800;

/// What the last failure had to say.
fn detail() -> String {
    let mut text = [0_u8; 512];
    cu!(ptxkitGetLastFault(text.as_mut_ptr().cast(), text.len()));
    CStr::from_bytes_until_nul(&text)
        .unwrap()
        .to_string_lossy()
        .into_owned()
}

/// A context of the test's own, current on its thread.
struct Current(CUcontext);

impl Current {
    fn new() -> Current {
        ok!(cuInit(0));
        let mut context = null_mut();
        ok!(cuCtxCreate_v2(&mut context, 0, 0));
        Current(context)
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        cu!(cuCtxDestroy_v2(self.0));
    }
}

fn stream(flags: u32) -> CUstream {
    let mut stream = null_mut();
    ok!(cuStreamCreate(&mut stream, flags));
    stream
}

fn event(flags: u32) -> CUevent {
    let mut event = null_mut();
    ok!(cuEventCreate(&mut event, flags));
    event
}

fn alloc(bytes: usize) -> CUdeviceptr {
    let mut address = 0;
    ok!(cuMemAlloc_v2(&mut address, bytes));
    address
}

fn upload(values: &[u32]) -> CUdeviceptr {
    let address = alloc(size_of_val(values));
    ok!(cuMemcpyHtoD_v2(
        address,
        values.as_ptr().cast(),
        size_of_val(values)
    ));
    address
}

fn download(address: CUdeviceptr, count: usize) -> Vec<u32> {
    let mut values = vec![0_u32; count];
    ok!(cuMemcpyDtoH_v2(
        values.as_mut_ptr().cast(),
        address,
        count * 4
    ));
    values
}

/// Holds a stream until it is opened.
struct Gate(AtomicBool);

impl Gate {
    fn close(stream: CUstream) -> &'static Gate {
        unsafe extern "C" fn wait(gate: *mut c_void) {
            // SAFETY: the argument is the leaked gate of `close`.
            let gate = unsafe { &*gate.cast::<Gate>() };
            while !gate.0.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        let gate: &'static Gate = Box::leak(Box::new(Gate(AtomicBool::new(false))));
        ok!(cuLaunchHostFunc(
            stream,
            Some(wait),
            std::ptr::from_ref(gate).cast_mut().cast()
        ));
        gate
    }

    fn open(&self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn a_device_says_what_it_is() {
    ok!(cuInit(0));
    let (mut device, mut value, mut bytes) = (-1, 0, 0);
    ok!(cuDeviceGet(&mut device, 0));
    let mut name = [0_u8; 128];
    ok!(cuDeviceGetName(name.as_mut_ptr().cast(), 128, device));
    let name = CStr::from_bytes_until_nul(&name).unwrap().to_str().unwrap();
    assert!(
        name.starts_with("CPU: ") && name.ends_with(" threads"),
        "{name}"
    );
    let mut cut = [1_u8; 4];
    ok!(cuDeviceGetName(cut.as_mut_ptr().cast(), 4, device));
    assert_eq!(&cut, b"CPU\0");
    ok!(cuDeviceGetAttribute(&mut value, 75, device));
    assert_eq!(value, 9);
    ok!(cuDeviceTotalMem_v2(&mut bytes, device));
    assert!(bytes >= 1 << 20);
    assert_eq!(cu!(cuDeviceGet(&mut device, 99)), INVALID_DEVICE);
    assert_eq!(cu!(cuDeviceGetAttribute(&mut value, 0, 0)), INVALID_VALUE);
    assert_eq!(cu!(cuDeviceGetCount(null_mut())), INVALID_VALUE);
}

#[test]
fn contexts_stack_up_on_each_thread() {
    let first = Current::new();
    let second = Current::new();
    let mut context = null_mut();
    ok!(cuCtxGetCurrent(&mut context));
    assert_eq!(context, second.0);
    ok!(cuCtxPopCurrent_v2(&mut context));
    assert_eq!(context, second.0);
    ok!(cuCtxGetCurrent(&mut context));
    assert_eq!(context, first.0);
    ok!(cuCtxSetCurrent(null_mut()));
    ok!(cuCtxGetCurrent(&mut context));
    assert!(context.is_null());
    let mut address = 0;
    assert_eq!(cu!(cuMemAlloc_v2(&mut address, 16)), INVALID_CONTEXT);
    assert_eq!(cu!(cuCtxPopCurrent_v2(&mut context)), INVALID_CONTEXT);
    ok!(cuCtxPushCurrent_v2(first.0));
    ok!(cuMemAlloc_v2(&mut address, 16));
    std::thread::spawn(move || {
        let mut context = null_mut();
        ok!(cuCtxGetCurrent(&mut context));
        assert!(context.is_null());
    })
    .join()
    .unwrap();
}

#[test]
fn a_destroyed_context_takes_its_objects_with_it() {
    let outer = Current::new();
    let doomed = Current::new();
    let (stream, event, memory) = (stream(0), event(0), alloc(64));
    let handle = doomed.0 as usize;
    let step = Barrier::new(2);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            ok!(cuCtxPushCurrent_v2(handle as CUcontext));
            step.wait();
            step.wait();
            let mut address = 0;
            assert_eq!(cu!(cuMemAlloc_v2(&mut address, 16)), CONTEXT_IS_DESTROYED);
        });
        step.wait();
        ok!(cuCtxDestroy_v2(doomed.0));
        step.wait();
    });
    let mut current = null_mut();
    ok!(cuCtxGetCurrent(&mut current));
    assert_eq!(current, outer.0);
    assert_eq!(cu!(cuCtxDestroy_v2(doomed.0)), INVALID_CONTEXT);
    assert_eq!(cu!(cuCtxPushCurrent_v2(doomed.0)), INVALID_CONTEXT);
    assert_eq!(cu!(cuStreamSynchronize(stream)), INVALID_HANDLE);
    assert_eq!(cu!(cuEventSynchronize(event)), INVALID_HANDLE);
    assert_eq!(cu!(cuMemsetD8_v2(memory, 0, 64)), INVALID_VALUE);
}

#[test]
fn wrong_and_freed_handles_are_refused() {
    let _context = Current::new();
    let (stream, event, memory) = (stream(0), event(0), alloc(64));
    assert_eq!(cu!(cuStreamSynchronize(event.cast())), INVALID_HANDLE);
    assert_eq!(cu!(cuEventQuery(stream.cast())), INVALID_HANDLE);
    assert_eq!(
        cu!(cuStreamQuery(0xdead_beef_usize as CUstream)),
        INVALID_HANDLE
    );
    ok!(cuStreamDestroy_v2(stream));
    assert_eq!(cu!(cuStreamDestroy_v2(stream)), INVALID_HANDLE);
    ok!(cuEventDestroy_v2(event));
    assert_eq!(cu!(cuEventDestroy_v2(event)), INVALID_HANDLE);
    ok!(cuMemFree_v2(memory));
    assert_eq!(cu!(cuMemFree_v2(memory)), INVALID_VALUE);
    assert!(detail().contains("cannot be freed"), "{}", detail());
}

#[test]
fn memory_is_checked_to_the_byte() {
    let _context = Current::new();
    let memory = alloc(100);
    let mut bytes = [7_u8; 101];
    ok!(cuMemsetD8_v2(memory, 5, 100));
    assert_eq!(cu!(cuMemsetD8_v2(memory, 5, 101)), INVALID_VALUE);
    assert_eq!(
        cu!(cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), memory, 101)),
        INVALID_VALUE
    );
    assert_eq!(
        cu!(cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), memory + 50, 51)),
        INVALID_VALUE
    );
    ok!(cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), memory, 100));
    assert_eq!((bytes[99], bytes[100]), (5, 7));
    assert_eq!(cu!(cuMemcpyHtoD_v2(memory, null(), 4)), INVALID_VALUE);
    ok!(cuMemcpyHtoD_v2(memory, null(), 0));
    assert_eq!(cu!(cuMemsetD32_v2(memory + 1, 0, 1)), INVALID_VALUE);
    let mut address = 0;
    assert_eq!(cu!(cuMemAlloc_v2(&mut address, 0)), INVALID_VALUE);
    assert_eq!(
        cu!(cuMemAlloc_v2(&mut address, usize::MAX / 2)),
        OUT_OF_MEMORY
    );
    let (mut start, mut size) = (0, 0);
    ok!(cuMemGetAddressRange_v2(&mut start, &mut size, memory + 99));
    assert_eq!((start, size), (memory, 100));
}

#[test]
fn copies_go_every_way() {
    let _context = Current::new();
    let first = upload(&[1, 2, 3, 4]);
    let second = alloc(16);
    ok!(cuMemcpyDtoD_v2(second, first, 16));
    ok!(cuMemcpyDtoD_v2(second + 4, first, 8));
    assert_eq!(download(second, 4), [1, 1, 2, 4]);
    ok!(cuMemsetD16_v2(second, 0x1234, 2));
    assert_eq!(download(second, 2), [0x1234_1234, 1]);
    let mut host = [0_u32; 4];
    ok!(cuMemcpy(host.as_mut_ptr() as u64, first, 16));
    assert_eq!(host, [1, 2, 3, 4]);
    let (mut pinned, mut seen) = (null_mut(), 0);
    ok!(cuMemHostAlloc(&mut pinned, 16, 0));
    ok!(cuMemHostGetDevicePointer_v2(&mut seen, pinned, 0));
    ok!(cuMemcpyDtoHAsync_v2(pinned, first, 16, null_mut()));
    ok!(cuStreamSynchronize(null_mut()));
    assert_eq!(download(seen, 4), [1, 2, 3, 4]);
    assert_eq!(cu!(cuMemFree_v2(seen)), INVALID_VALUE);
    ok!(cuMemFreeHost(pinned));
    assert_eq!(cu!(cuMemFreeHost(pinned)), INVALID_VALUE);
}

#[test]
fn registered_memory_counts_as_the_devices() {
    let _context = Current::new();
    let mut host = vec![9_u32; 1024];
    let at = host.as_mut_ptr().cast::<c_void>();
    let mut kind = 0_u32;
    assert_eq!(
        cu!(cuPointerGetAttribute((&raw mut kind).cast(), 2, at as u64)),
        INVALID_VALUE
    );
    ok!(cuMemHostRegister_v2(at, 4096, 0));
    assert_eq!(cu!(cuMemHostRegister_v2(at, 4096, 0)), 712);
    ok!(cuPointerGetAttribute(
        (&raw mut kind).cast(),
        2,
        at as u64 + 8
    ));
    assert_eq!(kind, 1); // CU_MEMORYTYPE_HOST
    ok!(cuMemsetD32_v2(at as u64, 3, 1024));
    ok!(cuMemHostUnregister(at));
    assert_eq!(cu!(cuMemHostUnregister(at)), 713);
    assert_eq!(cu!(cuMemsetD32_v2(at as u64, 4, 1024)), INVALID_VALUE);
    assert_eq!(host, [3; 1024]);
}

#[test]
fn rectangles_keep_to_their_rows() {
    use cudarc::driver::sys::{CUDA_MEMCPY2D, CUmemorytype};
    let _context = Current::new();
    let (mut memory, mut pitch) = (0, 0);
    ok!(cuMemAllocPitch_v2(&mut memory, &mut pitch, 12, 3, 4));
    assert!(pitch >= 12 && pitch % 256 == 0);
    ok!(cuMemsetD2D32_v2(memory, pitch, 7, 3, 3));
    let host: Vec<u32> = (0..6).collect();
    let mut copy = CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
        srcHost: host.as_ptr().cast(),
        srcDevice: 0,
        srcArray: null_mut(),
        srcPitch: 12,
        dstXInBytes: 4,
        dstY: 1,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstHost: null_mut(),
        dstDevice: memory,
        dstArray: null_mut(),
        dstPitch: pitch,
        WidthInBytes: 8,
        Height: 2,
    };
    ok!(cuMemcpy2D_v2(&copy));
    let rows = pitch / 4;
    let all = download(memory, 2 * rows + 3);
    assert_eq!(all[..3], [7, 7, 7]);
    assert_eq!(all[rows..rows + 3], [7, 0, 1]);
    assert_eq!(all[2 * rows..], [7, 3, 4]);
    copy.Height = 3;
    assert_eq!(cu!(cuMemcpy2D_v2(&copy)), INVALID_VALUE);
    copy.WidthInBytes = 16;
    assert_eq!(cu!(cuMemcpy2D_v2(&copy)), INVALID_VALUE);
}

#[test]
fn pointers_tell_what_they_point_to() {
    let context = Current::new();
    let mut managed = 0;
    ok!(cuMemAllocManaged(&mut managed, 64, 1));
    let (mut owner, mut kind, mut is_managed, mut start) =
        (null_mut::<c_void>(), 0_u32, false, 0_u64);
    let mut places: [*mut c_void; 4] = [
        (&raw mut owner).cast(),
        (&raw mut kind).cast(),
        (&raw mut is_managed).cast(),
        (&raw mut start).cast(),
    ];
    let mut asked = [1, 2, 8, 11];
    ok!(cuPointerGetAttributes(
        4,
        asked.as_mut_ptr(),
        places.as_mut_ptr(),
        managed + 10
    ));
    assert_eq!(
        (owner, kind, is_managed, start),
        (context.0.cast(), 2, true, managed)
    );
    ok!(cuPointerGetAttributes(
        4,
        asked.as_mut_ptr(),
        places.as_mut_ptr(),
        0x10
    ));
    assert_eq!((owner, kind, is_managed, start), (null_mut(), 0, false, 0));
}

#[test]
fn a_stream_does_its_work_in_order() {
    let _context = Current::new();
    let stream = stream(1);
    let gate = Gate::close(stream);
    let memory = upload(&[0]);
    let after = event(0);
    ok!(cuMemsetD32Async(memory, 1, 1, stream));
    ok!(cuMemsetD32Async(memory, 2, 1, stream));
    ok!(cuEventRecord(after, stream));
    assert_eq!(cu!(cuStreamQuery(stream)), NOT_READY);
    assert_eq!(cu!(cuEventQuery(after)), NOT_READY);
    assert_eq!(download(memory, 1), [0]); // the default stream does not wait for a non-blocking one
    gate.open();
    ok!(cuEventSynchronize(after));
    assert_eq!(download(memory, 1), [2]);
    ok!(cuStreamQuery(stream));
}

#[test]
fn the_default_stream_and_blocking_streams_wait_for_each_other() {
    let _context = Current::new();
    let (blocking, other, free) = (stream(0), stream(0), stream(1));
    let memory = upload(&[0, 0, 0]);
    let gate = Gate::close(blocking);
    ok!(cuMemsetD32Async(memory, 1, 3, blocking));
    // Behind the blocking stream, and this behind the default stream.
    let done = event(0);
    ok!(cuMemsetD32Async(memory, 2, 2, null_mut()));
    ok!(cuMemsetD32Async(memory, 3, 1, other));
    ok!(cuEventRecord(done, other));
    ok!(cuStreamQuery(free));
    assert_eq!(cu!(cuStreamQuery(null_mut())), NOT_READY);
    assert_eq!(cu!(cuEventQuery(done)), NOT_READY);
    gate.open();
    ok!(cuEventSynchronize(done));
    assert_eq!(download(memory, 3), [3, 2, 1]);
}

#[test]
fn a_stream_waits_for_the_event_of_another() {
    let _context = Current::new();
    let (first, second) = (stream(1), stream(1));
    let (point, never) = (event(2), event(2));
    let memory = upload(&[0]);
    let gate = Gate::close(first);
    ok!(cuMemsetD32Async(memory, 1, 1, first));
    ok!(cuEventRecord(point, first));
    ok!(cuStreamWaitEvent(second, never, 0));
    ok!(cuStreamWaitEvent(second, point, 0));
    ok!(cuMemsetD32Async(memory, 2, 1, second));
    assert_eq!(cu!(cuStreamQuery(second)), NOT_READY);
    gate.open();
    ok!(cuStreamSynchronize(second));
    assert_eq!(download(memory, 1), [2]);
}

#[test]
fn events_measure_time_when_they_may() {
    let _context = Current::new();
    let stream = stream(0);
    let (start, end, untimed, never) = (event(0), event(0), event(2), event(0));
    let mut time = -1.0;
    ok!(cuEventQuery(never));
    ok!(cuEventRecord(start, stream));
    let gate = Gate::close(stream);
    ok!(cuEventRecord(end, stream));
    ok!(cuEventRecord(untimed, stream));
    assert_eq!(cu!(cuEventElapsedTime(&mut time, start, end)), NOT_READY);
    std::thread::sleep(Duration::from_millis(2));
    gate.open();
    ok!(cuStreamSynchronize(stream));
    ok!(cuEventElapsedTime(&mut time, start, end));
    assert!(time >= 2.0, "{time}");
    ok!(cuEventElapsedTime(&mut time, end, start));
    assert!(time <= -2.0, "{time}");
    assert_eq!(
        cu!(cuEventElapsedTime(&mut time, start, untimed)),
        INVALID_HANDLE
    );
    assert_eq!(
        cu!(cuEventElapsedTime(&mut time, start, never)),
        INVALID_HANDLE
    );
    assert_eq!(cu!(cuEventCreate(null_mut(), 0)), INVALID_VALUE);
}

#[test]
fn a_host_function_may_not_call_the_driver() {
    static SEEN: AtomicI32 = AtomicI32::new(-1);
    unsafe extern "C" fn call(_: *mut c_void) {
        SEEN.store(cu!(cuCtxSynchronize()), Ordering::SeqCst);
    }
    let _context = Current::new();
    ok!(cuLaunchHostFunc(null_mut(), Some(call), null_mut()));
    ok!(cuCtxSynchronize());
    assert_eq!(SEEN.load(Ordering::SeqCst), NOT_PERMITTED);
    assert_eq!(
        cu!(cuLaunchHostFunc(null_mut(), None, null_mut())),
        INVALID_VALUE
    );
}

#[test]
fn each_thread_has_a_default_stream_of_its_own() {
    let context = Current::new();
    let per_thread = 2_usize as CUstream;
    let gate = Gate::close(per_thread);
    let mut mine = 0;
    ok!(cuStreamGetId(per_thread, &mut mine));
    let handle = context.0 as usize;
    let other = std::thread::spawn(move || {
        ok!(cuCtxPushCurrent_v2(handle as CUcontext));
        let mut id = 0;
        ok!(cuStreamGetId(2_usize as CUstream, &mut id));
        ok!(cuStreamSynchronize(2_usize as CUstream));
        id
    });
    assert_ne!(other.join().unwrap(), mine);
    assert_eq!(cu!(cuStreamQuery(per_thread)), NOT_READY);
    gate.open();
}

#[test]
fn memory_comes_and_goes_in_stream_order() {
    let _context = Current::new();
    let stream = stream(0);
    let gate = Gate::close(stream);
    let mut memory = 0;
    ok!(cuMemAllocAsync(&mut memory, 4, stream));
    ok!(cuMemsetD32Async(memory, 5, 1, stream));
    let kept = alloc(4);
    ok!(cuMemcpyDtoDAsync_v2(kept, memory, 4, stream));
    ok!(cuMemFreeAsync(memory, stream));
    assert_eq!(cu!(cuMemFreeAsync(memory, stream)), INVALID_VALUE);
    gate.open();
    ok!(cuStreamSynchronize(stream));
    assert_eq!(download(kept, 1), [5]);
    assert_eq!(cu!(cuMemsetD32_v2(memory, 5, 1)), INVALID_VALUE);
}

const PTX: &CStr = c"
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

fn load(ptx: &CStr) -> CUmodule {
    let mut module = null_mut();
    ok!(cuModuleLoadData(&mut module, ptx.as_ptr().cast()));
    module
}

fn kernel(module: CUmodule, name: &CStr) -> CUfunction {
    let mut function = null_mut();
    ok!(cuModuleGetFunction(&mut function, module, name.as_ptr()));
    function
}

/// Launches one block, with a pointer to each argument.
fn launch(
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

#[test]
fn a_kernel_gets_its_arguments_as_a_list_or_as_a_buffer() {
    let _context = Current::new();
    let add = kernel(load(PTX), c"add");
    let mut out = upload(&[0; 4]);
    let (mut value, mut half) = (100_u32, 1000_u16);
    let mut arguments = [
        (&raw mut out).cast(),
        (&raw mut value).cast(),
        (&raw mut half).cast(),
    ];
    assert_eq!(launch(add, 4, 0, null_mut(), &mut arguments), 0);
    value = 0;
    half = 0; // they were copied
    assert_eq!(download(out, 4), [1100, 1101, 1102, 1103]);
    assert_eq!((value, half), (0, 0));

    let (mut offset, mut size) = (0, 0);
    ok!(cuFuncGetParamInfo(add, 2, &mut offset, &mut size));
    assert_eq!((offset, size), (12, 2));
    assert_eq!(
        cu!(cuFuncGetParamInfo(add, 3, &mut offset, &mut size)),
        INVALID_VALUE
    );

    let mut buffer = [0_u8; 14];
    buffer[..8].copy_from_slice(&out.to_le_bytes());
    buffer[8..12].copy_from_slice(&5_u32.to_le_bytes());
    buffer[12..].copy_from_slice(&2_u16.to_le_bytes());
    let mut by_buffer = |mut given: usize, params| {
        let mut extra: [*mut c_void; 5] = [
            std::ptr::without_provenance_mut(1), // CU_LAUNCH_PARAM_BUFFER_POINTER
            buffer.as_mut_ptr().cast(),
            std::ptr::without_provenance_mut(2), // CU_LAUNCH_PARAM_BUFFER_SIZE
            (&raw mut given).cast(),
            null_mut(),
        ];
        let extra = extra.as_mut_ptr();
        cu!(cuLaunchKernel(
            add,
            1,
            1,
            1,
            4,
            1,
            1,
            0,
            null_mut(),
            params,
            extra
        ))
    };
    assert_eq!(by_buffer(14, null_mut()), 0);
    assert_eq!(download(out, 4), [7, 8, 9, 10]);
    assert_eq!(by_buffer(14, arguments.as_mut_ptr()), INVALID_VALUE);
    assert_eq!(by_buffer(13, null_mut()), INVALID_VALUE);
    assert!(detail().contains("14 bytes"), "{}", detail());
    let none = &mut [null_mut(); 3];
    assert_eq!(launch(add, 4, 0, null_mut(), none), INVALID_VALUE);
}

#[test]
fn launches_that_cannot_be_are_refused() {
    let _context = Current::new();
    let (module, mut value) = (load(PTX), 0);
    let small = kernel(module, c"small");
    let mut none = [null_mut()];
    let mut try_launch = |threads, shared| launch(small, threads, shared, null_mut(), &mut none);
    assert_eq!(try_launch(64, 0), 0);
    assert_eq!(try_launch(0, 0), INVALID_VALUE);
    assert_eq!(try_launch(65, 0), INVALID_VALUE);
    assert!(detail().contains(".maxntid"), "{}", detail());
    assert_eq!(try_launch(1025, 0), INVALID_VALUE);
    // 1024 of the 48 KiB are the kernel's own.
    assert_eq!(try_launch(64, 47 << 10), 0);
    assert_eq!(try_launch(64, (47 << 10) + 1), INVALID_VALUE);
    ok!(cuFuncSetAttribute(small, 8, 226 << 10));
    assert_eq!(try_launch(64, 226 << 10), 0);
    assert_eq!(
        cu!(cuFuncSetAttribute(small, 8, (226 << 10) + 1)),
        INVALID_VALUE
    );
    ok!(cuFuncGetAttribute(&mut value, 0, small));
    assert_eq!(value, 64);
    ok!(cuFuncGetAttribute(&mut value, 1, small));
    assert_eq!(value, 1024);
    assert_eq!(
        launch(module.cast(), 1, 0, null_mut(), &mut none),
        INVALID_HANDLE
    );
    ok!(cuCtxSynchronize());
}

#[test]
fn a_launch_returns_while_the_kernel_runs() {
    let _context = Current::new();
    let spin = kernel(load(PTX), c"spin");
    let stream = stream(1);
    let (mut flag, done) = (upload(&[0]), event(0));
    let mut arguments = [(&raw mut flag).cast()];
    assert_eq!(launch(spin, 1, 0, stream, &mut arguments), 0);
    ok!(cuEventRecord(done, stream));
    assert_eq!(cu!(cuEventQuery(done)), NOT_READY);
    ok!(cuMemsetD32_v2(flag, 1, 1));
    ok!(cuEventSynchronize(done));
}

#[test]
fn modules_have_kernels_and_variables() {
    let _context = Current::new();
    let module = load(PTX);
    let (mut function, mut owner) = (null_mut(), null_mut());
    assert_eq!(
        cu!(cuModuleGetFunction(&mut function, module, c"none".as_ptr())),
        500
    );
    assert!(detail().contains("add, small, spin"), "{}", detail());
    let (mut address, mut size, mut count) = (0, 0, 0);
    ok!(cuModuleGetGlobal_v2(
        &mut address,
        &mut size,
        module,
        c"counter".as_ptr()
    ));
    assert_eq!((size, download(address, 1)), (4, vec![7]));
    assert_eq!(
        cu!(cuModuleGetGlobal_v2(
            &mut address,
            &mut size,
            module,
            c"add".as_ptr()
        )),
        500
    );
    ok!(cuModuleGetFunctionCount(&mut count, module));
    let mut functions = [null_mut(); 3];
    ok!(cuModuleEnumerateFunctions(
        functions.as_mut_ptr(),
        3,
        module
    ));
    assert_eq!((count, functions[1]), (3, kernel(module, c"small")));
    let mut name = null();
    ok!(cuFuncGetName(&mut name, functions[2]));
    // SAFETY: the entry gave a string that lives as long as the module.
    assert_eq!(unsafe { CStr::from_ptr(name) }, c"spin");
    ok!(cuFuncGetModule(&mut owner, functions[0]));
    assert_eq!(owner, module);
    ok!(cuModuleUnload(module));
    assert_eq!(cu!(cuModuleUnload(module)), INVALID_HANDLE);
    assert_eq!(
        launch(functions[1], 1, 0, null_mut(), &mut [null_mut()]),
        INVALID_HANDLE
    );
    assert_eq!(cu!(cuMemsetD8_v2(address, 0, 4)), INVALID_VALUE);
}

#[test]
fn images_are_refused_for_what_they_are_and_the_log_says_where() {
    let _context = Current::new();
    let mut module = null_mut();
    let mut load = |image: &CStr| {
        let mut log = [0_u8; 400];
        let mut numbers = [5, 6]; // CU_JIT_ERROR_LOG_BUFFER, _SIZE_BYTES
        let mut values = [log.as_mut_ptr().cast(), 400_usize as *mut c_void];
        let code = cu!(cuModuleLoadDataEx(
            &mut module,
            image.as_ptr().cast(),
            2,
            numbers.as_mut_ptr(),
            values.as_mut_ptr()
        ));
        let log = CStr::from_bytes_until_nul(&log).unwrap();
        assert_eq!(values[1] as usize, log.count_bytes());
        (code, log.to_string_lossy().into_owned())
    };
    let (code, log) =
        load(c".version 8.0\n.target sm_90\n.address_size 64\n.entry k()\n{ nonsense; ret; }\n");
    assert_eq!(code, 218);
    assert!(
        log.starts_with("ptxas application ptx input, line 5; error   : "),
        "{log}"
    );
    let (code, log) = load(c".version 99.0\n.target sm_90\n");
    assert_eq!(code, 222);
    assert!(log.contains("line 1") && log.contains("99.0"), "{log}");
    assert_eq!(load(c"\x7fELF\x02\x01\x01").0, 209);
    assert_eq!(load(c"hello").0, 200);
    assert_eq!(load(PTX), (0, String::new()));
}

#[test]
fn the_linker_makes_a_binary_that_loads() {
    let _context = Current::new();
    let (mut session, mut binary, mut size) = (null_mut(), null_mut(), 0);
    ok!(cuLinkCreate_v2(0, null_mut(), null_mut(), &mut session));
    assert_eq!(
        cu!(cuLinkComplete(session, &mut binary, &mut size)),
        INVALID_VALUE
    );
    let add = |bytes: &[u8]| {
        cu!(cuLinkAddData_v2(
            session,
            1,
            bytes.as_ptr().cast_mut().cast(),
            bytes.len(),
            c"test".as_ptr(),
            0,
            null_mut(),
            null_mut()
        ))
    };
    assert_eq!(add(PTX.to_bytes_with_nul()), 0);
    assert_eq!(add(PTX.to_bytes_with_nul()), 801);
    ok!(cuLinkComplete(session, &mut binary, &mut size));
    // SAFETY: the linker gave the address and the size of its result.
    let kept = unsafe { std::slice::from_raw_parts(binary.cast::<u8>(), size) }.to_vec();
    assert!(kept.starts_with(b"PTXKCPU1"));
    ok!(cuLinkDestroy(session));
    assert_eq!(cu!(cuLinkDestroy(session)), INVALID_HANDLE);

    let mut module = null_mut();
    ok!(cuModuleLoadData(&mut module, kept.as_ptr().cast()));
    let small = kernel(module, c"small");
    assert_eq!(launch(small, 1, 0, null_mut(), &mut [null_mut()]), 0);
    ok!(cuCtxSynchronize());
    let mut damaged = kept;
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(
        cu!(cuModuleLoadData(&mut module, damaged.as_ptr().cast())),
        200
    );
}

#[test]
fn a_fault_stays_with_its_context() {
    const ILLEGAL_ADDRESS: i32 = 700;
    let healthy = Current::new();
    let faulty = Current::new();
    let add = kernel(load(PTX), c"add");
    let (stream, memory, point) = (stream(1), alloc(4), event(0));
    let (mut out, mut value, mut half) = (memory + 4, 0_u32, 0_u16);
    let mut arguments = [
        (&raw mut out).cast(),
        (&raw mut value).cast(),
        (&raw mut half).cast(),
    ];
    assert_eq!(launch(add, 1, 0, stream, &mut arguments), 0);
    assert_eq!(cu!(cuStreamSynchronize(stream)), ILLEGAL_ADDRESS);
    for part in [
        "kernel add",
        "thread (0,0,0)",
        "write of 4 bytes",
        "line 21",
    ] {
        assert!(detail().contains(part), "{part}: {}", detail());
    }
    assert_eq!(launch(add, 1, 0, stream, &mut arguments), ILLEGAL_ADDRESS);
    assert_eq!(cu!(cuCtxSynchronize()), ILLEGAL_ADDRESS);
    assert_eq!(cu!(cuMemAlloc_v2(&mut out, 4)), ILLEGAL_ADDRESS);
    assert_eq!(cu!(cuEventQuery(point)), ILLEGAL_ADDRESS);
    // The other context knows nothing of it.
    ok!(cuCtxPushCurrent_v2(healthy.0));
    ok!(cuCtxSynchronize());
    ok!(cuMemAlloc_v2(&mut out, 4));
    ok!(cuCtxPopCurrent_v2(null_mut()));
    ok!(cuCtxDestroy_v2(faulty.0));
    ok!(cuCtxSynchronize());
}

#[test]
fn a_blocking_launch_tells_of_its_own_fault() {
    const AGAIN: &str = "a_blocking_launch_tells_of_its_own_fault";
    if std::env::var_os("CUDA_LAUNCH_BLOCKING").is_none() {
        // The variable counts from the start of a process.
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args([AGAIN, "--exact"])
            .env("CUDA_LAUNCH_BLOCKING", "1")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let _context = Current::new();
    let spin = kernel(load(PTX), c"spin");
    let mut nowhere = 16_u64;
    let mut arguments = [(&raw mut nowhere).cast()];
    assert_eq!(launch(spin, 1, 0, null_mut(), &mut arguments), 700);
}

#[test]
fn kernels_are_launched_with_attributes_that_mean_something() {
    let _context = Current::new();
    let small = kernel(load(PTX), c"small");
    /// `CUlaunchAttribute`
    #[repr(C)]
    struct Attribute {
        number: u32,
        pad: u32,
        value: [u32; 16],
    }
    let run = |number, value| {
        let mut attribute = Attribute {
            number,
            pad: 0,
            value: [1; 16],
        };
        attribute.value[0] = value;
        let config = CUlaunchConfig {
            gridDimX: 2,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 32,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            hStream: null_mut(),
            attrs: (&raw mut attribute).cast(),
            numAttrs: 1,
        };
        cu!(cuLaunchKernelEx(&config, small, null_mut(), null_mut()))
    };
    assert_eq!(run(4, 1), 0); // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    assert_eq!(run(4, 2), 801);
    assert_eq!(run(2, 1), 0); // CU_LAUNCH_ATTRIBUTE_COOPERATIVE
    assert_eq!(run(900, 1), 801);
    ok!(cuCtxSynchronize());
}

#[test]
fn a_callback_hears_of_the_fault_and_a_host_function_is_passed_over() {
    static HEARD: AtomicI32 = AtomicI32::new(-1);
    static CALLED: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn hear(_: CUstream, code: u32, _: *mut c_void) {
        HEARD.store(code.cast_signed(), Ordering::SeqCst);
    }
    unsafe extern "C" fn call(_: *mut c_void) {
        CALLED.store(true, Ordering::SeqCst);
    }
    let _context = Current::new();
    let spin = kernel(load(PTX), c"spin");
    let stream = stream(1);
    let gate = Gate::close(stream);
    let mut nowhere = 16_u64;
    let mut arguments = [(&raw mut nowhere).cast()];
    assert_eq!(launch(spin, 1, 0, stream, &mut arguments), 0);
    ok!(cuLaunchHostFunc(stream, Some(call), null_mut()));
    ok!(cuStreamAddCallback(stream, Some(hear), null_mut(), 0));
    gate.open();
    assert_eq!(cu!(cuStreamSynchronize(stream)), 700);
    assert_eq!(HEARD.load(Ordering::SeqCst), 700);
    assert!(!CALLED.load(Ordering::SeqCst));
}

#[test]
fn many_threads_and_streams_come_to_an_end() {
    let context = Current::new();
    let (handle, memory) = (context.0 as usize, upload(&[0; 64]));
    let shared = event(2) as usize;
    std::thread::scope(|threads| {
        for thread in 0..4_u32 {
            threads.spawn(move || {
                ok!(cuCtxPushCurrent_v2(handle as CUcontext));
                let mine = stream(thread % 2);
                let at = memory + u64::from(thread) * 64;
                for round in 0..200 {
                    let stream = if round % 7 == 0 { null_mut() } else { mine };
                    ok!(cuMemsetD32Async(at, round, 16, stream));
                    ok!(cuEventRecord(shared as CUevent, mine));
                    ok!(cuStreamWaitEvent(mine, shared as CUevent, 0));
                    let gate = (round % 50 == 0).then(|| Gate::close(mine));
                    ok!(cuMemsetD32Async(at + 4, round, 1, mine));
                    gate.inspect(|gate| gate.open());
                    if round % 20 == 0 {
                        ok!(cuStreamSynchronize(stream));
                    }
                }
                ok!(cuStreamSynchronize(mine));
                ok!(cuStreamDestroy_v2(mine));
            });
        }
    });
    ok!(cuCtxSynchronize());
    for thread in 0..4 {
        assert_eq!(download(memory + thread * 64, 2)[1], 199);
    }
}

#[test]
fn a_library_is_there_in_every_context_that_asks() {
    ok!(cuInit(0));
    let mut library = null_mut();
    let image = PTX.as_ptr().cast();
    ok!(cuLibraryLoadData(
        &mut library,
        image,
        null_mut(),
        null_mut(),
        0,
        null_mut(),
        null_mut(),
        0
    ));
    let (mut add, mut function, mut module) = (null_mut(), null_mut(), null_mut());
    ok!(cuLibraryGetKernel(&mut add, library, c"add".as_ptr()));
    assert_eq!(
        cu!(cuLibraryGetKernel(&mut add, library, c"sub".as_ptr())),
        500
    );
    assert_eq!(
        cu!(cuKernelGetFunction(&mut function, add)),
        INVALID_CONTEXT
    );
    let mut modules = Vec::new();
    let mut contexts = Vec::new();
    for value in [3_u32, 4] {
        contexts.push(Current::new());
        let (mut out, mut value, mut half) = (upload(&[0]), value, 0_u16);
        let mut arguments = [
            (&raw mut out).cast(),
            (&raw mut value).cast(),
            (&raw mut half).cast(),
        ];
        // A launch takes the library's kernel itself, or its function here.
        assert_eq!(launch(add.cast(), 1, 0, null_mut(), &mut arguments), 0);
        assert_eq!(download(out, 1), [value]);
        ok!(cuKernelGetFunction(&mut function, add));
        assert_eq!(launch(function, 1, 0, null_mut(), &mut arguments), 0);
        ok!(cuLibraryGetModule(&mut module, library));
        assert_eq!(kernel(module, c"add"), function);
        modules.push(module);
    }
    assert_ne!(modules[0], modules[1]);
    ok!(cuLibraryUnload(library));
    assert_eq!(cu!(cuLibraryUnload(library)), INVALID_HANDLE);
    assert_eq!(cu!(cuKernelGetFunction(&mut function, add)), INVALID_HANDLE);
    assert_eq!(cu!(cuModuleUnload(modules[1])), INVALID_HANDLE);
    while contexts.pop().is_some() {}
}
