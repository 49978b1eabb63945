//! Control flow. Outside of regions, branches are jumps. In a region, each block has a mask of the lanes
//! that wait for it. The blocks of a region run in order, each if its mask is not empty, and a loop is
//! repeated while the mask of its head is not empty.

mod packed;
mod runtime_call;
mod suspend;
mod sync;

use regalloc2::{Operand, PReg};

use self::sync::Synchronized;
use crate::program::{Arg, BlockId, Guard, Terminator};
use crate::simd::builder::Variable;
use crate::simd::lower::{Lowered, Lowering, Unsupported};
use crate::simd::machine::{Condition, INT, Label, MASK, Op, Value};

/// The variables of a region: by block, the masks of its lanes, and those that have exited.
struct Waiting {
    masks: Vec<Vec<Variable>>,
    exited: Vec<Variable>,
}

impl Lowering<'_, '_> {
    /// Lowers the function: a loop over groups of threads.
    pub(in crate::simd::lower) fn function(&mut self, first: Value) -> Lowered<()> {
        let fixed = |n: usize| PReg::new(n, INT);
        // rdi, rsi, rdx
        let operands = [
            Operand::reg_fixed_def(self.context, fixed(7)),
            Operand::reg_fixed_def(first, fixed(6)),
            Operand::reg_fixed_def(self.last, fixed(2)),
        ];
        self.b.emit(Op::Arguments, operands);
        // The upper halves of 32-bit arguments are unspecified.
        let first = self.extended(first, crate::simd::lower::operands::WORD);
        self.b.set(self.thread, first);
        self.declare_tid();
        let [head, body, done] = [(); 3].map(|()| self.b.block());
        let suspends = !self.suspension.places.is_empty();
        if suspends {
            self.start_phases(first);
        }
        self.b.jump(head);

        self.b.enter(head);
        let thread = self.b.get(self.thread);
        self.compare_int(false, thread, self.last);
        self.b.branch(Condition::Below, body, done);
        self.b.enter_sealed(body);
        self.blocks()?;

        let next_group = self.next_group;
        self.b.enter_sealed(next_group);
        if suspends {
            self.note_arrival();
        }
        let thread = self.b.get(self.thread);
        let next = self.add_offset(thread, self.width as i64);
        self.b.set(self.thread, next);
        self.b.jump(head);

        self.b.enter_sealed(done);
        let mut result = self.b.immediate(0);
        if suspends {
            if self.packs() {
                self.next_packed_phase(head, first)?;
            }
            // A group may have left its threads in different states.
            let state = self.b.get(self.arrival);
            let [apart, together] =
                [0, crate::abi::TOGETHER].map(|number| self.b.immediate(number.into()));
            self.compare_with(false, state, self::suspend::MIXED.cast_signed());
            result = self.select_int(Condition::Equal, false, together, apart);
        }
        self.b.seal(head);
        self.b
            .emit(Op::Return, [Operand::reg_fixed_use(result, fixed(0))]);
        Ok(())
    }

    /// The state of the threads, which are all in one.
    fn start_phases(&mut self, first: Value) {
        let states = self.field(
            crate::simd::lower::operands::LONG,
            crate::abi::offset::STATES,
        );
        let at = self.extended(first, crate::simd::lower::operands::WORD);
        let at = self.shift_int(crate::simd::machine::Shift::Left, true, at, 2);
        let at = self.alu(crate::simd::machine::Alu::Add, true, states, at);
        let state = self.load_int(crate::simd::lower::operands::WORD, at, 0);
        self.b.set(self.state, state);
        let none = self.b.immediate(self::suspend::NONE.into());
        self.b.set(self.arrival, none);
    }

