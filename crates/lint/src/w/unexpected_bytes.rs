//! A copy that counts bytes at an mbarrier which expects none.

use super::mbarriers::{self, MbarrierOperation, has_operation, uses};
use crate::{Check, Code, Findings, FunctionContext, Rule};

pub static RULE: Rule = Rule {
    code: Code::new('W', 406),
    name: "unexpected-bytes",
    summary: "A copy counts its bytes at an mbarrier that nothing in the kernel lets expect any.",
    why: "A phase of an mbarrier is complete when all have arrived and all expected bytes have \
          come. Where nothing says how many bytes to expect, by `mbarrier.arrive.expect_tx` or \
          `mbarrier.expect_tx`, those that wait do not wait for the copy, and the bytes that come \
          then unsettle the count of the next phase.\n\n\
          mbarriers are told apart by variable and constant offset. A kernel has no finding where \
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
}
