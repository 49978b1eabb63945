//! Loads and stores with bounds and alignment checks.
//!
//! A check is one comparison: rotating an offset right by the logarithm of the access
//! size makes a misaligned offset very large, so that the bounds check also finds
//! misalignment.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};

use crate::abi::{Access, offset};
use crate::codegen::emitter::checked_address::CheckedAddress;
use crate::codegen::emitter::{EmitResult, Emitter, READONLY, is_signed, native};
use crate::memory::GRANULE_SHIFT;
use crate::program::{Arg, Base, Instruction, Storage};
use crate::runtime::Helper;
use ptx::names::{Modifier as M, Type as P};

/// The state space of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::codegen) enum Space {
    /// Host addresses.
    Generic,
    Shared,
    Local,
    Param,
}

const TRUSTED: MemFlagsData = MemFlagsData::trusted();

pub(in crate::codegen) fn space_of(i: &Instruction) -> Space {
    match i.modifiers.first_of(super::convert::SPACES) {
        Some(M::Shared | M::SharedCta | M::SharedCluster) => Space::Shared,
        Some(M::Local) => Space::Local,
        Some(M::Param) => Space::Param,
        _ => Space::Generic,
    }
}

impl Emitter<'_, '_> {
    pub fn load(&mut self, i: &Instruction) -> EmitResult<()> {
        let ptx = self.ty(i, 0)?;
        let ty = self.native(i, 0)?;
        let signed = is_signed(ptx);
        // A load of a promoted call parameter.
        if let Arg::Reg(cell) = self.arg(i, 1)? {
            let value = self.register(cell);
            let value = self.coerce(value, ty);
            return self.result_signed(i, value, signed);
        }
        let to = self.arg(i, 0)?;
        let parts = match &to {
            Arg::List(list) => self.list(*list),
            single => std::slice::from_ref(single),
        };
        let width = ty.bytes() * parts.len() as u32;
        let at = self.checked_address(i, 1, width, false)?;
        let flags = match self.address(i, 1)? {
            // A launch does not change its parameters.
            (Base::Storage(storage @ Storage::Param(_)), offset)
                if self.in_bounds_offset(storage, offset, width).is_some() =>
            {
                READONLY
            }
            _ => TRUSTED,
        };
        if self.is_ordered(i) {
            // Keeps an ordered load from being merged with another.
            self.fence();
        }
        self.observe(i, at, width);
        for (n, &to) in parts.iter().enumerate() {
            if to == Arg::Sink {
                continue;
            }
            let ty = self.load_type(to, ptx).unwrap_or(ty);
            let offset = at.offset + n as i32 * ty.bytes() as i32;
            let value = self.b.ins().load(ty, flags, at.address, offset);
            self.write_extended(i, to, value, signed)?;
        }
        Ok(())
    }

    /// The type of the register, if it has the width of the access: that saves a cast.
    fn load_type(&self, to: Arg, ptx: P) -> Option<Type> {
        let Arg::Reg(reg) = to else { return None };
        let register_type = crate::codegen::emitter::type_of(self.program.registers[reg.index()]);
        let ty = native(ptx)?;
        (register_type.bits() == ty.bits() && register_type != types::I8).then_some(register_type)
    }

    pub fn store(&mut self, i: &Instruction) -> EmitResult<()> {
        let ptx = self.ty(i, 0)?;
        let ty = self.native(i, 0)?;
        if let Arg::Reg(cell) = self.arg(i, 0)? {
            let value = self.operand(i, 1, ty)?;
            self.set_register(cell, value);
            return Ok(());
        }
        if space_of(i) == Space::Param {
            return self.unsupported(i, "a store to a kernel parameter");
        }
        let from = self.arg(i, 1)?;
        let parts = match &from {
            Arg::List(list) => self.list(*list),
            single => std::slice::from_ref(single),
        };
        let width = ty.bytes() * parts.len() as u32;
        let at = self.checked_address(i, 0, width, true)?;
        for (n, &from) in parts.iter().enumerate() {
            let ty = self.load_type(from, ptx).unwrap_or(ty);
            let value = self.read(from, ty)?;
            let offset = at.offset + n as i32 * ty.bytes() as i32;
            self.b.ins().store(TRUSTED, value, at.address, offset);
        }
        if self.is_ordered(i) {
            self.fence();
        }
        self.observe(i, at, width | Access::WRITE);
        Ok(())
    }

