//! What can go wrong between a table and its driver.

use std::fmt;

use crate::{CudaError, DriverKind};

/// Why a call through the table failed.
#[derive(Debug, Clone)]
pub enum Error {
    /// An entry returned an error number.
    Driver(DriverError),
    /// The driver has no such entry.
    EntryMissing(EntryMissing),
    /// No library of NVIDIA's driver could be opened.
    DriverMissing(DriverMissing),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Driver(error) => error.fmt(f),
            Error::EntryMissing(error) => error.fmt(f),
            Error::DriverMissing(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Driver(error) => error.source(),
            Error::EntryMissing(error) => error.source(),
            Error::DriverMissing(error) => error.source(),
        }
    }
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Error {
        Error::Driver(error)
    }
}

impl From<EntryMissing> for Error {
    fn from(error: EntryMissing) -> Error {
        Error::EntryMissing(error)
    }
}

impl From<DriverMissing> for Error {
    fn from(error: DriverMissing) -> Error {
        Error::DriverMissing(error)
    }
}

impl Error {
    /// The CUDA error number, where a driver gave one.
    pub fn code(&self) -> Option<CudaError> {
        match self {
            Error::Driver(error) => Some(error.code),
            Error::EntryMissing(_) | Error::DriverMissing(_) => None,
        }
    }
}

/// The driver is older than an entry that is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntryMissing {
    /// The entry, `cuFuncGetParamInfo`.
    pub entry: &'static str,
    /// Which driver lacks it.
    pub driver: DriverKind,
    /// The driver's version as `cuDriverGetVersion` gives it: 13000 is CUDA 13.0.
    pub version: i32,
    /// The version of CUDA that brought the entry.
    pub since: i32,
}

impl fmt::Display for EntryMissing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the {} (CUDA {}) has no {}, which came with CUDA {}: it needs a newer driver",
            self.driver,
            cuda_version(self.version),
            self.entry,
            cuda_version(self.since)
        )
    }
}

impl std::error::Error for EntryMissing {}

/// No driver library could be opened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DriverMissing {
    /// Each file tried, and why it did not open.
    pub tried: Vec<(String, String)>,
}

impl DriverMissing {
    /// What happened, without advice.
    pub fn reasons(&self) -> String {
        // The usual case, without the loader's long sentence a name.
        let absent =
            |(name, why): &(String, String)| why.contains(name) && why.contains("No such file");
        if self.tried.iter().all(absent) {
            let names: Vec<&str> = self.tried.iter().map(|(name, _)| name.as_str()).collect();
            return format!("no NVIDIA driver: {} not found", names.join(" and "));
        }
        let reasons: Vec<String> = self
            .tried
            .iter()
            .map(|(name, why)| {
                if why.contains(name) {
                    // The loader's sentence mostly begins with the name itself.
                    why.clone()
                } else {
                    format!("{name}: {why}")
                }
            })
            .collect();
        format!("no NVIDIA driver: {}", reasons.join("; "))
    }
}

impl fmt::Display for DriverMissing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (install the driver, or use the CPU device)",
            self.reasons()
        )
    }
}

impl std::error::Error for DriverMissing {}

/// An entry of the driver API returned an error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DriverError {
    /// The entry called, `cuMemAlloc_v2`.
    pub entry: &'static str,
    /// Its number.
    pub code: CudaError,
    /// What the driver said beyond the number: on the CPU device kernel,
    /// thread, address and PTX line of a fault.
    pub detail: Option<String>,
}

impl DriverError {
    pub fn new(entry: &'static str, code: i32, detail: Option<String>) -> DriverError {
        DriverError {
            entry,
            code: CudaError(code),
            detail,
        }
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.entry, self.code)?;
        match (&self.detail, self.code.advice()) {
            (Some(detail), _) => write!(f, ": {detail}"),
            (None, Some(advice)) => write!(f, ": {advice}"),
            (None, None) => Ok(()),
        }
    }
}

impl std::error::Error for DriverError {}

/// 13000 as `13.0`.
pub fn cuda_version(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}
