//! Rematerialization: what follows from a kernel's parameters and the size of its grid is computed
//! anew where a thread resumes.
//!
//! A suspended thread saves its registers. Those that all threads of a block have the same value in,
//! such as parameters, would be saved for each of them, and each would load its own copy. So would
//! the lanes of a group the result of `i < n`, where two numbers tell the results of all.

use std::collections::{HashMap, HashSet};

use super::ir::{
    Arg, Base, BlockId, Instruction, Program, Reg, RegClass, Step, Storage, Terminator,
};
use super::lanes::Uniformity;
use super::liveness::Liveness;
use super::uniformity::UniformityInfo;
use ptx::isa::Effect;
use ptx::names::{Modifier as M, Opcode as O, SpecialRegister as S};

/// Instructions that compute one register.
const MAX_STEPS: usize = 4;

/// Has the threads that resume at one of these blocks compute such registers there, if they use
/// them before they are suspended again. `lanes` says how registers vary in a lane group, if
/// threads run in such. `read_first` has the registers that are read before the steps of a block;
/// `None` if some of its threads leave it before.
pub(crate) fn rematerialize(
    program: &mut Program<'_>,
    blocks: &[BlockId],
    lanes: Option<&UniformityInfo>,
    read_first: impl Fn(BlockId) -> Option<Vec<Reg>>,
) {
    let suspends = |block: BlockId| match &program.blocks[block.index()].terminator {
        Terminator::Sync { next, .. } if blocks.contains(next) => Some(&[][..]),
        _ => None,
    };
    let used = Liveness::until_sync(program, suspends);
    let liveness = Liveness::new(program);
    let mut definitions = Definitions {
        by: definitions(program, &liveness),
        saved: HashSet::new(),
    };
    if let Some(lanes) = lanes {
        definitions.add_comparisons(program, &liveness, lanes);
    }
    let mut inserted = Vec::new();
    for &block in blocks {
        let mut steps: Vec<(Reg, Step)> = Vec::new();
        let Some(read_first) = read_first(block) else {
            continue;
        };
        for &reg in used.live_in(block) {
            let mut chain = Vec::new();
            if collect(program, &definitions, reg, &mut chain)
                && !chain.iter().any(|(reg, _)| read_first.contains(reg))
            {
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

/// What registers can be computed from.
struct Definitions {
    /// The definitions of registers that can be.
    by: HashMap<Reg, Instruction>,
    /// Predicates and operands of their comparisons that may be saved instead.
    saved: HashSet<(Reg, Reg)>,
}

impl Definitions {
    /// Adds the only definitions of predicates that compare integers of which each lane group has one
    /// number and a distance from lane to lane. The operands have their only definitions before them in
    /// the same block, so that they do not change while the predicate does not, or can be computed.
    fn add_comparisons(
        &mut self,
        program: &Program<'_>,
        liveness: &Liveness,
        lanes: &UniformityInfo,
    ) {
        let mut written = vec![0_u32; program.registers.len()];
        for &reg in liveness.live_in(BlockId(0)) {
            written[reg.index()] += 1;
        }
        for block in &program.blocks {
            let count = &mut |reg: Reg| written[reg.index()] += 1;
            for step in &block.steps {
                program.step_effects(step, &mut |_| {}, count);
            }
            if let Terminator::Sync { instruction, .. } = &block.terminator {
                program.effects(instruction, &mut |_| {}, count);
            }
        }
        let mut found = Vec::new();
        for block in &program.blocks {
            let mut before = Vec::new();
            for step in &block.steps {
                if let Step::Instruction(i) = step
                    && let &[Arg::Reg(to), a, b] = program.list(i.args)
                    && i.opcode == O::Setp
                    && i.guard.is_none()
                    && written[to.index()] == 1
                    && lanes.of(to) == Uniformity::Divergent
                {
                    let stays = |reg: Reg| written[reg.index()] == 1 && before.contains(&reg);
                    let is_known = |arg: Arg| match arg {
                        Arg::Int(_) => true,
                        Arg::Reg(reg) => {
                            let class = program.registers[reg.index()];
                            let is_integer = matches!(class, RegClass::I32 | RegClass::I64);
                            let is_known = self.by.contains_key(&reg) || stays(reg);
                            is_integer && is_known && lanes.of(reg) != Uniformity::Divergent
                        }
                        _ => false,
                    };
                    if is_known(a) && is_known(b) {
                        found.push((to, *i));
                        self.saved
                            .extend([a, b].into_iter().filter_map(|arg| match arg {
                                Arg::Reg(reg) if stays(reg) => Some((to, reg)),
                                _ => None,
                            }));
                    }
                }
                program.step_effects(step, &mut |_| {}, &mut |reg| before.push(reg));
            }
        }
        self.by.extend(found);
    }
}

/// The steps that compute a register, each after those of its operands; whether there are few.
fn collect(
    program: &Program<'_>,
    definitions: &Definitions,
    result: Reg,
    chain: &mut Vec<(Reg, Step)>,
) -> bool {
    if chain.iter().any(|(known, _)| *known == result) {
        return true;
    }
    let Some(definition) = definitions.by.get(&result) else {
        return false;
    };
    let operands = program.list(definition.args).iter().skip(1);
    let mut registers = operands.filter_map(|arg| match arg {
        Arg::Reg(reg) => Some(*reg),
        _ => None,
    });
    // No definition follows from itself: it would be read before it is written.
    let follow = registers.all(|reg| {
        let before = chain.len();
        let follows = collect(program, definitions, reg, chain);
        let is_saved = !follows && definitions.saved.contains(&(result, reg));
        if is_saved {
            chain.truncate(before);
        }
        follows || is_saved
    });
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
