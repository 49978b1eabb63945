//! Accesses that a lane group makes lane by lane, checked at once.
//!
//! Where a lane may be out of bounds, each is checked by itself in the order of the lanes, so that
//! the first that is out of bounds is reported.

use crate::program::ByteOffset;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};

use super::checked_address::CheckedAddress;
use super::emitter::{EmitResult, Emitter};
use super::group_checked::{Addresses, GroupChecked};
use super::lane_set::{LaneSet, each_lane, vectors};
use super::lane_values::LaneValues;
use super::memory::{Space, space_of};
use crate::abi::{Access, WARP_SIZE, offset};
use crate::memory::GRANULE;
use crate::program::{Arg, Base, Instruction, Reg, RegClass, Uniformity};
use ptx::names::{Modifier as M, Opcode as O};

/// Where and how much each lane accesses.
struct LaneAccess {
    /// The lanes from the first on that access memory.
    lanes: u32,
    reg: Reg,
    offset: i64,
    bytes: u32,
    space: Space,
    store: bool,
}

fn lane_access(e: &Emitter<'_, '_>, i: &Instruction) -> Option<LaneAccess> {
    let (address, value) = match i.opcode {
        O::Ld => (1, 0),
        O::St => (0, 1),
        O::Atom => (1, 2),
        O::Red => (0, 1),
        _ => return None,
    };
    let space = space_of(i);
    if !matches!(space, Space::Shared | Space::Generic) || i.modifiers.has(M::SharedCluster) {
        return None;
    }
    let args = e.program.list(i.args);
    let &Arg::Address(Base::Reg(reg), offset) = args.get(address)? else {
        return None;
    };
    let count = match args.get(value)? {
        Arg::List(list) => list.len,
        _ => 1,
    };
    let bytes = (i.modifiers.types().next()?.bytes() as u32).checked_mul(count)?;
    let is_small = offset.is_small();
    let offset = offset.bytes();
    let is_known = is_small
        && matches!(bytes, 1 | 2 | 4 | 8 | 16)
        && offset % i64::from(bytes) == 0
        && !i.modifiers.has(M::MbarrierCompleteTxBytes);
    is_known.then_some(LaneAccess {
        lanes: e.width,
        reg,
        offset,
        bytes,
        space,
        store: i.opcode != O::Ld,
    })
}

/// Checks all lanes of an access, if they can be checked at once.
pub(super) fn emit(e: &mut Emitter<'_, '_>, i: &Instruction) -> EmitResult<()> {
    let Some(access) = lane_access(e, i) else {
        return Ok(());
    };
    let class = e.program.registers[access.reg.index()];
    let uniformity = e.locations[access.reg.index()].uniformity;
    let known = match uniformity {
        Uniformity::Affine(stride) => e.in_bounds(i).map(|at| (at, stride)),
        _ => None,
    };
    if let Some((at, stride)) = known {
        let address = e.add_offset(at.address, at.offset.into());
        e.group_checked = Some(GroupChecked {
            operands: i.args.start,
            addresses: Addresses::Strided(address, stride),
        });
        return Ok(());
    }
    let addresses = match uniformity {
        Uniformity::Affine(stride) if stride % i64::from(access.bytes) == 0 => {
            let Some(addresses) = strided(e, i, &access, stride)? else {
                return Ok(());
            };
            addresses
        }
        Uniformity::Divergent if class == RegClass::I32 && access.space == Space::Shared => {
            match distances(e, &access) {
                Some(distances) => at_distances(e, i, &access, distances),
                None if access.offset >= 0 => scattered(e, i, &access)?,
                None => return Ok(()),
            }
        }
        _ => return Ok(()),
    };
    e.group_checked = Some(GroupChecked {
        operands: i.args.start,
        addresses,
    });
    Ok(())
}

