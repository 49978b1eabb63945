//! How the vector function ends the run of a lane group.
//!
//! Usually all groups of a block arrive in one state. It is stored once, for the first thread, when
//! all have. Where a group arrives in another state, or the scalar function runs it, the states of
//! all threads are stored. Groups that run loops step by step are suspended there while others
//! arrive, so that each stores its states.

use super::emitter::{Arrival, Emitter, NONE_ARRIVED, READONLY, Together};
use super::group_loop;
use super::thread_state::{set_state, store_states};
use crate::abi::{TOGETHER, offset};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, BlockArg, InstBuilder, MemFlagsData, Signature, Value, types,
};

/// Groups have arrived in different states.
const APART: u64 = u32::MAX as u64 - 1;

/// Before the loop over groups, from thread `first` on; `in_steps` says that groups run loops step
/// by step.
pub(super) fn start(e: &mut Emitter<'_, '_>, first: Value, in_steps: bool) {
    let together = (!in_steps).then(|| {
        let reached = e.b.declare_var(types::I32);
        let none = e.scalar_int(types::I32, NONE_ARRIVED);
        e.b.def_var(reached, none);
        let arrive = e.b.create_block();
        e.b.append_block_param(arrive, types::I32);
        Together {
            reached,
            first,
            arrive,
        }
    });
    let scalar = e.b.create_block();
    e.b.set_cold_block(scalar);
    e.arrival = Some(Arrival { together, scalar });
}

/// Ends the run of the thread or the lane group in a state. `from` is the state in which it came, if
/// that is known.
pub(super) fn arrive(e: &mut Emitter<'_, '_>, state: u32, from: Option<u32>) {
    match e.arrival.and_then(|arrival| arrival.together) {
        Some(together) => {
            let arrived = e.scalar_int(types::I32, state.into());
            let argument = [BlockArg::Value(arrived)];
            match from.and_then(|from| group_loop::next_group(e, from)) {
                Some(next) => {
                    let reached = e.b.use_var(together.reached);
                    let same = e.icmp(IntCC::Equal, reached, arrived);
                    e.b.ins().brif(same, next, &[], together.arrive, &argument);
                }
                None => {
                    e.b.ins().jump(together.arrive, &argument);
                }
            }
        }
        None => {
            set_state(e, state);
            let next = e.next_thread;
            e.b.ins().jump(next, &[]);
        }
    }
}

/// Whether the groups so far have arrived in this state, or none has; `None` if each stores its
/// states.
pub(super) fn is_common(e: &mut Emitter<'_, '_>, state: u32) -> Option<Value> {
    let together = e.arrival.and_then(|arrival| arrival.together)?;
    let reached = e.b.use_var(together.reached);
    let none = e.icmp_imm(IntCC::Equal, reached, NONE_ARRIVED.cast_signed());
    let same = e.icmp_imm(IntCC::Equal, reached, state.into());
    Some(e.b.ins().bor(none, same))
}

/// Whether this state is noted for the groups so far; `None` if each stores its states.
pub(super) fn is_noted(e: &mut Emitter<'_, '_>, state: u32) -> Option<Value> {
    let together = e.arrival.and_then(|arrival| arrival.together)?;
    let reached = e.b.use_var(together.reached);
    Some(e.icmp_imm(IntCC::Equal, reached, state.into()))
}

/// Has the scalar function run the threads of the group, then continues with the next group.
pub(super) fn continue_scalar(e: &mut Emitter<'_, '_>) {
    let block = e.arrival.map_or(e.fail, |arrival| arrival.scalar);
    e.b.ins().jump(block, &[]);
}

/// Emits these blocks.
pub(super) fn finish(e: &mut Emitter<'_, '_>) {
    let Some(arrival) = e.arrival else { return };
    if let Some(together) = arrival.together {
        take_state(e, together);
    }
    e.b.switch_to_block(arrival.scalar);
    if let Some(together) = arrival.together {
        spread(e, together);
    }
    call_scalar(e);
}

