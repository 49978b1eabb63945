//! The addresses of the lanes of a warp.

use crate::FunctionContext;
use crate::flow::{Definition, Linear, Reference, Term, ValueId, Variance};
use occupancy::WARP;
use ptx::ast::FunctionKind;
use ptx::names::SpecialRegister;

/// The address of each lane relative to the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WarpAddresses {
    /// Offsets in bytes, one for each lane of the first warp.
    pub offsets: Vec<i64>,
    /// The distance in bytes between lanes with consecutive `%tid.x`.
    pub stride: i64,
}

/// The maximum nesting of loops through which a pointer is followed.
const DEPTH: usize = 3;

/// A pointer is not followed through a phi with more inputs: all of them are evaluated for each
/// term of the sum.
const MAX_PARTS: usize = 4;

impl WarpAddresses {
    /// The addresses of an operand of the function; `None` if unknown.
    pub fn of(function: &FunctionContext<'_, '_>, place: usize) -> Option<WarpAddresses> {
        let linear = function.linear(place)?;
        let sum = sum_of(function, &linear, DEPTH)?;
        let [across, down, deep, lane] = sum;
        let (width, height, count) = shape(function);
        let offsets = (0..count)
            .map(|at| {
                let (x, y, z) = (at % width, at / width % height, at / width / height);
                across * x + down * y + deep * z + lane * at
            })
            .collect();
        Some(WarpAddresses {
            offsets,
            stride: across.checked_add(lane)?,
        })
    }

    /// Whether all lanes have the same address.
    pub fn are_together(&self) -> bool {
        self.offsets.iter().all(|offset| *offset == 0)
    }

    /// The number of distinct addresses.
    pub fn addresses(&self) -> usize {
        let mut offsets = self.offsets.clone();
        offsets.sort_unstable();
        offsets.dedup();
        offsets.len()
    }
}

/// Whether an operand provably differs between the threads of a warp.
pub(super) fn differs(function: &FunctionContext<'_, '_>, place: usize) -> bool {
    let Some(linear) = function.linear(place) else {
        return false;
    };
    let mut terms = linear.terms().iter();
    terms.any(|(term, _)| variance(function, *term, DEPTH) == Variance::Thread)
}

/// The dimensions of a block, and the number of threads of its first warp. A block of unknown size
/// is assumed to be as wide as a warp.
fn shape(function: &FunctionContext<'_, '_>) -> (i64, i64, i64) {
    let known = Some(function.function)
        .filter(|function| function.kind == FunctionKind::Entry)
        .and_then(|function| function.directives.iter().find(|d| d.name == "reqntid"));
    let Some(known) = known else {
        return (i64::from(WARP), 1, i64::from(WARP));
    };
    let size = |at: usize| i64::from(known.values.get(at).copied().unwrap_or(1).max(1));
    let (width, height) = (size(0), size(1));
    let count = width.saturating_mul(height).saturating_mul(size(2));
    (width, height, count.min(i64::from(WARP)))
}

/// The strides of `%tid.x`, `%tid.y`, `%tid.z` and `%laneid` in bytes; `None` if another term differs
/// between lanes.
fn sum_of(function: &FunctionContext<'_, '_>, linear: &Linear, depth: usize) -> Option<[i64; 4]> {
    let mut sum = [0_i64; 4];
    let mut add = |place: usize, times: i64| -> Option<()> {
        sum[place] = sum[place].checked_add(times)?;
        Some(())
    };
    for (term, times) in linear.terms() {
        match term {
            Term::Special(SpecialRegister::TidX) => add(0, *times)?,
            Term::Special(SpecialRegister::TidY) => add(1, *times)?,
            Term::Special(SpecialRegister::TidZ) => add(2, *times)?,
            Term::Special(SpecialRegister::Laneid) => add(3, *times)?,
            _ if variance(function, *term, depth) < Variance::Thread => {}
            Term::Value(value) => {
                let moved = moved(function, *value, depth.checked_sub(1)?)?;
                for (place, own) in moved.into_iter().enumerate() {
                    add(place, own.checked_mul(*times)?)?;
                }
            }
            _ => return None,
        }
    }
    // The bound avoids overflow in sums of hundreds of terms.
    let fits = |times: &i64| times.unsigned_abs() < 1 << 40;
    sum.iter().all(fits).then_some(sum)
}

/// The strides of a pointer or index that a loop advances uniformly.
fn moved(function: &FunctionContext<'_, '_>, value: ValueId, depth: usize) -> Option<[i64; 4]> {
    let flow = function.flow()?;
    let Definition::Phi(_) = flow.values.definition(value)? else {
        return None;
    };
    let parts = flow.values.phi_operands(&flow.graph, value);
    if parts.len() > MAX_PARTS {
        return None;
    }
    let mut first = None;
    for part in parts {
        let linear = function.linear_of(*part)?;
        let rest = linear.without(Term::Value(value));
        if linear.coefficient(Term::Value(value)) == 1 {
            let mut terms = rest.terms().iter();
            if terms.any(|(term, _)| variance(function, *term, depth) == Variance::Thread) {
                return None;
            }
            continue;
        }
        let sum = sum_of(function, &linear, depth)?;
        if first.is_some_and(|known| known != sum) {
            return None;
        }
        first = Some(sum);
    }
    first
}

fn variance(function: &FunctionContext<'_, '_>, term: Term, depth: usize) -> Variance {
    let (Some(flow), Some(divergence)) = (function.flow(), function.divergence()) else {
        return Variance::Thread;
    };
    match term {
        Term::Special(
            SpecialRegister::Tid
            | SpecialRegister::TidX
            | SpecialRegister::TidY
            | SpecialRegister::TidZ
            | SpecialRegister::Laneid
            | SpecialRegister::LanemaskEq
            | SpecialRegister::LanemaskLe
            | SpecialRegister::LanemaskLt
            | SpecialRegister::LanemaskGe
            | SpecialRegister::LanemaskGt,
        ) => Variance::Thread,
        Term::Special(_) | Term::Address(_) | Term::Parameter(..) => Variance::Block,
        Term::Value(value) => divergence.of(value),
        // The factors of the `mad`, not the addend.
        Term::Product(value) => {
            let Some(Definition::Written(id)) = flow.values.definition(value) else {
                return Variance::Thread;
            };
            let (Some(instruction), Some(depth)) =
                (flow.instructions.get(id), depth.checked_sub(1))
            else {
                return Variance::Thread;
            };
            let first = instruction.operands.start as usize;
            let of = |place: usize| match flow.instructions.reference(place) {
                Reference::Register(_) => function.linear(place).map_or(Variance::Thread, |sum| {
                    let terms = sum.terms().iter();
                    let all = terms.map(|(term, _)| variance(function, *term, depth));
                    all.max().unwrap_or_default()
                }),
                _ => Variance::Block,
            };
            of(first + 1).max(of(first + 2))
        }
    }
}
