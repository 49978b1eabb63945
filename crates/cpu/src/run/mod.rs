//! Execution of compiled kernels: a pool of host threads runs the blocks, and a
//! scheduler runs the threads of a block from sync point to sync point.

mod barrier;
mod cluster;
mod config;
mod deadlock;
mod fault;
mod in_turn;
mod launch;
mod lines;
mod lockstep;
mod matrices;
mod pool;
mod schedule;
#[cfg(test)]
mod tests;
mod thread_block;
mod tiers;
mod warp;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

pub(crate) use config::{
    Grid, LaunchConfig, MAX_BLOCK, MAX_CLUSTER, MAX_GRID, MAX_THREADS, ParamBlock,
};
pub use fault::{Fault, FaultAccess, FaultAllocation, RacingAccess};
pub(crate) use pool::THREADS;

use super::abi::{FaultKind, LaunchInfo};
use super::grid_workspace::GridWorkspace;
use super::heap::Heap;
use super::memory::DeviceMemory;
use super::module::LoadedModule;
use super::print::Output;
use super::sanitizer::{Checks, LaunchSanitizer};
use cluster::Cluster;
use launch::{Launch, Versions};
use pool::Pool;
use schedule::Outcome;
use tiers::Tiers;

/// A launch that takes less than this runs on the launching thread: waking another
/// thread costs about as much.
const SHARE_AFTER: Duration = Duration::from_micros(10);

/// What is told of each launch that has ended.
static OBSERVER: OnceLock<LaunchObserver> = OnceLock::new();

/// Gets the name of a kernel and the time that a launch of it took.
pub type LaunchObserver = fn(kernel: &str, time: Duration);

/// Sets what is told of each launch on the CPU device that has ended, on the thread that ran it.
/// The first observer of a process stays; returns whether it is this one.
///
/// ```
/// fn print(kernel: &str, time: std::time::Duration) {
///     println!("{kernel}: {time:?}");
/// }
/// assert!(ptxkit_cpu::observe_launches(print));
/// ```
pub fn observe_launches(observer: LaunchObserver) -> bool {
    OBSERVER.set(observer).is_ok()
}

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
        let compiled = module.code().fastest(kernel);
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
        let Some(compiled) = module.code().fastest(kernel) else {
            let message = format!("the module has no code for kernel number {kernel}");
            return Err(refused("?", message));
        };
        let image = compiled.image();
        if params.size() < image.param_bytes as usize {
            let (size, needed) = (params.size(), image.param_bytes);
            let message = format!("{size} bytes of parameters, the kernel takes {needed}");
            return Err(refused(&image.name, message));
        }
        let Some(launched) = Tiers::new(module, kernel, compiled, grid) else {
            let message = "the module contains no code for it".into();
            return Err(refused(&image.name, message));
        };
        let outcome = self.run(device, &launched, grid, params);
        let time = launched.record();
        if let Some(observer) = OBSERVER.get() {
            observer(&image.name, time);
        }
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
        let helpers = super::runtime::table();
        let clusters = grid.blocks / u64::from(grid.config.cluster_blocks().max(1));
        let launch = Launch {
            workers: self.pool.workers(),
            kernel,
            config: grid.config,
            threads: grid.threads,
            total: clusters,
            chunk: (clusters / (u64::from(self.pool.workers()) * 8)).clamp(1, 64),
            params: params.as_ptr(),
            helpers,
            info: LaunchInfo {
                kernel: first.name,
                lines: first.code.lines.0,
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
        };
        Workers {
            pool: &self.pool,
            launch: &launch,
            shared: Mutex::default(),
        }
        .run()
    }
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

/// The workers of a launch.
struct Workers<'a> {
    pool: &'a Pool,
    launch: &'a Launch<'a>,
    shared: Mutex<WorkerState<'a>>,
}

#[derive(Default)]
struct WorkerState<'a> {
    /// Blocks that wait for other blocks, in the order in which they were suspended.
    waiting: VecDeque<Cluster<'a>>,
    /// Blocks that are not started yet because memory was short.
    postponed: Vec<u64>,
    /// The fault of the first faulting block in grid order.
    fault: Option<(u64, Fault)>,
}

