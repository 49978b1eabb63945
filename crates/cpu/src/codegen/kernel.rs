//! Compiles a kernel to vector code or to scalar code.

use super::compiler_contexts::CompilerContexts;
use super::function::resume::{ResumePlan, rematerialize};
use super::function::{compile_scalar, emit};
use super::host::HostIsa;
use super::kernel_code::KernelCode;
use super::lanes;
use super::vectorization::Vectorization;
use crate::program::{LoweringError, Program};

/// The instructions of the largest kernel that Cranelift's optimizer gets.
const MAX_OPTIMIZED: usize = 512;

/// Compiles one kernel.
pub(crate) fn compile_kernel(
    program: &mut Program<'_>,
    host: &HostIsa,
    vectorization: Vectorization,
    contexts: &mut CompilerContexts,
) -> Result<KernelCode, Vec<LoweringError>> {
    if vectorization == Vectorization::Always
        && let Some(isa) = host.lanes
        && let Some(code) = lanes::compile(program, host, isa, contexts)
    {
        return Ok(code);
    }
    rematerialize(program);
    let program = &*program;
    let plan = ResumePlan::new(program).map_err(|error| vec![error])?;
    // Tier-up compiles a hot module again.
    let is_first = vectorization == Vectorization::WhenHot;
    let steps: usize = program.blocks.iter().map(|block| block.steps.len()).sum();
    let isa = match steps <= MAX_OPTIMIZED {
        _ if is_first => &host.quick,
        true => &host.isa,
        false => &host.large,
    };
    let scalar = compile_scalar(program, host, contexts, (isa, is_first), &plan)?;
    Ok(plan.code(scalar, None))
}

/// [`compile_kernel`] without machine code, which finds what cannot be compiled.
pub(crate) fn check_kernel(
    program: &mut Program<'_>,
    host: &HostIsa,
    _: Vectorization,
    contexts: &mut CompilerContexts,
) -> Result<KernelCode, Vec<LoweringError>> {
    let plan = ResumePlan::new(program).map_err(|error| vec![error])?;
    emit(program, host, contexts, (&host.quick, true), &plan)?;
    Ok(KernelCode::default())
}
