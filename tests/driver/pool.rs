use std::sync::mpsc;

use ptxkit::driver::{
    Access, CaptureMode, Context, CudaError, DeviceBuffer, Error, Graph, LaunchConfig, Location,
    MemoryPool, Module, PoolReuse, Stream,
};

use crate::support::{alone, context, device, is_gpu, isolated};

/// Adds 1 to each of 32 numbers.
pub const INCREMENT: &[u8] = b".version 6.0 .target sm_50 .address_size 64
.visible .entry increment(.param .u64 numbers) {
    .reg .b32 %r<3>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [numbers];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3];
    add.u32 %r2, %r2, 1;
    st.global.u32 [%rd3], %r2;
    ret;
}";

pub const BLOCK: LaunchConfig = LaunchConfig::new([1, 1, 1], [32, 1, 1]);

#[test]
fn attributes_of_a_pool() {
    alone();
    let pool = MemoryPool::new(&device()).unwrap();
    assert_eq!(pool.release_threshold().unwrap(), 0);
    pool.set_release_threshold(12 << 20).unwrap();
    assert_eq!(pool.release_threshold().unwrap(), 12 << 20);
    for reuse in [
        PoolReuse::FollowEventDependencies,
        PoolReuse::AllowOpportunistic,
        PoolReuse::AllowInternalDependencies,
    ] {
        assert!(pool.allows(reuse).unwrap(), "{reuse:?}");
        pool.allow(reuse, false).unwrap();
        assert!(!pool.allows(reuse).unwrap(), "{reuse:?}");
        pool.allow(reuse, true).unwrap();
        assert!(pool.allows(reuse).unwrap(), "{reuse:?}");
    }
    assert_eq!(pool.access(&device()).unwrap(), Access::ReadWrite);
    assert!(pool.set_access(&device(), Access::None).is_err());
}

#[test]
fn a_pool_counts_its_bytes() {
    alone();
    let stream = Stream::new(&context()).unwrap();
    let pool = MemoryPool::new(&device()).unwrap();
    assert_eq!(
        (pool.used().unwrap().now, pool.reserved().unwrap().now),
        (0, 0)
    );
    pool.set_release_threshold(u64::MAX).unwrap();

    let first = pool.buffer::<u8>(&stream, 3 << 20).unwrap();
    let second = pool.buffer::<u8>(&stream, 1 << 20).unwrap();
    let used = pool.used().unwrap();
    assert!(used.now >= 4 << 20 && used.now < 64 << 20, "{used:?}");
    assert!(pool.reserved().unwrap().now >= used.now);
    drop(first);
    stream.synchronize().unwrap();
    let less = pool.used().unwrap();
    assert!(less.now >= 1 << 20 && less.now < used.now, "{less:?}");
    assert_eq!(less.high, used.now);
    drop(second);
    stream.synchronize().unwrap();
    assert_eq!(pool.used().unwrap().now, 0);

    // The threshold keeps all of it until it is trimmed.
    assert!(pool.reserved().unwrap().now >= 4 << 20);
    pool.trim_to(0).unwrap();
    let reserved = pool.reserved().unwrap();
    assert_eq!(reserved.now, 0);
    assert!(reserved.high >= 4 << 20);
    pool.reset_reserved_high().unwrap();
    pool.reset_used_high().unwrap();
    assert_eq!(
        (pool.used().unwrap().high, pool.reserved().unwrap().high),
        (0, 0)
    );
}

#[test]
fn what_a_pool_does_not_keep_goes_back_when_the_program_waits() {
    alone();
    let stream = Stream::new(&context()).unwrap();
    let pool = MemoryPool::new(&device()).unwrap();
    drop(pool.buffer::<u8>(&stream, 3 << 20).unwrap());
    stream.synchronize().unwrap();
    assert_eq!(pool.reserved().unwrap().now, 0);
    assert!(pool.reserved().unwrap().high >= 3 << 20);
}

#[test]
fn the_current_pool_is_what_streams_allocate_from() {
    isolated(
        "pool::the_current_pool_is_what_streams_allocate_from",
        &[],
        || {
            let stream = Stream::new(&context()).unwrap();
            let default = MemoryPool::default_of(&device()).unwrap();
            assert_eq!(
                MemoryPool::current_of(&device()).unwrap().as_ref(),
                Some(&default)
            );
            let pool = MemoryPool::new(&device()).unwrap();
            pool.make_current().unwrap();
            let current = MemoryPool::current_of(&device()).unwrap().unwrap();
            assert_eq!(current, pool);
            // It stays, though nobody else has it.
            drop((pool, current));
            let buffer = DeviceBuffer::<u64>::new_async(&stream, 1000).unwrap();
            let current = MemoryPool::current_of(&device()).unwrap().unwrap();
            assert_ne!(current, default);
            assert!(current.used().unwrap().now >= 8000);
            assert_eq!(default.used().unwrap().now, 0);
            drop(buffer);
            default.make_current().unwrap();
            assert_eq!(MemoryPool::current_of(&device()).unwrap(), Some(default));
        },
    );
}

