use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use ptxkit::driver::api::Api;
use ptxkit::driver::{
    Arg, CaptureMode, Context, CudaError, DeviceAttribute, DeviceBuffer, Driver, Error, Event,
    Graph, Kernel, LaunchConfig, LaunchOptions, Module, NodeKind, PinnedBuffer, Stream, api,
};

use crate::kernels::{ADD, PLACE};
use crate::launch::Fickle;
use crate::support::{alone, context, device, is_gpu};

/// A context, a stream that can be captured, and `add(data, n)`.
fn adder() -> (Context, Stream, Kernel) {
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    let module = Module::load(&context, ADD.as_bytes()).unwrap();
    let add = module.kernel("add").unwrap();
    (context, stream, add)
}

const ONE: LaunchConfig = LaunchConfig::new([1; 3], [1; 3]);

#[test]
fn a_capture_runs_when_it_is_launched_and_as_often() {
    alone();
    let (context, stream, add) = adder();
    let n = DeviceBuffer::from_slice(&context, &[5_u32]).unwrap();
    let mut copy = DeviceBuffer::from_slice(&context, &[0_u32]).unwrap();
    let graph = Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| {
        assert!(stream.is_capturing());
        unsafe { add.launch(ONE, stream, (&n, 2_u32)) }?;
        unsafe { add.launch(ONE, stream, (&n, 10_u32)) }?;
        copy.copy_from_async(&n, stream)
    })
    .unwrap();
    assert!(!stream.is_capturing());
    stream.synchronize().unwrap();
    assert_eq!(n.to_vec().unwrap(), [5], "the capture ran");
    let kinds: Vec<_> = graph
        .nodes()
        .unwrap()
        .into_iter()
        .map(|node| graph.kind(node).unwrap())
        .collect();
    assert_eq!(kinds, [NodeKind::Kernel, NodeKind::Kernel, NodeKind::Copy]);

    let ready = graph.instantiate().unwrap();
    drop(graph);
    for _ in 0..3 {
        ready.launch(&stream).unwrap();
    }
    stream.synchronize().unwrap();
    assert_eq!(n.to_vec().unwrap(), [5 + 3 * 12]);
    assert_eq!(copy.to_vec().unwrap(), [5 + 3 * 12]);
}

#[test]
fn a_graph_keeps_what_it_uses() {
    alone();
    let (context, stream, add) = adder();
    let out = DeviceBuffer::from_slice(&context, &[0_u32]).unwrap();
    let mut pinned = PinnedBuffer::from_slice(&context, &[0_u32]).unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let ready = {
        let temporary = DeviceBuffer::from_slice(&context, &[7_u32]).unwrap();
        let counted = Arc::clone(&calls);
        let mut out = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
        Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| {
            unsafe { add.launch(ONE, stream, (&temporary, 1_u32)) }?;
            out.copy_from_async(&temporary, stream)?;
            temporary.read_async(&mut pinned, stream)?;
            stream.call_each_launch(move || {
                counted.fetch_add(1, Ordering::SeqCst);
            })
        })
        .unwrap()
        .instantiate()
        .unwrap()
        // Both buffers and the closure's owner go here.
    };
    drop((add, out));
    // What is allocated now must not lie where the graph's memory is.
    let others: Vec<_> = (0..8)
        .map(|_| DeviceBuffer::from_slice(&context, &[0_u32]).unwrap())
        .collect();
    ready.launch(&stream).unwrap();
    ready.launch(&stream).unwrap();
    // Reading waits for the graph's copy, whatever stream it is in.
    assert_eq!(pinned.to_vec().unwrap(), [9]);
    stream.synchronize().unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    for other in &others {
        assert_eq!(other.to_vec().unwrap(), [0]);
    }
    drop(pinned);
    ready.launch(&stream).unwrap();
    drop(ready);
    assert_eq!(calls.load(Ordering::SeqCst), 3);
}

