//! Loads of narrow values at a small distance from lane to lane: every fourth half of a row.
//!
//! A vector is loaded that ends with the value of its last lane, so that nothing behind the last
//! value of the group is read, and shifted.

use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::emitter::{EmitResult, Emitter, LITTLE_ENDIAN};
use super::group_checked::Addresses;
use super::lane_set::LaneSet;
use crate::program::{Arg, Instruction, Reg, RegClass};
use ptx::names::{Modifier as M, Opcode as O, Type as P};

/// Emits a load whose lanes have been checked at once, if it is such a one.
pub(super) fn emit(e: &mut Emitter<'_, '_>, i: &Instruction) -> EmitResult<bool> {
    let Some(reg) = destination(e, i) else {
        return Ok(false);
    };
    let (address, stride) = match &e.group_checked {
        Some(checked) => match checked.addresses {
            Addresses::Strided(address, stride) => (address, stride),
            Addresses::Lanes(address, distances) => {
                return side_by_side(e, i, reg, address, &distances);
            }
            Addresses::Register(..) | Addresses::Loaded(..) => return Ok(false),
        },
        None => return Ok(false),
    };
    let bytes = e.ty(i, 0)?.bytes().cast_signed();
    let ty = match stride {
        4 => types::I32X4,
        8 => types::I64X2,
        _ => return Ok(false),
    };
    if bytes >= stride || i64::from(e.width) * stride < 32 {
        return Ok(false);
    }
    e.line = i.line;
    e.set_guard(None);
    // The last bytes of each lane are those of its value.
    let unused = stride - bytes;
    let shift = e.scalar_int(types::I32, 8 * unused.cast_unsigned());
    let count = e.width / ty.lane_count();
    let vectors: Vec<Value> = (0..count)
        .map(|n| {
            let flags = LITTLE_ENDIAN.with_notrap();
            let at = 16 * n.cast_signed();
            match n {
                // Nothing before the first value is read.
                0 => {
                    let value = e.b.ins().load(ty, flags, address, at);
                    e.b.ins().ishl(value, shift)
                }
                _ => e.b.ins().load(ty, flags, address, at - unused as i32),
            }
        })
        .collect();
    let shift = e.scalar_int(types::I32, (32 - 8 * bytes).cast_unsigned());
    for (n, pair) in (0..).zip(vectors.chunks(if stride == 8 { 2 } else { 1 })) {
        let value = match *pair {
            [first, second] => {
                let high = [4, 12, 20, 28].into_iter().flat_map(|at| at..at + 4);
                e.bytes_of(first, second, high.collect())
            }
            _ => pair[0],
        };
        let value = match bytes {
            4 => value,
            _ => e.b.ins().ushr(value, shift),
        };
        let value = match e.program.registers[reg.index()] {
            RegClass::F32 => e.b.ins().bitcast(types::F32X4, LITTLE_ENDIAN, value),
            _ => value,
        };
        e.lane_set = LaneSet::Vector(n);
        e.set_register(reg, value);
    }
    e.lane_set = LaneSet::Scalar;
    Ok(true)
}

/// Loads words of which the lanes of each vector have four that lie side by side, such as those
/// that the threads of a warp read again and again.
fn side_by_side(
    e: &mut Emitter<'_, '_>,
    i: &Instruction,
    reg: Reg,
    address: Value,
    distances: &[i32],
) -> EmitResult<bool> {
    let distances = &distances[..e.width as usize];
    let is_run = |four: &[i32]| four.windows(2).all(|two| two[1] == two[0] + 4);
    if e.ty(i, 0)?.bytes() != 4 || !distances.chunks(4).all(is_run) {
        return Ok(false);
    }
    e.line = i.line;
    e.set_guard(None);
    let mut loaded: Vec<(i32, Value)> = Vec::new();
    for (n, four) in (0..).zip(distances.chunks(4)) {
        let value = match loaded.iter().find(|(at, _)| *at == four[0]) {
            Some((_, value)) => *value,
            None => {
                let flags = LITTLE_ENDIAN.with_notrap();
                let value = e.b.ins().load(types::I32X4, flags, address, four[0]);
                loaded.push((four[0], value));
                value
            }
        };
        e.lane_set = LaneSet::Vector(n);
        e.set_register(reg, value);
    }
    e.lane_set = LaneSet::Scalar;
    Ok(true)
}

/// The register that a load writes, if its upper bits are 0.
fn destination(e: &Emitter<'_, '_>, i: &Instruction) -> Option<Reg> {
    let reg = match *e.program.list(i.args).first()? {
        Arg::Reg(reg) => reg,
        Arg::List(list) => match *e.program.list(list) {
            [Arg::Reg(reg)] => reg,
            _ => return None,
        },
        _ => return None,
    };
    let ty = i.modifiers.types().next()?;
    let is_extended = match e.program.registers[reg.index()] {
        RegClass::I16 => matches!(ty, P::U8 | P::B8 | P::U16 | P::B16 | P::S16),
        RegClass::I32 => matches!(
            ty,
            P::U8 | P::B8 | P::U16 | P::B16 | P::U32 | P::B32 | P::S32
        ),
        RegClass::F32 => matches!(ty, P::F32 | P::B32),
        _ => false,
    };
    (is_plain(e, i) && is_extended).then_some(reg)
}

/// Whether nothing orders a load, and nobody observes the accesses of its lanes.
pub(super) fn is_plain(e: &Emitter<'_, '_>, i: &Instruction) -> bool {
    let ordered = [M::Volatile, M::Relaxed, M::Acquire, M::Mmio];
    i.opcode == O::Ld
        && i.guard.is_none()
        && i.modifiers.first_of(&ordered).is_none()
        && !e.is_sanitized
}
