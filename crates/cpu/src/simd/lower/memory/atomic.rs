//! Atomic operations. On shared memory, which one host thread accesses, lanes with different addresses are
//! updated together. For others, the runtime updates one lane after the other.

use super::address::Address;
use crate::abi::Access;
use crate::optimization::Optimization;
use crate::program::{Arg, Instruction};
use crate::runtime::Helper;
use crate::runtime::{AtomicOperation, Update};
use crate::simd::lower::{Lowered, Lowering, Source, Unsupported};
use crate::simd::machine::{Condition, Evex, MASK, Value, ZMM};
use crate::simd::opcodes as v;
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

/// A vector update of values of 32 bits.
#[derive(Clone, Copy)]
enum VectorUpdate {
    Operation(Evex),
    Exchange,
}

/// The vector update of an operation on shared memory, if there is one.
fn vector_update(operation: AtomicOperation) -> Option<VectorUpdate> {
    if !operation.is_alone || operation.is_wide || operation.is_float {
        return None;
    }
    let code = match (operation.update, operation.is_signed) {
        (Update::Add, _) => v::ADD,
        (Update::And, _) => v::AND,
        (Update::Or, _) => v::OR,
        (Update::Xor, _) => v::XOR,
        (Update::Min, true) => v::MIN_S,
        (Update::Min, false) => v::MIN_U,
        (Update::Max, true) => v::MAX_S,
        (Update::Max, false) => v::MAX_U,
        (Update::Exchange, _) => return Some(VectorUpdate::Exchange),
        _ => return None,
    };
    Some(VectorUpdate::Operation(code))
}

impl Lowering<'_, '_> {
    /// Updates shared memory at the offsets of the lanes. A lane waits for earlier lanes with the same
    /// address.
    fn update_shared(
        &mut self,
        i: &Instruction,
        (base, offsets): (Value, &[Value]),
        update: VectorUpdate,
        at: usize,
    ) -> Lowered<()> {
        let mut results = Vec::new();
        for (piece, &offsets) in offsets.iter().enumerate() {
            let operand = self.arg(i, at + 1)?;
            let operand = self.vector(operand, false, piece)?;
            let zero = self.in_register(Source::Bits(0), false);
            let active = match &self.active {
                Some(active) => active[piece],
                None => self.b.ones(),
            };
            let conflicts = self.unary(v::CONFLICTS, Source::Vector(offsets));
            let [waiting, result] = [MASK, ZMM].map(|class| self.b.variable(class));
            self.b.set(waiting, active);
            self.b.set(result, zero);
            let [head, done] = [(); 2].map(|()| self.b.block());
            self.b.jump(head);
            self.b.enter(head);
            let waits = self.b.get(waiting);
            let bits = self.mask_to_int(waits);
            let bits = self.splat(bits, false);
            let (conflicts, bits) = (Source::Vector(conflicts), Source::Vector(bits));
            let ready = self.compared(v::HAVE_NO_BIT, conflicts, bits, None, Some(waits));
            let old = self.gather(v::GATHER_BY_WORDS, 0, (base, offsets), zero, ready);
            let new = match update {
                VectorUpdate::Operation(code) => {
                    self.binary(code, Source::Vector(old), Source::Vector(operand))
                }
                VectorUpdate::Exchange => operand,
            };
            self.scatter((v::SCATTER_BY_WORDS, 0), new, (base, offsets), ready);
            let known = self.b.get(result);
            let (old, known) = (Source::Vector(old), Source::Vector(known));
            let merged = self.blended(false, ready, old, known);
            self.b.set(result, merged);
            let rest = self.mask_without(ready, waits);
            self.b.set(waiting, rest);
            self.test_masks(&[rest]);
            self.b.branch(Condition::NotEqual, head, done);
            self.b.seal(head);
            self.b.enter_sealed(done);
            results.push(self.b.get(result));
        }
        match i.opcode {
            O::Atom => {
                let to = self.arg(i, 0)?;
                self.write(i, to, false, &results, false)
            }
            _ => Ok(()),
        }
    }

    pub(in crate::simd::lower) fn atomic(&mut self, i: &Instruction) -> Lowered<()> {
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
        if let (Address::Offsets(base, lanes, _), Some(update)) = (
            &address,
            Optimization::VectorAtomics.at(vector_update(operation)),
        ) {
            let (base, lanes) = (*base, lanes.clone());
            return self.update_shared(i, (base, &lanes), update, at);
        }
        let mut results: Vec<Value> = Vec::new();
        for piece in 0..self.width / 16 {
            let addresses = self.host_addresses(&address, piece, 0);
            let mut vectors = addresses.to_vec();
            for n in [at + 1, at + 2] {
                let arg = if n == at + 1 || (operation.update == Update::CompareAndSwap) {
                    self.arg(i, n)?
                } else {
                    Arg::Int(0)
                };
                if wide {
                    vectors.push(self.vector(arg, true, 2 * piece)?);
                    vectors.push(self.vector(arg, true, 2 * piece + 1)?);
                } else {
                    let value = self.vector(arg, false, piece)?;
                    vectors.extend([value, value]);
                }
            }
            let request = (Helper::atomic_lanes, operation.encoded());
            self.call_for_active(request, piece, &vectors);
            if has_result {
                results.push(self.load_lanes_at(2));
                if wide {
                    results.push(self.load_lanes_at(3));
                }
            }
        }
        if has_result {
            let to = self.arg(i, 0)?;
            self.write(i, to, wide, &results, false)
        } else {
            Ok(())
        }
    }
}
