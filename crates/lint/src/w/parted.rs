//! What the findings on parted threads say.

use crate::flow::{Definition, Effect, InstructionId, ThreadSet, ValueId};
use crate::multiprocessor::WARP;
use crate::{Flow, FunctionContext};
use ptx::ast::Operand;
use ptx::names::SpecialRegister;

/// Whether the function has an instruction of which `wanted` is true.
pub(super) fn has_collective(
    function: &FunctionContext<'_, '_>,
    wanted: impl Fn(&Effect) -> bool,
) -> bool {
    function.context.effects().iter().any(&wanted)
        && function
            .instructions()
            .any(|instruction| function.effect_of(instruction).is_some_and(&wanted))
}

/// `, nor to 3 others`
pub(super) fn others(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => ", nor to 1 other".to_owned(),
        more => format!(", nor to {more} others"),
    }
}

/// Which branch or guard parts the threads, and by what.
pub(super) fn because(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    branch: InstructionId,
    threads: &[ThreadSet; 2],
) -> String {
    let step = &flow.instructions.steps[branch.index()];
    let Some(instruction) = flow.instructions.get(branch) else {
        return "their branch depends on the thread".to_owned();
    };
    let line = function.line(instruction.span);
    let guard = flow.values.guard(&flow.instructions, step);
    let guarded = function.body.guard(instruction);
    let name = guarded.map_or("", |guard| guard.predicate.text);
    let [own, others] = threads.each_ref().map(ThreadSet::first);
    let required = function.first_pass().is_none_or(|pass| pass.block.required);
    let large = match own.max(others).filter(|_| !required) {
        Some(threads) if threads >= WARP => format!(" in a block of more than {threads} threads"),
        _ => String::new(),
    };
    match guard.and_then(|guard| carrier(function, flow, guard)) {
        Some((register, made)) => {
            let made = function.line(made);
            format!("`{name}` in line {line} depends on `{register}` (line {made}){large}")
        }
        None => format!("`{name}` in line {line} depends on the thread{large}"),
    }
}

/// What is looked at for the register that makes a value differ.
const FOLLOWED: usize = 200;

/// The special register that makes a value differ between threads, and where it is read.
fn carrier(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    value: ValueId,
) -> Option<(&'static str, ptx::ast::Span)> {
    use SpecialRegister as S;
    let mut open = std::collections::VecDeque::from([value]);
    let mut visited = vec![value];
    while let Some(value) = open.pop_front() {
        let mut parts: Vec<ValueId> = Vec::new();
        match flow.values.definition(value)? {
            Definition::Written(id) => {
                let instruction = flow.instructions.get(id)?;
                for operand in function.operands(instruction) {
                    if let Operand::Special(register, _) = operand
                        && matches!(
                            register,
                            S::TidX | S::TidY | S::TidZ | S::Tid | S::Laneid | S::Warpid
                        )
                    {
                        return Some((register.text(), instruction.span));
                    }
                }
                if instruction.opcode == ptx::names::Opcode::Elect {
                    return Some(("elect.sync", instruction.span));
                }
                let step = &flow.instructions.steps[id.index()];
                parts.extend(flow.values.reads(&flow.instructions, step).map(|(_, v)| v));
            }
            Definition::Phi(_) => parts.extend(flow.values.phi_operands(&flow.graph, value)),
            Definition::Start => {}
        }
        for part in parts {
            let known = flow.values.definition(part).is_some();
            if known && visited.len() < FOLLOWED && !visited.contains(&part) {
                visited.push(part);
                open.push_back(part);
            }
        }
    }
    None
}
