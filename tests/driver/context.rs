use ptxkit::driver::{Context, DeviceBuffer, Limit, Stream};

use crate::kernels::PLACE;
use crate::support::{context, device, kernel};

/// What is current on this thread.
fn current() -> ptxkit::driver::api::CUcontext {
    let mut current = std::ptr::null_mut();
    // SAFETY: writes one handle.
    unsafe { device().driver().api().cuCtxGetCurrent(&mut current) }.unwrap();
    current
}

#[test]
fn the_primary_context_is_one() {
    let (first, second) = (context(), context());
    assert_eq!(first, second);
    assert_eq!(first.raw(), second.raw());
    let created = Context::create(&device(), 0).unwrap();
    assert_ne!(created, first);
    // Memory of one is in the other too: they share a handle.
    let buffer = DeviceBuffer::from_slice(&first, &[1_u8, 2]).unwrap();
    drop(first);
    second.synchronize().unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [1, 2]);
}

#[test]
fn creating_a_context_leaves_the_current_one() {
    let before = context();
    before.bind().unwrap();
    let created = Context::create(&device(), 4).unwrap();
    assert_eq!(current(), before.raw());
    assert_eq!(created.flags().unwrap() & 7, 4);
}

#[test]
fn entering_is_undone() {
    let outer = context();
    let inner = Context::create(&device(), 0).unwrap();
    outer.bind().unwrap();
    {
        let _entered = inner.enter().unwrap();
        assert_eq!(current(), inner.raw());
        let buffer = DeviceBuffer::from_slice(&inner, &[3_u8]).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [3]);
    }
    assert_eq!(current(), outer.raw());
}

#[test]
fn whatever_is_current_calls_find_their_own_context() {
    let (context, stream, place) = kernel(PLACE, "place");
    let other = Context::create(&device(), 0).unwrap();
    let out = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    let config = ptxkit::driver::LaunchConfig::default();
    // Foreign code takes the context away, or sets another.
    for raw in [std::ptr::null_mut(), other.raw()] {
        // SAFETY: null, or a live context.
        unsafe { context.api().cuCtxSetCurrent(raw) }.unwrap();
        place.launch(config, &stream, (&out,)).unwrap();
        // SAFETY: as above.
        unsafe { context.api().cuCtxSetCurrent(raw) }.unwrap();
        stream.synchronize().unwrap();
        // SAFETY: as above.
        unsafe { context.api().cuCtxSetCurrent(raw) }.unwrap();
        assert_eq!(out.to_vec().unwrap(), [0]);
    }
}

#[test]
fn handles_move_between_threads() {
    let context = context();
    let stream = Stream::new(&context).unwrap();
    let buffer = DeviceBuffer::from_slice(&context, &[1_u32, 2, 3]).unwrap();
    let moved = std::thread::spawn(move || {
        stream.synchronize().unwrap();
        buffer.to_vec().unwrap()
        // Freed here, where no context was ever current before.
    });
    assert_eq!(moved.join().unwrap(), [1, 2, 3]);
    context.synchronize().unwrap();
}

#[test]
fn what_lives_in_a_context_keeps_it() {
    let context = Context::create(&device(), 0).unwrap();
    let buffer = DeviceBuffer::from_slice(&context, &[9_u16; 4]).unwrap();
    drop(context);
    assert_eq!(buffer.to_vec().unwrap(), [9; 4]);
}

#[test]
fn limits_are_set_and_read() {
    let context = Context::create(&device(), 0).unwrap();
    let heap = context.limit(Limit::MALLOC_HEAP_SIZE).unwrap();
    assert!(heap > 0);
    context
        .set_limit(Limit::MALLOC_HEAP_SIZE, heap * 2)
        .unwrap();
    assert!(context.limit(Limit::MALLOC_HEAP_SIZE).unwrap() >= heap * 2);
    assert!(context.limit(Limit(1000)).is_err());
}
