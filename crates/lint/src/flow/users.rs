//! The users of each value, and whether a use is observable outside of the function.

use super::context::{Flow, FunctionContext};
use super::instructions::{InstructionId, RegisterOperand, Step};
use super::memory::{Access, AccessKind};
use super::uninitialized::Uninitialized;
use super::values::{Definition, ValueId};
use ptx::ast::{Instruction, Operand, Space};
use ptx::names::{Opcode, Type};

/// One use of a value.
#[derive(Clone, Copy, Debug)]
enum Use {
    Read(InstructionId),
    /// An operand of this phi.
    Phi(ValueId),
}

/// The users of every value.
#[derive(Debug)]
pub struct Users {
    starts: Vec<u32>,
    all: Vec<Use>,
}

impl Users {
    pub(crate) fn new(flow: &Flow<'_, '_>) -> Users {
        let (instructions, values) = (&flow.instructions, &flow.values);
        let mut starts = vec![0; values.definitions.len() + 1];
        let each = |found: &mut dyn FnMut(ValueId, Use)| {
            for id in instructions.ids() {
                for (_, value) in values.reads(instructions, &instructions.steps[id.index()]) {
                    if value != ValueId::NONE {
                        found(value, Use::Read(id));
                    }
                }
            }
            for at in 0..values.definitions.len() as u32 {
                let phi = ValueId(at);
                for part in values.phi_operands(&flow.graph, phi) {
                    if *part != ValueId::NONE {
                        found(*part, Use::Phi(phi));
                    }
                }
            }
        };
        each(&mut |value, _| starts[value.index() + 1] += 1);
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let nobody = Use::Phi(ValueId::NONE);
        let mut all = vec![nobody; starts.last().copied().unwrap_or(0) as usize];
        let mut next = starts.clone();
        each(&mut |value, user| {
            let place = &mut next[value.index()];
            all[*place as usize] = user;
            *place += 1;
        });
        Users { starts, all }
    }

    /// The instructions that read a value, and the phis that it is a part of.
    pub fn readers(
        &self,
        value: ValueId,
    ) -> impl Iterator<Item = Result<InstructionId, ValueId>> + '_ {
        self.of(value).iter().map(|user| match user {
            Use::Read(id) => Ok(*id),
            Use::Phi(phi) => Err(*phi),
        })
    }

    fn of(&self, value: ValueId) -> &[Use] {
        match self.starts.get(value.index()..value.index() + 2) {
            Some([start, end]) => &self.all[*start as usize..*end as usize],
            _ => &[],
        }
    }
}

/// The limit of values that are followed.
const FOLLOWED: usize = 100;

/// Whether the read of an uninitialized value is observable: it reaches a branch,
/// an address, or memory that others read.
///
/// A copy is not observable, nor is a use that may discard the value: an arm of a
/// `selp`, one of several packed parts. Compilers move values that nobody reads in
/// the end: the padding of a structure, the elements beyond the end of a tile.
///
/// `reached` tells whether control surely comes to the instruction that shows it: a branch
/// before may depend on whether the value was written.
pub(crate) fn is_observable<'m, 'a>(
    function: &FunctionContext<'m, 'a>,
    flow: &Flow<'m, 'a>,
    value: ValueId,
    reader: InstructionId,
    reached: impl Fn(InstructionId) -> bool,
) -> bool {
    let Some(users) = function.users() else {
        return false;
    };
    let always = function
        .uninitialized()
        .is_some_and(|u| u.of(value) == Uninitialized::Always);
    let mut users_of = users.of(value).iter();
    // The lanes of a warp pass on what some of them have: the others drop it.
    if !always
        && users_of.any(|user| matches!(user, Use::Read(id) if is_shuffled(flow, *id, value)))
    {
        return false;
    }
    let mut trace = Trace {
        function,
        flow,
        value,
        always,
        // Compilers guard the reader too; a missing guard is a hand-written mistake.
        guarded: matches!(flow.values.definition(value), Some(Definition::Written(_))),
        visited: Vec::new(),
        open: Vec::new(),
    };
    if trace.reads(reader, value) && reached(reader) {
        return true;
    }
    for _ in 0..FOLLOWED {
        let Some(value) = trace.open.pop() else {
            break;
        };
        for user in users.of(value) {
            match *user {
                Use::Read(id) => {
                    if trace.reads(id, value) && reached(id) {
                        return true;
                    }
                }
                Use::Phi(phi) => trace.join(phi),
            }
        }
    }
    false
}

/// Whether an instruction hands the value on to other lanes, and does no more with it.
fn is_shuffled(flow: &Flow<'_, '_>, id: InstructionId, value: ValueId) -> bool {
    let (instructions, values) = (&flow.instructions, &flow.values);
    let Some(instruction) = instructions.get(id) else {
        return false;
    };
    let mut reads = values
        .reads(instructions, &instructions.steps[id.index()])
        .filter(|(_, known)| *known == value);
    instruction.opcode == Opcode::Shfl
        && reads.all(|(slot, _)| slot.operand == instruction.operands.start + 1)
}

