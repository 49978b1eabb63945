//! Addresses of accesses, and their checks.

use regalloc2::Operand;

use crate::abi::{Access, EXTENTS, offset};
use crate::memory::GRANULE_SHIFT;
use crate::program::{Arg, Base, Instruction, Reg, Storage};
use crate::runtime::Helper;
use crate::simd::lower::operands::{LONG, WORD};
use crate::simd::lower::{Lowered, Lowering, Source, Unsupported};
use crate::simd::machine::{
    Alu, Condition, Evex, INT, MASK, Masking, Memory, Op, Shift, Value, ZMM, gather_operands,
};
use crate::simd::opcodes as v;
use ptx::names::Modifier as M;

/// The state space of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::simd::lower) enum Space {
    Generic,
    Shared,
    Local,
    Param,
}

/// The host addresses of a checked access.
pub(in crate::simd::lower) enum Address {
    /// One for all lanes, and an offset.
    Uniform(Value, i32),
    /// Vectors of 64 bits.
    Lanes(Vec<Value>),
    /// A base and vectors of 32 bits, which count units of two to this power of bytes.
    Offsets(Value, Vec<Value>, u8),
}

/// Compares unsigned numbers: not less.
pub(in crate::simd::lower) const NOT_BELOW: u8 = 5;
pub(in crate::simd::lower) const NOT_EQUAL: u8 = 4;

pub(in crate::simd::lower) fn space_of(i: &Instruction) -> Space {
    let spaces = [
        M::Global,
        M::Const,
        M::Shared,
        M::SharedCta,
        M::SharedCluster,
        M::Local,
        M::Param,
        M::ParamEntry,
        M::ParamFunc,
    ];
    match i.modifiers.first_of(&spaces) {
        Some(M::Shared | M::SharedCta | M::SharedCluster) => Space::Shared,
        Some(M::Local) => Space::Local,
        Some(M::Param | M::ParamEntry | M::ParamFunc) => Space::Param,
        _ => Space::Generic,
    }
}

