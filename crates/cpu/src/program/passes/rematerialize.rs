//! Rematerialization: what follows from a kernel's parameters and the size of its grid is computed
//! anew where a thread resumes.
//!
//! A suspended thread saves its registers. Those that all threads of a block have the same value in,
//! such as parameters, would be saved for each of them, and each would load its own copy.

use std::collections::HashMap;

use crate::optimization::Optimization;
use crate::program::ir::liveness::Liveness;
use crate::program::ir::{
    Arg, Base, BlockId, Instruction, Program, Reg, RegClass, Step, Storage, Terminator,
};
use ptx::isa::Effect;
use ptx::names::{Modifier as M, Opcode as O, SpecialRegister as S};

/// Instructions that compute one register.
const MAX_STEPS: usize = 4;

/// Has the threads that resume at one of these blocks compute such registers there, if they use
/// them before they are suspended again.
pub(crate) fn rematerialize(program: &mut Program<'_>, blocks: &[BlockId]) {
    let suspends = |block: BlockId| match &program.blocks[block.index()].terminator {
        Terminator::Sync { next, .. } if blocks.contains(next) => Some(&[][..]),
        _ => None,
    };
    let used = Liveness::until_sync(program, suspends);
    let liveness = Liveness::new(program);
    let definitions = definitions(program, &liveness);
    let mut inserted = Vec::new();
    for &block in blocks {
        let mut steps: Vec<(Reg, Step)> = Vec::new();
        for &reg in used.live_in(block) {
            let mut chain = Vec::new();
            let is_cheap = collect(program, &definitions, reg, &mut chain);
            if let Some(()) = Optimization::Rematerialize.at(is_cheap.then_some(())) {
                for (reg, step) in chain {
                    if !steps.iter().any(|(known, _)| *known == reg) {
                        steps.push((reg, step));
                    }
                }
            }
        }
        inserted.push((block, steps));
    }
    for (block, steps) in inserted {
        let steps = steps.into_iter().map(|(_, step)| step);
        program.blocks[block.index()].steps.splice(0..0, steps);
    }
}

/// The steps that compute a register, each after those of its operands; whether there are few.
fn collect(
    program: &Program<'_>,
    definitions: &HashMap<Reg, Instruction>,
    result: Reg,
    chain: &mut Vec<(Reg, Step)>,
) -> bool {
    if chain.iter().any(|(known, _)| *known == result) {
        return true;
    }
    let Some(definition) = definitions.get(&result) else {
        return false;
    };
    let operands = program.list(definition.args).iter().skip(1);
    let mut registers = operands.filter_map(|arg| match arg {
        Arg::Reg(reg) => Some(*reg),
        _ => None,
    });
    // No definition follows from itself: it would be read before it is written.
    let follow = registers.all(|reg| collect(program, definitions, reg, chain));
    chain.push((result, Step::Instruction(*definition)));
    follow && chain.len() <= MAX_STEPS
}

/// The only definitions of registers, where they compute them from what is the same in the block
/// and from other registers.
fn definitions(program: &Program<'_>, liveness: &Liveness) -> HashMap<Reg, Instruction> {
    let mut found: HashMap<Reg, Option<Instruction>> = HashMap::new();
    let mut in_slots = Vec::new();
    // What may be read before it is written is 0 then.
    for &reg in liveness.live_in(BlockId(0)) {
        found.insert(reg, None);
    }
    for block in &program.blocks {
        for step in &block.steps {
            let by = match step {
                Step::Instruction(i) if is_cheap(program, i) => Some(*i),
                _ => None,
            };
            program.step_effects(step, &mut |_| {}, &mut |reg| {
                let known = found.entry(reg);
                known.and_modify(|known| *known = None).or_insert(by);
            });
        }
        // Operations on matrices take their operands from slots.
        if let Terminator::Sync { instruction, .. } = &block.terminator {
            program.effects(instruction, &mut |reg| in_slots.push(reg), &mut |_| {});
            program.effects(instruction, &mut |_| {}, &mut |reg| in_slots.push(reg));
        }
    }
    for reg in in_slots {
        found.insert(reg, None);
    }
    let found = found.into_iter();
    found.filter_map(|(reg, by)| Some((reg, by?))).collect()
}

/// Whether an instruction takes no longer than to load its result, and computes it from what is the
/// same in the block and from registers.
fn is_cheap(program: &Program<'_>, i: &Instruction) -> bool {
    let args = program.list(i.args);
    let Some((&Arg::Reg(to), sources)) = args.split_first() else {
        return false;
    };
    if i.guard.is_some() || i.meaning.carry_in || i.meaning.carry_out {
        return false;
    }
    if i.opcode == O::Ld {
        return match sources {
            &[Arg::Address(Base::Storage(Storage::Param(at)), offset)] => {
                let bytes = i64::from(program.registers[to.index()].bytes());
                let last = i64::from(program.param_bytes) - bytes;
                (0..=last).contains(&(i64::from(at) + offset.bytes()))
            }
            _ => false,
        };
    }
    let is_integer = |reg: Reg| {
        matches!(
            program.registers[reg.index()],
            RegClass::I32 | RegClass::I64
        )
    };
    let is_plain = |arg: &Arg| match *arg {
        Arg::Int(_) => true,
        Arg::Symbol(Storage::Shared(_) | Storage::DynamicShared, _) => program.counts_in_shared,
        Arg::Reg(reg) => is_integer(reg),
        Arg::Special(special) => matches!(
            special,
            S::CtaidX
                | S::CtaidY
                | S::CtaidZ
                | S::NtidX
                | S::NtidY
                | S::NtidZ
                | S::NctaidX
                | S::NctaidY
                | S::NctaidZ
        ),
        _ => false,
    };
    let is_move = match i.opcode {
        O::Mov => true,
        O::Cvta => i.modifiers.has(M::Global) && i.modifiers.first_of(&[M::Shared]).is_none(),
        O::Mul | O::Add | O::Sub | O::Shl | O::Mad => {
            i.modifiers.first_of(&[M::Sat, M::Hi]).is_none()
        }
        _ => false,
    };
    is_move && i.meaning.effect == Effect::Pure && is_integer(to) && sources.iter().all(is_plain)
}
