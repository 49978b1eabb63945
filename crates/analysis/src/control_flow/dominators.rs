//! Dominators: the blocks that all paths from the entry to a block pass through.

use super::{DepthFirst, Graph, Lists, NONE};

/// The immediate dominator of each node; the root is its own, unreachable nodes have none.
///
/// Lengauer and Tarjan: "A Fast Algorithm for Finding Dominators in a Flowgraph", TOPLAS
/// 1(1), 1979, with simple path compression. It takes O(m log n) for any graph. Walks up
/// the tree from each edge would take O(n²) for a kernel with thousands of early exits.
pub fn immediate(search: &DepthFirst, before: &Lists) -> Vec<u32> {
    let count = search.nodes.len();
    let mut forest = Forest::new(count);
    for at in (1..count as u32).rev() {
        let mut semi = at;
        for from in before.get(search.nodes[at as usize]) {
            let from = search.number[*from as usize];
            if from != NONE {
                semi = semi.min(forest.least(from, at));
            }
        }
        let parent = search.parent[at as usize];
        let node = forest.node(at);
        (node.semi, node.above) = (semi, parent);
        if semi == parent {
            // Nothing is between the two.
            node.found = parent;
        } else {
            let first = std::mem::replace(&mut forest.node(semi).first_in_bucket, at);
            forest.node(at).next_in_bucket = first;
        }
        let mut waiting = std::mem::replace(&mut forest.node(parent).first_in_bucket, NONE);
        while waiting != NONE {
            let least = forest.lowest(waiting);
            let lowest = forest.node(least).semi;
            let node = forest.node(waiting);
            node.found = if lowest < node.semi { least } else { parent };
            waiting = node.next_in_bucket;
        }
    }
    let mut dominator = vec![NONE; search.number.len()];
    for (at, node) in (0..).zip(&search.nodes) {
        let Node { semi, found, .. } = *forest.node(at);
        let found = if found == semi {
            found
        } else {
            forest.node(found).found
        };
        forest.node(at).found = found;
        dominator[*node as usize] = search.nodes[found as usize];
    }
    dominator
}

/// A node, by its number in the search, which those that it names have too.
#[derive(Clone, Copy)]
struct Node {
    /// Its semidominator.
    semi: u32,
    /// The node above in the forest; `NONE` for one that is not in it yet.
    above: u32,
    /// The node with the least semidominator of the path that was compressed.
    label: u32,
    /// The nodes with this semidominator, as a chain.
    first_in_bucket: u32,
    next_in_bucket: u32,
    /// Its dominator, or a node with the same one.
    found: u32,
}

/// The nodes of the search that were visited, as a forest with compressed paths.
struct Forest {
    nodes: Vec<Node>,
    path: Vec<u32>,
}

impl Forest {
    fn new(count: usize) -> Forest {
        let node = |at| Node {
            semi: at,
            above: NONE,
            label: at,
            first_in_bucket: NONE,
            next_in_bucket: NONE,
            found: 0,
        };
        Forest {
            nodes: (0..count as u32).map(node).collect(),
            path: Vec::new(),
        }
    }

    fn node(&mut self, at: u32) -> &mut Node {
        &mut self.nodes[at as usize]
    }

    /// The least semidominator on the path from the root of its tree to `node`; `at` and
    /// those before it are not in the forest.
    fn least(&mut self, node: u32, at: u32) -> u32 {
        if node <= at {
            node
        } else {
            let lowest = self.lowest(node);
            self.node(lowest).semi
        }
    }

    /// The node with the least semidominator on the path from the root of its tree.
    fn lowest(&mut self, node: u32) -> u32 {
        let mut at = node;
        loop {
            let above = self.node(at).above;
            if self.node(above).above == NONE {
                break;
            }
            self.path.push(at);
            at = above;
        }
        while let Some(at) = self.path.pop() {
            let Node { above, label, .. } = *self.node(at);
            let above = *self.node(above);
            let lower = self.node(above.label).semi < self.node(label).semi;
            let node = self.node(at);
            node.label = if lower { above.label } else { label };
            node.above = above.above;
        }
        self.node(node).label
    }
}

/// Where the paths from a block meet those from elsewhere (Cytron et al.: "Efficiently
/// Computing Static Single Assignment Form and the Control Dependence Graph", 1991).
pub fn frontiers(graph: &Graph, mut budget: usize) -> Option<Lists> {
    let mut pairs = Vec::with_capacity(graph.block_count());
    // The last block that is known to be in the frontier of each.
    let mut last = vec![NONE; graph.block_count()];
    for &at in &graph.order {
        if graph.predecessors(at).nth(1).is_none() {
            continue;
        }
        let above = graph.dominator(at);
        for from in graph.predecessors(at) {
            let mut runner = from;
            // From another predecessor, the rest of the way is known.
            while runner != above && last[runner.index()] != at.0 {
                budget = budget.checked_sub(1)?;
                last[runner.index()] = at.0;
                pairs.push((runner.0, at.0));
                runner = graph.dominator(runner);
            }
        }
    }
    Some(Lists::new(graph.block_count(), &pairs))
}

/// The places in a walk of the dominator tree: that of each block, and that behind the blocks
/// that it dominates.
pub fn intervals(search: &DepthFirst, dominator: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let count = dominator.len();
    // How many blocks each dominates: the search leaves those first.
    let mut sizes = vec![1; count];
    for at in search.left.iter().map(|at| *at as usize) {
        let above = dominator[at] as usize;
        if above != at {
            sizes[above] += sizes[at];
        }
    }
    // An unreachable node dominates nothing and is dominated by nothing.
    let mut entered = vec![NONE; count];
    let mut left = vec![NONE; count];
    for at in search.reverse_post_order().map(|at| at as usize) {
        let above = dominator[at] as usize;
        entered[at] = if above == at { 0 } else { left[above] };
        if above != at {
            left[above] += sizes[at];
        }
        // Those that it dominates follow.
        left[at] = entered[at] + 1;
    }
    (entered, left)
}
