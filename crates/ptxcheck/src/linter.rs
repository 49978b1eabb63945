//! Checks and lints one PTX text.

use std::path::Path;

use super::config::Settings;
use super::origin::Origins;
use super::suppression::{self, Suppressions};
use lint::{self, CleanFunctions, Code, Finding, Findings};
use ptx::ast::Module;
use ptx::diagnostic::{Report, Severity};
use ptx::{check_into, is_surely_valid, read_into};

/// The findings of a text.
#[derive(Debug, Default)]
pub struct TextFindings {
    /// In the order of the text.
    pub findings: Vec<Finding>,
    /// The number of findings beyond `--max-findings`, by code and severity.
    pub omitted: Vec<(Code, Severity, usize)>,
    /// What the functions with findings were compiled from.
    pub origins: Origins,
}

impl TextFindings {
    /// The number of errors.
    pub fn errors(&self) -> usize {
        let listed = self.findings.iter().map(|finding| (finding.severity, 1));
        let omitted = self
            .omitted
            .iter()
            .map(|(_, severity, count)| (*severity, *count));
        let errors = listed
            .chain(omitted)
            .filter(|(severity, _)| *severity == Severity::Error);
        errors.map(|(_, count)| count).sum()
    }
}

/// Checks and lints a text.
///
/// `path` is that of its file, for the settings of single files.
pub fn lint(source: &str, path: &Path, settings: &Settings) -> TextFindings {
    lint_with(source, path, settings, lint::run_into)
}

/// The same for a text that was linted before: functions that had no findings then, and have not
/// changed, are not linted again.
pub fn lint_again(
    source: &str,
    path: &Path,
    settings: &Settings,
    clean: &mut CleanFunctions,
) -> TextFindings {
    lint_with(source, path, settings, |module, source, options, found| {
        clean.run_into(module, source, options, found);
    })
}

fn lint_with<'a>(
    source: &'a str,
    path: &Path,
    settings: &Settings,
    run: impl FnOnce(&Module<'a>, &'a str, &lint::Options, &mut Findings),
) -> TextFindings {
    let options = lint::Options {
        rules: settings.selection.rules(),
        target: settings.check.target,
        version: settings.check.version,
    };
    // Errors alone need no tree of the whole text, and most texts have none.
    if options.rules.is_empty()
        && !suppression::is_mentioned(source)
        && is_surely_valid(source, &settings.check)
    {
        return TextFindings::default();
    }
    let mut report = Report::with_limit(settings.max_findings);
    let module = read_into(source, &mut report);
    check_into(&module, source, &settings.check, &mut report);
    let mut omitted: Vec<(Code, usize)> = report
        .omitted()
        .map(|(code, count)| (code.into(), count))
        .collect();
    let mut found: Vec<Finding> = report.into_vec().into_iter().map(Finding::from).collect();

    let mut of_rules = Findings::with_limit(settings.max_findings);
    run(&module, source, &options, &mut of_rules);
    omitted.extend(of_rules.omitted());
    found.extend(of_rules.into_vec());

    let ignored = settings.ignored_in(path);
    let severity = |code| match ignored.iter().any(|prefix| prefix.takes(code)) {
        true => None,
        false => settings.selection.severity(code),
    };
    let mut suppressions = Suppressions::read(&module, source);
    found.retain(|finding| severity(finding.code).is_some());
    suppressions.suppress(&mut found);
    if severity(suppression::UNUSED.code).is_some() {
        found.extend(suppressions.unused(|code| severity(code).is_some()));
    }
    for finding in &mut found {
        finding.severity = severity(finding.code).unwrap_or(finding.severity);
    }
    found.sort_by_key(|finding| (finding.span.start, finding.code, finding.span.end));
    let omitted = omitted
        .into_iter()
        .filter_map(|(code, count)| Some((code, severity(code)?, count)));
    TextFindings {
        origins: Origins::new(&module, &found),
        findings: found,
        omitted: omitted.collect(),
    }
}
