//! Where the lanes of a warp exchange values through memory without a barrier.

use std::collections::{BTreeMap, HashMap};

use super::lane_sets::{self, LaneSet, lane_sets};
use super::memory_access::{Access, memory_access};
use super::pointers::pointers;
use super::thread_sums::{Root, Sum, ThreadSums};
use crate::program::ir::liveness::RegisterSet;
use crate::program::ir::{Base, BlockId, Instruction, Program, Reg, Step, Storage, Terminator};
use analysis::dependence::{Linear, Sources, WARP};
use ptx::isa::Convergence;

/// The accesses since lanes have met that are compared with those that follow. Where there are more, lanes
/// meet: they do so rarely.
const MAX_OPEN: usize = 1024;

/// By block: the accesses before which the lanes of a warp have to meet, in their order.
///
/// They have to before an access of what another lane of the warp may have accessed since they last met,
/// if one of both writes. In shared memory it may, unless the addresses show that it does not. In global memory
/// it may if the addresses show it: by a distance from lane to lane, or because they are computed from the
/// index of the thread in a way that has no distance, as `a[i ^ distance]`.
///
/// An access is left out that reads what a lane behind it in the warp writes: lanes run in their order.
pub(in crate::program) fn exchanges(program: &Program<'_>) -> Option<Vec<Vec<usize>>> {
    let exchanged = Candidates::new(program)?;
    let mut sums = ThreadSums::new(program);
    let sets = lane_sets(program, &mut sums);
    let mut accesses = Vec::new();
    let mut number_at = HashMap::new();
    for (at, block) in (0..).map(BlockId).zip(&program.blocks) {
        for (place, step) in block.steps.iter().enumerate() {
            let Some(access) = memory_access(program, step).filter(|a| exchanged.has(a)) else {
                continue;
            };
            let address = sums.address(access.base, access.offset);
            let is_variable = matches!(
                address.root,
                Some(Root::Variable(Storage::Shared(_) | Storage::DynamicShared))
            );
            number_at.insert((at, place), accesses.len() as u32);
            accesses.push(Place {
                is_shared: access.is_shared.unwrap_or(is_variable),
                lanes: sets[at.index()],
                address,
                access,
            });
        }
    }
    let dependents = sums.dependents();
    let mut is_unknown: Vec<bool> = dependents.iter().map(|all| !all.is_empty()).collect();
    for &(symbol, _) in accesses.iter().flat_map(|place| &place.address.terms) {
        if let Some(is_unknown) = is_unknown.get_mut(symbol as usize) {
            *is_unknown = true;
        }
    }
    let search = Search {
        dependents,
        is_unknown,
        program,
        sums,
        accesses,
        number_at,
    };
    search.run()
}

/// The accesses that may exchange something, by what is seen at once.
struct Candidates {
    shared: bool,
    pointers: Vec<Option<u32>>,
    /// The parameters that point to what is both read and written.
    params: Vec<u32>,
}

impl Candidates {
    fn new(program: &Program<'_>) -> Option<Candidates> {
        let steps = || program.blocks.iter().flat_map(|block| &block.steps);
        let accesses: Vec<Access> = steps()
            .filter_map(|step| memory_access(program, step))
            .collect();
        let exchanges = |is_wanted: &dyn Fn(&Access) -> bool| {
            let wanted = || accesses.iter().filter(|access| is_wanted(access));
            // What is written twice may be written in another order.
            wanted().any(|access| access.writes) && wanted().nth(1).is_some()
        };
        let shared = exchanges(&|access| access.is_shared != Some(false));
        let mut params = Vec::new();
        let mut found = Vec::new();
        if accesses.iter().any(|access| access.is_shared != Some(true)) {
            found = pointers(program);
            let mut all: Vec<u32> = found.iter().filter_map(|param| *param).collect();
            all.sort_unstable();
            all.dedup();
            all.retain(|param| {
                let is_of = |access: &Access| is_of(access, &found, *param);
                let mut all = accesses.iter().filter(|access| is_of(access));
                let reads = all.clone().any(|access| access.reads);
                reads && all.any(|access| access.writes)
            });
            params = all;
        }
        let any = shared || !params.is_empty();
        any.then_some(Candidates {
            shared,
            pointers: found,
            params,
        })
    }

