//! Loops of which the number of iterations is known before they start, such as
//! `for (k = 0; k < n; k++)`, and their accesses to shared memory.

use std::collections::HashMap;

use analysis::control_flow::Loops;

use super::emitter::is_signed;
use super::shared_access::{SharedAccess, increment, shared_access, shared_address};
use crate::program::{
    Arg, BlockId, ByteOffset, Instruction, Liveness, Program, Reg, Step, Terminator, Uniformity,
    UniformityInfo,
};
use ptx::ast::Modifiers;
use ptx::isa::Effect;
use ptx::names::{Modifier as M, Opcode as O, Type};

/// The largest loop that is copied.
const MAX_STEPS: usize = 48;
/// Blocks of the longest way around it.
const MAX_BLOCKS: usize = 4;
/// A loop without inner loops, with one way around it, at the end of which it is left.
pub(super) struct CountedLoop {
    /// Its blocks in the order in which an iteration runs them. All but the last one jump to the
    /// next.
    pub blocks: Vec<BlockId>,
    pub exit: BlockId,
    pub count: Count,
    /// At least one.
    pub accesses: Vec<LoopAccess>,
    /// The steps without effect on what is used of an iteration, once its accesses need no
    /// check and its iterations are counted: by their numbers, in ascending order.
    pub dead: Vec<usize>,
}

/// When a loop ends: a counter that changes by a constant is compared with a bound.
pub(super) struct Count {
    pub counter: Reg,
    /// A power of two, or the negative of one.
    pub step: i64,
    /// The counter has changed when it is compared.
    pub is_advanced: bool,
    pub bound: Arg,
    pub ty: Type,
    pub goes_on: GoesOn,
}

/// What the counter is compared with the bound where another iteration follows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum GoesOn {
    Unequal,
    /// Less if it grows, greater if it shrinks.
    Before,
    BeforeOrEqual,
}

/// An access to shared memory whose address changes by `step` in each iteration.
pub(super) struct LoopAccess {
    pub access: SharedAccess,
    /// The distance of the first lane's access from its register's value at the start of an
    /// iteration.
    pub distance: i64,
    pub step: i64,
    /// It is a load, and the loop writes nothing. The address changes, so that no load of it is
    /// moved to where the loop is not yet checked.
    pub is_unwritten: bool,
}

/// The loops of a kernel whose accesses can be checked before they start.
pub(super) fn find(
    program: &Program<'_>,
    uniformity: &UniformityInfo,
    has_fma: bool,
) -> Vec<CountedLoop> {
    let Some(loops) = Loops::new(&program.graph()) else {
        return Vec::new();
    };
    let mut blocks_of = vec![0; loops.ids().count()];
    for block in 0..program.blocks.len() as u32 {
        for id in loops.around(loops.innermost(BlockId(block))) {
            blocks_of[id.index()] += 1;
        }
    }
    let mut liveness = None;
    let mut found = Vec::new();
    for id in loops.ids().filter(|id| blocks_of[id.index()] <= MAX_BLOCKS) {
        let inside = |block: BlockId| loops.contains(id, block);
        let Some((blocks, exit)) = way_around(program, loops.get(id).head, &inside) else {
            continue;
        };
        // Others lie on another way, or in an inner loop.
        if blocks.len() != blocks_of[id.index()] {
            continue;
        }
        let body = Body::new(program, uniformity, &blocks);
        let Some((count, comparison)) = body.count() else {
            continue;
        };
        let accesses = body.accesses(has_fma);
        if accesses.is_empty() {
            continue;
        }
        let liveness = liveness.get_or_insert_with(|| Liveness::new(program));
        let dead = body.dead(&count, comparison, &accesses, liveness.live_in(exit));
        found.push(CountedLoop {
            blocks,
            exit,
            count,
            accesses,
            dead,
        });
    }
    found
}

/// The blocks of an iteration, if there is one way from the head back to it, which is left at its
/// end alone, and where it is left to.
fn way_around(
    program: &Program<'_>,
    head: BlockId,
    inside: &dyn Fn(BlockId) -> bool,
) -> Option<(Vec<BlockId>, BlockId)> {
    let (mut blocks, mut steps) = (Vec::new(), 0);
    let mut at = head;
    loop {
        blocks.push(at);
        let block = &program.blocks[at.index()];
        steps += block.steps.len();
        if steps > MAX_STEPS || blocks.len() > MAX_BLOCKS {
            return None;
        }
        match block.terminator {
            Terminator::Jump(next) if next != head => at = next,
            Terminator::Branch {
                then, otherwise, ..
            } => {
                let exit = match (then == head, otherwise == head) {
                    (true, false) => otherwise,
                    (false, true) => then,
                    _ => return None,
                };
                return (!inside(exit)).then_some((blocks, exit));
            }
            _ => return None,
        }
    }
}

