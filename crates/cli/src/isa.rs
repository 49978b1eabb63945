//! `ptxkit isa`: prints the instruction table.

use ptxkit::ptx::diagnostic::nearest;
use ptxkit::ptx::isa;
use ptxkit::ptx::names::{Modifier, Opcode};
use terminal::failure::Failure;
use terminal::output::print;

/// The arguments of `ptxkit isa`.
#[derive(Debug, clap::Args)]
pub struct IsaArgs {
    /// An opcode with modifiers of its forms: `mul`, `ld.global.v4`; the default is the list of opcodes
    instruction: Option<String>,
}

/// Prints the opcodes, or the forms of one.
pub fn run(args: &IsaArgs) -> Result<(), Failure> {
    let Some(instruction) = &args.instruction else {
        let names = Opcode::ALL
            .iter()
            .filter(|opcode| !isa::forms(**opcode).is_empty());
        let lines: Vec<String> = names.map(|opcode| format!("{}\n", opcode.text())).collect();
        print(&lines.concat());
        return Ok(());
    };
    let mut words = instruction.split('.');
    let opcode = words.next().unwrap_or_default();
    let opcode = Opcode::from_text(opcode)
        .filter(|opcode| *opcode != Opcode::Unknown)
        .ok_or_else(|| {
            let all = Opcode::ALL.iter().map(|opcode| opcode.text());
            let help = "`ptxkit isa` lists the instructions";
            unknown(&format!("instruction `{opcode}`"), opcode, all, help)
        })?;
    let words: Vec<Modifier> = words
        .map(|word| {
            Modifier::from_text(word).ok_or_else(|| {
                let forms = format!("`ptxkit isa {}` prints its forms", opcode.text());
                unknown(
                    &format!("modifier `{word}`"),
                    word,
                    isa::words(opcode, &[]),
                    &forms,
                )
            })
        })
        .collect::<Result<_, _>>()?;
    let forms = isa::forms(opcode)
        .iter()
        .filter(|form| words.iter().all(|word| form.may_have(*word)));
    let texts: Vec<String> = forms.map(isa::describe).collect();
    if texts.is_empty() {
        return Err(Failure::new(format!(
            "no form of `{}` has all of these modifiers",
            opcode.text()
        ))
        .help(format!("`ptxkit isa {}` prints all forms", opcode.text())));
    }
    print(&texts.join("\n"));
    Ok(())
}

fn unknown<'c>(
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'c str>,
    otherwise: &str,
) -> Failure {
    let failure = Failure::new(format!("PTX has no {what}"));
    match nearest(name, known) {
        Some(near) => failure.help(format!("did you mean `{near}`?")),
        None => failure.help(otherwise),
    }
}
