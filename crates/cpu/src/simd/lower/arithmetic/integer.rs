//! Integer arithmetic on lanes.

use crate::program::{Arg, Instruction};
use crate::simd::lower::{Lowered, Lowering, Source, Unsupported};
use crate::simd::machine::{Evex, Value};
use crate::simd::opcodes as v;
use ptx::names::{Modifier as M, Opcode as O, Type};

pub(in crate::simd::lower) fn is_signed(ty: Type) -> bool {
    matches!(ty, Type::S8 | Type::S16 | Type::S32 | Type::S64)
}

/// The opcode for the width of an instruction.
pub(in crate::simd::lower) fn by_width(wide: bool, narrow: Evex, wider: Evex) -> Evex {
    if wide { wider } else { narrow }
}

impl Lowering<'_, '_> {
    /// An operand of 16, 32 or 64 bits. One of 16 bits is extended to 32.
    pub(in crate::simd::lower) fn integer_source(
        &mut self,
        arg: Arg,
        ty: Type,
        piece: usize,
    ) -> Lowered<Source> {
        let bits = ty.bits();
        let signed = is_signed(ty);
        if bits >= 32 {
            return self.source(arg, bits == 64, piece);
        }
        if let Some(number) = self.constant_of(arg, false) {
            let unused = 32 - bits;
            let number = (number as u32) << unused;
            let number = if signed {
                (number.cast_signed() >> unused).cast_unsigned()
            } else {
                number >> unused
            };
            return Ok(Source::Bits(number.into()));
        }
        let value = self.vector(arg, false, piece)?;
        let unused = 32 - bits as u8;
        Ok(Source::Vector(if signed {
            let up = self.shift(6, false, value, unused);
            self.shift(4, false, up, unused)
        } else {
            let mask = u64::from(u32::MAX >> unused);
            self.binary(v::AND, Source::Vector(value), Source::Bits(mask))
        }))
    }

    pub(in crate::simd::lower) fn integer(&mut self, i: &Instruction) -> Lowered<()> {
        let ty = self.ty(i, 0)?;
        let plain = matches!(
            ty,
            Type::U16 | Type::S16 | Type::U32 | Type::S32 | Type::U64 | Type::S64
        );
        let m = &i.modifiers;
        if matches!(ty, Type::U16x2 | Type::S16x2) {
            return self.packed(i, ty);
        }
        if !plain || m.has(M::Sat) || m.has(M::Cc) {
            return Err(Unsupported("integer arithmetic of this kind"));
        }
        let signed = is_signed(ty);
        let wide = ty.bits() == 64;
        let widens = matches!(i.opcode, O::Mul | O::Mad) && m.has(M::Wide);
        let to = self.arg(i, 0)?;
        let result_wide = wide || widens && ty.bits() == 32;
        let mut values = Vec::new();
        for piece in 0..self.pieces_for(to, result_wide) {
            values.push(match i.opcode {
                O::Mul | O::Mad => {
                    let product = self.product(i, ty, piece)?;
                    match i.opcode {
                        O::Mul => product,
                        _ => {
                            let c = self.arg(i, 3)?;
                            let c = self.source(c, result_wide, piece)?;
                            let add = by_width(result_wide, v::ADD, v::ADD64);
                            self.binary(add, Source::Vector(product), c)
                        }
                    }
                }
                O::Mul24 | O::Mad24 => self.product_of_24_bits(i, signed, piece)?,
                _ => {
                    let a = self.arg(i, 1)?;
                    let a = self.integer_source(a, ty, piece)?;
                    let b = match i.opcode {
                        O::Abs | O::Neg => Source::Bits(0),
                        _ => {
                            let b = self.arg(i, 2)?;
                            self.integer_source(b, ty, piece)?
                        }
                    };
                    self.arithmetic(i, (ty, piece), a, b)?
                }
            });
        }
        self.write(i, to, result_wide, &values, signed)
    }

