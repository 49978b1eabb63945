//! Values whose lanes have a stride: sums and multiples of the index of a thread. The first lane's value
//! is in a general-purpose register, and so is the address of an access to consecutive places.

use super::memory::address::Space;
use super::operands::{LONG, WORD};
use super::{Lowered, Lowering, Place, Source, Sum, Unsupported};
use crate::abi::offset;
use crate::optimization::Optimization;
use crate::program::{Arg, Instruction, Reg};
use crate::simd::machine::{Alu, Condition, Label, Memory, Shift, Value};
use crate::simd::opcodes as v;
use ptx::names::Opcode as O;

impl Lowering<'_, '_> {
    /// Lowers an instruction whose result has a stride. Returns whether it does.
    pub(super) fn linear(&mut self, i: &Instruction) -> Lowered<bool> {
        let Some(&Arg::Reg(to)) = self.program.list(i.args).first() else {
            return Ok(false);
        };
        match self.places[to.index()].clone() {
            Place::Uniform(_) if self.divergence.is_of_group(self.program, i) => {
                Optimization::OfGroup.count();
                self.takes_first = true;
                let lowered = match i.opcode {
                    O::Setp => self.setp(i).map(|()| true),
                    _ => self.scalar(i),
                };
                self.takes_first = false;
                lowered
            }
            Place::Affine(..) if i.opcode != O::St => {
                self.takes_first = true;
                let lowered = self.first_of(i, to);
                self.takes_first = false;
                lowered
            }
            Place::Extended(_) if i.opcode != O::St => {
                self.extended_result(i, to)?;
                Ok(true)
            }
            Place::Indexed(sum) if i.opcode != O::St => self.indexed_result(i, &sum),
            _ => Ok(false),
        }
    }

    /// The first lane's result.
    fn first_of(&mut self, i: &Instruction, to: Reg) -> Lowered<bool> {
        match i.opcode {
            O::Mov | O::Cvt => {
                let from = self.arg(i, 1)?;
                let value = self.int(from, false)?;
                self.write_int(i, to, value)?;
                Ok(true)
            }
            _ => self.scalar(i),
        }
    }

    /// The parts of a 64-bit operand: the uniform part, and the first lane's index if it has one.
    fn parts_of_sum(&mut self, arg: Arg) -> Lowered<(Value, Option<Value>)> {
        if let Arg::Reg(reg) = arg
            && let Place::Extended(Sum { base, index, .. }) = self.places[reg.index()]
        {
            let index = self.b.get(index);
            return Ok((self.b.get(base), Some(index)));
        }
        Ok((self.int(arg, true)?, None))
    }

    /// The product of 64 bits of two operands that all lanes share.
    pub(super) fn wide_product(&mut self, i: &Instruction, a: Arg, b: Arg) -> Lowered<Value> {
        let memory = Memory {
            signed: super::arithmetic::integer::is_signed(self.ty(i, 0)?),
            ..WORD
        };
        let [a, b] = [self.int(a, false)?, self.int(b, false)?];
        let [a, b] = [a, b].map(|value| self.extended(value, memory));
        Ok(self.multiply_int(true, a, b))
    }

    fn extended_result(&mut self, i: &Instruction, to: Reg) -> Lowered<()> {
        let args = self.program.list(i.args);
        let first = |e: &mut Self, arg: Arg| {
            e.takes_first = true;
            let value = e.int(arg, false);
            e.takes_first = false;
            value
        };
        let (value, number) = match (i.opcode, args) {
            (O::Mov | O::Cvta, &[_, from]) => self.parts_of_sum(from)?,
            (O::Cvt, &[_, from]) => (self.b.immediate(0), Some(first(self, from)?)),
            (O::Mul, &[_, from, _]) => (self.b.immediate(0), Some(first(self, from)?)),
            (O::Mad, &[_, a, b, c]) => {
                if !self.is_uniform(a) {
                    (self.int(c, true)?, Some(first(self, a)?))
                } else {
                    let product = self.wide_product(i, a, b)?;
                    let (base, index) = self.parts_of_sum(c)?;
                    (self.alu(Alu::Add, true, base, product), index)
                }
            }
            (O::Add | O::Sub, &[_, a, b]) => {
                let (a, first) = self.parts_of_sum(a)?;
                let (b, second) = self.parts_of_sum(b)?;
                let op = if i.opcode == O::Sub {
                    Alu::Sub
                } else {
                    Alu::Add
                };
                (self.alu(op, true, a, b), first.or(second))
            }
            (O::Shl, &[_, a, Arg::Int(by)]) => {
                let (a, index) = self.parts_of_sum(a)?;
                (self.shift_int(Shift::Left, true, a, by as u8), index)
            }
            _ => return Err(Unsupported("a sum of this kind")),
        };
        let (Place::Extended(Sum { base, index, .. }), Some(number)) =
            (self.places[to.index()].clone(), number)
        else {
            return Err(Unsupported("a sum of this kind"));
        };
        self.b.set(base, value);
        self.b.set(index, number);
        Ok(())
    }

