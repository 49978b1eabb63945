//! What the lanes of a vector may hold, as far as the code that computes it says so, and where it
//! loads them from. An address that follows from a byte has bounds without a check, and the bytes of
//! lanes that are accessed one by one are loaded once more: to take lanes out of vectors costs more.

use cranelift_codegen::ir::{InstBuilder, InstructionData, Opcode, Value, types};

use super::checked_address::CheckedAddress;
use super::emitter::{Emitter, LITTLE_ENDIAN};

/// Instructions that are followed from a value to its operands.
const MAX_DEPTH: u32 = 8;

/// The value ranges of unsigned lanes of 32 bits: `(index << shift) + lowest`, where nothing wraps
/// around.
#[derive(Clone, Copy)]
pub(super) struct LaneValues {
    index: Value,
    shift: u32,
    lowest: i64,
    pub highest: i64,
    /// The low bits that are 0 in all lanes.
    pub zeros: u32,
}

impl LaneValues {
    /// Of the lanes of a vector.
    pub fn of(e: &Emitter<'_, '_>, vector: Value) -> LaneValues {
        follow(e, vector, MAX_DEPTH)
    }

    fn up_to(highest: u32, index: Value) -> LaneValues {
        LaneValues {
            index,
            shift: 0,
            lowest: 0,
            highest: highest.into(),
            zeros: 0,
        }
    }

    fn plus(mut self, number: i64) -> Option<LaneValues> {
        self.lowest += number;
        self.highest += number;
        self.zeros = self.zeros.min(number.trailing_zeros());
        self.is_exact().then_some(self)
    }

    fn shifted_left(mut self, by: u32) -> Option<LaneValues> {
        self.shift += by;
        self.lowest <<= by;
        self.highest <<= by;
        self.zeros += by;
        self.is_exact().then_some(self)
    }

    /// Whether 32 bits are enough.
    fn is_exact(&self) -> bool {
        self.lowest >= 0 && self.highest <= u32::MAX.into()
    }

    /// Whether the lanes can be loaded one by one.
    pub fn is_loaded(&self, e: &Emitter<'_, '_>) -> bool {
        ByteLoad::of(e, self.index).is_some_and(|load| load.may_repeat(e))
    }

    /// The address at the value of a lane of the vector, from `start` on. The lane is loaded.
    pub fn address(
        &self,
        e: &mut Emitter<'_, '_>,
        start: Value,
        lane: u32,
    ) -> Option<CheckedAddress> {
        let offset = i32::try_from(self.lowest).ok()?;
        let load = ByteLoad::of(e, self.index)?;
        let flags = LITTLE_ENDIAN.with_notrap();
        let at = load.offset + lane.cast_signed();
        let index = e.b.ins().uload8(types::I64, flags, load.address, at);
        let shift = e.scalar_int(types::I32, self.shift.into());
        let distance = e.b.ins().ishl(index, shift);
        let address = e.b.ins().iadd(start, distance);
        Some(CheckedAddress::new(address, offset))
    }
}

fn follow(e: &Emitter<'_, '_>, value: Value, depth: u32) -> LaneValues {
    let operand = |value| match depth {
        0 => LaneValues::up_to(u32::MAX, value),
        _ => follow(e, value, depth - 1),
    };
    // The same in each lane.
    let number = |value| match e.constant_lanes(value)? {
        [a, b, c, d] if a == b && a == c && a == d => Some(a),
        _ => None,
    };
    let amount = |value| u32::try_from(e.constant_scalar(value)?).ok();
    let binary = |opcode, [a, b]: [Value; 2]| match opcode {
        Opcode::Iadd => match (number(a), number(b)) {
            (_, Some(n)) => operand(a).plus(n.cast_signed().into()),
            (Some(n), _) => operand(b).plus(n.cast_signed().into()),
            _ => None,
        },
        Opcode::Ishl => amount(b)
            .filter(|by| *by < 32)
            .and_then(|by| operand(a).shifted_left(by)),
        Opcode::Ushr => {
            let highest = amount(b).and_then(|by| u32::MAX.checked_shr(by));
            highest.map(|highest| LaneValues::up_to(highest, value))
        }
        Opcode::Band => {
            let (other, mask) = match (number(a), number(b)) {
                (_, Some(mask)) => (a, mask),
                (mask, _) => (b, mask?),
            };
            let other = operand(other);
            // The mask may change nothing.
            let is_low = mask.wrapping_add(1) & mask == 0;
            Some(match is_low && other.highest <= mask.into() {
                true => other,
                false => LaneValues {
                    zeros: mask.trailing_zeros(),
                    ..LaneValues::up_to(mask, value)
                },
            })
        }
        Opcode::Umin => {
            let highest = number(b).or(number(a));
            highest.map(|highest| LaneValues::up_to(highest, value))
        }
        _ => None,
    };
    let known = match e.definition(value) {
        Some(&InstructionData::Binary { opcode, args }) => binary(opcode, args),
        _ => ByteLoad::of(e, value).map(|_| LaneValues::up_to(u8::MAX.into(), value)),
    };
    known.unwrap_or(LaneValues::up_to(u32::MAX, value))
}

/// A load of bytes into the lanes of a vector, which extends them with zeros.
struct ByteLoad {
    load: Value,
    /// Of the first lane.
    address: Value,
    offset: i32,
}

impl ByteLoad {
    fn of(e: &Emitter<'_, '_>, value: Value) -> Option<ByteLoad> {
        // One load is the source of two vectors.
        let (load, first) = match *e.definition(value)? {
            InstructionData::Unary { opcode, arg } => match opcode {
                Opcode::UwidenLow => (arg, 0),
                Opcode::UwidenHigh => (arg, 4),
                _ => return None,
            },
            _ => return None,
        };
        match *e.definition(load)? {
            InstructionData::Load {
                opcode: Opcode::Uload8x8,
                arg,
                offset,
                ..
            } => Some(ByteLoad {
                load,
                address: arg,
                offset: i32::from(offset) + first,
            }),
            _ => None,
        }
    }

    /// Whether nothing has been stored since, and what other lanes store meanwhile, to shared memory, is
    /// elsewhere.
    fn may_repeat(&self, e: &Emitter<'_, '_>) -> bool {
        let (dfg, layout) = (&e.b.func.dfg, &e.b.func.layout);
        let load = dfg.resolve_aliases(self.load);
        if !e.global_bytes.contains(&load) {
            return false;
        }
        let load = dfg.value_def(load).inst();
        let Some(load) = load.filter(|&load| layout.inst_block(load) == e.b.current_block()) else {
            return false;
        };
        let since = std::iter::successors(Some(load), |&inst| layout.next_inst(inst));
        let mut since = since.map(|inst| dfg.insts[inst].opcode());
        since.all(|opcode| !opcode.can_store() && !opcode.is_call() && !opcode.other_side_effects())
    }
}
