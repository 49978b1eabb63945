//! Locks in memory: what a thread executes between the atomic that takes one and the store
//! that gives it back.

use super::affine::{Linear, Term};
use super::context::{Flow, FunctionContext};
use super::executors::Equality;
use super::fences::Scope;
use super::graph::BlockId;
use super::instructions::InstructionId;
use super::intervals::Orders;
use super::memory::{AccessKind, MemoryAccess};
use super::values::ValueId;
use ptx::ast::{Instruction, Space};
use ptx::names::{Modifier, Opcode, SpecialRegister};

/// What one thread at a time executes.
#[derive(Debug)]
pub struct CriticalSection {
    /// The `atom.cas` or `atom.exch` that takes the lock.
    pub take: InstructionId,
    /// Where the lock lies.
    pub lock: Linear,
    /// The threads that the atomic which takes it reaches.
    pub scope: Scope,
    /// The atomic orders what comes after it.
    pub acquires: bool,
    /// The stores and atomics that give it back.
    pub releases: Vec<InstructionId>,
    /// What is executed with the lock held, in the order of the text.
    pub held: Vec<InstructionId>,
    /// Where it starts.
    pub entry: BlockId,
}

/// So many instructions are looked at for each of a function, and for small ones.
const STEPS_FOR_EACH: usize = 8;
const STEPS: usize = 10_000;

/// The locks in global memory that a function takes and gives back.
pub(crate) fn critical_sections(function: &FunctionContext<'_, '_>) -> Vec<CriticalSection> {
    if !function.has_mnemonic(|mnemonic| taking(mnemonic.opcode, &mnemonic.modifiers)) {
        return Vec::new();
    }
    find(function).unwrap_or_default()
}

fn taking(opcode: Opcode, modifiers: &ptx::ast::Modifiers) -> bool {
    opcode == Opcode::Atom
        && modifiers
            .first_of(&[Modifier::Cas, Modifier::Exch])
            .is_some()
        && matches!(super::memory::space(modifiers), None | Some(Space::Global))
}

fn find(function: &FunctionContext<'_, '_>) -> Option<Vec<CriticalSection>> {
    let flow = function.flow()?;
    let orders = Orders::of_function(function)?;
    let graph = &flow.graph;
    let mut budget = flow.instructions.steps.len() * STEPS_FOR_EACH + STEPS;
    let mut found = Vec::new();
    for block in &graph.order {
        for next in graph.successors(*block) {
            if graph.predecessors(next).count() != 1 {
                continue;
            }
            let Some(fact) = orders.fact(*block, next) else {
                continue;
            };
            let Some((take, instruction, free)) = taken(function, flow, fact.predicate, fact.holds)
            else {
                continue;
            };
            let mnemonic = function.mnemonic(instruction);
            let lock = function.linear(instruction.operands.start as usize + 1)?;
            let releases = releases(function, flow, next, &lock, free);
            if releases.is_empty() {
                continue;
            }
            let mut section = CriticalSection {
                take,
                lock,
                scope: Scope::of_atomic(mnemonic),
                acquires: is_ordering(mnemonic, Modifier::Acquire),
                releases,
                held: Vec::new(),
                entry: next,
            };
            let mut held = Vec::new();
            section.walk(flow, &mut budget, |id| {
                held.push(id);
                Walk::On
            });
            held.sort_unstable();
            section.held = held;
            found.push(section);
        }
    }
    Some(found)
}

/// Whether an instruction orders memory itself, this way or both.
pub(super) fn is_ordering(mnemonic: &ptx::ast::Mnemonic<'_>, way: Modifier) -> bool {
    mnemonic
        .modifiers
        .first_of(&[way, Modifier::AcqRel, Modifier::Sc])
        .is_some()
}

/// The atomic that a thread has taken a lock by where a predicate has this truth, and the
/// number that says that the lock is free, if that is known.
fn taken<'m>(
    function: &FunctionContext<'m, '_>,
    flow: &Flow<'m, '_>,
    predicate: ValueId,
    holds: bool,
) -> Option<(InstructionId, &'m Instruction, Option<i64>)> {
    let Equality {
        term: Term::Value(value),
        number,
        equal,
    } = Equality::of(function, predicate)?
    else {
        return None;
    };
    let Some(super::Definition::Written(id)) = flow.values.definition(value) else {
        return None;
    };
    let instruction = flow.instructions.get(id)?;
    let modifiers = &function.mnemonic(instruction).modifiers;
    let step = &flow.instructions.steps[id.index()];
    if !taking(instruction.opcode, modifiers) || step.guarded {
        return None;
    }
    let address = instruction.operands.start as usize + 1;
    let number_at = |place: usize| function.linear(place)?.as_number();
    let is_number = equal == holds;
    let (was, new) = if modifiers.has(Modifier::Cas) {
        (Some(number_at(address + 1)?), number_at(address + 2))
    } else {
        (None, Some(number_at(address + 1)?))
    };
    match was {
        // It was free, and is not any more.
        Some(was) => {
            (is_number && number == was && new != Some(was)).then_some((id, instruction, Some(was)))
        }
        None if is_number => (new != Some(number)).then_some((id, instruction, Some(number))),
        None => (new == Some(number)).then_some((id, instruction, None)),
    }
}

