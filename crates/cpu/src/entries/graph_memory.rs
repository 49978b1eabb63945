//! Memory that graphs allocate and free by themselves. It has its place from the
//! node that allocates it up to the end of the graph and of what is made of it;
//! what a device says of it follows CUDA's rules.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::context;
use super::device::{self, MOST_DEVICES};
use super::entry::entries;
use super::graph::{self, Kind, Nodes, add};
use super::memory;
use super::status::{Answer, Status};
use api::{CUdevice, CUdeviceptr, CUgraph, CUgraphNode, MemAllocNodeParams};

/// One allocation of a graph.
pub(super) struct Memory {
    address: u64,
    bytes: u64,
    device: usize,
    /// A node of the graph frees it.
    is_freed: AtomicBool,
    /// A launch came to it, so that it counts as in use.
    is_used: AtomicBool,
}

/// `CU_GRAPH_MEM_ATTR_…` of a device, in their order.
type Bytes = [u64; 4];
const USED: usize = 0;
const RESERVED: usize = 2;

static BYTES: Mutex<[Bytes; MOST_DEVICES as usize]> = Mutex::new([[0; 4]; MOST_DEVICES as usize]);

fn bytes() -> MutexGuard<'static, [Bytes; MOST_DEVICES as usize]> {
    BYTES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    fn begin(&self) {
        if self.is_used.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut all = bytes();
        let of = &mut all[self.device];
        of[USED] += self.bytes;
        of[RESERVED] = of[RESERVED].max(of[USED]);
        for number in [USED, RESERVED] {
            of[number + 1] = of[number + 1].max(of[number]);
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if *self.is_used.get_mut() {
            bytes()[self.device][USED] -= self.bytes;
        }
        memory::free_of_graph(self.address);
    }
}

/// Whether a graph has such memory, which is neither copied nor nested, and may
/// lose no edge.
pub(super) fn is_in(nodes: &Nodes) -> bool {
    nodes
        .values()
        .any(|node| matches!(node.kind, Kind::Allocate | Kind::Free))
}

pub(super) fn refuse(nodes: &Nodes) -> Answer {
    match is_in(nodes) {
        true => Err(Status::NOT_SUPPORTED
            .because("a graph that allocates memory is not copied, nested or cut")),
        false => Ok(()),
    }
}

/// Before a graph with these allocations is made ready: each is freed by it, or
/// by its next launch.
pub(super) fn check_freed(all: &[Arc<Memory>], frees_on_launch: bool) -> Answer {
    let is_freed = |memory: &Arc<Memory>| memory.is_freed.load(Ordering::Acquire);
    match frees_on_launch || all.iter().all(is_freed) {
        true => Ok(()),
        false => {
            Err(Status::NOT_SUPPORTED.because("on the CPU device a graph frees what it allocates"))
        }
    }
}

entries! {
    fn cuGraphAddMemAllocNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        described: *mut MemAllocNodeParams,
    ) {
        // CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE
        const PINNED: c_uint = 1;
        const DEVICE: c_uint = 1;
        let mut asked = described.get()?;
        let context = context::working()?;
        let found = graph::find(graph)?;
        if asked.pool.alloc_type != PINNED
            || asked.pool.location.kind != DEVICE
            || asked.pool.handle_types != 0
        {
            return Err(Status::INVALID_VALUE
                .because("a graph allocates pinned memory (1) of a device (1), without handles"));
        }
        device::check(asked.pool.location.id)?;
        if asked.pool.location.id != context.device() || asked.access_count != 0 {
            return Err(Status::NOT_SUPPORTED
                .because("a graph of the CPU device allocates memory of its own device, for it alone"));
        }
        let address = memory::allocate_of_graph(&context, asked.bytes)?;
        let memory = Arc::new(Memory {
            address,
            bytes: asked.bytes as u64,
            device: context.device() as usize,
            is_freed: AtomicBool::new(false),
            is_used: AtomicBool::new(false),
        });
        let begun = memory.clone();
        add(node, graph, after, count, Kind::Allocate, Arc::new(move |_| begun.begin()))?;
        found.own(memory);
        asked.address = address;
        described.put(asked)
    }

    fn cuGraphAddMemFreeNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        address: CUdeviceptr,
    ) {
        let found = graph::find(graph)?;
        let own = found.owned(|memory| memory.address == address);
        let memory = own.ok_or_else(|| {
            Status::INVALID_VALUE.because("no node of the graph allocates memory at the address")
        })?;
        if memory.is_freed.swap(true, Ordering::AcqRel) {
            return Err(Status::INVALID_VALUE.because("a node of the graph frees the memory already"));
        }
        let work = memory.clone();
        let added = add(node, graph, after, count, Kind::Free, Arc::new(move |_| drop(work.clone())));
        if added.is_err() {
            memory.is_freed.store(false, Ordering::Release);
        }
        added
    }

    fn cuDeviceGraphMemTrim(device: CUdevice) {
        device::check(device)?;
        let of = &mut bytes()[device as usize];
        of[RESERVED] = of[USED];
        Ok(())
    }

    fn cuDeviceGetGraphMemAttribute(device: CUdevice, number: c_uint, value: *mut c_void) {
        device::check(device)?;
        let of = bytes()[device as usize];
        match of.get(number as usize) {
            Some(bytes) => value.cast::<u64>().put(*bytes),
            None => Err(Status::INVALID_VALUE
                .because(format!("no attribute of graphs' memory has the number {number}"))),
        }
    }
}
