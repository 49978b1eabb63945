//! Resume points, and the registers that suspended threads save.
//!
//! The scalar and the vector function of a kernel share them: a thread that one of
//! them suspends can be resumed by the other.

use crate::abi::{SyncKind, SyncPoint};
use crate::codegen::emitter::machine_code::MachineCode;
use crate::codegen::kernel_code::{KernelCode, VectorCode};
use crate::matrix::Operation;
use crate::program::{
    self, Arg, BlockId, Instruction, Liveness, LoweringError, Program, Reg, RegisterSet,
    Terminator, passes,
};
use ptx::names::SpecialRegister;

/// A place where a suspended thread resumes: behind a sync point.
pub(in crate::codegen) struct ResumePoint {
    /// The block in which the thread resumes.
    pub next: BlockId,
    /// The live registers.
    pub live: Vec<Reg>,
    /// The live registers whose value may differ from the slot's.
    pub dirty: Vec<Reg>,
    /// The live registers that are read before the next sync point.
    pub reload: Vec<Reg>,
    /// The block that ends with this sync point.
    pub sync: BlockId,
}

/// The resume points of a kernel and the layout of its saved registers.
pub(in crate::codegen) struct ResumePlan {
    /// A thread in state `i + 1` resumes at point `i`.
    pub resume_points: Vec<ResumePoint>,
    /// By block: the number of the resume point of the sync point at its end.
    pub sync_at: Vec<Option<u32>>,
    /// The slot of each register that is live at a resume point.
    pub slots: Vec<Option<u32>>,
    pub slot_count: u32,
    pub sync_points: Vec<SyncPoint>,
    pub matrices: Vec<Operation>,
    /// Registers that may be read before they are written.
    pub entry_live_in: Vec<Reg>,
    pub liveness: Liveness,
    /// By register: whether one block alone reads and writes it.
    pub local: Vec<bool>,
    /// Components of `%tid` that the kernel reads.
    pub tid: [bool; 3],
}

/// Computes registers again where threads resume, if that takes no longer than to load them.
pub(in crate::codegen) fn rematerialize(program: &mut Program<'_>) {
    let next = program
        .blocks
        .iter()
        .filter_map(|block| match block.terminator {
            Terminator::Sync { next, .. } => Some(next),
            _ => None,
        });
    let mut blocks: Vec<BlockId> = next.collect();
    blocks.sort_unstable();
    blocks.dedup();
    if !blocks.is_empty() {
        program::rematerialize(program, &blocks);
        passes::done(program, "rematerialize");
    }
}

impl ResumePlan {
    pub fn new(program: &Program<'_>) -> Result<ResumePlan, LoweringError> {
        use SpecialRegister::{TidX, TidY, TidZ};
        let liveness = Liveness::new(program);
        let mut plan = ResumePlan {
            resume_points: Vec::new(),
            sync_at: vec![None; program.blocks.len()],
            slots: vec![None; program.registers.len()],
            slot_count: 0,
            sync_points: Vec::new(),
            matrices: Vec::new(),
            entry_live_in: liveness.live_in(BlockId(0)).to_vec(),
            local: local(program, &liveness),
            liveness,
            tid: [TidX, TidY, TidZ].map(|register| {
                let register = Arg::Special(register);
                let mut blocks = program.blocks.iter();
                program.args.contains(&register)
                    || blocks.any(|block| match &block.terminator {
                        Terminator::Table { index, .. } => *index == register,
                        _ => false,
                    })
            }),
        };
        for (i, block) in program.blocks.iter().enumerate() {
            if let Terminator::Sync { instruction, next } = &block.terminator {
                let kind = crate::codegen::instructions::sync::kind_of(instruction)?;
                plan.sync_points.push(SyncPoint {
                    kind,
                    line: instruction.line,
                    barrier: crate::codegen::instructions::sync::constant_barrier(
                        program,
                        instruction,
                    ),
                    matrix: None,
                    then: None,
                });
                let mut results = Vec::new();
                program.effects(instruction, &mut |_| {}, &mut |reg| results.push(reg));
                let live = plan.liveness.live_in(*next).iter().copied();
                let live = match kind {
                    // Its operands and results are in slots.
                    SyncKind::Matrix => {
                        let mut live: Vec<Reg> = live.collect();
                        live.extend(crate::codegen::instructions::matrix::sources(
                            program,
                            instruction,
                        ));
                        live.sort_unstable();
                        live.dedup();
                        live
                    }
                    _ => live.filter(|r| !results.contains(r)).collect(),
                };
                plan.sync_at[i] = Some(plan.resume_points.len() as u32);
                plan.resume_points.push(ResumePoint {
                    next: *next,
                    live,
                    dirty: Vec::new(),
                    reload: Vec::new(),
                    sync: BlockId(i as u32),
                });
            }
        }
        if plan.resume_points.is_empty() {
            return Ok(plan);
        }
        for &reg in plan.resume_points.iter().flat_map(|p| &p.live) {
            let slot = &mut plan.slots[reg.index()];
            if slot.is_none() {
                *slot = Some(plan.slot_count);
                plan.slot_count += 1;
            }
        }
        plan.find_dirty(program);
        plan.find_matrices(program)?;
        let stored = |block: BlockId| {
            let point = &plan.resume_points[plan.sync_at[block.index()]? as usize];
            Some(point.dirty.as_slice())
        };
        let liveness_to_sync = Liveness::until_sync(program, stored);
        for point in &mut plan.resume_points {
            let reload = liveness_to_sync.live_in(point.next);
            point.reload = point
                .live
                .iter()
                .copied()
                .filter(|reg| reload.binary_search(reg).is_ok())
                .collect();
        }
        Ok(plan)
    }

