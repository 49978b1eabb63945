use ptxkit::driver::{
    CacheConfig, Context, ContextFlags, DeviceBuffer, Error, Limit, Scheduling, Stream,
};

use crate::kernels::ADD;
use crate::support::{alone, context, device, isolated, kernel};

/// What is current on this thread.
fn current() -> ptxkit::driver::api::CUcontext {
    let mut current = std::ptr::null_mut();
    // SAFETY: writes one handle.
    unsafe { device().driver().api().cuCtxGetCurrent(&mut current) }.unwrap();
    current
}

#[test]
fn the_primary_context_is_one() {
    alone();
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
    alone();
    let before = context();
    before.bind().unwrap();
    let created = Context::create(&device(), Scheduling::Block).unwrap();
    assert_eq!(current(), before.raw());
    assert_eq!(
        created.flags().unwrap().scheduling(),
        Some(Scheduling::Block)
    );
}

#[test]
fn entering_is_undone() {
    alone();
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
    alone();
    let (context, stream, add) = kernel(ADD, "add");
    let other = Context::create(&device(), 0).unwrap();
    let sum = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    let config = ptxkit::driver::LaunchConfig::default();
    let mut launches = 0;
    // Foreign code takes the context away, or sets another.
    for raw in [std::ptr::null_mut(), other.raw(), context.raw()] {
        // SAFETY: null, or a live context.
        let set = || unsafe { context.api().cuCtxSetCurrent(raw) }.unwrap();
        for stream in [&stream, &Stream::default_of(&context)] {
            set();
            unsafe { add.launch(config, stream, (&sum, 1_u32)) }.unwrap();
            set();
            unsafe { add.launch(config, stream, (&sum, 1_u32)) }.unwrap();
            launches += 2;
            set();
            stream.synchronize().unwrap();
            set();
            assert_eq!(sum.to_vec().unwrap(), [launches]);
        }
        // Its own errors are told, and not mistaken for another context's.
        set();
        let error = unsafe { add.launch(config, &stream, (0_u64, 1_u32, 2_u32)) }.unwrap_err();
        assert!(matches!(error, Error::ArgumentCount { .. }), "{error}");
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
    alone();
    let context = Context::create(&device(), 0).unwrap();
    let buffer = DeviceBuffer::from_slice(&context, &[9_u16; 4]).unwrap();
    drop(context);
    assert_eq!(buffer.to_vec().unwrap(), [9; 4]);
}

#[test]
fn limits_are_set_and_read() {
    alone();
    let context = Context::create(&device(), 0).unwrap();
    let heap = context.limit(Limit::MALLOC_HEAP_SIZE).unwrap();
    assert!(heap > 0);
    context
        .set_limit(Limit::MALLOC_HEAP_SIZE, heap * 2)
        .unwrap();
    assert!(context.limit(Limit::MALLOC_HEAP_SIZE).unwrap() >= heap * 2);
    assert!(context.limit(Limit(1000)).is_err());
    for limit in [Limit::STACK_SIZE, Limit::PRINTF_FIFO_SIZE] {
        let before = context.limit(limit).unwrap();
        context.set_limit(limit, before * 2).unwrap();
        assert!(context.limit(limit).unwrap() >= before * 2, "{limit:?}");
        context.set_limit(limit, before).unwrap();
    }
}

#[test]
fn configurations_are_set_and_read() {
    alone();
    let context = Context::create(&device(), ContextFlags::default().keep_local_memory()).unwrap();
    assert_eq!(context.flags().unwrap().0 & 0x10, 0x10);
    assert_eq!(
        context.flags().unwrap().scheduling(),
        Some(Scheduling::Auto)
    );
    context.set_cache_config(CacheConfig::PreferShared).unwrap();
    assert_eq!(
        context.cache_config().unwrap(),
        Some(CacheConfig::PreferShared)
    );
    assert!(context.shared_banks().unwrap().is_some());
    context.reset_persisting_l2().unwrap();
    assert!(context.api_version().unwrap() >= 3020);
    let other = Context::create(&device(), 0).unwrap();
    assert_ne!(context.id().unwrap(), other.id().unwrap());
}

#[test]
fn uses_are_counted_the_old_way() {
    alone();
    let context = Context::create(&device(), 0).unwrap();
    let Ok(attached) = context.attach() else {
        return; // a driver that has given the old entries up
    };
    assert_eq!(attached, context);
    let buffer = DeviceBuffer::from_slice(&attached, &[1_u32]).unwrap();
    drop(attached);
    assert_eq!(buffer.to_vec().unwrap(), [1]);
    context.synchronize().unwrap();

    // Whoever made it may go first.
    let attached = context.attach().unwrap();
    drop((buffer, context));
    let buffer = DeviceBuffer::from_slice(&attached, &[2_u32]).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [2]);
}

#[test]
fn the_current_context_is_found() {
    isolated("context::the_current_context_is_found", &[], || {
        let driver = device().driver();
        // SAFETY: nothing is made of it.
        assert!(unsafe { Context::current(driver) }.unwrap().is_none());
        let made = context();
        made.bind().unwrap();
        // SAFETY: `made` lives longer.
        let found = unsafe { Context::current(driver) }.unwrap().unwrap();
        assert_eq!(found, made);
        drop(found);
        made.synchronize().unwrap();
    });
}

#[test]
fn the_primary_context_has_a_state() {
    isolated("context::the_primary_context_has_a_state", &[], || {
        let device = device();
        assert!(!device.primary_state().unwrap().1);
        device.set_primary_flags(Scheduling::Block).unwrap();
        let context = Context::primary(&device).unwrap();
        let (flags, active) = device.primary_state().unwrap();
        assert!(active);
        assert_eq!(flags.scheduling(), Some(Scheduling::Block));
        drop(context);
        assert!(!device.primary_state().unwrap().1);
        let context = Context::primary(&device).unwrap();
        let buffer = DeviceBuffer::from_slice(&context, &[1_u32]).unwrap();
        std::mem::forget(buffer);
        // SAFETY: nothing made in it is used any more.
        unsafe { device.reset_primary() }.unwrap();
        let anew = Context::primary(&device).unwrap();
        let buffer = DeviceBuffer::from_slice(&anew, &[2_u32]).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [2]);
        std::mem::forget(context);
    });
}

#[test]
fn a_stretch_is_collected_by_a_profiler() {
    isolated("context::a_stretch_is_collected_by_a_profiler", &[], || {
        let context = context();
        // Without a profiler it is nothing, and no error.
        let profiling = context.profile().unwrap();
        let within = DeviceBuffer::from_slice(&context, &[1_u32]).unwrap();
        drop(profiling);
        assert_eq!(within.to_vec().unwrap(), [1]);
    });
}

#[test]
fn flags_of_a_live_context_change() {
    alone();
    if device().driver().api().cuCtxSetFlags.is_none() {
        return; // it came with CUDA 12.1
    }
    let context = Context::create(&device(), Scheduling::Spin).unwrap();
    context.set_flags(Scheduling::Block).unwrap();
    let scheduling = context.flags().unwrap().0 & 7;
    assert_eq!(
        scheduling,
        ptxkit::driver::ContextFlags::from(Scheduling::Block).0 & 7
    );
}
