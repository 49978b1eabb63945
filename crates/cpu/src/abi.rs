//! The ABI between compiled kernels and the scheduler.
//!
//! A kernel compiles to a function of type [`KernelFn`]. It runs threads `first..last` of
//! the block in its [`BlockContext`], each until it exits, faults or is suspended at a sync
//! point. No state of a thread stays on the host's stack between calls. A suspended thread
//! is saved in these arrays, which the scheduler owns:
//!
//! - `states[t]`: where thread `t` resumes: 0 is the entry, `i + 1` is resume point `i`,
//!   [`EXITED`] is final. Stateless kernels do not access it.
//! - `slots`: the registers that are live across sync points. Each warp has all slots of its
//!   kernel, one behind the other, of [`SLOT_BYTES`] each. A slot has a value of 4 or 8 bytes
//!   for each lane. The values of consecutive lanes are contiguous, so that a vector load reads
//!   several. Bytes that were never written are undefined.
//! - `requests[t]`: the operands of the sync point at which thread `t` is suspended, and
//!   the results that it reads when it resumes (see [`SyncKind`]).

use std::mem::offset_of;
use std::sync::Mutex;

use crate::grid_workspace::GridWorkspace;
use crate::heap::Heap;
use crate::lines::Lines;
use crate::memory::DeviceMemory;
use crate::print::Output;
use crate::sanitizer::{BlockSanitizer, LaunchSanitizer};
use crate::tensor_memory::TensorMemory;

/// A compiled kernel. It runs threads `first..last` of the block, and returns 0, [`TOGETHER`],
/// or another value if `BlockContext::fault` holds a fault.
pub type KernelFn = unsafe extern "C" fn(context: *mut BlockContext, first: u32, last: u32) -> u32;

/// What the vector function returns if all threads are in one state, which it has stored for the
/// first of them alone.
pub const TOGETHER: u32 = 2;

/// The state of a thread that has exited.
pub const EXITED: u32 = u32::MAX;

/// Threads of a warp, which have consecutive linear indices.
pub const WARP_SIZE: u32 = 32;

/// The alignment of the local memory of a block.
pub const LOCAL_ALIGN: u32 = 256;

/// Bytes of a slot of a warp.
pub const SLOT_BYTES: u32 = 8 * WARP_SIZE;

/// The number of parameters whose allocations are known.
pub const EXTENTS: usize = 8;

/// The most units of a [`Extent::places`] that one access has.
pub const MAX_UNITS: u64 = 32;

/// Where a kernel may access the allocation that a parameter points to. All accesses there are
/// valid for as long as the kernel runs; elsewhere, the shadow memory says what is.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The first address.
    pub start: u64,
    /// For units of 1, 2, 4, 8 and 16 bytes, the number of units from `start` on at which
    /// [`MAX_UNITS`] of them begin that are inside.
    pub places: [u64; 5],
    /// For units of 1, 2, 4, 8 and 16 bytes, the number of units from `start` on that are inside.
    pub units: [u64; 5],
}

impl Extent {
    /// That of no allocation.
    pub const NONE: Extent = Extent {
        start: 0,
        places: [0; 5],
        units: [0; 5],
    };

    /// The extent of an allocation.
    pub fn new(start: u64, bytes: u64) -> Extent {
        Extent {
            start,
            places: [0, 1, 2, 3, 4].map(|shift| ((bytes >> shift) + 1).saturating_sub(MAX_UNITS)),
            units: [0, 1, 2, 3, 4].map(|shift| bytes >> shift),
        }
    }
}

/// An access that compiled code has the runtime check.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SlowCheck {
    pub address: u64,
    /// The line and the [`Access`], as `check_access` takes them.
    pub access: u64,
    pub thread: u32,
}

/// A thread block, as compiled code accesses it. All addresses are host addresses.
#[repr(C)]
pub struct BlockContext {
    /// The kernel's parameters, laid out as the kernel declares them.
    pub params: *const u8,
    /// Address of each module variable, by its index in the blob.
    pub globals: *const u64,
    /// The functions of [`crate::runtime::Helper`], by their number.
    pub helpers: *const usize,

    /// First address of the arena, which contains all device memory.
    pub arena_base: u64,
    /// Size of the arena in bytes.
    pub arena_size: u64,
    /// Index of the arena's last granule, which is never accessible.
    pub last_granule: u64,
    /// For each granule of the arena, the number of its bytes (0 to 256), counted from its
    /// start, that may be accessed.
    pub shadow: *const u16,

