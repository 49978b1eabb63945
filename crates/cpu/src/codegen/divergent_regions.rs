//! Divergent regions, which the lanes of a group execute one after the other.
//!
//! A region is all that is between a branch and its join: arms with branches and loops of their own.
//! It has no sync points and no exits. Branches with one join, such as those that leave a loop, have
//! one region.

use std::collections::BTreeMap;

use super::masked_branch::MaskedBranch;
use crate::program::{
    BlockId, Liveness, Program, Reg, RegisterSet, Terminator, Uniformity, UniformityInfo,
};
use analysis::control_flow::Graph;

/// The most steps of all regions of a kernel, and live-in and live-out divergent registers of one.
const MAX_STEPS: usize = 1024;
const MAX_REGISTERS: usize = 64;

/// What lanes execute one after the other behind branches with one join.
pub(super) struct DivergentRegion {
    /// Where they meet again.
    pub join: BlockId,
    /// The blocks that end with these branches.
    pub branches: Vec<BlockId>,
    pub blocks: Vec<BlockId>,
    pub registers: Vec<RegionRegister>,
}

impl DivergentRegion {
    /// The registers of which a vector has old and new values behind the region.
    pub fn merged(&self) -> impl Iterator<Item = Reg> {
        let live_out = self
            .registers
            .iter()
            .filter(|register| register.is_live_out);
        live_out.map(|register| register.reg)
    }
}

/// A register that a region reads or writes.
pub(super) struct RegionRegister {
    pub reg: Reg,
    pub is_live_in: bool,
    pub is_written: bool,
    /// It is written, and read behind the join.
    pub is_live_out: bool,
}

/// The regions of a kernel.
#[derive(Default)]
pub(super) struct DivergentRegions {
    all: Vec<DivergentRegion>,
    /// By block: the number of the region behind its branch.
    behind: Vec<Option<u32>>,
}

impl DivergentRegions {
    /// The region behind the branch of a block.
    pub fn behind(&self, block: BlockId) -> Option<&DivergentRegion> {
        let number = self.behind.get(block.index())?.as_ref()?;
        self.all.get(*number as usize)
    }

    pub fn iter(&self) -> impl Iterator<Item = &DivergentRegion> {
        self.all.iter()
    }

    /// Finds the regions behind divergent branches. `masked` branches have none. `heads` are the heads of
    /// interchanged loops. Groups suspend there, so no region contains them.
    pub fn find(
        program: &Program<'_>,
        uniformity: &UniformityInfo,
        liveness: &Liveness,
        masked: &[Option<MaskedBranch>],
        heads: &[BlockId],
    ) -> DivergentRegions {
        let blocks = (0..program.blocks.len() as u32).map(BlockId);
        let is_divided = |block: &BlockId| {
            let is_branch = matches!(
                program.blocks[block.index()].terminator,
                Terminator::Branch { .. }
            );
            is_branch && masked[block.index()].is_none() && uniformity.may_diverge(program, *block)
        };
        let branches: Vec<BlockId> = blocks.filter(is_divided).collect();
        if branches.is_empty() {
            return DivergentRegions::default();
        }
        let graph = program.graph();
        let ends =
            |block: BlockId| matches!(program.blocks[block.index()].terminator, Terminator::Exit);
        let joins = graph.post_dominators(ends, &[]);
        let search = Search {
            program,
            uniformity,
            liveness,
            graph,
            heads,
        };
        let mut of_joins: BTreeMap<BlockId, Vec<BlockId>> = BTreeMap::new();
        for branch in branches {
            if let Some(join) = joins[branch.index()]
                && search.graph.is_reached(branch)
            {
                of_joins.entry(join).or_default().push(branch);
            }
        }
        let mut regions = DivergentRegions {
            all: Vec::new(),
            behind: vec![None; program.blocks.len()],
        };
        let mut steps = 0;
        for (join, branches) in of_joins {
            let Some((region, more)) = search.region(join, branches) else {
                continue;
            };
            if steps + more > MAX_STEPS {
                continue;
            }
            steps += more;
            for branch in &region.branches {
                regions.behind[branch.index()] = Some(regions.all.len() as u32);
            }
            regions.all.push(region);
        }
        regions
    }
}