#[test]
fn streams_are_drawn_into_a_capture_by_events() {
    alone();
    let (context, stream, add) = adder();
    let other = Stream::non_blocking(&context).unwrap();
    let (a, b) = ([0_u32], [100_u32]);
    let a = DeviceBuffer::from_slice(&context, &a).unwrap();
    let b = DeviceBuffer::from_slice(&context, &b).unwrap();
    let [fork, join] = std::array::from_fn(|_| Event::without_timing(&context).unwrap());
    let graph = Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| {
        fork.record(stream)?;
        other.wait_for(&fork)?;
        assert!(other.is_capturing());
        unsafe { add.launch(ONE, &other, (&b, 1_u32)) }?;
        unsafe { add.launch(ONE, stream, (&a, 1_u32)) }?;
        join.record(&other)?;
        stream.wait_for(&join)?;
        unsafe { add.launch(ONE, stream, (&b, 1_u32)) }
    })
    .unwrap();
    assert!(!other.is_capturing());
    assert_eq!(graph.nodes().unwrap().len(), 3);
    let ready = graph.instantiate().unwrap();
    ready.launch(&other).unwrap();
    other.synchronize().unwrap();
    assert_eq!(
        (a.to_vec().unwrap(), b.to_vec().unwrap()),
        (vec![1], vec![102])
    );

    // A stream that does not come back spoils the capture.
    let error = Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| {
        fork.record(stream)?;
        other.wait_for(&fork)?;
        unsafe { add.launch(ONE, &other, (&b, 1_u32)) }
    })
    .unwrap_err();
    assert_eq!(
        error.code(),
        Some(CudaError::STREAM_CAPTURE_UNJOINED),
        "{error}"
    );
    // And both are as before.
    unsafe { add.launch(ONE, &other, (&b, 1_u32)) }.unwrap();
    other.synchronize().unwrap();
    stream.synchronize().unwrap();
    assert_eq!(b.to_vec().unwrap(), [103]);
}

#[test]
fn what_cannot_be_captured_is_told() {
    alone();
    let (context, stream, add) = adder();
    let n = DeviceBuffer::from_slice(&context, &[0_u32]).unwrap();
    let error = Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| {
        unsafe { add.launch(ONE, stream, (&n, 1_u32)) }?;
        stream.synchronize()
    })
    .unwrap_err();
    assert_eq!(
        error.code(),
        Some(CudaError::STREAM_CAPTURE_UNSUPPORTED),
        "{error}"
    );
    let error = Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| {
        stream.call(|| ())
    })
    .unwrap_err();
    assert!(matches!(error, Error::CapturedOnce), "{error}");
    let default = Stream::default_of(&context);
    assert!(Graph::capture(&default, CaptureMode::Relaxed, |_| Ok(())).is_err());
    // Nothing ran, and the stream works.
    stream.synchronize().unwrap();
    assert_eq!(n.to_vec().unwrap(), [0]);
}

