//! Kernels that take it that the lanes of a warp run in step: the last steps of a reduction, from
//! before Volta, are volatile accesses to shared memory without `bar.warp.sync` between them. On a
//! GPU the lanes that have a branch in common execute each access together, though nothing promises
//! it. The threads of this device run one after the other, so they meet before such an access.

use super::ir::{
    Arg, ArgList, Base, BasicBlock, BlockId, Instruction, Modifiers, Program, Step, Storage,
    Terminator,
};
use ptx::ast::Span;
use ptx::isa::Convergence;
use ptx::names::{Modifier as M, Opcode};

/// Inserts sync points at which the lanes that are there meet: before accesses to shared memory
/// that are volatile or follow one that is, and at the end of loops with such accesses. Others
/// may be behind: those go first, by the order of the text.
pub(super) fn insert_meetings(program: &mut Program<'_>) {
    let is_volatile = |step: &Step| access(program, step).is_some_and(|access| access.is_volatile);
    let mut steps = program.blocks.iter().flat_map(|block| &block.steps);
    if !steps.any(is_volatile) {
        return;
    }
    let sink = ArgList {
        start: program.args.len() as u32,
        len: 1,
    };
    let marked = accesses_in_step(program);
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
    let instruction =
        Instruction::new(Opcode::Activemask, modifiers, sink, Span::default(), line);
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
        let is_sync = matches!(program.blocks[from.index()].terminator, Terminator::Sync { .. });
        if !is_sync && inside().any(|block| !marked[block].is_empty()) {
            let steps = inside().flat_map(|block| &program.blocks[block].steps);
            let last = steps.map(line_of).max();
            latches.push((from, last.unwrap_or(program.line)));
        }
    }
    latches
}

/// By block: the steps before which lanes may have to meet, and whether each is a load.
fn accesses_in_step(program: &Program<'_>) -> Vec<Vec<(usize, bool)>> {
    // Whether lanes may have left a barrier of the block and come by a volatile access since.
    let mut follows = vec![false; program.blocks.len()];
    let leaves = |at: usize, follows: bool| {
        let block = &program.blocks[at];
        let mut steps = block.steps.iter();
        let is_volatile =
            |step: &Step| access(program, step).is_some_and(|access| access.is_volatile);
        match &block.terminator {
            Terminator::Sync { instruction, .. } if waits_for_block(instruction) => false,
            _ => follows || steps.any(is_volatile),
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
            let access = access(program, step)?;
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

/// A load or store that may be of shared memory.
struct Access {
    is_load: bool,
    is_volatile: bool,
}

fn access(program: &Program<'_>, step: &Step) -> Option<Access> {
    let Step::Instruction(i) = step else {
        return None;
    };
    let is_load = match i.opcode {
        Opcode::Ld => true,
        Opcode::St => false,
        _ => return None,
    };
    let others = [M::Global, M::Const, M::Local, M::Param, M::SharedCluster];
    let mut addresses = program.list(i.args).iter().filter_map(|arg| match arg {
        Arg::Address(base, _) => Some(base),
        _ => None,
    });
    let may_be_shared = |base: &Base| match base {
        Base::Storage(storage) => matches!(storage, Storage::Shared(_) | Storage::DynamicShared),
        _ => true,
    };
    let is_shared = i.modifiers.first_of(&others).is_none() && addresses.any(may_be_shared);
    is_shared.then_some(Access {
        is_load,
        is_volatile: i.modifiers.has(M::Volatile),
    })
}
