//! The PTX in the file of a subcommand.

use super::args::CheckArgs;
use super::config::Configs;
use super::inputs::{self, Input, Place, Text};
use input::ShowName as _;
use ptx::diagnostic::{Report, nearest};
use ptx::{CheckOptions, Diagnostics, check_into, read_into};
use terminal::failure::{Failure, listing};
use terminal::output::eprint;

/// The PTX texts in the one file of a subcommand; `None` where a text has errors, which are then
/// on standard error: `floors`, `resources` and `cfg` end with [`MISMATCHES`].
///
/// # Errors
/// It cannot be read, or holds no PTX.
pub fn texts_without_errors(path: &std::path::Path) -> Result<Option<Vec<Text<'static>>>, Failure> {
    let texts = texts_of(path)?;
    let mut sound = true;
    for Text { name, source, .. } in &texts {
        let mut report = Report::default();
        let module = read_into(source, &mut report);
        check_into(&module, source, &CheckOptions::default(), &mut report);
        let omitted: usize = report.omitted().map(|(_, count)| count).sum();
        let errors = report.into_vec();
        if errors.is_empty() {
            continue;
        }
        sound = false;
        eprint(&format!("{}\n", Diagnostics::new(source, name, errors)));
        if omitted > 0 {
            eprint(&format!("and {omitted} more\n"));
        }
    }
    Ok(sound.then_some(texts))
}

fn texts_of(path: &std::path::Path) -> Result<Vec<Text<'static>>, Failure> {
    let args = CheckArgs {
        isolated: true,
        ..CheckArgs::default()
    };
    let settings = Configs::new(&args)?.of_folder(path)?;
    let place = Place::new(path, std::path::Path::new("<stdin>"));
    let input = Input {
        place,
        found: false,
        settings,
    };
    let (mut texts, mut damaged) = (Vec::new(), None);
    inputs::each_text(&input, |text| match text {
        Ok(Text {
            name,
            source,
            whole,
        }) => texts.push(Text {
            name,
            source: source.into_owned().into(),
            whole,
        }),
        Err(failure) => {
            damaged.get_or_insert(failure);
        }
    })?;
    match damaged {
        Some(failure) if texts.is_empty() => Err(failure),
        _ => Ok(texts),
    }
}

/// The error for a kernel that a file does not have.
pub fn no_kernel(name: &str, all: &[String], file: &std::path::Path) -> Failure {
    let failure = Failure::new(format!("{} has no kernel `{name}`", file.shown()));
    match nearest(name, all.iter().map(String::as_str)) {
        Some(near) => failure.help(format!("did you mean `{near}`?")),
        None if all.is_empty() => failure.help("it has no kernels"),
        None => failure.help(format!(
            "it has {}",
            listing(all.iter().map(String::as_str))
        )),
    }
}
