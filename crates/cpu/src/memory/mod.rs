//! Device memory: the arena, one reserved range of addresses that contains all memory a
//! kernel may access, and its shadow memory, which says which bytes may be accessed.
//!
//! The shadow has a number for each granule of 256 bytes: how many of its bytes, counted
//! from its start, belong to an allocation. An allocation starts at a granule and is
//! followed by a guard granule, so that compiled code checks an access with one
//! comparison. Freeing clears the numbers: accesses to freed memory are faults until the
//! addresses are reused.
//!
//! Most accesses are to an allocation that a parameter points to. A launch looks for these, and
//! compiled code compares an address with the bounds of the one that it is computed from; it reads
//! the shadow where that does not hold. An allocation that is freed under a running kernel is
//! accessible for as long as that runs.
//!
//! The addresses are reserved once. The system commits pages on first access.

mod allocation;
mod allocator;
mod arena;
mod error;
mod mapping;
mod near;
mod owner;
mod peer_access;
mod physical;
mod sealed_file;
mod shadow;
mod sharing;
mod size;

pub(crate) use allocation::Purpose;
pub(crate) use allocator::{FREED, GRANULE, GRANULE_SHIFT};
pub(crate) use arena::DeviceMemory;
pub(crate) use error::MemoryError;
pub(crate) use physical::Physical;
pub(crate) use sealed_file::{sealed_file, sealed_size};
pub(crate) use size::page_size;