#[test]
fn nodes_by_hand() {
    alone();
    let (context, stream, add) = adder();
    let data = DeviceBuffer::from_slice(&context, &[0_u32]).unwrap();
    let copy = DeviceBuffer::from_slice(&context, &[0_u32]).unwrap();
    let from = PinnedBuffer::from_slice(&context, &[40_u32]).unwrap();
    let mut to = PinnedBuffer::from_slice(&context, &[0_u32]).unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);

    let mut graph = Graph::new(&context).unwrap();
    let write = graph.add_write(&[], &data, &from).unwrap();
    let first = unsafe { graph.add_kernel(&[write], &add, ONE, (&data, 2_u32)) }.unwrap();
    let fill = graph.add_fill(&[], &copy, 9).unwrap();
    let both = graph.add_empty(&[first, fill]).unwrap();
    let copied = graph.add_copy(&[both], &copy, &data).unwrap();
    let read = graph.add_read(&[copied], &mut to, &copy).unwrap();
    let called = graph
        .add_host_function(&[read], move || {
            counted.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    let recorded = Arc::new(Event::new(&context).unwrap());
    graph.add_event_record(&[called], &recorded).unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 8);
    assert_eq!(graph.kind(fill).unwrap(), NodeKind::Fill);
    assert_eq!(graph.kind(called).unwrap(), NodeKind::HostFunction);

    // Wrong arguments are told as by a launch.
    let error = unsafe { graph.add_kernel(&[], &add, ONE, (&data,)) }.unwrap_err();
    assert!(matches!(error, Error::ArgumentCount { .. }), "{error}");
    // A node of one graph is none of another's.
    let mut other = Graph::new(&context).unwrap();
    assert!(matches!(other.add_empty(&[write]), Err(Error::GraphNode)));
    assert!(matches!(other.kind(write), Err(Error::GraphNode)));
    other.add_graph(&[], &graph).unwrap();

    let mut ready = graph.instantiate().unwrap();
    ready.upload(&stream).unwrap();
    ready.launch(&stream).unwrap();
    assert_eq!(to.to_vec().unwrap(), [42]);
    stream.synchronize().unwrap();
    assert!(recorded.is_done().unwrap());
    unsafe { ready.set_kernel(first, &add, ONE, (&data, 5_u32)) }.unwrap();
    ready.launch(&stream).unwrap();
    assert_eq!(to.to_vec().unwrap(), [45]);

    // The graph within the other graph has what `graph` had, not what `ready` got.
    other.instantiate().unwrap().launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(to.to_vec().unwrap(), [42]);
    assert_eq!(calls.load(Ordering::SeqCst), 3);

    let folder = tempfile::tempdir().unwrap();
    let drawing = folder.path().join("graph.dot");
    graph.draw(&drawing).unwrap();
    assert!(
        std::fs::read_to_string(&drawing)
            .unwrap()
            .contains("digraph")
    );
}

#[test]
fn parameters_are_updated_and_shapes_are_not() {
    alone();
    let (context, stream, add) = adder();
    let n = DeviceBuffer::from_slice(&context, &[0_u32]).unwrap();
    let of = |values: &[u32]| {
        Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| {
            values
                .iter()
                .try_for_each(|value| unsafe { add.launch(ONE, stream, (&n, *value)) })
        })
        .unwrap()
    };
    let mut ready = of(&[1, 2]).instantiate().unwrap();
    ready.launch(&stream).unwrap();
    ready.update(&of(&[10, 20])).unwrap();
    ready.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(n.to_vec().unwrap(), [33]);
    let error = ready.update(&of(&[1, 2, 3])).unwrap_err();
    assert!(
        matches!(error, Error::GraphUpdate { reason } if reason != 0),
        "{error}"
    );
    // It is what it was.
    ready.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(n.to_vec().unwrap(), [63]);
}

#[test]
fn a_graph_and_its_parts_are_of_one_context() {
    alone();
    let (_, _, add) = adder();
    let other = Context::create(&device(), 0).unwrap();
    let mut graph = Graph::new(&other).unwrap();
    let error = unsafe { graph.add_kernel(&[], &add, ONE, (0_u64, 1_u32)) }.unwrap_err();
    assert!(matches!(error, Error::DifferentContexts { .. }), "{error}");
    let ready = graph.instantiate().unwrap();
    let error = ready.launch(&Stream::new(&context()).unwrap()).unwrap_err();
    assert!(matches!(error, Error::DifferentContexts { .. }), "{error}");
}

#[test]
fn a_launch_of_a_graph_is_not_captured() {
    alone();
    let (context, stream, add) = adder();
    let n = DeviceBuffer::from_slice(&context, &[0_u32]).unwrap();
    let inner = Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| unsafe {
        add.launch(ONE, stream, (&n, 1_u32))
    })
    .unwrap()
    .instantiate()
    .unwrap();
    let error = Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| {
        inner.launch(stream)
    })
    .unwrap_err();
    assert_eq!(
        error.code(),
        Some(CudaError::STREAM_CAPTURE_UNSUPPORTED),
        "{error}"
    );
    // The stream is as before.
    inner.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(n.to_vec().unwrap(), [1]);
}

