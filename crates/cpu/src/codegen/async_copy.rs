//! `cp.async`, which copies at once, so that its waits do nothing.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value, types,
};

use super::checked_address::CheckedAddress;
use super::emitter::{EmitResult, Emitter};
use super::lane_set::{LaneSet, vectors};
use super::memory::Space;
use crate::abi::{Access, offset};
use crate::program::{Arg, Base, Instruction, Program, Reg, RegClass, Uniformity};
use crate::runtime::{CopyLanes, Helper};
use ptx::names::{Modifier as M, Opcode as O};

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
pub(super) fn is_wait(i: &Instruction) -> bool {
    let waits = [M::CommitGroup, M::WaitGroup, M::WaitAll];
    i.modifiers.has(M::Async) && !i.modifiers.has(M::Bulk) && i.modifiers.first_of(&waits).is_some()
}

/// Whether the lanes of a group copy from and to addresses that follow one another.
pub(super) fn is_contiguous(
    program: &Program<'_>,
    uniformity_of: &dyn Fn(Reg) -> Uniformity,
    i: &Instruction,
) -> bool {
    let modes = [M::Bulk, M::Mbarrier];
    if !i.modifiers.has(M::Async) || i.modifiers.first_of(&modes).is_some() || is_wait(i) {
        return false;
    }
    let args = program.list(i.args);
    let &[
        Arg::Address(Base::Reg(to), _),
        Arg::Address(Base::Reg(from), _),
        Arg::Int(size),
        ..,
    ] = args
    else {
        return false;
    };
    let stride = Uniformity::Affine(size.cast_signed());
    matches!(size, 4 | 8 | 16) && uniformity_of(to) == stride && uniformity_of(from) == stride
}

