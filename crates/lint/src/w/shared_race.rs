//! Shared memory that one thread writes and another accesses without a barrier
//! between.

use crate::context::callee;
use crate::flow::{InstructionId, Linear, Term, Variance};
use crate::memory::{Access, AccessKind};
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};
use ptx::ast::{Instruction, Mnemonic, Space};
use ptx::names::{Modifier, Opcode, SpecialRegister};

pub static RULE: Rule = Rule {
    code: Code::new('W', 303),
    name: "shared-race",
    summary: "A thread writes shared memory that another accesses, with no barrier between.",
    why: "Threads of a block go on at their own pace, those of a warp too. Without `bar.sync` \
          between, or `bar.warp.sync` in a warp, the other thread may come before or after.",
    instead: "Put a `bar.sync` between the two accesses.",
    bad: "\
.entry k(.param .u64 dst)
{
	.reg .b32 t, a, s;
	.reg .b64 out;
	.shared .align 4 .b8 tile[512];
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	mov.u32 t, %tid.x;
	shl.b32 a, t, 2;
	mov.u32 s, tile;
	add.u32 s, s, a;
	st.shared.b32 [s], t;
	ld.shared.b32 t, [s+4];
	st.global.b32 [out], t;
	ret;
}
",
    good: "\
.entry k(.param .u64 dst)
{
	.reg .b32 t, a, s;
	.reg .b64 out;
	.shared .align 4 .b8 tile[512];
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	mov.u32 t, %tid.x;
	shl.b32 a, t, 2;
	mov.u32 s, tile;
	add.u32 s, s, a;
	st.shared.b32 [s], t;
	bar.sync 0;
	ld.shared.b32 t, [s+4];
	st.global.b32 [out], t;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

/// An access of all threads to an address that is known but for the thread.
#[derive(Clone, Copy)]
struct Known {
    id: InstructionId,
    store: bool,
    bytes: i64,
    /// Of `%tid.x`, in bytes.
    stride: i64,
    constant: i64,
    /// All else that is added.
    base: Linear,
}

/// No shared memory is as large: what strides further is no address.
const FAR: u64 = 1 << 32;

/// A block has a warp of threads at least, unless it says less.
const THREADS: i64 = 32;

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let stores = |i: &Instruction| {
        i.opcode == Opcode::St && function.mnemonic(i).modifiers.has(Modifier::Shared)
    };
    if !function.instructions().any(stores) || threads(function) < THREADS {
        return;
    }
    let (Some(flow), Some(divergence)) = (function.flow(), function.divergence()) else {
        return;
    };
    let mut known: Vec<Option<Known>> = vec![None; flow.instructions.steps.len()];
    let mut any = Vec::new();
    for (id, step, instruction) in function.steps() {
        let block = flow.graph.block_of(id);
        if step.guarded || divergence.control(block) != Variance::Block {
            continue;
        }
        if let Some(access) = Access::of(function, instruction)
            && access.space == Some(Space::Shared)
            && !function
                .mnemonic(instruction)
                .modifiers
                .has(Modifier::Volatile)
            && let Some(found) = of_access(function, id, &access)
        {
            known[id.index()] = Some(found);
            any.push(found);
        }
    }
    if any.iter().all(|access| !access.store) {
        return;
    }
    let steps = function.steps();
    let stops: Vec<bool> = steps
        .map(|(_, _, instruction)| synchronises(function, instruction))
        .collect();
    // So many accesses are followed: what is missed is not said.
    for first in any.iter().take(512) {
        if let Some(second) = race(flow, &known, &stops, first) {
            let (Some(one), Some(other)) = (
                flow.instructions.get(first.id),
                flow.instructions.get(second.id),
            ) else {
                continue;
            };
            let line = function.line(one.span);
            let message = match (first.store, second.store) {
                (true, true) => format!("another thread writes here what line {line} has written"),
                (true, false) => {
                    format!("this reads what another thread writes in line {line}")
                }
                (false, _) => format!("this overwrites what another thread reads in line {line}"),
            };
            findings
                .add(
                    other.opcode_span,
                    format!("{message}, with no barrier between"),
                )
                .help("put `bar.sync 0` between the two");
        }
    }
}

fn threads(function: &FunctionContext<'_, '_>) -> i64 {
    let mut directives = function.function.directives.iter();
    let bound = directives.find(|d| d.name == "reqntid" || d.name == "maxntid");
    bound
        .and_then(|d| d.values.first())
        .map_or(THREADS, |n| i64::from(*n))
}

fn of_access(
    function: &FunctionContext<'_, '_>,
    id: InstructionId,
    access: &Access,
) -> Option<Known> {
    if access.kind == AccessKind::Atomic {
        return None;
    }
    let linear = function.linear(access.address)?;
    linear.variable()?;
    let thread = Term::Special(SpecialRegister::TidX);
    let stride = linear.coefficient(thread);
    let constant = linear.constant;
    let mut base = linear.without(thread);
    base.constant = 0;
    // What is not known may be another in each thread, and at each turn of a loop.
    let same = base.terms().iter().all(|(term, _)| match term {
        Term::Address(_) | Term::Parameter(..) => true,
        Term::Special(register) => !matches!(
            register,
            SpecialRegister::TidX
                | SpecialRegister::TidY
                | SpecialRegister::TidZ
                | SpecialRegister::Laneid
                | SpecialRegister::Warpid
        ),
        Term::Value(_) | Term::Product(_) => false,
    });
    same.then_some(Known {
        id,
        store: access.kind == AccessKind::Store,
        bytes: access.bytes as i64,
        stride,
        constant,
        base,
    })
}

/// The first access behind `first`, on some way without a barrier, that another
/// thread's of it meets.
fn race(
    flow: &Flow<'_, '_>,
    known: &[Option<Known>],
    stops: &[bool],
    first: &Known,
) -> Option<Known> {
    let graph = &flow.graph;
    let mut visited = vec![false; graph.blocks.len()];
    let home = graph.block_of(first.id);
    let mut open = vec![(home, first.id.0 + 1)];
    while let Some((block, from)) = open.pop() {
        let mut stopped = false;
        for at in from..graph.blocks[block.index()].end {
            if let Some(second) = known[at as usize]
                && meets(first, &second)
            {
                return Some(second);
            }
            if stops.get(at as usize).is_none_or(|stops| *stops) {
                stopped = true;
                break;
            }
        }
        if stopped {
            continue;
        }
        for next in graph.successors(block) {
            if !std::mem::replace(&mut visited[next.index()], true) {
                open.push((next, graph.blocks[next.index()].start));
            }
        }
    }
    None
}

/// Whether two different threads touch a byte in common, and one writes it.
fn meets(a: &Known, b: &Known) -> bool {
    if a.base != b.base || !(a.store || b.store) {
        return false;
    }
    // All of one address: that of a store is another finding, if it is one.
    if a.stride == 0 && b.stride == 0 {
        return false;
    }
    // Most pairs lie further apart than the threads reach.
    let reach = a.stride.unsigned_abs().max(b.stride.unsigned_abs());
    let reach = reach.saturating_mul(2 * THREADS as u64);
    if reach > FAR {
        return false;
    }
    let bytes = a.bytes.max(b.bytes).unsigned_abs();
    if a.constant.abs_diff(b.constant) > reach.saturating_add(bytes) {
        return false;
    }
    let between = a.constant - b.constant;
    let overlap = |by: i64| between + by < b.bytes && -(between + by) < a.bytes;
    // Of one stride, only how far apart the two threads are matters.
    if a.stride == b.stride {
        let mut apart = (1..THREADS).map(|apart| a.stride * apart);
        return apart.any(|by| overlap(by) || overlap(-by));
    }
    (0..THREADS).any(|s| (0..THREADS).any(|t| s != t && overlap(a.stride * s - b.stride * t)))
}

/// Whether threads wait for each other here, or may do so.
fn synchronises(function: &FunctionContext<'_, '_>, instruction: &Instruction) -> bool {
    if instruction.opcode == Opcode::Call {
        let callee = callee(function.operands(instruction));
        return callee.is_none_or(|name| function.context.may_execute(name, waits));
    }
    waits(function.mnemonic(instruction))
}

fn waits(mnemonic: &Mnemonic<'_>) -> bool {
    matches!(
        mnemonic.opcode,
        Opcode::Bar
            | Opcode::Barrier
            | Opcode::Mbarrier
            | Opcode::Membar
            | Opcode::Fence
            | Opcode::Atom
            | Opcode::Wgmma
            | Opcode::Tcgen05
            | Opcode::Griddepcontrol
    ) || mnemonic.modifiers.has(Modifier::Sync)
}
