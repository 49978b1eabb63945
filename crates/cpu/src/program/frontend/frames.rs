//! Gives the frames of functions that are called through the stack their sizes and places.

use crate::program::ir::byte_offset::ByteOffset;
use std::collections::HashMap;
use std::ops::Range;

use super::call_params;
use super::module_data::{align_of, size_of};
use crate::program::ir::liveness::Liveness;
use crate::program::ir::{
    Arg, ArgList, Base, BlockId, Instruction, LoweringError, Modifiers, Program, Reg, RegClass,
    Step, Storage, Terminator,
};
use ptx::ast::{Body, Function, Span, Variable};
use ptx::names::{Modifier, Opcode};

/// Bytes of frames that a thread has for calls of functions that may call themselves.
pub(crate) const STACK_BYTES: u32 = 32 << 10;

const FRAME_ALIGN: u32 = 16;
/// A frame begins with the number of the place to return to.
pub(in crate::program) const RETURN_SITE: u32 = 0;
const HEADER: u32 = 8;

/// The limit of entries in the tables of a kernel: each call through a register may reach
/// each function.
pub(in crate::program) const MAX_JUMPS: usize = 1 << 20;

pub(in crate::program) fn too_many_jumps(span: Span) -> LoweringError {
    LoweringError::unsupported(span, "more than 1048576 ways of calls through registers")
}

/// Where a frame has the parameters and return values of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::program) struct Signature {
    pub(in crate::program) params: Vec<Slot>,
    pub(in crate::program) returns: Vec<Slot>,
    pub(in crate::program) end: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::program) struct Slot {
    pub(in crate::program) offset: u32,
    pub(in crate::program) size: u32,
    pub(in crate::program) align: u32,
}

