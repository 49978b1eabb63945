//! Faults: why a launch failed, with a message for the user.

use std::fmt::Write as _;

use super::launch::Kernel;
use crate::abi::{Access, BlockContext, FaultKind, FaultRecord, LaunchInfo, position};
use crate::heap::Caller;
use crate::lines::Line;
use crate::program::STACK_BYTES;
use crate::sanitizer::Finding;
use crate::tensor_map::CopyFault;
use crate::tensor_memory::TensorFault;
use ptx::line_table::SourceLine;

/// Why a launch failed, and where.
///
/// The message has the form `kernel vecadd, block (3,0,0), thread (17,0,0):
/// out-of-bounds read of 4 bytes at 0x7f…, 4 bytes past the end of the 1024-byte
/// allocation at 0x…; PTX line 27`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
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
    /// What that was compiled from, by `.loc`.
    pub source_line: Option<SourceLine>,
    /// The access, if the fault is one.
    pub access: Option<FaultAccess>,
    /// The access that it races with.
    pub other: Option<RacingAccess>,
    /// The allocation of device memory that the address lies in or next to.
    pub allocation: Option<FaultAllocation>,
    /// What happened, without the kernel, the thread and the line.
    pub what: String,
    /// The whole message.
    pub message: String,
}

/// The access of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FaultAccess {
    /// Its bytes.
    pub size: u32,
    /// It writes, and reads too if it is atomic.
    pub writes: bool,
    /// It is an atomic operation.
    pub atomic: bool,
    /// The offset in shared memory, if that is where it goes.
    pub shared: Option<u64>,
}

/// The earlier access of a race.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RacingAccess {
    /// `%ctaid` of its block.
    pub block: [u32; 3],
    /// `%tid` of its thread.
    pub thread: [u32; 3],
    /// Its line in the PTX.
    pub line: u32,
    /// What that was compiled from, by `.loc`.
    pub source_line: Option<SourceLine>,
    /// It wrote.
    pub writes: bool,
}

/// An allocation, and who made it if that was a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FaultAllocation {
    /// Its first address.
    pub start: u64,
    /// Its bytes.
    pub size: u64,
    /// It is no more.
    pub freed: bool,
    /// The call of `malloc` that made it.
    pub allocated_by: Option<Caller>,
    /// The call of `free` that ended it.
    pub freed_by: Option<Caller>,
}

impl Fault {
    /// One that is no access, and of no known line.
    pub(super) fn plain(kind: FaultKind, kernel: &str, block: [u32; 3], what: String) -> Fault {
        Fault {
            kind,
            kernel: kernel.to_owned(),
            block,
            thread: [0; 3],
            address: None,
            line: None,
            source_line: None,
            access: None,
            other: None,
            allocation: None,
            message: format!("kernel {kernel}: {what}"),
            what,
        }
    }

    /// The fault in a block's context. `detail` replaces the description of its kind; `found`
    /// is what a sanitizer says of it.
    pub(super) fn of(
        kernel: &Kernel<'_>,
        context: &BlockContext,
        launch: &LaunchInfo<'_>,
        detail: Option<String>,
        found: Option<Finding>,
    ) -> Fault {
        let record = context.fault;
        // Compiled code records only kinds of this enum: any other number means that the
        // code is damaged.
        let kind = FaultKind::from_number(record.kind).unwrap_or(FaultKind::IllegalInstruction);
        let thread = position(u64::from(record.thread), context.block_dim);
        let is_access = matches!(
            kind,
            FaultKind::OutOfBounds
                | FaultKind::Misaligned
                | FaultKind::Race
                | FaultKind::Uninitialised
        );
        let has_address = is_access || matches!(kind, FaultKind::BadFree | FaultKind::BadCall);
        let lines = kernel.code.lines;
        let line = (record.line != 0).then(|| lines.line(record.line));
        let place = place(record, context);
        let allocation = match place {
            Place::Device if is_access || kind == FaultKind::BadFree => {
                allocation(launch, record.address)
            }
            _ => None,
        };
        let other = match (kind, found) {
            (FaultKind::Race, Some(Finding::Race(earlier, writes))) => {
                let Line { ptx, source } = lines.line(earlier.line);
                Some(RacingAccess {
                    block: position(earlier.block, context.grid_dim),
                    thread: position(u64::from(earlier.thread), context.block_dim),
                    line: ptx,
                    source_line: source,
                    writes,
                })
            }
            _ => None,
        };
        let access = Access(record.access);
        let mut what = detail.unwrap_or_else(|| describe(kind, record, place, context, launch));
        // Writing to a string cannot fail.
        if let Some(other) = &other {
            let _ = write!(what, " races with the {}", other.describe(context.block));
        }
        let name = kernel.name;
        let mut message = format!(
            "kernel {name}, block {}, thread {}: {what}",
            triple(context.block),
            triple(thread)
        );
        if let Some(allocation) = &allocation {
            if let Some(caller) = &allocation.allocated_by {
                let _ = write!(message, "; allocated by {caller}");
            }
            if let Some(caller) = &allocation.freed_by {
                let _ = write!(message, "; freed by {caller}");
            }
        }
        if let Some(line) = &line {
            let _ = write!(message, "; PTX line {line}");
        }
        let (line, source_line) = match line {
            Some(line) => (Some(line.ptx), line.source),
            None => (None, None),
        };
        Fault {
            kind,
            kernel: name.to_owned(),
            block: context.block,
            thread,
            address: has_address.then_some(record.address),
            line,
            source_line,
            access: is_access.then_some(FaultAccess {
                size: access.size(),
                writes: record.access & (Access::WRITE | Access::ATOMIC) != 0,
                atomic: record.access & Access::ATOMIC != 0,
                shared: match place {
                    Place::Shared(offset) => Some(offset),
                    _ => None,
                },
            }),
            other,
            allocation,
            what,
            message,
        }
    }
}