#[test]
fn memory_outlives_its_pool() {
    alone();
    let stream = Stream::new(&context()).unwrap();
    let pool = MemoryPool::new(&device()).unwrap();
    let mut buffer = pool.buffer::<u32>(&stream, 100).unwrap();
    drop(pool);
    buffer.fill_async(7, &stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [7; 100]);
}

#[test]
fn a_pool_with_a_limit_has_no_more() {
    alone();
    let stream = Stream::new(&context()).unwrap();
    let pool = MemoryPool::with_limit(&device(), 64 << 20).unwrap();
    let some = pool.buffer::<u8>(&stream, 1 << 20).unwrap();
    let error = pool.buffer::<u8>(&stream, 256 << 20).unwrap_err();
    assert_eq!(error.code(), Some(CudaError::OUT_OF_MEMORY), "{error}");
    drop(some);
    assert!(pool.buffer::<u8>(&stream, 0).unwrap().is_empty());
}

/// Runs `then` while the stream is stopped by a function that waits.
fn while_stopped(stream: &Stream, then: impl FnOnce()) {
    let (go, wait) = mpsc::channel::<()>();
    stream
        .call(move || wait.recv().unwrap_or_default())
        .unwrap();
    then();
    go.send(()).unwrap();
}

#[test]
fn memory_is_freed_after_the_work_of_all_its_streams() {
    alone();
    let context = context();
    let increment = Module::load(&context, INCREMENT).unwrap();
    let increment = increment.kernel("increment").unwrap();
    let [home, other] = [(); 2].map(|()| Stream::non_blocking(&context).unwrap());
    let pool = MemoryPool::new(&device()).unwrap();
    let mut result = DeviceBuffer::<u32>::zeroed(&context, 32).unwrap();
    context.synchronize().unwrap();

    // Its first use comes after the allocation, though in another stream.
    let mut buffer = pool.buffer::<u32>(&home, 32).unwrap();
    buffer.fill_async(41, &home).unwrap();
    let used = pool.used().unwrap().now;
    while_stopped(&other, || {
        unsafe { increment.launch(BLOCK, &other, (&buffer,)) }.unwrap();
        result.copy_from_async(&buffer, &other).unwrap();
        drop(buffer);
        if !is_gpu() {
            // A GPU's pool counts what is freed when the free is queued.
            assert_eq!(pool.used().unwrap().now, used, "freed under its work");
        }
        // Whoever gets the memory next writes it after that work.
        let mut next = pool.buffer::<u32>(&home, 32).unwrap();
        next.fill_async(1, &home).unwrap();
    });
    other.synchronize().unwrap();
    assert_eq!(result.to_vec().unwrap(), [42; 32]);
    home.synchronize().unwrap();
    assert_eq!(pool.used().unwrap().now, 0);
}

#[test]
fn a_stream_waits_for_memory_that_another_allocates() {
    alone();
    let context = context();
    let increment = Module::load(&context, INCREMENT).unwrap();
    let increment = increment.kernel("increment").unwrap();
    let [home, other] = [(); 2].map(|()| Stream::non_blocking(&context).unwrap());
    let mut buffer = DeviceBuffer::<u32>::zeroed(&context, 32).unwrap();
    // The pool has what it needs before a stream is stopped.
    let pool = MemoryPool::new(&device()).unwrap();
    pool.set_release_threshold(u64::MAX).unwrap();
    drop(pool.buffer::<u32>(&home, 32).unwrap());
    context.synchronize().unwrap();
    let (go, wait) = mpsc::channel::<()>();
    home.call(move || wait.recv().unwrap_or_default()).unwrap();
    let mut late = pool.buffer::<u32>(&home, 32).unwrap();
    late.fill_async(9, &home).unwrap();
    unsafe { increment.launch(BLOCK, &other, (&late,)) }.unwrap();
    buffer.copy_from_async(&late, &other).unwrap();
    assert!(!other.is_done().unwrap(), "it did not wait");
    go.send(()).unwrap();
    other.synchronize().unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [10; 32]);
    // Explicitly in the other stream: nothing is left to wait for.
    late.free_async(&other).unwrap();
    other.synchronize().unwrap();
}

#[test]
fn calls_without_a_stream_come_after_the_allocation_too() {
    alone();
    let context = context();
    let home = Stream::non_blocking(&context).unwrap();
    let mut buffer = DeviceBuffer::<u16>::new_async(&home, 1000).unwrap();
    buffer.write(&[3; 1000]).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [3; 1000]);
    buffer.fill(4).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [4; 1000]);
}

