//! Runs jobs on a device, in this process.

use std::thread::sleep;
use std::time::{Duration, Instant};

use ptxkit::cpu::{CompileOptions, compile};
use ptxkit::driver::{Context, DeviceBuffer, Driver, Error, LaunchConfig, Module, Stream};
use ptxkit::jit::JitOptions;
use ptxkit::ptx;

use crate::job::Job;
use crate::kernel::{THREAD_BYTES, TOTALS_BYTES};
use crate::memory::{TOTALS_BYTE, digest, input};
use crate::mode::Mode;
use crate::print::NAME;
use crate::tier_up;

/// The most time until a kernel is hot and compiled again; 3 ms and a compilation where the
/// machine has no other work.
const UNTIL_HOT: Duration = Duration::from_secs(5);
/// About the threads of a launch that makes a kernel hot.
const HOT_THREADS: u32 = 8192;

/// Why a kernel gave no results.
pub type Failure = Box<dyn std::error::Error>;

/// A device with the memory of kernels.
pub struct Device {
    mode: Mode,
    context: Context,
    stream: Stream,
    input: DeviceBuffer<u8>,
    output: DeviceBuffer<u8>,
    totals: DeviceBuffer<u8>,
}

impl Device {
    /// The device of a mode.
    ///
    /// # Errors
    /// There is no such device.
    pub fn new(mode: Mode) -> Result<Device, Error> {
        let driver = if mode.is_nvidia() {
            Driver::nvidia()?
        } else {
            Driver::cpu()?
        };
        let context = Context::primary(&driver.device(0)?)?;
        Ok(Device {
            mode,
            stream: Stream::new(&context)?,
            input: DeviceBuffer::from_slice(&context, &input())?,
            output: DeviceBuffer::new(&context, 1)?,
            totals: DeviceBuffer::new(&context, TOTALS_BYTES)?,
            context,
        })
    }

    fn load(&self, ptx: &str) -> Result<Module, Failure> {
        if self.mode == Mode::NvidiaUnoptimized {
            let options = JitOptions {
                optimization: Some(0),
                ..JitOptions::default()
            };
            let compiled = ptxkit::jit::compile(&self.context, ptx, &options)?;
            // SAFETY: it was compiled a moment ago.
            return Ok(unsafe { Module::load_image(&self.context, &compiled.binary) }?);
        }
        let Some(vectorization) = self.mode.vectorization() else {
            return Ok(Module::load(&self.context, ptx.as_bytes())?);
        };
        let mut options = CompileOptions::default();
        options.vectorization = vectorization;
        let code = compile(ptx, &options)?;
        // SAFETY: it was compiled a moment ago.
        Ok(unsafe { Module::load_image(&self.context, &code) }?)
    }

    /// Runs a job, and returns the digest of its results.
    ///
    /// # Errors
    /// The kernel does not load, or its launch fails; then the device takes no other job.
    pub fn run(&mut self, job: &Job) -> Result<u64, Failure> {
        let sliced = match self.mode {
            Mode::Sliced => slice(&job.ptx),
            _ => None,
        };
        let finished = tier_up::finished();
        let module = self.load(sliced.as_ref().unwrap_or(&job.ptx))?;
        let kernel = module.kernel(NAME)?;
        let threads = job.block[0] * job.block[1];
        let hot_grid = match self.mode {
            Mode::Hot => job.grid.max(HOT_THREADS / threads.max(1)).min(512),
            _ => job.grid,
        };
        let bytes = |grid: u32| grid as usize * threads as usize * THREAD_BYTES;
        if self.output.len() < bytes(hot_grid) {
            self.output = DeviceBuffer::new(&self.context, bytes(hot_grid))?;
        }
        let mut parameters = Vec::with_capacity(40);
        for buffer in [&self.input, &self.output, &self.totals] {
            parameters.extend(buffer.address().to_le_bytes());
        }
        parameters.extend(job.parameters.iter().flat_map(|value| value.to_le_bytes()));
        let [x, y] = job.block;
        let launch = |grid: u32| {
            let config = LaunchConfig::new([grid, 1, 1], [x, y, 1]);
            // SAFETY: a generated kernel reads the input and uses its threads' memory in the
            // output, which has that of this grid, and the totals. All live until the stream is
            // synchronized.
            unsafe { kernel.launch_bytes(config, &self.stream, &parameters) }?;
            self.stream.synchronize()?;
            Ok::<(), Failure>(())
        };
        if self.mode == Mode::Hot {
            let start = Instant::now();
            while tier_up::finished() == finished && start.elapsed() < UNTIL_HOT {
                launch(hot_grid)?;
            }
            // The event comes just before launches take the new code.
            sleep(Duration::from_millis(1));
        }
        let used = bytes(job.grid);
        self.output.slice_mut(0..used)?.fill_bytes(0)?;
        self.totals.fill_bytes(TOTALS_BYTE)?;
        if self.mode.is_nvidia() {
            // An earlier kernel that was compiled wrongly may have written to it.
            self.input.copy_from_host(&input(), &self.stream)?;
        }
        launch(job.grid)?;
        let mut results = vec![0; used];
        self.output.read_at(0, &mut results)?;
        Ok(digest(&results, &self.totals.to_vec()?))
    }
}

/// The slice of the kernel.
fn slice(text: &str) -> Option<String> {
    let slices = ptx::slice::cut_always(text, &ptx::read(text).module);
    let slice = slices.kernel(NAME)?;
    Some(slices.slices()[slice].text(text).into_owned())
}
