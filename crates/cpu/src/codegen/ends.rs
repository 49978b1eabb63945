//! Predicates that a lane group shares if its first and its last lane do: comparisons of an
//! affine value with a uniform one, such as `i < n`, and combinations of them.
//!
//! The lanes between have values between, unless the value wraps around within the group.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};

use super::emitter::{Emitter, is_signed, native};
use super::lane_set::LaneSet;
use crate::program::{Arg, BlockId, Guard, Instruction, Reg, Step, Uniformity};
use ptx::names::{Modifier as M, Opcode as O, Type as P};

/// No comparison further from the end of the block, and no longer combination, is looked at.
const MAX_STEPS: usize = 32;
const MAX_COMPARISONS: usize = 4;

/// A predicate at the end of a block.
pub(super) struct AtEnds {
    /// 1 where it is true for the first lane.
    pub first: Value,
    /// 1 where all lanes have the same; `None` if they always do.
    pub same: Option<Value>,
}

/// The predicate, if it is such a comparison in this block or before it in a straight line.
pub(super) fn at_ends(e: &mut Emitter<'_, '_>, block: BlockId, predicate: Reg) -> Option<AtEnds> {
    let comparisons = comparisons(e, block, predicate)?;
    let mut found: Option<AtEnds> = None;
    // The first is the innermost operand.
    for i in comparisons.iter().rev() {
        let (mut first, mut same) = compare(e, i)?;
        if let Some(inner) = found {
            first = match i.modifiers.first_of(&[M::And, M::Or, M::Xor]) {
                Some(M::And) => e.b.ins().band(first, inner.first),
                Some(M::Or) => e.b.ins().bor(first, inner.first),
                _ => e.b.ins().bxor(first, inner.first),
            };
            same = match (same, inner.same) {
                (Some(a), Some(b)) => Some(e.b.ins().band(a, b)),
                (a, b) => a.or(b),
            };
        }
        found = Some(AtEnds { first, same });
    }
    e.lane_set = LaneSet::Scalar;
    found
}

/// Whether the predicate is such a comparison, and so known where the first and the last lane are.
pub(super) fn is_at_ends(e: &Emitter<'_, '_>, block: BlockId, predicate: Reg) -> bool {
    comparisons(e, block, predicate).is_some()
}

/// The comparison that defines a predicate, followed by the one that defines its operand, and so
/// on; each can be repeated at the end of the block.
fn comparisons(e: &Emitter<'_, '_>, block: BlockId, predicate: Reg) -> Option<Vec<Instruction>> {
    let program = e.program;
    // A check that a value does not wrap splits a block.
    let before = |block: &BlockId| e.straight_predecessors[block.index()];
    let line = std::iter::successors(Some(block), before);
    let steps = line.flat_map(|block| program.blocks[block.index()].steps.iter().rev());
    let mut found = Vec::new();
    let mut changed: Vec<Reg> = Vec::new();
    let mut wanted = predicate;
    for step in steps.take(MAX_STEPS) {
        let mut defined = Vec::new();
        program.step_effects(step, &mut |_| {}, &mut |reg| defined.push(reg));
        if !defined.contains(&wanted) {
            changed.extend(defined);
            continue;
        }
        let Step::Instruction(i) = step else {
            return None;
        };
        let args = program.list(i.args);
        let ordered = [M::Lt, M::Le, M::Gt, M::Ge, M::Lo, M::Ls, M::Hi, M::Hs];
        let operands = args.get(1..3)?;
        let ty = i.modifiers.types().next()?;
        let is_comparison = i.opcode == O::Setp
            && i.guard.is_none()
            && args.first() == Some(&Arg::Reg(wanted))
            && matches!(ty, P::U32 | P::S32 | P::U64 | P::S64 | P::B32 | P::B64)
            && i.modifiers.first_of(&ordered).is_some();
        let mut affine = 0;
        let is_known = |arg: &Arg| match *arg {
            Arg::Int(_) => true,
            Arg::Reg(reg) => {
                let uniformity = e.locations[reg.index()].uniformity;
                affine += usize::from(matches!(uniformity, Uniformity::Affine(_)));
                uniformity != Uniformity::Divergent && !changed.contains(&reg)
            }
            _ => false,
        };
        if !is_comparison || !operands.iter().all(is_known) || affine > 1 {
            return None;
        }
        found.push(*i);
        if i.modifiers.first_of(&[M::And, M::Or, M::Xor]).is_none() {
            return Some(found);
        }
        let Some(&Arg::Reg(operand)) = args.get(3) else {
            return None;
        };
        if found.len() == MAX_COMPARISONS {
            return None;
        }
        changed.extend(defined);
        wanted = operand;
    }
    None
}

