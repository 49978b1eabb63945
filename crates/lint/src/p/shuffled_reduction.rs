//! Five `shfl.sync` where `redux.sync` is one

use crate::flow::{Definition, InstructionId, Reference, ValueId};
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};
use ptx::ast::{Instruction, Operand};
use ptx::names::{Modifier, Opcode, Type};

pub static RULE: Rule = Rule {
    code: Code::new('P', 210),
    name: "shuffled-reduction",
    summary: "A reduction of 32-bit integers over the warp in five steps.",
    why: "A `shfl.sync` takes about as long as a load from shared memory, and each step waits \
          for the previous one. From sm_80, `redux.sync` reduces the integers of all lanes with \
          one instruction, and returns the result to all of them.",
    instead: "Use `redux.sync.add.s32`, `.min`, `.max`, `.and`, `.or` or `.xor`. Floating-point \
              numbers still need the five steps, except `.min` and `.max` on sm_100a.",
    bad: "\
.entry k(.param .u64 out)
{
	.reg .b32 a, b;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.u32 a, [p];
	shfl.sync.bfly.b32 b, a, 16, 31, -1;
	add.u32 a, a, b;
	shfl.sync.bfly.b32 b, a, 8, 31, -1;
	add.u32 a, a, b;
	shfl.sync.bfly.b32 b, a, 4, 31, -1;
	add.u32 a, a, b;
	shfl.sync.bfly.b32 b, a, 2, 31, -1;
	add.u32 a, a, b;
	shfl.sync.bfly.b32 b, a, 1, 31, -1;
	add.u32 a, a, b;
	st.global.u32 [p], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 out)
{
	.reg .b32 a;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.u32 a, [p];
	redux.sync.add.u32 a, a, -1;
	st.global.u32 [p], a;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

/// The first target that has `redux.sync`.
const SINCE: u16 = 80;
/// The distances 1, 2, 4, 8 and 16, as a bit set.
const ALL: u8 = 31;

/// The maximum number of interleaved reductions.
const MAX_INTERLEAVED: usize = 64;

/// A partial reduction.
#[derive(Clone, Copy)]
struct Steps {
    result: ValueId,
    distances: u8,
    opcode: Opcode,
    first: InstructionId,
}

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let target = function.context.target;
    let mnemonics = function.mnemonics;
    if target.is_none_or(|target| target.number < SINCE)
        || !mnemonics
            .iter()
            .any(|mnemonic| mnemonic.opcode == Opcode::Shfl)
    {
        return;
    }
    let Some(flow) = function.flow() else {
        return;
    };
    let mut known: Vec<Steps> = Vec::new();
    for (_, step, instruction) in function.steps() {
        let reduces = matches!(
            instruction.opcode,
            Opcode::Add | Opcode::Min | Opcode::Max | Opcode::And | Opcode::Or | Opcode::Xor
        );
        let modifiers = &function.mnemonic(instruction).modifiers;
        let ty = modifiers.types().next();
        if !reduces || !matches!(ty, Some(Type::B32 | Type::U32 | Type::S32)) || step.partial {
            continue;
        }
        let Some(steps) = extended(function, flow, &known, instruction) else {
            continue;
        };
        if steps.distances != ALL {
            known.push(steps);
            continue;
        }
        if let Some(first) = flow.instructions.get(steps.first) {
            let name = instruction.opcode.text();
            findings
                .add(
                    first.opcode_span,
                    format!(
                        "a warp reduction with 10 instructions, from here to line {}: \
                         `redux.sync.{name}` is 1",
                        function.line(instruction.opcode_span),
                    ),
                )
                .help(format!(
                    "use `redux.sync.{name}` of the original value, with the same mask"
                ));
        }
    }
}

/// The reduction after this instruction, which combines a value with that of another lane.
fn extended(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    known: &[Steps],
    instruction: &Instruction,
) -> Option<Steps> {
    let start = instruction.operands.start as usize;
    let (a, b) = (register(flow, start + 1)?, register(flow, start + 2)?);
    let result = register(flow, start)?;
    let step = [(a, b), (b, a)].into_iter().find_map(|(own, other)| {
        let Definition::Written(at) = flow.values.definition(other)? else {
            return None;
        };
        let shuffle = flow.instructions.get(at)?;
        let modifiers = &function.mnemonic(shuffle).modifiers;
        let across = modifiers.has(Modifier::Bfly) || modifiers.has(Modifier::Down);
        let first = shuffle.operands.start as usize;
        let Operand::Integer(mask) = function.body.operands.get(first + 4)? else {
            return None;
        };
        if shuffle.opcode != Opcode::Shfl
            || !across
            || mask.value as u32 != u32::MAX
            || register(flow, first + 1)? != own
            || flow.values.read_count(other) != 1
        {
            return None;
        }
        let distance = function.linear(first + 2)?.as_number()?;
        let distance = u8::try_from(distance).ok()?;
        (distance.is_power_of_two() && distance <= 16).then_some((own, distance, at))
    });
    let (own, distance, at) = step?;
    let before = known.iter().rev().take(MAX_INTERLEAVED).find(|steps| {
        steps.result == own && steps.opcode == instruction.opcode && steps.distances & distance == 0
    });
    Some(Steps {
        result,
        distances: before.map_or(0, |steps| steps.distances) | distance,
        opcode: instruction.opcode,
        first: before.map_or(at, |steps| steps.first),
    })
}

fn register(flow: &Flow<'_, '_>, place: usize) -> Option<ValueId> {
    match flow.instructions.reference(place) {
        Reference::Register(_) => Some(flow.values.of_operand(place)),
        _ => None,
    }
}
