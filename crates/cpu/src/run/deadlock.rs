//! Reports of threads that cannot go on: a deadlock, and a lane that its own mask lacks.

use super::schedule::{CompiledKernel, Faulted, Schedule};
use super::warp;
use crate::abi::{BlockContext, FaultKind, SyncKind, SyncPoint, WARP_SIZE};

impl Schedule {
    /// The fault of a block in which no thread is ready. It lists where the threads wait.
    pub(super) fn deadlock(
        &mut self,
        code: &CompiledKernel<'_>,
        context: *mut BlockContext,
    ) -> Faulted {
        let mut places: Vec<(SyncPoint, usize, u32)> = Vec::new();
        for (thread, &state) in self.states.iter().enumerate() {
            let Some(point) = code.point(state) else {
                continue;
            };
            match places.iter_mut().find(|place| place.0 == point) {
                Some(place) => place.2 += 1,
                None => places.push((point, thread, 1)),
            }
        }
        let descriptions = places.iter().map(|&(point, thread, count)| {
            let noun = if count == 1 {
                "thread waits"
            } else {
                "threads wait"
            };
            format!(
                "{count} {noun} at {} in line {}",
                self.name(point, thread),
                code.lines.line(point.line)
            )
        });
        let exited = self.threads - self.live;
        let exited = if exited > 0 {
            format!(", {exited} have exited")
        } else {
            String::new()
        };
        let descriptions: Vec<String> = descriptions.collect();
        let detail = format!("deadlock: {}{exited}", descriptions.join(", "));
        let (line, thread) = places
            .first()
            .map_or((0, 0), |place| (place.0.line, place.1));
        self.fault(context, FaultKind::Deadlock, thread, line, detail)
    }

    /// The fault of a thread at a warp operation whose member mask lacks its lane.
    pub(super) fn lane_without_itself(
        &mut self,
        code: &CompiledKernel<'_>,
        context: *mut BlockContext,
        thread: usize,
    ) -> Faulted {
        let point = code.point(self.states[thread]);
        let name = point.map_or_else(String::new, |point| self.name(point, thread));
        let line = point.map_or(0, |point| point.line);
        let lane = thread as u32 % WARP_SIZE;
        let detail = format!("lane {lane} executes {name}, which lacks this lane");
        self.fault(context, FaultKind::IllegalInstruction, thread, line, detail)
    }

    /// The name of a sync point, with the operands of a thread.
    fn name(&self, point: SyncPoint, thread: usize) -> String {
        use SyncKind::*;
        let kind = point.kind;
        let operands = self.requests[thread].operands;
        let mask =
            warp::mask_operand(kind).map(|mask| format!(" with mask {:#010x}", operands[mask]));
        let name = match kind {
            Barrier | BarrierArrive | BarrierPopc | BarrierAnd | BarrierOr => {
                return match self.barrier_operands(point, thread) {
                    [id, 0] => format!("barrier {id}"),
                    [id, count] => format!("barrier {id} for {count} threads"),
                };
            }
            WarpBarrier => "bar.warp.sync",
            ShflUp | ShflDown | ShflBfly | ShflIdx => "shfl.sync",
            VoteAll | VoteAny | VoteUni | VoteBallot => "vote.sync",
            MatchAny | MatchAll => "match.sync",
            ActiveMask => "activemask",
            Elect => "elect.sync",
            Yield => "nanosleep",
            ClusterArrive | ClusterWait => "barrier.cluster.wait",
            Matrix => "an operation on matrices of the whole warp",
            _ => "redux.sync",
        };
        format!("{name}{}", mask.unwrap_or_default())
    }
}