    /// The allocations that the first parameters point to, by the 8 bytes of the parameter.
    pub extents: [Extent; EXTENTS],

    /// Address of the block's shared memory. The dynamic part follows the static part,
    /// aligned to 16 bytes.
    pub shared: u64,
    /// Bytes of shared memory, static and dynamic.
    pub shared_size: u64,
    /// The same in units of 1, 2, 4, 8 and 16 bytes.
    pub shared_units: [u32; 5],
    /// Address of the local frame of thread 0.
    pub local: u64,
    /// Bytes from the local frame of one thread to that of the next.
    pub local_stride: u64,

    /// See the description of the module.
    pub states: *mut u32,
    /// See the description of the module.
    pub slots: *mut u8,
    /// Bytes from the slots of one warp to those of the next.
    pub slot_stride: u64,
    /// The registers of groups that wait for the block between two phases of vector code. They are in no
    /// slots then.
    pub packed: *mut u8,
    /// See the description of the module.
    pub requests: *mut Request,

    /// `%ntid`.
    pub block_dim: [u32; 3],
    /// `%nctaid`.
    pub grid_dim: [u32; 3],
    /// `%ctaid`.
    pub block: [u32; 3],
    /// Number of threads: the product of `block_dim`.
    pub threads: u32,
    /// `%smid`: the number of the worker.
    pub worker: u32,
    /// `%nsmid`: the number of workers.
    pub workers: u32,
    /// `%dynamic_smem_size`.
    pub dynamic_shared: u32,
    /// `%total_smem_size`, like `shared_size`.
    pub total_shared: u32,
    /// `%gridid`: the number of the launch.
    pub grid_id: u64,

    /// The first fault of the block.
    pub fault: FaultRecord,

    /// Addresses of the shared memory of the cluster's blocks, by rank.
    pub cluster_shared: *const u64,
    /// `%cluster_nctaid`.
    pub cluster_dim: [u32; 3],
    /// `%cluster_ctaid`.
    pub cluster_block: [u32; 3],
    /// `%cluster_nctarank`: the product of `cluster_dim`.
    pub cluster_blocks: u32,
    /// `%cluster_ctarank`.
    pub cluster_rank: u32,

    /// Address of the kernel's scalar function, which the vector function calls where a lane
    /// group diverges.
    pub scalar: usize,

    /// The access that the slow path is to check.
    pub check: SlowCheck,
    /// Address of the registers that a kernel's first code has saved on the stack, to which a check
    /// that fails unwinds it.
    pub unwind_stack: usize,
    /// `%tid` of the thread that first code runs.
    pub tid: [u32; 3],

    /// The block's tensor memory. Compiled code does not access it.
    pub(crate) tensor_memory: *mut TensorMemory,
    /// What checks the accesses of the block's threads; null where nothing does. Compiled code
    /// does not access it.
    pub(crate) sanitizer: *const Mutex<BlockSanitizer>,
    /// The data of the launch that helpers use. Compiled code does not access it.
    pub(crate) launch: *const LaunchInfo<'static>,
}

/// The data of a launch that helpers use.
pub(crate) struct LaunchInfo<'a> {
    /// The kernel's name.
    pub(crate) kernel: &'a str,
    /// The lines that messages name.
    pub(crate) lines: &'a dyn Lines,
    pub(crate) memory: &'a DeviceMemory,
    /// The output of kernels.
    pub(crate) output: &'a Output,
    /// The heap of kernels.
    pub(crate) heap: &'a Heap,
    /// Size of the parameters at `BlockContext::params`.
    pub(crate) param_bytes: u64,
    /// The device of the kernel, which decides what it may access.
    pub(crate) device: usize,
    pub(crate) workspace: GridWorkspace<'a>,
    pub(crate) sanitizer: Option<LaunchSanitizer>,
}

/// The coordinates of a thread or block with this linear index.
pub(crate) fn position(index: u64, [x, y, _]: [u32; 3]) -> [u32; 3] {
    let [x, y] = [x, y].map(|n| u64::from(n.max(1)));
    // Each is less than a dimension, which has 32 bits.
    [index % x, index / x % y, index / x / y].map(|n| n as u32)
}

