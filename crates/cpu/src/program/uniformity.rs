//! Uniformity analysis: whether the threads of a lane group have the same value
//! in a register, values with a constant stride, or unrelated values.
//!
//! A lane group takes every branch as a whole; where the threads diverge, the scalar function
//! takes over. So a value computed from uniform values is uniform.

use super::butterflies::butterfly_shuffle;
use super::clamps::{Bound, Clamp, clamp};
use super::ir::{Arg, Base, BlockId, Instruction, Program, Reg, RegClass, Step, Terminator};
use super::lanes::{
    DIVERGENT, Group, Idioms, UNKNOWN, Uniformity, View, computed, extended, is_affine, operand,
    operands, result,
};
use super::liveness::{Liveness, RegisterSet};
use super::together::{Together, together};
use analysis::dependence::{Dependence, Sources, Wrapping};
use ptx::names::{Opcode as O, Type};

/// A 32-bit affine value that must not wrap around within the lane group: otherwise
/// its extension to 64 bits is not affine. Nor may a clamp change it, if there is one: otherwise
/// the result of that is not affine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoWrap {
    pub reg: Reg,
    pub stride: i64,
    pub signed: bool,
    pub clamp: Option<Clamp>,
}

/// The result of the analysis, by register.
pub(crate) struct UniformityInfo {
    pub group: Group,
    /// The kernel multiplies matrices, whose registers are in slots: loads put them there.
    multiplies: bool,
    facts: Vec<Dependence>,
    registers: Vec<Uniformity>,
    /// By register: what each bit of the lane's number adds; empty if nothing asks for it.
    lane_bits: Vec<Option<[i64; WARP_BITS]>>,
}

/// The bits of the number of a lane.
pub(crate) const WARP_BITS: usize = 5;

impl UniformityInfo {
    pub fn new(program: &Program<'_>, group: Group) -> UniformityInfo {
        let facts = Facts::solve(program, group, None);
        let registers: Vec<Uniformity> = facts
            .iter()
            .zip(&program.registers)
            .map(|(fact, class)| Uniformity::of(fact, *class, group))
            .collect();
        let lane_bits = match has_scattered_access(program, &registers) {
            true => Facts::solve(program, group, Some(written_apart(program, &registers)))
                .iter()
                .map(|fact| lane_bits(fact, group))
                .collect(),
            false => Vec::new(),
        };
        UniformityInfo {
            group,
            multiplies: UniformityInfo::multiplies(program),
            registers,
            facts,
            lane_bits,
        }
    }

    /// Whether a kernel has operations on matrices whose registers are in slots.
    pub fn multiplies(program: &Program<'_>) -> bool {
        program.blocks.iter().any(|block| match &block.terminator {
            Terminator::Sync { instruction, .. } => {
                instruction.is_matrix() && instruction.opcode != O::Ldmatrix
            }
            _ => false,
        })
    }

    pub fn of(&self, reg: Reg) -> Uniformity {
        self.registers[reg.index()]
    }

    fn view(&self) -> View {
        View {
            group: self.group,
            of_each: false,
        }
    }

    /// What each bit of the lane's number adds to a register that has no stride, where nothing else
    /// makes its lanes differ. It wraps around in 32 bits.
    pub fn lane_bits(&self, reg: Reg) -> Option<[i64; WARP_BITS]> {
        *self.lane_bits.get(reg.index())?
    }

    /// What the first thread of every lane group has in a uniform or affine register, where that is
    /// one number.
    pub fn first_lane(&self, reg: Reg) -> Option<i64> {
        let linear = self.facts[reg.index()].linear?;
        let is_number = linear.base.symbol.is_none() && self.of(reg) != Uniformity::Divergent;
        is_number.then_some(linear.base.offset)
    }

    /// Whether all threads of a lane group have the same in an operand.
    pub fn is_uniform(&self, program: &Program<'_>, arg: Arg) -> bool {
        let mut parts = Vec::new();
        let known = |reg: Reg| Some(self.facts[reg.index()]);
        let known = operand(program, arg, (self.view(), &known), &mut parts);
        known.is_some() && parts.iter().all(Dependence::is_uniform)
    }

