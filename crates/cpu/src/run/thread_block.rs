//! A thread block of a launch, with its shared and local memory and its state.

use std::cell::RefCell;
use std::ops;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::config::LaunchConfig;
use super::fault::Fault;
use super::launch::{Kernel, Launch};
use super::schedule::{Faulted, Outcome, Schedule};
use crate::abi::{BlockContext, FaultRecord, LOCAL_ALIGN, SLOT_BYTES, SlowCheck, WARP_SIZE};

use crate::memory::{GRANULE_SHIFT, MemoryError, Purpose};
use crate::sanitizer::{BlockSanitizer, Range};
use crate::tensor_memory::TensorMemory;

thread_local! {
    /// The arrays of the last block that this host thread has dropped.
    static SPARE: RefCell<Option<Box<Arrays>>> = const { RefCell::new(None) };
}

#[derive(Default)]
struct Arrays {
    schedule: Schedule,
    slots: Vec<CacheLine>,
}

/// Where values of lanes begin at one, no vector of 512 bits lies in two.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct CacheLine {
    _bytes: [u128; 4],
}

/// The alignment of local frames.
const FRAME: u64 = 16;

/// A thread block that is running. When it is done, it can be started with another index.
pub(super) struct ThreadBlock<'a> {
    launch: &'a Launch<'a>,
    kernel: &'a Kernel<'a>,
    index: u64,
    /// All threads have exited.
    done: bool,
    context: BlockContext,
    arrays: Option<Box<Arrays>>,
    /// The context points to it while the block runs.
    tensor_memory: TensorMemory,
    /// Where checks are asked for. The context points to it.
    sanitizer: Option<Box<Mutex<BlockSanitizer>>>,
    /// Shared memory and local frames, both in the arena.
    allocations: [Option<u64>; 2],
}

// SAFETY: the pointers in the context are to the block's own arrays and to data of the
// launch. None of them is bound to a thread.
unsafe impl Send for ThreadBlock<'_> {}

impl<'a> ThreadBlock<'a> {
    /// A block of the launch, which runs this code of its kernel. It has no memory yet.
    pub(super) fn new(launch: &'a Launch<'a>, kernel: &'a Kernel<'a>) -> ThreadBlock<'a> {
        let LaunchConfig {
            grid,
            block,
            shared_bytes,
            cluster,
        } = launch.config;
        let memory = launch.info.memory;
        // The dynamic part follows the static part at the next multiple of 16.
        let statics = u64::from(kernel.shared_bytes);
        let shared_size = if shared_bytes == 0 {
            statics
        } else {
            statics.next_multiple_of(16) + u64::from(shared_bytes)
        };
        let local_stride = u64::from(kernel.local_bytes).next_multiple_of(FRAME);