fn take_state(e: &mut Emitter<'_, '_>, together: Together) {
    let next = e.next_thread;
    e.b.switch_to_block(together.arrive);
    let state = e.b.block_params(together.arrive)[0];
    let before = e.b.use_var(together.reached);
    let same = e.icmp(IntCC::Equal, before, state);
    let [changes, first, apart] = [(); 3].map(|()| e.b.create_block());
    e.b.ins().brif(same, next, &[], changes, &[]);

    e.b.set_cold_block(changes);
    e.enter(changes);
    e.b.ins().brif(before, apart, &[], first, &[]);
    e.b.set_cold_block(first);
    e.enter(first);
    e.b.def_var(together.reached, state);
    e.b.ins().jump(next, &[]);

    e.b.set_cold_block(apart);
    e.enter(apart);
    spread(e, together);
    let thread = e.thread_index();
    store_states(e, thread, state);
    e.b.ins().jump(next, &[]);
}

/// The states of the groups that have arrived are stored for all of their threads.
fn spread(e: &mut Emitter<'_, '_>, together: Together) {
    let reached = e.b.use_var(together.reached);
    let end = e.b.use_var(e.thread.index);
    let at = e.b.declare_var(types::I32);
    e.b.def_var(at, together.first);
    let apart = e.scalar_int(types::I32, APART);
    let [head, body, done] = [(); 3].map(|()| e.b.create_block());
    for block in [head, body, done] {
        e.b.set_cold_block(block);
    }
    let is_apart = e.icmp(IntCC::Equal, reached, apart);
    e.b.ins().brif(is_apart, done, &[], head, &[]);
    e.b.switch_to_block(head);
    let thread = e.b.use_var(at);
    let more = e.icmp(IntCC::UnsignedLessThan, thread, end);
    e.b.ins().brif(more, body, &[], done, &[]);
    e.enter(body);
    store_states(e, thread, reached);
    let next = e.add_offset(thread, e.width.into());
    e.b.def_var(at, next);
    e.b.ins().jump(head, &[]);
    e.b.switch_to_block(done);
    e.b.def_var(together.reached, apart);
}

/// Calls the scalar function for the threads of the group.
fn call_scalar(e: &mut Emitter<'_, '_>) {
    let mut signature = Signature::new(e.convention);
    for ty in [types::I64, types::I32, types::I32] {
        signature.params.push(AbiParam::new(ty));
    }
    signature.returns.push(AbiParam::new(types::I32));
    let signature = e.b.import_signature(signature);
    let context = e.fixed.context;
    let scalar =
        e.b.ins()
            .load(types::I64, READONLY, context, offset::SCALAR);
    let first = e.thread_index();
    let last = e.add_offset(first, e.width.into());
    let call =
        e.b.ins()
            .call_indirect(signature, scalar, &[context, first, last]);
    let failed = e.b.inst_results(call)[0];
    let (fail, next) = (e.fail, e.next_thread);
    e.b.ins().brif(failed, fail, &[], next, &[]);
}

/// What the function returns after the last group.
pub(super) fn result(e: &mut Emitter<'_, '_>) -> Value {
    let zero = e.scalar_int(types::I32, 0);
    let Some(together) = e.arrival.and_then(|arrival| arrival.together) else {
        return zero;
    };
    let reached = e.b.use_var(together.reached);
    let apart = e.scalar_int(types::I32, APART);
    let is_apart = e.icmp(IntCC::Equal, reached, apart);
    let [store, done] = [(); 2].map(|()| e.b.create_block());
    e.b.append_block_param(done, types::I32);
    e.b.ins()
        .brif(is_apart, done, &[BlockArg::Value(zero)], store, &[]);
    e.enter(store);
    let context = e.fixed.context;
    let states =
        e.b.ins()
            .load(types::I64, READONLY, context, offset::STATES);
    let first = e.b.ins().uextend(types::I64, together.first);
    let shift = e.scalar_int(types::I32, 2);
    let at = e.b.ins().ishl(first, shift);
    let at = e.b.ins().iadd(states, at);
    e.b.ins().store(MemFlagsData::trusted(), reached, at, 0);
    let together = e.scalar_int(types::I32, TOGETHER.into());
    e.b.ins().jump(done, &[BlockArg::Value(together)]);
    e.enter(done);
    e.b.block_params(done)[0]
}
