//! Windows: what each lane of a group loads from at one distance from the lane before, such as four
//! neighbouring halves. Vectors that span the windows of several lanes are loaded and taken apart.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    Block, BlockArg, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Type, Value, types,
};

use super::emitter::{Emitter, LITTLE_ENDIAN};
use super::lane_set::LaneSet;
use super::memory::{Space, space_of};
use super::strided_load::is_plain;
use crate::memory::GRANULE;
use crate::program::{Arg, Base, Instruction, Reg, RegClass, Uniformity};
use ptx::names::Type as P;

/// What each lane loads from.
#[derive(Clone, Copy)]
pub(super) struct Window {
    /// The register with the addresses.
    pub base: Reg,
    /// From lane to lane.
    stride: u32,
    /// From the address.
    pub start: i64,
    end: i64,
    /// The size of each value.
    bytes: u32,
}

impl Window {
    /// The window of a load, and the register that it writes.
    pub fn of(e: &Emitter<'_, '_>, i: &Instruction) -> Option<(Window, Reg)> {
        let &[to, Arg::Address(Base::Reg(base), start)] = e.program.list(i.args) else {
            return None;
        };
        let to = match to {
            Arg::Reg(to) => to,
            Arg::List(list) => match *e.program.list(list) {
                [Arg::Reg(to)] => to,
                _ => return None,
            },
            _ => return None,
        };
        let ty = i.modifiers.types().next()?;
        let has_its_width = match e.program.registers[to.index()] {
            // Its lanes have zeros above.
            RegClass::I16 => matches!(ty, P::U16 | P::B16 | P::S16),
            RegClass::I32 => matches!(ty, P::U32 | P::B32 | P::S32),
            RegClass::F32 => matches!(ty, P::F32 | P::B32),
            _ => false,
        };
        let Uniformity::Affine(stride) = e.locations[base.index()].uniformity else {
            return None;
        };
        let stride = u32::try_from(stride).ok()?;
        let bytes = ty.bytes() as u32;
        let is_global =
            space_of(i) == Space::Generic && e.program.registers[base.index()] == RegClass::I64;
        let is_known = is_global
            && has_its_width
            && is_plain(e, i)
            && !e.is_in_bounds(i)
            && matches!(stride, 2 | 4 | 8)
            && bytes <= stride
            && start.bytes() % i64::from(bytes) == 0;
        let window = Window {
            base,
            stride,
            start: start.bytes(),
            end: start.bytes() + i64::from(bytes),
            bytes,
        };
        is_known.then_some((window, to))
    }

    /// The window of both, from which lanes load values of one size.
    pub fn with(&self, other: &Window) -> Option<Window> {
        let both = Window {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
            ..*self
        };
        let alike = (self.base, self.stride, self.bytes) == (other.base, other.stride, other.bytes);
        let length = both.end.checked_sub(both.start).filter(|_| alike)?;
        (length <= self.stride.into()).then_some(both)
    }

    /// Its address for the first lane, and how much lies from there on in memory that may be
    /// accessed, in units of a value: up to the end of the next granule.
    fn place(&self, e: &mut Emitter<'_, '_>) -> (Value, Value) {
        e.lane_set = LaneSet::Scalar;
        e.set_guard(None);
        let base = e.register(self.base);
        let address = e.add_offset(base, self.start);
        let shift = self.bytes.trailing_zeros();
        let granule = e.granule(address, shift);
        // From a granule that is valid as a whole into the next one.
        let whole = (GRANULE >> shift).cast_signed();
        let is_whole = e.icmp_imm(IntCC::Equal, granule.valid, whole);
        let none = e.scalar_int(types::I64, 0);
        let two = e.scalar_int(types::I64, 2);
        let next = e.b.ins().select(is_whole, two, none);
        let next = e.b.ins().iadd(granule.shadow, next);
        let next = e.valid_in(next, 0, shift);
        let next = e.b.ins().select(is_whole, next, none);
        let valid = e.b.ins().iadd(granule.valid, next);
        (address, e.b.ins().isub(valid, granule.place))
    }

    /// Whether so many units are those of all lanes.
    fn has_all(&self, e: &mut Emitter<'_, '_>, units: Value) -> Value {
        let others = i64::from(self.stride) * i64::from(e.width - 1);
        let length = others + (self.end - self.start);
        let all = length >> self.bytes.trailing_zeros();
        e.icmp_imm(IntCC::SignedGreaterThanOrEqual, units, all)
    }

    fn unused(&self) -> u32 {
        self.stride - (self.end - self.start) as u32
    }

