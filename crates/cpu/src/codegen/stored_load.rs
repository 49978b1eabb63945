//! Loads from shared memory, lane by lane, of what the next step stores to global memory side by
//! side: a column of a tile becomes a part of a row.
//!
//! Each vector is stored before the lanes of the next one are loaded. Otherwise all lanes would be
//! loaded first, which are more values than there are vector registers.

use cranelift_codegen::ir::{Block, InstBuilder};

use super::checked_address::CheckedAddress;
use super::emitter::{EmitResult, Emitter, type_of};
use super::group_checked::{Addresses, GroupChecked};
use super::lane_set::{LaneSet, vector_type};
use super::memory::{Space, space_of};
use super::strided_load::is_plain;
use super::vectorize::{Lowering, lowering};
use super::{group_check, lane_group, streaming, wide, wide_call};
use crate::program::{Arg, Base, Instruction, Reg, RegClass, Step, Terminator, Uniformity};
use ptx::names::{Modifier as M, Opcode as O};

/// Lanes at a smaller distance, in bytes, are loaded in vectors that are taken apart.
const MIN_STRIDE: u64 = 12;

/// A load and the store of what it loads.
pub(super) struct StoredLoad<'s> {
    load: &'s Instruction,
    store: &'s Instruction,
    reg: Reg,
}

/// The two steps that these start with, if they are such ones.
pub(super) fn find<'s>(e: &Emitter<'_, '_>, steps: &[&'s Step]) -> Option<StoredLoad<'s>> {
    let &[Step::Instruction(load), Step::Instruction(store), ..] = steps else {
        return None;
    };
    let &[Arg::Reg(reg), Arg::Address(Base::Reg(from), _)] = e.program.list(load.args) else {
        return None;
    };
    let &[_, Arg::Reg(stored)] = e.program.list(store.args) else {
        return None;
    };
    let uniformity_of = |reg: Reg| e.locations[reg.index()].uniformity;
    let is_far = match uniformity_of(from) {
        Uniformity::Affine(stride) => stride.unsigned_abs() >= MIN_STRIDE,
        _ => false,
    };
    let is_word = |i: &Instruction| i.modifiers.types().next().is_some_and(|ty| ty.bytes() == 4);
    // A store to global memory changes nothing that the lanes load.
    let is_stored = store.opcode == O::St
        && stored == reg
        && store.guard.is_none()
        && store.modifiers.has(M::Global)
        && lowering(e.program, &uniformity_of, steps[1], e.has_fma) == Lowering::Contiguous;
    let is_known = is_far
        && is_stored
        && is_plain(e, load)
        && space_of(load) == Space::Shared
        && !load.modifiers.has(M::SharedCluster)
        && is_word(load)
        && is_word(store)
        && uniformity_of(reg) == Uniformity::Divergent
        && matches!(
            e.program.registers[reg.index()],
            RegClass::I32 | RegClass::F32
        );
    is_known.then_some(StoredLoad { load, store, reg })
}

impl StoredLoad<'_> {
    /// Emits both, if all lanes of the load can be checked at once.
    pub fn emit(&self, e: &mut Emitter<'_, '_>) -> EmitResult<bool> {
        e.line = self.load.line;
        e.splats.clear();
        group_check::emit(e, self.load)?;
        let Some(checked) = e.group_checked.take() else {
            return Ok(false);
        };
        e.line = self.store.line;
        e.lane_set = LaneSet::Scalar;
        e.set_guard(None);
        let to = lane_group::contiguous_address(e, self.store, e.width)?;
        let done = e.b.create_block();
        self.stream(e, &checked, to, done);
        let class = e.program.registers[self.reg.index()];
        for n in 0..e.width / 4 {
            let mut words = None;
            for lane in 0..4 {
                e.lane_set = LaneSet::Lane(4 * n + lane);
                let Some(at) = checked.at(e, self.load) else {
                    return e.unsupported(self.load, "unsupported operand");
                };
                let ty = type_of(class);
                let word = e.b.ins().load(ty, at.load_flags(), at.address, at.offset);
                words = Some(match words {
                    None => e.b.ins().splat(vector_type(class), word),
                    Some(words) => e.b.ins().insertlane(words, word, lane as u8),
                });
            }
            let Some(words) = words else { continue };
            e.lane_set = LaneSet::Vector(n);
            e.set_register(self.reg, words);
            lane_group::contiguous_vector(e, self.store, to, LaneSet::Vector(n))?;
        }
        e.lane_set = LaneSet::Scalar;
        e.b.ins().jump(done, &[]);
        e.enter(done);
        Ok(true)
    }

    /// Has a function do both where the store goes past the caches. Nothing else may read the register
    /// then.
    fn stream(
        &self,
        e: &mut Emitter<'_, '_>,
        checked: &GroupChecked,
        to: CheckedAddress,
        done: Block,
    ) {
        let Addresses::Strided(from, distance) = checked.addresses else {
            return;
        };
        let distance = i32::try_from(distance).ok();
        let Some(code) = distance.and_then(|distance| wide::copy_column(distance, e.width)) else {
            return;
        };
        let is_line = u64::from(4 * e.width) >= streaming::LINE;
        if !is_line || !e.may_stream(self.store) || !self.is_read_once(e) {
            return;
        }
        let cached = e.b.create_block();
        let to = e.add_offset(to.address, to.offset.into());
        streaming::require(e, [(self.store, to)], cached);
        wide_call::call_function(e, code, &[from, to]);
        e.b.ins().jump(done, &[]);
        e.enter(cached);
    }

    fn is_read_once(&self, e: &Emitter<'_, '_>) -> bool {
        let mut reads = 0;
        let mut note = |reg: Reg| reads += usize::from(reg == self.reg);
        for block in &e.program.blocks {
            for step in &block.steps {
                e.program.step_effects(step, &mut note, &mut |_| {});
            }
            match &block.terminator {
                Terminator::Sync { instruction, .. } => {
                    e.program.effects(instruction, &mut note, &mut |_| {});
                }
                Terminator::Fault {
                    address: Some(reg), ..
                } => note(*reg),
                Terminator::Table {
                    index: Arg::Reg(reg),
                    ..
                } => note(*reg),
                _ => {}
            }
        }
        reads == 1
    }
}
