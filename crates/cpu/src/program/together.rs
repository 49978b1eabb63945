//! Sync points that the lanes of a full warp execute together, without being suspended: of
//! shuffles, votes and reductions those that name all lanes.

use super::byte_offset::ByteOffset;
use super::ir::{Arg, Base, Instruction, Program, RegClass};
use ptx::names::{Modifier as M, Opcode as O, Type};

/// How the results of such an operation differ from lane to lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Together {
    /// Each lane has its own, or none has any.
    Each,
    /// All lanes have the same.
    Shared,
    /// All lanes have the value of one of them, if this operand is the same for all.
    SharedFrom(Arg),
}

/// `None` if the lanes have to be suspended.
pub(crate) fn together(program: &Program<'_>, i: &Instruction) -> Option<Together> {
    let args = program.list(i.args);
    // Without a member mask, it is an instruction of before sm_70.
    let all = |n: usize| match args.get(n) {
        Some(&Arg::Int(mask)) => mask as u32 == u32::MAX,
        Some(_) => false,
        None => true,
    };
    let mut words = true;
    for &arg in args {
        program.registers_of(arg, &mut |reg| {
            let class = program.registers[reg.index()];
            words &= matches!(class, RegClass::I32 | RegClass::F32 | RegClass::Pred);
        });
    }
    let m = &i.modifiers;
    let (is_all, together) = match i.opcode {
        O::Shfl => {
            let any_lane = matches!(args.get(3), Some(Arg::Int(31)));
            let together = match args.get(2) {
                Some(&lane) if m.has(M::Idx) && any_lane => Together::SharedFrom(lane),
                _ => Together::Each,
            };
            (all(4), together)
        }
        O::Vote => (all(2), Together::Shared),
        O::Redux => {
            let is_float = m.types().any(|ty| ty == Type::F32);
            (all(2) && !is_float, Together::Shared)
        }
        O::Match => (all(2) && m.has(M::All), Together::Shared),
        O::Activemask => (true, Together::Shared),
        O::Elect => (all(1), Together::Each),
        O::Bar if m.has(M::Warp) => (all(0), Together::Each),
        O::Ldmatrix => (loads_rows(program, i), Together::Each),
        _ => return None,
    };
    (words && is_all).then_some(together)
}

/// Whether a lane of `ldmatrix` gets a word of a row as it is in memory, by addresses of 32 bits in
/// registers.
fn loads_rows(program: &Program<'_>, i: &Instruction) -> bool {
    let m = &i.modifiers;
    let in_shared = m.first_of(&[M::Shared, M::SharedCta]).is_some();
    let plain = m.has(M::M8n8) && m.types().eq([Type::B16]) && !m.has(M::Trans);
    let in_register = match program.list(i.args).get(1) {
        Some(&Arg::Address(Base::Reg(reg), offset)) => {
            let is_word = program.registers[reg.index()] == RegClass::I32;
            let is_row = offset >= ByteOffset::ZERO && offset.bytes() % ROW_BYTES == 0;
            is_word && is_row && offset.is_small()
        }
        _ => false,
    };
    in_shared && plain && in_register
}

/// Bytes of a row of a matrix.
const ROW_BYTES: i64 = 16;