    /// Whether lanes load all that is from the first value of the first to the last of the last.
    pub fn is_full(&self) -> bool {
        self.unused() == 0
    }

    /// Goes on at `elsewhere`, which is cold, if not all of it may be accessed by all lanes.
    /// `is_unwritten` says that nothing is written as long as what is loaded is used.
    pub fn checked(
        &self,
        e: &mut Emitter<'_, '_>,
        elsewhere: Block,
        is_unwritten: bool,
    ) -> CheckedWindow {
        let (address, units) = self.place(e);
        let good = self.has_all(e, units);
        let ok = e.b.create_block();
        e.b.ins().brif(good, ok, &[], elsewhere, &[]);
        e.enter(ok);
        // Wherever the optimizer loads from it, it is an address of memory.
        let context = e.fixed.context;
        let address = e.b.ins().select(good, address, context);
        CheckedWindow {
            window: *self,
            address,
            is_unwritten,
            vectors: Vec::new(),
        }
    }

    /// The same for the lanes of which a bit is set, where not all lanes have their windows: what
    /// these have is copied to the stack.
    pub fn checked_in_part(
        &self,
        e: &mut Emitter<'_, '_>,
        bits: Value,
        elsewhere: Block,
    ) -> CheckedWindow {
        let [part, copied, all] = [(); 3].map(|()| e.b.create_block());
        for block in [part, copied, all] {
            e.b.set_cold_block(block);
        }
        e.b.append_block_param(all, types::I64);
        let (address, units) = self.place(e);
        let good = self.has_all(e, units);
        let known = BlockArg::Value(address);
        e.b.ins().brif(good, all, &[known], part, &[]);

        e.enter(part);
        // The lanes whose windows end before.
        let shift = self.bytes.trailing_zeros();
        let per_lane = e.scalar_int(types::I32, (self.stride >> shift).trailing_zeros().into());
        let lanes = e.add_offset(units, (self.unused() >> shift).into());
        let lanes = e.b.ins().sshr(lanes, per_lane);
        let none = e.scalar_int(types::I64, 0);
        let lanes = e.b.ins().smax(lanes, none);
        let all_lanes = e.scalar_int(types::I32, u64::from(u32::MAX >> (u32::BITS - e.width)));
        let wanted = e.b.ins().band(bits, all_lanes);
        let wanted = e.b.ins().uextend(types::I64, wanted);
        let behind = e.b.ins().ushr(wanted, lanes);
        e.b.ins().brif(behind, elsewhere, &[], copied, &[]);
        e.enter(copied);
        let slot = e.window_slot();
        // Most of it in vectors.
        let per_vector = e.scalar_int(types::I32, (4 - shift).into());
        let vectors = e.b.ins().sshr(units, per_vector);
        e.copy_units([address, slot], none, vectors, 4);
        let rest = e.b.ins().ishl(vectors, per_vector);
        e.copy_units([address, slot], rest, units, shift);
        let known = BlockArg::Value(slot);
        e.b.ins().jump(all, &[known]);

        e.enter(all);
        CheckedWindow {
            window: *self,
            address: e.b.block_params(all)[0],
            is_unwritten: false,
            vectors: Vec::new(),
        }
    }
}

impl Emitter<'_, '_> {
    /// The address of a stack slot for the windows of all lanes.
    fn window_slot(&mut self) -> Value {
        let slot = match self.window_slot {
            Some(slot) => slot,
            None => {
                let size = 8 * self.width;
                let data = StackSlotData::new(StackSlotKind::ExplicitSlot, size, 4);
                *self
                    .window_slot
                    .insert(self.b.create_sized_stack_slot(data))
            }
        };
        self.b.ins().stack_addr(types::I64, slot, 0)
    }

    /// Copies units of `1 << shift` bytes in a loop: from the one with the number `first` on, to
    /// that before `end`.
    fn copy_units(&mut self, [from, to]: [Value; 2], first: Value, end: Value, shift: u32) {
        let flags = MemFlagsData::trusted();
        let ty = match shift {
            1 => types::I16,
            2 => types::I32,
            _ => types::I8X16,
        };
        let [head, body, done] = [(); 3].map(|()| self.b.create_block());
        for block in [head, body, done] {
            self.b.set_cold_block(block);
        }
        let left = self.b.append_block_param(head, types::I64);
        self.b.ins().jump(head, &[BlockArg::Value(end)]);
        self.b.switch_to_block(head);
        let more = self.icmp(IntCC::SignedGreaterThan, left, first);
        self.b.ins().brif(more, body, &[], done, &[]);
        self.enter(body);
        let left = self.add_offset(left, -1);
        let by = self.scalar_int(types::I32, shift.into());
        let at = self.b.ins().ishl(left, by);
        let [from, to] = [from, to].map(|start| self.b.ins().iadd(start, at));
        let value = self.b.ins().load(ty, flags, from, 0);
        self.b.ins().store(flags, value, to, 0);
        self.b.ins().jump(head, &[BlockArg::Value(left)]);
        self.b.seal_block(head);
        self.enter(done);
    }
}

