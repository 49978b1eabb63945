//! From checked PTX to the IR.

pub(super) mod build;
pub(super) mod call_params;
mod declarations;
pub(super) mod frames;
mod functions;
mod inline;
pub(super) mod module_data;
mod module_symbol;
mod operands;
mod scope;
mod stack;
mod used_bytes;
