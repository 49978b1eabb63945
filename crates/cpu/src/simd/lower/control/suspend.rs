//! Suspending and resuming threads at sync points.

use regalloc2::Operand;

use super::packed::Slots;
use crate::abi::{EXITED, SLOT_BYTES, offset};
use crate::program::{Arg, Base, BlockId, Instruction, Reg, RegClass};
use crate::runtime::Helper;
use crate::simd::builder::Variable;
use crate::simd::lower::memory::address::Space;
use crate::simd::lower::operands::{LONG, WORD};
use crate::simd::lower::{Lowered, Lowering, Place, Source, Unsupported};
use crate::simd::machine::{Alu, Condition, Label, Masking, Op, Shift, Value, ZMM};
use crate::simd::opcodes as v;
use crate::simd::suspension::ResumePlace;

impl Lowering<'_, '_> {
    pub(in crate::simd::lower) fn slot(&self, reg: Reg) -> Option<i32> {
        let slot = self.suspension.slots[reg.index()]?;
        Some((slot * SLOT_BYTES).cast_signed())
    }

    /// Saves registers of the active lanes.
    pub(in crate::simd::lower) fn save(&mut self, registers: &[Reg]) -> Lowered<()> {
        let mut slots = Slots::default();
        for &reg in registers {
            let Some(slot) = self.slot(reg) else {
                continue;
            };
            let class = self.class(reg);
            let wide = class.bytes() == 8;
            let base = self.slots(&mut slots, wide);
            for piece in 0..self.pieces(wide) {
                let value = self.saved_value(reg, class, piece)?;
                let active = self.active.clone();
                let mask = active.map(|active| self.mask_for(&active, wide, piece));
                self.store_slot(value, base, (slot + 64 * piece as i32, wide), mask);
            }
        }
        Ok(())
    }

    pub(in crate::simd::lower) fn store_slot(
        &mut self,
        value: Value,
        base: Value,
        (offset, wide): (i32, bool),
        mask: Option<Value>,
    ) {
        let mut operands = vec![Operand::reg_use(value), Operand::reg_use(base)];
        operands.extend(mask.map(Operand::reg_use));
        let op = Op::Store {
            code: if wide { v::STORE64 } else { v::STORE },
            offset,
            unit: 64,
            masked: mask.is_some(),
        };
        self.b.emit(op, operands);
    }

    /// The bits of a register as they are in a slot.
    fn saved_value(&mut self, reg: Reg, class: RegClass, piece: usize) -> Lowered<Value> {
        let wide = class.bytes() == 8;
        match (self.places[reg.index()].clone(), class) {
            (Place::Lanes(variables), RegClass::Pred) => {
                let mask = self.b.get(variables[piece]);
                let zero = Source::Vector(self.in_register(Source::Bits(0), false));
                Ok(self.blended(false, mask, Source::Bits(1), zero))
            }
            (Place::Lanes(variables), _) => Ok(self.b.get(variables[piece])),
            (Place::Uniform(variable), class) if class.is_float() => Ok(self.b.get(variable)),
            (Place::Affine(..) | Place::Extended(_) | Place::Indexed(_), _) => {
                self.vector(Arg::Reg(reg), wide, piece)
            }
            (Place::Uniform(_), _) => {
                let value = self.int(Arg::Reg(reg), wide)?;
                Ok(self.splat(value, wide))
            }
        }
    }

    /// Restores registers of a group whose lanes are all resumed.
    fn reload(&mut self, registers: &[Reg], wraps: Label) {
        let mut slots = Slots::default();
        for &reg in registers {
            let Some(slot) = self.slot(reg) else {
                continue;
            };
            let class = self.class(reg);
            let wide = class.bytes() == 8;
            let base = self.slots(&mut slots, wide);
            match self.places[reg.index()].clone() {
                Place::Uniform(variable) if class.is_float() => {
                    let value = self.load_vector(
                        if wide { v::BROADCAST64 } else { v::BROADCAST },
                        base,
                        (slot, class.bytes() as u8),
                    );
                    self.b.set(variable, value);
                }
                Place::Extended(sum) => {
                    let first = self.load_int(LONG, base, slot);
                    let last = self.load_int(LONG, base, slot + 8 * (self.width as i32 - 1));
                    self.reload_sum(sum, first, last, wraps);
                }
                Place::Indexed(sum) => {
                    let pieces = 0..self.pieces(true) as i32;
                    let lanes: Vec<Value> = pieces
                        .map(|piece| self.load_vector(v::LOAD64, base, (slot + 64 * piece, 64)))
                        .collect();
                    self.reload_indexed(&sum, &lanes, wraps);
                }
                Place::Uniform(variable) | Place::Affine(variable, _) => {
                    let memory = if wide { LONG } else { WORD };
                    let value = self.load_int(memory, base, slot);
                    self.b.set(variable, value);
                }
                Place::Lanes(variables) => {
                    for (piece, variable) in variables.into_iter().enumerate() {
                        let code = if wide { v::LOAD64 } else { v::LOAD };
                        let at = slot + 64 * piece as i32;
                        let value = self.load_vector(code, base, (at, 64));
                        let value = match class {
                            RegClass::Pred => {
                                let zero = self.in_register(Source::Bits(0), false);
                                let (value, zero) = (Source::Vector(value), Source::Vector(zero));
                                self.compared(v::COMPARE_U, value, zero, Some(4), None)
                            }
                            _ => value,
                        };
                        self.b.set(variable, value);
                    }
                }
            }
        }
    }

