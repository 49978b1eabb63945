//! One PTX text → what is found in it.

use std::path::Path;

use super::config::Settings;
use super::suppression::{self, Suppressions};
use lint::{self, Finding};
use ptx::{check_with, read};

/// Every finding that is wanted, in the order of the text.
///
/// `path` is that of the file, for what the settings say of single files.
pub fn judge(source: &str, path: &Path, settings: &Settings) -> Vec<Finding> {
    let reading = read(source);
    let errors = check_with(&reading.module, source, &settings.check);
    let errors = reading.diagnostics.into_iter().chain(errors);
    let mut found: Vec<Finding> = errors.map(Finding::from).collect();

    let options = lint::Options {
        rules: settings.selection.rules(),
        target: settings.check.target,
        version: settings.check.version,
    };
    found.extend(lint::run(&reading.module, source, &options));

    let ignored = settings.ignored_in(path);
    let severity = |code| match ignored.iter().any(|prefix| prefix.takes(code)) {
        true => None,
        false => settings.selection.severity(code),
    };
    let mut suppressions = Suppressions::read(&reading.module, source);
    found.retain(|finding| severity(finding.code).is_some() && !suppressions.suppress(finding));
    if severity(suppression::UNUSED.code).is_some() {
        found.extend(suppressions.unused(|code| severity(code).is_some()));
    }
    for finding in &mut found {
        finding.severity = severity(finding.code).unwrap_or(finding.severity);
    }
    found.sort_by_key(|finding| (finding.span.start, finding.code, finding.span.end));
    found
}
