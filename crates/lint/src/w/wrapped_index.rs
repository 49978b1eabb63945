//! `mul.lo.s32` of what needs more bits, widened to 64 bits behind.

use crate::flow::memory::Access;
use crate::flow::{BlockId, Definition, InstructionId, Linear, Term, ValueId};
use crate::{Check, Code, Findings, Flow, FunctionContext, Rule};
use ptx::ast::{FunctionKind, Instruction, Mnemonic, Operand};
use ptx::names::{Modifier, Opcode, SpecialRegister, Type};

pub static RULE: Rule = Rule {
    code: Code::new('W', 513),
    name: "wrapped-index",
    summary: "An index is computed in 32 bits, does not fit them, and is widened to 64 bits for \
              an address.",
    why: "`mul.lo.s32` keeps the low half of the product. Widening it afterwards does not bring \
          the high half back: the address lies gigabytes before the one that was meant.\n\n\
          A finding is worked out from `%tid`, `%ctaid` and constants, and names the thread, and \
          the size of the block or of the grid that it needs; of grids, only such as a device \
          holds at once, up to 128 blocks. Looked at are addresses that all threads access, \
          whatever the data. Nothing is said of an index with `%ntid` or a parameter in it, or \
          behind a branch: a bound may be what keeps it small. (PTX ISA, \"Integer Arithmetic \
          Instructions: mul\", \"mad\".)",
    instead: "Widen before the product: `mul.wide.s32`, or `cvt.s64.s32` and `mul.lo.s64`.",
    bad: "\
.entry k(.param .u64 data) .reqntid 1024
{
	.reg .b32 t, i;
	.reg .b64 at;
	ld.param.u64 at, [data];
	cvta.to.global.u64 at, at;
	mov.u32 t, %tid.x;
	mov.u32 i, %ctaid.x;
	mad.lo.s32 i, i, 134217728, t;
	mad.wide.s32 at, i, 4, at;
	st.global.b32 [at], t;
	ret;
}
",
    good: "\
.entry k(.param .u64 data) .reqntid 1024
{
	.reg .b32 t, block;
	.reg .b64 at, i;
	ld.param.u64 at, [data];
	cvta.to.global.u64 at, at;
	mov.u32 t, %tid.x;
	mov.u32 block, %ctaid.x;
	cvt.u64.u32 i, t;
	mad.wide.s32 i, block, 134217728, i;
	mad.lo.s64 at, i, 4, at;
	st.global.b32 [at], t;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

/// A device holds more blocks at once, so that a grid of more than these is nothing unusual.
const BLOCKS: i64 = 128;

/// A chain of more instructions is not followed.
const DEPTH: u32 = 8;

/// So many values are followed from a widened index to an access.
const FOLLOWED: usize = 32;

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    if function.function.kind != FunctionKind::Entry {
        return;
    }
    for (_, instruction) in function.instructions_with(|mnemonic, _| widened(mnemonic).is_some()) {
        let Some(ty) = widened(function.mnemonic(instruction)) else {
            continue;
        };
        let Some(flow) = function.flow() else {
            return;
        };
        let first = instruction.operands.start as usize;
        for place in [first + 1, first + 2] {
            let known = match function.body.operands.get(place) {
                Some(Operand::Name(_)) if place < first + instruction.operands.len as usize => {
                    function.linear(place)
                }
                _ => None,
            };
            let value = flow.values.of_operand(place);
            if let Some(index) = known
                && let Some(wraps) = wraps(function, &index, ty)
                && is_of_32_bits(function, flow, value, DEPTH)
                && is_address(function, flow, flow.values.of_operand(first))
            {
                tell(instruction, &wraps, findings);
            }
            // `cvt` has but one.
            if instruction.opcode == Opcode::Cvt {
                break;
            }
        }
    }
}

/// The type of 32 bits that an instruction widens to 64.
fn widened(mnemonic: &Mnemonic<'_>) -> Option<Type> {
    let is_mul = matches!(mnemonic.opcode, Opcode::Mul | Opcode::Mad);
    if !is_mul && mnemonic.opcode != Opcode::Cvt {
        return None;
    }
    let modifiers = &mnemonic.modifiers;
    let from = modifiers.types().last()?;
    let widens = if is_mul {
        modifiers.has(Modifier::Wide)
    } else {
        matches!(modifiers.types().next(), Some(Type::S64 | Type::U64))
    };
    (widens && matches!(from, Type::S32 | Type::U32)).then_some(from)
}

/// Where an index does not fit.
struct Wraps {
    /// The number that it would be.
    number: i64,
    /// The thread, as `%tid`.
    thread: [u32; 3],
    /// The block, and which way blocks are counted.
    block: Option<(SpecialRegister, i64)>,
    /// It needs a block of this shape, which may be smaller.
    size: Option<[u32; 3]>,
}

fn wraps(function: &FunctionContext<'_, '_>, index: &Linear, ty: Type) -> Option<Wraps> {
    let most = match ty {
        Type::U32 => i64::from(u32::MAX),
        _ => i64::from(i32::MAX),
    };
    // Of few indices is a multiple as large that it matters.
    let large = |(_, times): &(Term, i64)| times.unsigned_abs() > 1 << 20;
    if !index.terms().iter().any(large) {
        return None;
    }
    let launch = function.first_pass()?.block;
    let (mut number, mut thread, mut grid) = (index.constant, [0; 3], None);
    for (term, times) in index.terms() {
        let Term::Special(register) = *term else {
            return None;
        };
        let axis = match register {
            SpecialRegister::TidX => 0,
            SpecialRegister::TidY => 1,
            SpecialRegister::TidZ => 2,
            SpecialRegister::CtaidX | SpecialRegister::CtaidY | SpecialRegister::CtaidZ
                if grid.is_none() && *times > 0 =>
            {
                grid = Some((register, *times));
                continue;
            }
            _ => return None,
        };
        if *times > 0 {
            thread[axis] = launch.size[axis] - 1;
            number = number.checked_add(times.checked_mul(i64::from(thread[axis]))?)?;
        }
    }
    let missing = most.checked_add(1)?.checked_sub(number)?;
    let size = (!launch.required && thread != [0; 3]).then_some(launch.size);
    if missing <= 0 {
        return Some(Wraps {
            number,
            thread,
            block: None,
            size,
        });
    }
    let (register, times) = grid?;
    let block = (missing.checked_add(times)? - 1) / times;
    (block < BLOCKS).then_some(Wraps {
        number: number.checked_add(times.checked_mul(block)?)?,
        thread,
        block: Some((register, block)),
        size,
    })
}

/// Whether a value is a sum and product in 32 bits of what cannot have been cut off.
fn is_of_32_bits(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    value: ValueId,
    depth: u32,
) -> bool {
    let Some(Definition::Written(id)) = flow.values.definition(value) else {
        return false;
    };
    let Some(instruction) = flow.instructions.get(id) else {
        return false;
    };
    let modifiers = &function.mnemonic(instruction).modifiers;
    let whole = match instruction.opcode {
        Opcode::Mov | Opcode::Add | Opcode::Sub | Opcode::Shl | Opcode::Neg => true,
        Opcode::Mul | Opcode::Mad => modifiers.has(Modifier::Lo),
        _ => false,
    };
    let step = &flow.instructions.steps[id.index()];
    depth > 0
        && whole
        && !step.partial
        && modifiers.types().all(|ty| ty.bits() == 32)
        && flow
            .values
            .reads(&flow.instructions, step)
            .all(|(_, read)| is_of_32_bits(function, flow, read, depth - 1))
}

/// Whether a value of 64 bits goes into an address that all threads access.
fn is_address(function: &FunctionContext<'_, '_>, flow: &Flow<'_, '_>, value: ValueId) -> bool {
    let Some(users) = function.users() else {
        return false;
    };
    let mut open = vec![value];
    for at in 0..FOLLOWED {
        let Some(value) = open.get(at).copied() else {
            break;
        };
        for id in users.readers(value).filter_map(Result::ok) {
            let Some(instruction) = flow.instructions.get(id) else {
                continue;
            };
            let step = &flow.instructions.steps[id.index()];
            if let Some(access) = Access::of(function, instruction) {
                if flow.values.of_operand(access.address) == value && is_always(flow, id) {
                    return true;
                }
            } else if matches!(
                instruction.opcode,
                Opcode::Add | Opcode::Shl | Opcode::Mov | Opcode::Mul | Opcode::Mad | Opcode::Cvta
            ) {
                let written = flow.values.writes(&flow.instructions, step);
                open.extend(written.map(|(_, value)| value));
            }
        }
    }
    false
}

/// Whether every thread executes an instruction.
fn is_always(flow: &Flow<'_, '_>, id: InstructionId) -> bool {
    let home = flow.graph.block_of(id);
    let guarded = flow.instructions.steps[id.index()].guarded;
    let after = |after: Vec<Option<BlockId>>| {
        let mut path = std::iter::successors(Some(BlockId::ENTRY), |at| after[at.index()]);
        path.any(|at| at == home)
    };
    !guarded && (home == BlockId::ENTRY || after(flow.graph.post_dominators()))
}

fn tell(instruction: &Instruction, wraps: &Wraps, findings: &mut Findings) {
    let [x, y, z] = wraps.thread;
    let mut who = match (y, z) {
        (0, 0) => format!("in thread {x}"),
        _ => format!("in thread ({x}, {y}, {z})"),
    };
    if let Some((register, number)) = wraps.block {
        who += &format!(" of the block of which `{}` is {number}", register.text());
    }
    if let Some([x, y, z]) = wraps.size {
        who += &format!(", in blocks of {x} x {y} x {z} threads");
    }
    let number = wraps.number;
    findings
        .add(
            instruction.opcode_span,
            format!("this widens an index that 32 bits do not hold: it is {number} {who}"),
        )
        .help("widen before the multiplication: `mul.wide.s32`");
}