#[test]
fn graphs_keep_memory_of_streams() {
    alone();
    let context = context();
    let increment = Module::load(&context, INCREMENT).unwrap();
    let increment = increment.kernel("increment").unwrap();
    let stream = Stream::new(&context).unwrap();
    let pool = MemoryPool::new(&device()).unwrap();
    let mut result = DeviceBuffer::<u32>::zeroed(&context, 32).unwrap();
    let mut buffer = pool.buffer::<u32>(&stream, 32).unwrap();
    buffer.fill_async(0, &stream).unwrap();
    let spare = pool.buffer::<u32>(&stream, 32).unwrap();
    let graph = Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| {
        let refused = DeviceBuffer::<u32>::new_async(stream, 1).unwrap_err();
        assert!(matches!(refused, Error::Captured { .. }), "{refused}");
        unsafe { increment.launch(BLOCK, stream, (&buffer,)) }?;
        result.copy_from_async(&buffer, stream)?;
        // Its stream captures now, so that it is freed with the graph.
        drop(spare);
        Ok(())
    })
    .unwrap();
    let ready = graph.instantiate().unwrap();
    drop((graph, buffer));
    let other = Stream::non_blocking(&context).unwrap();
    for _ in 0..3 {
        ready.launch(&other).unwrap();
    }
    other.synchronize().unwrap();
    assert_eq!(result.to_vec().unwrap(), [3; 32]);
    assert!(pool.used().unwrap().now > 0);
    drop(ready);
    other.synchronize().unwrap();
    stream.synchronize().unwrap();
    assert_eq!(pool.used().unwrap().now, 0);
}

#[test]
fn memory_is_freed_in_a_stream_of_its_own_context_alone() {
    alone();
    let stream = Stream::new(&context()).unwrap();
    let foreign = Context::create(&device(), 0).unwrap();
    let foreign = Stream::new(&foreign).unwrap();
    let buffer = DeviceBuffer::<u32>::new_async(&stream, 4).unwrap();
    assert!(matches!(
        buffer.free_async(&foreign),
        Err(Error::DifferentContexts { .. })
    ));
}

#[test]
fn a_pool_serves_streams_of_its_own_device() {
    isolated(
        "pool::a_pool_serves_streams_of_its_own_device",
        &[("PTXKIT_CPU_DEVICES", "2")],
        || {
            let here = device();
            let driver = here.driver();
            if driver.device_count().unwrap() < 2 {
                eprintln!("left out: there is one device");
                return;
            }
            let there = driver.device(1).unwrap();
            let pool = MemoryPool::new(&there).unwrap();
            let stream = Stream::new(&context()).unwrap();
            let foreign = pool.buffer::<u32>(&stream, 4);
            assert!(
                matches!(foreign, Err(Error::DifferentDevices { .. })),
                "{foreign:?}"
            );
            assert_eq!(pool.access(&here).unwrap(), Access::None);
            let theirs = Stream::new(&Context::primary(&there).unwrap()).unwrap();
            let mut buffer = pool.buffer::<u32>(&theirs, 4).unwrap();
            buffer.fill(3).unwrap();
            assert_eq!(buffer.to_vec().unwrap(), [3; 4]);
        },
    );
}

#[test]
fn a_threads_own_stream_is_another_in_another_thread() {
    alone();
    let context = context();
    let increment = Module::load(&context, INCREMENT).unwrap();
    let increment = increment.kernel("increment").unwrap();
    let own = Stream::per_thread(&context);
    // The pool has what it needs before a stream is stopped.
    let pool = MemoryPool::new(&device()).unwrap();
    pool.set_release_threshold(u64::MAX).unwrap();
    drop(pool.buffer::<u32>(&own, 32).unwrap());
    context.synchronize().unwrap();
    let (go, wait) = mpsc::channel::<()>();
    own.call(move || wait.recv().unwrap_or_default()).unwrap();
    let mut late = pool.buffer::<u32>(&own, 32).unwrap();
    late.fill_async(9, &own).unwrap();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            // By the same name, a stream of this thread.
            unsafe { increment.launch(BLOCK, &own, (&late,)) }.unwrap();
            own.synchronize().unwrap();
        });
        std::thread::sleep(std::time::Duration::from_millis(50));
        let waited = !other.is_finished();
        go.send(()).unwrap();
        other.join().unwrap();
        assert!(waited, "it ran before the memory was there");
    });
    assert_eq!(late.to_vec().unwrap(), [10; 32]);
}

#[test]
fn each_location_has_a_pool() {
    alone();
    if device().driver().api().cuMemGetDefaultMemPool.is_none() {
        return; // it came with CUDA 13.0
    }
    let here = Location::from(&device());
    let pool = MemoryPool::default_at(&device(), here).unwrap();
    assert_eq!(pool, MemoryPool::default_of(&device()).unwrap());
    assert!(pool.is_current_at(here).unwrap());
    let own = MemoryPool::new(&device()).unwrap();
    assert!(!own.is_current_at(here).unwrap());
    own.make_current().unwrap();
    assert!(own.is_current_at(here).unwrap());
    pool.make_current().unwrap();
    MemoryPool::default_at(&device(), Location::Device(4096)).unwrap_err();
}