    /// Tells the sanitizer, if there is one, of an access: of a write when it was made.
    pub fn observe(&mut self, i: &Instruction, at: CheckedAddress, access: u32) {
        if !self.is_sanitized {
            return;
        }
        let modifiers = &i.modifiers;
        let has = |all: &[M]| modifiers.first_of(all).is_some();
        let mut access = access;
        if has(&[M::Relaxed, M::Mmio]) {
            access |= Access::ATOMIC;
        }
        if has(&[M::Volatile, M::Acquire, M::Release, M::AcqRel]) {
            access |= Access::SYNC;
        }
        let address = self.add_offset(at.address, at.offset.into());
        self.tell_sanitizer(address, access);
    }

    fn tell_sanitizer(&mut self, address: Value, access: u32) {
        let thread = self.thread_index();
        let encoded = u64::from(self.line) << 32 | u64::from(access);
        let encoded = self.int(types::I64, encoded);
        let context = self.fixed.context;
        let found = self.call(Helper::observe, &[context, thread, address, encoded]);
        let ok = self.b.create_block();
        let fail = self.fail;
        self.b.ins().brif(found, fail, &[], ok, &[]);
        self.enter(ok);
    }

    /// `membar`, `fence`.
    pub fn memory_barrier(&mut self) {
        self.fence();
        if self.is_sanitized {
            let nowhere = self.int(types::I64, 0);
            self.tell_sanitizer(nowhere, Access::SYNC);
        }
    }

    /// Whether other threads may observe the order of this access.
    fn is_ordered(&self, i: &Instruction) -> bool {
        i.modifiers
            .first_of(&[M::Volatile, M::Relaxed, M::Acquire, M::Release, M::Mmio])
            .is_some()
    }

    pub fn fence(&mut self) {
        self.b.ins().fence();
    }

    /// Checks an access of `width` bytes at address operand `n`, and returns its host
    /// address.
    pub fn checked_address(
        &mut self,
        i: &Instruction,
        n: usize,
        width: u32,
        store: bool,
    ) -> EmitResult<CheckedAddress> {
        let (base, offset) = self.address(i, n)?;
        if i.modifiers.has(M::SharedCluster)
            && let Base::Reg(reg) = base
        {
            let value = self.address_in(Space::Shared, Base::Reg(reg), offset);
            let address = self.cluster_address(value);
            let access = width | if store { Access::WRITE } else { 0 };
            self.check(address, Space::Generic, width, access);
            return Ok(CheckedAddress::new(address, 0));
        }
        let space = match base {
            Base::Storage(Storage::Shared(_) | Storage::DynamicShared) => Space::Shared,
            Base::Storage(Storage::Local(_)) => Space::Local,
            Base::Storage(Storage::Param(_)) => Space::Param,
            _ => space_of(i),
        };
        let access = width
            | if store { Access::WRITE } else { 0 }
            | match space {
                Space::Generic => 0,
                Space::Shared => Access::SHARED,
                Space::Local => Access::LOCAL,
                Space::Param => Access::PARAM,
            };
        self.checked_address_at(base, offset, space, width, access)
    }

