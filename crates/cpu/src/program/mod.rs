//! The intermediate representation of one kernel: a control-flow graph of basic
//! blocks over numbered virtual registers, with names resolved and device
//! functions inlined, or called through a stack where they cannot be.
//!
//! An [`Instruction`] keeps the opcode and modifiers of the PTX. Only the code
//! generator interprets them, so their semantics are written once.

mod frontend;
mod ir;
mod lowering;
pub(crate) mod passes;
#[cfg(test)]
mod test_program;

pub(crate) use frontend::frames::STACK_BYTES;
pub(crate) use frontend::module_data::{ModuleData, float_bits, module_data};
pub(crate) use ir::byte_offset::ByteOffset;
pub(crate) use ir::liveness::{Liveness, RegisterSet};
pub(crate) use ir::{
    Arg, ArgList, Base, BlockId, Guard, Instruction, LoweringError, Program, Reg, RegClass, Step,
    Storage, SystemCall, Terminator,
};
pub(crate) use lowering::lower;
pub(crate) use passes::pointers::pointers;
pub(crate) use passes::rematerialize::rematerialize;
