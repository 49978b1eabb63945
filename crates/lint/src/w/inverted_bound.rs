//! `if (i < n) return;` before the work at `i`.

use crate::flow::memory::MemoryAccess;
use crate::flow::{BlockId, Definition, FirstPass, InstructionId, Linear, Term};
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};
use ptx::ast::{FunctionKind, Mnemonic, Space};
use ptx::names::{Modifier, Opcode, SpecialRegister};

pub static RULE: Rule = Rule {
    code: Code::new('W', 511),
    name: "inverted-bound",
    summary: "Threads whose index is below the bound end, and those beyond it access memory at \
              the index.",
    why: "The threads of the last block that lie beyond the data have to leave it alone. Where \
          the comparison is the wrong way round, all others do nothing, and these access memory \
          that is not theirs.\n\n\
          The rule is off by default: what is compared may be a start and no bound, so that the \
          threads behind it are the right ones. Looked at are comparisons of the index of the \
          thread in the grid with a parameter, where the kernel ends on one side and accesses \
          global memory at that index on the other. (CUDA C++ Programming Guide, \"Kernels\".)",
    instead: "Leave if the index is not below the bound: `setp.ge`.",
    bad: "\
.entry k(.param .u64 data, .param .u32 count)
{
	.reg .pred p;
	.reg .b32 i, n, block, size;
	.reg .b64 at;
	ld.param.u64 at, [data];
	ld.param.u32 n, [count];
	cvta.to.global.u64 at, at;
	mov.u32 block, %ctaid.x;
	mov.u32 size, %ntid.x;
	mov.u32 i, %tid.x;
	mad.lo.u32 i, block, size, i;
	setp.lt.u32 p, i, n;
	@p bra END;
	mad.wide.u32 at, i, 4, at;
	st.global.b32 [at], i;
END:
	ret;
}
",
    good: "\
.entry k(.param .u64 data, .param .u32 count)
{
	.reg .pred p;
	.reg .b32 i, n, block, size;
	.reg .b64 at;
	ld.param.u64 at, [data];
	ld.param.u32 n, [count];
	cvta.to.global.u64 at, at;
	mov.u32 block, %ctaid.x;
	mov.u32 size, %ntid.x;
	mov.u32 i, %tid.x;
	mad.lo.u32 i, block, size, i;
	setp.ge.u32 p, i, n;
	@p bra END;
	mad.wide.u32 at, i, 4, at;
	st.global.b32 [at], i;
END:
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    if function.function.kind != FunctionKind::Entry {
        return;
    }
    let (Some(flow), Some(pass)) = (function.flow(), function.first_pass()) else {
        return;
    };
    for (id, step, instruction) in function.steps() {
        let leaves = matches!(instruction.opcode, Opcode::Bra | Opcode::Ret | Opcode::Exit);
        if !leaves || !step.guarded {
            continue;
        }
        let Some((ends, goes_on)) = sides(flow, pass, id, instruction.opcode) else {
            continue;
        };
        let below = flow
            .values
            .guard(&flow.instructions, step)
            .and_then(|guard| below_bound(function, flow, guard));
        // The threads below the bound end where the branch is taken because they are below,
        // or passed because they are not.
        let inverted = below.is_some_and(|(below, _)| (below != step.negated) == ends);
        let Some((_, index)) = below.filter(|_| inverted) else {
            continue;
        };
        if accesses_at(function, flow, goes_on, &index) {
            findings
                .add(
                    instruction.opcode_span,
                    "threads below the bound end here, and those beyond it access memory at \
                     their index",
                )
                .help("turn the comparison round");
        }
    }
}

/// Whether the kernel ends where a branch is taken, and not where it is passed, and where it
/// goes on.
fn sides(
    flow: &Flow<'_, '_>,
    pass: &FirstPass,
    id: InstructionId,
    opcode: Opcode,
) -> Option<(bool, BlockId)> {
    let block = flow.graph.block_of(id);
    let passed = BlockId(block.0 + 1);
    if passed.index() >= flow.graph.blocks.len() {
        return None;
    }
    if opcode != Opcode::Bra {
        return Some((true, passed));
    }
    let taken = flow.graph.successors(block).find(|to| *to != passed)?;
    match (pass.exits[taken.index()], pass.exits[passed.index()]) {
        (true, false) => Some((true, passed)),
        (false, true) => Some((false, taken)),
        _ => None,
    }
}

/// Whether a predicate says that the index of a thread in the grid is below a parameter, or
/// that it is not; and the index.
fn below_bound(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    predicate: crate::flow::ValueId,
) -> Option<(bool, Linear)> {
    let Some(Definition::Written(id)) = flow.values.definition(predicate) else {
        return None;
    };
    let instruction = flow.instructions.get(id)?;
    if instruction.opcode != Opcode::Setp || instruction.operands.len != 3 {
        return None;
    }
    let first_is_less = is_less(function.mnemonic(instruction))?;
    let place = instruction.operands.start as usize;
    let (a, b) = (function.linear(place + 1)?, function.linear(place + 2)?);
    match (is_index(&a) && is_bound(&b), is_index(&b) && is_bound(&a)) {
        (true, _) => Some((first_is_less, a)),
        (_, true) => Some((!first_is_less, b)),
        _ => None,
    }
}

/// Whether it compares whether the first of two numbers is the less; `None` for other
/// relations.
fn is_less(mnemonic: &Mnemonic<'_>) -> Option<bool> {
    let has = |words: &[Modifier]| words.iter().any(|word| mnemonic.modifiers.has(*word));
    if has(&[Modifier::Lt, Modifier::Lo, Modifier::Le, Modifier::Ls]) {
        Some(true)
    } else if has(&[Modifier::Gt, Modifier::Hi, Modifier::Ge, Modifier::Hs]) {
        Some(false)
    } else {
        None
    }
}

/// `%ctaid.x * %ntid.x + %tid.x`
fn is_index(linear: &Linear) -> bool {
    let of_block = |term: &Term| {
        matches!(
            term,
            Term::Product(_) | Term::Special(SpecialRegister::CtaidX)
        )
    };
    linear.coefficient(Term::Special(SpecialRegister::TidX)) > 0
        && linear.terms().iter().any(|(term, _)| of_block(term))
}

fn is_bound(linear: &Linear) -> bool {
    matches!(linear.terms(), [(Term::Parameter(..), 1)])
}

/// Whether global memory is accessed at a multiple of the index, where control comes from a
/// block alone.
fn accesses_at(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    from: BlockId,
    index: &Linear,
) -> bool {
    function
        .accesses()
        .iter()
        .any(|MemoryAccess { id, access, .. }| {
            let block = flow.graph.block_of(*id);
            let global = matches!(access.space, None | Some(Space::Global));
            let at = function.linear(access.address).filter(|_| global);
            let moves = |at: &Linear| {
                let times = at.coefficient(Term::Special(SpecialRegister::TidX));
                let mut terms = index.terms().iter();
                times > 0 && terms.all(|(term, factor)| at.coefficient(*term) == factor * times)
            };
            flow.graph.is_reached(block)
                && flow.graph.dominates(from, block)
                && at.is_some_and(|at| moves(&at))
        })
}
