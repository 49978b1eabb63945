use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use ptxkit::driver::{
    AccessPolicy, AccessProperty, Context, CudaError, DeviceAttribute, DeviceBuffer, Error, Event,
    Graph, LaunchConfig, MemoryOp, PinnedBuffer, Scheduling, Stream, WaitValue,
};

use crate::kernels::{SLOW, STRAY, slow_result};
use crate::support::{alone, context, device, is_gpu, isolated, kernel};

const ROUNDS: u32 = 3_000_000;

#[test]
fn work_of_a_stream_runs_in_order() {
    let (context, stream, slow) = kernel(SLOW, "slow");
    let mut data = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    let mut copy = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    unsafe { slow.launch(LaunchConfig::default(), &stream, (&data, ROUNDS)) }.unwrap();
    copy.copy_from_async(&data, &stream).unwrap();
    data.fill_bytes_async(0, &stream).unwrap();
    stream.synchronize().unwrap();
    assert!(stream.is_done().unwrap());
    assert_eq!(copy.to_vec().unwrap(), [slow_result(ROUNDS)]);
    assert_eq!(data.to_vec().unwrap(), [0]);
}

#[test]
fn an_event_orders_two_streams() {
    let (context, _, slow) = kernel(SLOW, "slow");
    let first = Stream::non_blocking(&context).unwrap();
    let second = Stream::non_blocking(&context).unwrap();
    let data = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    let mut copy = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    context.synchronize().unwrap();

    let written = Event::without_timing(&context).unwrap();
    unsafe { slow.launch(LaunchConfig::default(), &first, (&data, ROUNDS)) }.unwrap();
    written.record(&first).unwrap();
    second.wait_for(&written).unwrap();
    copy.copy_from_async(&data, &second).unwrap();
    second.synchronize().unwrap();
    assert!(written.is_done().unwrap());
    assert_eq!(copy.to_vec().unwrap(), [slow_result(ROUNDS)]);
}

#[test]
fn events_measure_the_kernel_between_them() {
    let (context, stream, slow) = kernel(SLOW, "slow");
    let data = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    let [start, middle, end] = std::array::from_fn(|_| Event::new(&context).unwrap());
    start.record(&stream).unwrap();
    unsafe { slow.launch(LaunchConfig::default(), &stream, (&data, 1_u32)) }.unwrap();
    middle.record(&stream).unwrap();
    unsafe { slow.launch(LaunchConfig::default(), &stream, (&data, 10 * ROUNDS)) }.unwrap();
    end.record(&stream).unwrap();
    end.synchronize().unwrap();
    let (short, long) = (
        middle.elapsed_ms_since(&start).unwrap(),
        end.elapsed_ms_since(&middle).unwrap(),
    );
    // 30 million dependent steps take milliseconds on any machine there is.
    assert!(short >= 0.0 && long > 1.0, "{short} {long}");
    assert!(start.elapsed_ms_since(&end).unwrap() < 0.0);

    let silent = Event::without_timing(&context).unwrap();
    silent.record(&stream).unwrap();
    silent.synchronize().unwrap();
    assert!(end.elapsed_ms_since(&silent).is_err());
}

#[test]
fn a_host_function_is_called_in_order() {
    let (context, stream, slow) = kernel(SLOW, "slow");
    let data = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    let mut pinned = PinnedBuffer::<u32>::zeroed(&context, 1).unwrap();
    let count = Arc::new(AtomicU32::new(0));
    unsafe { slow.launch(LaunchConfig::default(), &stream, (&data, ROUNDS)) }.unwrap();
    data.read_async(&mut pinned, &stream).unwrap();
    for expected in 0..10 {
        let count = Arc::clone(&count);
        stream
            .call(move || {
                // Counts only when called in turn.
                let _ = count.compare_exchange(
                    expected,
                    expected + 1,
                    Ordering::SeqCst,
                    Ordering::SeqCst,
                );
            })
            .unwrap();
    }
    stream.synchronize().unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 10);
    assert_eq!(pinned.to_vec().unwrap(), [slow_result(ROUNDS)]);
}

