//! The head of a module: the lowest `.target` and `.version` that have all that it uses.

use ptx::ast::Version;
use ptx::isa::target::{Suffix, Target};
use ptx::version::{lowest_version, versions};
use ptx::{CheckOptions, Diagnostic, Diagnostics, Ptx, check_with, printer, read};

use crate::error::Error;

/// Lower targets are not considered: compilers of today make no code for them.
const FIRST_TARGET: u16 = 50;

/// Reads and checks what follows the head, and gives it its head.
pub fn finished(
    name: &str,
    text: &str,
    target: Option<Target>,
    free_form: bool,
) -> Result<Ptx, Error> {
    let newest = versions().last().unwrap_or_default();
    let draft = format!("{}{text}", head(newest, lowest_target()));
    let wrong = |source: &str, found| Error::Wrong(Diagnostics::new(source, name, found));
    let draft = if free_form {
        printer::format(&draft).map_err(|found| wrong(&draft, found))?
    } else {
        draft
    };
    let reading = read(&draft);
    if !reading.diagnostics.is_empty() {
        return Err(wrong(&draft, reading.diagnostics));
    }
    let check = |target| {
        let options = CheckOptions {
            version: Some(newest),
            target: Some(target),
            ..CheckOptions::default()
        };
        check_with(&reading.module, &draft, &options)
    };
    let target = match target {
        Some(target) => check(target).is_empty().then_some(target).ok_or(target),
        None => lowest(&check),
    };
    let target = target.map_err(|nearest| wrong(&draft, check(nearest)))?;
    let version = lowest_version(&reading.module, &draft, target);
    let version = version.map_or(newest, |(version, _)| version);
    let body = draft.strip_prefix(&head(newest, lowest_target()));
    let text = format!("{}{}", head(version, target), body.unwrap_or(text));
    // What has been read is text.
    Ptx::from_bytes(text, name).map_err(|_| wrong(&draft, Vec::new()))
}

fn lowest_target() -> Target {
    Target {
        number: FIRST_TARGET,
        suffix: Suffix::None,
    }
}

fn head(version: Version, target: Target) -> String {
    format!(".version {version}\n.target {target}\n.address_size 64\n")
}

/// The lowest target without an error: one without a suffix, else one of a family, else one of a
/// chip. If all have errors, the one that has the fewest.
fn lowest(check: &impl Fn(Target) -> Vec<Diagnostic>) -> Result<Target, Target> {
    let with = |suffix| {
        let all = Target::all().filter(move |target| target.suffix == suffix);
        all.filter(|target| target.number >= FIRST_TARGET)
    };
    let plain: Vec<Target> = with(Suffix::None).collect();
    let first = plain.partition_point(|target| !check(*target).is_empty());
    if let Some(target) = plain.get(first) {
        return Ok(*target);
    }
    // Some features are of one family alone, and some are gone on later targets.
    let mut nearest = (usize::MAX, lowest_target());
    for target in with(Suffix::None)
        .chain(with(Suffix::Family))
        .chain(with(Suffix::Specific))
    {
        let errors = check(target).len();
        if errors == 0 {
            return Ok(target);
        }
        nearest = nearest.min((errors, target));
    }
    Err(nearest.1)
}