    /// The same for a base address in a state space. `access` describes the access in a
    /// fault.
    pub fn checked_address_at(
        &mut self,
        base: Base,
        offset: i64,
        space: Space,
        width: u32,
        access: u32,
    ) -> EmitResult<CheckedAddress> {
        let start = match space {
            Space::Generic => None,
            Space::Shared => Some(self.context_word(offset::SHARED)),
            Space::Local => Some(self.frame()),
            Space::Param => Some(self.params()),
        };
        if let (Base::Storage(storage), Some(start)) = (base, start)
            && let Some(offset) = self.in_bounds_offset(storage, offset, width)
        {
            return Ok(CheckedAddress::new(start, offset));
        }
        let address = self.address_in(space, base, offset);
        self.check(address, space, width, access);
        let address = match start {
            Some(start) => self.b.ins().iadd(start, address),
            None => address,
        };
        Ok(CheckedAddress::new(address, 0))
    }

    /// The address that a base and an offset give. Those of shared and local memory have 32 bits:
    /// sums wrap there, and the upper half of a wider register does not count, as on GPUs.
    pub fn address_in(&mut self, space: Space, base: Base, offset: i64) -> Value {
        let reg = match base {
            Base::Reg(reg) => reg,
            Base::Storage(storage) => return self.storage_address(storage, offset),
            Base::Absolute => return self.int(types::I64, offset.cast_unsigned()),
        };
        let value = self.register(reg);
        if let Space::Generic | Space::Param = space {
            let value = self.coerce(value, types::I64);
            return self.add_offset(value, offset);
        }
        let value = self.coerce(value, types::I32);
        let value = self.add_offset(value, i64::from(offset as i32));
        self.coerce(value, types::I64)
    }

    /// The offset of an access to a variable that is statically in bounds and aligned.
    fn in_bounds_offset(&self, storage: Storage, offset: i64, width: u32) -> Option<i32> {
        let (base, size) = match storage {
            Storage::Shared(base) => (base, self.program.shared_bytes),
            Storage::Local(base) => (base, self.program.local_bytes),
            Storage::Param(base) => (base, self.program.param_bytes),
            _ => return None,
        };
        let at = match storage {
            Storage::Param(_) => i64::from(base).checked_add(offset)?,
            _ => base.wrapping_add(offset as u32).into(),
        };
        let last = i64::from(size) - i64::from(width);
        let good = (0..=last).contains(&at) && at % i64::from(width) == 0;
        if good { i32::try_from(at).ok() } else { None }
    }

    /// Emits a check that `width` bytes at `address` may be accessed.
    pub fn check(&mut self, address: Value, space: Space, width: u32, access: u32) {
        let shift = width.trailing_zeros();
        let by = |e: &mut Self| e.int(types::I32, shift.into());
        let good = match space {
            Space::Generic => {
                if width.is_power_of_two() && self.check_by_call(address, (shift, false), access) {
                    return;
                }
                let good = self.is_accessible(address, shift);
                return self.fail_unless_registered(good, address, access);
            }
            _ => {
                if space == Space::Shared && self.check_by_call(address, (shift, true), access) {
                    return;
                }
                if space == Space::Shared
                    && let Some(units) = self.fixed.shared_units
                    && let Some(&units) = units.get(shift as usize)
                {
                    let amount = by(self);
                    let number = if shift == 0 {
                        address
                    } else {
                        self.b.ins().rotr(address, amount)
                    };
                    let good = self.b.ins().icmp(IntCC::UnsignedLessThan, number, units);
                    return self.fail_unless(good, address, access);
                }
                let size = match space {
                    Space::Shared => self.context_word(offset::SHARED_SIZE),
                    Space::Local => self.int(types::I64, self.program.local_bytes.into()),
                    _ => self.int(types::I64, self.program.param_bytes.into()),
                };
                if shift == 0 {
                    self.b.ins().icmp(IntCC::UnsignedLessThan, address, size)
                } else {
                    let amount = by(self);
                    let address = self.b.ins().rotr(address, amount);
                    let size = self.b.ins().ushr(size, amount);
                    self.b.ins().icmp(IntCC::UnsignedLessThan, address, size)
                }
            }
        };
        self.fail_unless(good, address, access);
    }

