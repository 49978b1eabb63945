//! `ptxkit trace --race`, `--memcheck` and `--initcheck`: a launch on the CPU device that looks
//! for mistakes of the kernel.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::instrument::load::Loaded;
use crate::launch::Placed;
use crate::run::{self, Request};
use crate::sample::ArgKind;
use ptxkit::cpu::{Caller, Checks, Fault, FaultAllocation, FaultKind, last_fault};
use ptxkit::driver::Selection;
use ptxkit::ptx::diagnostic::LineIndex;
use ptxkit::ptx::line_table::SourceLine;
use terminal::failure::Failure;
use terminal::output::{Escaped, json_line};

/// What is looked for. Bad addresses always are.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct CheckArgs {
    /// Look for data races between threads, on the CPU device, instead
    #[arg(long, conflicts_with_all = OTHERS)]
    race: bool,
    /// Look for accesses out of bounds, to freed memory and misaligned ones, on the CPU device,
    /// instead
    #[arg(long, conflicts_with_all = OTHERS)]
    memcheck: bool,
    /// Look for reads of shared and local memory that nothing has written, on the CPU device,
    /// instead
    #[arg(long, conflicts_with_all = OTHERS)]
    initcheck: bool,
}

const OTHERS: [&str; 6] = [
    "thread",
    "thread_block",
    "lines",
    "register",
    "limit",
    "coverage",
];

impl CheckArgs {
    pub fn any(self) -> bool {
        self.race || self.memcheck || self.initcheck
    }

    /// In words, those that need no flag too.
    fn names(self) -> Vec<&'static str> {
        let chosen = [
            (true, "memory"),
            (self.race, "race"),
            (self.initcheck, "init"),
        ];
        let chosen = chosen.iter().filter(|(is_chosen, _)| *is_chosen);
        chosen.map(|(_, name)| *name).collect()
    }

    fn checks(self) -> Checks {
        let mut checks = Checks::default();
        checks.race = self.race;
        checks.init = self.initcheck;
        checks
    }
}

/// What was found.
pub struct Checked<'s> {
    file: String,
    kernel: String,
    checks: Vec<&'static str>,
    lines: LineIndex<'s>,
    buffers: Vec<Placement>,
    fault: Option<Fault>,
}

/// A buffer of the sample on the device.
struct Placement {
    name: String,
    /// `1024 bytes, 256 of f32`
    size: String,
    argument: usize,
    placed: Placed,
}

/// Launches the kernel with the checks.
///
/// # Errors
/// It cannot be launched, or another device than the CPU device is asked for.
pub fn check<'s>(
    request: &Request,
    source: &'s str,
    args: CheckArgs,
    device: Selection,
) -> Result<Checked<'s>, Failure> {
    if matches!(device, Selection::Nvidia(_)) {
        return Err(Failure::new("kernels are checked on the CPU device alone")
            .help("leave --device out, or give --device cpu"));
    }
    args.checks().choose().map_err(Failure::new)?;
    let sample = &request.sample;
    let name = request.name();
    let loaded = Loaded::new(&name, &sample.kernel, source, Selection::Cpu)?;
    let mut buffers = Vec::new();
    let launched = loaded.launch(sample, |placed| {
        let all = sample.args.iter().zip(placed).enumerate();
        buffers.extend(all.filter_map(|(argument, (arg, placed))| {
            let ArgKind::Buffer(buffer) = &arg.kind else {
                return None;
            };
            let bytes = buffer.initial.len();
            let count = bytes / buffer.element.size();
            Some(Placement {
                name: arg.name.clone(),
                size: format!("{bytes} bytes, {count} of {}", buffer.element),
                argument,
                placed: (*placed)?,
            })
        }));
        Ok(())
    })?;
    let fault = match (launched.error, last_fault()) {
        (None, _) => None,
        (Some(_), Some(fault)) => Some(fault),
        // The launch was refused: the kernel has not run.
        (Some(error), None) => return Err(run::fault(&sample.kernel, &error, loaded.kind)),
    };
    let lines = LineIndex::new(source);
    Ok(Checked {
        file: name,
        kernel: sample.kernel.clone(),
        checks: args.names(),
        lines,
        buffers,
        fault,
    })
}

