//! The scheduler of a thread block: it decides which threads run and which wait, and
//! computes the results of sync points.
//!
//! While all threads are at the same sync point, the block runs in lockstep: one call for all
//! threads from sync point to sync point. Otherwise the warps run in turn, each until none
//! of its lanes is ready. Then barriers are released.

use std::time::Duration;

use crate::abi::{
    BlockContext, EXITED, FaultKind, FaultRecord, KernelFn, Request, SyncKind, SyncPoint, TOGETHER,
    WARP_SIZE,
};

use super::barrier::{BARRIERS, Barrier};
use super::warp::{self, LaneMask, lanes_of};
use crate::access;
use crate::lines::Lines;
use crate::matrix::Operation;
use crate::sanitizer::Arrived;

/// The number of rounds in which all threads that ran have yielded, after which the block is
/// suspended, so that other blocks can run. What happens between them does not count: a loop
/// that waits for another block may have barriers of its own.
const MAX_STALLED_ROUNDS: u32 = 64;

/// The number of sync points that a warp passes before the next warp runs, and before lanes of it
/// that others have overtaken go on.
const MAX_PASSES: u32 = 1 << 10;

/// The number of sync points that its warps pass before a block is suspended, even if its threads never
/// yield: they may wait for another block in a loop that does not look like it.
const MAX_PASSES_OF_BLOCK: u32 = 1 << 16;

/// Nanoseconds of `nanosleep` for which a thread of the host sleeps: to wake it takes longer
/// than a shorter time, and PTX has no longer one.
const SHORTEST_PAUSE: u64 = 50_000;
const LONGEST_PAUSE: u64 = 1_000_000;

/// The functions of a kernel, and what the scheduler needs to know about it.
#[derive(Clone, Copy)]
pub(super) struct CompiledKernel<'a> {
    pub(super) scalar: KernelFn,
    /// The vector function and its width, a power of 2. It runs whole groups, of which all threads are
    /// in the same state.
    pub(super) vector: Option<(KernelFn, u32)>,
    pub(super) stateless: bool,
    pub(super) points: &'a [SyncPoint],
    pub(super) lines: &'a dyn Lines,
    pub(super) matrices: &'a [Operation],
}

impl CompiledKernel<'_> {
    /// Runs threads `first..last`. `in_lockstep` says that all are in the same state.
    ///
    /// # Safety
    /// The context describes a block of this kernel whose arrays are large enough, and no
    /// thread of the range has exited.
    pub(super) unsafe fn call(
        &self,
        context: *mut BlockContext,
        first: u32,
        last: u32,
        in_lockstep: bool,
    ) -> Result<Returned, Faulted> {
        let mut rest = first;
        if let Some((function, width)) = self.vector
            && in_lockstep
            && first & (width - 1) == 0
            && last - first >= width
        {
            rest = last & !(width - 1);
            // SAFETY: the caller's contract.
            let returned = unsafe { returned(function(context, first, rest)) }?;
            if rest == last {
                return Ok(returned);
            }
            if returned == Returned::Together {
                // SAFETY: the function has stored the state of the first of these threads.
                unsafe {
                    let states = (*context).states;
                    let state = *states.add(first as usize);
                    (first..rest).for_each(|thread| *states.add(thread as usize) = state);
                }
            }
        }
        // SAFETY: the caller's contract.
        unsafe { returned((self.scalar)(context, rest, last)) }
    }

    pub(super) fn point(&self, state: u32) -> Option<SyncPoint> {
        self.points.get((state as usize).checked_sub(1)?).copied()
    }
}

/// What a kernel's function returns.
fn returned(result: u32) -> Result<Returned, Faulted> {
    match result {
        0 => Ok(Returned::Apart),
        TOGETHER => Ok(Returned::Together),
        _ => Err(Faulted),
    }
}

/// What a call of compiled code has done with its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Returned {
    /// It has stored the state of each.
    Apart,
    /// All are in one state, which is stored for the first alone.
    Together,
}

/// The state of a block after it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All threads have exited.
    Done,
    /// All threads wait for other blocks.
    Waiting,
    /// No thread is ready before all blocks of the cluster have arrived at its barrier.
    AtClusterBarrier,
    /// A fault, which `BlockContext::fault` describes.
    Faulted,
    /// The launch has ended because of a fault in another block.
    Stopped,
}

