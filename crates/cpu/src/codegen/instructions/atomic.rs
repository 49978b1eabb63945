//! `atom` and `red` (PTX ISA, "Parallel Synchronization": atomics).
//!
//! Cranelift has sequentially consistent integer atomics. All others are
//! compare-and-swap loops.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{AtomicRmwOp, InstBuilder, MemFlagsData, Type, Value, types};

use crate::abi::Access;
use crate::codegen::emitter::{EmitResult, Emitter, is_signed};
use crate::program::{Arg, Instruction};
use crate::runtime::Helper;
use ptx::names::{Modifier as M, Opcode as O, Type as P};

const OPERATIONS: &[M] = &[
    M::Add,
    M::Min,
    M::Max,
    M::And,
    M::Or,
    M::Xor,
    M::Exch,
    M::Cas,
    M::Inc,
    M::Dec,
];

impl Emitter<'_, '_> {
    pub fn atomic(&mut self, i: &Instruction) -> EmitResult<()> {
        let atom = i.opcode == O::Atom;
        let ptx = self.ty(i, 0)?;
        let Some(operation) = i.modifiers.first_of(OPERATIONS) else {
            return self.unsupported(i, "unsupported operation");
        };
        let Some(ty) = Type::int(ptx.bits() as u16) else {
            return self.unsupported(i, "unsupported type");
        };
        let address_at = usize::from(atom);
        let value_at = address_at + 1;
        let values = self.arg(i, value_at)?;
        let values = match &values {
            Arg::List(list) => self.list(*list),
            single => std::slice::from_ref(single),
        };
        if ty == types::I64 && values.len() == 2 {
            return self.atomic_of_128_bits(i, operation);
        }
        let width = ty.bytes() * values.len() as u32;
        let at = self.checked_address(i, address_at, width, true)?;
        let flags = MemFlagsData::trusted();

        let rmw_op = match (operation, ptx) {
            (M::Exch, _) => Some(AtomicRmwOp::Xchg),
            (_, P::F16 | P::F16x2 | P::Bf16 | P::Bf16x2 | P::F32 | P::F64) => None,
            (M::Add, _) => Some(AtomicRmwOp::Add),
            (M::And, _) => Some(AtomicRmwOp::And),
            (M::Or, _) => Some(AtomicRmwOp::Or),
            (M::Xor, _) => Some(AtomicRmwOp::Xor),
            (M::Min, _) if is_signed(ptx) => Some(AtomicRmwOp::Smin),
            (M::Min, _) => Some(AtomicRmwOp::Umin),
            (M::Max, _) if is_signed(ptx) => Some(AtomicRmwOp::Smax),
            (M::Max, _) => Some(AtomicRmwOp::Umax),
            _ => None,
        };
        let results = match (atom, self.arg(i, 0)?) {
            (false, _) => Vec::new(),
            (_, Arg::List(list)) => self.list(list).to_vec(),
            (_, single) => vec![single],
        };
        // Before the first result is written: it may be in a register of another operand.
        let values = values.iter().map(|&value| self.read(value, ty));
        let values = values.collect::<EmitResult<Vec<_>>>()?;
        let new = match operation {
            M::Cas => Some(self.operand(i, value_at + 1, ty)?),
            _ => None,
        };
        // The blocks of a cluster share a host thread.
        let alone = i
            .modifiers
            .first_of(&[M::Shared, M::SharedCta, M::SharedCluster]);
        let alone = alone.is_some();
        // Each element of a vector by itself.
        for (n, value) in values.into_iter().enumerate() {
            let offset = i64::from(at.offset) + n as i64 * i64::from(ty.bytes());
            let address = self.add_offset(at.address, offset);
            let old = if alone {
                let old = self.b.ins().load(ty, flags, address, 0);
                let new = match (rmw_op, new) {
                    (Some(rmw_op), _) => self.integer_result(rmw_op, old, value),
                    (None, Some(new)) => {
                        let same = self.b.ins().icmp(IntCC::Equal, old, value);
                        self.b.ins().select(same, new, old)
                    }
                    (None, None) => self.rmw_result(i, operation, ptx, ty, old, value)?,
                };
                self.b.ins().store(flags, new, address, 0);
                old
            } else if let Some(rmw_op) = rmw_op {
                self.b.ins().atomic_rmw(ty, flags, rmw_op, address, value)
            } else if let Some(new) = new {
                self.b.ins().atomic_cas(flags, address, value, new)
            } else {
                self.compare_and_swap_loop(i, operation, ptx, ty, address, value)?
            };
            if let Some(&to) = results.get(n) {
                self.write(i, to, old)?;
            }
        }
        self.observe(i, at, width | Access::WRITE | Access::ATOMIC);
        if i.modifiers.has(M::MbarrierCompleteTxBytes) {
            return self.count_bytes(i, value_at + 1, width);
        }
        Ok(())
    }

