//! The driver API of the CPU device as a C program meets it: numbers, handles
//! and pointers through the table.

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use ptxkit::cpu::api::table;
use ptxkit::driver::api::{CUcontext, CUdeviceptr, CUevent, CUstream};

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