impl Checked<'_> {
    pub fn has_findings(&self) -> bool {
        self.fault.is_some()
    }

    pub fn text(&self) -> String {
        let (file, kernel) = (Escaped::new(&self.file), Escaped::new(&self.kernel));
        let Some(fault) = &self.fault else {
            return format!(
                "{file}, {kernel}: nothing found (checked: {})\n",
                self.checks.join(", ")
            );
        };
        let mut out = format!("{file}, {kernel}: {}\n", name_of(fault));
        let what = self.access(fault).unwrap_or_else(|| fault.what.clone());
        let who = thread(fault.block, fault.thread);
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{who}: {}", Escaped::new(what));
        self.add_line(&mut out, fault.line, fault.source_line.as_ref());
        if let Some(other) = &fault.other {
            let verb = if other.writes { "write" } else { "read" };
            let who = thread(other.block, other.thread);
            let _ = writeln!(out, "{who}: {verb}, which nothing orders");
            self.add_line(&mut out, Some(other.line), other.source_line.as_ref());
        }
        if let Some(allocation) = &fault.allocation {
            if let Some(buffer) = self.buffer(allocation) {
                let _ = writeln!(
                    out,
                    "`{}`: {}, argument {}, allocated before the launch",
                    Escaped::new(&buffer.name),
                    buffer.size,
                    buffer.argument
                );
            }
            for (verb, caller) in calls(allocation) {
                let kernel = if *caller.kernel == *self.kernel {
                    String::new()
                } else {
                    format!("kernel {}, ", Escaped::new(&caller.kernel))
                };
                let who = thread(caller.block, caller.thread);
                let _ = writeln!(out, "{verb} by {kernel}{who}");
                self.add_line(&mut out, Some(caller.line), caller.source_line.as_ref());
            }
        }
        out
    }

    /// `    14  st.shared.u32 [%r4], %r1;    reverse.cu:9`
    fn add_line(&self, out: &mut String, line: Option<u32>, source: Option<&SourceLine>) {
        let Some(line) = line.filter(|line| *line > 0) else {
            return;
        };
        let text = Escaped::new(self.lines.text(line).trim()).to_string();
        let source = source.map(|source| Escaped::new(source.to_string()).to_string());
        let source = source.unwrap_or_default();
        let row = format!("{line:>6}  {text:<47} {source}");
        out.push_str(row.trim_end());
        out.push('\n');
    }

    /// `write of 4 bytes at shared address 0x200`; `None` if the fault is no access.
    fn access(&self, fault: &Fault) -> Option<String> {
        let access = fault.access?;
        let verb = match (access.atomic, access.writes) {
            (true, _) => "atomic access to",
            (false, true) => "write of",
            (false, false) => "read of",
        };
        let bytes = counted(u64::from(access.size));
        let address = fault.address.unwrap_or(0);
        let place = match (access.shared, &fault.allocation) {
            (Some(offset), _) => format!("shared address {offset:#x}"),
            (None, Some(allocation)) => {
                let near = self.beside(address, allocation);
                format!("{address:#x}, {near}")
            }
            (None, None) => format!("{address:#x}"),
        };
        Some(format!("{verb} {bytes} at {place}"))
    }

    /// Where an address lies: `4 bytes past the end of `out``.
    fn beside(&self, address: u64, allocation: &FaultAllocation) -> String {
        let (start, size) = (allocation.start, allocation.size);
        let name = match (self.buffer(allocation), allocation.freed) {
            (Some(buffer), _) => format!("`{}`", buffer.name),
            (None, true) => format!("a freed allocation of {}", counted(size)),
            (None, false) => format!("an allocation of {}", counted(size)),
        };
        match address.checked_sub(start) {
            None => format!("{} before {name}", counted(start - address)),
            Some(offset) if offset < size => format!("byte {offset} of {name}"),
            Some(offset) if offset == size => format!("just past the end of {name}"),
            Some(offset) => format!("{} past the end of {name}", counted(offset - size)),
        }
    }

    fn buffer(&self, allocation: &FaultAllocation) -> Option<&Placement> {
        let is_there = |buffer: &&Placement| buffer.placed.address == allocation.start;
        self.buffers
            .iter()
            .find(is_there)
            .filter(|_| !allocation.freed)
    }

    pub fn json(&self) -> String {
        let findings: Vec<Value> = self.fault.iter().map(|fault| self.finding(fault)).collect();
        json_line(&json!({
            "file": self.file,
            "kernel": self.kernel,
            "checks": self.checks,
            "findings": findings,
        }))
    }

    fn finding(&self, fault: &Fault) -> Value {
        let access = fault.access.map(|access| {
            json!({
                "bytes": access.size,
                "writes": access.writes,
                "atomic": access.atomic,
                "shared_offset": access.shared,
            })
        });
        let other = fault.other.as_ref().map(|other| {
            json!({
                "block": other.block,
                "thread": other.thread,
                "writes": other.writes,
                "line": other.line,
                "source": source(other.source_line.as_ref()),
                "inlined_at": inlined_at(other.source_line.as_ref()),
            })
        });
        let allocation = fault.allocation.as_ref().map(|allocation| {
            let caller = |caller: &Option<Caller>| {
                caller.as_ref().map(|caller| {
                    json!({
                        "kernel": caller.kernel,
                        "block": caller.block,
                        "thread": caller.thread,
                        "line": caller.line,
                        "source": source(caller.source_line.as_ref()),
                        "inlined_at": inlined_at(caller.source_line.as_ref()),
                    })
                })
            };
            json!({
                "buffer": self.buffer(allocation).map(|buffer| &buffer.name),
                "address": allocation.start,
                "bytes": allocation.size,
                "freed": allocation.freed,
                "allocated_by": caller(&allocation.allocated_by),
                "freed_by": caller(&allocation.freed_by),
            })
        });
        json!({
            "kind": name_of(fault),
            "message": fault.message,
            "block": fault.block,
            "thread": fault.thread,
            "line": fault.line,
            "source": source(fault.source_line.as_ref()),
            "inlined_at": inlined_at(fault.source_line.as_ref()),
            "address": fault.address,
            "access": access,
            "races_with": other,
            "allocation": allocation,
        })
    }
}

