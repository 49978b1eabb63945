//! Graphs within graphs that run by a value, edges that are no full dependencies, captures into
//! graphs that there are, and what nodes tell of themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use ptxkit::driver::{
    CaptureMode, Context, CudaError, DeviceBuffer, EdgeKind, Error, Event, Graph, GraphNode,
    Kernel, LaunchConfig, Module, NodeKind, NodeParams, PinnedBuffer, Stream, api,
};
use ptxkit::jit::{self, JitOptions, LinkInput};

use crate::kernels::ADD;
use crate::support::{alone, context, is_gpu};

const ONE: LaunchConfig = LaunchConfig::new([1; 3], [1; 3]);

/// `set(condition, value)`, and `count_down(condition, counter)`, which sets what is left.
const SET: &str = "
.version 7.0
.target sm_80
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
.visible .entry set(.param .u64 condition, .param .u32 value)
{
    .reg .b64 %rd;
    .reg .b32 %r;
    .param .b64 p0;
    .param .b32 p1;
    ld.param.u64 %rd, [condition];
    ld.param.u32 %r, [value];
    st.param.b64 [p0], %rd;
    st.param.b32 [p1], %r;
    call.uni cudaGraphSetConditional, (p0, p1);
    ret;
}
.visible .entry count_down(.param .u64 condition, .param .u64 counter)
{
    .reg .b64 %rd<2>;
    .reg .b32 %r;
    .param .b64 p0;
    .param .b32 p1;
    ld.param.u64 %rd0, [condition];
    ld.param.u64 %rd1, [counter];
    ld.global.u32 %r, [%rd1];
    sub.u32 %r, %r, 1;
    st.global.u32 [%rd1], %r;
    st.param.b64 [p0], %rd0;
    st.param.b32 [p1], %r;
    call.uni cudaGraphSetConditional, (p0, p1);
    ret;
}
";

/// A context, a stream that can be captured, and `add(data, n)`; `None` where the driver is older
/// than conditional nodes.
fn adder() -> Option<(Context, Stream, Kernel)> {
    let context = context();
    context.api().cuGraphConditionalHandleCreate?;
    let stream = Stream::non_blocking(&context).unwrap();
    let module = Module::load(&context, ADD.as_bytes()).unwrap();
    let add = module.kernel("add").unwrap();
    Some((context, stream, add))
}

/// The kernels of `SET`. A GPU needs the device runtime, which `PTXKIT_CUDADEVRT` names.
fn setters(context: &Context) -> Option<[Kernel; 2]> {
    let module = if !is_gpu() {
        Module::load(context, SET.as_bytes()).unwrap()
    } else {
        let path = std::env::var_os("PTXKIT_CUDADEVRT")?;
        let runtime = std::fs::read(path).unwrap();
        // SAFETY: NVIDIA's own archive.
        let runtime = unsafe { LinkInput::library("libcudadevrt.a", &runtime) };
        let inputs = [LinkInput::ptx("set.ptx", SET), runtime];
        let linked = jit::link(context, &inputs, &JitOptions::default()).unwrap();
        // SAFETY: it was linked a moment ago.
        unsafe { Module::load_image(context, &linked.binary) }.unwrap()
    };
    Some(["set", "count_down"].map(|name| module.kernel(name).unwrap()))
}

