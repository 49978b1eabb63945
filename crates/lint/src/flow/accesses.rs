//! The accesses of a kernel to memory that its threads share.

use super::affine::{Linear, Term};
use super::context::{Flow, FunctionContext};
use super::early_accesses::is_small_copy;
use super::instructions::InstructionId;
use super::intervals::Fact;
use super::memory::{Access, AccessKind, MemoryAccess};
use super::origin::Origin;
use super::values::{Definition, ValueId};
use super::{HashMap, roomy_map};
use ptx::ast::{Instruction, Operand, Space};
use ptx::names::{Modifier, Opcode, SpecialRegister};
use ptx::resolution::{Reference, VariableId};

/// An access to memory that threads share.
#[derive(Clone, Copy, Debug)]
pub struct SharedAccess {
    /// The instruction.
    pub id: InstructionId,
    /// What it accesses.
    pub access: Access,
    /// Where it is.
    pub space: Space,
    /// The variable or parameter that the address is derived from, if that is known.
    pub base: Option<Term>,
    /// Where the value of a store stands in the operand pool.
    pub value: usize,
    /// `.volatile`, `.relaxed`: ordered with others of that kind (PTX ISA, "Memory
    /// Consistency Model": they are morally strong).
    pub strong: bool,
    /// What has to hold for it besides that control comes there.
    pub guard: Option<Fact>,
}

impl SharedAccess {
    /// Whether it is a store or an atomic.
    pub fn writes(&self) -> bool {
        self.access.kind != AccessKind::Load
    }
}

/// The accesses of a function to shared or global memory, in the order of the text.
pub(crate) fn accesses(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    space: Space,
) -> Vec<SharedAccess> {
    let mut found = Vec::new();
    let copies = copies(function, space);
    let accesses = function.accesses().iter().chain(&copies);
    // Many accesses are at a number of bytes from the same value.
    let mut bases: HashMap<ValueId, Option<Term>> = roomy_map();
    for MemoryAccess {
        id,
        instruction,
        access,
    } in accesses
    {
        let (id, access) = (*id, *access);
        let step = &flow.instructions.steps[id.index()];
        let block = flow.graph.block_of(id);
        let generic = access.space.is_none();
        if !(generic || access.space == Some(space)) || !flow.graph.is_reached(block) {
            continue;
        }
        let base = match flow.instructions.reference(access.address) {
            Reference::Register(_) => *bases
                .entry(flow.values.of_operand(access.address))
                .or_insert_with(|| base(function, flow, &access, space)),
            _ => base(function, flow, &access, space),
        };
        // Without a variable, a generic address may lie anywhere.
        if base.is_none() && (generic || space == Space::Global) {
            continue;
        }
        let modifiers = &function.mnemonic(instruction).modifiers;
        let strong = [
            Modifier::Volatile,
            Modifier::Relaxed,
            Modifier::Acquire,
            Modifier::Release,
        ];
        found.push(SharedAccess {
            id,
            access,
            space,
            base,
            value: match instruction.opcode {
                Opcode::Cp => usize::MAX,
                _ => access.address + 1,
            },
            strong: strong.into_iter().any(|word| modifiers.has(word)),
            guard: flow
                .values
                .guard(&flow.instructions, step)
                .map(|predicate| Fact {
                    block,
                    predicate,
                    holds: !step.negated,
                }),
        });
    }
    if !copies.is_empty() {
        found.sort_unstable_by_key(|of| of.id);
    }
    found
}

