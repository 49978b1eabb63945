//! Indexed addresses: a uniform base plus a multiple of an index of 32 bits, such as `array[index]`. Bounds
//! checks and gathers use the index.

use super::address::{Address, NOT_BELOW, Space, space_of};
use crate::abi::offset;
use crate::optimization::Optimization;
use crate::program::{Arg, Base, Instruction};
use crate::simd::lower::operands::{LONG, WORD};
use crate::simd::lower::vector::CURRENT;
use crate::simd::lower::{Addend, IndexedSum, Lowered, Lowering, Place, Source, Unsupported};
use crate::simd::machine::{Alu, Condition, Label, Shift, Value};
use crate::simd::opcodes as v;
use ptx::names::Opcode as O;

/// An access that is checked by its index.
pub(in crate::simd::lower) struct IndexedAccess {
    /// 16 lanes of 32 bits in each vector. Plus the uniform part, they are the distances from the first
    /// valid index.
    lanes: Vec<Value>,
    uniform: Value,
    /// The uniform part of the index itself, for unsigned indices.
    index: Option<Value>,
    range: IndexRange,
    /// The powers of two of the access and of the scale.
    access: u32,
    scale: u32,
    /// It has less than 4 bytes for each lane.
    is_narrow: bool,
}

/// The indices whose access is in an allocation.
struct IndexRange {
    /// The first, and their number, in units of the access where that is larger than the scale.
    first: Value,
    count: Value,
    /// The host address of the first, or for a narrow access the start of the allocation, and the
    /// distance between these.
    start: Value,
    ahead: Option<Value>,
}

/// The largest distance of an index from the first one, as a power of two.
const REACH: u32 = 30;

/// The largest constant offset of an access, in units of the scale.
const MAX_OFFSET: i64 = 1 << 24;

/// The largest scale of a gather, as a power of two.
const MAX_SCALE: u32 = 3;

/// The maximum number of uniform terms that are split off an index.
const MAX_TERMS: usize = 4;

/// The table of `vpternlog` for the first operand, or the second and the third.
const OR_AND: u8 = 0xF8;

impl IndexedSum {
    /// The scale as a power of two.
    fn shift(&self) -> u32 {
        self.scale.trailing_zeros()
    }
}

impl Lowering<'_, '_> {
    /// Lowers an instruction whose result is a sum with an index. Returns whether it does.
    pub(in crate::simd::lower) fn indexed_result(
        &mut self,
        i: &Instruction,
        to: &IndexedSum,
    ) -> Lowered<bool> {
        use crate::simd::shape::Shape;
        match self.divergence.result_shape(self.program, i) {
            Some(Shape::Indexed { .. } | Shape::Extended { .. }) => {}
            _ => return Ok(false),
        }
        let (base, index) = match (i.opcode, self.program.list(i.args)) {
            (O::Mov | O::Cvta, &[_, from]) => self.parts_of_indexed(from)?,
            (O::Cvt, &[_, from]) | (O::Mul, &[_, from, _]) => {
                (self.b.immediate(0), Some(self.indices(from)?))
            }
            (O::Mad, &[_, a, b, c]) if self.is_uniform(a) => {
                let product = self.wide_product(i, a, b)?;
                let (base, index) = self.parts_of_indexed(c)?;
                (self.alu(Alu::Add, true, base, product), index)
            }
            (O::Mad, &[_, a, _, c]) => (self.int(c, true)?, Some(self.indices(a)?)),
            (O::Add | O::Sub, &[_, a, b]) => {
                let (a, first) = self.parts_of_indexed(a)?;
                let (b, second) = self.parts_of_indexed(b)?;
                let op = match i.opcode {
                    O::Sub => Alu::Sub,
                    _ => Alu::Add,
                };
                (self.alu(op, true, a, b), first.or(second))
            }
            (O::Shl, &[_, a, Arg::Int(by)]) => {
                let (a, index) = self.parts_of_indexed(a)?;
                (self.shift_int(Shift::Left, true, a, by as u8), index)
            }
            _ => return Err(Unsupported("a sum of this kind")),
        };
        self.set_indexed(to, base, index);
        Ok(true)
    }

    /// The vectors of an operand of 32 bits.
    fn indices(&mut self, arg: Arg) -> Lowered<Vec<Value>> {
        Ok(self.vectors(arg, false)?.to_vec())
    }

