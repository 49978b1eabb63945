//! `.target sm_90a` that nothing needs

use crate::{Check, Code, Edit, Findings, ModuleContext, Rule};
use ptx::isa::target::{Suffix, Target};
use ptx::{CheckOptions, check_with};

pub static RULE: Rule = Rule {
    code: Code::new('D', 201),
    name: "needless-target-suffix",
    summary: "A `.target` with `a` or `f` in a module that uses nothing of it.",
    why: "PTX for `sm_90` runs on every later GPU. PTX for `sm_90a` runs on that one alone, and \
          for `sm_100f` on one family: any other GPU refuses it.",
    instead: "Write the `.target` without the letter, or the family's where one has all that is \
              used. What needs the letter is best kept in a module of its own, beside another \
              for all other GPUs.",
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
    // As the file says, whatever it is judged for.
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
            Suffix::Specific => "on no other GPU",
            _ => "on no other family of GPUs",
        };
        findings
            .add(
                span,
                format!("the module needs no `{target}`, and runs {where_it_runs} with it"),
            )
            .help(format!("write `{wider}`"))
            .fix([Edit {
                span,
                replacement: wider.to_string(),
            }]);
    }
}
