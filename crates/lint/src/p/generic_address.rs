//! `ld.u32` of what `cvta.global` conversion

use crate::flow::memory::{Access, AccessKind};
use crate::flow::{Definition, Origin, Reference};
use crate::{Check, Code, Edit, Findings, Flow, FunctionContext, Rule};
use ptx::ast::{Instruction, Operand, Space, Span};
use ptx::names::Opcode;

pub static RULE: Rule = Rule {
    code: Code::new('P', 104),
    name: "generic-address",
    summary: "A generic access to memory whose state space is known.",
    why: "A generic access compares the address with the windows of shared and local memory, \
          needs a 64-bit address where shared memory needs 32 bits, and waits for accesses of \
          all state spaces. ptxas keeps the access generic even if it sees the `cvta`.",
    instead: "Name the state space: `ld.shared` with the address before the `cvta`, or \
              `ld.global` with the result of `cvta.to.global` for a pointer parameter of a \
              kernel.",
    bad: "\
.entry k(.param .u64 out)
{
	.shared .align 4 .b32 kept;
	.reg .b32 a;
	.reg .b64 p, q;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.u32 a, [p];
	add.u32 a, a, 1;
	cvta.shared.u64 q, kept;
	st.u32 [q], a;
	bar.sync 0;
	ld.shared.u32 a, [kept];
	st.global.u32 [p], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 out)
{
	.shared .align 4 .b32 kept;
	.reg .b32 a;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	ld.global.u32 a, [p];
	add.u32 a, a, 1;
	st.shared.u32 [kept], a;
	bar.sync 0;
	ld.shared.u32 a, [kept];
	st.global.u32 [p], a;
	ret;
}
",
    default: false,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    for instruction in function.instructions() {
        let Some(access) = Access::of(function, instruction) else {
            continue;
        };
        if access.space.is_some() {
            continue;
        }
        let Some(flow) = function.flow() else {
            return;
        };
        let space = match function.origin(access.address) {
            Some(Origin::Generic(space, _)) => space,
            // The host only has addresses of global memory.
            Some(Origin::Parameter(_)) => Space::Global,
            _ => continue,
        };
        if !matches!(
            space,
            Space::Global | Space::Shared | Space::Local | Space::Const
        ) {
            continue;
        }
        let word = space.text();
        let does = match access.kind {
            AccessKind::Load => "load",
            AccessKind::Store => "store",
            AccessKind::Atomic => "atomic operation",
        };
        let finding = findings.add(
            access.span,
            format!("a generic {does}, although the address is in {word} memory"),
        );
        finding.help(match space {
            Space::Global => format!(
                "convert the pointer once with `cvta.to.global.u64`, and name `.{word}` here",
            ),
            _ => format!(
                "name `.{word}` here, with the address before its conversion to a generic one"
            ),
        });
        // Older versions do not have all modifiers for local and constant memory.
        if matches!(space, Space::Global | Space::Shared)
            && let Some(edits) = fix(function, flow, instruction, &access, word)
        {
            finding.fix(edits);
        }
    }
}

/// The fix: the space in the mnemonic, and the address before `cvta` if it is a variable or a
/// register that is written once.
fn fix(
    function: &FunctionContext<'_, '_>,
    flow: &Flow<'_, '_>,
    instruction: &Instruction,
    access: &Access,
    space: &str,
) -> Option<[Edit; 2]> {
    let value = flow.values.of_operand(access.address);
    let Definition::Written(id) = flow.values.definition(value)? else {
        return None;
    };
    let conversion = flow.instructions.get(id)?;
    if conversion.opcode != Opcode::Cvta || flow.values.prior(value).is_some() {
        return None;
    }
    let source_operand = conversion.operands.start as usize + 1;
    let Operand::Name(name) = *function.body.operands.get(source_operand)? else {
        return None;
    };
    if let Reference::Register(register) = flow.instructions.reference(source_operand) {
        let steps = flow.instructions.steps.iter();
        let written = steps.flat_map(|step| flow.instructions.writes(step));
        if written.filter(|slot| slot.register == register).count() != 1 {
            return None;
        }
    }
    let text = &function.mnemonic(instruction).text;
    let at = place_of_space(text)? as u32;
    let start = instruction.opcode_span.start + at;
    // With white space between the words their spans are unknown.
    let source = function.context.source;
    let span = instruction.opcode_span;
    if source.get(span.start as usize..span.end as usize)? != text.as_ref() {
        return None;
    }
    Some([
        Edit {
            span: Span { start, end: start },
            replacement: format!(".{space}"),
        },
        Edit {
            span: access.span,
            replacement: name.text.to_owned(),
        },
    ])
}

/// The offset for the space: after the modifiers of memory ordering and scope.
fn place_of_space(text: &str) -> Option<usize> {
    let mut at = text.find('.')?;
    while let Some(rest) = text.get(at + 1..) {
        let end = rest.find('.').unwrap_or(rest.len());
        let word = &rest[..end];
        let before = [
            "weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "mmio", "cta",
            "cluster", "gpu", "sys",
        ];
        if !before.contains(&word) {
            break;
        }
        at += 1 + end;
    }
    Some(at)
}
