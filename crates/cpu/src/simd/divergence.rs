//! Which registers have one value in all lanes, and which blocks some lanes execute without the
//! others.

use std::fmt;

use super::shape::Shape;
use crate::program::{
    Arg, BlockId, Instruction, Liveness, Program, Reg, RegisterSet, Step, Terminator,
};
use analysis::control_flow::{Graph, LoopId, Loops};
use ptx::names::{Opcode as O, SpecialRegister};

/// A divergent branch, and the blocks up to where its lanes meet again.
pub(super) struct Region {
    /// The blocks that only some lanes execute, in the order of the code.
    pub blocks: Vec<BlockId>,
    /// Where all meet; `None` if they only meet at the end.
    pub join: Option<BlockId>,
    /// Lanes may be suspended in it.
    pub suspends: bool,
}

/// What is known of a kernel's lanes.
pub(super) struct Divergence {
    /// By register, as far as it is known.
    pub shapes: Vec<Option<Shape>>,
    /// The reachable blocks in the order of the code: predecessors first, loops in one piece.
    pub order: Vec<BlockId>,
    /// By register: whether it is always `%tid.x`.
    pub is_tid: Vec<bool>,
    /// By block: its position in the order.
    pub position: Vec<usize>,
    /// By block: the region that it is in.
    region_of: Vec<Option<u32>>,
    pub regions: Vec<Region>,
    /// By block that ends with a branch that starts a region: that region.
    starts: Vec<Option<u32>>,
    pub graph: Graph,
    pub loops: Loops,
    /// The threads of a group are in one row of the block.
    pub rows: bool,
    /// A group is a warp.
    is_warp: bool,
}

/// The most blocks of a kernel.
const MAX_BLOCKS: usize = 400;

/// The influence of a divergent branch.
struct Influence {
    branch: BlockId,
    join: Option<BlockId>,
    blocks: Vec<bool>,
}

impl Divergence {
    /// `None` where control flow is too large, or loops have several entries.
    pub fn find(
        program: &Program<'_>,
        liveness: &Liveness,
        (rows, is_warp): (bool, bool),
    ) -> Option<Divergence> {
        let graph = program.graph();
        if program.blocks.len() > MAX_BLOCKS {
            return None;
        }
        let loops = Loops::new(&graph)?;
        let order = contiguous(&graph, &loops);
        let mut position = vec![usize::MAX; program.blocks.len()];
        for (at, block) in order.iter().enumerate() {
            position[block.index()] = at;
        }
        let ends =
            |block: BlockId| matches!(program.blocks[block.index()].terminator, Terminator::Exit);
        let joins = graph.post_dominators(ends, &[]);
        let defined = definitions(program);
        let mut found = Divergence {
            shapes: vec![None; program.registers.len()],
            is_tid: copies_of_tid(program),
            region_of: vec![None; program.blocks.len()],
            regions: Vec::new(),
            starts: vec![None; program.blocks.len()],
            order,
            position,
            graph,
            loops,
            rows,
            is_warp,
        };
        // Registers that are read before they are written are 0.
        for &reg in liveness.live_in(BlockId::ENTRY) {
            found.shapes[reg.index()] = Some(Shape::Uniform);
            found.is_tid[reg.index()] = false;
        }
        loop {
            while found.round(program) {}
            let influences: Vec<Influence> = found
                .order
                .iter()
                .filter(|block| found.is_divided(program, **block))
                .map(|&branch| found.influence_of(program, branch, &joins))
                .collect();
            let mut changed = false;
            for influence in &influences {
                changed |= found.part(influence, liveness, &defined);
            }
            changed |= found.leave_apart(program, &influences, liveness, &defined);
            if !changed {
                found.make_regions(program, &influences);
                return Some(found);
            }
        }
    }

    pub fn shape(&self, reg: Reg) -> Shape {
        self.shapes[reg.index()].unwrap_or(Shape::Uniform)
    }

    /// The lanes of a group, as a power of two.
    pub fn lane_bits(&self) -> u32 {
        if self.is_warp { 5 } else { 4 }
    }

    /// Whether lanes may have different values.
    pub fn is_divergent(&self, reg: Reg) -> bool {
        self.shape(reg) != Shape::Uniform
    }

    fn meet(&mut self, reg: Reg, shape: Shape) -> bool {
        let known = &mut self.shapes[reg.index()];
        let met = known.map_or(shape, |known| known.met(shape));
        known.replace(met) != Some(met)
    }

    /// Whether only some lanes may execute a block.
    pub fn is_partial(&self, block: BlockId) -> bool {
        self.region_of[block.index()].is_some()
    }

    /// The number of the region that a block is in.
    pub fn region_of(&self, block: BlockId) -> Option<usize> {
        Some(self.region_of[block.index()]? as usize)
    }