impl Lowering<'_, '_> {
    /// Checks an access of `bytes` bytes per lane at address operand `n`, and returns its host addresses.
    pub(in crate::simd::lower) fn address(
        &mut self,
        i: &Instruction,
        n: usize,
        bytes: u32,
        access: u32,
    ) -> Lowered<Address> {
        let (base, offset) = match self.arg(i, n)? {
            Arg::Address(base, offset) => (base, offset.bytes()),
            Arg::Symbol(storage, offset) => (Base::Storage(storage), offset.bytes()),
            _ => return Err(Unsupported("a kind of address")),
        };
        if i.modifiers.has(M::SharedCluster) {
            return Err(Unsupported("shared memory of clusters"));
        }
        let space = match base {
            Base::Storage(Storage::Shared(_) | Storage::DynamicShared) => Space::Shared,
            Base::Storage(Storage::Local(_)) => Space::Local,
            Base::Storage(Storage::Param(_)) => Space::Param,
            Base::Storage(Storage::Global(_)) => Space::Generic,
            Base::Storage(_) => return Err(Unsupported("an address of the stack")),
            _ => space_of(i),
        };
        let arg = match base {
            Base::Reg(reg) => Arg::Reg(reg),
            Base::Storage(storage) => Arg::Symbol(storage, crate::program::ByteOffset::ZERO),
            Base::Absolute => Arg::Int(0),
        };
        let pointer = match base {
            Base::Reg(reg) => Some(reg),
            _ => None,
        };
        let access = bytes
            | access
            | match space {
                Space::Generic => 0,
                Space::Shared => Access::SHARED,
                Space::Local => Access::LOCAL,
                Space::Param => Access::PARAM,
            };
        if let (Base::Storage(storage), Some(at)) = (base, self.in_bounds(base, offset, bytes)) {
            match storage {
                Storage::Param(_) => {
                    let params = self.field(LONG, offset::PARAMS);
                    return Ok(Address::Uniform(params, at));
                }
                Storage::Shared(_) => {
                    let shared = self.field(LONG, offset::SHARED);
                    return Ok(Address::Uniform(shared, at));
                }
                Storage::Local(_) => {
                    let mut lanes = self.frames()?;
                    for lanes in &mut lanes {
                        *lanes = self.plus(*lanes, at.into());
                    }
                    return Ok(Address::Lanes(lanes));
                }
                _ => {}
            }
        }
        match space {
            Space::Param if self.is_uniform(arg) => {
                let address = self.int(arg, true)?;
                let address = self.add_offset(address, offset);
                self.check_uniform(address, (space, None), bytes, access);
                let params = self.field(LONG, offset::PARAMS);
                let address = self.alu(Alu::Add, true, address, params);
                Ok(Address::Uniform(address, 0))
            }
            Space::Param => Err(Unsupported("addresses in parameters")),
            Space::Generic if self.is_uniform(arg) => {
                let address = self.int(arg, true)?;
                let address = self.add_offset(address, offset);
                self.check_uniform(address, (space, pointer), bytes, access);
                Ok(Address::Uniform(address, 0))
            }
            Space::Shared if self.is_uniform(arg) => {
                let address = self.int(arg, false)?;
                let address = self.add_offset(address, i64::from(offset as i32));
                let address = self.extended(address, WORD);
                self.check_uniform(address, (space, None), bytes, access);
                let shared = self.field(LONG, offset::SHARED);
                let address = self.alu(Alu::Add, true, address, shared);
                Ok(Address::Uniform(address, 0))
            }
            Space::Generic => {
                let mut lanes = self.vectors(arg, true)?.to_vec();
                for lanes in &mut lanes {
                    *lanes = self.plus(*lanes, offset);
                }
                self.check_lanes(&lanes, pointer, bytes, access);
                Ok(Address::Lanes(lanes))
            }
            Space::Shared => {
                let mut lanes = self.vectors(arg, false)?.to_vec();
                if offset != 0 {
                    let offset = Source::Bits(u64::from(offset as u32));
                    for lanes in &mut lanes {
                        *lanes = self.binary(v::ADD, Source::Vector(*lanes), offset);
                    }
                }
                self.check_offsets(&lanes, bytes, access);
                let shared = self.field(LONG, offset::SHARED);
                Ok(Address::Offsets(shared, lanes, 0))
            }
            Space::Local => {
                let frames = self.frames()?;
                let mut lanes = Vec::new();
                let size = u64::from(self.program.local_bytes);
                let mut bad: Vec<Value> = Vec::new();
                let mut offsets = Vec::new();
                for (piece, frame) in frames.into_iter().enumerate() {
                    // Addresses of local memory have 32 bits.
                    let at = self.vector(arg, false, piece / 2)?;
                    let at = self.binary(
                        v::ADD,
                        Source::Vector(at),
                        Source::Bits(u64::from(offset as u32)),
                    );
                    let at = self.widened(at, piece % 2, false);
                    bad.push(self.outside(at, bytes, Source::Bits(size / u64::from(bytes)), piece));
                    offsets.push(at);
                    lanes.push(self.binary(v::ADD64, Source::Vector(frame), Source::Vector(at)));
                }
                self.fail_lanes(&bad, &offsets, access);
                Ok(Address::Lanes(lanes))
            }
        }
    }

    pub(in crate::simd::lower) fn plus(&mut self, lanes: Value, offset: i64) -> Value {
        match offset {
            0 => lanes,
            _ => self.binary(
                v::ADD64,
                Source::Vector(lanes),
                Source::Bits(offset.cast_unsigned()),
            ),
        }
    }

    /// The offset of an access to a variable that is statically in bounds and aligned.
    fn in_bounds(&self, base: Base, offset: i64, width: u32) -> Option<i32> {
        let (base, size) = match base {
            Base::Storage(Storage::Shared(base)) => (base, self.program.shared_bytes),
            Base::Storage(Storage::Local(base)) => (base, self.program.local_bytes),
            Base::Storage(Storage::Param(base)) => (base, self.program.param_bytes),
            _ => return None,
        };
        let at = i64::from(base).checked_add(offset)?;
        let last = i64::from(size) - i64::from(width);
        let good = (0..=last).contains(&at) && at % i64::from(width) == 0;
        if good { i32::try_from(at).ok() } else { None }
    }

    /// The addresses of the lanes' frames of local memory.
    pub(in crate::simd::lower) fn frames(&mut self) -> Lowered<Vec<Value>> {
        let local = self.field(LONG, offset::LOCAL);
        let stride = self.field(LONG, offset::LOCAL_STRIDE);
        let (local, stride) = (self.splat(local, true), self.splat(stride, true));
        let mut frames = Vec::new();
        for piece in 0..self.width / 8 {
            let index = self.thread_indices(piece / 2);
            let index = self.widened(index, piece % 2, false);
            let at = self.binary(v::MUL_EVEN_U, Source::Vector(index), Source::Vector(stride));
            frames.push(self.binary(v::ADD64, Source::Vector(at), Source::Vector(local)));
        }
        Ok(frames)
    }

