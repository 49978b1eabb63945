//! Unroll and jam: lane groups run a counted loop together.
//!
//! The loop over groups is unrolled, and the copies of the counted loop inside are jammed into one.
//! Whether the groups agree on how often it runs, and on the addresses that they share, is known
//! when they resume: they compare what they have saved. Where they don't, and where an access may
//! be out of bounds, each runs by itself.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use cranelift_frontend::Variable;

use super::arrival;
use super::checked_address::InBounds;
use super::emitter::{EmitResult, Emitter, ValueLocation, type_of};
use super::jammed_loop::{JammedLoop, writes};
use super::lane_set::{LaneSet, vector_type};
use super::resume::{ResumePlan, ResumePoint};
use super::slots::{reload, save, saved_alike};
use super::steps::{broadcasts_last, emit_step};
use super::unroll::{Pointer, by_twos, in_bounds, is_inside, last_iteration, pointers};
use super::wide::WideLoop;
use super::wide_call;
use crate::program::{BlockId, LoweringError, Reg, Step, Uniformity};

/// What the emitter has of another group, while it emits for the first.
pub(super) struct Other {
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
    pub fn swapped<T>(
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

/// Has the current group and the next ones resume at a point together, if there are enough of them
/// up to thread `last`. The current block is then that in which the group resumes by itself.
pub(super) fn emit(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    (point, jammed): (&ResumePoint, &JammedLoop<'_>),
    last: Value,
    errors: &mut Vec<LoweringError>,
) -> EmitResult<()> {
    let wide = wide_call::find(e, plan, jammed);
    for (groups, wide) in &wide {
        together(
            e,
            plan,
            (point, jammed),
            (*groups, Some(wide)),
            last,
            errors,
        )?;
    }
    match wide.is_empty() && jammed.fits_vectors {
        true => together(e, plan, (point, jammed), (2, None), last, errors),
        false => Ok(()),
    }
}

/// The same for so many groups, by a function if there is one.
fn together(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    (point, jammed): (&ResumePoint, &JammedLoop<'_>),
    (groups, wide): (u32, Option<&WideLoop>),
    last: Value,
    errors: &mut Vec<LoweringError>,
) -> EmitResult<()> {
    let [alone, all, starts, done] = [(); 4].map(|()| e.b.create_block());
    let first = e.thread_index();
    let behind = e.add_offset(first, i64::from(groups * e.width));
    let mut good = e.icmp(IntCC::UnsignedLessThanOrEqual, behind, last);
    // The state of one group is noted then, that of the last.
    if let Some(same) = arrival::is_common(e, jammed.state) {
        good = e.b.ins().band(good, same);
    }
    e.b.ins().brif(good, all, &[], alone, &[]);

    e.enter(all);
    let mut threads = vec![first];
    let mut others = Vec::new();
    for number in 1..groups {
        let index = e.add_offset(first, i64::from(number * e.width));
        threads.push(index);
        let other = Other::new(e, jammed);
        e.b.def_var(other.index, index);
        others.push(other);
    }
    let mut good = saved_alike(e, plan, &jammed.common, &threads);
    reload(e, plan, &point.reload);
    let own = point.reload.iter().copied();
    let own: Vec<Reg> = own.filter(|reg| jammed.own.contains(*reg)).collect();
    for other in &mut others {
        other.swapped(e, |e| reload(e, plan, &own));
    }
    for block in &jammed.before {
        steps(e, &mut others, jammed, &block_steps(e, *block), errors);
    }

    e.lane_set = LaneSet::Scalar;
    e.splats.clear();
    let counted = jammed.counted;
    let iterations = last_iteration(e, &counted.count)?;
    if let Some(counts) = iterations.is_counted {
        good = e.b.ins().band(good, counts);
    }
    for access in &counted.accesses {
        let inside = is_inside(e, access, iterations.number);
        good = e.b.ins().band(good, inside);
        if jammed.own.contains(access.access.base) {
            for other in &mut others {
                let inside = other.swapped(e, |e| is_inside(e, access, iterations.number));
                good = e.b.ins().band(good, inside);
            }
        }
    }
    e.b.ins().brif(good, starts, &[], alone, &[]);

    e.enter(starts);
    let in_slots = match wide {
        Some(wide) => {
            let written = wide_call::emit(
                e,
                plan,
                (point, jammed),
                wide,
                &mut others,
                iterations.number,
            );
            e.b.ins().jump(done, &[]);
            written
        }
        None => {
            jam(e, jammed, &mut others, iterations.number, done, errors);
            Vec::new()
        }
    };
    e.b.switch_to_block(done);
    reload(e, plan, &in_slots);
    for other in &mut others {
        other.swapped(e, |e| reload(e, plan, &in_slots));
    }
    finish(e, plan, jammed, &mut others, in_slots, errors);
    e.b.switch_to_block(alone);
    Ok(())
}

/// Emits the loop itself, up to the iteration with the number `last`.
fn jam(
    e: &mut Emitter<'_, '_>,
    jammed: &JammedLoop<'_>,
    others: &mut [Other],
    last: Value,
    done: Block,
    errors: &mut Vec<LoweringError>,
) {
    let counted = jammed.counted;
    let accesses = || counted.accesses.iter();
    let own = || accesses().filter(|access| jammed.own.contains(access.access.base));
    let ours = pointers(e, accesses());
    let mut all = ours.clone();
    let mut theirs: Vec<Vec<Pointer>> = Vec::new();
    for other in &mut *others {
        let pointers = other.swapped(e, |e| pointers(e, own()));
        all.extend(&pointers);
        theirs.push(pointers);
    }
    let live = jammed.live_steps(e.program);
    by_twos(e, last, &all, done, |e| {
        if e.iteration == 0 {
            interleave(e, others, jammed);
            e.in_bounds.clear();
            in_bounds(e, accesses(), &ours);
            for (other, theirs) in others.iter_mut().zip(&theirs) {
                other.in_bounds.clear();
                other.swapped(e, |e| in_bounds(e, own(), theirs));
            }
        }
        steps(e, others, jammed, &live, errors);
    });
    e.in_bounds.clear();
    for other in &mut *others {
        other.in_bounds.clear();
    }
    e.b.switch_to_block(done);
    interleave(e, others, jammed);
}

/// Emits what the groups do behind the loop, where the slots of some registers have what they have.
fn finish(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    jammed: &JammedLoop<'_>,
    others: &mut [Other],
    mut in_slots: Vec<Reg>,
    errors: &mut Vec<LoweringError>,
) {
    for block in &jammed.after {
        let block_steps = block_steps(e, *block);
        steps(e, others, jammed, &block_steps, errors);
        for step in block_steps {
            let written = &mut |reg: Reg| in_slots.retain(|known| *known != reg);
            e.program.step_effects(step, &mut |_| {}, written);
        }
        save_all(e, plan, others, &plan.saved[block.index()]);
    }
    let dirty = plan.resume_points[jammed.state as usize - 1].dirty.iter();
    let dirty: Vec<Reg> = dirty
        .copied()
        .filter(|reg| !in_slots.contains(reg))
        .collect();
    save_all(e, plan, others, &dirty);
    // The rest is as if the last group had run alone.
    if let Some(last) = others.last() {
        let last = e.b.use_var(last.index);
        e.b.def_var(e.thread.index, last);
    }
    if plan.resumes_with_tid {
        for _ in &*others {
            e.advance_tid(plan.tid);
        }
    }
    arrival::arrive(e, jammed.state);
}

fn save_all(e: &mut Emitter<'_, '_>, plan: &ResumePlan, others: &mut [Other], registers: &[Reg]) {
    save(e, plan, registers);
    for other in others {
        other.swapped(e, |e| save(e, plan, registers));
    }
}

/// Asks for what the groups have at the start of a block, vector by vector. In that order Cranelift
/// computes what the blocks before leave there, and a vector that both load need not be kept.
fn interleave(e: &mut Emitter<'_, '_>, others: &[Other], jammed: &JammedLoop<'_>) {
    for index in 0..e.locations.len() {
        let ours = &e.locations[index];
        if !jammed.own.contains(Reg(index as u32)) || ours.uniformity != Uniformity::Divergent {
            continue;
        }
        for n in 0..ours.variables.len() {
            e.b.use_var(e.locations[index].variables[n]);
            for other in others {
                e.b.use_var(other.locations[index].variables[n]);
            }
        }
    }
}

/// Emits steps for all groups: once where their result is the same.
fn steps(
    e: &mut Emitter<'_, '_>,
    others: &mut [Other],
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
        if !together.iter().any(|step| is_own(step)) {
            continue;
        }
        for other in &mut *others {
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
