//! Operations that the lanes of a warp execute together, in a vector function whose lane group
//! is a warp: what the scheduler does for suspended lanes, with vectors.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Type, Value, types,
};

use super::emitter::{EmitResult, Emitter, LITTLE_ENDIAN};
use super::lane_set::{LaneSet, vectors};
use super::sync::{ALL_LANES, kind_of};
use crate::abi::{SyncKind, WARP_SIZE};
use crate::program::{Arg, Instruction, RegClass, Uniformity};
use crate::shuffle::source;

/// Lanes of 32 bits in a vector.
const PER_VECTOR: u32 = 4;
const FLAGS: MemFlagsData = MemFlagsData::trusted();
/// The bytes of a value of 32 bits for each lane.
const WARP_BYTES: i32 = 4 * WARP_SIZE as i32;

impl Emitter<'_, '_> {
    /// Emits a sync point that the lanes of the group execute together.
    pub fn warp_operation(&mut self, i: &Instruction) -> EmitResult<()> {
        use SyncKind::*;
        self.line = i.line;
        self.set_guard(None);
        self.splats.clear();
        let kind = kind_of(i)?;
        match kind {
            Matrix => self.load_rows(i)?,
            WarpBarrier => {}
            ActiveMask => {
                let all = self.scalar_int(types::I32, ALL_LANES);
                self.write_shared(i, 0, all)?;
            }
            Elect => {
                let leader = self.scalar_int(types::I32, 0);
                self.write_shared(i, 0, leader)?;
                let elected = self.mask_of_lanes(|lane| lane == 0);
                self.write_vectors(i, 1, &elected)?;
            }
            ShflUp | ShflDown | ShflBfly | ShflIdx => self.shuffle(kind, i)?,
            VoteAll | VoteAny | VoteUni | VoteBallot => self.vote(kind, i)?,
            MatchAll => {
                let values = self.words(i, 1)?;
                let first = self.b.ins().extractlane(values[0], 0);
                let first = self.b.ins().splat(types::I32X4, first);
                let same: Vec<Value> = values
                    .iter()
                    .map(|&value| self.icmp(IntCC::Equal, value, first))
                    .collect();
                let same = self.folded(&same, |e, a, b| e.b.ins().band(a, b));
                let same = self.b.ins().vall_true(same);
                let all = self.scalar_int(types::I32, ALL_LANES);
                let none = self.scalar_int(types::I32, 0);
                let mask = self.b.ins().select(same, all, none);
                self.write_shared(i, 0, mask)?;
                self.write_shared(i, 1, same)?;
            }
            ReduxAdd | ReduxMinU32 | ReduxMaxU32 | ReduxMinS32 | ReduxMaxS32 | ReduxAnd
            | ReduxOr | ReduxXor => {
                let values = self.words(i, 1)?;
                let result = self.reduced(kind, &values);
                self.write_shared(i, 0, result)?;
            }
            _ => return self.unsupported(i, "unsupported sync point"),
        }
        self.lane_set = LaneSet::Scalar;
        Ok(())
    }

