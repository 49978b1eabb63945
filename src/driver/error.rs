//! What can go wrong between the program and a driver.

use std::fmt;

use thiserror::Error;

use api::{ArrayFormat, CudaError, DriverError, DriverKind, DriverMissing, EntryMissing};

use crate::driver::log::LogLine;

/// Any error of [`driver`](crate::driver) and [`jit`](crate::jit).
#[allow(missing_docs, reason = "the messages say it all")]
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum Error {
    /// No library of NVIDIA's driver could be opened.
    #[error(transparent)]
    DriverMissing(#[from] DriverMissing),

    /// The driver is older than an entry that is needed.
    #[error(transparent)]
    EntryMissing(#[from] EntryMissing),

    /// An entry returned an error.
    #[error(transparent)]
    Driver(#[from] DriverError),

    /// PTX did not compile.
    #[error(transparent)]
    Jit(#[from] JitError),

    /// There are fewer devices than the number asked for.
    #[error(
        "there is no device {asked} on the {driver}: it has {count}, counted from 0{}",
        hidden()
    )]
    NoSuchDevice {
        driver: DriverKind,
        asked: u32,
        count: u32,
    },

    /// No device has the PCI address or the identity asked for.
    #[error(
        "no device of the {driver} has the {asked}: see `ptxkit devices`, and CUDA_VISIBLE_DEVICES"
    )]
    UnknownDevice { driver: DriverKind, asked: String },

    /// A word that is none of the ways to name a device.
    #[error("`{0}` names no device: use auto, nvidia, nvidia:N or cpu")]
    BadSelection(String),

    /// The image cannot be handed to a driver: its sizes lead outside of it,
    /// or it is text with a NUL inside.
    #[error("the image cannot be loaded: {0}")]
    BadImage(String),

    /// A function that loads PTX was given a binary, which is machine code.
    #[error(
        "the image is a binary, and this loads PTX: a binary that is trusted is loaded by `load_image`, which is `unsafe`"
    )]
    Binary,

    /// Buffers were given for variables that are declared in PTX, and the
    /// driver takes them for compiled code alone.
    #[error(
        "this driver gives addresses to variables of compiled code, not of PTX: compile it with \
         `ptxas -c` or `nvcc -dc -cubin`, or define the variables in PTX and link the two"
    )]
    SymbolsInPtx,

    /// A file could not be read.
    #[error("{} cannot be read: {source}", path.display())]
    File {
        path: std::path::PathBuf,
        source: std::sync::Arc<std::io::Error>,
    },

    /// A module has no kernel of that name.
    #[error(
        "there is no kernel `{name}` in the module{}",
        listing("it has", known)
    )]
    UnknownKernel { name: String, known: Vec<String> },

    /// A module has no variable of that name.
    #[error("there is no variable `{name}` in the module")]
    UnknownGlobal { name: String },

    /// A module has no texture or surface reference of that name.
    #[error("there is no texture or surface reference `{name}` in the module")]
    UnknownReference { name: String },

    /// A kernel was given more or fewer arguments than it has parameters.
    #[error("kernel `{kernel}` takes {expected} argument{}, {given} given", if *expected == 1 { "" } else { "s" })]
    ArgumentCount {
        kernel: String,
        expected: usize,
        given: usize,
    },

    /// An argument has another size than its parameter.
    #[error(
        "argument {index} of kernel `{kernel}`: {expected} bytes expected{}, {given} given",
        declared(declaration)
    )]
    ArgumentSize {
        kernel: String,
        /// From 0.
        index: usize,
        expected: usize,
        given: usize,
        /// Type and name in the PTX, where known.
        declaration: Option<String>,
    },

    /// In a parameter buffer, an argument stands at another place than its parameter.
    #[error(
        "argument {index} of kernel `{kernel}` stands at byte {given} of the parameter buffer, expected at {expected}{}: its alignment is another",
        declared(declaration)
    )]
    ArgumentOffset {
        kernel: String,
        index: usize,
        expected: usize,
        given: usize,
        declaration: Option<String>,
    },

    /// An argument is aligned to more than its parameter.
    #[error(
        "argument {index} of kernel `{kernel}` is aligned to {given} bytes, and its parameter stands at byte {offset}{}: it is another type",
        declared(declaration)
    )]
    ArgumentAlignment {
        kernel: String,
        /// From 0.
        index: usize,
        offset: usize,
        given: usize,
        declaration: Option<String>,
    },

    /// An argument lives in another context than the kernel.
    #[error(
        "argument {index} of kernel `{kernel}` lives in another context than the kernel: on another device, peer access makes it good (`Context::enable_peer`)"
    )]
    ArgumentContext { kernel: String, index: usize },

    /// A parameter buffer has another length than the kernel's parameters.
    #[error("kernel `{kernel}` takes {expected} bytes of parameters, the buffer has {given}")]
    ParameterBytes {
        kernel: String,
        expected: usize,
        given: usize,
    },

    /// The block has more threads than the kernel can run with.
    #[error(
        "a block of {} threads is over the limit of kernel `{kernel}`, {limit} threads: launch smaller blocks",
        shape(block)
    )]
    BlockTooLarge {
        kernel: String,
        block: [u32; 3],
        limit: u32,
    },

    /// The block is not the one that the kernel's `.reqntid` demands.
    #[error(
        "kernel `{kernel}` runs with blocks of {} only, {} given",
        shape(required),
        shape(given)
    )]
    RequiredBlock {
        kernel: String,
        required: [u32; 3],
        given: [u32; 3],
    },

    /// Grid or block have 0 or too many in one direction.
    #[error("{what}.{} = {given} of kernel `{kernel}` is not in 1..={limit}", ["x", "y", "z"].get(*axis).unwrap_or(&"?"))]
    Dimension {
        kernel: String,
        /// `grid` or `block`.
        what: &'static str,
        /// 0, 1, 2 for x, y, z.
        axis: usize,
        given: u32,
        limit: u32,
    },

    /// The grid cannot be cut into clusters.
    #[error(
        "the grid of kernel `{kernel}`, {}, is no multiple of its cluster, {}",
        shape(grid),
        shape(cluster)
    )]
    Cluster {
        kernel: String,
        grid: [u32; 3],
        cluster: [u32; 3],
    },

    /// More shared memory than a block can have.
    #[error(
        "kernel `{kernel}` has {fixed} bytes of shared memory and asks for {dynamic} more: a block on this device can have {limit}"
    )]
    SharedMemory {
        kernel: String,
        fixed: u32,
        dynamic: u32,
        limit: u32,
    },

    /// Host and device side of a copy differ in length, or a range ends past the memory.
    #[error("{what}: {given} given, room for {capacity}")]
    Length {
        what: &'static str,
        given: usize,
        capacity: usize,
    },

    /// A copy reaches beyond an array, or its ends have different extents.
    #[error("{what}: {start}..{end} along {}, the array has {capacity}", ["x", "y", "z"].get(*axis).unwrap_or(&"?"))]
    ArrayBox {
        what: &'static str,
        /// 0, 1, 2 for texels of a row, rows, planes.
        axis: usize,
        start: usize,
        end: usize,
        capacity: usize,
    },

    /// An array has other texels than those asked for.
    #[error(
        "the array has {channels} channel{} of {}, {} of {:?} expected",
        if *channels == 1 { "" } else { "s" },
        found.map_or("a format unknown here".to_owned(), |format| format!("{format:?}")),
        expected.1,
        expected.0
    )]
    ArrayFormat {
        /// Format and channels.
        expected: (ArrayFormat, u32),
        /// `None` for a format that has no name here.
        found: Option<ArrayFormat>,
        channels: u32,
    },

    /// Texels that are read as integers cannot be filtered.
    #[error(
        "{format:?} texels that are read as integers cannot be filtered: use FilterMode::Point, or read integers of 8 or 16 bits as fractions"
    )]
    IntegerFilter { format: ArrayFormat },

    /// The array was not made for surfaces.
    #[error("the array was made without ArrayFlags::surface: no surface can be made of it")]
    NotForSurfaces,

    /// Only arrays have views.
    #[error("only arrays have views: this texture is one of linear memory")]
    NotAnArray,

    /// A mipmapped array has no such level, or its shape not so many.
    #[error("{what}: {given} given, there are {levels} at most")]
    MipmapLevel {
        what: &'static str,
        given: u32,
        levels: u32,
    },

    /// In check mode: what failed, told by the call that queued it.
    #[error("{what} failed: {source}")]
    Checked {
        /// Kernel with grid and block, or the kind of copy.
        what: String,
        source: Box<Error>,
    },

    /// A function that can be called once was to be captured in a graph, which
    /// can be launched many times.
    #[error(
        "a function that is called once cannot be captured in a graph: use `Stream::call_each_launch`"
    )]
    CapturedOnce,

    /// A rectangle or box leads outside of its memory.
    #[error("{what}: {start}..{end} along {}, the memory has {capacity}", ["x", "y", "z"].get(*axis).unwrap_or(&"?"))]
    Region {
        what: &'static str,
        /// 0, 1, 2 for values of a row, rows of a plane, planes.
        axis: usize,
        start: usize,
        end: usize,
        capacity: usize,
    },

    /// A call that the driver makes by itself was given memory of the program's
    /// own.
    #[error("this takes memory of the driver's: pin the program's own (`PinnedBuffer`)")]
    Pageable,

    /// Something that a graph cannot do, or cannot keep.
    #[error("{what} cannot be captured in a graph")]
    Captured { what: &'static str },

    /// Borrowed memory was used after it went back to its owner.
    #[error("the memory was borrowed, and went back to its owner")]
    Ended,

    /// Memory and what is to use it are of different devices.
    #[error("{what} are of different devices")]
    DifferentDevices { what: &'static str },

    /// A node was used with a graph that it is not of.
    #[error("the node is not of this graph")]
    GraphNode,

    /// Memory that a graph allocates was used otherwise than by a node that is
    /// added to the graph meanwhile.
    #[error(
        "memory that a graph allocates is there for the nodes alone that `Graph::add_memory` adds with it"
    )]
    GraphMemory,

    /// A graph that is ready cannot take the parameters of another.
    #[error(
        "the graph differs in more than parameters (CUgraphExecUpdateResult {reason}{}): instantiate it instead",
        update_reason(*reason)
    )]
    GraphUpdate {
        /// `CU_GRAPH_EXEC_UPDATE_*`
        reason: u32,
    },

    /// A path that no C string can hold.
    #[error("the path {} has a NUL in it", .0.display())]
    BadPath(std::path::PathBuf),

    /// What is used was made in a primary context that was reset since.
    #[error(
        "the device's primary context was reset, and what was made in it is gone: make a new one with `Context::primary`"
    )]
    ContextReset,

    /// Two objects that must share a context do not.
    #[error("{what} belong to different contexts")]
    DifferentContexts { what: &'static str },
}

