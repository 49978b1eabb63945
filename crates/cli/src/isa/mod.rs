//! `ptxkit isa`: prints the instruction table, and what targets have.

mod targets;

use ptxkit::image::drivers;
use ptxkit::ptx::diagnostic::nearest;
use ptxkit::ptx::isa;
use ptxkit::ptx::names::{Modifier, Opcode};
use terminal::failure::Failure;
use terminal::output::{Format, json_line, print};

/// The arguments of `ptxkit isa`.
#[derive(Debug, clap::Args)]
pub struct IsaArgs {
    /// An opcode with modifiers of its forms: `mul`, `ld.global.v4`; the default is the list of opcodes
    #[arg(conflicts_with_all = ["drivers", "targets", "features"])]
    instruction: Option<String>,
    /// List the versions of NVIDIA's driver, with the newest PTX that each reads
    #[arg(long, conflicts_with_all = ["targets", "features"])]
    drivers: bool,
    /// List the targets from sm_50 on: the first PTX version, the limits of a multiprocessor
    #[arg(long, conflicts_with = "features")]
    targets: bool,
    /// List features of targets: the first PTX version, and the targets that have them
    #[arg(long)]
    features: bool,
    /// The format of --targets and --features
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Prints the opcodes, the forms of one, or what drivers and targets have.
pub fn run(args: &IsaArgs) -> Result<(), Failure> {
    if args.targets {
        let targets = targets::targets();
        print(&match args.format {
            Format::Text => targets::targets_text(&targets),
            Format::Json => json_line(&targets),
        });
        return Ok(());
    }
    if args.features {
        let features = targets::features();
        print(&match args.format {
            Format::Text => targets::features_text(&features),
            Format::Json => json_line(&features),
        });
        return Ok(());
    }
    if args.format == Format::Json {
        return Err(
            Failure::new("the forms of instructions and the drivers are printed as text")
                .help("--format json is for --targets and --features"),
        );
    }
    if args.drivers {
        let lines = drivers().map(|release| {
            let (major, minor) = (release.cuda / 1000, release.cuda % 1000 / 10);
            format!(
                "{:<9}{:<8}{}\n",
                release.branch,
                format!("{major}.{minor}"),
                release.ptx
            )
        });
        let lines: String = lines.collect();
        print(&format!("{:<9}{:<8}PTX\n{lines}", "driver", "CUDA"));
        return Ok(());
    }
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
