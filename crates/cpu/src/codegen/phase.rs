//! Phases: what threads do from one barrier to the next, where lane groups can do it together.
//!
//! Groups that resume together compute once what is the same for all. In a counted loop, what they
//! sum is a chain of operations for each, which do not wait for one another. And what they read
//! there at one address is loaded once, such as the rows of a tile that each row of threads
//! multiplies with its own.

use super::counted_loop::{CountedLoop, LoopAccess};
use super::emitter::Emitter;
use super::resume::{ResumePlan, ResumePoint};
use super::vectorize::{Lowering, lowering};
use crate::program::{
    Arg, Base, BlockId, Guard, Instruction, Program, Reg, RegisterSet, Step, Storage, Terminator,
    Uniformity, block_frequencies,
};
use ptx::isa::Effect;
use ptx::names::{Opcode as O, SpecialRegister as S};

/// Groups that do together a phase without a loop.
pub(super) const GROUPS: u32 = 4;
/// Blocks in front of a loop, and behind it.
const MAX_BLOCKS: usize = 4;
/// Vectors that the loop of two groups may carry from iteration to iteration: half of the vector
/// registers, as others hold what is loaded.
const MAX_CARRIED: usize = 8;
/// Steps of each group by itself, behind the loop.
const MAX_STEPS: usize = 32;

/// A way from a barrier to the next.
pub(super) struct Phase<'p> {
    /// The blocks up to the loop, or up to the last branch, and the conditions by which they are
    /// left on this way. They have no effect.
    pub before: Vec<BlockId>,
    pub conditions: Vec<Condition>,
    pub counted: Option<&'p CountedLoop>,
    pub after: Vec<BlockId>,
    /// The state of the threads behind it.
    pub state: u32,
    /// The registers of which each group has its own value.
    pub own: RegisterSet,
    /// The others that it reads of those that the groups have saved.
    pub common: Vec<Reg>,
    /// Cranelift has enough vector registers for two groups in the loop.
    pub fits_vectors: bool,
}

/// What a predicate must be at the end of a block.
#[derive(Clone, Copy)]
pub(super) struct Condition {
    pub block: BlockId,
    pub guard: Guard,
}

impl Phase<'_> {
    /// The steps of the loop that have an effect.
    pub fn live_steps<'s>(&'s self, program: &'s Program<'_>) -> Vec<&'s Step> {
        let Some(counted) = self.counted else {
            return Vec::new();
        };
        let numbered = steps_of(program, &counted.blocks).enumerate();
        let live = numbered.filter(|(number, _)| counted.dead.binary_search(number).is_err());
        live.map(|(_, step)| step).collect()
    }

    /// Whether a register is read anywhere.
    pub fn reads(&self, program: &Program<'_>, reg: Reg) -> bool {
        let mut conditions = self.conditions.iter();
        conditions.any(|condition| condition.guard.reg == reg)
            || self
                .steps(program)
                .any(|step| reads(program, step, |r| r == reg))
    }

    pub fn writes(&self, program: &Program<'_>, reg: Reg) -> bool {
        self.steps(program)
            .any(|step| writes(program, step, |r| r == reg))
    }

    /// Whether it is read in front of the loop.
    pub fn reads_before(&self, program: &Program<'_>, reg: Reg) -> bool {
        steps_of(program, &self.before).any(|step| reads(program, step, |r| r == reg))
    }

    pub fn writes_before(&self, program: &Program<'_>, reg: Reg) -> bool {
        steps_of(program, &self.before).any(|step| writes(program, step, |r| r == reg))
    }

    /// Whether it is read or saved behind the loop, before the barrier.
    pub fn reads_after(&self, program: &Program<'_>, plan: &ResumePlan, reg: Reg) -> bool {
        let mut blocks = self.after.iter();
        blocks.any(|block| plan.saved[block.index()].contains(&reg))
            || steps_of(program, &self.after).any(|step| reads(program, step, |r| r == reg))
    }

    pub fn writes_after(&self, program: &Program<'_>, reg: Reg) -> bool {
        steps_of(program, &self.after).any(|step| writes(program, step, |r| r == reg))
    }

    fn steps<'s>(&'s self, program: &'s Program<'_>) -> impl Iterator<Item = &'s Step> {
        let inside: &[BlockId] = self.counted.map_or(&[], |counted| &counted.blocks);
        let blocks = self.before.iter().chain(inside).chain(&self.after);
        steps_of(program, blocks)
    }

    /// Whether each group has to execute a step.
    pub fn is_own(&self, program: &Program<'_>, step: &Step) -> bool {
        let known = |operands| is_known(self.counted, operands);
        has_effect(program, step, &known) || writes(program, step, |reg| self.own.contains(reg))
    }
}

