//! The function around a kernel's code: the loop over threads, and where each
//! of them goes on.

use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, Block, BlockCall, Function, InstBuilder, JumpTableData, MemFlagsData, Signature,
    UserFuncName, Value, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};

use super::emitter::{Emitted, Emitter, FIXED, Invariants, ThreadVariables, type_of};
use super::{Host, KernelCode};
use crate::cpu::block::{EXITED, FaultKind, GRANULE_SHIFT, SyncPoint, offset};
use crate::cpu::program::{Arg, BlockId, Liveness, Program, Refusal, Reg, Step, Terminator};
use crate::ptx::ast::Span;
use crate::ptx::names::SpecialRegister;

/// A place where threads stop, and where they go on.
pub(super) struct Stop {
    /// The block that ends here.
    pub block: BlockId,
    pub next: BlockId,
    /// What the thread keeps.
    pub kept: Vec<Reg>,
}

/// Which registers have a slot: `slots[reg]`.
pub(super) struct Slots {
    pub of: Vec<Option<u32>>,
    pub count: u32,
}

/// Compiles one kernel.
pub(crate) fn compile_kernel(
    program: &Program<'_>,
    host: &Host,
    context: &mut Context,
    builder: &mut FunctionBuilderContext,
) -> Result<KernelCode, Vec<Refusal>> {
    let liveness = Liveness::new(program);
    let mut points = Vec::new();
    let mut stops = Vec::new();
    for (i, block) in program.blocks.iter().enumerate() {
        if let Terminator::Sync { instruction, next } = &block.terminator {
            let kind = super::sync::kind_of(instruction).map_err(|r| vec![r])?;
            points.push(SyncPoint {
                kind,
                line: instruction.line,
            });
            let mut results = Vec::new();
            program.effects(instruction, &mut |_| {}, &mut |reg| results.push(reg));
            let kept = liveness
                .at(*next)
                .iter()
                .filter(|r| !results.contains(r))
                .collect();
            stops.push(Stop {
                block: BlockId(i as u32),
                next: *next,
                kept,
            });
        }
    }
    let mut slots = Slots {
        of: vec![None; program.registers.len()],
        count: 0,
    };
    for &reg in stops.iter().flat_map(|s| &s.kept) {
        let slot = &mut slots.of[reg.index()];
        if slot.is_none() {
            *slot = Some(slots.count);
            slots.count += 1;
        }
    }

    context.clear();
    context.func = Function::with_name_signature(UserFuncName::default(), entry_signature(host));
    let refusals = {
        let function = FunctionBuilder::new(&mut context.func, builder);
        let mut emitter = prologue(program, host, function);
        let refusals = kernel(&mut emitter, &liveness, &stops, &slots);
        emitter.b.seal_all_blocks();
        emitter.b.finalize(host.isa.frontend_config());
        refusals
    };
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let scalar = machine_code(context, host).map_err(|reason| {
        vec![Refusal::unsupported(
            Span::default(),
            format!("kernel {}: {reason}", program.name),
        )]
    })?;
    Ok(KernelCode {
        scalar,
        slots: slots.count,
        points,
    })
}

fn entry_signature(host: &Host) -> Signature {
    let mut signature = Signature::new(host.isa.default_call_conv());
    for ty in [types::I64, types::I32, types::I32] {
        signature.params.push(AbiParam::new(ty));
    }
    signature.returns.push(AbiParam::new(types::I32));
    signature
}

fn machine_code(context: &mut Context, host: &Host) -> Result<Vec<u8>, String> {
    let compiled = context
        .compile(&*host.isa, &mut ControlPlane::default())
        .map_err(|e| format!("Cranelift refused the code: {:?}", e.inner))?;
    if !compiled.buffer.relocs().is_empty() {
        return Err("the code needs a library function of Cranelift's".into());
    }
    Ok(compiled.code_buffer().to_vec())
}

