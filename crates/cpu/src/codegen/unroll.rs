//! Counted loops of the vector function, whose accesses to shared memory are checked before they
//! start.
//!
//! An address that changes by the same amount in each iteration is in bounds in all of them if it
//! is in the first and in the last. Where they all are, the iterations run without checks.
//! Otherwise the scalar function takes over in front of the loop, and reports exactly the access
//! that is out of bounds.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use cranelift_frontend::Variable;

use super::checked_address::InBounds;
use super::counted_loop::{Count, CountedLoop, GoesOn, LoopAccess};
use super::emitter::{EmitResult, Emitter, native};
use super::lane_group;
use super::lane_set::LaneSet;
use super::resume::ResumePlan;
use super::shared_check::is_in_shared;
use super::slots::save;
use super::steps::{broadcasts_last, emit_step};
use crate::abi::offset;
use crate::program::{BlockId, LoweringError, Reg, Step};

/// The number of iterations that follow one another.
const ITERATIONS: u32 = 4;

/// The host address of a register with an address in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Pointer {
    base: Reg,
    step: i64,
    address: Variable,
}

/// Emits a loop, whose head is the current block.
pub(super) fn emit(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    counted: &CountedLoop,
    blocks: &[Block],
    errors: &mut Vec<LoweringError>,
) -> EmitResult<()> {
    let (head, exit) = (counted.blocks[0], blocks[counted.exit.index()]);
    e.lane_set = LaneSet::Scalar;
    e.splats.clear();
    let last = last_iteration(e, &counted.count)?;
    let mut good = last.is_counted;
    for access in &counted.accesses {
        let inside = is_inside(e, access, last.number);
        good = Some(good.map_or(inside, |good| e.b.ins().band(good, inside)));
    }
    if let (Some(good), Some(state)) = (good, plan.divergence_state(head)) {
        lane_group::resume_scalar_unless(e, plan, good, state);
    }

    let pointers = pointers(e, counted.accesses.iter());
    unrolled(e, last.number, &pointers, exit, |e| {
        if e.iteration == 0 {
            in_bounds(e, counted.accesses.iter(), &pointers);
        }
        iteration(e, plan, counted, errors);
    });
    e.in_bounds.clear();
    Ok(())
}

/// Emits the copies of a loop's iteration, up to the one with the number `last`.
pub(super) fn unrolled(
    e: &mut Emitter<'_, '_>,
    last: Value,
    pointers: &[Pointer],
    exit: Block,
    mut iteration: impl FnMut(&mut Emitter<'_, '_>),
) {
    let left = e.b.declare_var(types::I64);
    let all = e.add_offset(last, 1);
    e.b.def_var(left, all);
    let head = e.b.create_block();
    e.b.ins().jump(head, &[]);
    e.b.switch_to_block(head);
    let at_head = addresses(e, pointers);
    e.iteration = 0;
    let now = e.b.use_var(left);
    for number in 1..ITERATIONS {
        iteration(e);
        e.iteration += 1;
        // It also keeps Cranelift's optimizer from moving what the iteration computes behind the
        // loads of the next ones.
        let is_last = e.icmp_imm(IntCC::Equal, now, number.into());
        let next = e.b.create_block();
        e.b.ins().brif(is_last, exit, &[], next, &[]);
        e.enter(next);
    }
    iteration(e);
    advance(e, pointers, &at_head, ITERATIONS);
    let now = e.add_offset(now, -i64::from(ITERATIONS));
    e.b.def_var(left, now);
    e.b.ins().brif(now, head, &[], exit, &[]);
}

