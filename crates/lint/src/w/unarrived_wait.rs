//! A wait for a phase of an mbarrier at which nobody arrives.

use super::mbarriers::{self, MbarrierOperation, MbarrierUse, has_operation, uses};
use crate::flow::{Definition, ValueId};
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};

pub static RULE: Rule = Rule {
    code: Code::new('W', 408),
    name: "unarrived-wait",
    summary: "A thread waits for the first phase of an mbarrier at which nothing in the kernel \
              arrives, or too few do.",
    why: "A phase is complete when as many have arrived as `mbarrier.init` says, which is one at \
          least: the bytes of a copy alone do not complete it. With fewer arrivals the wait never \
          ends.\n\n\
          mbarriers are told apart by variable and constant offset. Reported are waits for parity \
          0 at first: that of 1 is complete from the start. Arrivals are counted where no loop is \
          around them, as the threads that may come to them in the largest block that \
          `.reqntid` or `.maxntid` allows, or any device. A kernel has no finding where \
          something arrives at an address that is not known, as in another block of a cluster, or \
          where a function that it calls may do so. (PTX ISA, \"mbarrier: Phase of the mbarrier \
          object\".)",
    instead: "Let those that the wait is for execute `mbarrier.arrive`, or \
              `mbarrier.arrive.expect_tx` before a copy.",
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
	mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 64;
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
    if !has_operation(function, MbarrierOperation::Wait) {
        return;
    }
    let Some(flow) = function.flow() else {
        return;
    };
    let all = uses(function);
    let is_open = mbarriers::is_open(function);
    for wait in all
        .iter()
        .filter(|one| one.operation == MbarrierOperation::Wait)
    {
        let of = |operation| {
            let uses = all.iter().filter(move |one| one.operation == operation);
            uses.filter(|one| one.place.may_be(&wait.place, &is_open))
        };
        // Who initialises it may let others use it that are not seen here.
        let initialised =
            of(MbarrierOperation::Init).any(|init| init.place.variable == wait.place.variable);
        if wait.place.variable.is_none()
            || !initialised
            || of(MbarrierOperation::Other).next().is_some()
            || !begins_at_zero(function, flow, wait)
        {
            continue;
        }
        let name = mbarriers::name(function, &wait.place);
        let arriving: Vec<_> = of(MbarrierOperation::Arrive).collect();
        let message = match &arriving[..] {
            [] => format!("this never ends: nothing arrives at {name}"),
            _ => {
                let inits: Vec<_> = of(MbarrierOperation::Init).collect();
                let Some((count, most)) = too_few(function, flow, wait, &inits, &arriving) else {
                    continue;
                };
                format!(
                    "this never ends: {name} waits for {count} arrivals, and at most {most} come"
                )
            }
        };
        findings
            .add(wait.instruction.opcode_span, message)
            .help("let those that it waits for execute `mbarrier.arrive`");
    }
}

/// How many have to arrive for the first phase, and how many do at most, if that is less.
fn too_few(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    wait: &MbarrierUse<'_>,
    inits: &[&MbarrierUse<'_>],
    arriving: &[&MbarrierUse<'_>],
) -> Option<(u32, u32)> {
    let mut all = inits.iter().chain(arriving);
    if !all.all(|one| one.place.is(&wait.place)) {
        return None;
    }
    let loops = function.loops()?;
    let within = |one: &&MbarrierUse<'_>| loops.innermost(flow.graph.block_of(one.id)).is_some();
    if arriving.iter().any(within) {
        return None;
    }
    let counts = inits.iter().map(|init| mbarriers::count(function, init));
    let count = counts.reduce(|a, b| Some(a?.min(b?)))??;
    let mut most = 0_u32;
    for arrive in arriving {
        most = most.saturating_add(mbarriers::arrivals(function, arrive)?.most);
    }
    (most < count).then_some((count, most))
}

/// Whether the parity that is waited for is 0 at first.
fn begins_at_zero(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    wait: &MbarrierUse<'_>,
) -> bool {
    let Some(place) = mbarriers::parity_operand(function, wait.instruction) else {
        return false;
    };
    if let Some(parity) = mbarriers::parity(function, wait.instruction) {
        return parity == 0;
    }
    let value = flow.values.of_operand(place);
    let first = first_of(flow, value).and_then(|first| function.linear_of(first));
    first.and_then(|first| first.as_number()) == Some(0)
}

/// The value that the phi of a loop has in its first turn.
fn first_of(flow: &Flow<'_, '_>, value: ValueId) -> Option<ValueId> {
    let Some(Definition::Phi(head)) = flow.values.definition(value) else {
        return None;
    };
    let parts = flow.values.phi_operands(&flow.graph, value);
    let before = flow.graph.predecessors(head).zip(parts);
    let mut entering = before.filter(|(from, _)| !flow.graph.dominates(head, *from));
    let (_, first) = entering.next()?;
    entering.all(|(_, part)| part == first).then_some(*first)
}
