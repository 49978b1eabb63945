//! Where a thread starts the function, or resumes it.

use cranelift_codegen::ir::{Block, InstBuilder};

use super::resume::ResumePlan;
use super::slots::reload;
use crate::codegen::emitter::thread_state::{jump_to_state, thread_state};
use crate::codegen::emitter::{Emitter, type_of};
use crate::program::{LoweringError, Terminator};

/// Dispatches the thread to its resume point.
pub(in crate::codegen) fn resume_threads(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    blocks: &[Block],
    errors: &mut Vec<LoweringError>,
) {
    if plan.resume_points.is_empty() {
        start_thread(e, plan, blocks[0]);
        return;
    }
    let start = e.b.create_block();
    let mut targets = vec![start];
    targets.extend(plan.resume_points.iter().map(|_| e.b.create_block()));
    let state = thread_state(e);
    jump_to_state(e, state, &targets);
    e.b.switch_to_block(start);
    start_thread(e, plan, blocks[0]);
    for (point, &block) in plan.resume_points.iter().zip(&targets[1..]) {
        e.b.switch_to_block(block);
        reload(e, plan, &point.reload);
        if let Terminator::Sync { instruction, .. } =
            &e.program.blocks[point.sync.index()].terminator
        {
            errors.extend(e.load_results(instruction).err());
        }
        let next = blocks[point.next.index()];
        e.b.ins().jump(next, &[]);
    }
}

/// Jumps to the kernel's first block. Registers that may be read before they are
/// written are cleared: otherwise they would hold values of the previous thread.
fn start_thread(e: &mut Emitter<'_, '_>, plan: &ResumePlan, block: Block) {
    for &reg in &plan.entry_live_in {
        let zero = e.zero(type_of(e.program.registers[reg.index()]));
        e.set_register(reg, zero);
    }
    e.b.ins().jump(block, &[]);
}
