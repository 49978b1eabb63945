//! Execution of compiled kernels: a pool of host threads runs the blocks, and a
//! scheduler runs the threads of a block from sync point to sync point.

mod barrier;
mod cluster;
mod config;
mod deadlock;
mod fault;
mod launch;
mod lockstep;
mod matrices;
mod pool;
mod schedule;
#[cfg(test)]
mod tests;
mod thread_block;
mod tiers;
mod warp;
mod workers;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

pub(crate) use config::{
    Grid, LaunchConfig, MAX_BLOCK, MAX_CLUSTER, MAX_GRID, MAX_THREADS, ParamBlock,
};
pub use fault::{Fault, FaultAccess, FaultAllocation, RacingAccess};
pub(crate) use pool::THREADS;

use super::abi::{EXTENTS, Extent, FaultKind, LaunchInfo};
use super::grid_workspace::GridWorkspace;
use super::heap::Heap;
use super::memory::DeviceMemory;
use super::module::LoadedModule;
use super::observe::{self, Event, LaunchFault};
use super::print::Output;
use super::runtime::{self, Helper};
use super::sanitizer::{Checks, LaunchSanitizer};
use launch::{Launch, Versions};
use pool::Pool;
use tiers::Tiers;
use workers::Workers;

/// The functions of the runtime that kernels call.
static HELPERS: LazyLock<[usize; Helper::ALL.len()]> = LazyLock::new(runtime::table);

static LAST_FAULT: Mutex<Option<Fault>> = Mutex::new(None);

/// The last fault of a kernel of this process, in parts. Its message is that of the errors which
/// the driver's entries return.
///
/// ```
/// // No kernel has run.
/// assert!(ptxkit_cpu::last_fault().is_none());
/// ```
pub fn last_fault() -> Option<Fault> {
    let last = LAST_FAULT.lock().unwrap_or_else(PoisonError::into_inner);
    last.clone()
}

/// The engine that runs kernels: worker threads, device memory, and the output and heap
/// of kernels. Its threads start with the first launch that uses them.
pub struct Engine {
    memory: Arc<DeviceMemory>,
    pool: Pool,
    output: Output,
    heap: Heap,
    launches: AtomicU64,
}

impl Engine {
    /// An engine with the number of threads in [`THREADS`], or else one for each
    /// core of the host.
    pub fn new(memory: Arc<DeviceMemory>) -> Engine {
        Engine::with_pool(memory, Pool::new())
    }

    /// The same with a given number of threads.
    #[cfg(test)]
    pub fn with_workers(memory: Arc<DeviceMemory>, workers: u32) -> Engine {
        Engine::with_pool(memory, Pool::with_workers(workers))
    }

    fn with_pool(memory: Arc<DeviceMemory>, pool: Pool) -> Engine {
        let heap = Heap::new(Arc::clone(&memory));
        Engine {
            memory,
            pool,
            output: Output::default(),
            heap,
            launches: AtomicU64::new(0),
        }
    }

    /// The device memory.
    pub fn memory(&self) -> &Arc<DeviceMemory> {
        &self.memory
    }

    /// The output of kernels.
    pub fn output(&self) -> &Output {
        &self.output
    }

    /// The heap of kernels.
    pub fn heap(&self) -> &Heap {
        &self.heap
    }

    /// The number of threads that run blocks. They are the device's multiprocessors.
    pub fn workers(&self) -> u32 {
        self.pool.workers()
    }

    /// Runs a kernel of the module to completion. `params` has the layout that the kernel
    /// declares; missing bytes are 0.
    #[cfg(test)]
    pub fn launch(
        &self,
        module: &LoadedModule,
        kernel: usize,
        config: LaunchConfig,
        params: &[u8],
    ) -> Result<(), Box<Fault>> {
        let grid = Grid::new(config).map_err(|why| refused("?", why))?;
        let compiled = module.code().fastest(kernel, grid.config.block);
        let size = compiled.map_or(0, |kernel| kernel.image().param_bytes as usize);
        self.launch_on(0, module, kernel, &grid, &ParamBlock::new(params, size))
    }

