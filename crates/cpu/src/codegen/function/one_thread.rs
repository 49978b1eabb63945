//! The function of first code: one thread, from its start or a resume point on.

use cranelift_codegen::ir::{Block, InstBuilder, types};

use super::blocks::emit_blocks;
use super::entry::resume_threads;
use super::resume::ResumePlan;
use crate::codegen::emitter::Emitter;
use crate::program::{BlockId, LoweringError, Terminator};

/// Emits what one thread does.
pub(in crate::codegen) fn emit(e: &mut Emitter<'_, '_>, plan: &ResumePlan) -> Vec<LoweringError> {
    let mut errors = Vec::new();
    let Some(entry) = e.b.current_block() else {
        return errors;
    };
    let thread = e.b.block_params(entry)[1];
    e.b.def_var(e.thread.index, thread);
    let program = e.program;
    let has_states = !plan.resume_points.is_empty();
    let mut blocks: Vec<Block> = Vec::with_capacity(program.blocks.len());
    for block in &program.blocks {
        let ends = matches!(block.terminator, Terminator::Exit) && block.steps.is_empty();
        blocks.push(if ends && !has_states {
            e.next_thread
        } else {
            e.b.create_block()
        });
    }
    let first = BlockId(0);
    let mut edges = program
        .blocks
        .iter()
        .flat_map(|block| block.terminator.successors());
    let starts_in_loop = edges.any(|to| to == first);
    if has_states || starts_in_loop || !plan.entry_live_in.is_empty() || blocks[0] == e.next_thread
    {
        resume_threads(e, plan, &blocks, &mut errors);
    } else {
        // Otherwise the builder takes it for unreachable.
        e.b.ensure_inserted_block();
        blocks[0] = entry;
    }
    emit_blocks(e, plan, &blocks, &mut errors);
    for (block, result) in [(e.next_thread, 0), (e.fail, 1)] {
        e.b.switch_to_block(block);
        let result = e.int(types::I32, result);
        e.b.ins().return_(&[result]);
    }
    errors
}
