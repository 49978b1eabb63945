//! Conversions of several values at once: floats of 4 to 8 bits in pairs, and `cvt.pack`.

use cranelift_codegen::ir::{InstBuilder, Value, types};

use crate::codegen::emitter::rounding::rounding_of;
use crate::codegen::emitter::{EmitResult, Emitter, is_signed};
use crate::math::rounding::Rounding;
use crate::math::stochastic::Target;
use crate::program::{Arg, Instruction};
use crate::runtime::Helper;
use ptx::names::{Modifier as M, Type as P};

/// A float of 4 to 8 bits, two of which are in a register.
#[derive(Clone, Copy)]
pub(in crate::codegen) struct Small {
    /// Bits from one to the other.
    bits: u64,
    /// Without a sign: a power of two.
    is_scale: bool,
    /// From `f32`, clamped.
    narrow: Helper,
    /// To `f16`; of a scale, to `bf16`.
    widen: Helper,
}

impl Small {
    pub fn of(pair: P) -> Option<Small> {
        let (bits, narrow, widen) = match pair {
            P::E4m3x2 => (8, Helper::f32_to_e4m3, Helper::e4m3_to_f16),
            P::E5m2x2 => (8, Helper::f32_to_e5m2, Helper::e5m2_to_f16),
            P::E2m3x2 => (8, Helper::f32_to_e2m3, Helper::e2m3_to_f16),
            P::E3m2x2 => (8, Helper::f32_to_e3m2, Helper::e3m2_to_f16),
            P::E2m1x2 => (4, Helper::f32_to_e2m1, Helper::e2m1_to_f16),
            P::Ue8m0x2 => (8, Helper::f32_to_ue8m0, Helper::ue8m0_to_bf16),
            _ => return None,
        };
        Some(Small {
            bits,
            is_scale: pair == P::Ue8m0x2,
            narrow,
            widen,
        })
    }
}

impl Emitter<'_, '_> {
    /// `cvt` from or to a pair of small floats.
    pub fn convert_small(&mut self, i: &Instruction, to: P, from: P) -> EmitResult<()> {
        let m = &i.modifiers;
        if m.first_of(&[M::ScaledN1Ue8m0, M::ScaledN2Ue8m0]).is_some() {
            return self.unsupported(i, "a conversion with scales");
        }
        match (Small::of(to), Small::of(from)) {
            (Some(small), None) => {
                let rounding = rounding_of(i).unwrap_or(Rounding::Nearest);
                if !small.is_scale && rounding != Rounding::Nearest {
                    return self.unsupported(i, "a rounding other than to the nearest");
                }
                // The first operand becomes the upper half.
                let [high, low] = match from {
                    P::F32 => [
                        self.operand(i, 1, types::F32)?,
                        self.operand(i, 2, types::F32)?,
                    ],
                    P::F16x2 | P::Bf16x2 => {
                        // Exact: the result is still rounded once.
                        let [low, high] = self.halves(i, 1, 16)?;
                        [high, low].map(|half| self.half_to_float(half, from == P::Bf16x2))
                    }
                    _ => return self.unsupported(i, "unsupported type"),
                };
                let [high, low] = [high, low].map(|value| {
                    let value = self.rectified(i, value);
                    if !small.is_scale {
                        return self.call(small.narrow, &[value]);
                    }
                    let rounding = self.int(types::I32, rounding as u64);
                    self.call(small.narrow, &[value, rounding])
                });
                let pair = self.packed(low, high, small.bits);
                let ty = if small.bits == 4 {
                    types::I8
                } else {
                    types::I16
                };
                let pair = self.coerce(pair, ty);
                self.result(i, pair)
            }
            (None, Some(small)) => {
                let is_bf16 = to == P::Bf16x2;
                if !is_bf16 && (to != P::F16x2 || small.is_scale) {
                    return self.unsupported(i, "unsupported type");
                }
                let halves = self.halves(i, 1, small.bits)?;
                let [low, high] = halves.map(|bits| {
                    let mut half = self.call(small.widen, &[bits]);
                    if is_bf16 && !small.is_scale {
                        // Exact: bf16 has all of these numbers.
                        half = self.half_to_float(half, false);
                        half = self.float_to_half(half, true, Rounding::Nearest);
                    }
                    self.rectified_half(i, half, is_bf16)
                });
                let pair = self.packed(low, high, 16);
                self.result(i, pair)
            }
            _ => self.unsupported(i, "unsupported type"),
        }
    }

    /// `cvt.rs` to halves, of which the upper one is that of the first operand. Each half of the random
    /// bits is for one.
    pub fn stochastic_halves(&mut self, i: &Instruction, is_bf16: bool) -> EmitResult<[Value; 2]> {
        let target = if is_bf16 { Target::Bf16 } else { Target::F16 };
        let target = self.int(types::I32, target as u64);
        let random = self.operand(i, 3, types::I32)?;
        let by = self.int(types::I32, 16);
        let upper = self.b.ins().ushr(random, by);
        let mut halves = [upper, random];
        for (half, at) in halves.iter_mut().zip(1..) {
            let a = self.operand(i, at, types::F32)?;
            let rounded = self.call(Helper::round_stochastic, &[a, *half, target]);
            let bits = self.float_to_half(rounded, is_bf16, Rounding::Nearest);
            *half = self.rectified_half(i, bits, is_bf16);
        }
        Ok(halves)
    }