/// How a register changes in an iteration.
#[derive(Clone, Copy)]
enum Change {
    /// By this amount, in the step with this number.
    By(ByteOffset, usize),
    /// Otherwise, in one step.
    Once(usize),
    Unknown,
}

/// The steps of an iteration.
struct Body<'p, 'a> {
    program: &'p Program<'a>,
    uniformity: &'p UniformityInfo,
    head: BlockId,
    end: &'p Terminator,
    steps: Vec<&'p Step>,
    changes: HashMap<Reg, Change>,
}

impl<'p, 'a> Body<'p, 'a> {
    fn new(
        program: &'p Program<'a>,
        uniformity: &'p UniformityInfo,
        blocks: &[BlockId],
    ) -> Body<'p, 'a> {
        let of = |block: &BlockId| &program.blocks[block.index()];
        let steps: Vec<&Step> = blocks.iter().flat_map(|block| &of(block).steps).collect();
        let mut changes: HashMap<Reg, Change> = HashMap::new();
        for (number, step) in steps.iter().enumerate() {
            program.step_effects(step, &mut |_| {}, &mut |reg| {
                let change = match step {
                    _ if changes.contains_key(&reg) => Change::Unknown,
                    Step::Instruction(i) => match increment(program, i, reg) {
                        Some(step) => Change::By(step, number),
                        None => Change::Once(number),
                    },
                    Step::SystemCall { .. } => Change::Once(number),
                };
                changes.insert(reg, change);
            });
        }
        Body {
            program,
            uniformity,
            head: blocks[0],
            end: &of(&blocks[blocks.len() - 1]).terminator,
            steps,
            changes,
        }
    }

    /// When the loop ends, and the number of the comparison.
    fn count(&self) -> Option<(Count, usize)> {
        let Terminator::Branch {
            predicate, then, ..
        } = self.end
        else {
            return None;
        };
        let goes_on_if = (*then == self.head) != predicate.negated;
        let Some(&Change::Once(at)) = self.changes.get(&predicate.reg) else {
            return None;
        };
        let Step::Instruction(i) = self.steps[at] else {
            return None;
        };
        let combined = i.modifiers.first_of(&[M::And, M::Or, M::Xor]);
        if i.opcode != O::Setp || i.guard.is_some() || combined.is_some() {
            return None;
        }
        let &[Arg::Reg(_), a, b] = self.program.list(i.args) else {
            return None;
        };
        let counter = |arg: Arg| match arg {
            Arg::Reg(reg) if self.uniformity.of(reg) == Uniformity::Uniform => {
                match self.changes.get(&reg)? {
                    Change::By(step, changed) => Some((reg, step.bytes(), *changed < at)),
                    _ => None,
                }
            }
            _ => None,
        };
        let is_bound = |arg: Arg| match arg {
            Arg::Int(_) => true,
            Arg::Reg(reg) => {
                self.uniformity.of(reg) == Uniformity::Uniform && !self.changes.contains_key(&reg)
            }
            _ => false,
        };
        let ((counter, step, is_advanced), bound, swapped) = match (counter(a), counter(b)) {
            (Some(counter), None) if is_bound(b) => (counter, b, false),
            (None, Some(counter)) if is_bound(a) => (counter, a, true),
            _ => return None,
        };
        let ty = i.modifiers.types().next()?;
        let is_integer = matches!(
            ty,
            Type::U32 | Type::S32 | Type::B32 | Type::U64 | Type::S64 | Type::B64
        );
        let bytes = u64::from(self.program.registers[counter.index()].bytes());
        let is_power = step.unsigned_abs().is_power_of_two();
        if !is_integer || ty.bytes() != bytes || !is_power {
            return None;
        }
        let goes_on = goes_on(&i.modifiers, goes_on_if, swapped, step > 0)?;
        let count = Count {
            counter,
            step,
            is_advanced,
            bound,
            ty,
            goes_on,
        };
        Some((count, at))
    }

