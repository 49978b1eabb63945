//! Loads and stores with bounds and alignment checks.
//!
//! A check is one comparison: rotating an offset right by the logarithm of the access
//! size makes a misaligned offset very large, so that the bounds check also finds
//! misalignment.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, MemFlagsData, Type, Value, types};

use super::checked_address::CheckedAddress;
use super::emitter::{EmitResult, Emitter, READONLY, is_signed, native};
use super::lane_set::LaneSet;
use crate::abi::{Access, EXTENTS, MAX_UNITS, offset};
use crate::memory::{GRANULE, GRANULE_SHIFT};
use crate::program::{Arg, Base, Instruction, Reg, Storage};
use crate::runtime::Helper;
use ptx::names::{Modifier as M, Type as P};

/// The state space of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    /// Host addresses.
    Generic,
    Shared,
    Local,
    Param,
}

/// The granule of an access, in units of the access.
pub(super) struct Granule {
    /// The size of its valid part.
    pub valid: Value,
    /// Where the access starts in it.
    pub place: Value,
    /// Where its shadow is.
    pub shadow: Value,
}

const TRUSTED: MemFlagsData = MemFlagsData::trusted();

pub(super) fn space_of(i: &Instruction) -> Space {
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
            _ => at.load_flags(),
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
        let register_type = super::emitter::type_of(self.program.registers[reg.index()]);
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
        let encoded = self.scalar_int(types::I64, encoded);
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
            let nowhere = self.scalar_int(types::I64, 0);
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
        if let Some(at) = self.in_bounds(i) {
            return Ok(at);
        }
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

    /// The address of an access that the guard of a loop has checked, or that was checked for
    /// all lanes.
    pub fn in_bounds(&mut self, i: &Instruction) -> Option<CheckedAddress> {
        if let Some(checked) = self.group_checked.take() {
            let at = checked.at(self, i);
            self.group_checked = Some(checked);
            return at;
        }
        // The addresses are those of the first lane.
        if let LaneSet::Lane(1..) = self.lane_set {
            return None;
        }
        let mut known = self.in_bounds.iter();
        known.find_map(|known| known.at(i, self.iteration))
    }

    /// Whether the guard of a loop or of a block has checked the access.
    pub fn is_in_bounds(&self, i: &Instruction) -> bool {
        let mut known = self.in_bounds.iter();
        known.any(|known| known.at(i, self.iteration).is_some())
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
        let pointer = match base {
            Base::Reg(reg) => Some(reg),
            _ => None,
        };
        self.check_from(address, (space, pointer), width, access);
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
        self.check_from(address, (space, None), width, access);
    }

    /// The same for an address that is computed from a register.
    fn check_from(
        &mut self,
        address: Value,
        (space, pointer): (Space, Option<Reg>),
        width: u32,
        access: u32,
    ) {
        let shift = width.trailing_zeros();
        let by = |e: &mut Self| e.int(types::I32, shift.into());
        let good = match space {
            Space::Generic => {
                if width.is_power_of_two() && self.check_by_call(address, (shift, false), access) {
                    return;
                }
                let ok = self.b.create_block();
                let in_shadow = self.unless_in_extent(address, shift, pointer, ok);
                let granule = self.granule(address, shift);
                let good = self.icmp(IntCC::UnsignedLessThan, granule.place, granule.valid);
                return self.fail_unless_at(good, address, access, (in_shadow, ok));
            }
            _ => {
                if space == Space::Shared && self.check_by_call(address, (shift, true), access) {
                    return;
                }
                if space == Space::Shared
                    && let Some(size) = self.fixed.shared
                    && let Some(&units) = size.units.get(shift as usize)
                {
                    let amount = by(self);
                    let number = if shift == 0 {
                        address
                    } else {
                        self.b.ins().rotr(address, amount)
                    };
                    let good = self.icmp(IntCC::UnsignedLessThan, number, units);
                    return self.fail_unless(good, address, access);
                }
                let size = match space {
                    Space::Shared => self.context_word(offset::SHARED_SIZE),
                    Space::Local => self.int(types::I64, self.program.local_bytes.into()),
                    _ => self.int(types::I64, self.program.param_bytes.into()),
                };
                if shift == 0 {
                    self.icmp(IntCC::UnsignedLessThan, address, size)
                } else {
                    let amount = by(self);
                    let address = self.b.ins().rotr(address, amount);
                    let size = self.b.ins().ushr(size, amount);
                    self.icmp(IntCC::UnsignedLessThan, address, size)
                }
            }
        };
        self.fail_unless(good, address, access);
    }

    /// The granule of an address. Its valid part is empty if the address is misaligned.
    pub fn granule(&mut self, address: Value, shift: u32) -> Granule {
        let base = self.context_word(offset::ARENA_BASE);
        let inside = self.b.ins().isub(address, base);
        let by = self.scalar_int(types::I32, shift.into());
        let number = match shift {
            0 => inside,
            _ => self.b.ins().rotr(inside, by),
        };
        let granule_shift = self.scalar_int(types::I32, (GRANULE_SHIFT - shift).into());
        let granule = self.b.ins().ushr(number, granule_shift);
        // No byte of the last granule may be accessed, so that addresses outside the arena, and
        // those that the rotation has made large, are clamped to it.
        let last = self.context_word(offset::LAST_GRANULE);
        let granule = self.b.ins().umin(granule, last);
        let one = self.scalar_int(types::I32, 1);
        let at = self.b.ins().ishl(granule, one);
        let shadow = self.context_word(offset::SHADOW);
        let shadow = self.b.ins().iadd(shadow, at);
        let valid = self.valid_in(shadow, 0, shift);
        let mask = self.scalar_int(types::I64, (1 << (GRANULE_SHIFT - shift)) - 1);
        let place = self.b.ins().band(number, mask);
        Granule {
            valid,
            place,
            shadow,
        }
    }

    /// Where the context has the bounds of the allocation that a register points to.
    fn extent(&self, pointer: Reg) -> Option<i32> {
        let param = (*self.pointers.get(pointer.index())?)?;
        let number = (param / 8) as usize;
        let is_known = param.is_multiple_of(8) && number < EXTENTS;
        is_known.then_some(offset::EXTENTS + number as i32 * offset::EXTENT_SIZE)
    }

    /// Whether they are known of the allocation that a register points to.
    pub fn has_extent(&self, pointer: Reg) -> bool {
        self.extent(pointer).is_some()
    }

    /// The [`places`](crate::abi::Extent::places) for words of the allocation that a register points to, if
    /// it is known.
    pub fn words_of(&mut self, pointer: Reg) -> Option<Value> {
        let places = self.extent(pointer)? + offset::EXTENT_PLACES + 8 * 2;
        Some(self.context_word(places))
    }

    /// The number of an address among the units of `1 << shift` bytes of the allocation that the
    /// register it is computed from points to, and how many of these have [`MAX_UNITS`] from them on;
    /// `None` if no allocation is known. No unit has the number of an address between two.
    pub fn place_in_extent(
        &mut self,
        address: Value,
        shift: u32,
        pointer: Option<Reg>,
    ) -> Option<(Value, Value)> {
        let extent = self.extent(pointer?).filter(|_| shift <= 4)?;
        let start = self.context_word(extent + offset::EXTENT_START);
        let inside = self.b.ins().isub(address, start);
        let unit = match shift {
            0 => inside,
            _ => {
                let by = self.scalar_int(types::I32, shift.into());
                self.b.ins().rotr(inside, by)
            }
        };
        let places = self.context_word(extent + offset::EXTENT_PLACES + 8 * shift as i32);
        Some((unit, places))
    }

    /// Jumps to `ok` where that is so, and continues in cold code otherwise. Returns what jumps to
    /// `ok` from there.
    fn unless_in_extent(
        &mut self,
        address: Value,
        shift: u32,
        pointer: Option<Reg>,
        ok: Block,
    ) -> Block {
        let Some((unit, places)) = self.place_in_extent(address, shift, pointer) else {
            return ok;
        };
        let good = self.icmp(IntCC::UnsignedLessThan, unit, places);
        let cold = self.b.create_block();
        self.b.set_cold_block(cold);
        self.b.ins().brif(good, ok, &[], cold, &[]);
        self.enter(cold);
        self.back_to(ok)
    }

    /// Jumps to `ok` if so many units of `1 << shift` bytes from `address` on, at most those of a
    /// granule, may be accessed, and to `cold` otherwise. `pointer` is the
    /// register that the address is computed from.
    pub fn check_span(
        &mut self,
        (address, pointer): (Value, Option<Reg>),
        shift: u32,
        units: i64,
        ok: Block,
        cold: Block,
    ) {
        let pointer = pointer.filter(|_| units.cast_unsigned() <= MAX_UNITS);
        let in_shadow = self.unless_in_extent(address, shift, pointer, ok);
        let granule = self.granule(address, shift);
        let end = self.add_offset(granule.place, units);
        let good = self.icmp(IntCC::UnsignedLessThanOrEqual, end, granule.valid);
        let crosses = self.b.create_block();
        self.b.set_cold_block(crosses);
        self.b.ins().brif(good, in_shadow, &[], crosses, &[]);
        // From a granule that is valid as a whole into the next one.
        self.enter(crosses);
        let whole = (GRANULE >> shift).cast_signed();
        let is_whole = self.icmp_imm(IntCC::Equal, granule.valid, whole);
        let next = self.b.create_block();
        self.b.set_cold_block(next);
        self.b.ins().brif(is_whole, next, &[], cold, &[]);
        self.enter(next);
        let valid = self.valid_in(granule.shadow, 2, shift);
        let rest = self.add_offset(end, -whole);
        let good = self.icmp(IntCC::UnsignedLessThanOrEqual, rest, valid);
        let ok = self.back_to(ok);
        self.b.ins().brif(good, ok, &[], cold, &[]);
    }

    /// The size of the valid part that the shadow of a granule says, in units of `1 << shift`
    /// bytes.
    pub fn valid_in(&mut self, shadow: Value, at: i32, shift: u32) -> Value {
        let valid = self.b.ins().uload16(types::I64, TRUSTED, shadow, at);
        let by = self.scalar_int(types::I32, shift.into());
        match shift {
            0 => valid,
            _ => self.b.ins().ushr(valid, by),
        }
    }

    /// Emits the slow path of a check, in which the runtime records the fault.
    fn fail_unless(&mut self, good: Value, address: Value, access: u32) {
        let (ok, cold) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(cold);
        self.b.ins().brif(good, ok, &[], cold, &[]);
        self.enter(cold);
        self.call_slow_path(address, 1, access);
        let fail = self.fail;
        self.b.ins().jump(fail, &[]);
        self.enter(ok);
    }

    /// The same for a generic address. Continues in the block `ok`, to which `good` jumps.
    fn fail_unless_at(
        &mut self,
        is_good: Value,
        address: Value,
        access: u32,
        (good, ok): (Block, Block),
    ) {
        let cold = self.b.create_block();
        self.b.set_cold_block(cold);
        self.b.ins().brif(is_good, good, &[], cold, &[]);
        self.enter(cold);
        self.call_slow_path(address, 1, access);
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

    /// Lets the runtime check the accesses of `count` threads to consecutive addresses.
    /// It records a fault in the context.
    pub fn call_slow_path(&mut self, address: Value, count: u32, access: u32) {
        let context = self.fixed.context;
        let thread = self.thread_index();
        let encoded = u64::from(self.line) << 32 | u64::from(count) << 16 | u64::from(access);
        let encoded = self.scalar_int(types::I64, encoded);
        let Some(slow_check) = self.slow_check else {
            self.call(
                Helper::check_contiguous,
                &[context, thread, address, encoded],
            );
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
