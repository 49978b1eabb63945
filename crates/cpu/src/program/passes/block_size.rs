//! The size of a block that is known: numbers in place of `%ntid`.

use crate::optimization::Optimization;
use crate::program::ir::{Arg, Program};
use ptx::names::SpecialRegister as S;

pub(in crate::program) fn fold(program: &mut Program<'_>) {
    let Some([x, y, z]) = program.block.filter(|_| Optimization::BlockSize.is_on()) else {
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
        Optimization::BlockSize.count();
    }
}
