//! Graphs that allocate memory by themselves.

use ptxkit::driver::{
    Context, DeviceBuffer, Error, Graph, GraphExec, Module, NodeKind, PinnedBuffer, Stream,
    Texture, TextureDescriptor, copy,
};

use crate::pool::{BLOCK, INCREMENT};
use crate::support::{alone, context, device};

fn stream(context: &Context) -> Stream {
    Stream::non_blocking(context).unwrap()
}

/// A graph that adds 1 to 32 numbers by way of memory of its own, and its node
/// that frees the memory.
fn incrementing(numbers: &DeviceBuffer<u32>) -> Graph {
    let context = numbers.context();
    let increment = Module::load(context, INCREMENT).unwrap();
    let increment = increment.kernel("increment").unwrap();
    let mut graph = Graph::new(context).unwrap();
    let freed = graph
        .add_memory::<u32>(&[], 32, |graph, scratch| {
            // Nothing is said of the allocation, behind which each node comes nevertheless.
            let there = graph.add_copy(&[], scratch, numbers)?;
            let more = unsafe { graph.add_kernel(&[there], &increment, BLOCK, (scratch,)) }?;
            graph.add_copy(&[more], numbers, scratch).map(drop)
        })
        .unwrap();
    assert_eq!(graph.kind(freed).unwrap(), NodeKind::Free);
    graph
}

#[test]
fn memory_is_there_for_the_nodes_of_a_graph() {
    alone();
    let context = context();
    let stream = stream(&context);
    let numbers = DeviceBuffer::from_slice(&context, &[5_u32; 32]).unwrap();
    let graph = incrementing(&numbers);
    let nodes = graph.nodes().unwrap();
    let of = |kind| {
        let found = nodes
            .iter()
            .filter(|node| graph.kind(**node).unwrap() == kind);
        found.copied().collect::<Vec<_>>()
    };
    let ([allocated], [freed]) = (&of(NodeKind::Allocate)[..], &of(NodeKind::Free)[..]) else {
        panic!("one allocation, one end of it");
    };
    let edges = graph.edges().unwrap();
    for node in of(NodeKind::Copy).iter().chain(&of(NodeKind::Kernel)) {
        assert!(
            edges.contains(&(*allocated, *node)),
            "used before it is there"
        );
        assert!(edges.contains(&(*node, *freed)), "freed before it is used");
    }
    let ready = graph.instantiate().unwrap();
    drop(graph);
    for _ in 0..3 {
        ready.launch(&stream).unwrap();
    }
    stream.synchronize().unwrap();
    assert_eq!(numbers.to_vec().unwrap(), [8; 32]);
}

#[test]
fn a_device_tells_what_graphs_have() {
    alone();
    let context = context();
    let stream = stream(&context);
    let device = device();
    device.trim_graph_memory().unwrap();
    let before = device.graph_memory().unwrap();
    let numbers = DeviceBuffer::from_slice(&context, &[5_u32; 32]).unwrap();
    let ready = incrementing(&numbers).instantiate().unwrap();
    ready.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    let during = device.graph_memory().unwrap();
    assert!(
        during.used.high >= before.used.now + 128,
        "{before:?} {during:?}"
    );
    assert!(
        during.reserved.now >= before.reserved.now + 128,
        "{during:?}"
    );
    assert!(during.reserved.high >= during.reserved.now, "{during:?}");
    drop(ready);
    context.synchronize().unwrap();
    device.trim_graph_memory().unwrap();
    let after = device.graph_memory().unwrap();
    assert!(
        after.reserved.now < during.reserved.now,
        "{during:?} {after:?}"
    );
    assert!(after.used.now < during.used.high, "{during:?} {after:?}");
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(matches!(result, Err(Error::GraphMemory)), "{result:?}");
}

#[test]
fn it_is_there_for_nothing_else() {
    alone();
    let context = context();
    let stream = stream(&context);
    let increment = Module::load(&context, INCREMENT).unwrap();
    let increment = increment.kernel("increment").unwrap();
    let mut numbers = DeviceBuffer::<u32>::zeroed(&context, 32).unwrap();
    let mut pinned = PinnedBuffer::<u32>::zeroed(&context, 32).unwrap();
    let mut other = Graph::new(&context).unwrap();
    let node = other.add_fill(&[], &numbers, 1).unwrap();
    let launch = unsafe { other.add_kernel(&[], &increment, BLOCK, (&numbers,)) }.unwrap();
    let mut ready = other.instantiate().unwrap();
    let mut graph = Graph::new(&context).unwrap();
    let freed = graph.add_memory::<u32>(&[], 32, |_, scratch| {
        refused(scratch.to_vec());
        refused(scratch.read_async(&mut pinned, &stream));
        refused(numbers.copy_from(scratch));
        refused(copy(&mut numbers, scratch));
        refused(unsafe { increment.launch(BLOCK, &stream, (scratch,)) });
        refused(unsafe { increment.launch(BLOCK, &stream, (scratch.slice(3..).unwrap(),)) });
        refused(stream.write_value(scratch, 1));
        refused(Texture::new(scratch, &TextureDescriptor::default()));
        refused(other.add_fill(&[], scratch, 1));
        refused(unsafe { other.add_kernel(&[], &increment, BLOCK, (scratch,)) });
        refused(ready.set_fill(node, scratch, 1));
        refused(unsafe { ready.set_kernel(launch, &increment, BLOCK, (scratch,)) });
        Ok(())
    });
    freed.unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 2);

    let nothing = graph.add_memory::<u32>(&[], 0, |_, _| Ok(()));
    assert!(matches!(nothing, Err(Error::Length { .. })), "{nothing:?}");
    let failed = graph.add_memory::<u8>(&[], 8, |graph, scratch| {
        graph.add_fill(&[], scratch, 3)?;
        Err(Error::GraphNode)
    });
    assert!(matches!(failed, Err(Error::GraphNode)), "{failed:?}");
    // What was added is freed all the same.
    let ready = graph.instantiate().unwrap();
    for _ in 0..2 {
        ready.launch(&stream).unwrap();
    }
    stream.synchronize().unwrap();
}

#[test]
fn such_a_graph_is_one() {
    alone();
    let context = context();
    let numbers = DeviceBuffer::<u32>::zeroed(&context, 32).unwrap();
    let graph = incrementing(&numbers);
    assert!(graph.try_clone().is_err());
    assert!(
        Graph::new(&context)
            .unwrap()
            .add_graph(&[], &graph)
            .is_err()
    );
    let ready: GraphExec = graph.instantiate().unwrap();
    assert!(graph.instantiate().is_err());
    drop(ready);
    graph.instantiate().unwrap();
}