fn source(line: Option<&SourceLine>) -> Option<Value> {
    let SourceLine { file, line, .. } = line?;
    Some(json!({ "file": **file, "line": line }))
}

fn inlined_at(line: Option<&SourceLine>) -> Option<Value> {
    source(line?.inlined_at.as_deref())
}

/// The calls in kernels that made and freed an allocation.
fn calls(allocation: &FaultAllocation) -> impl Iterator<Item = (&'static str, &Caller)> {
    let allocated = allocation.allocated_by.iter().map(|one| ("allocated", one));
    allocated.chain(allocation.freed_by.iter().map(|one| ("freed", one)))
}

fn name_of(fault: &Fault) -> &'static str {
    let is_freed = fault.allocation.as_ref().is_some_and(|one| one.freed);
    match fault.kind {
        FaultKind::OutOfBounds if is_freed => "use after free",
        FaultKind::BadFree if is_freed => "double free",
        FaultKind::OutOfBounds => "out of bounds",
        FaultKind::Misaligned => "misaligned access",
        FaultKind::Trap => "trap",
        FaultKind::Assert => "failed assertion",
        FaultKind::Deadlock => "deadlock",
        FaultKind::IllegalInstruction => "invalid operand",
        FaultKind::BadFree => "bad free",
        FaultKind::OutOfMemory => "out of memory",
        FaultKind::BadTexture => "bad texture",
        FaultKind::OutsideSurface => "outside of a surface",
        FaultKind::BadCall => "bad call",
        FaultKind::Stack => "stack overflow",
        FaultKind::Race => "data race",
        FaultKind::Uninitialised => "unwritten memory",
        FaultKind::TensorMemory => "tensor memory",
        FaultKind::TensorCopy => "tensor copy",
        _ => "fault",
    }
}

fn thread([x, y, z]: [u32; 3], [a, b, c]: [u32; 3]) -> String {
    format!("block ({x},{y},{z}), thread ({a},{b},{c})")
}

fn counted(bytes: u64) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        _ => format!("{bytes} bytes"),
    }
}
