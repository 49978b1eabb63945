//! Memory that graphs allocate and free by themselves.

use std::ffi::{c_uint, c_void};
use std::sync::Arc;

use super::entry::entries;
use super::graph::add;
use crate::state::graph_memory::{self, GraphAllocation};
use crate::state::node::NodeKind;
use crate::state::status::Status;
use crate::state::{context, device, graph};
use api::{CUdevice, CUdeviceptr, CUgraph, CUgraphNode, MemAllocNodeParams};

entries! {
    fn cuGraphAddMemAllocNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *mut MemAllocNodeParams,
    ) {
        // CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE
        const PINNED: c_uint = 1;
        const DEVICE: c_uint = 1;
        let mut read = params.get()?;
        let context = context::working()?;
        let found = graph::find(graph.addr())?;
        if read.pool.alloc_type != PINNED
            || read.pool.location.kind != DEVICE
            || read.pool.handle_types != 0
        {
            return Err(Status::INVALID_VALUE
                .because("a graph allocates pinned memory (1) of a device (1), without handles"));
        }
        device::check(read.pool.location.id)?;
        if read.pool.location.id != context.device() || read.access_count != 0 {
            return Err(Status::NOT_SUPPORTED
                .because("a graph of the CPU device allocates memory of its own device, for it alone"));
        }
        let allocation = GraphAllocation::new(&context, read.bytes)?;
        read.address = allocation.address();
        let allocating = allocation.clone();
        let work = Arc::new(move |_: &_| allocating.allocate());
        add(node, graph, after, count, NodeKind::Allocate, work)?;
        found.retain(allocation);
        params.put(read)
    }

    fn cuGraphAddMemFreeNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        address: CUdeviceptr,
    ) {
        let allocation = graph::find(graph.addr())?.allocation(address);
        let allocation = allocation.ok_or_else(|| {
            Status::INVALID_VALUE.because("no node of the graph allocates memory at the address")
        })?;
        if allocation.set_freed(true) {
            return Err(Status::INVALID_VALUE.because("a node of the graph frees the memory already"));
        }
        // The memory stays in place: the work only retains it.
        let retained = allocation.clone();
        let work = Arc::new(move |_: &_| drop(retained.clone()));
        let added = add(node, graph, after, count, NodeKind::Free, work);
        if added.is_err() {
            allocation.set_freed(false);
        }
        added
    }

    fn cuDeviceGraphMemTrim(device: CUdevice) {
        graph_memory::trim(device)
    }

    fn cuDeviceGetGraphMemAttribute(device: CUdevice, number: c_uint, value: *mut c_void) {
        match graph_memory::attributes(device)?.get(number as usize) {
            Some(bytes) => value.cast::<u64>().put(*bytes),
            None => Err(Status::INVALID_VALUE
                .because(format!("no attribute of graphs' memory has the number {number}"))),
        }
    }
}