/// The scheduling state of a block.
#[derive(Default)]
pub(super) struct Schedule {
    pub(super) states: Vec<u32>,
    pub(super) requests: Vec<Request>,
    pub(super) warps: Vec<Warp>,
    pub(super) barriers: [Barrier; BARRIERS],
    pub(super) threads: u32,
    /// Threads that have not exited.
    pub(super) live: u32,
    /// All threads are in the same state and ready.
    pub(super) in_lockstep: bool,
    /// The warps and barriers are as at the start of a block: it has run in lockstep only.
    pub(super) is_reset: bool,
    /// The sync points that its warps have passed since it was last suspended.
    passes: u32,
    /// The description of a fault that the scheduler found.
    pub(super) detail: Option<String>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Warp {
    pub(super) exists: LaneMask,
    pub(super) ready: LaneMask,
    /// Lanes at a warp operation.
    pub(super) waiting: LaneMask,
    pub(super) yielded: LaneMask,
    pub(super) exited: LaneMask,
    /// Lanes that have arrived at the cluster's barrier, in a phase that is not complete.
    pub(super) arrived: LaneMask,
    /// Lanes that wait for that phase.
    pub(super) at_cluster_barrier: LaneMask,
}

impl Schedule {
    /// Resizes the arrays for blocks of `threads` threads.
    pub(super) fn resize(&mut self, threads: u32) {
        self.threads = threads;
        self.states.resize(threads as usize, 0);
        self.requests.resize(threads as usize, Request::default());
        self.warps
            .resize(threads.div_ceil(WARP_SIZE) as usize, Warp::default());
        self.is_reset = false;
    }

    /// Resets all threads to the entry of the kernel.
    pub(super) fn start(&mut self, code: &CompiledKernel<'_>) {
        match code.vector {
            // It asks for the state of the first, and stores those of others before it is asked
            // for them.
            Some((_, width)) if self.threads & (width - 1) == 0 => {
                self.states.iter_mut().take(1).for_each(|state| *state = 0);
            }
            _ => self.states.fill(0),
        }
        if !self.is_reset {
            let firsts = (0..self.threads).step_by(WARP_SIZE as usize);
            for (warp, first) in self.warps.iter_mut().zip(firsts) {
                let exists = u32::MAX >> (WARP_SIZE - (self.threads - first).min(WARP_SIZE));
                *warp = Warp {
                    exists,
                    ready: exists,
                    ..Warp::default()
                };
            }
            for barrier in &mut self.barriers {
                if !barrier.is_idle() {
                    barrier.reset();
                }
            }
            self.live = self.threads;
            self.is_reset = true;
        }
        debug_assert!(self.warps.iter().all(|warp| warp.ready == warp.exists
            && warp.waiting | warp.yielded | warp.exited | warp.arrived | warp.at_cluster_barrier
                == 0));
        debug_assert!(self.barriers.iter().all(Barrier::is_idle) && self.live == self.threads);
        self.in_lockstep = true;
        self.detail = None;
    }

    /// Runs the block until it is done, must wait for other blocks, or `stop` returns that
    /// the launch has ended.
    ///
    /// # Safety
    /// `context` describes a block of this kernel, its arrays are this schedule's, and its
    /// other pointers are valid.
    pub(super) unsafe fn run(
        &mut self,
        code: &CompiledKernel<'_>,
        context: *mut BlockContext,
        stop: impl Fn() -> bool,
    ) -> Outcome {
        let mut stalled_rounds = 0;
        self.passes = 0;
        while self.passes < MAX_PASSES_OF_BLOCK {
            self.passes += 1;
            if stop() {
                return Outcome::Stopped;
            }
            // SAFETY: the caller's contract.
            let result = unsafe {
                if self.in_lockstep {
                    self.run_in_lockstep(code, context)
                } else {
                    self.run_warps(code, context)
                }
            };
            match result {
                Ok(Progress::Done) => return Outcome::Done,
                Ok(Progress::Advanced) => {}
                Ok(Progress::AtClusterBarrier) => return Outcome::AtClusterBarrier,
                Ok(Progress::Stalled(pause)) => {
                    stalled_rounds += 1;
                    if pause >= SHORTEST_PAUSE {
                        std::thread::sleep(Duration::from_nanos(pause.min(LONGEST_PAUSE)));
                        return Outcome::Waiting;
                    }
                    if stalled_rounds >= MAX_STALLED_ROUNDS {
                        return Outcome::Waiting;
                    }
                }
                Err(Faulted) => return Outcome::Faulted,
            }
        }
        Outcome::Waiting
    }

    /// The barrier at which a thread waits, and the number of threads it waits for.
    pub(super) fn barrier_operands(&self, point: SyncPoint, thread: usize) -> [u64; 2] {
        let [id, count, ..] = self.requests[thread].operands;
        point
            .barrier
            .map_or([id, count], |fixed| fixed.map(u64::from))
    }

