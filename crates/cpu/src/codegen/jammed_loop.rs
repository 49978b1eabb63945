//! Counted loops that lane groups can run together.
//!
//! What groups sum in the loop is a chain of operations for each, which do not wait for one another.
//! And what they read at one address is loaded once, such as the rows of a tile that each row of
//! threads multiplies with its own.

use super::counted_loop::{CountedLoop, LoopAccess};
use super::emitter::Emitter;
use super::resume::{ResumePlan, ResumePoint};
use super::vectorize::{Lowering, lowering};
use crate::program::{Arg, BlockId, Program, Reg, RegisterSet, Step, Terminator, Uniformity};
use ptx::isa::Effect;
use ptx::names::SpecialRegister as S;

/// Blocks in front of the loop, and behind it.
const MAX_BLOCKS: usize = 4;
/// Vectors that the loop of two groups may carry from iteration to iteration: half of the vector
/// registers, as others hold what is loaded.
const MAX_CARRIED: usize = 8;

/// What threads do from one barrier to the next: a counted loop, and around it nothing that has an
/// effect.
pub(super) struct JammedLoop<'p> {
    pub before: Vec<BlockId>,
    pub counted: &'p CountedLoop,
    pub after: Vec<BlockId>,
    /// The state of the threads behind it.
    pub state: u32,
    /// The registers of which each group has its own value.
    pub own: RegisterSet,
    /// The others of those that the groups have saved.
    pub common: Vec<Reg>,
    /// Cranelift has enough vector registers for two groups.
    pub fits_vectors: bool,
}

impl JammedLoop<'_> {
    /// The steps of the loop that have an effect.
    pub fn live_steps<'s>(&self, program: &'s Program<'_>) -> Vec<&'s Step> {
        let blocks = self.counted.blocks.iter();
        let steps = blocks.flat_map(|block| &program.blocks[block.index()].steps);
        let numbered = steps.enumerate();
        let live = numbered.filter(|(number, _)| self.counted.dead.binary_search(number).is_err());
        live.map(|(_, step)| step).collect()
    }
}

/// The loop that groups can run together from a resume point on.
pub(super) fn find<'p>(
    e: &Emitter<'_, '_>,
    plan: &'p ResumePlan,
    point: &ResumePoint,
) -> Option<JammedLoop<'p>> {
    if e.is_sanitized || !plan.interchanged.is_empty() || point.sync.is_none() {
        return None;
    }
    let program = e.program;
    let is_head = |at: BlockId| {
        let mut loops = plan.together.loops.iter();
        loops.find(|counted| counted.blocks[0] == at)
    };
    let (before, counted) = way(program, point.next, is_head)?;
    let ends = |at: BlockId| match &program.blocks[at.index()].terminator {
        Terminator::Sync { .. } => plan.sync_at[at.index()],
        _ => None,
    };
    let (mut after, (last, end)) = way(program, counted.exit, |at| Some((at, ends(at)?)))?;
    after.push(last);
    let sync = plan.sync_points[end as usize];
    if sync.barrier.is_none() || plan.resume_points[end as usize].is_passed {
        return None;
    }

    let blocks = || before.iter().chain(&counted.blocks).chain(&after);
    let steps = || blocks().flat_map(|block| &program.blocks[block.index()].steps);
    let known = |operands| {
        counted
            .accesses
            .iter()
            .any(|a| a.access.operands == operands)
    };
    let is_checked = |block: &BlockId| !plan.checks[block.index()].is_empty();
    // Saved in front of the loop, a register would not be what it was where the groups part.
    let saves = |block: &BlockId| !plan.saved[block.index()].is_empty();
    if blocks().any(is_checked)
        || before.iter().chain(&counted.blocks).any(saves)
        || !steps().all(|step| is_jammable(e, step, known))
    {
        return None;
    }

    let own = own(e, point, steps());
    let is_own = |arg: Arg| matches!(arg, Arg::Reg(reg) if own.contains(reg));
    let counts_alike = !own.contains(counted.count.counter) && !is_own(counted.count.bound);
    let accesses = counted.accesses.iter();
    let mut common_accesses = accesses.filter(|access| !own.contains(access.access.base));
    let is_vector = |access: &LoopAccess| access.access.bytes > 16;
    let live = plan.liveness.live_in(counted.blocks[0]);
    let mut written = RegisterSet::new(program.registers.len());
    let inside = counted.blocks.iter();
    for step in inside.flat_map(|block| &program.blocks[block.index()].steps) {
        program.step_effects(step, &mut |_| {}, &mut |reg| written.insert(reg));
    }
    let carried = live.iter().filter(|reg| written.contains(**reg));
    let carried = carried.map(|reg| &e.locations[reg.index()]);
    let carried = carried.filter(|location| location.uniformity == Uniformity::Divergent);
    let carried: usize = carried.map(|location| 2 * location.variables.len()).sum();
    if !counts_alike || !common_accesses.any(is_vector) {
        return None;
    }
    let common = point.reload.iter().copied();
    let common = common.filter(|reg| !own.contains(*reg)).collect();
    Some(JammedLoop {
        before,
        counted,
        after,
        state: end + 1,
        own,
        common,
        fits_vectors: carried <= MAX_CARRIED,
    })
}

