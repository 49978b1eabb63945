//! The parameters of calls: registers where only whole scalars are stored and
//! loaded, as compilers write them, else bytes of the thread's frame.

use std::collections::BTreeMap;

use super::build::Area;
use super::{Arg, Base, Class, Place, Program, Reg, Step};
use ptx::names::{Modifier, Opcode};

/// What is known of an area: its scalars by offset, or `None` once an access
/// does not fit that picture.
type Scalars = Option<BTreeMap<u32, u32>>;

pub(super) fn place(program: &mut Program<'_>, areas: &[Area]) {
    if areas.is_empty() {
        return;
    }
    let mut scalars: Vec<Scalars> = vec![Some(BTreeMap::new()); areas.len()];
    for block in &program.blocks {
        for step in &block.steps {
            collect(program, step, &mut scalars);
        }
    }

    let mut cells: Vec<Option<BTreeMap<u32, Reg>>> = Vec::with_capacity(areas.len());
    let mut offsets = Vec::with_capacity(areas.len());
    for (area, scalars) in areas.iter().zip(scalars) {
        let mut offset = 0;
        cells.push(scalars.map(|scalars| {
            let registers = &mut program.registers;
            let new = |(at, size): (u32, u32)| {
                registers.push(match size {
                    1 | 2 => Class::I16,
                    4 => Class::I32,
                    _ => Class::I64,
                });
                (at, Reg(registers.len() as u32 - 1))
            };
            scalars.into_iter().map(new).collect()
        }));
        if matches!(cells.last(), Some(None)) {
            offset = program.local_bytes.next_multiple_of(area.align.min(16));
            program.local_bytes = offset + area.size;
        }
        offsets.push(offset);
    }

    let mut blocks = std::mem::take(&mut program.blocks);
    for block in &mut blocks {
        let steps = std::mem::take(&mut block.steps);
        for step in steps {
            rewrite(program, step, &cells, &mut block.steps);
        }
    }
    program.blocks = blocks;
    for arg in &mut program.args {
        match arg {
            Arg::Address(Base::Place(place), _) | Arg::Symbol(place, _) => {
                if let Place::Area(area) = *place {
                    *place = Place::Local(offsets[area as usize]);
                }
            }
            _ => {}
        }
    }
}

/// The area, offset and width of the scalars that a load or store touches.
fn access(program: &Program<'_>, step: &Step) -> Option<(u32, i64, u32, u32)> {
    let Step::Instruction(i) = step else {
        return None;
    };
    let args = program.list(i.args);
    let (address, value) = match (i.opcode, args) {
        (Opcode::Ld, [value, address]) | (Opcode::St, [address, value]) => (address, value),
        _ => return None,
    };
    let Arg::Address(Base::Place(Place::Area(area)), offset) = *address else {
        return None;
    };
    let count = match value {
        Arg::List(list) => list.len,
        _ => 1,
    };
    let bytes = i.modifiers.types().next()?.bytes() as u32;
    Some((area, offset, bytes, count))
}

fn collect(program: &Program<'_>, step: &Step, areas: &mut [Scalars]) {
    let found = access(program, step);
    if let Some((area, offset, bytes, count)) = found {
        let scalars = &mut areas[area as usize];
        for i in 0..count {
            let Ok(at) = u32::try_from(offset + i64::from(i * bytes)) else {
                *scalars = None;
                return;
            };
            let Some(known) = scalars else { return };
            let clash = known
                .range(..at + bytes)
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
    // Its address as a value, or an access of another kind.
    let list = match step {
        Step::Instruction(i) => i.args,
        Step::SystemCall { args, .. } => *args,
    };
    for arg in program.list(list) {
        if let Arg::Symbol(Place::Area(area), _) | Arg::Address(Base::Place(Place::Area(area)), _) =
            arg
        {
            areas[*area as usize] = None;
        }
    }
}

/// Loads and stores of scalars name their register instead of an address.
fn rewrite(
    program: &mut Program<'_>,
    step: Step,
    cells: &[Option<BTreeMap<u32, Reg>>],
    out: &mut Vec<Step>,
) {
    let place = access(program, &step);
    let (Some((area, offset, bytes, count)), Step::Instruction(mut instruction)) = (place, step)
    else {
        out.push(step);
        return;
    };
    let Some(cells) = &cells[area as usize] else {
        // In the frame it is local memory.
        let mut modifiers = super::Modifiers::default();
        for &m in instruction.modifiers.as_slice() {
            modifiers.push(if m == Modifier::Param {
                Modifier::Local
            } else {
                m
            });
        }
        instruction.modifiers = modifiers;
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
        let at = (offset + i64::from(i * bytes)) as u32;
        let Some(&cell) = cells.get(&at) else {
            continue;
        };
        let cell = Arg::Reg(cell);
        let start = program.args.len() as u32;
        program
            .args
            .extend(if load { [part, cell] } else { [cell, part] });
        let mut scalar = instruction;
        scalar.args = super::ArgList { start, len: 2 };
        let mut modifiers = super::Modifiers::default();
        for &m in instruction.modifiers.as_slice() {
            if !matches!(m, Modifier::V2 | Modifier::V4 | Modifier::V8) {
                modifiers.push(m);
            }
        }
        scalar.modifiers = modifiers;
        out.push(Step::Instruction(scalar));
    }
}
