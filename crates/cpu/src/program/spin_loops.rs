//! Loops that wait for another thread: `while (atomicCAS(lock, 0, 1));`.
//!
//! The threads of a block run one after the other, so that such a loop would never
//! end. If the exit condition of a loop depends on an atomic operation or on a
//! volatile or ordered load in the loop, its back edge gets a sync point that yields
//! to the other threads. One thread may do so for its block, and tell the others
//! through memory: what is stored in the loop is read in it.
//!
//! So does a loop that reads the same memory by weak loads and never ends by itself.

use super::ir::{
    Arg, ArgList, BasicBlock, BlockId, Instruction, Modifiers, Program, Step, Terminator,
};
use super::liveness::RegisterSet;
use super::simplify_cfg::retarget;
use ptx::ast::Span;
use ptx::isa::Effect;
use ptx::names::{Modifier, Opcode};

/// Loops that wait are short.
const MAX_BLOCKS: u32 = 8;

pub(super) fn insert_yields(program: &mut Program<'_>) {
    let steps = || program.blocks.iter().flat_map(|block| &block.steps);
    let polls = steps().any(is_poll);
    if !polls && !steps().any(is_weak_load) {
        return;
    }
    let graph = program.graph();
    let waiting = |&(from, to): &(BlockId, BlockId)| {
        let is_short = to <= from && from.0 - to.0 < MAX_BLOCKS;
        if !polls && !is_short {
            return false;
        }
        let inside = graph.natural_loop(from, to);
        polls && exit_depends_on_poll(program, &inside)
            || is_short && ends_by_memory_alone(program, &inside)
    };
    let waiting: Vec<_> = graph.back_edges().filter(waiting).collect();
    for (from, to) in waiting {
        let line =
            program.blocks[from.index()]
                .steps
                .iter()
                .last()
                .map_or(program.line, |s| match s {
                    Step::Instruction(i) => i.line,
                    Step::SystemCall { line, .. } => *line,
                });
        let yield_block = BlockId(program.blocks.len() as u32);
        let (modifiers, args) = (Modifiers::default(), ArgList::default());
        let instruction =
            Instruction::new(Opcode::Nanosleep, modifiers, args, Span::default(), line);
        program.blocks.push(BasicBlock {
            steps: Vec::new(),
            terminator: Terminator::Sync {
                instruction,
                next: to,
            },
        });
        let mut terminator = program.blocks[from.index()].terminator.clone();
        retarget(&mut terminator, |t| if t == to { yield_block } else { t });
        program.blocks[from.index()].terminator = terminator;
    }
}

/// Whether the step reads memory that another thread may be changing.
fn is_poll(step: &Step) -> bool {
    let Step::Instruction(i) = step else {
        return false;
    };
    match i.meaning.effect {
        // A barrier that other threads arrive at.
        _ if i.opcode == Opcode::Mbarrier => {
            let waits = [Modifier::TestWait, Modifier::TryWait];
            i.modifiers.first_of(&waits).is_some()
        }
        Effect::Update => true,
        // `.cv` asks for the memory again each time, too.
        Effect::Load => i.meaning.strong || i.modifiers.has(Modifier::Cv),
        _ => false,
    }
}

fn has_effect(step: &Step, effect: Effect) -> bool {
    matches!(step, Step::Instruction(i) if i.meaning.effect == effect)
}

/// Whether a branch out of the loop depends on a value that is polled in it.
fn exit_depends_on_poll(program: &Program<'_>, inside: &[bool]) -> bool {
    let mut polled = RegisterSet::new(program.registers.len());
    // Whether memory holds what was polled.
    let mut stored = false;
    let blocks = || {
        program
            .blocks
            .iter()
            .zip(inside)
            .filter(|&(_, &i)| i)
            .map(|(b, _)| b)
    };
    loop {
        let mut changed = false;
        for step in blocks().flat_map(|b| &b.steps) {
            let mut tainted = is_poll(step) || (stored && has_effect(step, Effect::Load));
            let mut written = Vec::new();
            program.step_effects(
                step,
                &mut |reg| tainted |= polled.contains(reg),
                &mut |reg| written.push(reg),
            );
            if tainted && !stored && has_effect(step, Effect::Store) {
                stored = true;
                changed = true;
            }
            for reg in written {
                if tainted && !polled.contains(reg) {
                    polled.insert(reg);
                    changed = true;
                }
            }
        }
        if !changed {
            break;
        }
    }
    blocks().any(|b| match &b.terminator {
        Terminator::Branch {
            predicate,
            then,
            otherwise,
        } => polled.contains(predicate.reg) && !(inside[then.index()] && inside[otherwise.index()]),
        _ => false,
    })
}

/// A load of memory that other threads may write.
fn is_weak_load(step: &Step) -> bool {
    let own = [Modifier::Param, Modifier::Local, Modifier::Const];
    match step {
        Step::Instruction(i) => {
            i.meaning.effect == Effect::Load && i.modifiers.first_of(&own).is_none()
        }
        Step::SystemCall { .. } => false,
    }
}