/// Opens the function and loads what all of it uses.
fn prologue<'e, 'a>(
    program: &'e Program<'a>,
    host: &Host,
    mut b: FunctionBuilder<'e>,
) -> Emitter<'e, 'a> {
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let context = b.block_params(entry)[0];
    let mut load = |at: i32| b.ins().load(types::I64, FIXED, context, at);
    let helpers = load(offset::HELPERS);
    let params = load(offset::PARAMS);
    let arena_base = load(offset::ARENA_BASE);
    let arena_size = load(offset::ARENA_SIZE);
    let shadow = load(offset::SHADOW);
    let shared = load(offset::SHARED);
    let shared_size = load(offset::SHARED_SIZE);
    let local = load(offset::LOCAL);
    let local_stride = load(offset::LOCAL_STRIDE);
    let shift = b.ins().iconst(types::I32, i64::from(GRANULE_SHIFT));
    let granules = b.ins().ushr(arena_size, shift);
    let last_granule = b.ins().iadd_imm_s(granules, -1);
    let fixed = Invariants {
        context,
        helpers,
        params,
        arena_base,
        last_granule,
        shadow,
        shared,
        shared_size,
        local,
        local_stride,
    };
    let thread = ThreadVariables {
        index: b.declare_var(types::I32),
        tid: [(); 3].map(|()| b.declare_var(types::I32)),
    };
    let variables: Vec<Variable> = program
        .registers
        .iter()
        .map(|&class| b.declare_var(type_of(class)))
        .collect();
    let next_thread = b.create_block();
    let fail = b.create_block();
    b.set_cold_block(fail);
    Emitter::new(
        program,
        b,
        variables,
        fixed,
        thread,
        next_thread,
        fail,
        host.isa.default_call_conv(),
        host.has_fma,
        host.has_rounding,
    )
}

/// The components of `%tid` that the kernel reads.
fn tid_used(program: &Program<'_>) -> [bool; 3] {
    use SpecialRegister::{TidX, TidY, TidZ};
    [TidX, TidY, TidZ].map(|r| program.args.contains(&Arg::Special(r)))
}

fn kernel(
    e: &mut Emitter<'_, '_>,
    liveness: &Liveness,
    stops: &[Stop],
    slots: &Slots,
) -> Vec<Refusal> {
    let program = e.program;
    let used = tid_used(program);
    let Some(entry) = e.b.current_block() else {
        return Vec::new();
    };
    let (first, last) = (e.b.block_params(entry)[1], e.b.block_params(entry)[2]);
    e.b.def_var(e.thread.index, first);
    e.first_tid(used, first);
    let head = e.b.create_block();
    let body = e.b.create_block();
    let done = e.b.create_block();
    e.b.ins().jump(head, &[]);

    e.b.switch_to_block(head);
    let thread = e.b.use_var(e.thread.index);
    let more = e.icmp(IntCC::UnsignedLessThan, thread, last);
    e.b.ins().brif(more, body, &[], done, &[]);

    let blocks: Vec<Block> = program.blocks.iter().map(|_| e.b.create_block()).collect();
    e.b.switch_to_block(body);
    let mut refusals = Vec::new();
    if stops.is_empty() {
        begin(e, liveness, blocks[0]);
    } else {
        let start = e.b.create_block();
        let mut targets = vec![start];
        targets.extend(stops.iter().map(|_| e.b.create_block()));
        dispatch(e, &targets);
        e.b.switch_to_block(start);
        begin(e, liveness, blocks[0]);
        for (stop, &block) in stops.iter().zip(&targets[1..]) {
            e.b.switch_to_block(block);
            reload(e, stop, slots);
            if let Terminator::Sync { instruction, .. } =
                &program.blocks[stop.block.index()].terminator
                && let Err(refusal) = e.take_results(instruction)
            {
                refusals.push(refusal);
            }
            let next = blocks[stop.next.index()];
            e.b.ins().jump(next, &[]);
        }
    }

    for (i, block) in program.blocks.iter().enumerate() {
        e.b.switch_to_block(blocks[i]);
        for step in &block.steps {
            let done = match step {
                Step::Instruction(instruction) => {
                    e.instruction(instruction).map_err(|mut refusal| {
                        if refusal.span == Span::default() {
                            refusal.span = instruction.span;
                        }
                        refusal
                    })
                }
                Step::SystemCall {
                    call,
                    args,
                    result,
                    line,
                } => e.system_call(*call, *args, *result, *line),
            };
            if let Err(refusal) = done {
                refusals.push(refusal);
            }
        }
        e.set_guard(None);
        let stop = stops.iter().position(|s| s.block.index() == i);
        if let Err(refusal) = terminate(
            e,
            &block.terminator,
            &blocks,
            stop.map(|at| (at, &stops[at])),
            slots,
        ) {
            refusals.push(refusal);
            // The function is dropped, but each block must end.
            let fail = e.fail;
            if !e.b.is_unreachable() {
                e.b.ins().jump(fail, &[]);
            }
        }
    }

    let next_thread = e.next_thread;
    e.b.switch_to_block(next_thread);
    let thread = e.b.use_var(e.thread.index);
    let next = e.b.ins().iadd_imm_s(thread, 1);
    e.b.def_var(e.thread.index, next);
    e.advance_tid(used);
    e.b.ins().jump(head, &[]);

    e.b.switch_to_block(done);
    let zero = e.int(types::I32, 0);
    e.b.ins().return_(&[zero]);
    let fail = e.fail;
    e.b.switch_to_block(fail);
    let one = e.int(types::I32, 1);
    e.b.ins().return_(&[one]);
    refusals
}