struct Trace<'t, 'm, 'a> {
    function: &'t FunctionContext<'m, 'a>,
    flow: &'t Flow<'m, 'a>,
    /// The uninitialized value.
    value: ValueId,
    always: bool,
    guarded: bool,
    /// There are few: a list is searched faster than a set.
    visited: Vec<ValueId>,
    open: Vec<ValueId>,
}

impl Trace<'_, '_, '_> {
    fn follow(&mut self, value: ValueId) {
        if self.visited.len() < FOLLOWED && !self.visited.contains(&value) {
            self.visited.push(value);
            self.open.push(value);
        }
    }

    /// Whether it is computed from an uninitialized value.
    fn is_lost(&self, value: ValueId) -> bool {
        let uninitialized = self.function.uninitialized();
        self.visited.contains(&value)
            || uninitialized.is_some_and(|u| u.of(value) != Uninitialized::Never)
    }

    fn join(&mut self, phi: ValueId) {
        let parts = self.flow.values.phi_operands(&self.flow.graph, phi);
        if parts.iter().all(|part| *part == phi || self.is_lost(*part)) {
            self.follow(phi);
        }
    }

    /// Whether the read by this instruction is observable.
    fn reads(&mut self, id: InstructionId, value: ValueId) -> bool {
        let (instructions, values) = (&self.flow.instructions, &self.flow.values);
        let step = &instructions.steps[id.index()];
        let Some(instruction) = instructions.get(id) else {
            return false;
        };
        // What is computed of it may be used only where it is initialized.
        let when = self
            .function
            .uninitialized()
            .map(|u| u.at(instructions, &self.flow.graph, values, self.value, id));
        if when == Some(Uninitialized::Never) {
            return false;
        }
        if let Some(access) = Access::of(self.function, instruction) {
            return self.accesses(id, value, &access, instruction);
        }
        let read: Vec<(RegisterOperand, ValueId)> = values.reads(instructions, step).collect();
        // Another lane receives it and may not use it: structures are shuffled whole.
        if !is_shuffled(self.flow, id, value) && !self.function.effect(step).pure {
            return true;
        }
        let operands = read
            .iter()
            .filter(|(slot, _)| slot.operand != RegisterOperand::GUARD);
        let meaning = &self.function.effect(step).meaning;
        let shows = match (meaning.selects, meaning.absorbs) {
            // The predicate is observable, and so are two uninitialized arms.
            (true, _) => {
                let last = instruction.operands.start + instruction.operands.len - 1;
                let selects = |(slot, known): &(RegisterOperand, ValueId)| {
                    slot.operand == last && *known == value
                };
                let arms = read.iter().filter(|(slot, _)| slot.operand != last);
                read.iter().any(selects)
                    || arms.clone().count() == 2 && arms.clone().all(|(_, arm)| self.is_lost(*arm))
            }
            (false, true) => operands.clone().all(|(_, known)| self.is_lost(*known)),
            (false, false) => true,
        };
        if shows {
            let written: Vec<ValueId> = values.writes(instructions, step).map(|(_, v)| v).collect();
            written.into_iter().for_each(|value| self.follow(value));
        }
        false
    }

    fn accesses(
        &self,
        id: InstructionId,
        value: ValueId,
        access: &Access,
        instruction: &Instruction,
    ) -> bool {
        let (instructions, values) = (&self.flow.instructions, &self.flow.values);
        let step = &instructions.steps[id.index()];
        let mut reads = values
            .reads(instructions, step)
            .filter(|(_, known)| *known == value);
        // The operands of a store behind the address go to memory.
        let moves = access.kind == AccessKind::Store
            && reads.all(|(slot, _)| {
                slot.operand != RegisterOperand::GUARD && slot.operand as usize != access.address
            });
        if !moves {
            return true;
        }
        if self.is_padding(step, value, instruction) {
            return false;
        }
        match access.space {
            Some(Space::Local) => false,
            Some(Space::Shared) => self.always || self.guarded,
            // An empty object is passed as one byte.
            Some(Space::Param) => {
                let types = self.function.mnemonic(instruction).modifiers.types();
                !(self.always && types.last() == Some(Type::B8))
            }
            None => !self.is_local(access.address),
            _ => true,
        }
    }

    /// Whether the value is stored in a vector beside others that are initialized, out
    /// of a register that a compiler numbered: what fills up a structure.
    fn is_padding(&self, step: &Step, value: ValueId, instruction: &Instruction) -> bool {
        let (instructions, values) = (&self.flow.instructions, &self.flow.values);
        let operands = instructions.body.list(instruction.operands);
        let Some(Operand::Vector(list, _)) = operands.last() else {
            return false;
        };
        let elements = list.start..list.start + list.len;
        let mut reads = values.reads(instructions, step);
        let numbered = values
            .reads(instructions, step)
            .filter(|(_, known)| *known == value)
            .all(|(slot, _)| instructions.is_numbered(slot.register));
        let uninitialized = self.function.uninitialized();
        let written = |known| uninitialized.is_none_or(|u| u.of(known) != Uninitialized::Always);
        numbered && reads.any(|(slot, known)| elements.contains(&slot.operand) && written(known))
    }

    /// Whether a generic address is one of local memory.
    fn is_local(&self, address: usize) -> bool {
        use super::origin::Origin;
        matches!(
            self.function.origin(address),
            Some(Origin::Generic(Space::Local, _))
        )
    }
}
