//! Accesses of the memory that threads share.

use crate::program::ir::{Arg, Base, Program, Step, Storage};
use ptx::isa::Effect;
use ptx::names::{Modifier as M, Opcode, Type};

/// A load, a store or an atomic operation of shared or global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::program) struct Access {
    pub reads: bool,
    pub writes: bool,
    pub base: Base,
    pub offset: i64,
    /// The number of bytes.
    pub width: u32,
    /// Whether it is of shared memory; `None` if the address says so.
    pub is_shared: Option<bool>,
}

pub(in crate::program) fn memory_access(program: &Program<'_>, step: &Step) -> Option<Access> {
    let Step::Instruction(i) = step else {
        return None;
    };
    let (reads, writes) = match i.opcode {
        Opcode::Ld => (true, false),
        Opcode::St => (false, true),
        Opcode::Atom | Opcode::Red if i.meaning.effect == Effect::Update => (true, true),
        _ => return None,
    };
    let args = program.list(i.args);
    let (base, offset) = args.iter().find_map(|arg| match *arg {
        Arg::Address(base, offset) => Some((base, offset)),
        _ => None,
    })?;
    let has = |spaces: &[M]| i.modifiers.first_of(spaces).is_some();
    let is_own = matches!(base, Base::Storage(Storage::Local(_) | Storage::Param(_)));
    // Another block's shared memory is none that lanes of a warp exchange values in.
    if is_own || has(&[M::Const, M::Local, M::Param, M::SharedCluster]) {
        return None;
    }
    let is_shared = match base {
        Base::Storage(Storage::Global(_)) => Some(false),
        Base::Storage(Storage::Shared(_) | Storage::DynamicShared) => Some(true),
        _ if has(&[M::Shared, M::SharedCta]) => Some(true),
        _ if has(&[M::Global]) => Some(false),
        _ => None,
    };
    let elements = match i.modifiers.first_of(&[M::V2, M::V4, M::V8]) {
        Some(M::V2) => 2,
        Some(M::V4) => 4,
        Some(_) => 8,
        None => 1,
    };
    let bits = i.modifiers.types().last().map_or(32, Type::bits);
    Some(Access {
        reads,
        writes,
        base,
        offset: offset.bytes(),
        width: bits.div_ceil(8) * elements,
        is_shared,
    })
}

/// Whether the kernel has atomics in shared memory.
pub(in crate::program) fn counts_in_shared(program: &Program<'_>) -> bool {
    let mut steps = program.blocks.iter().flat_map(|block| &block.steps);
    steps.any(|step| match step {
        Step::Instruction(i) => {
            matches!(i.opcode, Opcode::Atom | Opcode::Red)
                && i.modifiers.first_of(&[M::Shared, M::SharedCta]).is_some()
        }
        Step::SystemCall { .. } => false,
    })
}
