//! How groups that wait together at a barrier of the block keep their registers.
//!
//! The scalar function finds the value of each lane in a slot. Groups that the function resumes itself keep
//! less, one group behind the other: the first lane's value of a register if the others follow from it, and
//! the bits of a mask. They have a state of their own, *packed*. Before the function returns with such
//! groups, it *spreads* their registers to slots.

use regalloc2::Operand;

use crate::abi::{EXITED, SLOT_BYTES, WARP_SIZE, offset};
use crate::optimization::Optimization;
use crate::program::{BlockId, Reg};
use crate::simd::lower::operands::{LONG, WORD};
use crate::simd::lower::{Lowered, Lowering};
use crate::simd::machine::{Alu, Condition, Label, MASK, Op, Shift, Value};
use crate::simd::opcodes as v;
use crate::simd::packed_registers::{Part, PartKind};
use crate::simd::suspension::ResumePlace;

/// The address of a group's values of 4 and of 8 bytes in slot 0, once they are known.
#[derive(Default)]
pub(in crate::simd::lower) struct Slots([Option<Value>; 2]);

impl Lowering<'_, '_> {
    /// Whether groups wait together for the block at a place. Other lanes save all live registers then, as
    /// slots do not have what packed groups have saved before.
    pub(in crate::simd::lower) fn packs(&self) -> bool {
        let mut places = self.suspension.places.iter();
        places.any(|place| self.is_together(place))
    }

    /// The state of packed groups whose state is otherwise this one.
    pub(in crate::simd::lower) fn packed_state(&self, state: u32) -> u32 {
        self.suspension.places.len() as u32 + state
    }

    /// The address of the group's values in slot 0, with values of 4 or 8 bytes.
    pub(in crate::simd::lower) fn slots(&mut self, known: &mut Slots, wide: bool) -> Value {
        if let Some(start) = known.0[usize::from(wide)] {
            return start;
        }
        let slots = self.field(LONG, offset::SLOTS);
        let thread = self.b.get(self.thread);
        let by = WARP_SIZE.trailing_zeros() as u8;
        let warp = self.shift_int(Shift::Right, false, thread, by);
        let bytes = self.suspension.slot_count * SLOT_BYTES;
        let at = self.multiply_by(true, warp, bytes.cast_signed());
        let mut start = self.alu(Alu::Add, true, slots, at);
        if self.width < WARP_SIZE as usize {
            let lane = self.alu_immediate(Alu::And, false, thread, WARP_SIZE.cast_signed() - 1);
            let at = self.shift_int(Shift::Left, true, lane, if wide { 3 } else { 2 });
            start = self.alu(Alu::Add, true, start, at);
        }
        known.0[usize::from(wide)] = Some(start);
        start
    }

    /// The address of the group's packed registers.
    fn packed_address(&mut self) -> Value {
        let start = self.field(LONG, offset::PACKED);
        let thread = self.b.get(self.thread);
        let by_thread = self.packed.bytes / self.width as u32;
        let at = self.multiply_by(true, thread, by_thread.cast_signed());
        self.alu(Alu::Add, true, start, at)
    }

    /// The parts of registers, and the address that their offsets count from.
    fn parts_of(&mut self, registers: &[Reg]) -> (Vec<Part>, Value) {
        let parts = registers.iter().map(|reg| &self.packed.parts[reg.index()]);
        let parts = parts.flatten().copied().collect();
        (parts, self.packed_address())
    }

    /// Saves registers of all lanes of a group.
    pub(in crate::simd::lower) fn save_packed(&mut self, registers: &[Reg]) {
        let (parts, base) = self.parts_of(registers);
        Optimization::PackedRegisters.count();
        for Part {
            variable,
            kind,
            offset,
        } in parts
        {
            let value = self.b.get(variable);
            let operands = [value, base].map(Operand::reg_use);
            match kind {
                PartKind::Vector => self.store_slot(value, base, (offset, false), None),
                PartKind::Mask => self.b.emit(Op::StoreMask { offset }, operands),
                PartKind::Int { wide } => {
                    let bytes = if wide { 8 } else { 4 };
                    self.b.emit(Op::StoreInt { bytes, offset }, operands);
                }
            }
        }
    }

    /// Restores registers of a packed group.
    fn reload_packed(&mut self, registers: &[Reg]) {
        let (parts, base) = self.parts_of(registers);
        for Part {
            variable,
            kind,
            offset,
        } in parts
        {
            let value = match kind {
                PartKind::Vector => self.load_vector(v::LOAD, base, (offset, 64)),
                PartKind::Mask => {
                    let mask = self.b.value(MASK);
                    let operands = [Operand::reg_def(mask), Operand::reg_use(base)];
                    self.b.emit(Op::LoadMask { offset }, operands);
                    mask
                }
                PartKind::Int { wide } => {
                    self.load_int(if wide { LONG } else { WORD }, base, offset)
                }
            };
            self.b.set(variable, value);
        }
    }

