//! The kernel parameter that an address is computed from.
//!
//! It says which allocation an access probably is in. The access is checked all the same.

use crate::program::ir::{Arg, Base, Instruction, Program, RegClass, Step, Storage};
use ptx::names::Opcode as O;

/// What is known of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// Nothing is computed from a pointer parameter, as far as is known.
    Nowhere,
    /// The offset of the parameter.
    Param(u32),
    /// More than one of them.
    Several,
}

impl Origin {
    fn join(self, other: Origin) -> Origin {
        match (self, other) {
            (Origin::Nowhere, known) | (known, Origin::Nowhere) => known,
            (a, b) if a == b => a,
            _ => Origin::Several,
        }
    }
}

/// For each register, the offset of the 64-bit parameter that its value is computed from, if it is
/// an address in global memory and there is one such parameter.
pub(crate) fn pointers(program: &Program<'_>) -> Vec<Option<u32>> {
    let mut origins = vec![Origin::Nowhere; program.registers.len()];
    let steps = program.blocks.iter().flat_map(|block| &block.steps);
    let instructions: Vec<&Instruction> = steps
        .filter_map(|step| match step {
            Step::Instruction(i) => Some(i),
            Step::SystemCall { .. } => None,
        })
        .filter(|i| {
            let to = program.list(i.args).first();
            matches!(to, Some(Arg::Reg(to)) if program.registers[to.index()] == RegClass::I64)
        })
        .collect();
    // A register only goes from one state to the next, so that this ends.
    loop {
        let mut changed = false;
        for i in &instructions {
            let Some((Arg::Reg(to), from)) = program.list(i.args).split_first() else {
                continue;
            };
            let found = match i.opcode {
                O::Ld => loaded(from),
                O::Add | O::Sub | O::Mad | O::Mov | O::Cvta => computed(&origins, from),
                _ => Origin::Nowhere,
            };
            let known = &mut origins[to.index()];
            let joined = known.join(found);
            changed |= joined != *known;
            *known = joined;
        }
        if !changed {
            break;
        }
    }
    let param = |origin| match origin {
        Origin::Param(offset) => Some(offset),
        Origin::Nowhere | Origin::Several => None,
    };
    origins.into_iter().map(param).collect()
}

fn loaded(from: &[Arg]) -> Origin {
    match *from {
        [
            Arg::Address(Base::Storage(Storage::Param(base)), offset),
            ..,
        ] => match u32::try_from(i64::from(base) + offset.bytes()) {
            Ok(offset) => Origin::Param(offset),
            Err(_) => Origin::Nowhere,
        },
        _ => Origin::Nowhere,
    }
}

fn computed(origins: &[Origin], from: &[Arg]) -> Origin {
    let of = |arg: &Arg| match *arg {
        Arg::Reg(reg) => origins[reg.index()],
        _ => Origin::Nowhere,
    };
    from.iter().map(of).fold(Origin::Nowhere, Origin::join)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::test_program::with_program;

    #[test]
    fn addresses_are_of_the_parameter_that_they_start_from() {
        let source = ".version 8.0\n.target sm_80\n.address_size 64\n
        .entry k(.param .u64 a, .param .u32 n, .param .u64 b) {
            .reg .b64 %x<8>; .reg .b32 %i; .reg .pred %p;
            ld.param.u64 %x0, [a]; ld.param.u64 %x1, [b]; ld.param.u32 %i, [n];
            cvta.to.global.u64 %x2, %x0;
            mul.wide.u32 %x3, %i, 4;
            add.s64 %x4, %x3, %x2;
            mad.wide.u32 %x5, %i, 4, %x1;
            setp.eq.u32 %p, %i, 0;
            mov.u64 %x6, %x0;
            @%p mov.u64 %x6, %x1;
            ld.global.u64 %x7, [%x4];
            st.global.u64 [%x5], %x6;
            st.global.u64 [%x7], %x6;
        }";
        let found = with_program(source, pointers);
        // The parameter n takes 4 bytes behind a, and b is aligned.
        let expected = [
            Some(0),
            Some(16),
            Some(0),
            None,
            Some(0),
            Some(16),
            None,
            None,
        ];
        assert_eq!(found[..8], expected);
    }
}
