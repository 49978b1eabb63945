//! An mbarrier of which one phase after the other is waited for by the same parity.

use super::mbarrier_before_init::leads_forward;
use super::mbarriers::{self, MbarrierOperation, MbarrierUse, has_operation, parity, uses};
use crate::flow::{LoopId, Loops};
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};

pub static RULE: Rule = Rule {
    code: Code::new('W', 411),
    name: "repeated-parity",
    summary: "A thread waits for two phases of an mbarrier in a row by the same parity.",
    why: "`mbarrier.try_wait.parity` asks for a phase by its parity, which is 0 for the first \
          phase, 1 for the second, 0 again for the third. Asked for the parity of the phase \
          before, it answers at once, and what the thread then reads has not come yet.\n\n\
          Reported are parities that are numbers: in a loop in which the mbarrier completes one \
          phase in each turn and all waits for it name one parity, and in two waits of which the \
          first always comes before the other, where one phase completes between; and a wait for \
          parity 1 behind the one arrival of the first phase. mbarriers are \
          told apart by variable and constant offset. A kernel has no finding for an mbarrier \
          that several instructions arrive at in a turn, or that something arrives at by an \
          address that is not known; nothing is said of a phase that is begun before all have \
          waited for the last one. (PTX ISA, \"mbarrier: Phase of the mbarrier object\", \
          \"mbarrier.test_wait, mbarrier.try_wait\".)",
    instead: "Turn the parity round after each wait: `xor.b32 parity, parity, 1`.",
    bad: "\
.entry k(.param .u64 src, .param .u32 count)
{
	.reg .pred p, first;
	.reg .b32 t, i, n;
	.reg .b64 in;
	.shared .align 16 .b8 tile[64];
	.shared .align 8 .b64 bar;
	ld.param.u64 in, [src];
	ld.param.u32 n, [count];
	cvta.to.global.u64 in, in;
	mov.u32 t, %tid.x;
	setp.eq.u32 first, t, 0;
	@first mbarrier.init.shared.b64 [bar], 1;
	bar.sync 0;
	mov.b32 i, 0;
LOOP:
	@!first bra WAIT;
	mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [in], 64, [bar];
WAIT:
	mbarrier.try_wait.parity.shared.b64 p, [bar], 0;
	@!p bra WAIT;
	bar.sync 0;
	add.u32 i, i, 1;
	setp.lt.u32 p, i, n;
	@p bra LOOP;
	ret;
}
",
    good: "\
.entry k(.param .u64 src, .param .u32 count)
{
	.reg .pred p, first;
	.reg .b32 t, i, n, parity;
	.reg .b64 in;
	.shared .align 16 .b8 tile[64];
	.shared .align 8 .b64 bar;
	ld.param.u64 in, [src];
	ld.param.u32 n, [count];
	cvta.to.global.u64 in, in;
	mov.u32 t, %tid.x;
	setp.eq.u32 first, t, 0;
	@first mbarrier.init.shared.b64 [bar], 1;
	bar.sync 0;
	mov.b32 i, 0;
	mov.b32 parity, 0;
LOOP:
	@!first bra WAIT;
	mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [in], 64, [bar];
WAIT:
	mbarrier.try_wait.parity.shared.b64 p, [bar], parity;
	@!p bra WAIT;
	bar.sync 0;
	xor.b32 parity, parity, 1;
	add.u32 i, i, 1;
	setp.lt.u32 p, i, n;
	@p bra LOOP;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

/// So many uses of mbarriers in a kernel are looked at.
const MANY: usize = 64;

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    if !has_operation(function, MbarrierOperation::Wait)
        || !has_operation(function, MbarrierOperation::Arrive)
    {
        return;
    }
    let all = uses(function);
    let (Some(flow), false) = (function.flow(), all.is_empty() || all.len() > MANY) else {
        return;
    };
    let Some(loops) = function.loops() else {
        return;
    };
    let phases = Phases {
        function,
        flow,
        loops,
        all: &all,
    };
    let waits = all
        .iter()
        .filter(|one| one.operation == MbarrierOperation::Wait && one.place.is(&one.place));
    for wait in waits {
        let Some(number) = parity(function, wait.instruction) else {
            continue;
        };
        let name = mbarriers::name(function, &wait.place);
        let message = if phases.repeats_in_loop(wait, number) {
            format!(
                "the loop waits for parity {number} of {name} in each turn, and a phase has the \
                 other parity than the one before: in the next turn this does not wait"
            )
        } else if let Some(earlier) = phases.repeats(wait, number) {
            format!(
                "line {} has waited for parity {number} of {name} already, and the phase after \
                 that has the other one: this does not wait for it",
                function.line(earlier.instruction.span)
            )
        } else if number == 1 && phases.is_first(wait) {
            format!("the first phase of {name} has parity 0: this does not wait for it")
        } else {
            continue;
        };
        findings
            .add(wait.instruction.opcode_span, message)
            .help("turn the parity round after each wait");
    }
}

struct Phases<'c, 'm, 'a> {
    function: &'c FunctionContext<'m, 'a>,
    flow: &'c Flow<'m, 'a>,
    loops: &'c Loops,
    all: &'c [MbarrierUse<'m>],
}