#[test]
fn grids_of_captured_launches_are_whole() {
    alone();
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    let place = Module::load(&context, PLACE.as_bytes())
        .unwrap()
        .kernel("place")
        .unwrap();
    let mut out = DeviceBuffer::from_slice(&context, &[9_u32; 64]).unwrap();
    context.synchronize().unwrap();
    let ready = Graph::capture(&stream, CaptureMode::Relaxed, |stream| {
        out.fill_bytes_async(0, stream)?;
        unsafe { place.launch(LaunchConfig::new([4, 1, 1], [16, 1, 1]), stream, (&out,)) }
    })
    .unwrap()
    .instantiate()
    .unwrap();
    ready.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(out.to_vec().unwrap(), (0..64).collect::<Vec<_>>());
}

#[test]
fn a_threads_own_stream_is_not_captured() {
    alone();
    let (context, stream, _) = adder();
    let own = Stream::per_thread(&context);
    let captured = Graph::capture(&own, CaptureMode::ThreadLocal, |_| Ok(()));
    assert!(
        matches!(captured, Err(Error::Captured { .. })),
        "{captured:?}"
    );
    let event = Event::without_timing(&context).unwrap();
    Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| {
        event.record(stream)?;
        let drawn = Stream::per_thread(&context).wait_for(&event);
        assert!(matches!(drawn, Err(Error::Captured { .. })), "{drawn:?}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn the_event_of_a_launch_draws_a_stream_into_a_capture() {
    alone();
    let (context, stream, add) = adder();
    if !device().attribute(DeviceAttribute::CLUSTER_LAUNCH).unwrap() && is_gpu() {
        return; // programmatic launches came with clusters
    }
    let other = Stream::non_blocking(&context).unwrap();
    let n = DeviceBuffer::from_slice(&context, &[1_u32]).unwrap();
    let mut result = PinnedBuffer::from_slice(&context, &[0_u32]).unwrap();
    let [event, join] = std::array::from_fn(|_| Event::without_timing(&context).unwrap());
    let ready = {
        let source = DeviceBuffer::from_slice(&context, &[7_u32]).unwrap();
        Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| {
            let options = LaunchOptions::new().programmatic_event(&event, false);
            unsafe { add.launch_with(ONE, &options, stream, (&n, 2_u32)) }?;
            other.wait_for(&event)?;
            assert!(other.is_capturing());
            // A copy would wait for all of the kernel: an edge of another kind.
            unsafe { add.launch(ONE, &other, (&source, 1_u32)) }?;
            source.read_async(&mut result, &other)?;
            join.record(&other)?;
            stream.wait_for(&join)
        })
        .unwrap()
        .instantiate()
        .unwrap()
    };
    ready.launch(&stream).unwrap();
    ready.launch(&stream).unwrap();
    assert_eq!(result.to_vec().unwrap(), [9]);
    stream.synchronize().unwrap();
    assert_eq!(n.to_vec().unwrap(), [5]);
}

#[test]
fn a_graph_that_is_dropped_within_a_capture_still_calls() {
    alone();
    let (context, stream, _) = adder();
    let queue = Stream::non_blocking(&context).unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let mut graph = Graph::new(&context).unwrap();
    let function = move || {
        counted.fetch_add(1, Ordering::SeqCst);
    };
    graph.add_host_function(&[], function).unwrap();
    let ready = graph.instantiate().unwrap();
    drop(graph);
    let (go, wait) = mpsc::channel::<()>();
    queue.call(move || wait.recv().unwrap_or_default()).unwrap();
    ready.launch(&queue).unwrap();
    // Where nobody can wait within a capture, the call comes when the graph is gone.
    let later = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        go.send(()).unwrap();
    });
    let captured = Graph::capture(&stream, CaptureMode::Global, |_| {
        drop(ready);
        Ok(())
    });
    later.join().unwrap();
    queue.synchronize().unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    drop(captured);
}

