//! Arithmetic of floats on lanes.

use super::integer::by_width;
use crate::program::Instruction;
use crate::runtime::{FUNCTION, Function};
use crate::simd::lower::vector::CURRENT;
use crate::simd::lower::{Lowered, Lowering, Source, Unsupported, is_half};
use crate::simd::machine::Value;
use crate::simd::opcodes as v;
use ptx::names::{Modifier as M, Opcode as O, Type};

const SIGN: u64 = 1 << 31;
const NAN: u64 = 0x7FFF_FFFF;

/// The rounding of an instruction, as it encodes it.
pub(in crate::simd::lower) fn rounding(i: &Instruction) -> u8 {
    match i.modifiers.first_of(&[M::Rz, M::Rm, M::Rp]) {
        Some(M::Rm) => 1,
        Some(M::Rp) => 2,
        Some(_) => 3,
        None => CURRENT,
    }
}

pub(in crate::simd::lower) fn sign_of(wide: bool) -> u64 {
    if wide { 1 << 63 } else { SIGN }
}

impl Lowering<'_, '_> {
    pub(in crate::simd::lower) fn float(&mut self, i: &Instruction) -> Lowered<()> {
        let ty = self.ty(i, 0)?;
        if ty == Type::F32x2 {
            return self.pairs_of_floats(i);
        }
        if !matches!(ty, Type::F32 | Type::F64) {
            return Err(Unsupported("arithmetic of this type"));
        }
        let wide = ty == Type::F64;
        let to = self.arg(i, 0)?;
        let mut values = Vec::new();
        for piece in 0..self.pieces_for(to, wide) {
            values.push(self.float_of(i, wide, piece)?);
        }
        self.write(i, to, wide, &values, false)
    }

