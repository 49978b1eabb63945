//! Checks and lints one PTX text.

use std::path::Path;

use super::config::Settings;
use super::origin::Origins;
use super::selection::UNUSED;
use super::suppression::{self, Suppressions};
use lint::{self, CleanFunctions, Code, Finding, Findings, InTurn};
use ptx::ast::Module;
use ptx::diagnostic::{Report, Severity};
use ptx::{check_bodies, check_into, is_surely_valid, read_into, read_outline};

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
    let options = options(settings);
    let looked = in_turn(source, settings, &options)
        .unwrap_or_else(|| whole(source, settings, &options, lint::run_into));
    selected(looked, path, settings)
}

/// The same for a text that was linted before: functions that had no findings then, and have not
/// changed, are not linted again.
pub fn lint_again(
    source: &str,
    path: &Path,
    settings: &Settings,
    clean: &mut CleanFunctions,
) -> TextFindings {
    let options = options(settings);
    let looked = whole(
        source,
        settings,
        &options,
        |module, source, options, found| {
            clean.run_into(module, source, options, found);
        },
    );
    selected(looked, path, settings)
}

fn options(settings: &Settings) -> lint::Options {
    lint::Options {
        rules: settings.selection.rules(),
        target: settings.check.target,
        version: settings.check.version,
    }
}

/// What was found in a text, before comments and settings of single files are asked.
#[derive(Default)]
struct Looked {
    findings: Vec<Finding>,
    omitted: Vec<(Code, usize)>,
    suppressions: Suppressions,
    origins: Origins,
}

/// Looks at one function after the other, each as soon as it is read. `None` where that does not
/// do: for a text that may have errors, has comments that suppress findings, or has functions
/// that others call, and for rules that need the whole module.
fn in_turn(source: &str, settings: &Settings, options: &lint::Options) -> Option<Looked> {
    if suppression::is_mentioned(source) {
        return None;
    }
    // Where errors alone are wanted, instructions like others before are passed over. Most
    // texts have no errors.
    if options.rules.is_empty() {
        return is_surely_valid(source, &settings.check).then(Looked::default);
    }
    let (module, mut bodies) = read_outline(source)?;
    let mut rules = InTurn::new(&module, source, options)?;
    let mut found = Findings::with_limit(settings.max_findings);
    let mut origins = Origins::of_files(&module);
    let valid = check_bodies(
        &module,
        &mut bodies,
        source,
        &settings.check,
        &mut |function, body, names, mnemonics| {
            if rules.look(function, body, names, mnemonics, &mut found) {
                origins.add(function, Some(body), source);
            }
        },
    );
    if !valid {
        return None;
    }
    rules.end(&mut found);
    Some(Looked {
        omitted: found.omitted().collect(),
        findings: found.into_vec(),
        suppressions: Suppressions::default(),
        origins,
    })
}

/// Reads all of a text, checks it, and runs rules over it.
fn whole<'a>(
    source: &'a str,
    settings: &Settings,
    options: &lint::Options,
    run: impl FnOnce(&Module<'a>, &'a str, &lint::Options, &mut Findings),
) -> Looked {
    let mut report = Report::with_limit(settings.max_findings);
    let module = read_into(source, &mut report);
    check_into(&module, source, &settings.check, &mut report);
    let mut omitted: Vec<(Code, usize)> = report
        .omitted()
        .map(|(code, count)| (code.into(), count))
        .collect();
    let mut findings: Vec<Finding> = report.into_vec().into_iter().map(Finding::from).collect();

    let mut of_rules = Findings::with_limit(settings.max_findings);
    run(&module, source, options, &mut of_rules);
    omitted.extend(of_rules.omitted());
    findings.extend(of_rules.into_vec());
    Looked {
        suppressions: Suppressions::read(&module, source),
        origins: if suppression::is_mentioned(source) {
            // A comment may be a finding in any function.
            Origins::of_module(&module, source)
        } else {
            Origins::new(&module, source, &findings)
        },
        findings,
        omitted,
    }
}

/// The findings that are wanted in a file.
fn selected(looked: Looked, path: &Path, settings: &Settings) -> TextFindings {
    let Looked {
        findings: mut found,
        omitted,
        mut suppressions,
        origins,
    } = looked;
    let ignored = settings.ignored_in(path);
    let severity = |code| {
        if ignored.iter().any(|prefix| prefix.takes(code)) {
            None
        } else {
            settings.selection.severity(code)
        }
    };
    found.retain(|finding| severity(finding.code).is_some());
    suppressions.suppress(&mut found);
    if severity(UNUSED.code).is_some() {
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
        origins,
        findings: found,
        omitted: omitted.collect(),
    }
}
