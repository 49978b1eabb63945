//! A copy that counts bytes at an mbarrier which expects none.

use super::mbarriers::{self, MbarrierOperation, MbarrierUse, has_operation, uses};
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::names::{Modifier, Opcode};

pub static RULE: Rule = Rule {
    code: Code::new('W', 406),
    name: "unexpected-bytes",
    summary: "A copy counts its bytes at an mbarrier that nothing in the kernel lets expect any, \
              or another number of them.",
    why: "A phase of an mbarrier is complete when all have arrived and all expected bytes have \
          come. Where nothing says how many bytes to expect, by `mbarrier.arrive.expect_tx` or \
          `mbarrier.expect_tx`, those that wait do not wait for the copy, and the bytes that come \
          then unsettle the count of the next phase. Where it expects more than come, they wait \
          for ever.\n\n\
          Numbers are compared where one instruction alone expects bytes, and all copies stand \
          beside it without a branch between, each of a constant size; the size of a tensor is \
          not in the text. mbarriers are told apart by variable and constant offset. A kernel has no finding where \
          bytes are expected at an address that is not known, or where a function that it calls \
          may do it. (PTX ISA, \"mbarrier: Tracking asynchronous operations by the mbarrier \
          object\".)",
    instead: "Let one thread execute `mbarrier.arrive.expect_tx` with the bytes of all copies of \
              the phase, before it begins them.",
    bad: "\
.entry k(.param .u64 src)
{
	.reg .pred p;
	.reg .b64 in;
	.shared .align 16 .b8 tile[64];
	.shared .align 8 .b64 bar;
	ld.param.u64 in, [src];
	cvta.to.global.u64 in, in;
	mbarrier.init.shared.b64 [bar], 1;
	bar.sync 0;
	mbarrier.arrive.shared.b64 _, [bar];
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [in], 64, [bar];
AGAIN:
	mbarrier.try_wait.parity.shared.b64 p, [bar], 0;
	@!p bra AGAIN;
	ret;
}
",
    good: "\
.entry k(.param .u64 src)
{
	.reg .pred p;
	.reg .b64 in;
	.shared .align 16 .b8 tile[64];
	.shared .align 8 .b64 bar;
	ld.param.u64 in, [src];
	cvta.to.global.u64 in, in;
	mbarrier.init.shared.b64 [bar], 1;
	bar.sync 0;
	mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [in], 64, [bar];
AGAIN:
	mbarrier.try_wait.parity.shared.b64 p, [bar], 0;
	@!p bra AGAIN;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    if !has_operation(function, MbarrierOperation::CompleteTx) {
        return;
    }
    let all = uses(function);
    let is_open = mbarriers::is_open(function);
    for copy in all
        .iter()
        .filter(|one| one.operation == MbarrierOperation::CompleteTx)
    {
        let mut expecting = all.iter().filter(|one| one.expects);
        if expecting.any(|one| one.place.may_be(&copy.place, &is_open)) {
            continue;
        }
        let name = mbarriers::name(function, &copy.place);
        findings
            .add(
                copy.instruction.opcode_span,
                format!("nothing lets {name} expect the bytes of this copy"),
            )
            .help("execute `mbarrier.arrive.expect_tx` with the number of bytes before");
    }
    for one in all.iter().filter(|one| one.expects) {
        let Some((expected, come)) = mismatch(function, &all, one) else {
            continue;
        };
        let name = mbarriers::name(function, &one.place);
        findings
            .add(
                one.instruction.opcode_span,
                format!("{name} expects {expected} bytes here, and copies bring {come}"),
            )
            .help("let it expect the bytes of all copies of the phase");
    }
}

/// The bytes that an mbarrier expects and those that come, if they are known and not the same.
fn mismatch(
    function: &FunctionContext<'_, '_>,
    all: &[MbarrierUse<'_>],
    expecting: &MbarrierUse<'_>,
) -> Option<(i64, i64)> {
    let flow = function.flow()?;
    let is_open = mbarriers::is_open(function);
    let number = |place: usize| function.linear(place)?.as_number();
    let list = expecting.instruction.operands;
    let expected = number((list.start + list.len.checked_sub(1)?) as usize)?;
    let guard = |one: &MbarrierUse<'_>| {
        let step = &flow.instructions.steps[one.id.index()];
        (flow.values.guard(&flow.instructions, step), step.negated)
    };
    let beside = |one: &MbarrierUse<'_>| {
        flow.graph.block_of(one.id) == flow.graph.block_of(expecting.id)
            && guard(one) == guard(expecting)
    };
    let others = all
        .iter()
        .filter(|one| one.id != expecting.id && one.place.may_be(&expecting.place, &is_open));
    let (mut come, mut copies) = (0_i64, 0);
    for one in others {
        if one.expects {
            return None;
        }
        if one.operation != MbarrierOperation::CompleteTx {
            continue;
        }
        let modifiers = &function.mnemonic(one.instruction).modifiers;
        let of_one = modifiers.has(Modifier::Bulk) && !modifiers.has(Modifier::Tensor);
        let known = one.place.is(&expecting.place) && beside(one) && of_one;
        if one.instruction.opcode != Opcode::Cp || !known {
            return None;
        }
        // Behind both addresses.
        come = come.checked_add(number(one.instruction.operands.start as usize + 2)?)?;
        copies += 1;
    }
    (copies > 0 && come != expected).then_some((expected, come))
}
