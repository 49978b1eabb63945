//! Sync points: barriers, at which lanes are suspended, and operations of the warp, which its lanes
//! execute where they are.

use crate::abi::WARP_SIZE;
use crate::program::{Arg, BlockId, Instruction, Program};
use crate::simd::builder::Variable;
use crate::simd::lower::memory::address::{Space, space_of};
use crate::simd::lower::vector::CURRENT;
use crate::simd::lower::{Lowered, Lowering, Source, Unsupported};
use crate::simd::machine::{Alu, Condition, INT, Op, Value, ZMM};
use crate::simd::opcodes as v;
use ptx::names::{Modifier as M, Opcode as O, Type};
use regalloc2::Operand;

/// An operand of a request.
pub(in crate::simd::lower) enum RequestOperand {
    Number(u64),
    Word(Arg),
    Long(Arg),
    Predicate(Arg),
    /// An address, in its state space.
    Address(Arg, Space),
}

const ALL_LANES: u64 = 0xFFFF_FFFF;

/// The operands that a sync point stores for the scheduler (see [`SyncKind`](crate::abi::SyncKind)).
/// `distance` is the distance of rows of a matrix that the instruction does not state.
pub(in crate::simd::lower) fn operands(
    program: &Program<'_>,
    i: &Instruction,
    distance: u32,
) -> Lowered<Vec<RequestOperand>> {
    use RequestOperand as R;
    let args = program.list(i.args);
    let m = &i.modifiers;
    let arg = |n: usize| {
        args.get(n)
            .copied()
            .ok_or(Unsupported("an operand is missing"))
    };
    let or_all = |n: usize| {
        args.get(n)
            .map_or(R::Number(ALL_LANES), |arg| R::Word(*arg))
    };
    Ok(match i.opcode {
        // All operands are in slots, except the constant selector of a sparse operation.
        O::Mma => Vec::new(),
        O::Ldmatrix | O::Stmatrix | O::Movmatrix | O::Wmma => {
            let all = args.iter().copied().enumerate();
            let mut operands: Vec<R> = all
                .filter(|(n, arg)| !i.is_fragment(*n, *arg))
                .map(|(_, arg)| match arg {
                    Arg::Address(..) | Arg::Symbol(..) => R::Address(arg, space_of(i)),
                    _ => R::Word(arg),
                })
                .collect();
            if operands.len() == 1 {
                operands.push(R::Number(distance.into()));
            }
            operands
        }
        O::Bar if m.has(M::Warp) => vec![R::Word(arg(0)?)],
        O::Barrier if m.has(M::Cluster) => return Err(Unsupported("a barrier of the cluster")),
        O::Bar | O::Barrier if m.has(M::Red) => {
            let last = args.len().saturating_sub(1);
            let threads = match last {
                3 => R::Word(arg(2)?),
                _ => R::Number(0),
            };
            vec![R::Word(arg(1)?), threads, R::Predicate(arg(last)?)]
        }
        O::Bar | O::Barrier => {
            let threads = args.get(1).map_or(R::Number(0), |arg| R::Word(*arg));
            vec![R::Word(arg(0)?), threads]
        }
        O::Shfl => vec![
            R::Word(arg(1)?),
            R::Word(arg(2)?),
            R::Word(arg(3)?),
            or_all(4),
        ],
        O::Vote => vec![R::Predicate(arg(1)?), or_all(2)],
        O::Match => {
            let wide = m.types().next().is_some_and(|ty| ty.bits() == 64);
            let value = if wide {
                R::Long(arg(1)?)
            } else {
                R::Word(arg(1)?)
            };
            vec![value, R::Word(arg(2)?)]
        }
        O::Activemask => Vec::new(),
        O::Elect => vec![R::Word(arg(1)?)],
        O::Nanosleep => vec![args.first().map_or(R::Number(0), |arg| R::Word(*arg))],
        O::Redux => {
            let flags = u64::from(m.has(M::Abs)) | u64::from(m.has(M::NaN)) << 1;
            vec![R::Word(arg(1)?), R::Word(arg(2)?), R::Number(flags)]
        }
        _ => return Err(Unsupported("a sync point")),
    })
}

/// Whether the lanes of a warp can execute a sync point where they are.
pub(in crate::simd::lower) fn is_of_warp(i: &Instruction) -> bool {
    let m = &i.modifiers;
    match i.opcode {
        O::Bar => m.has(M::Warp),
        O::Shfl | O::Vote | O::Activemask => true,
        O::Redux => !m.types().any(|ty| ty == Type::F32),
        O::Match => !m.has(M::All) && m.types().all(|ty| ty.bits() == 32),
        _ => false,
    }
}

