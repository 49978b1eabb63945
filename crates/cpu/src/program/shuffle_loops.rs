//! Loops over the distances of shuffles: 1, 2, 4 and so on.
//!
//! A shuffle of a whole warp by a constant distance is a permutation of vectors, one by a distance
//! in a register goes through memory. So a loop that computes the distance from constants is
//! replaced by its iterations, in which the distances are constants.

use super::ir::{
    Arg, ArgList, BasicBlock, BlockId, Instruction, Program, Reg, RegClass, Step, Terminator,
};
use super::together::together;
use analysis::control_flow::{Graph, Loops};
use ptx::names::{Modifier as M, Opcode as O, Type};

/// The largest number of iterations: a warp has 32 lanes.
const MAX_ITERATIONS: usize = 6;
/// The largest loop that is copied.
const MAX_STEPS: usize = 24;
/// Its sync points, and the blocks between them.
const MAX_BLOCKS: usize = 6;

/// Replaces such loops by their iterations.
pub(crate) fn unroll_shuffle_loops(program: &mut Program<'_>) {
    let is_candidate = |block: &BasicBlock| match &block.terminator {
        Terminator::Sync { instruction, .. } => distance(program, instruction).is_some(),
        _ => false,
    };
    if !program.blocks.iter().any(is_candidate) {
        return;
    }
    let graph = program.graph();
    let Some(loops) = Loops::new(&graph) else {
        return;
    };
    let found: Vec<ShuffleLoop> = loops
        .ids()
        .filter_map(|id| {
            let inside = |block: BlockId| loops.contains(id, block);
            ShuffleLoop::find(program, &graph, loops.get(id).head, &inside)
        })
        .collect();
    for found in &found {
        found.unroll(program);
    }
}

/// The register that has the distance of a shuffle of the whole warp.
fn distance(program: &Program<'_>, i: &Instruction) -> Option<Reg> {
    match program.list(i.args).get(2)? {
        &Arg::Reg(reg)
            if i.opcode == O::Shfl
                && !i.modifiers.has(M::Idx)
                && program.registers[reg.index()] == RegClass::I32
                && together(program, i).is_some() =>
        {
            Some(reg)
        }
        _ => None,
    }
}

struct ShuffleLoop {
    /// Its blocks in the order in which an iteration runs them. The last one ends with the branch
    /// to the first.
    blocks: Vec<BlockId>,
    exit: BlockId,
    distance: Reg,
    /// Where the distance changes: block and step.
    change: (usize, usize),
    /// The distances at the start of each iteration.
    distances: Vec<u32>,
}

impl ShuffleLoop {
    fn find(
        program: &Program<'_>,
        graph: &Graph,
        head: BlockId,
        inside: &dyn Fn(BlockId) -> bool,
    ) -> Option<ShuffleLoop> {
        let mut blocks = Vec::new();
        let (mut steps, mut reg, mut at) = (0, None, head);
        let (condition, exit) = loop {
            let block = &program.blocks[at.index()];
            blocks.push(at);
            steps += block.steps.len();
            if blocks.len() > MAX_BLOCKS || steps > MAX_STEPS {
                return None;
            }
            at = match &block.terminator {
                Terminator::Jump(next) => *next,
                Terminator::Sync { instruction, next } => {
                    reg = reg.or(distance(program, instruction));
                    *next
                }
                Terminator::Branch {
                    predicate,
                    then,
                    otherwise,
                } => match (*then == head, *otherwise == head) {
                    (true, false) => break (*predicate, *otherwise),
                    (false, true) => {
                        let mut continues = *predicate;
                        continues.negated = !continues.negated;
                        break (continues, *then);
                    }
                    _ => return None,
                },
                _ => return None,
            };
            // The branch of the last block leads back to the head.
            if at == head || !inside(at) || graph.predecessors(at).nth(1).is_some() {
                return None;
            }
        };
        let distance = reg?;
        if inside(exit) {
            return None;
        }
        let change = only_definition(program, &blocks, distance)?;
        let test = only_definition(program, &blocks, condition.reg)?;
        let instruction = |(block, step): (usize, usize)| match &program.blocks
            [blocks[block].index()]
        .steps[step]
        {
            Step::Instruction(i) if i.guard.is_none() => Some(i),
            _ => None,
        };
        let (change_by, compare) = (instruction(change)?, instruction(test)?);
        let mut value = initial(program, graph, &blocks, distance)?;
        let mut distances = Vec::new();
        loop {
            distances.push(value);
            let next = changed(program, change_by, distance, value)?;
            let tested = if change < test { next } else { value };
            if compared(program, compare, distance, tested)? == condition.negated {
                break;
            }
            if distances.len() == MAX_ITERATIONS {
                return None;
            }
            value = next;
        }
        Some(ShuffleLoop {
            blocks,
            exit,
            distance,
            change,
            distances,
        })
    }

