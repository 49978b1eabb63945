//! `ld` with the address of shared memory, `ld.shared` with a generic one.

use crate::flow::Origin;
use crate::flow::memory::{self, MemoryAccess};
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::{AddressBase, Instruction, Operand, Space};
use ptx::names::{Modifier, Opcode};

pub static RULE: Rule = Rule {
    code: Code::new('W', 505),
    name: "wrong-address-space",
    summary: "An address of one state space is used in another, or as a generic one.",
    why: "`mov` of a `.shared` or `.local` variable gives its offset in that memory, a small \
          number. A generic `ld` takes it for an address of the whole device, and faults or reads \
          something else. The other way round, a generic address is no offset, and `cvta.to` of \
          another space than that of the address gives none either.\n\n\
          `ld.b32 a, [tile]`, which names the variable itself, is right: ptxas knows its state \
          space. An address that is loaded or that a function returns is not followed. (PTX ISA, \
          \"Generic Addressing\" and \"cvta\".)",
    instead: "Say the state space, `ld.shared`, or convert the address with `cvta.shared`; convert \
              a generic address with `cvta.to.shared` before `ld.shared`.",
    bad: "\
.entry k(.param .u64 dst)
{
	.reg .b64 out, p;
	.reg .b32 a;
	.shared .align 4 .b8 tile[64];
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	mov.u64 p, tile;
	ld.b32 a, [p];
	st.global.b32 [out], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 dst)
{
	.reg .b64 out, p;
	.reg .b32 a;
	.shared .align 4 .b8 tile[64];
	ld.param.u64 out, [dst];
	cvta.to.global.u64 out, out;
	mov.u64 p, tile;
	ld.shared.b32 a, [p];
	st.global.b32 [out], a;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

/// `cvta.to.global` of what is no generic address of global memory.
fn conversion(
    function: &FunctionContext<'_, '_>,
    instruction: &Instruction,
    findings: &mut Findings,
) {
    let modifiers = &function.mnemonic(instruction).modifiers;
    if !modifiers.has(Modifier::To) || instruction.operands.len < 2 {
        return;
    }
    let place = instruction.operands.start as usize + 1;
    let (Some(flow), Some(origin), Some(to)) = (
        function.flow(),
        function.origin(place),
        memory::space(modifiers),
    ) else {
        return;
    };
    let (what, help) = match origin {
        Origin::Generic(space, _) if space != to => {
            let (space, to) = (space.text(), to.text());
            (
                format!(
                    "this is a generic address of `.{space}` memory, and is converted to `.{to}`"
                ),
                format!("convert it with `cvta.to.{space}`, or use it as a generic address"),
            )
        }
        Origin::Variable(id) if is_window(flow.instructions.variable(id).space) => {
            let variable = flow.instructions.variable(id);
            let (name, space) = (variable.name.text, variable.space.text());
            (
                format!("`{name}` is an address in `.{space}` memory, not a generic one"),
                format!("use it as it is, with `.{space}`"),
            )
        }
        Origin::Converted(space) if is_window(space) => {
            let space = space.text();
            (
                format!("this address was converted to `.{space}` memory: it is no generic one"),
                format!("use it as it is, with `.{space}`"),
            )
        }
        _ => return,
    };
    let span = function
        .body
        .operands
        .get(place)
        .map_or(instruction.opcode_span, |operand| {
            function.operand_span(instruction, operand)
        });
    findings.add(span, what).help(help);
}

/// Spaces whose addresses are surely no generic ones.
const fn is_window(space: Space) -> bool {
    matches!(space, Space::Shared | Space::Local | Space::Const)
}

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    let Some(flow) = function.flow() else {
        return;
    };
    for (_, instruction) in function.instructions_with(|one, _| one.opcode == Opcode::Cvta) {
        conversion(function, instruction, findings);
    }
    for MemoryAccess { access, .. } in function.accesses() {
        if access.space == Some(Space::Param) {
            continue;
        }
        let Some(origin) = function.origin(access.address) else {
            return;
        };
        // Of a variable that the address names itself, ptxas takes the state space,
        // and refuses another: the front end has judged that.
        let direct = match function.body.operands.get(access.address) {
            Some(Operand::Address {
                base: AddressBase::Name(_),
                ..
            }) => matches!(
                flow.instructions.reference(access.address),
                crate::flow::Reference::Variable(_)
            ),
            _ => continue,
        };
        let (what, help) = match (access.space, origin) {
            (None, Origin::Variable(id))
                if !direct && is_window(flow.instructions.variable(id).space) =>
            {
                let variable = flow.instructions.variable(id);
                let (name, space) = (variable.name.text, variable.space.text());
                (
                    format!("`{name}` is an address in `.{space}` memory, not a generic one"),
                    format!("say the state space, `.{space}`, or convert it with `cvta.{space}`"),
                )
            }
            (None, Origin::Converted(space)) if is_window(space) => {
                let space = space.text();
                (
                    format!(
                        "this address was converted to `.{space}` memory: it is no generic one"
                    ),
                    format!("say the state space, `.{space}`"),
                )
            }
            (Some(used), Origin::Variable(id)) if !direct => {
                let variable = flow.instructions.variable(id);
                if variable.space == used || variable.space == Space::Param {
                    continue;
                }
                let (name, space) = (variable.name.text, variable.space.text());
                (
                    format!(
                        "`{name}` is in `.{space}` memory, not in `.{}`",
                        used.text()
                    ),
                    format!("say `.{space}`"),
                )
            }
            (Some(used), Origin::Converted(space)) if used != space => (
                format!(
                    "this address was converted to `.{}` memory, and is used in `.{}`",
                    space.text(),
                    used.text()
                ),
                format!("say `.{}`", space.text()),
            ),
            (Some(used), Origin::Generic(space, _)) if used != space || is_window(space) => (
                format!(
                    "this is a generic address of `.{}` memory, and is used in `.{}`",
                    space.text(),
                    used.text()
                ),
                if used == space {
                    format!("convert it with `cvta.to.{}`", space.text())
                } else {
                    "leave the state space out".to_owned()
                },
            ),
            _ => continue,
        };
        findings.add(access.span, what).help(help);
    }
}
