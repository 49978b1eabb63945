//! The shape of a program after building: blocks joined and numbered in the
//! order of the text, registers held as what their instructions want.

use super::{Arg, Block, BlockId, Class, Program, Step, Terminator};
use ptx::names::{Modifier, Opcode, Type};

/// Drops unreachable blocks and joins what is straight.
pub(super) fn tidy(program: &mut Program<'_>) {
    let count = program.blocks.len();
    // Empty blocks that only jump are skipped, at most once around a loop.
    let skip = |blocks: &[Block], mut at: BlockId| {
        for _ in 0..count {
            match &blocks[at.index()] {
                Block {
                    steps,
                    terminator: Terminator::Jump(to),
                } if steps.is_empty() => at = *to,
                _ => break,
            }
        }
        at
    };
    for i in 0..count {
        let mut terminator = program.blocks[i].terminator.clone();
        retarget(&mut terminator, |to| skip(&program.blocks, to));
        if let Terminator::Branch {
            then, otherwise, ..
        } = terminator
            && then == otherwise
        {
            terminator = Terminator::Jump(then);
        }
        program.blocks[i].terminator = terminator;
    }

    // What is unreachable must not take a block that is not.
    let reached = reachable(program);
    let predecessors = predecessors(program, &reached);
    for i in (0..count).filter(|&i| reached[i]) {
        while let Terminator::Jump(to) = program.blocks[i].terminator
            && to.index() != i
            && to.index() != 0
            && predecessors[to.index()] == 1
        {
            let empty = Block {
                steps: Vec::new(),
                terminator: Terminator::Exit,
            };
            let mut joined = std::mem::replace(&mut program.blocks[to.index()], empty);
            let block = &mut program.blocks[i];
            block.steps.append(&mut joined.steps);
            block.terminator = joined.terminator;
        }
    }
    renumber(program);
}

/// How many edges lead to each block from blocks that can be reached.
fn predecessors(program: &Program<'_>, reached: &[bool]) -> Vec<u32> {
    let mut edges = vec![0; program.blocks.len()];
    for (block, _) in program.blocks.iter().zip(reached).filter(|&(_, &r)| r) {
        for to in block.terminator.successors() {
            edges[to.index()] += 1;
        }
    }
    edges
}

fn reachable(program: &Program<'_>) -> Vec<bool> {
    let mut reached = vec![false; program.blocks.len()];
    let mut open = vec![BlockId(0)];
    while let Some(at) = open.pop() {
        if !std::mem::replace(&mut reached[at.index()], true) {
            open.extend(program.blocks[at.index()].terminator.successors());
        }
    }
    reached
}

fn renumber(program: &mut Program<'_>) {
    let reached = reachable(program);
    let mut numbers = vec![BlockId(0); program.blocks.len()];
    let kept = numbers.iter_mut().zip(&reached).filter(|&(_, &r)| r);
    for (next, (number, _)) in kept.enumerate() {
        *number = BlockId(next as u32);
    }
    let mut keep = reached.iter();
    program
        .blocks
        .retain(|_| keep.next().copied().unwrap_or(false));
    for block in &mut program.blocks {
        retarget(&mut block.terminator, |to| numbers[to.index()]);
    }
}

/// Replaces every target of a terminator.
pub(super) fn retarget(terminator: &mut Terminator, to: impl Fn(BlockId) -> BlockId) {
    match terminator {
        Terminator::Jump(target) | Terminator::Sync { next: target, .. } => *target = to(*target),
        Terminator::Branch {
            then, otherwise, ..
        } => {
            *then = to(*then);
            *otherwise = to(*otherwise);
        }
        Terminator::Table { targets, .. } => {
            for target in targets {
                *target = to(*target);
            }
        }
        Terminator::Exit | Terminator::Trap { .. } => {}
    }
}

/// An untyped register that mostly meets floating point is held as such: a
/// change between the register files costs more than an addition.
pub(super) fn choose_classes(program: &mut Program<'_>) {
    let mut votes = vec![0_i32; program.registers.len()];
    let mut moves = Vec::new();
    for block in &program.blocks {
        for step in &block.steps {
            let Step::Instruction(instruction) = step else {
                continue;
            };
            let args = program.list(instruction.args);
            if instruction.opcode == Opcode::Mov
                && let [Arg::Reg(a), Arg::Reg(b)] = args
            {
                moves.push((*a, *b));
            }
            for (i, &arg) in args.iter().enumerate() {
                let vote = vote(instruction.opcode, &instruction.modifiers, i);
                // An address is an integer whatever is loaded through it.
                let vote = if matches!(arg, Arg::Address(..)) {
                    -2
                } else {
                    vote
                };
                program.registers_of(arg, &mut |reg| votes[reg.index()] += vote);
            }
        }
    }
    // A register that is only loaded, stored and moved follows its partners.
    for _ in 0..2 {
        for &(a, b) in &moves {
            let (va, vb) = (votes[a.index()], votes[b.index()]);
            if va == 0 {
                votes[a.index()] = vb.signum();
            } else if vb == 0 {
                votes[b.index()] = va.signum();
            }
        }
    }
    for (class, vote) in program.registers.iter_mut().zip(votes) {
        *class = match (*class, vote) {
            (Class::I32, 1..) => Class::F32,
            (Class::I64, 1..) => Class::F64,
            (Class::F32, ..0) => Class::I32,
            (Class::F64, ..0) => Class::I64,
            (class, _) => class,
        };
    }
}

/// 1 if operand `i` is wanted as floating point, -1 as integer, 0 as either.
fn vote(opcode: Opcode, modifiers: &super::Modifiers, i: usize) -> i32 {
    let mut types = modifiers.types();
    let ty = match opcode {
        Opcode::Mov | Opcode::Ld | Opcode::St | Opcode::Selp | Opcode::Ldu => return 0,
        // Handles, coordinates and results are of several types.
        Opcode::Tex
        | Opcode::Tld4
        | Opcode::Txq
        | Opcode::Suld
        | Opcode::Sust
        | Opcode::Sured
        | Opcode::Suq
        | Opcode::Istypep => return 0,
        Opcode::Cvt => {
            let (to, from) = (types.next(), types.next());
            if i == 0 { to } else { from }
        }
        // The type of the result, then that of what is compared.
        Opcode::Set => {
            let (to, from) = (types.next(), types.next());
            if i == 0 { to } else { from }
        }
        Opcode::Shfl | Opcode::Atom | Opcode::Red => return if i > 1 { -1 } else { 0 },
        _ => types.next(),
    };
    match ty {
        Some(Type::F32 | Type::F64 | Type::Tf32) => 1,
        _ if modifiers.has(Modifier::Pred) => 0,
        _ => -1,
    }
}
