//! Copies of many bytes: `cp.async.bulk`, its reductions, and boxes of tensors. Waits for them
//! do nothing, as a copy is complete where it stands.

use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};

use super::memory::Space;
use crate::abi::{Access, offset};
use crate::codegen::emitter::{EmitResult, Emitter};
use crate::program::{Arg, Base, Instruction, Storage};
use crate::runtime::{
    AddressSpace, HALOS, Helper, Number, OFFSET_BEHIND_HALO, OFFSETS, OFFSETS_BEHIND_HALO,
    Reduction, SHIFTS, TensorShifts, offset_bits,
};
use crate::tensor_map::{self, Along};
use ptx::names::{Modifier as M, Type as P};

/// The state spaces of an instruction, the destination's first.
fn spaces(i: &Instruction) -> impl Iterator<Item = AddressSpace> + '_ {
    i.modifiers.as_slice().iter().filter_map(|word| match word {
        M::Global => Some(AddressSpace::Generic),
        M::Shared | M::SharedCta => Some(AddressSpace::Shared),
        M::SharedCluster => Some(AddressSpace::Cluster),
        _ => None,
    })
}

/// The reduction of an instruction; 0 is none.
fn reduction(i: &Instruction) -> u64 {
    let all = [
        (M::Add, Reduction::Add),
        (M::Min, Reduction::Min),
        (M::Max, Reduction::Max),
        (M::Inc, Reduction::Inc),
        (M::Dec, Reduction::Dec),
        (M::And, Reduction::And),
        (M::Or, Reduction::Or),
        (M::Xor, Reduction::Xor),
    ];
    let found = all.into_iter().find(|(word, _)| i.modifiers.has(*word));
    found.map_or(0, |(_, reduction)| reduction as u64)
}

/// The elements of a reduction.
fn number(ty: P) -> Option<Number> {
    Some(match ty {
        P::U32 | P::B32 => Number::U32,
        P::S32 => Number::S32,
        P::U64 | P::B64 => Number::U64,
        P::S64 => Number::S64,
        P::F16 => Number::F16,
        P::Bf16 => Number::Bf16,
        P::F32 => Number::F32,
        P::F64 => Number::F64,
        _ => return None,
    })
}

fn is_multicast(i: &Instruction) -> bool {
    let words = [M::MulticastCluster, M::MulticastCluster16b];
    i.modifiers.first_of(&words).is_some()
}

/// Where the pixels are that are copied in columns.
fn along(i: &Instruction) -> Option<Along> {
    let all = [
        (M::Im2col, Along::Image),
        (M::Im2colNoOffs, Along::Image),
        (M::Im2colW, Along::Width),
        (M::Im2colNoOffsW, Along::Width),
        (M::Im2colW128, Along::Width128),
    ];
    let found = all.into_iter().find(|(word, _)| i.modifiers.has(*word));
    found.map(|(_, along)| along)
}

impl Emitter<'_, '_> {
    /// `cp.async.bulk` and `cp.reduce.async.bulk` between global and shared memory.
    pub fn copy_bulk(&mut self, i: &Instruction) -> EmitResult<()> {
        let m = &i.modifiers;
        if m.has(M::Tensor) {
            return self.copy_tensor(i);
        }
        if m.first_of(&[M::CommitGroup, M::WaitGroup, M::Prefetch])
            .is_some()
        {
            return Ok(());
        }
        let multicast = is_multicast(i);
        let unknown = |word: &M| {
            let word = word.text();
            matches!(word, "cp_mask" | "ignore_oob")
                || word.starts_with("multicast") && !multicast
                || word.contains("report")
        };
        if m.as_slice().iter().any(unknown) {
            return self.unsupported(i, "unsupported bulk copy");
        }
        let mut spaces = spaces(i);
        let (Some(to_space), Some(from_space)) = (spaces.next(), spaces.next()) else {
            return self.unsupported(i, "a bulk copy between other state spaces");
        };
        let reduction = reduction(i);
        let number = match reduction {
            0 => Number::U32,
            _ => match number(self.ty(i, 0)?) {
                Some(number) => number,
                None => return self.unsupported(i, "unsupported type"),
            },
        };
        let (_, to) = self.address_value(i, 0)?;
        let (_, from) = self.address_value(i, 1)?;
        let bytes = self.operand(i, 2, types::I32)?;
        let mut bytes = self.coerce(bytes, types::I64);
        let counted = m.has(M::MbarrierCompleteTxBytes);
        // ptxas takes a policy or a mask in its place too.
        if counted && !matches!(self.arg(i, 3)?, Arg::Address(..)) {
            return self.unsupported(i, "a bulk copy without a barrier");
        }
        // The barrier is where the data go to.
        let (barrier_space, barrier) = if counted {
            (to_space, self.address_value(i, 3)?.1)
        } else {
            (AddressSpace::Generic, self.int(types::I64, 0))
        };
        if multicast {
            let mask = self.operand(i, 4, types::I16)?;
            bytes = self.above(bytes, mask, 32);
        }
        let encoded = (to_space as u64) << SHIFTS.to
            | (from_space as u64) << SHIFTS.from
            | (barrier_space as u64) << SHIFTS.barrier
            | u64::from(counted) << SHIFTS.counted
            | u64::from(multicast) << SHIFTS.multicast
            | reduction << SHIFTS.reduction
            | (number as u64) << SHIFTS.number
            | u64::from(self.line) << 32;
        let encoded = self.int(types::I64, encoded);
        let context = self.fixed.context;
        let thread = self.thread_index();
        let args = [context, thread, encoded, to, from, bytes, barrier];
        let failed = self.call(Helper::copy_bulk, &args);
        self.fail_if(failed);
        Ok(())
    }

