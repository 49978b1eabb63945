//! Unroll and jam: two lane groups run a counted loop together.
//!
//! The loop over groups is unrolled by two, and the copies of the counted loop inside are jammed
//! into one. What a group sums in the loop is a chain of operations, each of which waits for the one
//! before; two groups have two chains. And what both read at one address is loaded once, such as
//! the rows of a tile that each row of threads multiplies with its own.
//!
//! Whether the groups agree on how often the loop runs, and on those addresses, is known when they
//! resume: they compare what they have saved. Where they don't, and where an access may be out of
//! bounds, each runs by itself.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use cranelift_frontend::Variable;

use super::arrival;
use super::checked_address::InBounds;
use super::counted_loop::{CountedLoop, LoopAccess};
use super::emitter::{EmitResult, Emitter, ValueLocation, type_of};
use super::lane_group;
use super::lane_set::{LaneSet, vector_type};
use super::resume::{ResumePlan, ResumePoint};
use super::slots::{reload, save, saved_alike};
use super::steps::{broadcasts_last, emit_step};
use super::unroll::{Pointer, by_twos, in_bounds, is_inside, last_iteration, pointers};
use super::vectorize::{Lowering, lowering};
use crate::program::{
    Arg, BlockId, LoweringError, Program, Reg, RegisterSet, Step, Terminator, Uniformity,
};
use ptx::isa::Effect;
use ptx::names::SpecialRegister as S;

/// Blocks in front of the loop, and behind it.
const MAX_BLOCKS: usize = 4;
/// Vectors that the loop may carry from iteration to iteration: half of the vector registers, as
/// others hold what is loaded.
const MAX_CARRIED: usize = 8;

