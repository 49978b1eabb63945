//! The schema of a report: one record per line of JSON, or per element of the page.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::ARGUMENTS;
use super::remedy::remedy;

/// What a process did since its last record. Empty lists are left out of the JSON.
#[derive(Debug, Serialize)]
pub struct Record<'a> {
    pub process: &'a Process,
    /// How long the process has used the driver.
    pub seconds: f64,
    /// The device, in the first record that knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<Device>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<Load>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compiles: Vec<Compiles>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<Copies>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<Launches>,
    /// The PTX of kernels, each once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<KernelSource>,
    /// Rows of the timeline that are new.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<Lane>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// Events that are counted in the lists above, but not in `events`, which has a limit.
    pub dropped: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
}

impl Record<'_> {
    /// A record without news.
    ///
    /// ```
    /// use ptxkit_report::{Process, Record};
    ///
    /// let path = std::env::temp_dir().join(format!("report-{}.json", std::process::id()));
    /// Record::new(&Process::current(), 0.5).append(&path)?;
    /// assert!(std::fs::read_to_string(&path)?.contains("\"seconds\":0.5"));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(process: &Process, seconds: f64) -> Record<'_> {
        Record {
            process,
            seconds,
            device: None,
            loads: Vec::new(),
            compiles: Vec::new(),
            copies: Vec::new(),
            kernels: Vec::new(),
            sources: Vec::new(),
            lanes: Vec::new(),
            events: Vec::new(),
            dropped: 0,
            failures: Vec::new(),
            missing: Vec::new(),
        }
    }
}

/// A process.
#[derive(Clone, Debug, Serialize)]
pub struct Process {
    pub id: u32,
    /// Milliseconds since 1970. Numbers of processes are used again.
    pub started: u64,
    /// The program, and its arguments if [`ARGUMENTS`] asks for them.
    pub command: Vec<String>,
}

impl Process {
    /// This process.
    pub fn current() -> Process {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let words = if std::env::var_os(ARGUMENTS).is_some_and(|value| value == "1") {
            usize::MAX
        } else {
            1
        };
        Process {
            id: std::process::id(),
            started: since.map_or(0, |since| since.as_millis() as u64),
            command: std::env::args_os()
                .take(words)
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
        }
    }
}

/// The device and the versions.
#[derive(Clone, Debug, Serialize)]
pub struct Device {
    pub name: String,
    /// `CPU device` or `NVIDIA's driver through the interposer`.
    pub driver: String,
    /// The version of ptxkit.
    pub ptxkit: &'static str,
    /// The newest CUDA version that the driver supports, such as `13.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda: Option<String>,
    /// Such as `9.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_capability: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiprocessors: Option<u32>,
    /// Bytes of device memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// The system and processor architecture of the host, such as `linux x86_64`.
    pub host: String,
}

impl Device {
    /// A device of which only the name and the driver are known.
    pub fn new(name: impl Into<String>, driver: impl Into<String>) -> Device {
        Device {
            name: name.into(),
            driver: driver.into(),
            ptxkit: env!("CARGO_PKG_VERSION"),
            cuda: None,
            compute_capability: None,
            multiprocessors: None,
            memory: None,
            host: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }
}

/// What became of the code of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The PTX was compiled.
    Compiled,
    /// The code came from the compute cache.
    Cached,
    /// Each kernel is compiled when it is first used.
    Lazy,
    /// The program passed machine code.
    Binary,
    /// The driver got the image as it was.
    Forwarded,
}

/// A load of a module or library.
#[derive(Clone, Debug, Serialize)]
pub struct Load {
    /// The driver entry.
    pub entry: String,
    /// What was loaded, such as `fatbin, PTX for sm_80`.
    pub image: String,
    /// Why it was compiled, or why it was forwarded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The digest of the PTX, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernels: Option<u64>,
    pub outcome: Outcome,
    /// Seconds since the process began to use the driver.
    pub start: f64,
    pub seconds: f64,
}

/// Compilations of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compiles {
    /// Whether they are second compilations, in the background, of kernels that ran for long.
    pub optimized: bool,
    pub times: u64,
    pub seconds: f64,
}