    /// `cvt.rs` of four floats, of which the first has the upper bits. Two share half of the random
    /// bits, which are for the first of them from the last to the first, as on sm_100a.
    pub fn convert_four(&mut self, i: &Instruction, to: P) -> EmitResult<()> {
        let (pair, target) = match to {
            P::E4m3x4 => (P::E4m3x2, Target::E4m3),
            P::E5m2x4 => (P::E5m2x2, Target::E5m2),
            P::E2m3x4 => (P::E2m3x2, Target::E2m3),
            P::E3m2x4 => (P::E3m2x2, Target::E3m2),
            _ => (P::E2m1x2, Target::E2m1),
        };
        let (Some(small), Arg::List(list)) = (Small::of(pair), self.arg(i, 1)?) else {
            return self.unsupported(i, "unsupported operand");
        };
        let random = self.operand(i, 2, types::I32)?;
        let backwards = self.b.ins().bitrev(random);
        let by = self.int(types::I32, 16);
        let upper = self.b.ins().ushr(random, by);
        let lower_backwards = self.b.ins().ushr(backwards, by);
        let bits = [backwards, upper, lower_backwards, random];
        let target = self.int(types::I32, target as u64);
        let by = self.int(types::I32, small.bits);
        let mut all: Option<Value> = None;
        for (&arg, random) in self.list(list).iter().zip(bits) {
            // The operands are of type `.b32`: a constant has the bits of a float.
            let bits = self.read(arg, types::I32)?;
            let a = self.coerce(bits, types::F32);
            let a = self.rectified(i, a);
            let rounded = self.call(Helper::round_stochastic, &[a, random, target]);
            let one = self.call(small.narrow, &[rounded]);
            all = Some(match all {
                Some(all) => {
                    let all = self.b.ins().ishl(all, by);
                    self.b.ins().bor(all, one)
                }
                None => one,
            });
        }
        let Some(all) = all else {
            return self.unsupported(i, "unsupported operand");
        };
        let ty = if small.bits == 4 {
            types::I16
        } else {
            types::I32
        };
        let all = self.coerce(all, ty);
        self.result(i, all)
    }

    /// The lower and the upper `bits` bits of twice as many, each in an `i32`.
    fn halves(&mut self, i: &Instruction, at: usize, bits: u64) -> EmitResult<[Value; 2]> {
        let ty = if bits == 16 { types::I32 } else { types::I16 };
        let pair = self.operand(i, at, ty)?;
        let pair = self.coerce(pair, types::I32);
        let mask = self.int(types::I32, (1 << bits) - 1);
        let by = self.int(types::I32, bits);
        let low = self.b.ins().band(pair, mask);
        let high = self.b.ins().ushr(pair, by);
        Ok([low, self.b.ins().band(high, mask)])
    }

    /// `low`, and `high` from bit `bits` on.
    fn packed(&mut self, low: Value, high: Value, bits: u64) -> Value {
        let by = self.int(types::I32, bits);
        let high = self.b.ins().ishl(high, by);
        self.b.ins().bor(low, high)
    }

    /// `cvt.pack`: two clamped integers, and above them the lower bits of the third operand.
    pub fn convert_packed(&mut self, i: &Instruction) -> EmitResult<()> {
        let to = self.ty(i, 0)?;
        let bits = u64::from(to.bits());
        if !(1..=16).contains(&bits) {
            return self.unsupported(i, "unsupported type");
        }
        let (least, most) = if is_signed(to) || matches!(to, P::S4 | P::S2) {
            (-1_i64 << (bits - 1), (1_i64 << (bits - 1)) - 1)
        } else {
            (0, (1 << bits) - 1)
        };
        let mut parts = [None; 2];
        for (at, part) in parts.iter_mut().enumerate() {
            let value = self.operand(i, at + 1, types::I32)?;
            let least = self.int(types::I32, least.cast_unsigned());
            let most = self.int(types::I32, most.cast_unsigned());
            let value = self.b.ins().smax(value, least);
            let value = self.b.ins().smin(value, most);
            let mask = self.int(types::I32, (1 << bits) - 1);
            *part = Some(self.b.ins().band(value, mask));
        }
        let [Some(high), Some(low)] = parts else {
            return self.unsupported(i, "an operand is missing");
        };
        let mut value = self.packed(low, high, bits);
        if self.arg_count(i) > 3 {
            let rest = self.operand(i, 3, types::I32)?;
            value = self.packed(value, rest, 2 * bits);
        }
        self.result(i, value)
    }
}