/// What threads do from one barrier to the next: a counted loop, and around it nothing that has an
/// effect.
pub(super) struct JammedLoop<'p> {
    before: Vec<BlockId>,
    counted: &'p CountedLoop,
    after: Vec<BlockId>,
    /// The state of the threads behind it.
    state: u32,
    /// The registers of which each group has its own value.
    own: RegisterSet,
    /// The others of those that the groups have saved.
    common: Vec<Reg>,
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
    if !counts_alike || !common_accesses.any(is_vector) || carried > MAX_CARRIED {
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

fn writes(program: &Program<'_>, step: &Step, set: &RegisterSet) -> bool {
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

/// What the emitter has of the second group, while it emits for the first.
struct Other {
    locations: Vec<ValueLocation>,
    index: Variable,
    in_bounds: Vec<InBounds>,
}

impl Other {
    fn new(e: &mut Emitter<'_, '_>, jammed: &JammedLoop<'_>) -> Other {
        let mut locations = e.locations.clone();
        for (number, location) in (0..).map(Reg).zip(&mut locations) {
            if !jammed.own.contains(number) {
                continue;
            }
            let class = e.program.registers[number.index()];
            let ty = match location.uniformity {
                Uniformity::Divergent => vector_type(class),
                _ => type_of(class),
            };
            let variables = location.variables.iter_mut();
            variables.for_each(|variable| *variable = e.b.declare_var(ty));
        }
        Other {
            locations,
            index: e.b.declare_var(types::I32),
            in_bounds: Vec::new(),
        }
    }

    /// Emits for the other group.
    fn swapped<T>(
        &mut self,
        e: &mut Emitter<'_, '_>,
        emit: impl FnOnce(&mut Emitter<'_, '_>) -> T,
    ) -> T {
        self.swap(e);
        let result = emit(e);
        self.swap(e);
        result
    }

    fn swap(&mut self, e: &mut Emitter<'_, '_>) {
        std::mem::swap(&mut e.locations, &mut self.locations);
        std::mem::swap(&mut e.thread.index, &mut self.index);
        std::mem::swap(&mut e.in_bounds, &mut self.in_bounds);
        e.splats.clear();
    }
}

/// Has the current group and the next one resume at a point together, if there are two of them up
/// to thread `last`. The current block is then that in which the group resumes by itself.
pub(super) fn emit(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    (point, jammed): (&ResumePoint, &JammedLoop<'_>),
    last: Value,
    errors: &mut Vec<LoweringError>,
) -> EmitResult<()> {
    let [alone, both, starts, done] = [(); 4].map(|()| e.b.create_block());
    let first = e.thread_index();
    let second = e.add_offset(first, e.width.into());
    let behind = e.add_offset(first, 2 * i64::from(e.width));
    let mut good = e.icmp(IntCC::UnsignedLessThanOrEqual, behind, last);
    // The state of one group is noted then, that of the second.
    if let Some(same) = arrival::is_common(e, jammed.state) {
        good = e.b.ins().band(good, same);
    }
    e.b.ins().brif(good, both, &[], alone, &[]);

    e.enter(both);
    let mut other = Other::new(e, jammed);
    e.b.def_var(other.index, second);
    let mut good = saved_alike(e, plan, &jammed.common, [first, second]);
    if let Some(packed) = lane_group::packed_flag(e, plan, second) {
        let packed = e.icmp_imm(IntCC::NotEqual, packed, 0);
        good = e.b.ins().band(good, packed);
    }
    reload(e, plan, &point.reload);
    let own_reloads = point.reload.iter().copied();
    let own_reloads: Vec<Reg> = own_reloads
        .filter(|reg| jammed.own.contains(*reg))
        .collect();
    other.swapped(e, |e| reload(e, plan, &own_reloads));
    for block in &jammed.before {
        steps(e, &mut other, jammed, &block_steps(e, *block), errors);
    }

    e.lane_set = LaneSet::Scalar;
    e.splats.clear();
    let counted = jammed.counted;
    let is_own = |access: &&LoopAccess| jammed.own.contains(access.access.base);
    let iterations = last_iteration(e, &counted.count)?;
    if let Some(counts) = iterations.is_counted {
        good = e.b.ins().band(good, counts);
    }
    for access in &counted.accesses {
        let inside = is_inside(e, access, iterations.number);
        good = e.b.ins().band(good, inside);
        if is_own(&access) {
            let inside = other.swapped(e, |e| is_inside(e, access, iterations.number));
            good = e.b.ins().band(good, inside);
        }
    }
    e.b.ins().brif(good, starts, &[], alone, &[]);

    e.enter(starts);
    let ours = pointers(e, counted.accesses.iter());
    let theirs = other.swapped(e, |e| pointers(e, counted.accesses.iter().filter(is_own)));
    let all: Vec<Pointer> = ours.iter().chain(&theirs).copied().collect();
    let numbered = (0..).zip(
        counted
            .blocks
            .iter()
            .flat_map(|block| block_steps(e, *block)),
    );
    let live = numbered.filter(|(number, _)| counted.dead.binary_search(number).is_err());
    let live: Vec<&Step> = live.map(|(_, step)| step).collect();
    by_twos(e, iterations.number, &all, done, |e| {
        if e.iteration == 0 {
            interleave(e, &other, jammed);
            e.in_bounds.clear();
            in_bounds(e, counted.accesses.iter(), &ours);
            other.in_bounds.clear();
            other.swapped(e, |e| {
                in_bounds(e, counted.accesses.iter().filter(is_own), &theirs)
            });
        }
        steps(e, &mut other, jammed, &live, errors);
    });
    e.in_bounds.clear();
    other.in_bounds.clear();

    e.b.switch_to_block(done);
    interleave(e, &other, jammed);
    let dirty = &plan.resume_points[jammed.state as usize - 1].dirty;
    for block in &jammed.after {
        steps(e, &mut other, jammed, &block_steps(e, *block), errors);
        save(e, plan, &plan.saved[block.index()]);
        other.swapped(e, |e| save(e, plan, &plan.saved[block.index()]));
    }
    save(e, plan, dirty);
    other.swapped(e, |e| save(e, plan, dirty));
    // The rest is as if the second group had run alone.
    let second = e.b.use_var(other.index);
    e.b.def_var(e.thread.index, second);
    if plan.resumes_with_tid {
        e.advance_tid(plan.tid);
    }
    arrival::arrive(e, jammed.state);
    e.b.switch_to_block(alone);
    Ok(())
}

/// Asks for what both groups have at the start of a block, vector by vector. In that order Cranelift
/// computes what the blocks before leave there, and a vector that both load need not be kept.
fn interleave(e: &mut Emitter<'_, '_>, other: &Other, jammed: &JammedLoop<'_>) {
    for (number, theirs) in (0..).map(Reg).zip(&other.locations) {
        if jammed.own.contains(number) && theirs.uniformity == Uniformity::Divergent {
            for n in 0..theirs.variables.len() {
                e.b.use_var(e.locations[number.index()].variables[n]);
                e.b.use_var(theirs.variables[n]);
            }
        }
    }
}

/// Emits steps for both groups: once where their result is the same.
fn steps(
    e: &mut Emitter<'_, '_>,
    other: &mut Other,
    jammed: &JammedLoop<'_>,
    steps: &[&Step],
    errors: &mut Vec<LoweringError>,
) {
    let program = e.program;
    let mut steps = steps.to_vec();
    broadcasts_last(e, &mut steps);
    let is_own = |step: &Step| writes(program, step, &jammed.own);
    for together in steps.chunk_by(|a, b| is_own(a) == is_own(b)) {
        for step in together {
            emit_step(e, step, errors);
        }
        if together.iter().any(|step| is_own(step)) {
            other.swapped(e, |e| {
                for step in together {
                    emit_step(e, step, errors);
                }
            });
        }
    }
    e.lane_set = LaneSet::Scalar;
    e.set_guard(None);
}

fn block_steps<'p>(e: &Emitter<'p, '_>, block: BlockId) -> Vec<&'p Step> {
    e.program.blocks[block.index()].steps.iter().collect()
}
