//! Executable graphs: launched, and changed between launches.

use std::ffi::c_uint;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::context;
use super::graph::{Graph, Instance};
use super::handle::Handles;
use super::node::{Node, NodeKind, Nodes, Work, all_of};
use super::status::{Result, Status};

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`
pub(crate) const AUTO_FREE_ON_LAUNCH: u64 = 1;

/// `CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH`
pub(crate) const DEVICE_LAUNCH: u64 = 4;

static EXECUTABLE: Handles<ExecutableGraph> = Handles::new();

/// A graph that can be launched. Its nodes have the handles of the graph that it was
/// made of.
pub(crate) struct ExecutableGraph {
    nodes: Mutex<Nodes>,
    instance: Arc<Instance>,
    pub(crate) flags: u64,
}

impl ExecutableGraph {
    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces a node's work by other work of the same kind.
    pub(crate) fn replace(&self, node: usize, kind: NodeKind, work: Work) -> Result {
        match self.nodes().get_mut(&node) {
            Some(node) if node.kind == kind => {
                node.work = work;
                Ok(())
            }
            _ => Err(Status::INVALID_VALUE
                .because("the executable graph has no such node, or it is of another kind")),
        }
    }

    pub(crate) fn set_enabled(&self, node: usize, enabled: bool) -> Result {
        switchable(&mut self.nodes(), node)?.enabled = enabled;
        Ok(())
    }

    pub(crate) fn is_enabled(&self, node: usize) -> Result<bool> {
        Ok(switchable(&mut self.nodes(), node)?.enabled)
    }

    /// Takes the work of another graph of the same shape. If the shapes differ, returns
    /// how, as `CU_GRAPH_EXEC_UPDATE_…`, and at which node.
    pub(crate) fn update(&self, graph: &Graph) -> std::result::Result<(), (c_uint, usize)> {
        let new = graph.runnable();
        let mut nodes = self.nodes();
        difference(&nodes, &new)?;
        for (node, other) in nodes.values_mut().zip(new.into_values()) {
            node.work = other.work;
        }
        Ok(())
    }

    /// The work of a launch, which the caller queues.
    pub(crate) fn launch(&self) -> Result<Work> {
        self.instance
            .launched(self.flags & AUTO_FREE_ON_LAUNCH != 0)?;
        let nodes = all_of(&self.nodes());
        let instance = self.instance.clone();
        Ok(Arc::new(move |context| {
            instance.begin();
            nodes(context);
        }))
    }
}

/// An executable graph of `graph`; returns its handle.
pub(crate) fn instantiate(graph: &Graph, flags: u64) -> Result<usize> {
    let (nodes, instance) = graph.instantiate()?;
    if flags & DEVICE_LAUNCH != 0 && nodes.is_empty() {
        return Err(Status::INVALID_VALUE
            .because("the graph is empty, so kernels cannot launch it (DEVICE_LAUNCH)"));
    }
    Ok(EXECUTABLE.insert(Arc::new(ExecutableGraph {
        nodes: Mutex::new(nodes),
        instance,
        flags,
    })))
}

pub(crate) fn find(graph: usize) -> Result<Arc<ExecutableGraph>> {
    context::working()?;
    EXECUTABLE
        .get(graph)
        .ok_or_else(|| Status::INVALID_VALUE.because("no executable graph has this handle"))
}

/// Frees the handle; launches that are queued run.
pub(crate) fn destroy(graph: usize) -> Result {
    find(graph)?;
    EXECUTABLE.remove(graph);
    Ok(())
}

/// A node that can be disabled: a launch, copy or fill.
fn switchable(nodes: &mut Nodes, node: usize) -> Result<&mut Node> {
    nodes
        .get_mut(&node)
        .filter(|node| {
            matches!(
                node.kind,
                NodeKind::Kernel | NodeKind::Copy | NodeKind::Fill
            )
        })
        .ok_or_else(|| {
            Status::INVALID_VALUE
                .because("only launches, copies and fills of the graph can be disabled")
        })
}

/// How the graphs differ, as `CU_GRAPH_EXEC_UPDATE_…`, and at which node.
fn difference(old: &Nodes, new: &Nodes) -> std::result::Result<(), (c_uint, usize)> {
    const TOPOLOGY_CHANGED: c_uint = 2;
    const NODE_TYPE_CHANGED: c_uint = 3;
    let place = |nodes: &Nodes, handle: &usize| nodes.range(..handle).count();
    if old.len() != new.len() {
        return Err((TOPOLOGY_CHANGED, 0));
    }
    for (node, (handle, other)) in old.values().zip(new) {
        let before = node.after.iter().map(|handle| place(old, handle));
        if !before.eq(other.after.iter().map(|handle| place(new, handle))) {
            return Err((TOPOLOGY_CHANGED, *handle));
        }
        if node.kind != other.kind {
            return Err((NODE_TYPE_CHANGED, *handle));
        }
    }
    Ok(())
}
