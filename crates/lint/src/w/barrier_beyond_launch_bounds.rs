//! `bar.sync 1, 256` in a block of 128 threads.

use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::{FunctionKind, Operand};
use ptx::names::{Modifier, Opcode};

pub static RULE: Rule = Rule {
    code: Code::new('W', 304),
    name: "barrier-beyond-launch-bounds",
    summary: "A named barrier waits for more threads than a block of the kernel can have.",
    why: "`.maxntid` and `.reqntid` bound the threads of a block, and no block has more than \
          1024. A barrier that waits for more never opens.\n\n\
          A count that data or a parameter decides is not looked at. (PTX ISA, \"bar, barrier\" \
          and \"Performance-Tuning Directives: .maxntid\".)",
    instead: "Let the barrier wait for the threads that there are, or raise the launch bounds.",
    bad: "\
.entry k() .maxntid 128
{
	bar.sync 1, 256;
	ret;
}
",
    good: "\
.entry k() .maxntid 256
{
	bar.sync 1, 256;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

/// No device has larger blocks.
const MOST: u64 = 1024;

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let bound = |name: &str| {
        let directives = &mut function.function.directives.iter();
        let directive = directives.find(|directive| directive.name == name)?;
        let product = directive.values.iter().map(|n| u64::from(*n)).product();
        Some((product, directive.name))
    };
    let bounds = bound("reqntid").or_else(|| bound("maxntid"));
    let bounds = bounds.filter(|_| function.function.kind == FunctionKind::Entry);
    let (most, why) = match bounds {
        Some((most, name)) => (MOST.min(most), format!("`.{name}` allows {most}")),
        None => (MOST, format!("a block has {MOST} at most")),
    };
    let is_barrier = |opcode| matches!(opcode, Opcode::Bar | Opcode::Barrier);
    if !function.has_mnemonic(|mnemonic| is_barrier(mnemonic.opcode)) {
        return;
    }
    for instruction in function.instructions() {
        if !is_barrier(instruction.opcode) {
            continue;
        }
        let modifiers = &function.mnemonic(instruction).modifiers;
        if modifiers.has(Modifier::Warp) || modifiers.has(Modifier::Cluster) {
            continue;
        }
        // A reduction has its result first and a predicate last.
        let (place, all) = if modifiers.has(Modifier::Red) {
            (2, 4)
        } else {
            (1, 2)
        };
        if instruction.operands.len < all {
            continue;
        }
        let place = instruction.operands.start as usize + place;
        let Some(operand) = function.body.operands.get(place) else {
            continue;
        };
        let count = match operand {
            Operand::Integer(integer) => Some(integer.value),
            Operand::Name(_) => function
                .linear(place)
                .and_then(|linear| u64::try_from(linear.as_number()?).ok()),
            _ => None,
        };
        if let Some(count) = count.filter(|count| *count > most) {
            findings
                .add(
                    function.operand_span(instruction, operand),
                    format!("a barrier of {count} threads, but {why}"),
                )
                .help(format!(
                    "wait for {most} threads at most, or raise the launch bounds"
                ));
        }
    }
}
