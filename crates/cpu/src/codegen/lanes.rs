//! Vector code, which has a thread in each lane ([`simd`](crate::simd)), and the scalar function beside it, for
//! threads that do not fill a group.

use super::compiler_contexts::CompilerContexts;
use super::emitter::machine_code::MachineCode;
use super::function::compile_scalar;
use super::function::resume::{ResumePlan, rematerialize};
use super::host::HostIsa;
use super::kernel_code::{KernelCode, VectorCode};
use crate::abi::{SyncKind, SyncPoint, WARP_SIZE};
use crate::matrix::Operation;
use crate::program::Program;
use crate::simd::{self, Isa, ResumePlace, Suspension};

/// Compiles a kernel to vector code, if each of its instructions has a lowering.
pub(super) fn compile(
    program: &Program<'_>,
    host: &HostIsa,
    isa: Isa,
    contexts: &mut CompilerContexts,
) -> Option<KernelCode> {
    #[cfg(test)]
    let isa = simd::IN_TESTS.get().map_or(isa, |wanted| wanted.min(isa));
    let mut program = program.clone();
    rematerialize(&mut program);
    let program = &program;
    let plan = ResumePlan::new(program).ok()?;
    let width = width(&plan);
    let compiled = simd::compile(program, &suspension(&plan, width), width as usize, isa);
    let compiled = compiled.inspect_err(|reason| {
        tracing::debug!(kernel = program.name, reason, "not compiled to vector code");
    });
    let compiled = compiled.ok()?;
    let machine_code = MachineCode {
        bytes: compiled.bytes,
        thunk_calls: Vec::new(),
        feature: Some(isa.feature()),
    };
    // Few threads run it, so it is compiled fast.
    let scalar = compile_scalar(program, host, contexts, (&host.quick, false), &plan).ok()?;
    let vector = VectorCode {
        machine_code,
        width,
        packed_bytes: compiled.packed_bytes,
    };
    Some(plan.code(scalar, Some(vector)))
}

/// The threads in a group: a warp, if its lanes exchange values.
fn width(plan: &ResumePlan) -> u32 {
    let of_warp = |point: &SyncPoint| {
        !matches!(
            point.kind,
            SyncKind::Barrier
                | SyncKind::BarrierArrive
                | SyncKind::BarrierPopc
                | SyncKind::BarrierAnd
                | SyncKind::BarrierOr
                | SyncKind::Matrix
                | SyncKind::Yield
        )
    };
    if plan.sync_points.iter().any(of_warp) {
        WARP_SIZE
    } else {
        WARP_SIZE / 2
    }
}

/// The resume points, as vector code needs them. Groups that are warps pass some of them without saving
/// registers, so they save all live registers at the others.
fn suspension(plan: &ResumePlan, width: u32) -> Suspension {
    let passes = width == WARP_SIZE;
    let places = plan.resume_points.iter().zip(&plan.sync_points);
    let places = places.map(|(point, sync)| ResumePlace {
        next: point.next,
        live: point.live.clone(),
        dirty: if passes { &point.live } else { &point.dirty }.clone(),
        reload: if passes { &point.live } else { &point.reload }.clone(),
        distance: sync
            .matrix
            .and_then(|number| plan.matrices.get(number as usize))
            .map_or(0, Operation::default_distance),
        is_block_barrier: sync.kind == SyncKind::Barrier
            && sync.barrier.is_some_and(|[_, threads]| threads == 0),
    });
    Suspension {
        places: places.collect(),
        sync_at: plan.sync_at.clone(),
        slots: plan.slots.clone(),
        slot_count: plan.slot_count,
    }
}
