//! The function around a kernel's code: the loop over threads, and where each
//! of them goes on.

use cranelift_codegen::Context;
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, Block, BlockCall, Function, InstBuilder, JumpTableData, MemFlagsData, Signature,
    UserFuncName, Value, types,
};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use super::emitter::{
    Emitted, Emitter, FIXED, Home, Invariants, Lane, ThreadVariables, lanes_in_piece, type_of,
};
use super::plan::Plan;
use super::slots::{reload, save};
use super::{Code, Host, KernelCode, keeper, lanes, ways};
use crate::Lanes;
use crate::block::{EXITED, FaultKind, offset};
use crate::program::{BlockId, Program, Refusal, Reg, Shape, Shapes, Step, Terminator};
use ptx::ast::Span;

/// What Cranelift uses again from function to function.
pub(crate) struct Tools {
    pub context: Context,
    pub builder: FunctionBuilderContext,
}

impl Default for Tools {
    fn default() -> Tools {
        Tools {
            context: Context::new(),
            builder: FunctionBuilderContext::new(),
        }
    }
}

/// Compiles one kernel.
pub(crate) fn compile_kernel(
    program: &mut Program<'_>,
    host: &Host,
    asked: Lanes,
    tools: &mut Tools,
) -> Result<KernelCode, Vec<Refusal>> {
    let lanes = ways::choose(program, host, asked);
    let checks = match &lanes {
        Some((_, shapes)) => lanes::split_at_checks(program, shapes),
        None => vec![Vec::new(); program.blocks.len()],
    };
    let program = &*program;
    let shapes = lanes.as_ref().map(|(_, shapes)| shapes);
    let plan = Plan::new(program, shapes, checks).map_err(|r| vec![r])?;
    let compile = |tools: &mut Tools, isa: &OwnedTargetIsa, width: u32, shapes: Option<&Shapes>| {
        let context = &mut tools.context;
        context.clear();
        context.func =
            Function::with_name_signature(UserFuncName::default(), entry_signature(host));
        let function = FunctionBuilder::new(&mut context.func, &mut tools.builder);
        let mut emitter = prologue(program, host, function, width, shapes);
        let refusals = kernel(&mut emitter, &plan);
        emitter.b.seal_all_blocks();
        emitter.b.finalize(isa.frontend_config());
        if !refusals.is_empty() {
            return Err(refusals);
        }
        machine_code(context, isa).map_err(|reason| {
            let reason = format!("kernel {}: {reason}", program.name);
            vec![Refusal::unsupported(Span::default(), reason)]
        })
    };
    let (scalar, lanes) = match &lanes {
        // A hot module is compiled again.
        None if asked == Lanes::WhenHot => (compile(tools, &host.quick, 1, None)?, None),
        None => (compile(tools, &host.isa, 1, None)?, None),
        Some((width, shapes)) => {
            // Few threads will run in the scalar function then.
            let scalar = compile(tools, &host.quick, 1, None)?;
            (
                scalar,
                Some((compile(tools, &host.isa, *width, Some(shapes))?, *width)),
            )
        }
    };
    Ok(KernelCode {
        scalar,
        lanes,
        slots: plan.slot_count,
        stateless: plan.stops.is_empty(),
        points: plan.points,
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

/// Machine code, and where it calls the keeper.
pub(super) fn machine_code(context: &mut Context, isa: &OwnedTargetIsa) -> Result<Code, String> {
    let compiled = context
        .compile(&**isa, &mut ControlPlane::default())
        .map_err(|e| format!("Cranelift refused the code: {:?}", e.inner))?;
    let calls = compiled.buffer.relocs().iter().map(|reloc| {
        let keeper = reloc.kind == Reloc::X86CallPCRel4 && reloc.addend == -4;
        if keeper {
            Ok(reloc.offset)
        } else {
            Err(format!(
                "the code needs a library function of Cranelift's ({:?})",
                reloc.kind
            ))
        }
    });
    let calls = calls.collect::<Result<_, _>>()?;
    Ok(Code {
        bytes: compiled.code_buffer().to_vec(),
        calls,
    })
}

/// Opens the function and loads what all of it uses.
fn prologue<'e, 'a>(
    program: &'e Program<'a>,
    host: &Host,
    mut b: FunctionBuilder<'e>,
    width: u32,
    shapes: Option<&Shapes>,
) -> Emitter<'e, 'a> {
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let context = b.block_params(entry)[0];
    let shared_size = b
        .ins()
        .load(types::I64, FIXED, context, offset::SHARED_SIZE);
    let shared_units = [0, 1, 2, 3, 4].map(|shift| {
        let shift = b.ins().iconst(types::I32, shift);
        b.ins().ushr(shared_size, shift)
    });
    let shared_starts = [shared_units[2], shared_units[3]].map(|units| {
        // None if there is no room for one group.
        let starts = b.ins().iadd_imm_s(units, 1 - i64::from(width));
        let zero = b.ins().iconst(types::I64, 0);
        b.ins().smax(starts, zero)
    });
    let fixed = Invariants {
        context,
        shared_units,
        shared_starts,
    };
    let thread = ThreadVariables {
        index: b.declare_var(types::I32),
        tid: [(); 3].map(|()| b.declare_var(types::I32)),
    };
    let homes = program.registers.iter().enumerate().map(|(i, &class)| {
        let shape = shapes.map_or(Shape::Uniform, |shapes| shapes.of(Reg(i as u32)));
        let variables = if shape == Shape::Varying {
            let piece = lanes::piece_type(class);
            (0..width / lanes_in_piece(class))
                .map(|_| b.declare_var(piece))
                .collect()
        } else {
            vec![b.declare_var(type_of(class))]
        };
        Home { shape, variables }
    });
    let homes = homes.collect();
    let next_thread = b.create_block();
    let fail = b.create_block();
    b.set_cold_block(fail);
    let keeper = keeper::declare(&mut b);
    Emitter {
        program,
        b,
        homes,
        width,
        lane: Lane::Whole,
        fixed,
        thread,
        next_thread,
        fail,
        convention: host.isa.default_call_conv(),
        keeper,
        has_fma: host.has_fma,
        has_rounding: host.has_rounding,
        line: 0,
        guard: None,
        pending: Vec::new(),
        scratch: None,
        spreads: Vec::new(),
    }
}

fn kernel(e: &mut Emitter<'_, '_>, plan: &Plan) -> Vec<Refusal> {
    let program = e.program;
    let Some(entry) = e.b.current_block() else {
        return Vec::new();
    };
    let (first, last) = (e.b.block_params(entry)[1], e.b.block_params(entry)[2]);
    e.b.def_var(e.thread.index, first);
    e.first_tid(plan.tid, first);
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
    enter(e, plan, &blocks, &mut refusals);

    for (i, block) in program.blocks.iter().enumerate() {
        e.b.switch_to_block(blocks[i]);
        if e.width > 1 {
            lanes::check(e, plan, BlockId(i as u32));
        }
        for step in &block.steps {
            let written = if e.width > 1 {
                lanes::step(e, step)
            } else {
                step_whole(e, step)
            };
            if let Err(mut refusal) = written {
                if let (Step::Instruction(i), true) = (step, refusal.span == Span::default()) {
                    refusal.span = i.span;
                }
                refusals.push(refusal);
            }
        }
        e.lane = Lane::Whole;
        e.set_guard(None);
        if let Err(refusal) = terminate(e, plan, BlockId(i as u32), &blocks) {
            refusals.push(refusal);
            // The function is dropped, but each block must end.
            let fail = e.fail;
            if !e.b.is_unreachable() {
                e.b.ins().jump(fail, &[]);
            }
        }
    }

    e.lane = Lane::Whole;
    let next_thread = e.next_thread;
    e.b.switch_to_block(next_thread);
    let thread = e.b.use_var(e.thread.index);
    let next = e.add_offset(thread, e.width.into());
    e.b.def_var(e.thread.index, next);
    e.advance_tid(plan.tid);
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

pub(super) fn step_whole(e: &mut Emitter<'_, '_>, step: &Step) -> Emitted<()> {
    match step {
        Step::Instruction(instruction) => e.instruction(instruction),
        Step::SystemCall {
            call,
            args,
            result,
            line,
        } => e.system_call(*call, *args, *result, *line),
    }
}

/// From the top of the loop to where the thread goes on.
fn enter(e: &mut Emitter<'_, '_>, plan: &Plan, blocks: &[Block], refusals: &mut Vec<Refusal>) {
    // Lanes part into the scalar function: they never come back to such a stop.
    let count = if e.width > 1 {
        plan.points.len()
    } else {
        plan.stops.len()
    };
    let stops = &plan.stops[..count];
    if stops.is_empty() {
        begin(e, plan, blocks[0]);
        return;
    }
    let start = e.b.create_block();
    let mut targets = vec![start];
    targets.extend(stops.iter().map(|_| e.b.create_block()));
    dispatch(e, &targets);
    e.b.switch_to_block(start);
    begin(e, plan, blocks[0]);
    for (stop, &block) in stops.iter().zip(&targets[1..]) {
        e.b.switch_to_block(block);
        if e.width > 1 {
            lanes::only_in_step(e, plan);
        }
        reload(e, plan, stop);
        if let Some(block) = stop.sync
            && let Terminator::Sync { instruction, .. } =
                &e.program.blocks[block.index()].terminator
        {
            for lane in lanes::singles(e.width) {
                e.lane = lane;
                if let Err(refusal) = e.take_results(instruction) {
                    refusals.push(refusal);
                }
            }
            e.gather();
            e.lane = Lane::Whole;
        }
        let next = blocks[stop.next.index()];
        e.b.ins().jump(next, &[]);
    }
}

/// Goes to the kernel's first block. Registers that may be read before they are
/// written are 0: not what the thread before left in them.
fn begin(e: &mut Emitter<'_, '_>, plan: &Plan, block: Block) {
    for &reg in &plan.entry {
        let class = e.program.registers[reg.index()];
        for n in 0..e.homes[reg.index()].variables.len() {
            if e.homes[reg.index()].shape == Shape::Varying {
                e.lane = Lane::Piece(n as u32);
            }
            let zero = e.zero(type_of(class));
            let variable = e.homes[reg.index()].variables[n];
            e.b.def_var(variable, zero);
            e.lane = Lane::Whole;
        }
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
    let thread = e.thread_index();
    let thread = e.b.ins().uextend(types::I64, thread);
    if bytes.is_power_of_two() {
        let shift = e.int(types::I32, bytes.trailing_zeros().into());
        e.b.ins().ishl(thread, shift)
    } else {
        e.b.ins().imul_imm_u(thread, i64::from(bytes))
    }
}

/// Sets the state of the thread, or of the group.
pub(super) fn set_state(e: &mut Emitter<'_, '_>, state: u32) {
    let context = e.fixed.context;
    let states = e.b.ins().load(types::I64, FIXED, context, offset::STATES);
    let at = thread_offset(e, 4);
    let at = e.b.ins().iadd(states, at);
    if e.width > 1 {
        e.lane = Lane::Piece(0);
    }
    let state = e.int(types::I32, state.into());
    for piece in 0..e.width.div_ceil(4) as i32 {
        e.b.ins()
            .store(MemFlagsData::trusted(), state, at, 16 * piece);
    }
    e.lane = Lane::Whole;
}

fn terminate(
    e: &mut Emitter<'_, '_>,
    plan: &Plan,
    block: BlockId,
    blocks: &[Block],
) -> Emitted<()> {
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
            if e.homes[predicate.reg.index()].shape != Shape::Uniform {
                return lanes::branch(e, plan, predicate.reg, (*yes, *no), blocks);
            }
            let value = e.register(predicate.reg);
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
            if !plan.stops.is_empty() {
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
            let Some(at) = plan.stops.iter().position(|s| s.sync == Some(block)) else {
                return Err(Refusal::unsupported(instruction.span, "this sync point"));
            };
            e.line = instruction.line;
            for lane in lanes::singles(e.width) {
                e.lane = lane;
                e.leave_request(instruction)?;
            }
            e.lane = Lane::Whole;
            save(e, plan, &plan.stops[at].changed);
            lanes::mark(e, plan);
            set_state(e, at as u32 + 1);
            let next = e.next_thread;
            e.b.ins().jump(next, &[]);
        }
    }
    Ok(())
}
