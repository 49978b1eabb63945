//! `mov.u32 a, 0x100000000`

use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::{Instruction, Integer, Operand};
use ptx::names::Type;

pub static RULE: Rule = Rule {
    code: Code::new('W', 105),
    name: "truncated-immediate",
    summary: "A constant has more bits than the type of its instruction.",
    why: "The upper bits are dropped without a word, so that another number is used than the one \
          that stands there.\n\n\
          Looked at are types of 8 to 32 bits; a negative number that fits with its sign is none. \
          (PTX ISA, \"Constants: Integer Constants\" and \"Operand Size Exceeding \
          Instruction-Type Size\".)",
    instead: "Use a wider type, or write the number that is meant.",
    bad: "\
.entry k(.param .u64 dst)
{
	.reg .b32 a;
	.reg .b64 out;
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	mov.u32 a, 0x100000001;
	st.global.b32 [out], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 dst)
{
	.reg .b64 a;
	.reg .b64 out;
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	mov.u64 a, 0x100000001;
	st.global.b64 [out], a;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    // Nearly all constants are small, and fit everything.
    let mut large = Vec::new();
    for (at, operand) in (0_u32..).zip(&function.body.operands) {
        if let Operand::Integer(integer) = operand
            && integer.value >= LARGE
        {
            large.push((at, integer));
        }
    }
    let mut large = large.into_iter();
    let mut next = large.next();
    // The operands of instructions, and before those their elements, are in the same order.
    for instruction in function.instructions() {
        let Some((first, _)) = next else {
            break;
        };
        let list = instruction.operands;
        if first >= list.start + list.len {
            continue;
        }
        while let Some((at, integer)) = next.filter(|(at, _)| *at < list.start + list.len) {
            next = large.next();
            let place = match at.checked_sub(list.start) {
                Some(place) => Some(place as usize),
                None => function.operands(instruction).iter().position(|operand| {
                    matches!(operand, Operand::Vector(list, _)
                        if (list.start..list.start + list.len).contains(&at))
                }),
            };
            if let Some(place) = place {
                constant(function, instruction, place, integer, findings);
            }
        }
    }
}

/// Less than this fits every type.
const LARGE: u64 = 128;

fn constant(
    function: &FunctionContext<'_, '_>,
    instruction: &Instruction,
    place: usize,
    integer: &Integer,
    findings: &mut Findings,
) {
    let effect = function.effect_of(instruction);
    let Some(ty) = effect.and_then(|effect| *effect.types.get(place)?) else {
        return;
    };
    let bits = ty.bits();
    if !is_number(ty) || !(8..64).contains(&bits) {
        return;
    }
    let value = integer.value as i64;
    let fits = value >= -(1 << (bits - 1)) && value < 1 << bits;
    if !fits {
        let kept = integer.value & ((1 << bits) - 1);
        findings
            .add(
                integer.span,
                format!(
                    "`.{}` has {bits} bits: {kept:#x} is left of this",
                    ty.text()
                ),
            )
            .help(format!("write {kept:#x}, or take a wider type"));
    }
}

const fn is_number(ty: Type) -> bool {
    matches!(
        ty,
        Type::B8
            | Type::B16
            | Type::B32
            | Type::U8
            | Type::U16
            | Type::U32
            | Type::S8
            | Type::S16
            | Type::S32
    )
}