    fn shuffle(&mut self, kind: SyncKind, i: &Instruction) -> EmitResult<()> {
        let values = self.words(i, 1)?;
        let (b, c) = (self.arg(i, 2)?, self.arg(i, 3)?);
        let predicate = self.destination(i, 1).is_some();
        let fixed = match (b, c) {
            (Arg::Int(b), Arg::Int(c)) => {
                let from: Vec<(u32, bool)> = (0..WARP_SIZE)
                    .map(|lane| source(kind, lane, b as u32, c as u32))
                    .collect();
                Some(from)
            }
            _ => None,
        };
        // All lanes get the same.
        if self.is_shared(i, 0) || self.is_shared(i, 1) {
            let value = match &fixed {
                Some(from) => self.extracted(&values, from[0].0),
                None => self.broadcast(&values, b)?,
            };
            self.write_shared(i, 0, value)?;
            let yes = self.scalar_int(types::I8, 1);
            return self.write_shared(i, 1, yes);
        }
        if let Some(from) = &fixed
            && predicate
        {
            let in_range = self.mask_of_lanes(|lane| from[lane as usize].1);
            self.write_vectors(i, 1, &in_range)?;
        }
        if let Some(from) = &fixed
            && let Some(results) = self.permuted(&values, from)
        {
            return self.write_vectors(i, 0, &results);
        }
        let (results, in_range) = match c {
            Arg::Int(c)
                if matches!(kind, SyncKind::ShflUp | SyncKind::ShflDown) && self.is_scalar(b) =>
            {
                self.moved(kind, &values, b, c as u32)?
            }
            _ => self.gathered(kind, i, &values)?,
        };
        self.write_vectors(i, 0, &results)?;
        if predicate && fixed.is_none() {
            self.write_vectors(i, 1, &in_range)?;
        }
        Ok(())
    }

    /// Whether an operand has the same for all lanes.
    fn is_scalar(&self, arg: Arg) -> bool {
        match arg {
            Arg::Int(_) => true,
            Arg::Reg(reg) => self.locations[reg.index()].uniformity == Uniformity::Uniform,
            _ => false,
        }
    }

    /// The values that lanes take from those that are known, if no vector of them needs more
    /// than two vectors.
    fn permuted(&mut self, values: &[Value], from: &[(u32, bool)]) -> Option<Vec<Value>> {
        let mut permuted = Vec::with_capacity(values.len());
        for (number, from) in (0..).zip(from.chunks(PER_VECTOR as usize)) {
            let sources: Vec<u32> = (number * PER_VECTOR..)
                .zip(from)
                .map(|(lane, &(source, in_range))| if in_range { source } else { lane })
                .collect();
            let mut needed: Vec<u32> = sources.iter().map(|lane| lane / PER_VECTOR).collect();
            let in_order = (sources[0]..).zip(&sources).all(|(a, &b)| a == b);
            needed.sort_unstable();
            needed.dedup();
            let (first, second) = match *needed.as_slice() {
                [one] => (one, one),
                [first, second] => (first, second),
                _ => return None,
            };
            if first == second && in_order && sources[0].is_multiple_of(PER_VECTOR) {
                permuted.push(values[first as usize]);
                continue;
            }
            let bytes = sources.iter().flat_map(|&lane| {
                let second = u32::from(lane / PER_VECTOR != first);
                let at = (lane % PER_VECTOR + second * PER_VECTOR) * 4;
                (at..at + 4).map(|byte| byte as u8)
            });
            let bytes: Vec<u8> = bytes.collect();
            permuted.push(self.bytes_of(values[first as usize], values[second as usize], bytes));
        }
        Some(permuted)
    }

    /// The bytes of two vectors, by their numbers.
    pub fn bytes_of(&mut self, a: Value, b: Value, bytes: Vec<u8>) -> Value {
        let order = self.b.func.dfg.immediates.push(bytes.into());
        let a = self.b.ins().bitcast(types::I8X16, LITTLE_ENDIAN, a);
        let b = self.b.ins().bitcast(types::I8X16, LITTLE_ENDIAN, b);
        let result = self.b.ins().shuffle(a, b, order);
        self.b.ins().bitcast(types::I32X4, LITTLE_ENDIAN, result)
    }

