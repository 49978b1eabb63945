//! The function of a kernel: the loop over threads around the kernel's code, and the
//! dispatch of each thread to the point where it resumes.

mod blocks;
mod dispatch;
mod entry;
mod one_thread;
mod prologue;
pub(super) mod resume;
mod slots;
mod terminator;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{AbiParam, Block, InstBuilder, Signature, types};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_frontend::FunctionBuilder;

use self::blocks::emit_blocks;
use self::entry::resume_threads;
use self::prologue::prologue;
use self::resume::ResumePlan;
use crate::codegen::compiler_contexts::CompilerContexts;
use crate::codegen::emitter::machine_code::{Encoded, MachineCode, machine_code};
use crate::codegen::emitter::{Emitter, first_code};
use crate::codegen::host::HostIsa;
use crate::dump::{self, Stage};
use crate::program::{LoweringError, Program};
use ptx::ast::Span;

/// Compiles the function that runs one thread after the other.
pub(in crate::codegen) fn compile_scalar(
    program: &Program<'_>,
    host: &HostIsa,
    contexts: &mut CompilerContexts,
    (isa, is_first): (&OwnedTargetIsa, bool),
    plan: &ResumePlan,
) -> Result<MachineCode, Vec<LoweringError>> {
    let encoded = emit(program, host, contexts, (isa, is_first), plan)?;
    let title = || {
        if is_first {
            format!("{}: first code", program.name)
        } else {
            format!("{}: scalar", program.name)
        }
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
}

/// Builds the function in the contexts. Returns what is encoded around it.
pub(in crate::codegen) fn emit(
    program: &Program<'_>,
    host: &HostIsa,
    contexts: &mut CompilerContexts,
    (isa, is_first): (&OwnedTargetIsa, bool),
    plan: &ResumePlan,
) -> Result<Encoded, Vec<LoweringError>> {
    let context = &mut contexts.context;
    context.clear();
    let convention = host.isa.default_call_conv();
    let signature = if is_first && host.thunks.checks().is_some() {
        first_code::signature(convention)
    } else {
        entry_signature(host)
    };
    context.func.signature = signature;
    let function = FunctionBuilder::new(&mut context.func, &mut contexts.builder);
    let mut emitter = prologue(program, host, function, is_first, plan);
    let has_thread_loop = emitter.first_code.is_some();
    let errors = if has_thread_loop {
        one_thread::emit(&mut emitter, plan)
    } else {
        emit_kernel(&mut emitter, plan)
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
    e.first_tid(plan.tid, first);
    let mut errors = Vec::new();
    let [head, body, done] = [(); 3].map(|()| e.b.create_block());
    e.b.ins().jump(head, &[]);

    e.b.switch_to_block(head);
    let thread = e.b.use_var(e.thread.index);
    let more = e.b.ins().icmp(IntCC::UnsignedLessThan, thread, last);
    e.b.ins().brif(more, body, &[], done, &[]);

    let blocks: Vec<Block> = program.blocks.iter().map(|_| e.b.create_block()).collect();
    e.b.switch_to_block(body);
    resume_threads(e, plan, &blocks, &mut errors);
    emit_blocks(e, plan, &blocks, &mut errors);

    let next_thread = e.next_thread;
    e.b.switch_to_block(next_thread);
    let thread = e.b.use_var(e.thread.index);
    let next = e.add_offset(thread, 1);
    e.b.def_var(e.thread.index, next);
    e.advance_tid(plan.tid);
    e.b.ins().jump(head, &[]);

    for (block, result) in [(done, 0), (e.fail, 1)] {
        e.b.switch_to_block(block);
        let result = e.int(types::I32, result);
        e.b.ins().return_(&[result]);
    }
    errors
}
