//! Windows: what each lane of a group loads from at one distance from the lane before, such as four
//! neighbouring halves. Vectors that span the windows of several lanes are loaded and taken apart.

use cranelift_codegen::ir::{Block, InstBuilder, Type, Value, types};

use super::emitter::{Emitter, LITTLE_ENDIAN};
use super::lane_set::LaneSet;
use super::memory::{Space, space_of};
use super::strided_load::is_plain;
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
            && start % i64::from(bytes) == 0;
        let window = Window {
            base,
            stride,
            start,
            end: start.checked_add(bytes.into())?,
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
        (alike && both.end - both.start <= self.stride.into()).then_some(both)
    }

    /// Goes on at `elsewhere`, which is cold, if not all of it may be accessed by all lanes.
    pub fn checked(&self, e: &mut Emitter<'_, '_>, elsewhere: Block) -> CheckedWindow {
        e.lane_set = LaneSet::Scalar;
        e.set_guard(None);
        let bytes = self.end - self.start;
        let base = e.register(self.base);
        let address = e.add_offset(base, self.start);
        let length = i64::from(self.stride) * i64::from(e.width - 1) + bytes;
        let ok = e.b.create_block();
        let shift = self.bytes.trailing_zeros();
        e.check_span(address, shift, length >> shift, ok, elsewhere);
        e.enter(ok);
        CheckedWindow {
            window: *self,
            address,
            unused: self.stride - bytes as u32,
            vectors: Vec::new(),
        }
    }
}

/// A window that may be accessed.
pub(super) struct CheckedWindow {
    window: Window,
    /// The host address of the first lane's.
    address: Value,
    /// The bytes of a lane that are before its window: nothing behind the last one is loaded.
    unused: u32,
    /// The vectors that were loaded, by their number.
    vectors: Vec<Value>,
}

impl CheckedWindow {
    /// The vector with this number, in lanes of 32 bits, of what a load in the window loads.
    pub fn value(&mut self, e: &mut Emitter<'_, '_>, number: u32, load: &Window) -> Value {
        e.lane_set = LaneSet::Vector(number);
        let bytes = self.window.bytes;
        if self.window.stride == 2 {
            let flags = LITTLE_ENDIAN.with_notrap();
            let at = 8 * number.cast_signed();
            return e.b.ins().uload16x4(flags, self.address, at);
        }
        // In the lanes of the loaded vectors.
        let at = self.unused + (load.start - self.window.start) as u32;
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
        let flags = LITTLE_ENDIAN.with_notrap();
        while self.vectors.len() <= number as usize {
            let at = 16 * self.vectors.len() as i32;
            let vector = match at {
                // Nothing before the first window is loaded.
                0 if self.unused > 0 => {
                    let vector = e.b.ins().load(ty, flags, self.address, 0);
                    let shift = e.scalar_int(types::I32, (8 * self.unused).into());
                    e.b.ins().ishl(vector, shift)
                }
                _ => {
                    let at = at - self.unused.cast_signed();
                    e.b.ins().load(ty, flags, self.address, at)
                }
            };
            self.vectors.push(vector);
        }
        self.vectors[number as usize]
    }
}