impl Lowering<'_, '_> {
    /// Lowers the sync point at the end of a block, and returns what the active lanes do.
    pub(in crate::simd::lower) fn sync(
        &mut self,
        at: BlockId,
        i: &Instruction,
        exited: Option<&[Variable]>,
    ) -> Lowered<Synchronized> {
        self.line = i.line;
        if self.width != WARP_SIZE as usize || !is_of_warp(i) {
            self.suspend(at, i)?;
            return Ok(Synchronized::Suspended);
        }
        // The lanes that are here are the active ones.
        if i.opcode == O::Activemask {
            self.together(i)?;
            return Ok(Synchronized::Together);
        }
        let members = match (i.opcode, self.program.list(i.args)) {
            (O::Bar, args) => args.first().copied(),
            (O::Shfl, args) => args.get(4).copied(),
            (_, args) => args.get(2).copied(),
        };
        let is_all = match members {
            None => true,
            Some(Arg::Int(mask)) => mask as u32 == u32::MAX,
            Some(_) => false,
        };
        if let Some(members) = members
            && !self.is_uniform(members)
        {
            self.suspend(at, i)?;
            return Ok(Synchronized::Suspended);
        }
        if self.active.is_none() && is_all {
            self.together(i)?;
            return Ok(Synchronized::Together);
        }
        // Execute it in place only if the active lanes are exactly the members that have not exited.
        let active = self.active_bits();
        let members = match members {
            _ if is_all => self.b.immediate(ALL_LANES),
            Some(arg) => self.int(arg, false)?,
            None => active,
        };
        let away = self.inverted(active);
        let mut missing = self.alu(Alu::And, false, members, away);
        if let Some(exited) = exited {
            let bits = self.bits_of_masks(exited);
            let here = self.inverted(bits);
            missing = self.alu(Alu::And, false, missing, here);
        }
        let strangers = self.inverted(members);
        let strangers = self.alu(Alu::And, false, strangers, active);
        let problem = self.alu(Alu::Or, false, missing, strangers);
        self.test_int(problem);
        let [good, bad] = [(); 2].map(|()| self.b.block());
        self.b.branch(Condition::Equal, good, bad);
        self.b.enter_sealed(bad);
        self.suspend(at, i)?;
        let after = self.b.block();
        self.b.jump(after);
        self.b.enter_sealed(good);
        self.together(i)?;
        Ok(Synchronized::Either(after))
    }

    fn active_bits(&mut self) -> Value {
        match self.active.clone() {
            Some(active) => self.lane_bits(&active),
            None => self.b.immediate(ALL_LANES),
        }
    }

    fn bits_of_masks(&mut self, masks: &[Variable]) -> Value {
        let masks: Vec<Value> = masks.iter().map(|&mask| self.b.get(mask)).collect();
        self.lane_bits(&masks)
    }

    /// A bit for each of 32 lanes.
    fn lane_bits(&mut self, masks: &[Value]) -> Value {
        let low = self.mask_to_int(masks[0]);
        let Some(&high) = masks.get(1) else {
            return low;
        };
        let high = self.mask_to_int(high);
        let high = self.shift_int(crate::simd::machine::Shift::Left, false, high, 16);
        self.alu(Alu::Or, false, low, high)
    }

    /// Lowers a warp operation of the active lanes.
    fn together(&mut self, i: &Instruction) -> Lowered<()> {
        match i.opcode {
            O::Bar => Ok(()),
            O::Shfl => self.shuffle(i),
            O::Vote => self.vote(i),
            // Lanes only meet.
            O::Activemask if self.program.list(i.args) == [Arg::Sink] => Ok(()),
            O::Activemask => {
                let bits = self.active_bits();
                self.write_shared(i, bits)
            }
            O::Match => self.match_any(i),
            _ => self.reduce(i),
        }
    }

    /// Writes a uniform result.
    fn write_shared(&mut self, i: &Instruction, value: Value) -> Lowered<()> {
        match self.arg(i, 0)? {
            Arg::Reg(reg) => self.write_int(i, reg, value),
            Arg::Sink => Ok(()),
            _ => Err(Unsupported("a kind of result")),
        }
    }

