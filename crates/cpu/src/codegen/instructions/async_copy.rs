//! `cp.async`, which copies at once, so that its waits do nothing.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};

use super::memory::Space;
use crate::abi::Access;
use crate::codegen::emitter::checked_address::CheckedAddress;
use crate::codegen::emitter::{EmitResult, Emitter};
use crate::program::{Arg, Base, Instruction, RegClass};
use crate::runtime::Helper;
use ptx::names::Modifier as M;

const TRUSTED: MemFlagsData = MemFlagsData::trusted();

/// A copy of so many bytes.
struct Copy {
    to: (Base, i64),
    from: (Base, i64),
    size: u32,
    /// The bytes that are copied, if not all; the others are zeros.
    count: Option<Count>,
}

#[derive(Clone, Copy)]
enum Count {
    Bytes(Arg),
    /// None if this predicate is true.
    Ignored(Arg),
}

/// A wait for copies, or what it waits for.
pub(in crate::codegen) fn is_wait(i: &Instruction) -> bool {
    let waits = [M::CommitGroup, M::WaitGroup, M::WaitAll];
    i.modifiers.has(M::Async) && !i.modifiers.has(M::Bulk) && i.modifiers.first_of(&waits).is_some()
}

impl Emitter<'_, '_> {
    pub fn copy_async(&mut self, i: &Instruction) -> EmitResult<()> {
        if is_wait(i) {
            return Ok(());
        }
        let copy = self.copy(i)?;
        let access = Access::WRITE | Access::SHARED | copy.size;
        let (to, offset) = copy.to;
        let to = self.checked_address_at(to, offset, Space::Shared, copy.size, access)?;
        let (base, offset) = copy.from;
        let Some(count) = copy.count else {
            let from =
                self.checked_address_at(base, offset, Space::Generic, copy.size, copy.size)?;
            self.copy_whole(&from, &to, copy.size);
            self.observe(i, from, copy.size);
            self.observe(i, to, copy.size | Access::WRITE);
            return Ok(());
        };
        let count = self.count(count, copy.size)?;
        let (whole, part) = (self.b.create_block(), self.b.create_block());
        let done = self.b.create_block();
        let all = self.icmp_imm(IntCC::UnsignedGreaterThanOrEqual, count, copy.size.into());
        self.b.ins().brif(all, whole, &[], part, &[]);
        self.enter(whole);
        let from = self.checked_address_at(base, offset, Space::Generic, copy.size, copy.size)?;
        self.copy_whole(&from, &to, copy.size);
        self.observe(i, from, copy.size);
        self.b.ins().jump(done, &[]);
        self.enter(part);
        self.copy_partial(&copy, count);
        self.b.ins().jump(done, &[]);
        self.enter(done);
        self.observe(i, to, copy.size | Access::WRITE);
        Ok(())
    }

    fn copy(&mut self, i: &Instruction) -> EmitResult<Copy> {
        if !i.modifiers.has(M::Async) || i.modifiers.first_of(&[M::Bulk, M::Mbarrier]).is_some() {
            return self.unsupported(i, "unsupported copy");
        }
        let Arg::Int(size @ (4 | 8 | 16)) = self.arg(i, 2)? else {
            return self.unsupported(i, "a copy of other than 4, 8 or 16 bytes");
        };
        // The last operand may be a cache policy, which has no effect here.
        let operands = self.arg_count(i) - usize::from(i.modifiers.has(M::L2CacheHint));
        let count = match self.arg(i, 3) {
            Ok(arg) if operands > 3 => Some(match arg {
                Arg::Reg(reg) | Arg::Not(reg)
                    if self.program.registers[reg.index()] == RegClass::Pred =>
                {
                    Count::Ignored(arg)
                }
                arg => Count::Bytes(arg),
            }),
            _ => None,
        };
        Ok(Copy {
            to: self.address(i, 0)?,
            from: self.address(i, 1)?,
            size: size as u32,
            count,
        })
    }

    fn count(&mut self, count: Count, size: u32) -> EmitResult<Value> {
        match count {
            Count::Bytes(arg) => self.read(arg, types::I32),
            Count::Ignored(arg) => {
                let ignore = self.read(arg, types::I8)?;
                let none = self.int(types::I32, 0);
                let all = self.int(types::I32, size.into());
                Ok(self.b.ins().select(ignore, none, all))
            }
        }
    }

    /// Copies between host addresses that are multiples of the size.
    fn copy_whole(&mut self, from: &CheckedAddress, to: &CheckedAddress, size: u32) {
        let ty = match size {
            16 => types::I32X4,
            8 => types::I64,
            _ => types::I32,
        };
        let value = self.b.ins().load(ty, TRUSTED, from.address, from.offset);
        self.b.ins().store(TRUSTED, value, to.address, to.offset);
    }

    /// Calls the runtime, which copies the first `count` bytes and clears the others.
    fn copy_partial(&mut self, copy: &Copy, count: Value) {
        let thread = self.thread_index();
        let encoded = u64::from(self.line) << 32 | u64::from(copy.size);
        let encoded = self.int(types::I64, encoded);
        let to = self.address_in(Space::Shared, copy.to.0, copy.to.1);
        let from = self.address_in(Space::Generic, copy.from.0, copy.from.1);
        let context = self.fixed.context;
        let args = [context, thread, encoded, to, from, count];
        let failed = self.call(Helper::copy_partial, &args);
        self.fail_if(failed);
    }
}
