//! One block from its first instruction to its last: which threads run, which
//! wait, and what they get when they go on.
//!
//! As long as all threads of a block stand at the same sync point, the block
//! goes from point to point as a whole, one call each. Where they do not, each
//! warp runs its ready lanes as far as they come, warp after warp in order, until
//! barriers or other warps must let them go on.

use crate::block::{
    BlockContext, EXITED, FaultKind, FaultRecord, KernelFn, Request, SyncKind, SyncPoint, WARP,
};

use super::barrier::{self, BARRIERS, Barrier};
use super::warp::{self, Lanes, lanes};

/// How often a block whose threads all wait for memory is tried again before
/// other blocks get their turn.
const PATIENCE: u32 = 64;

/// The code of a kernel and what the scheduler must know of it.
#[derive(Clone, Copy)]
pub(super) struct Code<'a> {
    pub(super) scalar: KernelFn,
    /// Runs several threads in step; its range must be of whole multiples of the
    /// width, all in one state.
    pub(super) lanes: Option<(KernelFn, u32)>,
    pub(super) stateless: bool,
    pub(super) points: &'a [SyncPoint],
}

impl Code<'_> {
    /// Runs `first..last`; false after a fault. `in_step`: all in one state.
    ///
    /// # Safety
    /// The context describes a block of this kernel whose arrays are large
    /// enough, and no thread of the range has exited.
    unsafe fn call(
        &self,
        context: *mut BlockContext,
        first: u32,
        last: u32,
        in_step: bool,
    ) -> bool {
        let function = match self.lanes {
            Some((function, width))
                if in_step && first.is_multiple_of(width) && last.is_multiple_of(width) =>
            {
                function
            }
            _ => self.scalar,
        };
        // SAFETY: as this function's own.
        unsafe { function(context, first, last) == 0 }
    }

    fn point(&self, state: u32) -> Option<SyncPoint> {
        self.points.get((state as usize).checked_sub(1)?).copied()
    }
}

/// Where a block stands after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All threads have exited.
    Done,
    /// Its threads wait for other blocks.
    Waiting,
    /// `BlockContext::fault` says why.
    Faulted,
    /// Another block's fault ended the launch.
    Stopped,
}

/// What the threads of a block are doing.
#[derive(Default)]
pub(super) struct Schedule {
    pub(super) states: Vec<u32>,
    pub(super) requests: Vec<Request>,
    warps: Vec<Warp>,
    barriers: [Barrier; BARRIERS],
    threads: u32,
    live: u32,
    /// All threads stand in one state and may go on.
    whole: bool,
    /// Turns in a row in which every thread that ran came to a yield.
    fruitless: u32,
    /// A sentence about a fault that the scheduler found itself.
    pub(super) detail: Option<String>,
}

#[derive(Clone, Copy, Default)]
struct Warp {
    exists: Lanes,
    ready: Lanes,
    /// At a warp operation.
    waiting: Lanes,
    yielded: Lanes,
    exited: Lanes,
}

impl Schedule {
    /// Makes room for blocks of `threads` threads.
    pub(super) fn resize(&mut self, threads: u32) {
        self.threads = threads;
        self.states.resize(threads as usize, 0);
        self.requests.resize(threads as usize, Request::default());
        self.warps
            .resize(threads.div_ceil(WARP) as usize, Warp::default());
    }

