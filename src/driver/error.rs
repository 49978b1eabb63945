//! What can go wrong between the program and a driver.

mod message;

use std::fmt;

use api::{ArrayFormat, CudaError, DriverError, DriverKind, DriverMissing, EntryMissing};

use crate::driver::log::LogLine;
use crate::driver::nvptxcompiler::NvPtxCompilerError;
use crate::driver::tensor_map_error::TensorMapError;

/// Any error of [`driver`](crate::driver) and [`jit`](crate::jit).
#[allow(missing_docs, reason = "the messages say it all")]
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// No library of NVIDIA's driver could be opened.
    DriverMissing(DriverMissing),

    /// The driver is older than an entry that is needed.
    EntryMissing(EntryMissing),

    /// An entry returned an error.
    Driver(DriverError),

    /// PTX did not compile.
    Jit(JitError),

    /// NVIDIA's PTX compiler as a library cannot be used.
    NvPtxCompiler(NvPtxCompilerError),

    /// A tensor that no tensor map can describe.
    TensorMap(TensorMapError),

    /// There are fewer devices than the number asked for.
    NoSuchDevice {
        driver: DriverKind,
        asked: u32,
        count: u32,
    },

    /// No device has the PCI address or the identity asked for.
    UnknownDevice { driver: DriverKind, asked: String },

    /// A word that is none of the ways to name a device.
    BadSelection(String),

    /// The image cannot be handed to a driver: its sizes lead outside of it,
    /// or it is text with a NUL inside.
    BadImage(String),

    /// A function that loads PTX was given a binary, which is machine code.
    Binary,

    /// Buffers were given for variables that are declared in PTX, and the
    /// driver takes them for compiled code alone.
    SymbolsInPtx,

    /// A file could not be read.
    File {
        path: std::path::PathBuf,
        source: std::sync::Arc<std::io::Error>,
    },

    /// A module has no kernel of that name.
    UnknownKernel { name: String, known: Vec<String> },

    /// A module has no variable of that name.
    UnknownGlobal { name: String },

    /// A module has no texture or surface reference of that name.
    UnknownReference { name: String },

    /// A kernel was given more or fewer arguments than it has parameters.
    ArgumentCount {
        kernel: String,
        expected: usize,
        given: usize,
    },

    /// An argument has another size than its parameter.
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
    ArgumentOffset {
        kernel: String,
        index: usize,
        expected: usize,
        given: usize,
        declaration: Option<String>,
    },

    /// An argument is aligned to more than its parameter.
    ArgumentAlignment {
        kernel: String,
        /// From 0.
        index: usize,
        offset: usize,
        given: usize,
        declaration: Option<String>,
    },

    /// The memory whose address is passed is aligned to less than the kernel's code relies on
    /// (`.ptr .align`).
    AddressAlignment {
        kernel: String,
        /// From 0.
        index: usize,
        address: u64,
        /// In bytes.
        align: u32,
        declaration: Option<String>,
    },

    /// An argument lives in another context than the kernel.
    ArgumentContext { kernel: String, index: usize },

    /// A parameter buffer has another length than the kernel's parameters.
    ParameterBytes {
        kernel: String,
        expected: usize,
        given: usize,
    },

    /// The block has more threads than the kernel can run with.
    BlockTooLarge {
        kernel: String,
        block: [u32; 3],
        limit: u32,
    },

    /// The block is not the one that the kernel's `.reqntid` demands.
    RequiredBlock {
        kernel: String,
        required: [u32; 3],
        given: [u32; 3],
    },

    /// Grid or block have 0 or too many in one direction.
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
    Cluster {
        kernel: String,
        grid: [u32; 3],
        cluster: [u32; 3],
    },

    /// More shared memory than a block can have.
    SharedMemory {
        kernel: String,
        fixed: u32,
        dynamic: u32,
        limit: u32,
    },

    /// Host and device side of a copy differ in length, or a range ends past the memory.
    Length {
        what: &'static str,
        given: usize,
        capacity: usize,
    },

    /// Memory is not seen as values of another type: some would be cut off or not aligned.
    Cast {
        address: u64,
        bytes: usize,
        size: usize,
        align: usize,
    },

    /// A copy reaches beyond an array, or its ends have different extents.
    ArrayBox {
        what: &'static str,
        /// 0, 1, 2 for texels of a row, rows, planes.
        axis: usize,
        start: usize,
        end: usize,
        capacity: usize,
    },

    /// An array has other texels than those asked for.
    ArrayFormat {
        /// Format and channels.
        expected: (ArrayFormat, u32),
        /// `None` for a format that has no name here.
        found: Option<ArrayFormat>,
        channels: u32,
    },

    /// Texels that are read as integers cannot be filtered.
    IntegerFilter { format: ArrayFormat },

    /// The array was not made for surfaces.
    NotForSurfaces,

    /// Only arrays have views.
    NotAnArray,

    /// A mipmapped array has no such level, or its shape not so many.
    MipmapLevel {
        what: &'static str,
        given: u32,
        levels: u32,
    },

    /// In check mode: what failed, told by the call that queued it.
    Checked {
        /// Kernel with grid and block, or the kind of copy.
        what: String,
        source: Box<Error>,
    },

    /// A function that can be called once was to be captured in a graph, which
    /// can be launched many times.
    CapturedOnce,

    /// A rectangle or box leads outside of its memory.
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
    Pageable,

    /// A graph was used while a stream is captured into it.
    CapturedInto,

    /// Something that a graph cannot do, or cannot keep.
    Captured { what: &'static str },

    /// Borrowed memory was used after it went back to its owner, or a buffer was to grow whose
    /// values were moved out of it.
    Ended,

    /// Two parameters of a launch are the same memory, and the kernel writes it.
    Aliases {
        /// The parameter that is passed as `&mut`, counted from 0.
        written: usize,
        /// The other one.
        other: usize,
    },

    /// Physical memory, or a part of imported memory, is mapped already.
    Mapped,

    /// A byte of device memory is no truth value.
    Bool { index: usize, byte: u8 },

    /// Work would use pinned memory of which the program has a slice, or a slice was asked for of
    /// memory that is borrowed for a while.
    HostSlice,

    /// Memory and what is to use it are of different devices.
    DifferentDevices { what: &'static str },

    /// A stream of a green context was asked for in another context.
    NotGreen,

    /// A node was used with a graph that it is not of.
    GraphNode,

    /// Memory that a graph allocates was used otherwise than by a node that is
    /// added to the graph meanwhile.
    GraphMemory,

    /// A graph that is ready cannot take the parameters of another.
    GraphUpdate {
        /// `CU_GRAPH_EXEC_UPDATE_*`
        reason: u32,
    },

    /// A path that no C string can hold.
    BadPath(std::path::PathBuf),

    /// What is used was made in a primary context that was reset since.
    ContextReset,

    /// Two objects that must share a context do not.
    DifferentContexts { what: &'static str },
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::DriverMissing(error) => error.source(),
            Error::EntryMissing(error) => error.source(),
            Error::Driver(error) => error.source(),
            Error::Jit(error) => error.source(),
            Error::TensorMap(error) => error.source(),
            Error::File { source, .. } => Some(&**source),
            Error::Checked { source, .. } => Some(&**source),
            _ => None,
        }
    }
}

impl From<DriverMissing> for Error {
    fn from(error: DriverMissing) -> Error {
        Error::DriverMissing(error)
    }
}

impl From<EntryMissing> for Error {
    fn from(error: EntryMissing) -> Error {
        Error::EntryMissing(error)
    }
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Error {
        Error::Driver(error)
    }
}

impl From<JitError> for Error {
    fn from(error: JitError) -> Error {
        Error::Jit(error)
    }
}

impl From<TensorMapError> for Error {
    fn from(error: TensorMapError) -> Error {
        Error::TensorMap(error)
    }
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
        input::read(path).map_err(|error| Error::File {
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
#[derive(Debug, Clone, PartialEq, Eq)]
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

impl std::error::Error for JitError {}
