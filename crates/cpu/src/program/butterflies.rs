//! Butterflies: shuffles across one bit of the lane's number, and a commutative operation on what a lane
//! had and what it got. Both lanes make the same, so that the result does not depend on that bit. A
//! reduction over all bits gives all lanes of a warp one value.

use std::collections::HashMap;

use super::ir::{Arg, BlockId, Instruction, Program, Reg, Step, Terminator};
use super::together::together;
use analysis::dependence::commutes;
use ptx::names::{Modifier as M, Opcode as O};

/// The steps behind a shuffle among which the operation may be.
const MAX_STEPS: usize = 64;

/// The bit of each operation, by its block and step.
pub(super) fn butterflies(program: &Program<'_>) -> HashMap<(BlockId, usize), u32> {
    let mut found = HashMap::new();
    let mut predecessors = vec![0_u32; program.blocks.len()];
    for block in &program.blocks {
        for next in block.terminator.successors() {
            predecessors[next.index()] += 1;
        }
    }
    for block in &program.blocks {
        let Terminator::Sync { instruction, next } = &block.terminator else {
            continue;
        };
        if let Some((mask, registers)) = butterfly_shuffle(program, instruction)
            && mask.is_power_of_two()
            && let Some(place) = operation(program, *next, registers, &predecessors)
        {
            found.insert(place, mask.trailing_zeros());
        }
    }
    found
}

/// What the lane's number is xored with in a shuffle of all lanes, what is shuffled, and the result.
pub(super) fn butterfly_shuffle(program: &Program<'_>, i: &Instruction) -> Option<(u32, [Reg; 2])> {
    let is_butterfly = i.opcode == O::Shfl && i.modifiers.has(M::Bfly) && i.guard.is_none();
    together(program, i).filter(|_| is_butterfly)?;
    match *program.list(i.args) {
        [to, Arg::Reg(from), Arg::Int(mask @ 0..32), Arg::Int(31), ..] => {
            let to = match to {
                Arg::Reg(to) => to,
                Arg::List(list) => match program.list(list) {
                    &[Arg::Reg(to), ..] => to,
                    _ => return None,
                },
                _ => return None,
            };
            Some((mask as u32, [from, to]))
        }
        _ => None,
    }
}

/// The operation on both registers in what follows a shuffle alone, if nothing writes them before.
fn operation(
    program: &Program<'_>,
    mut at: BlockId,
    registers: [Reg; 2],
    predecessors: &[u32],
) -> Option<(BlockId, usize)> {
    let [from, to] = registers;
    let mut left = MAX_STEPS;
    let is_written = |step: &Step| {
        let mut written = false;
        program.step_effects(step, &mut |_| {}, &mut |reg| {
            written |= registers.contains(&reg);
        });
        written
    };
    while from != to && at.0 > 0 && predecessors[at.index()] == 1 {
        let block = &program.blocks[at.index()];
        for (number, step) in block.steps.iter().enumerate().take(left) {
            if let Step::Instruction(i) = step
                && commutes(i.opcode)
                && !i.meaning.carry_in
                && !i.meaning.carry_out
                && let &[_, Arg::Reg(a), Arg::Reg(b)] = program.list(i.args)
                && ([a, b] == [from, to] || [b, a] == [from, to])
            {
                return Some((at, number));
            }
            if is_written(step) {
                return None;
            }
        }
        left = left.checked_sub(block.steps.len() + 1)?;
        at = match &block.terminator {
            Terminator::Jump(next) => *next,
            Terminator::Sync { instruction, next } => {
                if is_written(&Step::Instruction(*instruction)) {
                    return None;
                }
                *next
            }
            _ => return None,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::program::test_program::with_program;
    use crate::program::{Group, Reg, Uniformity, UniformityInfo};

    /// The uniformity of registers of a kernel with these statements.
    fn uniformity(body: &str, group: Group, registers: &[u32]) -> Vec<Uniformity> {
        let source = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() {{
            .reg .b32 %r<12>; .shared .b32 tile[32];\n{body}\n}}"
        );
        with_program(&source, |program| {
            let info = UniformityInfo::new(program, group);
            registers.iter().map(|reg| info.of(Reg(*reg))).collect()
        })
    }

    #[test]
    fn a_reduction_over_all_bits_is_uniform() {
        let body = "mov.u32 %r0, %tid.x; mul.lo.u32 %r0, %r0, %r0;
            shfl.sync.bfly.b32 %r1, %r0, 16, 31, -1; add.u32 %r2, %r0, %r1;
            shfl.sync.bfly.b32 %r3, %r2, 8, 31, -1; max.u32 %r4, %r3, %r2;
            shfl.sync.bfly.b32 %r5, %r4, 4, 31, -1; xor.b32 %r6, %r4, %r5;
            shfl.sync.bfly.b32 %r7, %r6, 2, 31, -1; mul.lo.u32 %r8, %r6, %r7;
            shfl.sync.bfly.b32 %r9, %r8, 1, 31, -1; add.u32 %r10, %r9, %r8;
            shfl.sync.bfly.b32 %r11, %r8, 3, 31, -1; add.u32 %r11, %r11, %r8;";
        let all: Vec<u32> = (0..10).collect();
        assert_eq!(
            uniformity(body, Group::Warp, &all),
            [Uniformity::Divergent; 10]
        );
        let last = uniformity(body, Group::Warp, &[10, 11]);
        assert_eq!(last, [Uniformity::Uniform, Uniformity::Divergent]);
        // Half a warp has no value of the other half where it stands.
        assert_eq!(
            uniformity(body, Group::HalfWarp, &[10]),
            [Uniformity::Divergent]
        );
    }

    /// Lanes that load from one address have the same, unless others store there meanwhile.
    #[test]
    fn pairs_of_lanes_that_load() {
        for (load, expected) in [
            ("ld.shared.b32", Uniformity::Uniform),
            ("ld.volatile.shared.b32", Uniformity::Divergent),
        ] {
            let body = format!(
                "mov.u32 %r0, %tid.x; shl.b32 %r0, %r0, 1; and.b32 %r0, %r0, 60;
                mov.u32 %r1, tile; add.u32 %r0, %r0, %r1; {load} %r2, [%r0];
                shfl.sync.bfly.b32 %r3, %r2, 16, 31, -1; add.u32 %r4, %r2, %r3;
                shfl.sync.bfly.b32 %r5, %r4, 8, 31, -1; add.u32 %r6, %r4, %r5;
                shfl.sync.bfly.b32 %r7, %r6, 4, 31, -1; add.u32 %r8, %r6, %r7;
                shfl.sync.bfly.b32 %r9, %r8, 2, 31, -1; add.u32 %r10, %r8, %r9;"
            );
            assert_eq!(uniformity(&body, Group::Warp, &[10]), [expected], "{load}");
        }
    }
}