    /// `low` of 64 bits, and a value from bit `at` on.
    pub fn above(&mut self, low: Value, value: Value, at: u64) -> Value {
        let value = self.coerce(value, types::I64);
        let by = self.int(types::I32, at);
        let value = self.b.ins().ishl(value, by);
        self.b.ins().bor(low, value)
    }

    /// An address with or without brackets.
    fn shared_address(&mut self, i: &Instruction, n: usize) -> EmitResult<Value> {
        match self.arg(i, n)? {
            Arg::Reg(_) => self.operand(i, n, types::I64),
            _ => Ok(self.address_value(i, n)?.1),
        }
    }

    /// `cp.async.bulk.tensor` and its reductions.
    fn copy_tensor(&mut self, i: &Instruction) -> EmitResult<()> {
        let m = &i.modifiers;
        if m.has(M::Prefetch) {
            return Ok(());
        }
        let multicast = is_multicast(i);
        let rows = m.first_of(&[M::TileGather4, M::TileScatter4]).is_some();
        let unknown = |word: &M| {
            let word = word.text();
            let prefixes = ["override", "mbarrier::report"];
            word == "cta_group::2"
                || word.starts_with("multicast") && !multicast
                || prefixes.iter().any(|prefix| word.starts_with(prefix))
        };
        if m.as_slice().iter().any(unknown) {
            return self.unsupported(i, "unsupported copy of a box");
        }
        let all = [M::N1d, M::N2d, M::N3d, M::N4d, M::N5d];
        let Some(dimensions) = all.iter().position(|word| m.has(*word)) else {
            return self.unsupported(i, "a tensor without dimensions");
        };
        let Some(first) = spaces(i).next() else {
            return self.unsupported(i, "a copy between other state spaces");
        };
        let stores = first == AddressSpace::Generic;
        let (tensor, shared) = if stores { (0, 1) } else { (1, 0) };
        let Arg::List(list) = self.arg(i, tensor)? else {
            return self.unsupported(i, "unsupported operand");
        };
        let &[map, Arg::List(coordinates)] = self.list(list) else {
            return self.unsupported(i, "unsupported operand");
        };
        let coordinates = self.list(coordinates);
        if coordinates.len() != if rows { 5 } else { dimensions + 1 } {
            return self.unsupported(i, "another number of coordinates");
        }
        let map = self.tensor_address(map)?;
        let space = if stores { AddressSpace::Shared } else { first };
        let shared = self.shared_address(i, shared)?;
        let mut words = [None; 3];
        for (n, &coordinate) in coordinates.iter().enumerate() {
            let value = self.read(coordinate, types::I32)?;
            let value = self.coerce(value, types::I64);
            words[n / 2] = Some(match words[n / 2] {
                None => value,
                Some(low) => self.above(low, value, 32),
            });
        }
        let zero = self.int(types::I64, 0);
        let mut words = words.map(|word| word.unwrap_or(zero));
        let mut next = 3;
        let along = along(i);
        if m.first_of(&[M::Im2col, M::Im2colW, M::Im2colW128])
            .is_some()
        {
            let Arg::List(offsets) = self.arg(i, next)? else {
                return self.unsupported(i, "unsupported operand");
            };
            next += 1;
            let offsets = self.list(offsets);
            if along == Some(Along::Image) {
                self.offsets(i, dimensions, offsets, &mut words[2])?;
            } else {
                self.halo(i, offsets, &mut words[2])?;
            }
        }
        if multicast {
            let mask = self.operand(i, next, types::I16)?;
            words[2] = self.above(words[2], mask, 32);
        }
        let barrier = if stores {
            zero
        } else {
            self.shared_address(i, 2)?
        };
        let shifts = TensorShifts::ALL;
        let encoded = (space as u64) << shifts.space
            | u64::from(stores) << shifts.stores
            | u64::from(multicast) << shifts.multicast
            | u64::from(rows) << shifts.rows
            | along.map_or(0, |along| along as u64) << shifts.along
            | (dimensions as u64) << shifts.rank
            | reduction(i) << shifts.reduction
            | u64::from(self.line) << 32;
        let encoded = self.int(types::I64, encoded);
        let context = self.fixed.context;
        let thread = self.thread_index();
        let [low, middle, high] = words;
        let args = [
            context, thread, encoded, shared, map, low, middle, high, barrier,
        ];
        let failed = self.call(Helper::copy_tensor, &args);
        self.fail_if(failed);
        Ok(())
    }

