//! The size of a block that is known: numbers in place of `%ntid`.

use crate::program::ir::{Arg, Program};
use ptx::names::SpecialRegister as S;

pub(in crate::program) fn fold(program: &mut Program<'_>) {
    let Some([x, y, z]) = program.block else {
        return;
    };
    for arg in &mut program.args {
        let size = match arg {
            Arg::Special(S::NtidX) => x,
            Arg::Special(S::NtidY) => y,
            Arg::Special(S::NtidZ) => z,
            _ => continue,
        };
        *arg = Arg::Int(size.into());
    }
}
