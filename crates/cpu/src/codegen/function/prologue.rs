//! The start of a kernel's function: what does not change while it runs, and the variables of its
//! registers.

use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Value, types};
use cranelift_frontend::FunctionBuilder;

use super::resume::ResumePlan;
use crate::abi::offset;
use crate::codegen::emitter::first_code::FirstCode;
use crate::codegen::emitter::machine_code::Encoded;
use crate::codegen::emitter::recent_constants::RecentConstants;
use crate::codegen::emitter::variables;
use crate::codegen::emitter::{
    Emitter, Invariants, Location, READONLY, SlowCheck, ThreadVariables,
};
use crate::codegen::host::HostIsa;
use crate::program::Program;

/// Starts the function and emits the invariants.
pub(in crate::codegen) fn prologue<'e, 'a>(
    program: &'e Program<'a>,
    host: &HostIsa,
    mut b: FunctionBuilder<'e>,
    is_first: bool,
    plan: &ResumePlan,
) -> Emitter<'e, 'a> {
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let context = b.block_params(entry)[0];
    let first_code = if is_first {
        first_code(host, &mut b)
    } else {
        None
    };
    let (shared_units, slow_check) = match first_code {
        Some(_) => (None, None),
        None => (
            Some(shared_units(&mut b, context)),
            slow_check(host, &mut b, context),
        ),
    };
    let thread = ThreadVariables {
        index: b.declare_var(types::I32),
        tid: [(); 3].map(|()| b.declare_var(types::I32)),
    };
    let variables = variables::declare(program, &plan.liveness, &plan.local, &mut b);
    let locations = variables.into_iter().map(|variable| Location {
        variable,
        value: None,
    });
    let next_thread = b.create_block();
    let fail = b.create_block();
    b.set_cold_block(fail);
    Emitter {
        program,
        b,
        locations: locations.collect(),
        fixed: Invariants {
            context,
            shared_units,
        },
        thread,
        next_thread,
        fail,
        convention: host.isa.default_call_conv(),
        slow_check,
        first_code,
        recent_constants: RecentConstants::default(),
        has_fma: host.has_fma,
        encoded: Encoded::default(),
        has_rounding: host.has_rounding,
        has_wide_atomics: host.has_wide_atomics,
        is_sanitized: host.is_sanitized,
        has_gpu_nans: host.has_gpu_nans,
        line: 0,
        guard: None,
        texture_slot: None,
    }
}

fn first_code(host: &HostIsa, b: &mut FunctionBuilder<'_>) -> Option<FirstCode> {
    Some(FirstCode::new(host.thunks.checks()?, b))
}

/// The size of shared memory in units of 1, 2, 4, 8 and 16 bytes.
fn shared_units(b: &mut FunctionBuilder<'_>, context: Value) -> [Value; 5] {
    let size = b
        .ins()
        .load(types::I64, READONLY, context, offset::SHARED_SIZE);
    [0, 1, 2, 3, 4].map(|shift| {
        let shift = b.ins().iconst(types::I32, shift);
        b.ins().ushr(size, shift)
    })
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