    fn vote(&mut self, i: &Instruction) -> Lowered<()> {
        let predicate = self.arg(i, 1)?;
        let mut masks = Vec::new();
        for piece in 0..2 {
            let mask = self.mask(predicate, piece)?;
            masks.push(match self.active.clone() {
                Some(active) => self.mask_and(mask, active[piece]),
                None => mask,
            });
        }
        let bits = self.lane_bits(&masks);
        let modes = [M::All, M::Any, M::Uni, M::Ballot];
        let mode = i.modifiers.first_of(&modes);
        if mode == Some(M::Ballot) {
            return self.write_shared(i, bits);
        }
        let active = self.active_bits();
        let value = match mode {
            Some(M::Any) => {
                self.test_int(bits);
                self.set_int(Condition::NotEqual)
            }
            Some(M::All) => {
                self.compare_int(false, bits, active);
                self.set_int(Condition::Equal)
            }
            Some(M::Uni) => {
                self.compare_int(false, bits, active);
                let all = self.set_int(Condition::Equal);
                self.test_int(bits);
                let none = self.set_int(Condition::Equal);
                self.alu(Alu::Or, false, all, none)
            }
            _ => return Err(Unsupported("a vote")),
        };
        self.write_shared(i, value)
    }

    fn shuffle(&mut self, i: &Instruction) -> Lowered<()> {
        let (value, by, clamp) = (self.arg(i, 1)?, self.arg(i, 2)?, self.arg(i, 3)?);
        let values = [0, 1].map(|piece| self.vector(value, false, piece));
        let [low, high] = values;
        let (low, high) = (low?, high?);
        let modes = [M::Up, M::Down, M::Bfly, M::Idx];
        let mode = i
            .modifiers
            .first_of(&modes)
            .ok_or(Unsupported("a shuffle"))?;
        let (mut results, mut inside) = (Vec::new(), Vec::new());
        for piece in 0..2 {
            let lane = Source::Vector(self.iota(16 * piece));
            let by = self.five_bits(by, piece)?;
            let clamp = self.source(clamp, false, piece)?;
            // The lanes of a segment share the bits of its mask.
            let segment = match clamp {
                Source::Bits(bits) => Source::Bits(bits >> 8 & 31),
                Source::Vector(value) => {
                    let shifted = self.shift(2, false, value, 8);
                    let bits = Source::Bits(31);
                    Source::Vector(self.binary(v::AND, Source::Vector(shifted), bits))
                }
            };
            let limit = match clamp {
                Source::Bits(bits) => Source::Bits(bits & 31),
                value @ Source::Vector(_) => {
                    Source::Vector(self.binary(v::AND, value, Source::Bits(31)))
                }
            };
            let most = self.with_segment(lane, segment, limit);
            let source = match mode {
                M::Up => self.binary(v::SUB, lane, by),
                M::Down => self.binary(v::ADD, lane, by),
                M::Bfly => self.binary(v::XOR, lane, by),
                _ => self.with_segment(lane, segment, by),
            };
            let predicate = if mode == M::Up { 5 } else { 2 };
            let most = Source::Vector(most);
            let is_inside = self.compared(
                v::COMPARE_S,
                Source::Vector(source),
                most,
                Some(predicate),
                None,
            );
            let index = self.blended(false, is_inside, Source::Vector(source), lane);
            results.push(self.ternary(
                v::PERMUTE_TWO,
                Source::Vector(index),
                Source::Vector(low),
                Source::Vector(high),
                None,
                CURRENT,
            ));
            inside.push(is_inside);
        }
        let (to, predicate) = match self.arg(i, 0)? {
            Arg::List(list) => match *self.program.list(list) {
                [to, predicate] => (to, Some(predicate)),
                _ => return Err(Unsupported("a list of results")),
            },
            single => (single, None),
        };
        self.write(i, to, false, &results, false)?;
        match predicate {
            Some(predicate) => self.write_masks(i, predicate, &inside),
            None => Ok(()),
        }
    }

    /// A lane of the segment of another.
    fn with_segment(&mut self, lane: Source, segment: Source, inside: Source) -> Value {
        if let Source::Bits(0) = segment {
            return self.in_register(inside, false);
        }
        // segment ? lane : inside
        self.ternary(v::TERNARY, segment, lane, inside, Some(0xCA), CURRENT)
    }

    fn five_bits(&mut self, arg: Arg, piece: usize) -> Lowered<Source> {
        Ok(match self.source(arg, false, piece)? {
            Source::Bits(bits) => Source::Bits(bits & 31),
            value @ Source::Vector(_) => {
                Source::Vector(self.binary(v::AND, value, Source::Bits(31)))
            }
        })
    }