impl From<api::Error> for Error {
    fn from(error: api::Error) -> Error {
        match error {
            api::Error::Driver(error) => Error::Driver(error),
            api::Error::EntryMissing(error) => Error::EntryMissing(error),
            api::Error::DriverMissing(error) => Error::DriverMissing(error),
        }
    }
}

impl Error {
    /// The bytes of a file, or why there are none.
    pub(crate) fn read(path: &std::path::Path) -> Result<Vec<u8>, Error> {
        std::fs::read(path).map_err(|error| Error::File {
            path: path.to_owned(),
            source: std::sync::Arc::new(error),
        })
    }

    /// The CUDA error number, where a driver gave one.
    pub fn code(&self) -> Option<CudaError> {
        match self {
            Error::Driver(error) => Some(error.code),
            Error::Jit(error) => Some(error.code),
            Error::Checked { source, .. } => source.code(),
            Error::ContextReset => Some(CudaError::CONTEXT_IS_DESTROYED),
            _ => None,
        }
    }

    /// Whether it tells of earlier work, and not of the call that returned it
    /// (see [`CudaError::is_asynchronous`]). In check mode the call is the one.
    pub fn is_asynchronous(&self) -> bool {
        !matches!(self, Error::Checked { .. })
            && self.code().is_some_and(CudaError::is_asynchronous)
    }

