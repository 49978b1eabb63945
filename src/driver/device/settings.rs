//! Context settings: flags, limits, cache preferences.

/// A limit of a context (`CUlimit`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit(pub u32);

impl Limit {
    /// Bytes of stack a GPU thread has.
    pub const STACK_SIZE: Limit = Limit(0);
    /// Bytes of the buffer that a kernel's `printf` writes to.
    pub const PRINTF_FIFO_SIZE: Limit = Limit(1);
    /// Bytes of the heap of a kernel's `malloc`.
    pub const MALLOC_HEAP_SIZE: Limit = Limit(2);
    /// Depth to which nested kernel launches can be synchronised. GPUs from `sm_90` on have
    /// no such limit.
    pub const DEV_RUNTIME_SYNC_DEPTH: Limit = Limit(3);
    /// Maximum number of outstanding launches made by kernels.
    pub const DEV_RUNTIME_PENDING_LAUNCH_COUNT: Limit = Limit(4);
    /// Bytes that L2 fetches at a time, 0 to 128: a hint.
    pub const MAX_L2_FETCH_GRANULARITY: Limit = Limit(5);
    /// Bytes of L2 set aside for lines that persist.
    pub const PERSISTING_L2_CACHE_SIZE: Limit = Limit(6);
}

/// How a thread waits for the device (`CU_CTX_SCHED_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Scheduling {
    /// The driver's heuristic: it spins where there are more processors than contexts, else
    /// it yields.
    #[default]
    Auto = 0,
    /// Spin: lowest latency, with a processor kept busy.
    Spin = 1,
    /// Yield to other threads between polls.
    Yield = 2,
    /// Block.
    Block = 4,
}

/// Flags of a context (`CU_CTX_*`), for
/// [`Context::create`](crate::driver::Context::create) and
/// [`Device::set_primary_flags`](crate::driver::Device::set_primary_flags).
///
/// ```
/// use ptxkit::driver::{ContextFlags, Scheduling};
/// let flags = ContextFlags::from(Scheduling::Block).map_host();
/// assert_eq!(flags.scheduling(), Some(Scheduling::Block));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ContextFlags(pub u32);

impl ContextFlags {
    /// Pinned memory can be mapped; every driver since CUDA 3.2 takes it for
    /// granted (`CU_CTX_MAP_HOST`).
    pub const fn map_host(self) -> ContextFlags {
        ContextFlags(self.0 | 0x08)
    }

    /// Local memory that a kernel needed once is kept for the next
    /// (`CU_CTX_LMEM_RESIZE_TO_MAX`).
    pub const fn keep_local_memory(self) -> ContextFlags {
        ContextFlags(self.0 | 0x10)
    }

    /// Synchronous copies wait for their end also where they need not
    /// (`CU_CTX_SYNC_MEMOPS`, from CUDA 12.1).
    pub const fn synchronous_copies(self) -> ContextFlags {
        ContextFlags(self.0 | 0x80)
    }

    /// How a thread waits; `None` for an unknown value.
    pub fn scheduling(self) -> Option<Scheduling> {
        [
            Scheduling::Auto,
            Scheduling::Spin,
            Scheduling::Yield,
            Scheduling::Block,
        ]
        .into_iter()
        .find(|scheduling| *scheduling as u32 == self.0 & 7)
    }
}

/// `CU_CTX_*` as a number.
impl From<u32> for ContextFlags {
    fn from(flags: u32) -> ContextFlags {
        ContextFlags(flags)
    }
}

impl From<Scheduling> for ContextFlags {
    fn from(scheduling: Scheduling) -> ContextFlags {
        ContextFlags(scheduling as u32)
    }
}

/// Preferred split of on-chip memory between L1 and shared memory (`CUfunc_cache`): a hint,
/// with little effect on newer GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum CacheConfig {
    /// Nothing.
    #[default]
    PreferNone = 0,
    /// More shared memory.
    PreferShared = 1,
    /// More L1.
    PreferL1 = 2,
    /// Equally much of both.
    PreferEqual = 3,
}

/// Width of the banks of shared memory (`CUsharedconfig`): only GPUs of
/// capability 3.x have a choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum SharedBanks {
    /// The device's own.
    #[default]
    Default = 0,
    /// 4 bytes.
    FourBytes = 1,
    /// 8 bytes.
    EightBytes = 2,
}