    /// Runs a kernel of the module to completion on one of several devices, which decides what
    /// memory the kernel may access.
    pub(crate) fn launch_on(
        &self,
        device: usize,
        module: &LoadedModule,
        kernel: usize,
        grid: &Grid,
        params: &ParamBlock,
    ) -> Result<(), Box<Fault>> {
        let Some(compiled) = module.code().fastest(kernel, grid.config.block) else {
            let message = format!("the module has no code for kernel number {kernel}");
            return Err(refused("?", message));
        };
        let image = compiled.image();
        if params.size() < image.param_bytes as usize {
            let (size, needed) = (params.size(), image.param_bytes);
            let message = format!("{size} bytes of parameters, the kernel takes {needed}");
            return Err(refused(&image.name, message));
        }
        let watch = observe::start();
        let Some(launched) = Tiers::new(module, kernel, compiled, grid) else {
            let message = "the module contains no code for it".into();
            return Err(refused(&image.name, message));
        };
        let outcome = self.run(device, &launched, grid, params);
        launched.record();
        watch.end(|span| {
            Event::Launch(observe::Launch {
                stream: observe::stream(),
                module: module.code().number(),
                kernel: &image.name,
                grid: grid.config.grid,
                block: grid.config.block,
                cluster: grid.config.cluster,
                shared_bytes: grid.config.shared_bytes,
                fault: outcome.as_ref().err().map(|fault| LaunchFault {
                    message: &fault.message,
                    line: fault.line,
                }),
                span,
            })
        });
        outcome
    }

    /// `params` has at least the bytes of the kernel's parameters.
    fn run(
        &self,
        device: usize,
        kernel: &dyn Versions,
        grid: &Grid,
        params: &ParamBlock,
    ) -> Result<(), Box<Fault>> {
        let first = kernel.fastest();
        let clusters = grid.blocks / u64::from(grid.config.cluster_blocks().max(1));
        let extents = (grid.blocks.saturating_mul(grid.threads.into()) >= MIN_THREADS)
            .then(|| extents(&self.memory, device, params));
        let launch = Launch {
            workers: self.pool.workers(),
            kernel,
            config: grid.config,
            threads: grid.threads,
            total: clusters,
            params: params.as_ptr(),
            extents: extents.as_ref().unwrap_or(&NO_EXTENTS),
            helpers: &HELPERS,
            info: LaunchInfo {
                kernel: first.name,
                lines: first.code.lines,
                memory: &self.memory,
                output: &self.output,
                heap: &self.heap,
                param_bytes: params.size() as u64,
                device,
                workspace: GridWorkspace::new(&self.memory),
                sanitizer: LaunchSanitizer::new(Checks::of_process()),
            },
            grid_id: self.launches.fetch_add(1, Ordering::Relaxed),
            next: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            clusters: AtomicU64::new(0),
        };
        let outcome = Workers::new(&self.pool, &launch).run();
        if let Err(fault) = &outcome {
            let mut last = LAST_FAULT.lock().unwrap_or_else(PoisonError::into_inner);
            *last = Some((**fault).clone());
        }
        outcome
    }
}

/// The threads of the smallest grid that saves more than it takes to look for allocations.
const MIN_THREADS: u64 = 1024;
/// What a smaller one knows of them.
static NO_EXTENTS: [Extent; EXTENTS] = [Extent::NONE; EXTENTS];

/// The allocations that parameters point to, as far as one knows: any 8 bytes may be an address.
fn extents(memory: &DeviceMemory, device: usize, params: &ParamBlock) -> [Extent; EXTENTS] {
    let mut extents = NO_EXTENTS;
    for (extent, &address) in extents.iter_mut().zip(params.words()) {
        if let Some((start, bytes)) = memory.extent(device, address) {
            *extent = Extent::new(start, bytes);
        }
    }
    extents
}

/// The fault of a launch that cannot start.
fn refused(kernel: &str, message: String) -> Box<Fault> {
    Box::new(Fault::plain(
        FaultKind::IllegalInstruction,
        kernel,
        [0; 3],
        message,
    ))
}
