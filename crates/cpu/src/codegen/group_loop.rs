//! The loop over lane groups, by resume point.
//!
//! All groups of a call start the kernel, or resume at one point. Where code is reached from there
//! alone, the next group follows without a dispatch by its state.

use std::iter;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use cranelift_frontend::Variable;

use super::emitter::{Emitter, GroupLoops, NONE_ARRIVED};
use super::resume::ResumePlan;
use crate::abi::{SyncKind, offset};
use crate::program::{BlockId, Program};

/// The loops of groups that start or resume at these blocks.
pub(super) fn loops(program: &Program<'_>, plan: &ResumePlan, starts: Vec<Block>) -> GroupLoops {
    GroupLoops {
        next: vec![None; starts.len()],
        states: states(program, plan, starts.len()),
        starts,
    }
}

/// The state in which groups come that reach a block of the kernel, if it is known.
pub(super) fn state_at(e: &Emitter<'_, '_>, block: BlockId) -> Option<u32> {
    e.group_loops.as_ref()?.states[block.index()]
}

/// Where the group after one comes to that came in this state, if there is a loop.
pub(super) fn next_group(e: &mut Emitter<'_, '_>, state: u32) -> Option<Block> {
    let loops = e.group_loops.as_mut()?;
    let next = loops.next.get_mut(state as usize)?;
    Some(*next.get_or_insert_with(|| e.b.create_block()))
}

/// Emits what leads from group to group, up to thread `last`; after it, `done` follows.
pub(super) fn finish(e: &mut Emitter<'_, '_>, plan: &ResumePlan, last: Value, done: Block) {
    let Some(loops) = e.group_loops.take() else {
        return;
    };
    for (state, (next, start)) in loops.next.into_iter().zip(loops.starts).enumerate() {
        let Some(next) = next else { continue };
        e.b.switch_to_block(next);
        let thread = e.thread_index();
        let thread = e.add_offset(thread, e.width.into());
        e.b.def_var(e.thread.index, thread);
        if state == 0 || plan.resumes_with_tid {
            e.advance_tid(plan.tid);
        }
        let more = e.icmp(IntCC::UnsignedLessThan, thread, last);
        e.b.ins().brif(more, start, &[], done, &[]);
    }
}

/// Where all threads of the block have arrived at a barrier that is further on than the point at which
/// they started or resumed, they resume there, from `head` on. So the scheduler, which could end
/// the launch, is asked at least once in each iteration of a loop.
pub(super) fn next_phase(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    state: Variable,
    last: Value,
    head: Block,
) {
    let Some(together) = e.arrival.and_then(|arrival| arrival.together) else {
        return;
    };
    // Nothing but groups that arrive here changes such barriers.
    let mut waits = plan.resume_points.iter().zip(&plan.sync_points);
    let is_plain = waits.all(|(point, sync)| {
        point.is_passed || sync.kind == SyncKind::Barrier && matches!(sync.barrier, Some([_, 0]))
    });
    if !is_plain || e.is_sanitized {
        return;
    }
    let reached = e.b.use_var(together.reached);
    let before = e.b.use_var(state);
    let is_further = e.icmp(IntCC::UnsignedGreaterThan, reached, before);
    let count = plan.sync_points.len() as i64;
    let waits = e.icmp_imm(IntCC::UnsignedLessThanOrEqual, reached, count);
    let [x, y, z] = [0, 4, 8].map(|axis| e.field(types::I32, offset::BLOCK_DIM + axis));
    let threads = e.b.ins().imul(x, y);
    let threads = e.b.ins().imul(threads, z);
    // The scheduler may run a part of the block.
    let called = e.b.ins().isub(last, together.first);
    let are_all = e.icmp(IntCC::Equal, called, threads);
    let goes_on = e.b.ins().band(is_further, waits);
    let goes_on = e.b.ins().band(goes_on, are_all);
    let [resumes, returns] = [(); 2].map(|()| e.b.create_block());
    e.b.ins().brif(goes_on, resumes, &[], returns, &[]);
    e.enter(resumes);
    e.b.def_var(state, reached);
    e.b.def_var(e.thread.index, together.first);
    let none = e.scalar_int(types::I32, NONE_ARRIVED);
    e.b.def_var(together.reached, none);
    // If it is read, the groups have advanced `%tid` to the first thread's again.
    e.b.ins().jump(head, &[]);
    e.enter(returns);
}

/// By block: the one state from which groups reach it, if there is one.
fn states(program: &Program<'_>, plan: &ResumePlan, count: usize) -> Vec<Option<u32>> {
    let mut found = vec![Reached::Never; program.blocks.len()];
    // The scalar function alone resumes at a point that groups pass.
    let points = plan.resume_points.iter();
    let points = points.map(|point| (!point.is_passed).then_some(point.next));
    let starts = iter::once(Some(BlockId(0))).chain(points).take(count);
    for (state, start) in (0..).zip(starts) {
        let mut waiting: Vec<BlockId> = start.into_iter().collect();
        while let Some(at) = waiting.pop() {
            let reached = &mut found[at.index()];
            *reached = match *reached {
                Reached::Never => Reached::From(state),
                Reached::From(other) if other != state => Reached::FromSeveral,
                // So is what follows it.
                _ => continue,
            };
            let waits = plan.sync_at[at.index()]
                .is_some_and(|point| !plan.resume_points[point as usize].is_passed);
            if !waits {
                let block = &program.blocks[at.index()];
                waiting.extend(block.terminator.successors());
            }
        }
    }
    let only = |reached| match reached {
        Reached::From(state) => Some(state),
        _ => None,
    };
    found.into_iter().map(only).collect()
}

#[derive(Clone, Copy)]
enum Reached {
    Never,
    From(u32),
    FromSeveral,
}
