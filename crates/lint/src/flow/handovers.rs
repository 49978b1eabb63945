//! What a thread stores, and then tells others by a flag that they wait for.

use super::affine::Linear;
use super::context::{Flow, FunctionContext};
use super::executors::{Executors, is_of_block};
use super::fences::Scope;
use super::instructions::InstructionId;
use super::intervals::{Order, Orders};
use super::locks::{FenceEffect, Visit, before, is_of_grid};
use super::memory::AccessKind;
use super::{BlockId, Term};
use ptx::names::Modifier;

/// A store, a fence and a flag that another block waits for.
#[derive(Clone, Copy, Debug)]
pub struct Handover {
    /// Between the store and the flag; it reaches too few threads.
    pub fence: InstructionId,
    /// What the other block reads the flag by, in a loop.
    pub wait: InstructionId,
    /// What it accesses then.
    pub access: InstructionId,
}

/// A loop that ends when a flag has been set.
struct Wait {
    /// Where the flag is read.
    read: InstructionId,
    flag: Linear,
    /// What is executed behind.
    behind: BlockId,
}

/// So many waits and flags are looked at.
const LIMIT: usize = 16;

/// Whether an instruction may let threads wait for others, besides those that are excepted.
pub(crate) fn waits_besides(
    function: &FunctionContext<'_, '_>,
    excepted: impl Fn(InstructionId) -> bool,
) -> bool {
    let (Some(flow), Some(orders)) = (function.flow(), Orders::of_function(function)) else {
        return true;
    };
    let mut ids = flow.instructions.ids();
    ids.any(|id| orders.of(id) != Order::None && !excepted(id))
}

/// The fences of this scope between a store and a flag that another block waits for.
pub(crate) fn published_behind(function: &FunctionContext<'_, '_>, scope: Scope) -> Vec<Handover> {
    let fence = |mnemonic: &ptx::ast::Mnemonic<'_>| Scope::of_fence(mnemonic) == Some(scope);
    if !function.has_mnemonic(fence) {
        return Vec::new();
    }
    find(function, scope).unwrap_or_default()
}

fn find(function: &FunctionContext<'_, '_>, scope: Scope) -> Option<Vec<Handover>> {
    let flow = function.flow()?;
    let waits = waits(function, flow)?;
    let mut found = Vec::new();
    for set in function.accesses() {
        // An atomic of fewer threads is the mistake itself.
        let wide = Scope::of_atomic(function.mnemonic(set.instruction)) > scope;
        let sets = set.is_global() && wide && set.access.kind != AccessKind::Load;
        if waits.is_empty() || !sets || !flow.graph.is_reached(flow.graph.block_of(set.id)) {
            continue;
        }
        let flag = function.linear(set.access.address);
        for wait in waits.iter().filter(|wait| Some(wait.flag) == flag) {
            let (who, others) = (
                Executors::of(function, set.id)?,
                Executors::of(function, wait.read)?,
            );
            if !who.parted(&others).is_some_and(is_of_block) {
                continue;
            }
            let mut access = None;
            let stored = before(flow, set.id, BlockId::ENTRY, |id| {
                match FenceEffect::of(function, flow, id, Scope::Device) {
                    FenceEffect::Narrow => Visit::Note,
                    FenceEffect::Orders => Visit::Stop,
                    FenceEffect::None => {
                        access = accessed_behind(function, flow, id, wait);
                        if access.is_some() {
                            Visit::Found
                        } else {
                            Visit::On
                        }
                    }
                }
            });
            if let (Some((_, Some(fence))), Some(access)) = (stored, access) {
                found.push(Handover {
                    fence,
                    wait: wait.read,
                    access,
                });
            }
        }
    }
    Some(found)
}

/// Where the memory that an instruction stores to is accessed behind a wait.
fn accessed_behind(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    store: InstructionId,
    wait: &Wait,
) -> Option<InstructionId> {
    let all = function.accesses();
    let store = all.binary_search_by_key(&store, |of| of.id).ok()?;
    let address = function.linear(all[store].access.address)?;
    let mut terms = address.terms().iter();
    if all[store].access.kind != AccessKind::Store
        || address == wait.flag
        || !terms.all(|(term, _)| is_of_grid(function, term))
    {
        return None;
    }
    let same = all.iter().find(|of| {
        of.is_global()
            && flow
                .graph
                .dominates(wait.behind, flow.graph.block_of(of.id))
            && function.linear(of.access.address) == Some(address)
    });
    same.map(|of| of.id)
}

/// The loops that read a word of the grid until it is, or is no longer, a constant.
fn waits(function: &FunctionContext<'_, '_>, flow: &Flow<'_, '_>) -> Option<Vec<Wait>> {
    let (graph, orders) = (&flow.graph, Orders::of_function(function)?);
    let loops = function.loops()?;
    let mut found = Vec::new();
    for of in function.accesses() {
        let modifiers = &function.mnemonic(of.instruction).modifiers;
        let strong = [Modifier::Volatile, Modifier::Relaxed, Modifier::Acquire];
        let reads = match of.access.kind {
            AccessKind::Atomic => true,
            AccessKind::Load => modifiers.first_of(&strong).is_some(),
            AccessKind::Store => false,
        };
        let block = graph.block_of(of.id);
        if !reads || !of.is_global() || !graph.is_reached(block) {
            continue;
        }
        let (Some(around), Some(flag)) =
            (loops.innermost(block), function.linear(of.access.address))
        else {
            continue;
        };
        let fixed = flag
            .terms()
            .iter()
            .all(|(term, _)| is_of_grid(function, term));
        let step = &flow.instructions.steps[of.id.index()];
        let mut written = flow.values.writes(&flow.instructions, step);
        let Some((_, value)) = written.next().filter(|_| fixed) else {
            continue;
        };
        for behind in graph.successors(block) {
            let ends = !loops.contains(around, behind) && graph.predecessors(behind).count() == 1;
            let by = orders.fact(block, behind).filter(|_| ends);
            let decides = by
                .and_then(|fact| super::executors::Equality::of(function, fact.predicate))
                .is_some_and(|equality| equality.term == Term::Value(value));
            if decides {
                found.push(Wait {
                    read: of.id,
                    flag,
                    behind,
                });
            }
        }
    }
    found.truncate(LIMIT);
    Some(found)
}