    /// Lowers all blocks of the kernel.
    fn blocks(&mut self) -> Lowered<()> {
        let labels: Vec<Label> = (0..self.program.blocks.len())
            .map(|_| self.b.block())
            .collect();
        if !self.suspension.places.is_empty() {
            let [start, resumes] = [(); 2].map(|()| self.b.block());
            let state = self.b.get(self.state);
            self.test_int(state);
            self.b.branch(Condition::Equal, start, resumes);
            self.b.enter_sealed(resumes);
            self.resume(&labels, state)?;
            self.b.enter_sealed(start);
        }
        self.forget();
        self.start_group()?;
        let count = self.divergence.regions.len();
        let regions: Vec<(Waiting, Label)> = (0..count)
            .map(|number| (self.declare_region(number), self.b.block()))
            .collect();
        if self.divergence.is_partial(BlockId::ENTRY) {
            self.enter_region(BlockId::ENTRY, &regions);
        } else {
            self.b.jump(labels[0]);
        }
        let mut entered = Vec::new();
        for at in self.divergence.order.clone() {
            if let Some(number) = self.divergence.region_of(at) {
                let region = &self.divergence.regions[number];
                if region.blocks.first() == Some(&at) {
                    let join = region.join;
                    let (waiting, start) = &regions[number];
                    self.b.enter(*start);
                    entered.push(*start);
                    match join.filter(|join| self.divergence.is_partial(*join)) {
                        // All lanes continue in another region.
                        Some(join) => {
                            let label = self.b.block();
                            self.region(number, waiting, label)?;
                            self.b.enter_sealed(label);
                            self.enter_region(join, &regions);
                        }
                        None => {
                            let label = join.map_or(self.next_group, |join| labels[join.index()]);
                            self.region(number, waiting, label)?;
                        }
                    }
                }
                continue;
            }
            // Back edges are still to come.
            self.b.enter(labels[at.index()]);
            entered.push(labels[at.index()]);
            self.active = None;
            self.block = at;
            self.find_spans(at);
            let block = &self.program.blocks[at.index()];
            for step in &block.steps {
                self.step(step)?;
            }
            match self.divergence.started_by(at) {
                Some(number) => {
                    let (waiting, start) = &regions[number];
                    self.no_waiting(waiting);
                    self.active = Some(self.all_lanes());
                    self.distribute(at, waiting)?;
                    self.active = None;
                    self.b.jump(*start);
                }
                None => {
                    // Jumps of all lanes into a region.
                    let mut targets = labels.clone();
                    let mut entries = Vec::new();
                    for to in self.program.blocks[at.index()].terminator.successors() {
                        if self.divergence.is_partial(to) {
                            let label = self.b.block();
                            targets[to.index()] = label;
                            entries.push((to, label));
                        }
                    }
                    self.uniform_terminator(at, &targets)?;
                    for (to, label) in entries {
                        // A branch may name a block twice.
                        if targets[to.index()] == label {
                            self.b.enter_sealed(label);
                            self.enter_region(to, &regions);
                        }
                    }
                }
            }
        }
        for label in entered {
            self.b.seal(label);
        }
        Ok(())
    }

    /// All lanes go to a block of a region.
    fn enter_region(&mut self, block: BlockId, regions: &[(Waiting, Label)]) {
        let Some((waiting, start)) = self
            .divergence
            .region_of(block)
            .and_then(|number| regions.get(number))
        else {
            return;
        };
        self.no_waiting(waiting);
        let all = self.all_lanes();
        for (&variable, mask) in waiting.masks[block.index()].iter().zip(all) {
            self.b.set(variable, mask);
        }
        self.b.jump(*start);
    }

    fn all_lanes(&mut self) -> Vec<Value> {
        (0..self.width / 16).map(|_| self.b.ones()).collect()
    }