    /// `.up` and `.down` by the same number of lanes: the values around a lane in memory.
    fn moved(
        &mut self,
        kind: SyncKind,
        values: &[Value],
        b: Arg,
        c: u32,
    ) -> EmitResult<(Vec<Value>, Vec<Value>)> {
        let start = self.spilled(values);
        self.lane_set = LaneSet::Scalar;
        let b = self.read(b, types::I32)?;
        let b = self.b.ins().band_imm_u(b, 31);
        let distance = self.b.ins().uextend(types::I64, b);
        let shift = self.scalar_int(types::I32, 2);
        let distance = self.b.ins().ishl(distance, shift);
        let up = kind == SyncKind::ShflUp;
        let start = match up {
            true => self.b.ins().isub(start, distance),
            false => self.b.ins().iadd(start, distance),
        };
        let b = self.b.ins().splat(types::I32X4, b);
        let (mut results, mut in_range) = (Vec::new(), Vec::new());
        for (number, &own) in (0..).zip(values) {
            let lanes = self.lanes(number, |lane| lane);
            let bound = self.lanes(number, |lane| {
                let segment = c >> 8 & 31;
                (lane & segment) | (c & 31 & !segment)
            });
            let good = match up {
                true => {
                    let from = self.b.ins().isub(lanes, b);
                    self.icmp(IntCC::SignedGreaterThanOrEqual, from, bound)
                }
                false => {
                    let from = self.b.ins().iadd(lanes, b);
                    self.icmp(IntCC::SignedLessThanOrEqual, from, bound)
                }
            };
            let value = self
                .b
                .ins()
                .load(types::I32X4, FLAGS, start, 16 * number as i32);
            results.push(self.b.ins().bitselect(good, value, own));
            in_range.push(good);
        }
        Ok((results, in_range))
    }

    /// Every lane takes its value from memory.
    fn gathered(
        &mut self,
        kind: SyncKind,
        i: &Instruction,
        values: &[Value],
    ) -> EmitResult<(Vec<Value>, Vec<Value>)> {
        let start = self.spilled(values);
        let (b, c) = (self.words(i, 2)?, self.words(i, 3)?);
        let (mut results, mut in_range) = (Vec::new(), Vec::new());
        let eight = self.scalar_int(types::I32, 8);
        let lane_bits = self.lanes(0, |_| WARP_SIZE - 1);
        for (number, (b, c)) in (0..).zip(b.into_iter().zip(c)) {
            let lanes = self.lanes(number, |lane| lane);
            let b = self.b.ins().band(b, lane_bits);
            let segment = self.b.ins().ushr(c, eight);
            let segment = self.b.ins().band(segment, lane_bits);
            let clamp = self.b.ins().band(c, lane_bits);
            let least = self.b.ins().band(lanes, segment);
            let clamp = self.b.ins().band_not(clamp, segment);
            let most = self.b.ins().bor(least, clamp);
            let from = match kind {
                SyncKind::ShflUp => self.b.ins().isub(lanes, b),
                SyncKind::ShflDown => self.b.ins().iadd(lanes, b),
                SyncKind::ShflBfly => self.b.ins().bxor(lanes, b),
                _ => {
                    let inside = self.b.ins().band_not(b, segment);
                    self.b.ins().bor(least, inside)
                }
            };
            let cc = match kind {
                SyncKind::ShflUp => IntCC::SignedGreaterThanOrEqual,
                _ => IntCC::SignedLessThanOrEqual,
            };
            let good = self.icmp(cc, from, most);
            let from = self.b.ins().bitselect(good, from, lanes);
            let mut result = None;
            for lane in 0..PER_VECTOR as u8 {
                let from = self.b.ins().extractlane(from, lane);
                let value = self.spilled_word(start, from);
                result = Some(match result {
                    None => self.b.ins().splat(types::I32X4, value),
                    Some(result) => self.b.ins().insertlane(result, value, lane),
                });
            }
            results.extend(result);
            in_range.push(good);
        }
        Ok((results, in_range))
    }

    /// The value of one lane, which a scalar names.
    fn broadcast(&mut self, values: &[Value], lane: Arg) -> EmitResult<Value> {
        let start = self.spilled(values);
        self.lane_set = LaneSet::Scalar;
        let lane = self.read(lane, types::I32)?;
        let lane = self.b.ins().band_imm_u(lane, 31);
        Ok(self.spilled_word(start, lane))
    }

