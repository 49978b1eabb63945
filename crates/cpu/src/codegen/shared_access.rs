//! Accesses of a lane group to shared memory whose bounds follow from one register.

use super::vectorize::{Lowering, lowering};
use crate::program::{
    Arg, Base, ByteOffset, Instruction, Program, Reg, RegClass, Step, Uniformity, UniformityInfo,
};
use ptx::names::{Modifier as M, Opcode as O};

/// What all lanes of a group access together.
#[derive(Clone, Copy)]
pub(super) struct SharedAccess {
    /// The instruction, by the start of its operands.
    pub operands: u32,
    /// The register with the address of the first lane, and the distance of its access.
    pub base: Reg,
    pub offset: ByteOffset,
    /// The distance of the lowest byte from the first lane's.
    pub lowest: i64,
    pub bytes: i64,
    pub align: u32,
}

/// The access of a step, if it is such a one.
pub(super) fn shared_access(
    program: &Program<'_>,
    uniformity: &UniformityInfo,
    step: &Step,
    has_fma: bool,
) -> Option<SharedAccess> {
    let Step::Instruction(i) = step else {
        return None;
    };
    let (base, offset) = shared_address(program, i)?;
    let (element, count) = size(program, i)?;
    let whole = i64::from(element) * i64::from(count);
    let lanes = i64::from(uniformity.group.width()) - 1;
    let (distance, align) = match lowering(program, &|reg| uniformity.of(reg), step, has_fma) {
        Lowering::Uniform => (0, whole),
        Lowering::Contiguous => (i64::from(element) * lanes, i64::from(element)),
        Lowering::Scalarized => match uniformity.of(base) {
            Uniformity::Affine(stride) if stride % whole == 0 => (stride * lanes, whole),
            _ => return None,
        },
        Lowering::Widened | Lowering::FirstLane | Lowering::LastLane => return None,
    };
    let align = u32::try_from(align).ok().filter(|n| n.is_power_of_two())?;
    offset.is_small().then_some(SharedAccess {
        operands: i.args.start,
        base,
        offset,
        lowest: distance.min(0),
        bytes: whole + distance.abs(),
        align,
    })
}

/// The address of an access to shared memory that nothing orders.
pub(super) fn shared_address(program: &Program<'_>, i: &Instruction) -> Option<(Reg, ByteOffset)> {
    let operand = match i.opcode {
        O::Ld => 1,
        O::St => 0,
        _ => return None,
    };
    let m = &i.modifiers;
    let ordered = [
        M::Volatile,
        M::Relaxed,
        M::Acquire,
        M::Release,
        M::Mmio,
        M::Async,
    ];
    if m.first_of(&[M::Shared, M::SharedCta]).is_none() || m.first_of(&ordered).is_some() {
        return None;
    }
    match *program.list(i.args).get(operand)? {
        Arg::Address(Base::Reg(reg), offset) => matches!(
            program.registers[reg.index()],
            RegClass::I32 | RegClass::I64
        )
        .then_some((reg, offset)),
        _ => None,
    }
}

/// The bytes of an element, and the number of elements.
fn size(program: &Program<'_>, i: &Instruction) -> Option<(u32, u32)> {
    let bytes = i.modifiers.types().next()?.bytes() as u32;
    let value = program.list(i.args).get(usize::from(i.opcode != O::Ld))?;
    match *value {
        Arg::List(list) => Some((bytes, list.len)),
        _ => Some((bytes, 1)),
    }
}

/// The amount by which an instruction increments a register.
pub(super) fn increment(program: &Program<'_>, i: &Instruction, reg: Reg) -> Option<ByteOffset> {
    let amount = match program.list(i.args) {
        &[Arg::Reg(to), Arg::Reg(from), Arg::Int(amount)] if to == reg && from == reg => amount,
        _ => return None,
    };
    let plain = i.modifiers.first_of(&[M::Sat, M::Cc]).is_none() && i.guard.is_none();
    let bytes = u64::from(program.registers[reg.index()].bytes());
    let ty = i.modifiers.types().next()?;
    let is_integer = matches!(
        program.registers[reg.index()],
        RegClass::I32 | RegClass::I64
    );
    if !plain || !is_integer || ty.bytes() != bytes {
        return None;
    }
    let amount = match bytes {
        4 => i64::from(amount as u32 as i32),
        _ => amount.cast_signed(),
    };
    let amount = match i.opcode {
        O::Add => amount,
        O::Sub => amount.checked_neg()?,
        _ => return None,
    };
    ByteOffset::new(amount)
}