/// What `cp.async` writes in shared memory: its thread has to wait for it, and then other threads
/// for that thread, at a barrier. What it writes is unknown.
fn copies<'m>(function: &FunctionContext<'m, '_>, space: Space) -> Vec<MemoryAccess<'m>> {
    if space != Space::Shared || !function.has_mnemonic(is_small_copy) {
        return Vec::new();
    }
    let copies = function.instructions_with(|mnemonic, _| is_small_copy(mnemonic));
    let write = |(id, instruction): (InstructionId, &'m Instruction)| {
        let address = instruction.operands.start as usize;
        let [to @ Operand::Address { .. }, _, Operand::Integer(bytes), ..] =
            function.operands(instruction)
        else {
            return None;
        };
        let bytes = bytes.value;
        let access = Access {
            kind: AccessKind::Store,
            space: Some(Space::Shared),
            element: bytes,
            bytes,
            address,
            span: function.operand_span(instruction, to),
        };
        Some(MemoryAccess {
            id,
            instruction,
            access,
        })
    };
    copies.into_iter().filter_map(write).collect()
}

/// What an address in the space is counted from.
fn base(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    access: &Access,
    space: Space,
) -> Option<Term> {
    let of_space = |id: &VariableId| flow.instructions.variable(*id).space == space;
    if space == Space::Shared {
        return match function.origin(access.address)? {
            Origin::Variable(id) | Origin::Generic(_, Some(id)) => {
                Some(id).filter(of_space).map(Term::Address)
            }
            _ => None,
        };
    }
    let linear = function.linear(access.address)?;
    let mut terms = linear.terms().iter().filter(|(_, times)| *times == 1);
    let named = terms.clone().find(|(term, _)| match term {
        Term::Parameter(..) => true,
        Term::Address(id) => of_space(id),
        _ => false,
    });
    let loaded = |(term, _): &&(Term, i64)| matches!(term, Term::Value(value) if is_loaded(function, flow, *value));
    let base = named.or_else(|| terms.find(loaded));
    base.map(|(term, _)| *term)
}

/// Whether a value is a pointer that lies in a variable.
fn is_loaded(function: &FunctionContext<'_, '_>, flow: &Flow<'_, '_>, value: ValueId) -> bool {
    let Some(Definition::Written(id)) = flow.values.definition(value) else {
        return false;
    };
    let Some(instruction) = flow.instructions.get(id) else {
        return false;
    };
    let address = instruction.operands.start as usize + 1;
    matches!(instruction.opcode, Opcode::Ld | Opcode::Ldu)
        && matches!(flow.instructions.reference(address), Reference::Variable(_))
        && function
            .mnemonic(instruction)
            .modifiers
            .types()
            .last()
            .is_some_and(|ty| ty.bits() == 64)
}

/// The accesses to one base address.
struct OfBase {
    count: u32,
    stores: u32,
    first: Linear,
    /// All of them have the same address, another for each `%tid.x`.
    own: bool,
}

/// Leaves what is written and accessed elsewhere, or written by all threads of a block at once.
pub fn retain_meeting(function: &FunctionContext<'_, '_>, found: &mut Vec<SharedAccess>) {
    let mut bases: HashMap<Term, OfBase> = HashMap::default();
    for of in found.iter() {
        let (Some(base), Some(linear)) = (of.base, function.linear(of.access.address)) else {
            continue;
        };
        let stride = linear.coefficient(Term::Special(SpecialRegister::TidX));
        let own = stride.unsigned_abs() >= of.access.bytes;
        let known = bases.entry(base).or_insert(OfBase {
            count: 0,
            stores: 0,
            first: linear,
            own,
        });
        known.count += 1;
        known.stores += u32::from(of.access.kind == AccessKind::Store);
        known.own &= own && known.first == linear;
    }
    let shared = |linear: &Linear| {
        linear.terms().iter().all(|(term, _)| match term {
            Term::Special(register) => register.text().starts_with("%ctaid"),
            Term::Parameter(..) | Term::Address(_) => true,
            Term::Value(_) | Term::Product(_) => false,
        })
    };
    found.retain(|of| match of.base.and_then(|base| bases.get(&base)) {
        Some(base) if base.count == 1 => base.stores == 1 && shared(&base.first),
        Some(base) => base.stores > 0 && !base.own,
        None => false,
    });
}
