//! Errors of device memory.

use super::size::SIZE_VARIABLE;

/// Why memory could not be allocated, freed or accessed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The system did not reserve the addresses.
    #[error(
        "cannot reserve {bytes} bytes for the CPU device ({why}); set {SIZE_VARIABLE} to a smaller size"
    )]
    Reserve {
        /// Requested bytes.
        bytes: u64,
        /// The system's error.
        why: String,
    },
    /// The environment variable is not a number of bytes.
    #[error("{SIZE_VARIABLE}={value} is not a number of bytes of at least 1 MiB")]
    Setting {
        /// Its value.
        value: String,
    },
    /// No free range is large enough.
    #[error(
        "out of device memory: {bytes} bytes requested, {free} free, {largest} contiguous; \
         free memory, or set {SIZE_VARIABLE} to a larger size"
    )]
    OutOfMemory {
        /// Requested bytes.
        bytes: u64,
        /// Free bytes in total.
        free: u64,
        /// Bytes of the largest free range.
        largest: u64,
    },
    /// An invalid size or alignment.
    #[error("cannot allocate {bytes} bytes aligned to {align}: invalid size or alignment")]
    Size {
        /// Requested bytes.
        bytes: u64,
        /// Requested alignment.
        align: u64,
    },
    /// Not the first address of an allocation.
    #[error("{address:#x} is not the start of an allocation ({what})")]
    NotAllocated {
        /// The address.
        address: u64,
        /// Description of the address.
        what: String,
    },
    /// Some of these bytes are outside any allocation.
    #[error("{bytes} bytes at {address:#x} are not all device memory: {what}")]
    OutOfBounds {
        /// First address of the access.
        address: u64,
        /// Size of the access in bytes.
        bytes: u64,
        /// Description of the address.
        what: String,
    },
    /// The range is registered already, or not at all.
    #[error("the host memory at {address:#x} is {state} registered")]
    Registration {
        /// First address of the range.
        address: u64,
        /// `already` or `not`.
        state: &'static str,
    },
}