#[test]
fn work_waits_for_a_host_function() {
    alone();
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    let (release, gate) = mpsc::channel::<()>();
    let opened = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&opened);
    stream
        .call(move || {
            let _ = gate.recv();
            flag.store(true, Ordering::SeqCst);
        })
        .unwrap();
    let after = Event::without_timing(&context).unwrap();
    after.record(&stream).unwrap();
    assert!(!stream.is_done().unwrap());
    assert!(!after.is_done().unwrap());
    release.send(()).unwrap();
    after.synchronize().unwrap();
    assert!(opened.load(Ordering::SeqCst));
}

#[test]
fn a_panic_in_a_host_function_stays_there() {
    let context = context();
    let stream = Stream::new(&context).unwrap();
    stream.call(|| panic!("expected in this test")).unwrap();
    let called = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&called);
    stream
        .call(move || flag.store(true, Ordering::SeqCst))
        .unwrap();
    stream.synchronize().unwrap();
    assert!(called.load(Ordering::SeqCst));
}

/// A panic may carry a value whose destructor panics. It is dropped on a thread of the driver.
#[test]
fn what_a_panic_carries_stays_there_too() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("expected in this test");
        }
    }
    let fail = || std::panic::panic_any(Bad);
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    stream.call(fail).unwrap();
    stream.call_each_launch(fail).unwrap();
    stream.add_callback(move |_| fail()).unwrap();
    let captured = Graph::capture(&stream, Default::default(), |stream| {
        stream.call_each_launch(fail)
    });
    captured
        .unwrap()
        .instantiate()
        .unwrap()
        .launch(&stream)
        .unwrap();
    let mut graph = Graph::new(&context).unwrap();
    graph.add_host_function(&[], fail).unwrap();
    graph.retain(Arc::new(Bad)).unwrap();
    let ready = graph.instantiate().unwrap();
    ready.launch(&stream).unwrap();
    let (tell, told) = mpsc::channel();
    stream.call(move || tell.send(()).unwrap()).unwrap();
    stream.synchronize().unwrap();
    told.recv().unwrap();
}

#[test]
fn a_dropped_stream_finishes_its_work() {
    let (context, stream, slow) = kernel(SLOW, "slow");
    let data = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    unsafe { slow.launch(LaunchConfig::default(), &stream, (&data, ROUNDS)) }.unwrap();
    drop(stream);
    context.synchronize().unwrap();
    assert_eq!(data.to_vec().unwrap(), [slow_result(ROUNDS)]);
}

#[test]
fn the_default_stream_and_priorities() {
    let (context, _, slow) = kernel(SLOW, "slow");
    let data = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    unsafe {
        slow.launch(
            LaunchConfig::default(),
            &Stream::default_of(&context),
            (&data, 10_u32),
        )
    }
    .unwrap();
    // Copies without a stream keep order with the default stream.
    assert_eq!(data.to_vec().unwrap(), [slow_result(10)]);

    let (least, most) = Stream::priorities(&context).unwrap();
    assert!(most <= least);
    let urgent = Stream::with_priority(&context, most).unwrap();
    unsafe { slow.launch(LaunchConfig::default(), &urgent, (&data, 20_u32)) }.unwrap();
    urgent.synchronize().unwrap();
    assert_eq!(data.to_vec().unwrap(), [slow_result(20)]);
}

#[test]
fn a_stream_waits_for_a_value_that_another_writes() {
    let (context, _, slow) = kernel(SLOW, "slow");
    let first = Stream::non_blocking(&context).unwrap();
    let second = Stream::non_blocking(&context).unwrap();
    let flag = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    let wide = DeviceBuffer::<u64>::zeroed(&context, 1).unwrap();
    let data = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    let mut copy = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    context.synchronize().unwrap();

    // The writes are queued first: while a stream waits for what is not queued
    // yet, a call that waits for the whole device keeps it from being queued.
    unsafe { slow.launch(LaunchConfig::default(), &first, (&data, ROUNDS)) }.unwrap();
    first.write_value(&flag, 7).unwrap();
    first.write_value_64(&wide, 1 << 40).unwrap();
    second.wait_value(&flag, WaitValue::AtLeast, 5).unwrap();
    second
        .wait_value_64(&wide, WaitValue::Equal, 1 << 40)
        .unwrap();
    copy.copy_from_async(&data, &second).unwrap();
    second.synchronize().unwrap();
    assert_eq!(copy.to_vec().unwrap(), [slow_result(ROUNDS)]);
    assert_eq!(flag.to_vec().unwrap(), [7]);

    let none = DeviceBuffer::<u32>::new(&context, 0).unwrap();
    assert!(first.write_value(&none, 1).is_err());
}