    /// Resumes packed groups.
    pub(in crate::simd::lower) fn resume_packed(
        &mut self,
        labels: &[Label],
        state: Value,
    ) -> Lowered<()> {
        let states = self.packed_states();
        let targets: Vec<Label> = states.iter().map(|_| self.b.block()).collect();
        let Some(&first) = targets.first() else {
            return Err(crate::simd::lower::Unsupported("barriers of some lanes"));
        };
        self.dispatch(state, &states[1..], &targets[1..], first);
        let is_always_packed = self.is_always_packed();
        for (&state, &target) in states.iter().zip(&targets) {
            let place = self.place_of(state);
            self.b.enter_sealed(target);
            self.forget();
            self.start_group()?;
            let registers = if is_always_packed {
                &place.reload
            } else {
                &place.live
            };
            self.reload_packed(registers);
            self.b.jump(labels[place.next.index()]);
        }
        Ok(())
    }

    /// The states of packed groups.
    fn packed_states(&self) -> Vec<u32> {
        let states = 1..=self.suspension.places.len() as u32;
        let packed = states.map(|state| self.packed_state(state));
        packed
            .filter(|&state| self.is_together(&self.place_of(state)))
            .collect()
    }

    fn place_of(&self, packed: u32) -> ResumePlace {
        let number = packed - self.packed_state(1);
        self.suspension.places[number as usize].clone()
    }

    /// Whether all lanes of a group wait at a place, for the whole block.
    pub(in crate::simd::lower) fn is_together(&self, place: &ResumePlace) -> bool {
        let waits_together = place.is_block_barrier && !self.divergence.is_partial(place.next);
        waits_together && Optimization::PackedRegisters.is_on()
    }

    /// Whether lanes wait nowhere else. Lanes that do save all live registers, which have to be restored
    /// before.
    fn is_always_packed(&self) -> bool {
        let mut blocks = (0..).map(BlockId).zip(&self.suspension.sync_at);
        blocks.all(|(block, place)| {
            place.is_none_or(|number| {
                let place = &self.suspension.places[number as usize];
                self.is_together(place) && !self.divergence.is_partial(block)
            })
        })
    }

    /// Spreads the registers of all packed groups from a thread on.
    pub(in crate::simd::lower) fn spread(&mut self, first: Value) -> Lowered<()> {
        let [head, body, next, end] = [(); 4].map(|()| self.b.block());
        self.b.set(self.thread, first);
        self.b.jump(head);
        self.b.enter(head);
        let thread = self.b.get(self.thread);
        self.compare_int(false, thread, self.last);
        self.b.branch(Condition::Below, body, end);
        self.b.enter_sealed(body);
        let at = self.state_address();
        let state = self.load_int(WORD, at, 0);
        let states = self.packed_states();
        let targets: Vec<Label> = states.iter().map(|_| self.b.block()).collect();
        self.dispatch(state, &states, &targets, next);
        for (&state, &target) in states.iter().zip(&targets) {
            let place = self.place_of(state);
            self.b.enter_sealed(target);
            self.reload_packed(&place.live);
            self.active = None;
            self.save(&place.live)?;
            self.set_state(state - self.packed_state(0));
            self.b.jump(next);
        }
        self.b.enter_sealed(next);
        let thread = self.b.get(self.thread);
        let following = self.add_offset(thread, self.width as i64);
        self.b.set(self.thread, following);
        self.b.jump(head);
        self.b.seal(head);
        self.b.enter_sealed(end);
        Ok(())
    }

    /// Emits the end of a phase, when all groups have run. If all are packed, in one state, the function
    /// resumes them. Otherwise it spreads their registers, and goes on.
    pub(in crate::simd::lower) fn next_packed_phase(
        &mut self,
        head: Label,
        first: Value,
    ) -> Lowered<()> {
        let state = self.b.get(self.arrival);
        let [waiting, other, again, spread, done] = [(); 5].map(|()| self.b.block());
        let places = self.suspension.places.len() as i32;
        let number = self.alu_immediate(Alu::Sub, false, state, places + 1);
        self.compare_with(false, number, places);
        self.b.branch(Condition::Below, waiting, other);
        self.b.enter_sealed(waiting);
        // The whole block has run.
        let count = self.alu(Alu::Sub, false, self.last, first);
        let threads = self.field(WORD, offset::THREADS);
        self.compare_int(false, count, threads);
        self.b.branch(Condition::Equal, again, spread);
        self.b.enter_sealed(again);
        self.next_phase(head, state, first);
        self.b.enter_sealed(other);
        self.compare_with(false, state, EXITED.cast_signed());
        self.b.branch(Condition::Equal, done, spread);
        self.b.enter_cold(spread);
        self.spread(first)?;
        self.b.jump(done);
        self.b.enter_sealed(done);
        Ok(())
    }
}