    fn extracted(&mut self, values: &[Value], lane: u32) -> Value {
        let vector = values[(lane / PER_VECTOR) as usize];
        self.b.ins().extractlane(vector, (lane % PER_VECTOR) as u8)
    }

    /// Stores the values of all lanes, with room before and after them, and returns their address.
    pub fn spilled(&mut self, values: &[Value]) -> Value {
        let slot = match self.shuffle_slot {
            Some(slot) => slot,
            None => {
                let size = 3 * WARP_BYTES.cast_unsigned();
                let data = StackSlotData::new(StackSlotKind::ExplicitSlot, size, 4);
                *self
                    .shuffle_slot
                    .insert(self.b.create_sized_stack_slot(data))
            }
        };
        let start = self.b.ins().stack_addr(types::I64, slot, WARP_BYTES);
        for (number, &value) in (0..).zip(values) {
            self.b.ins().store(FLAGS, value, start, 16 * number);
        }
        start
    }

    /// A vector of those that [`spilled`](Self::spilled) has stored.
    pub fn unspilled(&mut self, ty: Type, start: Value, number: i32) -> Value {
        self.b.ins().load(ty, FLAGS, start, 16 * number)
    }

    /// One of the values that [`spilled`](Self::spilled) has stored.
    fn spilled_word(&mut self, start: Value, lane: Value) -> Value {
        let at = self.b.ins().uextend(types::I64, lane);
        let shift = self.scalar_int(types::I32, 2);
        let at = self.b.ins().ishl(at, shift);
        let at = self.b.ins().iadd(start, at);
        self.b.ins().load(types::I32, FLAGS, at, 0)
    }

    fn vote(&mut self, kind: SyncKind, i: &Instruction) -> EmitResult<()> {
        let mut masks = Vec::new();
        for vector in vectors(self.width, RegClass::Pred) {
            self.lane_set = vector;
            masks.push(self.predicate(i, 1)?);
        }
        self.lane_set = LaneSet::Scalar;
        let all = |e: &mut Self| {
            let all = e.folded(&masks, |e, a, b| e.b.ins().band(a, b));
            e.b.ins().vall_true(all)
        };
        let any = |e: &mut Self| {
            let any = e.folded(&masks, |e, a, b| e.b.ins().bor(a, b));
            e.b.ins().vany_true(any)
        };
        let result = match kind {
            SyncKind::VoteAll => all(self),
            SyncKind::VoteAny => any(self),
            SyncKind::VoteUni => {
                let (all, any) = (all(self), any(self));
                let none = self.not(any);
                self.b.ins().bor(all, none)
            }
            _ => self.ballot(&masks),
        };
        self.write_shared(i, 0, result)
    }

    /// One bit for each lane, from vectors of masks.
    pub fn ballot(&mut self, masks: &[Value]) -> Value {
        let halves: Vec<Value> = masks
            .chunks(2)
            .map(|pair| self.b.ins().snarrow(pair[0], pair[pair.len() - 1]))
            .collect();
        let mut ballot = None;
        for (number, pair) in (0..).zip(halves.chunks(2)) {
            let bytes = self.b.ins().snarrow(pair[0], pair[pair.len() - 1]);
            let bits = self.b.ins().vhigh_bits(types::I32, bytes);
            ballot = Some(match ballot {
                None => bits,
                Some(below) => {
                    let shift = self.scalar_int(types::I32, 16 * number);
                    let bits = self.b.ins().ishl(bits, shift);
                    self.b.ins().bor(below, bits)
                }
            });
        }
        ballot.unwrap_or_else(|| self.scalar_int(types::I32, 0))
    }