/// Addresses at one distance from each other: both ends are in bounds. In global memory they must
/// be close to each other.
fn strided(
    e: &mut Emitter<'_, '_>,
    i: &Instruction,
    access: &LaneAccess,
    stride: i64,
) -> EmitResult<Option<Addresses>> {
    let distance = stride * i64::from(e.width - 1);
    let length = distance.abs() + i64::from(access.bytes);
    let class = e.program.registers[access.reg.index()];
    if access.space == Space::Generic && (length > GRANULE.cast_signed() || class != RegClass::I64)
    {
        return Ok(None);
    }
    e.lane_set = LaneSet::Scalar;
    let first = e.address_in(access.space, Base::Reg(access.reg), access.offset);
    let lowest = e.add_offset(first, distance.min(0));
    let (ok, cold) = (e.b.create_block(), e.b.create_block());
    e.b.set_cold_block(cold);
    let shift = access.bytes.trailing_zeros();
    let start = if access.space == Space::Generic {
        e.check_span((lowest, Some(access.reg)), shift, length >> shift, ok, cold);
        None
    } else {
        check_shared(e, lowest, length, access.bytes, (ok, cold));
        Some(offset::SHARED)
    };
    check_each(e, i, access, cold, ok);
    let address = match start {
        Some(start) => {
            let shared = e.context_word(start);
            e.b.ins().iadd(shared, first)
        }
        None => first,
    };
    Ok(Some(Addresses::Strided(address, stride)))
}

/// Goes on at `ok` if so many bytes of shared memory from the lowest on exist, at which an access
/// is aligned.
fn check_shared(
    e: &mut Emitter<'_, '_>,
    lowest: Value,
    length: i64,
    align: u32,
    (ok, cold): (Block, Block),
) {
    // The number of places where the lowest may be, in units of its size.
    let shift = e.scalar_int(types::I32, align.trailing_zeros().into());
    let size = e.context_word(offset::SHARED_SIZE);
    let places = e.add_offset(size, -length);
    let places = e.b.ins().sshr(places, shift);
    let places = e.add_offset(places, 1);
    let zero = e.scalar_int(types::I64, 0);
    let places = e.b.ins().smax(places, zero);
    let number = e.b.ins().rotr(lowest, shift);
    let good = e.icmp(IntCC::UnsignedLessThan, number, places);
    e.b.ins().brif(good, ok, &[], cold, &[]);
}

/// The distances of the lanes' addresses from that of the first, where they are known, and keep
/// the alignment.
fn distances(e: &Emitter<'_, '_>, access: &LaneAccess) -> Option<[i32; WARP_SIZE as usize]> {
    let bits = e.locations[access.reg.index()].lane_bits?;
    let mut distances = [0; WARP_SIZE as usize];
    for (lane, distance) in (0..access.lanes).zip(&mut distances) {
        let set = (0..).zip(bits).filter(|(bit, _)| lane >> bit & 1 != 0);
        let all = set.map(|(_, part)| part).sum::<i64>();
        let small = ByteOffset::new(all).filter(|all| all.is_small())?;
        if small.bytes() % i64::from(access.bytes) != 0 {
            return None;
        }
        *distance = i32::try_from(all).ok()?;
    }
    Some(distances)
}

/// Addresses at known distances from the first: both ends are in bounds.
fn at_distances(
    e: &mut Emitter<'_, '_>,
    i: &Instruction,
    access: &LaneAccess,
    distances: [i32; WARP_SIZE as usize],
) -> Addresses {
    let lowest: i64 = distances.into_iter().fold(0, i32::min).into();
    let highest: i64 = distances.into_iter().fold(0, i32::max).into();
    e.lane_set = LaneSet::Lane(0);
    let first = e.address_in(Space::Shared, Base::Reg(access.reg), access.offset);
    e.lane_set = LaneSet::Scalar;
    let (ok, cold) = (e.b.create_block(), e.b.create_block());
    e.b.set_cold_block(cold);
    let start = e.add_offset(first, lowest);
    let length = highest - lowest + i64::from(access.bytes);
    check_shared(e, start, length, access.bytes, (ok, cold));
    check_each(e, i, access, cold, ok);
    let shared = e.context_word(offset::SHARED);
    Addresses::Lanes(e.b.ins().iadd(shared, first), distances)
}

