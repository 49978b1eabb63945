//! Which kernels stay together, and what each group of them needs.

use super::graph::{Graph, Kind, NodeId};
use super::whole::Whole;
use crate::check::SYSTEM;

/// The nodes of a slice.
#[derive(Debug)]
pub struct Group {
    /// In the order of the source. Empty for variables that no kernel uses.
    pub kernels: Vec<NodeId>,
    /// All that the kernels reach, with them.
    pub nodes: Vec<NodeId>,
}

/// Groups the kernels, in the order of their first ones. The last group may have no
/// kernels: it has the variables of the host that no kernel uses.
///
/// `steps` is the limit for the nodes that kernels reach, `copies` that for the bytes of
/// copies. The error is a reason why the module stays whole.
pub fn groups(graph: &Graph<'_>, steps: usize, copies: u64) -> Result<Vec<Group>, Whole> {
    let mut reached = Reached::new(graph, steps)?;
    reached.share_costly_nodes(graph, copies);
    Ok(reached.groups(graph))
}

/// What is reached from kernels and from variables of the host: the roots.
struct Reached {
    roots: Vec<Root>,
    /// The nodes that each root reaches, itself first.
    nodes: Vec<NodeId>,
    sets: Sets,
}

struct Root {
    node: NodeId,
    /// In [`Reached::nodes`].
    nodes: std::ops::Range<usize>,
}

impl Reached {
    fn new(graph: &Graph<'_>, steps: usize) -> Result<Reached, Whole> {
        let count = graph.nodes.len();
        let mut reached = Reached {
            roots: Vec::new(),
            nodes: Vec::new(),
            // One more stands for the functions whose address is taken.
            sets: Sets::new(count + 1),
        };
        let mut last_root: Vec<Option<NodeId>> = vec![None; count];
        let of_kind = |kernels: bool| {
            let nodes = graph.nodes.iter().enumerate();
            nodes.filter(move |(_, node)| (node.kind == Kind::Kernel) == kernels)
        };
        let kernels = of_kind(true).filter(|(_, node)| node.defined);
        let variables = of_kind(false).filter(|(_, node)| node.visible && node.defined);
        for (root, node) in kernels.chain(variables) {
            // What may be copied is wherever it is used, and nowhere else unless nothing uses it.
            if !node.single && last_root[root].is_some() {
                continue;
            }
            let root = root as NodeId;
            let start = reached.nodes.len();
            reached.nodes.push(root);
            last_root[root as usize] = Some(root);
            let mut next = start;
            while let Some(node) = reached.nodes.get(next).copied() {
                next += 1;
                reached.visit(graph, root, node)?;
                for used in &graph.node(node).uses {
                    let last = &mut last_root[*used as usize];
                    if last.replace(root) != Some(root) {
                        reached.nodes.push(*used);
                    }
                }
                if reached.nodes.len() > steps {
                    return Err(Whole::Entangled);
                }
            }
            let nodes = start..reached.nodes.len();
            reached.roots.push(Root { node: root, nodes });
        }
        Ok(reached)
    }

    fn visit(&mut self, graph: &Graph<'_>, root: NodeId, id: NodeId) -> Result<(), Whole> {
        let node = graph.node(id);
        if !node.defined && !SYSTEM.contains(&node.name) {
            return Err(Whole::Unresolved(node.name.to_owned()));
        }
        if node.single {
            self.sets.join(root, id);
        }
        if node.indirect {
            self.sets.join(root, graph.nodes.len() as NodeId);
        }
        Ok(())
    }

    fn reached(&self, root: &Root) -> &[NodeId] {
        self.nodes.get(root.nodes.clone()).unwrap_or_default()
    }

    /// The roots, those of one group next to one another.
    fn by_group(&mut self) -> Vec<(NodeId, usize)> {
        let sets = &mut self.sets;
        let roots = self.roots.iter().enumerate();
        let mut order: Vec<_> = roots
            .map(|(index, root)| (sets.find(root.node), index))
            .collect();
        order.sort_unstable();
        order
    }

