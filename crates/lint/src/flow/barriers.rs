//! The barriers of a block executed: warps go on until they wait, and a barrier opens when
//! as many threads have come as it says.
//!
//! What a branch to a barrier depends on has to be known, or the warp may do anything that
//! lies ahead of it. (Sharma, Bauer and Aiken, "Verification of Producer-Consumer
//! Synchronization in GPU Programs", PLDI 2015, check such programs in the same way.)

use super::context::FunctionContext;
use super::instructions::InstructionId;
use super::lanes::{Shape, WARP};
use super::launch::Block;
use super::warp::{BarrierSet, Comes, Course, Event, Warp, count_of, is_barrier};
use ptx::ast::{FunctionKind, Mnemonic};
use ptx::names::Opcode;

/// What goes wrong at a barrier of some threads.
#[derive(Clone, Debug)]
pub struct BarrierMistake {
    /// Where.
    pub at: InstructionId,
    /// Which barrier.
    pub barrier: u8,
    /// What.
    pub kind: MistakeKind,
    /// The number of threads of a block for which it is so; `None` if it is so for any.
    pub threads: Option<u32>,
}

/// The kind of mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MistakeKind {
    /// The barrier never opens.
    Stuck {
        /// How many threads it waits for; `None` for all.
        count: Option<u32>,
        /// How many have come.
        came: u32,
        /// Where other warps wait for ever.
        others: Vec<InstructionId>,
    },
    /// Another instruction says another number of threads, before the barrier opens.
    Counts {
        /// The number here and there.
        counts: [u32; 2],
        /// The other instruction.
        other: InstructionId,
    },
    /// Threads arrive, and none waits.
    Unawaited,
}

/// So many steps for each instruction of a function, and for small ones.
const STEPS_FOR_EACH: usize = 40;
const STEPS: usize = 100_000;

/// The most threads of a block.
const MOST: u32 = 1024;

/// What goes wrong at the barriers of a kernel that say how many threads they wait for.
pub(crate) fn mistakes(function: &FunctionContext<'_, '_>) -> Vec<BarrierMistake> {
    found(function).unwrap_or_default()
}

fn found(function: &FunctionContext<'_, '_>) -> Option<Vec<BarrierMistake>> {
    if function.function.kind != FunctionKind::Entry {
        return None;
    }
    let of_counts = |mnemonic: &Mnemonic<'_>| {
        matches!(mnemonic.opcode, Opcode::Bar | Opcode::Barrier) && is_barrier(mnemonic)
    };
    let mut barriers = function
        .instructions_with(|mnemonic, _| of_counts(mnemonic))
        .into_iter();
    if !barriers.any(|(_, one)| count_of(one, function.mnemonic(one)).is_some()) {
        return None;
    }
    let flow = function.flow()?;
    let course = Course::new(function, flow)?;
    let mut budget = flow.instructions.steps.len() * STEPS_FOR_EACH + STEPS;
    let block = Block::of(function);
    if let Block::Known(shape) = block {
        let mut found = Meeting::new(&course, shape)?.mistakes(&mut budget)?;
        let mut directives = function.function.directives.iter();
        let required = directives.any(|directive| directive.name == "reqntid");
        let threads = Some(shape.threads()).filter(|_| !required);
        found
            .iter_mut()
            .for_each(|mistake| mistake.threads = threads);
        return Some(found);
    }
    if !matches!(block, Block::Line) {
        return None;
    }
    // Without launch bounds, each number of threads has to have it.
    let mut all: Option<Vec<BarrierMistake>> = None;
    for warps in (1..=MOST / WARP).rev() {
        let shape = Shape([warps * WARP, 1, 1]);
        let Some(found) = Meeting::new(&course, shape)?.mistakes(&mut budget) else {
            continue;
        };
        let kind = |mistake: &BarrierMistake| std::mem::discriminant(&mistake.kind);
        let also = |known: &BarrierMistake| {
            let mut found = found.iter();
            found.any(|one| (one.barrier, kind(one)) == (known.barrier, kind(known)))
        };
        match &mut all {
            None => all = Some(found),
            Some(all) => all.retain(also),
        }
        if all.as_ref().is_none_or(Vec::is_empty) {
            return None;
        }
    }
    all
}

/// A barrier that some have come to.
#[derive(Debug, Default)]
struct Barrier {
    /// Who came first.
    first: Option<Comes>,
    came: u32,
    /// The warps that wait.
    waiting: Vec<usize>,
    /// Who has arrived at any time.
    arrived: Option<InstructionId>,
    /// Some warp has waited at it at any time.
    awaited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runs,
    Waits(u8, InstructionId),
    Ended,
    Unknown,
}

/// The warps of a block, and its barriers.
struct Meeting<'p, 'c, 'm, 'a> {
    course: &'p Course<'c, 'm, 'a>,
    threads: u32,
    warps: Vec<(Warp, State)>,
    barriers: [Barrier; 16],
    found: Vec<BarrierMistake>,
}