    /// Runs the ready lanes of every warp, then releases barriers.
    unsafe fn run_warps(
        &mut self,
        code: &CompiledKernel<'_>,
        context: *mut BlockContext,
    ) -> Result<Progress, Faulted> {
        let mut progress = false;
        let mut pause = None;
        for warp in 0..self.warps.len() {
            let mut ran = 0;
            for pass in 1..=MAX_PASSES {
                let ready = std::mem::take(&mut self.warps[warp].ready);
                if ready == 0 {
                    break;
                }
                // SAFETY: the caller's contract. Ready lanes have not exited.
                unsafe { self.run_lanes(code, context, warp, ready) }?;
                self.arrive(code, context, warp, ready)?;
                let overtaken = pass == MAX_PASSES;
                // SAFETY: the caller's contract.
                unsafe { self.release_warp(code, context, warp, overtaken) }?;
                ran |= ready;
                self.passes += 1;
            }
            // What lanes do between two yields does not count.
            progress |= ran & !self.warps[warp].yielded != 0;
        }
        for id in 0..BARRIERS {
            // SAFETY: the caller's contract.
            unsafe { self.release_barrier(code, context, id) };
        }
        let mut ready = 0;
        let requests = self.requests.chunks(WARP_SIZE as usize);
        for (warp, requests) in self.warps.iter_mut().zip(requests) {
            if warp.yielded != 0 {
                let lanes = lanes_of(warp.yielded);
                let pauses = lanes.filter_map(|lane| requests.get(lane as usize));
                pause = pause
                    .into_iter()
                    .chain(pauses.map(|request| request.operands[0]))
                    .min();
            }
            warp.ready |= std::mem::take(&mut warp.yielded);
            ready += warp.ready.count_ones();
        }
        if self.live == 0 {
            return Ok(Progress::Done);
        }
        if ready == 0 {
            if self.warps.iter().any(|warp| warp.at_cluster_barrier != 0) {
                return Ok(Progress::AtClusterBarrier);
            }
            return Err(self.deadlock(code, context));
        }
        if ready == self.threads {
            let first = self.states[0];
            self.in_lockstep = self
                .states
                .iter()
                .fold(0, |differs, state| differs | (state ^ first))
                == 0;
        }
        Ok(match pause {
            Some(pause) if !progress => Progress::Stalled(pause),
            _ => Progress::Advanced,
        })
    }

    /// Calls the code for each run of consecutive lanes of a set.
    unsafe fn run_lanes(
        &mut self,
        code: &CompiledKernel<'_>,
        context: *mut BlockContext,
        warp: usize,
        mut set: LaneMask,
    ) -> Result<(), Faulted> {
        let base = warp as u32 * WARP_SIZE;
        while set != 0 {
            let first = set.trailing_zeros();
            let length = (set >> first).trailing_ones();
            set &= !(u32::MAX >> (WARP_SIZE - length) << first);
            let (first, last) = (base + first, base + first + length);
            let states = &self.states[first as usize..last as usize];
            let in_lockstep = states.iter().all(|state| *state == states[0]);
            // SAFETY: the caller's contract.
            let returned = unsafe { code.call(context, first, last, in_lockstep) }?;
            if returned == Returned::Together {
                let states = &mut self.states[first as usize..last as usize];
                states.fill(states[0]);
            }
        }
        Ok(())
    }

