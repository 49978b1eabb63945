//! Accesses to memory.

use regalloc2::Operand;
use smallvec::SmallVec;

use super::instructions::Operation;
use super::vector::Operands;
use super::{Legalized, Legalizer, Pair, Source, Unsupported, opcodes as a};
use crate::simd::machine::{Evex, Form, INT, Masking, Memory, Op, Value, gather_operands};
use crate::simd::opcodes as v;

/// The order of the quarters that packing to bytes leaves.
const QUARTERS: [u32; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

const WORD: Memory = Memory {
    bytes: 4,
    signed: true,
    wide: true,
};
const LONG: Memory = Memory { bytes: 8, ..WORD };

/// The bytes of elements that a load extends, or a store narrows.
fn narrow_bytes(code: Evex) -> Option<u8> {
    match code {
        v::LOAD_BYTES_U | v::LOAD_BYTES_S | v::NARROW_TO_BYTES => Some(1),
        v::LOAD_HALVES_U | v::LOAD_HALVES_S | v::NARROW_TO_HALVES => Some(2),
        _ => None,
    }
}

impl Legalizer {
    pub(super) fn load(&mut self, op: &Op, operands: &[Value]) -> Legalized<()> {
        let &Op::Load {
            code,
            offset,
            masking,
            binary,
            immediate,
            ..
        } = op
        else {
            return Err(Unsupported);
        };
        let result = operands[0];
        let mut rest = operands[1..].iter().copied();
        let mut next = || rest.next().ok_or(Unsupported);
        let first = if binary { Some(next()?) } else { None };
        let base = next()?;
        let mask = match masking {
            Masking::None => None,
            Masking::Zero => Some(next()?),
            _ => return Err(Unsupported),
        };
        let wide = code.wide;
        if let Some(first) = first {
            // The operand in memory is one element for all lanes.
            let broadcast = if wide { v::BROADCAST64 } else { v::BROADCAST };
            let all = Source::Value(self.loaded(broadcast, base, offset));
            let operands = Operands {
                first: Some(self.pair(first)?),
                last: [all; 2],
                old: None,
                mask,
                masking,
            };
            let operation = Operation {
                immediate,
                ..Operation::new(code, Form::Binary)
            };
            return self.compute(operation, result, &operands);
        }
        if [v::BROADCAST, v::BROADCAST64].contains(&code) {
            let all = self.loaded(code, base, offset);
            return self.define(Some(result), [all; 2]);
        }
        if let Some(bytes) = narrow_bytes(code) {
            let pair = self.load_narrow((code, bytes), base, offset, mask)?;
            return self.define(Some(result), pair);
        }
        let Some(mask) = mask else {
            let pair = [0, 32].map(|half| self.loaded(code, base, offset + half));
            return self.define(Some(result), pair);
        };
        let masks = self.masks_of(mask, wide)?;
        let code = if wide {
            a::LOAD_MASKED64
        } else {
            a::LOAD_MASKED
        };
        let pair = [0, 1].map(|half| {
            let value = self.value();
            let operands = [
                Operand::reg_def(value),
                Operand::reg_use(masks[half]),
                Operand::reg_use(base),
            ];
            self.emit(
                Self::load_op(code, offset + 32 * half as i32, true),
                operands,
            );
            value
        });
        self.define(Some(result), pair)
    }

    fn load_op(code: Evex, offset: i32, binary: bool) -> Op {
        Op::Load {
            code: code.of_256_bits(),
            offset,
            unit: 1,
            masking: Masking::None,
            broadcast: false,
            binary,
            immediate: None,
        }
    }

    /// A load of a vector, or of what the instruction extends to one.
    fn loaded(&mut self, code: Evex, base: Value, offset: i32) -> Value {
        let value = self.value();
        let operands = [Operand::reg_def(value), Operand::reg_use(base)];
        self.emit(Self::load_op(code, offset, false), operands);
        value
    }

    fn load_narrow(
        &mut self,
        (code, bytes): (Evex, u8),
        base: Value,
        offset: i32,
        mask: Option<Value>,
    ) -> Legalized<Pair> {
        let half = i32::from(bytes) * 8;
        let Some(mask) = mask else {
            return Ok([0, half].map(|at| self.loaded(code, base, offset + at)));
        };
        let bits = self.int();
        let mask = self.pair(mask)?;
        self.mask_to_int(bits, mask);
        let elements = self.value();
        let op = Op::LoadNarrow {
            bytes,
            offset,
            area: self.area,
        };
        let operands = [Operand::reg_def(elements), Operand::reg_use(base)];
        self.with_registers(op, operands.into_iter().chain([Operand::reg_use(bits)]));
        let upper = match bytes {
            1 => self.of_values(a::UPPER_LONGS, elements, elements),
            _ => self.upper(elements),
        };
        Ok([elements, upper].map(|part| self.unary(code, part)))
    }

    /// Emits an instruction with two registers for its own use.
    fn with_registers(&mut self, op: Op, operands: impl IntoIterator<Item = Operand>) {
        let own = [(); 2].map(|()| Operand::reg_temp(self.int()));
        self.emit(op, operands.into_iter().chain(own));
    }

    pub(super) fn store(&mut self, op: &Op, operands: &[Value]) -> Legalized<()> {
        let &Op::Store {
            code,
            offset,
            masked,
            ..
        } = op
        else {
            return Err(Unsupported);
        };
        let pair = self.pair(operands[0])?;
        let base = operands[1];
        let mask = masked.then(|| operands[2]);
        if let Some(bytes) = narrow_bytes(code) {
            return self.store_narrow(bytes, pair, (base, offset), mask);
        }
        let wide = code.wide;
        let masks = match mask {
            Some(mask) => Some(self.masks_of(mask, wide)?),
            None => None,
        };
        let code = match (masked, wide) {
            (false, _) => code,
            (true, false) => a::STORE_MASKED,
            (true, true) => a::STORE_MASKED64,
        };
        for half in 0..2 {
            let mask = masks.map(|masks| masks[half]);
            let offset = offset + 32 * half as i32;
            self.store_one((code, offset), pair[half], base, mask);
        }
        Ok(())
    }

    fn store_one(
        &mut self,
        (code, offset): (Evex, i32),
        value: Value,
        base: Value,
        mask: Option<Value>,
    ) {
        let op = Op::Store {
            code: code.of_256_bits(),
            offset,
            unit: 1,
            masked: mask.is_some(),
        };
        let operands = [value, base].into_iter().chain(mask);
        self.emit(op, operands.map(Operand::reg_use));
    }

    fn store_narrow(
        &mut self,
        bytes: u8,
        pair: Pair,
        (base, offset): (Value, i32),
        mask: Option<Value>,
    ) -> Legalized<()> {
        let value = match bytes {
            2 => self.narrowed_to_halves(pair),
            _ => {
                let low = super::instructions::word(0xFF);
                let bytes = pair.map(|half| self.binary(v::AND, half, low));
                let halves = self.of_values(a::PACK_TO_HALVES, bytes[0], bytes[1]);
                let packed = self.of_values(a::PACK_TO_BYTES, halves, halves);
                let order = self.words(QUARTERS);
                let order = self.in_register(order);
                self.of_values(v::PERMUTE, order, packed)
            }
        };
        let Some(mask) = mask else {
            let code = match bytes {
                1 => v::STORE.of_128_bits(),
                _ => v::STORE,
            };
            self.store_one((code, offset), value, base, None);
            return Ok(());
        };
        let bits = self.int();
        let mask = self.pair(mask)?;
        self.mask_to_int(bits, mask);
        let op = Op::StoreNarrow {
            bytes,
            offset,
            area: self.area,
        };
        self.with_registers(op, [value, base, bits].map(Operand::reg_use));
        Ok(())
    }

    pub(super) fn gather(
        &mut self,
        (code, scale): (Evex, u8),
        operands: &[Value],
    ) -> Legalized<()> {
        let &[result, after, base, indices, old, mask] = operands else {
            return Err(Unsupported);
        };
        let indices = self.pair(indices)?;
        let old = self.pair(old)?;
        let masks = self.masks_of(mask, code.wide)?;
        let pair = match code {
            v::GATHER_BY_WORDS | v::GATHER64_BY_LONGS => [0, 1].map(|half| {
                self.gather_one((code, scale), (base, indices[half]), old[half], masks[half])
            }),
            v::GATHER64_BY_WORDS => {
                let upper = self.upper(indices[0]);
                let indices = [indices[0], upper];
                [0, 1].map(|half| {
                    self.gather_one((code, scale), (base, indices[half]), old[half], masks[half])
                })
            }
            v::GATHER_BY_LONGS => {
                let [old_upper, mask_upper] = [old[0], masks[0]].map(|value| self.upper(value));
                let (old, masks) = ([old[0], old_upper], [masks[0], mask_upper]);
                let quarters = [0, 1].map(|half| {
                    self.gather_one((code, scale), (base, indices[half]), old[half], masks[half])
                });
                [self.joined(quarters[0], quarters[1]); 2]
            }
            _ => return Err(Unsupported),
        };
        let none = self.zero();
        self.define(Some(after), [none; 2])?;
        self.define(Some(result), pair)
    }

    fn gather_one(
        &mut self,
        (code, scale): (Evex, u8),
        (base, indices): (Value, Value),
        old: Value,
        mask: Value,
    ) -> Value {
        let [result, after] = [(); 2].map(|()| self.value());
        let code = code.of_256_bits();
        let operands = gather_operands([result, after], [base, indices, old, mask]);
        self.emit(Op::Gather { code, scale }, operands);
        result
    }

    /// Stores the lanes of a mask one after the other.
    pub(super) fn scatter(
        &mut self,
        (code, scale): (Evex, u8),
        operands: &[Value],
    ) -> Legalized<()> {
        let &[after, value, base, indices, mask] = operands else {
            return Err(Unsupported);
        };
        let (bytes, index) = match code {
            v::SCATTER_BY_WORDS => (4, WORD),
            v::SCATTER_BY_LONGS => (4, LONG),
            v::SCATTER64_BY_WORDS => (8, WORD),
            v::SCATTER64_BY_LONGS => (8, LONG),
            _ => return Err(Unsupported),
        };
        debug_assert_eq!(base.class(), INT);
        let (value, indices) = (self.pair(value)?, self.pair(indices)?);
        let pair = self.pair(mask)?;
        let mut bits = self.int();
        self.mask_to_int(bits, pair);
        if code != v::SCATTER_BY_WORDS {
            // There are eight lanes.
            let eight = self.int();
            let byte = Memory {
                bytes: 1,
                signed: false,
                wide: false,
            };
            let operands = [Operand::reg_def(eight), Operand::reg_use(bits)];
            self.emit(Op::Extend(byte), operands);
            bits = eight;
        }
        self.store_area(value, self.area);
        self.store_area(indices, self.area + 64);
        let op = Op::ScatterArea {
            bytes,
            index,
            scale,
            area: self.area,
        };
        let operands: SmallVec<[Operand; 2]> =
            [base, bits].map(Operand::reg_use).into_iter().collect();
        self.with_registers(op, operands);
        let none = self.zero();
        self.define(Some(after), [none; 2])
    }
}