    /// The operand that must not wrap for the instruction's result to be affine.
    pub fn no_wrap(&self, program: &Program<'_>, i: &Instruction) -> Option<NoWrap> {
        let args = program.list(i.args);
        let Some(&Arg::Reg(to)) = args.first() else {
            return None;
        };
        let Uniformity::Affine(_) = self.of(to) else {
            return None;
        };
        if let Some(signed) = clamp(program, i) {
            return self.unclamped(i, args, signed);
        }
        let from = extended(i)?;
        let known = |reg: Reg| Some(self.facts[reg.index()]);
        let operands = operands(program, i, (self.view(), &known))?;
        // It cannot wrap.
        if is_affine(&computed(i, &operands, Wrapping::Possible), self.group) {
            return None;
        }
        args[1..].iter().take(2).find_map(|&arg| match arg {
            Arg::Reg(reg) => match self.of(reg) {
                Uniformity::Affine(stride) => Some(NoWrap {
                    reg,
                    stride,
                    signed: from == Type::S32,
                    clamp: None,
                }),
                _ => None,
            },
            _ => None,
        })
    }

    /// What keeps the result of a minimum or maximum affine.
    fn unclamped(&self, i: &Instruction, args: &[Arg], signed: bool) -> Option<NoWrap> {
        let (mut affine, mut bound) = (None, None);
        for &arg in &args[1..] {
            match arg {
                Arg::Int(number) => bound = Some(Bound::Int(number)),
                Arg::Reg(reg) => match self.of(reg) {
                    Uniformity::Affine(stride) => affine = Some((reg, stride)),
                    _ => bound = Some(Bound::Reg(reg)),
                },
                _ => {}
            }
        }
        let (reg, stride) = affine?;
        Some(NoWrap {
            reg,
            stride,
            signed,
            clamp: Some(Clamp {
                at_least: i.opcode == O::Max,
                bound: bound?,
            }),
        })
    }

    /// Whether the lanes of a group execute this sync point where they stand.
    pub fn executes_together(&self, program: &Program<'_>, i: &Instruction) -> bool {
        let in_slots = self.multiplies && i.is_matrix();
        self.group == Group::Warp && !in_slots && together(program, i).is_some()
    }

    /// Whether the threads of a lane group may diverge at the end of a block.
    pub fn may_diverge(&self, program: &Program<'_>, block: BlockId) -> bool {
        match &program.blocks[block.index()].terminator {
            Terminator::Branch { predicate, .. } => self.of(predicate.reg) != Uniformity::Uniform,
            Terminator::Table { index, .. } => !self.is_uniform(program, *index),
            _ => false,
        }
    }
}

/// Whether a kernel accesses shared memory at addresses of 32 bits without a stride.
fn has_scattered_access(program: &Program<'_>, registers: &[Uniformity]) -> bool {
    let is_scattered = |arg: &Arg| match arg {
        Arg::Address(Base::Reg(reg), _) => {
            program.registers[reg.index()] == RegClass::I32
                && registers[reg.index()] == Uniformity::Divergent
        }
        _ => false,
    };
    program.args.iter().any(is_scattered)
}

/// The registers that are written in an arm of a branch, which some lanes of a group may execute
/// alone.
fn written_apart(program: &Program<'_>, registers: &[Uniformity]) -> RegisterSet {
    let graph = program.graph();
    let mut apart = RegisterSet::new(program.registers.len());
    for block in &program.blocks {
        let arms = match block.terminator {
            Terminator::Branch {
                predicate,
                then,
                otherwise,
            } if registers[predicate.reg.index()] != Uniformity::Uniform => [then, otherwise],
            _ => continue,
        };
        for mut at in arms {
            while graph.predecessors(at).nth(1).is_none() {
                for step in &program.blocks[at.index()].steps {
                    program.step_effects(step, &mut |_| {}, &mut |reg| {
                        if registers[reg.index()] == Uniformity::Divergent {
                            apart.insert(reg);
                        }
                    });
                }
                match program.blocks[at.index()].terminator {
                    Terminator::Jump(next) if next != at => at = next,
                    _ => break,
                }
            }
        }
    }
    apart
}

