//! The states of threads, and other values that the block has for each thread.

use cranelift_codegen::ir::{
    Block, BlockCall, InstBuilder, JumpTableData, MemFlagsData, Value, types,
};

use super::{Emitter, READONLY};
use crate::abi::offset;

/// The thread's index times a size.
pub(in crate::codegen) fn thread_offset(e: &mut Emitter<'_, '_>, bytes: u32) -> Value {
    let thread = e.thread_index();
    let thread = e.b.ins().uextend(types::I64, thread);
    if bytes.is_power_of_two() {
        let shift = e.int(types::I32, bytes.trailing_zeros().into());
        e.b.ins().ishl(thread, shift)
    } else {
        e.b.ins().imul_imm_u(thread, i64::from(bytes))
    }
}

/// Where the block has the thread's state.
fn state_address(e: &mut Emitter<'_, '_>) -> Value {
    let context = e.fixed.context;
    let states =
        e.b.ins()
            .load(types::I64, READONLY, context, offset::STATES);
    let at = thread_offset(e, 4);
    e.b.ins().iadd(states, at)
}

/// The thread's state.
pub(in crate::codegen) fn thread_state(e: &mut Emitter<'_, '_>) -> Value {
    let at = state_address(e);
    e.b.ins().load(types::I32, MemFlagsData::trusted(), at, 0)
}

/// A jump table over the thread's state.
pub(in crate::codegen) fn jump_to_state(e: &mut Emitter<'_, '_>, state: Value, targets: &[Block]) {
    // The state of a thread that has exited is out of range.
    let exited = BlockCall::new(
        e.next_thread,
        std::iter::empty(),
        &mut e.b.func.dfg.value_lists,
    );
    let calls: Vec<BlockCall> = targets
        .iter()
        .map(|&t| BlockCall::new(t, std::iter::empty(), &mut e.b.func.dfg.value_lists))
        .collect();
    let table = e.b.create_jump_table(JumpTableData::new(exited, &calls));
    e.b.ins().br_table(state, table);
}

/// Sets the state of the thread.
pub(in crate::codegen) fn set_state(e: &mut Emitter<'_, '_>, state: u32) {
    let at = state_address(e);
    let state = e.int(types::I32, state.into());
    e.b.ins().store(MemFlagsData::trusted(), state, at, 0);
}