    /// Two halves of 16 bits in each lane.
    fn packed(&mut self, i: &Instruction, ty: Type) -> Lowered<()> {
        let m = &i.modifiers;
        let code = match (i.opcode, ty, m.has(M::Sat)) {
            (O::Add, _, false) => v::ADD_HALVES,
            (O::Add, Type::S16x2, true) => v::ADD_HALVES_S,
            (O::Add, _, true) => v::ADD_HALVES_U,
            (O::Sub, _, false) => v::SUB_HALVES,
            (O::Min, Type::S16x2, _) => v::MIN_HALVES_S,
            (O::Min, ..) => v::MIN_HALVES_U,
            (O::Max, Type::S16x2, _) => v::MAX_HALVES_S,
            (O::Max, ..) => v::MAX_HALVES_U,
            _ => return Err(Unsupported("arithmetic of pairs")),
        };
        let [to, a, b] = [self.arg(i, 0)?, self.arg(i, 1)?, self.arg(i, 2)?];
        let mut values = Vec::new();
        for piece in 0..self.pieces_for(to, false) {
            let [a, b] = [self.vector(a, false, piece)?, self.vector(b, false, piece)?];
            let value = self.binary(code, Source::Vector(a), Source::Vector(b));
            values.push(if m.has(M::Relu) {
                let zero = Source::Vector(self.in_register(Source::Bits(0), false));
                self.binary(v::MAX_HALVES_S, Source::Vector(value), zero)
            } else {
                value
            });
        }
        self.write(i, to, false, &values, false)
    }

    fn arithmetic(
        &mut self,
        i: &Instruction,
        (ty, piece): (Type, usize),
        a: Source,
        b: Source,
    ) -> Lowered<Value> {
        let wide = ty.bits() == 64;
        let signed = is_signed(ty);
        Ok(match i.opcode {
            O::Add => self.commutative(by_width(wide, v::ADD, v::ADD64), a, b),
            O::Sub => self.binary(by_width(wide, v::SUB, v::SUB64), a, b),
            O::Neg => {
                let zero = Source::Vector(self.in_register(Source::Bits(0), wide));
                self.binary(by_width(wide, v::SUB, v::SUB64), zero, a)
            }
            O::Abs => self.unary(by_width(wide, v::ABS, v::ABS64), a),
            O::Min | O::Max => {
                let code = match (i.opcode == O::Min, signed) {
                    (true, true) => by_width(wide, v::MIN_S, v::MIN_S64),
                    (true, false) => by_width(wide, v::MIN_U, v::MIN_U64),
                    (false, true) => by_width(wide, v::MAX_S, v::MAX_S64),
                    (false, false) => by_width(wide, v::MAX_U, v::MAX_U64),
                };
                let value = self.commutative(code, a, b);
                if i.modifiers.has(M::Relu) {
                    let zero = Source::Vector(self.in_register(Source::Bits(0), wide));
                    let most = by_width(wide, v::MAX_S, v::MAX_S64);
                    self.binary(most, Source::Vector(value), zero)
                } else {
                    value
                }
            }
            O::Sad => {
                let (least, greatest) = if signed {
                    (
                        by_width(wide, v::MIN_S, v::MIN_S64),
                        by_width(wide, v::MAX_S, v::MAX_S64),
                    )
                } else {
                    (
                        by_width(wide, v::MIN_U, v::MIN_U64),
                        by_width(wide, v::MAX_U, v::MAX_U64),
                    )
                };
                let low = self.commutative(least, a, b);
                let high = self.commutative(greatest, a, b);
                let sub = by_width(wide, v::SUB, v::SUB64);
                let distance = self.binary(sub, Source::Vector(high), Source::Vector(low));
                let c = self.arg(i, 3)?;
                let c = self.source(c, wide, piece)?;
                self.binary(
                    by_width(wide, v::ADD, v::ADD64),
                    Source::Vector(distance),
                    c,
                )
            }
            O::Div | O::Rem if !wide => self.quotient(i.opcode == O::Div, signed, a, b),
            O::Div | O::Rem => {
                let (a, b) = (self.in_register(a, true), self.in_register(b, true));
                let request = [
                    crate::runtime::DIVIDE
                        | u64::from(signed) << 8
                        | u64::from(i.opcode == O::Rem) << 9,
                    0,
                ];
                self.call_for_each(request, &[a, b])
            }
            _ => return Err(Unsupported("integer arithmetic of this kind")),
        })
    }

