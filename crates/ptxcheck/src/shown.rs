//! `--show-files` and `--show-settings`: what would be checked, and how.

use std::fmt::Write as _;

use super::args::CheckArgs;
use super::config::Settings;
use super::explain;
use super::inputs::Input;
use input::ShowName as _;
use ptx::Level;
use ptx::diagnostic::Severity;
use terminal::failure::{FAILED, Failure, VERIFIED};
use terminal::output::print;

/// Prints it; returns the exit status.
pub fn run(args: &CheckArgs, inputs: &[Input], failures: &[Failure]) -> u8 {
    failures.iter().for_each(Failure::print);
    if args.show_files {
        let names = inputs
            .iter()
            .map(|input| format!("{}\n", input.place.path().shown()));
        print(&names.collect::<String>());
    } else if let Some(first) = inputs.first() {
        print(&of(first));
    }
    match failures {
        [] => VERIFIED,
        _ => FAILED,
    }
}

/// The settings of a file, as a `ptxcheck.toml` that says the same.
fn of(input: &Input) -> String {
    let Settings {
        selection,
        check,
        max_warnings,
        unsafe_fixes,
        force_exclude,
        file,
        ..
    } = &*input.settings;
    let mut out = format!("# {}\n", input.place.path().shown());
    let mut line = |text: std::fmt::Arguments<'_>| {
        // Writing to a String cannot fail.
        let _ = out.write_fmt(text).and_then(|()| out.write_char('\n'));
    };
    match file {
        Some(file) => line(format_args!("# settings of {}", file.shown())),
        None => line(format_args!("# no ptxcheck.toml")),
    }
    if let Some(target) = check.target {
        line(format_args!("target = \"{target}\""));
    }
    if let Some(version) = check.version {
        line(format_args!("ptx-version = \"{version}\""));
    }
    line(format_args!("codegen = {}", check.level == Level::Codegen));
    line(format_args!("max-warnings = {}", max_warnings.unwrap_or(0)));
    line(format_args!("unsafe-fixes = {unsafe_fixes}"));
    line(format_args!("force-exclude = {force_exclude}"));
    let excluded: Vec<&str> = input.settings.excluded().collect();
    line(format_args!("exclude = {excluded:?}"));
    let enabled = selection.enabled().iter();
    let (rules, denied): (Vec<_>, Vec<_>) = enabled
        .partition(|(code, severity)| code.letter() == 'E' || *severity == Severity::Warning);
    for (key, codes) in [("select", rules), ("deny", denied)] {
        line(format_args!("{key} = ["));
        for (code, _) in codes {
            line(format_args!("  \"{code}\", # {}", explain::of(code).name));
        }
        line(format_args!("]"));
    }
    line(format_args!("\n[per-file-ignores]"));
    for (pattern, codes) in input.settings.per_file_ignores() {
        let codes: Vec<String> = codes.iter().map(ToString::to_string).collect();
        line(format_args!("{pattern:?} = {codes:?}"));
    }
    out
}
