//! What addresses are made of: the variable, parameter or conversion that a
//! pointer comes from, through arithmetic and loops.

use super::code::Code;
use super::graph::Graph;
use super::names::{Reference, VariableId};
use super::values::{ValueId, Values};
use ptx::ast::{Mnemonic, Operand, Space};
use ptx::names::{Modifier, Opcode};

/// Where a pointer comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Nothing that is known to be an address.
    #[default]
    Number,
    /// The address of a variable in its own state space.
    Variable(VariableId),
    /// What a parameter of a kernel holds, as the host gave it.
    Parameter(VariableId),
    /// A generic address that `cvta` made of one of this space; of which variable.
    Generic(Space, Option<VariableId>),
    /// An address that `cvta.to` made of a generic one.
    Converted(Space),
    /// One of several of these, or what could not be followed.
    Several,
}

impl Origin {
    /// Of a sum, or where two ways meet.
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

/// Origins settle after few rounds: each only ever goes up.
const ROUNDS: usize = 8;

impl Origins {
    pub(crate) fn new(
        code: &Code<'_, '_>,
        graph: &Graph,
        values: &Values,
        mnemonics: &[Mnemonic<'_>],
    ) -> Origins {
        let mut origins = Origins {
            of: vec![Origin::Number; values.definitions.len()],
        };
        let joined = values.joined(graph);
        for _ in 0..ROUNDS {
            let mut next = joined.iter().peekable();
            for block in &graph.order {
                while let Some((_, value)) = next.next_if(|(home, _)| home == block) {
                    let origin = origins.met(values, graph, *value);
                    origins.set(*value, origin);
                }
                for id in graph.blocks[block.index()].steps() {
                    let step = &code.steps[id.index()];
                    let Some(mnemonic) = mnemonics.get(step.mnemonic as usize) else {
                        continue;
                    };
                    let Some(mut origin) = origins.result(code, values, mnemonic, id) else {
                        continue;
                    };
                    for (_, written) in values.writes(code, step) {
                        if let Some(prior) = values.prior(written) {
                            origin = origin.join(origins.of(prior));
                        }
                        origins.set(written, origin);
                    }
                }
            }
            // All else follows from what meets, in the order of the graph.
            let settled = |value| origins.met(values, graph, value) == origins.of(value);
            if joined.iter().all(|(_, value)| settled(*value)) {
                return origins;
            }
        }
        // What has not settled is not known.
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
        let parts = values.parts(graph, value).iter();
        parts.fold(Origin::Number, |sum, part| sum.join(self.of(*part)))
    }

    /// Where a value comes from.
    pub fn of(&self, value: ValueId) -> Origin {
        self.of.get(value.index()).copied().unwrap_or_default()
    }

    /// Where the address or number in this operand comes from.
    pub fn of_operand(&self, code: &Code<'_, '_>, values: &Values, place: usize) -> Origin {
        match code.reference(place) {
            Reference::Register(_) => self.of(values.of_operand(place)),
            Reference::Variable(id) => Origin::Variable(id),
            Reference::Nothing => Origin::Number,
        }
    }

    fn result(
        &self,
        code: &Code<'_, '_>,
        values: &Values,
        mnemonic: &Mnemonic<'_>,
        id: super::InstructionId,
    ) -> Option<Origin> {
        let instruction = code.instruction(id)?;
        let first = instruction.operands.start as usize;
        let of = |number: usize| self.of_operand(code, values, first + number);
        let modifiers = &mnemonic.modifiers;
        Some(match mnemonic.opcode {
            Opcode::Mov => match code.body.operands.get(first + 1) {
                Some(Operand::Vector(..)) | None => return None,
                Some(_) => of(1),
            },
            // An offset that is widened is none.
            Opcode::Cvt => match of(1) {
                Origin::Parameter(_) | Origin::Several => Origin::Number,
                known => known,
            },
            Opcode::Add | Opcode::Sub | Opcode::Or | Opcode::Min | Opcode::Max => of(1).join(of(2)),
            // What is masked is an address still, if it was one.
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
                match code.reference(first + 1) {
                    Reference::Variable(id) if code.is_kernel() && code.is_parameter(id) => {
                        Origin::Parameter(id)
                    }
                    _ => Origin::Several,
                }
            }
            // What these give may be a pointer.
            Opcode::Ld | Opcode::Ldu | Opcode::Atom | Opcode::Call | Opcode::Shfl => {
                Origin::Several
            }
            _ => return None,
        })
    }
}