        ThreadBlock {
            launch,
            kernel,
            index: 0,
            done: false,
            context: BlockContext {
                params: launch.params,
                globals: kernel.globals.as_ptr(),
                helpers: launch.helpers.as_ptr(),
                arena_base: memory.base(),
                arena_size: memory.size(),
                last_granule: (memory.size() >> GRANULE_SHIFT) - 1,
                shadow: memory.shadow_of(launch.info.device),
                extents: *launch.extents,
                shared: 0,
                shared_size,
                // No device has 4 GiB of shared memory.
                shared_units: [0, 1, 2, 3, 4]
                    .map(|by| (shared_size >> by).try_into().unwrap_or(u32::MAX)),
                local: 0,
                local_stride,
                states: std::ptr::null_mut(),
                slots: std::ptr::null_mut(),
                slot_stride: u64::from(kernel.slots) * u64::from(SLOT_BYTES),
                packed: std::ptr::null_mut(),
                requests: std::ptr::null_mut(),
                block_dim: block,
                grid_dim: grid,
                block: [0; 3],
                threads: launch.threads,
                worker: 0,
                workers: launch.workers,
                dynamic_shared: shared_bytes,
                // No device has 4 GiB of shared memory.
                total_shared: u32::try_from(shared_size).unwrap_or(u32::MAX),
                grid_id: launch.grid_id,
                fault: FaultRecord::default(),
                cluster_shared: std::ptr::null(),
                cluster_dim: cluster,
                cluster_block: [0; 3],
                cluster_blocks: 0,
                cluster_rank: 0,
                scalar: kernel.code.scalar as usize,
                check: SlowCheck::default(),
                unwind_stack: 0,
                tid: [0; 3],
                tensor_memory: std::ptr::null_mut(),
                sanitizer: std::ptr::null(),
                launch: (&raw const launch.info).cast(),
            },
            arrays: None,
            tensor_memory: TensorMemory::default(),
            sanitizer: None,
            allocations: [None; 2],
        }
    }

    /// Allocates its memory.
    pub(super) fn allocate(&mut self) -> Result<(), MemoryError> {
        let (memory, context) = (self.launch.info.memory, &mut self.context);
        // After an error, dropping the block frees the first allocation.
        if context.shared_size > 0 {
            context.shared = memory.allocate(context.shared_size, 256, Purpose::Shared)?;
            self.allocations[0] = Some(context.shared);
        }
        if context.local_stride > 0 {
            let bytes = context.local_stride * u64::from(context.threads);
            context.local = memory.allocate(bytes, LOCAL_ALIGN.into(), Purpose::Local)?;
            self.allocations[1] = Some(context.local);
        }
        if !self.kernel.code.stateless {
            self.attach_arrays();
        }
        if self.launch.info.sanitizer.is_some() {
            self.attach_sanitizer();
        }
        Ok(())
    }

    fn attach_sanitizer(&mut self) {
        let context = &self.context;
        let range = |start, length| Range { start, length };
        let sanitizer = Box::new(Mutex::new(BlockSanitizer::new(
            context.threads,
            range(context.arena_base, context.arena_size),
            range(context.shared, context.shared_size),
            range(
                context.local,
                context.local_stride * u64::from(context.threads),
            ),
        )));
        self.context.sanitizer = &raw const *sanitizer;
        self.sanitizer = Some(sanitizer);
    }

    fn sanitizer(&self) -> Option<MutexGuard<'_, BlockSanitizer>> {
        let sanitizer = self.sanitizer.as_ref()?;
        Some(sanitizer.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn attach_arrays(&mut self) {
        let mut arrays = SPARE
            .with(|spare| spare.borrow_mut().take())
            .unwrap_or_default();
        arrays.schedule.resize(self.launch.threads);
        let warps = self.launch.threads.div_ceil(WARP_SIZE);
        let vector = self.kernel.code.vector;
        let groups = vector.map_or(0, |(_, width)| self.launch.threads.div_ceil(width)) as usize;
        // Slots are whole lines.
        let lines_of = |bytes: usize| bytes.div_ceil(size_of::<CacheLine>());
        let packed = lines_of(self.context.slot_stride as usize * warps as usize);
        let lines = packed + lines_of(self.kernel.packed_bytes as usize * groups);
        if arrays.slots.len() < lines {
            arrays.slots.resize(lines, CacheLine::default());
        }
        self.context.states = arrays.schedule.states.as_mut_ptr();
        self.context.requests = arrays.schedule.requests.as_mut_ptr();
        self.context.slots = arrays.slots.as_mut_ptr().cast();
        let offset = packed * size_of::<CacheLine>();
        self.context.packed = self.context.slots.wrapping_add(offset);
        self.arrays = Some(arrays);
    }

    /// The address of its shared memory.
    pub(super) fn shared(&self) -> u64 {
        self.context.shared
    }

    /// Makes it the only block of a cluster. It must stay where it is from now on.
    pub(super) fn be_alone(&mut self) {
        self.context.cluster_shared = &raw const self.context.shared;
        self.context.cluster_blocks = 1;
    }

    /// Makes it the block of this rank in a cluster, whose blocks have their shared memory
    /// at the addresses `shared`. These must live as long as this block runs.
    pub(super) fn join(&mut self, rank: u32, shared: &[u64]) {
        self.context.cluster_shared = shared.as_ptr();
        self.context.cluster_blocks = shared.len() as u32;
        self.context.cluster_rank = rank;
        self.context.cluster_block = self.launch.config.position_in_cluster(rank);
    }

    /// Runs blocks from their starts, as long as each is done and there is no better code. A launch of
    /// small blocks spends much of its time between them.
    pub(super) fn run_others(&mut self, blocks: &mut ops::Range<u64>, worker: u32) -> Outcome {
        while std::ptr::eq(self.kernel, self.launch.kernel.fastest())
            && let Some(index) = blocks.next()
        {
            if self.launch.stop.load(Ordering::Relaxed) {
                return Outcome::Stopped;
            }
            self.start(index, worker);
            let outcome = self.run(worker);
            if outcome != Outcome::Done {
                return outcome;
            }
        }
        Outcome::Done
    }

    /// Resets this block to the start of its block in cluster `cluster` of the grid.
    #[inline]
    pub(super) fn start(&mut self, cluster: u64, worker: u32) {
        let config = &self.launch.config;
        let next = self.context.block[0] + 1;
        if config.cluster == [1; 3] && cluster == self.index + 1 && next < config.grid[0] {
            // The next one of the row: no divisions.
            (self.index, self.context.block[0]) = (cluster, next);
        } else {
            let rank = self.context.cluster_rank;
            self.context.block = config.position(cluster, rank);
            self.index = config.index(self.context.block);
        }
        self.done = false;
        self.context.worker = worker;
        self.context.fault = FaultRecord::default();
        self.tensor_memory.reset();
        if let Some(mut sanitizer) = self.sanitizer() {
            sanitizer.start(self.index);
        }
        if let Some(arrays) = &mut self.arrays {
            arrays.schedule.start(&self.kernel.code);
        }
    }

    /// Its linear index in the grid.
    pub(super) fn index(&self) -> u64 {
        self.index
    }

    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// Whether it has arrived at the cluster's barrier.
    pub(super) fn has_arrived(&self) -> bool {
        let arrays = self.arrays.as_ref();
        self.done || arrays.is_some_and(|arrays| arrays.schedule.has_arrived())
    }

    /// Completes the phase of the cluster's barrier.
    pub(super) fn release_cluster_barrier(&mut self) {
        if let Some(arrays) = &mut self.arrays
            && !self.done
        {
            arrays.schedule.release_cluster_barrier();
        }
        if let Some(mut sanitizer) = self.sanitizer() {
            sanitizer.meet_all();
        }
    }

    /// Records that its threads wait for each other or for those of other blocks.
    pub(super) fn deadlock(&mut self) {
        let context = &raw mut self.context;
        if let Some(arrays) = &mut self.arrays {
            arrays.schedule.deadlock(&self.kernel.code, context);
        }
    }

    pub(super) fn has_fault(&self) -> bool {
        self.context.fault.kind != 0
    }

    /// Runs the block until it is done or waits for other blocks.
    #[inline]
    pub(super) fn run(&mut self, worker: u32) -> Outcome {
        let outcome = self.run_threads(worker);
        self.done = outcome == Outcome::Done;
        outcome
    }

    fn run_threads(&mut self, worker: u32) -> Outcome {
        self.context.worker = worker;
        self.context.tensor_memory = &raw mut self.tensor_memory;
        let code = &self.kernel.code;
        let context = &raw mut self.context;
        match &mut self.arrays {
            None => {
                let threads = self.launch.threads;
                // SAFETY: the context describes a block of this kernel, which needs no arrays.
                match unsafe { code.call(context, 0, threads, true) } {
                    Ok(_) => Outcome::Done,
                    Err(Faulted) => Outcome::Faulted,
                }
            }
            Some(arrays) => {
                let stop = || self.launch.stop.load(Ordering::Relaxed);
                // SAFETY: `attach_arrays` has made the arrays large enough and set the
                // context's pointers to them.
                unsafe { arrays.schedule.run(code, context, stop) }
            }
        }
    }

    /// The fault of the block.
    pub(super) fn fault(&mut self) -> Fault {
        let detail = self
            .arrays
            .as_mut()
            .and_then(|arrays| arrays.schedule.detail.take());
        let found = self.sanitizer().and_then(|sanitizer| sanitizer.found);
        Fault::of(self.kernel, &self.context, &self.launch.info, detail, found)
    }
}

impl Drop for ThreadBlock<'_> {
    fn drop(&mut self) {
        for address in self.allocations.into_iter().flatten() {
            // It was allocated by `new`, so that this cannot fail.
            let _ = self.launch.info.memory.free(address);
        }
        if let Some(arrays) = self.arrays.take() {
            SPARE.with(|spare| *spare.borrow_mut() = Some(arrays));
        }
    }
}
