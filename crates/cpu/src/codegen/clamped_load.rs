//! Loads at indices that a minimum or maximum keeps in a row.
//!
//! In most lane groups the clamp changes nothing, and the load is of consecutive values. The groups
//! at the ends of a row compute the address and load lane by lane, and go on together behind it.

use super::memory::{Space, space_of};
use super::vectorize::{Lowering, lowering};
use crate::program::{
    Arg, BlockId, Instruction, Liveness, Program, Reg, Step, Uniformity, UniformityInfo,
};
use ptx::isa::Effect;
use ptx::names::Opcode as O;

/// The most steps from the clamp to the load.
const MAX_STEPS: usize = 8;

/// From a clamp to a load.
#[derive(Clone)]
pub(super) struct ClampedLoad {
    /// Those that compute the address, and the load.
    pub instructions: Vec<Instruction>,
    /// The registers that are written on the way to the load. Where a lane's index was clamped, the
    /// group does not have its value.
    computed: Vec<Reg>,
    /// The block behind the load.
    pub next: BlockId,
}

impl ClampedLoad {
    pub fn ends_with(&self, i: &Instruction) -> bool {
        let last = self.instructions.last();
        last.is_some_and(|last| last.args.start == i.args.start)
    }

    /// Those of the registers that the group has behind the load.
    pub fn left(&self, registers: &[Reg]) -> Vec<Reg> {
        let is_left = |reg: &Reg| !self.computed.contains(reg);
        registers.iter().copied().filter(is_left).collect()
    }
}

/// The load that steps which start with a clamp lead to, if they do nothing else.
pub(super) fn find(
    program: &Program<'_>,
    uniformity: &UniformityInfo,
    steps: &[Step],
    has_fma: bool,
) -> Option<ClampedLoad> {
    let mut load = ClampedLoad {
        instructions: Vec::new(),
        computed: Vec::new(),
        next: BlockId(0),
    };
    for step in steps.iter().take(MAX_STEPS) {
        let &Step::Instruction(i) = step else {
            return None;
        };
        let (mut read, mut written) = (Vec::new(), Vec::new());
        program.effects(&i, &mut |reg| read.push(reg), &mut |reg| written.push(reg));
        let follows =
            load.instructions.is_empty() || read.iter().any(|r| load.computed.contains(r));
        // The loop over lanes has the special registers of the first one.
        let has_special = |arg: &Arg| matches!(arg, Arg::Special(_) | Arg::List(_));
        if !follows || i.guard.is_some() || program.list(i.args).iter().any(has_special) {
            return None;
        }
        load.instructions.push(i);
        match lowering(program, &|reg| uniformity.of(reg), step, has_fma) {
            Lowering::Contiguous if i.opcode == O::Ld && space_of(&i) == Space::Generic => {
                return Some(load);
            }
            Lowering::Uniform if i.meaning.effect == Effect::Pure => {}
            _ => return None,
        }
        let is_affine = |reg: &Reg| matches!(uniformity.of(*reg), Uniformity::Affine(_));
        if !written.iter().all(is_affine) {
            return None;
        }
        load.computed.extend(written);
    }
    None
}

/// Keeps the loads behind which nothing reads what was computed on the way.
pub(super) fn retain(program: &Program<'_>, loads: &mut [Option<ClampedLoad>]) {
    if loads.iter().all(Option::is_none) {
        return;
    }
    let liveness = Liveness::new(program);
    for place in loads {
        let is_read = |load: &ClampedLoad| {
            let live = liveness.live_in(load.next);
            let mut computed = load.computed.iter();
            computed.any(|reg| live.binary_search(reg).is_ok())
        };
        if place.as_ref().is_some_and(is_read) {
            *place = None;
        }
    }
}