/// The phase that starts at a resume point, if groups can run it together.
pub(super) fn find<'p>(
    e: &Emitter<'_, '_>,
    plan: &'p ResumePlan,
    point: &ResumePoint,
) -> Option<Phase<'p>> {
    let program = e.program;
    let has_results = |at: BlockId| match &program.blocks[at.index()].terminator {
        Terminator::Sync { instruction, .. } => {
            let mut found = false;
            program.effects(instruction, &mut |_| {}, &mut |_| found = true);
            found
        }
        _ => false,
    };
    if e.is_sanitized || !plan.interchanged.is_empty() || point.sync.is_none_or(has_results) {
        return None;
    }
    let (way, end) = way(program, plan, point.next, MAX_BLOCKS)?;
    let Way {
        before,
        conditions,
        counted,
        after,
    } = way;
    let sync = plan.sync_points[end as usize];
    if sync.barrier.is_none() || plan.resume_points[end as usize].is_passed {
        return None;
    }
    let inside: &[BlockId] = counted.map_or(&[], |counted| &counted.blocks);
    let known = |operands| is_known(counted, operands);
    let is_checked = |block: &&BlockId| {
        !plan.checks[block.index()].is_empty() || !plan.together.blocks[block.index()].is_empty()
    };
    // Saved in front of the loop, a register would not be what it was where the groups part.
    let saves = |block: &BlockId| !plan.saved[block.index()].is_empty();
    let pure = || before.iter().chain(inside);
    let all = || pure().chain(&after);
    let steps = || steps_of(program, all());
    let is_pure = steps_of(program, pure()).all(|step| !has_effect(program, step, &known));
    if all().any(|block| is_checked(&block))
        || pure().any(saves)
        || !is_pure
        || !steps().all(|step| is_simple(e, step))
    {
        return None;
    }

    let mut own = RegisterSet::new(program.registers.len());
    add_own(e, point, steps(), &known, &mut own);
    // What the groups do one after the other.
    let in_turn: &[BlockId] = match counted {
        Some(_) => &after,
        None => &[before.as_slice(), &after].concat(),
    };
    while spread(program, steps(), &mut own) || add_changing(program, in_turn, &known, &mut own) {}
    let is_common = |condition: &Condition| {
        let reg = condition.guard.reg;
        !own.contains(reg) && e.locations[reg.index()].uniformity == Uniformity::Uniform
    };
    let pays = match counted {
        Some(counted) => is_loop_common(counted, &own),
        // What runs once is not worth its size.
        None => has_groups(e, GROUPS) && block_frequencies(program)[after[0].index()] > 1,
    };
    if !conditions.iter().all(is_common) || !pays {
        return None;
    }
    let mut phase = Phase {
        before,
        conditions,
        counted,
        after,
        state: end + 1,
        own,
        common: Vec::new(),
        fits_vectors: counted.is_some_and(|counted| carried(e, plan, counted) <= MAX_CARRIED),
    };
    let common = point.reload.iter().copied();
    let common = common.filter(|&reg| !phase.own.contains(reg) && phase.reads(program, reg));
    phase.common = common.collect();
    let after = steps_of(program, &phase.after);
    let own_steps = after.filter(|step| phase.is_own(program, step));
    (own_steps.count() <= MAX_STEPS).then_some(phase)
}

struct Way<'p> {
    before: Vec<BlockId>,
    conditions: Vec<Condition>,
    counted: Option<&'p CountedLoop>,
    after: Vec<BlockId>,
}

