use super::*;

fn block(number: u32) -> BlockId {
    BlockId(number)
}

/// Graphs of all kinds, the same in each run.
fn graphs() -> Vec<(usize, Vec<(u32, u32)>)> {
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005) + 1;
        (state >> 33) as usize % below
    };
    let mut graphs = Vec::new();
    for size in 1..40 {
        for _ in 0..20 {
            let edges = random(size * 3);
            let mut edges: Vec<_> = (0..edges)
                .map(|_| (random(size) as u32, random(size) as u32))
                .collect();
            edges.sort_unstable();
            edges.dedup();
            graphs.push((size, edges));
        }
    }
    graphs
}

/// What can be reached from a node on paths that avoid another.
fn reached(size: usize, edges: &[(u32, u32)], from: u32, without: Option<u32>) -> Vec<bool> {
    let mut reached = vec![false; size];
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        if Some(at) != without && !std::mem::replace(&mut reached[at as usize], true) {
            let next = edges.iter().filter(|edge| edge.0 == at);
            open.extend(next.map(|edge| edge.1));
        }
    }
    reached
}

#[test]
fn a_dominator_is_on_all_paths() {
    for (size, edges) in graphs() {
        let graph = Graph::new(size, &edges);
        let all = reached(size, &edges, 0, None);
        for above in 0..size as u32 {
            let without = reached(size, &edges, 0, Some(above));
            for below in 0..size as u32 {
                // Of two blocks that are not reachable nothing is said.
                if !all[above as usize] && !all[below as usize] {
                    continue;
                }
                let both = all[above as usize] && all[below as usize];
                let expected = both && !without[below as usize];
                let found = graph.dominates(block(above), block(below));
                assert_eq!(found, expected, "{above} {below} of {edges:?}");
                if expected && above != below {
                    let next = graph.dominator(block(below));
                    assert!(graph.dominates(block(above), next), "{edges:?}");
                    assert_ne!(next, block(below));
                }
            }
        }
    }
}

#[test]
fn a_post_dominator_is_on_all_paths_to_the_end() {
    for (size, mut edges) in graphs() {
        let graph = Graph::new(size, &edges);
        let leaves = |at: BlockId| at.0 % 3 == 2;
        let found = graph.post_dominators(leaves, &[]);
        // The end is one more node.
        let end = size as u32;
        edges.extend((0..end).filter(|at| leaves(block(*at))).map(|at| (at, end)));
        let ends = |from: u32, without: Option<u32>| {
            reached(size + 1, &edges, from, without)[end as usize]
        };
        for at in (0..end).filter(|at| graph.is_reached(block(*at))) {
            let after = |to: &u32| *to != at && !ends(at, Some(*to));
            let mut all: Vec<u32> = (0..end).filter(after).collect();
            if !ends(at, None) {
                all.clear();
            }
            // The first of them is the one that all others are after.
            let first = |one: &&u32| all.iter().all(|to| to == *one || !ends(**one, Some(*to)));
            let expected = all.iter().find(first).copied().map(block);
            assert_eq!(found[at as usize], expected, "{at} of {edges:?}");
        }
    }
}

#[test]
fn each_cycle_has_a_back_edge() {
    for (size, edges) in graphs() {
        let graph = Graph::new(size, &edges);
        let back: Vec<_> = graph.back_edges().collect();
        let mut forward = edges.clone();
        forward.retain(|(from, to)| !back.contains(&(block(*from), block(*to))));
        for (from, to) in &forward {
            if graph.is_reached(block(*from)) {
                let cycle = reached(size, &forward, *to, None)[*from as usize];
                assert!(!cycle, "{from} {to} of {edges:?}");
            }
        }
        for (from, to) in back {
            let inside = graph.natural_loop(from, to);
            assert!(inside[from.index()] && inside[to.index()], "{edges:?}");
        }
    }
}

/// Each block of a long chain may leave it for one and the same end.
#[test]
fn early_exits_take_linear_time() {
    let size = 200_000;
    let last = size - 1;
    let mut edges: Vec<_> = (0..last).map(|at| (at, at + 1)).collect();
    edges.extend((0..last - 1).map(|at| (at, last)));
    edges.sort_unstable();
    let graph = Graph::new(size as usize, &edges);
    assert_eq!(graph.dominator(block(last)), BlockId::ENTRY);
    assert!(graph.dominates(block(7), block(last - 1)));
    // That end is in the frontier of all.
    assert!(graph.dominance_frontiers(100 * size as usize).is_some());
}

#[test]
fn loops_nest() {
    // 1 to 4 is a loop with two ways back, 2 to 3 one in it.
    let edges = [
        (0, 1),
        (1, 2),
        (2, 3),
        (3, 2),
        (3, 4),
        (2, 1),
        (4, 1),
        (4, 5),
    ];
    let graph = Graph::new(6, &edges);
    let loops = Loops::new(&graph).expect("one entry each");
    let depths: Vec<_> = (0..6).map(|at| loops.depth(block(at))).collect();
    assert_eq!(depths, [0, 1, 2, 2, 1, 0]);
    // Two entries.
    let graph = Graph::new(3, &[(0, 1), (0, 2), (1, 2), (2, 1)]);
    assert!(Loops::new(&graph).is_none());
    assert_eq!(graph.back_edges().count(), 1);
}