#[test]
fn a_node_uses_the_memory_that_is_kept_for_it() {
    let (context, stream, add) = adder();
    if add.layout().is_none() {
        return; // a driver before CUDA 12.4
    }
    let [kept, other] = [1, 2].map(|n| DeviceBuffer::from_slice(&context, &[n]).unwrap());
    let ten = 10_u32;
    context.synchronize().unwrap();
    let first = [kept.arg(), Arg::value(&ten)];
    let second = [other.arg(), Arg::value(&ten)];
    let fickle = || Fickle {
        asked: std::cell::Cell::new(0),
        answers: [&first, &second],
    };
    let mut graph = Graph::new(&context).unwrap();
    let asked = fickle();
    let node = unsafe { graph.add_kernel(&[], &add, ONE, &asked) }.unwrap();
    assert_eq!(asked.asked.get(), 1);
    let mut ready = graph.instantiate().unwrap();
    let asked = fickle();
    unsafe { ready.set_kernel(node, &add, ONE, &asked) }.unwrap();
    assert_eq!(asked.asked.get(), 1);
    ready.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(kept.to_vec().unwrap(), [11]);
    assert_eq!(other.to_vec().unwrap(), [2]);
}

/// How far a slow call of `cuLaunchHostFunc` is.
static SLOW: AtomicU32 = AtomicU32::new(NOT_CALLED);
const NOT_CALLED: u32 = 0;
const IS_CALLED: u32 = 1;
const CAPTURE_BEGAN: u32 = 2;
const IS_QUEUED: u32 = 3;

/// A context of the device behind a table with another entry.
fn slowed(change: impl FnOnce(&mut Api)) -> Context {
    let mut table = device().driver().api().clone();
    change(&mut table);
    // SAFETY: the device's own entries, of which one calls the other.
    let driver = unsafe { Driver::from_api(Box::leak(Box::new(table))) }.unwrap();
    Context::primary(&driver.device(device().ordinal()).unwrap()).unwrap()
}

/// The entry itself.
unsafe fn call_now(stream: api::CUstream, call: api::CUhostFn, data: *mut c_void) -> c_int {
    let entry = device().driver().api().cuLaunchHostFunc;
    // SAFETY: as the caller says.
    entry.map_or(-1, |entry| unsafe { entry(stream, call, data) })
}

/// Waits until it is as far, or for so long.
fn wait_for(step: u32, long: Duration) {
    let start = Instant::now();
    while SLOW.load(Ordering::SeqCst) < step && start.elapsed() < long {
        std::thread::yield_now();
    }
}

