//! Tells an observer of the process about loads, compilations, copies and launches.
//!
//! Without an observer, an event costs one atomic load: no clock is read and no lock is taken.

use std::cell::Cell;
use std::ops::Range;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

static OBSERVER: OnceLock<Observer> = OnceLock::new();

thread_local! {
    static STREAM: Cell<Option<StreamId>> = const { Cell::new(None) };
}

/// Is called after each event, on the thread that did the work.
pub type Observer = fn(&Event<'_>);

/// Something that the CPU device has done.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The program loaded a module or a library.
    Load(Load<'a>),
    /// PTX was compiled to machine code.
    Compile(Compile<'a>),
    /// Memory was copied or filled.
    Copy(Transfer),
    /// A kernel ran.
    Launch(Launch<'a>),
}

/// When something ran.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The start.
    pub start: Instant,
    /// The duration.
    pub time: Duration,
}

/// A stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamId {
    /// Unique in the process; `cuStreamGetId` returns it.
    pub id: u64,
    /// Whether it is the default stream of its context.
    pub is_default: bool,
}

/// A load of a module or library.
#[derive(Debug)]
pub struct Load<'a> {
    /// The driver entry.
    pub entry: &'static str,
    /// The number of the module's code in this process.
    pub module: u64,
    /// What the program passed: `PTX`, `fatbin` or `binary of the CPU device`.
    pub image: &'static str,
    /// The `.target` of the PTX.
    pub target: Option<String>,
    /// The PTX; `None` for a binary.
    pub ptx: Option<&'a str>,
    /// The kernels, in the order of the PTX.
    pub kernels: Vec<KernelText<'a>>,
    /// Whether each kernel is compiled when it is first used.
    pub is_lazy: bool,
    /// When it was loaded.
    pub span: Span,
}

/// Where the PTX of a module has a kernel.
#[derive(Debug)]
pub struct KernelText<'a> {
    /// The name of the kernel.
    pub name: &'a str,
    /// Its bytes in the PTX; empty for a binary.
    pub text: Range<usize>,
}

/// A compilation of PTX to machine code.
#[derive(Debug)]
pub struct Compile<'a> {
    /// The number of the module's code in this process.
    pub module: u64,
    /// The kernel; `None` for all kernels of the module.
    pub kernel: Option<&'a str>,
    /// Whether it is the second compilation of a hot kernel, in the background.
    pub is_optimized: bool,
    /// When it was compiled.
    pub span: Span,
}

/// The direction of a [`Transfer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// A copy from host to device memory.
    HostToDevice,
    /// A copy from device to host memory.
    DeviceToHost,
    /// A copy within device memory.
    DeviceToDevice,
    /// A copy within host memory.
    HostToHost,
    /// Copies in several directions.
    Batch,
    /// A fill of device memory.
    Fill,
}

/// A copy or a fill.
#[derive(Debug)]
pub struct Transfer {
    /// The stream; `None` in a graph whose stream is not known.
    pub stream: Option<StreamId>,
    /// From where to where.
    pub direction: Direction,
    /// The bytes that were written.
    pub bytes: u64,
    /// When it ran.
    pub span: Span,
}

/// A launch of a kernel that has ended.
#[derive(Debug)]
pub struct Launch<'a> {
    /// The stream; `None` in a graph whose stream is not known.
    pub stream: Option<StreamId>,
    /// The number of the module's code in this process.
    pub module: u64,
    /// The name of the kernel.
    pub kernel: &'a str,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Blocks of a cluster.
    pub cluster: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// The fault that ended it.
    pub fault: Option<LaunchFault<'a>>,
    /// When it ran.
    pub span: Span,
}

/// The fault that ended a launch.
#[derive(Clone, Copy, Debug)]
pub struct LaunchFault<'a> {
    /// What happened, and where.
    pub message: &'a str,
    /// The line in the PTX, from 1, where known.
    pub line: Option<u32>,
}

/// Sets the observer of the process, which is told of every event that starts from now on.
/// The first observer stays; returns whether it is this one.
///
/// ```
/// use ptxkit_cpu::observe::{self, Event};
///
/// fn print(event: &Event<'_>) {
///     if let Event::Launch(launch) = event {
///         println!("{}: {:?}", launch.kernel, launch.span.time);
///     }
/// }
/// assert!(observe::set(print));
/// ```
pub fn set(observer: Observer) -> bool {
    OBSERVER.set(observer).is_ok()
}

/// The time of something that has started; without an observer nothing is measured.
pub(crate) struct Stopwatch(Option<(Observer, Instant)>);

/// Starts something that the observer will be told of.
#[inline]
pub(crate) fn start() -> Stopwatch {
    Stopwatch(OBSERVER.get().map(|observer| (*observer, Instant::now())))
}

impl Stopwatch {
    /// Tells the observer, if there is one.
    #[inline]
    pub(crate) fn end<'a>(self, event: impl FnOnce(Span) -> Event<'a>) {
        if let Some((observer, start)) = self.0 {
            let time = start.elapsed();
            observer(&event(Span { start, time }));
        }
    }
}

/// Runs the work of a stream, whose events are then those of the stream.
#[inline]
pub(crate) fn in_stream<R>(id: u64, is_default: bool, work: impl FnOnce() -> R) -> R {
    if OBSERVER.get().is_none() {
        return work();
    }
    let before = STREAM.replace(Some(StreamId { id, is_default }));
    let result = work();
    STREAM.set(before);
    result
}

/// The stream whose work this thread runs.
pub(crate) fn stream() -> Option<StreamId> {
    STREAM.get()
}
