//! What compiled code and the scheduler share: one block of threads as it runs.
//!
//! A kernel compiles to one function of the type [`KernelFn`]. It runs the
//! threads `first..last` of the block that its [`BlockContext`] describes, each
//! until it exits, faults or reaches a sync point, and never keeps anything of a
//! thread on the host's stack from one call to the next. What a thread needs
//! after a sync point lies in these arrays, all owned by the scheduler:
//!
//! - `states[t]`: where thread `t` goes on: 0 at the entry, `i + 1` behind sync
//!   point `i`, [`EXITED`] for ever. Stateless kernels never touch it.
//! - `slots`: the registers that live across sync points. Slot `r` of thread `t`
//!   is the 8 bytes at `slots + r * slot_stride + t * 8`; a 16-byte register
//!   takes two slots. Neighbouring threads are neighbours in memory, so several
//!   lanes load a slot at once. `slot_stride` is 8 times the block's threads,
//!   rounded up to whole warps; bytes never written are undefined.
//! - `requests[t]`: the operands of the sync point where thread `t` waits, and
//!   the results that it finds when it goes on (see [`SyncKind`]).

use std::mem::offset_of;

/// A compiled kernel: runs the threads `first..last` of the block, and returns
/// 0, or anything else as soon as `BlockContext::fault` holds a fault.
pub type KernelFn = unsafe extern "C" fn(context: *mut BlockContext, first: u32, last: u32) -> u32;

/// The state of a thread that has left the kernel.
pub const EXITED: u32 = u32::MAX;

/// Threads in a warp: consecutive by their linear index in the block.
pub const WARP: u32 = 32;

/// Global memory is checked in granules of this many bytes (a power of two).
pub const GRANULE: u64 = 256;

/// log2 of [`GRANULE`].
pub const GRANULE_SHIFT: u32 = 8;

/// One block as compiled code sees it. The addresses are the host's own.
#[repr(C)]
pub struct BlockContext {
    /// The kernel's parameters, laid out as the kernel declares them.
    pub params: *const u8,
    /// Address of each module variable, by its index in the blob.
    pub globals: *const u64,
    /// The functions of [`crate::math::Helper`], by their number.
    pub helpers: *const usize,

    /// First address of the arena, which holds all device memory.
    pub arena_base: u64,
    /// Bytes that the arena spans.
    pub arena_size: u64,
    /// Number of the arena's last granule, in which nothing may be accessed.
    pub last_granule: u64,
    /// For each granule of the arena, how many of its bytes (0 to 256), counted
    /// from its start, may be accessed.
    pub shadow: *const u16,

    /// Address of the block's shared memory: offset 0 of the shared space. The
    /// dynamic part begins behind the static part, aligned to 16 bytes.
    pub shared: u64,
    /// Bytes of shared memory, static and dynamic.
    pub shared_size: u64,
    /// Address of the local frame of thread 0: offset 0 of its local space.
    pub local: u64,
    /// Bytes from one thread's local frame to the next one's.
    pub local_stride: u64,

    /// See the description of the module.
    pub states: *mut u32,
    /// See the description of the module.
    pub slots: *mut u8,
    /// Bytes from slot `r` of a thread to its slot `r + 1`.
    pub slot_stride: u64,
    /// See the description of the module.
    pub requests: *mut Request,

    /// `%ntid`.
    pub block_dim: [u32; 3],
    /// `%nctaid`.
    pub grid_dim: [u32; 3],
    /// `%ctaid`.
    pub block: [u32; 3],
    /// Threads of the block: the product of `block_dim`.
    pub threads: u32,
    /// `%smid`: the number of the worker.
    pub worker: u32,
    /// `%nsmid`: how many workers there are.
    pub workers: u32,
    /// `%dynamic_smem_size`.
    pub dynamic_shared: u32,
    /// `%total_smem_size`, like `shared_size`.
    pub total_shared: u32,
    /// `%gridid`: the number of the launch.
    pub grid_id: u64,

    /// The first fault of the block.
    pub fault: FaultRecord,

    /// Address of the kernel's scalar function: where lanes that go different
    /// ways go on.
    pub scalar: usize,

    /// What the helpers need of the device; compiled code leaves it alone.
    pub(crate) services: *const crate::run::Services,
}

/// What a thread asks for at a sync point, and what it gets.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The operands, each zero-extended, in the order [`SyncKind`] says.
    pub operands: [u64; 4],
    /// The results, each zero-extended; a predicate is 0 or 1.
    pub results: [u64; 2],
}

