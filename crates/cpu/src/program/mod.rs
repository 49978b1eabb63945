//! The intermediate representation of one kernel: a control-flow graph of basic
//! blocks over numbered virtual registers, with names resolved and device
//! functions inlined, or called through a stack where they cannot be.
//!
//! An [`Instruction`] keeps the opcode and modifiers of the PTX. Only the code
//! generator interprets them, so their semantics are written once.

mod block_size;
mod build;
mod byte_offset;
mod call_params;
mod declarations;
mod disjoint_or;
mod display;
mod exchanges;
mod frames;
mod functions;
mod inline;
mod ir;
mod lane_sets;
mod live_ranges;
mod liveness;
mod lockstep;
mod memory_access;
mod module_data;
mod module_symbol;
mod natural;
mod operands;
pub(crate) mod pass;
mod pointers;
mod reg_class;
mod rematerialize;
mod scope;
mod simplify_cfg;
mod spin_loops;
mod stack;
#[cfg(test)]
mod test_program;
#[cfg(test)]
mod text_tests;
mod thread_sums;
mod used_bytes;
mod verify;

pub(crate) use build::build;
pub(crate) use byte_offset::ByteOffset;
pub(crate) use frames::STACK_BYTES;
pub(crate) use ir::{
    Arg, ArgList, Base, BlockId, Guard, Instruction, LoweringError, Program, Reg, RegClass, Step,
    Storage, SystemCall, Terminator,
};
pub(crate) use liveness::{Liveness, RegisterSet};
pub(crate) use module_data::{ModuleData, float_bits, module_data};
pub(crate) use pointers::pointers;
pub(crate) use rematerialize::rematerialize;
