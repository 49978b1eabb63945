//! Resume points, and the registers that suspended threads save.
//!
//! The scalar and the vector function of a kernel share them: a thread that one of
//! them suspends can be resumed by the other.

use super::checked_together::CheckedTogether;
use super::clamped_load::ClampedLoad;
use super::divergent_regions::DivergentRegions;
use super::guarded_path::{self, GuardedPath};
use super::interchanged_loop::InterchangedLoop;
use super::masked_branch::{self, MaskedBranch};
use super::wrap_check::WrapChecks;
use crate::abi::{SyncKind, SyncPoint};
use crate::matrix::Operation;
use crate::program::{
    Arg, BlockId, Instruction, Liveness, LoweringError, NoWrap, Program, Reg, RegisterSet, Step,
    Terminator, Uniformity, UniformityInfo, block_frequencies,
};
use ptx::names::SpecialRegister;

/// A place where a suspended thread resumes.
pub(super) struct ResumePoint {
    /// The block in which the thread resumes.
    pub next: BlockId,
    /// The live registers.
    pub live: Vec<Reg>,
    /// The live registers whose value may differ from the slot's.
    pub dirty: Vec<Reg>,
    /// The live registers that are read before the next sync point.
    pub reload: Vec<Reg>,
    /// The block that ends with this sync point; `None` where a lane group diverges.
    pub sync: Option<BlockId>,
    /// A sync point that the vector function passes: its lanes execute it together.
    pub is_passed: bool,
    /// The registers whose slots stay as they are until the next sync point at which the vector
    /// function suspends its group.
    pub steady: Vec<Reg>,
}

/// The resume points of a kernel and the layout of its saved registers.
pub(super) struct ResumePlan {
    /// The width of the vector function's lane groups.
    pub group: u32,
    /// A thread in state `i + 1` resumes at point `i`. The sync points come first.
    pub resume_points: Vec<ResumePoint>,
    /// By block: the number of the resume point of the sync point at its end.
    pub sync_at: Vec<Option<u32>>,
    /// By block: that of the threads that start it after their group diverged.
    diverged_at: Vec<Option<u32>>,
    /// The slot of each register that is live at a resume point.
    pub slots: Vec<Option<u32>>,
    pub slot_count: u32,
    /// The slot in which the first lane of a group has whether the slots of its other lanes
    /// follow from its own.
    pub packed_slot: Option<u32>,
    /// By register: the stride from lane to lane, where the vector function saves the value of
    /// the first lane alone.
    pub strides: Vec<Option<i64>>,
    /// By block: the registers that are saved at its end instead of at sync points.
    pub saved: Vec<Vec<Reg>>,
    /// By block: how the arms of its branch are executed where the lane group diverges.
    pub masked: Vec<Option<MaskedBranch>>,
    /// What lanes execute one after the other where the lane group diverges.
    pub regions: DivergentRegions,
    /// By block: the path behind it that a group takes where all guards hold.
    pub guarded: Vec<Option<GuardedPath>>,
    /// By block: the values that must not wrap for the lane group to run it.
    pub checks: Vec<Vec<NoWrap>>,
    /// By block: the load that goes on lane by lane where they do.
    pub clamped: Vec<Option<ClampedLoad>>,
    /// The loops that the lane groups run step by step.
    pub interchanged: Vec<InterchangedLoop>,
    pub together: CheckedTogether,
    pub sync_points: Vec<SyncPoint>,
    pub matrices: Vec<Operation>,
    /// Registers that may be read before they are written.
    pub entry_live_in: Vec<Reg>,
    pub liveness: Liveness,
    /// By register: whether one block alone reads and writes it.
    pub local: Vec<bool>,
    /// Components of `%tid` that the kernel reads.
    pub tid: [bool; 3],
    /// It reads them in some block that a thread may reach after a sync point.
    pub resumes_with_tid: bool,
    /// By register: whether its slot stays as it is when a thread has resumed.
    pub fixed: Vec<bool>,
}