    /// The number of the region that the branch of a block starts.
    pub fn started_by(&self, block: BlockId) -> Option<usize> {
        Some(self.starts[block.index()]? as usize)
    }

    /// Whether a block's terminator sends lanes to different blocks.
    pub fn is_divided(&self, program: &Program<'_>, block: BlockId) -> bool {
        match &program.blocks[block.index()].terminator {
            Terminator::Branch { predicate, .. } => self.is_divergent(predicate.reg),
            Terminator::Table { index, .. } => self.is_operand_divergent(program, *index),
            _ => false,
        }
    }

    /// Whether all lanes that execute a sync point get the same results.
    fn is_shared_result(&self, program: &Program<'_>, i: &Instruction) -> bool {
        let members = match i.opcode {
            O::Vote | O::Redux => program.list(i.args).get(2),
            O::Activemask => None,
            _ => return false,
        };
        members.is_none_or(|arg| !self.is_operand_divergent(program, *arg))
    }

    /// Follows data; whether something has changed.
    fn round(&mut self, program: &Program<'_>) -> bool {
        let mut changed = false;
        for at in 0..self.order.len() {
            let block = &program.blocks[self.order[at].index()];
            for step in &block.steps {
                let shape = match step {
                    Step::Instruction(i) => self.result_shape(program, i),
                    Step::SystemCall { .. } => Some(Shape::Divergent),
                };
                if let Some(shape) = shape {
                    program.step_effects(step, &mut |_| {}, &mut |reg| {
                        changed |= self.meet(reg, shape);
                    });
                }
            }
            if let Terminator::Sync { instruction, .. } = &block.terminator {
                let shape = if self.is_shared_result(program, instruction) {
                    Shape::Uniform
                } else {
                    Shape::Divergent
                };
                program.effects(instruction, &mut |_| {}, &mut |reg| {
                    changed |= self.meet(reg, shape);
                });
            }
        }
        changed
    }

    /// The blocks between a divergent branch and its join: its post-dominator, unless lanes may be
    /// suspended before it (then they never rejoin), or other lanes may start another iteration of a loop
    /// around it (then a later post-dominator is the join).
    fn influence_of(
        &self,
        program: &Program<'_>,
        branch: BlockId,
        joins: &[Option<BlockId>],
    ) -> Influence {
        let mut join = joins[branch.index()];
        loop {
            let blocks = self.reached(self.graph.successors(branch), join);
            let Some(at) = join else {
                return Influence {
                    branch,
                    join,
                    blocks,
                };
            };
            let suspends = flagged(&blocks).any(|(block, _)| self.suspends(program, block));
            let mut around = self.loops.around(self.loops.innermost(at));
            let starts_again = around.any(|id| blocks[self.loops.get(id).head.index()]);
            join = match (suspends, starts_again) {
                (true, _) => None,
                (false, true) => joins[at.index()],
                (false, false) => {
                    return Influence {
                        branch,
                        join,
                        blocks,
                    };
                }
            };
        }
    }

    fn reached(&self, starts: impl Iterator<Item = BlockId>, join: Option<BlockId>) -> Vec<bool> {
        let mut found = vec![false; self.graph.block_count()];
        let mut left: Vec<BlockId> = starts.collect();
        while let Some(at) = left.pop() {
            if Some(at) != join && !std::mem::replace(&mut found[at.index()], true) {
                left.extend(self.graph.successors(at));
            }
        }
        found
    }

    /// Marks the registers that a divergent branch makes divergent.
    fn part(&mut self, influence: &Influence, liveness: &Liveness, defined: &[Vec<Reg>]) -> bool {
        let mut written = RegisterSet::new(self.shapes.len());
        for (block, _) in flagged(&influence.blocks) {
            defined[block].iter().for_each(|reg| written.insert(*reg));
        }
        let mut changed = false;
        // Where different paths meet.
        let mut meet = self.meetings(influence);
        meet.extend(influence.join);
        for at in meet {
            for &reg in liveness.live_in(at) {
                if written.contains(reg) {
                    changed |= self.meet(reg, Shape::Divergent);
                }
            }
        }
        // Registers that lanes on one path write while waiting lanes still need the old value.
        let successors: Vec<BlockId> = self.graph.successors(influence.branch).collect();
        for &one in &successors {
            for &other in successors.iter().filter(|other| **other != one) {
                let path = self.reached(std::iter::once(other), influence.join);
                for &reg in liveness.live_in(one) {
                    if self.shape(reg) != Shape::Divergent
                        && flagged(&path).any(|(block, _)| defined[block].contains(&reg))
                    {
                        changed |= self.meet(reg, Shape::Divergent);
                    }
                }
            }
        }
        changed
    }