    fn has(&self, access: &Access) -> bool {
        let mut params = self.params.iter();
        match access.is_shared {
            Some(true) => self.shared,
            Some(false) => params.any(|param| is_of(access, &self.pointers, *param)),
            None => self.shared || params.any(|param| is_of(access, &self.pointers, *param)),
        }
    }
}

fn is_of(access: &Access, pointers: &[Option<u32>], param: u32) -> bool {
    matches!(access.base, Base::Reg(reg) if pointers.get(reg.index()) == Some(&Some(param)))
        && access.is_shared != Some(true)
}

struct Place {
    access: Access,
    address: Sum,
    is_shared: bool,
    lanes: LaneSet,
}

/// What is known where a block begins.
#[derive(Clone, PartialEq)]
struct State {
    /// The accesses since lanes have met, each with whether an unknown of its address has changed since.
    open: BTreeMap<u32, bool>,
    /// The registers with an unknown that has changed since they were written.
    outdated: RegisterSet,
}

struct Search<'p, 'a> {
    program: &'p Program<'a>,
    sums: ThreadSums<'p, 'a>,
    dependents: Vec<Vec<Reg>>,
    /// By register: whether it is an unknown of a sum.
    is_unknown: Vec<bool>,
    accesses: Vec<Place>,
    number_at: HashMap<(BlockId, usize), u32>,
}

impl Search<'_, '_> {
    fn run(self) -> Option<Vec<Vec<usize>>> {
        let program = self.program;
        let graph = program.graph();
        let mut states: Vec<Option<State>> = vec![None; program.blocks.len()];
        states[0] = Some(State {
            open: BTreeMap::new(),
            outdated: RegisterSet::new(program.registers.len()),
        });
        let mut meetings: Vec<Vec<usize>> = vec![Vec::new(); program.blocks.len()];
        let mut known = Known::default();
        let mut open = vec![false; program.blocks.len()];
        open[0] = true;
        while open.contains(&true) {
            for &at in &graph.order {
                if !std::mem::take(&mut open[at.index()]) {
                    continue;
                }
                let Some(mut state) = states[at.index()].clone() else {
                    continue;
                };
                self.pass(at, &mut state, &mut meetings[at.index()], &mut known);
                for next in program.blocks[at.index()].terminator.successors() {
                    open[next.index()] |= join(&mut states[next.index()], &state);
                }
            }
        }
        let any = meetings.iter().any(|block| !block.is_empty());
        any.then_some(meetings)
    }

    fn pass(&self, at: BlockId, state: &mut State, meetings: &mut Vec<usize>, known: &mut Known) {
        let block = &self.program.blocks[at.index()];
        for (place, step) in block.steps.iter().enumerate() {
            if let Some(&number) = self.number_at.get(&(at, place)) {
                let access = &self.accesses[number as usize];
                let base = access.access.base;
                let outdated = matches!(base, Base::Reg(reg) if state.outdated.contains(reg));
                let mut meets = |(&other, &changed): (&u32, &bool)| {
                    let earlier = &self.accesses[other as usize];
                    if !earlier.access.writes && !access.access.writes {
                        return false;
                    }
                    let changed = changed || outdated;
                    let Known { pairs, distances } = &mut *known;
                    *pairs
                        .entry((other, number, changed))
                        .or_insert_with(|| self.may_meet((other, number), changed, distances))
                };
                let found = meetings.binary_search(&place);
                let meet = found.is_ok()
                    || state.open.len() >= MAX_OPEN
                    || state.open.iter().any(&mut meets);
                if let Err(before) = found
                    && meet
                {
                    meetings.insert(before, place);
                }
                if meet {
                    state.open.clear();
                }
                let entry = state.open.entry(number).or_default();
                *entry |= outdated;
            }
            self.write(step, state);
        }
        if let Terminator::Sync { instruction, .. } = &block.terminator {
            if lanes_meet(instruction) {
                state.open.clear();
            }
            self.write(&Step::Instruction(*instruction), state);
        }
    }

    /// Marks the addresses that depend on the registers that a step writes.
    fn write(&self, step: &Step, state: &mut State) {
        let mut is_outdated = false;
        let mut written = Vec::new();
        self.program.step_effects(
            step,
            &mut |reg| is_outdated |= state.outdated.contains(reg),
            &mut |reg| written.push(reg),
        );
        for reg in written {
            if !is_outdated && !self.is_unknown[reg.index()] {
                state.outdated.remove(reg);
                continue;
            }
            for &dependent in &self.dependents[reg.index()] {
                state.outdated.insert(dependent);
            }
            if is_outdated {
                state.outdated.insert(reg)
            } else {
                state.outdated.remove(reg)
            }
            for (number, changed) in &mut state.open {
                let terms = &self.accesses[*number as usize].address.terms;
                *changed |= terms.iter().any(|term| term.0 == reg.0);
            }
        }
    }