impl ResumePlan {
    pub fn new(
        program: &Program<'_>,
        uniformity: Option<&UniformityInfo>,
        checks: WrapChecks,
        together: CheckedTogether,
        interchanged: Vec<InterchangedLoop>,
    ) -> Result<ResumePlan, LoweringError> {
        use SpecialRegister::{TidX, TidY, TidZ};
        let liveness = Liveness::new(program);
        let after_sync = after_sync(program, &interchanged);
        let masked = match uniformity {
            Some(uniformity) => masked_branch::find(program, uniformity, &liveness),
            None => Vec::new(),
        };
        let heads: Vec<BlockId> = interchanged.iter().map(|loops| loops.head).collect();
        let regions = match uniformity {
            Some(uniformity) => {
                DivergentRegions::find(program, uniformity, &liveness, &masked, &heads)
            }
            None => DivergentRegions::default(),
        };
        let mut plan = ResumePlan {
            group: uniformity.map_or(1, |uniformity| uniformity.group.width()),
            resume_points: Vec::new(),
            sync_at: vec![None; program.blocks.len()],
            diverged_at: vec![None; program.blocks.len()],
            slots: vec![None; program.registers.len()],
            slot_count: 0,
            packed_slot: None,
            strides: vec![None; program.registers.len()],
            saved: vec![Vec::new(); program.blocks.len()],
            masked,
            regions,
            guarded: match uniformity {
                Some(uniformity) => guarded_path::find(program, uniformity),
                None => Vec::new(),
            },
            checks: checks.of_blocks,
            clamped: checks.clamped,
            together,
            interchanged,
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
            resumes_with_tid: reads_special(program, &after_sync),
            fixed: fixed(program, &after_sync),
        };
        for (i, block) in program.blocks.iter().enumerate() {
            if let Terminator::Sync { instruction, next } = &block.terminator {
                let kind = super::sync::kind_of(instruction)?;
                plan.sync_points.push(SyncPoint {
                    kind,
                    line: instruction.line,
                    barrier: super::sync::constant_barrier(program, instruction),
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
                        live.extend(super::matrix::sources(program, instruction));
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
                    steady: Vec::new(),
                    sync: Some(BlockId(i as u32)),
                    is_passed: uniformity.is_some_and(|uniformity| {
                        uniformity.executes_together(program, instruction)
                    }),
                });
            }
        }
        if let Some(uniformity) = uniformity {
            let mut targets: Vec<BlockId> = Vec::new();
            for (i, block) in program.blocks.iter().enumerate() {
                let is_divided = plan.regions.behind(BlockId(i as u32)).is_none();
                if is_divided && uniformity.may_diverge(program, BlockId(i as u32)) {
                    targets.extend(block.terminator.successors());
                }
                targets.extend(plan.masked[i].iter().map(|masked| masked.join));
                if !plan.checks[i].is_empty() {
                    targets.push(BlockId(i as u32));
                }
            }
            let heads = plan.interchanged.iter();
            targets.extend(heads.map(|interchanged| interchanged.head));
            let loops = plan.together.loops.iter();
            targets.extend(loops.map(|counted| counted.blocks[0]));
            let blocks = (0..).map(BlockId).zip(&plan.together.blocks);
            targets.extend(
                blocks
                    .filter(|(_, checks)| !checks.is_empty())
                    .map(|(at, _)| at),
            );
            targets.sort_unstable();
            targets.dedup();
            for next in targets {
                let live = plan.liveness.live_in(next).to_vec();
                plan.diverged_at[next.index()] = Some(plan.resume_points.len() as u32);
                plan.resume_points.push(ResumePoint {
                    next,
                    live,
                    dirty: Vec::new(),
                    reload: Vec::new(),
                    steady: Vec::new(),
                    sync: None,
                    is_passed: false,
                });
            }
            if !plan.resume_points.is_empty() {
                plan.packed_slot = Some(0);
                plan.slot_count = 1;
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
        if let Some(uniformity) = uniformity {
            plan.find_strides(program, uniformity);
            plan.save_where_defined(program);
        }
        plan.find_matrices(program)?;
        let stored = |block: BlockId| {
            let point = &plan.resume_points[plan.sync_at[block.index()]? as usize];
            (!point.is_passed).then_some(point.dirty.as_slice())
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
        plan.find_steady(program);
        Ok(plan)
    }

    /// Finds the registers that are not written, and so not saved, from a sync point to the next
    /// one. Groups that run loops step by step are suspended in between.
    fn find_steady(&mut self, program: &Program<'_>) {
        if self.group == 1 || !self.interchanged.is_empty() {
            return;
        }
        let passes = |at: BlockId| {
            let point = self.sync_at[at.index()]?;
            Some(self.resume_points[point as usize].is_passed)
        };
        let suspended = self.resume_points.iter().map(|point| {
            let mut written = RegisterSet::new(program.registers.len());
            let mut reached = vec![false; program.blocks.len()];
            let mut left = match point.sync {
                Some(_) if !point.is_passed => vec![point.next],
                _ => Vec::new(),
            };
            if left.is_empty() {
                return Vec::new();
            }
            while let Some(at) = left.pop() {
                if std::mem::replace(&mut reached[at.index()], true) {
                    continue;
                }
                let block = &program.blocks[at.index()];
                for step in &block.steps {
                    program.step_effects(step, &mut |_| {}, &mut |reg| written.insert(reg));
                }
                match &block.terminator {
                    Terminator::Sync { instruction, next } => {
                        if passes(at) == Some(true) {
                            program.effects(instruction, &mut |_| {}, &mut |reg| {
                                written.insert(reg);
                            });
                            left.push(*next);
                        }
                    }
                    terminator => left.extend(terminator.successors()),
                }
            }
            let reloaded = point.reload.iter().copied();
            reloaded.filter(|reg| !written.contains(*reg)).collect()
        });
        let suspended: Vec<Vec<Reg>> = suspended.collect();
        for (point, steady) in self.resume_points.iter_mut().zip(suspended) {
            point.steady = steady;
        }
    }

    /// Finds the registers that each sync point must store. On every path to it, the
    /// others were stored at an earlier sync point and not written since. Where the vector
    /// function passes, it stores nothing.
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
                        result &= !super::matrix::sources(program, instruction).contains(&reg);
                    }
                    result
                };
                point.dirty = point
                    .live
                    .iter()
                    .copied()
                    .filter(|&r| slot(r).is_some_and(|slot| dirty.contains(slot)) && !in_slots(r))
                    .collect();
                if !point.is_passed {
                    let live = point.live.iter().filter_map(|&reg| slot(reg));
                    live.for_each(|slot| dirty.remove(slot));
                }
                if !instruction.is_matrix() || point.is_passed {
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

    /// Finds the registers of which the first lane's slot tells those of the group. Operations on
    /// matrices read the slots of every lane.
    fn find_strides(&mut self, program: &Program<'_>, uniformity: &UniformityInfo) {
        for (index, stride) in self.strides.iter_mut().enumerate() {
            if self.slots[index].is_some() {
                *stride = match uniformity.of(Reg(index as u32)) {
                    Uniformity::Uniform => Some(0),
                    Uniformity::Affine(stride) => Some(stride),
                    Uniformity::Divergent => None,
                };
            }
        }
        for instruction in sync_points(program).filter(|i| i.is_matrix()) {
            for reg in super::matrix::sources(program, instruction) {
                self.strides[reg.index()] = None;
            }
        }
    }

    /// Chooses the registers that are saved where they are defined, if that is executed less
    /// often than the sync points that would save them, such as what does not change in a loop.
    fn save_where_defined(&mut self, program: &Program<'_>) {
        if self.sync_points.is_empty() {
            return;
        }
        let frequencies = block_frequencies(program);
        let registers = program.registers.len();
        let (mut at_sync, mut at_definition) = (vec![0; registers], vec![0; registers]);
        for point in &self.resume_points {
            let Some(block) = point.sync.filter(|_| !point.is_passed) else {
                continue;
            };
            for reg in &point.dirty {
                at_sync[reg.index()] += frequencies[block.index()];
            }
        }
        let defined: Vec<Vec<Reg>> = program
            .blocks
            .iter()
            .map(|block| {
                let mut defined = Vec::new();
                for step in &block.steps {
                    program.step_effects(step, &mut |_| {}, &mut |reg| defined.push(reg));
                }
                defined.sort_unstable();
                defined.dedup();
                defined
            })
            .collect();
        for (defined, frequency) in defined.iter().zip(&frequencies) {
            for reg in defined {
                at_definition[reg.index()] += frequency;
            }
        }
        // These are defined where no block ends, or keep the values of lanes that skip the
        // definition: to save those there, each of them would have to be loaded before.
        let mut elsewhere = RegisterSet::new(registers);
        self.entry_live_in
            .iter()
            .for_each(|&reg| elsewhere.insert(reg));
        for instruction in sync_points(program) {
            program.effects(instruction, &mut |_| {}, &mut |reg| elsewhere.insert(reg));
        }
        let masked = self.masked.iter().flatten();
        masked.for_each(|m| m.merged.iter().for_each(|&reg| elsewhere.insert(reg)));
        let regions = self.regions.iter();
        regions.for_each(|region| region.merged().for_each(|reg| elsewhere.insert(reg)));
        let chosen = |reg: &Reg| {
            at_definition[reg.index()] < at_sync[reg.index()] && !elsewhere.contains(*reg)
        };
        for (saved, defined) in self.saved.iter_mut().zip(defined) {
            *saved = defined.into_iter().filter(chosen).collect();
        }
        for point in &mut self.resume_points {
            point.dirty.retain(|reg| !chosen(reg));
        }
    }

    /// Describes the operations on matrices by the slots of their registers, and finds those
    /// that follow another with nothing in between.
    fn find_matrices(&mut self, program: &Program<'_>) -> Result<(), LoweringError> {
        for number in 0..self.sync_points.len() {
            let point = &self.resume_points[number];
            let Some(block) = point.sync else { continue };
            let Terminator::Sync { instruction, .. } = &program.blocks[block.index()].terminator
            else {
                continue;
            };
            if self.sync_points[number].kind != SyncKind::Matrix {
                continue;
            }
            let operation = super::matrix::operation(program, instruction, &self.slots)?;
            self.sync_points[number].matrix = Some(self.matrices.len() as u32);
            self.matrices.push(operation);
            let next = self.sync_at[point.next.index()];
            let follows = next.is_some_and(|next| {
                let next = next as usize;
                let mut requests = false;
                if let Some(Terminator::Sync { instruction, .. }) = self.resume_points[next]
                    .sync
                    .map(|block| &program.blocks[block.index()].terminator)
                {
                    requests = super::matrix::has_request(program, instruction);
                }
                self.sync_points[next].kind == SyncKind::Matrix
                    && program.blocks[point.next.index()].steps.is_empty()
                    && self.checks[point.next.index()].is_empty()
                    && self.resume_points[next].dirty.is_empty()
                    && !requests
            });
            if follows {
                self.sync_points[number].then = next;
            }
        }
        Ok(())
    }

    /// The state of threads that resume at `block` after their group diverged.
    pub fn divergence_state(&self, block: BlockId) -> Option<u32> {
        Some(self.diverged_at[block.index()]? + 1)
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

/// By block: whether a thread reaches it after a sync point, or after it was suspended at a loop.
fn after_sync(program: &Program<'_>, interchanged: &[InterchangedLoop]) -> Vec<bool> {
    let mut left: Vec<BlockId> = interchanged.iter().map(|i| i.head).collect();
    let mut reached = vec![false; program.blocks.len()];
    for block in &program.blocks {
        if let Terminator::Sync { next, .. } = &block.terminator {
            left.push(*next);
        }
    }
    while let Some(at) = left.pop() {
        if !std::mem::replace(&mut reached[at.index()], true) {
            left.extend(program.blocks[at.index()].terminator.successors());
        }
    }
    reached
}

/// Whether one of these blocks reads `%tid`, or another special register that may follow from it.
fn reads_special(program: &Program<'_>, blocks: &[bool]) -> bool {
    let reads = |arg: &Arg| match *arg {
        Arg::Special(_) => true,
        Arg::List(list) => {
            let parts = program.list(list);
            parts.iter().any(|part| matches!(part, Arg::Special(_)))
        }
        _ => false,
    };
    let blocks = program.blocks.iter().zip(blocks);
    let mut blocks = blocks.filter(|(_, wanted)| **wanted);
    blocks.any(|(block, _)| {
        let terminator = match &block.terminator {
            Terminator::Sync { instruction, .. } => {
                program.list(instruction.args).iter().any(reads)
            }
            Terminator::Table { index, .. } => reads(index),
            _ => false,
        };
        terminator
            || block.steps.iter().any(|step| match step {
                Step::Instruction(i) => program.list(i.args).iter().any(reads),
                Step::SystemCall { args, .. } => program.list(*args).iter().any(reads),
            })
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

/// By register: whether no thread writes it after a sync point.
fn fixed(program: &Program<'_>, after_sync: &[bool]) -> Vec<bool> {
    let mut fixed = vec![true; program.registers.len()];
    for (block, _) in program
        .blocks
        .iter()
        .zip(after_sync)
        .filter(|(_, after)| **after)
    {
        for step in &block.steps {
            program.step_effects(step, &mut |_| {}, &mut |reg| fixed[reg.index()] = false);
        }
    }
    // Their results are loaded after them.
    for instruction in sync_points(program) {
        program.effects(instruction, &mut |_| {}, &mut |reg| {
            fixed[reg.index()] = false
        });
    }
    fixed
}
