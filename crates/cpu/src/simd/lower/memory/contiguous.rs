//! Accesses of lanes to consecutive places.

use regalloc2::Operand;

use super::address::{Address, NOT_EQUAL};
use super::element::Element;
use crate::optimization::Optimization;
use crate::simd::lower::operands::WORD;
use crate::simd::lower::{Lowering, Source};
use crate::simd::machine::{Alu, Condition, INT, Label, Masking, Memory, Op, Shift, Value, ZMM};
use crate::simd::opcodes as v;

const CACHE_LINE: usize = 64;

/// How many iterations ahead a load in a loop is prefetched, as a power of two.
const ITERATIONS: u8 = 3;

impl Lowering<'_, '_> {
    /// Returns the active lanes whose number is not the first lane's plus their distance from it, in steps.
    pub(in crate::simd::lower) fn not_consecutive(
        &mut self,
        lanes: &[Value],
        wide: bool,
        step: u32,
    ) -> Value {
        let first = self.first_lane(lanes[0], wide);
        let all = self.splat(first, wide);
        let mut differs: Option<Value> = None;
        for (piece, &lanes) in lanes.iter().enumerate() {
            let count = if wide { 8 } else { 16 };
            let mut constant = [0; 64];
            for (lane, place) in constant.chunks_exact_mut(64 / count).enumerate() {
                let at = ((piece * count + lane) as u64 * u64::from(step)).to_le_bytes();
                let size = place.len();
                place.copy_from_slice(&at[..size]);
            }
            let distances = self.vector_constant(constant);
            let code = if wide { v::ADD64 } else { v::ADD };
            let expected = self.binary(code, Source::Vector(all), Source::Vector(distances));
            let only = if wide {
                self.active_eighth(piece)
            } else {
                self.active.as_ref().map(|active| active[piece])
            };
            let code = if wide { v::COMPARE_U64 } else { v::COMPARE_U };
            let (a, b) = (Source::Vector(lanes), Source::Vector(expected));
            let other = self.compared(code, a, b, Some(NOT_EQUAL), only);
            differs = Some(match differs {
                None => other,
                Some(known) => self.mask_or(known, other),
            });
        }
        match differs {
            Some(differs) => differs,
            None => self.no_lanes(),
        }
    }

    /// Tests at run time whether the addresses of the active lanes are consecutive. Continues where they
    /// are, with the first lane's address, and returns the block for the other case.
    pub(in crate::simd::lower) fn if_contiguous(
        &mut self,
        address: &Address,
        bytes: u32,
    ) -> Option<(Value, Label)> {
        let (lanes, wide, base) = match address {
            Address::Uniform(..) => return None,
            Address::Lanes(lanes) => (lanes.clone(), true, None),
            Address::Offsets(base, lanes, scale) => (lanes.clone(), false, Some((*base, *scale))),
        };
        let step = bytes >> base.map_or(0, |(_, scale)| scale);
        Optimization::Consecutive.at((step != 0).then_some(()))?;
        let first = self.first_lane(lanes[0], wide);
        let differs = self.not_consecutive(&lanes, wide, step);
        self.test_masks(&[differs]);
        let [together, apart] = [(); 2].map(|()| self.b.block());
        self.b.branch(Condition::Equal, together, apart);
        self.b.enter_sealed(together);
        let start = match base {
            None => first,
            Some((base, scale)) => {
                // The first lane may not be active, and its offset negative.
                let signed = Memory {
                    signed: true,
                    ..WORD
                };
                let first = self.extended(first, signed);
                let first = self.shift_int(Shift::Left, true, first, scale);
                self.alu(Alu::Add, true, first, base)
            }
        };
        Some((start, apart))
    }

    /// Prefetches the operand of a load in a loop for a later iteration, whose address is extrapolated from
    /// the last two. The strides of grid-stride loops are too large for the processor's own prefetchers.
    pub(in crate::simd::lower) fn prefetch(&mut self, element: Element, start: Value) {
        let in_loop = self.divergence.loops.innermost(self.block);
        if Optimization::Prefetch.at(in_loop).is_none() {
            return;
        }
        let last = self.b.variable(INT);
        let before = self.b.get(last);
        self.b.set(last, start);
        let stride = self.alu(Alu::Sub, true, start, before);
        let bytes = self.width as i32 * element.bytes as i32;
        for offset in (0..bytes).step_by(CACHE_LINE) {
            let op = Op::Prefetch {
                scale: ITERATIONS,
                offset,
            };
            self.b.emit(op, [start, stride].map(Operand::reg_use));
        }
    }

    pub(in crate::simd::lower) fn load_contiguous(
        &mut self,
        element: Element,
        (start, distance): (Value, i32),
        piece: usize,
    ) -> Value {
        let (code, unit) = match (element.bytes, element.signed) {
            (1, false) => (v::LOAD_BYTES_U, 16),
            (1, true) => (v::LOAD_BYTES_S, 16),
            (2, false) => (v::LOAD_HALVES_U, 32),
            (2, true) => (v::LOAD_HALVES_S, 32),
            (4, _) => (v::LOAD, 64),
            _ => (v::LOAD64, 64),
        };
        let wide = element.is_wide();
        let active = self.active.clone();
        let mask = active.map(|active| self.mask_for(&active, wide, piece));
        let result = self.b.value(ZMM);
        let mut operands = vec![Operand::reg_def(result), Operand::reg_use(start)];
        operands.extend(mask.map(Operand::reg_use));
        let op = Op::Load {
            code,
            offset: distance + piece as i32 * i32::from(unit),
            unit,
            masking: match mask {
                Some(_) => Masking::Zero,
                None => Masking::None,
            },
            broadcast: false,
            binary: false,
            immediate: None,
        };
        self.b.emit(op, operands);
        result
    }

    pub(in crate::simd::lower) fn store_contiguous(
        &mut self,
        element: Element,
        (start, distance): (Value, i32),
        piece: usize,
        value: Value,
    ) {
        let (code, unit) = match element.bytes {
            1 => (v::NARROW_TO_BYTES, 16),
            2 => (v::NARROW_TO_HALVES, 32),
            4 => (v::STORE, 64),
            _ => (v::STORE64, 64),
        };
        let active = self.active.clone();
        let mask = active.map(|active| self.mask_for(&active, element.is_wide(), piece));
        let mut operands = vec![Operand::reg_use(value), Operand::reg_use(start)];
        operands.extend(mask.map(Operand::reg_use));
        let op = Op::Store {
            code,
            offset: distance + piece as i32 * i32::from(unit),
            unit,
            masked: mask.is_some(),
        };
        self.b.emit(op, operands);
    }
}