/// Where a lock is set to what it is when nobody holds it.
fn releases(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    entry: BlockId,
    lock: &Linear,
    free: Option<i64>,
) -> Vec<InstructionId> {
    let mut found = Vec::new();
    for of in function.accesses() {
        let block = flow.graph.block_of(of.id);
        let sets = match of.access.kind {
            AccessKind::Store => true,
            AccessKind::Atomic => function
                .mnemonic(of.instruction)
                .modifiers
                .has(Modifier::Exch),
            AccessKind::Load => false,
        };
        if sets
            && of.is_global()
            && flow.graph.is_reached(block)
            && flow.graph.dominates(entry, block)
            && function.linear(of.access.address).as_ref() == Some(lock)
            && let Some(number) = function
                .linear(of.access.address + 1)
                .and_then(|value| value.as_number())
            && free.is_none_or(|free| free == number)
        {
            found.push(of.id);
        }
    }
    found
}

/// What to do behind an instruction.
pub(super) enum Walk {
    /// Look at the next.
    On,
    /// Go no further this way.
    Stop,
}

impl CriticalSection {
    /// Looks at what is executed with the lock held, each instruction before those behind it.
    fn walk(
        &self,
        flow: &Flow<'_, '_>,
        budget: &mut usize,
        mut look: impl FnMut(InstructionId) -> Walk,
    ) {
        let graph = &flow.graph;
        let mut visited: Vec<BlockId> = Vec::new();
        let mut open = vec![self.entry];
        while let Some(block) = open.pop() {
            if visited.contains(&block) {
                continue;
            }
            visited.push(block);
            let mut stopped = false;
            for id in graph.blocks[block.index()].steps() {
                let Some(rest) = budget.checked_sub(1 + visited.len()) else {
                    return;
                };
                *budget = rest;
                stopped = self.releases.contains(&id) || matches!(look(id), Walk::Stop);
                if stopped {
                    break;
                }
            }
            if !stopped {
                let within = |to: &BlockId| graph.dominates(self.entry, *to);
                open.extend(graph.successors(block).filter(within));
            }
        }
    }

    /// The stores to what the lock protects: addresses that do not depend on which thread
    /// holds it.
    pub fn protected(&self, function: &FunctionContext<'_, '_>) -> Vec<(InstructionId, Linear)> {
        let stores = function.accesses().iter().filter(|of| {
            of.access.kind == AccessKind::Store
                && of.is_global()
                && self.held.binary_search(&of.id).is_ok()
        });
        let addresses = stores.filter_map(|of| Some((of.id, function.linear(of.access.address)?)));
        let shared = |address: &Linear| {
            address.terms().iter().all(|(term, _)| {
                is_of_grid(function, term)
                    || matches!(term, Term::Special(register) if !is_of_thread(*register))
                    || self.lock.coefficient(*term) != 0
            })
        };
        addresses
            .filter(|(_, address)| *address != self.lock && shared(address))
            .collect()
    }

    /// The first accesses to what is protected that nothing orders behind the taking of the
    /// lock, and the fence before each that reaches fewer threads than `scope`, if one does.
    pub fn early(
        &self,
        function: &FunctionContext<'_, '_>,
        scope: Scope,
    ) -> Option<(InstructionId, Option<InstructionId>)> {
        let flow = function.flow()?;
        let protected = self.protected(function);
        if protected.is_empty() {
            return None;
        }
        let (mut found, mut narrow) = (None, None);
        let mut budget = STEPS;
        self.walk(flow, &mut budget, |id| {
            match FenceEffect::of(function, flow, id, scope) {
                FenceEffect::Narrow => {
                    narrow = Some(id);
                    Walk::On
                }
                FenceEffect::Orders => Walk::Stop,
                FenceEffect::None if found.is_none() && accesses(function, id, &protected) => {
                    found = Some((id, narrow));
                    Walk::Stop
                }
                FenceEffect::None => Walk::On,
            }
        });
        found
    }

    /// A store to what is protected that nothing orders before the lock is given back, and
    /// where that is; and the fence between that reaches fewer threads than `scope`.
    pub fn late(
        &self,
        function: &FunctionContext<'_, '_>,
        scope: Scope,
    ) -> Option<(InstructionId, InstructionId, Option<InstructionId>)> {
        let flow = function.flow()?;
        let protected = self.protected(function);
        for release in &self.releases {
            let instruction = flow.instructions.get(*release)?;
            if is_ordering(function.mnemonic(instruction), Modifier::Release) {
                continue;
            }
            let found = before(flow, *release, self.entry, |id| {
                match FenceEffect::of(function, flow, id, scope) {
                    FenceEffect::Narrow => Visit::Note,
                    FenceEffect::Orders => Visit::Stop,
                    FenceEffect::None => {
                        if protected.iter().any(|(store, _)| *store == id) {
                            Visit::Found
                        } else {
                            Visit::On
                        }
                    }
                }
            });
            if let Some((store, narrow)) = found {
                return Some((store, *release, narrow));
            }
        }
        None
    }
}