/// Copies and fills of one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Copies {
    /// Such as `host to device`, or `fill`.
    pub direction: String,
    pub times: u64,
    pub bytes: u64,
    pub seconds: f64,
}

/// The launches of a kernel.
#[derive(Clone, Debug, Serialize)]
pub struct Launches {
    pub name: String,
    /// The name as C++ has it, if it is mangled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demangled: Option<String>,
    /// The digest of the PTX that the kernel was loaded from, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    pub launches: u64,
    pub seconds: f64,
    /// The time of the longest launch.
    pub max_seconds: f64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shapes: Vec<Shape>,
    /// Launches of shapes that are not listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub other_shapes: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<KernelFault>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Launches {
    /// The launches of a kernel by its name in the PTX.
    pub fn new(name: impl Into<String>) -> Launches {
        let name = name.into();
        Launches {
            demangled: demangle::demangled(&name),
            name,
            module: None,
            launches: 0,
            seconds: 0.0,
            max_seconds: 0.0,
            shapes: Vec::new(),
            other_shapes: 0,
            faults: Vec::new(),
        }
    }
}

/// Launches of one shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Blocks of a cluster.
    pub cluster: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    pub launches: u64,
}

/// A fault of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KernelFault {
    pub message: String,
    /// The line in the PTX of the module, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    pub times: u64,
}

/// The PTX of a kernel.
#[derive(Clone, Debug, Serialize)]
pub struct KernelSource {
    pub name: String,
    /// The digest of the module's PTX.
    pub module: String,
    /// `None` if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ptx: Option<String>,
    /// Why the PTX is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
    /// What `ptxcheck` finds in the kernel.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// The line of the module's PTX that `ptx` begins with, from 1.
    pub first_line: u32,
    /// The names of the `.file` directives, by number.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<u32, String>,
}

/// A finding of the linter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Such as `W0103`, which `ptxcheck explain` explains.
    pub code: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// The line in the PTX of the module, from 1.
    pub line: u32,
}

/// A row of the timeline.
#[derive(Clone, Debug, Serialize)]
pub struct Lane {
    /// From 0, in the order of their first events.
    pub id: u32,
    /// Such as `default stream`, `stream 1` or `host thread 1`.
    pub name: String,
}

/// The kind of an [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    Load,
    Compile,
    Copy,
    Launch,
}

/// A bar of the timeline.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    pub kind: EventKind,
    /// [`Lane::id`]
    pub lane: u32,
    /// Seconds since the process began to use the driver.
    pub start: f64,
    pub seconds: f64,
    /// The kernel, the direction of a copy, or what was loaded.
    pub name: String,
    /// Of a copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Blocks of a launch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grid: Option<[u32; 3]>,
    /// Threads of a block of a launch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<[u32; 3]>,
    /// The fault that ended a launch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// What a failure means for the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The device does not support it.
    Refused,
    /// A kernel was ended by a fault.
    Fault,
    /// The arguments of the call were wrong.
    Error,
}

/// Calls that failed for the same reason.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    pub kind: Kind,
    /// The driver entry, or the program.
    pub entry: String,
    /// The name of the error.
    pub error: String,
    pub cause: String,
    /// What to install, set or change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    pub times: u64,
}

impl Failure {
    /// A failure with its remedy, if there is one.
    ///
    /// ```
    /// use ptxkit_report::{Failure, Kind};
    ///
    /// let cause = "the image is a cubin".to_owned();
    /// let failure =
    ///     Failure::new(Kind::Refused, "cuModuleLoadData", "CUDA_ERROR_NO_BINARY_FOR_GPU", cause, 1);
    /// assert!(failure.remedy.unwrap().contains("-gencode"));
    /// ```
    pub fn new(kind: Kind, entry: &str, error: &str, cause: String, times: u64) -> Failure {
        Failure {
            kind,
            remedy: remedy(entry, error, &cause),
            entry: entry.to_owned(),
            error: error.to_owned(),
            cause,
            times,
        }
    }
}

/// An entry that a program asked for by name and that the driver lacks.
#[derive(Clone, Debug, Serialize)]
pub struct Missing {
    pub entry: String,
    pub times: u64,
}