    /// Finds the registers that each sync point must store. On every path to it, the
    /// others were stored at an earlier sync point and not written since.
    fn find_dirty(&mut self, program: &Program<'_>) {
        // The slots from which their registers may differ at the start of each block. Others are
        // not asked for.
        let mut dirty_in: Vec<Option<RegisterSet>> = vec![None; program.blocks.len()];
        let slot_count = self.slot_count;
        let mut entry = RegisterSet::new(slot_count as usize);
        (0..slot_count).for_each(|slot| entry.insert(Reg(slot)));
        dirty_in[0] = Some(entry);
        let slots = &self.slots;
        let slot = |reg: Reg| slots[reg.index()].map(Reg);
        let mut worklist = vec![BlockId(0)];
        while let Some(at) = worklist.pop() {
            let Some(mut dirty) = dirty_in[at.index()].clone() else {
                continue;
            };
            let block = &program.blocks[at.index()];
            for step in &block.steps {
                program.step_effects(step, &mut |_| {}, &mut |reg| {
                    slot(reg).into_iter().for_each(|slot| dirty.insert(slot));
                });
            }
            if let Terminator::Sync { instruction, .. } = &block.terminator
                && let Some(number) = self.sync_at[at.index()]
            {
                let point = &mut self.resume_points[number as usize];
                // The operation writes the slots of its results.
                let in_slots = |reg: Reg| {
                    let mut result = false;
                    if instruction.is_matrix() {
                        program.effects(instruction, &mut |_| {}, &mut |r| result |= r == reg);
                        result &=
                            !crate::codegen::instructions::matrix::sources(program, instruction)
                                .contains(&reg);
                    }
                    result
                };
                point.dirty = point
                    .live
                    .iter()
                    .copied()
                    .filter(|&r| slot(r).is_some_and(|slot| dirty.contains(slot)) && !in_slots(r))
                    .collect();
                let live = point.live.iter().filter_map(|&reg| slot(reg));
                live.for_each(|slot| dirty.remove(slot));
                if !instruction.is_matrix() {
                    program.effects(instruction, &mut |_| {}, &mut |reg| {
                        slot(reg).into_iter().for_each(|slot| dirty.insert(slot));
                    });
                }
            }
            for next in block.terminator.successors() {
                let known = &mut dirty_in[next.index()];
                match known {
                    Some(known) => {
                        let before = known.clone();
                        known.add(&dirty);
                        if *known != before {
                            worklist.push(next);
                        }
                    }
                    None => {
                        *known = Some(dirty.clone());
                        worklist.push(next);
                    }
                }
            }
        }
    }

    /// Describes the operations on matrices by the slots of their registers, and finds those
    /// that follow another with nothing in between.
    fn find_matrices(&mut self, program: &Program<'_>) -> Result<(), LoweringError> {
        for number in 0..self.sync_points.len() {
            let point = &self.resume_points[number];
            let Terminator::Sync { instruction, .. } =
                &program.blocks[point.sync.index()].terminator
            else {
                continue;
            };
            if self.sync_points[number].kind != SyncKind::Matrix {
                continue;
            }
            let operation =
                crate::codegen::instructions::matrix::operation(program, instruction, &self.slots)?;
            self.sync_points[number].matrix = Some(self.matrices.len() as u32);
            self.matrices.push(operation);
            let next = self.sync_at[point.next.index()];
            let follows = next.is_some_and(|next| {
                let next = next as usize;
                let mut requests = false;
                let block = self.resume_points[next].sync;
                if let Terminator::Sync { instruction, .. } =
                    &program.blocks[block.index()].terminator
                {
                    requests =
                        crate::codegen::instructions::matrix::has_request(program, instruction);
                }
                self.sync_points[next].kind == SyncKind::Matrix
                    && program.blocks[point.next.index()].steps.is_empty()
                    && self.resume_points[next].dirty.is_empty()
                    && !requests
            });
            if follows {
                self.sync_points[number].then = next;
            }
        }
        Ok(())
    }

    pub fn code(self, scalar: MachineCode, vector: Option<VectorCode>) -> KernelCode {
        KernelCode {
            scalar,
            vector,
            slots: self.slot_count,
            stateless: self.resume_points.is_empty(),
            sync_points: self.sync_points,
            matrices: self.matrices,
        }
    }
}

fn sync_points<'p>(program: &'p Program<'_>) -> impl Iterator<Item = &'p Instruction> {
    program
        .blocks
        .iter()
        .filter_map(|block| match &block.terminator {
            Terminator::Sync { instruction, .. } => Some(instruction),
            _ => None,
        })
}

/// By register: whether one block alone reads and writes it. The results of sync points are
/// written after their block.
fn local(program: &Program<'_>, liveness: &Liveness) -> Vec<bool> {
    let mut local = vec![true; program.registers.len()];
    for number in 0..program.blocks.len() {
        for &reg in liveness.live_in(BlockId(number as u32)) {
            local[reg.index()] = false;
        }
    }
    for instruction in sync_points(program) {
        let not_local = &mut |reg: Reg| local[reg.index()] = false;
        program.effects(instruction, &mut |_| {}, not_local);
    }
    local
}