    /// The parts of a 64-bit operand: the uniform base, and the indices of the lanes if it has them.
    fn parts_of_indexed(&mut self, arg: Arg) -> Lowered<(Value, Option<Vec<Value>>)> {
        if let Arg::Reg(reg) = arg {
            match self.places[reg.index()].clone() {
                Place::Indexed(sum) => {
                    let index = sum.index.iter().map(|&lanes| self.b.get(lanes)).collect();
                    return Ok((self.b.get(sum.base), Some(index)));
                }
                Place::Extended(sum) => {
                    let first = self.b.get(sum.index);
                    let pieces = 0..self.pieces(false);
                    let index = pieces
                        .map(|piece| self.series(first, sum.stride, piece))
                        .collect();
                    return Ok((self.b.get(sum.base), Some(index)));
                }
                _ => {}
            }
        }
        Ok((self.int(arg, true)?, None))
    }

    /// Assigns a sum, or a uniform value if there are no indices.
    pub(in crate::simd::lower) fn set_indexed(
        &mut self,
        to: &IndexedSum,
        base: Value,
        index: Option<Vec<Value>>,
    ) {
        self.b.set(to.base, base);
        for (piece, &variable) in to.index.iter().enumerate() {
            let lanes = match &index {
                Some(index) => index[piece],
                None => self.in_register(Source::Bits(0), false),
            };
            self.b.set(variable, lanes);
        }
    }

    /// Eight lanes of a register of 64 bits that is a sum with an index.
    pub(in crate::simd::lower) fn indexed_lanes(
        &mut self,
        sum: &IndexedSum,
        piece: usize,
    ) -> Value {
        let index = self.b.get(sum.index[piece / 2]);
        let lanes = self.widened(index, piece % 2, sum.signed);
        let lanes = match sum.shift() {
            0 => lanes,
            by => self.shift(6, true, lanes, by as u8),
        };
        let base = self.b.get(sum.base);
        let base = self.splat(base, true);
        self.binary(v::ADD64, Source::Vector(lanes), Source::Vector(base))
    }

    /// Restores a sum from its lanes; goes to `wraps` if their distances from the first lane have more
    /// than 32 bits.
    pub(in crate::simd::lower) fn reload_indexed(
        &mut self,
        sum: &IndexedSum,
        lanes: &[Value],
        wraps: Label,
    ) {
        let base = self.first_lane(lanes[0], true);
        let all = self.splat(base, true);
        let mut differs: Option<Value> = None;
        for (pair, &variable) in lanes.chunks(2).zip(&sum.index) {
            let halves = [pair[0], pair[1]].map(|half| {
                let distance = self.binary(v::SUB64, Source::Vector(half), Source::Vector(all));
                match sum.shift() {
                    0 => distance,
                    by => self.shift(4, true, distance, by as u8),
                }
            });
            let index = self.narrowed(halves[0], halves[1]);
            for (n, half) in halves.into_iter().enumerate() {
                let exact = self.widened(index, n, sum.signed);
                let (exact, half) = (Source::Vector(exact), Source::Vector(half));
                let other = self.compared(v::COMPARE_U64, exact, half, Some(4), None);
                differs = Some(match differs {
                    None => other,
                    Some(known) => self.mask_or(known, other),
                });
            }
            self.b.set(variable, index);
        }
        self.b.set(sum.base, base);
        self.test_masks(differs.as_slice());
        self.branch_unless(Condition::Equal, wraps);
    }

