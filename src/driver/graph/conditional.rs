//! Nodes that choose, by a value that a kernel sets, which graph runs.

use std::ffi::c_uint;
use std::ptr::{null, null_mut};

use crate::driver::error::Error;
use crate::driver::graph::{Graph, GraphNode};
use crate::driver::launch::argument::{Arg, Argument};
use api::{CUgraph, ConditionalParams, GraphNodeParams};

/// A value that kernels of a graph set, and by which its conditional nodes choose
/// (`CUgraphConditionalHandle`).
///
/// A kernel takes it as a `.u64` parameter, and sets it by the function `cudaGraphSetConditional`
/// of CUDA's device runtime. The CPU device has it; for a GPU, link `libcudadevrt.a`
/// ([`LinkInput::library`](crate::jit::LinkInput::library)). It belongs to launches
/// of its graph alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GraphCondition {
    handle: u64,
    /// The outermost graph that it is of.
    tree: u64,
}

impl GraphCondition {
    /// The raw handle, for calls that the safe layer does not have.
    pub fn raw(&self) -> u64 {
        self.handle
    }

    /// Its handle as a kernel argument.
    pub fn arg(&self) -> Arg<'_> {
        Arg::value(&self.handle)
    }
}

impl Argument for GraphCondition {
    fn arg(&self) -> Arg<'_> {
        GraphCondition::arg(self)
    }
}

/// `CU_GRAPH_COND_TYPE_*`
#[derive(Clone, Copy)]
enum Choice {
    If = 0,
    While = 1,
    Switch = 2,
}

impl Graph {
    /// A value for conditional nodes of this graph and of graphs within them
    /// (`cuGraphConditionalHandleCreate`, from CUDA 12.3). Each launch begins with `initial`; with
    /// `None` it begins with what the last one left.
    ///
    /// Instantiate fails unless a node uses it.
    pub fn condition(&mut self, initial: Option<u32>) -> Result<GraphCondition, Error> {
        const ASSIGN_DEFAULT: c_uint = 1;
        let context = &self.inner.context;
        let api = context.bind()?;
        let (value, flags) = initial.map_or((0, 0), |value| (value, ASSIGN_DEFAULT));
        let mut handle = 0;
        let graph = self.inner.lock()?;
        // SAFETY: graph and context are live; writes one handle.
        unsafe {
            api.cuGraphConditionalHandleCreate(&mut handle, graph.0, context.raw(), value, flags)
        }?;
        Ok(GraphCondition {
            handle,
            tree: self.inner.tree(),
        })
    }

    /// Adds a node that runs a graph if the value is not 0 (`cuGraphAddNode_v2`, from CUDA 12.3).
    /// Nodes are added to the graph, which is empty now, as to any other. It is part of this one,
    /// and has kernels, copies, fills, graphs and conditional nodes alone.
    ///
    /// ```
    /// # #[cfg(feature = "cpu")] {
    /// use ptxkit::driver::{Context, DeviceBuffer, Driver, Graph, Stream};
    /// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
    /// let numbers = DeviceBuffer::<u32>::zeroed(&context, 4)?;
    /// let mut graph = Graph::new(&context)?;
    /// let condition = graph.condition(Some(1))?; // kernels before the node may set another
    /// let (_node, mut body) = graph.add_if(&[], condition)?;
    /// body.add_fill(&[], &numbers, 7)?;
    ///
    /// let stream = Stream::new(&context)?;
    /// graph.instantiate()?.launch(&stream)?;
    /// stream.synchronize()?;
    /// assert_eq!(numbers.to_vec()?, [7; 4]);
    /// # }
    /// # Ok::<(), ptxkit::driver::Error>(())
    /// ```
    pub fn add_if(
        &mut self,
        after: &[GraphNode],
        condition: GraphCondition,
    ) -> Result<(GraphNode, Graph), Error> {
        self.add_one(after, condition, Choice::If)
    }

    /// The same with another graph that runs if the value is 0 (from CUDA 12.8).
    pub fn add_if_else(
        &mut self,
        after: &[GraphNode],
        condition: GraphCondition,
    ) -> Result<(GraphNode, [Graph; 2]), Error> {
        let (node, graphs) = self.add_conditional(after, condition, Choice::If, 2)?;
        match <[Graph; 2]>::try_from(graphs) {
            Ok(graphs) => Ok((node, graphs)),
            Err(_) => Err(Error::GraphNode),
        }
    }