/// The operands and results of a thread at a sync point.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The operands, zero-extended, in the order of [`SyncKind`].
    pub operands: [u64; 4],
    /// The results, zero-extended. A predicate is 0 or 1.
    pub results: [u64; 2],
}

/// A fault, as compiled code records it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultRecord {
    /// A [`FaultKind`] as a number, 0 for none.
    pub kind: u32,
    /// The line in the PTX, 1-based, 0 where unknown.
    pub line: u32,
    /// The thread's linear index in its block.
    pub thread: u32,
    /// The [`Access`] bits of a faulting access, otherwise 0.
    pub access: u32,
    /// The address of a faulting access, in the state space that `access` names.
    pub address: u64,
}

/// The kind of a fault, which ends a launch.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// An address outside any allocation (`CUDA_ERROR_ILLEGAL_ADDRESS`).
    OutOfBounds = 1,
    /// An address that is not a multiple of the access size
    /// (`CUDA_ERROR_MISALIGNED_ADDRESS`).
    Misaligned = 2,
    /// The instruction `trap` (`CUDA_ERROR_LAUNCH_FAILED`).
    Trap = 3,
    /// A failed `assert` (`CUDA_ERROR_ASSERT`).
    Assert = 4,
    /// All threads wait for each other
    /// (`CUDA_ERROR_LAUNCH_FAILED`).
    Deadlock = 5,
    /// An invalid operand, such as a barrier above 15
    /// (`CUDA_ERROR_ILLEGAL_INSTRUCTION`).
    IllegalInstruction = 6,
    /// `free` of an address that `malloc` did not return (`CUDA_ERROR_LAUNCH_FAILED`).
    BadFree = 7,
    /// No memory for the shared and local memory of a block
    /// (`CUDA_ERROR_OUT_OF_MEMORY`).
    OutOfMemory = 8,
    /// The handle is not that of a texture or surface of this geometry
    /// (`CUDA_ERROR_ILLEGAL_ADDRESS`).
    BadTexture = 9,
    /// A `.trap` access out of bounds of a surface (`CUDA_ERROR_ILLEGAL_ADDRESS`).
    OutsideSurface = 10,
    /// A call through a register that holds the address of no function of the module with
    /// this signature (`CUDA_ERROR_INVALID_PC`).
    BadCall = 11,
    /// Calls are nested too deeply, or a frame is damaged
    /// (`CUDA_ERROR_HARDWARE_STACK_ERROR`).
    Stack = 12,
    /// Two accesses that nothing orders, where [`Checks`](crate::Checks) ask for them
    /// (`CUDA_ERROR_LAUNCH_FAILED`).
    Race = 13,
    /// A read of memory that nobody has written, likewise (`CUDA_ERROR_LAUNCH_FAILED`).
    Uninitialised = 14,
    /// An access to tensor memory that the block or the warp may not make, or a product that
    /// `tcgen05.mma` does not have (`CUDA_ERROR_ILLEGAL_INSTRUCTION`).
    TensorMemory = 15,
    /// A copy by a tensor map that this device does not have
    /// (`CUDA_ERROR_ILLEGAL_INSTRUCTION`).
    TensorCopy = 16,
    /// A copy between the shared memories of a cluster's blocks in a grid without clusters
    /// (`CUDA_ERROR_ILLEGAL_INSTRUCTION`).
    NoCluster = 17,
}

impl FaultKind {
    /// The kind with this number.
    pub fn from_number(number: u32) -> Option<FaultKind> {
        use FaultKind::*;
        [
            OutOfBounds,
            Misaligned,
            Trap,
            Assert,
            Deadlock,
            IllegalInstruction,
            BadFree,
            OutOfMemory,
            BadTexture,
            OutsideSurface,
            BadCall,
            Stack,
            Race,
            Uninitialised,
            TensorMemory,
            TensorCopy,
            NoCluster,
        ]
        .into_iter()
        .find(|&kind| kind as u32 == number)
    }
}

/// The encoded access that compiled code passes to the helpers `check_access` and `fault`: the
/// size in bytes plus the bits below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(pub u32);

