//! Helpers that access the device: access checks, faults, output, the heap and clocks.
//!
//! Compiled code calls them with the context that the scheduler passed to it. So the context
//! and the data of its launch are valid, and no other reference to the context is in use.

use std::sync::{LazyLock, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::abi::{Access, BlockContext, FaultKind, FaultRecord, LaunchInfo, position};
use crate::heap::Caller;
use crate::memory::{DeviceMemory, GRANULE, GRANULE_SHIFT};
use crate::print::{self, Arguments};
use crate::sanitizer::{BlockSanitizer, Finding, Observed};

/// The context as a reference.
///
/// # Safety
/// See the module. The result must not outlive the call.
pub(super) unsafe fn context<'a>(context: *mut BlockContext) -> &'a mut BlockContext {
    // SAFETY: the caller's contract.
    unsafe { &mut *context }
}

fn launch(context: &BlockContext) -> &LaunchInfo<'_> {
    // SAFETY: a launch sets this pointer, and its data outlives its blocks.
    unsafe { &*context.launch.cast() }
}

/// Records a fault, and returns 1.
pub(super) fn record(
    context: &mut BlockContext,
    kind: FaultKind,
    thread: u32,
    address: u64,
    access: u32,
    line: u32,
) -> u32 {
    context.fault = FaultRecord {
        kind: kind as u32,
        line,
        thread,
        access,
        address,
    };
    1
}

pub(super) extern "C" fn clock() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    // It overflows after 584 years.
    START.elapsed().as_nanos() as u64
}

pub(super) extern "C" fn global_timer() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_nanos() as u64)
}

pub(super) unsafe extern "C" fn grid_workspace(context: *mut BlockContext) -> u64 {
    // SAFETY: see the module.
    launch(unsafe { self::context(context) })
        .workspace
        .address()
}

pub(super) unsafe extern "C" fn check_slow(
    context: *mut BlockContext,
    thread: u32,
    address: u64,
    access: u32,
    line: u32,
) -> u32 {
    // SAFETY: see the module.
    let context = unsafe { self::context(context) };
    let size = u64::from(Access(access).size()).max(1);
    if !address.is_multiple_of(size) {
        return record(
            context,
            FaultKind::Misaligned,
            thread,
            address,
            access,
            line,
        );
    }
    let generic = access & (Access::SHARED | Access::LOCAL | Access::PARAM) == 0;
    if generic
        && (in_parameters(context, address, size, access) || is_accessible(context, address, size))
    {
        return 0;
    }
    record(
        context,
        FaultKind::OutOfBounds,
        thread,
        address,
        access,
        line,
    )
}

/// Whether the kernel's device may access the memory.
fn is_accessible(context: &BlockContext, address: u64, size: u64) -> bool {
    let launch = launch(context);
    launch
        .memory
        .check_from(launch.device, address, size)
        .is_ok()
}

/// The host address of an access in shared memory or at a generic address; `None` after
/// recording a fault. `encoded` is an [`Access`].
///
/// # Safety
/// The context is that of a block that is running, and no other reference to it is in use.
pub(crate) unsafe fn host_address(
    context: *mut BlockContext,
    thread: u32,
    address: u64,
    encoded: u32,
    line: u32,
) -> Option<*mut u8> {
    // SAFETY: the caller's contract.
    let block = unsafe { self::context(context) };
    let size = u64::from(Access(encoded).size());
    let host = match encoded & Access::SHARED {
        0 => address,
        _ => block.shared.wrapping_add(address),
    };
    if !passes_inline_check(block, address, size, encoded) {
        // SAFETY: the caller's contract.
        let invalid = unsafe { check_slow(context, thread, address, encoded, line) };
        if invalid != 0 {
            return None;
        }
    }
    // SAFETY: the caller's contract.
    if encoded & Access::WRITE != 0
        && let Some(mut sanitizer) = unsafe { sanitizer(context) }
    {
        sanitizer.wrote(host, Access(encoded).size());
    }
    Some(host as *mut u8)
}