    /// Writes each iteration. The first stands where the loop stood.
    fn unroll(&self, program: &mut Program<'_>) {
        let original: Vec<BasicBlock> = self
            .blocks
            .iter()
            .map(|block| program.blocks[block.index()].clone())
            .collect();
        let mut at = self.blocks.clone();
        let last = self.distances.len() - 1;
        for (iteration, &value) in self.distances.iter().enumerate() {
            let first_of_next = program.blocks.len() as u32;
            let next: Vec<BlockId> = (first_of_next..)
                .map(BlockId)
                .take(original.len())
                .collect();
            for (number, block) in original.iter().enumerate() {
                let mut block = block.clone();
                for (step, instruction) in block.steps.iter_mut().enumerate() {
                    if let Step::Instruction(i) = instruction
                        && (number, step) <= self.change
                    {
                        self.substitute(program, i, value);
                    }
                }
                let following = match at.get(number + 1) {
                    Some(&following) => following,
                    None if iteration == last => self.exit,
                    None => next[0],
                };
                block.terminator = match block.terminator {
                    Terminator::Sync {
                        mut instruction, ..
                    } => {
                        if number < self.change.0 {
                            self.substitute(program, &mut instruction, value);
                        }
                        Terminator::Sync {
                            instruction,
                            next: following,
                        }
                    }
                    _ => Terminator::Jump(following),
                };
                program.blocks[at[number].index()] = block;
            }
            if iteration < last {
                let empty = BasicBlock {
                    steps: Vec::new(),
                    terminator: Terminator::Exit,
                };
                let blocks = program.blocks.len() + original.len();
                program.blocks.resize(blocks, empty);
                at = next;
            }
        }
    }

    /// Has an instruction read the distance as a constant, where it takes words.
    fn substitute(&self, program: &mut Program<'_>, i: &mut Instruction, value: u32) {
        let takes_words = match i.opcode {
            O::Shfl => true,
            O::Mov | O::Add | O::Sub | O::Shl | O::Shr | O::Setp => {
                i.modifiers.types().all(|ty| ty.bits() == 32)
            }
            _ => false,
        };
        let read = usize::from(program.has_destination(i));
        let mut args = program.list(i.args).to_vec();
        if !takes_words
            || !args
                .iter()
                .skip(read)
                .any(|&arg| arg == Arg::Reg(self.distance))
        {
            return;
        }
        for arg in args.iter_mut().skip(read) {
            if *arg == Arg::Reg(self.distance) {
                *arg = Arg::Int(value.into());
            }
        }
        i.args = ArgList {
            start: program.args.len() as u32,
            len: args.len() as u32,
        };
        program.args.extend(args);
    }
}