    fn float_of(&mut self, i: &Instruction, wide: bool, piece: usize) -> Lowered<Value> {
        let flush = i.modifiers.has(M::Ftz) && !wide;
        let rounding = rounding(i);
        // Sums and products of halves with floats: all but the last operand are halves.
        let half = i.modifiers.types().nth(1);
        let last = self.program.list(i.args).len() - 1;
        let operand = |e: &mut Self, n: usize| -> Lowered<Source> {
            let arg = e.arg(i, n)?;
            if let Some(ty) = half.filter(|_| n < last) {
                let is_known = is_half(ty) && matches!(i.opcode, O::Add | O::Sub | O::Fma);
                return if is_known {
                    e.half_source(i, arg, ty, (piece, 0)).map(Source::Vector)
                } else {
                    Err(Unsupported("arithmetic of several types"))
                };
            }
            let source = e.source(arg, wide, piece)?;
            Ok(e.flushed(source, flush && i.opcode != O::Copysign))
        };
        let a = operand(self, 1)?;
        let approximate = i.modifiers.has(M::Approx);
        let value = match i.opcode {
            O::Abs => {
                let code = by_width(wide, v::ANDN, v::ANDN64);
                let sign = Source::Vector(self.in_register(Source::Bits(sign_of(wide)), wide));
                self.binary(code, sign, a)
            }
            O::Neg => {
                let code = by_width(wide, v::XOR, v::XOR64);
                self.commutative(code, a, Source::Bits(sign_of(wide)))
            }
            O::Copysign => {
                let b = operand(self, 2)?;
                let sign = Source::Vector(self.in_register(Source::Bits(sign_of(wide)), wide));
                let code = by_width(wide, v::TERNARY, v::TERNARY64);
                self.ternary(code, sign, a, b, Some(0xCA), CURRENT)
            }
            O::Add | O::Sub | O::Mul => {
                let b = operand(self, 2)?;
                self.sum_or_product(i.opcode, [a, b], (wide, flush), rounding)
            }
            O::Fma | O::Mad => {
                let b = operand(self, 2)?;
                let c = operand(self, 3)?;
                let code = by_width(wide, v::FMA_F32, v::FMA_F64);
                self.ternary(code, c, a, b, None, rounding)
            }
            O::Div if approximate => {
                let b = operand(self, 2)?;
                self.approximate_quotient(a, b)
            }
            O::Div => {
                let b = operand(self, 2)?;
                let code = by_width(wide, v::DIV_F32, v::DIV_F64);
                self.binary_with(code, a, b, None, rounding)
            }
            O::Rcp if approximate && wide => {
                self.function_of_lanes(Function::ReciprocalF64, a, true)
            }
            O::Rcp => {
                let one = if wide {
                    1.0_f64.to_bits()
                } else {
                    1.0_f32.to_bits().into()
                };
                let one = Source::Vector(self.in_register(Source::Bits(one), wide));
                let code = by_width(wide, v::DIV_F32, v::DIV_F64);
                let value = self.binary_with(code, one, a, None, rounding);
                if approximate {
                    self.canonical(value)
                } else {
                    value
                }
            }
            O::Sqrt => {
                let code = by_width(wide, v::SQRT_F32, v::SQRT_F64);
                let value = self.unary_with(code, a, None, rounding);
                if approximate {
                    self.canonical(value)
                } else {
                    value
                }
            }
            O::Min | O::Max => self.least_or_greatest(i, a, wide, flush, piece)?,
            _ => {
                let function = match (i.opcode, wide) {
                    (O::Rsqrt, false) => Function::RsqrtF32,
                    (O::Rsqrt, true) if i.modifiers.has(M::Ftz) => Function::RsqrtFlushedF64,
                    (O::Rsqrt, true) => Function::RsqrtF64,
                    (O::Sin, false) => Function::SinF32,
                    (O::Cos, false) => Function::CosF32,
                    (O::Lg2, false) => Function::Lg2F32,
                    (O::Ex2, false) => Function::Ex2F32,
                    (O::Tanh, false) => Function::TanhF32,
                    _ => return Err(Unsupported("a function of this type")),
                };
                self.function_of_lanes(function, a, wide)
            }
        };
        let value = match i.opcode {
            O::Abs | O::Neg | O::Copysign | O::Min | O::Max | O::Mul => value,
            _ => match self.flushed(Source::Vector(value), flush) {
                Source::Vector(value) => value,
                source => self.in_register(source, wide),
            },
        };
        // The helpers that scalar code calls for directed rounding return this NaN.
        let value = match rounding {
            CURRENT => value,
            _ => self.canonical_of(value, wide),
        };
        Ok(if i.modifiers.has(M::Sat) {
            self.saturated(value, wide)
        } else {
            value
        })
    }

    fn sum_or_product(
        &mut self,
        opcode: O,
        [a, b]: [Source; 2],
        (wide, flush): (bool, bool),
        rounding: u8,
    ) -> Value {
        let code = match opcode {
            O::Add => by_width(wide, v::ADD_F32, v::ADD_F64),
            O::Sub => by_width(wide, v::SUB_F32, v::SUB_F64),
            _ => by_width(wide, v::MUL_F32, v::MUL_F64),
        };
        let (a, b) = match a {
            Source::Bits(_) if opcode != O::Sub => (b, a),
            _ => (a, b),
        };
        if flush && opcode == O::Mul {
            self.product_flushed(a, b, rounding)
        } else {
            self.binary_with(code, a, b, None, rounding)
        }
    }