    /// All threads at the entry.
    pub(super) fn start(&mut self) {
        self.states.fill(0);
        for (warp, first) in self
            .warps
            .iter_mut()
            .zip((0..self.threads).step_by(WARP as usize))
        {
            let exists = u32::MAX >> (WARP - (self.threads - first).min(WARP));
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
        self.whole = true;
        self.fruitless = 0;
        self.detail = None;
    }

    /// Runs the block until it is done, must wait for other blocks, or `stop`
    /// says that the launch has ended.
    ///
    /// # Safety
    /// `context` describes a block of this kernel, its arrays are this
    /// schedule's, and its other pointers are valid.
    pub(super) unsafe fn run(
        &mut self,
        code: &Code<'_>,
        context: *mut BlockContext,
        stop: impl Fn() -> bool,
    ) -> Outcome {
        self.fruitless = 0;
        loop {
            if stop() {
                return Outcome::Stopped;
            }
            // SAFETY: handed on to the caller.
            let went = unsafe {
                if self.whole {
                    self.run_whole(code, context)
                } else {
                    self.run_warps(code, context)
                }
            };
            match went {
                Ok(Turn::Done) => return Outcome::Done,
                Ok(Turn::Progress) => self.fruitless = 0,
                Ok(Turn::Fruitless) => {
                    self.fruitless += 1;
                    if self.fruitless >= PATIENCE {
                        return Outcome::Waiting;
                    }
                }
                Err(Faulted) => return Outcome::Faulted,
            }
        }
    }

    /// Runs all threads to the next sync point. If they do not all come to one
    /// where all may go on, the block goes on warp by warp.
    unsafe fn run_whole(
        &mut self,
        code: &Code<'_>,
        context: *mut BlockContext,
    ) -> Result<Turn, Faulted> {
        // SAFETY: none has exited, or `whole` would not be set.
        if !unsafe { code.call(context, 0, self.threads, true) } {
            return Err(Faulted);
        }
        let first = self.states.first().copied().unwrap_or(EXITED);
        let differs = self
            .states
            .iter()
            .fold(0, |differs, state| differs | (state ^ first));
        if differs == 0 {
            if first == EXITED {
                return Ok(Turn::Done);
            }
            if let Some(point) = code.point(first) {
                if point.kind == SyncKind::Yield {
                    return Ok(Turn::Fruitless);
                }
                if self.pass_barrier_whole(point) || self.pass_warps_whole(point.kind) {
                    return Ok(Turn::Progress);
                }
            }
        }
        self.whole = false;
        for warp in 0..self.warps.len() {
            let all = self.warps[warp].exists;
            self.warps[warp].ready = 0;
            self.arrive(code, context, warp, all)?;
            self.pass_warp(code, warp);
        }
        Ok(Turn::Progress)
    }

    /// The barrier where a thread waits, and for how many.
    fn barrier_operands(&self, point: SyncPoint, thread: usize) -> [u64; 2] {
        let [id, count, ..] = self.requests[thread].operands;
        point
            .barrier
            .map_or([id, count], |fixed| fixed.map(u64::from))
    }

    /// All threads are at a barrier of this kind: whether it lets them go on.
    fn pass_barrier_whole(&mut self, point: SyncPoint) -> bool {
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
            || [threads, threads.next_multiple_of(WARP)]
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

    /// All threads are at a warp operation: whether each warp is complete.
    fn pass_warps_whole(&mut self, kind: SyncKind) -> bool {
        let mask = warp::mask_operand(kind);
        if mask.is_none() && kind != SyncKind::ActiveMask {
            return false;
        }
        let requests = || self.requests.chunks(WARP as usize).zip(&self.warps);
        if let Some(mask) = mask {
            let complete = |request: &Request, exists: Lanes| {
                let members = request.operands[mask] as Lanes;
                members == 0 || members & exists == exists
            };
            if !requests()
                .all(|(chunk, warp)| chunk.iter().all(|request| complete(request, warp.exists)))
            {
                return false;
            }
        }
        for (chunk, warp) in self.requests.chunks_mut(WARP as usize).zip(&self.warps) {
            warp::resolve(kind, warp.exists, chunk);
        }
        true
    }

    /// Lets every warp run its ready lanes, then opens what barriers it can.
    unsafe fn run_warps(
        &mut self,
        code: &Code<'_>,
        context: *mut BlockContext,
    ) -> Result<Turn, Faulted> {
        let mut progress = false;
        let mut yielded = false;
        for warp in 0..self.warps.len() {
            loop {
                let ready = std::mem::take(&mut self.warps[warp].ready);
                if ready == 0 {
                    break;
                }
                // SAFETY: handed on to the caller; ready lanes have not exited.
                unsafe { self.run_lanes(code, context, warp, ready) }?;
                self.arrive(code, context, warp, ready)?;
                self.pass_warp(code, warp);
                progress |= ready & !self.warps[warp].yielded != 0;
            }
        }
        for id in 0..BARRIERS {
            self.open(code, id);
        }
        let mut ready = 0;
        for warp in &mut self.warps {
            yielded |= warp.yielded != 0;
            warp.ready |= std::mem::take(&mut warp.yielded);
            ready += warp.ready.count_ones();
        }
        if self.live == 0 {
            return Ok(Turn::Done);
        }
        if ready == 0 {
            return Err(self.deadlock(code, context));
        }
        if ready == self.threads {
            let first = self.states[0];
            self.whole = self
                .states
                .iter()
                .fold(0, |differs, state| differs | (state ^ first))
                == 0;
        }
        Ok(if progress || !yielded {
            Turn::Progress
        } else {
            Turn::Fruitless
        })
    }

    /// Calls the code for each run of neighbours among the lanes.
    unsafe fn run_lanes(
        &mut self,
        code: &Code<'_>,
        context: *mut BlockContext,
        warp: usize,
        mut set: Lanes,
    ) -> Result<(), Faulted> {
        let base = warp as u32 * WARP;
        while set != 0 {
            let first = set.trailing_zeros();
            let length = (set >> first).trailing_ones();
            set &= !(u32::MAX >> (WARP - length) << first);
            let (first, last) = (base + first, base + first + length);
            let states = &self.states[first as usize..last as usize];
            let in_step = states.iter().all(|state| *state == states[0]);
            // SAFETY: handed on to the caller.
            if !unsafe { code.call(context, first, last, in_step) } {
                return Err(Faulted);
            }
        }
        Ok(())
    }

    /// Notes where lanes that have just run have come to.
    fn arrive(
        &mut self,
        code: &Code<'_>,
        context: *mut BlockContext,
        warp: usize,
        mut set: Lanes,
    ) -> Result<(), Faulted> {
        let base = warp * WARP as usize;
        while set != 0 {
            // Most often all of them have come to the same place.
            let leader = base + set.trailing_zeros() as usize;
            let state = self.states[leader];
            let group = self.among(base, set, |schedule, thread| {
                schedule.states[thread] == state
            });
            if state == EXITED {
                self.warps[warp].exited |= group;
                self.live -= group.count_ones();
                set &= !group;
                continue;
            }
            let Some(point) = code.point(state) else {
                // Only damaged code names a point that it does not have.
                let detail =
                    format!("the code stopped at sync point {state}, which does not exist");
                let kind = FaultKind::IllegalInstruction;
                return Err(self.fault(context, kind, leader, 0, detail));
            };
            let SyncPoint { kind, line, .. } = point;
            match kind {
                SyncKind::Yield => self.warps[warp].yielded |= group,
                SyncKind::Barrier
                | SyncKind::BarrierArrive
                | SyncKind::BarrierPopc
                | SyncKind::BarrierAnd
                | SyncKind::BarrierOr => {
                    let [id, count] = self.barrier_operands(point, leader);
                    let group = self.among(base, group, |schedule, thread| {
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
                    // At once, so that a thread that arrives again arrives at the
                    // next phase.
                    self.open(code, id as usize);
                    set &= !group;
                    continue;
                }
                _ => self.warps[warp].waiting |= group,
            }
            set &= !group;
        }
        Ok(())
    }

    /// The lanes of a set whose threads are so.
    fn among(&self, base: usize, set: Lanes, so: impl Fn(&Schedule, usize) -> bool) -> Lanes {
        lanes(set)
            .filter(|&lane| so(self, base + lane as usize))
            .fold(0, |group, lane| group | 1 << lane)
    }

    /// Lets the threads at a barrier go on if all have come.
    fn open(&mut self, code: &Code<'_>, id: usize) {
        let barrier = &mut self.barriers[id];
        let warps = &mut self.warps;
        if barrier.is_idle() || !barrier.is_complete(self.live, |warp| warps[warp].exited) {
            return;
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

    /// Lets the lanes at warp operations go on whose partners have all come.
    fn pass_warp(&mut self, code: &Code<'_>, index: usize) {
        let base = index * WARP as usize;
        let end = (base + WARP as usize).min(self.requests.len());
        let requests = &mut self.requests[base..end];
        let states = &self.states[base..end];
        let warp = &mut self.warps[index];
        let mut left = warp.waiting;
        let mut released = 0;
        let mut lone: Lanes = 0;
        while left != 0 {
            let leader = left.trailing_zeros();
            let Some(SyncPoint { kind, .. }) = code.point(states[leader as usize]) else {
                break;
            };
            let mask = warp::mask_operand(kind);
            let members = mask.map_or(0, |mask| requests[leader as usize].operands[mask] as Lanes);
            if members == 0 {
                left &= !(1 << leader);
                lone |= 1 << leader;
                continue;
            }
            // The same operation may stand in several places.
            let group = lanes(left).filter(|&lane| {
                let same_kind = code
                    .point(states[lane as usize])
                    .is_some_and(|point| point.kind == kind);
                same_kind
                    && mask.is_some_and(|mask| {
                        requests[lane as usize].operands[mask] as Lanes == members
                    })
            });
            let group: Lanes = group.fold(0, |set, lane| set | 1 << lane);
            left &= !group;
            // A lane that its own mask leaves out gets what it would alone.
            for lane in lanes(group & !members) {
                warp::resolve(kind, 1 << lane, requests);
            }
            let members = members & warp.exists & !warp.exited;
            if members & !group == 0 {
                warp::resolve(kind, members, requests);
                released |= group;
            } else {
                released |= group & !members;
            }
        }
        // What asks who is here gets its answer last: the others may come yet.
        if released == 0 {
            while lone != 0 {
                let leader = lone.trailing_zeros();
                let state = states[leader as usize];
                let group = lanes(lone).filter(|&lane| states[lane as usize] == state);
                let group: Lanes = group.fold(0, |set, lane| set | 1 << lane);
                lone &= !group;
                if let Some(point) = code.point(state) {
                    warp::resolve(point.kind, group, requests);
                }
                released |= group;
            }
        }
        warp.waiting &= !released;
        warp.ready |= released;
    }

    /// Nobody can go on: says where they all wait.
    fn deadlock(&mut self, code: &Code<'_>, context: *mut BlockContext) -> Faulted {
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
        let words = places.iter().map(|&(point, thread, count)| {
            let noun = if count == 1 {
                "thread waits"
            } else {
                "threads wait"
            };
            format!(
                "{count} {noun} at {} in line {}",
                self.name(point, thread),
                point.line
            )
        });
        let exited = self.threads - self.live;
        let exited = if exited > 0 {
            format!(", {exited} have exited")
        } else {
            String::new()
        };
        let words: Vec<String> = words.collect();
        let detail = format!("deadlock: {}{exited}", words.join(", "));
        let (line, thread) = places
            .first()
            .map_or((0, 0), |place| (place.0.line, place.1));
        self.fault(context, FaultKind::Deadlock, thread, line, detail)
    }

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
            _ => "redux.sync",
        };
        format!("{name}{}", mask.unwrap_or_default())
    }

    fn fault(
        &mut self,
        context: *mut BlockContext,
        kind: FaultKind,
        thread: usize,
        line: u32,
        detail: String,
    ) -> Faulted {
        // SAFETY: the context is the caller's of `run`, and no compiled code runs
        // now that could have a reference to it.
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

enum Turn {
    Done,
    Progress,
    Fruitless,
}

/// The context holds a fault.
struct Faulted;
