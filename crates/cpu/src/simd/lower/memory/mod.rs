//! Loads, stores and atomic operations.

pub(super) mod address;
mod async_copy;
mod atomic;
mod contiguous;
mod element;
mod indexed;
mod load;
mod spans;
mod store;

use crate::program::Arg;
use crate::simd::lower::{Lowered, Lowering, Place, Source};
use crate::simd::machine::Value;
use crate::simd::opcodes as v;

impl Lowering<'_, '_> {
    pub(in crate::simd::lower) fn parts(&self, arg: Arg) -> Vec<Arg> {
        match arg {
            Arg::List(list) => self.program.list(list).to_vec(),
            single => vec![single],
        }
    }

    /// The vectors of an operand that a result needs: one if all its lanes are the same.
    pub(in crate::simd::lower) fn vectors_for(
        &mut self,
        to: Arg,
        from: Arg,
        wide: bool,
    ) -> Lowered<Vec<Value>> {
        let pieces = self.pieces_for(to, wide);
        (0..pieces)
            .map(|piece| self.vector(from, wide, piece))
            .collect()
    }

    /// The vectors of a result: one if all its lanes are the same.
    pub(in crate::simd::lower) fn pieces_for(&self, to: Arg, wide: bool) -> usize {
        let is_uniform = match to {
            Arg::Reg(reg) => !matches!(self.places[reg.index()], Place::Lanes(_)),
            _ => false,
        };
        if is_uniform { 1 } else { self.pieces(wide) }
    }

    fn offset_by(&mut self, lanes: Value, wide: bool, offset: u32) -> Value {
        let code = if wide { v::ADD64 } else { v::ADD };
        match offset {
            0 => lanes,
            _ => self.binary(code, Source::Vector(lanes), Source::Bits(offset.into())),
        }
    }
}