/// Emits the iterations of a loop up to the one with the number `last`, two at a time, with nothing
/// in between that keeps Cranelift's optimizer from computing things where they are used.
pub(super) fn by_twos(
    e: &mut Emitter<'_, '_>,
    last: Value,
    pointers: &[Pointer],
    exit: Block,
    mut iteration: impl FnMut(&mut Emitter<'_, '_>),
) {
    let left = e.b.declare_var(types::I64);
    let [head, rest, one] = [(); 3].map(|()| e.b.create_block());
    let all = e.add_offset(last, 1);
    e.b.def_var(left, all);
    let more = e.icmp_imm(IntCC::NotEqual, last, 0);
    e.b.ins().brif(more, head, &[], rest, &[]);

    e.b.switch_to_block(head);
    let at_head = addresses(e, pointers);
    for number in 0..2 {
        e.iteration = number;
        iteration(e);
    }
    advance(e, pointers, &at_head, 2);
    let now = e.b.use_var(left);
    let now = e.add_offset(now, -2);
    e.b.def_var(left, now);
    let more = e.icmp_imm(IntCC::UnsignedGreaterThan, now, 1);
    e.b.ins().brif(more, head, &[], rest, &[]);

    e.b.switch_to_block(rest);
    let now = e.b.use_var(left);
    e.b.ins().brif(now, one, &[], exit, &[]);
    e.b.switch_to_block(one);
    e.iteration = 0;
    iteration(e);
    e.b.ins().jump(exit, &[]);
}

/// The addresses in the current iteration.
fn addresses(e: &mut Emitter<'_, '_>, pointers: &[Pointer]) -> Vec<Value> {
    pointers.iter().map(|p| e.b.use_var(p.address)).collect()
}

/// Moves the pointers on from their addresses, by some iterations.
fn advance(e: &mut Emitter<'_, '_>, pointers: &[Pointer], from: &[Value], iterations: u32) {
    for (pointer, &address) in pointers.iter().zip(from) {
        let next = e.add_offset(address, pointer.step * i64::from(iterations));
        e.b.def_var(pointer.address, next);
    }
}

/// The last iteration of a loop.
pub(super) struct LastIteration {
    /// Its number from 0 on.
    pub number: Value,
    /// Whether it has that number; `None` if it always has.
    pub is_counted: Option<Value>,
}

pub(super) fn last_iteration(e: &mut Emitter<'_, '_>, count: &Count) -> EmitResult<LastIteration> {
    let ty = native(count.ty).unwrap_or(types::I64);
    let counter = e.register(count.counter);
    let counter = e.coerce(counter, ty);
    let first = match count.is_advanced {
        true => e.add_offset(counter, count.step),
        false => counter,
    };
    let bound = e.read(count.bound, ty)?;
    let grows = count.step > 0;
    let distance = match grows {
        true => e.b.ins().isub(bound, first),
        false => e.b.ins().isub(first, bound),
    };
    let distance = e.widen(distance, types::I64, false);
    let size = count.step.unsigned_abs();
    let shift = e.scalar_int(types::I32, size.trailing_zeros().into());
    let mut good = Vec::new();
    let number = match count.goes_on {
        GoesOn::Unequal => {
            if size > 1 {
                let mask = e.scalar_int(types::I64, size - 1);
                let rest = e.b.ins().band(distance, mask);
                good.push(e.icmp_imm(IntCC::Equal, rest, 0));
            }
            distance
        }
        GoesOn::Before | GoesOn::BeforeOrEqual => {
            let equal = count.goes_on == GoesOn::BeforeOrEqual;
            let cc = match (count.is_signed(), equal) {
                (true, false) => IntCC::SignedLessThan,
                (true, true) => IntCC::SignedLessThanOrEqual,
                (false, false) => IntCC::UnsignedLessThan,
                (false, true) => IntCC::UnsignedLessThanOrEqual,
            };
            let (low, high) = if grows {
                (first, bound)
            } else {
                (bound, first)
            };
            let goes_on = e.icmp(cc, low, high);
            if equal || size > 1 {
                // Behind the bound, the counter must not wrap around.
                let behind = e.add_offset(bound, count.step);
                let (low, high) = if grows {
                    (bound, behind)
                } else {
                    (behind, bound)
                };
                let cc = match count.is_signed() {
                    true => IntCC::SignedLessThan,
                    false => IntCC::UnsignedLessThan,
                };
                good.push(e.icmp(cc, low, high));
            }
            let extra = size.cast_signed() - i64::from(!equal);
            let distance = e.add_offset(distance, extra);
            let zero = e.scalar_int(types::I64, 0);
            e.b.ins().select(goes_on, distance, zero)
        }
    };
    let number = e.b.ins().ushr(number, shift);
    if ty.bits() == 64 {
        // So that distances do not wrap around.
        let most = i64::from(u32::MAX);
        good.push(e.icmp_imm(IntCC::UnsignedLessThanOrEqual, number, most));
    }
    let is_counted = good.into_iter().reduce(|a, b| e.b.ins().band(a, b));
    Ok(LastIteration { number, is_counted })
}

