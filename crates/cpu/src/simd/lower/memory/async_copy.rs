//! `cp.async`, which is executed at once: the runtime copies, one lane after the other.

use crate::program::{Arg, Base, Instruction, RegClass};
use crate::runtime::Helper;
use crate::simd::lower::{Lowered, Lowering, Source, Unsupported};
use crate::simd::machine::Value;
use crate::simd::opcodes as v;
use ptx::names::Modifier as M;

impl Lowering<'_, '_> {
    pub(in crate::simd::lower) fn copy_async(&mut self, i: &Instruction) -> Lowered<()> {
        let m = &i.modifiers;
        let is_other = m.first_of(&[M::Bulk, M::Mbarrier]).is_some() || !m.has(M::Async);
        if is_other || i.guard.is_some() {
            return Err(Unsupported("a copy of this kind"));
        }
        // Copies are complete when the next instruction is executed.
        let waits = [M::CommitGroup, M::WaitGroup, M::WaitAll];
        if m.first_of(&waits).is_some() {
            return Ok(());
        }
        let operands = (self.arg(i, 0)?, self.arg(i, 1)?, self.arg(i, 2)?);
        let (
            Arg::Address(Base::Reg(to), to_offset),
            Arg::Address(Base::Reg(from), from_offset),
            Arg::Int(size @ (4 | 8 | 16)),
        ) = operands
        else {
            return Err(Unsupported("operands of a copy of this kind"));
        };
        // The last operand may be a cache policy, which has no effect.
        let all = self.program.list(i.args).len();
        let has_count = all - usize::from(m.has(M::L2CacheHint)) > 3;
        for piece in 0..self.width / 16 {
            let to = self.vector(Arg::Reg(to), false, piece)?;
            let offset = Source::Bits(u64::from(to_offset.bytes() as u32));
            let to = self.binary(v::ADD, Source::Vector(to), offset);
            let [low, high] = [
                self.vector(Arg::Reg(from), true, 2 * piece)?,
                self.vector(Arg::Reg(from), true, 2 * piece + 1)?,
            ];
            let [low, high] = [low, high].map(|half| self.plus(half, from_offset.bytes()));
            let count = if has_count {
                self.copied_bytes(i, size, piece)?
            } else {
                self.in_register(Source::Bits(size), false)
            };
            let request = u64::from(self.line) << 32 | size;
            let vectors = [low, high, to, count];
            self.call_for_active((Helper::copy_lanes_async, request), piece, &vectors);
        }
        Ok(())
    }

    /// The bytes that lanes copy: a number, or none where a predicate says so.
    fn copied_bytes(&mut self, i: &Instruction, size: u64, piece: usize) -> Lowered<Value> {
        let count = self.arg(i, 3)?;
        match count {
            Arg::Reg(reg) | Arg::Not(reg) if self.class(reg) == RegClass::Pred => {
                let ignores = self.mask(count, piece)?;
                let zero = Source::Vector(self.in_register(Source::Bits(0), false));
                let all = Source::Vector(self.in_register(Source::Bits(size), false));
                Ok(self.blended(false, ignores, zero, all))
            }
            _ => self.vector(count, false, piece),
        }
    }
}