/// The block and the step of the only definition of a register in these blocks.
fn only_definition(program: &Program<'_>, blocks: &[BlockId], reg: Reg) -> Option<(usize, usize)> {
    let mut found = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        let block = &program.blocks[block.index()];
        for (at, step) in block.steps.iter().enumerate() {
            program.step_effects(step, &mut |_| {}, &mut |to| {
                if to == reg {
                    found.push((number, at));
                }
            });
        }
        if let Terminator::Sync { instruction, .. } = &block.terminator {
            program.effects(instruction, &mut |_| {}, &mut |to| {
                if to == reg {
                    found.push((number, block.steps.len()));
                }
            });
        }
    }
    match *found {
        // That of a sync point is no step.
        [(number, at)] if at < program.blocks[blocks[number].index()].steps.len() => {
            Some((number, at))
        }
        _ => None,
    }
}

/// The constant that a register has where the loop starts: the only block before the loop writes
/// it last.
fn initial(program: &Program<'_>, graph: &Graph, blocks: &[BlockId], reg: Reg) -> Option<u32> {
    let head = *blocks.first()?;
    let mut before = graph
        .predecessors(head)
        .filter(|from| !blocks.contains(from));
    let (Some(before), None) = (before.next(), before.next()) else {
        return None;
    };
    let before = &program.blocks[before.index()];
    // A sync point may write the register after the steps.
    if let Terminator::Sync { instruction, .. } = &before.terminator {
        let mut written = false;
        program.effects(instruction, &mut |_| {}, &mut |to| written |= to == reg);
        if written {
            return None;
        }
    }
    let last = before.steps.iter().rev().find(|step| {
        let mut written = false;
        program.step_effects(step, &mut |_| {}, &mut |to| written |= to == reg);
        written
    });
    match last? {
        Step::Instruction(i) if i.opcode == O::Mov && i.guard.is_none() => {
            match (word(i)?, program.list(i.args)) {
                (_, &[Arg::Reg(_), Arg::Int(value)]) => Some(value as u32),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The type of an instruction on words.
fn word(i: &Instruction) -> Option<Type> {
    let mut types = i.modifiers.types();
    let ty = types.next()?;
    let is_word = matches!(ty, Type::U32 | Type::S32 | Type::B32) && types.next().is_none();
    is_word.then_some(ty)
}

/// The value of a register after an instruction that changes it by a constant.
fn changed(program: &Program<'_>, i: &Instruction, reg: Reg, value: u32) -> Option<u32> {
    let is_plain = i.modifiers.first_of(&[M::Cc, M::Sat]).is_none();
    let (ty, by) = match *program.list(i.args) {
        [Arg::Reg(to), Arg::Reg(from), Arg::Int(by)] if to == reg && from == reg && is_plain => {
            (word(i)?, by as u32)
        }
        _ => return None,
    };
    Some(match i.opcode {
        O::Add => value.wrapping_add(by),
        O::Sub => value.wrapping_sub(by),
        O::Shl => value.checked_shl(by)?,
        O::Shr if ty != Type::S32 => value.checked_shr(by)?,
        _ => return None,
    })
}

/// Whether a comparison of the register with a constant is true.
fn compared(program: &Program<'_>, i: &Instruction, reg: Reg, value: u32) -> Option<bool> {
    let (ty, with) = match *program.list(i.args) {
        [Arg::Reg(_), Arg::Reg(from), Arg::Int(with)] if from == reg && i.opcode == O::Setp => {
            (word(i)?, with as u32)
        }
        _ => return None,
    };
    if i.modifiers.first_of(&[M::And, M::Or, M::Xor]).is_some() {
        return None;
    }
    let order = match ty {
        Type::S32 => value.cast_signed().cmp(&with.cast_signed()),
        _ => value.cmp(&with),
    };
    Some(match i.comparison()? {
        M::Eq => order.is_eq(),
        M::Ne => order.is_ne(),
        M::Lt | M::Lo => order.is_lt(),
        M::Le | M::Ls => order.is_le(),
        M::Gt | M::Hi => order.is_gt(),
        M::Ge | M::Hs => order.is_ge(),
        _ => return None,
    })
}
