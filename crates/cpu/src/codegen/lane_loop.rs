//! The code of a loop over lanes of a group.

use cranelift_codegen::ir::{Block, InstBuilder, Value, types};

use super::emitter::Emitter;
use super::region_entrance::LaneLoop;

/// The lane of the current iteration.
pub(super) struct CurrentLane {
    pub number: Value,
    bits: Value,
    /// The index of the group's first thread, and its `%tid.x` if the body reads it.
    first: Value,
    first_tid: Option<Value>,
}

impl LaneLoop {
    pub fn new(e: &mut Emitter<'_, '_>) -> LaneLoop {
        LaneLoop {
            body: cold_block(e),
            done: cold_block(e),
            left: e.b.declare_var(types::I32),
        }
    }

    /// Starts the loop over the lanes whose bit is set. Several places may start it.
    pub fn start(self, e: &mut Emitter<'_, '_>, bits: Value) {
        let all = e.scalar_int(types::I32, u64::from(u32::MAX >> (u32::BITS - e.width)));
        let bits = e.b.ins().band(bits, all);
        e.b.def_var(self.left, bits);
        e.b.ins().brif(bits, self.body, &[], self.done, &[]);
    }

    /// Switches to the body. Until [`next`](Self::next), the current thread is the lane's: a fault
    /// names it.
    pub fn enter(self, e: &mut Emitter<'_, '_>, reads_tid: bool) -> CurrentLane {
        e.b.switch_to_block(self.body);
        let bits = e.b.use_var(self.left);
        let lane = e.b.ins().ctz(bits);
        let first = e.b.use_var(e.thread.index);
        let thread = e.b.ins().iadd(first, lane);
        e.b.def_var(e.thread.index, thread);
        let first_tid = reads_tid.then(|| e.b.use_var(e.thread.tid[0]));
        if let Some(tid) = first_tid {
            let of_lane = e.b.ins().iadd(tid, lane);
            e.b.def_var(e.thread.tid[0], of_lane);
        }
        CurrentLane {
            number: e.b.ins().uextend(types::I64, lane),
            bits,
            first,
            first_tid,
        }
    }

    /// Goes on to the next lane, and switches to the block behind the loop.
    pub fn next(self, e: &mut Emitter<'_, '_>, lane: &CurrentLane) {
        e.b.def_var(e.thread.index, lane.first);
        if let Some(tid) = lane.first_tid {
            e.b.def_var(e.thread.tid[0], tid);
        }
        let rest = e.add_offset(lane.bits, -1);
        let rest = e.b.ins().band(lane.bits, rest);
        e.b.def_var(self.left, rest);
        e.b.ins().brif(rest, self.body, &[], self.done, &[]);
        e.b.switch_to_block(self.done);
    }
}

pub(super) fn cold_block(e: &mut Emitter<'_, '_>) -> Block {
    let block = e.b.create_block();
    e.b.set_cold_block(block);
    block
}
