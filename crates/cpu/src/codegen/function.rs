//! The function of a kernel: the loop over threads around the kernel's code, and the
//! dispatch of each thread to the point where it resumes.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{AbiParam, Block, InstBuilder, Signature, Value, types};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_frontend::FunctionBuilder;

use super::blocks::emit_blocks;
use super::checked_together::CheckedTogether;
use super::coarsening::Coarsening;
use super::compiler_contexts::CompilerContexts;
use super::emitter::Emitter;
use super::entry::resume_threads;
use super::host::HostIsa;
use super::interchange::{Interchange, JumpTargets};
use super::interchanged_loop::{self, InterchangedLoop};
use super::lane_set::LaneSet;
use super::machine_code::{Encoded, MachineCode, machine_code};
use super::prologue::prologue;
use super::resume::ResumePlan;
use super::thread_state::thread_state;
use super::vectorize::{self, Vectorization};
use super::wrap_check::WrapChecks;
use super::{arrival, first_code, group_loop, one_thread};
use crate::abi::{SyncKind, SyncPoint, WARP_SIZE};
use crate::dump::{self, Stage};
use crate::matrix::Operation;
use crate::program::{
    BlockId, LoweringError, Program, Terminator, UniformityInfo, pass, rematerialize,
};
use crate::simd::{ResumePlace, Suspension};
use ptx::ast::Span;

/// The machine code of one kernel and what the scheduler needs to run it.
#[derive(Clone, Debug, Default)]
pub(crate) struct KernelCode {
    pub scalar: MachineCode,
    /// The function that runs a lane group at a time, and the group's width.
    pub vector: Option<(MachineCode, u32)>,
    pub slots: u32,
    /// The vector function has loops by the size of the grid, which blocks run in turn.
    pub has_steps: bool,
    /// It has no resume points, so that its threads need no state.
    pub stateless: bool,
    pub sync_points: Vec<SyncPoint>,
    pub matrices: Vec<Operation>,
}

/// The instructions of the largest kernel that Cranelift's optimizer gets.
const MAX_OPTIMIZED: usize = 512;

/// Compiles one kernel.
pub(crate) fn compile_kernel(
    program: &mut Program<'_>,
    host: &HostIsa,
    vectorization: Vectorization,
    contexts: &mut CompilerContexts,
) -> Result<KernelCode, Vec<LoweringError>> {
    if let Some(code) = lanes_code(program, host, vectorization, contexts) {
        return Ok(code);
    }
    let vectorized = vectorize::choose(program, host, vectorization);
    let checks = match &vectorized {
        Some(uniformity) => WrapChecks::split(program, uniformity, host.has_fma),
        None => WrapChecks::none(program),
    };
    let uniformity = vectorized.as_ref();
    if uniformity.is_some() {
        pass::done(program, "wrap_check");
    }
    let together = match uniformity {
        Some(uniformity) => CheckedTogether::find(program, uniformity, host.has_fma),
        None => CheckedTogether::default(),
    };
    let interchanged = match uniformity {
        Some(uniformity) if !host.is_sanitized => {
            let mut found = interchanged_loop::find(program, uniformity, host.has_fma);
            let is_counted = |head| together.loops.iter().any(|l| l.blocks[0] == head);
            found.retain(|interchanged| !is_counted(interchanged.head));
            found
        }
        _ => Vec::new(),
    };
    let resumes = resumes(program, uniformity, &together, &interchanged);
    if !resumes.is_empty() {
        let read_first = |block| {
            let mut registers = checks.read_at(block)?;
            registers.extend(together.blocks_of(block).iter().map(|check| check.base));
            Some(registers)
        };
        rematerialize(program, &resumes, vectorized.as_ref(), read_first);
        pass::done(program, "rematerialize");
    }
    let program = &*program;
    let plan = ResumePlan::new(program, uniformity, checks, together, interchanged)
        .map_err(|r| vec![r])?;
    let compile = |contexts: &mut CompilerContexts,
                   isa: &OwnedTargetIsa,
                   uniformity: Option<&UniformityInfo>| {
        // Tier-up compiles a hot module again.
        let is_first = uniformity.is_none() && vectorization == Vectorization::WhenHot;
        let encoded = emit(program, host, contexts, isa, (uniformity, is_first), &plan)?;
        let title = || match uniformity {
            Some(uniformity) => format!("{}: {} lanes", program.name, uniformity.group.width()),
            None if is_first => format!("{}: first code", program.name),
            None => format!("{}: scalar", program.name),
        };
        if dump::wants(Stage::Clif, program.name) {
            dump::print(&title(), contexts.context.func.display());
        }
        let has_assembly = dump::wants(Stage::Asm, program.name);
        contexts.context.set_disasm(has_assembly);
        let code = machine_code(contexts, isa, &encoded);
        if has_assembly && let Some(compiled) = contexts.context.compiled_code() {
            dump::print(&title(), compiled.vcode.as_deref().unwrap_or_default());
        }
        code.map_err(|reason| {
            let reason = format!("kernel {}: {reason}", program.name);
            vec![LoweringError::unsupported(Span::default(), reason)]
        })
    };
    let steps: usize = program.blocks.iter().map(|block| block.steps.len()).sum();
    let isa = match steps <= MAX_OPTIMIZED {
        true => &host.isa,
        false => &host.large,
    };
    let (scalar, vector) = match &vectorized {
        None if vectorization == Vectorization::WhenHot => {
            (compile(contexts, &host.quick, None)?, None)
        }
        None => (compile(contexts, isa, None)?, None),
        Some(uniformity) => {
            // Few threads run in the scalar function then.
            let scalar = compile(contexts, &host.quick, None)?;
            let vector = compile(contexts, isa, Some(uniformity))?;
            (scalar, Some((vector, uniformity.group.width())))
        }
    };
    Ok(KernelCode {
        scalar,
        vector,
        slots: plan.slot_count,
        has_steps: vectorized.is_some() && plan.interchanged.iter().any(|i| i.by_grid),
        stateless: plan.resume_points.is_empty(),
        sync_points: plan.sync_points,
        matrices: plan.matrices,
    })
}

