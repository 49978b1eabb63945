//! `mov`, `cvta` and `cvt`.

use super::integer::{by_width, is_signed};
use crate::abi::offset;
use crate::program::{Arg, Instruction};
use crate::simd::lower::operands::{LONG, is_wide};
use crate::simd::lower::vector::CURRENT;
use crate::simd::lower::{Lowered, Lowering, Place, Source, Unsupported, is_half};
use crate::simd::machine::{Alu, Memory, Value};
use crate::simd::opcodes as v;
use ptx::names::{Modifier as M, Type};

fn is_integer(ty: Type) -> bool {
    use Type::*;
    matches!(
        ty,
        U8 | U16 | U32 | U64 | S8 | S16 | S32 | S64 | B8 | B16 | B32 | B64
    )
}

impl Lowering<'_, '_> {
    /// Whether a result is in a general-purpose register.
    fn is_int_place(&self, to: Arg) -> bool {
        match to {
            Arg::Reg(reg) => {
                matches!(self.places[reg.index()], Place::Uniform(_)) && !self.class(reg).is_float()
            }
            _ => false,
        }
    }

    pub(in crate::simd::lower) fn mov(&mut self, i: &Instruction) -> Lowered<()> {
        let ty = self.ty(i, 0)?;
        let (to, from) = (self.arg(i, 0)?, self.arg(i, 1)?);
        match (to, from) {
            (Arg::List(to), Arg::List(from)) if to.len == from.len => {
                let (to, from) = (
                    self.program.list(to).to_vec(),
                    self.program.list(from).to_vec(),
                );
                let wide = is_wide(ty);
                let mut all = Vec::new();
                for (&to, &from) in to.iter().zip(&from) {
                    all.push(self.vectors_for(to, from, wide)?);
                }
                for (to, values) in to.into_iter().zip(all) {
                    self.write(i, to, wide, &values, false)?;
                }
                Ok(())
            }
            (Arg::List(parts), _) => self.unpack(i, ty, parts_of(self, parts), from),
            (_, Arg::List(parts)) => self.pack(i, ty, to, parts_of(self, parts)),
            _ if ty == Type::Pred => {
                if self.is_int_place(to)
                    && let Arg::Reg(reg) = to
                {
                    let bit = self.bit(from)?;
                    return self.write_int(i, reg, bit);
                }
                let masks = 0..self.width / 16;
                let masks: Vec<Value> = masks
                    .map(|piece| self.mask(from, piece))
                    .collect::<Lowered<_>>()?;
                self.write_masks(i, to, &masks)
            }
            _ => {
                let wide = is_wide(ty);
                if self.is_int_place(to)
                    && let Arg::Reg(reg) = to
                {
                    let value = self.int(from, wide)?;
                    return self.write_int(i, reg, value);
                }
                let values = self.vectors_for(to, from, wide)?;
                self.write(i, to, wide, &values, false)
            }
        }
    }

    /// A register of 32 or 64 bits as its halves.
    fn unpack(&mut self, i: &Instruction, ty: Type, parts: Vec<Arg>, from: Arg) -> Lowered<()> {
        let [low, high] = parts[..] else {
            return Err(Unsupported("more than two parts of a register"));
        };
        let pieces = match self.pieces_for(low, false) {
            1 if low == Arg::Sink => self.pieces_for(high, false),
            pieces => pieces.max(self.pieces_for(high, false)),
        };
        let (mut lower, mut upper) = (Vec::new(), Vec::new());
        for piece in 0..pieces {
            match ty.bits() {
                32 => {
                    let value = self.vector(from, false, piece)?;
                    lower.push(self.low_half(value));
                    upper.push(self.shift(2, false, value, 16));
                }
                64 => {
                    let wide = [0, 1].map(|n| self.vector(from, true, 2 * piece + n));
                    let [one, other] = wide;
                    let (one, other) = (one?, other?);
                    lower.push(self.narrowed(one, other));
                    let one = self.shift(2, true, one, 32);
                    let other = self.shift(2, true, other, 32);
                    upper.push(self.narrowed(one, other));
                }
                _ => return Err(Unsupported("parts of this type")),
            }
        }
        self.write(i, low, false, &lower, false)?;
        self.write(i, high, false, &upper, false)
    }