    /// 16 lanes with a stride.
    pub(super) fn series(&mut self, first: Value, stride: i32, piece: usize) -> Value {
        let all = self.splat(first, false);
        let mut table = [0; 64];
        for (lane, place) in (0_i32..).zip(table.chunks_exact_mut(4)) {
            let distance = (16 * piece as i32 + lane).wrapping_mul(stride);
            place.copy_from_slice(&distance.to_le_bytes());
        }
        let distances = self.vector_constant(table);
        self.binary(v::ADD, Source::Vector(all), Source::Vector(distances))
    }

    /// Eight lanes of a register of 64 bits that is a sum.
    pub(super) fn sum_lanes(&mut self, sum: Sum, piece: usize) -> Value {
        let index = self.b.get(sum.index);
        let lanes = self.series(index, sum.stride, piece / 2);
        let lanes = self.widened(lanes, piece % 2, sum.signed);
        let lanes = match sum.scale {
            1 => lanes,
            scale if scale > 0 && (scale as u32).is_power_of_two() => {
                self.shift(6, true, lanes, scale.trailing_zeros() as u8)
            }
            scale => self.binary(
                v::MUL64,
                Source::Vector(lanes),
                Source::Bits(i64::from(scale).cast_unsigned()),
            ),
        };
        let base = self.b.get(sum.base);
        let base = self.splat(base, true);
        self.binary(v::ADD64, Source::Vector(lanes), Source::Vector(base))
    }

    /// The first lane's value of an extended sum. Jumps to `wraps` if the index of a lane has wrapped
    /// around.
    fn first_of_sum(&mut self, sum: Sum, wraps: Label) -> Value {
        let index = self.b.get(sum.index);
        let memory = Memory {
            signed: sum.signed,
            ..WORD
        };
        let first = self.extended(index, memory);
        let last = self.add_offset(first, i64::from(sum.stride) * (self.width as i64 - 1));
        let exact = self.extended(last, memory);
        self.compare_int(true, last, exact);
        self.branch_unless(Condition::Equal, wraps);
        let scaled = match sum.scale {
            1 => first,
            scale if scale > 0 && (scale as u32).is_power_of_two() => {
                self.shift_int(Shift::Left, true, first, scale.trailing_zeros() as u8)
            }
            scale => self.multiply_by(true, first, scale),
        };
        let base = self.b.get(sum.base);
        self.alu(Alu::Add, true, base, scaled)
    }

    /// Goes on where a condition holds, and elsewhere to another block.
    pub(super) fn branch_unless(&mut self, condition: Condition, otherwise: Label) {
        let then = self.b.block();
        self.b.branch(condition, then, otherwise);
        self.b.enter_sealed(then);
    }

    /// The host address of the first lane of an access to consecutive places, which is checked for
    /// whole groups, and the block where another way has to be found; `None` if an address is not known
    /// to be so.
    pub(super) fn consecutive(
        &mut self,
        i: &Instruction,
        n: usize,
        (space, bytes): (Space, u32),
    ) -> Lowered<Option<(Value, Label)>> {
        let Arg::Address(crate::program::Base::Reg(reg), at) = self.arg(i, n)? else {
            return Ok(None);
        };
        let shift = bytes.trailing_zeros();
        match (self.places[reg.index()].clone(), space) {
            (Place::Extended(sum), Space::Generic)
                if i64::from(sum.stride) * i64::from(sum.scale) == i64::from(bytes) =>
            {
                let other = self.b.block();
                let first = self.first_of_sum(sum, other);
                let address = self.add_offset(first, at.bytes());
                self.check_group(address, Some(reg), shift, other);
                Ok(Some((address, other)))
            }
            _ => Ok(None),
        }
    }

    /// Goes to another block unless all lanes of a group may access consecutive places from an address
    /// on.
    fn check_group(&mut self, address: Value, pointer: Option<Reg>, shift: u32, other: Label) {
        if let Some(extent) = self.extent(pointer) {
            let start = self.field(LONG, extent + offset::EXTENT_START);
            let inside = self.alu(Alu::Sub, true, address, start);
            let unit = self.shift_int(Shift::Rotate, true, inside, shift as u8);
            let places = self.field(LONG, extent + offset::EXTENT_PLACES + 8 * shift as i32);
            self.compare_int(true, unit, places);
            let [elsewhere, good] = [(); 2].map(|()| self.b.block());
            self.b.branch(Condition::Below, good, elsewhere);
            self.b.enter_cold(elsewhere);
            let (place, valid) = self.place_in_granule(address, shift);
            let end = self.add_offset(place, self.width as i64);
            self.compare_int(true, end, valid);
            self.b.branch(Condition::BelowOrEqual, good, other);
            return self.b.enter_sealed(good);
        }
        let (place, valid) = self.place_in_granule(address, shift);
        let end = self.add_offset(place, self.width as i64);
        self.compare_int(true, end, valid);
        self.branch_unless(Condition::BelowOrEqual, other);
    }

    /// Restores a sum of 64 bits from the lanes in its slot, which are a stride apart unless they have
    /// wrapped around.
    pub(super) fn reload_sum(&mut self, sum: Sum, first: Value, last: Value, wraps: Label) {
        let stride = i64::from(sum.stride) * i64::from(sum.scale);
        let expected = self.add_offset(first, stride * (self.width as i64 - 1));
        self.compare_int(true, expected, last);
        self.branch_unless(Condition::Equal, wraps);
        self.b.set(sum.base, first);
        let zero = self.b.immediate(0);
        self.b.set(sum.index, zero);
    }
}
