//! Edges that let a kernel start before the one before it has ended.

use std::ptr::null_mut;

use crate::driver::error::Error;
use crate::driver::graph::node_params;
use crate::driver::graph::{Graph, GraphNode};
use crate::driver::launch::argument::Arguments;
use crate::driver::launch::config::LaunchConfig;
use crate::driver::module::kernel::Kernel;
use api::{CUDA_KERNEL_NODE_PARAMS_v2, EdgeData, GraphNodeParams};

/// What a node waits for (`CUgraphEdgeData`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EdgeKind {
    /// The end of the node before it.
    #[default]
    Full,
    /// All blocks of the kernel before it have executed `griddepcontrol.launch_dependents` or
    /// ended. The kernel sees what that one wrote after its own `griddepcontrol.wait`. The CPU
    /// device waits for the end.
    Programmatic,
    /// All blocks of the kernel before it have started. The CPU device waits for the end.
    LaunchOrder,
    /// Any other.
    Other {
        /// `from_port`
        from_port: u8,
        /// `to_port`
        to_port: u8,
        /// `CU_GRAPH_DEPENDENCY_TYPE_*`
        kind: u8,
    },
}

impl EdgeKind {
    fn raw(self) -> EdgeData {
        let (from_port, to_port, kind) = match self {
            EdgeKind::Full => (0, 0, 0),
            EdgeKind::Programmatic => (1, 0, 1),
            EdgeKind::LaunchOrder => (2, 0, 1),
            EdgeKind::Other {
                from_port,
                to_port,
                kind,
            } => (from_port, to_port, kind),
        };
        EdgeData {
            from_port,
            to_port,
            kind,
            ..EdgeData::default()
        }
    }

    fn of(data: EdgeData) -> EdgeKind {
        match (data.from_port, data.to_port, data.kind) {
            (0, 0, 0) => EdgeKind::Full,
            (1, 0, 1) => EdgeKind::Programmatic,
            (2, 0, 1) => EdgeKind::LaunchOrder,
            (from_port, to_port, kind) => EdgeKind::Other {
                from_port,
                to_port,
                kind,
            },
        }
    }
}

impl Graph {
    /// [`add_kernel`](Graph::add_kernel) after other nodes, each by an edge of its own kind
    /// (`cuGraphAddNode_v2`, from CUDA 12.3).
    ///
    /// ```
    /// # #[cfg(feature = "cpu")] {
    /// use ptxkit::driver::*;
    /// # let ptx = b".version 8.0 .target sm_90 .address_size 64
    /// # .visible .entry twice(.param .u64 n) {
    /// #     .reg .b32 %r; .reg .b64 %rd; griddepcontrol.wait;
    /// #     ld.param.u64 %rd, [n]; ld.global.u32 %r, [%rd]; add.u32 %r, %r, %r;
    /// #     st.global.u32 [%rd], %r; griddepcontrol.launch_dependents; ret; }";
    /// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
    /// let twice = Module::load(&context, ptx)?.kernel("twice")?;
    /// let n = DeviceBuffer::from_slice(&context, &[3_u32])?;
    /// let config = LaunchConfig::default();
    /// let mut graph = Graph::new(&context)?;
    /// // SAFETY: the kernel accesses one number, after `griddepcontrol.wait`.
    /// unsafe {
    ///     let first = graph.add_kernel(&[], &twice, config, (&n,))?;
    ///     graph.add_kernel_after(&[(first, EdgeKind::Programmatic)], &twice, config, (&n,))?;
    /// }
    /// let stream = Stream::new(&context)?;
    /// graph.instantiate()?.launch(&stream)?;
    /// stream.synchronize()?;
    /// assert_eq!(n.to_vec()?, [12]);
    /// # }
    /// # Ok::<(), ptxkit::driver::Error>(())
    /// ```
    ///
    /// # Safety
    /// As for [`add_kernel`](Graph::add_kernel).
    pub unsafe fn add_kernel_after(
        &mut self,
        after: &[(GraphNode, EdgeKind)],
        kernel: &Kernel,
        config: LaunchConfig,
        arguments: impl Arguments,
    ) -> Result<GraphNode, Error> {
        let nodes: Vec<GraphNode> = after.iter().map(|(node, _)| *node).collect();
        let mut edges: Vec<EdgeData> = after.iter().map(|(_, kind)| kind.raw()).collect();
        let context = &self.inner.context;
        node_params::with_kernel_params(kernel, context, config, &arguments, |params, retained| {
            let mut of_any_kind = GraphNodeParams {
                kind: 0, // CU_GRAPH_NODE_TYPE_KERNEL
                reserved0: [0; 3],
                of_kind: [0; 29],
                reserved2: 0,
            };
            let place = of_any_kind.of_kind.as_mut_ptr();
            // SAFETY: the union has room for the parameters of each kind, which are plain words.
            unsafe { place.cast::<CUDA_KERNEL_NODE_PARAMS_v2>().write(*params) };
            self.add(&nodes, retained, |api, node, graph, after, count| {
                // The graph's own memory may have brought more.
                edges.resize(count, EdgeData::default());
                let (edges, params) = (edges.as_ptr(), &raw mut of_any_kind);
                // SAFETY: graph and nodes are live; the parameters are the kernel's and copied.
                unsafe { Ok(api.cuGraphAddNode_v2(node, graph, after, edges, count, params)?) }
            })
        })
    }

    /// [`add_dependency`](Graph::add_dependency) by an edge of another kind
    /// (`cuGraphAddDependencies_v2`, from CUDA 12.3).
    pub fn add_dependency_of(
        &mut self,
        kind: EdgeKind,
        before: GraphNode,
        after: GraphNode,
    ) -> Result<(), Error> {
        let api = self.inner.context.bind()?;
        self.inner.check(&[before, after])?;
        let graph = self.inner.lock()?;
        let (before, after, data) = (&before.handle, &after.handle, kind.raw());
        // SAFETY: the graph is live and the nodes are its own.
        unsafe { Ok(api.cuGraphAddDependencies_v2(graph.0, before, after, &data, 1)?) }
    }

    /// [`edges`](Graph::edges) with their kinds (`cuGraphGetEdges_v2`, from CUDA 12.3). `edges`
    /// fails for a graph that has others than [full](EdgeKind::Full) ones.
    pub fn edges_with_kinds(&self) -> Result<Vec<(GraphNode, GraphNode, EdgeKind)>, Error> {
        let api = self.inner.context.bind()?;
        let graph = self.inner.lock()?;
        let (none, mut count) = (null_mut(), 0);
        // SAFETY: the graph is live; writes one integer.
        unsafe { api.cuGraphGetEdges_v2(graph.0, none, none, null_mut(), &mut count) }?;
        if count == 0 {
            return Ok(Vec::new()); // the driver refuses empty arrays
        }
        let (mut from, mut to) = (vec![null_mut(); count], vec![null_mut(); count]);
        let mut data = vec![EdgeData::default(); count];
        let ends = (from.as_mut_ptr(), to.as_mut_ptr());
        // SAFETY: the arrays have room for `count` of each.
        unsafe { api.cuGraphGetEdges_v2(graph.0, ends.0, ends.1, data.as_mut_ptr(), &mut count) }?;
        let ends = from.into_iter().zip(to).zip(data).take(count);
        let named = ends.map(|((from, to), data)| {
            let kind = EdgeKind::of(data);
            (self.inner.name(from), self.inner.name(to), kind)
        });
        Ok(named.collect())
    }
}
