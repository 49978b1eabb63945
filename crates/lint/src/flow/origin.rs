//! Provenance of addresses: the variable, parameter or conversion that a pointer
//! is derived from, through arithmetic and loops.

use super::graph::Graph;
use super::instructions::Instructions;
use super::names::{Reference, VariableId};
use super::values::{ValueId, Values};
use ptx::ast::{Mnemonic, Operand, Space};
use ptx::names::{Modifier, Opcode};

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

/// The origin of each value.
#[derive(Debug)]
pub struct Origins {
    of: Vec<Origin>,
}

/// Whether the result of an instruction may be an address.
const fn carries(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::Mov
            | Opcode::Cvt
            | Opcode::Add
            | Opcode::Sub
            | Opcode::Or
            | Opcode::Min
            | Opcode::Max
            | Opcode::And
            | Opcode::Selp
            | Opcode::Mad
            | Opcode::Cvta
            | Opcode::Ld
            | Opcode::Ldu
            | Opcode::Atom
            | Opcode::Call
            | Opcode::Shfl
    )
}

/// The analysis converges after few rounds: origins only move up the lattice.
const ROUNDS: usize = 8;

impl Origins {
    pub(crate) fn new(
        instructions: &Instructions<'_, '_>,
        graph: &Graph,
        values: &Values,
        mnemonics: &[Mnemonic<'_>],
    ) -> Origins {
        let mut origins = Origins {
            of: vec![Origin::Number; values.definitions.len()],
        };
        let phis = values.phis(graph);
        for _ in 0..ROUNDS {
            let mut next = phis.iter().peekable();
            for block in &graph.order {
                while let Some((_, value)) = next.next_if(|(home, _)| home == block) {
                    let origin = origins.met(values, graph, *value);
                    origins.set(*value, origin);
                }
                for id in graph.blocks[block.index()].steps() {
                    let step = &instructions.steps[id.index()];
                    let Some(mnemonic) = mnemonics.get(step.mnemonic as usize) else {
                        continue;
                    };
                    if !carries(mnemonic.opcode) {
                        continue;
                    }
                    let Some(mut origin) = origins.result(instructions, values, mnemonic, id)
                    else {
                        continue;
                    };
                    for (_, written) in values.writes(instructions, step) {
                        if let Some(prior) = values.prior(written) {
                            origin = origin.join(origins.of(prior));
                        }
                        origins.set(written, origin);
                    }
                }
            }
            // All else follows from what meets, in the order of the graph.
            let settled = |value| origins.met(values, graph, value) == origins.of(value);
            if phis.iter().all(|(_, value)| settled(*value)) {
                return origins;
            }
        }
        // Without convergence nothing is known.
        origins.of.fill(Origin::Several);
        origins
    }

    fn set(&mut self, value: ValueId, origin: Origin) {
        if let Some(known) = self.of.get_mut(value.index()) {
            *known = origin;
        }
    }

    /// The origin of a joined value, by what meets in it.
    fn met(&self, values: &Values, graph: &Graph, value: ValueId) -> Origin {
        let parts = values.phi_operands(graph, value).iter();
        parts.fold(Origin::Number, |sum, part| sum.join(self.of(*part)))
    }

    /// The origin of a value.
    pub fn of(&self, value: ValueId) -> Origin {
        self.of.get(value.index()).copied().unwrap_or_default()
    }

    /// The origin of the address or number in this operand.
    pub fn of_operand(
        &self,
        instructions: &Instructions<'_, '_>,
        values: &Values,
        place: usize,
    ) -> Origin {
        match instructions.reference(place) {
            Reference::Register(_) => self.of(values.of_operand(place)),
            Reference::Variable(id) => Origin::Variable(id),
            Reference::Nothing => Origin::Number,
        }
    }

    fn result(
        &self,
        instructions: &Instructions<'_, '_>,
        values: &Values,
        mnemonic: &Mnemonic<'_>,
        id: super::InstructionId,
    ) -> Option<Origin> {
        let instruction = instructions.get(id)?;
        let first = instruction.operands.start as usize;
        let of = |number: usize| self.of_operand(instructions, values, first + number);
        let modifiers = &mnemonic.modifiers;
        Some(match mnemonic.opcode {
            Opcode::Mov => match instructions.body.operands.get(first + 1) {
                Some(Operand::Vector(..)) | None => return None,
                Some(_) => of(1),
            },
            // A widened offset is no address. The lower half of a generic address is one
            // in its space on every device that there is.
            Opcode::Cvt => match of(1) {
                Origin::Parameter(_) | Origin::Several | Origin::Generic(..) => Origin::Number,
                known => known,
            },
            Opcode::Add | Opcode::Sub | Opcode::Or | Opcode::Min | Opcode::Max => of(1).join(of(2)),
            // A masked address is still an address.
            Opcode::And => of(1).join(of(2)),
            Opcode::Selp => of(1).join(of(2)),
            Opcode::Mad => of(3),
            Opcode::Cvta => {
                let space = crate::memory::space(modifiers)?;
                let given = of(1);
                if modifiers.has(Modifier::To) {
                    Origin::Converted(space)
                } else {
                    let variable = match given {
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
                match instructions.reference(first + 1) {
                    Reference::Variable(id)
                        if instructions.is_kernel() && instructions.is_parameter(id) =>
                    {
                        Origin::Parameter(id)
                    }
                    _ => Origin::Several,
                }
            }
            // The results of these may be pointers.
            Opcode::Ld | Opcode::Ldu | Opcode::Atom | Opcode::Call | Opcode::Shfl => {
                Origin::Several
            }
            _ => return None,
        })
    }
}