/// The blocks from one on that jump to the next, up to one at which `end` is found.
fn way<T>(
    program: &Program<'_>,
    from: BlockId,
    end: impl Fn(BlockId) -> Option<T>,
) -> Option<(Vec<BlockId>, T)> {
    let (mut blocks, mut at) = (Vec::new(), from);
    loop {
        if let Some(end) = end(at) {
            return Some((blocks, end));
        }
        match program.blocks[at.index()].terminator {
            Terminator::Jump(next) if blocks.len() < MAX_BLOCKS => {
                blocks.push(at);
                at = next;
            }
            _ => return None,
        }
    }
}

/// Whether a step computes registers from registers, or is a load of the loop that is checked
/// before it starts.
fn is_jammable(e: &Emitter<'_, '_>, step: &Step, known: impl Fn(u32) -> bool) -> bool {
    let Step::Instruction(i) = step else {
        return false;
    };
    let uniformity = |reg: Reg| e.locations[reg.index()].uniformity;
    let effect = match i.meaning.effect {
        Effect::Pure => !reads_special(e.program, e.program.list(i.args)),
        Effect::Load => known(i.args.start),
        _ => false,
    };
    effect && lowering(e.program, &uniformity, step, e.has_fma) != Lowering::Scalarized
}

fn reads_special(program: &Program<'_>, args: &[Arg]) -> bool {
    args.iter().any(|arg| match *arg {
        Arg::Special(_) => true,
        Arg::List(list) => reads_special(program, program.list(list)),
        _ => false,
    })
}

/// The registers of which each group has its own value, among those of these steps.
fn own<'s>(
    e: &Emitter<'_, '_>,
    point: &ResumePoint,
    steps: impl Iterator<Item = &'s Step> + Clone,
) -> RegisterSet {
    let program = e.program;
    let differs = differs(program, e.width);
    let mut own = RegisterSet::new(program.registers.len());
    for &reg in &point.reload {
        if e.locations[reg.index()].uniformity == Uniformity::Divergent || differs.contains(reg) {
            own.insert(reg);
        }
    }
    while spread(program, steps.clone(), &mut own) {}
    own
}

/// Adds what is computed from registers of a set to it; whether there was any.
fn spread<'s>(
    program: &Program<'_>,
    steps: impl Iterator<Item = &'s Step>,
    set: &mut RegisterSet,
) -> bool {
    let mut added = false;
    for step in steps {
        if !reads(program, step, set) {
            continue;
        }
        program.step_effects(step, &mut |_| {}, &mut |reg| {
            added |= !set.contains(reg);
            set.insert(reg);
        });
    }
    added
}

fn reads(program: &Program<'_>, step: &Step, set: &RegisterSet) -> bool {
    let mut reads = false;
    program.step_effects(step, &mut |reg| reads |= set.contains(reg), &mut |_| {});
    reads
}

pub(super) fn writes(program: &Program<'_>, step: &Step, set: &RegisterSet) -> bool {
    let mut writes = false;
    program.step_effects(step, &mut |_| {}, &mut |reg| writes |= set.contains(reg));
    writes
}

/// The registers that probably differ between the groups of a block: they are computed from the
/// position of a thread in it.
fn differs(program: &Program<'_>, width: u32) -> RegisterSet {
    // In a plane, each row of the block may be one group.
    let has_rows = match program.required_threads {
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
