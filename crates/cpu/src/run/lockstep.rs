//! A block in lockstep: all of its threads are in one state, and run from sync point to sync point
//! in one call.

use super::barrier::{self, Barrier};
use super::schedule::{CompiledKernel, Faulted, Progress, Returned, Schedule, lanes_meet};
use super::warp::{self, LaneMask};
use crate::abi::{BlockContext, EXITED, Request, SyncKind, SyncPoint, WARP_SIZE};
use crate::access;

impl Schedule {
    /// Runs all threads to their next sync point. If they are not all released there, the
    /// block continues warp by warp.
    pub(super) unsafe fn run_in_lockstep(
        &mut self,
        code: &CompiledKernel<'_>,
        context: *mut BlockContext,
    ) -> Result<Progress, Faulted> {
        // SAFETY: the context is valid. While `in_lockstep` is set, no thread has exited.
        let returned = unsafe { code.call(context, 0, self.threads, true)? };
        let together = returned == Returned::Together;
        let first = self.states.first().copied().unwrap_or(EXITED);
        let differs = if together {
            0
        } else {
            self.states
                .iter()
                .fold(0, |differs, state| differs | (state ^ first))
        };
        if differs == 0 {
            if first == EXITED {
                return Ok(Progress::Done);
            }
            if let Some(point) = code.point(first) {
                if self.release_barrier_in_lockstep(point) {
                    // SAFETY: the caller's contract.
                    if let Some(mut sanitizer) = unsafe { access::sanitizer(context) } {
                        sanitizer.meet_all();
                    }
                    return Ok(Progress::Advanced);
                }
                if together {
                    self.states.fill(first);
                }
                if point.kind == SyncKind::Yield {
                    let pauses = self.requests.iter().map(|request| request.operands[0]);
                    return Ok(Progress::Stalled(pauses.min().unwrap_or(0)));
                }
                if point.kind == SyncKind::Matrix {
                    // SAFETY: the caller's contract.
                    unsafe { self.run_matrices_in_lockstep(code, context, first, point.line) }?;
                    return Ok(Progress::Advanced);
                }
                if point.kind == SyncKind::ClusterArrive {
                    self.is_reset = false;
                    self.warps
                        .iter_mut()
                        .for_each(|warp| warp.arrived = warp.exists);
                    return Ok(Progress::Advanced);
                }
                if point.kind == SyncKind::ClusterWait
                    && self.warps.iter().all(|warp| warp.arrived == 0)
                {
                    return Ok(Progress::Advanced);
                }
                if self.release_warps_in_lockstep(point.kind) {
                    if point.kind == SyncKind::WarpBarrier {
                        for (warp, exists) in self.warps.iter().map(|warp| warp.exists).enumerate()
                        {
                            // SAFETY: the caller's contract.
                            unsafe { lanes_meet(context, warp, exists) };
                        }
                    }
                    return Ok(Progress::Advanced);
                }
            }
        }
        (self.in_lockstep, self.is_reset) = (false, false);
        for warp in 0..self.warps.len() {
            let all = self.warps[warp].exists;
            self.warps[warp].ready = 0;
            self.arrive(code, context, warp, all)?;
            // SAFETY: the caller's contract.
            unsafe { self.release_warp(code, context, warp, false) }?;
        }
        Ok(Progress::Advanced)
    }

    /// All threads are at this barrier. Returns whether it releases them.
    fn release_barrier_in_lockstep(&mut self, point: SyncPoint) -> bool {
        let kind = point.kind;
        if !matches!(
            kind,
            SyncKind::Barrier | SyncKind::BarrierPopc | SyncKind::BarrierAnd | SyncKind::BarrierOr
        ) {
            return false;
        }
        let [id, count] = self.barrier_operands(point, 0);
        let idle = self.barriers.get(id as usize).is_some_and(Barrier::is_idle);
        let threads = self.threads;
        let all = count == 0
            || [threads, threads.next_multiple_of(WARP_SIZE)]
                .map(u64::from)
                .contains(&count);
        let same = |request: &Request| request.operands[0] == id && request.operands[1] == count;
        if !idle || !all || !(point.barrier.is_some() || self.requests.iter().all(same)) {
            return false;
        }
        if kind != SyncKind::Barrier {
            let threads = self.requests.len();
            barrier::reduce(|| 0..threads, |_| kind, &mut self.requests);
        }
        true
    }

    /// All threads are at this warp operation. Returns whether it releases all warps.
    fn release_warps_in_lockstep(&mut self, kind: SyncKind) -> bool {
        let mask = warp::mask_operand(kind);
        if mask.is_none() && kind != SyncKind::ActiveMask {
            return false;
        }
        let requests = || self.requests.chunks(WARP_SIZE as usize).zip(&self.warps);
        if let Some(mask) = mask {
            let complete = |request: &Request, exists: LaneMask| {
                let members = request.operands[mask] as LaneMask;
                members == 0 || members & exists == exists
            };
            if !requests()
                .all(|(chunk, warp)| chunk.iter().all(|request| complete(request, warp.exists)))
            {
                return false;
            }
        }
        for (chunk, warp) in self
            .requests
            .chunks_mut(WARP_SIZE as usize)
            .zip(&self.warps)
        {
            warp::resolve(kind, warp.exists, chunk);
        }
        true
    }
}
