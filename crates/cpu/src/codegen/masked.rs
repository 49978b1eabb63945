//! Branches that part a lane group for a few instructions: `if (lane == 0) sums[warp] = sum;`.
//!
//! Where the threads of a group diverge at such a branch, the vector function executes the arms
//! one after the other, each for its lanes alone, and the group goes on as a whole. Elsewhere the
//! scalar function would run its threads from there to the end.

use cranelift_codegen::ir::{Block, InstBuilder, Value, types};

use super::clamped_load::ClampedLoad;
use super::divergent_region;
use super::emitter::{EmitResult, Emitter, ValueLocation};
use super::ends::at_ends;
use super::lane_group;
use super::lane_register::LaneRegister;
use super::lane_set::{LaneSet, vectors};
use super::masked_branch::{MaskedBranch, is_access};
use super::region_entrance::LaneLoop;
use super::resume::ResumePlan;
use super::slots::save;
use super::vectorize::{Lowering, lowering};
use super::window::Window;
use crate::program::{
    Arg, BlockId, Guard, Instruction, Program, Reg, RegClass, Step, Terminator, Uniformity,
};
use ptx::names::Opcode as O;

/// A branch on a divergent predicate.
pub(super) fn branch(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    predicate: Reg,
    (yes, no): (BlockId, BlockId),
    (block, blocks): (BlockId, &[Block]),
) -> EmitResult<()> {
    e.splats.clear();
    let masks = masks(e, predicate);
    if let Some(bits) = e.constant_ballot(&masks) {
        return at_constant(e, plan, (predicate, bits), (yes, no), (block, blocks));
    }
    if let Some(ends) = at_ends(e, block, predicate) {
        let parts = e.b.create_block();
        e.b.set_cold_block(parts);
        if let Some(same) = ends.same {
            let together = e.b.create_block();
            e.b.ins().brif(same, together, &[], parts, &[]);
            e.enter(together);
        }
        e.b.ins().brif(
            ends.first,
            blocks[yes.index()],
            &[],
            blocks[no.index()],
            &[],
        );
        e.enter(parts);
    }
    let (mut all, mut any): (Option<Value>, Option<Value>) = (None, None);
    for &mask in &masks {
        all = Some(all.map_or(mask, |all| e.b.ins().band(all, mask)));
        any = Some(any.map_or(mask, |any| e.b.ins().bor(any, mask)));
    }
    let (Some(all), Some(any)) = (all, any) else {
        return Ok(());
    };
    let some = e.b.create_block();
    let diverged = e.b.create_block();
    e.b.set_cold_block(diverged);
    let all = e.b.ins().vall_true(all);
    e.b.ins().brif(all, blocks[yes.index()], &[], some, &[]);
    e.enter(some);
    let any = e.b.ins().vany_true(any);
    e.b.ins().brif(any, diverged, &[], blocks[no.index()], &[]);

    e.enter(diverged);
    if let Some(masked) = &plan.masked[block.index()] {
        let bits = Lanes::Mask(e.ballot(&masks));
        return emit(e, plan, masked, (predicate, bits), (yes, no), blocks);
    }
    if let Some(region) = plan.regions.behind(block) {
        let bits = e.ballot(&masks);
        return divergent_region::emit(e, plan, region, (block, bits), (yes, no), blocks);
    }
    lane_group::part(e, plan, predicate, (yes, no));
    Ok(())
}

/// The vectors of a predicate.
fn masks(e: &mut Emitter<'_, '_>, predicate: Reg) -> Vec<Value> {
    let mut masks = Vec::new();
    for lane in vectors(e.width, RegClass::Pred) {
        e.lane_set = lane;
        masks.push(e.register(predicate));
    }
    e.lane_set = LaneSet::Scalar;
    masks
}

/// A branch whose lanes are known: `lane == 0` in a group of a whole warp.
fn at_constant(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    (predicate, bits): (Reg, u32),
    (yes, no): (BlockId, BlockId),
    (block, blocks): (BlockId, &[Block]),
) -> EmitResult<()> {
    let all = u32::MAX >> (u32::BITS - e.width);
    let same = match bits {
        0 => Some(no),
        bits if bits == all => Some(yes),
        _ => None,
    };
    match (same, &plan.masked[block.index()]) {
        (Some(next), _) => {
            e.b.ins().jump(blocks[next.index()], &[]);
        }
        (None, Some(masked)) => {
            let bits = Lanes::Known(bits);
            return emit(e, plan, masked, (predicate, bits), (yes, no), blocks);
        }
        (None, None) => match plan.regions.behind(block) {
            Some(region) => {
                let bits = e.scalar_int(types::I32, bits.into());
                return divergent_region::emit(e, plan, region, (block, bits), (yes, no), blocks);
            }
            None => lane_group::part(e, plan, predicate, (yes, no)),
        },
    }
    Ok(())
}

/// The lanes that execute an arm.
#[derive(Clone, Copy)]
enum Lanes {
    /// One bit each.
    Mask(Value),
    Known(u32),
}