/// A fault as compiled code records it: `kind` is 0 while there is none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultRecord {
    /// A [`FaultKind`] as a number, 0 for none.
    pub kind: u32,
    /// The line in the PTX, 1-based, 0 where unknown.
    pub line: u32,
    /// The thread's linear index in its block.
    pub thread: u32,
    /// Of an access: its [`Access`] bits, else 0.
    pub access: u32,
    /// Of an access: the address in the space that `access` names.
    pub address: u64,
}

/// Why a kernel was stopped.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// An address outside any allocation (`CUDA_ERROR_ILLEGAL_ADDRESS`).
    OutOfBounds = 1,
    /// An address that is no multiple of the access's size
    /// (`CUDA_ERROR_MISALIGNED_ADDRESS`).
    Misaligned = 2,
    /// The instruction `trap` (`CUDA_ERROR_LAUNCH_FAILED`).
    Trap = 3,
    /// A failed `assert` (`CUDA_ERROR_ASSERT`).
    Assert = 4,
    /// Threads wait for each other and none can go on
    /// (`CUDA_ERROR_LAUNCH_FAILED`).
    Deadlock = 5,
    /// An operand that the instruction does not allow, as a barrier above 15
    /// (`CUDA_ERROR_ILLEGAL_INSTRUCTION`).
    IllegalInstruction = 6,
    /// `free` of what `malloc` did not return (`CUDA_ERROR_LAUNCH_FAILED`).
    BadFree = 7,
    /// The host has no memory left for the block's own state
    /// (`CUDA_ERROR_OUT_OF_MEMORY`).
    OutOfMemory = 8,
    /// No texture or surface has the handle, or its geometry is another
    /// (`CUDA_ERROR_ILLEGAL_ADDRESS`).
    BadTexture = 9,
    /// A `.trap` access outside of a surface (`CUDA_ERROR_ILLEGAL_ADDRESS`).
    OutsideSurface = 10,
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
        ]
        .into_iter()
        .find(|&kind| kind as u32 == number)
    }
}

/// What kind of access faulted, as compiled code hands it to `check_slow` and
/// `fault`: the size in bytes plus the bits below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(pub u32);

impl Access {
    /// It wrote (else it read).
    pub const WRITE: u32 = 1 << 8;
    /// It was an atomic operation.
    pub const ATOMIC: u32 = 1 << 9;
    /// The address is an offset in shared memory (else a generic address).
    pub const SHARED: u32 = 1 << 10;
    /// The address is an offset in the thread's local memory.
    pub const LOCAL: u32 = 1 << 11;
    /// The address is an offset in the kernel's parameters.
    pub const PARAM: u32 = 1 << 12;

    /// Bytes accessed.
    pub fn size(self) -> u32 {
        self.0 & 0xff
    }
}

/// What the threads at a sync point wait for.
///
/// `operands` and `results` are those of [`Request`]. Masks are member masks of
/// lanes; a mask need not name lanes that have exited. A mask of 0 stands for the
/// lanes that come together, as for the instructions without `.sync`.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyncKind {
    /// `bar.sync`, `barrier.sync`: operands barrier, threads (0: all).
    Barrier = 0,
    /// `bar.arrive`: operands barrier, threads. Goes on at once.
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
    /// `nanosleep`, and the back edge of a loop that waits for other threads:
    /// goes on once the others had their turn.
    Yield = 28,
}

impl SyncKind {
    /// The kind with this number.
    pub fn from_number(number: u8) -> Option<SyncKind> {
        use SyncKind::*;
        const ALL: [SyncKind; 29] = [
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
        ];
        ALL.get(usize::from(number)).copied()
    }
}

/// One sync point of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncPoint {
    /// What its threads wait for.
    pub kind: SyncKind,
    /// Its line in the PTX, 1-based.
    pub line: u32,
    /// The barrier and the number of threads, where [`SyncKind::Barrier`] and
    /// [`SyncKind::BarrierArrive`] have constants: their threads leave no operands.
    pub barrier: Option<[u32; 2]>,
}

/// Where compiled code finds each field of [`BlockContext`].
pub mod offset {
    use super::{BlockContext as B, FaultRecord, Request, offset_of};

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
        SHARED = B, shared;
        SHARED_SIZE = B, shared_size;
        LOCAL = B, local;
        LOCAL_STRIDE = B, local_stride;
        STATES = B, states;
        SLOTS = B, slots;
        SLOT_STRIDE = B, slot_stride;
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
        SCALAR = B, scalar;
        FAULT_KIND = B, fault.kind;
        REQUEST_OPERANDS = Request, operands;
        REQUEST_RESULTS = Request, results;
    }

    /// Bytes from one thread's [`Request`] to the next one's.
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
        assert_eq!(count, SyncKind::Yield as usize + 1);
    }
}