    /// Calls the runtime for a result per lane.
    pub(in crate::simd::lower) fn call_for_each(
        &mut self,
        request: [u64; 2],
        operands: &[Value],
    ) -> Value {
        let call = self.call_number(crate::runtime::Helper::each_lane, request);
        self.store_lanes_at(operands);
        self.b
            .emit(crate::simd::machine::Op::CallLanes { call }, []);
        self.load_lanes_at(0)
    }

    /// `mul.lo`, `.hi` and `.wide`.
    pub(in crate::simd::lower) fn product(
        &mut self,
        i: &Instruction,
        ty: Type,
        piece: usize,
    ) -> Lowered<Value> {
        let (a, b) = (self.arg(i, 1)?, self.arg(i, 2)?);
        let signed = is_signed(ty);
        let m = &i.modifiers;
        if m.has(M::Wide) && ty.bits() == 32 {
            let code = if signed { v::MUL_EVEN_S } else { v::MUL_EVEN_U };
            let [a, b] = [self.factor(a, piece)?, self.factor(b, piece)?];
            for (value, factor) in [(a, b), (b, a)] {
                if let (Source::Vector(value), Source::Bits(factor)) = (value, factor)
                    && (factor as u32).is_power_of_two()
                    && (!signed || (factor as u32) < 1 << 31)
                {
                    // The upper half does not count yet.
                    let extended = if signed {
                        let up = self.shift(6, true, value, 32);
                        self.shift(4, true, up, 32)
                    } else {
                        value
                    };
                    let by = (factor as u32).trailing_zeros() as u8;
                    return Ok(match by {
                        0 => extended,
                        _ => self.shift(6, true, extended, by),
                    });
                }
            }
            return Ok(self.commutative(code, a, b));
        }
        let a = self.integer_source(a, ty, piece)?;
        let b = self.integer_source(b, ty, piece)?;
        let wide = ty.bits() == 64;
        if m.has(M::Hi) {
            return match ty.bits() {
                32 => Ok(self.upper_product(signed, a, b)),
                16 => {
                    let product = self.commutative(v::MUL, a, b);
                    Ok(self.shift(2, false, product, 16))
                }
                _ => {
                    let (a, b) = (self.in_register(a, true), self.in_register(b, true));
                    let request = [crate::runtime::MULTIPLY_HIGH | u64::from(signed) << 8, 0];
                    Ok(self.call_for_each(request, &[a, b]))
                }
            };
        }
        for (value, factor) in [(a, b), (b, a)] {
            if let (Source::Vector(value), Source::Bits(factor)) = (value, factor)
                && factor.is_power_of_two()
            {
                let by = factor.trailing_zeros() as u8;
                return Ok(self.shift(6, wide, value, by));
            }
        }
        Ok(self.commutative(by_width(wide, v::MUL, v::MUL64), a, b))
    }

    /// A factor of a product of 64 bits, of which the lower half counts.
    fn factor(&mut self, arg: Arg, piece: usize) -> Lowered<Source> {
        if let Some(bits) = self.constant_of(arg, false) {
            return Ok(Source::Bits(bits));
        }
        if self.is_uniform(arg) {
            let value = self.int(arg, false)?;
            return Ok(Source::Vector(self.splat(value, true)));
        }
        Ok(Source::Vector(self.vector(arg, true, piece)?))
    }