    /// The blocks in the influence of a branch that lanes reach on different paths.
    fn meetings(&self, influence: &Influence) -> Vec<BlockId> {
        let mut labels: Vec<Option<BlockId>> = vec![None; self.graph.block_count()];
        let mut meetings = Vec::new();
        for to in self.graph.successors(influence.branch) {
            labels[to.index()] = Some(to);
        }
        loop {
            let mut changed = false;
            for &block in &self.order {
                let Some(label) = labels[block.index()]
                    .filter(|_| influence.blocks[block.index()] && block != influence.branch)
                else {
                    continue;
                };
                for to in self.graph.successors(block) {
                    match labels[to.index()] {
                        None => {
                            labels[to.index()] = Some(label);
                            changed = true;
                        }
                        Some(other) if other != label && other != to => {
                            labels[to.index()] = Some(to);
                            meetings.push(to);
                            changed = true;
                        }
                        Some(other) if other != label && !meetings.contains(&to) => {
                            meetings.push(to);
                            changed = true;
                        }
                        Some(_) => {}
                    }
                }
            }
            if !changed {
                return meetings;
            }
        }
    }

    /// Marks the registers written in a loop that lanes leave in different iterations.
    fn leave_apart(
        &mut self,
        program: &Program<'_>,
        influences: &[Influence],
        liveness: &Liveness,
        defined: &[Vec<Reg>],
    ) -> bool {
        let mut changed = false;
        for id in self.loops.ids().collect::<Vec<_>>() {
            let inside: Vec<BlockId> = self
                .order
                .iter()
                .copied()
                .filter(|block| self.loops.contains(id, *block))
                .collect();
            let mut exits = Vec::new();
            for &block in &inside {
                let leaves = self
                    .graph
                    .successors(block)
                    .filter(|to| !self.loops.contains(id, *to));
                let is_apart = self.is_divided(program, block)
                    || influences.iter().any(|influence| {
                        influence.blocks[block.index()] && self.loops.contains(id, influence.branch)
                    });
                if is_apart {
                    exits.extend(leaves);
                }
            }
            for exit in exits {
                for &reg in liveness.live_in(exit) {
                    if self.shape(reg) != Shape::Divergent
                        && inside
                            .iter()
                            .any(|block| defined[block.index()].contains(&reg))
                    {
                        changed |= self.meet(reg, Shape::Divergent);
                    }
                }
            }
        }
        changed
    }

    /// Puts the influences of branches that all lanes come to together into regions. Those that overlap
    /// are one region, or, if they have different joins, everything is.
    fn make_regions(&mut self, program: &Program<'_>, influences: &[Influence]) {
        let mut is_partial = vec![false; self.graph.block_count()];
        for influence in influences {
            flagged(&influence.blocks).for_each(|(block, _)| is_partial[block] = true);
        }
        // Those of branches that all lanes come to, and then of loops that start with their branch.
        let [outer, inner]: [Vec<&Influence>; 2] = [false, true].map(|partial| {
            let all = influences.iter();
            all.filter(|influence| is_partial[influence.branch.index()] == partial)
                .collect()
        });
        for influence in outer.into_iter().chain(inner) {
            let is_inner = is_partial[influence.branch.index()];
            if is_inner && self.region_of[influence.branch.index()].is_some() {
                continue;
            }
            let mut overlaps = flagged(&influence.blocks).filter_map(|(at, _)| self.region_of[at]);
            let known = overlaps.next();
            let is_one = overlaps.all(|other| Some(other) == known);
            let number = match known {
                Some(number) => {
                    if !is_one || self.regions[number as usize].join != influence.join {
                        return self.make_one_region(program);
                    }
                    number
                }
                None => {
                    self.regions.push(Region {
                        blocks: Vec::new(),
                        join: influence.join,
                        suspends: false,
                    });
                    self.regions.len() as u32 - 1
                }
            };
            for (block, _) in flagged(&influence.blocks) {
                self.region_of[block] = Some(number);
            }
            if !is_inner {
                self.starts[influence.branch.index()] = Some(number);
            }
        }
        if is_partial
            .iter()
            .zip(&self.region_of)
            .any(|(partial, region)| *partial && region.is_none())
        {
            return self.make_one_region(program);
        }
        self.fill_regions(program);
    }

    /// All blocks are in one region, which starts before the entry.
    fn make_one_region(&mut self, program: &Program<'_>) {
        self.starts.fill(None);
        self.region_of.fill(Some(0));
        self.regions = vec![Region {
            blocks: Vec::new(),
            join: None,
            suspends: false,
        }];
        self.fill_regions(program);
    }

    fn fill_regions(&mut self, program: &Program<'_>) {
        let blocks = 0..program.blocks.len();
        let suspends: Vec<bool> = blocks.map(|block| self.suspends(program, block)).collect();
        for &block in &self.order {
            let Some(number) = self.region_of[block.index()] else {
                continue;
            };
            let region = &mut self.regions[number as usize];
            region.blocks.push(block);
            region.suspends |= suspends[block.index()];
        }
    }

