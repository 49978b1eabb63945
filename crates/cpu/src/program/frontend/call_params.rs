//! Call-parameter promotion: the `.param` variables of calls become registers.
//!
//! A variable is promoted if its loads and stores access separate scalars, as in
//! code that compilers generate. Any other becomes local memory.

use crate::program::ir::byte_offset::ByteOffset;
use std::collections::BTreeMap;
use std::ops::Range;

use crate::program::ir::{
    Arg, ArgList, Base, LoweringError, Modifiers, Program, Reg, RegClass, Step, Storage,
};
use ptx::ast::Span;
use ptx::names::{Modifier, Opcode};

/// A `.param` variable of a call sequence.
#[derive(Clone, Copy, Debug)]
pub(in crate::program) struct CallParam {
    pub size: u32,
    pub align: u32,
}

/// The scalars that a variable consists of: size by offset. `None` if its accesses
/// overlap, or if its address is taken.
type ScalarAccesses = Option<BTreeMap<u32, u32>>;

pub(in crate::program) fn promote(
    program: &mut Program<'_>,
    call_params: &[CallParam],
) -> Result<(), LoweringError> {
    if call_params.is_empty() {
        return Ok(());
    }
    let mut scalars: Vec<ScalarAccesses> = vec![Some(BTreeMap::new()); call_params.len()];
    for block in &program.blocks {
        for step in &block.steps {
            collect(program, step, &mut scalars);
        }
    }

    let too_large = || LoweringError::unsupported(Span::default(), "too much local memory");
    let mut promoted: Vec<Option<BTreeMap<u32, Reg>>> = Vec::with_capacity(call_params.len());
    let mut offsets = Vec::with_capacity(call_params.len());
    for (param, scalars) in call_params.iter().zip(scalars) {
        let mut offset = 0;
        promoted.push(scalars.map(|scalars| {
            let registers = &mut program.registers;
            let new = |(at, size): (u32, u32)| {
                registers.push(match size {
                    1 | 2 => RegClass::I16,
                    4 => RegClass::I32,
                    _ => RegClass::I64,
                });
                (at, Reg(registers.len() as u32 - 1))
            };
            scalars.into_iter().map(new).collect()
        }));
        if matches!(promoted.last(), Some(None)) {
            let align = param.align.min(16);
            let start = program.local_bytes.checked_next_multiple_of(align);
            offset = start.ok_or_else(too_large)?;
            program.local_bytes = offset.checked_add(param.size).ok_or_else(too_large)?;
        }
        offsets.push(offset);
    }

    let mut blocks = std::mem::take(&mut program.blocks);
    for block in &mut blocks {
        let steps = std::mem::take(&mut block.steps);
        for step in steps {
            rewrite(program, step, &promoted, &mut block.steps);
        }
    }
    program.blocks = blocks;
    for arg in &mut program.args {
        match arg {
            Arg::Address(Base::Storage(storage), _) | Arg::Symbol(storage, _) => {
                if let Storage::CallParam(param) = *storage {
                    *storage = Storage::Local(offsets[param as usize]);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The variable, offset, scalar width and scalar count of a load or store.
fn access(program: &Program<'_>, step: &Step) -> Option<(u32, ByteOffset, u32, u32)> {
    let Step::Instruction(i) = step else {
        return None;
    };
    let args = program.list(i.args);
    let (address, value) = match (i.opcode, args) {
        (Opcode::Ld, [value, address]) | (Opcode::St, [address, value]) => (address, value),
        _ => return None,
    };
    let Arg::Address(Base::Storage(Storage::CallParam(param)), offset) = *address else {
        return None;
    };
    let count = match value {
        Arg::List(list) => list.len,
        _ => 1,
    };
    let bytes = i.modifiers.types().next()?.bytes() as u32;
    Some((param, offset, bytes, count))
}

/// Where a scalar of an access is in its variable; `None` where no variable has it.
fn place_of(offset: ByteOffset, number: u32, bytes: u32) -> Option<Range<u32>> {
    let start = u32::try_from(offset.bytes() + i64::from(number * bytes)).ok()?;
    Some(start..start.checked_add(bytes)?)
}

/// Adds the accesses of a step to the variables that it names.
fn collect(program: &Program<'_>, step: &Step, call_params: &mut [ScalarAccesses]) {
    let found = access(program, step);
    if let Some((param, offset, bytes, count)) = found {
        let scalars = &mut call_params[param as usize];
        for i in 0..count {
            let Some(Range { start: at, end }) = place_of(offset, i, bytes) else {
                *scalars = None;
                return;
            };
            let Some(known) = scalars else { return };
            let clash = known
                .range(..end)
                .next_back()
                .is_some_and(|(&start, &size)| start + size > at && (start, size) != (at, bytes));
            if clash || !matches!(bytes, 1 | 2 | 4 | 8) {
                *scalars = None;
            } else {
                known.insert(at, bytes);
            }
        }
        return;
    }
    // Its address is taken, or an instruction other than a load or store accesses it.
    let list = match step {
        Step::Instruction(i) => i.args,
        Step::SystemCall { args, .. } => *args,
    };
    for arg in program.list(list) {
        if let Arg::Symbol(Storage::CallParam(param), _)
        | Arg::Address(Base::Storage(Storage::CallParam(param)), _) = arg
        {
            call_params[*param as usize] = None;
        }
    }
}

/// The modifiers of an access to a parameter that is in local memory.
pub(in crate::program) fn in_local_memory(modifiers: &Modifiers) -> Modifiers {
    let mut local = Modifiers::default();
    for &modifier in modifiers.as_slice() {
        local.push(match modifier {
            Modifier::Param => Modifier::Local,
            other => other,
        });
    }
    local
}

/// Replaces the address operand of loads and stores by the promoted register.
fn rewrite(
    program: &mut Program<'_>,
    step: Step,
    promoted: &[Option<BTreeMap<u32, Reg>>],
    out: &mut Vec<Step>,
) {
    let storage = access(program, &step);
    let (Some((param, offset, bytes, count)), Step::Instruction(mut instruction)) = (storage, step)
    else {
        out.push(step);
        return;
    };
    let Some(scalars) = &promoted[param as usize] else {
        // It was not promoted.
        instruction.modifiers = in_local_memory(&instruction.modifiers);
        out.push(Step::Instruction(instruction));
        return;
    };
    let load = instruction.opcode == Opcode::Ld;
    let args = program.list(instruction.args);
    let value = args[usize::from(!load)];
    for i in 0..count {
        let part = match value {
            Arg::List(list) => program.list(list)[i as usize],
            single => single,
        };
        let place = place_of(offset, i, bytes);
        let Some(&register) = place.and_then(|place| scalars.get(&place.start)) else {
            continue;
        };
        let register = Arg::Reg(register);
        let start = program.args.len() as u32;
        program.args.extend(if load {
            [part, register]
        } else {
            [register, part]
        });
        let mut scalar = instruction;
        scalar.args = ArgList { start, len: 2 };
        let mut modifiers = Modifiers::default();
        for &m in instruction.modifiers.as_slice() {
            if !matches!(m, Modifier::V2 | Modifier::V4 | Modifier::V8) {
                modifiers.push(m);
            }
        }
        scalar.modifiers = modifiers;
        out.push(Step::Instruction(scalar));
    }
}