    /// The upper halves of products of 32 bits.
    fn upper_product(&mut self, signed: bool, a: Source, b: Source) -> Value {
        let code = if signed { v::MUL_EVEN_S } else { v::MUL_EVEN_U };
        let [a, b] = [a, b].map(|source| match source {
            Source::Bits(bits) => self
                .b
                .constant(crate::simd::lower::vector::constant(bits, false)),
            Source::Vector(value) => value,
        });
        let even = self.binary(code, Source::Vector(a), Source::Vector(b));
        let [a, b] = [a, b].map(|value| self.shift(2, true, value, 32));
        let odd = self.binary(code, Source::Vector(a), Source::Vector(b));
        let even = self.shift(2, true, even, 32);
        // Of the odd products, the upper halves where they are: mask ? odd : even.
        let mask = self
            .b
            .constant(crate::simd::lower::vector::constant(!0 << 32, true));
        let (odd, even) = (Source::Vector(odd), Source::Vector(even));
        self.ternary(
            v::TERNARY64,
            Source::Vector(mask),
            odd,
            even,
            Some(0xCA),
            crate::simd::lower::vector::CURRENT,
        )
    }

    fn product_of_24_bits(
        &mut self,
        i: &Instruction,
        signed: bool,
        piece: usize,
    ) -> Lowered<Value> {
        if i.modifiers.has(M::Hi) {
            return Err(Unsupported("the upper half of a product of 24 bits"));
        }
        let mut factors = [None; 2];
        for (n, factor) in factors.iter_mut().enumerate() {
            let arg = self.arg(i, n + 1)?;
            let value = self.vector(arg, false, piece)?;
            let up = self.shift(6, false, value, 8);
            *factor = Some(self.shift(if signed { 4 } else { 2 }, false, up, 8));
        }
        let [Some(a), Some(b)] = factors else {
            return Err(Unsupported("an operand is missing"));
        };
        let product = self.binary(v::MUL, Source::Vector(a), Source::Vector(b));
        if i.opcode == O::Mul24 {
            return Ok(product);
        }
        let c = self.arg(i, 3)?;
        let c = self.source(c, false, piece)?;
        Ok(self.binary(v::ADD, Source::Vector(product), c))
    }

    /// 32-bit division, in doubles. They represent all operands exactly, and a quotient that is not an
    /// integer is further from the next integer than the rounding error.
    fn quotient(&mut self, is_quotient: bool, signed: bool, a: Source, b: Source) -> Value {
        let [a, b] = [a, b].map(|source| self.in_register(source, false));
        let (to, back) = if signed {
            (v::I32_TO_F64, v::F64_TRUNCATED_TO_I32)
        } else {
            (v::U32_TO_F64, v::F64_TRUNCATED_TO_U32)
        };
        let mut halves = [None; 2];
        for (n, half) in halves.iter_mut().enumerate() {
            let [a, b] = [a, b].map(|value| {
                let half = self.half_of(value, n);
                Source::Vector(self.converted(to, half))
            });
            let quotient = self.binary(v::DIV_F64, a, b);
            *half = Some(self.converted(back, quotient));
        }
        let [Some(low), Some(high)] = halves else {
            return a;
        };
        let quotient = self.joined(low, high);
        let value = if is_quotient {
            quotient
        } else {
            let product = self.binary(v::MUL, Source::Vector(quotient), Source::Vector(b));
            self.binary(v::SUB, Source::Vector(a), Source::Vector(product))
        };
        let zero = self.in_register(Source::Bits(0), false);
        let by_zero = self.compared(
            v::COMPARE_U,
            Source::Vector(b),
            Source::Vector(zero),
            Some(0),
            None,
        );
        self.blended(
            false,
            by_zero,
            Source::Bits(0xFFFF_FFFF),
            Source::Vector(value),
        )
    }
}