impl<'c, 'm> Phases<'c, 'm, '_> {
    /// What is done to the mbarrier that a wait is for, besides waits; `None` if something
    /// else may be done to it.
    fn others(&self, wait: &MbarrierUse<'m>) -> Option<Vec<&'c MbarrierUse<'m>>> {
        let is_open = mbarriers::is_open(self.function);
        let others = self.all.iter().filter(|one| {
            matches!(
                one.operation,
                MbarrierOperation::Arrive | MbarrierOperation::Init | MbarrierOperation::Other
            ) && one.place.may_be(&wait.place, &is_open)
        });
        let others: Vec<_> = others.collect();
        let known = |one: &&MbarrierUse<'_>| {
            one.operation != MbarrierOperation::Other && one.place.is(&wait.place)
        };
        let initialised = others
            .iter()
            .any(|one| one.operation == MbarrierOperation::Init);
        (initialised && others.iter().all(known)).then_some(others)
    }

    /// Whether an mbarrier completes one phase where this arrives once, as far as is known.
    fn is_one_phase(&self, arrive: &MbarrierUse<'m>, others: &[&MbarrierUse<'m>]) -> bool {
        let mut inits = others
            .iter()
            .filter(|one| one.operation == MbarrierOperation::Init);
        inits.all(|init| {
            let count = mbarriers::count(self.function, init);
            let arrivals = mbarriers::arrivals(self.function, arrive);
            match (count, arrivals) {
                (Some(count), Some(arrivals)) if arrivals.exact => count == arrivals.most,
                // One thread of several that a choice of the device leaves.
                (Some(1), _) => arrive.expects,
                _ => true,
            }
        })
    }

    /// Whether a loop completes a phase in each turn, and waits for this parity alone.
    fn repeats_in_loop(&self, wait: &MbarrierUse<'m>, number: i64) -> bool {
        let Some(others) = self.others(wait) else {
            return false;
        };
        let block = |one: &MbarrierUse<'_>| self.flow.graph.block_of(one.id);
        let arrives = || {
            let others = others.iter();
            others.filter(|one| one.operation == MbarrierOperation::Arrive)
        };
        let mut around = self.loops.around(self.loops.innermost(block(wait)));
        // Around the loop that asks again.
        let Some(id) = around.find(|id| arrives().any(|one| self.loops.contains(*id, block(one))))
        else {
            return false;
        };
        let within = |one: &&MbarrierUse<'_>| self.loops.contains(id, block(one));
        let mut arriving = arrives().copied().filter(|one| within(one));
        let (Some(arrive), None) = (arriving.next(), arriving.next()) else {
            return false;
        };
        let again = others
            .iter()
            .any(|one| one.operation == MbarrierOperation::Init && within(one));
        let mut waits = self.all.iter().filter(|one| {
            one.operation == MbarrierOperation::Wait && one.place.is(&wait.place) && within(one)
        });
        !again
            && waits.all(|one| parity(self.function, one.instruction) == Some(number))
            && self.loops.innermost(block(arrive)) == Some(id)
            && self.is_each_turn(id, wait)
            && self.is_each_turn(id, arrive)
            && self.is_one_phase(arrive, &others)
    }

    /// Whether threads execute it in each turn of a loop, if they do in one.
    fn is_each_turn(&self, id: LoopId, one: &MbarrierUse<'_>) -> bool {
        let flow = self.flow;
        let graph = &flow.graph;
        let fixed = |guard| match flow.values.definition(guard) {
            Some(crate::flow::Definition::Written(id_of)) => {
                !self.loops.contains(id, graph.block_of(id_of))
            }
            Some(crate::flow::Definition::Phi(block)) => !self.loops.contains(id, block),
            _ => true,
        };
        let step = &flow.instructions.steps[one.id.index()];
        let guard = flow.values.guard(&flow.instructions, step);
        let around = self.loops.get(id);
        let mut at = graph.block_of(one.id);
        for _ in 0..MANY {
            if around
                .latches
                .iter()
                .all(|latch| graph.dominates(at, *latch))
            {
                return guard.is_none_or(fixed);
            }
            at = graph.dominator(at);
            let last = graph.blocks[at.index()].steps().next_back();
            let step = last.map(|last| &flow.instructions.steps[last.index()]);
            let branch = step.and_then(|step| flow.values.guard(&flow.instructions, step));
            if !branch.is_some_and(fixed) {
                return false;
            }
        }
        false
    }

    /// Whether a wait has no loop around it but one that asks again, nor anything else that is
    /// done to its mbarrier.
    fn is_straight(&self, wait: &MbarrierUse<'_>, others: &[&MbarrierUse<'_>]) -> bool {
        let block = |one: &MbarrierUse<'_>| self.flow.graph.block_of(one.id);
        let around = self.loops.innermost(block(wait));
        let asks_again = around.is_none_or(|id| self.loops.get(id).parent.is_none());
        let mut within = others.iter().map(|one| self.loops.innermost(block(one)));
        asks_again && within.all(|around| around.is_none())
    }

    /// Whether a wait comes behind the one arrival of the first phase.
    fn is_first(&self, wait: &MbarrierUse<'m>) -> bool {
        let Some(others) = self.others(wait) else {
            return false;
        };
        let arrives = others
            .iter()
            .filter(|one| one.operation == MbarrierOperation::Arrive);
        let mut before = arrives.filter(|one| leads_forward(self.flow, one.id, wait.id));
        let (Some(arrive), None) = (before.next(), before.next()) else {
            return false;
        };
        self.is_straight(wait, &others) && self.is_one_phase(arrive, &others)
    }

    /// A wait for the same parity that always comes before, with one phase completed between.
    fn repeats(&self, wait: &MbarrierUse<'m>, number: i64) -> Option<&'c MbarrierUse<'m>> {
        let others = self.others(wait)?;
        let flow = self.flow;
        let block = |one: &MbarrierUse<'_>| flow.graph.block_of(one.id);
        let is_earlier = |earlier: &&MbarrierUse<'m>| {
            earlier.operation == MbarrierOperation::Wait
                && earlier.place.is(&wait.place)
                && parity(self.function, earlier.instruction) == Some(number)
                && block(earlier) != block(wait)
                && flow.graph.dominates(block(earlier), block(wait))
                && self.is_straight(earlier, &others)
        };
        if !self.is_straight(wait, &others) {
            return None;
        }
        let mut earlier = self.all.iter().filter(is_earlier);
        earlier.find(|earlier| {
            let mut between = others.iter().filter(|one| {
                leads_forward(flow, earlier.id, one.id) && leads_forward(flow, one.id, wait.id)
            });
            match (between.next(), between.next()) {
                (Some(one), None) => {
                    one.operation == MbarrierOperation::Arrive && self.is_one_phase(one, &others)
                }
                _ => false,
            }
        })
    }
}