    /// Whether an access of `1 << shift` bytes is in the valid part of its granule of the arena, and
    /// aligned.
    fn is_accessible(&mut self, address: Value, shift: u32) -> Value {
        let base = self.context_word(offset::ARENA_BASE);
        let inside = self.b.ins().isub(address, base);
        let by = self.int(types::I32, shift.into());
        let number = match shift {
            0 => inside,
            _ => self.b.ins().rotr(inside, by),
        };
        let granule_shift = self.int(types::I32, (GRANULE_SHIFT - shift).into());
        let granule = self.b.ins().ushr(number, granule_shift);
        // No byte of the last granule may be accessed, so that addresses outside the arena, and
        // those that the rotation has made large, are clamped to it.
        let last = self.context_word(offset::LAST_GRANULE);
        let granule = self.b.ins().umin(granule, last);
        let one = self.int(types::I32, 1);
        let at = self.b.ins().ishl(granule, one);
        let shadow = self.context_word(offset::SHADOW);
        let shadow = self.b.ins().iadd(shadow, at);
        let valid = self.b.ins().uload16(types::I64, TRUSTED, shadow, 0);
        let valid = match shift {
            0 => valid,
            _ => self.b.ins().ushr(valid, by),
        };
        let mask = self.int(types::I64, (1 << (GRANULE_SHIFT - shift)) - 1);
        let place = self.b.ins().band(number, mask);
        self.b.ins().icmp(IntCC::UnsignedLessThan, place, valid)
    }

    /// Emits the slow path of a check, in which the runtime records the fault.
    fn fail_unless(&mut self, good: Value, address: Value, access: u32) {
        let (ok, cold) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(cold);
        self.b.ins().brif(good, ok, &[], cold, &[]);
        self.enter(cold);
        self.call_slow_path(address, access);
        let fail = self.fail;
        self.b.ins().jump(fail, &[]);
        self.enter(ok);
    }

    /// The same for a generic address.
    fn fail_unless_registered(&mut self, is_good: Value, address: Value, access: u32) {
        let (ok, cold) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(cold);
        self.b.ins().brif(is_good, ok, &[], cold, &[]);
        self.enter(cold);
        self.call_slow_path(address, access);
        // The access is valid in registered host memory, which has no shadow.
        let context = self.fixed.context;
        let kind = self
            .b
            .ins()
            .load(types::I32, TRUSTED, context, offset::FAULT_KIND);
        let (fail, back) = (self.fail, self.back_to(ok));
        self.b.ins().brif(kind, fail, &[], back, &[]);
        self.enter(ok);
    }

    /// Lets the runtime check the access. It records a fault in the context.
    fn call_slow_path(&mut self, address: Value, access: u32) {
        let context = self.fixed.context;
        let thread = self.thread_index();
        let encoded = u64::from(self.line) << 32 | u64::from(access);
        let encoded = self.int(types::I64, encoded);
        let Some(slow_check) = self.slow_check else {
            self.call(Helper::check_access, &[context, thread, address, encoded]);
            return;
        };
        // In a register of its own: the allocator would move that of the hot code to where calls take it.
        let context = self
            .b
            .ins()
            .stack_load(types::I64, types::I64, slow_check.context, 0);
        for (value, at) in [
            (thread, offset::CHECK_THREAD),
            (address, offset::CHECK_ADDRESS),
            (encoded, offset::CHECK_ACCESS),
        ] {
            self.b.ins().store(TRUSTED, value, context, at);
        }
        self.b.ins().call(slow_check.thunk, &[context]);
    }

    /// The host address of the thread's local frame.
    pub fn frame(&mut self) -> Value {
        let thread = self.thread_index();
        let thread = self.b.ins().uextend(types::I64, thread);
        let stride = self.context_word(offset::LOCAL_STRIDE);
        let at = self.b.ins().imul(thread, stride);
        let local = self.context_word(offset::LOCAL);
        self.b.ins().iadd(local, at)
    }
}
