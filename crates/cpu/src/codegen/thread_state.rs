//! The states of threads, and other values that the block has for each thread.

use cranelift_codegen::ir::{
    Block, BlockCall, InstBuilder, JumpTableData, MemFlagsData, Value, types,
};

use super::emitter::{Emitter, READONLY};
use crate::abi::offset;

/// The thread's index times a size.
pub(super) fn thread_offset(e: &mut Emitter<'_, '_>, bytes: u32) -> Value {
    let thread = e.thread_index();
    let thread = e.b.ins().uextend(types::I64, thread);
    if bytes.is_power_of_two() {
        let shift = e.int(types::I32, bytes.trailing_zeros().into());
        e.b.ins().ishl(thread, shift)
    } else {
        e.b.ins().imul_imm_u(thread, i64::from(bytes))
    }
}

/// The thread's state.
pub(super) fn thread_state(e: &mut Emitter<'_, '_>) -> Value {
    let context = e.fixed.context;
    let states =
        e.b.ins()
            .load(types::I64, READONLY, context, offset::STATES);
    let at = thread_offset(e, 4);
    let at = e.b.ins().iadd(states, at);
    e.b.ins().load(types::I32, MemFlagsData::trusted(), at, 0)
}

/// A jump table over the thread's state.
pub(super) fn jump_to_state(e: &mut Emitter<'_, '_>, state: Value, targets: &[Block]) {
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

/// Sets the state of the thread, or of all threads of the lane group.
pub(super) fn set_state(e: &mut Emitter<'_, '_>, state: u32) {
    let thread = e.thread_index();
    let state = e.scalar_int(types::I32, state.into());
    store_states(e, thread, state);
}

/// Sets the state of a thread, or of all threads of the lane group that it is the first of.
pub(super) fn store_states(e: &mut Emitter<'_, '_>, thread: Value, state: Value) {
    let context = e.fixed.context;
    let states =
        e.b.ins()
            .load(types::I64, READONLY, context, offset::STATES);
    let at = e.b.ins().uextend(types::I64, thread);
    let shift = e.scalar_int(types::I32, 2);
    let at = e.b.ins().ishl(at, shift);
    let at = e.b.ins().iadd(states, at);
    let state = match e.width {
        1 => state,
        _ => e.b.ins().splat(types::I32X4, state),
    };
    for piece in 0..e.width.div_ceil(4) as i32 {
        e.b.ins()
            .store(MemFlagsData::trusted(), state, at, 16 * piece);
    }
}
