//! `@@DWARF .byte 1`

use crate::{Check, Code, Findings, ModuleContext, Rule};
use ptx::ast::{DirectiveKind, Item};

pub static RULE: Rule = Rule {
    code: Code::new('D', 105),
    name: "dwarf-of-ptx-1",
    summary: "Debugging information in lines that begin with `@@DWARF`.",
    why: "PTX 2.0 replaced them by `.section`, and modules of PTX 2.0 and later may not have them.",
    instead: "Compile anew, or take the lines away: code does not depend on them.",
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
    // One finding is enough: there are thousands of lines, or none.
    let first = context.module.items.iter().find_map(|item| match item {
        Item::Directive(directive) if directive.kind == DirectiveKind::Dwarf => {
            Some(directive.span)
        }
        _ => None,
    });
    if let Some(span) = first {
        findings
            .add(span, "`@@DWARF` is deprecated since PTX 2.0")
            .help("`.section` holds debugging information since then");
    }
}