/// The sanitizer of the block, where there is one.
///
/// # Safety
/// The context is that of a block that is running.
pub(crate) unsafe fn sanitizer<'a>(
    context: *const BlockContext,
) -> Option<MutexGuard<'a, BlockSanitizer>> {
    // SAFETY: the caller's contract; a block has its sanitizer as long as it runs.
    let sanitizer = unsafe { (*context).sanitizer.as_ref() }?;
    Some(sanitizer.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Tells the sanitizer of a fence, or of what acquires or releases.
pub(super) fn synchronize(context: &BlockContext, thread: u32) {
    // SAFETY: the context is that of the caller's block.
    let block = unsafe { sanitizer(context) };
    if let (Some(mut block), Some(grid)) = (block, &launch(context).sanitizer) {
        block.fence(grid, thread);
    }
}

pub(super) unsafe extern "C" fn observe(
    context: *mut BlockContext,
    thread: u32,
    address: u64,
    encoded: u64,
) -> u32 {
    // SAFETY: see the module.
    let context = unsafe { self::context(context) };
    let [access, line] = [encoded as u32 & 0xFFFF, (encoded >> 32) as u32];
    let is = |bits| access & bits != 0;
    let observed = Observed {
        thread,
        address,
        size: Access(access).size(),
        line,
        reads: is(Access::ATOMIC) || !is(Access::WRITE),
        writes: is(Access::WRITE),
        strong: is(Access::ATOMIC | Access::SYNC),
        synchronizes: is(Access::SYNC),
    };
    if observed.size == 0 {
        synchronize(context, thread);
        return 0;
    }
    // SAFETY: the words that it asks for are those of an access that was checked, in whole
    // pages of the arena. The read is volatile because another thread may write them.
    let word = |at: u64| unsafe { (at as *const u32).read_volatile() };
    // SAFETY: see the module.
    let block = unsafe { sanitizer(context) };
    let found = match (block, &launch(context).sanitizer) {
        (Some(mut block), Some(grid)) => block.observe(grid, observed, word),
        _ => None,
    };
    let Some(found) = found else { return 0 };
    let kind = match found {
        Finding::Uninitialised => FaultKind::Uninitialised,
        Finding::Race(..) => FaultKind::Race,
    };
    record(context, kind, thread, address, access, line)
}

/// Whether the access is a read of parameters at a generic address (`cvta.param`).
fn in_parameters(context: &BlockContext, address: u64, size: u64, access: u32) -> bool {
    let bytes = launch(context).param_bytes;
    let offset = address.wrapping_sub(context.params as u64);
    access & (Access::WRITE | Access::ATOMIC) == 0 && offset < bytes && size <= bytes - offset
}

/// Whether a kernel may read a number of bytes at a generic address.
pub(super) fn may_read(context: &BlockContext, address: u64, size: u32) -> bool {
    let size = u64::from(size);
    passes_inline_check(context, address, size, 0)
        || launch(context).memory.check(address, size).is_ok()
}

/// Whether an access of shared or device memory is valid: the check that compiled code
/// makes, which does not cover registered host memory.
fn passes_inline_check(context: &BlockContext, address: u64, size: u64, access: u32) -> bool {
    if !address.is_multiple_of(size.max(1)) || access & (Access::LOCAL | Access::PARAM) != 0 {
        return false;
    }
    if access & Access::SHARED != 0 {
        return address
            .checked_add(size)
            .is_some_and(|end| end <= context.shared_size);
    }
    let inside = address.wrapping_sub(context.arena_base);
    if inside >= context.arena_size {
        return false;
    }
    // SAFETY: the shadow has a number for each granule of the arena.
    let valid = unsafe { *context.shadow.add((inside >> GRANULE_SHIFT) as usize) };
    inside % GRANULE + size <= u64::from(valid)
}

pub(super) unsafe extern "C" fn check_contiguous(
    context: *mut BlockContext,
    thread: u32,
    address: u64,
    encoded: u64,
) -> u32 {
    let [access, line] = [encoded as u32 & 0xFFFF, (encoded >> 32) as u32];
    let count = (encoded >> 16) as u32 & 0xFFFF;
    let size = u64::from(Access(access).size());
    for lane in 0..count {
        let address = address.wrapping_add(u64::from(lane) * size);
        // SAFETY: see the module.
        if passes_inline_check(unsafe { self::context(context) }, address, size, access) {
            continue;
        }
        // SAFETY: the caller's contract.
        let bad = unsafe { check_slow(context, thread + lane, address, access, line) };
        if bad != 0 {
            return bad;
        }
    }
    0
}

pub(super) unsafe extern "C" fn fault(
    context: *mut BlockContext,
    kind: u32,
    thread: u32,
    address: u64,
    access: u32,
    line: u32,
) -> u32 {
    // SAFETY: see the module.
    let context = unsafe { self::context(context) };
    let kind = FaultKind::from_number(kind).unwrap_or(FaultKind::Trap);
    record(context, kind, thread, address, access, line)
}

pub(super) unsafe extern "C" fn vprintf(
    context: *mut BlockContext,
    format: u64,
    arguments: u64,
) -> i32 {
    // SAFETY: see the module.
    let launch = launch(unsafe { self::context(context) });
    if format == 0 {
        return -1;
    }
    let Some(format) = string(launch.memory, format) else {
        return -2;
    };
    let mut arguments = InMemory {
        memory: launch.memory,
        at: arguments,
    };
    let (text, taken) = print::format(&format, &mut arguments);
    launch.output.print(text);
    taken
}

pub(super) unsafe extern "C" fn assertfail(
    context: *mut BlockContext,
    thread: u32,
    ptx_line: u32,
    message: u64,
    file: u64,
    line: u32,
    function: u64,
) -> u32 {
    // SAFETY: see the module.
    let context = unsafe { self::context(context) };
    let launch = launch(context);
    let text = |address| {
        let bytes = string(launch.memory, address).unwrap_or_else(|| b"?".to_vec());
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let [block_x, block_y, block_z] = context.block;
    let [thread_x, thread_y, thread_z] = position(u64::from(thread), context.block_dim);
    let text = format!(
        "{}:{line}: {}: block: [{block_x},{block_y},{block_z}], thread: [{thread_x},{thread_y},{thread_z}] \
         Assertion `{}` failed.\n",
        text(file),
        text(function),
        text(message),
    );
    launch.output.fail(text.as_bytes());
    record(context, FaultKind::Assert, thread, 0, 0, ptx_line)
}

pub(super) unsafe extern "C" fn malloc(
    context: *mut BlockContext,
    thread: u32,
    line: u32,
    bytes: u64,
) -> u64 {
    // SAFETY: see the module.
    let context = unsafe { self::context(context) };
    let caller = caller(context, thread, line);
    launch(context).heap.allocate(bytes, caller)
}

fn caller(context: &BlockContext, thread: u32, line: u32) -> Caller {
    let launch = launch(context);
    Caller {
        kernel: launch.kernel.into(),
        block: context.block,
        thread: position(u64::from(thread), context.block_dim),
        line: launch.lines.and_then(|lines| lines(line)).unwrap_or(line),
    }
}

pub(super) unsafe extern "C" fn free(
    context: *mut BlockContext,
    thread: u32,
    line: u32,
    address: u64,
) -> u32 {
    // SAFETY: see the module.
    let context = unsafe { self::context(context) };
    let caller = caller(context, thread, line);
    match launch(context).heap.free(address, caller) {
        Ok(()) => 0,
        Err(_) => record(context, FaultKind::BadFree, thread, address, 0, line),
    }
}

/// The arguments of `vprintf`, which are in device memory.
struct InMemory<'a> {
    memory: &'a DeviceMemory,
    at: u64,
}

impl Arguments for InMemory<'_> {
    fn next(&mut self, size: u64) -> Option<u64> {
        let at = self.at.checked_next_multiple_of(size)?;
        self.memory.check(at, size).ok()?;
        self.at = at + size;
        Some((0..size).rev().fold(0, |value, i| {
            // SAFETY: the check above covers all `size` bytes. The read is volatile because
            // another thread may write them.
            value << 8 | u64::from(unsafe { ((at + i) as *const u8).read_volatile() })
        }))
    }

    fn string(&self, address: u64) -> Option<Vec<u8>> {
        string(self.memory, address)
    }
}

/// The bytes up to the first 0, or to the end of the allocation.
fn string(memory: &DeviceMemory, address: u64) -> Option<Vec<u8>> {
    let (start, size) = match memory.range_of(address) {
        Some(allocation) => (allocation.start, allocation.size),
        None => memory.registered(address)?,
    };
    let bytes = (address..start + size).map(|at| {
        // SAFETY: the address is in the allocation. The read is volatile as above.
        unsafe { (at as *const u8).read_volatile() }
    });
    Some(bytes.take_while(|&byte| byte != 0).collect())
}
