//! Why memory could not be had.

use super::SIZE_VARIABLE;

/// Why memory could not be had, freed or accessed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The host would not reserve the addresses.
    #[error("cannot reserve {bytes} bytes for the CPU device ({why}); set {SIZE_VARIABLE} to less")]
    Reserve {
        /// Bytes asked for.
        bytes: u64,
        /// What the system said.
        why: String,
    },
    /// The environment variable is not a number of bytes.
    #[error("{SIZE_VARIABLE}={value} is not a number of bytes of at least 1 MiB")]
    Setting {
        /// Its value.
        value: String,
    },
    /// No free stretch is long enough.
    #[error(
        "out of device memory: {bytes} bytes asked for, {free} free, {largest} in one piece; \
         free some, or set {SIZE_VARIABLE} to more"
    )]
    OutOfMemory {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes free in all.
        free: u64,
        /// Bytes of the longest free stretch.
        largest: u64,
    },
    /// A size or alignment that no allocation has.
    #[error("{bytes} bytes aligned to {align} are no allocation")]
    Size {
        /// Bytes asked for.
        bytes: u64,
        /// Alignment asked for.
        align: u64,
    },
    /// Not the first address of an allocation.
    #[error("{address:#x} is not the start of an allocation ({what})")]
    NotAllocated {
        /// The address.
        address: u64,
        /// What lies there.
        what: String,
    },
    /// Some of these bytes belong to no allocation.
    #[error("{bytes} bytes at {address:#x} are not all device memory: {what}")]
    OutOfBounds {
        /// First address of the access.
        address: u64,
        /// Its bytes.
        bytes: u64,
        /// What lies there.
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
