//! Whether anyone can tell what a value was.

use super::code::{InstructionId, Slot};
use super::unset::Unset;
use super::values::{Definition, ValueId};
use crate::memory::{Access, AccessKind};
use crate::{Flow, FunctionSubject};
use ptx::ast::{Instruction, Space};
use ptx::names::{Modifier, Opcode, Type};

/// Who reads a value.
#[derive(Clone, Copy, Debug)]
enum Use {
    Read(InstructionId),
    /// A joined value that it is a part of.
    Part(ValueId),
}

/// The readers of every value.
#[derive(Debug)]
pub struct Readers {
    starts: Vec<u32>,
    all: Vec<Use>,
}

impl Readers {
    pub(crate) fn new(flow: &Flow<'_, '_>) -> Readers {
        let (code, values) = (&flow.code, &flow.values);
        let mut starts = vec![0; values.definitions.len() + 1];
        let each = |found: &mut dyn FnMut(ValueId, Use)| {
            for id in code.ids() {
                for (_, value) in values.reads(code, &code.steps[id.index()]) {
                    if value != ValueId::NONE {
                        found(value, Use::Read(id));
                    }
                }
            }
            for at in 0..values.definitions.len() as u32 {
                let joined = ValueId(at);
                for part in values.parts(&flow.graph, joined) {
                    if *part != ValueId::NONE {
                        found(*part, Use::Part(joined));
                    }
                }
            }
        };
        each(&mut |value, _| starts[value.index() + 1] += 1);
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let nobody = Use::Part(ValueId::NONE);
        let mut all = vec![nobody; starts.last().copied().unwrap_or(0) as usize];
        let mut next = starts.clone();
        each(&mut |value, user| {
            let place = &mut next[value.index()];
            all[*place as usize] = user;
            *place += 1;
        });
        Readers { starts, all }
    }

    fn of(&self, value: ValueId) -> &[Use] {
        match self.starts.get(value.index()..value.index() + 2) {
            Some([start, end]) => &self.all[*start as usize..*end as usize],
            _ => &[],
        }
    }
}

/// So many values are followed, which is as far as anyone would look.
const FOLLOWED: usize = 100;

/// Whether what an instruction reads of a value that is not set reaches what
/// others see: a branch, an address, memory that others read.
///
/// A copy is no such thing, and neither is what may throw the value away: the
/// arm of a `selp`, a part that is packed beside others. Compilers move what
/// nobody reads in the end: the padding of a structure, the items beyond the
/// end of a tile.
pub(crate) fn is_noticed<'m, 'a>(
    function: &FunctionSubject<'m, 'a>,
    flow: &Flow<'m, 'a>,
    value: ValueId,
    reader: InstructionId,
) -> bool {
    let Some(readers) = function.readers() else {
        return false;
    };
    let mut trace = Trace {
        function,
        flow,
        always: function
            .unset()
            .is_some_and(|u| u.of(value) == Unset::Always),
        // A guard that misses its reader was written by hand.
        guarded: matches!(flow.values.definition(value), Some(Definition::Written(_))),
        seen: Vec::new(),
        open: Vec::new(),
    };
    if trace.reads(reader, value) {
        return true;
    }
    for _ in 0..FOLLOWED {
        let Some(value) = trace.open.pop() else {
            break;
        };
        for user in readers.of(value) {
            match *user {
                Use::Read(id) => {
                    if trace.reads(id, value) {
                        return true;
                    }
                }
                Use::Part(joined) => trace.join(joined),
            }
        }
    }
    false
}

struct Trace<'t, 'm, 'a> {
    function: &'t FunctionSubject<'m, 'a>,
    flow: &'t Flow<'m, 'a>,
    always: bool,
    guarded: bool,
    /// Few: a list is searched faster than a set.
    seen: Vec<ValueId>,
    open: Vec<ValueId>,
}