    pub(in crate::simd::lower) fn load_vector(
        &mut self,
        code: crate::simd::machine::Evex,
        base: Value,
        (offset, unit): (i32, u8),
    ) -> Value {
        let value = self.b.value(ZMM);
        let operands = [Operand::reg_def(value), Operand::reg_use(base)];
        let op = Op::Load {
            code,
            offset,
            unit,
            masking: Masking::None,
            broadcast: false,
            binary: false,
            immediate: None,
        };
        self.b.emit(op, operands);
        value
    }

    /// The address of the states of the group's threads.
    pub(in crate::simd::lower) fn state_address(&mut self) -> Value {
        let states = self.field(LONG, offset::STATES);
        let thread = self.b.get(self.thread);
        let at = self.shift_int(Shift::Left, true, thread, 2);
        self.alu(Alu::Add, true, states, at)
    }

    /// Records the state of the active lanes.
    pub(in crate::simd::lower) fn set_state(&mut self, state: u32) {
        let at = self.state_address();
        let value = self.in_register(Source::Bits(state.into()), false);
        for piece in 0..self.width / 16 {
            let mask = self.active.as_ref().map(|active| active[piece]);
            self.store_slot(value, at, (64 * piece as i32, false), mask);
        }
    }

    /// All threads of the group have this state now.
    pub(in crate::simd::lower) fn arrive(&mut self, state: u32) {
        let state = self.b.immediate(state.into());
        self.b.set(self.group_state, state);
    }

    /// The active lanes exit.
    pub(in crate::simd::lower) fn exit(&mut self) {
        if self.suspension.places.is_empty() {
            return;
        }
        self.set_state(EXITED);
        if self.active.is_none() {
            self.arrive(EXITED);
        }
    }

    /// Suspends the active lanes at the sync point of a block.
    pub(in crate::simd::lower) fn suspend(&mut self, at: BlockId, i: &Instruction) -> Lowered<()> {
        let Some(number) = self.suspension.sync_at[at.index()] else {
            return Err(Unsupported("a sync point without a place"));
        };
        let place = self.suspension.places[number as usize].clone();
        if self.active.is_none() && self.is_together(&place) {
            self.save_packed(&place.dirty);
            let state = self.packed_state(number + 1);
            let value = self.b.immediate(state.into());
            let operands = [value, self.state_address()].map(Operand::reg_use);
            let (bytes, offset) = (4, 0);
            self.b.emit(Op::StoreInt { bytes, offset }, operands);
            self.arrive(state);
            return Ok(());
        }
        let saved = if self.packs() {
            &place.live
        } else {
            &place.dirty
        };
        self.save(saved)?;
        if !place.is_block_barrier {
            self.store_request(i, place.distance)?;
        }
        self.set_state(number + 1);
        if self.active.is_none() {
            self.arrive(number + 1);
        }
        Ok(())
    }