    /// `atom.exch` and `atom.cas` of 128 bits, whose operands are pairs of 64.
    fn atomic_of_128_bits(&mut self, i: &Instruction, operation: M) -> EmitResult<()> {
        if !self.has_wide_atomics {
            return self.unsupported(i, "atomics of 128 bits, which this processor lacks");
        }
        let at = self.checked_address(i, 1, 16, true)?;
        let address = self.add_offset(at.address, at.offset.into());
        let value = self.wide_operand(i, 2)?;
        let flags = MemFlagsData::trusted();
        let old = match operation {
            M::Cas => {
                let new = self.wide_operand(i, 3)?;
                self.b.ins().atomic_cas(flags, address, value, new)
            }
            _ => {
                let exchange = AtomicRmwOp::Xchg;
                let ty = types::I128;
                self.b.ins().atomic_rmw(ty, flags, exchange, address, value)
            }
        };
        if let Arg::List(to) = self.arg(i, 0)? {
            let (low, high) = self.b.ins().isplit(old);
            let to = self.list(to);
            for (&to, half) in to.iter().zip([low, high]) {
                if to != Arg::Sink {
                    self.write(i, to, half)?;
                }
            }
        }
        self.observe(i, at, 16 | Access::WRITE | Access::ATOMIC);
        Ok(())
    }

    /// A value of 128 bits, of its halves.
    fn wide_operand(&mut self, i: &Instruction, n: usize) -> EmitResult<Value> {
        let Arg::List(halves) = self.arg(i, n)? else {
            return self.unsupported(i, "an operand that is not of 128 bits");
        };
        let [low, high] = *self.list(halves) else {
            return self.unsupported(i, "an operand that is not of 128 bits");
        };
        let (low, high) = (self.read(low, types::I64)?, self.read(high, types::I64)?);
        Ok(self.b.ins().iconcat(low, high))
    }

    fn integer_result(&mut self, operation: AtomicRmwOp, old: Value, value: Value) -> Value {
        match operation {
            AtomicRmwOp::Add => self.b.ins().iadd(old, value),
            AtomicRmwOp::Sub => self.b.ins().isub(old, value),
            AtomicRmwOp::And => self.b.ins().band(old, value),
            AtomicRmwOp::Nand => {
                let both = self.b.ins().band(old, value);
                self.b.ins().bnot(both)
            }
            AtomicRmwOp::Or => self.b.ins().bor(old, value),
            AtomicRmwOp::Xor => self.b.ins().bxor(old, value),
            AtomicRmwOp::Xchg => value,
            AtomicRmwOp::Umin => self.b.ins().umin(old, value),
            AtomicRmwOp::Umax => self.b.ins().umax(old, value),
            AtomicRmwOp::Smin => self.b.ins().smin(old, value),
            AtomicRmwOp::Smax => self.b.ins().smax(old, value),
        }
    }

    /// Emits a compare-and-swap loop, and returns the old value.
    fn compare_and_swap_loop(
        &mut self,
        i: &Instruction,
        operation: M,
        ptx: P,
        ty: Type,
        address: Value,
        value: Value,
    ) -> EmitResult<Value> {
        let flags = MemFlagsData::trusted();
        let again = self.b.create_block();
        let done = self.b.create_block();
        let expected = self.b.append_block_param(again, ty);
        let first = self.b.ins().load(ty, flags, address, 0);
        self.b.ins().jump(again, &[first.into()]);
        self.b.switch_to_block(again);
        let new = self.rmw_result(i, operation, ptx, ty, expected, value)?;
        let found = self.b.ins().atomic_cas(flags, address, expected, new);
        let same = self.b.ins().icmp(IntCC::Equal, found, expected);
        self.b.ins().brif(same, done, &[], again, &[found.into()]);
        self.b.seal_block(again);
        self.enter(done);
        Ok(expected)
    }