    /// Where the context has the bounds of the allocation that a register points to.
    pub(in crate::simd::lower) fn extent(&self, pointer: Option<Reg>) -> Option<i32> {
        let param = (*self.pointers.get(pointer?.index())?)?;
        let number = (param / 8) as usize;
        let is_known = param.is_multiple_of(8) && number < EXTENTS;
        is_known.then_some(offset::EXTENTS + number as i32 * offset::EXTENT_SIZE)
    }

    /// The lanes whose offset is misaligned or not below a limit, which is in units of the access.
    fn outside(&mut self, at: Value, bytes: u32, limit: Source, piece: usize) -> Value {
        let unit = self.units_of(at, bytes.trailing_zeros());
        let only = self.active_eighth(piece);
        let unit = Source::Vector(unit);
        self.compared(v::COMPARE_U64, unit, limit, Some(NOT_BELOW), only)
    }

    pub(in crate::simd::lower) fn active_eighth(&mut self, piece: usize) -> Option<Value> {
        let active = self.active.clone()?;
        Some(self.eighth(active[piece / 2], piece % 2))
    }

    /// An instruction whose last operand is a field of the context, broadcast to all lanes.
    fn with_field(&mut self, code: Evex, a: Value, at: i32) -> Value {
        let result = self.b.value(ZMM);
        let operands = [
            Operand::reg_def(result),
            Operand::reg_use(a),
            Operand::reg_use(self.context),
        ];
        let op = Op::Load {
            code,
            offset: at,
            unit: if code.wide { 8 } else { 4 },
            masking: Masking::None,
            broadcast: true,
            binary: true,
            immediate: None,
        };
        self.b.emit(op, operands);
        result
    }

    fn compared_with_field(
        &mut self,
        code: Evex,
        a: Value,
        at: i32,
        immediate: u8,
        only: Option<Value>,
    ) -> Value {
        let result = self.b.value(MASK);
        let mut operands = vec![
            Operand::reg_def(result),
            Operand::reg_use(a),
            Operand::reg_use(self.context),
        ];
        operands.extend(only.map(Operand::reg_use));
        let op = Op::Load {
            code,
            offset: at,
            unit: if code.wide { 8 } else { 4 },
            masking: match only {
                Some(_) => Masking::Zero,
                None => Masking::None,
            },
            broadcast: true,
            binary: true,
            immediate: Some(immediate),
        };
        self.b.emit(op, operands);
        result
    }

    /// Checks generic addresses against the allocation that they are probably in, and where that is
    /// unknown or fails, against the shadow memory.
    fn check_lanes(&mut self, lanes: &[Value], pointer: Option<Reg>, bytes: u32, access: u32) {
        let shift = bytes.trailing_zeros();
        let only: Vec<Option<Value>> = (0..lanes.len())
            .map(|piece| self.active_eighth(piece))
            .collect();
        let Some(extent) = self.extent(pointer) else {
            return self.check_in_shadow(lanes, &only, (shift, access));
        };
        let mut outside = Vec::new();
        for (&lanes, &only) in lanes.iter().zip(&only) {
            let inside = self.with_field(v::SUB64, lanes, extent + offset::EXTENT_START);
            let unit = self.units_of(inside, shift);
            let units = extent + offset::EXTENT_UNITS + 8 * shift as i32;
            outside.push(self.compared_with_field(v::COMPARE_U64, unit, units, NOT_BELOW, only));
        }
        let masks: Vec<Value> = outside
            .chunks(2)
            .map(|pair| self.mask_join(pair[0], pair[1]))
            .collect();
        self.test_masks(&masks);
        let [elsewhere, good] = [(); 2].map(|()| self.b.block());
        self.b.branch(Condition::NotEqual, elsewhere, good);
        self.b.enter_cold(elsewhere);
        let outside: Vec<Option<Value>> = outside.into_iter().map(Some).collect();
        self.check_in_shadow(lanes, &outside, (shift, access));
        self.b.jump(good);
        self.b.enter_sealed(good);
    }