    /// The code that resumes groups: the label of each place that groups of all lanes resume at.
    pub(in crate::simd::lower) fn resume(&mut self, labels: &[Label], state: Value) -> Lowered<()> {
        let apart = self.b.block();
        if self.packs() {
            let [packed, other] = [(); 2].map(|()| self.b.block());
            self.compare_with(false, state, self.packed_state(0).cast_signed());
            self.b.branch(Condition::Above, packed, other);
            self.b.enter_sealed(packed);
            self.resume_packed(labels, state)?;
            self.b.enter_cold(other);
        }
        let full = |place: &ResumePlace| !self.divergence.is_partial(place.next);
        let all = (1_u32..).zip(&self.suspension.places);
        let states: Vec<u32> = all
            .filter(|(_, place)| full(place))
            .map(|(state, _)| state)
            .collect();
        let targets: Vec<Label> = states.iter().map(|_| self.b.block()).collect();
        self.dispatch(state, &states, &targets, apart);
        for (&state, &target) in states.iter().zip(&targets) {
            let number = state as usize - 1;
            let place = self.suspension.places[number].clone();
            self.b.enter_sealed(target);
            self.forget();
            self.start_group()?;
            if self.packs() {
                self.reload(&place.live, apart);
                self.save_packed(&place.live);
            } else {
                self.reload(&place.reload, apart);
            }
            if let Some(i) = self.sync_of(number) {
                self.load_results(&i)?;
            }
            self.b.jump(labels[place.next.index()]);
        }
        // All others: one lane after the other.
        self.b.enter_sealed(apart);
        self.run_scalar();
        let next = self.next_group;
        self.b.jump(next);
        Ok(())
    }

    /// Jumps to the target of a state, by halves of the sorted states.
    pub(in crate::simd::lower) fn dispatch(
        &mut self,
        state: Value,
        states: &[u32],
        targets: &[Label],
        otherwise: Label,
    ) {
        let at = states.len() / 2;
        let Some(&middle) = states.get(at) else {
            return self.b.jump(otherwise);
        };
        if let [target] = targets {
            self.compare_with(false, state, middle.cast_signed());
            return self.b.branch(Condition::Equal, *target, otherwise);
        }
        let [below, rest] = [(); 2].map(|()| self.b.block());
        self.compare_with(false, state, middle.cast_signed());
        self.b.branch(Condition::Below, below, rest);
        self.b.enter_sealed(below);
        self.dispatch(state, &states[..at], &targets[..at], otherwise);
        self.b.enter_sealed(rest);
        self.dispatch(state, &states[at..], &targets[at..], otherwise);
    }

    /// The registers have no values from before: what is read without being written is 0.
    pub(in crate::simd::lower) fn forget(&mut self) {
        let registers = self.places.iter().zip(&self.program.registers);
        let parts = registers.flat_map(|(place, &class)| place.parts(class));
        let variables: Vec<Variable> = parts.map(|(variable, _)| variable).collect();
        for variable in variables {
            let zero = self.b.zero_of(variable);
            self.b.set(variable, zero);
        }
    }

    /// The instruction of a sync point.
    fn sync_of(&self, number: usize) -> Option<Instruction> {
        let block = self
            .suspension
            .sync_at
            .iter()
            .position(|known| *known == Some(number as u32))?;
        match self.program.blocks[block].terminator {
            crate::program::Terminator::Sync { instruction, .. } => Some(instruction),
            _ => None,
        }
    }

    /// Runs all threads of the group in the scalar function.
    fn run_scalar(&mut self) {
        let thread = self.b.get(self.thread);
        let call = self.call_number(Helper::run_scalar, [self.width as u64, 0]);
        self.b
            .emit(Op::StoreIntLanes { at: 8 }, [Operand::reg_use(thread)]);
        self.b.emit(Op::CallLanes { call }, []);
        self.mixed();
    }

    /// The threads of the group may be in different states.
    pub(in crate::simd::lower) fn mixed(&mut self) {
        let state = self.b.immediate(MIXED.into());
        self.b.set(self.group_state, state);
    }

    /// Stores operands for the scheduler.
    fn store_request(&mut self, i: &Instruction, distance: u32) -> Lowered<()> {
        let operands = super::sync::operands(self.program, i, distance)?;
        for piece in 0..self.width / 16 {
            for (n, operand) in operands.iter().enumerate() {
                let halves = self.request_operand(operand, piece)?;
                self.call_for_active((Helper::store_operands, n as u64), piece, &halves);
            }
        }
        Ok(())
    }

