//! The blocks of a kernel: their steps and terminators.

use cranelift_codegen::ir::{Block, InstBuilder};

use super::resume::ResumePlan;
use super::slots::save;
use super::terminator;
use crate::abi::EXITED;
use crate::codegen::emitter::thread_state::set_state;
use crate::codegen::emitter::{EmitResult, Emitter};
use crate::program::{BlockId, LoweringError, Step, Terminator};

/// Emits the blocks of the kernel as these. One that has nothing to emit is the latch of the loop over
/// threads.
pub(in crate::codegen) fn emit_blocks(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    blocks: &[Block],
    errors: &mut Vec<LoweringError>,
) {
    let program = e.program;
    // Where the last branch to each block is emitted.
    let mut last_predecessor: Vec<Option<u32>> = vec![None; program.blocks.len()];
    for (from, block) in (0..).zip(&program.blocks) {
        for to in block.terminator.successors() {
            let last = &mut last_predecessor[to.index()];
            *last = (*last).max(Some(from));
        }
    }
    for i in 0..program.blocks.len() as u32 {
        let number = BlockId(i);
        let block = blocks[number.index()];
        if block == e.next_thread {
            // It only ends.
            continue;
        }
        match last_predecessor[number.index()] {
            // Early, so that variables need no parameters of the block to be looked up.
            Some(last) if last >= i => e.b.switch_to_block(block),
            None if i > 0 => e.b.switch_to_block(block),
            _ if !errors.is_empty() => e.b.switch_to_block(block),
            // The entry, which first code is in already.
            _ if e.b.current_block() == Some(block) => e.b.seal_block(block),
            _ => e.enter(block),
        }
        for step in &program.blocks[number.index()].steps {
            emit_step(e, step, errors);
        }
        e.set_guard(None);
        if let Err(error) = terminate(e, plan, number, blocks) {
            errors.push(error);
            // The function is discarded, but the builder needs a terminator.
            let fail = e.fail;
            if !e.b.is_unreachable() {
                e.b.ins().jump(fail, &[]);
            }
        }
    }
}

/// Emits a step, and notes why that is not possible.
fn emit_step(e: &mut Emitter<'_, '_>, step: &Step, errors: &mut Vec<LoweringError>) {
    if let Err(error) = e.step(step) {
        errors.push(match step {
            Step::Instruction(i) => error.at(i),
            Step::SystemCall { .. } => error,
        });
    }
}

fn terminate(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    block: BlockId,
    blocks: &[Block],
) -> EmitResult<()> {
    match &e.program.blocks[block.index()].terminator {
        Terminator::Exit => {
            if !plan.resume_points.is_empty() {
                set_state(e, EXITED);
            }
        }
        Terminator::Sync { instruction, .. } => {
            let Some(at) = plan.sync_at[block.index()] else {
                return Err(LoweringError::unsupported(
                    instruction.span,
                    "unsupported sync point",
                ));
            };
            e.line = instruction.line;
            e.store_request(instruction)?;
            save(e, plan, &plan.resume_points[at as usize].dirty);
            set_state(e, at + 1);
        }
        _ => return terminator::within(e, block, blocks),
    }
    let next = e.next_thread;
    e.b.ins().jump(next, &[]);
    Ok(())
}
