//! `red.global.add.f32 [sum], a` of every thread

use super::warp_addresses::WarpAddresses;
use crate::flow::memory::{Access, AccessKind};
use crate::flow::{BlockId, Definition, Linear, Variance};
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};
use ptx::ast::Space;
use ptx::names::{Modifier, Opcode, Type};

pub static RULE: Rule = Rule {
    code: Code::new('P', 109),
    name: "contended-atomic",
    summary: "All threads of a warp perform an atomic operation on the same address.",
    why: "The operations are serialized, 32 for each warp. For 32-bit integers ptxas first \
          reduces within the warp. It does not do so for floating-point numbers, whose sum \
          depends on the order, or for 64 bits.",
    instead: "Reduce within the warp with `shfl.sync` and within the block through shared \
              memory, and let one thread add the sum.",
    bad: "\
.global .align 4 .f32 sum;

.entry k(.param .u64 in)
{
	.reg .b32 i;
	.reg .f32 a;
	.reg .b64 p, o;
	ld.param.u64 p, [in];
	cvta.to.global.u64 p, p;
	mov.u32 i, %tid.x;
	mul.wide.u32 o, i, 4;
	add.u64 p, p, o;
	ld.global.f32 a, [p];
	red.global.add.f32 [sum], a;
	ret;
}
",
    good: "\
.global .align 4 .f32 sum;

.entry k(.param .u64 in)
{
	.reg .b32 i;
	.reg .f32 a, b;
	.reg .b64 p, o;
	.reg .pred q;
	ld.param.u64 p, [in];
	cvta.to.global.u64 p, p;
	mov.u32 i, %tid.x;
	mul.wide.u32 o, i, 4;
	add.u64 p, p, o;
	ld.global.f32 a, [p];
	shfl.sync.bfly.b32 b, a, 16, 31, -1;
	add.f32 a, a, b;
	shfl.sync.bfly.b32 b, a, 8, 31, -1;
	add.f32 a, a, b;
	shfl.sync.bfly.b32 b, a, 4, 31, -1;
	add.f32 a, a, b;
	shfl.sync.bfly.b32 b, a, 2, 31, -1;
	add.f32 a, a, b;
	shfl.sync.bfly.b32 b, a, 1, 31, -1;
	add.f32 a, a, b;
	mov.u32 i, %laneid;
	setp.eq.u32 q, i, 0;
	@q red.global.add.f32 [sum], a;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    for (id, step, instruction) in function.steps() {
        if !matches!(instruction.opcode, Opcode::Atom | Opcode::Red) || step.guarded {
            continue;
        }
        let modifiers = &function.mnemonic(instruction).modifiers;
        let exchanges = modifiers.has(Modifier::Exch) || modifiers.has(Modifier::Cas);
        let ty = modifiers.types().last();
        let integer = matches!(ty, Some(Type::B32 | Type::U32 | Type::S32));
        let access = Access::of(function, instruction);
        let Some(access) = access.filter(|access| access.kind == AccessKind::Atomic) else {
            continue;
        };
        let known = matches!(access.space, Some(Space::Global | Space::Shared) | None);
        if integer || exchanges || !known {
            continue;
        }
        let Some(flow) = function.flow() else {
            return;
        };
        let together =
            WarpAddresses::of(function, access.address).filter(WarpAddresses::are_together);
        let Some(lanes) = together.filter(|lanes| lanes.offsets.len() > 1) else {
            continue;
        };
        if !all_come(function, flow, flow.graph.block_of(id)) {
            continue;
        }
        let count = lanes.offsets.len();
        findings
            .add(
                access.span,
                format!("each warp serializes {count} atomic operations on one address"),
            )
            .help("reduce within the warp with `shfl.sync`, and let one thread add the sum");
    }
}

/// Whether full warps reach a block, except at the end of the data. A branch may also select a
/// single thread.
fn all_come(function: &FunctionContext<'_, '_>, flow: &Flow<'_, '_>, block: BlockId) -> bool {
    let Some(divergence) = function.divergence() else {
        return false;
    };
    if divergence.control(block) < Variance::Thread {
        return true;
    }
    let divergent_branches = divergence.divergent_branches.iter();
    let mut divergent_branches = divergent_branches
        .filter(|divergent| {
            divergent.variance == Variance::Thread && flow.graph.dominates(divergent.block, block)
        })
        .peekable();
    divergent_branches.peek().is_some()
        && divergent_branches.all(|divergent| is_bound(function, flow, divergent.block))
}

/// Whether the branch at the end of a block compares with a bound that is not a number.
fn is_bound(function: &FunctionContext<'_, '_>, flow: &Flow<'_, '_>, block: BlockId) -> bool {
    let compares_registers = || {
        let id = flow.graph.blocks[block.index()].steps().next_back()?;
        let guard = flow
            .values
            .guard(&flow.instructions, &flow.instructions.steps[id.index()])?;
        let Definition::Written(comparison) = flow.values.definition(guard)? else {
            return None;
        };
        let setp = flow.instructions.get(comparison)?;
        let modifiers = &function.mnemonic(setp).modifiers;
        let orders = [
            Modifier::Lt,
            Modifier::Le,
            Modifier::Gt,
            Modifier::Ge,
            Modifier::Lo,
            Modifier::Ls,
            Modifier::Hi,
            Modifier::Hs,
        ];
        modifiers.first_of(&orders)?;
        let first = setp.operands.start as usize;
        let numbers = [first + 1, first + 2].map(|place| {
            let linear = function.linear(place);
            linear.as_ref().and_then(Linear::as_number).is_some()
        });
        Some(setp.opcode == Opcode::Setp && numbers == [false; 2])
    };
    compares_registers().unwrap_or(false)
}