impl Access {
    /// A write; otherwise a read.
    pub const WRITE: u32 = 1 << 8;
    /// An atomic operation.
    pub const ATOMIC: u32 = 1 << 9;
    /// The address is an offset in shared memory; otherwise it is generic.
    pub const SHARED: u32 = 1 << 10;
    /// The address is an offset in the thread's local memory.
    pub const LOCAL: u32 = 1 << 11;
    /// The address is an offset in the kernel's parameters.
    pub const PARAM: u32 = 1 << 12;
    /// It acquires or releases what other threads do, as a fence.
    pub const SYNC: u32 = 1 << 13;

    /// The size of the access in bytes.
    pub fn size(self) -> u32 {
        self.0 & 0xff
    }
}

/// The operation at which threads are suspended.
///
/// Operands and results are those of [`Request`]. A mask is a member mask of lanes; lanes
/// that have exited do not count. With a mask of 0, the lanes that arrive together take
/// part, as for the instructions without `.sync`.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyncKind {
    /// `bar.sync`, `barrier.sync`: operands barrier, threads (0: all).
    Barrier = 0,
    /// `bar.arrive`: operands barrier, threads. It does not wait.
    BarrierArrive = 1,
    /// `bar.red.popc`: operands barrier, threads (0: all), predicate; result count.
    BarrierPopc = 2,
    /// `bar.red.and`: like [`SyncKind::BarrierPopc`]; result predicate.
    BarrierAnd = 3,
    /// `bar.red.or`: like [`SyncKind::BarrierPopc`]; result predicate.
    BarrierOr = 4,
    /// `bar.warp.sync`: operand mask.
    WarpBarrier = 5,
    /// `shfl.sync.up`: operands value, b, c, mask; results value, predicate.
    ShflUp = 6,
    /// `shfl.sync.down`: like [`SyncKind::ShflUp`].
    ShflDown = 7,
    /// `shfl.sync.bfly`: like [`SyncKind::ShflUp`].
    ShflBfly = 8,
    /// `shfl.sync.idx`: like [`SyncKind::ShflUp`].
    ShflIdx = 9,
    /// `vote.sync.all`: operands predicate, mask; result predicate.
    VoteAll = 10,
    /// `vote.sync.any`: like [`SyncKind::VoteAll`].
    VoteAny = 11,
    /// `vote.sync.uni`: like [`SyncKind::VoteAll`].
    VoteUni = 12,
    /// `vote.sync.ballot`: operands predicate, mask; result mask.
    VoteBallot = 13,
    /// `match.any.sync`: operands value, mask; result mask.
    MatchAny = 14,
    /// `match.all.sync`: operands value, mask; results mask, predicate.
    MatchAll = 15,
    /// `redux.sync.add`: operands value, mask; result value (32 bits).
    ReduxAdd = 16,
    /// `redux.sync.min.u32`.
    ReduxMinU32 = 17,
    /// `redux.sync.max.u32`.
    ReduxMaxU32 = 18,
    /// `redux.sync.min.s32`.
    ReduxMinS32 = 19,
    /// `redux.sync.max.s32`.
    ReduxMaxS32 = 20,
    /// `redux.sync.and.b32`.
    ReduxAnd = 21,
    /// `redux.sync.or.b32`.
    ReduxOr = 22,
    /// `redux.sync.xor.b32`.
    ReduxXor = 23,
    /// `redux.sync.min.f32`: operands value (its bits), mask, flags: bit 0
    /// `.abs`, bit 1 `.NaN`.
    ReduxMinF32 = 24,
    /// `redux.sync.max.f32`: like [`SyncKind::ReduxMinF32`].
    ReduxMaxF32 = 25,
    /// `activemask`: result mask.
    ActiveMask = 26,
    /// `elect.sync`: operand mask; results the elected lane, predicate.
    Elect = 27,
    /// `nanosleep`, and the back edge of a spin loop: yields to the other threads. The operand
    /// is the time in nanoseconds, 0 at a back edge.
    Yield = 28,
    /// An instruction on matrices ([`crate::matrix`]) of all lanes of the warp. Its registers
    /// are in slots. Operands of a transfer: the address, and the elements from a row or
    /// column to the next; of tensor memory, the columns from one half to the other.
    Matrix = 29,
    /// `barrier.cluster.arrive`. It does not wait.
    ClusterArrive = 30,
    /// `barrier.cluster.wait`.
    ClusterWait = 31,
}

