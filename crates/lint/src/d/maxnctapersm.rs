//! `.maxnctapersm 2`

use crate::{Check, Code, Edit, Findings, ModuleContext, Rule};
use ptx::ast::{Item, Span, Version};

pub static RULE: Rule = Rule {
    code: Code::new('D', 104),
    name: "maxnctapersm",
    summary: "`.maxnctapersm`, which was renamed to `.minnctapersm`.",
    why: "It requests a minimum number of blocks on a multiprocessor, not a maximum. PTX 2.0 \
          renamed it, and PTX 2.1 and later do not allow the old name.",
    instead: "Write `.minnctapersm`.",
    bad: "\
.version 2.0
.target sm_20

.entry k() .maxntid 64 .maxnctapersm 2
{
	exit;
}
",
    good: "\
.version 2.0
.target sm_20

.entry k() .maxntid 64 .minnctapersm 2
{
	exit;
}
",
    default: false,
    check: Check::Module(check),
};

const OLD: &str = ".maxnctapersm";
const NEW: &str = ".minnctapersm";

fn check(context: &ModuleContext<'_, '_>, findings: &mut Findings) {
    for item in &context.module.items {
        let Item::Function(function) = item else {
            continue;
        };
        for directive in function
            .directives
            .iter()
            .filter(|d| d.name == "maxnctapersm")
        {
            let start = directive.span.start;
            let span = Span {
                start,
                end: start + OLD.len() as u32,
            };
            let finding = findings.add(span, format!("`{OLD}` is deprecated since PTX 2.0"));
            finding.help(format!("write `{NEW}`"));
            let known = context.version >= Some(Version { major: 2, minor: 0 });
            if known && directive.text.starts_with(OLD) {
                finding.fix([Edit {
                    span,
                    replacement: NEW.to_owned(),
                }]);
            }
        }
    }
}
