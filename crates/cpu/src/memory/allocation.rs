//! Allocations.

/// The purpose of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// `cuMemAlloc`
    Device,
    /// `cuMemAllocHost`
    Host,
    /// `cuMemAllocManaged`
    Managed,
    /// A variable of a module.
    Variable,
    /// The shared memory of a block.
    Shared,
    /// The local memory of a block's threads.
    Local,
    /// `malloc` in a kernel.
    Heap,
    /// `cuArrayCreate`
    Array,
    /// `cuMemAddressReserve`
    Reserved,
    /// `cuIpcOpenMemHandle`
    Imported,
}

impl Purpose {
    pub(super) fn noun(self) -> &'static str {
        match self {
            Purpose::Device => "allocation",
            Purpose::Host => "host allocation",
            Purpose::Managed => "managed allocation",
            Purpose::Variable => "module variable",
            Purpose::Shared => "shared memory",
            Purpose::Local => "local memory",
            Purpose::Heap => "in-kernel allocation",
            Purpose::Array => "array",
            Purpose::Reserved => "reservation",
            Purpose::Imported => "allocation of another process",
        }
    }
}

/// A live allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Its first address.
    pub start: u64,
    /// Requested bytes.
    pub size: u64,
    /// Its purpose.
    pub purpose: Purpose,
}
