//! What edges of graphs carry.

use super::*;

/// Edges carry what they were given, also in copies of the graph, and a call that has no place for
/// it is refused.
#[test]
fn edges_between_kernels_carry_data() {
    const LOSSY_QUERY: i32 = 402;
    let current = Current::new();
    let (mut graph, mut copy) = (null_mut(), null_mut());
    ok!(cuGraphCreate(&mut graph, 0));
    let mut counter = 0;
    ok!(cuMemAlloc_v2(&mut counter, 4));
    let [first, second] = [(); 2].map(|()| current.launch(graph, &[], c"add", counter, 1_u32));
    let mut empty = null_mut();
    ok!(cuGraphAddEmptyNode(&mut empty, graph, null(), 0));
    let programmatic = EdgeData {
        from_port: 1,
        kind: 1,
        ..EdgeData::default()
    };
    let unknown = EdgeData {
        from_port: 3,
        ..programmatic
    };
    for (from, to, data) in [
        (&first, &empty, &programmatic),
        (&empty, &second, &programmatic),
        (&first, &second, &unknown),
    ] {
        let refused = cu!(cuGraphAddDependencies_v2(graph, from, to, data, 1));
        assert_eq!(refused, INVALID_VALUE);
    }
    ok!(cuGraphAddDependencies_v2(
        graph,
        &first,
        &second,
        &programmatic,
        1
    ));
    ok!(cuGraphClone(&mut copy, graph));
    for graph in [graph, copy] {
        let (mut from, mut to, mut count) = (null_mut(), null_mut(), 1);
        let mut data = EdgeData::default();
        ok!(cuGraphGetEdges_v2(
            graph, &mut from, &mut to, &mut data, &mut count
        ));
        assert_eq!((count, data), (1, programmatic));
        let lost = cu!(cuGraphGetEdges(graph, &mut from, &mut to, &mut count));
        assert_eq!(lost, LOSSY_QUERY);
        // Only their number is asked for.
        ok!(cuGraphGetEdges(graph, null_mut(), null_mut(), &mut count));
        let lost = cu!(cuGraphNodeGetDependencies(to, &mut from, &mut count));
        assert_eq!(lost, LOSSY_QUERY);
        ok!(cuGraphNodeGetDependentNodes_v2(
            from, &mut to, &mut data, &mut count
        ));
        assert_eq!(data, programmatic);
    }
    ok!(cuGraphRemoveDependencies_v2(
        graph,
        &first,
        &second,
        &programmatic,
        1
    ));
    ok!(cuGraphAddDependencies(graph, &first, &second, 1));
    let (mut from, mut to, mut count) = (null_mut(), null_mut(), 1);
    ok!(cuGraphGetEdges(graph, &mut from, &mut to, &mut count));
    assert_eq!((count, from, to), (1, first, second));
    ok!(cuGraphDestroy(copy));
    ok!(cuGraphDestroy(graph));
}