/// A way from a block on to a sync point, of which it returns the number.
fn way<'p>(
    program: &Program<'_>,
    plan: &'p ResumePlan,
    from: BlockId,
    most: usize,
) -> Option<(Way<'p>, u32)> {
    let mut loops = plan.together.loops.iter();
    if let Some(counted) = loops.find(|counted| counted.blocks.contains(&from)) {
        if counted.blocks[0] != from {
            return None;
        }
        let (after, end) = behind(program, plan, counted.exit)?;
        let way = Way {
            before: Vec::new(),
            conditions: Vec::new(),
            counted: Some(counted),
            after,
        };
        return Some((way, end));
    }
    let next = |at| {
        let (way, end) = way(program, plan, at, most.checked_sub(1)?)?;
        let comes_back = way.before.contains(&from) || way.after.contains(&from);
        (!comes_back).then_some((way, end))
    };
    match program.blocks[from.index()].terminator {
        Terminator::Jump(to) => {
            // Without a loop, and without a branch, all of it may have effects.
            let (mut way, end) = next(to)?;
            match way.counted.is_some() || !way.conditions.is_empty() {
                true => way.before.insert(0, from),
                false => way.after.insert(0, from),
            }
            Some((way, end))
        }
        Terminator::Branch {
            predicate,
            then,
            otherwise,
        } => {
            let ways = [(then, predicate.negated), (otherwise, !predicate.negated)];
            let ways = ways.map(|(to, negated)| {
                let (mut way, end) = next(to)?;
                way.before.insert(0, from);
                let reg = predicate.reg;
                let guard = Guard { reg, negated };
                way.conditions.push(Condition { block: from, guard });
                Some((way, end))
            });
            // Most of the time is spent in loops.
            let [first, second] = ways;
            let has_loop = |way: &Option<(Way<'_>, u32)>| {
                way.as_ref().is_some_and(|(way, _)| way.counted.is_some())
            };
            match !has_loop(&first) && has_loop(&second) {
                true => second,
                false => first.or(second),
            }
        }
        Terminator::Sync { .. } => {
            let way = Way {
                before: Vec::new(),
                conditions: Vec::new(),
                counted: None,
                after: vec![from],
            };
            Some((way, plan.sync_at[from.index()]?))
        }
        _ => None,
    }
}

/// The blocks from one on that jump to the next, up to a sync point, of which it returns the number.
fn behind(program: &Program<'_>, plan: &ResumePlan, from: BlockId) -> Option<(Vec<BlockId>, u32)> {
    let mut blocks = vec![from];
    loop {
        let at = *blocks.last()?;
        match program.blocks[at.index()].terminator {
            Terminator::Jump(next) if blocks.len() < MAX_BLOCKS => blocks.push(next),
            Terminator::Sync { .. } => return Some((blocks, plan.sync_at[at.index()]?)),
            _ => return None,
        }
    }
}

fn steps_of<'s>(
    program: &'s Program<'_>,
    blocks: impl IntoIterator<Item = &'s BlockId>,
) -> impl Iterator<Item = &'s Step> {
    let blocks = blocks.into_iter();
    blocks.flat_map(|block| &program.blocks[block.index()].steps)
}

/// Whether a block may have so many groups.
fn has_groups(e: &Emitter<'_, '_>, groups: u32) -> bool {
    let threads = e.program.block_threads();
    threads.is_none_or(|threads| threads >= groups * e.width)
}

/// Whether the groups agree on how often the loop runs, and load vectors at the same addresses.
fn is_loop_common(counted: &CountedLoop, own: &RegisterSet) -> bool {
    let is_own = |arg: Arg| matches!(arg, Arg::Reg(reg) if own.contains(reg));
    let counts_alike = !own.contains(counted.count.counter) && !is_own(counted.count.bound);
    let accesses = counted.accesses.iter();
    let mut common_accesses = accesses.filter(|access| !own.contains(access.access.base));
    let is_vector = |access: &LoopAccess| access.access.bytes > 16;
    counts_alike && common_accesses.any(is_vector)
}

/// The vectors that the loop of two groups carries from iteration to iteration.
fn carried(e: &Emitter<'_, '_>, plan: &ResumePlan, counted: &CountedLoop) -> usize {
    let mut written = RegisterSet::new(e.program.registers.len());
    for step in steps_of(e.program, &counted.blocks) {
        let program = e.program;
        program.step_effects(step, &mut |_| {}, &mut |reg| written.insert(reg));
    }
    let live = plan.liveness.live_in(counted.blocks[0]).iter();
    let carried = live.filter(|reg| written.contains(**reg));
    let locations = carried.map(|reg| &e.locations[reg.index()]);
    let divergent = locations.filter(|location| location.uniformity == Uniformity::Divergent);
    divergent.map(|location| 2 * location.variables.len()).sum()
}

/// Whether a step needs nothing but registers and memory, and has vectors.
fn is_simple(e: &Emitter<'_, '_>, step: &Step) -> bool {
    let Step::Instruction(i) = step else {
        return false;
    };
    let uniformity = |reg: Reg| e.locations[reg.index()].uniformity;
    matches!(
        i.meaning.effect,
        Effect::Pure | Effect::Load | Effect::Store
    ) && !reads_special(e.program, e.program.list(i.args))
        && lowering(e.program, &uniformity, step, e.has_fma) != Lowering::Scalarized
}

/// Whether an access, by its operands, is a load of the loop, which writes nothing.
fn is_known(counted: Option<&CountedLoop>, operands: u32) -> bool {
    let accesses = counted.map_or(&[][..], |counted| &counted.accesses);
    let mut accesses = accesses.iter();
    accesses.any(|known| known.access.operands == operands)
}

