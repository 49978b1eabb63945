//! Calls of functions of the runtime, which read and write lanes on the stack.

use regalloc2::Operand;

use crate::runtime::Helper;
use crate::simd::lower::Lowering;
use crate::simd::machine::{LaneCall, Op, Value, ZMM};

impl Lowering<'_, '_> {
    /// The number of a call with a request.
    pub(in crate::simd::lower) fn call_number(&mut self, helper: Helper, request: [u64; 2]) -> u32 {
        let code = &mut self.b.code;
        code.lane_bytes = code.lane_bytes.max(64 + 2 * 64);
        code.calls.push(LaneCall {
            helper: helper as u32,
            request,
        });
        code.calls.len() as u32 - 1
    }

    /// Calls a function of the runtime for 16 lanes, or for those that are active. It finds vectors, and the
    /// request with the piece of the group in its second word.
    pub(in crate::simd::lower) fn call_for_active(
        &mut self,
        (helper, request): (Helper, u64),
        piece: usize,
        vectors: &[Value],
    ) {
        let mask = match &self.active {
            Some(active) => active[piece],
            None => self.b.ones(),
        };
        let call = self.call_number(helper, [request, 16 * piece as u64]);
        let thread = self.b.get(self.thread);
        self.store_lanes_at(vectors);
        self.b
            .emit(Op::StoreIntLanes { at: 8 }, [Operand::reg_use(thread)]);
        self.b
            .emit(Op::StoreMaskLanes { at: 0 }, [Operand::reg_use(mask)]);
        self.b.emit(Op::CallLanes { call }, []);
    }

    /// Puts vectors where a function of the runtime sees them.
    pub(in crate::simd::lower) fn store_lanes_at(&mut self, vectors: &[Value]) {
        for (n, &vector) in vectors.iter().enumerate() {
            let at = 64 + 64 * n as i32;
            self.b
                .emit(Op::StoreLanes { at }, [Operand::reg_use(vector)]);
        }
        let code = &mut self.b.code;
        code.lane_bytes = code.lane_bytes.max(64 + 64 * vectors.len() as u32);
    }

    /// What a function of the runtime has put into a vector.
    pub(in crate::simd::lower) fn load_lanes_at(&mut self, number: usize) -> Value {
        let value = self.b.value(ZMM);
        let at = 64 + 64 * number as i32;
        self.b.emit(Op::LoadLanes { at }, [Operand::reg_def(value)]);
        let code = &mut self.b.code;
        code.lane_bytes = code.lane_bytes.max(128 + 64 * number as u32);
        value
    }
}
