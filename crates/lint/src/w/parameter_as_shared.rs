//! `ld.shared` through what the host gave.

use crate::flow::Term;
use crate::flow::memory::MemoryAccess;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::{FunctionKind, Space};

pub static RULE: Rule = Rule {
    code: Code::new('W', 510),
    name: "parameter-as-shared",
    summary: "Shared memory is accessed at an address that the host passed as a pointer.",
    why: "The host has no address in shared memory: what it passes as a pointer points to global \
          memory, and its number is no place in the few bytes of shared memory that a block \
          has.\n\n\
          Reported are parameters of 64 bits that are added to the address as they are. One of 32 \
          bits may be an offset, and `.ptr .shared` says that the launch sets memory aside. (PTX \
          ISA, \"Kernel Function Parameter Attributes\".)",
    instead: "Access global memory: `cvta.to.global` and `ld.global`. Or take the address of a \
              `.shared` variable.",
    bad: "\
.entry k(.param .u64 data, .param .u64 to)
{
	.reg .b32 t, a;
	.reg .b64 p, q;
	ld.param.u64 p, [data];
	ld.param.u64 q, [to];
	cvta.to.global.u64 q, q;
	mov.u32 t, %tid.x;
	mad.wide.u32 q, t, 4, q;
	ld.shared.b32 a, [p];
	st.global.b32 [q], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 data, .param .u64 to)
{
	.reg .b32 t, a;
	.reg .b64 p, q;
	ld.param.u64 p, [data];
	ld.param.u64 q, [to];
	cvta.to.global.u64 q, q;
	mov.u32 t, %tid.x;
	mad.wide.u32 q, t, 4, q;
	cvta.to.global.u64 p, p;
	ld.global.b32 a, [p];
	st.global.b32 [q], a;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    if function.function.kind != FunctionKind::Entry {
        return;
    }
    for MemoryAccess { access, .. } in function.accesses() {
        if access.space != Some(Space::Shared) {
            continue;
        }
        let (Some(linear), Some(flow)) = (function.linear(access.address), function.flow()) else {
            continue;
        };
        let mut passed = linear
            .terms()
            .iter()
            .filter_map(|(term, times)| match term {
                Term::Parameter(id, _) if *times == 1 => Some(*id),
                _ => None,
            });
        let id = passed.next();
        let variable = linear.terms().iter();
        let added = variable
            .filter(|(term, _)| matches!(term, Term::Address(_)))
            .count();
        let Some(id) = id.filter(|_| added == 0) else {
            continue;
        };
        let parameter = flow.instructions.variable(id);
        let space = parameter.pointer.and_then(|pointer| pointer.space);
        if parameter.ty.bytes() < 8 || !parameter.dims.is_empty() || space == Some(Space::Shared) {
            continue;
        }
        let name = parameter.name.text;
        findings
            .add(
                access.span,
                format!(
                    "parameter `{name}` is a pointer of the host, and no address in shared memory"
                ),
            )
            .help("write `cvta.to.global.u64` behind the `ld.param`, and access global memory");
        // Who mistakes it does so at each access.
        return;
    }
}