impl Signature {
    pub(in crate::program) fn new(
        params: &[Variable<'_>],
        returns: &[Variable<'_>],
    ) -> Result<Signature, LoweringError> {
        let mut end = HEADER;
        let mut slots = |variables: &[Variable<'_>]| {
            let slot = |variable: &Variable<'_>| slot(variable, &mut end);
            variables.iter().map(slot).collect::<Result<Vec<_>, _>>()
        };
        let (params, returns) = (slots(params)?, slots(returns)?);
        Ok(Signature {
            params,
            returns,
            end,
        })
    }
}

/// The place of a variable behind `end`, which moves behind the variable.
pub(in crate::program) fn slot(
    variable: &Variable<'_>,
    end: &mut u32,
) -> Result<Slot, LoweringError> {
    let too_large = || LoweringError::invalid(variable.span, "too much local memory");
    let align = align_of(variable).min(FRAME_ALIGN);
    let size = size_of(variable).and_then(|size| u32::try_from(size).ok());
    let size = size.ok_or_else(too_large)?;
    let offset = end.checked_next_multiple_of(align).ok_or_else(too_large)?;
    let after = offset.checked_add(size).filter(|end| *end < 1 << 30);
    *end = after.ok_or_else(too_large)?;
    Ok(Slot {
        offset,
        size,
        align,
    })
}

/// A function that is called through the stack.
pub(in crate::program) struct StackFunction<'m, 'a> {
    pub(in crate::program) function: &'m Function<'a>,
    pub(in crate::program) body: &'m Body<'a>,
    pub(in crate::program) signature: Signature,
    pub(in crate::program) entry: BlockId,
    /// Returns jump to it.
    pub(in crate::program) leave: BlockId,
    /// The block that ends with the table of places to return to.
    pub(in crate::program) table: BlockId,
    /// Bytes of its frame, so far.
    pub(in crate::program) frame: u32,
    /// The registers of its copy.
    pub(in crate::program) registers: Range<u32>,
    pub(in crate::program) is_recursive: bool,
    /// The numbers of the calls of it.
    pub(in crate::program) sites: Vec<usize>,
}

/// A call.
pub(in crate::program) struct Site {
    pub(in crate::program) caller: Option<usize>,
    /// Where the frame pointer moves to the new frame, and where it has moved back.
    pub(in crate::program) enter: BlockId,
    pub(in crate::program) back: BlockId,
}

/// What is added to an argument once the sizes of the frames are known.
pub(in crate::program) enum Amount {
    /// Bytes of the frame of a function.
    Frame(usize),
    /// The last frame pointer with which a function may run.
    Limit(usize),
}

/// The calls of a kernel through the stack.
#[derive(Default)]
pub(in crate::program) struct Stack<'m, 'a> {
    pub(in crate::program) functions: Vec<StackFunction<'m, 'a>>,
    pub(in crate::program) by_name: HashMap<&'a str, usize>,
    pub(in crate::program) sites: Vec<Site>,
    pub(in crate::program) pointer: Option<Reg>,
    /// The function that is being built; `None` for the kernel.
    pub(in crate::program) current: Option<usize>,
    /// The largest part of a frame that a caller writes.
    pub(in crate::program) outgoing: u32,
    pub(in crate::program) amounts: Vec<(usize, Amount)>,
    /// The functions that calls through registers may jump to, counted once for each call.
    pub(in crate::program) jumps: usize,
}

pub(in crate::program) fn modifiers_of(list: &[Modifier]) -> Modifiers {
    let mut modifiers = Modifiers::default();
    for modifier in list {
        modifiers.push(*modifier);
    }
    modifiers
}

/// Gives frames their sizes and places. What a function that may call itself needs after a
/// call it keeps in its frame meanwhile.
pub(in crate::program) fn lower(
    program: &mut Program<'_>,
    stack: Stack<'_, '_>,
) -> Result<(), LoweringError> {
    let Some(pointer) = stack.pointer else {
        return Ok(());
    };
    let mut frames: Vec<u32> = stack.functions.iter().map(|f| f.frame).collect();
    fill_tables(program, &stack)?;
    save(program, &stack, pointer, &mut frames);

    let too_large = || LoweringError::unsupported(Span::default(), "too much local memory");
    let align = |bytes: u32| {
        bytes
            .checked_next_multiple_of(FRAME_ALIGN)
            .ok_or_else(too_large)
    };
    let start = align(program.local_bytes)?;
    let mut end = start;
    for frame in &mut frames {
        *frame = align(*frame)?;
        end = end.checked_add(*frame).ok_or_else(too_large)?;
    }
    if stack.functions.iter().any(|function| function.is_recursive) {
        end = end.checked_add(STACK_BYTES).ok_or_else(too_large)?;
    }
    let all = end.checked_add(stack.outgoing).ok_or_else(too_large)?;
    program.local_bytes = align(all)?;
    for (arg, amount) in stack.amounts {
        let amount = match amount {
            Amount::Frame(function) => frames[function],
            Amount::Limit(function) => end - frames[function],
        };
        match &mut program.args[arg] {
            Arg::Int(value) => *value += u64::from(amount),
            Arg::Address(_, offset) => {
                *offset = ByteOffset::saturating(offset.bytes() + i64::from(amount));
            }
            _ => {}
        }
    }
    let set = [Arg::Reg(pointer), Arg::Int(start.into())];
    let line = program.line;
    let set = new_instruction(program, Opcode::Mov, &[Modifier::U64], &set, line);
    program.blocks[0].steps.insert(0, set);
    replace_storage(program, pointer);
    Ok(())
}

/// The return of a function jumps to the calls of it.
fn fill_tables(program: &mut Program<'_>, stack: &Stack<'_, '_>) -> Result<(), LoweringError> {
    let mut jumps = 0;
    for function in &stack.functions {
        if let Terminator::Table {
            targets,
            otherwise: Some(wrong),
            ..
        } = &mut program.blocks[function.table.index()].terminator
        {
            let count = function.sites.iter().max().map_or(0, |last| last + 1);
            jumps += count;
            if jumps > MAX_JUMPS {
                return Err(too_many_jumps(function.function.span));
            }
            *targets = vec![*wrong; count];
            for &site in &function.sites {
                targets[site] = stack.sites[site].back;
            }
        }
    }
    Ok(())
}

/// Saves registers around the calls in functions that may call themselves.
fn save(program: &mut Program<'_>, stack: &Stack<'_, '_>, pointer: Reg, frames: &mut [u32]) {
    if !stack.functions.iter().any(|function| function.is_recursive) {
        return;
    }
    // Within a function, what comes after a call follows it: the callee, which may be the function
    // itself, writes its own copies of the registers.
    let mut calls = Vec::new();
    for site in &stack.sites {
        let end = &mut program.blocks[site.enter.index()].terminator;
        calls.push(std::mem::replace(end, Terminator::Jump(site.back)));
    }
    let liveness = Liveness::new(program);
    for (site, call) in stack.sites.iter().zip(calls) {
        program.blocks[site.enter.index()].terminator = call;
    }
    for site in &stack.sites {
        let Some(caller) = site.caller else { continue };
        let function = &stack.functions[caller];
        if !function.is_recursive {
            continue;
        }
        let live = liveness.live_in(site.back).iter().copied();
        let live: Vec<Reg> = live.filter(|r| function.registers.contains(&r.0)).collect();
        let line = program.line;
        let (mut saves, mut restores) = (Vec::new(), Vec::new());
        let mut offset = function.frame.next_multiple_of(8);
        for reg in live {
            let class = program.registers[reg.index()];
            let address = Arg::Address(Base::Reg(pointer), ByteOffset::saturating(offset.into()));
            offset += 8;
            let (ty, kept) = match class {
                RegClass::I16 => (Modifier::B16, reg),
                RegClass::I32 => (Modifier::B32, reg),
                RegClass::F32 => (Modifier::F32, reg),
                RegClass::I64 => (Modifier::B64, reg),
                RegClass::F64 => (Modifier::F64, reg),
                RegClass::Pred => {
                    program.registers.push(RegClass::I32);
                    (Modifier::U32, Reg(program.registers.len() as u32 - 1))
                }
            };
            let (flag, kept) = (Arg::Reg(reg), Arg::Reg(kept));
            let mut new = |opcode, modifiers: &[Modifier], args: &[Arg]| {
                new_instruction(program, opcode, modifiers, args, line)
            };
            let is_flag = class == RegClass::Pred;
            if is_flag {
                let select = [kept, Arg::Int(1), Arg::Int(0), flag];
                saves.push(new(Opcode::Selp, &[Modifier::U32], &select));
            }
            let access = [Modifier::Local, ty];
            saves.push(new(Opcode::St, &access, &[address, kept]));
            restores.push(new(Opcode::Ld, &access, &[kept, address]));
            if is_flag {
                let test = [flag, kept, Arg::Int(0)];
                restores.push(new(Opcode::Setp, &[Modifier::Ne, Modifier::U32], &test));
            }
        }
        frames[caller] = frames[caller].max(offset);
        program.blocks[site.enter.index()].steps.splice(0..0, saves);
        // The first step moves the frame pointer back.
        program.blocks[site.back.index()]
            .steps
            .splice(1..1, restores);
    }
}

fn new_instruction(
    program: &mut Program<'_>,
    opcode: Opcode,
    modifiers: &[Modifier],
    args: &[Arg],
    line: u32,
) -> Step {
    let start = program.args.len() as u32;
    program.args.extend_from_slice(args);
    let args = ArgList {
        start,
        len: args.len() as u32,
    };
    let modifiers = modifiers_of(modifiers);
    Step::Instruction(Instruction::new(
        opcode,
        modifiers,
        args,
        Span::default(),
        line,
    ))
}

/// Replaces variables in frames by addresses relative to the frame pointer.
fn replace_storage(program: &mut Program<'_>, pointer: Reg) {
    let mut blocks = std::mem::take(&mut program.blocks);
    for block in &mut blocks {
        for mut step in std::mem::take(&mut block.steps) {
            let (list, line) = match &step {
                Step::Instruction(i) => (i.args, i.line),
                Step::SystemCall { args, line, .. } => (*args, *line),
            };
            for at in list.start..list.start + list.len {
                match program.args[at as usize] {
                    Arg::Address(Base::Storage(Storage::Stack(start)), offset) => {
                        let offset = ByteOffset::saturating(i64::from(start) + offset.bytes());
                        program.args[at as usize] = Arg::Address(Base::Reg(pointer), offset);
                        if let Step::Instruction(i) = &mut step {
                            i.modifiers = call_params::in_local_memory(&i.modifiers);
                        }
                    }
                    Arg::Symbol(Storage::Stack(start), offset) => {
                        program.registers.push(RegClass::I64);
                        let sum = Arg::Reg(Reg(program.registers.len() as u32 - 1));
                        let offset = (i64::from(start) + offset.bytes()).cast_unsigned();
                        program.args[at as usize] = sum;
                        let parts = [sum, Arg::Reg(pointer), Arg::Int(offset)];
                        let add =
                            new_instruction(program, Opcode::Add, &[Modifier::U64], &parts, line);
                        block.steps.push(add);
                    }
                    _ => {}
                }
            }
            block.steps.push(step);
        }
    }
    program.blocks = blocks;
}
