//! `cvt.f64.f32`, `mul.f64`, `cvt.rn.f32.f64`

use crate::flow::{Definition, Reference, ValueId};
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};
use ptx::ast::{Instruction, Operand};
use ptx::isa::target::Target;
use ptx::names::{Opcode, Type};

pub static RULE: Rule = Rule {
    code: Code::new('P', 201),
    name: "double-precision",
    summary: "64-bit floating-point operations between conversions from and to narrower types.",
    why: "A constant without its `f` suffix, or the double-precision variant of a function, \
          makes a computation 64 bits wide: values are converted, processed at 1/2 to 1/64 of \
          the rate, and converted back, which discards the additional precision.",
    instead: "Compute in the type of the values: write `2.0f` in C++, and call `sinf` instead of \
              `sin`. The rule does not report 64-bit sums that a loop accumulates.",
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

/// The origin of a 64-bit value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// Unknown, or computed from 64-bit values.
    Wide,
    /// A constant.
    Constant,
    /// Computed from values converted from fewer bits, with this number of operations.
    Narrow(u32),
}

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let mnemonics = function.mnemonics;
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
    let mut origins = vec![Origin::Wide; flow.values.definitions.len()];
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
                    Origin::Narrow(0)
                }
                (Opcode::Cvt, Some(Type::F32 | Type::F16 | Type::Bf16), Some(Type::F64)) => {
                    if let Origin::Narrow(count) = inputs(flow, function, &origins, instruction) {
                        tell(function, instruction, count, findings);
                    }
                    Origin::Wide
                }
                (Opcode::Mov, Some(Type::F64), _) => inputs(flow, function, &origins, instruction),
                (Opcode::Setp, ..) if modifiers.types().last() == Some(Type::F64) => {
                    if let Origin::Narrow(count) = inputs(flow, function, &origins, instruction) {
                        tell(function, instruction, count + 1, findings);
                    }
                    Origin::Wide
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
                ) => match inputs(flow, function, &origins, instruction) {
                    Origin::Narrow(count) => Origin::Narrow(count + 1),
                    other => other,
                },
                _ => Origin::Wide,
            };
            for (_, value) in flow.values.writes(&flow.instructions, step) {
                origins[value.index()] = result;
            }
        }
    }
}

fn inputs(
    flow: &Flow<'_, '_>,
    function: &FunctionContext<'_, '_>,
    origins: &[Origin],
    instruction: &Instruction,
) -> Origin {
    let start = instruction.operands.start as usize;
    let places = start + 1..start + instruction.operands.len as usize;
    let mut sum = Origin::Constant;
    for place in places {
        let of = match function.body.operands.get(place) {
            Some(Operand::Float(_) | Operand::Integer(_)) => Origin::Constant,
            Some(Operand::Name(_)) => match flow.instructions.reference(place) {
                Reference::Register(_) => of_value(flow, origins, flow.values.of_operand(place)),
                _ => Origin::Wide,
            },
            _ => Origin::Wide,
        };
        sum = match (sum, of) {
            (Origin::Wide, _) | (_, Origin::Wide) => return Origin::Wide,
            (Origin::Narrow(a), Origin::Narrow(b)) => Origin::Narrow(a.saturating_add(b)),
            (Origin::Narrow(count), _) | (_, Origin::Narrow(count)) => Origin::Narrow(count),
            _ => Origin::Constant,
        };
    }
    sum
}

fn of_value(flow: &Flow<'_, '_>, origins: &[Origin], value: ValueId) -> Origin {
    match flow.values.definition(value) {
        Some(Definition::Written(_)) => origins[value.index()],
        // A loop-carried value is an intended 64-bit accumulation.
        _ => Origin::Wide,
    }
}

/// The ratio of `f32` to `f64` throughput (CUDA C++ Programming Guide, "Arithmetic
/// Instructions"); `None` if it is not published.
fn double_rate(target: Target) -> Option<u32> {
    Some(match target.number {
        70 | 80 | 90 | 100 => 2,
        75 => 32,
        86 | 87 | 89 | 120 | 121 => 64,
        _ => return None,
    })
}

fn tell(
    function: &FunctionContext<'_, '_>,
    instruction: &Instruction,
    count: u32,
    findings: &mut Findings,
) {
    let target = function.context.target;
    let rate = match target.and_then(double_rate) {
        Some(rate) => format!(", each at 1/{rate} of the rate of `f32`"),
        None => String::new(),
    };
    let message = match count {
        0 => "a conversion to 64 bits and back, without an operation in between".to_owned(),
        1 => format!("1 64-bit operation on a converted value{rate}"),
        _ => format!("{count} 64-bit operations on converted values{rate}"),
    };
    findings
        .add(instruction.opcode_span, message)
        .help("compute in `f32`: a constant without its `f` is the usual cause");
}
