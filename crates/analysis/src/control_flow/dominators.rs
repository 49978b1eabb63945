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
    // All by the number in the search: semidominators, buckets as chains, dominators.
    let mut first_in_bucket = vec![NONE; count];
    let mut next_in_bucket = vec![NONE; count];
    let mut found = vec![0; count];
    for at in (1..count as u32).rev() {
        let mut semi = at;
        for from in before.get(search.nodes[at as usize]) {
            let from = search.number[*from as usize];
            if from != NONE {
                semi = semi.min(forest.least(from, at));
            }
        }
        forest.semi[at as usize] = semi;
        let parent = search.parent[at as usize];
        forest.above[at as usize] = parent;
        if semi == parent {
            // Nothing is between the two.
            found[at as usize] = parent;
        } else {
            next_in_bucket[at as usize] = first_in_bucket[semi as usize];
            first_in_bucket[semi as usize] = at;
        }
        let mut waiting = std::mem::replace(&mut first_in_bucket[parent as usize], NONE);
        while waiting != NONE {
            let least = forest.lowest(waiting);
            let own = forest.semi[waiting as usize];
            let lower = forest.semi[least as usize] < own;
            found[waiting as usize] = if lower { least } else { parent };
            waiting = next_in_bucket[waiting as usize];
        }
    }
    let mut dominator = vec![NONE; search.number.len()];
    for (at, node) in search.nodes.iter().enumerate() {
        if found[at] != forest.semi[at] {
            found[at] = found[found[at] as usize];
        }
        dominator[*node as usize] = search.nodes[found[at] as usize];
    }
    dominator
}

/// The nodes of the search that were visited, as a forest with compressed paths.
struct Forest {
    semi: Vec<u32>,
    /// The node above; `NONE` for one that is not in it yet.
    above: Vec<u32>,
    /// The node with the least semidominator of the path that was compressed.
    label: Vec<u32>,
    path: Vec<u32>,
}

impl Forest {
    fn new(count: usize) -> Forest {
        let each: Vec<u32> = (0..count as u32).collect();
        Forest {
            semi: each.clone(),
            above: vec![NONE; count],
            label: each,
            path: Vec::new(),
        }
    }

    /// The least semidominator on the path from the root of its tree to `node`; `at` and
    /// those before it are not in the forest.
    fn least(&mut self, node: u32, at: u32) -> u32 {
        match node <= at {
            true => node,
            false => {
                let lowest = self.lowest(node);
                self.semi[lowest as usize]
            }
        }
    }

    /// The node with the least semidominator on the path from the root of its tree.
    fn lowest(&mut self, node: u32) -> u32 {
        let mut at = node;
        loop {
            let above = self.above[at as usize];
            if self.above[above as usize] == NONE {
                break;
            }
            self.path.push(at);
            at = above;
        }
        while let Some(at) = self.path.pop() {
            let above = self.above[at as usize] as usize;
            let (own, other) = (self.label[at as usize], self.label[above]);
            if self.semi[other as usize] < self.semi[own as usize] {
                self.label[at as usize] = other;
            }
            self.above[at as usize] = self.above[above];
        }
        self.label[node as usize]
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

/// The entry and exit numbers of a walk of the dominator tree.
pub fn intervals(search: &DepthFirst, dominator: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let order = search.reverse_post_order();
    let below: Vec<_> = order
        .filter(|at| dominator[*at as usize] != *at)
        .map(|at| (dominator[at as usize], at))
        .collect();
    let count = dominator.len();
    let below = Lists::new(count, &below);
    // An unreachable node dominates nothing and is dominated by nothing.
    let mut entered = vec![NONE; count];
    let mut left = vec![NONE; count];
    let mut clock = 0;
    let mut open = Vec::with_capacity(count);
    open.push((0, 0));
    entered[0] = 0;
    while let Some((at, place)) = open.last_mut() {
        clock += 1;
        match below.get(*at).get(*place) {
            Some(to) => {
                *place += 1;
                entered[*to as usize] = clock;
                open.push((*to, 0));
            }
            None => {
                left[*at as usize] = clock;
                open.pop();
            }
        }
    }
    (entered, left)
}