impl SyncKind {
    /// The kind with this number.
    pub fn from_number(number: u8) -> Option<SyncKind> {
        use SyncKind::*;
        const ALL: [SyncKind; 32] = [
            Barrier,
            BarrierArrive,
            BarrierPopc,
            BarrierAnd,
            BarrierOr,
            WarpBarrier,
            ShflUp,
            ShflDown,
            ShflBfly,
            ShflIdx,
            VoteAll,
            VoteAny,
            VoteUni,
            VoteBallot,
            MatchAny,
            MatchAll,
            ReduxAdd,
            ReduxMinU32,
            ReduxMaxU32,
            ReduxMinS32,
            ReduxMaxS32,
            ReduxAnd,
            ReduxOr,
            ReduxXor,
            ReduxMinF32,
            ReduxMaxF32,
            ActiveMask,
            Elect,
            Yield,
            Matrix,
            ClusterArrive,
            ClusterWait,
        ];
        ALL.get(usize::from(number)).copied()
    }
}

/// A sync point of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncPoint {
    /// The operation.
    pub kind: SyncKind,
    /// Its line in the PTX, 1-based.
    pub line: u32,
    /// The operands of [`SyncKind::Barrier`] and [`SyncKind::BarrierArrive`], barrier and
    /// threads, if they are constants. They are not stored in requests then.
    pub barrier: Option<[u32; 2]>,
    /// The operation of [`SyncKind::Matrix`]: an index into the kernel's.
    pub matrix: Option<u32>,
    /// The sync point, an operation on matrices too, that follows this one with nothing in
    /// between: the scheduler executes both before it resumes the threads.
    pub then: Option<u32>,
}

/// The offsets of the fields that compiled code accesses.
pub mod offset {
    use super::{BlockContext as B, Extent, FaultRecord, Request, offset_of};

    macro_rules! offsets {
        ($($name:ident = $type:ty, $($field:ident).+;)*) => {
            $(#[doc = concat!("Bytes from the start of `", stringify!($type), "` to `", stringify!($($field).+), "`.")]
            pub const $name: i32 = offset_of!($type, $($field).+) as i32;)*
        };
    }

    offsets! {
        PARAMS = B, params;
        GLOBALS = B, globals;
        HELPERS = B, helpers;
        ARENA_BASE = B, arena_base;
        LAST_GRANULE = B, last_granule;
        SHADOW = B, shadow;
        EXTENTS = B, extents;
        EXTENT_START = Extent, start;
        EXTENT_PLACES = Extent, places;
        EXTENT_UNITS = Extent, units;
        SHARED = B, shared;
        SHARED_SIZE = B, shared_size;
        SHARED_UNITS = B, shared_units;
        LOCAL = B, local;
        LOCAL_STRIDE = B, local_stride;
        STATES = B, states;
        SLOTS = B, slots;
        PACKED = B, packed;
        REQUESTS = B, requests;
        BLOCK_DIM = B, block_dim;
        GRID_DIM = B, grid_dim;
        BLOCK = B, block;
        THREADS = B, threads;
        WORKER = B, worker;
        WORKERS = B, workers;
        DYNAMIC_SHARED = B, dynamic_shared;
        TOTAL_SHARED = B, total_shared;
        GRID_ID = B, grid_id;
        CLUSTER_DIM = B, cluster_dim;
        CLUSTER_BLOCK = B, cluster_block;
        CLUSTER_BLOCKS = B, cluster_blocks;
        CLUSTER_RANK = B, cluster_rank;
        CHECK_ADDRESS = B, check.address;
        CHECK_ACCESS = B, check.access;
        CHECK_THREAD = B, check.thread;
        UNWIND_STACK = B, unwind_stack;
        TID = B, tid;
        FAULT_KIND = B, fault.kind;
        REQUEST_OPERANDS = Request, operands;
        REQUEST_RESULTS = Request, results;
    }

    /// Size of an [`Extent`] in bytes.
    pub const EXTENT_SIZE: i32 = size_of::<Extent>() as i32;

    /// Size of a [`Request`] in bytes.
    pub const REQUEST_SIZE: i32 = size_of::<Request>() as i32;

    const _: () = assert!(size_of::<FaultRecord>() == 24);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sync_kinds_are_their_numbers() {
        let mut count = 0;
        for number in 0..=u8::MAX {
            if let Some(kind) = SyncKind::from_number(number) {
                assert_eq!(kind as u8, number);
                count += 1;
            }
        }
        assert_eq!(count, SyncKind::ClusterWait as usize + 1);
    }
}
