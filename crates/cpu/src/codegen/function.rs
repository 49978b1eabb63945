//! The function of a kernel: the loop over threads around the kernel's code, and the
//! dispatch of each thread to the point where it resumes.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, Block, BlockCall, Function, InstBuilder, JumpTableData, Signature, UserFuncName,
    Value, types,
};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_frontend::FunctionBuilder;

use super::checked_together::CheckedTogether;
use super::coarsening::Coarsening;
use super::emitter::{EmitResult, Emitter};
use super::entry::resume_threads;
use super::host::HostIsa;
use super::interchange::{Interchange, JumpTargets};
use super::interchanged_loop::{self, InterchangedLoop};
use super::lane_set::{LaneSet, each_lane};
use super::machine_code::{CompilerContexts, Encoded, MachineCode, machine_code};
use super::prologue::prologue;
use super::resume::ResumePlan;
use super::slots::save;
use super::steps::{broadcasts_last, emit_steps};
use super::thread_state::thread_state;
use super::unroll;
use super::vectorize::{self, Vectorization};
use super::wrap_check::{self, WrapChecks};
use super::{arrival, first_code, group_loop, guarded_copy, lane_group, masked, shared_check};
use crate::abi::{EXITED, FaultKind, SyncPoint};
use crate::matrix::Operation;
use crate::program::{
    Arg, BlockId, LoweringError, Program, Step, Terminator, Uniformity, UniformityInfo,
    rematerialize,
};
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
    let vectorized = vectorize::choose(program, host, vectorization);
    let checks = match &vectorized {
        Some(uniformity) => WrapChecks::split(program, uniformity, host.has_fma),
        None => WrapChecks::none(program),
    };
    let uniformity = vectorized.as_ref();
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
        rematerialize(program, &resumes, vectorized.as_ref());
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
        machine_code(&mut contexts.context, isa, &encoded).map_err(|reason| {
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
    context.func = Function::with_name_signature(UserFuncName::default(), signature);
    let function = FunctionBuilder::new(&mut context.func, &mut contexts.builder);
    let mut emitter = prologue(program, host, function, (uniformity, is_first), plan);
    let has_thread_loop = emitter.first_code.is_some();
    let errors = match has_thread_loop {
        true => first_code::emit(&mut emitter, plan),
        false => emit_kernel(&mut emitter, plan),
    };
    let mut encoded = std::mem::take(&mut emitter.encoded);
    if has_thread_loop {
        encoded.front = first_code::thread_loop(plan.tid);
    }
    emitter.b.seal_all_blocks();
    emitter.b.finalize(isa.frontend_config());
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

/// Emits the blocks of the kernel as these. One that has nothing to emit is the latch of the loop over
/// threads.
pub(super) fn emit_blocks(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    blocks: &[Block],
    targets: &JumpTargets,
    errors: &mut Vec<LoweringError>,
) {
    let program = e.program;
    // Its number, and whether it is the head.
    let mut loop_at = vec![None; program.blocks.len()];
    if e.width > 1 {
        for (number, counted) in plan.together.loops.iter().enumerate() {
            for block in &counted.blocks {
                loop_at[block.index()] = Some((number, *block == counted.blocks[0]));
            }
        }
    }
    // Where the last branch to each block is emitted.
    let mut last_predecessor: Vec<Option<u32>> = vec![None; program.blocks.len()];
    for from in (0..program.blocks.len() as u32).map(BlockId) {
        let at = match loop_at[from.index()] {
            Some((number, _)) => plan.together.loops[number].blocks[0].0.max(from.0),
            None => from.0,
        };
        let mut note = |from: BlockId| {
            let join = match e.width {
                1 => None,
                _ => plan.masked[from.index()].as_ref().map(|masked| masked.join),
            };
            let terminator = &program.blocks[from.index()].terminator;
            for to in terminator.successors().chain(join) {
                let last = &mut last_predecessor[to.index()];
                *last = (*last).max(Some(at));
            }
        };
        note(from);
        if e.width > 1
            && let Some(path) = &plan.guarded[from.index()]
        {
            // Its copy ends like its last block.
            path.end().into_iter().for_each(note);
        }
    }
    for (i, in_loop) in (0..).zip(loop_at) {
        let number = BlockId(i);
        let block = blocks[number.index()];
        if block == e.next_thread {
            continue;
        }
        if let Some((_, false)) = in_loop {
            // A part of what the head is.
            continue;
        }
        match last_predecessor[number.index()] {
            // Early, so that variables need no parameters of the block to be looked up.
            Some(last) if last >= i => e.b.switch_to_block(block),
            None if i > 0 => e.b.switch_to_block(block),
            _ if e.width > 1 && !plan.interchanged.is_empty() || !errors.is_empty() => {
                e.b.switch_to_block(block)
            }
            _ => e.enter(block),
        }
        if e.b.is_unreachable() {
            // No lane takes the branch to it. Its registers would have values of their own.
            let fail = e.fail;
            e.b.ins().jump(fail, &[]);
            continue;
        }
        let emitted = match in_loop {
            Some((counted, _)) => {
                let counted = &plan.together.loops[counted];
                unroll::emit(e, plan, counted, targets.from(number), errors)
            }
            None => emit_block(e, plan, number, targets, errors),
        };
        if let Err(error) = emitted {
            errors.push(error);
            // The function is discarded, but the builder needs a terminator.
            let fail = e.fail;
            if !e.b.is_unreachable() {
                e.b.ins().jump(fail, &[]);
            }
        }
    }
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

/// Emits the steps and the terminator of a block.
fn emit_block(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    number: BlockId,
    targets: &JumpTargets,
    errors: &mut Vec<LoweringError>,
) -> EmitResult<()> {
    if e.width > 1 {
        match &plan.clamped[number.index()] {
            Some(load) if !e.is_sanitized => {
                wrap_check::emit(e, &plan.checks[number.index()], |e| {
                    let start = (number, targets.from(number));
                    errors.extend(masked::clamped_load(e, plan, load, start).err());
                });
            }
            _ => lane_group::check(e, plan, number, None),
        }
        shared_check::emit(e, plan, number);
    }
    let mut steps: Vec<&Step> = e.program.blocks[number.index()].steps.iter().collect();
    broadcasts_last(e, &mut steps);
    emit_steps(e, &steps, errors);
    e.in_bounds.clear();
    e.lane_set = LaneSet::Scalar;
    e.set_guard(None);
    save(e, plan, &plan.saved[number.index()]);
    if e.width > 1
        && let Some((end, rest)) = guarded_copy::emit(e, plan, number, errors)
    {
        terminate(e, plan, end, targets.from(end))?;
        e.enter(rest);
    }
    terminate(e, plan, number, targets.from(number))
}

fn terminate(
    e: &mut Emitter<'_, '_>,
    plan: &ResumePlan,
    block: BlockId,
    blocks: &[Block],
) -> EmitResult<()> {
    let to = |block: &BlockId| blocks[block.index()];
    match &e.program.blocks[block.index()].terminator {
        Terminator::Jump(next) => {
            e.b.ins().jump(to(next), &[]);
        }
        Terminator::Branch {
            predicate,
            then,
            otherwise,
        } => {
            let (yes, no) = if predicate.negated {
                (otherwise, then)
            } else {
                (then, otherwise)
            };
            if e.locations[predicate.reg.index()].uniformity != Uniformity::Uniform {
                return masked::branch(e, plan, predicate.reg, (*yes, *no), (block, blocks));
            }
            let value = e.register(predicate.reg);
            e.b.ins().brif(value, to(yes), &[], to(no), &[]);
        }
        Terminator::Table {
            index,
            targets: cases,
            otherwise,
            line,
        } => {
            e.line = *line;
            let index = e.read(*index, types::I32)?;
            let out_of_range = match otherwise {
                Some(otherwise) => to(otherwise),
                None => e.b.create_block(),
            };
            e.b.set_cold_block(out_of_range);
            let calls: Vec<BlockCall> = cases
                .iter()
                .map(|t| BlockCall::new(to(t), std::iter::empty(), &mut e.b.func.dfg.value_lists))
                .collect();
            let default = BlockCall::new(
                out_of_range,
                std::iter::empty(),
                &mut e.b.func.dfg.value_lists,
            );
            let table = e.b.create_jump_table(JumpTableData::new(default, &calls));
            e.b.ins().br_table(index, table);
            if otherwise.is_none() {
                e.b.switch_to_block(out_of_range);
                e.fault(FaultKind::IllegalInstruction, None);
            }
        }
        Terminator::Exit => {
            if !plan.resume_points.is_empty() {
                let from = group_loop::state_at(e, block);
                arrival::arrive(e, EXITED, from);
            } else {
                let next = e.next_thread;
                e.b.ins().jump(next, &[]);
            }
        }
        Terminator::Fault {
            kind,
            address,
            line,
        } => {
            e.line = *line;
            let address = address.map(|reg| e.read(Arg::Reg(reg), types::I64));
            e.fault(*kind, address.transpose()?);
        }
        Terminator::Sync { instruction, next } => {
            let Some(at) = plan.sync_at[block.index()] else {
                return Err(LoweringError::unsupported(
                    instruction.span,
                    "unsupported sync point",
                ));
            };
            e.line = instruction.line;
            let point = &plan.resume_points[at as usize];
            if e.width > 1 && point.is_passed {
                e.warp_operation(instruction)?;
                e.b.ins().jump(to(next), &[]);
                return Ok(());
            }
            for lane in each_lane(e.width) {
                e.lane_set = lane;
                e.store_request(instruction)?;
            }
            e.lane_set = LaneSet::Scalar;
            save(e, plan, &point.dirty);
            let from = group_loop::state_at(e, block);
            arrival::arrive(e, at + 1, from);
        }
    }
    Ok(())
}