/// Whether all branches out of a loop depend on what is loaded in it and on what it does not change, and
/// it does nothing but load and compute.
fn ends_by_memory_alone(program: &Program<'_>, inside: &[bool]) -> bool {
    let blocks = || {
        program
            .blocks
            .iter()
            .zip(inside)
            .filter(|(_, inside)| **inside)
    };
    let steps = || blocks().flat_map(|(block, _)| &block.steps);
    let is_quiet = |step: &Step| has_effect(step, Effect::Pure) || has_effect(step, Effect::Load);
    if !steps().all(is_quiet) || !steps().any(is_weak_load) {
        return false;
    }
    let mut defined = RegisterSet::new(program.registers.len());
    for step in steps() {
        program.step_effects(step, &mut |_| {}, &mut |reg| defined.insert(reg));
    }
    // What an iteration has from the one before, or from the time.
    let mut varies = RegisterSet::new(program.registers.len());
    let mut seen = RegisterSet::new(program.registers.len());
    for step in steps() {
        let mut used = |reg| {
            if defined.contains(reg) && !seen.contains(reg) {
                varies.insert(reg);
            }
        };
        let mut written = Vec::new();
        program.step_effects(step, &mut used, &mut |reg| written.push(reg));
        let reads_special = match step {
            Step::Instruction(i) => {
                let args = program.list(i.args);
                args.iter().any(|arg| matches!(arg, Arg::Special(_)))
            }
            Step::SystemCall { .. } => true,
        };
        for reg in written {
            seen.insert(reg);
            if reads_special {
                varies.insert(reg);
            }
        }
    }
    let mut loaded = RegisterSet::new(program.registers.len());
    loop {
        let mut changed = false;
        for step in steps() {
            let (mut is_varying, mut is_loaded) = (false, is_weak_load(step));
            let mut written = Vec::new();
            let mut used = |reg| {
                is_varying |= varies.contains(reg);
                is_loaded |= loaded.contains(reg);
            };
            program.step_effects(step, &mut used, &mut |reg| written.push(reg));
            for reg in written {
                for (all, belongs) in [(&mut varies, is_varying), (&mut loaded, is_loaded)] {
                    if belongs && !all.contains(reg) {
                        all.insert(reg);
                        changed = true;
                    }
                }
            }
        }
        if !changed {
            break;
        }
    }
    let mut exits = 0;
    let waits = blocks().all(|(block, _)| match &block.terminator {
        Terminator::Jump(_) => true,
        Terminator::Branch {
            predicate,
            then,
            otherwise,
        } => {
            let stays = inside[then.index()] && inside[otherwise.index()];
            exits += u32::from(!stays);
            stays || loaded.contains(predicate.reg) && !varies.contains(predicate.reg)
        }
        _ => false,
    });
    waits && exits > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{build, module_data};
    use ptx::ast::Item;

    /// How many loops of a kernel let others run.
    fn yields(body: &str) -> usize {
        let source = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 a) {{
            .reg .b64 %x<4>; .reg .b32 %r<8>; .reg .pred %p<4>; .shared .b8 tile[64];
            ld.param.u64 %x0, [a]; mov.u32 %r1, 0; mov.u32 %r2, %tid.x;\n{body}\n}}"
        );
        let reading = ptx::read(&source);
        let (data, _) = module_data(&reading.module, &source);
        let Some(Item::Function(kernel)) = reading.module.items.first() else {
            panic!("no kernel");
        };
        let program = build(&data, kernel, kernel.body.as_ref().unwrap()).unwrap();
        let is_yield = |block: &&BasicBlock| {
            matches!(&block.terminator, Terminator::Sync { instruction, .. }
                if instruction.opcode == Opcode::Nanosleep)
        };
        program.blocks.iter().filter(is_yield).count()
    }

    #[test]
    fn loops_that_end_by_what_others_store() {
        for body in [
            "A: ld.global.u32 %r3, [%x0]; setp.ne.u32 %p0, %r3, %r2; @%p0 bra A;",
            "A: ld.global.u32 %r3, [%x0]; add.u64 %x1, %x0, 8; ld.global.u32 %r4, [%x1];
             add.u32 %r3, %r3, %r4; setp.ne.u32 %p0, %r3, 7; @%p0 bra A;",
            "A: ld.shared.u32 %r3, [tile]; setp.ne.u32 %p0, %r3, 0; @%p0 bra B; bra A; B:",
            // The address is where the memory says.
            "A: ld.global.u64 %x1, [%x0]; ld.global.u32 %r3, [%x1]; setp.eq.u32 %p0, %r3, 0; @%p0 bra A;",
        ] {
            assert_eq!(yields(body), 1, "{body}");
        }
    }

    #[test]
    fn loops_that_end_by_themselves() {
        for body in [
            // They count, or go on.
            "A: ld.global.u32 %r3, [%x0]; add.u32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, %r3; @%p0 bra A;",
            "A: ld.global.u32 %r3, [%x0]; add.u64 %x0, %x0, 4; setp.ne.u32 %p0, %r3, 0; @%p0 bra A;",
            "A: ld.global.u64 %x0, [%x0]; setp.ne.u64 %p0, %x0, 0; @%p0 bra A;",
            "A: ld.global.u32 %r3, [%x0]; add.u32 %r1, %r1, 1; setp.eq.u32 %p1, %r1, 99; @%p1 bra B;
             setp.ne.u32 %p0, %r3, 0; @%p0 bra A; B:",
            // They store, or look at the time.
            "A: ld.global.u32 %r3, [%x0]; sub.u32 %r3, %r3, 1; st.global.u32 [%x0], %r3;
             setp.ne.u32 %p0, %r3, 0; @%p0 bra A;",
            "A: mov.u32 %r4, %clock; ld.global.u32 %r3, [%x0]; setp.lt.u32 %p0, %r4, %r3; @%p0 bra A;",
            // Nobody ever ends it.
            "A: ld.global.u32 %r3, [%x0]; setp.ne.u32 %p0, %r2, 0; @%p0 bra A;",
            "A: ld.global.u32 %r3, [%x0]; bra A;",
        ] {
            assert_eq!(yields(body), 0, "{body}");
        }
    }
}