#[test]
fn no_capture_begins_under_a_call() {
    unsafe extern "C" fn late(
        stream: api::CUstream,
        call: api::CUhostFn,
        data: *mut c_void,
    ) -> c_int {
        SLOW.store(IS_CALLED, Ordering::SeqCst);
        wait_for(CAPTURE_BEGAN, Duration::from_millis(200));
        // SAFETY: what was asked for.
        let code = unsafe { call_now(stream, call, data) };
        SLOW.store(IS_QUEUED, Ordering::SeqCst);
        code
    }

    alone();
    SLOW.store(NOT_CALLED, Ordering::SeqCst);
    let stream = Stream::non_blocking(&slowed(|api| api.cuLaunchHostFunc = Some(late))).unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let graph = std::thread::scope(|scope| {
        // A function that is called once: within a graph it would be gone after that.
        let caller = scope.spawn(|| {
            stream.call(move || {
                counted.fetch_add(1, Ordering::SeqCst);
            })
        });
        wait_for(IS_CALLED, Duration::from_secs(60));
        let graph = Graph::capture(&stream, CaptureMode::Relaxed, |_| {
            SLOW.fetch_max(CAPTURE_BEGAN, Ordering::SeqCst);
            wait_for(IS_QUEUED, Duration::from_secs(60));
            Ok(())
        });
        caller.join().unwrap().unwrap();
        graph.unwrap()
    });
    assert!(graph.nodes().unwrap().is_empty());
    stream.synchronize().unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[test]
fn no_capture_ends_under_a_call() {
    unsafe extern "C" fn lingering(
        stream: api::CUstream,
        call: api::CUhostFn,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: what was asked for.
        let code = unsafe { call_now(stream, call, data) };
        SLOW.store(IS_CALLED, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(100));
        code
    }

    alone();
    SLOW.store(NOT_CALLED, Ordering::SeqCst);
    let stream =
        Stream::non_blocking(&slowed(|api| api.cuLaunchHostFunc = Some(lingering))).unwrap();
    let (used, mut caller) = (Arc::new(()), None);
    let is_kept = Arc::downgrade(&used);
    let graph = Graph::capture(&stream, CaptureMode::Relaxed, |stream| {
        let stream = stream.clone();
        let function = move || assert!(Arc::strong_count(&used) > 0);
        caller = Some(std::thread::spawn(move || {
            stream.call_each_launch(function)
        }));
        wait_for(IS_CALLED, Duration::from_secs(60));
        Ok(())
    })
    .unwrap();
    caller.unwrap().join().unwrap().unwrap();
    assert!(!stream.is_capturing());
    assert_eq!(graph.nodes().unwrap().len(), 1);
    assert_eq!(is_kept.strong_count(), 1, "the graph lost the function");
    let ready = graph.instantiate().unwrap();
    ready.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    drop((graph, ready));
    assert_eq!(is_kept.strong_count(), 0);
}

#[test]
fn a_launch_that_a_capture_overtakes_keeps_what_it_uses() {
    #[rustfmt::skip]
    unsafe extern "C" fn late(
        function: api::CUfunction, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32,
        shared: u32, stream: api::CUstream, pointers: *mut *mut c_void, extra: *mut *mut c_void,
    ) -> c_int {
        SLOW.store(IS_CALLED, Ordering::SeqCst);
        wait_for(CAPTURE_BEGAN, Duration::from_secs(60));
        let entry = device().driver().api().cuLaunchKernel;
        // SAFETY: what was asked for.
        let code = entry.map_or(-1, |entry| unsafe {
            entry(function, gx, gy, gz, bx, by, bz, shared, stream, pointers, extra)
        });
        SLOW.store(IS_QUEUED, Ordering::SeqCst);
        code
    }

    alone();
    SLOW.store(NOT_CALLED, Ordering::SeqCst);
    let context = slowed(|api| api.cuLaunchKernel = Some(late));
    let stream = Stream::non_blocking(&context).unwrap();
    let module = Module::load(&context, ADD.as_bytes()).unwrap();
    let add = module.kernel("add").unwrap();
    let mut numbers = DeviceBuffer::from_slice(&context, &[1_u32]).unwrap();
    // Then a launch has nothing to note of them.
    numbers.fill_async(1, &stream).unwrap();
    context.synchronize().unwrap();
    let graph = std::thread::scope(|scope| {
        let launcher = scope.spawn(|| unsafe { add.launch(ONE, &stream, (&numbers, 2_u32)) });
        wait_for(IS_CALLED, Duration::from_secs(60));
        let graph = Graph::capture(&stream, CaptureMode::Relaxed, |_| {
            SLOW.fetch_max(CAPTURE_BEGAN, Ordering::SeqCst);
            wait_for(IS_QUEUED, Duration::from_secs(60));
            Ok(())
        });
        launcher.join().unwrap().unwrap();
        graph.unwrap()
    });
    assert_eq!(graph.nodes().unwrap().len(), 1);
    drop((add, module, numbers));
    let ready = graph.instantiate().unwrap();
    ready.launch(&stream).unwrap();
    stream.synchronize().unwrap();
}