    fn reduced(&mut self, kind: SyncKind, values: &[Value]) -> Value {
        let apply = |e: &mut Self, a: Value, b: Value| {
            let ins = e.b.ins();
            match kind {
                SyncKind::ReduxAdd => ins.iadd(a, b),
                SyncKind::ReduxMinU32 => ins.umin(a, b),
                SyncKind::ReduxMaxU32 => ins.umax(a, b),
                SyncKind::ReduxMinS32 => ins.smin(a, b),
                SyncKind::ReduxMaxS32 => ins.smax(a, b),
                SyncKind::ReduxAnd => ins.band(a, b),
                SyncKind::ReduxOr => ins.bor(a, b),
                _ => ins.bxor(a, b),
            }
        };
        let mut all = self.folded(values, apply);
        for distance in [8, 4] {
            let order = (0..16).map(|byte| byte ^ distance).collect();
            let other = self.bytes_of(all, all, order);
            all = apply(self, all, other);
        }
        self.b.ins().extractlane(all, 0)
    }

    fn folded(
        &mut self,
        values: &[Value],
        combine: impl Fn(&mut Self, Value, Value) -> Value,
    ) -> Value {
        let mut values = values.iter().copied();
        let first = values.next();
        let first = first.unwrap_or_else(|| self.lanes(0, |_| 0));
        values.fold(first, |all, value| combine(self, all, value))
    }

    /// Operand `n` as vectors of 32 bits.
    pub fn words(&mut self, i: &Instruction, n: usize) -> EmitResult<Vec<Value>> {
        let mut words = Vec::new();
        for vector in vectors(self.width, RegClass::I32) {
            self.lane_set = vector;
            words.push(self.operand(i, n, types::I32)?);
        }
        self.lane_set = LaneSet::Scalar;
        Ok(words)
    }

    /// A constant for each lane of a vector.
    fn lanes(&mut self, vector: u32, value: impl Fn(u32) -> u32) -> Value {
        let first = vector * PER_VECTOR;
        let bytes = (first..first + PER_VECTOR).flat_map(|lane| value(lane).to_le_bytes());
        let bytes: Vec<u8> = bytes.collect();
        let constant = self.b.func.dfg.constants.insert(bytes.into());
        self.b.ins().vconst(types::I32X4, constant)
    }

    fn mask_of_lanes(&mut self, is_set: impl Fn(u32) -> bool) -> Vec<Value> {
        (0..self.width / PER_VECTOR)
            .map(|vector| {
                self.lanes(vector, |lane| match is_set(lane) {
                    true => u32::MAX,
                    false => 0,
                })
            })
            .collect()
    }

    /// Result `n`, if it is wanted.
    pub fn destination(&self, i: &Instruction, n: usize) -> Option<Arg> {
        let to = self.arg(i, 0).ok()?;
        let to = match to {
            Arg::List(list) => *self.list(list).get(n)?,
            to if n == 0 => to,
            _ => return None,
        };
        (to != Arg::Sink).then_some(to)
    }

    /// Whether result `n` goes to a register that has one value for the group.
    fn is_shared(&self, i: &Instruction, n: usize) -> bool {
        match self.destination(i, n) {
            Some(Arg::Reg(reg)) => self.locations[reg.index()].uniformity != Uniformity::Divergent,
            _ => false,
        }
    }

    pub fn write_vectors(&mut self, i: &Instruction, n: usize, values: &[Value]) -> EmitResult<()> {
        let Some(to) = self.destination(i, n) else {
            return Ok(());
        };
        for (vector, &value) in vectors(self.width, RegClass::I32).zip(values) {
            self.lane_set = vector;
            self.write(i, to, value)?;
        }
        self.lane_set = LaneSet::Scalar;
        Ok(())
    }

    /// Writes a result that all lanes share.
    fn write_shared(&mut self, i: &Instruction, n: usize, value: Value) -> EmitResult<()> {
        let Some(to) = self.destination(i, n) else {
            return Ok(());
        };
        if self.is_shared(i, n) {
            return self.write(i, to, value);
        }
        for vector in vectors(self.width, RegClass::I32) {
            self.lane_set = vector;
            let value = self.splat(value);
            self.write(i, to, value)?;
        }
        self.lane_set = LaneSet::Scalar;
        Ok(())
    }
}
