//! `cvt.f64.f32`, `mul.f64`, `cvt.rn.f32.f64`

use crate::flow::{Definition, Reference, ValueId};
use crate::multiprocessor::Multiprocessor;
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};
use ptx::ast::{Instruction, Operand};
use ptx::names::{Opcode, Type};

pub static RULE: Rule = Rule {
    code: Code::new('P', 201),
    name: "double-precision",
    summary: "64-bit floating point in between conversions from and to narrower types.",
    why: "A constant without its `f`, or a function of the wrong name, makes a computation one of \
          64 bits: values are converted, worked on at a half of the rate, or a 64th, and \
          converted back, which throws the added precision away.",
    instead: "Compute in the type of the values: write `2.0f` in C++, and call `sinf` for `sin`. \
              Sums that are kept in 64 bits over a loop are left alone.",
    bad: "\
.entry k(.param .u64 out)
{
	.reg .f32 a;
	.reg .f64 d;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.f32 a, [p];
	cvt.f64.f32 d, a;
	mul.f64 d, d, 0d4000CCCCCCCCCCCD;
	cvt.rn.f32.f64 a, d;
	st.global.f32 [p], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 out)
{
	.reg .f32 a;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.f32 a, [p];
	mul.f32 a, a, 0f40066666;
	st.global.f32 [p], a;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

/// What a value of 64 bits is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    /// Nothing is known, or of what was 64 bits wide before.
    Wide,
    /// Of a constant.
    Constant,
    /// Of what was converted from fewer bits, with this many operations.
    Narrow(u32),
}

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let mnemonics = &function.context.module.mnemonics;
    let has_double = |ty: Type| ty == Type::F64;
    if !mnemonics
        .iter()
        .any(|m| m.modifiers.types().any(has_double))
    {
        return;
    }
    let Some(flow) = function.flow() else {
        return;
    };
    let mut made = vec![Made::Wide; flow.values.definitions.len()];
    for block in &flow.graph.order {
        for id in flow.graph.blocks[block.index()].steps() {
            let step = &flow.instructions.steps[id.index()];
            let Some(instruction) = flow.instructions.get(id) else {
                continue;
            };
            if step.partial {
                continue;
            }
            let modifiers = &function.mnemonic(instruction).modifiers;
            let mut types = modifiers.types();
            let (to, from) = (types.next(), types.next());
            let result = match (instruction.opcode, to, from) {
                (Opcode::Cvt, Some(Type::F64), Some(Type::F32 | Type::F16 | Type::Bf16)) => {
                    Made::Narrow(0)
                }
                (Opcode::Cvt, Some(Type::F32 | Type::F16 | Type::Bf16), Some(Type::F64)) => {
                    if let Made::Narrow(count) = inputs(flow, function, &made, instruction) {
                        tell(function, instruction, count, findings);
                    }
                    Made::Wide
                }
                (Opcode::Mov, Some(Type::F64), _) => inputs(flow, function, &made, instruction),
                (Opcode::Setp, ..) if modifiers.types().last() == Some(Type::F64) => {
                    if let Made::Narrow(count) = inputs(flow, function, &made, instruction) {
                        tell(function, instruction, count + 1, findings);
                    }
                    Made::Wide
                }
                (
                    Opcode::Abs
                    | Opcode::Add
                    | Opcode::Div
                    | Opcode::Fma
                    | Opcode::Mad
                    | Opcode::Max
                    | Opcode::Min
                    | Opcode::Mul
                    | Opcode::Neg
                    | Opcode::Rcp
                    | Opcode::Sqrt
                    | Opcode::Sub,
                    Some(Type::F64),
                    _,
                ) => match inputs(flow, function, &made, instruction) {
                    Made::Narrow(count) => Made::Narrow(count + 1),
                    other => other,
                },
                _ => Made::Wide,
            };
            for (_, value) in flow.values.writes(&flow.instructions, step) {
                made[value.index()] = result;
            }
        }
    }
}

fn inputs(
    flow: &Flow<'_, '_>,
    function: &FunctionContext<'_, '_>,
    made: &[Made],
    instruction: &Instruction,
) -> Made {
    let start = instruction.operands.start as usize;
    let places = start + 1..start + instruction.operands.len as usize;
    let mut sum = Made::Constant;
    for place in places {
        let of = match function.body.operands.get(place) {
            Some(Operand::Float(_) | Operand::Integer(_)) => Made::Constant,
            Some(Operand::Name(_)) => match flow.instructions.reference(place) {
                Reference::Register(_) => of_value(flow, made, flow.values.of_operand(place)),
                _ => Made::Wide,
            },
            _ => Made::Wide,
        };
        sum = match (sum, of) {
            (Made::Wide, _) | (_, Made::Wide) => return Made::Wide,
            (Made::Narrow(a), Made::Narrow(b)) => Made::Narrow(a.saturating_add(b)),
            (Made::Narrow(count), _) | (_, Made::Narrow(count)) => Made::Narrow(count),
            _ => Made::Constant,
        };
    }
    sum
}

fn of_value(flow: &Flow<'_, '_>, made: &[Made], value: ValueId) -> Made {
    match flow.values.definition(value) {
        Some(Definition::Written(_)) => made[value.index()],
        // What a loop carries on is a sum that someone wanted in 64 bits.
        _ => Made::Wide,
    }
}

fn tell(
    function: &FunctionContext<'_, '_>,
    instruction: &Instruction,
    count: u32,
    findings: &mut Findings,
) {
    let target = function.context.target;
    let rate = target
        .and_then(Multiprocessor::of)
        .map(|row| row.double_rate);
    let rate = match rate {
        Some(rate) => format!(", each at 1/{rate} of the rate of `f32`"),
        None => String::new(),
    };
    let message = match count {
        0 => "a conversion to 64 bits and back, with nothing in between".to_owned(),
        1 => format!("1 operation of 64 bits on what had fewer{rate}"),
        _ => format!("{count} operations of 64 bits on what had fewer{rate}"),
    };
    findings
        .add(instruction.opcode_span, message)
        .help("compute in `f32`: a constant without its `f` is the usual cause");
}