/// Whether an access is in bounds up to the last iteration.
pub(super) fn is_inside(e: &mut Emitter<'_, '_>, known: &LoopAccess, last: Value) -> Value {
    let access = &known.access;
    let span = e.b.ins().imul_imm_s(last, known.step.abs());
    let base = e.register(access.base);
    let base = e.coerce(base, types::I64);
    let lowest = e.add_offset(base, known.distance + access.lowest);
    let lowest = match known.step < 0 {
        true => e.b.ins().isub(lowest, span),
        false => lowest,
    };
    let bytes = e.add_offset(span, access.bytes);
    is_in_shared(e, lowest, bytes, access.align)
}

pub(super) fn pointers<'l>(
    e: &mut Emitter<'_, '_>,
    accesses: impl Iterator<Item = &'l LoopAccess>,
) -> Vec<Pointer> {
    let shared = e.context_word(offset::SHARED);
    let mut pointers: Vec<Pointer> = Vec::new();
    for access in accesses {
        let base = access.access.base;
        if pointers.iter().any(|pointer| pointer.base == base) {
            continue;
        }
        let value = e.register(base);
        let value = e.coerce(value, types::I64);
        let start = e.b.ins().iadd(shared, value);
        let address = e.b.declare_var(types::I64);
        e.b.def_var(address, start);
        pointers.push(Pointer {
            base,
            step: access.step,
            address,
        });
    }
    pointers
}

/// Notes that the accesses are in bounds, with their addresses in the current iteration.
pub(super) fn in_bounds<'l>(
    e: &mut Emitter<'_, '_>,
    accesses: impl Iterator<Item = &'l LoopAccess>,
    pointers: &[Pointer],
) {
    for known in accesses {
        let mut pointers = pointers.iter();
        if let Some(pointer) = pointers.find(|pointer| pointer.base == known.access.base) {
            let address = e.b.use_var(pointer.address);
            e.in_bounds.push(InBounds {
                operands: known.access.operands,
                address,
                distance: known.distance,
                step: known.step,
                is_unwritten: known.is_unwritten,
            });
        }
    }
}

/// Emits an iteration.
fn iteration(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    counted: &CountedLoop,
    errors: &mut Vec<LoweringError>,
) {
    // Where the scalar function may take over, it needs all of them.
    let checked = |block: &BlockId| !plan.checks[block.index()].is_empty();
    let dead: &[usize] = match counted.blocks.iter().any(checked) {
        true => &[],
        false => &counted.dead,
    };
    let mut number = 0;
    for &block in &counted.blocks {
        lane_group::check(e, plan, block, None);
        let steps = &e.program.blocks[block.index()].steps;
        let numbered = (number..).zip(steps);
        let live = numbered.filter(|(number, _)| dead.binary_search(number).is_err());
        let mut live: Vec<&Step> = live.map(|(_, step)| step).collect();
        number += steps.len();
        broadcasts_last(e, &mut live);
        for step in live {
            emit_step(e, step, errors);
        }
        e.lane_set = LaneSet::Scalar;
        e.set_guard(None);
        save(e, plan, &plan.saved[block.index()]);
    }
}
