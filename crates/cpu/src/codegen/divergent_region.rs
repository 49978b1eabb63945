//! The code of a [region](super::divergent_regions): each lane runs a scalar copy of it, one after the other, and then
//! the group reconverges. Live-in and live-out values of divergent registers are in arrays on the stack.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use cranelift_frontend::Variable;

use super::divergent_regions::{DivergentRegion, RegionRegister};
use super::emitter::{EmitResult, Emitter, ValueLocation, type_of};
use super::lane_loop::cold_block;
use super::lane_register::LaneRegister;
use super::lane_set::LaneSet;
use super::region_entrance::{LaneLoop, RegionEntrance};
use super::resume::ResumePlan;
use super::terminator;
use crate::program::{BlockId, Step, Uniformity};

/// Emits a region for the lanes of a group that diverges at the branch of a block; `bits` has those
/// for which the predicate is true.
pub(super) fn emit(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    region: &DivergentRegion,
    (block, bits): (BlockId, Value),
    (yes, no): (BlockId, BlockId),
    blocks: &[Block],
) -> EmitResult<()> {
    e.lane_set = LaneSet::Scalar;
    e.set_guard(None);
    e.splats.clear();
    // Lanes that go straight to the join have nothing to run.
    let bits = if no == region.join {
        bits
    } else if yes == region.join {
        e.b.ins().bnot(bits)
    } else {
        e.scalar_int(types::I32, u32::MAX.into())
    };
    for (number, register) in shared(region) {
        // Lanes that do not write it keep it.
        LaneRegister::new(e, number, register.reg, (true, register.is_live_out));
    }
    // Copies of the kernel's blocks have joins and registers of their own.
    let copy = (blocks[region.join.index()], e.thread.index.as_u32());
    let known = e.divergent_regions.get(&copy).copied();
    let entrance = known.unwrap_or_else(|| RegionEntrance {
        lanes: LaneLoop::new(e),
        branch: e.b.declare_var(types::I32),
    });
    let branch = region.branches.iter().position(|branch| *branch == block);
    let branch = e.scalar_int(types::I32, branch.unwrap_or_default() as u64);
    e.b.def_var(entrance.branch, branch);
    entrance.lanes.start(e, bits);
    match known {
        Some(_) => Ok(()),
        None => {
            e.divergent_regions.insert(copy, entrance);
            of_lanes(e, plan, region, entrance, blocks)
        }
    }
}

/// The registers whose lanes are on the stack meanwhile, with the numbers of their places.
fn shared(region: &DivergentRegion) -> impl Iterator<Item = (usize, &RegionRegister)> {
    let registers = region.registers.iter();
    registers
        .filter(|register| register.is_live_in || register.is_live_out)
        .enumerate()
}

/// The loop over lanes.
fn of_lanes(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    region: &DivergentRegion,
    entrance: RegionEntrance,
    blocks: &[Block],
) -> EmitResult<()> {
    let lane = entrance.lanes.enter(e, plan.tid[0]);
    let next = cold_block(e);
    let of_lanes: Vec<LaneRegister> = shared(region)
        .map(|(number, register)| {
            let is_written = register.is_live_out;
            LaneRegister::stored(e, number, register.reg, (true, is_written))
        })
        .collect();
    let mut stored = of_lanes.iter().peekable();
    let width = std::mem::replace(&mut e.width, 1);
    let mut locations = Vec::with_capacity(region.registers.len());
    for register in &region.registers {
        let class = e.program.registers[register.reg.index()];
        let of_lanes = stored.next_if(|of_lanes| of_lanes.reg == register.reg);
        let value = match of_lanes {
            Some(of_lanes) if register.is_live_in => of_lanes.read(e, lane.number),
            _ => e.zero(type_of(class)),
        };
        let (variables, value) = match register.is_written {
            true => {
                let variable = e.b.declare_var(type_of(class));
                e.b.def_var(variable, value);
                (vec![variable], None)
            }
            false => (Vec::new(), Some(value)),
        };
        let of_lane = ValueLocation {
            uniformity: Uniformity::Uniform,
            variables,
            value,
            first_lane: None,
            lane_bits: None,
        };
        let location = &mut e.locations[register.reg.index()];
        locations.push(std::mem::replace(location, of_lane));
    }
    let emitted = of_one_lane(e, region, entrance.branch, next);

    e.b.switch_to_block(next);
    let mut results = Vec::new();
    for (register, location) in region.registers.iter().zip(locations) {
        let value = register.is_live_out.then(|| e.register(register.reg));
        results.extend(value);
        e.locations[register.reg.index()] = location;
    }
    e.width = width;
    let written = of_lanes.iter().filter(|of_lanes| of_lanes.is_written);
    for (of_lanes, value) in written.zip(results) {
        of_lanes.write(e, lane.number, value);
    }
    entrance.lanes.next(e, &lane);
    for (number, register) in shared(region) {
        if register.is_live_out {
            LaneRegister::stored(e, number, register.reg, (true, true)).reload(e);
        }
    }
    e.splats.clear();
    e.b.ins().jump(blocks[region.join.index()], &[]);
    emitted
}

/// The scalar copy of a region, from which a lane goes to `next`.
fn of_one_lane(
    e: &mut Emitter<'_, '_>,
    region: &DivergentRegion,
    branch: Variable,
    next: Block,
) -> EmitResult<()> {
    // The lane does not leave the region elsewhere.
    let mut targets = vec![e.fail; e.program.blocks.len()];
    targets[region.join.index()] = next;
    for block in &region.blocks {
        targets[block.index()] = cold_block(e);
    }
    // The lane starts behind the branch at which the group diverged.
    let branch = e.b.use_var(branch);
    for (number, &from) in (0..).zip(&region.branches).skip(1) {
        let [here, other] = [(); 2].map(|()| cold_block(e));
        let starts_here = e.icmp_imm(IntCC::Equal, branch, number);
        e.b.ins().brif(starts_here, here, &[], other, &[]);
        e.b.switch_to_block(here);
        terminator::uniform(e, from, &targets)?;
        e.b.switch_to_block(other);
    }
    if let Some(&first) = region.branches.first() {
        terminator::uniform(e, first, &targets)?;
    }
    for &block in &region.blocks {
        e.b.switch_to_block(targets[block.index()]);
        e.splats.clear();
        for step in &e.program.blocks[block.index()].steps {
            e.step(step).map_err(|error| match step {
                Step::Instruction(i) => error.at(i),
                Step::SystemCall { .. } => error,
            })?;
        }
        e.lane_set = LaneSet::Scalar;
        e.set_guard(None);
        terminator::uniform(e, block, &targets)?;
    }
    Ok(())
}
