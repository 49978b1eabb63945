//! Stream capture into a graph.

use std::ffi::c_uint;
use std::ptr::{null, null_mut};
use std::sync::Arc;

use crate::driver::error::Error;
use crate::driver::graph::{Graph, GraphNode, Inner};
use crate::driver::stream::Stream;
use crate::driver::stream::before_capture;
use crate::driver::stream::capture::CaptureMode;
use crate::driver::stream::retained::{Capture, RetainedRef};
use api::{Api, CUgraph, CUgraphNode};

impl Graph {
    /// Captures what `work` queues in the stream, which does not run, into a graph
    /// (`cuStreamBeginCapture_v2`, `cuStreamEndCapture`). Streams that wait for an event
    /// recorded there join the capture, and must be waited for in turn.
    ///
    /// The default streams cannot be captured. Work that other threads queue in the stream
    /// meanwhile is captured too. If `work` fails, or makes a call that cannot be captured,
    /// the result is the error of that call.
    pub fn capture(
        stream: &Stream,
        mode: CaptureMode,
        work: impl FnOnce(&Stream) -> Result<(), Error>,
    ) -> Result<Graph, Error> {
        let mut scope = CaptureScope::begin(stream, None, |api| {
            // SAFETY: the stream is live.
            unsafe { Ok(api.cuStreamBeginCapture_v2(stream.raw(), mode as c_uint)?) }
        })?;
        let done = work(stream);
        let (handle, retained) = scope.end();
        // The error that invalidated the capture says more than its end does.
        if let (Err(error), Err(_)) = (&done, &handle) {
            return Err(error.clone());
        }
        let graph = Graph::own(stream.context(), handle?, retained);
        done.map(|()| graph)
    }

    /// The same into a graph that there is, such as that of a conditional node
    /// (`cuStreamBeginCaptureToGraph`, `cuStreamGetCaptureInfo_v3`, from CUDA 12.3). The first work comes after the nodes
    /// `after`; the result is those that later work would come after. Meanwhile the graph, and
    /// those that it is within, are not to be used ([`Error::CapturedInto`]).
    ///
    /// If `work` fails, what it queued before is in the graph.
    ///
    /// ```
    /// # #[cfg(feature = "cpu")] {
    /// use ptxkit::driver::{CaptureMode, Context, DeviceBuffer, Driver, Graph, Stream};
    /// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
    /// let stream = Stream::non_blocking(&context)?;
    /// let mut numbers = DeviceBuffer::<u32>::zeroed(&context, 2)?;
    /// let mut graph = Graph::new(&context)?;
    /// let first = graph.add_fill(&[], &numbers, 1)?;
    /// let last = graph.capture_into(&[first], &stream, CaptureMode::ThreadLocal, |stream| {
    ///     numbers.slice_mut(1..)?.fill_async(2, stream)
    /// })?;
    /// assert_eq!(graph.edges()?, [(first, last[0])]);
    /// graph.instantiate()?.launch(&stream)?;
    /// stream.synchronize()?;
    /// assert_eq!(numbers.to_vec()?, [1, 2]);
    /// # }
    /// # Ok::<(), ptxkit::driver::Error>(())
    /// ```
    pub fn capture_into(
        &mut self,
        after: &[GraphNode],
        stream: &Stream,
        mode: CaptureMode,
        work: impl FnOnce(&Stream) -> Result<(), Error>,
    ) -> Result<Vec<GraphNode>, Error> {
        if stream.context() != &self.inner.context {
            return Err(Error::DifferentContexts {
                what: "graph and stream",
            });
        }
        self.inner.check(after)?;
        let after: Vec<CUgraphNode> = after.iter().map(|node| node.handle).collect();
        let mut scope = CaptureScope::begin(stream, Some(&self.inner), |api| {
            let graph = self.inner.lock()?;
            let (nodes, count) = (after.as_ptr(), after.len());
            // SAFETY: stream and graph are live, and the nodes are its own.
            unsafe {
                api.cuStreamBeginCaptureToGraph(
                    stream.raw(),
                    graph.0,
                    nodes,
                    null(),
                    count,
                    mode as c_uint,
                )
            }?;
            graph.begin_capture();
            Ok(())
        })?;
        let done = work(stream);
        let last = done.and_then(|()| last_nodes(stream));
        let (ended, _) = scope.end();
        let last = last?;
        ended?;
        Ok(last.into_iter().map(|node| self.inner.name(node)).collect())
    }
}

/// The nodes that the next work of a capturing stream would come after.
fn last_nodes(stream: &Stream) -> Result<Vec<CUgraphNode>, Error> {
    let api = stream.context().bind()?;
    let (mut status, mut nodes, mut edges, mut count) = (0, null(), null(), 0);
    let none = null_mut();
    // SAFETY: the stream is live; writes numbers and pointers of these types.
    unsafe {
        api.cuStreamGetCaptureInfo_v3(
            stream.raw(),
            &mut status,
            null_mut(),
            none,
            &mut nodes,
            &mut edges,
            &mut count,
        )
    }?;
    if nodes.is_null() || count == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: as many handles, which stay up to the next call with the stream.
    Ok(unsafe { std::slice::from_raw_parts(nodes, count) }.to_vec())
}

/// A capture, which ends also if the work that is captured panics.
struct CaptureScope<'a> {
    stream: &'a Stream,
    capture: Arc<Capture>,
    /// The graph that it adds to, if it makes none.
    into: Option<&'a Inner>,
    ended: bool,
}

impl<'a> CaptureScope<'a> {
    /// Begins it by `entry`.
    fn begin(
        stream: &'a Stream,
        into: Option<&'a Inner>,
        entry: impl FnOnce(&Api) -> Result<(), Error>,
    ) -> Result<CaptureScope<'a>, Error> {
        stream.refuse_per_thread()?;
        let api = stream.context().bind()?;
        let capture = Arc::new(Capture::default());
        let exclusive = stream.lock_exclusive();
        if !stream.is_capturing() {
            before_capture::record(stream, &capture)?;
        }
        let begun = entry(api);
        if begun.is_err() {
            capture.end(|| ());
            before_capture::forget_ended();
        }
        begun?;
        stream.join_capture(&capture);
        drop(exclusive);
        Ok(CaptureScope {
            stream,
            capture,
            into,
            ended: false,
        })
    }

    /// Ends it. What it retains is the graph's that it adds to, or returned.
    fn end(&mut self) -> (Result<CUgraph, Error>, Vec<RetainedRef>) {
        self.ended = true;
        let (ended, mut retained) = self.capture.end(|| {
            let api = self.stream.context().bind()?;
            let mut handle = null_mut();
            // SAFETY: the stream is live; writes one handle.
            unsafe { api.cuStreamEndCapture(self.stream.raw(), &mut handle) }?;
            Ok(handle)
        });
        before_capture::forget_ended();
        if let Some(graph) = self.into {
            graph.retain(std::mem::take(&mut retained));
            graph.end_capture();
        }
        (ended, retained)
    }
}

impl Drop for CaptureScope<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let (graph, retained) = self.end();
        if let (None, Ok(handle)) = (self.into, graph)
            && !handle.is_null()
        {
            drop(Graph::own(self.stream.context(), handle, retained));
        }
    }
}
