//! The steps of a block, in the order in which they become good code.

use super::emitter::{EmitResult, Emitter};
use super::vector_major::VectorMajor;
use super::{lane_group, pair_load, stored_load};
use crate::program::{Arg, Base, LoweringError, Step, Uniformity};
use ptx::names::Opcode;

/// Moves loads of values that all lanes share behind other loads, where all are known to be in
/// bounds: Cranelift has one instruction for a load and the broadcast of its value to a vector if
/// no other load stands between them.
pub(super) fn broadcasts_last(e: &Emitter<'_, '_>, steps: &mut [&Step]) {
    if e.in_bounds.is_empty() {
        return;
    }
    let known = |step: &Step| match step {
        Step::Instruction(i) if i.opcode == Opcode::Ld && e.is_in_bounds(i) => {
            match e.program.list(i.args) {
                &[Arg::Reg(to), Arg::Address(Base::Reg(base), _)] => Some((to, base)),
                _ => None,
            }
        }
        _ => None,
    };
    for at in 1..steps.len() {
        if let (Some((to, base)), Some((next_to, next_base))) =
            (known(steps[at - 1]), known(steps[at]))
            && e.locations[to.index()].uniformity == Uniformity::Uniform
            && e.locations[next_to.index()].uniformity != Uniformity::Uniform
            && to != next_base
            && next_to != base
        {
            steps.swap(at - 1, at);
        }
    }
}

/// Emits the steps of a block.
pub(super) fn emit_steps(
    e: &mut Emitter<'_, '_>,
    steps: &[&Step],
    errors: &mut Vec<LoweringError>,
) {
    let mut left = steps;
    while let [first, rest @ ..] = left {
        if let Some(run) = VectorMajor::of(e, left) {
            run.emit(e, errors);
            left = &left[run.len()..];
            continue;
        }
        match several(e, left) {
            Ok(0) => {
                emit_step(e, first, errors);
                left = rest;
            }
            Ok(count) => left = &left[count..],
            Err(error) => {
                errors.push(error);
                left = rest;
            }
        }
    }
}

/// Emits the first steps, if there are some that become good code together, and returns their
/// number.
fn several(e: &mut Emitter<'_, '_>, steps: &[&Step]) -> EmitResult<usize> {
    if e.width == 1 {
        return Ok(0);
    }
    let pairs = pair_load::find(e, steps);
    if pair_load::emit(e, &pairs)? {
        return Ok(pairs.len());
    }
    match stored_load::find(e, steps) {
        Some(stored) if stored.emit(e)? => Ok(2),
        _ => Ok(0),
    }
}

/// Emits a step, and notes why that is not possible.
pub(super) fn emit_step(e: &mut Emitter<'_, '_>, step: &Step, errors: &mut Vec<LoweringError>) {
    let written = match e.width {
        1 => e.step(step),
        _ => lane_group::step(e, step),
    };
    if let Err(error) = written {
        errors.push(match step {
            Step::Instruction(i) => error.at(i),
            Step::SystemCall { .. } => error,
        });
    }
}
