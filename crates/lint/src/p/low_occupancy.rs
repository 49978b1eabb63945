//! Low occupancy

use std::collections::HashSet;

use super::launch_bounds::LaunchBounds;
use crate::flow::Pressure;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use occupancy::{BlockResources, Limit, MAX_REGISTERS, Multiprocessor};
use ptx::ast::{AddressBase, Operand, Space, Statement, Variable};
use ptx::signature::layout;

pub static RULE: Rule = Rule {
    code: Code::new('P', 302),
    name: "low-occupancy",
    summary: "With the block size of the kernel, less than a quarter of the warps of a \
              multiprocessor are resident.",
    why: "While one warp waits for memory, others execute: few warps do not hide the latency. \
          Their number depends on the threads of a block (`.reqntid`, `.maxntid`), its shared \
          memory, the registers of its threads, and the limits of the target.",
    instead: "Use larger blocks, less shared memory for each block, or fewer registers. A kernel \
              with many independent operations in flight in each thread can be fast \
              nevertheless: disable this rule for it.",
    bad: "\
.entry k(.param .u64 out) .reqntid 64
{
	.shared .align 4 .b8 tile[40960];
	.reg .b32 i, a;
	.reg .b64 p, o, q;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 i, %tid.x;
	mul.wide.u32 o, i, 4;
	mov.u64 q, tile;
	add.u64 q, q, o;
	st.shared.u32 [q], i;
	bar.sync 0;
	ld.shared.u32 a, [tile+4];
	st.global.u32 [p], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 out) .reqntid 256
{
	.shared .align 4 .b8 tile[40960];
	.reg .b32 i, a;
	.reg .b64 p, o, q;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.u32 i, %tid.x;
	mul.wide.u32 o, i, 4;
	mov.u64 q, tile;
	add.u64 q, q, o;
	st.shared.u32 [q], i;
	bar.sync 0;
	ld.shared.u32 a, [tile+4];
	st.global.u32 [p], a;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

/// The minimum occupancy in percent.
const THRESHOLD: u32 = 25;

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let context = function.context;
    let Some(bounds) = LaunchBounds::of(function.function, context.source) else {
        return;
    };
    let Some((target, multiprocessor)) = context
        .target
        .and_then(|target| Some((target, Multiprocessor::of(target.number)?)))
    else {
        return;
    };
    // Register pressure is expensive to compute, so it is only computed for kernels that may have
    // enough live registers to matter.
    let Some(threads) = bounds.threads.filter(|threads| *threads > 1) else {
        return;
    };
    let registers = bounds
        .registers
        .or_else(|| Some(Pressure::of(function)?.registers));
    let block = BlockResources {
        threads,
        registers: registers.unwrap_or(0).min(MAX_REGISTERS).min(
            multiprocessor
                .registers_for(threads, 1)
                .unwrap_or(MAX_REGISTERS),
        ),
        shared: shared_bytes(function),
        ..BlockResources::default()
    };
    let occupancy = multiprocessor.occupancy(&block);
    if occupancy.blocks == 0 || occupancy.percent() >= THRESHOLD {
        return;
    }
    let why = match occupancy.limit() {
        Limit::Warps => format!("its {threads} threads"),
        Limit::Blocks => format!("the limit of {} blocks", multiprocessor.blocks),
        Limit::Registers => format!("its {} registers per thread", block.registers),
        Limit::Shared => format!("its {} bytes of shared memory", block.shared),
        _ => return,
    };
    let (blocks, warps, of) = (occupancy.blocks, occupancy.warps, occupancy.of);
    findings
        .add(
            bounds.span,
            format!(
                "{warps} of {of} warps are resident on {target}, {} %: {why} allow {blocks} block{}",
                occupancy.percent(),
                if blocks == 1 { "" } else { "s" },
            ),
        )
        .help(match occupancy.limit() {
            Limit::Registers => "reduce the live values, or the registers with `.maxnreg`",
            Limit::Shared => "use more threads per block, or less shared memory",
            _ => "use more threads per block",
        });
}

/// The static shared memory: variables of the kernel, and those of the module that it uses.
fn shared_bytes(function: &FunctionContext<'_, '_>) -> u32 {
    let size = |variable: &Variable<'_>| layout(variable).0;
    let mut sum = 0_u64;
    for statement in &function.body.statements {
        if let Statement::Variable(variable) = statement
            && variable.space == Space::Shared
        {
            sum = sum.saturating_add(size(variable));
        }
    }
    let mut visited = HashSet::new();
    for operand in &function.body.operands {
        let (Operand::Name(name)
        | Operand::Offset { name, .. }
        | Operand::Address {
            base: AddressBase::Name(name),
            ..
        }) = operand
        else {
            continue;
        };
        if let Some(variable) = function.context.variable(name.text)
            && variable.space == Space::Shared
            && visited.insert(name.text)
        {
            sum = sum.saturating_add(size(variable));
        }
    }
    u32::try_from(sum).unwrap_or(u32::MAX)
}
