//! Accesses to memory by a block that is running: their checks, host addresses and faults.
//!
//! Compiled code calls what is here with the context that the scheduler passed to it. So the
//! context and the data of its launch are valid, and no other reference to the context is in use.

use std::sync::{MutexGuard, PoisonError};

use crate::abi::{Access, BlockContext, FaultKind, FaultRecord, LaunchInfo};
use crate::memory::{GRANULE, GRANULE_SHIFT};
use crate::read_past;
use crate::sanitizer::BlockSanitizer;
use crate::tensor_memory::TensorFault;

/// The context as a reference, which lives no longer than the caller's pointer: a parameter of
/// the call.
///
/// # Safety
/// See the module. No other reference to the context is in use.
#[allow(
    clippy::mut_from_ref,
    reason = "the pointer is borrowed, not the context"
)]
pub(crate) unsafe fn context(context: &*mut BlockContext) -> &mut BlockContext {
    // SAFETY: the caller's contract.
    unsafe { &mut **context }
}

pub(crate) fn launch(context: &BlockContext) -> &LaunchInfo<'_> {
    // SAFETY: a launch sets this pointer, and its data outlives its blocks.
    unsafe { &*context.launch.cast() }
}

/// Records a fault, and returns 1.
pub(crate) fn record(
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

pub(crate) unsafe fn check_slow(
    context: *mut BlockContext,
    thread: u32,
    address: u64,
    access: u32,
    line: u32,
) -> u32 {
    // SAFETY: see the module.
    let context = unsafe { self::context(&context) };
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
    let reads = access & (Access::WRITE | Access::ATOMIC) == 0;
    if generic && reads && read_past::goes_on(launch(context), address, size, line) {
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
#[inline]
pub(crate) unsafe fn host_address(
    context: *mut BlockContext,
    thread: u32,
    address: u64,
    encoded: u32,
    line: u32,
) -> Option<*mut u8> {
    // SAFETY: the caller's contract.
    let block = unsafe { self::context(&context) };
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
    if encoded & Access::WRITE != 0
        // SAFETY: the caller's contract.
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
pub(crate) fn synchronize(context: &BlockContext, thread: u32) {
    // SAFETY: the context is that of the caller's block.
    let block = unsafe { sanitizer(context) };
    if let (Some(mut block), Some(grid)) = (block, &launch(context).sanitizer) {
        block.fence(grid, thread);
    }
}

/// Whether the access is a read of parameters at a generic address (`cvta.param`).
fn in_parameters(context: &BlockContext, address: u64, size: u64, access: u32) -> bool {
    let bytes = launch(context).param_bytes;
    let offset = address.wrapping_sub(context.params as u64);
    access & (Access::WRITE | Access::ATOMIC) == 0 && offset < bytes && size <= bytes - offset
}

/// Whether a kernel may read a number of bytes at a generic address.
pub(crate) fn may_read(context: &BlockContext, address: u64, size: u32) -> bool {
    let size = u64::from(size);
    passes_inline_check(context, address, size, 0)
        || launch(context).memory.check(address, size).is_ok()
}

/// Whether an access of shared or device memory is valid: the check that compiled code
/// makes, which does not cover registered host memory.
#[inline(always)]
pub(crate) fn passes_inline_check(
    context: &BlockContext,
    address: u64,
    size: u64,
    access: u32,
) -> bool {
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

/// Records a fault of an instruction on tensor memory.
///
/// # Safety
/// That of [`context`].
pub(crate) unsafe fn record_tensor_fault(
    context: *mut BlockContext,
    thread: u32,
    fault: TensorFault,
    line: u32,
) {
    // SAFETY: the caller's contract.
    let context = unsafe { self::context(&context) };
    let kind = FaultKind::TensorMemory;
    record(context, kind, thread, fault.number(), 0, line);
}
