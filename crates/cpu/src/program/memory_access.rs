//! Loads and stores of the memory that threads share.

use super::ir::{Arg, Base, Program, Step, Storage};
use ptx::names::{Modifier as M, Opcode};

/// A load or store of memory that lanes share.
pub(super) struct Access {
    pub is_load: bool,
    pub is_volatile: bool,
    /// It may be of shared memory.
    pub may_be_shared: bool,
}

pub(super) fn memory_access(program: &Program<'_>, step: &Step) -> Option<Access> {
    let Step::Instruction(i) = step else {
        return None;
    };
    let is_load = match i.opcode {
        Opcode::Ld => true,
        Opcode::St => false,
        _ => return None,
    };
    let mut bases = program.list(i.args).iter().filter_map(|arg| match arg {
        Arg::Address(base, _) => Some(base),
        _ => None,
    });
    let base = bases.next()?;
    let own = [M::Const, M::Local, M::Param];
    let is_own = matches!(base, Base::Storage(Storage::Local(_) | Storage::Param(_)));
    if is_own || i.modifiers.first_of(&own).is_some() {
        return None;
    }
    let elsewhere = [M::Global, M::SharedCluster];
    let is_global = matches!(base, Base::Storage(Storage::Global(_)));
    Some(Access {
        is_load,
        is_volatile: i.modifiers.has(M::Volatile),
        may_be_shared: !is_global && i.modifiers.first_of(&elsewhere).is_none(),
    })
}

/// Whether the kernel has atomics in shared memory.
pub(super) fn counts_in_shared(program: &Program<'_>) -> bool {
    let mut steps = program.blocks.iter().flat_map(|block| &block.steps);
    steps.any(|step| match step {
        Step::Instruction(i) => {
            matches!(i.opcode, Opcode::Atom | Opcode::Red)
                && i.modifiers.first_of(&[M::Shared, M::SharedCta]).is_some()
        }
        Step::SystemCall { .. } => false,
    })
}
