//! What the findings on parted threads say.

use crate::flow::{Carrier, Effect, InstructionId, ThreadSet};
use crate::{Flow, FunctionContext};
use occupancy::WARP;

/// Whether the function has an instruction of which `wanted` is true.
pub(super) fn has_collective(
    function: &FunctionContext<'_, '_>,
    wanted: impl Fn(&Effect) -> bool,
) -> bool {
    function.has_effect(wanted)
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
    match guard.and_then(|guard| Carrier::find(function, flow, guard, |_| true)) {
        Some(carrier) => {
            let (register, made) = (carrier.name, function.line(carrier.span(flow)));
            format!("`{name}` in line {line} depends on `{register}` (line {made}){large}")
        }
        None => format!("`{name}` in line {line} depends on the thread{large}"),
    }
}
