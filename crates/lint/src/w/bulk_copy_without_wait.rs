//! `cp.async.bulk` that nothing waits for.

use super::copy_without_wait::unwaited;
use crate::flow::AsyncEvent;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::Mnemonic;
use ptx::names::{Modifier, Opcode};

pub static RULE: Rule = Rule {
    code: Code::new('W', 402),
    name: "bulk-copy-without-wait",
    summary: "Nothing waits for a bulk copy: neither for its group, nor at its mbarrier.",
    why: "A bulk copy goes on while the thread does. What it brings is there once its mbarrier \
          has counted the bytes, which `mbarrier.try_wait` or `mbarrier.test_wait` asks for. What \
          it takes away may be overwritten, and the block may end, once \
          `cp.async.bulk.wait_group` behind a `cp.async.bulk.commit_group` has waited for it.\n\n\
          Whether the wait comes before what was copied is used, `W0409` looks at for small \
          copies; whether it is at the same mbarrier, this rule does not ask: one wait in the \
          module is enough. (PTX ISA, \"Data Movement and Conversion Instructions: Asynchronous \
          copy\".)",
    instead: "Wait at the mbarrier, or commit and wait for the group, as the copy says.",
    bad: "\
.entry k(.param .u64 dst)
{
	.reg .b64 out;
	.shared .align 16 .b8 tile[64];
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	cp.async.bulk.global.shared::cta.bulk_group [out], [tile], 64;
	ret;
}
",
    good: "\
.entry k(.param .u64 dst)
{
	.reg .b64 out;
	.shared .align 16 .b8 tile[64];
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	cp.async.bulk.global.shared::cta.bulk_group [out], [tile], 64;
	cp.async.bulk.commit_group;
	cp.async.bulk.wait_group 0;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn is_bulk(mnemonic: &Mnemonic<'_>) -> bool {
    mnemonic.opcode == Opcode::Cp && mnemonic.modifiers.has(Modifier::Bulk)
}

fn in_group(mnemonic: &Mnemonic<'_>) -> bool {
    is_bulk(mnemonic) && mnemonic.modifiers.has(Modifier::BulkGroup)
}

fn at_mbarrier(mnemonic: &Mnemonic<'_>) -> bool {
    is_bulk(mnemonic) && mnemonic.modifiers.has(Modifier::MbarrierCompleteTxBytes)
}

fn event(mnemonic: &Mnemonic<'_>) -> AsyncEvent {
    let has = |word| mnemonic.modifiers.has(word);
    match is_bulk(mnemonic) {
        true if has(Modifier::CommitGroup) => AsyncEvent::Commit,
        true if has(Modifier::WaitGroup) => AsyncEvent::WaitForGroups,
        _ => AsyncEvent::None,
    }
}

/// Something in the module waits at an mbarrier.
const WAITED: u32 = 0;

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    unwaited(function, in_group, event, |instruction| {
        findings
            .add(
                instruction.opcode_span,
                "nothing behind this commits the copy and waits for its group",
            )
            .help("write `cp.async.bulk.commit_group` and `cp.async.bulk.wait_group 0` behind it");
    });
    // Another kernel may be the one that waits.
    let asks = |mnemonic: &Mnemonic<'_>| {
        let has = |word| mnemonic.modifiers.has(word);
        mnemonic.opcode == Opcode::Mbarrier && (has(Modifier::TryWait) || has(Modifier::TestWait))
    };
    if function.has_mnemonic(asks) {
        findings.refute(WAITED);
    }
    for (_, instruction) in function.instructions_with(|mnemonic, _| at_mbarrier(mnemonic)) {
        findings
            .add_unless(
                &[WAITED],
                instruction.opcode_span,
                "nothing in the module waits at an mbarrier, so nobody knows when this copy is \
                 done",
            )
            .help("wait with `mbarrier.try_wait` before what was copied is read");
    }
}