    /// `add`, `sub`, `mul` and `fma` of the two floats in registers of 64 bits: twice as many floats.
    fn pairs_of_floats(&mut self, i: &Instruction) -> Lowered<()> {
        let flush = i.modifiers.has(M::Ftz);
        let rounding = rounding(i);
        let to = self.arg(i, 0)?;
        let mut values = Vec::new();
        for piece in 0..self.pieces_for(to, true) {
            let mut sources = Vec::new();
            for n in 1..self.program.list(i.args).len() {
                let arg = self.arg(i, n)?;
                let value = Source::Vector(self.vector(arg, true, piece)?);
                sources.push(self.flushed(value, flush));
            }
            let value = match (i.opcode, &sources[..]) {
                (O::Fma, &[a, b, c]) => self.ternary(v::FMA_F32, c, a, b, None, rounding),
                (O::Add | O::Sub | O::Mul, &[a, b]) => {
                    self.sum_or_product(i.opcode, [a, b], (false, flush), rounding)
                }
                _ => return Err(Unsupported("arithmetic of pairs of floats")),
            };
            let value = self.flushed(Source::Vector(value), flush && i.opcode != O::Mul);
            let value = self.in_register(value, false);
            values.push(match rounding {
                CURRENT => value,
                _ => self.canonical(value),
            });
        }
        self.write(i, to, true, &values, false)
    }

    /// A function of one number that the runtime computes.
    fn function_of_lanes(&mut self, function: Function, a: Source, wide: bool) -> Value {
        let a = self.in_register(a, wide);
        self.call_for_each([FUNCTION | (function as u64) << 8, 0], &[a])
    }

    /// Subnormals become zeros of their sign.
    pub(in crate::simd::lower) fn flushed(&mut self, source: Source, flush: bool) -> Source {
        match source {
            _ if !flush => source,
            Source::Bits(bits) => {
                let is_tiny = bits as u32 & 0x7F80_0000 == 0;
                Source::Bits(if is_tiny { bits & SIGN } else { bits })
            }
            Source::Vector(value) => {
                Source::Vector(self.zero_where_below(value, value, f32::MIN_POSITIVE))
            }
        }
    }

    /// `value`, or a zero of its sign where the magnitude of `of` is below `least`.
    fn zero_where_below(&mut self, value: Value, of: Value, least: f32) -> Value {
        let magnitude = self.binary(v::AND, Source::Vector(of), Source::Bits(SIGN - 1));
        let least = Source::Bits(least.to_bits().into());
        let is_below = self.compared(
            v::COMPARE_U,
            Source::Vector(magnitude),
            least,
            Some(1),
            None,
        );
        let zero = self.binary(v::AND, Source::Vector(value), Source::Bits(SIGN));
        self.blended(false, is_below, Source::Vector(zero), Source::Vector(value))
    }

    /// GPUs flush a product before they round it: 2^24 times the product shows whether it is below
    /// the normal range.
    fn product_flushed(&mut self, a: Source, b: Source, rounding: u8) -> Value {
        const SCALE: f32 = (1 << 24) as f32;
        let product = self.binary_with(v::MUL_F32, a, b, None, rounding);
        let scale = Source::Bits(SCALE.to_bits().into());
        let scaled = self.commutative(v::MUL_F32, a, scale);
        let scaled = self.binary_with(v::MUL_F32, Source::Vector(scaled), b, None, rounding);
        self.zero_where_below(product, scaled, f32::MIN_POSITIVE * SCALE)
    }

    /// The GPU's NaN for every NaN.
    pub(in crate::simd::lower) fn canonical(&mut self, value: Value) -> Value {
        self.canonical_of(value, false)
    }

    fn canonical_of(&mut self, value: Value, wide: bool) -> Value {
        let all = Source::Vector(value);
        let compare = by_width(wide, v::COMPARE_F32, v::COMPARE_F64);
        let is_nan = self.compared(compare, all, all, Some(3), None);
        let nan = if wide { u64::MAX >> 1 } else { NAN };
        self.blended(wide, is_nan, Source::Bits(nan), all)
    }