fn run(graph: &Graph, stream: &Stream) {
    graph.instantiate().unwrap().launch(stream).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn a_graph_runs_if_the_value_is_not_0() {
    alone();
    let Some((context, stream, add)) = adder() else {
        return;
    };
    for (value, expected) in [(0, 100), (1, 107), (5, 107)] {
        let n = DeviceBuffer::from_slice(&context, &[0_u32]).unwrap();
        let mut graph = Graph::new(&context).unwrap();
        let condition = graph.condition(Some(value)).unwrap();
        let (node, mut body) = graph.add_if(&[], condition).unwrap();
        assert_eq!(graph.kind(node).unwrap(), NodeKind::Conditional);
        unsafe { body.add_kernel(&[], &add, ONE, (&n, 7_u32)) }.unwrap();
        unsafe { graph.add_kernel(&[node], &add, ONE, (&n, 100_u32)) }.unwrap();
        run(&graph, &stream);
        assert_eq!(n.to_vec().unwrap(), [expected], "{value}");
        // The nodes of the one are not the other's.
        assert!(matches!(body.add_empty(&[node]), Err(Error::GraphNode)));
    }
}

#[test]
fn a_switch_runs_the_graph_of_its_number() {
    alone();
    let Some((context, stream, add)) = adder() else {
        return;
    };
    if is_gpu() && context.api().version() < 12_080 {
        return;
    }
    for (value, expected) in [(0, 1), (1, 10), (2, 100), (3, 0)] {
        let n = DeviceBuffer::from_slice(&context, &[0_u32]).unwrap();
        let mut graph = Graph::new(&context).unwrap();
        let condition = graph.condition(Some(value)).unwrap();
        let (_, mut bodies) = graph.add_switch(&[], condition, 3).unwrap();
        for (body, amount) in bodies.iter_mut().zip([1_u32, 10, 100]) {
            unsafe { body.add_kernel(&[], &add, ONE, (&n, amount)) }.unwrap();
        }
        // What the bodies use is kept, though they are gone.
        drop(bodies);
        run(&graph, &stream);
        assert_eq!(n.to_vec().unwrap(), [expected], "{value}");
    }
    let mut graph = Graph::new(&context).unwrap();
    let condition = graph.condition(Some(0)).unwrap();
    let n = DeviceBuffer::from_slice(&context, &[0_u32]).unwrap();
    let (_, [mut yes, mut no]) = graph.add_if_else(&[], condition).unwrap();
    unsafe { yes.add_kernel(&[], &add, ONE, (&n, 1_u32)) }.unwrap();
    unsafe { no.add_kernel(&[], &add, ONE, (&n, 2_u32)) }.unwrap();
    run(&graph, &stream);
    assert_eq!(n.to_vec().unwrap(), [2]);
    // A condition is its graph's.
    let mut other = Graph::new(&context).unwrap();
    assert!(matches!(
        other.add_if(&[], condition),
        Err(Error::GraphNode)
    ));
}

#[test]
fn a_graph_runs_as_long_as_a_kernel_says() {
    alone();
    let Some((context, stream, add)) = adder() else {
        return;
    };
    let Some([set, count_down]) = setters(&context) else {
        return;
    };
    let left = DeviceBuffer::from_slice(&context, &[5_u32]).unwrap();
    let n = DeviceBuffer::from_slice(&context, &[0_u32]).unwrap();
    let mut graph = Graph::new(&context).unwrap();
    let condition = graph.condition(None).unwrap();
    let first = unsafe { graph.add_kernel(&[], &set, ONE, (condition, 1_u32)) }.unwrap();
    let (_, mut body) = graph.add_while(&[first], condition).unwrap();
    // Captured into the body.
    let last = body
        .capture_into(&[], &stream, CaptureMode::ThreadLocal, |stream| unsafe {
            add.launch(ONE, stream, (&n, 3_u32))
        })
        .unwrap();
    unsafe { body.add_kernel(&last, &count_down, ONE, (condition, &left)) }.unwrap();
    drop(body);
    run(&graph, &stream);
    assert_eq!(n.to_vec().unwrap(), [15]);
    assert_eq!(left.to_vec().unwrap(), [0]);
}

#[test]
fn a_capture_adds_to_a_graph_that_there_is() {
    alone();
    let Some((context, stream, add)) = adder() else {
        return;
    };
    let n = DeviceBuffer::from_slice(&context, &[1_u32]).unwrap();
    let mut graph = Graph::new(&context).unwrap();
    let first = unsafe { graph.add_kernel(&[], &add, ONE, (&n, 10_u32)) }.unwrap();
    let condition = graph.condition(Some(1)).unwrap();
    let (_, mut body) = graph.add_if(&[first], condition).unwrap();
    let last = graph
        .capture_into(&[first], &stream, CaptureMode::ThreadLocal, |stream| {
            // The graph is the driver's now, and so is what is within it.
            assert!(matches!(body.add_empty(&[]), Err(Error::CapturedInto)));
            unsafe { add.launch(ONE, stream, (&n, 100_u32)) }
        })
        .unwrap();
    assert_eq!(last.len(), 1);
    assert!(!stream.is_capturing());
    body.add_empty(&[]).unwrap();
    assert!(graph.edges().unwrap().contains(&(first, last[0])));
    // Of a capture that fails, what came before stays.
    let failed = graph.capture_into(&last, &stream, CaptureMode::ThreadLocal, |stream| {
        unsafe { add.launch(ONE, stream, (&n, 1000_u32)) }?;
        Err(Error::GraphNode)
    });
    assert!(matches!(failed, Err(Error::GraphNode)));
    assert_eq!(graph.nodes().unwrap().len(), 4);
    run(&graph, &stream);
    assert_eq!(n.to_vec().unwrap(), [1111]);
    let own = graph.nodes().unwrap();
    let mut other = Graph::new(&context).unwrap();
    let refused = other.capture_into(&own, &stream, CaptureMode::ThreadLocal, |_| Ok(()));
    assert!(matches!(refused, Err(Error::GraphNode)));
}

#[test]
fn edges_between_kernels_have_kinds() {
    alone();
    let Some((context, stream, add)) = adder() else {
        return;
    };
    let n = DeviceBuffer::from_slice(&context, &[1_u32]).unwrap();
    let mut graph = Graph::new(&context).unwrap();
    let kernel = |graph: &mut Graph, after: &[(GraphNode, EdgeKind)], amount: u32| {
        unsafe { graph.add_kernel_after(after, &add, ONE, (&n, amount)) }.unwrap()
    };
    let first = kernel(&mut graph, &[], 1);
    // `add` has no `griddepcontrol`: its blocks trigger when they end.
    let second = kernel(&mut graph, &[(first, EdgeKind::Programmatic)], 2);
    let third = kernel(&mut graph, &[(second, EdgeKind::Full)], 4);
    let fourth = kernel(&mut graph, &[(third, EdgeKind::Full)], 8);
    graph.remove_dependency(third, fourth).unwrap();
    graph
        .add_dependency_of(EdgeKind::Programmatic, third, fourth)
        .unwrap();
    let mut edges = graph.edges_with_kinds().unwrap();
    edges.sort_by_key(|(_, to, _)| [first, second, third, fourth].iter().position(|n| n == to));
    assert_eq!(
        edges,
        [
            (first, second, EdgeKind::Programmatic),
            (second, third, EdgeKind::Full),
            (third, fourth, EdgeKind::Programmatic),
        ]
    );
    let lost = graph.edges().unwrap_err();
    assert_eq!(lost.code(), Some(CudaError(402)), "{lost}"); // LOSSY_QUERY
    // Only kernels start so.
    let empty = graph.add_empty(&[]).unwrap();
    assert!(
        graph
            .add_dependency_of(EdgeKind::Programmatic, empty, first)
            .is_err()
    );
    let clone = graph.try_clone().unwrap();
    assert_eq!(clone.edges_with_kinds().unwrap().len(), 3);
    run(&graph, &stream);
    assert_eq!(n.to_vec().unwrap(), [16]);
}

#[test]
fn nodes_tell_what_they_do() {
    alone();
    let Some((context, _, add)) = adder() else {
        return;
    };
    let n = DeviceBuffer::<u32>::zeroed(&context, 12).unwrap();
    let from = DeviceBuffer::<u32>::zeroed(&context, 12).unwrap();
    let mut host = PinnedBuffer::<u32>::zeroed(&context, 12).unwrap();
    let event = Arc::new(Event::new(&context).unwrap());
    let mut graph = Graph::new(&context).unwrap();
    let config = LaunchConfig::new([3, 2, 1], [32, 1, 1]).with_shared(64);
    let kernel = unsafe { graph.add_kernel(&[], &add, config, (&n, 1_u32)) }.unwrap();
    match graph.params(kernel).unwrap() {
        NodeParams::Kernel { name, config: told } => {
            assert_eq!(name.as_deref(), Some("add"));
            assert_eq!(told, config);
        }
        other => panic!("{other:?}"),
    }
    let copy = graph.add_copy(&[], &n, &from).unwrap();
    match graph.params(copy).unwrap() {
        NodeParams::Copy {
            from: Some(source),
            to: Some(target),
            extent,
        } => assert_eq!(
            (source, target, extent),
            (from.address(), n.address(), [48, 1, 1])
        ),
        other => panic!("{other:?}"),
    }
    let read = graph.add_read(&[], &mut host, &n).unwrap();
    assert!(matches!(
        graph.params(read).unwrap(),
        NodeParams::Copy {
            from: Some(_),
            to: None,
            ..
        }
    ));
    let fill = graph.add_fill(&[], &n, 9).unwrap();
    match graph.params(fill).unwrap() {
        NodeParams::Fill {
            address,
            value,
            element,
            extent,
        } => assert_eq!(
            (address, value, element, extent),
            (n.address(), 9, 4, [12, 1])
        ),
        other => panic!("{other:?}"),
    }
    let record = graph.add_event_record(&[], &event).unwrap();
    assert!(matches!(
        graph.params(record).unwrap(),
        NodeParams::Event(raw) if raw == event.raw()
    ));
    let mut child = Graph::new(&context).unwrap();
    child.add_fill(&[], &from, 1).unwrap();
    let nested = graph.add_graph(&[], &child).unwrap();
    let NodeParams::Graph(mut inner) = graph.params(nested).unwrap() else {
        panic!("no graph");
    };
    assert_eq!(inner.nodes().unwrap().len(), 1);
    // It is part of the outer one, and cannot be put into it.
    assert!(matches!(
        graph.add_graph(&[], &inner),
        Err(Error::GraphNode)
    ));
    inner.add_empty(&[]).unwrap();
    let empty = graph.add_empty(&[]).unwrap();
    assert!(matches!(
        graph.params(empty).unwrap(),
        NodeParams::None(NodeKind::Empty)
    ));
    // The graph within lives as long as it is held.
    drop(graph);
    assert_eq!(inner.nodes().unwrap().len(), 2);
}

/// Dropped when the graph and its executable graphs are, by a thread of the driver.
#[test]
fn a_graph_keeps_an_object() {
    alone();
    struct Told(mpsc::Sender<()>, Arc<AtomicBool>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.1.store(true, Ordering::SeqCst);
            self.0.send(()).unwrap();
        }
    }
    let context = context();
    let (sender, dropped) = mpsc::channel();
    let is_dropped = Arc::new(AtomicBool::new(false));
    let mut graph = Graph::new(&context).unwrap();
    graph.add_empty(&[]).unwrap();
    graph
        .retain(Arc::new(Told(sender, is_dropped.clone())))
        .unwrap();
    let clone = graph.try_clone().unwrap();
    let ready = graph.instantiate().unwrap();
    drop(graph);
    drop(clone);
    assert!(!is_dropped.load(Ordering::SeqCst));
    drop(ready);
    dropped.recv_timeout(Duration::from_secs(60)).unwrap();
}