/// The registers with the addresses, to and from which the lanes of a group copy in one call.
pub(super) fn by_lane(program: &Program<'_>, i: &Instruction) -> Option<(Reg, Reg)> {
    let modes = [M::Bulk, M::Mbarrier];
    let is_copy = i.opcode == O::Cp && i.modifiers.has(M::Async) && !is_wait(i);
    if !is_copy || i.guard.is_some() || i.modifiers.first_of(&modes).is_some() {
        return None;
    }
    let &[
        Arg::Address(Base::Reg(to), _),
        Arg::Address(Base::Reg(from), _),
        ..,
    ] = program.list(i.args)
    else {
        return None;
    };
    let classes = [to, from].map(|reg| program.registers[reg.index()]);
    (classes == [RegClass::I32, RegClass::I64]).then_some((to, from))
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
        let counts = self.spilled(&[count]);
        self.copy_partial(&copy, counts, 1)?;
        self.b.ins().jump(done, &[]);
        self.enter(done);
        self.observe(i, to, copy.size | Access::WRITE);
        Ok(())
    }

    /// The same for a lane group whose addresses follow one another.
    pub fn copy_async_contiguous(&mut self, i: &Instruction) -> EmitResult<()> {
        let copy = self.copy(i)?;
        let mut counts = Vec::new();
        let mut all = None;
        if let Some(count) = copy.count {
            for vector in vectors(self.width, RegClass::I32) {
                self.lane_set = vector;
                let count = self.count(count, copy.size)?;
                let whole = self.int(types::I32, copy.size.into());
                let whole = self.icmp(IntCC::UnsignedGreaterThanOrEqual, count, whole);
                counts.push(count);
                all = Some(match all {
                    Some(all) => self.b.ins().band(all, whole),
                    None => whole,
                });
            }
            self.lane_set = LaneSet::Scalar;
        }
        let done = self.b.create_block();
        if let Some(all) = all {
            let all = self.b.ins().vall_true(all);
            let (whole, part) = (self.b.create_block(), self.b.create_block());
            self.b.set_cold_block(part);
            self.b.ins().brif(all, whole, &[], part, &[]);
            self.enter(part);
            let counts = self.spilled(&counts);
            self.copy_partial(&copy, counts, self.width)?;
            self.b.ins().jump(done, &[]);
            self.enter(whole);
        }
        let to = self.address_in(Space::Shared, copy.to.0, copy.to.1);
        self.check_range(to, Space::Shared, copy.size, true);
        let shared = self.context_word(offset::SHARED);
        let to = self.b.ins().iadd(shared, to);
        let from = self.address_in(Space::Generic, copy.from.0, copy.from.1);
        self.check_range(from, Space::Generic, copy.size, false);
        for at in (0..(self.width * copy.size) as i32).step_by(16) {
            let flags = MemFlagsData::new().with_notrap();
            let vector = self.b.ins().load(types::I32X4, flags, from, at);
            self.b.ins().store(flags, vector, to, at);
        }
        self.b.ins().jump(done, &[]);
        self.enter(done);
        Ok(())
    }

    /// The same for any other addresses: one call, as the checks of each lane would be much code.
    /// Returns whether that is how the instruction is lowered.
    pub fn copy_async_lanes(&mut self, i: &Instruction) -> EmitResult<bool> {
        let Some((to, from)) = by_lane(self.program, i) else {
            return Ok(false);
        };
        let copy = self.copy(i)?;
        let (to_offset, from_offset) = (copy.to.1, copy.from.1);
        self.line = i.line;
        let slot = match self.copy_slot {
            Some(slot) => slot,
            None => {
                let size = size_of::<CopyLanes>() as u32;
                let data = StackSlotData::new(StackSlotKind::ExplicitSlot, size, 4);
                *self.copy_slot.insert(self.b.create_sized_stack_slot(data))
            }
        };
        let lanes = self.b.ins().stack_addr(types::I64, slot, 0);
        let at = |offset: usize, lane: usize| (offset + 16 * lane) as i32;
        for (n, vector) in vectors(self.width, RegClass::I32).enumerate() {
            self.lane_set = vector;
            let to = self.register(to);
            let to_at = at(offset_of!(CopyLanes, to), n);
            self.b.ins().store(TRUSTED, to, lanes, to_at);
            let count = match copy.count {
                Some(count) => self.count(count, copy.size)?,
                None => self.int(types::I32, copy.size.into()),
            };
            let count_at = at(offset_of!(CopyLanes, counts), n);
            self.b.ins().store(TRUSTED, count, lanes, count_at);
        }
        for (n, vector) in vectors(self.width, RegClass::I64).enumerate() {
            self.lane_set = vector;
            let from = self.register(from);
            let from_at = at(offset_of!(CopyLanes, from), n);
            self.b.ins().store(TRUSTED, from, lanes, from_at);
        }
        self.lane_set = LaneSet::Scalar;
        let thread = self.thread_index();
        let encoded = u64::from(self.line) << 32 | u64::from(self.width << 16 | copy.size);
        let encoded = self.scalar_int(types::I64, encoded);
        let offsets = [to_offset, from_offset]
            .map(|offset| self.scalar_int(types::I64, offset.cast_unsigned()));
        let [to_offset, from_offset] = offsets;
        let context = self.fixed.context;
        let args = [context, thread, encoded, to_offset, from_offset, lanes];
        let failed = self.call(Helper::copy_lanes, &args);
        self.fail_if(failed);
        Ok(true)
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
                Ok(self.select(ignore, none, all))
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

    /// Has the runtime copy for so many lanes, whose counts are in memory.
    fn copy_partial(&mut self, copy: &Copy, counts: Value, lanes: u32) -> EmitResult<()> {
        let thread = self.thread_index();
        let encoded = u64::from(self.line) << 32 | u64::from(lanes << 16 | copy.size);
        let encoded = self.scalar_int(types::I64, encoded);
        let stride = self.scalar_int(types::I64, copy.size.into());
        let to = self.address_in(Space::Shared, copy.to.0, copy.to.1);
        let from = self.address_in(Space::Generic, copy.from.0, copy.from.1);
        let context = self.fixed.context;
        let args = [context, thread, encoded, to, stride, from, stride, counts];
        let failed = self.call(Helper::copy_partial, &args);
        self.fail_if(failed);
        Ok(())
    }
}
