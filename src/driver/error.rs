//! What can go wrong between the program and a driver.

use thiserror::Error;

use super::api::DriverKind;

/// Any error of [`driver`](crate::driver).
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    DriverMissing(DriverMissing),
    #[error("the {driver} has no {entry}: it serves CUDA {}, the entry came with CUDA {}", cuda_version(*version), cuda_version(*since))]
    EntryMissing {
        entry: &'static str,
        driver: DriverKind,
        version: i32,
        since: i32,
    },
    #[error(transparent)]
    Driver(DriverError),
}

/// No driver library could be opened.
#[derive(Debug, Clone, Error)]
#[error("no NVIDIA driver")]
pub struct DriverMissing {
    /// Each file tried, and why it did not open.
    pub tried: Vec<(String, String)>,
}

/// An entry returned something other than success.
#[derive(Debug, Clone, Error)]
#[error("{entry} failed with error {code}")]
pub struct DriverError {
    pub entry: &'static str,
    pub code: i32,
    pub detail: Option<String>,
}

impl DriverError {
    pub(crate) fn new(entry: &'static str, code: i32, detail: Option<String>) -> DriverError {
        DriverError {
            entry,
            code,
            detail,
        }
    }
}

fn cuda_version(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}