#[test]
fn a_panic_of_what_a_graph_retains_stays_there() {
    /// Tells when it is dropped, and panics with what panics again.
    struct Bad(Option<mpsc::Sender<()>>);
    impl Drop for Bad {
        fn drop(&mut self) {
            match self.0.take() {
                Some(tell) => {
                    tell.send(()).unwrap();
                    std::panic::panic_any(Bad(None));
                }
                None => panic!("expected in this test"),
            }
        }
    }
    let context = context();
    let (tell, told) = mpsc::channel();
    let mut graph = Graph::new(&context).unwrap();
    graph.retain(Arc::new(Bad(Some(tell)))).unwrap();
    drop(graph);
    told.recv_timeout(Duration::from_secs(60)).unwrap();
    context.synchronize().unwrap();
}

/// The headers say nothing of a grid without blocks. `cuLaunchKernel` refuses it, and so does the
/// safe layer; what the entry for nodes does is told here.
#[test]
fn a_kernel_node_without_blocks_is_refused() {
    alone();
    let Some((context, _, add)) = adder() else {
        return;
    };
    let n = DeviceBuffer::<u32>::zeroed(&context, 1).unwrap();
    let mut graph = Graph::new(&context).unwrap();
    for grid in [[0, 1, 1], [1, 0, 1], [1, 1, 0]] {
        let config = LaunchConfig::new(grid, [1; 3]);
        let safe = unsafe { graph.add_kernel(&[], &add, config, (&n, 1_u32)) };
        assert!(matches!(safe, Err(Error::Dimension { given: 0, .. })));
        let (mut address, mut amount) = (n.address(), 1_u32);
        let mut arguments = [(&raw mut address).cast(), (&raw mut amount).cast()];
        let params = api::CUDA_KERNEL_NODE_PARAMS_v2 {
            func: add.raw(),
            gridDimX: grid[0],
            gridDimY: grid[1],
            gridDimZ: grid[2],
            blockDimX: 1,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            kernelParams: arguments.as_mut_ptr(),
            extra: std::ptr::null_mut(),
            kern: std::ptr::null_mut(),
            ctx: context.raw(),
        };
        let mut node = std::ptr::null_mut();
        let _entered = context.enter().unwrap();
        // SAFETY: graph and kernel are live, and the arguments are the kernel's.
        let raw = unsafe {
            context.api().cuGraphAddKernelNode_v2(
                &mut node,
                graph.raw(),
                std::ptr::null(),
                0,
                &params,
            )
        };
        let code = raw.err().and_then(|error| error.code());
        assert_eq!(code, Some(CudaError::INVALID_VALUE), "{grid:?}");
    }
}
