//! Kernels that take it that the lanes of a warp run in step: the last steps of a reduction, from
//! before Volta, are volatile accesses to shared memory without `bar.warp.sync` between them. On a
//! GPU the lanes that have a branch in common execute each access together, though nothing promises
//! it. The threads of this device run one after the other, so they meet before such an access.

use super::ir::{
    Arg, ArgList, BasicBlock, BlockId, Instruction, Modifiers, Program, Step, Terminator,
};
use super::memory_access::{Access, memory_access};
use super::network::has_network;
use ptx::ast::Span;
use ptx::isa::Convergence;
use ptx::names::{Modifier as M, Opcode};

/// Inserts sync points at which the lanes that are there meet: before accesses to shared memory
/// that are volatile or follow one that is, before all accesses of kernels with a
/// [network](has_network), and at the end of loops with such accesses. Of lanes at different
/// points those go first that are behind, by the order of the text.
pub(super) fn insert_meetings(program: &mut Program<'_>) {
    let mut steps = program.blocks.iter().flat_map(|block| &block.steps);
    let marked = if steps.any(|step| is_volatile(program, step)) {
        accesses_in_step(program)
    } else if has_network(program) {
        all_accesses(program)
    } else {
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
        let mut meetings = Vec::new();
        let mut loads = false;
        for &(step, is_load) in &marked {
            // Loads change nothing for each other.
            if !(loads && is_load) {
                meetings.push((step, line_of(&steps[step])));
            }
            loads = is_load;
        }
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
fn latches(program: &Program<'_>, marked: &[Vec<(usize, bool)>]) -> Vec<(BlockId, u32)> {
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

fn is_volatile(program: &Program<'_>, step: &Step) -> bool {
    shared_access(program, step).is_some_and(|access| access.is_volatile)
}

/// By block: the accesses of memory, and whether each is a load.
fn all_accesses(program: &Program<'_>) -> Vec<Vec<(usize, bool)>> {
    let blocks = program.blocks.iter().map(|block| {
        let steps = block.steps.iter().enumerate();
        let accesses =
            steps.filter_map(|(at, step)| Some((at, memory_access(program, step)?.is_load)));
        accesses.collect()
    });
    blocks.collect()
}

/// By block: the steps before which lanes may have to meet, and whether each is a load.
fn accesses_in_step(program: &Program<'_>) -> Vec<Vec<(usize, bool)>> {
    // Whether lanes may have left a barrier of the block and come by a volatile access since.
    let mut follows = vec![false; program.blocks.len()];
    let leaves = |at: usize, follows: bool| {
        let block = &program.blocks[at];
        let mut steps = block.steps.iter();
        match &block.terminator {
            Terminator::Sync { instruction, .. } if waits_for_block(instruction) => false,
            _ => follows || steps.any(|step| is_volatile(program, step)),
        }
    };
    let mut open: Vec<usize> = (0..program.blocks.len()).collect();
    while let Some(at) = open.pop() {
        if leaves(at, follows[at]) {
            for next in program.blocks[at].terminator.successors() {
                if !std::mem::replace(&mut follows[next.index()], true) {
                    open.push(next.index());
                }
            }
        }
    }
    let blocks = program.blocks.iter().zip(follows);
    let in_step = blocks.map(|(block, mut follows)| {
        let steps = block.steps.iter().enumerate();
        let in_step = steps.filter_map(|(at, step)| {
            let access = shared_access(program, step)?;
            follows |= access.is_volatile;
            follows.then_some((at, access.is_load))
        });
        in_step.collect()
    });
    in_step.collect()
}

fn waits_for_block(i: &Instruction) -> bool {
    i.meaning.convergence == Convergence::Block && !i.meaning.arrives
}

fn shared_access(program: &Program<'_>, step: &Step) -> Option<Access> {
    memory_access(program, step).filter(|access| access.may_be_shared)
}