    /// Records the sync points at which lanes have arrived.
    pub(super) fn arrive(
        &mut self,
        code: &CompiledKernel<'_>,
        context: *mut BlockContext,
        warp: usize,
        mut set: LaneMask,
    ) -> Result<(), Faulted> {
        let base = warp * WARP_SIZE as usize;
        while set != 0 {
            // Usually all of them are at the same sync point.
            let leader = base + set.trailing_zeros() as usize;
            let state = self.states[leader];
            let group = self.lanes_where(base, set, |schedule, thread| {
                schedule.states[thread] == state
            });
            if state == EXITED {
                self.warps[warp].exited |= group;
                self.live -= group.count_ones();
                set &= !group;
                continue;
            }
            let Some(point) = code.point(state) else {
                // Only damaged code has such a state.
                let detail =
                    format!("the code stopped at sync point {state}, which does not exist");
                let kind = FaultKind::IllegalInstruction;
                return Err(self.fault(context, kind, leader, 0, detail));
            };
            let SyncPoint { kind, line, .. } = point;
            match kind {
                SyncKind::Yield => self.warps[warp].yielded |= group,
                SyncKind::ClusterArrive => {
                    self.warps[warp].arrived |= group;
                    self.warps[warp].ready |= group;
                }
                SyncKind::ClusterWait => {
                    let warp = &mut self.warps[warp];
                    warp.at_cluster_barrier |= group & warp.arrived;
                    warp.ready |= group & !warp.arrived;
                }
                SyncKind::Barrier
                | SyncKind::BarrierArrive
                | SyncKind::BarrierPopc
                | SyncKind::BarrierAnd
                | SyncKind::BarrierOr => {
                    let [id, count] = self.barrier_operands(point, leader);
                    let group = self.lanes_where(base, group, |schedule, thread| {
                        schedule.barrier_operands(point, thread) == [id, count]
                    });
                    let Some(barrier) = self.barriers.get_mut(id as usize) else {
                        let detail = format!("barrier {id}: a block has barriers 0 to 15");
                        let kind = FaultKind::IllegalInstruction;
                        return Err(self.fault(context, kind, leader, line, detail));
                    };
                    if kind == SyncKind::BarrierArrive {
                        barrier.arrive(warp, group, count as u32);
                        self.warps[warp].ready |= group;
                    } else {
                        barrier.wait(warp, group, count as u32);
                    }
                    // Immediately, so that a thread that arrives again counts for the next phase.
                    // SAFETY: the context is that of `run`'s caller.
                    unsafe { self.release_barrier(code, context, id as usize) };
                    set &= !group;
                    continue;
                }
                _ => self.warps[warp].waiting |= group,
            }
            set &= !group;
        }
        Ok(())
    }

    /// The lanes of a set for whose threads a predicate holds.
    fn lanes_where(
        &self,
        base: usize,
        set: LaneMask,
        predicate: impl Fn(&Schedule, usize) -> bool,
    ) -> LaneMask {
        lanes_of(set)
            .filter(|&lane| predicate(self, base + lane as usize))
            .fold(0, |group, lane| group | 1 << lane)
    }

    /// Releases the threads at a barrier if all have arrived.
    ///
    /// # Safety
    /// That of [`run`](Self::run).
    unsafe fn release_barrier(
        &mut self,
        code: &CompiledKernel<'_>,
        context: *const BlockContext,
        id: usize,
    ) {
        let barrier = &mut self.barriers[id];
        let warps = &mut self.warps;
        let gone = |warp: usize| (warps[warp].exited, !warps[warp].exists);
        if barrier.is_idle() || !barrier.is_complete(self.live, gone) {
            return;
        }
        // SAFETY: the caller's contract.
        if let Some(mut sanitizer) = unsafe { access::sanitizer(context) } {
            let arrived = barrier.arrived();
            let waiting = arrived.iter().filter(|arrived| arrived.waits).count();
            if waiting as u32 >= self.live {
                sanitizer.meet_all()
            } else {
                sanitizer.meet(&arrived)
            }
        }
        let states = &self.states;
        let kind_of = |thread: usize| {
            code.point(states[thread])
                .map_or(SyncKind::Barrier, |point| point.kind)
        };
        barrier.release(kind_of, &mut self.requests, |warp, set| {
            warps[warp].ready |= set
        });
    }

