//! Several lane groups at a time: the emitter emits for one of them, and has what it knows of the
//! others aside.

use cranelift_codegen::ir::types;
use cranelift_frontend::Variable;

use super::checked_address::InBounds;
use super::emitter::{Emitter, ValueLocation, type_of};
use super::lane_set::vector_type;
use super::phase::Phase;
use super::slot_address::Slots;
use crate::program::{Reg, Uniformity};

/// What the emitter has of another group, while it emits for the first.
pub(super) struct Other {
    pub locations: Vec<ValueLocation>,
    pub index: Variable,
    pub in_bounds: Vec<InBounds>,
    pub slots: Option<Slots>,
}

impl Other {
    pub fn new(e: &mut Emitter<'_, '_>, phase: &Phase<'_>) -> Other {
        let mut locations = e.locations.clone();
        for (number, location) in (0..).map(Reg).zip(&mut locations) {
            if !phase.own.contains(number) {
                continue;
            }
            let class = e.program.registers[number.index()];
            let ty = match location.uniformity {
                Uniformity::Divergent => vector_type(class),
                _ => type_of(class),
            };
            let variables = location.variables.iter_mut();
            variables.for_each(|variable| *variable = e.b.declare_var(ty));
        }
        Other {
            locations,
            index: e.b.declare_var(types::I32),
            in_bounds: Vec::new(),
            slots: None,
        }
    }

    /// Emits for the other group.
    pub fn swapped<T>(
        &mut self,
        e: &mut Emitter<'_, '_>,
        emit: impl FnOnce(&mut Emitter<'_, '_>) -> T,
    ) -> T {
        self.swap(e);
        let result = emit(e);
        self.swap(e);
        result
    }

    fn swap(&mut self, e: &mut Emitter<'_, '_>) {
        std::mem::swap(&mut e.locations, &mut self.locations);
        std::mem::swap(&mut e.thread.index, &mut self.index);
        std::mem::swap(&mut e.in_bounds, &mut self.in_bounds);
        std::mem::swap(&mut e.group_slots, &mut self.slots);
        e.splats.clear();
    }
}

/// Emits the same for each group.
pub(super) fn each_group(
    e: &mut Emitter<'_, '_>,
    others: &mut [Other],
    mut emit: impl FnMut(&mut Emitter<'_, '_>),
) {
    emit(e);
    for other in others {
        other.swapped(e, &mut emit);
    }
}