    fn pack(&mut self, i: &Instruction, ty: Type, to: Arg, parts: Vec<Arg>) -> Lowered<()> {
        let [low, high] = parts[..] else {
            return Err(Unsupported("more than two parts of a register"));
        };
        let wide = is_wide(ty);
        let mut values = Vec::new();
        for piece in 0..self.pieces_for(to, wide) {
            let low = self.source(low, wide, piece)?;
            let high = self.vector(high, wide, piece)?;
            let high = self.shift(6, wide, high, if wide { 32 } else { 16 });
            let code = by_width(wide, v::OR, v::OR64);
            let low = match low {
                // A part is half as wide as the whole.
                Source::Bits(bits) if wide => Source::Bits(bits & 0xFFFF_FFFF),
                Source::Bits(bits) => Source::Bits(bits & 0xFFFF),
                low => low,
            };
            values.push(self.commutative(code, low, Source::Vector(high)));
        }
        self.write(i, to, wide, &values, false)
    }

    pub(in crate::simd::lower) fn cvta(&mut self, i: &Instruction) -> Lowered<()> {
        let to = self.arg(i, 0)?;
        let from = self.arg(i, 1)?;
        let m = &i.modifiers;
        let spaces = [
            M::Shared,
            M::SharedCta,
            M::SharedCluster,
            M::Local,
            M::Global,
            M::Const,
            M::Param,
            M::ParamEntry,
        ];
        let to_space = m.has(M::To);
        let Arg::Reg(reg) = to else {
            return Err(Unsupported("a kind of result"));
        };
        match m.first_of(&spaces) {
            Some(M::Shared | M::SharedCta) => {
                let shared = self.field(LONG, offset::SHARED);
                let op = if to_space { Alu::Sub } else { Alu::Add };
                if self.is_uniform(from) {
                    let value = self.int(from, true)?;
                    let value = self.alu(op, true, value, shared);
                    return self.write_int(i, reg, value);
                }
                let shared = self.splat(shared, true);
                let code = if to_space { v::SUB64 } else { v::ADD64 };
                let mut values = Vec::new();
                for piece in 0..self.pieces(true) {
                    let value = self.source(from, true, piece)?;
                    let value = Source::Vector(self.in_register(value, true));
                    values.push(self.binary(code, value, Source::Vector(shared)));
                }
                self.write(i, to, true, &values, false)
            }
            Some(M::Local) => {
                let frames = self.frames()?;
                let code = if to_space { v::SUB64 } else { v::ADD64 };
                let mut values = Vec::new();
                for (piece, frame) in frames.into_iter().enumerate() {
                    let value = self.source(from, true, piece)?;
                    let value = Source::Vector(self.in_register(value, true));
                    values.push(self.binary(code, value, Source::Vector(frame)));
                }
                self.write(i, to, true, &values, false)
            }
            Some(M::Global | M::Const) => {
                if self.is_int_place(to) {
                    let value = self.int(from, true)?;
                    return self.write_int(i, reg, value);
                }
                let values = self.vectors_for(to, from, true)?;
                self.write(i, to, true, &values, false)
            }
            _ => Err(Unsupported("an address of parameters")),
        }
    }

    pub(in crate::simd::lower) fn convert(&mut self, i: &Instruction) -> Lowered<()> {
        let (to, from) = (self.ty(i, 0)?, self.ty(i, 1)?);
        if i.modifiers.types().nth(2).is_some() {
            return Err(Unsupported("a conversion of several numbers"));
        }
        match (is_integer(to), is_integer(from)) {
            (true, true) => self.integer_to_integer(i, to, from),
            (true, false) => self.float_to_integer(i, to, from),
            (false, true) => self.integer_to_float(i, to, from),
            (false, false) => self.float_to_float(i, to, from),
        }
    }