impl RacingAccess {
    /// `write by thread (1,0,0) at PTX line 7`, with the block if that is another one.
    fn describe(&self, block: [u32; 3]) -> String {
        let verb = if self.writes { "write" } else { "read" };
        let block = if self.block == block {
            String::new()
        } else {
            format!("block {}, ", triple(self.block))
        };
        let line = Line {
            ptx: self.line,
            source: self.source_line.clone(),
        };
        let thread = triple(self.thread);
        format!("{verb} by {block}thread {thread} at PTX line {line}")
    }
}

/// Where an access goes.
#[derive(Clone, Copy)]
enum Place {
    /// An offset in the block's shared memory.
    Shared(u64),
    Local,
    Param,
    Device,
}

fn place(record: FaultRecord, context: &BlockContext) -> Place {
    let inside = record.address.wrapping_sub(context.shared);
    match record.access {
        a if a & Access::SHARED != 0 => Place::Shared(record.address),
        a if a & Access::LOCAL != 0 => Place::Local,
        a if a & Access::PARAM != 0 => Place::Param,
        // A sanitizer is told of addresses of the host.
        _ if inside < context.shared_size => Place::Shared(inside),
        _ => Place::Device,
    }
}

fn allocation(launch: &LaunchInfo<'_>, address: u64) -> Option<FaultAllocation> {
    let near = launch.memory.near(address)?;
    let past = launch.heap.past(near.start);
    // What was freed on the heap may lie in the free memory beside another allocation.
    let past = past.filter(|past| past.freed.is_some() == near.freed);
    let (allocated_by, freed_by) = match past {
        Some(past) => (Some(past.allocated), past.freed),
        None => (None, None),
    };
    Some(FaultAllocation {
        start: near.start,
        size: near.size,
        freed: near.freed,
        allocated_by,
        freed_by,
    })
}

fn triple([x, y, z]: [u32; 3]) -> String {
    format!("({x},{y},{z})")
}

fn describe(
    kind: FaultKind,
    record: FaultRecord,
    place: Place,
    context: &BlockContext,
    launch: &LaunchInfo<'_>,
) -> String {
    let (memory, device) = (launch.memory, launch.device);
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
            let place = match place {
                Place::Shared(offset) => format!(
                    "shared address {offset:#x}, the block has {} bytes",
                    context.shared_size
                ),
                Place::Local => format!(
                    "local address {:#x}, the thread has {} bytes",
                    record.address, context.local_stride
                ),
                Place::Param => format!("parameter address {:#x}", record.address),
                Place::Device => {
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
        FaultKind::Race | FaultKind::Uninitialised => {
            let place = match place {
                Place::Shared(offset) => format!("shared address {offset:#x}"),
                _ => {
                    let place = memory.describe(record.address);
                    format!("{:#x}, {place},", record.address)
                }
            };
            let found = match kind {
                FaultKind::Race => "",
                _ => " that nothing has written",
            };
            format!("{verb} {bytes} at {place}{found}")
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
        FaultKind::TensorMemory => TensorFault::describe(record.address),
        FaultKind::TensorCopy => CopyFault::describe(record.address),
        FaultKind::NoCluster => "a copy from shared::cta to shared::cluster in a grid without \
             clusters: launch the kernel in clusters of at least two blocks"
            .into(),
        FaultKind::OutsideSurface => {
            format!("access out of bounds of the surface {:#x}", record.address)
        }
    }
}