fn lane_bits(fact: &Dependence, group: Group) -> Option<[i64; WARP_BITS]> {
    let linear = fact.linear?;
    let mut all = [0; WARP_BITS];
    let lanes = linear.bits[..group.lane_bits()].iter();
    for (bit, part) in all.iter_mut().zip(lanes) {
        *bit = i64::from(*part);
    }
    Some(all)
}

/// What is known so far of each register: of all its values, as a register is not followed
/// from block to block.
struct Facts<'p, 'a> {
    program: &'p Program<'a>,
    group: Group,
    idioms: Idioms,
    known: Vec<Option<Dependence>>,
    /// Where what each lane computes for itself is followed, too: the registers that some lanes
    /// write alone.
    apart: Option<RegisterSet>,
}

impl Facts<'_, '_> {
    fn solve(program: &Program<'_>, group: Group, apart: Option<RegisterSet>) -> Vec<Dependence> {
        let mut facts = Facts {
            program,
            group,
            idioms: Idioms::of(program),
            // `None` is the optimistic start: a loop-carried register has the uniformity
            // of its initial value until the back edge says otherwise.
            known: vec![None; program.registers.len()],
            apart,
        };
        let uniform = Dependence::uniform(Sources::NONE, UNKNOWN);
        // Registers that may be read before they are written are 0 in all threads.
        for reg in Liveness::new(program).live_in(BlockId(0)) {
            facts.known[reg.index()] = Some(uniform);
        }
        while facts.round() || facts.part() {}
        // What is never written is never read.
        let known = facts.known.into_iter();
        known.map(|fact| fact.unwrap_or(uniform)).collect()
    }

    fn view(&self) -> View {
        View {
            group: self.group,
            of_each: self.apart.is_some(),
        }
    }

    /// What some lanes of a group write alone depends on all that parts them, too. Whether something has
    /// changed. Without butterflies it does not matter on which bits a value depends.
    fn part(&mut self) -> bool {
        if self.idioms.butterflies.is_empty() || self.apart.is_some() {
            return false;
        }
        let known = self.known.iter().zip(&self.program.registers);
        let registers: Vec<_> = known
            .map(|(fact, class)| {
                let of = |fact| Uniformity::of(fact, *class, self.group);
                fact.as_ref().map_or(Uniformity::Uniform, of)
            })
            .collect();
        let apart = written_apart(self.program, &registers);
        let mut changed = false;
        for reg in (0..registers.len() as u32).map(Reg) {
            if apart.contains(reg) {
                changed |= self.meet(reg, DIVERGENT);
            }
        }
        changed
    }

    /// Whether something has changed.
    fn round(&mut self) -> bool {
        let program = self.program;
        let mut changed = false;
        for (at, block) in (0..).map(BlockId).zip(&program.blocks) {
            for (number, step) in block.steps.iter().enumerate() {
                let fact = match step {
                    Step::Instruction(i) => {
                        let known = |reg: Reg| self.known[reg.index()];
                        result(
                            program,
                            ((at, number), i),
                            &self.idioms,
                            (self.view(), &known),
                        )
                    }
                    Step::SystemCall { .. } => Some(DIVERGENT),
                };
                if let Some(fact) = fact {
                    program.step_effects(step, &mut |_| {}, &mut |reg| {
                        changed |= self.meet(reg, fact);
                    });
                }
            }
            if let Terminator::Sync { instruction, .. } = &block.terminator {
                let fact = self.synchronized(instruction);
                if let Some(fact) = fact {
                    program.effects(instruction, &mut |_| {}, &mut |reg| {
                        changed |= self.meet(reg, fact);
                    });
                }
            }
        }
        changed
    }