impl<'a> Workers<'a> {
    fn run(self) -> Result<(), Box<Fault>> {
        let mut spare = None;
        if self.launch.total > 1 {
            // A small grid is done before another thread would start.
            let start = Instant::now();
            while start.elapsed() < SHARE_AFTER {
                let Some(index) = self.take(1) else { break };
                if !self.run_block(&mut spare, index, 0) {
                    break;
                }
            }
        }
        let stopped = self.launch.stop.load(Ordering::Relaxed);
        let left = if stopped {
            0
        } else {
            self.launch
                .total
                .saturating_sub(self.launch.next.load(Ordering::Relaxed))
        };
        let waiting = self.lock().waiting.len() as u64;
        let extra_workers = u32::try_from((left + waiting).saturating_sub(1)).unwrap_or(u32::MAX);
        let spare = Mutex::new(spare);
        self.pool.share(extra_workers, &|worker| {
            // This thread retains the block that it has already allocated.
            let retained = if worker == 0 {
                spare.lock().map_or(None, |mut spare| spare.take())
            } else {
                None
            };
            self.work(retained, worker);
        });
        match self
            .shared
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .fault
        {
            Some((_, fault)) => {
                let mut last = LAST_FAULT.lock().unwrap_or_else(PoisonError::into_inner);
                *last = Some(fault.clone());
                Err(Box::new(fault))
            }
            None => Ok(()),
        }
    }

    /// Runs blocks until there are no more.
    fn work(&self, mut spare: Option<Cluster<'a>>, worker: u32) {
        let mut in_turn = Vec::new();
        while !self.launch.stop.load(Ordering::Relaxed) {
            let together = in_turn::blocks(self.launch);
            if together > 1 {
                if let Some(first) = self.take(together) {
                    let blocks = first..(first + together).min(self.launch.total);
                    if !self.run_in_turn(&mut in_turn, blocks, worker) {
                        return;
                    }
                    continue;
                }
            } else if let Some(first) = self.take(self.launch.chunk) {
                for index in first..(first + self.launch.chunk).min(self.launch.total) {
                    if self.launch.stop.load(Ordering::Relaxed)
                        || !self.run_block(&mut spare, index, worker)
                    {
                        return;
                    }
                }
                continue;
            }
            let (waiting, postponed) = {
                let mut shared = self.lock();
                match shared.waiting.pop_front() {
                    Some(block) => (Some(block), None),
                    None => (None, shared.postponed.pop()),
                }
            };
            match (waiting, postponed) {
                (Some(block), _) => {
                    let mut block = Some(block);
                    if !self.resume(&mut block, worker) {
                        return;
                    }
                    spare = block.or(spare);
                }
                (None, Some(index)) => {
                    if !self.run_block(&mut spare, index, worker) {
                        return;
                    }
                }
                (None, None) => return,
            }
        }
    }

    /// Takes the next `count` blocks of the grid, and returns the first.
    fn take(&self, count: u64) -> Option<u64> {
        let first = self.launch.next.fetch_add(count, Ordering::Relaxed);
        (first < self.launch.total).then_some(first)
    }

    /// Runs a block from its start. Returns false if the launch must end.
    fn run_block(&self, spare: &mut Option<Cluster<'a>>, index: u64, worker: u32) -> bool {
        let kernel = self.launch.kernel.fastest();
        if spare.as_ref().is_some_and(|block| !block.runs(kernel)) {
            *spare = None;
        }
        // It stays where it is: moving it takes as long as what else starts it.
        let block = match spare {
            Some(block) => block,
            None => match Cluster::new(self.launch, kernel) {
                Ok(block) => spare.insert(block),
                Err(error) => {
                    let mut shared = self.lock();
                    if !shared.waiting.is_empty() {
                        // There is memory again when a waiting block completes.
                        shared.postponed.push(index);
                        return true;
                    }
                    drop(shared);
                    let fault = self.no_memory(index, error.to_string());
                    self.fail(self.launch.config.index(fault.block), fault);
                    return false;
                }
            },
        };
        block.start(index, worker);
        self.resume(spare, worker)
    }

    /// Continues a block, which stays there when it is done. Returns false if the launch must end.
    fn resume(&self, running: &mut Option<Cluster<'a>>, worker: u32) -> bool {
        let Some(block) = running else { return true };
        match block.run(worker) {
            Outcome::Done => {}
            Outcome::Waiting | Outcome::AtClusterBarrier | Outcome::InLoop => {
                self.lock().waiting.extend(running.take());
                std::thread::yield_now();
            }
            Outcome::Stopped => return false,
            Outcome::Faulted => {
                if let Some((index, fault)) = block.fault() {
                    self.fail(index, fault);
                }
                return false;
            }
        }
        true
    }

    fn no_memory(&self, index: u64, why: String) -> Fault {
        let threads = self.launch.threads;
        let what = format!("no memory for a block of {threads} threads: {why}");
        let block = self.launch.config.position(index, 0);
        let name = self.launch.kernel.fastest().name;
        Fault::plain(FaultKind::OutOfMemory, name, block, what)
    }

    fn fail(&self, index: u64, fault: Fault) {
        self.launch.stop.store(true, Ordering::Relaxed);
        let mut shared = self.lock();
        if shared
            .fault
            .as_ref()
            .is_none_or(|(first, _)| index < *first)
        {
            shared.fault = Some((index, fault));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, WorkerState<'a>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