    /// Whether the context is lost (see [`CudaError::is_sticky`]).
    pub fn is_sticky(&self) -> bool {
        self.code().is_some_and(CudaError::is_sticky)
    }
}

/// PTX that did not compile or link.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
#[non_exhaustive]
pub struct JitError {
    /// The entry that failed, `cuLinkAddData_v2`.
    pub entry: &'static str,
    /// Its number.
    pub code: CudaError,
    /// The compiler's error log as it came.
    pub log: String,
    /// The log line by line, with the PTX lines it names.
    pub diagnostics: Vec<LogLine>,
}

impl JitError {
    /// The same with the lines of the text that what was compiled is a part of:
    /// `original` gives them.
    #[cfg(feature = "cache")]
    pub(crate) fn with_lines(mut self, original: impl Fn(u32) -> Option<u32>) -> JitError {
        self.log = crate::driver::log::with_lines(&self.log, &original);
        for found in &mut self.diagnostics {
            found.line = found.line.and_then(&original);
        }
        self
    }
}

impl fmt::Display for JitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the PTX does not compile: {} failed: {}",
            self.entry, self.code
        )?;
        if self.diagnostics.is_empty()
            && let Some(advice) = self.code.advice()
        {
            return write!(f, ": {advice}");
        }
        for line in &self.diagnostics {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

/// Why there may be fewer than the machine has.
fn hidden() -> String {
    match std::env::var("CUDA_VISIBLE_DEVICES") {
        Ok(visible) => format!(", of those that CUDA_VISIBLE_DEVICES=\"{visible}\" shows"),
        Err(_) => String::new(),
    }
}

fn shape([x, y, z]: &[u32; 3]) -> String {
    format!("{x} x {y} x {z}")
}

fn update_reason(reason: u32) -> &'static str {
    match reason {
        2 => ", the topology changed",
        3 => ", the type of a node changed",
        4 => ", the function of a launch changed",
        5 => ", parameters changed that cannot be",
        6 => ", something in it is not supported",
        7 => ", the function of a launch changed in a way that is not supported",
        8 => ", attributes of a node changed",
        _ => "",
    }
}

fn listing(words: &str, names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    format!(": {words} {}", names.join(", "))
}

fn declared(declaration: &Option<String>) -> String {
    declaration
        .as_ref()
        .map(|text| format!(" (`{text}`)"))
        .unwrap_or_default()
}
