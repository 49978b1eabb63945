//! Graphs that are cloned, and graphs that change after they are instantiated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ptxkit::driver::{
    CaptureMode, CaptureStatus, CudaError, DeviceBuffer, Error, Event, Graph, GraphExec, Kernel,
    LaunchConfig, Module, NodeKind, PinnedBuffer, Stream,
};

use crate::kernels::ADD;
use crate::support::{alone, context};

const ONE: LaunchConfig = LaunchConfig::new([1; 3], [1; 3]);

fn adder() -> (ptxkit::driver::Context, Stream, Kernel) {
    let context = context();
    let stream = Stream::non_blocking(&context).unwrap();
    let module = Module::load(&context, ADD.as_bytes()).unwrap();
    let add = module.kernel("add").unwrap();
    (context, stream, add)
}

fn run(ready: &GraphExec, stream: &Stream) {
    ready.launch(stream).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn a_clone_goes_its_own_way() {
    alone();
    let (context, stream, add) = adder();
    let n = DeviceBuffer::from_slice(&context, &[0_u32]).unwrap();
    let mut graph = Graph::new(&context).unwrap();
    let first = unsafe { graph.add_kernel(&[], &add, ONE, (&n, 1_u32)) }.unwrap();
    let clone = graph.try_clone().unwrap();
    unsafe { graph.add_kernel(&[first], &add, ONE, (&n, 100_u32)) }.unwrap();
    assert_eq!(
        (graph.nodes().unwrap().len(), clone.nodes().unwrap().len()),
        (2, 1)
    );

    let copy = graph.node_in_clone(first, &clone).unwrap();
    assert_eq!(clone.nodes().unwrap(), [copy]);
    assert_eq!(clone.kind(copy).unwrap(), NodeKind::Kernel);
    assert!(matches!(clone.kind(first), Err(Error::GraphNode)));
    assert!(clone.node_in_clone(first, &graph).is_err());

    // It keeps what it uses beyond the original.
    let mut ready = clone.instantiate().unwrap();
    drop((graph, add, clone));
    run(&ready, &stream);
    assert_eq!(n.to_vec().unwrap(), [1]);
    let add = Module::load(&context, ADD.as_bytes())
        .unwrap()
        .kernel("add")
        .unwrap();
    unsafe { ready.set_kernel(copy, &add, ONE, (&n, 10_u32)) }.unwrap();
    run(&ready, &stream);
    assert_eq!(n.to_vec().unwrap(), [11]);
}

#[test]
fn the_order_of_nodes_is_told_and_changed() {
    alone();
    let (context, stream, _) = adder();
    let mut n = DeviceBuffer::from_slice(&context, &[0_u32]).unwrap();
    let mut graph = Graph::new(&context).unwrap();
    // Added first, and to be done last.
    let last = graph.add_fill(&[], &n, 1_u32).unwrap();
    let first = graph.add_fill(&[], &n, 2_u32).unwrap();
    assert_eq!(graph.edges().unwrap(), []);
    graph.add_dependency(first, last).unwrap();
    assert_eq!(graph.edges().unwrap(), [(first, last)]);
    let circle = graph.add_dependency(last, first);
    let told = circle
        .and_then(|()| graph.instantiate().map(drop))
        .unwrap_err();
    assert_eq!(told.code(), Some(CudaError::INVALID_VALUE), "{told}");
    let _ = graph.remove_dependency(last, first); // where the driver took it
    assert_eq!(graph.edges().unwrap(), [(first, last)]);
    run(&graph.instantiate().unwrap(), &stream);
    assert_eq!(n.to_vec().unwrap(), [1]);

    graph.remove_dependency(first, last).unwrap();
    assert_eq!(graph.edges().unwrap(), []);
    assert!(graph.remove_dependency(first, last).is_err());
    graph.add_dependency(last, first).unwrap();
    n.fill(0).unwrap();
    run(&graph.instantiate().unwrap(), &stream);
    assert_eq!(n.to_vec().unwrap(), [2]);

    let mut other = Graph::new(&context).unwrap();
    let foreign = other.add_empty(&[]).unwrap();
    let error = graph.add_dependency(first, foreign).unwrap_err();
    assert!(matches!(error, Error::GraphNode), "{error}");
}

#[test]
fn copies_and_fills_get_other_ends() {
    alone();
    let (context, stream, _) = adder();
    let buffer = |numbers: &[u32]| DeviceBuffer::from_slice(&context, numbers).unwrap();
    let (a, b) = (buffer(&[1, 2]), buffer(&[0, 0]));
    let pinned = PinnedBuffer::from_slice(&context, &[7_u32, 8]).unwrap();
    let mut out = PinnedBuffer::<u32>::zeroed(&context, 2).unwrap();
    let filled = buffer(&[0, 0]);
    let mut graph = Graph::new(&context).unwrap();
    let copy = graph.add_copy(&[], &b, &a).unwrap();
    let fill = graph.add_fill(&[], &filled, 5_u32).unwrap();
    let write = graph.add_write(&[fill], &filled, &pinned).unwrap();
    let read = graph.add_read(&[copy], &mut out, &b).unwrap();
    let mut ready = graph.instantiate().unwrap();
    run(&ready, &stream);
    assert_eq!(b.to_vec().unwrap(), [1, 2]);
    assert_eq!(out.to_vec().unwrap(), [1, 2]);
    assert_eq!(filled.to_vec().unwrap(), [7, 8]);

    {
        // What the graph is given is kept, as what it was made with.
        let from = buffer(&[30, 40]);
        ready.set_copy(copy, &b, &from).unwrap();
        let pinned = PinnedBuffer::from_slice(&context, &[70_u32, 80]).unwrap();
        ready.set_write(write, &a, &pinned).unwrap();
    }
    let mut other = PinnedBuffer::<u32>::zeroed(&context, 2).unwrap();
    ready.set_read(read, &mut other, &b).unwrap();
    ready.set_fill(fill, &filled, 9_u32).unwrap();
    run(&ready, &stream);
    assert_eq!(b.to_vec().unwrap(), [30, 40]);
    assert_eq!(a.to_vec().unwrap(), [70, 80]);
    assert_eq!(other.to_vec().unwrap(), [30, 40]);
    assert_eq!(out.to_vec().unwrap(), [1, 2], "the old end is left alone");
    assert_eq!(filled.to_vec().unwrap(), [9, 9]);

    // A node of another kind, and one of another graph.
    assert!(ready.set_fill(copy, &filled, 9_u32).is_err());
    let mut stranger = Graph::new(&context).unwrap();
    let node = stranger.add_fill(&[], &filled, 1_u32).unwrap();
    assert!(matches!(
        ready.set_fill(node, &filled, 9_u32),
        Err(Error::GraphNode)
    ));
    assert!(matches!(
        ready.set_copy(copy, &b, &buffer(&[1, 2, 3])),
        Err(Error::Length {
            given: 3,
            capacity: 2,
            ..
        })
    ));
}

#[test]
fn calls_graphs_and_events_are_replaced() {
    alone();
    let (context, stream, add) = adder();
    let n = DeviceBuffer::from_slice(&context, &[0_u32]).unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let counting = |by: u32| {
        let calls = Arc::clone(&calls);
        move || {
            calls.fetch_add(by, Ordering::SeqCst);
        }
    };
    let child = |by: u32| {
        let mut child = Graph::new(&context).unwrap();
        unsafe { child.add_kernel(&[], &add, ONE, (&n, by)) }.unwrap();
        child
    };
    let events = [(); 2].map(|()| Arc::new(Event::new(&context).unwrap()));
    let mut graph = Graph::new(&context).unwrap();
    let call = graph.add_host_function(&[], counting(1)).unwrap();
    let part = graph.add_graph(&[call], &child(1)).unwrap();
    let recording = graph.add_event_record(&[part], &events[0]).unwrap();
    let mut ready = graph.instantiate().unwrap();
    run(&ready, &stream);
    assert_eq!(
        (calls.load(Ordering::SeqCst), n.to_vec().unwrap()[0]),
        (1, 1)
    );
    assert!(
        events[1].elapsed_ms_since(&events[0]).is_err(),
        "it was not recorded"
    );

    ready.set_host_function(call, counting(10)).unwrap();
    ready.set_graph(part, &child(20)).unwrap();
    ready.set_event_record(recording, &events[1]).unwrap();
    run(&ready, &stream);
    assert_eq!(
        (calls.load(Ordering::SeqCst), n.to_vec().unwrap()[0]),
        (11, 21)
    );
    assert!(events[1].elapsed_ms_since(&events[0]).unwrap() > 0.0);

    let mut graph = Graph::new(&context).unwrap();
    let waiting = graph.add_event_wait(&[], &events[0]).unwrap();
    let mut ready = graph.instantiate().unwrap();
    ready.set_event_wait(waiting, &events[1]).unwrap();
    run(&ready, &stream);
    assert!(
        ready.set_event_record(waiting, &events[1]).is_err(),
        "it is another kind"
    );
}

#[test]
fn nodes_are_passed_over() {
    alone();
    let (context, stream, add) = adder();
    let n = DeviceBuffer::from_slice(&context, &[0_u32]).unwrap();
    let mut graph = Graph::new(&context).unwrap();
    let one = unsafe { graph.add_kernel(&[], &add, ONE, (&n, 1_u32)) }.unwrap();
    unsafe { graph.add_kernel(&[one], &add, ONE, (&n, 10_u32)) }.unwrap();
    let call = graph.add_host_function(&[one], || ()).unwrap();
    let mut ready = graph.instantiate().unwrap();
    assert!(ready.is_enabled(one).unwrap());
    ready.set_enabled(one, false).unwrap();
    assert!(!ready.is_enabled(one).unwrap());
    run(&ready, &stream);
    assert_eq!(n.to_vec().unwrap(), [10]);
    ready.set_enabled(one, true).unwrap();
    run(&ready, &stream);
    assert_eq!(n.to_vec().unwrap(), [21]);
    assert!(
        ready.set_enabled(call, false).is_err(),
        "a call cannot be passed over"
    );
}

#[test]
fn the_driver_tells_whether_a_stream_captures() {
    alone();
    let (context, stream, add) = adder();
    let n = DeviceBuffer::from_slice(&context, &[0_u32]).unwrap();
    assert_eq!(stream.capture_status().unwrap(), CaptureStatus::None);
    Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| {
        assert_eq!(stream.capture_status().unwrap(), CaptureStatus::Active);
        unsafe { add.launch(ONE, stream, (&n, 1_u32)) }?;
        // Waiting is nothing that a graph could hold.
        stream.synchronize().unwrap_err();
        assert_eq!(stream.capture_status().unwrap(), CaptureStatus::Invalidated);
        Ok(())
    })
    .unwrap_err();
    assert_eq!(stream.capture_status().unwrap(), CaptureStatus::None);

    let mut numbers = Vec::new();
    for _ in 0..2 {
        assert_eq!(stream.capture_info().unwrap(), (CaptureStatus::None, None));
        Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| {
            let (status, number) = stream.capture_info()?;
            assert_eq!(status, CaptureStatus::Active);
            numbers.push(number.unwrap());
            Ok(())
        })
        .unwrap();
    }
    assert_ne!(numbers[0], numbers[1]);

    let before = CaptureMode::Relaxed.exchange(&context).unwrap();
    assert_eq!(before, Some(CaptureMode::Global));
    let relaxed = CaptureMode::Global.exchange(&context).unwrap();
    assert_eq!(relaxed, Some(CaptureMode::Relaxed));
}

#[test]
fn a_captured_event_is_recorded_by_each_launch() {
    alone();
    let (context, stream, add) = adder();
    let n = DeviceBuffer::from_slice(&context, &[0_u32]).unwrap();
    let [start, end] = [(); 2].map(|()| Arc::new(Event::new(&context).unwrap()));
    let graph = Graph::capture(&stream, CaptureMode::ThreadLocal, |stream| {
        start.record_each_launch(stream)?;
        unsafe { add.launch(ONE, stream, (&n, 1_u32)) }?;
        end.record_each_launch(stream)
    })
    .unwrap();
    let kinds: Vec<_> = graph
        .nodes()
        .unwrap()
        .into_iter()
        .map(|node| graph.kind(node).unwrap())
        .collect();
    use NodeKind::{Kernel, RecordEvent};
    assert_eq!(kinds, [RecordEvent, Kernel, RecordEvent]);
    assert!(end.elapsed_ms_since(&start).is_err(), "nothing has run");
    run(&graph.instantiate().unwrap(), &stream);
    assert!(end.elapsed_ms_since(&start).unwrap() >= 0.0);
}