    fn uniform_terminator(&mut self, at: BlockId, labels: &[Label]) -> Lowered<()> {
        match &self.program.blocks[at.index()].terminator {
            Terminator::Jump(to) => {
                self.b.jump(labels[to.index()]);
                Ok(())
            }
            Terminator::Exit => {
                self.exit();
                let next = self.next_group;
                self.b.jump(next);
                Ok(())
            }
            Terminator::Sync { instruction, next } => {
                let next = labels[next.index()];
                match self.sync(at, instruction, None)? {
                    Synchronized::Together => self.b.jump(next),
                    Synchronized::Suspended => {
                        let next = self.next_group;
                        self.b.jump(next);
                    }
                    Synchronized::Either(suspended) => {
                        self.b.jump(next);
                        self.b.enter_sealed(suspended);
                        let next = self.next_group;
                        self.b.jump(next);
                    }
                }
                Ok(())
            }
            Terminator::Fault {
                kind,
                address: None,
                line,
            } => {
                self.fault(*kind, *line);
                Ok(())
            }
            Terminator::Branch {
                predicate,
                then,
                otherwise,
            } => self.branch(*predicate, labels[then.index()], labels[otherwise.index()]),
            _ => Err(Unsupported("a terminator")),
        }
    }

    /// A branch that all lanes take.
    fn branch(&mut self, predicate: Guard, then: Label, otherwise: Label) -> Lowered<()> {
        let bit = self.int(Arg::Reg(predicate.reg), false)?;
        self.test_int(bit);
        let condition = if predicate.negated {
            Condition::Equal
        } else {
            Condition::NotEqual
        };
        if then == otherwise {
            self.b.jump(then);
        } else {
            self.b.branch(condition, then, otherwise);
        }
        Ok(())
    }

    fn declare_region(&mut self, number: usize) -> Waiting {
        let mut masks = vec![Vec::new(); self.program.blocks.len()];
        let declare = |e: &mut Self| (0..e.width / 16).map(|_| e.b.variable(MASK)).collect();
        for block in self.divergence.regions[number].blocks.clone() {
            masks[block.index()] = declare(self);
        }
        let exited = declare(self);
        Waiting { masks, exited }
    }

    /// No lane waits for a block of a region.
    fn no_waiting(&mut self, waiting: &Waiting) {
        for &variable in waiting.masks.iter().flatten().chain(&waiting.exited) {
            let none = self.no_lanes();
            self.b.set(variable, none);
        }
    }

    /// Records a fault of the first active lane.
    fn fault(&mut self, kind: crate::abi::FaultKind, line: u32) {
        let lanes = match self.active.clone() {
            Some(active) => active,
            None => vec![self.b.ones()],
        };
        for (piece, mask) in lanes.into_iter().enumerate() {
            let request = [u64::from(line) << 32 | kind as u64, 16 * piece as u64];
            let call = self.call_number(crate::runtime::Helper::fault_lanes, request);
            let thread = self.b.get(self.thread);
            self.b
                .emit(Op::StoreIntLanes { at: 8 }, [Operand::reg_use(thread)]);
            self.b
                .emit(Op::StoreMaskLanes { at: 0 }, [Operand::reg_use(mask)]);
            self.b.emit(Op::CallLanes { call }, []);
        }
        if self.active.is_none() {
            // The call does not return there.
            let next = self.next_group;
            self.b.jump(next);
        }
    }

    /// Adds lanes to the mask of a block.
    fn send(&mut self, waiting: &Waiting, to: BlockId, lanes: &[Value]) {
        for (variable, &lanes) in waiting.masks[to.index()].clone().iter().zip(lanes) {
            let known = self.b.get(*variable);
            let all = self.mask_or(known, lanes);
            self.b.set(*variable, all);
        }
    }