    /// Whether lanes may be suspended at the end of a block.
    fn suspends(&self, program: &Program<'_>, block: usize) -> bool {
        match &program.blocks[block].terminator {
            Terminator::Sync { instruction, .. } => {
                !(self.is_warp && instruction.opcode == O::Activemask)
            }
            _ => false,
        }
    }

    /// Whether lanes that skip a block may still read the old value of a register that the block writes.
    pub fn keeps(&self, reg: Reg, block: BlockId, liveness: &Liveness) -> bool {
        let Some(number) = self.region_of[block.index()] else {
            return false;
        };
        let region = &self.regions[number as usize];
        let loops: Vec<LoopId> = self.loops.around(self.loops.innermost(block)).collect();
        let is_safe = |at: BlockId| {
            at != block
                && self.graph.dominates(block, at)
                && loops.iter().all(|id| self.loops.contains(*id, at))
        };
        let mut blocks = region.blocks.iter().chain(region.join.as_ref());
        blocks.any(|&at| !is_safe(at) && liveness.live_in(at).binary_search(&reg).is_ok())
    }
}

/// The blocks in their order, the regions, and the registers that are not in vectors.
impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &block in &self.order {
            write!(f, "block{}", block.0)?;
            if let Some(number) = self.region_of(block) {
                write!(f, ": region {number}")?;
                if let Some(join) = self.regions[number].join {
                    write!(f, ", which meets at block{}", join.0)?;
                }
            }
            writeln!(f)?;
        }
        for (number, shape) in self.shapes.iter().enumerate() {
            match shape {
                Some(Shape::Divergent) | None => {}
                Some(shape) => writeln!(f, "register {number}: {shape:?}")?,
            }
        }
        Ok(())
    }
}

fn flagged(blocks: &[bool]) -> impl Iterator<Item = (usize, ())> + '_ {
    let blocks = blocks.iter().enumerate();
    blocks.filter(|(_, flag)| **flag).map(|(at, _)| (at, ()))
}

/// The reachable blocks, predecessors first, and the blocks of a loop one behind the other.
fn contiguous(graph: &Graph, loops: &Loops) -> Vec<BlockId> {
    let mut placed = vec![false; graph.block_count()];
    let mut order = Vec::with_capacity(graph.order.len());
    place(graph, loops, None, &mut placed, &mut order);
    order
}

/// Places the blocks of a loop, or all.
fn place(
    graph: &Graph,
    loops: &Loops,
    around: Option<LoopId>,
    placed: &mut [bool],
    order: &mut Vec<BlockId>,
) {
    for &block in &graph.order {
        let is_inside = around.is_none_or(|id| loops.contains(id, block));
        if !is_inside || placed[block.index()] {
            continue;
        }
        match loops.headed_by(block).filter(|id| Some(*id) != around) {
            Some(inner) => place(graph, loops, Some(inner), placed, order),
            None => {
                placed[block.index()] = true;
                order.push(block);
            }
        }
    }
}

/// By register: whether all that is written to it is `%tid.x`.
fn copies_of_tid(program: &Program<'_>) -> Vec<bool> {
    let mut is_tid: Vec<Option<bool>> = vec![None; program.registers.len()];
    let mut write = |reg: Reg, is: bool| {
        let known = &mut is_tid[reg.index()];
        *known = Some(is && known.unwrap_or(true));
    };
    for block in &program.blocks {
        for step in &block.steps {
            let is_copy = match step {
                Step::Instruction(i) => {
                    let from = program.list(i.args).get(1);
                    i.opcode == O::Mov
                        && i.guard.is_none()
                        && from == Some(&Arg::Special(SpecialRegister::TidX))
                }
                Step::SystemCall { .. } => false,
            };
            program.step_effects(step, &mut |_| {}, &mut |reg| write(reg, is_copy));
        }
        if let Terminator::Sync { instruction, .. } = &block.terminator {
            program.effects(instruction, &mut |_| {}, &mut |reg| write(reg, false));
        }
    }
    is_tid.into_iter().map(|is| is.unwrap_or(false)).collect()
}

/// By block: the registers that it writes.
fn definitions(program: &Program<'_>) -> Vec<Vec<Reg>> {
    let blocks = program.blocks.iter().map(|block| {
        let mut defined = Vec::new();
        for step in &block.steps {
            program.step_effects(step, &mut |_| {}, &mut |reg| defined.push(reg));
        }
        if let Terminator::Sync { instruction, .. } = &block.terminator {
            program.effects(instruction, &mut |_| {}, &mut |reg| defined.push(reg));
        }
        defined.sort_unstable();
        defined.dedup();
        defined
    });
    blocks.collect()
}
