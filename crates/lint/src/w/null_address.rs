//! `st.global` at address 0.

use crate::flow::memory::MemoryAccess;
use crate::{Check, Code, Findings, FunctionContext, Rule};
use ptx::ast::Space;

pub static RULE: Rule = Rule {
    code: Code::new('W', 514),
    name: "null-address",
    summary: "Global memory is accessed at an address in the first page, as through a null \
              pointer.",
    why: "Nothing lies there: the kernel ends with `CUDA_ERROR_ILLEGAL_ADDRESS`.\n\n\
          Reported are generic and `.global` addresses that are numbers below 4096. Address 0 of \
          `.shared` and `.local` memory is an address like others. Nothing is said of a pointer \
          that is null on some ways only, or that the host passes. (PTX ISA, \"Generic \
          Addressing\".)",
    instead: "Load the pointer from a parameter, or take the address of a variable.",
    bad: "\
.entry k()
{
	.reg .b64 at;
	mov.b64 at, 0;
	st.global.b32 [at+8], 1;
	ret;
}
",
    good: "\
.entry k(.param .u64 data)
{
	.reg .b64 at;
	ld.param.u64 at, [data];
	cvta.to.global.u64 at, at;
	st.global.b32 [at+8], 1;
	ret;
}
",
    default: true,
    check: Check::Function(check),
};

/// The bytes of a page.
const PAGE: i64 = 4096;

fn check(function: &FunctionContext<'_, '_>, findings: &mut Findings) {
    for MemoryAccess { access, .. } in function.accesses() {
        if !matches!(access.space, None | Some(Space::Global)) {
            continue;
        }
        let Some(at) = function.number(access.address) else {
            continue;
        };
        if (0..PAGE).contains(&at) {
            findings
                .add(
                    access.span,
                    format!("this is address {at}, where no memory is"),
                )
                .help("take the pointer from a parameter or a variable");
        }
    }
}