    /// The indices of an access that are in the allocation to which the address probably points.
    fn index_range(
        &mut self,
        base: Value,
        extent: i32,
        (access, scale, is_narrow): (u32, u32, bool),
    ) -> IndexRange {
        let zero = self.b.immediate(0);
        let start = self.field(LONG, extent + offset::EXTENT_START);
        let units_at = extent + offset::EXTENT_UNITS + 8 * access as i32;
        let units = self.field(LONG, units_at);
        // How far the allocation starts behind the address of index 0.
        let behind = self.alu(Alu::Sub, true, start, base);
        let unit = if is_narrow { 0 } else { MAX_SCALE };
        let most = REACH - access.saturating_sub(scale) - scale.saturating_sub(unit);
        let most = self.b.immediate(1 << most);
        let (first, count, ahead, misplaced) = if scale <= access {
            let first = self.shift_int(Shift::Arithmetic, true, behind, scale as u8);
            (first, units, None, (behind, scale))
        } else {
            let up = self.add_offset(behind, (1 << scale) - 1);
            let first = self.shift_int(Shift::Arithmetic, true, up, scale as u8);
            let at = self.shift_int(Shift::Left, true, first, scale as u8);
            let ahead = self.alu(Alu::Sub, true, at, behind);
            let bytes = self.shift_int(Shift::Left, true, units, access as u8);
            let bytes = self.add_offset(bytes, (1 << scale) - (1 << access));
            let rest = self.alu(Alu::Sub, true, bytes, ahead);
            let count = self.shift_int(Shift::Arithmetic, true, rest, scale as u8);
            self.compare_with(true, count, 0);
            let count = self.select_int(Condition::Less, true, count, zero);
            (first, count, Some(ahead), (ahead, access))
        };
        self.compare_int(true, count, most);
        let mut count = self.select_int(Condition::Above, true, count, most);
        let (distance, bits) = misplaced;
        if bits > 0 {
            let rest = self.alu_immediate(Alu::And, true, distance, (1 << bits) - 1);
            self.compare_with(true, rest, 0);
            count = self.select_int(Condition::NotEqual, true, count, zero);
        }
        // Indices in the range do not wrap around, and neither do their sums with offsets.
        let limit = (2 << REACH) - 2 * MAX_OFFSET.cast_unsigned();
        let limit = self.b.immediate(limit);
        let shifted = self.add_offset(first, 1 << REACH);
        self.compare_int(true, shifted, limit);
        let count = self.select_int(Condition::AboveOrEqual, true, count, zero);
        let start = match ahead {
            Some(ahead) if !is_narrow => self.alu(Alu::Add, true, start, ahead),
            _ => start,
        };
        IndexRange {
            first,
            count,
            start,
            ahead,
        }
    }

    /// Splits sums of the same uniform terms into the rest and the sum of the terms.
    fn split_uniform(&mut self, vectors: Vec<Value>) -> (Vec<Value>, Option<Value>) {
        let (mut vectors, mut uniform) = (vectors, None);
        for _ in 0..MAX_TERMS {
            let Some(&(_, addend)) = self.sums.get(&vectors[0]) else {
                break;
            };
            let parts = vectors.iter().map(|vector| self.sums.get(vector));
            let rests: Option<Vec<Value>> = parts
                .map(|parts| {
                    parts
                        .filter(|(_, other)| *other == addend)
                        .map(|(rest, _)| *rest)
                })
                .collect();
            let Some(rests) = rests else {
                break;
            };
            vectors = rests;
            uniform = Some(match (uniform, addend) {
                (None, Addend::Value(value)) => value,
                (None, Addend::Constant(bits)) => self.b.immediate(bits.into()),
                (Some(sum), Addend::Value(value)) => self.alu(Alu::Add, false, sum, value),
                (Some(sum), Addend::Constant(bits)) => {
                    self.alu_immediate(Alu::Add, false, sum, bits.cast_signed())
                }
            });
        }
        (vectors, uniform)
    }

    /// An access of `bytes` bytes for each lane, in elements of `element`, by its index; `None` if the
    /// address is no such sum.
    pub(in crate::simd::lower) fn indexed_access(
        &mut self,
        i: &Instruction,
        n: usize,
        (bytes, element): (u32, u32),
    ) -> Lowered<Option<IndexedAccess>> {
        let Arg::Address(Base::Reg(reg), at) = self.arg(i, n)? else {
            return Ok(None);
        };
        let Place::Indexed(sum) = self.places[reg.index()].clone() else {
            return Ok(None);
        };
        let extent = self.extent(Some(reg));
        let Some(extent) = extent.filter(|_| space_of(i) == Space::Generic) else {
            return Ok(None);
        };
        let (scale, at) = (sum.shift(), at.bytes());
        let base = self.b.get(sum.base);
        let is_whole = at % i64::from(sum.scale) == 0;
        let (base, offset) = match at >> scale {
            offset if is_whole && offset.abs() <= MAX_OFFSET => (base, offset),
            _ => (self.add_offset(base, at), 0),
        };
        let (access, is_narrow) = (bytes.trailing_zeros(), element < 4);
        let range = self.index_range(base, extent, (access, scale, is_narrow));
        let indices = sum.index.iter().map(|&lanes| self.b.get(lanes)).collect();
        let (lanes, index) = self.split_uniform(indices);
        let zero = self.b.immediate(0);
        let index = index.unwrap_or(zero);
        let ahead = self.add_offset(index, offset);
        let uniform = self.alu(Alu::Sub, false, ahead, range.first);
        Ok(Some(IndexedAccess {
            lanes,
            uniform,
            index: (!sum.signed).then_some(index),
            range,
            access,
            scale,
            is_narrow,
        }))
    }

