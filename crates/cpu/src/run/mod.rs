//! Running compiled kernels: blocks over threads of the host, threads of a block
//! from sync point to sync point.

mod barrier;
mod block;
mod fault;
mod pool;
mod request;
mod schedule;
#[cfg(test)]
mod tests;
mod warp;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use fault::Fault;
pub use pool::THREADS_VARIABLE;
pub(crate) use request::{Grid, MAX_BLOCK, MAX_GRID, MAX_THREADS, ParamBlock};

use super::block::FaultKind;
use super::code::LoadedModule;
use super::heap::Heap;
use super::memory::DeviceMemory;
use super::print::Output;
use block::Block;
use pool::Pool;
use schedule::Outcome;

/// Work that takes less than this stays on the thread that launches: waking
/// another one costs about as much.
const SHARE_AFTER: Duration = Duration::from_micros(10);

/// How the threads of a launch are arranged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
}

/// What runs kernels: threads, device memory, and what kernels print and
/// allocate. Nothing starts before the first launch.
pub struct Engine {
    memory: Arc<DeviceMemory>,
    pool: Pool,
    output: Output,
    heap: Heap,
    launches: AtomicU64,
}

/// What the helpers of compiled code need of the device.
pub struct Services {
    pub(crate) engine: *const Engine,
    /// Bytes at `BlockContext::params`.
    pub(crate) param_bytes: u64,
    /// Whose kernel it is: what it may access.
    pub(crate) device: usize,
}

impl Engine {
    /// An engine for this memory, with as many threads as [`THREADS_VARIABLE`]
    /// says, or as the machine has cores.
    pub fn new(memory: Arc<DeviceMemory>) -> Engine {
        Engine::with_pool(memory, Pool::new())
    }

    /// The same with a number of threads.
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

    /// The memory that its kernels access.
    pub fn memory(&self) -> &Arc<DeviceMemory> {
        &self.memory
    }

    /// What kernels have printed.
    pub fn output(&self) -> &Output {
        &self.output
    }

    /// What kernels have allocated.
    pub fn heap(&self) -> &Heap {
        &self.heap
    }

    /// How many threads run blocks: the device's multiprocessors.
    pub fn workers(&self) -> u32 {
        self.pool.workers()
    }

    /// Runs a kernel of the module to its end. `params` are laid out as the
    /// kernel declares them; missing bytes are 0.
    pub fn launch(
        &self,
        module: &LoadedModule,
        kernel: usize,
        shape: LaunchShape,
        params: &[u8],
    ) -> Result<(), Fault> {
        let grid = Grid::new(shape).map_err(|why| refused("?", why))?;
        let image = module.kernels().get(kernel);
        let size = image.map_or(0, |image| image.param_bytes as usize);
        self.launch_on(0, module, kernel, &grid, &ParamBlock::new(params, size))
    }

    /// The same on one of several devices, which decides about the memory that
    /// the kernel may access, with parameters that were copied before.
    pub(crate) fn launch_on(
        &self,
        device: usize,
        module: &LoadedModule,
        kernel: usize,
        grid: &Grid,
        params: &ParamBlock,
    ) -> Result<(), Fault> {
        let code = module.code();
        let Some(image) = code.kernels().get(kernel) else {
            let message = format!("the module has no kernel number {kernel}");
            return Err(refused("?", message));
        };
        if params.size() < image.param_bytes as usize {
            let (size, needed) = (params.size(), image.param_bytes);
            let message = format!("{size} bytes of parameters, the kernel takes {needed}");
            return Err(refused(&image.name, message));
        }
        let lanes = image
            .lanes
            .filter(|lanes| lanes.width != 0 && grid.shape.block[0].is_multiple_of(lanes.width));
        let lanes = lanes.and_then(|lanes| Some((code.function(lanes.code)?, lanes.width)));
        let Some(scalar) = code.function(image.scalar) else {
            return Err(refused(&image.name, "its module holds no code".into()));
        };
        let kernel = Kernel {
            name: &image.name,
            code: schedule::Code {
                scalar,
                lanes,
                stateless: image.stateless,
                points: &image.sync_points,
            },
            shared_bytes: image.shared_bytes,
            local_bytes: image.local_bytes,
            slots: image.slots,
            globals: module.addresses(),
        };
        let start = Instant::now();
        let outcome = self.run(device, &kernel, grid, params);
        module.ran(start.elapsed());
        outcome
    }

    /// `params` has at least the bytes of the kernel's parameters.
    fn run(
        &self,
        device: usize,
        kernel: &Kernel<'_>,
        grid: &Grid,
        params: &ParamBlock,
    ) -> Result<(), Fault> {
        let helpers = super::math::table();
        let launch = Launch {
            engine: self,
            kernel,
            shape: grid.shape,
            threads: grid.threads,
            total: grid.blocks,
            chunk: (grid.blocks / (u64::from(self.pool.workers()) * 8)).clamp(1, 64),
            params: params.as_ptr(),
            helpers,
            services: Services {
                engine: self,
                param_bytes: params.size() as u64,
                device,
            },
            grid_id: self.launches.fetch_add(1, Ordering::Relaxed),
            next: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        };
        Crew {
            launch: &launch,
            shared: Mutex::default(),
        }
        .go()
    }
}

/// A kernel as it is launched.
struct Kernel<'a> {
    name: &'a str,
    code: schedule::Code<'a>,
    shared_bytes: u32,
    local_bytes: u32,
    slots: u32,
    globals: &'a [u64],
}