    /// Whether a lane may access what another one has accessed by an earlier access, where one of both writes. `changed` says that
    /// unknowns may have other values by now.
    fn may_meet(
        &self,
        (earlier, later): (u32, u32),
        changed: bool,
        known: &mut HashMap<Distance, bool>,
    ) -> bool {
        let (a, b) = (
            &self.accesses[earlier as usize],
            &self.accesses[later as usize],
        );
        let is_atomic = |place: &Place| place.access.reads && place.access.writes;
        let is_same_lane = a.lanes.alone.is_some() && a.lanes.alone == b.lanes.alone;
        if is_same_lane || a.is_shared != b.is_shared {
            return false;
        }
        let is_shared = a.is_shared;
        // The order of atomic operations is left open, and in global memory other warps take part.
        if is_atomic(a) && (is_atomic(b) || !is_shared) || is_atomic(b) && !is_shared {
            return false;
        }
        match (a.address.root, b.address.root) {
            (Some(a), Some(b)) if a != b => return false,
            (Some(_), Some(_)) => {}
            _ if !is_shared => return false,
            _ => {}
        }
        let [of_a, of_b] = [a, b].map(|place| place.address.other);
        if of_a | of_b != Sources::NONE {
            // What lanes store to places of a table is mostly of one table.
            let stores = !a.access.reads && !b.access.reads;
            let unknown = !(stores && of_a != Sources::NONE && of_b != Sources::NONE);
            return unknown && (is_shared || !(of_a | of_b).any(Sources::BLOCK));
        }
        let apart = a.address.plus(&b.address, -1);
        let unknown = apart.terms.iter();
        let unknown = unknown.map(|&term| self.sums.grain(term, false));
        // What both have may have been something else.
        let both = a.address.terms.iter().chain(&b.address.terms);
        let before = both.filter(|_| changed);
        let before = before.map(|&term| self.sums.grain(term, true));
        // What warps add.
        let Linear {
            bits, row, plane, ..
        } = &apart.thread;
        let warps = bits[LANE_BITS..].iter().chain([row, plane]);
        let warps = warps.map(|part| i64::from(*part));
        let unknown = unknown.chain(before).fold(0, gcd);
        let modulus = warps.fold(unknown, gcd);
        let bits = |place: &Place| -> [i32; LANE_BITS] {
            std::array::from_fn(|bit| place.address.thread.bits[bit])
        };
        let is_uniform = bits(a).iter().chain(&bits(b)).all(|part| *part == 0);
        let is_unknown = match self.program.block {
            Some(_) => unknown != 0,
            None => modulus != 0,
        };
        if !is_shared && (is_unknown || !apart.terms.is_empty() || is_uniform) {
            return false;
        }
        let reads_first = !a.access.writes && !b.access.reads && !changed;
        if let Some(block) = self.program.block {
            return InBlock {
                block,
                modulus: unknown,
                is_ordered: reads_first,
            }
            .overlaps(a, b);
        }
        let mut ascending = bits(a).into_iter().scan(0, |below: &mut i32, part| {
            let is_above = part > *below;
            *below = below.saturating_add(part);
            Some(is_above)
        });
        if reads_first
            && bits(a) == bits(b)
            && ascending.all(|is_above| is_above)
            && apart.thread.base.offset >= 0
            && apart.terms.iter().all(|term| self.sums.is_natural(*term))
        {
            return false;
        }
        let distance = Distance {
            bits: [bits(a), bits(b)],
            lanes: [a.lanes.threads.lanes(), b.lanes.threads.lanes()],
            widths: [a.access.width, b.access.width],
            apart: apart.thread.base.offset,
            modulus,
        };
        match known.get(&distance) {
            Some(overlaps) => *overlaps,
            None => {
                let overlaps = distance.overlaps();
                known.insert(distance, overlaps);
                overlaps
            }
        }
    }
}