    /// Eight and eight lanes of 64 bits.
    fn request_operand(
        &mut self,
        operand: &super::sync::RequestOperand,
        piece: usize,
    ) -> Lowered<[Value; 2]> {
        use super::sync::RequestOperand as R;
        Ok(match *operand {
            R::Number(number) => {
                let vector = self.in_register(Source::Bits(number), true);
                [vector; 2]
            }
            R::Word(arg) => {
                let value = self.vector(arg, false, piece)?;
                [0, 1].map(|half| self.widened(value, half, false))
            }
            R::Address(Arg::Address(Base::Reg(reg), offset), space) => {
                let (arg, offset) = (Arg::Reg(reg), offset.bytes());
                match space {
                    Space::Generic | Space::Param => {
                        let low = self.vector(arg, true, 2 * piece)?;
                        let high = self.vector(arg, true, 2 * piece + 1)?;
                        [low, high].map(|half| self.plus(half, offset))
                    }
                    Space::Shared | Space::Local => {
                        let value = self.vector(arg, false, piece)?;
                        let offset = Source::Bits(u64::from(offset as u32));
                        let value = self.binary(v::ADD, Source::Vector(value), offset);
                        [0, 1].map(|half| self.widened(value, half, false))
                    }
                }
            }
            R::Address(Arg::Symbol(storage, offset), _)
            | R::Address(Arg::Address(Base::Storage(storage), offset), _) => {
                let value = self.int(Arg::Symbol(storage, offset), true)?;
                [self.splat(value, true); 2]
            }
            R::Address(..) => return Err(Unsupported("a kind of address")),
            R::Long(arg) => {
                let low = self.vector(arg, true, 2 * piece)?;
                [low, self.vector(arg, true, 2 * piece + 1)?]
            }
            R::Predicate(arg) => {
                let mask = self.mask(arg, piece)?;
                let zero = Source::Vector(self.in_register(Source::Bits(0), false));
                let value = self.blended(false, mask, Source::Bits(1), zero);
                [0, 1].map(|half| self.widened(value, half, false))
            }
        })
    }

    /// Loads the results from the scheduler.
    fn load_results(&mut self, i: &Instruction) -> Lowered<()> {
        // Results of matrices are in slots.
        if !self.program.has_destination(i) || i.is_matrix() {
            return Ok(());
        }
        let parts = match self.arg(i, 0)? {
            Arg::List(list) => self.program.list(list).to_vec(),
            single => vec![single],
        };
        for (n, part) in parts.into_iter().enumerate().take(2) {
            let mut halves = Vec::new();
            for piece in 0..self.width / 16 {
                let call = self.call_number(Helper::load_results, [n as u64, 16 * piece as u64]);
                let thread = self.b.get(self.thread);
                self.b
                    .emit(Op::StoreIntLanes { at: 8 }, [Operand::reg_use(thread)]);
                self.b.emit(Op::CallLanes { call }, []);
                halves.push(self.load_lanes_at(0));
                halves.push(self.load_lanes_at(1));
            }
            let Arg::Reg(reg) = part else {
                continue;
            };
            if self.class(reg) == RegClass::Pred {
                let mut masks = Vec::new();
                for pair in halves.chunks(2) {
                    let mut eighths = [pair[0]; 2];
                    for (eighth, &half) in eighths.iter_mut().zip(pair) {
                        let zero = Source::Vector(self.in_register(Source::Bits(0), true));
                        let half = Source::Vector(half);
                        *eighth = self.compared(v::COMPARE_U64, half, zero, Some(4), None);
                    }
                    masks.push(self.mask_join(eighths[0], eighths[1]));
                }
                self.write_masks(i, part, &masks)?;
            } else {
                self.write(i, part, true, &halves, false)?;
            }
        }
        Ok(())
    }

    /// Resumes all groups, which are in one state.
    pub(in crate::simd::lower) fn next_phase(&mut self, head: Label, state: Value, first: Value) {
        self.b.set(self.state, state);
        self.b.set(self.thread, first);
        let none = self.b.immediate(NONE.into());
        self.b.set(self.arrival, none);
        self.b.jump(head);
    }

    /// Merges the state of a group with those of the groups before it.
    pub(in crate::simd::lower) fn note_arrival(&mut self) {
        let group = self.b.get(self.group_state);
        let known = self.b.get(self.arrival);
        // The first group's, or what all have, or a mix.
        let mixed = self.b.immediate(MIXED.into());
        self.compare_int(false, known, group);
        let joined = self.select_int(Condition::Equal, false, mixed, group);
        self.compare_with(false, known, NONE.cast_signed());
        let joined = self.select_int(Condition::Equal, false, joined, group);
        self.b.set(self.arrival, joined);
    }
}

/// States of groups: their threads have different ones; no group has run.
pub(in crate::simd::lower) const MIXED: u32 = 0x7FFF_FFFE;
pub(in crate::simd::lower) const NONE: u32 = 0x7FFF_FFFD;