    /// Puts the offsets of a filter behind the fifth coordinate.
    fn offsets(
        &mut self,
        i: &Instruction,
        dimensions: usize,
        offsets: &[Arg],
        high: &mut Value,
    ) -> EmitResult<()> {
        if offsets.len() + 1 != dimensions {
            return self.unsupported(i, "another number of offsets");
        }
        let bits = offset_bits(offsets.len());
        for (n, &offset) in (0..).zip(offsets) {
            let value = self.read(offset, types::I16)?;
            let value = self.coerce(value, types::I32);
            let mask = self.int(types::I32, (1 << bits) - 1);
            let value = self.b.ins().band(value, mask);
            *high = self.above(*high, value, u64::from(OFFSETS + bits * n));
        }
        Ok(())
    }

    /// The same of the halo and the offset of a column along the width. Those that are too large
    /// stay so.
    fn halo(&mut self, i: &Instruction, operands: &[Arg], high: &mut Value) -> EmitResult<()> {
        let &[halo, offset] = operands else {
            return self.unsupported(i, "a halo and an offset are missing");
        };
        let places = [
            (halo, HALOS, OFFSETS),
            (offset, OFFSETS_BEHIND_HALO, OFFSET_BEHIND_HALO),
        ];
        for (operand, most, at) in places {
            let value = self.read(operand, types::I16)?;
            let value = self.coerce(value, types::I32);
            let most = self.int(types::I32, most.into());
            let value = self.b.ins().umin(value, most);
            *high = self.above(*high, value, at.into());
        }
        Ok(())
    }

    /// The generic address of a tensor map.
    fn tensor_address(&mut self, map: Arg) -> EmitResult<Value> {
        let address = match map {
            Arg::Address(base @ Base::Reg(_), offset) => {
                self.address_in(Space::Generic, base, offset.bytes())
            }
            _ => self.read(map, types::I64)?,
        };
        Ok(match map {
            Arg::Symbol(Storage::Param(_), _) => {
                let params = self.params();
                self.b.ins().iadd(params, address)
            }
            _ => address,
        })
    }

    /// `tensormap.replace` and `tensormap.cp_fenceproxy`
    pub fn tensor_map(&mut self, i: &Instruction) -> EmitResult<()> {
        let m = &i.modifiers;
        if m.has(M::CpFenceproxy) {
            let encoded = (AddressSpace::Generic as u64) << SHIFTS.to
                | (AddressSpace::Shared as u64) << SHIFTS.from
                | u64::from(self.line) << 32;
            let encoded = self.int(types::I64, encoded);
            let (_, to) = self.address_value(i, 0)?;
            let (_, from) = self.address_value(i, 1)?;
            let bytes = self.int(types::I64, tensor_map::BYTES as u64);
            let barrier = self.int(types::I64, 0);
            let context = self.fixed.context;
            let thread = self.thread_index();
            let args = [context, thread, encoded, to, from, bytes, barrier];
            let failed = self.call(Helper::copy_bulk, &args);
            self.fail_if(failed);
            return Ok(());
        }
        let ordinal = match self.arg(i, 1)? {
            Arg::Int(number) if self.arg_count(i) > 2 => number as usize,
            _ => 0,
        };
        let mut names = m.as_slice().iter().map(|word| word.text());
        let field = names.find_map(|name| tensor_map::field(name, ordinal));
        let Some((at, bytes)) = field else {
            return self.unsupported(i, "unsupported field of a tensor map");
        };
        let (base, offset) = self.address(i, 0)?;
        let space = match m.first_of(&[M::Shared, M::SharedCta]) {
            Some(_) => Space::Shared,
            None => Space::Generic,
        };
        let address = self.address_in(space, base, offset.wrapping_add(at as i64));
        let access = bytes as u32
            | Access::WRITE
            | match space {
                Space::Shared => Access::SHARED,
                _ => 0,
            };
        self.check(address, space, bytes as u32, access);
        let address = match space {
            Space::Shared => {
                let shared = self.context_word(offset::SHARED);
                self.b.ins().iadd(shared, address)
            }
            _ => address,
        };
        // Dimensions are wider in the map than in the instruction.
        let ty = if m.has(M::B64) {
            types::I64
        } else {
            types::I32
        };
        let value = self.operand(i, self.arg_count(i) - 1, ty)?;
        let wanted = Type::int(8 * bytes as u16).unwrap_or(types::I64);
        let value = self.coerce(value, wanted);
        let flags = MemFlagsData::trusted();
        self.b.ins().store(flags, value, address, 0);
        Ok(())
    }
}
