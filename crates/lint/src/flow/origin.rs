//! Provenance of addresses: the variable, parameter or conversion that a pointer
//! is derived from, through arithmetic and loops.

use super::context::{Flow, FunctionContext};
use super::instructions::InstructionId;
use super::values::{Definition, ValueId};
use ptx::ast::{Instruction, Mnemonic, Operand, Space};
use ptx::names::{Modifier, Opcode};
use ptx::resolution::{Reference, VariableId};

/// The provenance of a pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// None: not known to be an address.
    #[default]
    Number,
    /// The address of a variable in its own state space.
    Variable(VariableId),
    /// The value of a kernel parameter, as the host passed it.
    Parameter(VariableId),
    /// A generic address that `cvta` made of one of this space; of which variable.
    Generic(Space, Option<VariableId>),
    /// An address that `cvta.to` made of a generic one.
    Converted(Space),
    /// Several of these, or unknown.
    Several,
}

impl Origin {
    /// The join of two, for a sum or a phi.
    fn join(self, other: Origin) -> Origin {
        match (self, other) {
            (Origin::Number, known) | (known, Origin::Number) => known,
            (a, b) if a == b => a,
            (Origin::Generic(a, _), Origin::Generic(b, _)) if a == b => Origin::Generic(a, None),
            _ => Origin::Several,
        }
    }
}

/// The origins of values, each found when somebody asks for it: few but addresses are asked
/// for.
#[derive(Debug)]
pub(super) struct Origins {
    /// `None` where nobody has asked.
    of: Vec<Option<Origin>>,
    /// The values that are being worked out, in the order of the graph.
    slice: Vec<Place>,
    open: Vec<ValueId>,
}

/// Where a value is made: the place of its block, and there a phi before instructions.
type Place = (u32, Option<InstructionId>, ValueId);

/// The operands that an address may come from to the result: the first, and behind the last.
const fn carried(opcode: Opcode) -> Option<(usize, usize)> {
    match opcode {
        Opcode::Mov | Opcode::Cvt | Opcode::Cvta => Some((1, 2)),
        Opcode::Add
        | Opcode::Sub
        | Opcode::Or
        | Opcode::Min
        | Opcode::Max
        | Opcode::And
        | Opcode::Selp => Some((1, 3)),
        Opcode::Mad => Some((3, 4)),
        // The results of these may be pointers.
        Opcode::Ld | Opcode::Ldu | Opcode::Atom | Opcode::Call | Opcode::Shfl => Some((0, 0)),
        _ => None,
    }
}

/// The analysis converges after few rounds: origins only move up the lattice.
const ROUNDS: usize = 8;

impl Origins {
    pub fn new(flow: &Flow<'_, '_>) -> Origins {
        Origins {
            of: vec![None; flow.values.definitions.len()],
            slice: Vec::new(),
            open: Vec::new(),
        }
    }

    /// The origin of the address or number in this operand.
    pub fn of_operand(
        &mut self,
        function: &FunctionContext<'_, '_>,
        flow: &Flow<'_, '_>,
        place: usize,
    ) -> Origin {
        let value = flow.values.of_operand(place);
        if self.of.get(value.index()) == Some(&None) {
            self.work_out(function, flow, value);
        }
        self.read(flow, place)
    }

    /// Works out a value, with those that it may come from.
    fn work_out(
        &mut self,
        function: &FunctionContext<'_, '_>,
        flow: &Flow<'_, '_>,
        value: ValueId,
    ) {
        self.need(value);
        while let Some(value) = self.open.pop() {
            self.follow(flow, value);
        }
        let mut slice = std::mem::take(&mut self.slice);
        slice.sort_unstable();
        // All else follows from what meets, in the order of the graph.
        let has_phis = slice.iter().any(|(_, id, _)| id.is_none());
        let rounds = if has_phis { ROUNDS } else { 1 };
        let mut settled = slice.is_empty();
        for _ in 0..rounds {
            if settled {
                break;
            }
            for (_, id, value) in &slice {
                let origin = match id {
                    Some(id) => self.made(function, flow, *id, *value),
                    None => Some(self.met(flow, *value)),
                };
                if let Some(origin) = origin {
                    self.of[value.index()] = Some(origin);
                }
            }
            let mut phis = slice.iter().filter(|(_, id, _)| id.is_none());
            settled = phis.all(|(_, _, value)| self.met(flow, *value) == self.of(*value));
        }
        if !settled {
            // Without convergence nothing is known.
            for (_, _, value) in &slice {
                self.of[value.index()] = Some(Origin::Several);
            }
        }
        slice.clear();
        self.slice = slice;
    }

