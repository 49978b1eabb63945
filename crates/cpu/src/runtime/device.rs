//! Helpers that access the device: faults, output, the heap and clocks.
//!
//! Compiled code calls them with the context that the scheduler passed to it. So the context
//! and the data of its launch are valid, and no other reference to the context is in use.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::abi::{Access, BlockContext, FaultKind, position};
use crate::access::{self, check_slow, launch, record, sanitizer, synchronize};
use crate::heap::Caller;
use crate::memory::DeviceMemory;
use crate::print::{self, Arguments};
use crate::sanitizer::{Finding, Observed};

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
    launch(unsafe { access::context(&context) })
        .workspace
        .address()
}

pub(super) unsafe extern "C" fn observe(
    context: *mut BlockContext,
    thread: u32,
    address: u64,
    encoded: u64,
) -> u32 {
    // SAFETY: see the module.
    let context = unsafe { access::context(&context) };
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
    // pages of the arena. The read is atomic because another thread may write them.
    let word = |at: u64| unsafe { AtomicU32::from_ptr(at as *mut u32).load(Relaxed) };
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

pub(super) unsafe extern "C" fn check_access(
    context: *mut BlockContext,
    thread: u32,
    address: u64,
    encoded: u64,
) -> u32 {
    let [access, line] = [encoded as u32, (encoded >> 32) as u32];
    // SAFETY: the caller's contract.
    unsafe { check_slow(context, thread, address, access, line) }
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
    let context = unsafe { access::context(&context) };
    let kind = FaultKind::from_number(kind).unwrap_or(FaultKind::Trap);
    record(context, kind, thread, address, access, line)
}

pub(super) unsafe extern "C" fn vprintf(
    context: *mut BlockContext,
    format: u64,
    arguments: u64,
) -> i32 {
    // SAFETY: see the module.
    let launch = launch(unsafe { access::context(&context) });
    if format == 0 {
        return -1;
    }
    let limit = usize::try_from(launch.output.limit()).unwrap_or(usize::MAX);
    // A format may be longer than its text.
    let longest = limit.max(print::DEFAULT_LIMIT as usize);
    let Some(format) = string(launch.memory, format, longest) else {
        return -2;
    };
    let mut arguments = InMemory {
        memory: launch.memory,
        at: arguments,
    };
    let (text, taken) = print::format(&format, &mut arguments, limit);
    if let Some(text) = text {
        launch.output.print(&text);
    }
    taken
}

/// The longest name or condition in the message of a failed assertion, in bytes.
const LONGEST_NAME: usize = 1 << 14;

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
    let context = unsafe { access::context(&context) };
    let launch = launch(context);
    let text = |address| {
        let bytes = string(launch.memory, address, LONGEST_NAME);
        let bytes = bytes.unwrap_or_else(|| b"?".to_vec());
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
    let context = unsafe { access::context(&context) };
    let caller = caller(context, thread, line);
    launch(context).heap.allocate(bytes, caller)
}

fn caller(context: &BlockContext, thread: u32, line: u32) -> Caller {
    let launch = launch(context);
    let line = launch.lines.line(line);
    Caller {
        kernel: launch.kernel.into(),
        block: context.block,
        thread: position(u64::from(thread), context.block_dim),
        line: line.ptx,
        source_line: line.source,
    }
}

pub(super) unsafe extern "C" fn free(
    context: *mut BlockContext,
    thread: u32,
    line: u32,
    address: u64,
) -> u32 {
    // SAFETY: see the module.
    let context = unsafe { access::context(&context) };
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
            // SAFETY: the check above covers all `size` bytes.
            value << 8 | u64::from(unsafe { read_byte(at + i) })
        }))
    }

    fn string(&self, address: u64, most: usize) -> Option<Vec<u8>> {
        string(self.memory, address, most)
    }
}

/// The bytes up to the first 0 or to the end of the allocation, and at most `most`.
fn string(memory: &DeviceMemory, address: u64, most: usize) -> Option<Vec<u8>> {
    let (start, size) = match memory.range_of(address) {
        Some(allocation) => (allocation.start, allocation.size),
        None => memory.registered(address)?,
    };
    let bytes = (address..start + size).map(|at| {
        // SAFETY: the address is in the allocation.
        unsafe { read_byte(at) }
    });
    Some(bytes.take(most).take_while(|&byte| byte != 0).collect())
}

/// Reads a byte of device memory, which another thread may write.
///
/// # Safety
/// The byte can be read.
unsafe fn read_byte(address: u64) -> u8 {
    // SAFETY: the caller's contract; atomic accesses may race.
    unsafe { AtomicU8::from_ptr(address as *mut u8).load(Relaxed) }
}