impl Trace<'_, '_, '_> {
    fn follow(&mut self, value: ValueId) {
        if self.seen.len() < FOLLOWED && !self.seen.contains(&value) {
            self.seen.push(value);
            self.open.push(value);
        }
    }

    /// Whether it is made of what is not set.
    fn is_lost(&self, value: ValueId) -> bool {
        let unset = self.function.unset();
        self.seen.contains(&value) || unset.is_some_and(|u| u.of(value) != Unset::Never)
    }

    fn join(&mut self, joined: ValueId) {
        let parts = self.flow.values.parts(&self.flow.graph, joined);
        if parts
            .iter()
            .all(|part| *part == joined || self.is_lost(*part))
        {
            self.follow(joined);
        }
    }

    /// An instruction that reads the value: whether that shows.
    fn reads(&mut self, id: InstructionId, value: ValueId) -> bool {
        let (code, values) = (&self.flow.code, &self.flow.values);
        let step = &code.steps[id.index()];
        let Some(instruction) = code.instruction(id) else {
            return false;
        };
        if let Some(access) = Access::of(self.function, instruction) {
            return self.accesses(id, value, &access, instruction);
        }
        let read: Vec<(Slot, ValueId)> = values.reads(code, step).collect();
        // Another lane gets it, and may not use it: structures are shuffled whole.
        let shuffled = instruction.opcode == Opcode::Shfl
            && read
                .iter()
                .filter(|(_, known)| *known == value)
                .all(|(slot, _)| slot.operand == instruction.operands.start + 1);
        if !shuffled && !self.function.effect(step).pure {
            return true;
        }
        let operands = read.iter().filter(|(slot, _)| slot.operand != Slot::GUARD);
        let mnemonic = self.function.mnemonic(instruction);
        let shows = match instruction.opcode {
            // The one that selects shows, and so do two arms of the same kind.
            Opcode::Selp | Opcode::Slct => {
                let last = instruction.operands.start + instruction.operands.len - 1;
                let selects =
                    |(slot, known): &(Slot, ValueId)| slot.operand == last && *known == value;
                let arms = read.iter().filter(|(slot, _)| slot.operand != last);
                read.iter().any(selects)
                    || arms.clone().count() == 2 && arms.clone().all(|(_, arm)| self.is_lost(*arm))
            }
            // Others may decide alone.
            Opcode::And
            | Opcode::Or
            | Opcode::Lop3
            | Opcode::Prmt
            | Opcode::Bfi
            | Opcode::Min
            | Opcode::Max
            | Opcode::Mov => operands.clone().all(|(_, known)| self.is_lost(*known)),
            Opcode::Setp | Opcode::Set
                if mnemonic.modifiers.has(Modifier::And)
                    || mnemonic.modifiers.has(Modifier::Or) =>
            {
                operands.clone().all(|(_, known)| self.is_lost(*known))
            }
            _ => true,
        };
        if shows {
            let written: Vec<ValueId> = values.writes(code, step).map(|(_, v)| v).collect();
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
        let (code, values) = (&self.flow.code, &self.flow.values);
        let step = &code.steps[id.index()];
        let mut reads = values
            .reads(code, step)
            .filter(|(_, known)| *known == value);
        // Of a store, what stands behind the address is moved to memory.
        let moves = access.kind == AccessKind::Store
            && reads.all(|(slot, _)| {
                slot.operand != Slot::GUARD && slot.operand as usize != access.address
            });
        if !moves {
            return true;
        }
        match access.space {
            Some(Space::Local) => false,
            Some(Space::Shared) => self.always || self.guarded,
            // An object without members is passed as one byte.
            Some(Space::Param) => {
                let types = self.function.mnemonic(instruction).modifiers.types();
                !(self.always && types.last() == Some(Type::B8))
            }
            None => !self.is_local(access.address),
            _ => true,
        }
    }

    /// Whether a generic address is one of local memory.
    fn is_local(&self, address: usize) -> bool {
        use super::origin::Origin;
        let origin = self
            .function
            .origins()
            .map(|origins| origins.of_operand(&self.flow.code, &self.flow.values, address));
        matches!(origin, Some(Origin::Generic(Space::Local, _)))
    }
}
