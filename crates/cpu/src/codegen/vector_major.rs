//! Steps that a lane group executes vector by vector: the first lanes load, compute and store before
//! the next ones load. Fewer values are live, and what the accesses of different steps have in flight
//! are neighbouring lines of each array rather than all lines of one.
//!
//! Lanes are threads of their own: nothing orders what one stores before what another loads.

use super::emitter::Emitter;
use super::lane_group::{self, contiguous_address, contiguous_vector};
use super::lane_set::{LaneSet, vectors};
use super::vectorize::{Lowering, has_effect, is_narrow, lowering};
use crate::program::{Arg, Instruction, LoweringError, Reg, RegClass, Step};
use ptx::isa::Effect;
use ptx::names::Opcode as O;

/// How a step is emitted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Once.
    Scalar,
    /// For each vector.
    Lanes,
    /// For each vector, with an address that is checked once.
    Access,
}

/// Such steps.
pub(super) struct VectorMajor<'s>(Vec<(&'s Instruction, Kind)>);

impl<'s> VectorMajor<'s> {
    /// The longest run that these steps start with, from its first access on, if it pays.
    pub fn of(e: &Emitter<'_, '_>, steps: &[&'s Step]) -> Option<VectorMajor<'s>> {
        if e.width == 1 || e.is_sanitized {
            return None;
        }
        let mut run: Vec<(&Instruction, Kind)> = Vec::new();
        // The registers that the lanes read.
        let mut read: Vec<Reg> = Vec::new();
        let mut has_stored = false;
        for step in steps {
            let Step::Instruction(i) = step else { break };
            let Some(kind) = kind(e, step, i) else { break };
            if run.is_empty() && kind != Kind::Access {
                return None;
            }
            if kind == Kind::Scalar {
                let mut is_read = false;
                e.program
                    .effects(i, &mut |_| {}, &mut |reg| is_read |= read.contains(&reg));
                // The next vectors would read what it writes, and it would load what they have not
                // stored.
                if is_read || has_stored && i.meaning.effect != Effect::Pure {
                    break;
                }
            } else {
                e.program.effects(i, &mut |reg| read.push(reg), &mut |_| {});
            }
            has_stored |= i.opcode == O::St;
            run.push((i, kind));
        }
        let accesses = run.iter().filter(|(_, kind)| *kind == Kind::Access);
        let lanes = run.iter().filter(|(_, kind)| *kind == Kind::Lanes);
        (accesses.count() > 1 && lanes.count() > 0).then_some(VectorMajor(run))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn emit(&self, e: &mut Emitter<'_, '_>, errors: &mut Vec<LoweringError>) {
        let mut checked = Vec::new();
        for (number, lane) in vectors(e.width, RegClass::I32).enumerate() {
            let mut addresses = checked.clone().into_iter();
            for (i, kind) in &self.0 {
                e.splats.clear();
                e.line = i.line;
                let emitted = match kind {
                    Kind::Scalar if number > 0 => Ok(()),
                    Kind::Scalar => lane_group::step(e, &Step::Instruction(**i)),
                    Kind::Lanes => {
                        e.lane_set = lane;
                        e.instruction(i)
                    }
                    Kind::Access => {
                        e.lane_set = LaneSet::Scalar;
                        e.set_guard(None);
                        let address = match addresses.next() {
                            Some(address) => Ok(address),
                            None => {
                                let address = contiguous_address(e, i, e.width);
                                checked.extend(address.iter().copied());
                                address
                            }
                        };
                        address.and_then(|address| contiguous_vector(e, i, address, lane))
                    }
                };
                errors.extend(emitted.err().map(|error| error.at(i)));
            }
            if !errors.is_empty() {
                break;
            }
        }
        e.lane_set = LaneSet::Scalar;
        e.set_guard(None);
    }
}

fn kind(e: &Emitter<'_, '_>, step: &Step, i: &Instruction) -> Option<Kind> {
    let locations = &e.locations;
    let uniformity_of = |reg: Reg| locations[reg.index()].uniformity;
    match lowering(e.program, &uniformity_of, step, e.has_fma) {
        Lowering::Uniform if !has_effect(step) => Some(Kind::Scalar),
        Lowering::Widened if i.opcode != O::Ex2 && is_narrow(e.program, i) => Some(Kind::Lanes),
        Lowering::Contiguous => is_word_access(e, i).then_some(Kind::Access),
        _ => None,
    }
}

/// Whether each lane loads or stores 4 bytes.
pub(super) fn is_word_access(e: &Emitter<'_, '_>, i: &Instruction) -> bool {
    let value = match (i.opcode, e.program.list(i.args)) {
        (O::Ld, &[value, _]) | (O::St, &[_, value]) => value,
        _ => return false,
    };
    let Arg::Reg(reg) = value else { return false };
    let is_word = i.modifiers.types().next().is_some_and(|ty| ty.bytes() == 4);
    is_word
        && matches!(
            e.program.registers[reg.index()],
            RegClass::I32 | RegClass::F32
        )
}
