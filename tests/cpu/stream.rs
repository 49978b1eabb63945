//! Streams, events and host functions.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use ptxkit::driver::api::{CUcontext, CUstream};

use crate::entry::{
    Current, Gate, INVALID_HANDLE, INVALID_VALUE, NOT_PERMITTED, NOT_READY, download, event,
    stream, upload,
};

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

/// An event of a context follows the work of all its streams, and all later work waits for it, also in
/// streams that are made later.
#[test]
fn a_context_records_an_event_and_waits_for_it() {
    let _context = Current::new();
    let mut context: CUcontext = null_mut();
    ok!(cuCtxGetCurrent(&mut context));
    let (first, second) = (stream(1), stream(1));
    let memory = upload(&[0, 0]);
    let gate = Gate::close(first);
    ok!(cuMemsetD32Async(memory, 1, 2, first));
    let all = event(2);
    ok!(cuCtxRecordEvent(context, all));
    assert_eq!(cu!(cuEventQuery(all)), NOT_READY);
    ok!(cuStreamQuery(second));
    ok!(cuCtxWaitEvent(context, all));
    let third = stream(1);
    ok!(cuMemsetD32Async(memory, 2, 1, second));
    ok!(cuMemsetD32Async(memory + 4, 3, 1, third));
    assert_eq!(cu!(cuStreamQuery(second)), NOT_READY);
    assert_eq!(cu!(cuStreamQuery(third)), NOT_READY);
    gate.open();
    ok!(cuStreamSynchronize(second));
    ok!(cuStreamSynchronize(third));
    ok!(cuEventQuery(all));
    assert_eq!(download(memory, 2), [2, 3]);
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
