//! The start of a kernel's function: what does not change while it runs, and the variables of its
//! registers.

use std::collections::{HashMap, HashSet};

use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Value, types};
use cranelift_frontend::FunctionBuilder;

use super::emitter::{
    Emitter, Invariants, READONLY, SharedSize, SlowCheck, ThreadVariables, ValueLocation, type_of,
};
use super::first_code::FirstCode;
use super::host::HostIsa;
use super::lane_set::{LaneSet, lanes_per_vector, vector_type};
use super::machine_code::Encoded;
use super::recent_constants::RecentConstants;
use super::resume::ResumePlan;
use super::{prefetch, streaming, variables};
use crate::abi::offset;
use crate::program::{Program, Reg, RegClass, Uniformity, UniformityInfo, pointers};

/// Starts the function and emits the invariants.
pub(super) fn prologue<'e, 'a>(
    program: &'e Program<'a>,
    host: &HostIsa,
    mut b: FunctionBuilder<'e>,
    (uniformity, is_first): (Option<&UniformityInfo>, bool),
    plan: &ResumePlan,
) -> Emitter<'e, 'a> {
    let width = uniformity.map_or(1, |uniformity| uniformity.group.width());
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let context = b.block_params(entry)[0];
    let first_code = match is_first {
        true => first_code(host, &mut b),
        false => None,
    };
    let (shared, slow_check) = match first_code {
        Some(_) => (None, None),
        None => (
            Some(shared_size(&mut b, context, width)),
            slow_check(host, &mut b, context),
        ),
    };
    let fixed = Invariants { context, shared };
    let thread = ThreadVariables {
        index: b.declare_var(types::I32),
        tid: [(); 3].map(|()| b.declare_var(types::I32)),
    };
    let shared = match width {
        1 => variables::declare(program, &plan.liveness, &plan.local, &mut b),
        _ => Vec::new(),
    };
    let facts = uniformity;
    let locations = program.registers.iter().enumerate().map(|(i, &class)| {
        let uniformity = uniformity.map_or(Uniformity::Uniform, |uniformity| {
            uniformity.of(Reg(i as u32))
        });
        let variables = if width == 1 {
            shared[i].into_iter().collect()
        } else if uniformity == Uniformity::Divergent {
            let piece = vector_type(class);
            (0..width / lanes_per_vector(class))
                .map(|_| b.declare_var(piece))
                .collect()
        } else {
            vec![b.declare_var(type_of(class))]
        };
        ValueLocation {
            uniformity,
            variables,
            value: None,
            lane_bits: facts.and_then(|facts| facts.lane_bits(Reg(i as u32))),
            first_lane: match class {
                RegClass::I32 | RegClass::I64 => {
                    facts.and_then(|facts| facts.first_lane(Reg(i as u32)))
                }
                _ => None,
            },
        }
    });
    let locations = locations.collect();
    let pointers = match width {
        1 => Vec::new(),
        _ => pointers(program),
    };
    let next_thread = b.create_block();
    let fail = b.create_block();
    b.set_cold_block(fail);
    Emitter {
        program,
        b,
        locations,
        width,
        lane_set: LaneSet::Scalar,
        fixed,
        thread,
        next_thread,
        fail,
        convention: host.isa.default_call_conv(),
        slow_check,
        first_code,
        recent_constants: RecentConstants::default(),
        has_fma: host.has_fma,
        has_wide_vectors: host.has_wide_vectors,
        has_512: host.has_512,
        streamed: match host.has_wide_vectors && width > 1 {
            true => streaming::stores(program, &pointers),
            false => HashSet::new(),
        },
        prefetched: match host.has_wide_vectors && width > 1 {
            true => prefetch::loads(program),
            false => HashMap::new(),
        },
        encoded: Encoded::default(),
        has_rounding: host.has_rounding,
        has_wide_atomics: host.has_wide_atomics,
        is_sanitized: host.is_sanitized,
        has_gpu_nans: host.has_gpu_nans,
        line: 0,
        guard: None,
        lane_writes: Vec::new(),
        texture_slot: None,
        shuffle_slot: None,
        lane_slots: Vec::new(),
        divergent_regions: HashMap::new(),
        copy_slot: None,
        window_slot: None,
        splats: Vec::new(),
        in_bounds: Vec::new(),
        group_slots: None,
        global_bytes: HashSet::new(),
        iteration: 0,
        straight_predecessors: match width {
            1 => Vec::new(),
            _ => program.straight_predecessors(),
        },
        pointers,
        group_checked: None,
        arrival: None,
        group_loops: None,
    }
}

fn first_code(host: &HostIsa, b: &mut FunctionBuilder<'_>) -> Option<FirstCode> {
    Some(FirstCode::new(host.thunks.checks()?, b))
}

fn shared_size(b: &mut FunctionBuilder<'_>, context: Value, width: u32) -> SharedSize {
    let size = b
        .ins()
        .load(types::I64, READONLY, context, offset::SHARED_SIZE);
    let units = [0, 1, 2, 3, 4].map(|shift| {
        let shift = b.ins().iconst(types::I32, shift);
        b.ins().ushr(size, shift)
    });
    let starts = [units[2], units[3]].map(|units| {
        if width == 1 {
            return units;
        }
        // 0 if shared memory is smaller than one such access.
        let starts = b.ins().iadd_imm_s(units, 1 - i64::from(width));
        let zero = b.ins().iconst(types::I64, 0);
        b.ins().smax(starts, zero)
    });
    SharedSize { units, starts }
}

fn slow_check(host: &HostIsa, b: &mut FunctionBuilder<'_>, context: Value) -> Option<SlowCheck> {
    let thunk = host.thunks.declare_slow_check(b)?;
    let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, 8, 3);
    let slot = b.create_sized_stack_slot(slot);
    b.ins().stack_store(types::I64, context, slot, 0);
    Some(SlowCheck {
        thunk,
        context: slot,
    })
}