/// What has been compared.
#[derive(Default)]
struct Known {
    /// Two accesses, and whether unknowns have changed between them.
    pairs: HashMap<(u32, u32, bool), bool>,
    distances: HashMap<Distance, bool>,
}

const LANE_BITS: usize = WARP.ilog2() as usize;

/// What lies between the addresses of two accesses by lanes of a warp.
#[derive(PartialEq, Eq, Hash)]
struct Distance {
    /// What each bit of the lane's number adds to them.
    bits: [[i32; LANE_BITS]; 2],
    lanes: [u32; 2],
    widths: [u32; 2],
    apart: i64,
    /// An unknown multiple of it is added, unless it is 0.
    modulus: i64,
}

impl Distance {
    /// Whether two different lanes may access the same byte.
    fn overlaps(&self) -> bool {
        let [a, b] = [0, 1].map(|which: usize| -> Vec<i64> {
            let value = |lane: u32| {
                let parts = self.bits[which].iter().enumerate();
                let parts = parts.filter(|(bit, _)| lane >> bit & 1 != 0);
                parts.map(|(_, part)| i64::from(*part)).sum()
            };
            (0..WARP).map(value).collect()
        });
        let [of_a, of_b] = self.widths.map(i64::from);
        let overlap =
            |a: i64, b: i64| may_touch(self.apart.wrapping_add(a - b), self.modulus, (of_a, of_b));
        let is_there = |which: usize, lane: usize| self.lanes[which] >> lane & 1 != 0;
        let others = |i: usize| (0..b.len()).filter(move |&j| i != j);
        let mut lanes = (0..a.len()).filter(|&i| is_there(0, i));
        lanes.any(|i| others(i).any(|j| is_there(1, j) && overlap(a[i], b[j])))
    }
}

/// Accesses of the warps of a block of known size.
struct InBlock {
    block: [u32; 3],
    /// An unknown multiple of it lies between the accesses, unless it is 0.
    modulus: i64,
    /// An access of a lane by what a lane behind it writes later is in order.
    is_ordered: bool,
}

impl InBlock {
    /// Whether two lanes of a warp may access the same byte.
    fn overlaps(&self, a: &Place, b: &Place) -> bool {
        let [x, y, z] = self.block;
        let threads = x
            .saturating_mul(y)
            .saturating_mul(z)
            .min(lane_sets::MAX_THREADS as u32);
        let [of_a, of_b] = [a, b].map(|place| {
            let address = |thread| {
                let index = lane_sets::index(Some(self.block), thread);
                let is_there = place.lanes.threads.has(thread);
                is_there.then(|| place.address.thread.at(index))
            };
            (0..threads).map(address).collect::<Vec<Option<i64>>>()
        });
        let widths = (i64::from(a.access.width), i64::from(b.access.width));
        let warp = WARP as usize;
        of_a.chunks(warp)
            .zip(of_b.chunks(warp))
            .any(|(of_a, of_b)| {
                let a = of_a
                    .iter()
                    .enumerate()
                    .filter_map(|(lane, at)| Some((lane, (*at)?)));
                let b = of_b
                    .iter()
                    .enumerate()
                    .filter_map(|(lane, at)| Some((lane, (*at)?)));
                a.into_iter().any(|(i, a)| {
                    b.clone().any(|(j, b)| {
                        let matters = if self.is_ordered { i > j } else { i != j };
                        matters && may_touch(a.wrapping_sub(b), self.modulus, widths)
                    })
                })
            })
    }
}

/// Whether accesses of these widths, so far apart plus a multiple of `modulus`, have a byte in common.
fn may_touch(apart: i64, modulus: i64, (of_a, of_b): (i64, i64)) -> bool {
    match modulus {
        0 => apart < of_b && apart > -of_a,
        _ => {
            let rest = apart.rem_euclid(modulus);
            rest < of_b || modulus - rest < of_a
        }
    }
}

fn gcd(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a.wrapping_rem(b));
    }
    a.saturating_abs()
}

/// Whether no lane goes on from a sync point before those that are to be there have come.
fn lanes_meet(i: &Instruction) -> bool {
    let meets = match i.meaning.convergence {
        Convergence::Active | Convergence::Mask | Convergence::Warp => true,
        Convergence::Block | Convergence::Cluster => !i.meaning.arrives,
        Convergence::Alone => false,
    };
    meets || i.is_matrix()
}

