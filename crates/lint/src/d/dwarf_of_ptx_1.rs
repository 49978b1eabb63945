//! `@@DWARF .byte 1`

use crate::{Check, Code, Findings, ModuleContext, Rule};
use ptx::ast::{DirectiveKind, Item};

pub static RULE: Rule = Rule {
    code: Code::new('D', 105),
    name: "dwarf-of-ptx-1",
    summary: "Debugging information in `@@DWARF` lines.",
    why: "PTX 2.0 replaced them by `.section`, and does not allow them.",
    instead: "Recompile, or remove the lines: they do not affect the code.",
    bad: "\
.version 1.4
.target sm_13

.entry k()
{
	exit;
}
@@DWARF .section .debug_str, \"\",@progbits
@@DWARF .byte 0
",
    good: "\
.version 1.4
.target sm_13

.entry k()
{
	exit;
}
",
    default: false,
    check: Check::Module(check),
};

fn check(context: &ModuleContext<'_, '_>, findings: &mut Findings) {
    // Only one finding: a module with these has thousands of lines.
    let first = context.module.items.iter().find_map(|item| match item {
        Item::Directive(directive) if directive.kind == DirectiveKind::Dwarf => {
            Some(directive.span)
        }
        _ => None,
    });
    if let Some(span) = first {
        findings
            .add(span, "`@@DWARF` is deprecated since PTX 2.0")
            .help("use `.section` for debugging information");
    }
}