    /// `match.any`: takes the first lane without a result, finds the lanes with its value, and gives them
    /// their mask, until all lanes have a result.
    fn match_any(&mut self, i: &Instruction) -> Lowered<()> {
        let value = self.arg(i, 1)?;
        let values = [0, 1].map(|piece| self.vector(value, false, piece));
        let [low, high] = values;
        let values = [low?, high?];
        let left = self.b.variable(INT);
        let results = [(); 2].map(|()| self.b.variable(ZMM));
        let active = self.active_bits();
        self.b.set(left, active);
        for result in results {
            let zero = self.in_register(Source::Bits(0), false);
            self.b.set(result, zero);
        }
        let [again, done] = [(); 2].map(|()| self.b.block());
        self.b.jump(again);
        self.b.enter(again);
        let bits = self.b.get(left);
        let lane = self.trailing_zeros(bits);
        let lane = self.splat(lane, false);
        let (low, high) = (Source::Vector(values[0]), Source::Vector(values[1]));
        let first = self.ternary(
            v::PERMUTE_TWO,
            Source::Vector(lane),
            low,
            high,
            None,
            CURRENT,
        );
        let mut masks = Vec::new();
        for (piece, &value) in values.iter().enumerate() {
            let only = self.active.as_ref().map(|active| active[piece]);
            let (a, b) = (Source::Vector(value), Source::Vector(first));
            masks.push(self.compared(v::COMPARE_U, a, b, Some(0), only));
        }
        let same = self.lane_bits(&masks);
        let all = self.splat(same, false);
        for (result, &mask) in results.iter().zip(&masks) {
            let old = self.b.get(*result);
            let (new, old) = (Source::Vector(all), Source::Vector(old));
            let merged = self.blended(false, mask, new, old);
            self.b.set(*result, merged);
        }
        let others = self.inverted(same);
        let rest = self.alu(Alu::And, false, bits, others);
        self.b.set(left, rest);
        self.test_int(rest);
        self.b.branch(Condition::NotEqual, again, done);
        self.b.seal(again);
        self.b.enter_sealed(done);
        let results = results.map(|result| self.b.get(result));
        let to = self.arg(i, 0)?;
        self.write(i, to, false, &results, false)
    }

    /// The number of the lowest bit that is set.
    fn trailing_zeros(&mut self, bits: Value) -> Value {
        let value = self.b.value(INT);
        let operands = [Operand::reg_def(value), Operand::reg_use(bits)];
        self.b.emit(Op::TrailingZeros, operands);
        value
    }

    /// `redux` of integers.
    fn reduce(&mut self, i: &Instruction) -> Lowered<()> {
        let value = self.arg(i, 1)?;
        let signed = crate::simd::lower::arithmetic::integer::is_signed(self.ty(i, 0)?);
        let operations = [M::Add, M::Min, M::Max, M::And, M::Or, M::Xor];
        let operation = i
            .modifiers
            .first_of(&operations)
            .ok_or(Unsupported("a reduction"))?;
        let (code, neutral) = match (operation, signed) {
            (M::Add, _) => (v::ADD, 0),
            (M::Or, _) => (v::OR, 0),
            (M::Xor, _) => (v::XOR, 0),
            (M::And, _) => (v::AND, 0xFFFF_FFFF),
            (M::Min, true) => (v::MIN_S, 0x7FFF_FFFF),
            (M::Min, false) => (v::MIN_U, 0xFFFF_FFFF),
            (_, true) => (v::MAX_S, 0x8000_0000),
            (_, false) => (v::MAX_U, 0),
        };
        let mut parts = Vec::new();
        for piece in 0..2 {
            let value = self.vector(value, false, piece)?;
            parts.push(match self.active.clone() {
                None => value,
                Some(active) => {
                    let neutral = Source::Vector(self.in_register(Source::Bits(neutral), false));
                    self.blended(false, active[piece], Source::Vector(value), neutral)
                }
            });
        }
        let mut all = self.binary(code, Source::Vector(parts[0]), Source::Vector(parts[1]));
        for distance in [8, 4, 2, 1] {
            let mut table = [0; 64];
            for (lane, place) in (0_u32..).zip(table.chunks_exact_mut(4)) {
                place.copy_from_slice(&(lane ^ distance).to_le_bytes());
            }
            let table = self.vector_constant(table);
            let other = self.binary(v::PERMUTE, Source::Vector(table), Source::Vector(all));
            all = self.binary(code, Source::Vector(all), Source::Vector(other));
        }
        let value = self.first_lane(all, false);
        self.write_shared(i, value)
    }
}

/// What lanes do at a sync point.
pub(in crate::simd::lower) enum Synchronized {
    /// They are suspended.
    Suspended,
    /// They go on.
    Together,
    /// They go on, or else control is at the label, where they are suspended.
    Either(crate::simd::machine::Label),
}