    fn integer_to_integer(&mut self, i: &Instruction, to: Type, from: Type) -> Lowered<()> {
        let result = self.arg(i, 0)?;
        let source = self.arg(i, 1)?;
        if i.modifiers.has(M::Sat) {
            return Err(Unsupported("a conversion that saturates"));
        }
        // The width that counts, and its sign.
        let counts = if to.bits() <= from.bits() { to } else { from };
        let (bits, signed) = (counts.bits(), is_signed(counts));
        // The bits above the result's type are zeros in a wider register.
        let is_cut = signed && !is_signed(to);
        if self.is_int_place(result)
            && let Arg::Reg(reg) = result
        {
            let value = self.int(source, from.bits() == 64)?;
            let value = self.extended(
                value,
                Memory {
                    bytes: (bits / 8) as u8,
                    signed,
                    wide: true,
                },
            );
            let value = if is_cut && to.bits() < 64 {
                self.extended(
                    value,
                    Memory {
                        bytes: (to.bits() / 8) as u8,
                        signed: false,
                        wide: true,
                    },
                )
            } else {
                value
            };
            return self.write_int(i, reg, value);
        }
        let wide = to.bits() == 64;
        let mut values = Vec::new();
        for piece in 0..self.pieces_for(result, wide) {
            values.push(match (from.bits() == 64, wide) {
                (true, true) => self.vector(source, true, piece)?,
                (_, false) => {
                    let value = self.vector(source, false, piece)?;
                    let value = self.extended_lanes(value, bits, signed);
                    if is_cut {
                        self.extended_lanes(value, to.bits(), false)
                    } else {
                        value
                    }
                }
                (false, true) => {
                    let value = self.vector(source, false, piece / 2)?;
                    let value = self.extended_lanes(value, bits, signed);
                    self.widened(value, piece % 2, signed)
                }
            });
        }
        self.write(i, result, wide, &values, is_signed(to))
    }

    /// The lower bits of lanes of 32 bits, extended.
    fn extended_lanes(&mut self, value: Value, bits: u32, signed: bool) -> Value {
        if bits >= 32 {
            return value;
        }
        let unused = 32 - bits as u8;
        if signed {
            let up = self.shift(6, false, value, unused);
            self.shift(4, false, up, unused)
        } else {
            let mask = u64::from(u32::MAX >> unused);
            self.binary(v::AND, Source::Vector(value), Source::Bits(mask))
        }
    }

    /// How a conversion rounds, as instructions encode it: 0 to nearest, 1 down, 2 up, 3 to zero.
    pub(in crate::simd::lower) fn conversion_rounding(i: &Instruction) -> Option<u8> {
        let roundings = [M::Rn, M::Rz, M::Rm, M::Rp, M::Rni, M::Rzi, M::Rmi, M::Rpi];
        Some(match i.modifiers.first_of(&roundings)? {
            M::Rn | M::Rni => 0,
            M::Rm | M::Rmi => 1,
            M::Rp | M::Rpi => 2,
            _ => 3,
        })
    }

    fn float_to_integer(&mut self, i: &Instruction, to: Type, from: Type) -> Lowered<()> {
        let result = self.arg(i, 0)?;
        let source = self.arg(i, 1)?;
        let from_wide = match from {
            Type::F32 | Type::F16 | Type::Bf16 => false,
            Type::F64 => true,
            _ => return Err(Unsupported("a conversion of this type")),
        };
        // Halves are floats after that.
        let single = |e: &mut Self, piece: usize| {
            if is_half(from) {
                e.converted_half(source, from, piece)
            } else {
                let a = e.source(source, false, piece)?;
                Ok(e.flushed(a, i.modifiers.has(M::Ftz)))
            }
        };
        let rounding = Self::conversion_rounding(i).unwrap_or(3);
        let wide = to.bits() == 64;
        let signed = is_signed(to);
        let mut values = Vec::new();
        for piece in 0..self.pieces_for(result, wide) {
            values.push(match (from_wide, wide) {
                (false, false) => {
                    let a = single(self, piece)?;
                    let a = self.rounded(a, rounding, false);
                    self.whole_number(a, to)
                }
                (true, false) => {
                    let mut halves = [None; 2];
                    for (n, half) in halves.iter_mut().enumerate() {
                        let a = self.source(source, true, 2 * piece + n)?;
                        let a = self.rounded(a, rounding, true);
                        *half = Some(self.double_to_int32(a, to));
                    }
                    let [Some(low), Some(high)] = halves else {
                        return Err(Unsupported("an operand is missing"));
                    };
                    self.joined(low, high)
                }
                (_, true) => {
                    let a = if from_wide {
                        self.source(source, true, piece)?
                    } else {
                        let a = single(self, piece / 2)?;
                        let a = self.in_register(a, false);
                        let half = self.half_of(a, piece % 2);
                        Source::Vector(self.converted(v::F32_TO_F64, half))
                    };
                    let a = self.rounded(a, rounding, true);
                    self.double_to_int64(a, signed)
                }
            });
        }
        self.write(i, result, wide, &values, signed)
    }