/// The fault of a launch that cannot start.
fn refused(kernel: &str, message: String) -> Fault {
    Fault {
        kind: FaultKind::IllegalInstruction,
        kernel: kernel.to_owned(),
        block: [0; 3],
        thread: [0; 3],
        address: None,
        line: None,
        message: format!("kernel {kernel}: {message}"),
    }
}

/// One launch, seen by all workers.
struct Launch<'a> {
    engine: &'a Engine,
    kernel: &'a Kernel<'a>,
    shape: LaunchShape,
    /// Of a block.
    threads: u32,
    /// Blocks.
    total: u64,
    /// Blocks that a worker takes at a time.
    chunk: u64,
    params: *const u8,
    helpers: [usize; super::math::Helper::ALL.len()],
    services: Services,
    grid_id: u64,
    /// The first block that no worker has taken.
    next: AtomicU64,
    stop: AtomicBool,
}

// SAFETY: the pointers are to the parameters and the engine, which outlive the
// launch and which workers only read or access through locks.
unsafe impl Sync for Launch<'_> {}

impl Launch<'_> {
    /// `%ctaid` of a block.
    fn position(&self, index: u64) -> [u32; 3] {
        let [x, y, _] = self.shape.grid.map(u64::from);
        // Each is below its dimension of the grid, which has 32 bits.
        [
            (index % x) as u32,
            (index / x % y) as u32,
            (index / x / y) as u32,
        ]
    }
}

/// The workers of a launch.
struct Crew<'a> {
    launch: &'a Launch<'a>,
    shared: Mutex<Shared<'a>>,
}

#[derive(Default)]
struct Shared<'a> {
    /// Blocks that wait for others, the longest waiting first.
    waiting: VecDeque<Block<'a>>,
    /// Blocks that were taken when there was no memory to run them.
    postponed: Vec<u64>,
    /// The fault of the first block, in the order of the grid, that has one.
    fault: Option<(u64, Fault)>,
}

impl<'a> Crew<'a> {
    fn go(self) -> Result<(), Fault> {
        let mut spare = None;
        if self.launch.total > 1 {
            // Small grids are over before another thread would have begun.
            let start = Instant::now();
            while start.elapsed() < SHARE_AFTER {
                let Some(index) = self.take(1) else { break };
                if !self.turn(&mut spare, index, 0) {
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
        let helpers = u32::try_from((left + waiting).saturating_sub(1)).unwrap_or(u32::MAX);
        let spare = Mutex::new(spare);
        self.launch.engine.pool.share(helpers, &|worker| {
            // The block that this thread has begun with goes on with it.
            let mine = if worker == 0 {
                spare.lock().map_or(None, |mut spare| spare.take())
            } else {
                None
            };
            self.work(mine, worker);
        });
        match self
            .shared
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .fault
        {
            Some((_, fault)) => Err(fault),
            None => Ok(()),
        }
    }

    /// Runs blocks until there are none.
    fn work(&self, mut spare: Option<Block<'a>>, worker: u32) {
        while !self.launch.stop.load(Ordering::Relaxed) {
            if let Some(first) = self.take(self.launch.chunk) {
                for index in first..(first + self.launch.chunk).min(self.launch.total) {
                    if self.launch.stop.load(Ordering::Relaxed)
                        || !self.turn(&mut spare, index, worker)
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
                    if !self.resume(&mut spare, block, worker) {
                        return;
                    }
                }
                (None, Some(index)) => {
                    if !self.turn(&mut spare, index, worker) {
                        return;
                    }
                }
                (None, None) => return,
            }
        }
    }

    /// The first of `count` blocks that nobody else runs.
    fn take(&self, count: u64) -> Option<u64> {
        let first = self.launch.next.fetch_add(count, Ordering::Relaxed);
        (first < self.launch.total).then_some(first)
    }

    /// Runs a block from its start; false when the launch is over.
    fn turn(&self, spare: &mut Option<Block<'a>>, index: u64, worker: u32) -> bool {
        let mut block = match spare.take() {
            Some(block) => block,
            None => match Block::new(self.launch) {
                Ok(block) => block,
                Err(error) => {
                    let mut shared = self.lock();
                    if !shared.waiting.is_empty() {
                        // There will be room when one of those is done.
                        shared.postponed.push(index);
                        return true;
                    }
                    drop(shared);
                    let fault = self.no_memory(index, error.to_string());
                    self.fail(index, fault);
                    return false;
                }
            },
        };
        block.start(index, worker);
        self.resume(spare, block, worker)
    }

    /// Runs a block on; false when the launch is over.
    fn resume(&self, spare: &mut Option<Block<'a>>, mut block: Block<'a>, worker: u32) -> bool {
        let outcome = block.run(worker);
        match outcome {
            Outcome::Done => *spare = Some(block),
            Outcome::Waiting => {
                self.lock().waiting.push_back(block);
                std::thread::yield_now();
            }
            Outcome::Stopped => return false,
            Outcome::Faulted => {
                self.fail(block.index(), block.fault());
                return false;
            }
        }
        true
    }

    fn no_memory(&self, index: u64, why: String) -> Fault {
        Fault {
            kind: FaultKind::OutOfMemory,
            kernel: self.launch.kernel.name.to_owned(),
            block: self.launch.position(index),
            thread: [0; 3],
            address: None,
            line: None,
            message: format!(
                "kernel {}: no memory for a block of {} threads: {why}",
                self.launch.kernel.name, self.launch.threads
            ),
        }
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

    fn lock(&self) -> std::sync::MutexGuard<'_, Shared<'a>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
