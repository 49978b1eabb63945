//! What the functions of one kernel agree on: where threads stop and go on, and
//! what they keep meanwhile.

use crate::block::SyncPoint;
use crate::program::{
    Arg, BlockId, Liveness, NoWrap, Program, Refusal, Reg, RegisterSet, Shapes, Terminator,
};
use ptx::names::SpecialRegister;

/// A place where threads go on after the function was left.
pub(super) struct Stop {
    /// Where they go on.
    pub next: BlockId,
    /// What a thread keeps.
    pub kept: Vec<Reg>,
    /// What of it may differ from what the slots hold already.
    pub changed: Vec<Reg>,
    /// What is read before the next sync point.
    pub needed: Vec<Reg>,
    /// The block that ends with this sync point; `None` where lanes part.
    pub sync: Option<BlockId>,
}

/// What the functions of one kernel agree on.
pub(super) struct Plan {
    /// State `i + 1` goes on at stop `i`: sync points first.
    pub stops: Vec<Stop>,
    /// Which registers have a slot.
    pub slots: Vec<Option<u32>>,
    pub slot_count: u32,
    /// The slot that says whether a thread was saved in step with its group.
    pub marker: Option<u32>,
    /// What must hold where a block begins for lanes to go on together.
    pub checks: Vec<Vec<NoWrap>>,
    pub points: Vec<SyncPoint>,
    /// Registers that may be read before they are written.
    pub entry: Vec<Reg>,
    /// Components of `%tid` that the kernel reads.
    pub tid: [bool; 3],
}

impl Plan {
    pub fn new(
        program: &Program<'_>,
        shapes: Option<&Shapes>,
        checks: Vec<Vec<NoWrap>>,
    ) -> Result<Plan, Refusal> {
        use SpecialRegister::{TidX, TidY, TidZ};
        let liveness = Liveness::new(program);
        let mut plan = Plan {
            stops: Vec::new(),
            slots: vec![None; program.registers.len()],
            slot_count: 0,
            marker: None,
            checks,
            points: Vec::new(),
            entry: liveness.at(BlockId(0)).iter().collect(),
            tid: [TidX, TidY, TidZ].map(|r| program.args.contains(&Arg::Special(r))),
        };
        for (i, block) in program.blocks.iter().enumerate() {
            if let Terminator::Sync { instruction, next } = &block.terminator {
                let kind = super::sync::kind_of(instruction)?;
                plan.points.push(SyncPoint {
                    kind,
                    line: instruction.line,
                    barrier: super::sync::constant_barrier(program, instruction),
                });
                let mut results = Vec::new();
                program.effects(instruction, &mut |_| {}, &mut |reg| results.push(reg));
                let kept = liveness
                    .at(*next)
                    .iter()
                    .filter(|r| !results.contains(r))
                    .collect();
                plan.stops.push(Stop {
                    next: *next,
                    kept,
                    changed: Vec::new(),
                    needed: Vec::new(),
                    sync: Some(BlockId(i as u32)),
                });
            }
        }
        if let Some(shapes) = shapes {
            if !plan.stops.is_empty() {
                plan.marker = Some(0);
                plan.slot_count = 1;
            }
            let mut apart: Vec<BlockId> = Vec::new();
            for (i, block) in program.blocks.iter().enumerate() {
                if shapes.may_diverge(program, BlockId(i as u32)) {
                    apart.extend(block.terminator.successors());
                }
                if !plan.checks[i].is_empty() {
                    apart.push(BlockId(i as u32));
                }
            }
            apart.sort_unstable();
            apart.dedup();
            for next in apart {
                let kept = liveness.at(next).iter().collect();
                plan.stops.push(Stop {
                    next,
                    kept,
                    changed: Vec::new(),
                    needed: Vec::new(),
                    sync: None,
                });
            }
        }
        for &reg in plan.stops.iter().flat_map(|s| &s.kept) {
            let slot = &mut plan.slots[reg.index()];
            if slot.is_none() {
                *slot = Some(plan.slot_count);
                plan.slot_count += 1;
            }
        }
        plan.find_changed(program);
        let stored = |block| {
            plan.stops
                .iter()
                .find(|s| s.sync == Some(block))
                .map(|s| s.changed.as_slice())
        };
        let near = Liveness::up_to(program, stored);
        for stop in &mut plan.stops {
            let needed = near.at(stop.next);
            stop.needed = stop
                .kept
                .iter()
                .copied()
                .filter(|&reg| needed.contains(reg))
                .collect();
        }
        Ok(plan)
    }

    /// What each sync point must store. On every way there, the rest was stored
    /// at a sync point before and has not been written since.
    fn find_changed(&mut self, program: &Program<'_>) {
        let registers = program.registers.len();
        // Registers that may differ from their slots where a block begins.
        let mut differ: Vec<Option<RegisterSet>> = vec![None; program.blocks.len()];
        let mut entry = RegisterSet::new(registers);
        (0..registers).for_each(|i| entry.insert(Reg(i as u32)));
        differ[0] = Some(entry);
        let mut open = vec![BlockId(0)];
        while let Some(at) = open.pop() {
            let Some(mut now) = differ[at.index()].clone() else {
                continue;
            };
            let block = &program.blocks[at.index()];
            for step in &block.steps {
                program.step_effects(step, &mut |_| {}, &mut |reg| now.insert(reg));
            }
            if let Terminator::Sync { instruction, .. } = &block.terminator
                && let Some(stop) = self.stops.iter_mut().find(|s| s.sync == Some(at))
            {
                stop.changed = stop
                    .kept
                    .iter()
                    .copied()
                    .filter(|&r| now.contains(r))
                    .collect();
                stop.kept.iter().for_each(|&reg| now.remove(reg));
                program.effects(instruction, &mut |_| {}, &mut |reg| now.insert(reg));
            }
            for next in block.terminator.successors() {
                let known = &mut differ[next.index()];
                match known {
                    Some(known) => {
                        let before = known.clone();
                        known.add(&now);
                        if *known != before {
                            open.push(next);
                        }
                    }
                    None => {
                        *known = Some(now.clone());
                        open.push(next);
                    }
                }
            }
        }
    }

    /// The state of threads that go on where lanes part for `block`.
    pub fn state_of(&self, block: BlockId) -> Option<u32> {
        let at = self
            .stops
            .iter()
            .position(|s| s.sync.is_none() && s.next == block)?;
        Some(at as u32 + 1)
    }
}