/// Goes to the kernel's first block. Registers that may be read before they are
/// written are 0: not what the thread before left in them.
fn begin(e: &mut Emitter<'_, '_>, liveness: &Liveness, block: Block) {
    for reg in liveness.at(BlockId(0)).iter() {
        let ty = type_of(e.program.registers[reg.index()]);
        let zero = e.zero(ty);
        e.b.def_var(e.variables[reg.index()], zero);
    }
    e.b.ins().jump(block, &[]);
}

/// Jumps to where the thread's state says.
fn dispatch(e: &mut Emitter<'_, '_>, targets: &[Block]) {
    let context = e.fixed.context;
    let states = e.b.ins().load(types::I64, FIXED, context, offset::STATES);
    let at = thread_offset(e, 4);
    let at = e.b.ins().iadd(states, at);
    let state = e.b.ins().load(types::I32, MemFlagsData::trusted(), at, 0);
    // A thread that has exited is past the table.
    let exited = BlockCall::new(
        e.next_thread,
        std::iter::empty(),
        &mut e.b.func.dfg.value_lists,
    );
    let calls: Vec<BlockCall> = targets
        .iter()
        .map(|&t| BlockCall::new(t, std::iter::empty(), &mut e.b.func.dfg.value_lists))
        .collect();
    let table = e.b.create_jump_table(JumpTableData::new(exited, &calls));
    e.b.ins().br_table(state, table);
}

/// The thread's index times a size.
pub(super) fn thread_offset(e: &mut Emitter<'_, '_>, bytes: u32) -> Value {
    let thread = e.b.use_var(e.thread.index);
    let thread = e.b.ins().uextend(types::I64, thread);
    if bytes.is_power_of_two() {
        let shift = e.int(types::I32, bytes.trailing_zeros().into());
        e.b.ins().ishl(thread, shift)
    } else {
        e.b.ins().imul_imm_u(thread, i64::from(bytes))
    }
}

fn set_state(e: &mut Emitter<'_, '_>, state: u32) {
    let context = e.fixed.context;
    let states = e.b.ins().load(types::I64, FIXED, context, offset::STATES);
    let at = thread_offset(e, 4);
    let at = e.b.ins().iadd(states, at);
    let state = e.int(types::I32, state.into());
    e.b.ins().store(MemFlagsData::trusted(), state, at, 0);
}