    /// The host address of an access to consecutive places; goes to another block where the indices are
    /// not consecutive and in the range. `None` if the access is never so.
    pub(in crate::simd::lower) fn consecutive_index(
        &mut self,
        access: &IndexedAccess,
        otherwise: Label,
    ) -> Option<Value> {
        let fits = access.access == access.scale;
        Optimization::Consecutive.at(fits.then_some(()))?;
        let differs = self.not_consecutive(&access.lanes, false, 1);
        self.test_masks(&[differs]);
        self.branch_unless(Condition::Equal, otherwise);
        let first = self.first_lane(access.lanes[0], false);
        if let Some(index) = access.index {
            // An unsigned index from 2^31 on is outside.
            let index = self.alu(Alu::Add, false, first, index);
            self.compare_with(false, index, 0);
            self.branch_unless(Condition::GreaterOrEqual, otherwise);
        }
        let first = self.alu(Alu::Add, false, first, access.uniform);
        // A negative one is far behind the range.
        let first = self.extended(first, WORD);
        let last = self.add_offset(first, self.width as i64 - 1);
        self.compare_int(true, last, access.range.count);
        self.branch_unless(Condition::Below, otherwise);
        let at = self.shift_int(Shift::Left, true, first, access.scale as u8);
        Some(self.alu(Alu::Add, true, access.range.start, at))
    }

    /// The host addresses of the lanes of an access; goes to another block if one is outside the range.
    pub(in crate::simd::lower) fn addresses_by_index(
        &mut self,
        access: &IndexedAccess,
        otherwise: Label,
    ) -> Address {
        let uniform = self.splat(access.uniform, false);
        let count = self.splat(access.range.count, false);
        let mut lanes = Vec::new();
        let mut outside = Vec::new();
        for (piece, &index) in access.lanes.iter().enumerate() {
            let number = self.binary(v::ADD, Source::Vector(index), Source::Vector(uniform));
            let unit = match access.index {
                None => number,
                // An unsigned index from 2^31 on is outside.
                Some(also) => {
                    let also = self.splat(also, false);
                    let index = self.binary(v::ADD, Source::Vector(index), Source::Vector(also));
                    let (number, index) = (Source::Vector(number), Source::Vector(index));
                    let sign = Source::Bits(1 << 31);
                    self.ternary(v::TERNARY, number, index, sign, Some(OR_AND), CURRENT)
                }
            };
            let unit = match access.access.saturating_sub(access.scale) {
                0 => unit,
                by => self.shift(0, false, unit, by as u8),
            };
            let only = self.active.as_ref().map(|active| active[piece]);
            let (unit, count) = (Source::Vector(unit), Source::Vector(count));
            outside.push(self.compared(v::COMPARE_U, unit, count, Some(NOT_BELOW), only));
            lanes.push(number);
        }
        self.test_masks(&outside);
        self.branch_unless(Condition::Equal, otherwise);
        let unit = if access.is_narrow {
            0
        } else {
            access.scale.min(MAX_SCALE)
        };
        let ahead = access.range.ahead.filter(|_| access.is_narrow);
        let ahead = ahead.map(|ahead| self.splat(ahead, false));
        for lanes in &mut lanes {
            if access.scale > unit {
                *lanes = self.shift(6, false, *lanes, (access.scale - unit) as u8);
            }
            if let Some(ahead) = ahead {
                *lanes = self.binary(v::ADD, Source::Vector(*lanes), Source::Vector(ahead));
            }
        }
        Address::Offsets(access.range.start, lanes, unit as u8)
    }
}