/// The code of a kernel for lanes of vectors, if the processor has them and all of the kernel is
/// compiled so.
fn lanes_code(
    program: &Program<'_>,
    host: &HostIsa,
    vectorization: Vectorization,
    contexts: &mut CompilerContexts,
) -> Option<KernelCode> {
    let is_wanted = matches!(vectorization, Vectorization::Auto | Vectorization::Always);
    let vectors = host.lanes.filter(|_| is_wanted)?;
    #[cfg(test)]
    let vectors = crate::simd::IN_TESTS.get()?.min(vectors);
    let refused = |reason: &str| {
        tracing::debug!(kernel = program.name, reason, "not compiled for lanes");
    };
    let mut program = program.clone();
    let together = CheckedTogether::default();
    let resumes = resumes(&program, None, &together, &[]);
    if !resumes.is_empty() {
        rematerialize(&mut program, &resumes, None, |_| None);
        pass::done(&program, "rematerialize");
    }
    let program = &program;
    let checks = WrapChecks::none(program);
    let plan = ResumePlan::new(program, None, checks, together, Vec::new()).ok()?;
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
    let width = match plan.sync_points.iter().any(of_warp) {
        true => 32,
        false => 16,
    };
    let rows = program.block.is_none_or(|[x, ..]| x.is_multiple_of(width));
    if !rows {
        refused("the rows of its blocks are not whole groups");
        return None;
    }
    let suspension = suspension(&plan, width);
    let bytes = match crate::simd::compile(program, &suspension, width as usize, vectors) {
        Ok(bytes) => bytes,
        Err(reason) => {
            refused(&reason);
            return None;
        }
    };
    let vector = MachineCode {
        bytes,
        thunk_calls: Vec::new(),
        feature: Some(vectors.feature()),
    };
    let isa = &host.quick;
    let encoded = emit(program, host, contexts, isa, (None, false), &plan).ok()?;
    let scalar = machine_code(contexts, isa, &encoded).ok()?;
    Some(KernelCode {
        scalar,
        vector: Some((vector, width)),
        slots: plan.slot_count,
        has_steps: false,
        stateless: plan.resume_points.is_empty(),
        sync_points: plan.sync_points,
        matrices: plan.matrices,
    })
}

