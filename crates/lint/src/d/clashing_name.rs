//! `.reg .b32 elect;` in a module of PTX 7.0, `.reg .b32 %laneid;`

use crate::{Check, Code, Findings, ModuleContext, Rule};
use ptx::ast::{Function, Item, Name, Statement, Variable, Version};
use ptx::isa::{self, special};
use ptx::names::{Opcode, SpecialRegister};

pub static RULE: Rule = Rule {
    code: Code::new('D', 301),
    name: "clashing-name",
    summary: "A name that is reserved in a later version of PTX.",
    why: "The names of instructions are reserved words (PTX ISA, \"Identifiers\"), and each \
          version adds some: the module becomes invalid when its `.version` is raised. A \
          register with the name of a special register shadows it, so that `%laneid` does not \
          mean the special register in this function.",
    instead: "Choose another name.",
    bad: "\
.version 7.0
.target sm_80
.address_size 64

.entry k(.param .u64 out)
{
	.reg .b32 elect;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.b32 elect, 1;
	st.global.b32 [p], elect;
	ret;
}
",
    good: "\
.version 7.0
.target sm_80
.address_size 64

.entry k(.param .u64 out)
{
	.reg .b32 elected;
	.reg .b64 p;
	ld.param.u64 p, [out];
	cvta.to.global.u64 p, p;
	mov.b32 elected, 1;
	st.global.b32 [p], elected;
	ret;
}
",
    default: false,
    check: Check::Module(check),
};

fn check(context: &ModuleContext<'_, '_>, findings: &mut Findings) {
    let Some((version, _)) = context.module.version else {
        return;
    };
    let mut look = |name: Name<'_>| {
        let Some(message) = clash(name.text, version) else {
            return;
        };
        findings
            .add(name.span(context.source), message)
            .help("choose another name");
    };
    for item in &context.module.items {
        match item {
            Item::Variable(variable) => declared(variable, &mut look),
            Item::Function(function) => of_function(function, &mut look),
            Item::Directive(_) => {}
        }
    }
}

fn of_function<'a>(function: &Function<'a>, look: &mut impl FnMut(Name<'a>)) {
    look(function.name);
    for variable in function.returns.iter().chain(&function.params) {
        declared(variable, look);
    }
    for statement in function.body.iter().flat_map(|body| &body.statements) {
        match statement {
            Statement::Label(name) => look(*name),
            Statement::Variable(variable) => declared(variable, look),
            _ => {}
        }
    }
}

/// `%r<9>` declares `%r0` … and not `%r`.
fn declared<'a>(variable: &Variable<'a>, look: &mut impl FnMut(Name<'a>)) {
    if variable.count.is_none() {
        look(variable.name);
    }
}

fn clash(name: &str, version: Version) -> Option<String> {
    if name.starts_with('%') {
        let register = SpecialRegister::from_text(name)?;
        let since = special::of(register).since.version;
        return Some(if since > version {
            format!("`{name}` is a special register since PTX {since}")
        } else {
            format!("`{name}` shadows the special register of this name")
        });
    }
    let opcode = Opcode::from_text(name).filter(|opcode| *opcode != Opcode::Unknown)?;
    let since = isa::forms(opcode)
        .iter()
        .map(|form| form.since.version)
        .min()?;
    (since > version).then(|| format!("`{name}` is an instruction since PTX {since}"))
}