/// What is found on the way back from an instruction.
pub(super) enum Visit {
    On,
    Stop,
    /// What is kept beside what is found before it.
    Note,
    Found,
}

/// Looks at what is executed before an instruction, back to a block that dominates it.
pub(super) fn before(
    flow: &Flow<'_, '_>,
    from: InstructionId,
    since: BlockId,
    mut look: impl FnMut(InstructionId) -> Visit,
) -> Option<(InstructionId, Option<InstructionId>)> {
    let graph = &flow.graph;
    let home = graph.block_of(from);
    let mut open = vec![(home, from.0, None)];
    let mut visited: Vec<BlockId> = Vec::new();
    let mut budget = STEPS;
    while let Some((block, end, mut noted)) = open.pop() {
        let mut stopped = false;
        for at in (graph.blocks[block.index()].start..end).rev() {
            budget = budget.checked_sub(1 + visited.len())?;
            let id = InstructionId(at);
            match look(id) {
                Visit::On => {}
                Visit::Stop => {
                    stopped = true;
                    break;
                }
                Visit::Note => noted = Some(id),
                Visit::Found => return Some((id, noted)),
            }
        }
        if stopped || block == since {
            continue;
        }
        for above in graph.predecessors(block) {
            if graph.dominates(since, above) && !visited.contains(&above) {
                visited.push(above);
                open.push((above, graph.blocks[above.index()].end, noted));
            }
        }
    }
    None
}

/// What an instruction does to the order in which others see the accesses of a thread.
pub(super) enum FenceEffect {
    None,
    /// A fence of fewer threads.
    Narrow,
    /// It orders them, or may.
    Orders,
}

impl FenceEffect {
    pub fn of(
        function: &FunctionContext<'_, '_>,
        flow: &Flow<'_, '_>,
        id: InstructionId,
        scope: Scope,
    ) -> FenceEffect {
        let step = &flow.instructions.steps[id.index()];
        let Some(instruction) = flow.instructions.get(id) else {
            return FenceEffect::Orders;
        };
        let mnemonic = function.mnemonic(instruction);
        if let Some(of_fence) = Scope::of_fence(mnemonic) {
            return if of_fence < scope {
                FenceEffect::Narrow
            } else {
                FenceEffect::Orders
            };
        }
        let effect = function.effect(step);
        let accesses = effect.access.is_some()
            && mnemonic
                .modifiers
                .first_of(&[
                    Modifier::Acquire,
                    Modifier::Release,
                    Modifier::AcqRel,
                    Modifier::Sc,
                ])
                .is_none();
        if effect.pure || accesses || step.terminator != super::Terminator::FallThrough {
            FenceEffect::None
        } else {
            FenceEffect::Orders
        }
    }
}

fn accesses(
    function: &FunctionContext<'_, '_>,
    id: InstructionId,
    protected: &[(InstructionId, Linear)],
) -> bool {
    let all = function.accesses();
    let Ok(at) = all.binary_search_by_key(&id, |of| of.id) else {
        return false;
    };
    let address = function.linear(all[at].access.address);
    all[at].access.kind != AccessKind::Atomic
        && all[at].is_global()
        && protected
            .iter()
            .any(|(_, known)| Some(known) == address.as_ref())
}

/// Whether a term is the same number in all blocks of a grid.
pub(crate) fn is_of_grid(function: &FunctionContext<'_, '_>, term: &Term) -> bool {
    match term {
        Term::Parameter(..) => true,
        Term::Address(id) => function
            .flow()
            .is_some_and(|flow| flow.instructions.variable(*id).space == Space::Global),
        Term::Special(_) | Term::Value(_) | Term::Product(_) => false,
    }
}

/// The address of an access to global memory, if it is the same for all threads of the grid.
pub(crate) fn word_of_grid(
    function: &FunctionContext<'_, '_>,
    of: &MemoryAccess<'_>,
) -> Option<Linear> {
    let flow = function.flow()?;
    if !of.is_global() || !flow.graph.is_reached(flow.graph.block_of(of.id)) {
        return None;
    }
    let address = function.linear(of.access.address)?;
    let mut terms = address.terms().iter();
    let fixed = !address.terms().is_empty() && terms.all(|(term, _)| is_of_grid(function, term));
    fixed.then_some(address)
}

fn is_of_thread(register: SpecialRegister) -> bool {
    use SpecialRegister as S;
    !matches!(
        register,
        S::CtaidX | S::CtaidY | S::CtaidZ | S::NtidX | S::NtidY | S::NtidZ
    )
}