impl Lanes {
    fn not(self, e: &mut Emitter<'_, '_>) -> Lanes {
        match self {
            Lanes::Mask(bits) => Lanes::Mask(e.b.ins().bnot(bits)),
            Lanes::Known(bits) => Lanes::Known(!bits & u32::MAX >> (u32::BITS - e.width)),
        }
    }
}

/// Emits the arms of a branch for a group whose threads diverge at it.
fn emit(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    masked: &MaskedBranch,
    (predicate, bits): (Reg, Lanes),
    (yes, no): (BlockId, BlockId),
    blocks: &[Block],
) -> EmitResult<()> {
    for (start, negated) in [(yes, false), (no, true)] {
        let bits = match negated {
            true => bits.not(e),
            false => bits,
        };
        // Where the other lanes are meanwhile.
        let others = if negated { masked.join } else { no };
        let guard = Guard {
            reg: predicate,
            negated,
        };
        let mut at = start;
        while at != masked.join {
            let block = &e.program.blocks[at.index()];
            lane_group::check(e, plan, at, Some((guard, others)));
            for step in &block.steps {
                masked_step(e, step, guard, bits, &masked.kept)?;
            }
            save(e, plan, &plan.saved[at.index()]);
            let Terminator::Jump(next) = block.terminator else {
                break;
            };
            at = next;
        }
    }
    e.b.ins().jump(blocks[masked.join.index()], &[]);
    Ok(())
}

fn masked_step(
    e: &mut Emitter<'_, '_>,
    step: &Step,
    guard: Guard,
    bits: Lanes,
    kept: &[Reg],
) -> EmitResult<()> {
    let Step::Instruction(i) = step else {
        return lane_group::step(e, step);
    };
    if is_access(e.program, i) {
        let locations = &e.locations;
        let uniformity_of = |reg: Reg| locations[reg.index()].uniformity;
        let lowering = lowering(e.program, &uniformity_of, step, e.has_fma);
        if lowering != Lowering::Uniform {
            return match bits {
                Lanes::Known(bits) if bits.count_ones() <= MAX_KNOWN => known_access(e, i, bits),
                Lanes::Known(bits) if lowering == Lowering::Contiguous && is_start(e, i, bits) => {
                    contiguous_access(e, i, bits.count_ones())
                }
                Lanes::Known(bits) => {
                    let bits = e.scalar_int(types::I32, bits.into());
                    masked_access(e, i, bits, kept)
                }
                Lanes::Mask(bits) => masked_load_or_access(e, i, (guard, bits), kept),
            };
        }
    }
    let mut keeps = false;
    e.program.effects(i, &mut |_| {}, &mut |reg| {
        keeps |= kept.binary_search(&reg).is_ok();
    });
    let mut guarded = *i;
    if keeps {
        guarded.guard = Some(guard);
    }
    lane_group::step(e, &Step::Instruction(guarded))
}

/// A load at one distance from lane to lane loads for all lanes, if all may: those that do not
/// execute it keep their values. Other accesses are made one after the other.
fn masked_load_or_access(
    e: &mut Emitter<'_, '_>,
    i: &Instruction,
    (guard, bits): (Guard, Value),
    kept: &[Reg],
) -> EmitResult<()> {
    let Some((window, to)) = Window::of(e, i) else {
        return masked_access(e, i, bits, kept);
    };
    let [apart, done] = [(); 2].map(|()| e.b.create_block());
    e.b.set_cold_block(apart);
    e.b.set_cold_block(done);
    let mut checked = window.checked_in_part(e, bits, apart);
    let keeps = kept.binary_search(&to).is_ok();
    for lane in vectors(e.width, RegClass::I32) {
        let LaneSet::Vector(number) = lane else { break };
        let value = checked.value(e, number, &window);
        e.splats.clear();
        e.set_guard(keeps.then_some(guard));
        e.set_register(to, value);
    }
    e.set_guard(None);
    e.lane_set = LaneSet::Scalar;
    e.b.ins().jump(done, &[]);
    e.enter(apart);
    masked_access(e, i, bits, kept)?;
    e.b.ins().jump(done, &[]);
    e.enter(done);
    Ok(())
}

/// The most lanes of which each has code of its own.
const MAX_KNOWN: u32 = 2;

/// An access of known lanes, one after the other.
fn known_access(e: &mut Emitter<'_, '_>, i: &Instruction, bits: u32) -> EmitResult<()> {
    for lane in (0..e.width).filter(|lane| bits >> lane & 1 != 0) {
        e.lane_set = LaneSet::Lane(lane);
        e.instruction(i)?;
    }
    e.merge_lane_writes();
    e.lane_set = LaneSet::Scalar;
    e.set_guard(None);
    Ok(())
}

/// Whether the lanes are the first ones, so many that their values fill vectors of an access:
/// `if (lane < warps) sum = sums[lane];`.
fn is_start(e: &Emitter<'_, '_>, i: &Instruction, bits: u32) -> bool {
    let lanes = bits.trailing_ones();
    let bytes = i.modifiers.types().next().map_or(0, |ty| ty.bytes());
    bits.count_ones() == lanes
        && lanes.is_multiple_of(4)
        && lanes < e.width
        && matches!(i.opcode, O::Ld | O::St)
        && matches!(bytes, 4 | 8)
}