    /// Rounds to a whole number.
    fn rounded(&mut self, a: Source, rounding: u8, wide: bool) -> Source {
        if rounding == 3 {
            // Conversions truncate.
            return a;
        }
        let code = by_width(wide, v::ROUND_F32, v::ROUND_F64);
        Source::Vector(self.unary_with(code, a, Some(8 | rounding), CURRENT))
    }

    /// A whole number as an integer of up to 32 bits, clamped; NaN as 0.
    fn whole_number(&mut self, a: Source, to: Type) -> Value {
        let a = Source::Vector(self.in_register(a, false));
        if !is_signed(to) {
            // Of a NaN and a number, the maximum is the second operand.
            let a = self.binary(v::MAX_F32, a, Source::Bits(0));
            let value = self.unary(v::F32_TRUNCATED_TO_U32, Source::Vector(a));
            return self.clamped(value, to);
        }
        let value = self.unary(v::F32_TRUNCATED_TO_I32, a);
        let limit = Source::Bits(2_147_483_648.0_f32.to_bits().into());
        let is_large = self.compared(v::COMPARE_F32, a, limit, Some(0x1D), None);
        let value = self.blended(
            false,
            is_large,
            Source::Bits(0x7FFF_FFFF),
            Source::Vector(value),
        );
        let is_nan = self.compared(v::COMPARE_F32, a, a, Some(3), None);
        let zero = Source::Vector(self.in_register(Source::Bits(0), false));
        let value = self.blended(false, is_nan, zero, Source::Vector(value));
        self.clamped(value, to)
    }

    fn clamped(&mut self, value: Value, to: Type) -> Value {
        let bits = to.bits();
        if bits >= 32 {
            return value;
        }
        if is_signed(to) {
            let most = (1_u64 << (bits - 1)) - 1;
            let value = self.binary(v::MIN_S, Source::Vector(value), Source::Bits(most));
            let least = !most & 0xFFFF_FFFF;
            self.binary(v::MAX_S, Source::Vector(value), Source::Bits(least))
        } else {
            let most = (1_u64 << bits) - 1;
            self.binary(v::MIN_U, Source::Vector(value), Source::Bits(most))
        }
    }

    /// The same of doubles, of which a NaN becomes the number with the uppermost bit. Eight lanes.
    fn double_to_int32(&mut self, a: Source, to: Type) -> Value {
        let a = Source::Vector(self.in_register(a, true));
        let is_nan = self.compared(v::COMPARE_F64, a, a, Some(3), None);
        let bits = to.bits();
        let value = if is_signed(to) {
            let limit = Source::Bits(2_147_483_647.0_f64.to_bits());
            let small = self.binary(v::MIN_F64, a, limit);
            self.converted(v::F64_TRUNCATED_TO_I32, small)
        } else {
            let positive = self.binary(v::MAX_F64, a, Source::Bits(0));
            self.converted(v::F64_TRUNCATED_TO_U32, positive)
        };
        let value = self.clamped(value, to);
        let nan = Source::Bits(1 << (bits - 1));
        self.blended(false, is_nan, nan, Source::Vector(value))
    }

    /// A double as an integer of 64 bits, of which a NaN becomes the one with the uppermost bit.
    fn double_to_int64(&mut self, a: Source, signed: bool) -> Value {
        let a = Source::Vector(self.in_register(a, true));
        let is_nan = self.compared(v::COMPARE_F64, a, a, Some(3), None);
        let value = if signed {
            let value = self.unary(v::F64_TRUNCATED_TO_I64, a);
            let limit = Source::Bits(9_223_372_036_854_775_808.0_f64.to_bits());
            let is_large = self.compared(v::COMPARE_F64, a, limit, Some(0x1D), None);
            let most = Source::Bits(i64::MAX as u64);
            self.blended(true, is_large, most, Source::Vector(value))
        } else {
            let positive = self.binary(v::MAX_F64, a, Source::Bits(0));
            self.unary(v::F64_TRUNCATED_TO_U64, Source::Vector(positive))
        };
        let nan = Source::Bits(1 << 63);
        self.blended(true, is_nan, nan, Source::Vector(value))
    }