/// Addresses of any kind: the highest of them is in bounds, and all are aligned. Where the code that
/// computes them says so, they need no check.
fn scattered(
    e: &mut Emitter<'_, '_>,
    i: &Instruction,
    access: &LaneAccess,
) -> EmitResult<Addresses> {
    let (mut highest, mut bits): (Option<Value>, Option<Value>) = (None, None);
    let (mut in_bounds, mut loaded) = (true, true);
    for vector in vectors(access.lanes, RegClass::I32) {
        e.lane_set = vector;
        let at = e.register(access.reg);
        highest = Some(highest.map_or(at, |highest| e.b.ins().umax(highest, at)));
        bits = Some(bits.map_or(at, |bits| e.b.ins().bor(bits, at)));
        let values = LaneValues::of(e, at);
        let end = values.highest + access.offset + i64::from(access.bytes);
        in_bounds &=
            end <= e.program.shared_bytes.into() && values.zeros >= access.bytes.trailing_zeros();
        loaded &= values.is_loaded(e);
    }
    e.lane_set = LaneSet::Scalar;
    let shared = e.context_word(offset::SHARED);
    let (reg, offset) = (access.reg, access.offset as i32);
    if in_bounds && loaded {
        return Ok(Addresses::Loaded(shared, reg, offset));
    }
    if let (Some(highest), Some(bits), false) = (highest, bits, in_bounds) {
        let size = e.context_word(offset::SHARED_SIZE);
        let last = e.add_offset(size, -(access.offset + i64::from(access.bytes)));
        let exists = e.icmp_imm(IntCC::SignedGreaterThanOrEqual, last, 0);
        let last = e.coerce(last, types::I32);
        let last = e.b.ins().splat(types::I32X4, last);
        let mut good = e.icmp(IntCC::UnsignedLessThanOrEqual, highest, last);
        if access.bytes > 1 {
            let odd = e.scalar_int(types::I32, u64::from(access.bytes - 1));
            let odd = e.b.ins().splat(types::I32X4, odd);
            let odd = e.b.ins().band(bits, odd);
            let zero = e.scalar_int(types::I32, 0);
            let zero = e.b.ins().splat(types::I32X4, zero);
            let aligned = e.icmp(IntCC::Equal, odd, zero);
            good = e.b.ins().band(good, aligned);
        }
        let good = e.b.ins().vall_true(good);
        let good = e.b.ins().band(good, exists);
        let (ok, cold) = (e.b.create_block(), e.b.create_block());
        e.b.set_cold_block(cold);
        e.b.ins().brif(good, ok, &[], cold, &[]);
        check_each(e, i, access, cold, ok);
    }
    Ok(Addresses::Register(shared, reg, offset))
}

/// Checks loads of `bytes` from shared memory by the first lanes, at an offset from a register.
pub(super) fn loads(
    e: &mut Emitter<'_, '_>,
    i: &Instruction,
    (reg, offset): (Reg, i64),
    bytes: u32,
    lanes: u32,
) -> EmitResult<()> {
    let access = LaneAccess {
        lanes,
        reg,
        offset,
        bytes,
        space: Space::Shared,
        store: false,
    };
    scattered(e, i, &access).map(|_| ())
}

/// Checks each lane by itself in one block, and continues in another.
fn check_each(
    e: &mut Emitter<'_, '_>,
    i: &Instruction,
    access: &LaneAccess,
    cold: Block,
    ok: Block,
) {
    e.enter(cold);
    e.line = i.line;
    let write = if access.store { Access::WRITE } else { 0 };
    let space = match access.space {
        Space::Shared => Access::SHARED,
        _ => 0,
    };
    for lane in each_lane(access.lanes) {
        e.lane_set = lane;
        let address = e.address_in(access.space, Base::Reg(access.reg), access.offset);
        e.check(
            address,
            access.space,
            access.bytes,
            access.bytes | write | space,
        );
        if let Some(next) = e.b.current_block() {
            e.b.set_cold_block(next);
        }
    }
    e.lane_set = LaneSet::Scalar;
    let back = e.back_to(ok);
    e.b.ins().jump(back, &[]);
    e.enter(ok);
}

impl GroupChecked {
    /// The address of the current lane in an access that was checked.
    pub fn at(&self, e: &mut Emitter<'_, '_>, i: &Instruction) -> Option<CheckedAddress> {
        let LaneSet::Lane(lane) = e.lane_set else {
            return None;
        };
        if i.args.start != self.operands {
            return None;
        }
        Some(match self.addresses {
            Addresses::Strided(address, stride) => {
                CheckedAddress::new(address, i32::try_from(stride * i64::from(lane)).ok()?)
            }
            Addresses::Lanes(address, distances) => {
                CheckedAddress::new(address, *distances.get(lane as usize)?)
            }
            Addresses::Register(shared, reg, offset) => {
                let place = e.address_in(Space::Shared, Base::Reg(reg), offset.into());
                CheckedAddress::new(e.b.ins().iadd(shared, place), 0)
            }
            Addresses::Loaded(shared, reg, offset) => {
                e.lane_set = LaneSet::Vector(lane / 4);
                let vector = e.register(reg);
                e.lane_set = LaneSet::Lane(lane);
                let mut at = LaneValues::of(e, vector).address(e, shared, lane % 4)?;
                at.offset = at.offset.checked_add(offset)?;
                at
            }
        })
    }
}