struct Search<'s, 'a> {
    program: &'s Program<'a>,
    uniformity: &'s UniformityInfo,
    liveness: &'s Liveness,
    graph: Graph,
    heads: &'s [BlockId],
}

impl Search<'_, '_> {
    /// The region between branches and their join, and its steps.
    fn region(&self, join: BlockId, branches: Vec<BlockId>) -> Option<(DivergentRegion, usize)> {
        // Where threads end, the scalar function may as well run them.
        let end = &self.program.blocks[join.index()];
        if end.steps.is_empty() && matches!(end.terminator, Terminator::Exit) {
            return None;
        }
        let blocks = self.blocks(&branches, join)?;
        let registers = self.registers(&branches, join, &blocks)?;
        let steps = blocks
            .iter()
            .map(|block| self.program.blocks[block.index()].steps.len());
        let steps = steps.sum();
        let region = DivergentRegion {
            join,
            branches,
            blocks,
            registers,
        };
        Some((region, steps))
    }

    /// The blocks from the branches to the join.
    fn blocks(&self, branches: &[BlockId], join: BlockId) -> Option<Vec<BlockId>> {
        let mut found = vec![false; self.program.blocks.len()];
        let starts = branches
            .iter()
            .flat_map(|branch| self.graph.successors(*branch));
        let mut left: Vec<BlockId> = starts.collect();
        while let Some(at) = left.pop() {
            if at == join || std::mem::replace(&mut found[at.index()], true) {
                continue;
            }
            let terminator = &self.program.blocks[at.index()].terminator;
            let ends = matches!(terminator, Terminator::Exit | Terminator::Sync { .. });
            if ends || self.heads.contains(&at) {
                return None;
            }
            left.extend(self.graph.successors(at));
        }
        let blocks = (0..).map(BlockId).zip(found);
        Some(
            blocks
                .filter(|(_, found)| *found)
                .map(|(block, _)| block)
                .collect(),
        )
    }

    fn registers(
        &self,
        branches: &[BlockId],
        join: BlockId,
        blocks: &[BlockId],
    ) -> Option<Vec<RegionRegister>> {
        let program = self.program;
        let count = program.registers.len();
        let [mut used, mut written, mut live_in] = [(); 3].map(|()| RegisterSet::new(count));
        for branch in branches {
            if let Terminator::Branch { predicate, .. } = program.blocks[branch.index()].terminator
            {
                used.insert(predicate.reg);
                live_in.insert(predicate.reg);
            }
            for start in self.graph.successors(*branch).filter(|to| *to != join) {
                self.liveness
                    .live_in(start)
                    .iter()
                    .for_each(|reg| live_in.insert(*reg));
            }
        }
        for at in blocks {
            let block = &program.blocks[at.index()];
            for step in &block.steps {
                program.step_effects(step, &mut |reg| used.insert(reg), &mut |reg| {
                    written.insert(reg);
                });
            }
            match &block.terminator {
                Terminator::Branch { predicate, .. } => used.insert(predicate.reg),
                Terminator::Table { index, .. } => {
                    program.registers_of(*index, &mut |reg| used.insert(reg));
                }
                Terminator::Fault { address, .. } => {
                    address.iter().for_each(|reg| used.insert(*reg));
                }
                Terminator::Jump(_) | Terminator::Exit | Terminator::Sync { .. } => {}
            }
        }
        let live_out = self.liveness.live_in(join);
        let mut registers = Vec::new();
        let mut divergent = 0;
        for reg in (0..count as u32).map(Reg) {
            let is_written = written.contains(reg);
            if !is_written && !used.contains(reg) {
                continue;
            }
            let is_divergent = self.uniformity.of(reg) == Uniformity::Divergent;
            let is_live_in = live_in.contains(reg);
            let is_live_out = is_written && live_out.contains(&reg);
            // Its lanes would have values that are no longer shared.
            if is_live_out && !is_divergent {
                return None;
            }
            divergent += usize::from(is_divergent && (is_live_in || is_live_out));
            registers.push(RegionRegister {
                reg,
                is_live_in,
                is_written,
                is_live_out,
            });
        }
        (divergent <= MAX_REGISTERS).then_some(registers)
    }
}