impl<'p, 'c, 'm, 'a> Meeting<'p, 'c, 'm, 'a> {
    /// `None` for a block that is not made of whole warps.
    fn new(course: &'p Course<'c, 'm, 'a>, shape: Shape) -> Option<Self> {
        let threads = shape.threads();
        if !threads.is_multiple_of(WARP) || threads > MOST {
            return None;
        }
        let warp = |number| (Warp::new(course, number, shape), State::Runs);
        Some(Meeting {
            course,
            threads,
            warps: (0..threads / WARP).map(warp).collect(),
            barriers: Default::default(),
            found: Vec::new(),
        })
    }

    /// Lets each warp go on in turn, until none can; `None` for a block with fewer threads
    /// than a barrier wants, which `barrier-beyond-launch-bounds` is for.
    fn mistakes(mut self, budget: &mut usize) -> Option<Vec<BarrierMistake>> {
        let mut ready: Vec<usize> = (0..self.warps.len()).rev().collect();
        while let Some(number) = ready.pop() {
            self.run(number, budget, &mut ready)?;
            if !self.found.is_empty() {
                return Some(self.found);
            }
        }
        self.finish();
        Some(self.found)
    }

    /// Lets a warp go on until it waits.
    fn run(&mut self, number: usize, budget: &mut usize, ready: &mut Vec<usize>) -> Option<()> {
        loop {
            let (warp, state) = &mut self.warps[number];
            match warp.advance(self.course, budget) {
                Event::Unknown => *state = State::Unknown,
                Event::Ends => {
                    *state = State::Ended;
                    // Those that have ended are not waited for.
                    for at in 0..self.barriers.len() {
                        self.open(at, ready);
                    }
                }
                Event::Comes(comes) => {
                    self.come(number, comes)?;
                    if !comes.goes_on {
                        self.warps[number].1 = State::Waits(comes.barrier, comes.at);
                    }
                    self.open(usize::from(comes.barrier), ready);
                    if comes.goes_on && self.found.is_empty() {
                        continue;
                    }
                }
            }
            return Some(());
        }
    }

    fn come(&mut self, number: usize, comes: Comes) -> Option<()> {
        let threads = self.threads;
        let count = |comes: &Comes| comes.count.unwrap_or(threads);
        if count(&comes) > threads {
            return None;
        }
        let barrier = &mut self.barriers[usize::from(comes.barrier)];
        let first = *barrier.first.get_or_insert(comes);
        if count(&first) != count(&comes) {
            self.found.push(BarrierMistake {
                at: comes.at,
                barrier: comes.barrier,
                kind: MistakeKind::Counts {
                    counts: [count(&comes), count(&first)],
                    other: first.at,
                },
                threads: None,
            });
        }
        barrier.came += WARP;
        if comes.goes_on {
            barrier.arrived = barrier.arrived.or(Some(comes.at))
        } else {
            barrier.waiting.push(number);
            barrier.awaited = true;
        }
        Some(())
    }

    /// Opens a barrier if enough have come.
    fn open(&mut self, at: usize, ready: &mut Vec<usize>) {
        let ended = self
            .warps
            .iter()
            .filter(|(_, state)| *state == State::Ended);
        let left = (self.warps.len() - ended.count()) as u32 * WARP;
        let barrier = &mut self.barriers[at];
        let Some(first) = barrier.first else {
            return;
        };
        if barrier.came < first.count.unwrap_or(left) {
            return;
        }
        barrier.first = None;
        barrier.came = 0;
        for number in barrier.waiting.drain(..) {
            self.warps[number].1 = State::Runs;
            ready.push(number);
        }
    }

    /// What those that still wait wait for.
    fn finish(&mut self) {
        let unknown = self
            .warps
            .iter()
            .filter(|(_, state)| *state == State::Unknown);
        let mut may: BarrierSet = unknown.fold(0, |all, (warp, _)| all | warp.ahead(self.course));
        // Who may be let go may come to what lies ahead.
        loop {
            let before = may;
            for (warp, state) in &self.warps {
                if matches!(state, State::Waits(barrier, _) if may >> barrier & 1 != 0) {
                    may |= warp.ahead(self.course);
                }
            }
            if may == before {
                break;
            }
        }
        let stuck = |state: &State| match *state {
            State::Waits(barrier, at) if may >> barrier & 1 == 0 => Some((barrier, at)),
            _ => None,
        };
        let mut all: Vec<_> = self
            .warps
            .iter()
            .filter_map(|(_, state)| stuck(state))
            .collect();
        all.sort_by_key(|(_, at)| *at);
        all.dedup();
        let Some((barrier, at)) = all.first().copied() else {
            return self.unawaited(may);
        };
        let state = &self.barriers[usize::from(barrier)];
        self.found.push(BarrierMistake {
            at,
            barrier,
            kind: MistakeKind::Stuck {
                count: state.first.and_then(|first| first.count),
                came: state.came,
                others: all[1..].iter().map(|(_, at)| *at).collect(),
            },
            threads: None,
        });
    }

    /// Threads have arrived where nobody has waited, nor will.
    fn unawaited(&mut self, may: BarrierSet) {
        for (number, barrier) in (0..).zip(&self.barriers) {
            if let Some(at) = barrier.arrived
                && !barrier.awaited
                && may >> number & 1 == 0
            {
                self.found.push(BarrierMistake {
                    at,
                    barrier: number,
                    kind: MistakeKind::Unawaited,
                    threads: None,
                });
            }
        }
    }
}
