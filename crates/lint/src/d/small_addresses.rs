//! `.address_size 32`, or none at all

use crate::{Check, Code, Findings, ModuleContext, Rule};
use ptx::ast::{Item, Span, Version};

pub static RULE: Rule = Rule {
    code: Code::new('D', 107),
    name: "small-addresses",
    summary: "A module with 32-bit addresses, explicitly or by default.",
    why: "Without `.address_size` a module has 32-bit addresses. No GPU from sm_90 runs such \
          code, and the assembler of CUDA 13 does not support it for any GPU.",
    instead: "Write `.address_size 64` after `.target`, and use 64-bit registers for addresses.",
    bad: "\
.version 9.0
.target sm_75

.entry k()
{
	ret;
}
",
    good: "\
.version 9.0
.target sm_75
.address_size 64

.entry k()
{
	ret;
}
",
    default: false,
    check: Check::Module(check),
};

fn check(context: &ModuleContext<'_, '_>, findings: &mut Findings) {
    let module = context.module;
    let has_code = module.items.iter().any(|item| match item {
        Item::Function(function) => function.body.is_some(),
        _ => false,
    });
    // Earlier versions do not have the directive.
    let may_say = module
        .version
        .is_some_and(|(version, _)| version >= Version { major: 2, minor: 3 });
    if !has_code || !may_say {
        return;
    }
    let help = "write `.address_size 64` after `.target`";
    match (module.address_size, module.target.first()) {
        (Some((32, span)), _) => {
            findings
                .add(
                    span,
                    "the assembler of CUDA 13 does not support 32-bit addresses",
                )
                .help(help);
        }
        (None, Some(target)) => {
            let Span { start, end } = target.span(context.source);
            let message = "the module has 32-bit addresses, the default without `.address_size`";
            findings.add(Span { start, end }, message).help(help);
        }
        _ => {}
    }
}