    /// The addresses of the lanes, checked against the shadow memory alone.
    pub(in crate::simd::lower) fn address_in_shadow(
        &mut self,
        i: &Instruction,
        n: usize,
        bytes: u32,
        access: u32,
    ) -> Lowered<Address> {
        let Arg::Address(Base::Reg(reg), offset) = self.arg(i, n)? else {
            return Err(Unsupported("a kind of address"));
        };
        let mut lanes = self.vectors(Arg::Reg(reg), true)?.to_vec();
        for lanes in &mut lanes {
            *lanes = self.plus(*lanes, offset.bytes());
        }
        let only: Vec<Option<Value>> = (0..lanes.len())
            .map(|piece| self.active_eighth(piece))
            .collect();
        self.check_in_shadow(&lanes, &only, (bytes.trailing_zeros(), bytes | access));
        Ok(Address::Lanes(lanes))
    }

    /// Checks addresses against the shadow memory: those in `only`, or all.
    fn check_in_shadow(
        &mut self,
        lanes: &[Value],
        only: &[Option<Value>],
        (shift, access): (u32, u32),
    ) {
        let mut bad = Vec::new();
        for (&lanes, &only) in lanes.iter().zip(only) {
            let inside = self.with_field(v::SUB64, lanes, offset::ARENA_BASE);
            let unit = self.units_of(inside, shift);
            bad.push(self.outside_shadow(unit, shift, only));
        }
        self.fail_lanes(&bad, lanes, access);
    }

    /// Offsets in units of an access. A misaligned offset becomes very large.
    fn units_of(&mut self, offsets: Value, shift: u32) -> Value {
        match shift {
            0 => offsets,
            _ => self.shift(0, true, offsets, shift as u8),
        }
    }

    /// The lanes that are not in the valid part of their granule.
    fn outside_shadow(&mut self, unit: Value, shift: u32, only: Option<Value>) -> Value {
        let granule = self.shift(2, true, unit, (GRANULE_SHIFT - shift) as u8);
        // No byte of the last granule may be accessed.
        let granule = self.with_field(v::MIN_U64, granule, offset::LAST_GRANULE);
        let shadow = self.field(LONG, offset::SHADOW);
        let all = self.b.ones();
        let zero = self.in_register(Source::Bits(0), false);
        let valid = self.gather(v::GATHER_BY_LONGS, 1, (shadow, granule), zero, all);
        let valid = self.binary(v::AND, Source::Vector(valid), Source::Bits(0xFFFF));
        let valid = self.widened(valid, 0, false);
        let valid = match shift {
            0 => valid,
            _ => self.shift(2, true, valid, shift as u8),
        };
        let mask = (1 << (GRANULE_SHIFT - shift)) - 1;
        let place = self.binary(v::AND64, Source::Vector(unit), Source::Bits(mask));
        let (place, valid) = (Source::Vector(place), Source::Vector(valid));
        self.compared(v::COMPARE_U64, place, valid, Some(NOT_BELOW), only)
    }

    /// A masked gather.
    pub(in crate::simd::lower) fn gather(
        &mut self,
        code: Evex,
        scale: u8,
        (base, indices): (Value, Value),
        old: Value,
        mask: Value,
    ) -> Value {
        let result = self.b.value(ZMM);
        let after = self.b.value(MASK);
        let operands = gather_operands([result, after], [base, indices, old, mask]);
        self.b.emit(Op::Gather { code, scale }, operands);
        result
    }

    /// Checks offsets in shared memory.
    fn check_offsets(&mut self, lanes: &[Value], bytes: u32, access: u32) {
        let shift = bytes.trailing_zeros();
        let mut bad = Vec::new();
        for (piece, &lanes) in lanes.iter().enumerate() {
            let unit = match shift {
                0 => lanes,
                _ => self.shift(0, false, lanes, shift as u8),
            };
            let only = self.active.as_ref().map(|active| active[piece]);
            let at = offset::SHARED_UNITS + 4 * shift as i32;
            bad.push(self.compared_with_field(v::COMPARE_U, unit, at, NOT_BELOW, only));
        }
        let offsets = self.of_width(lanes, false, (true, false));
        let mut eighths = Vec::new();
        for &bad in &bad {
            eighths.push(bad);
            eighths.push(self.eighth(bad, 1));
        }
        self.fail_lanes(&eighths, &offsets, access);
    }

