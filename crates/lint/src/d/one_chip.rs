//! An unneeded `.target sm_90a`

use crate::{Check, Code, Edit, Findings, ModuleContext, Rule};
use ptx::isa::target::{Suffix, Target};
use ptx::{CheckOptions, check_with};

pub static RULE: Rule = Rule {
    code: Code::new('D', 201),
    name: "needless-target-suffix",
    summary: "A `.target` with the suffix `a` or `f` in a module that does not need it.",
    why: "PTX for `sm_90` runs on all later GPUs. PTX for `sm_90a` only runs on that \
          architecture, and PTX for `sm_100f` on one family: other GPUs reject it.",
    instead: "Write the `.target` without the suffix, or with that of the family if it is \
              sufficient. Put code that needs the suffix into a separate module, next to one for \
              all other GPUs.",
    bad: "\
.version 9.0
.target sm_90a
.address_size 64

.entry k()
{
	ret;
}
",
    good: "\
.version 9.0
.target sm_90
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
    let said = context
        .module
        .target
        .iter()
        .find_map(|word| Some((word, Target::from_text(word.text)?)));
    let Some((word, target)) = said.filter(|(_, target)| target.suffix != Suffix::None) else {
        return;
    };
    // The file's own target, even if the options override it.
    let good = |target| {
        let options = CheckOptions {
            target: Some(target),
            ..CheckOptions::default()
        };
        check_with(context.module, context.source, &options).is_empty()
    };
    if !good(target) {
        return;
    }
    let wider = [Suffix::None, Suffix::Family]
        .into_iter()
        .take_while(|suffix| *suffix != target.suffix)
        .map(|suffix| Target { suffix, ..target })
        .find(|wider| wider.since().is_some() && good(*wider));
    if let Some(wider) = wider {
        let span = word.span(context.source);
        let where_it_runs = match target.suffix {
            Suffix::Specific => "only on that GPU",
            _ => "only on that family of GPUs",
        };
        findings
            .add(
                span,
                format!("the module does not need `{target}`, with which it runs {where_it_runs}"),
            )
            .help(format!("write `{wider}`"))
            .fix([Edit {
                span,
                replacement: wider.to_string(),
            }]);
    }
}
