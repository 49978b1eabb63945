//! Where the lanes of a warp exchange values through memory without a barrier.

use std::collections::{BTreeMap, HashMap};

use super::ir::{Base, BlockId, Instruction, Program, Reg, Step, Storage, Terminator};
use super::liveness::RegisterSet;
use super::memory_access::{Access, memory_access};
use super::pointers::pointers;
use super::thread_sums::{Root, Sum, ThreadSums, lane_value};
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
pub(super) fn exchanges(program: &Program<'_>) -> Option<Vec<Vec<usize>>> {
    let exchanged = Candidates::new(program)?;
    let mut sums = ThreadSums::new(program);
    let alone = sums.alone();
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
                alone: alone[at.index()],
                address,
                access,
            });
        }
    }
    let search = Search {
        dependents: sums.dependents(),
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
    /// Where only one lane comes.
    alone: Option<BlockId>,
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
        let mut known = HashMap::new();
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for &at in &graph.order {
                let Some(mut state) = states[at.index()].clone() else {
                    continue;
                };
                self.pass(at, &mut state, &mut meetings[at.index()], &mut known);
                for next in program.blocks[at.index()].terminator.successors() {
                    changed |= join(&mut states[next.index()], &state);
                }
            }
        }
        let any = meetings.iter().any(|block| !block.is_empty());
        any.then_some(meetings)
    }

    fn pass(
        &self,
        at: BlockId,
        state: &mut State,
        meetings: &mut Vec<usize>,
        known: &mut HashMap<(u32, u32, bool), bool>,
    ) {
        let block = &self.program.blocks[at.index()];
        for (place, step) in block.steps.iter().enumerate() {
            if let Some(&number) = self.number_at.get(&(at, place)) {
                let base = self.accesses[number as usize].access.base;
                let outdated = matches!(base, Base::Reg(reg) if state.outdated.contains(reg));
                let mut meets = |(&other, &changed): (&u32, &bool)| {
                    let changed = changed || outdated;
                    *known
                        .entry((other, number, changed))
                        .or_insert_with(|| self.may_meet(other, number, changed))
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

    /// What a step writes changes unknowns.
    fn write(&self, step: &Step, state: &mut State) {
        let mut is_outdated = false;
        let mut written = Vec::new();
        self.program.step_effects(
            step,
            &mut |reg| is_outdated |= state.outdated.contains(reg),
            &mut |reg| written.push(reg),
        );
        for reg in written {
            for &dependent in &self.dependents[reg.index()] {
                state.outdated.insert(dependent);
            }
            match is_outdated {
                true => state.outdated.insert(reg),
                false => state.outdated.remove(reg),
            }
            for (number, changed) in &mut state.open {
                let terms = &self.accesses[*number as usize].address.terms;
                *changed |= terms.iter().any(|term| term.0 == reg.0);
            }
        }
    }

    /// Whether a lane may access what another one has accessed by an earlier access. `changed` says that
    /// unknowns may have other values by now.
    fn may_meet(&self, earlier: u32, later: u32, changed: bool) -> bool {
        let (a, b) = (
            &self.accesses[earlier as usize],
            &self.accesses[later as usize],
        );
        let writes = a.access.writes || b.access.writes;
        // The order of atomic operations is left open.
        let atomic = [a, b].iter().all(|p| p.access.reads && p.access.writes);
        let is_same_lane = a.alone.is_some() && a.alone == b.alone;
        if !writes || atomic || is_same_lane || a.is_shared != b.is_shared {
            return false;
        }
        let is_shared = a.is_shared;
        match (a.address.root, b.address.root) {
            (Some(a), Some(b)) if a != b => return false,
            (Some(_), Some(_)) => {}
            _ if !is_shared => return false,
            _ => {}
        }
        let other = a.address.other | b.address.other;
        if other != Sources::NONE {
            return is_shared || !other.any(Sources::BLOCK);
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
        let warps = bits[WARP.ilog2() as usize..].iter().chain([row, plane]);
        let warps = warps.map(|part| i64::from(*part));
        let modulus = unknown.chain(before).chain(warps).fold(0, gcd);
        if !is_shared && (modulus != 0 || !apart.terms.is_empty()) {
            return false;
        }
        let lanes = |place: &Place| -> Vec<i64> {
            let lanes = (0..WARP).map(|lane| lane_value(&place.address, lane));
            lanes.collect()
        };
        let (of_a, of_b) = (lanes(a), lanes(b));
        let reads_first = !a.access.writes && !b.access.reads && !changed;
        if reads_first
            && of_a.is_sorted_by(|one, next| one < next)
            && of_a[0] >= of_b[0]
            && a.address.thread.bits == b.address.thread.bits
            && apart.terms.iter().all(|term| self.sums.is_natural(*term))
        {
            return false;
        }
        let widths = [a, b].map(|place| i64::from(place.access.width));
        let overlap = |a: i64, b: i64| {
            let apart = a.wrapping_sub(b);
            match modulus {
                0 => apart < widths[1] && -apart < widths[0],
                _ => {
                    let rest = apart.rem_euclid(modulus);
                    rest < widths[1] || modulus - rest < widths[0]
                }
            }
        };
        (0..of_a.len()).any(|i| (0..of_b.len()).any(|j| i != j && overlap(of_a[i], of_b[j])))
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
    use crate::program::test_program::with_program;
    use ptx::names::Opcode;

    /// How often the lanes of a kernel meet.
    fn meetings(body: &str) -> usize {
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
        with_program(&source, |program| {
            let meets = |block: &&crate::program::BasicBlock| {
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
            // Atomic operations.
            "ld.global.u32 %r10, [%x3]; and.b32 %r10, %r10, 63; mad.lo.u32 %r10, %r10, 4, %r3; red.shared.add.u32 [%r10], 1;
             red.shared.add.u32 [%r10+4], 1;",
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