/// What is true where a guard holds for all lanes, if its predicate is such a comparison.
pub(super) fn hold_at_ends(
    e: &mut Emitter<'_, '_>,
    block: BlockId,
    guard: Guard,
) -> Option<Vec<Value>> {
    let comparisons = comparisons(e, block, guard.reg)?;
    let combines = |i: &Instruction| i.modifiers.first_of(&[M::And, M::Or, M::Xor]).is_some();
    let mut all = Vec::new();
    match *comparisons.as_slice() {
        [i] if !combines(&i) => {
            let Ends { first, last } = ends(e, &i)?;
            all.push(first);
            if let Some((last, ordered)) = last {
                all.extend([last, ordered]);
            }
        }
        _ => {
            let AtEnds { first, same } = at_ends(e, block, guard.reg)?;
            all.push(first);
            all.extend(same);
        }
    }
    e.lane_set = LaneSet::Scalar;
    if guard.negated {
        let ends = if all.len() == 3 { 2 } else { 1 };
        for value in &mut all[..ends] {
            *value = e.not(*value);
        }
    }
    Some(all)
}

/// The results of a comparison.
struct Ends {
    first: Value,
    /// That for the last lane, and whether those between are between; `None` if all lanes have that
    /// of the first.
    last: Option<(Value, Value)>,
}

/// Whether a comparison holds for the first lane, and whether all lanes have that result.
fn compare(e: &mut Emitter<'_, '_>, i: &Instruction) -> Option<(Value, Option<Value>)> {
    let Ends { first, last } = ends(e, i)?;
    let same = last.map(|(last, ordered)| {
        let equal = e.icmp(IntCC::Equal, first, last);
        e.b.ins().band(ordered, equal)
    });
    Some((first, same))
}

fn ends(e: &mut Emitter<'_, '_>, i: &Instruction) -> Option<Ends> {
    let ty = i.modifiers.types().next()?;
    e.lane_set = LaneSet::Lane(0);
    let first = e.compared(i, 1, ty).ok()?;
    let operands = e.program.list(i.args).get(1..3)?;
    let affine = operands.iter().find_map(|arg| match *arg {
        Arg::Reg(reg) => match e.locations[reg.index()].uniformity {
            Uniformity::Affine(stride) => Some((reg, stride)),
            _ => None,
        },
        _ => None,
    });
    let Some((reg, stride)) = affine else {
        return Some(Ends { first, last: None });
    };
    let native = native(ty)?;
    let low = e.read(Arg::Reg(reg), native).ok()?;
    e.lane_set = LaneSet::Lane(e.width - 1);
    let last = e.compared(i, 1, ty).ok()?;
    let high = e.read(Arg::Reg(reg), native).ok()?;
    let (low, high) = if stride < 0 { (high, low) } else { (low, high) };
    let cc = match is_signed(ty) {
        true => IntCC::SignedLessThanOrEqual,
        false => IntCC::UnsignedLessThanOrEqual,
    };
    let ordered = e.icmp(cc, low, high);
    Some(Ends {
        first,
        last: Some((last, ordered)),
    })
}