    /// Adds a node that runs a graph as long as the value is not 0 (`cuGraphAddNode_v2`, from CUDA
    /// 12.3). A kernel of the graph sets it to 0 at last.
    ///
    /// ```
    /// # #[cfg(feature = "cpu")] {
    /// use ptxkit::driver::{Context, DeviceBuffer, Driver, Graph, LaunchConfig, Module, Stream};
    ///
    /// let ptx = b".version 7.0 .target sm_80 .address_size 64
    ///     .extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
    ///     .visible .entry count_down(.param .u64 condition, .param .u64 left) {
    ///         .reg .b64 %condition, %left; .reg .b32 %n; .param .b64 p0; .param .b32 p1;
    ///         ld.param.u64 %condition, [condition];
    ///         ld.param.u64 %left, [left];
    ///         ld.global.u32 %n, [%left];
    ///         sub.u32 %n, %n, 1;
    ///         st.global.u32 [%left], %n;
    ///         st.param.b64 [p0], %condition;
    ///         st.param.b32 [p1], %n;
    ///         call.uni cudaGraphSetConditional, (p0, p1);
    ///         ret;
    ///     }";
    /// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
    /// let count_down = Module::load(&context, ptx)?.kernel("count_down")?;
    /// let left = DeviceBuffer::from_slice(&context, &[5_u32])?;
    /// let mut graph = Graph::new(&context)?;
    /// let condition = graph.condition(Some(1))?;
    /// let (_node, mut body) = graph.add_while(&[], condition)?;
    /// // SAFETY: the kernel accesses one number, and sets a value of this graph.
    /// unsafe { body.add_kernel(&[], &count_down, LaunchConfig::default(), (condition, &left)) }?;
    ///
    /// let stream = Stream::new(&context)?;
    /// graph.instantiate()?.launch(&stream)?;
    /// stream.synchronize()?;
    /// assert_eq!(left.to_vec()?, [0]);
    /// # }
    /// # Ok::<(), ptxkit::driver::Error>(())
    /// ```
    pub fn add_while(
        &mut self,
        after: &[GraphNode],
        condition: GraphCondition,
    ) -> Result<(GraphNode, Graph), Error> {
        self.add_one(after, condition, Choice::While)
    }

    /// Adds a node that runs the graph whose number the value is, of `count`; with any other value
    /// none (`cuGraphAddNode_v2`, from CUDA 12.8).
    pub fn add_switch(
        &mut self,
        after: &[GraphNode],
        condition: GraphCondition,
        count: u32,
    ) -> Result<(GraphNode, Vec<Graph>), Error> {
        self.add_conditional(after, condition, Choice::Switch, count)
    }

    fn add_one(
        &mut self,
        after: &[GraphNode],
        condition: GraphCondition,
        choice: Choice,
    ) -> Result<(GraphNode, Graph), Error> {
        let (node, mut graphs) = self.add_conditional(after, condition, choice, 1)?;
        match graphs.pop() {
            Some(graph) => Ok((node, graph)),
            None => Err(Error::GraphNode),
        }
    }

    fn add_conditional(
        &mut self,
        after: &[GraphNode],
        condition: GraphCondition,
        choice: Choice,
        count: u32,
    ) -> Result<(GraphNode, Vec<Graph>), Error> {
        if condition.tree != self.inner.tree() {
            return Err(Error::GraphNode);
        }
        let mut params = GraphNodeParams {
            kind: 13, // CU_GRAPH_NODE_TYPE_CONDITIONAL
            reserved0: [0; 3],
            of_kind: [0; 29],
            reserved2: 0,
        };
        let place = params.of_kind.as_mut_ptr().cast::<ConditionalParams>();
        let conditional = ConditionalParams {
            handle: condition.handle,
            kind: choice as c_uint,
            size: count,
            graphs: null_mut(),
            context: self.inner.context.raw(),
        };
        // SAFETY: the union has room for the parameters of each kind, which are plain words.
        unsafe { place.write(conditional) };
        let mut graphs = Vec::new();
        let node = self.add(after, Vec::new(), |api, node, graph, after, number| {
            // SAFETY: graph, nodes and condition are live; writes the parameters.
            unsafe { api.cuGraphAddNode_v2(node, graph, after, null(), number, &mut params) }?;
            // SAFETY: the driver wrote the parameters of this kind.
            let made = unsafe { params.of_kind.as_ptr().cast::<ConditionalParams>().read() };
            if !made.graphs.is_null() {
                // SAFETY: an array of as many handles, which lives as long as the node.
                let made = unsafe { std::slice::from_raw_parts(made.graphs, count as usize) };
                graphs.extend_from_slice(made);
            }
            Ok(())
        })?;
        let graphs = graphs.into_iter().map(|graph: CUgraph| self.within(graph));
        Ok((node, graphs.collect()))
    }
}
