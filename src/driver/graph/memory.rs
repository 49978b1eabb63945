//! Memory that graphs allocate and free by themselves.

use std::sync::{Mutex, PoisonError};

use crate::driver::device::Device;
use crate::driver::device::context::report_drop;
use crate::driver::error::Error;
use crate::driver::graph::{Graph, GraphNode};
use crate::driver::memory::allocation::{Allocation, Release};
use crate::driver::memory::buffer::{DeviceBuffer, DeviceMemory};
use crate::driver::memory::location::Location;
use crate::driver::memory::pool::PoolBytes;
use crate::driver::pod::Plain;
use api::{MemAllocNodeParams, MemPoolProps};

/// What is known of such memory.
#[derive(Debug)]
pub(crate) struct OwnMemory {
    allocated: GraphNode,
    /// The nodes that use it; `None` once it is freed.
    users: Mutex<Option<Vec<GraphNode>>>,
}

impl OwnMemory {
    /// The node that allocates it, for another of its graph.
    pub fn allocated_in(&self, graph: u64) -> Result<GraphNode, Error> {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        match self.allocated.graph == graph && users.is_some() {
            true => Ok(self.allocated),
            false => Err(Error::GraphMemory),
        }
    }

    pub fn used_by(&self, node: GraphNode) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let users = users.get_or_insert_default();
        if !users.contains(&node) {
            users.push(node);
        }
    }

    /// From now on nobody uses it. Gives who did, the allocation among them.
    fn end(&self) -> Vec<GraphNode> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = users.take().unwrap_or_default();
        all.push(self.allocated);
        all
    }
}

/// Memory of a device that is there for graphs; see [`Device::graph_memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GraphMemory {
    /// Bytes that graphs have.
    pub used: PoolBytes,
    /// Bytes that are taken from the device for them.
    pub reserved: PoolBytes,
}

/// `CU_MEM_ALLOCATION_TYPE_PINNED`
const PINNED: u32 = 1;

impl Graph {
    /// Adds memory that each launch allocates and frees (`cuGraphAddMemAllocNode`,
    /// `cuGraphAddMemFreeNode`, from CUDA 11.4): `len` values, for the nodes that
    /// `build` adds. Those that use the buffer come after its allocation, which
    /// comes after `after`, and it is freed after all of them; the node that frees
    /// it is returned. Which values it has at first is not said. Graphs whose
    /// launches are in order share such memory.
    ///
    /// The buffer is there for nodes of this graph alone: whatever else is asked of
    /// it is [`Error::GraphMemory`]. CUDA neither clones nor nests a graph with such
    /// memory, and keeps one instantiation of it at a time.
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
    pub fn add_memory<T: Plain>(
        &mut self,
        after: &[GraphNode],
        len: usize,
        build: impl FnOnce(&mut Graph, &DeviceBuffer<T>) -> Result<(), Error>,
    ) -> Result<GraphNode, Error> {
        /// Adds the end also where `build` panics.
        struct Ending<'a, T: Plain> {
            graph: &'a mut Graph,
            buffer: DeviceBuffer<T>,
        }
        impl<T: Plain> Ending<'_, T> {
            fn end(&mut self) -> Option<Result<GraphNode, Error>> {
                use crate::driver::stream::keep::Keep;
                let own = self.buffer.allocation().of_graph()?;
                if own.allocated_in(self.graph.inner.id).is_err() {
                    return None; // it is ended
                }
                let address = self.buffer.address();
                let users = own.end();
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
        impl<T: Plain> Drop for Ending<'_, T> {
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
                room: usize::MAX,
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
        let release = Release::InGraph(OwnMemory {
            allocated,
            users: Mutex::new(Some(Vec::new())),
        });
        let memory = Allocation::new(&context, asked.address, bytes, false, release, true);
        let mut ending = Ending {
            graph: self,
            buffer: DeviceBuffer::of(DeviceMemory::sharing(&memory), len),
        };
        let built = build(ending.graph, &ending.buffer);
        let ended = ending.end().unwrap_or(Err(Error::GraphMemory));
        built.and(ended)
    }
}

impl Device {
    /// The memory that is there for graphs which allocate by themselves
    /// (`cuDeviceGetGraphMemAttribute`, from CUDA 11.4).
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

    /// Gives back what is kept for graphs and none of those uses that run or are
    /// about to (`cuDeviceGraphMemTrim`, from CUDA 11.4).
    pub fn trim_graph_memory(&self) -> Result<(), Error> {
        // SAFETY: the device is the driver's.
        unsafe { Ok(self.api().cuDeviceGraphMemTrim(self.raw())?) }
    }
}
