//! Accesses that cannot be aligned in all threads, wherever their base lies.

use super::affine::Term;
use super::conditions::Conditions;
use super::context::FunctionContext;
use super::evaluate::Evaluator;
use super::intervals::Orders;
use super::launch::Block;
use super::memory::{Access, MemoryAccess};
use ptx::names::SpecialRegister;

/// An access that two threads make at a distance that is no multiple of its size.
#[derive(Clone, Copy, Debug)]
pub struct Misaligned {
    /// What it accesses.
    pub access: Access,
    /// The two threads.
    pub threads: (u32, u32),
    /// The bytes between their addresses.
    pub apart: u64,
}

/// The steps that the search may take for one access.
const STEPS: u64 = 100_000;

/// The accesses of a kernel whose address moves with `%tid.x` by less than their size.
pub fn misaligned(function: &FunctionContext<'_, '_>) -> Vec<Misaligned> {
    search(function).unwrap_or_default()
}

fn search(function: &FunctionContext<'_, '_>) -> Option<Vec<Misaligned>> {
    let mut moving = Vec::new();
    for MemoryAccess { id, access, .. } in function.accesses() {
        if access.bytes < 8 {
            continue;
        }
        let Some(linear) = function.linear(access.address) else {
            continue;
        };
        // Of a variable, its alignment is known besides: that is another rule.
        if linear.variable().is_some() {
            continue;
        }
        let thread = Term::Special(SpecialRegister::TidX);
        let stride = linear.coefficient(thread).unsigned_abs();
        if stride % access.bytes != 0 {
            moving.push((*id, *access));
        }
    }
    if moving.is_empty() {
        return None;
    }
    let flow = function.flow()?;
    let loops = function.loops()?;
    let orders = Orders::of_function(function)?;
    let shape = Block::of(function).usual();
    let mut evaluator = Evaluator::new(function, flow, loops, shape, STEPS);
    let mut found = Vec::new();
    for (id, access) in moving {
        let block = flow.graph.block_of(id);
        if !flow.graph.is_reached(block) {
            continue;
        }
        evaluator.budget = STEPS;
        let place = evaluator.place(block, Default::default());
        let Some(address) = evaluator.operand(access.address, place).sum() else {
            continue;
        };
        let Some(conditions) = Conditions::of(&orders, &mut evaluator, id) else {
            continue;
        };
        let threads = shape.threads() as usize;
        let mut come = (0..threads).filter(|thread| conditions.admits(*thread));
        let Some(first) = come.next() else {
            continue;
        };
        let apart = |thread: usize| address.lanes.at(first).abs_diff(address.lanes.at(thread));
        let second = come.find(|thread| {
            apart(*thread) % access.bytes != 0
                && conditions.agree(first, &conditions, *thread, &evaluator)
        });
        found.extend(second.map(|second| Misaligned {
            access,
            threads: (first as u32, second as u32),
            apart: apart(second),
        }));
    }
    Some(found)
}
