//! Memory that graphs allocate and free by nodes.

use std::sync::{Arc, Mutex, PoisonError};

use crate::driver::device::Device;
use crate::driver::device::context::report_drop;
use crate::driver::error::Error;
use crate::driver::graph::{Graph, GraphNode};
use crate::driver::memory::allocation::{Allocation, Release};
use crate::driver::memory::buffer::{DeviceBuffer, DeviceMemory};
use crate::driver::memory::location::Location;
use crate::driver::memory::pool::PoolBytes;
use crate::driver::pod::Pod;
use crate::driver::stream::retained::NodeMemory;
use api::{CUgraphNode, MemAllocNodeParams, MemPoolProps};

/// An allocation node's memory.
#[derive(Debug)]
struct GraphAllocation {
    allocated: GraphNode,
    /// The nodes that use it; `None` once it is freed.
    users: Mutex<Option<Vec<GraphNode>>>,
}

impl NodeMemory for GraphAllocation {
    fn allocated_in(&self, graph: u64) -> Result<CUgraphNode, Error> {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if self.allocated.graph == graph && users.is_some() {
            Ok(self.allocated.handle)
        } else {
            Err(Error::GraphMemory)
        }
    }

    fn record_node(&self, handle: CUgraphNode) {
        let node = GraphNode {
            handle,
            graph: self.allocated.graph,
        };
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let users = users.get_or_insert_default();
        if !users.contains(&node) {
            users.push(node);
        }
    }
}

impl GraphAllocation {
    /// Marks it freed and returns the nodes that used it, with the allocation; `None` if it
    /// was freed already.
    fn end(&self) -> Option<Vec<GraphNode>> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = users.take()?;
        all.push(self.allocated);
        Some(all)
    }
}

/// A device's memory for graphs; see [`Device::graph_memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GraphMemory {
    /// Bytes in use by graphs.
    pub used: PoolBytes,
    /// Bytes reserved from the device.
    pub reserved: PoolBytes,
}

/// `CU_MEM_ALLOCATION_TYPE_PINNED`
const PINNED: u32 = 1;

impl Graph {
    /// Adds memory of `len` values that each launch allocates and frees
    /// (`cuGraphAddMemAllocNode`, `cuGraphAddMemFreeNode`, from CUDA 11.4). `build` adds
    /// the nodes that use the buffer: they come after its allocation, which comes after
    /// `after`, and before its free node, which is returned. The initial values are
    /// unspecified. Graphs launched in order share such memory.
    ///
    /// Only nodes of this graph may use the buffer; any other use is
    /// [`Error::GraphMemory`]. CUDA neither clones nor nests a graph with such memory, and
    /// allows one instantiation of it at a time.
    ///
    /// ```
    /// # #[cfg(feature = "cpu")] {
    /// use ptxkit::driver::{Context, DeviceBuffer, Driver, Graph, Stream};
    /// let context = Context::primary(&Driver::cpu()?.device(0)?)?;
    /// let result = DeviceBuffer::<u32>::zeroed(&context, 1000)?;
    /// let mut graph = Graph::new(&context)?;
    /// graph.add_memory::<u32>(&[], 1000, |graph, scratch| {
    ///     let filled = graph.add_fill(&[], scratch, 7)?;
    ///     graph.add_copy(&[filled], &result, scratch).map(drop)
    /// })?;
    /// let stream = Stream::new(&context)?;
    /// graph.instantiate()?.launch(&stream)?;
    /// stream.synchronize()?;
    /// assert_eq!(result.to_vec()?, [7; 1000]);
    /// # }
    /// # Ok::<(), ptxkit::driver::Error>(())
    /// ```
    pub fn add_memory<T: Pod>(
        &mut self,
        after: &[GraphNode],
        len: usize,
        build: impl FnOnce(&mut Graph, &DeviceBuffer<T>) -> Result<(), Error>,
    ) -> Result<GraphNode, Error> {
        /// Adds the free node also if `build` panics.
        struct AllocationScope<'a, T: Pod> {
            graph: &'a mut Graph,
            buffer: DeviceBuffer<T>,
            memory: Arc<GraphAllocation>,
        }
        impl<T: Pod> AllocationScope<'_, T> {
            fn end(&mut self) -> Option<Result<GraphNode, Error>> {
                let users = self.memory.end()?;
                let address = self.buffer.address();
                let added = self
                    .graph
                    .add(&users, Vec::new(), |api, node, graph, after, count| {
                        // SAFETY: graph and nodes are live; the address is its allocation's,
                        // which no other node frees.
                        unsafe {
                            Ok(api.cuGraphAddMemFreeNode(node, graph, after, count, address)?)
                        }
                    });
                Some(added)
            }
        }
        impl<T: Pod> Drop for AllocationScope<'_, T> {
            fn drop(&mut self) {
                if let Some(ended) = self.end() {
                    report_drop(ended.map(drop));
                }
            }
        }

        let context = self.context().clone();
        let bytes = len.saturating_mul(size_of::<T>());
        if bytes == 0 {
            return Err(Error::Length {
                what: "bytes that a graph allocates",
                given: 0,
                capacity: usize::MAX,
            });
        }
        let mut asked = MemAllocNodeParams {
            pool: MemPoolProps {
                alloc_type: PINNED,
                handle_types: 0,
                location: Location::from(context.device()).raw(),
                win32_security: std::ptr::null_mut(),
                max_size: 0,
                usage: 0,
                reserved: [0; 54],
            },
            access: std::ptr::null(),
            access_count: 0,
            bytes,
            address: 0,
        };
        let allocated = self.add(after, Vec::new(), |api, node, graph, after, count| {
            // SAFETY: graph and nodes are live; the description is whole, and gets the address.
            unsafe { Ok(api.cuGraphAddMemAllocNode(node, graph, after, count, &mut asked)?) }
        })?;
        let own = Arc::new(GraphAllocation {
            allocated,
            users: Mutex::new(Some(Vec::new())),
        });
        let release = Release::InGraph(own.clone());
        let memory = Allocation::new(&context, asked.address, bytes, false, release, true);
        let mut scope = AllocationScope {
            graph: self,
            buffer: DeviceBuffer::of(DeviceMemory::sharing(&memory), len),
            memory: own,
        };
        let built = build(scope.graph, &scope.buffer);
        let ended = scope.end().unwrap_or(Err(Error::GraphMemory));
        built.and(ended)
    }
}

impl Device {
    /// The device's memory for allocations of graphs (`cuDeviceGetGraphMemAttribute`, from
    /// CUDA 11.4).
    pub fn graph_memory(&self) -> Result<GraphMemory, Error> {
        let get = |attribute| {
            let mut bytes = 0_u64;
            let place = (&raw mut bytes).cast();
            // SAFETY: each of these attributes has 64 bits.
            unsafe {
                self.api()
                    .cuDeviceGetGraphMemAttribute(self.raw(), attribute, place)
            }?;
            Ok::<_, Error>(bytes)
        };
        Ok(GraphMemory {
            used: PoolBytes {
                now: get(0)?,
                high: get(1)?,
            },
            reserved: PoolBytes {
                now: get(2)?,
                high: get(3)?,
            },
        })
    }

    /// Releases memory reserved for graphs that no launch uses (`cuDeviceGraphMemTrim`,
    /// from CUDA 11.4).
    pub fn trim_graph_memory(&self) -> Result<(), Error> {
        // SAFETY: the device is the driver's.
        unsafe { Ok(self.api().cuDeviceGraphMemTrim(self.raw())?) }
    }
}
