//! Kernels that take it that the lanes of a warp run in step: they exchange values through memory
//! without `bar.warp.sync`. On a GPU the lanes that have a branch in common mostly execute each access
//! together, though nothing promises it. The threads of this device run one after the other, so they
//! meet before an access of what [others may have accessed](exchanges).

use super::exchanges::exchanges;
use crate::program::ir::{
    Arg, ArgList, BasicBlock, BlockId, Instruction, Modifiers, Program, Step, Terminator,
};
use ptx::ast::Span;
use ptx::names::{Modifier as M, Opcode};

/// Inserts sync points at which the lanes that are there meet: before such accesses, and at the end of
/// loops with them. Of lanes at different points those go first that are behind, by the order of the
/// text.
pub(in crate::program) fn insert_meetings(program: &mut Program<'_>) {
    let Some(marked) = exchanges(program) else {
        return;
    };
    let sink = ArgList {
        start: program.args.len() as u32,
        len: 1,
    };
    let latches = latches(program, &marked);
    program.args.push(Arg::Sink);
    for (at, marked) in (0..).map(BlockId).zip(marked) {
        let steps = &program.blocks[at.index()].steps;
        let meetings = marked.iter().map(|&step| (step, line_of(&steps[step])));
        let mut meetings: Vec<_> = meetings.collect();
        if let Some(&(_, line)) = latches.iter().find(|(latch, _)| *latch == at) {
            meetings.push((steps.len(), line));
        }
        // The last first, so that the others stay where they are.
        for (step, line) in meetings.into_iter().rev() {
            let next = BlockId(program.blocks.len() as u32);
            let block = &mut program.blocks[at.index()];
            let steps = block.steps.split_off(step);
            let terminator = meeting(line, sink, next);
            let terminator = std::mem::replace(&mut block.terminator, terminator);
            program.blocks.push(BasicBlock { steps, terminator });
        }
    }
}

/// `activemask`, which waits for no lane that is elsewhere.
fn meeting(line: u32, sink: ArgList, next: BlockId) -> Terminator {
    let mut modifiers = Modifiers::default();
    modifiers.push(M::B32);
    let instruction = Instruction::new(Opcode::Activemask, modifiers, sink, Span::default(), line);
    Terminator::Sync { instruction, next }
}

fn line_of(step: &Step) -> u32 {
    match step {
        Step::Instruction(i) => i.line,
        Step::SystemCall { line, .. } => *line,
    }
}

/// The ends of loops with such accesses, and the last line of each loop.
fn latches(program: &Program<'_>, marked: &[Vec<usize>]) -> Vec<(BlockId, u32)> {
    let graph = program.graph();
    let mut latches = Vec::new();
    for (from, to) in graph.back_edges() {
        let inside = graph.natural_loop(from, to);
        let inside = || (0..inside.len()).filter(|&block| inside[block]);
        let is_sync = matches!(
            program.blocks[from.index()].terminator,
            Terminator::Sync { .. }
        );
        if !is_sync && inside().any(|block| !marked[block].is_empty()) {
            let steps = inside().flat_map(|block| &program.blocks[block].steps);
            let last = steps.map(line_of).max();
            latches.push((from, last.unwrap_or(program.line)));
        }
    }
    latches
}
