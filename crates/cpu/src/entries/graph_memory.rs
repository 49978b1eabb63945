//! Memory that graphs allocate and free by themselves.

use std::ffi::{c_uint, c_void};
use std::sync::Arc;

use super::entry::entries;
use super::graph::add;
use crate::memory::Purpose;
use crate::state::context::{self, Context};
use crate::state::device;
use crate::state::graph::{self, Graph};
use crate::state::graph_memory::{self, GraphAllocation};
use crate::state::node::{NodeKind, Params, Work};
use crate::state::status::{Result, Status};
use crate::state::stream::Stream;
use crate::state::user_pointer::UserPointer;
use api::{
    CUdevice, CUdeviceptr, CUgraph, CUgraphNode, MemAllocNodeParams, MemLocation, MemPoolProps,
};

/// `CU_MEM_ALLOCATION_TYPE_PINNED` and `_MANAGED`, `CU_MEM_LOCATION_TYPE_DEVICE`
const PINNED: c_uint = 1;
const MANAGED: c_uint = 2;
const DEVICE: c_uint = 1;

/// Adds a node that allocates.
pub(super) fn add_allocation(
    node: UserPointer<CUgraphNode>,
    graph: UserPointer<cudarc::driver::sys::CUgraph_st>,
    after: UserPointer<CUgraphNode>,
    count: usize,
    params: UserPointer<MemAllocNodeParams>,
) -> Result {
    let mut read = params.get()?;
    let context = context::working()?;
    let found = graph::find(graph.addr())?;
    let (kind, location) = (read.pool.alloc_type, read.pool.location);
    let is_of_device = location.kind == DEVICE;
    if !matches!(kind, PINNED | MANAGED) {
        return Err(
            Status::INVALID_VALUE.because("a graph allocates pinned (1) or managed (2) memory")
        );
    }
    if read.pool.handle_types != 0 {
        return Err(Status::NOT_SUPPORTED
            .because("the memory of a graph is not shared: handleTypes must be 0"));
    }
    if kind == PINNED && !is_of_device && !is_of_host(location) {
        return Err(Status::INVALID_VALUE.because("unknown place of a graph's memory"));
    }
    if is_of_device {
        device::check_location(location.id)?;
    }
    if is_of_device && location.id != context.device() || read.access_count != 0 {
        return Err(Status::NOT_SUPPORTED.because(
            "a graph of the CPU device allocates memory of its own device, for it alone",
        ));
    }
    let purpose = match kind {
        MANAGED => Purpose::Managed,
        _ if is_of_device => Purpose::Device,
        _ => Purpose::Host,
    };
    let allocation = GraphAllocation::new(&context, read.bytes, purpose)?;
    read.address = allocation.address();
    let made = allocating(&allocation, read);
    add(node, graph, after, count, NodeKind::Allocate, made)?;
    found.retain(allocation);
    params.put(read)
}

/// Whether memory is the host's: `CU_MEM_LOCATION_TYPE_HOST` and those of its NUMA nodes.
fn is_of_host(location: MemLocation) -> bool {
    matches!(location.kind, 2..=4)
}

fn allocating(allocation: &Arc<GraphAllocation>, params: MemAllocNodeParams) -> (Params, Work) {
    let allocating = allocation.clone();
    let params = MemAllocNodeParams {
        access: std::ptr::null(),
        ..params
    };
    (
        Params::Allocate(params),
        Arc::new(move |_: &_| allocating.allocate()),
    )
}

/// Adds a node that frees.
pub(super) fn add_free(
    node: UserPointer<CUgraphNode>,
    graph: UserPointer<cudarc::driver::sys::CUgraph_st>,
    after: UserPointer<CUgraphNode>,
    count: usize,
    address: CUdeviceptr,
) -> Result {
    let (allocation, made) = freeing(&*graph::find(graph.addr())?, address)?;
    let added = add(node, graph, after, count, NodeKind::Free, made);
    if added.is_err() {
        allocation.set_freed(false);
    }
    added
}

fn freeing(graph: &Graph, address: CUdeviceptr) -> Result<(Arc<GraphAllocation>, (Params, Work))> {
    let allocation = graph.allocation(address).ok_or_else(|| {
        Status::INVALID_VALUE.because("no node of the graph allocates memory at the address")
    })?;
    if allocation.set_freed(true) {
        return Err(Status::INVALID_VALUE.because("a node of the graph frees the memory already"));
    }
    // The memory stays in place: the work only retains it.
    let retained = allocation.clone();
    let work: Work = Arc::new(move |_: &_| drop(retained.clone()));
    Ok((allocation, (Params::Free(address), work)))
}

/// Allocates by a node, if the stream captures; returns the address.
pub(super) fn allocate_captured(
    context: &Context,
    stream: &Stream,
    bytes: usize,
) -> Result<Option<u64>> {
    let mut address = None;
    stream.record_in(NodeKind::Allocate, |graph| {
        // A stream may allocate nothing.
        let allocation = GraphAllocation::new(context, bytes.max(1), Purpose::Device)?;
        address = Some(allocation.address());
        let params = MemAllocNodeParams {
            pool: MemPoolProps {
                alloc_type: PINNED,
                handle_types: 0,
                location: MemLocation {
                    kind: DEVICE,
                    id: context.device(),
                },
                win32_security: std::ptr::null_mut(),
                max_size: 0,
                usage: 0,
                reserved: [0; 54],
            },
            access: std::ptr::null(),
            access_count: 0,
            bytes,
            address: allocation.address(),
        };
        let made = allocating(&allocation, params);
        graph.retain(allocation);
        Ok(made)
    })?;
    Ok(address)
}

/// Frees by a node, if the stream captures; returns whether it does.
pub(super) fn free_captured(stream: &Stream, address: CUdeviceptr) -> Result<bool> {
    stream.record_in(NodeKind::Free, |graph| Ok(freeing(graph, address)?.1))
}

entries! {
    fn cuGraphAddMemAllocNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *mut MemAllocNodeParams,
    ) {
        add_allocation(node, graph, after, count, params)
    }

    fn cuGraphAddMemFreeNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        address: CUdeviceptr,
    ) {
        add_free(node, graph, after, count, address)
    }

    fn cuDeviceSetGraphMemAttribute(device: CUdevice, number: c_uint, value: *mut c_void) {
        match number {
            1 | 3 if value.cast::<u64>().get()? == 0 => graph_memory::reset_high(device, number as usize),
            _ => Err(Status::INVALID_VALUE.because("a high-water mark (1, 3) is set to 0 alone")),
        }
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