/// Whether the result of a step depends on when it is executed, or that of others on it. Some loads,
/// by their operands, are known to find what nothing changes.
fn has_effect(program: &Program<'_>, step: &Step, known: &dyn Fn(u32) -> bool) -> bool {
    match step {
        Step::Instruction(i) => match i.meaning.effect {
            Effect::Pure => false,
            Effect::Load => !known(i.args.start) && !is_parameter(program, i),
            _ => true,
        },
        Step::SystemCall { .. } => true,
    }
}

/// Whether a load is one of a parameter of the kernel.
fn is_parameter(program: &Program<'_>, i: &Instruction) -> bool {
    i.opcode == O::Ld
        && matches!(
            program.list(i.args),
            [_, Arg::Address(Base::Storage(Storage::Param(_)), _)]
                | [_, Arg::Symbol(Storage::Param(_), _)]
        )
}

fn reads_special(program: &Program<'_>, args: &[Arg]) -> bool {
    args.iter().any(|arg| match *arg {
        Arg::Special(_) => true,
        Arg::List(list) => reads_special(program, program.list(list)),
        _ => false,
    })
}

/// Adds the registers that change after a step of each group has read them: what the groups have in
/// common is computed for the first, and the others would find the last value. Whether there was
/// any.
fn add_changing(
    program: &Program<'_>,
    blocks: &[BlockId],
    known: &dyn Fn(u32) -> bool,
    own: &mut RegisterSet,
) -> bool {
    let mut added = false;
    let mut read = RegisterSet::new(program.registers.len());
    for step in steps_of(program, blocks) {
        let is_own =
            has_effect(program, step, known) || writes(program, step, |reg| own.contains(reg));
        let mut written = Vec::new();
        program.step_effects(
            step,
            &mut |reg| {
                if is_own {
                    read.insert(reg);
                }
            },
            &mut |reg| written.push(reg),
        );
        for reg in written {
            if read.contains(reg) && !own.contains(reg) {
                own.insert(reg);
                added = true;
            }
        }
    }
    added
}

/// Adds the registers of which each group has its own value, among those of these steps.
fn add_own<'s>(
    e: &Emitter<'_, '_>,
    point: &ResumePoint,
    steps: impl Iterator<Item = &'s Step>,
    known: &dyn Fn(u32) -> bool,
    own: &mut RegisterSet,
) {
    let program = e.program;
    let differs = differs(program, e.width);
    for &reg in &point.reload {
        if e.locations[reg.index()].uniformity == Uniformity::Divergent || differs.contains(reg) {
            own.insert(reg);
        }
    }
    for step in steps {
        if has_effect(program, step, known) {
            program.step_effects(step, &mut |_| {}, &mut |reg| own.insert(reg));
        }
    }
}

/// Adds what is computed from registers of a set to it; whether there was any.
fn spread<'s>(
    program: &Program<'_>,
    steps: impl Iterator<Item = &'s Step>,
    set: &mut RegisterSet,
) -> bool {
    let mut added = false;
    for step in steps {
        if !reads(program, step, |reg| set.contains(reg)) {
            continue;
        }
        program.step_effects(step, &mut |_| {}, &mut |reg| {
            added |= !set.contains(reg);
            set.insert(reg);
        });
    }
    added
}

fn reads(program: &Program<'_>, step: &Step, of: impl Fn(Reg) -> bool) -> bool {
    let mut reads = false;
    program.step_effects(step, &mut |reg| reads |= of(reg), &mut |_| {});
    reads
}

fn writes(program: &Program<'_>, step: &Step, of: impl Fn(Reg) -> bool) -> bool {
    let mut writes = false;
    program.step_effects(step, &mut |_| {}, &mut |reg| writes |= of(reg));
    writes
}

/// The registers that probably differ between the groups of a block: they are computed from the
/// position of a thread in it.
fn differs(program: &Program<'_>, width: u32) -> RegisterSet {
    // In a plane, each row of the block may be one group.
    let has_rows = match program.block {
        Some([x, ..]) => x == width,
        None => program.args.contains(&Arg::Special(S::TidY)),
    };
    let is_position = |arg: &Arg| match arg {
        Arg::Special(S::TidX) => !has_rows,
        Arg::Special(S::TidY | S::TidZ | S::Laneid | S::Warpid) => true,
        _ => false,
    };
    let mut differs = RegisterSet::new(program.registers.len());
    let steps = || program.blocks.iter().flat_map(|block| &block.steps);
    for step in steps() {
        if let Step::Instruction(i) = step
            && program.list(i.args).iter().any(is_position)
        {
            program.step_effects(step, &mut |_| {}, &mut |reg| differs.insert(reg));
        }
    }
    while spread(program, steps(), &mut differs) {}
    differs
}