    /// Sends the active lanes to the successors of a block.
    fn distribute(&mut self, at: BlockId, waiting: &Waiting) -> Lowered<()> {
        let active = self.active.clone().unwrap_or_default();
        match &self.program.blocks[at.index()].terminator {
            Terminator::Jump(to) => self.send(waiting, *to, &active),
            Terminator::Exit => {
                self.exit();
                for (variable, &lanes) in waiting.exited.clone().iter().zip(&active) {
                    let known = self.b.get(*variable);
                    let all = self.mask_or(known, lanes);
                    self.b.set(*variable, all);
                }
            }
            Terminator::Sync { instruction, next } => {
                match self.sync(at, instruction, Some(&waiting.exited))? {
                    Synchronized::Suspended => {}
                    Synchronized::Together => self.send(waiting, *next, &active),
                    Synchronized::Either(suspended) => {
                        self.send(waiting, *next, &active);
                        self.b.jump(suspended);
                        self.b.enter_sealed(suspended);
                    }
                }
            }
            Terminator::Fault {
                kind,
                address: None,
                line,
            } => self.fault(*kind, *line),
            Terminator::Branch {
                predicate,
                then,
                otherwise,
            } => {
                let (mut yes, mut no) = (Vec::new(), Vec::new());
                for (piece, &active) in active.iter().enumerate() {
                    let mask = self.mask(Arg::Reg(predicate.reg), piece)?;
                    let with = self.mask_and(mask, active);
                    let without = self.mask_without(mask, active);
                    let (one, other) = if predicate.negated {
                        (without, with)
                    } else {
                        (with, without)
                    };
                    yes.push(one);
                    no.push(other);
                }
                self.send(waiting, *then, &yes);
                self.send(waiting, *otherwise, &no);
            }
            _ => return Err(Unsupported("a terminator")),
        }
        Ok(())
    }

    /// The blocks of a region, whose lanes go on together at `join`.
    fn region(&mut self, number: usize, waiting: &Waiting, join: Label) -> Lowered<()> {
        let blocks = self.divergence.regions[number].blocks.clone();
        // By block: the loops that it ends, from the inside out, by their heads.
        let mut ends: Vec<Vec<BlockId>> = vec![Vec::new(); self.program.blocks.len()];
        for id in self.divergence.loops.ids() {
            let inside = |block: &&BlockId| self.divergence.loops.contains(id, **block);
            let head = self.divergence.loops.get(id).head;
            if blocks.contains(&head)
                && let Some(last) = blocks.iter().rfind(inside)
            {
                ends[last.index()].push(head);
            }
        }
        for ends in &mut ends {
            // Inner loops end first.
            ends.sort_by_key(|head| std::cmp::Reverse(self.divergence.position[head.index()]));
        }
        let mut heads: Vec<Option<Label>> = vec![None; self.program.blocks.len()];
        for at in blocks {
            if self.divergence.loops.headed_by(at).is_some() {
                let head = self.b.block();
                self.b.jump(head);
                self.b.enter(head);
                heads[at.index()] = Some(head);
            }
            let [body, behind] = [(); 2].map(|()| self.b.block());
            let lanes: Vec<Value> = waiting.masks[at.index()]
                .iter()
                .map(|&variable| self.b.get(variable))
                .collect();
            self.test_masks(&lanes);
            self.b.branch(Condition::NotEqual, body, behind);
            self.b.enter_sealed(body);
            for &variable in &waiting.masks[at.index()] {
                let none = self.no_lanes();
                self.b.set(variable, none);
            }
            self.active = Some(lanes);
            self.block = at;
            self.find_spans(at);
            let block = &self.program.blocks[at.index()];
            for step in &block.steps {
                self.step(step)?;
            }
            self.distribute(at, waiting)?;
            self.b.jump(behind);
            self.b.enter_sealed(behind);
            for &head in &ends[at.index()] {
                let lanes: Vec<Value> = waiting.masks[head.index()]
                    .iter()
                    .map(|&variable| self.b.get(variable))
                    .collect();
                let after = self.b.block();
                let Some(start) = heads[head.index()] else {
                    return Err(Unsupported("a loop"));
                };
                self.test_masks(&lanes);
                self.b.branch(Condition::NotEqual, start, after);
                self.b.seal(start);
                self.b.enter_sealed(after);
            }
        }
        self.active = None;
        if join == self.next_group && !self.suspension.places.is_empty() {
            if self.divergence.regions[number].suspends {
                self.mixed()
            } else {
                // All have exited.
                self.arrive(crate::abi::EXITED)
            }
        }
        self.b.jump(join);
        Ok(())
    }
}