    /// Calls the slow path for the lanes in masks of eight.
    fn fail_lanes(&mut self, bad: &[Value], addresses: &[Value], access: u32) {
        for (pair, (bad, addresses)) in bad.chunks(2).zip(addresses.chunks(2)).enumerate() {
            let mask = self.mask_join(bad[0], bad[1]);
            self.fail_at(pair, mask, [addresses[0], addresses[1]], access);
        }
    }

    /// Calls the slow path for the lanes in a mask of 16. A fault names the first invalid lane.
    fn fail_at(&mut self, piece: usize, mask: Value, addresses: [Value; 2], access: u32) {
        let request = [
            u64::from(self.line) << 32 | u64::from(access),
            16 * piece as u64,
        ];
        let call = self.call_number(Helper::check_lanes, request);
        let thread = self.b.get(self.thread);
        let operands = [mask, addresses[0], addresses[1], thread].map(Operand::reg_use);
        self.b.emit(Op::Check { call }, operands);
    }

    /// Checks an address that all lanes share.
    fn check_uniform(
        &mut self,
        address: Value,
        (space, pointer): (Space, Option<Reg>),
        bytes: u32,
        access: u32,
    ) {
        let shift = bytes.trailing_zeros();
        let [slow, ok] = [(); 2].map(|()| self.b.block());
        let good = |e: &mut Self, condition, otherwise| {
            e.b.branch(condition, ok, otherwise);
        };
        if let Space::Shared | Space::Param = space {
            let unit = self.rotated(address, shift);
            let units = match space {
                Space::Param => self
                    .b
                    .immediate(u64::from(self.program.param_bytes >> shift)),
                _ => self.field(WORD, offset::SHARED_UNITS + 4 * shift as i32),
            };
            self.compare_int(true, unit, units);
            good(self, Condition::Below, slow);
        } else {
            if let Some(extent) = self.extent(pointer) {
                let start = self.field(LONG, extent + offset::EXTENT_START);
                let inside = self.alu(Alu::Sub, true, address, start);
                let unit = self.rotated(inside, shift);
                let units = self.field(LONG, extent + offset::EXTENT_UNITS + 8 * shift as i32);
                self.compare_int(true, unit, units);
                let shadow = self.b.block();
                good(self, Condition::Below, shadow);
                self.b.enter_cold(shadow);
            }
            let (place, valid) = self.place_in_granule(address, shift);
            self.compare_int(true, place, valid);
            good(self, Condition::Below, slow);
        }
        self.b.enter_cold(slow);
        // All active lanes make the access.
        let masks = match self.active.clone() {
            Some(active) => active,
            None => vec![self.b.ones()],
        };
        let addresses = self.splat(address, true);
        for (piece, mask) in masks.into_iter().enumerate() {
            self.fail_at(piece, mask, [addresses; 2], access);
        }
        self.b.jump(ok);
        self.b.enter_sealed(ok);
    }

    /// The place of an access in its granule, and how much of that is valid, in units of the access.
    pub(in crate::simd::lower) fn place_in_granule(
        &mut self,
        address: Value,
        shift: u32,
    ) -> (Value, Value) {
        let base = self.field(LONG, offset::ARENA_BASE);
        let inside = self.alu(Alu::Sub, true, address, base);
        let unit = self.rotated(inside, shift);
        let bits = GRANULE_SHIFT - shift;
        let granule = self.shift_int(Shift::Right, true, unit, bits as u8);
        // No byte of the last granule may be accessed.
        let last = self.field(LONG, offset::LAST_GRANULE);
        self.compare_int(true, granule, last);
        let granule = self.select_int(Condition::Above, true, granule, last);
        let shadow = self.field(LONG, offset::SHADOW);
        let at = self.b.value(INT);
        let operands = [
            Operand::reg_def(at),
            Operand::reg_use(shadow),
            Operand::reg_use(granule),
        ];
        let op = Op::Indexed {
            scale: 1,
            offset: 0,
        };
        self.b.emit(op, operands);
        let half = Memory {
            bytes: 2,
            signed: false,
            wide: true,
        };
        let valid = self.load_int(half, at, 0);
        let valid = self.shift_int(Shift::Right, true, valid, shift as u8);
        let place = self.alu_immediate(Alu::And, true, unit, (1 << bits) - 1);
        (place, valid)
    }

    fn rotated(&mut self, value: Value, by: u32) -> Value {
        self.shift_int(Shift::Rotate, true, value, by as u8)
    }
}