    /// Releases the lanes at warp operations whose member lanes have all arrived. Those at operations
    /// without members let lanes that are behind go first, unless they have long been `overtaken`.
    ///
    /// # Safety
    /// That of [`run`](Self::run).
    pub(super) unsafe fn release_warp(
        &mut self,
        code: &CompiledKernel<'_>,
        context: *mut BlockContext,
        index: usize,
        overtaken: bool,
    ) -> Result<(), Faulted> {
        let base = index * WARP_SIZE as usize;
        let end = (base + WARP_SIZE as usize).min(self.requests.len());
        // SAFETY: the caller's contract.
        unsafe { self.release_matrices(code, context, index) }?;
        let requests = &mut self.requests[base..end];
        let states = &self.states[base..end];
        let warp = &mut self.warps[index];
        let mut left = warp.waiting;
        let mut released = 0;
        let mut unmasked: LaneMask = 0;
        let mut without_itself = None;
        while left != 0 {
            let leader = left.trailing_zeros();
            let Some(SyncPoint { kind, .. }) = code.point(states[leader as usize]) else {
                break;
            };
            let mask = warp::mask_operand(kind);
            let members = mask.map_or(0, |mask| {
                requests[leader as usize].operands[mask] as LaneMask
            });
            if kind == SyncKind::Matrix {
                left &= !(1 << leader);
                continue;
            }
            if mask.is_none() {
                left &= !(1 << leader);
                unmasked |= 1 << leader;
                continue;
            }
            // Lanes may execute the same operation at different instructions.
            let group = lanes_of(left).filter(|&lane| {
                let same_kind = code
                    .point(states[lane as usize])
                    .is_some_and(|point| point.kind == kind);
                same_kind
                    && mask.is_some_and(|mask| {
                        requests[lane as usize].operands[mask] as LaneMask == members
                    })
            });
            let group: LaneMask = group.fold(0, |set, lane| set | 1 << lane);
            left &= !group;
            let live = warp.exists & !warp.exited;
            let mut members = members & live;
            if let Some(lane) = lanes_of(group & !members).next() {
                // NVIDIA's compiler drops the mask where the whole warp executes the instruction.
                let state = states[lane as usize];
                if group == live && lanes_of(group).all(|lane| states[lane as usize] == state) {
                    members = live;
                } else {
                    without_itself = without_itself.or(Some(lane));
                }
            }
            if members & !group == 0 {
                if kind == SyncKind::WarpBarrier {
                    // SAFETY: the caller's contract.
                    unsafe { lanes_meet(context, index, members) };
                }
                warp::resolve(kind, members, requests);
                released |= members;
            }
        }
        if let (Some(lane), 0) = (without_itself, released) {
            return Err(self.lane_without_itself(code, context, base + lane as usize));
        }
        // Operations without a mask, such as `activemask`, complete last: more lanes may
        // arrive before.
        while unmasked != 0 && (released == 0 || overtaken) {
            // The lanes that are behind, so that they can come to where the others wait.
            let line = |state: u32| code.point(state).map(|point| (point.line, state));
            let behind = lanes_of(unmasked).map(|lane| states[lane as usize]);
            let Some(state) = behind.min_by_key(|&state| line(state)) else {
                break;
            };
            let group = lanes_of(unmasked).filter(|&lane| states[lane as usize] == state);
            let group: LaneMask = group.fold(0, |set, lane| set | 1 << lane);
            if let Some(point) = code.point(state) {
                warp::resolve(point.kind, group, requests);
            }
            unmasked &= !group;
            released |= group;
        }
        warp.waiting &= !released;
        warp.ready |= released;
        Ok(())
    }

    /// Whether all threads that have not exited have arrived at the cluster's barrier.
    pub(super) fn has_arrived(&self) -> bool {
        let mut warps = self.warps.iter();
        warps.all(|warp| warp.arrived | warp.exited == warp.exists)
    }

    /// Completes the phase of the cluster's barrier.
    pub(super) fn release_cluster_barrier(&mut self) {
        for warp in &mut self.warps {
            warp.arrived = 0;
            warp.ready |= std::mem::take(&mut warp.at_cluster_barrier);
        }
        let first = self.states.first().copied().unwrap_or(EXITED);
        self.in_lockstep = self.warps.iter().all(|warp| warp.ready == warp.exists)
            && self.states.iter().all(|state| *state == first);
    }

    /// Records a fault that the scheduler found.
    pub(super) fn fault(
        &mut self,
        context: *mut BlockContext,
        kind: FaultKind,
        thread: usize,
        line: u32,
        detail: String,
    ) -> Faulted {
        // SAFETY: the context is that of `run`'s caller, and no compiled code that refers to it
        // is running.
        unsafe {
            (*context).fault = FaultRecord {
                kind: kind as u32,
                line,
                thread: thread as u32,
                access: 0,
                address: 0,
            };
        }
        self.detail = Some(detail);
        Faulted
    }
}

/// Lanes of a warp have met at `bar.warp.sync`.
///
/// # Safety
/// That of [`Schedule::run`].
pub(super) unsafe fn lanes_meet(context: *const BlockContext, warp: usize, lanes: LaneMask) {
    // SAFETY: the caller's contract.
    if let Some(mut sanitizer) = unsafe { access::sanitizer(context) } {
        let first = warp as u32 * WARP_SIZE;
        let arrived = |lane| Arrived {
            thread: first + lane,
            waits: true,
        };
        sanitizer.meet(&lanes_of(lanes).map(arrived).collect::<Vec<_>>());
    }
}

pub(super) enum Progress {
    Done,
    Advanced,
    AtClusterBarrier,
    /// All threads that ran have yielded, for at least this many nanoseconds.
    Stalled(u64),
}

/// `BlockContext::fault` holds a fault.
pub(super) struct Faulted;