/// A window that may be accessed.
pub(super) struct CheckedWindow {
    window: Window,
    /// The host address of the first lane's.
    address: Value,
    /// Nothing is written as long as what is loaded is used.
    is_unwritten: bool,
    /// The vectors that were loaded, by their number.
    vectors: Vec<Value>,
}

impl CheckedWindow {
    /// Goes on at `elsewhere` if one of its values is an infinite half or NaN.
    pub fn require_finite(&self, e: &mut Emitter<'_, '_>, elsewhere: Block) {
        e.lane_set = LaneSet::Scalar;
        let [magnitude, largest] = [0x7FFF, 0x7BFF].map(|bits| {
            let bits = e.scalar_int(types::I16, bits);
            e.b.ins().splat(types::I16X8, bits)
        });
        let mut most = None;
        for at in (0..self.window.stride * e.width).step_by(16) {
            // Used at once.
            let flags = LITTLE_ENDIAN.with_notrap().with_readonly().with_can_move();
            let at = at.cast_signed();
            let value = e.b.ins().load(types::I16X8, flags, self.address, at);
            let value = e.b.ins().band(value, magnitude);
            most = Some(match most {
                None => value,
                Some(most) => e.b.ins().umax(most, value),
            });
        }
        let Some(most) = most else { return };
        let above = e.b.ins().icmp(IntCC::UnsignedGreaterThan, most, largest);
        let above = e.b.ins().vany_true(above);
        let finite = e.b.create_block();
        e.b.ins().brif(above, elsewhere, &[], finite, &[]);
        e.enter(finite);
    }

    fn flags(&self) -> MemFlagsData {
        let flags = LITTLE_ENDIAN.with_notrap();
        match self.is_unwritten {
            true => flags.with_readonly().with_can_move(),
            false => flags,
        }
    }

    /// The vector with this number, in lanes of 32 bits, of what a load in the window loads.
    pub fn value(&mut self, e: &mut Emitter<'_, '_>, number: u32, load: &Window) -> Value {
        e.lane_set = LaneSet::Vector(number);
        let bytes = self.window.bytes;
        if self.window.stride == 2 {
            let flags = self.flags();
            let at = 8 * number.cast_signed();
            return e.b.ins().uload16x4(flags, self.address, at);
        }
        // In the lanes of the loaded vectors: nothing behind the last window is loaded.
        let at = self.window.unused() + (load.start - self.window.start) as u32;
        let word = match self.window.stride {
            4 => self.vector(e, number, types::I32X4),
            _ => {
                let [first, second] = [0, 1].map(|n| self.vector(e, 2 * number + n, types::I64X2));
                let words = [0, 8, 16, 24].map(|lane| lane + (at / 4 * 4) as u8);
                let order = words.into_iter().flat_map(|word| word..word + 4);
                e.bytes_of(first, second, order.collect())
            }
        };
        match (bytes, at % 4) {
            (2, 0) => {
                let mask = e.int(types::I32, 0xFFFF);
                e.b.ins().band(word, mask)
            }
            (2, _) => {
                let shift = e.scalar_int(types::I32, 16);
                e.b.ins().ushr(word, shift)
            }
            _ => word,
        }
    }

    fn vector(&mut self, e: &mut Emitter<'_, '_>, number: u32, ty: Type) -> Value {
        let (flags, unused) = (self.flags(), self.window.unused());
        while self.vectors.len() <= number as usize {
            let at = 16 * self.vectors.len() as i32;
            let vector = match at {
                // Nothing before the first window is loaded.
                0 if unused > 0 => {
                    let vector = e.b.ins().load(ty, flags, self.address, 0);
                    let shift = e.scalar_int(types::I32, (8 * unused).into());
                    e.b.ins().ishl(vector, shift)
                }
                _ => {
                    let at = at - unused.cast_signed();
                    e.b.ins().load(ty, flags, self.address, at)
                }
            };
            self.vectors.push(vector);
        }
        self.vectors[number as usize]
    }
}