/// Whether something has been added.
fn join(to: &mut Option<State>, from: &State) -> bool {
    let Some(state) = to else {
        *to = Some(from.clone());
        return true;
    };
    let mut changed = false;
    for (number, stale) in &from.open {
        let known = state.open.get(number).copied();
        if known.is_none_or(|known| *stale && !known) {
            state.open.insert(*number, *stale || known == Some(true));
            changed = true;
        }
    }
    let before = state.outdated.clone();
    state.outdated.add(&from.outdated);
    changed || before != state.outdated
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::test_program::with_program_for;
    use ptx::names::Opcode;

    /// How often the lanes of a kernel meet.
    fn meetings(body: &str) -> usize {
        meetings_in(None, body)
    }

    /// The same for blocks of a size.
    fn meetings_in(block: Option<[u32; 3]>, body: &str) -> usize {
        let source = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n
            .entry k(.param .u64 a, .param .u64 b, .param .u32 n) {{
            .reg .b64 %x<8>; .reg .b32 %r<16>; .reg .pred %p<4>;
            .shared .align 16 .b8 one[4096]; .shared .align 16 .b8 two[4096];
            ld.param.u64 %x0, [a]; ld.param.u64 %x1, [b]; ld.param.u32 %r0, [n];
            mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, one; mov.u32 %r4, two;
            mad.lo.u32 %r5, %r1, 4, %r3; mad.lo.u32 %r6, %r1, 4, %r4;
            mov.u32 %r7, %ctaid.x; mov.u32 %r8, %ntid.x; mad.lo.u32 %r9, %r7, %r8, %r1;
            mul.wide.u32 %x2, %r9, 4; add.u64 %x3, %x0, %x2; add.u64 %x4, %x1, %x2;\n{body}\n}}"
        );
        with_program_for(&source, block, |program| {
            let meets = |block: &&crate::program::ir::BasicBlock| {
                matches!(&block.terminator, Terminator::Sync { instruction, .. }
                    if instruction.opcode == Opcode::Activemask)
            };
            program.blocks.iter().filter(meets).count()
        })
    }

    #[test]
    fn lanes_that_access_their_own() {
        for body in [
            "st.shared.u32 [%r5], 1; ld.shared.u32 %r10, [%r5]; st.shared.u32 [%r5], %r10;",
            // Other variables, and places that no lane has.
            "st.shared.u32 [%r5], 1; ld.shared.u32 %r10, [%r6+64]; ld.shared.u32 %r11, [%r5+128];",
            "st.shared.u32 [%r5], 1; shl.b32 %r10, %r1, 3; ld.shared.u32 %r11, [two]; ld.shared.u32 %r10, [%r5];",
            // Barriers of the block, and of the warp.
            "st.shared.u32 [%r5], 1; bar.sync 0; ld.shared.u32 %r10, [%r5+4]; bar.warp.sync -1; st.shared.u32 [%r5], 2;",
            // Rows of a tile, and columns of it behind a barrier.
            "mad.lo.u32 %r10, %r2, 132, %r5; st.shared.u32 [%r10], 1; st.shared.u32 [%r10+1056], 2;
             ld.shared.u32 %r11, [%r10+1056];",
            // A loop that goes on by the size of the block, or by a number.
            "mov.u32 %r10, %r1; A: shl.b32 %r11, %r10, 2; add.u32 %r11, %r11, %r3; st.shared.u32 [%r11], 0;
             add.u32 %r10, %r10, %r8; setp.lt.u32 %p0, %r10, 256; @%p0 bra A;",
            "mov.u32 %r10, %r5; shl.b32 %r11, %r8, 2; A: st.shared.u32 [%r10], 0; ld.shared.u32 %r12, [%r10];
             add.u32 %r10, %r10, %r11; setp.lt.u32 %p0, %r10, 2048; @%p0 bra A;",
            "mov.u32 %r10, 0; A: add.u32 %r11, %r10, %r2; mad.lo.u32 %r11, %r11, 33, %r1; shl.b32 %r11, %r11, 2;
             add.u32 %r11, %r11, %r3; st.shared.u32 [%r11], 0; add.u32 %r10, %r10, 8; setp.lt.u32 %p0, %r10, 32; @%p0 bra A;",
            // A step of a reduction: a lane reads what others behind it write.
            "shr.u32 %r10, %r8, 1; A: setp.ge.u32 %p0, %r1, %r10; @%p0 bra B; shl.b32 %r11, %r10, 2; add.u32 %r11, %r5, %r11;
             ld.shared.u32 %r12, [%r11]; ld.shared.u32 %r13, [%r5]; add.u32 %r13, %r13, %r12; st.shared.u32 [%r5], %r13;
             B: bar.sync 0; shr.u32 %r10, %r10, 1; setp.ne.u32 %p0, %r10, 0; @%p0 bra A;",
            // One lane alone.
            "setp.ne.u32 %p0, %r1, 0; @%p0 ret; mov.u32 %r10, %r3; A: ld.shared.u32 %r11, [%r10]; st.shared.u32 [%r10+4], %r11;
             add.u32 %r10, %r10, 4; setp.lt.u32 %p0, %r10, 64; @%p0 bra A;",
            // Threads that are counted over two dimensions.
            "mad.lo.u32 %r10, %r2, %r8, %r1; mad.lo.u32 %r10, %r10, 4, %r3; st.shared.u32 [%r10], 1; ld.shared.u32 %r11, [%r10];
             st.shared.u32 [%r10+1024], %r11;",
            // The lower half of the lanes swaps two halves of a table.
            "setp.gt.u32 %p0, %r1, 15; @%p0 bra A; ld.shared.u32 %r10, [%r5+64]; ld.shared.u32 %r11, [%r5]; st.shared.u32 [%r5], %r10;
             st.shared.u32 [%r5+64], %r11; A:",
            "and.b32 %r10, %r1, 24; xor.b32 %r11, %r1, %r10; shl.b32 %r10, %r10, 1; xor.b32 %r10, %r10, %r11; mad.lo.u32 %r10, %r10, 4, %r3;
             st.shared.u32 [%r10], 1; st.shared.u32 [%r10+256], 1;",
            // Atomic operations.
            "ld.global.u32 %r10, [%x3]; and.b32 %r10, %r10, 63; mad.lo.u32 %r10, %r10, 4, %r3; red.shared.add.u32 [%r10], 1;
             red.shared.add.u32 [%r10+4], 1;",
            "ld.global.u32 %r10, [%x0]; A: add.u32 %r11, %r10, 1; atom.global.cas.b32 %r12, [%x0], %r10, %r11; setp.ne.u32 %p0, %r10, %r12;
             mov.u32 %r10, %r12; @%p0 bra A;",
            // In global memory: one's own, another pointer, an index from memory, distances of a column.
            "ld.global.u32 %r10, [%x3]; st.global.u32 [%x3], %r10; ld.global.u32 %r10, [%x3]; st.global.u32 [%x4], %r10;",
            "ld.global.u32 %r10, [%x3]; mul.wide.u32 %x5, %r10, 4; add.u64 %x5, %x5, %x0; ld.global.u32 %r11, [%x5];
             st.global.u32 [%x3], %r11; st.global.u32 [%x5], %r10;",
            "div.u32 %r10, %r9, %r0; mul.wide.u32 %x5, %r10, 4; add.u64 %x5, %x5, %x0; ld.global.u32 %r11, [%x5];
             st.global.u32 [%x3], %r11; st.global.u32 [%x5], %r11;",
            "mul.wide.u32 %x5, %r0, 4; A: add.u64 %x6, %x3, %x5; ld.global.u32 %r10, [%x3]; st.global.u32 [%x6], %r10;
             mov.u64 %x3, %x6; setp.lt.u64 %p0, %x3, %x1; @%p0 bra A;",
        ] {
            assert_eq!(meetings(body), 0, "{body}");
        }
    }

    /// In blocks of a size lanes meet for exchanges in such blocks alone.
    #[test]
    fn blocks_of_a_known_size() {
        // A tile with a halo, of rows that have 18 words.
        let tile = "mad.lo.u32 %r10, %r2, 72, %r5; st.shared.u32 [%r10+76], 1; setp.ne.u32 %p0, %r1, 15;
            setp.gt.s32 %p1, %r9, %r0; or.pred %p2, %p0, %p1; @%p2 bra A; st.shared.u32 [%r10+80], 2; A:";
        let pairs = "st.shared.u32 [%r5], 1; bar.sync 0; and.b32 %r10, %r1, 1; setp.eq.u32 %p0, %r10, 1; @%p0 bra A;
            ld.shared.u32 %r11, [%r5+4]; st.shared.u32 [%r5], %r11; A:";
        // Each lane reads its own of the row that it divides by.
        let column = "setp.gt.u32 %p0, %r1, 3; setp.gt.u32 %p1, %r2, 3; and.pred %p2, %p0, %p1; @!%p2 bra A;
            mad.lo.u32 %r10, %r2, 64, %r3; ld.shared.u32 %r11, [%r10+12]; mad.lo.u32 %r12, %r1, 4, %r10;
            ld.shared.u32 %r13, [%r12]; add.u32 %r13, %r13, %r11; st.shared.u32 [%r12], %r13; A:";
        for (body, block, expected) in [
            (tile, None, 1),
            (tile, Some([16, 16, 1]), 0),
            (tile, Some([32, 8, 1]), 1),
            (pairs, Some([64, 1, 1]), 0),
            (column, None, 1),
            (column, Some([16, 16, 1]), 0),
            (
                "st.shared.u32 [%r5], 1; ld.shared.u32 %r10, [%r5+64];",
                Some([16, 16, 1]),
                0,
            ),
            (
                "st.shared.u32 [%r5], 1; ld.shared.u32 %r10, [%r5+64];",
                Some([32, 16, 1]),
                1,
            ),
            (
                "st.shared.u32 [%r5], %r2; ld.shared.u32 %r10, [%r5];",
                Some([16, 16, 1]),
                1,
            ),
            (
                "st.shared.u32 [%r5], %r2; ld.shared.u32 %r10, [%r5];",
                Some([32, 16, 1]),
                0,
            ),
        ] {
            assert_eq!(meetings_in(block, body), expected, "{block:?} {body}");
        }
    }

    #[test]
    fn lanes_that_access_what_others_have() {
        for (body, expected) in [
            ("st.shared.u32 [%r5], 1; ld.shared.u32 %r10, [%r5+4];", 1),
            ("st.shared.u32 [%r5], 1; ld.shared.u32 %r10, [%r5+-4]; ld.shared.u32 %r11, [%r5+4];", 1),
            ("st.shared.u8 [%r5+3], 1; ld.shared.v2.u32 {%r10, %r11}, [%r5+-4];", 1),
            ("ld.shared.u32 %r10, [%r5+-4]; st.shared.u32 [%r5], %r10;", 1),
            ("st.shared.u32 [one], %r1; ld.shared.u32 %r10, [one];", 1),
            ("st.shared.u32 [%r5], 1; sub.u32 %r10, %r5, %r0; ld.shared.u32 %r11, [%r10];", 1),
            ("ld.shared.u32 %r10, [%r5]; and.b32 %r10, %r10, 63; mad.lo.u32 %r10, %r10, 4, %r3; ld.shared.u32 %r11, [%r10];
              st.shared.u32 [%r10], %r1; ld.shared.u32 %r11, [%r10];", 2),
            // Behind a barrier that does not wait.
            ("st.shared.u32 [%r5], 1; bar.arrive 1, 64; ld.shared.u32 %r10, [%r5+4];", 1),
            // From iteration to iteration, where lanes meet at the end, too.
            ("mov.u32 %r10, 0; A: ld.shared.u32 %r11, [%r5+4]; st.shared.u32 [%r5], %r11; add.u32 %r10, %r10, 1;
              setp.lt.u32 %p0, %r10, 4; @%p0 bra A;", 2),
            // What one lane alone has stored.
            ("setp.ne.u32 %p0, %r1, 0; @%p0 bra A; st.shared.u32 [%r5], 5; A: ld.shared.u32 %r10, [one];", 1),
            ("st.shared.u32 [%r5], 0; ld.global.u32 %r10, [%x3]; mad.lo.u32 %r10, %r10, 4, %r3; red.shared.add.u32 [%r10], 1;", 1),
            // In global memory: the neighbour's, and that across a bit of the thread's number.
            ("ld.global.u32 %r10, [%x3+-4]; st.global.u32 [%x3], %r10;", 1),
            ("xor.b32 %r10, %r1, %r0; mul.wide.u32 %x5, %r10, 4; add.u64 %x5, %x5, %x0; ld.global.u32 %r11, [%x5];
              mul.wide.u32 %x6, %r1, 4; add.u64 %x6, %x6, %x0; st.global.u32 [%x6], %r11;", 1),
        ] {
            assert_eq!(meetings(body), expected, "{body}");
        }
    }
}