#[test]
fn streams_tell_what_they_are() {
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    assert_eq!(stream.flags().unwrap(), 1);
    assert_eq!(Stream::new(&context).unwrap().flags().unwrap(), 0);
    assert_ne!(
        stream.id().unwrap(),
        Stream::new(&context).unwrap().id().unwrap()
    );
    assert_eq!(stream.raw_context().unwrap(), context.raw());
    let (least, most) = Stream::priorities(&context).unwrap();
    let urgent = Stream::with_priority(&context, most).unwrap();
    assert_eq!(urgent.priority().unwrap(), most);
    assert_eq!(
        Stream::with_priority(&context, least + 100)
            .unwrap()
            .priority()
            .unwrap(),
        least
    );
    assert!(!stream.is_capturing());
}

/// Handles that come from elsewhere: a runtime's stream and context.
#[test]
fn handles_of_others_are_used_and_left_alone() {
    let (context, stream, slow) = kernel(SLOW, "slow");
    let data = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    {
        // SAFETY: both live longer than what is made of them here.
        let (theirs, borrowed) = unsafe {
            let device = context.device();
            let theirs = ptxkit::driver::Context::from_raw(device, context.raw()).unwrap();
            let borrowed = Stream::from_raw(&theirs, stream.raw());
            (theirs, borrowed)
        };
        assert_eq!(theirs, context);
        unsafe { slow.launch(LaunchConfig::default(), &borrowed, (&data, 10_u32)) }.unwrap();
    }
    stream.synchronize().unwrap();
    let own = Stream::per_thread(&context);
    unsafe { slow.launch(LaunchConfig::default(), &own, (&data, 20_u32)) }.unwrap();
    own.synchronize().unwrap();
    assert_eq!(data.to_vec().unwrap(), [slow_result(20)]);
}

#[test]
fn events_of_every_kind() {
    let context = context();
    let stream = Stream::new(&context).unwrap();
    let blocking = Event::blocking(&context).unwrap();
    blocking.record(&stream).unwrap();
    blocking.synchronize().unwrap();
    assert!(blocking.is_done().unwrap());
    let shared = Event::interprocess(&context);
    if is_gpu() || cfg!(target_os = "linux") {
        assert_ne!(shared.unwrap().ipc_handle().unwrap(), [0; 64])
    } else {
        assert!(shared.is_err())
    }
}

#[test]
fn a_callback_is_told_how_it_went() {
    alone();
    let (context, stream, slow) = kernel(SLOW, "slow");
    let data = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    unsafe { slow.launch(LaunchConfig::default(), &stream, (&data, ROUNDS)) }.unwrap();
    let (tell, told) = mpsc::channel();
    stream
        .add_callback(move |result| tell.send(result).unwrap())
        .unwrap();
    assert_eq!(told.recv().unwrap(), Ok(()));
    stream
        .add_callback(|_| panic!("expected in this test"))
        .unwrap();
    stream.synchronize().unwrap();
    assert_eq!(data.to_vec().unwrap(), [slow_result(ROUNDS)]);

    let capturing = Stream::non_blocking(&context).unwrap();
    ptxkit::driver::Graph::capture(&capturing, Default::default(), |stream| {
        let refused = stream.add_callback(|_| ()).unwrap_err();
        assert!(matches!(refused, Error::CapturedOnce), "{refused}");
        Ok(())
    })
    .unwrap();
}

/// Unlike a host function, which is not called then.
#[test]
fn a_callback_is_told_of_a_fault() {
    isolated("stream::a_callback_is_told_of_a_fault", &[], || {
        let (_context, stream, stray) = kernel(STRAY, "stray");
        unsafe { stray.launch(LaunchConfig::default(), &stream, (0x10_u64,)) }.unwrap();
        let (tell, told) = mpsc::channel();
        // A GPU may have met the fault already.
        if stream
            .add_callback(move |result| tell.send(result).unwrap())
            .is_ok()
        {
            let told = told.recv_timeout(Duration::from_secs(60)).unwrap();
            assert_eq!(told, Err(CudaError::ILLEGAL_ADDRESS));
        }
        assert!(stream.synchronize().unwrap_err().is_sticky());
    });
}

