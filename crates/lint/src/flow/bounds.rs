//! Accesses of threads that lie outside of their variable.

use super::affine::Term;
use super::conditions::Conditions;
use super::context::FunctionContext;
use super::evaluate::Evaluator;
use super::instructions::InstructionId;
use super::intervals::Orders;
use super::lanes::{Shape, Sum};
use super::memory::Place;
use ptx::names::SpecialRegister;

/// So much is worked out for each instruction of a function, and for small ones.
const STEPS_FOR_EACH: u64 = 20;
const STEPS: u64 = 100_000;

/// So many accesses of a function are looked at.
const ACCESSES: usize = 64;

/// The first thread of which an access lies outside of its variable, and the offset there:
/// of the block that `.reqntid` says, or else thread 0, which every block has.
pub(crate) fn outside<'p, 'm, 'a>(
    function: &'p FunctionContext<'m, 'a>,
) -> Vec<(&'p Place<'m, 'a>, u32, i64)> {
    search(function).unwrap_or_default()
}

fn search<'p, 'm, 'a>(
    function: &'p FunctionContext<'m, 'a>,
) -> Option<Vec<(&'p Place<'m, 'a>, u32, i64)>> {
    let may: Vec<_> = function
        .places()
        .iter()
        .filter(|place| !place.offset.terms().is_empty() && may_lie_outside(function, place))
        .take(ACCESSES)
        .collect();
    if may.is_empty() {
        return None;
    }
    let (flow, loops, pass) = (function.flow()?, function.loops()?, function.first_pass()?);
    let orders = Orders::of_function(function)?;
    let shape = Shape(pass.block.size);
    let threads = if pass.block.required {
        shape.threads()
    } else {
        1
    };
    let budget = flow.instructions.steps.len() as u64 * STEPS_FOR_EACH + STEPS;
    let mut evaluator = Evaluator::new(function, flow, loops, shape, budget);
    let mut found = Vec::new();
    let mut may = may.into_iter().peekable();
    // Both are in the order of the text.
    for (id, _, instruction) in function.steps() {
        let start = instruction.operands.start as usize;
        let operands = start..start + instruction.operands.len as usize;
        let Some(place) = may.next_if(|place| operands.contains(&place.access.address)) else {
            continue;
        };
        if let Some((thread, offset)) = thread_outside(&orders, &mut evaluator, id, place, threads)
        {
            found.push((place, thread, offset));
        }
    }
    Some(found)
}

/// Whether an offset of `%tid` and constants alone leaves the variable in some thread of a
/// block that `.reqntid` says, or else in thread 0, if it comes.
fn may_lie_outside(function: &FunctionContext<'_, '_>, place: &Place<'_, '_>) -> bool {
    let Some(size) = place.size else {
        return false;
    };
    let mut directives = function.function.directives.iter();
    let required = directives.find(|d| d.name == "reqntid");
    let required = required.map(|required| &required.values);
    let side = |at: usize| {
        let side = required.and_then(|sides| sides.get(at));
        side.copied().unwrap_or(1).max(1)
    };
    let (mut least, mut most) = (place.offset.constant, place.offset.constant);
    for (term, times) in place.offset.terms() {
        let last = match term {
            Term::Special(SpecialRegister::TidX) => side(0) - 1,
            Term::Special(SpecialRegister::TidY) => side(1) - 1,
            Term::Special(SpecialRegister::TidZ) => side(2) - 1,
            _ => return false,
        };
        let far = times.saturating_mul(i64::from(last));
        least = least.saturating_add(far.min(0));
        most = most.saturating_add(far.max(0));
    }
    least < 0 || most.saturating_add_unsigned(place.access.bytes) as u64 > size
}

fn thread_outside(
    orders: &Orders<'_, '_, '_>,
    evaluator: &mut Evaluator<'_, '_, '_>,
    id: InstructionId,
    place: &Place<'_, '_>,
    threads: u32,
) -> Option<(u32, i64)> {
    let block = evaluator.flow.graph.block_of(id);
    let at = evaluator.place(block, Default::default());
    let address: Sum = evaluator.operand(place.access.address, at).sum()?;
    let conditions = Conditions::of(orders, evaluator, id)?;
    let end = i64::try_from(place.size?).ok()? - place.access.bytes as i64;
    let mut outside = (0..threads).filter(|thread| {
        let thread = *thread as usize;
        !(0..=end).contains(&address.lanes.at(thread)) && conditions.admits(thread)
    });
    let thread = outside.next()?;
    let agree = conditions.agree(thread as usize, &conditions, thread as usize, evaluator);
    agree.then(|| (thread, address.lanes.at(thread as usize)))
}