    /// Joins the kernels that use a node, the costliest first, until the copies of all
    /// others take no more than the limit.
    ///
    /// Costs are compared by their sizes, and nodes of one size are shared or copied all
    /// alike: one kernel more seldom changes how the others are grouped.
    fn share_costly_nodes(&mut self, graph: &Graph<'_>, limit: u64) {
        let mut copies = vec![0_u64; graph.nodes.len()];
        let mut last_group = vec![None; graph.nodes.len()];
        for (group, root) in self.by_group() {
            for node in self.reached(&self.roots[root]) {
                if last_group[*node as usize].replace(group) != Some(group) {
                    copies[*node as usize] += 1;
                }
            }
        }
        let sizes: Vec<u32> = copies
            .iter()
            .zip(&graph.nodes)
            .map(|(copies, of)| size(copies.saturating_sub(1).saturating_mul(of.bytes)))
            .collect();
        let mut counts = [0_u64; SIZES];
        for size in &sizes {
            counts[*size as usize] += 1;
        }
        let mut total = 0_u64;
        let copied = counts.iter().enumerate().take_while(|(size, count)| {
            let most = 1_u64.checked_shl(*size as u32).unwrap_or(u64::MAX) - 1;
            total = total.saturating_add(most.saturating_mul(**count));
            total <= limit
        });
        let copied = copied.count() as u32;
        if copied as usize == SIZES {
            return;
        }
        let shared: Vec<bool> = sizes.iter().map(|size| *size >= copied).collect();
        for root in &self.roots {
            for node in self.nodes.get(root.nodes.clone()).unwrap_or_default() {
                if shared[*node as usize] {
                    self.sets.join(root.node, *node);
                }
            }
        }
    }

    fn groups(mut self, graph: &Graph<'_>) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let mut last_group = vec![None; graph.nodes.len()];
        let mut unused = Group {
            kernels: Vec::new(),
            nodes: Vec::new(),
        };
        let order = self.by_group();
        for of_group in order.chunk_by(|a, b| a.0 == b.0) {
            let mut group = Group {
                kernels: Vec::new(),
                nodes: Vec::new(),
            };
            for (set, root) in of_group {
                let root = &self.roots[*root];
                if graph.node(root.node).kind == Kind::Kernel {
                    group.kernels.push(root.node);
                }
                for node in self.reached(root) {
                    if last_group[*node as usize].replace(*set) != Some(*set) {
                        group.nodes.push(*node);
                    }
                }
            }
            if group.kernels.is_empty() {
                unused.nodes.append(&mut group.nodes)
            } else {
                groups.push(group)
            }
        }
        groups.sort_unstable_by_key(|group| group.kernels.first().copied());
        if !unused.nodes.is_empty() {
            unused.nodes.sort_unstable();
            unused.nodes.dedup();
            groups.push(unused);
        }
        groups
    }
}

/// The number of different [`size`]s.
const SIZES: usize = u64::BITS as usize + 1;

/// The number of binary digits.
fn size(cost: u64) -> u32 {
    u64::BITS - cost.leading_zeros()
}

/// Disjoint sets of nodes.
struct Sets {
    parents: Vec<NodeId>,
}

impl Sets {
    fn new(count: usize) -> Sets {
        Sets {
            parents: (0..count as NodeId).collect(),
        }
    }

    fn find(&mut self, mut node: NodeId) -> NodeId {
        while self.parents[node as usize] != node {
            let parent = self.parents[node as usize];
            self.parents[node as usize] = self.parents[parent as usize];
            node = parent;
        }
        node
    }

    fn join(&mut self, a: NodeId, b: NodeId) {
        let (a, b) = (self.find(a), self.find(b));
        // The smaller number, so that the order of the source stays.
        self.parents[a.max(b) as usize] = a.min(b);
    }
}