    fn accesses(&self, has_fma: bool) -> Vec<LoopAccess> {
        let only_loads = self.steps.iter().all(|step| match step {
            Step::Instruction(i) => matches!(i.meaning.effect, Effect::Pure | Effect::Load),
            Step::SystemCall { .. } => false,
        });
        let steps = self.steps.iter().enumerate();
        steps
            .filter_map(|(number, step)| {
                let access = shared_access(self.program, self.uniformity, step, has_fma)?;
                let (step, before) = match self.changes.get(&access.base) {
                    None => (ByteOffset::ZERO, false),
                    Some(Change::By(step, at)) => (*step, *at < number),
                    Some(Change::Once(_) | Change::Unknown) => return None,
                };
                let distance = match before {
                    true => access.offset.checked_add(step)?,
                    false => access.offset,
                };
                let small = step.is_small() && distance.is_small();
                let (distance, step) = (distance.bytes(), step.bytes());
                let aligned = step % i64::from(access.align) == 0;
                (small && aligned).then_some(LoopAccess {
                    access,
                    distance,
                    step,
                    is_unwritten: only_loads && step != 0,
                })
            })
            .collect()
    }

    /// The steps that compute nothing but addresses that are known, the counter, and whether the
    /// loop goes on.
    fn dead(
        &self,
        count: &Count,
        comparison: usize,
        accesses: &[LoopAccess],
        live_out: &[Reg],
    ) -> Vec<usize> {
        let is_live = |reg: Reg| live_out.binary_search(&reg).is_ok();
        let is_known = |i: &Instruction| {
            let mut accesses = accesses.iter();
            accesses.any(|known| known.access.operands == i.args.start)
        };
        // Whether steps other than these read a register otherwise than as a known address.
        let is_read = |reg: Reg, except: &[usize]| {
            self.steps.iter().enumerate().any(|(number, step)| {
                let mut uses = 0;
                let used = &mut |used: Reg| uses += usize::from(used == reg);
                self.program.step_effects(step, used, &mut |_| {});
                if let Step::Instruction(i) = step
                    && is_known(i)
                    && shared_address(self.program, i).is_some_and(|(base, _)| base == reg)
                {
                    uses -= 1;
                }
                uses > 0 && !except.contains(&number)
            })
        };
        let mut dead = Vec::new();
        let predicate = match self.end {
            Terminator::Branch { predicate, .. } => predicate.reg,
            _ => return dead,
        };
        let is_counted = !is_live(predicate) && !is_read(predicate, &[]);
        if is_counted {
            dead.push(comparison);
        }
        for (&reg, change) in &self.changes {
            let &Change::By(_, at) = change else { continue };
            let compared = match reg == count.counter && is_counted {
                true => comparison,
                false => at,
            };
            if !is_live(reg) && !is_read(reg, &[at, compared]) {
                dead.push(at);
            }
        }
        dead.sort_unstable();
        dead
    }
}

/// What a counter that grows or shrinks is compared with its bound where the loop goes on.
fn goes_on(modifiers: &Modifiers, goes_on_if: bool, swapped: bool, grows: bool) -> Option<GoesOn> {
    const COMPARISONS: &[M] = &[
        M::Eq,
        M::Ne,
        M::Lt,
        M::Lo,
        M::Le,
        M::Ls,
        M::Gt,
        M::Hi,
        M::Ge,
        M::Hs,
    ];
    // Whether the counter is less, and whether it may be equal.
    let (less, equal) = match modifiers.first_of(COMPARISONS)? {
        M::Ne if goes_on_if => return Some(GoesOn::Unequal),
        M::Eq if !goes_on_if => return Some(GoesOn::Unequal),
        M::Lt | M::Lo => (true, false),
        M::Le | M::Ls => (true, true),
        M::Gt | M::Hi => (false, false),
        M::Ge | M::Hs => (false, true),
        _ => return None,
    };
    let (less, equal) = match goes_on_if {
        true => (less, equal),
        false => (!less, !equal),
    };
    match (less != swapped) == grows {
        true if equal => Some(GoesOn::BeforeOrEqual),
        true => Some(GoesOn::Before),
        false => None,
    }
}

impl Count {
    pub fn is_signed(&self) -> bool {
        is_signed(self.ty)
    }
}
