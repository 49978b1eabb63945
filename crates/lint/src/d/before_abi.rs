//! `.reg .b32 x;` outside functions

use crate::{Check, Code, Findings, ModuleContext, Rule};
use ptx::ast::{Item, Space};

pub static RULE: Rule = Rule {
    code: Code::new('D', 103),
    name: "variable-before-abi",
    summary: "A `.reg` or `.local` variable outside functions.",
    why: "PTX 3.0 and later do not allow it: registers and local memory belong to a call. In an \
          older module one such variable makes the assembler drop the calling convention (ABI), \
          so that recursion, indirect calls and `printf` are not available in the whole module.",
    instead: "Declare it in the functions that use it, and pass it as a parameter.",
    bad: "\
.version 2.3
.target sm_20
.address_size 64

.reg .b32 x;

.entry k(.param .u64 out)
{
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.b32 x, 1;
	st.global.b32 [p], x;
	ret;
}
",
    good: "\
.version 2.3
.target sm_20
.address_size 64

.entry k(.param .u64 out)
{
	.reg .b32 x;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.b32 x, 1;
	st.global.b32 [p], x;
	ret;
}
",
    default: false,
    check: Check::Module(check),
};

fn check(context: &ModuleContext<'_, '_>, findings: &mut Findings) {
    for item in &context.module.items {
        let Item::Variable(variable) = item else {
            continue;
        };
        if matches!(variable.space, Space::Reg | Space::Local) {
            let message = format!(
                "`{}` is declared outside functions, where PTX 3.0 and later do not allow `.{}`",
                variable.name.text,
                variable.space.text()
            );
            findings
                .add(variable.name.span(context.source), message)
                .help("declare it in the functions that use it");
        }
    }
}