/// Calls `f` with the address of each kept register's slot.
fn each_slot(
    e: &mut Emitter<'_, '_>,
    stop: &Stop,
    slots: &Slots,
    mut f: impl FnMut(&mut Emitter<'_, '_>, Reg, Value),
) {
    if stop.kept.is_empty() {
        return;
    }
    let context = e.fixed.context;
    let base = e.b.ins().load(types::I64, FIXED, context, offset::SLOTS);
    let stride =
        e.b.ins()
            .load(types::I64, FIXED, context, offset::SLOT_STRIDE);
    for &reg in &stop.kept {
        let Some(slot) = slots.of[reg.index()] else {
            continue;
        };
        // Values of one register lie side by side, as wide as they are.
        let bytes = type_of(e.program.registers[reg.index()]).bytes();
        let at = thread_offset(e, bytes);
        let row = if slot == 0 {
            base
        } else {
            let row = e.b.ins().imul_imm_u(stride, i64::from(slot));
            e.b.ins().iadd(base, row)
        };
        let at = e.b.ins().iadd(row, at);
        f(e, reg, at);
    }
}

fn save(e: &mut Emitter<'_, '_>, stop: &Stop, slots: &Slots) {
    each_slot(e, stop, slots, |e, reg, at| {
        let value = e.register(reg);
        e.b.ins().store(MemFlagsData::trusted(), value, at, 0);
    });
}

fn reload(e: &mut Emitter<'_, '_>, stop: &Stop, slots: &Slots) {
    each_slot(e, stop, slots, |e, reg, at| {
        let ty = type_of(e.program.registers[reg.index()]);
        let value = e.b.ins().load(ty, MemFlagsData::trusted(), at, 0);
        e.b.def_var(e.variables[reg.index()], value);
    });
}

fn terminate(
    e: &mut Emitter<'_, '_>,
    terminator: &Terminator,
    blocks: &[Block],
    stop: Option<(usize, &Stop)>,
    slots: &Slots,
) -> Emitted<()> {
    let to = |block: &BlockId| blocks[block.index()];
    match terminator {
        Terminator::Jump(next) => {
            e.b.ins().jump(to(next), &[]);
        }
        Terminator::Branch {
            predicate,
            then,
            otherwise,
        } => {
            let value = e.register(predicate.reg);
            let (yes, no) = if predicate.negated {
                (otherwise, then)
            } else {
                (then, otherwise)
            };
            e.b.ins().brif(value, to(yes), &[], to(no), &[]);
        }
        Terminator::Table {
            index,
            targets,
            line,
        } => {
            e.line = *line;
            let index = e.read(*index, types::I32)?;
            let beyond = e.b.create_block();
            e.b.set_cold_block(beyond);
            let calls: Vec<BlockCall> = targets
                .iter()
                .map(|t| BlockCall::new(to(t), std::iter::empty(), &mut e.b.func.dfg.value_lists))
                .collect();
            let default = BlockCall::new(beyond, std::iter::empty(), &mut e.b.func.dfg.value_lists);
            let table = e.b.create_jump_table(JumpTableData::new(default, &calls));
            e.b.ins().br_table(index, table);
            e.b.switch_to_block(beyond);
            e.fault(FaultKind::IllegalInstruction);
        }
        Terminator::Exit => {
            if slots.count > 0 || has_stops(e) {
                set_state(e, EXITED);
            }
            let next = e.next_thread;
            e.b.ins().jump(next, &[]);
        }
        Terminator::Trap { line } => {
            e.line = *line;
            e.fault(FaultKind::Trap);
        }
        Terminator::Sync { instruction, .. } => {
            let Some((at, stop)) = stop else {
                return Err(Refusal::unsupported(instruction.span, "this sync point"));
            };
            e.line = instruction.line;
            e.leave_request(instruction)?;
            save(e, stop, slots);
            set_state(e, at as u32 + 1);
            let next = e.next_thread;
            e.b.ins().jump(next, &[]);
        }
    }
    Ok(())
}

fn has_stops(e: &Emitter<'_, '_>) -> bool {
    e.program
        .blocks
        .iter()
        .any(|b| matches!(b.terminator, Terminator::Sync { .. }))
}
