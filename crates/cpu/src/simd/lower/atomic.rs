//! Atomic operations, which the runtime makes one lane after the other.

use regalloc2::Operand;

use super::{Lowered, Lowering, Unsupported};
use crate::abi::Access;
use crate::program::{Arg, Instruction};
use crate::runtime::Helper;
use crate::runtime::{AtomicOperation, Update};
use crate::simd::machine::{Op, Value};
use ptx::names::{Modifier as M, Opcode as O, Type};

/// The operation of an instruction, if there is one for its type.
fn operation_of(i: &Instruction, ty: Type) -> Option<AtomicOperation> {
    let updates = [
        (M::Add, Update::Add),
        (M::Min, Update::Min),
        (M::Max, Update::Max),
        (M::And, Update::And),
        (M::Or, Update::Or),
        (M::Xor, Update::Xor),
        (M::Exch, Update::Exchange),
        (M::Cas, Update::CompareAndSwap),
        (M::Inc, Update::Increment),
        (M::Dec, Update::Decrement),
    ];
    let mut updates = updates.into_iter();
    let (_, update) = updates.find(|(modifier, _)| i.modifiers.has(*modifier))?;
    let is_float = matches!(ty, Type::F32 | Type::F64);
    let fits = match ty {
        Type::F32 | Type::F64 => update == Update::Add,
        Type::F16 | Type::Bf16 | Type::F16x2 | Type::Bf16x2 => false,
        _ => matches!(ty.bits(), 32 | 64),
    };
    let shared = [M::Shared, M::SharedCta, M::SharedCluster];
    let is_shared = shared.iter().any(|space| i.modifiers.has(*space));
    fits.then_some(AtomicOperation {
        update,
        is_wide: ty.bits() == 64,
        is_signed: matches!(ty, Type::S32 | Type::S64),
        is_float,
        flushes: ty == Type::F32 && !is_shared,
        // The threads of a block share a host thread.
        is_alone: is_shared,
    })
}

impl Lowering<'_, '_> {
    pub(super) fn atomic(&mut self, i: &Instruction) -> Lowered<()> {
        let ty = self.ty(i, 0)?;
        let has_result = i.opcode == O::Atom;
        let at = usize::from(has_result);
        let Some(operation) = operation_of(i, ty) else {
            return Err(Unsupported("an atomic operation"));
        };
        if matches!(self.arg(i, at + 1)?, Arg::List(_))
            || i.modifiers.has(M::MbarrierCompleteTxBytes)
        {
            return Err(Unsupported("an atomic operation on a vector"));
        }
        let bytes = ty.bits() / 8;
        let wide = bytes == 8;
        let address = self.address(i, at, bytes, Access::WRITE)?;
        let mut results: Vec<Value> = Vec::new();
        for piece in 0..self.width / 16 {
            let addresses = self.host_addresses(&address, piece, 0);
            let mut vectors = addresses.to_vec();
            for n in [at + 1, at + 2] {
                let arg = match n == at + 1 || (operation.update == Update::CompareAndSwap) {
                    true => self.arg(i, n)?,
                    false => Arg::Int(0),
                };
                match wide {
                    true => {
                        vectors.push(self.vector(arg, true, 2 * piece)?);
                        vectors.push(self.vector(arg, true, 2 * piece + 1)?);
                    }
                    false => {
                        let value = self.vector(arg, false, piece)?;
                        vectors.extend([value, value]);
                    }
                }
            }
            let mask = match &self.active {
                Some(active) => active[piece],
                None => self.b.ones(),
            };
            let call = self.call_number(Helper::atomic_lanes, [operation.encoded(), 0]);
            self.store_lanes_at(&vectors);
            self.b
                .emit(Op::StoreMaskLanes { at: 0 }, [Operand::reg_use(mask)]);
            self.b.emit(Op::CallLanes { call }, []);
            if has_result {
                results.push(self.load_lanes_at(2));
                if wide {
                    results.push(self.load_lanes_at(3));
                }
            }
        }
        match has_result {
            true => {
                let to = self.arg(i, 0)?;
                self.write(i, to, wide, &results, false)
            }
            false => Ok(()),
        }
    }
}
