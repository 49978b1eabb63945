//! Faults: why a launch failed, with a message for the user.

use std::fmt::Write as _;

use super::launch::Kernel;
use crate::abi::{Access, BlockContext, FaultKind, FaultRecord};
use crate::memory::DeviceMemory;
use crate::program::STACK_BYTES;
use crate::sanitizer::Finding;

/// Why a launch failed, and where.
///
/// The message has the form `kernel vecadd, block (3,0,0), thread (17,0,0):
/// out-of-bounds read of 4 bytes at 0x7f…, 4 bytes past the end of the 1024-byte
/// allocation at 0x…; PTX line 27`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// What happened.
    pub kind: FaultKind,
    /// The kernel's name.
    pub kernel: String,
    /// `%ctaid` of the block.
    pub block: [u32; 3],
    /// `%tid` of the thread.
    pub thread: [u32; 3],
    /// The address of the access, in its state space.
    pub address: Option<u64>,
    /// The line in the PTX, 1-based, where known.
    pub line: Option<u32>,
    /// The whole message.
    pub message: String,
}

impl Fault {
    /// The fault in a block's context. `detail` replaces the description of its kind; `found`
    /// is what a sanitizer says of it.
    pub(super) fn of(
        kernel: &Kernel<'_>,
        context: &BlockContext,
        memory: &DeviceMemory,
        device: usize,
        detail: Option<String>,
        found: Option<Finding>,
    ) -> Fault {
        let name = kernel.name;
        let record = context.fault;
        // Compiled code records only kinds of this enum: any other number means that the
        // code is damaged.
        let kind = FaultKind::from_number(record.kind).unwrap_or(FaultKind::IllegalInstruction);
        let thread = position(u64::from(record.thread), context.block_dim);
        let is_access = matches!(
            kind,
            FaultKind::OutOfBounds
                | FaultKind::Misaligned
                | FaultKind::BadFree
                | FaultKind::BadCall
                | FaultKind::Race
                | FaultKind::Uninitialised
        );
        let line = (record.line != 0).then(|| kernel.code.lines.original(record.line));
        let mut what = detail.unwrap_or_else(|| describe(kind, record, context, memory, device));
        if let (FaultKind::Race, Some(Finding::Race(earlier, wrote))) = (kind, found) {
            let verb = if wrote { "write" } else { "read" };
            let thread = triple(position(u64::from(earlier.thread), context.block_dim));
            let line = kernel.code.lines.original(earlier.line);
            let block = match position(earlier.block, context.grid_dim) {
                block if block == context.block => String::new(),
                block => format!("block {}, ", triple(block)),
            };
            let _ = write!(
                what,
                " races with the {verb} by {block}thread {thread} at PTX line {line}"
            );
        }
        let mut message = format!(
            "kernel {name}, block {}, thread {}: {what}",
            triple(context.block),
            triple(thread)
        );
        if let Some(line) = line {
            // Writing to a string cannot fail.
            let _ = write!(message, "; PTX line {line}");
        }
        Fault {
            kind,
            kernel: name.to_owned(),
            block: context.block,
            thread,
            address: is_access.then_some(record.address),
            line,
            message,
        }
    }
}

/// The coordinates of a thread or block with this linear index.
fn position(index: u64, [x, y, _]: [u32; 3]) -> [u32; 3] {
    let [x, y] = [x, y].map(|n| u64::from(n.max(1)));
    // Each is less than a dimension, which has 32 bits.
    [index % x, index / x % y, index / x / y].map(|n| n as u32)
}

fn triple([x, y, z]: [u32; 3]) -> String {
    format!("({x},{y},{z})")
}

fn describe(
    kind: FaultKind,
    record: FaultRecord,
    context: &BlockContext,
    memory: &DeviceMemory,
    device: usize,
) -> String {
    let access = Access(record.access);
    let size = access.size();
    let bytes = if size == 1 {
        "1 byte".to_owned()
    } else {
        format!("{size} bytes")
    };
    let verb = match record.access {
        a if a & Access::ATOMIC != 0 => "atomic access to",
        a if a & Access::WRITE != 0 => "write of",
        _ => "read of",
    };
    match kind {
        FaultKind::OutOfBounds => {
            let place = match record.access {
                a if a & Access::SHARED != 0 => {
                    format!(
                        "shared address {:#x}, the block has {} bytes",
                        record.address, context.shared_size
                    )
                }
                a if a & Access::LOCAL != 0 => {
                    format!(
                        "local address {:#x}, the thread has {} bytes",
                        record.address, context.local_stride
                    )
                }
                a if a & Access::PARAM != 0 => format!("parameter address {:#x}", record.address),
                _ => {
                    let place = memory.describe_to(device, record.address);
                    format!("{:#x}, {place}", record.address)
                }
            };
            format!("out-of-bounds {verb} {bytes} at {place}")
        }
        FaultKind::Misaligned => {
            format!(
                "misaligned {verb} {bytes} at {:#x}, which is not a multiple of {size}",
                record.address
            )
        }
        FaultKind::Race => format!("{verb} {bytes} at {:#x}", record.address),
        FaultKind::Uninitialised => {
            format!(
                "{verb} {bytes} at {:#x} that nothing has written",
                record.address
            )
        }
        FaultKind::Trap => "the kernel executed trap".into(),
        FaultKind::Assert => "an assertion failed".into(),
        FaultKind::Deadlock => "threads wait for each other".into(),
        FaultKind::IllegalInstruction => "an invalid operand".into(),
        FaultKind::BadFree => {
            format!(
                "free of {:#x}, which malloc did not return ({})",
                record.address,
                memory.describe(record.address)
            )
        }
        FaultKind::OutOfMemory => "no memory for the block".into(),
        FaultKind::BadTexture => format!(
            "{:#x} is not a texture or surface that the instruction can access; in one dimension, linear memory needs .s32 coordinates and an array .f32",
            record.address
        ),
        FaultKind::BadCall => format!(
            "call of {:#x}, which is not the address of a function of the module with the \
             call's signature",
            record.address
        ),
        FaultKind::Stack => format!(
            "calls are nested too deeply, or a frame was overwritten: the stack of a thread has \
             {STACK_BYTES} bytes"
        ),
        FaultKind::OutsideSurface => {
            format!("access out of bounds of the surface {:#x}", record.address)
        }
    }
}