#[test]
fn several_values_at_once() {
    let context = context();
    let [first, second] = [(); 2].map(|()| Stream::non_blocking(&context).unwrap());
    let flag = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    let wide = DeviceBuffer::<u64>::zeroed(&context, 1).unwrap();
    let seen = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    context.synchronize().unwrap();
    first
        .memory_operations(&[MemoryOp::Write64(&wide, 1 << 40), MemoryOp::Write(&flag, 3)])
        .unwrap();
    second
        .memory_operations(&[
            MemoryOp::Wait(&flag, WaitValue::Equal, 3),
            MemoryOp::Wait64(&wide, WaitValue::AtLeast, 1 << 39),
            MemoryOp::Write(&seen, 1),
        ])
        .unwrap();
    second.memory_operations(&[]).unwrap();
    second.synchronize().unwrap();
    assert_eq!(seen.to_vec().unwrap(), [1]);
    assert_eq!(wide.to_vec().unwrap(), [1 << 40]);
    let none = DeviceBuffer::<u32>::new(&context, 0).unwrap();
    let error = first
        .memory_operations(&[MemoryOp::Write(&none, 1)])
        .unwrap_err();
    assert!(
        matches!(error, Error::Length { capacity: 0, .. }),
        "{error}"
    );
}

#[test]
fn attributes_of_a_stream_are_set_and_read() {
    alone();
    let context = context();
    let [stream, other] = [(); 2].map(|()| Stream::new(&context).unwrap());
    let most = device()
        .attribute(DeviceAttribute::MAX_ACCESS_POLICY_WINDOW_SIZE)
        .unwrap();
    let buffer = DeviceBuffer::<u32>::zeroed(&context, 1024).unwrap();
    if most > 0 || !is_gpu() {
        assert_eq!(stream.access_policy().unwrap().bytes, 0);
        let policy = AccessPolicy::persisting(&buffer.slice(16..).unwrap(), 0.5);
        stream.set_access_policy(policy).unwrap();
        let read = stream.access_policy().unwrap();
        assert_eq!((read.address, read.bytes), (buffer.address() + 64, 4032));
        assert_eq!(
            (read.hit, read.miss),
            (AccessProperty::Persisting, AccessProperty::Streaming)
        );
        assert_eq!(read.hit_ratio, 0.5);
        other.copy_attributes_from(&stream).unwrap();
        assert_eq!(other.access_policy().unwrap(), read);
        stream.set_access_policy(AccessPolicy::NONE).unwrap();
        assert_eq!(stream.access_policy().unwrap().bytes, 0);
    }
    stream.set_synchronization(Scheduling::Block).unwrap();
    assert_eq!(stream.synchronization().unwrap(), Some(Scheduling::Block));
    if device()
        .attribute(DeviceAttribute::MEM_SYNC_DOMAIN_COUNT)
        .unwrap_or(0)
        > 1
        || !is_gpu()
    {
        assert!(!stream.has_remote_memory_domain().unwrap());
        stream.set_remote_memory_domain(true).unwrap();
        assert!(stream.has_remote_memory_domain().unwrap());
        assert!(!other.has_remote_memory_domain().unwrap());
    }
    let foreign = Stream::new(&Context::create(&device(), 0).unwrap()).unwrap();
    assert!(stream.copy_attributes_from(&foreign).is_err());
}

#[test]
fn a_stream_names_its_device() {
    let stream = Stream::new(&context()).unwrap();
    match stream.device() {
        Ok(found) => assert_eq!(found, device()),
        Err(error) => assert!(matches!(error, Error::EntryMissing { .. }), "{error}"),
    }
}

/// A stream that is stopped on purpose would keep check mode waiting for ever.
#[test]
fn tests_that_stop_a_stream_end_in_check_mode() {
    let names = [
        "stream::work_waits_for_a_host_function",
        "memory::pinned_memory_waits_for_the_default_streams_of_all_contexts",
        "managed::kernels_and_host_share_values",
    ];
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(names)
        .args(["--exact", "--test-threads=1"])
        .env("PTXKIT_CHECK", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("3 passed"), "{text}");
}
