//! The scheduling of operations on matrices, which whole warps execute, or four of them together.

use super::schedule::{CompiledKernel, Faulted, Schedule, Warp};
use super::warp::{LaneMask, lanes_of};
use crate::abi::{BlockContext, FaultKind, SyncKind, WARP_SIZE};

impl CompiledKernel<'_> {
    /// The warps that execute together the operation on matrices at which threads are
    /// suspended in `state`.
    pub(super) fn matrix_warps(&self, state: u32) -> usize {
        let operation = self.point(state).and_then(|point| point.matrix);
        let operation = operation.and_then(|n| self.matrices.get(n as usize));
        operation.map_or(1, |operation| operation.warps() as usize)
    }

    /// Executes the operation on matrices at which the lanes of a warp are suspended in
    /// `state`, and those that follow it. Returns the state in which the lanes resume.
    ///
    /// # Safety
    /// The context describes a block of this kernel with this warp and the others that take
    /// part, and no compiled code of the block is running.
    pub(super) unsafe fn matrices(
        &self,
        context: *mut BlockContext,
        warp: u32,
        lanes: LaneMask,
        state: u32,
    ) -> Result<u32, Faulted> {
        let mut state = state;
        let warps = self.matrix_warps(state);
        // Damaged code could make a circle of sync points.
        for _ in self.points {
            let Some(point) = self.point(state) else {
                break;
            };
            let operation = point.matrix.and_then(|n| self.matrices.get(n as usize));
            if let Some(operation) = operation {
                let first = warp * WARP_SIZE;
                // SAFETY: the caller's contract. The image's slots include the operation's.
                if !unsafe { operation.execute(context, first, lanes, point.line) } {
                    return Err(Faulted);
                }
            }
            match point.then {
                Some(next) if self.matrix_warps(next + 1) == warps => state = next + 1,
                _ => break,
            }
        }
        Ok(state)
    }
}

impl Schedule {
    /// Executes the operation on matrices at which all threads are, and those that follow it.
    ///
    /// # Safety
    /// That of [`run`](Self::run). All threads are in state `first`, which is such an operation.
    pub(super) unsafe fn run_matrices_in_lockstep(
        &mut self,
        code: &CompiledKernel<'_>,
        context: *mut BlockContext,
        first: u32,
        line: u32,
    ) -> Result<(), Faulted> {
        let mut state = first;
        let together = code.matrix_warps(first);
        let group = together as u32 * WARP_SIZE;
        if together > 1 && !self.threads.is_multiple_of(group) {
            return Err(self.no_warp_group(context, line));
        }
        for index in (0..self.warps.len()).step_by(together) {
            let exists = self.warps[index].exists;
            // SAFETY: the caller's contract.
            state = unsafe { code.matrices(context, index as u32, exists, first) }?;
        }
        self.states.fill(state);
        Ok(())
    }

    /// Executes the operation on matrices at which all lanes of a warp are, if they are, and
    /// those that follow it.
    ///
    /// # Safety
    /// That of [`run`](Self::run).
    pub(super) unsafe fn release_matrices(
        &mut self,
        code: &CompiledKernel<'_>,
        context: *mut BlockContext,
        index: usize,
    ) -> Result<(), Faulted> {
        let Some(state) = self.common_state(index) else {
            return Ok(());
        };
        let Some(point) = code.point(state) else {
            return Ok(());
        };
        if point.kind != SyncKind::Matrix {
            return Ok(());
        }
        let together = code.matrix_warps(state);
        let first = index - index % together;
        let group = first..first + together;
        if together > 1 {
            let whole = |warp: &Warp| warp.exists & !warp.exited == LaneMask::MAX;
            let warps = self.warps.get(group.clone());
            if !warps.is_some_and(|warps| warps.iter().all(whole)) {
                return Err(self.no_warp_group(context, point.line));
            }
            // The last of the warps that comes executes it.
            if group
                .clone()
                .any(|warp| self.common_state(warp) != Some(state))
            {
                return Ok(());
            }
        }
        let members = self.warps[index].exists & !self.warps[index].exited;
        // SAFETY: the caller's contract.
        let state = unsafe { code.matrices(context, first as u32, members, state) }?;
        for index in group {
            let base = index * WARP_SIZE as usize;
            let warp = &mut self.warps[index];
            let members = warp.exists & !warp.exited;
            for lane in lanes_of(members) {
                self.states[base + lane as usize] = state;
            }
            warp.waiting &= !members;
            warp.ready |= members;
        }
        Ok(())
    }

    /// The state in which all lanes of a warp that have not exited are suspended at a warp
    /// operation, if it is one.
    fn common_state(&self, index: usize) -> Option<u32> {
        let base = index * WARP_SIZE as usize;
        let warp = self.warps.get(index)?;
        let members = warp.exists & !warp.exited;
        if members == 0 || warp.waiting & members != members {
            return None;
        }
        let state = self.states[base + members.trailing_zeros() as usize];
        let same = lanes_of(members).all(|lane| self.states[base + lane as usize] == state);
        same.then_some(state)
    }

    /// The fault of a warp group that lacks warps or lanes.
    fn no_warp_group(&mut self, context: *mut BlockContext, line: u32) -> Faulted {
        let detail = "a warp group is four whole warps, the first with a number that is a \
                      multiple of four";
        self.fault(
            context,
            FaultKind::IllegalInstruction,
            0,
            line,
            detail.to_owned(),
        )
    }
}