    /// `div.approx`: the reciprocal of what is above 2^126 is 0.
    fn approximate_quotient(&mut self, a: Source, b: Source) -> Value {
        let b = Source::Vector(self.in_register(b, false));
        let quotient = self.binary(v::DIV_F32, a, b);
        let magnitude = self.binary(v::AND, b, Source::Bits(SIGN - 1));
        let largest = Source::Bits((126 + 127) << 23);
        let magnitude = Source::Vector(magnitude);
        let is_large = self.compared(v::COMPARE_F32, magnitude, largest, Some(0x1E), None);
        let zero = self.binary(v::AND, b, Source::Bits(SIGN));
        let product = self.commutative(v::MUL_F32, Source::Vector(zero), a);
        let value = self.blended(
            false,
            is_large,
            Source::Vector(product),
            Source::Vector(quotient),
        );
        self.canonical(value)
    }

    /// `.sat`: clamps to 0 and 1; NaN becomes 0.
    pub(in crate::simd::lower) fn saturated(&mut self, value: Value, wide: bool) -> Value {
        let one = if wide {
            1.0_f64.to_bits()
        } else {
            1.0_f32.to_bits().into()
        };
        let max = by_width(wide, v::MAX_F32, v::MAX_F64);
        let min = by_width(wide, v::MIN_F32, v::MIN_F64);
        // If one operand is NaN, these instructions return the second.
        let value = self.binary(max, Source::Vector(value), Source::Bits(0));
        self.binary(min, Source::Vector(value), Source::Bits(one))
    }

    fn least_or_greatest(
        &mut self,
        i: &Instruction,
        a: Source,
        wide: bool,
        flush: bool,
        piece: usize,
    ) -> Lowered<Value> {
        if i.modifiers.has(M::Xorsign) {
            return Err(Unsupported("a minimum with the sign of a product"));
        }
        let magnitude = |e: &mut Self, source: Source| {
            if i.modifiers.has(M::Abs) {
                let code = by_width(wide, v::AND, v::AND64);
                Source::Vector(e.commutative(code, source, Source::Bits(sign_of(wide) - 1)))
            } else {
                source
            }
        };
        let mut value = magnitude(self, a);
        for n in 2..self.program.list(i.args).len() {
            let arg = self.arg(i, n)?;
            let b = self.source(arg, wide, piece)?;
            let b = self.flushed(b, flush);
            let b = magnitude(self, b);
            let is_min = i.opcode == O::Min;
            value = Source::Vector(self.of_two(value, b, (is_min, i.modifiers.has(M::NaN)), wide));
        }
        Ok(self.in_register(value, wide))
    }

    /// Without `.NaN`, a NaN operand is ignored.
    pub(in crate::simd::lower) fn of_two(
        &mut self,
        a: Source,
        b: Source,
        (is_min, nan): (bool, bool),
        wide: bool,
    ) -> Value {
        let a = Source::Vector(self.in_register(a, wide));
        let range = by_width(wide, v::RANGE_F32, v::RANGE_F64);
        let compare = by_width(wide, v::COMPARE_F32, v::COMPARE_F64);
        let both = self.binary_with(range, a, b, Some(4 | u8::from(!is_min)), CURRENT);
        let canonical = Source::Bits(if wide { 0x7FF8 << 48 } else { NAN });
        if nan {
            let unordered = self.compared(compare, a, b, Some(3), None);
            return self.blended(wide, unordered, canonical, Source::Vector(both));
        }
        let a_is_nan = self.compared(compare, a, a, Some(3), None);
        let number = self.blended(wide, a_is_nan, b, Source::Vector(both));
        if let Source::Bits(bits) = b {
            let is_nan = if wide {
                f64::from_bits(bits).is_nan()
            } else {
                f32::from_bits(bits as u32).is_nan()
            };
            if !is_nan {
                return number;
            }
        }
        let b = Source::Vector(self.in_register(b, wide));
        let b_is_nan = self.compared(compare, b, b, Some(3), None);
        let rest = self.blended(wide, a_is_nan, canonical, a);
        self.blended(wide, b_is_nan, Source::Vector(rest), Source::Vector(number))
    }
}