    /// The results of a sync point; `None` as long as an operand is unknown.
    fn synchronized(&self, i: &Instruction) -> Option<Dependence> {
        if self.group != Group::Warp {
            return Some(DIVERGENT);
        }
        let known = |reg: Reg| self.known[reg.index()];
        if butterfly_shuffle(self.program, i).is_some() {
            let mut parts = Vec::new();
            let value = *self.program.list(i.args).get(1)?;
            operand(self.program, value, (self.view(), &known), &mut parts)?;
            let sources = parts
                .iter()
                .fold(Sources::NONE, |all, one| all | one.sources);
            return Some(Dependence::function(sources, UNKNOWN));
        }
        let shared = match together(self.program, i) {
            Some(Together::Shared) => true,
            Some(Together::SharedFrom(lane)) => {
                let mut parts = Vec::new();
                operand(self.program, lane, (self.view(), &known), &mut parts)?;
                parts.iter().all(Dependence::is_uniform)
            }
            Some(Together::Each) | None => false,
        };
        Some(match shared {
            true => Dependence::uniform(Sources::NONE, UNKNOWN),
            false => DIVERGENT,
        })
    }

    fn meet(&mut self, reg: Reg, mut fact: Dependence) -> bool {
        if let Some(linear) = &mut fact.linear {
            linear.base.symbol = linear.base.symbol.map(|_| UNKNOWN);
        }
        if self.apart.as_ref().is_some_and(|apart| apart.contains(reg)) {
            fact = DIVERGENT;
        }
        let known = &mut self.known[reg.index()];
        let met = known.map_or(fact, |known| known.join(&fact, UNKNOWN));
        known.replace(met) != Some(met)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::test_program::with_program;

    #[test]
    fn parts_of_the_index_of_a_thread() {
        let source = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() {
            .reg .b32 %r<16>; .reg .b64 %x<4>; .reg .pred %p<2>;
            mov.u32 %r0, %tid.x;
            and.b32 %r1, %r0, 31;
            shr.u32 %r2, %r0, 5;
            and.b32 %r3, %r0, -16;
            mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ntid.x; mad.lo.s32 %r6, %r4, %r5, %r0;
            shr.s32 %r7, %r6, 4;
            xor.b32 %r8, %r0, 1;
            bfe.u32 %r9, %r0, 0, 5; shl.b32 %r10, %r9, 2;
            mul.lo.u32 %r11, %r0, %r4;
            add.s32 %r12, %r6, 3; shr.u32 %r13, %r12, 4;
            mov.u32 %r14, %laneid; mov.u32 %r15, %lanemask_lt;
            setp.lt.u32 %p0, %r1, 32; setp.lt.u32 %p1, %r1, 7;
            mul.wide.s32 %x0, %r6, 4; mul.wide.s32 %x1, %r12, 4;
            add.s64 %x2, %x0, %x1; cvt.u64.u32 %x3, %r8;
        }";
        let (found, checks) = with_program(source, |program| {
            let info = UniformityInfo::new(program, Group::HalfWarp);
            let found: Vec<_> = (0..22).map(|reg| info.of(Reg(reg))).collect();
            let steps = program.blocks.iter().flat_map(|block| &block.steps);
            let checks: Vec<_> = steps
                .filter_map(|step| match step {
                    Step::Instruction(i) => info.no_wrap(program, i),
                    Step::SystemCall { .. } => None,
                })
                .collect();
            (found, checks)
        });
        use Uniformity::{Affine, Divergent, Uniform};
        let integers = [
            Affine(1),
            Affine(1),
            Uniform,
            Uniform,
            Uniform,
            Uniform,
            Affine(1),
            Uniform,
            Divergent,
            Affine(1),
            Affine(4),
            Divergent,
            Affine(1),
            Divergent,
            Affine(1),
            Divergent,
        ];
        assert_eq!(found[..16], integers);
        assert_eq!(found[16..20], [Affine(4), Affine(4), Affine(8), Divergent]);
        assert_eq!(found[20..], [Uniform, Divergent]);
        // The first index is a multiple of the group, so that nothing in it is carried.
        let check = NoWrap {
            reg: Reg(12),
            stride: 1,
            signed: true,
            clamp: None,
        };
        assert_eq!(checks, [check]);
    }
}
