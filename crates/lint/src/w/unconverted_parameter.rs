//! `ld.global` through what the host gave, without `cvta.to.global`.

use crate::flow::Origin;
use crate::flow::memory::MemoryAccess;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::{FunctionKind, Space};

pub static RULE: Rule = Rule {
    code: Code::new('W', 504),
    name: "unconverted-parameter",
    summary: "Global memory is accessed through a parameter that was never converted to an address \
              in global memory.",
    why: "What the host passes is a generic address. That generic addresses of global memory are \
          the same numbers as global ones is how devices are built today, and nothing that the \
          language says. Besides, `cvta.to.global` is what tells the reader, and tools, that the \
          parameter is a pointer to global memory.\n\n\
          Inline assembly is left alone: the compiler gives it the generic address, and CUDA's \
          own headers count on that. Where a tool has taken the comments out of the text, it is \
          known by the empty lines that are left of them, and by blocks with registers of their \
          own. A function has one finding. (PTX ISA, \"Data Movement and Conversion Instructions: \
          cvta\".)",
    instead: "Convert the pointer with `cvta.to.global`, or declare the parameter `.ptr .global`, \
              which says that it holds a global address.",
    bad: "\
.entry k(.param .u64 dst)
{
	.reg .b64 p;
	ld.param.u64 p, [dst];
	st.global.b32 [p], 1;
	ret;
}
",
    good: "\
.entry k(.param .u64 dst)
{
	.reg .b64 p;
	ld.param.u64 p, [dst];
	cvta.to.global.u64 p, p;
	st.global.b32 [p], 1;
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
    for MemoryAccess {
        access,
        instruction,
        ..
    } in function.accesses()
    {
        if access.space != Some(Space::Global) {
            continue;
        }
        let (Some(Origin::Parameter(id)), Some(flow)) =
            (function.origin(access.address), function.flow())
        else {
            continue;
        };
        let parameter = flow.instructions.variable(id);
        let says = parameter.pointer.and_then(|pointer| pointer.space);
        // A structure holds what it holds.
        if says == Some(Space::Global) || !parameter.dims.is_empty() {
            continue;
        }
        // Compilers give it the generic address, and CUDA's own headers rely on that.
        if function.is_inline_assembly(instruction) {
            continue;
        }
        let name = parameter.name.text;
        findings
            .add(
                access.span,
                format!("this is the generic address of parameter `{name}`, not a global one"),
            )
            .help("write `cvta.to.global.u64` behind the `ld.param`");
        // Who forgets it for one parameter does so for all.
        return;
    }
}