    fn integer_to_float(&mut self, i: &Instruction, to: Type, from: Type) -> Lowered<()> {
        let result = self.arg(i, 0)?;
        let source = self.arg(i, 1)?;
        let to_wide = match to {
            Type::F32 => false,
            Type::F64 => true,
            _ => return Err(Unsupported("a conversion to halves")),
        };
        let rounding = match Self::conversion_rounding(i) {
            None | Some(0) => CURRENT,
            Some(rounding) => rounding,
        };
        let signed = is_signed(from);
        let mut values = Vec::new();
        for piece in 0..self.pieces_for(result, to_wide) {
            let value = match (from.bits() == 64, to_wide) {
                (false, false) => {
                    let a = self.integer_source(source, from, piece)?;
                    let code = if signed { v::I32_TO_F32 } else { v::U32_TO_F32 };
                    self.unary_with(code, a, None, rounding)
                }
                (false, true) => {
                    let a = self.integer_source(source, from, piece / 2)?;
                    let a = self.in_register(a, false);
                    let half = self.half_of(a, piece % 2);
                    let code = if signed { v::I32_TO_F64 } else { v::U32_TO_F64 };
                    self.converted(code, half)
                }
                (true, true) => {
                    let a = self.source(source, true, piece)?;
                    let code = if signed { v::I64_TO_F64 } else { v::U64_TO_F64 };
                    self.unary_with(code, a, None, rounding)
                }
                (true, false) => {
                    let code = if signed { v::I64_TO_F32 } else { v::U64_TO_F32 };
                    let mut halves = [None; 2];
                    for (n, half) in halves.iter_mut().enumerate() {
                        let a = self.source(source, true, 2 * piece + n)?;
                        *half = Some(self.unary_with(code, a, None, rounding));
                    }
                    let [Some(low), Some(high)] = halves else {
                        return Err(Unsupported("an operand is missing"));
                    };
                    self.joined(low, high)
                }
            };
            values.push(if i.modifiers.has(M::Sat) {
                self.saturated(value, to_wide)
            } else {
                value
            });
        }
        self.write(i, result, to_wide, &values, false)
    }

    fn float_to_float(&mut self, i: &Instruction, to: Type, from: Type) -> Lowered<()> {
        let result = self.arg(i, 0)?;
        let source = self.arg(i, 1)?;
        let known = [to, from]
            .iter()
            .all(|ty| matches!(ty, Type::F32 | Type::F64));
        if !known {
            return if is_half(to) {
                self.convert_to_half(i, to)
            } else {
                self.convert_from_half(i, (to, from))
            };
        }
        let (to_wide, from_wide) = (to == Type::F64, from == Type::F64);
        let flush = i.modifiers.has(M::Ftz);
        let rounding = Self::conversion_rounding(i);
        let mut values = Vec::new();
        for piece in 0..self.pieces_for(result, to_wide) {
            let value = match (from_wide, to_wide) {
                (false, true) => {
                    let a = self.source(source, false, piece / 2)?;
                    let a = self.flushed(a, flush);
                    let a = self.in_register(a, false);
                    let half = self.half_of(a, piece % 2);
                    self.converted(v::F32_TO_F64, half)
                }
                (true, false) => {
                    let er = match rounding {
                        None | Some(0) => CURRENT,
                        Some(rounding) => rounding,
                    };
                    let mut halves = [None; 2];
                    for (n, half) in halves.iter_mut().enumerate() {
                        let a = self.source(source, true, 2 * piece + n)?;
                        *half = Some(self.unary_with(v::F64_TO_F32, a, None, er));
                    }
                    let [Some(low), Some(high)] = halves else {
                        return Err(Unsupported("an operand is missing"));
                    };
                    let value = self.joined(low, high);
                    let value = self.flushed(Source::Vector(value), flush);
                    self.in_register(value, false)
                }
                (_, wide) => {
                    let a = self.source(source, wide, piece)?;
                    let a = self.flushed(a, flush && !wide);
                    match rounding {
                        None => self.in_register(a, wide),
                        Some(rounding) => {
                            let code = by_width(wide, v::ROUND_F32, v::ROUND_F64);
                            self.unary_with(code, a, Some(8 | rounding), CURRENT)
                        }
                    }
                }
            };
            values.push(if i.modifiers.has(M::Sat) {
                self.saturated(value, to_wide)
            } else {
                value
            });
        }
        self.write(i, result, to_wide, &values, false)
    }
}

fn parts_of(lowering: &Lowering<'_, '_>, list: crate::program::ArgList) -> Vec<Arg> {
    lowering.program.list(list).to_vec()
}