/// An access of the first lanes to consecutive addresses.
fn contiguous_access(e: &mut Emitter<'_, '_>, i: &Instruction, lanes: u32) -> EmitResult<()> {
    e.line = i.line;
    e.lane_set = LaneSet::Scalar;
    e.set_guard(None);
    let register = lane_group::contiguous_register(e, i)?;
    let at = lane_group::contiguous_address(e, i, lanes)?;
    e.splats.clear();
    for lane in vectors(lanes, e.program.registers[register.index()]) {
        lane_group::contiguous_vector(e, i, at, lane)?;
    }
    e.lane_set = LaneSet::Scalar;
    Ok(())
}

/// An access of the lanes whose bit is set, one after the other, in a loop over them: its code is
/// as long as that of one lane.
fn masked_access(
    e: &mut Emitter<'_, '_>,
    i: &Instruction,
    bits: Value,
    kept: &[Reg],
) -> EmitResult<()> {
    in_each_lane(e, std::slice::from_ref(i), bits, kept)
}

/// Emits a load at a clamped index lane by lane, in place of what follows from the start of a block
/// on.
pub(super) fn clamped_load(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    load: &ClampedLoad,
    (start, blocks): (BlockId, &[Block]),
) -> EmitResult<()> {
    let all = e.scalar_int(types::I32, u32::MAX.into());
    in_each_lane(e, &load.instructions, all, &[])?;
    let mut at = start;
    while at != load.next {
        save(e, plan, &load.left(&plan.saved[at.index()]));
        let Terminator::Jump(next) = e.program.blocks[at.index()].terminator else {
            break;
        };
        at = next;
    }
    e.b.ins().jump(blocks[load.next.index()], &[]);
    Ok(())
}

/// Emits instructions for the lanes whose bit is set, as [`masked_access`] does one. What the group
/// has in one scalar for all lanes stays as it is.
fn in_each_lane(
    e: &mut Emitter<'_, '_>,
    instructions: &[Instruction],
    bits: Value,
    kept: &[Reg],
) -> EmitResult<()> {
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for i in instructions {
        let is_known = |reg: &Reg| written.contains(reg);
        let mut reads: Vec<Reg> = i.guard.iter().map(|g| g.reg).collect();
        let mut writes = Vec::new();
        let effects = &mut |reg| reads.push(reg);
        e.program.effects(i, effects, &mut |reg| writes.push(reg));
        read.extend(reads.into_iter().filter(|reg| !is_known(reg)));
        written.extend(writes);
    }
    let is_guarded = instructions.iter().any(|i| i.guard.is_some());
    let mut registers = [read.as_slice(), &written].concat();
    registers.sort_unstable();
    registers.dedup();
    let is_kept = |reg: Reg| kept.binary_search(&reg).is_ok();
    e.lane_set = LaneSet::Scalar;
    let lanes: Vec<LaneRegister> = (0..)
        .zip(registers)
        .map(|(number, reg)| {
            let is_written = written.contains(&reg);
            let is_read = read.contains(&reg) || is_kept(reg) || is_guarded;
            LaneRegister::new(e, number, reg, (is_read, is_written))
        })
        .collect();

    let lane_loop = LaneLoop::new(e);
    lane_loop.start(e, bits);
    let reads_tid = instructions.iter().any(|i| reads_special(e.program, i));
    let lane = lane_loop.enter(e, reads_tid);
    let mut locations = Vec::with_capacity(lanes.len());
    for register in &lanes {
        let value = register.read(e, lane.number);
        let of_lane = ValueLocation {
            uniformity: Uniformity::Uniform,
            variables: Vec::new(),
            value: Some(value),
            first_lane: None,
            lane_bits: None,
        };
        let location = &mut e.locations[register.reg.index()];
        locations.push(std::mem::replace(location, of_lane));
    }
    e.splats.clear();
    let emitted = instructions.iter().try_for_each(|i| e.instruction(i));
    e.set_guard(None);
    for (register, location) in lanes.iter().zip(locations) {
        let of_lane = std::mem::replace(&mut e.locations[register.reg.index()], location);
        if let (true, Some(value)) = (register.is_written, of_lane.value) {
            register.write(e, lane.number, value);
        }
    }
    lane_loop.next(e, &lane);
    // What was only read as well: code after the arm that used the values from before it would have
    // them computed a second time, since Cranelift's optimizer puts what the arm stores into it.
    for register in &lanes {
        if register.is_written || is_kept(register.reg) {
            register.reload(e);
        }
    }
    emitted
}

/// Whether an operand is a special register.
fn reads_special(program: &Program<'_>, i: &Instruction) -> bool {
    let is_special = |arg: &Arg| matches!(arg, Arg::Special(_));
    program.list(i.args).iter().any(|arg| match *arg {
        Arg::List(list) => program.list(list).iter().any(is_special),
        _ => is_special(arg),
    })
}