/// What the code of lanes has to know of resume points. Warps do not stop at all of them: at the next
/// one, everything is saved.
fn suspension(plan: &ResumePlan, width: u32) -> Suspension {
    let passes = width == WARP_SIZE;
    let places = plan.resume_points.iter().zip(&plan.sync_points);
    let places = places.map(|(point, sync)| ResumePlace {
        next: point.next,
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
        saved: match passes {
            true => Vec::new(),
            false => plan.saved.clone(),
        },
    }
}

/// The blocks in which threads often resume: behind sync points, and at the heads of loops that groups
/// run step by step.
fn resumes(
    program: &Program<'_>,
    uniformity: Option<&UniformityInfo>,
    together: &CheckedTogether,
    interchanged: &[InterchangedLoop],
) -> Vec<BlockId> {
    let behind = program
        .blocks
        .iter()
        .filter_map(|block| match &block.terminator {
            Terminator::Sync { instruction, next } => {
                let is_passed = uniformity
                    .is_some_and(|uniformity| uniformity.executes_together(program, instruction));
                (!is_passed).then_some(*next)
            }
            _ => None,
        });
    let mut blocks: Vec<BlockId> = behind.chain(interchanged.iter().map(|i| i.head)).collect();
    // The steps of loops that are checked together have numbers.
    blocks.retain(|block| {
        let mut loops = together.loops.iter();
        !loops.any(|counted| counted.blocks.contains(block))
    });
    blocks.sort_unstable();
    blocks.dedup();
    blocks
}

/// [`compile_kernel`] without machine code, which finds what cannot be compiled.
pub(crate) fn check_kernel(
    program: &mut Program<'_>,
    host: &HostIsa,
    _: Vectorization,
    contexts: &mut CompilerContexts,
) -> Result<KernelCode, Vec<LoweringError>> {
    let plan = ResumePlan::new(
        program,
        None,
        WrapChecks::none(program),
        CheckedTogether::default(),
        Vec::new(),
    )
    .map_err(|r| vec![r])?;
    emit(program, host, contexts, &host.quick, (None, true), &plan)?;
    Ok(KernelCode::default())
}

/// Builds the function in the contexts: for lane groups, if there is their uniformity. Returns the
/// encoded functions that it calls.
fn emit(
    program: &Program<'_>,
    host: &HostIsa,
    contexts: &mut CompilerContexts,
    isa: &OwnedTargetIsa,
    (uniformity, is_first): (Option<&UniformityInfo>, bool),
    plan: &ResumePlan,
) -> Result<Encoded, Vec<LoweringError>> {
    let context = &mut contexts.context;
    context.clear();
    let convention = host.isa.default_call_conv();
    let signature = match is_first && host.thunks.checks().is_some() {
        true => first_code::signature(convention),
        false => entry_signature(host),
    };
    context.func.signature = signature;
    let function = FunctionBuilder::new(&mut context.func, &mut contexts.builder);
    let mut emitter = prologue(program, host, function, (uniformity, is_first), plan);
    let has_thread_loop = emitter.first_code.is_some();
    let errors = match has_thread_loop {
        true => one_thread::emit(&mut emitter, plan),
        false => emit_kernel(&mut emitter, plan),
    };
    let mut encoded = std::mem::take(&mut emitter.encoded);
    if has_thread_loop {
        encoded.front = first_code::thread_loop(plan.tid);
    }
    emitter.b.seal_all_blocks();
    emitter.b.finalize(isa.frontend_config());
    contexts.note_size();
    if errors.is_empty() {
        Ok(encoded)
    } else {
        Err(errors)
    }
}

fn entry_signature(host: &HostIsa) -> Signature {
    let mut signature = Signature::new(host.isa.default_call_conv());
    for ty in [types::I64, types::I32, types::I32] {
        signature.params.push(AbiParam::new(ty));
    }
    signature.returns.push(AbiParam::new(types::I32));
    signature
}

fn emit_kernel(e: &mut Emitter<'_, '_>, plan: &ResumePlan) -> Vec<LoweringError> {
    let program = e.program;
    let Some(entry) = e.b.current_block() else {
        return Vec::new();
    };
    let (first, last) = (e.b.block_params(entry)[1], e.b.block_params(entry)[2]);
    e.b.def_var(e.thread.index, first);
    // The vector function runs threads in the same state.
    let first_state = (e.width > 1 && !plan.sync_points.is_empty()).then(|| thread_state(e));
    match first_state.filter(|_| !plan.resumes_with_tid) {
        Some(state) => first_tid_unless(e, plan, first, state),
        None => e.first_tid(plan.tid, first),
    }
    // Groups that have met at a barrier go on from there.
    let first_state = first_state.map(|state| {
        let variable = e.b.declare_var(types::I32);
        e.b.def_var(variable, state);
        variable
    });
    if e.width > 1 && !plan.resume_points.is_empty() {
        arrival::start(e, first, !plan.interchanged.is_empty());
    }
    let mut errors = Vec::new();
    let interchange = Interchange::new(e, plan);
    let head = e.b.create_block();
    let body = e.b.create_block();
    let done = e.b.create_block();
    match &interchange {
        Some(interchange) => interchange.start(e, head),
        None => match Coarsening::of(e, plan) {
            Some(coarsening) => coarsening.emit(e, plan, (last, head), &mut errors),
            None => {
                e.b.ins().jump(head, &[]);
            }
        },
    }

    e.b.switch_to_block(head);
    let thread = e.b.use_var(e.thread.index);
    let more = e.icmp(IntCC::UnsignedLessThan, thread, last);
    e.b.ins().brif(more, body, &[], done, &[]);

    let blocks: Vec<Block> = program.blocks.iter().map(|_| e.b.create_block()).collect();
    e.b.switch_to_block(body);
    let targets = JumpTargets::new(plan, interchange.as_ref(), &blocks);
    let state = first_state.map(|state| e.b.use_var(state));
    resume_threads(e, plan, (state, last), targets.outside(), &mut errors);

    emit_blocks(e, plan, &blocks, &targets, &mut errors);
    if let Some(interchange) = &interchange {
        interchange.suspend(e, plan, &blocks);
    }

    e.lane_set = LaneSet::Scalar;
    arrival::finish(e);
    group_loop::finish(e, plan, last, done);
    let next_thread = e.next_thread;
    e.b.switch_to_block(next_thread);
    let thread = e.b.use_var(e.thread.index);
    let next = e.add_offset(thread, e.width.into());
    e.b.def_var(e.thread.index, next);
    if let Some(interchange) = &interchange {
        interchange.next_group(e, plan);
    }
    if let (Some(state), false) = (first_state, plan.resumes_with_tid) {
        let starts = e.b.create_block();
        let state = e.b.use_var(state);
        e.b.ins().brif(state, head, &[], starts, &[]);
        e.b.switch_to_block(starts);
    }
    e.advance_tid(plan.tid);
    e.b.ins().jump(head, &[]);

    e.b.switch_to_block(done);
    if let Some(interchange) = &interchange {
        interchange.run_again(e, plan, (first, last), &blocks);
    }
    if let Some(state) = first_state {
        group_loop::next_phase(e, plan, state, last, head);
    }
    let result = arrival::result(e);
    e.b.ins().return_(&[result]);
    let fail = e.fail;
    e.b.switch_to_block(fail);
    let one = e.int(types::I32, 1);
    e.b.ins().return_(&[one]);
    errors
}

/// Initializes `%tid`, for which it takes divisions, unless threads resume and don't read it.
fn first_tid_unless(e: &mut Emitter<'_, '_>, plan: &ResumePlan, first: Value, resumes: Value) {
    let [start, ready] = [(); 2].map(|()| e.b.create_block());
    let zero = e.int(types::I32, 0);
    for variable in e.thread.tid {
        e.b.def_var(variable, zero);
    }
    e.b.ins().brif(resumes, ready, &[], start, &[]);
    e.enter(start);
    e.first_tid(plan.tid, first);
    e.b.ins().jump(ready, &[]);
    e.enter(ready);
}
