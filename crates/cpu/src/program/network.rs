//! Sorting networks that a warp runs on memory, without barriers: `a[i ^ d]` and `a[i & -d]` with a
//! distance that changes from step to step, of what another lane has exchanged in the step before.

use super::ir::{Arg, Base, Instruction, Program, Reg, RegClass, Step, Terminator};
use super::lanes::Group;
use super::liveness::RegisterSet;
use super::memory_access::memory_access;
use super::uniformity::UniformityInfo;
use ptx::names::Opcode;

/// Whether a loop of the kernel does so.
pub(super) fn has_network(program: &Program<'_>) -> bool {
    let mut steps = program.blocks.iter().flat_map(|block| &block.steps);
    if !steps.any(|step| mixed(program, step).is_some()) {
        return false;
    }
    let graph = program.graph();
    let mut uniformity = None;
    for (from, to) in graph.back_edges() {
        let inside = graph.natural_loop(from, to);
        let blocks = program.blocks.iter().zip(inside);
        let blocks = blocks.filter_map(|(block, inside)| inside.then_some(block));
        let blocks: Vec<_> = blocks.collect();
        let meets = |terminator: &Terminator| matches!(terminator, Terminator::Sync { .. });
        if blocks.iter().any(|block| meets(&block.terminator)) {
            continue;
        }
        let steps: Vec<&Step> = blocks.iter().flat_map(|block| &block.steps).collect();
        if !exchanges(program, &steps, |_| true) {
            continue;
        }
        let mut changing = RegisterSet::new(program.registers.len());
        for step in &steps {
            program.step_effects(step, &mut |_| {}, &mut |reg| changing.insert(reg));
        }
        let mut partners = RegisterSet::new(program.registers.len());
        let mut any = false;
        for step in &steps {
            let Some((to, operands)) = mixed(program, step) else {
                continue;
            };
            if !operands.iter().any(|reg| changing.contains(*reg)) {
                continue;
            }
            let info = uniformity.get_or_insert_with(|| UniformityInfo::new(program, Group::Warp));
            let is_uniform = |reg: &Reg| info.is_uniform(program, Arg::Reg(*reg));
            let distance = |reg: &Reg| changing.contains(*reg) && is_uniform(reg);
            if operands.iter().any(distance) && !operands.iter().all(is_uniform) {
                partners.insert(to);
                any = true;
            }
        }
        if any {
            computed_from(program, &steps, &mut partners);
            let is_partner = |i: &Instruction| {
                let mut addresses = program.list(i.args).iter();
                addresses.any(|arg| match arg {
                    Arg::Address(Base::Reg(reg), _) => partners.contains(*reg),
                    _ => false,
                })
            };
            if exchanges(program, &steps, is_partner) {
                return true;
            }
        }
    }
    false
}

/// The result of bitwise arithmetic on several registers, and these.
fn mixed(program: &Program<'_>, step: &Step) -> Option<(Reg, Vec<Reg>)> {
    let Step::Instruction(i) = step else {
        return None;
    };
    let (Opcode::And | Opcode::Xor | Opcode::Or | Opcode::Lop3) = i.opcode else {
        return None;
    };
    let (Arg::Reg(to), operands) = program.list(i.args).split_first()? else {
        return None;
    };
    let is_number = |reg: Reg| {
        let class = program.registers[reg.index()];
        matches!(class, RegClass::I32 | RegClass::I64)
    };
    let operands = operands.iter().filter_map(|arg| match arg {
        Arg::Reg(reg) if is_number(*reg) => Some(*reg),
        _ => None,
    });
    let operands: Vec<Reg> = operands.collect();
    (operands.len() > 1).then_some((*to, operands))
}

/// Adds the registers that the steps compute from those of a set.
fn computed_from(program: &Program<'_>, steps: &[&Step], set: &mut RegisterSet) {
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for step in steps {
            let mut reads = false;
            let mut written = Vec::new();
            program.step_effects(step, &mut |reg| reads |= set.contains(reg), &mut |reg| {
                written.push(reg)
            });
            for reg in written {
                if reads && !set.contains(reg) {
                    set.insert(reg);
                    changed = true;
                }
            }
        }
    }
}

/// Whether the steps load and store memory that threads share, by instructions of this kind.
fn exchanges(
    program: &Program<'_>,
    steps: &[&Step],
    is_wanted: impl Fn(&Instruction) -> bool,
) -> bool {
    let (mut loads, mut stores) = (false, false);
    for step in steps {
        if let Step::Instruction(i) = step
            && let Some(access) = memory_access(program, step)
            && is_wanted(i)
        {
            loads |= access.is_load;
            stores |= !access.is_load;
        }
    }
    loads && stores
}