    /// Notes a value that nobody has asked for.
    fn need(&mut self, value: ValueId) {
        if let Some(known @ None) = self.of.get_mut(value.index()) {
            *known = Some(Origin::Number);
            self.open.push(value);
        }
    }

    /// Notes what a value may come from.
    fn follow(&mut self, flow: &Flow<'_, '_>, value: ValueId) {
        match flow.values.definition(value) {
            Some(Definition::Written(id)) => {
                let Some(instruction) = flow.instructions.get(id) else {
                    return;
                };
                let Some((first, end)) = carried(instruction.opcode) else {
                    return;
                };
                let block = flow.graph.block_of(id);
                self.slice.push((flow.graph.place(block), Some(id), value));
                let start = instruction.operands.start as usize;
                for place in start + first..start + end {
                    self.need(flow.values.of_operand(place));
                }
                if let Some(prior) = flow.values.prior(value) {
                    self.need(prior);
                }
            }
            Some(Definition::Phi(block)) => {
                self.slice.push((flow.graph.place(block), None, value));
                for part in flow.values.phi_operands(&flow.graph, value) {
                    self.need(*part);
                }
            }
            Some(Definition::Start) | None => {}
        }
    }

    fn of(&self, value: ValueId) -> Origin {
        let known = self.of.get(value.index()).copied().flatten();
        known.unwrap_or_default()
    }

    fn read(&self, flow: &Flow<'_, '_>, place: usize) -> Origin {
        match flow.instructions.reference(place) {
            Reference::Register(_) => self.of(flow.values.of_operand(place)),
            Reference::Variable(id) => Origin::Variable(id),
            _ => Origin::Number,
        }
    }

    /// The origin of a joined value, by what meets in it.
    fn met(&self, flow: &Flow<'_, '_>, value: ValueId) -> Origin {
        let parts = flow.values.phi_operands(&flow.graph, value).iter();
        parts.fold(Origin::Number, |sum, part| sum.join(self.of(*part)))
    }

    /// The origin of what an instruction writes.
    fn made(
        &self,
        function: &FunctionContext<'_, '_>,
        flow: &Flow<'_, '_>,
        id: InstructionId,
        value: ValueId,
    ) -> Option<Origin> {
        let instruction = flow.instructions.get(id)?;
        let made = self.result(flow, function.mnemonic(instruction), instruction)?;
        Some(match flow.values.prior(value) {
            Some(prior) => made.join(self.of(prior)),
            None => made,
        })
    }

    fn result(
        &self,
        flow: &Flow<'_, '_>,
        mnemonic: &Mnemonic<'_>,
        instruction: &Instruction,
    ) -> Option<Origin> {
        let instructions = &flow.instructions;
        let start = instruction.operands.start as usize;
        let (first, end) = carried(mnemonic.opcode)?;
        let sum = || {
            let parts = start + first..start + end;
            parts.fold(Origin::Number, |sum, place| {
                sum.join(self.read(flow, place))
            })
        };
        let modifiers = &mnemonic.modifiers;
        Some(match mnemonic.opcode {
            Opcode::Mov => match instructions.body.operands.get(start + 1) {
                Some(Operand::Vector(..)) | None => return None,
                Some(_) => sum(),
            },
            // A widened offset is no address. The lower half of a generic address is one
            // in its space on every device that there is.
            Opcode::Cvt => match sum() {
                Origin::Parameter(_) | Origin::Several | Origin::Generic(..) => Origin::Number,
                known => known,
            },
            Opcode::Cvta => {
                let space = super::memory::space(modifiers)?;
                if modifiers.has(Modifier::To) {
                    Origin::Converted(space)
                } else {
                    let variable = match sum() {
                        Origin::Variable(id) => Some(id),
                        _ => None,
                    };
                    Origin::Generic(space, variable)
                }
            }
            Opcode::Ld
                if modifiers.has(Modifier::Param)
                    && modifiers.types().last().is_some_and(|ty| ty.bits() == 64) =>
            {
                match instructions.reference(start + 1) {
                    Reference::Variable(id)
                        if instructions.is_kernel() && instructions.is_parameter(id) =>
                    {
                        Origin::Parameter(id)
                    }
                    _ => Origin::Several,
                }
            }
            Opcode::Ld | Opcode::Ldu | Opcode::Atom | Opcode::Call | Opcode::Shfl => {
                Origin::Several
            }
            // A masked address is still an address.
            _ => sum(),
        })
    }
}
