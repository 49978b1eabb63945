//! `ld.global.u32 a, [p+2]`, where `p` is what the host passed.

use crate::flow::Term;
use crate::flow::memory::MemoryAccess;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::{FunctionKind, Space};

pub static RULE: Rule = Rule {
    code: Code::new('W', 509),
    name: "misaligned-in-parameter",
    summary: "An access lies at an offset from a pointer of the host that is no multiple of its \
              size.",
    why: "An access has to be aligned to all of its bytes. What `cuMemAlloc` returns is aligned \
          to 256 bytes, and a pointer to elements to their size; at an offset that is no multiple \
          of it the kernel faults with `CUDA_ERROR_MISALIGNED_ADDRESS`.\n\n\
          What is assumed is that the host passes a pointer that is aligned for the access \
          itself: one that is off by just as much would make it right. The offset is what remains \
          besides multiples of the size, whatever thread, block or turn it is. (PTX ISA, \
          \"Addresses as Operands\".)",
    instead: "Access at a multiple of the size, or in smaller pieces.",
    bad: "\
.entry k(.param .u64 data)
{
	.reg .b32 a, t;
	.reg .b64 p;
	ld.param.u64 p, [data];
	cvta.to.global.u64 p, p;
	mov.u32 t, %tid.x;
	mad.wide.u32 p, t, 4, p;
	ld.global.b32 a, [p+2];
	red.global.add.u32 [p], a;
	ret;
}
",
    good: "\
.entry k(.param .u64 data)
{
	.reg .b32 a, t;
	.reg .b64 p;
	ld.param.u64 p, [data];
	cvta.to.global.u64 p, p;
	mov.u32 t, %tid.x;
	mad.wide.u32 p, t, 4, p;
	ld.global.b32 a, [p+4];
	red.global.add.u32 [p], a;
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
        let pointed = matches!(access.space, None | Some(Space::Global));
        if !pointed || access.bytes < 2 {
            continue;
        }
        let Some(linear) = function.linear(access.address) else {
            continue;
        };
        let bytes = access.bytes as i64;
        let off = linear.constant.rem_euclid(bytes);
        if off == 0 {
            continue;
        }
        let mut base = None;
        let whole = linear.terms().iter().all(|(term, times)| match term {
            Term::Parameter(id, 0) if *times == 1 && base.is_none() => {
                base = Some(*id);
                true
            }
            _ => times % bytes == 0,
        });
        let (Some(id), Some(flow)) = (base.filter(|_| whole), function.flow()) else {
            continue;
        };
        let parameter = flow.instructions.variable(id);
        // A structure holds what it holds.
        if !parameter.dims.is_empty() {
            continue;
        }
        let name = parameter.name.text;
        findings
            .add(
                access.span,
                format!(
                    "{bytes} bytes at once at {off} behind a multiple of {bytes}: not aligned \
                     where `{name}` is"
                ),
            )
            .help(format!(
                "access it at multiples of {bytes}, or in smaller pieces"
            ));
    }
}