    /// The new value, computed from `old` and the operand.
    fn rmw_result(
        &mut self,
        i: &Instruction,
        operation: M,
        ptx: P,
        ty: Type,
        old: Value,
        value: Value,
    ) -> EmitResult<Value> {
        Ok(match (operation, ptx) {
            (M::Inc, _) => {
                let next = self.b.ins().iadd_imm_s(old, 1);
                let wraps = self
                    .b
                    .ins()
                    .icmp(IntCC::UnsignedGreaterThanOrEqual, old, value);
                let zero = self.int(ty, 0);
                self.b.ins().select(wraps, zero, next)
            }
            (M::Dec, _) => {
                let next = self.b.ins().iadd_imm_s(old, -1);
                let zero = self.icmp_imm(IntCC::Equal, old, 0);
                let over = self.b.ins().icmp(IntCC::UnsignedGreaterThan, old, value);
                let wraps = self.b.ins().bor(zero, over);
                self.b.ins().select(wraps, value, next)
            }
            (M::Add, P::F32 | P::F64) => {
                let float = if ptx == P::F32 {
                    types::F32
                } else {
                    types::F64
                };
                let a = self.coerce(old, float);
                let b = self.coerce(value, float);
                // `f32` addition flushes subnormals in global memory, but not in shared
                // memory. A generic address counts as global.
                let shared = [M::Shared, M::SharedCta, M::SharedCluster];
                let flush = ptx == P::F32 && !shared.iter().any(|&space| i.modifiers.has(space));
                let (a, b) = (self.flushed(a, flush), self.flushed(b, flush));
                let sum = self.b.ins().fadd(a, b);
                let mut sum = self.flushed(sum, flush);
                if ptx == P::F32 {
                    // Programs can observe the NaN in memory: it is NVIDIA's canonical one.
                    let number = self.b.ins().fcmp(FloatCC::Ordered, sum, sum);
                    let nan = self.float_bits(types::F32, 0x7FFF_FFFF);
                    sum = self.b.ins().select(number, sum, nan);
                }
                self.coerce(sum, ty)
            }
            (M::Add | M::Min | M::Max, P::F16 | P::Bf16) => {
                let a = self.coerce(old, types::I32);
                let b = self.coerce(value, types::I32);
                let new = self.half_rmw(operation, ptx == P::Bf16, a, b);
                self.coerce(new, ty)
            }
            (M::Add | M::Min | M::Max, P::F16x2 | P::Bf16x2) => {
                let mask = self.int(types::I32, 0xFFFF);
                let by = self.int(types::I32, 16);
                let is_bf16 = ptx == P::Bf16x2;
                let low_a = self.b.ins().band(old, mask);
                let low_b = self.b.ins().band(value, mask);
                let low = self.half_rmw(operation, is_bf16, low_a, low_b);
                let high_a = self.b.ins().ushr(old, by);
                let high_b = self.b.ins().ushr(value, by);
                let high = self.half_rmw(operation, is_bf16, high_a, high_b);
                let high = self.b.ins().ishl(high, by);
                self.b.ins().bor(low, high)
            }
            _ => return self.unsupported(i, "unsupported operation on this type"),
        })
    }

    fn half_rmw(&mut self, operation: M, is_bf16: bool, a: Value, b: Value) -> Value {
        if operation == M::Add {
            let helper = if is_bf16 {
                Helper::add_bf16
            } else {
                Helper::add_f16
            };
            return self.call(helper, &[a, b]);
        }
        let x = self.half_to_float(a, is_bf16);
        let y = self.half_to_float(b, is_bf16);
        let value = self.min_max_of_two(x, y, operation == M::Min, false);
        self.float_to_half(value, is_bf16, crate::math::rounding::Rounding::Nearest)
    }
}
