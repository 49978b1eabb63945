//! What `ptxas` rejects, found without it.
//!
//! The rule of this module: when in doubt, accept. A module that ptxas takes
//! and this rejects cannot be used, a mistake missed here is found by ptxas.

mod address;
mod agreement;
mod call;
mod form;
mod function;
mod misfit;
mod movement;
mod operand;
mod range;
mod symbols;

use super::ast::{FunctionKind, Item, Linkage, Module, Name, Span, Version};
use super::diagnostic::{Code, Diagnostic, Report};
use super::isa::target::{Since, Target};
use symbols::{ModuleSymbols, Role, Symbol};

/// What all instructions of a module are checked against.
struct Context<'m, 'a> {
    source: &'a str,
    module: &'m Module<'a>,
    spellings: form::Spellings,
    symbols: ModuleSymbols<'m, 'a>,
    allowed: Allowed,
}

/// What the module says it may use; what it does not say, it may.
#[derive(Clone, Copy, Debug, Default)]
struct Allowed {
    version: Option<Version>,
    target: Option<Target>,
}

impl Allowed {
    fn permits(self, since: &Since) -> bool {
        let newest = Version {
            major: u8::MAX,
            minor: u8::MAX,
        };
        match (self.version, self.target) {
            (version, Some(target)) => match since.versions(target) {
                Some((first, gone)) => version
                    .is_none_or(|version| version >= first && version < gone.unwrap_or(newest)),
                None => false,
            },
            (Some(version), None) => version >= since.version,
            (None, None) => true,
        }
    }

    /// What a module would have to say that may not use something: which floor
    /// it is below, and the words for it.
    fn refusal(self, since: &Since) -> (Code, String) {
        let first = self.target.and_then(|target| since.versions(target));
        match (first, since.targets.first()) {
            (None, Some(rule)) if self.target.is_some() => (
                Code::TargetFloor,
                format!("`.target {}` or higher", rule.target),
            ),
            (first, _) => {
                let version = first.map_or(since.version, |(version, _)| version);
                (Code::VersionFloor, format!("`.version {version}` or later"))
            }
        }
    }
}

/// Checks a module that was read from `source`.
///
/// Gives what is wrong besides what reading it has reported, in the order of
/// the text.
///
/// ```
/// let source = ".version 8.0\n.target sm_80\n.entry k() { .reg .f32 a; div.f32 a, a, a; }";
/// let reading = ptxkit::ptx::read(source);
/// let found = ptxkit::ptx::check(&reading.module, source);
/// assert_eq!(found[0].code.to_string(), "E0104");
/// ```
pub fn check<'a>(module: &Module<'a>, source: &'a str) -> Vec<Diagnostic> {
    let mut report = Report::default();
    let allowed = head(module, source, &mut report);
    let mut symbols = ModuleSymbols::default();
    for item in &module.items {
        match item {
            Item::Variable(variable) => {
                let symbol = Symbol::Variable(variable, Role::Own);
                let once = !matches!(
                    variable.linkage,
                    Linkage::Extern | Linkage::Common | Linkage::Weak
                );
                if symbols.declare(variable.name.text, symbol, once).is_err() {
                    duplicate(variable.name, source, &mut report);
                }
            }
            Item::Function(function) => {
                let symbol = Symbol::Function(function);
                let once = function.body.is_some() && function.linkage != Linkage::Weak;
                if symbols.declare(function.name.text, symbol, once).is_err() {
                    duplicate(function.name, source, &mut report);
                }
            }
            // `.alias new, old;`
            Item::Directive(_) => {}
        }
    }
    let context = Context {
        source,
        module,
        spellings: form::Spellings::new(module, allowed),
        symbols,
        allowed,
    };
    for item in &module.items {
        let Item::Function(function) = item else {
            continue;
        };
        if function.kind == FunctionKind::Entry {
            limits(function, &mut report);
        }
        function::check(function, &context, &mut report);
    }
    report.into_vec()
}

/// `.version` and `.target`: there, known, and fitting one another.
fn head(module: &Module<'_>, source: &str, report: &mut Report) -> Allowed {
    let first_line = Span { start: 0, end: 0 };
    if module.version.is_none() {
        report.add(
            Diagnostic::new(
                Code::MissingVersion,
                first_line,
                "the module has no `.version`",
            )
            .help("begin with a line such as `.version 8.0`"),
        );
    }
    if module.target.is_empty() {
        report.add(
            Diagnostic::new(
                Code::MissingTarget,
                first_line,
                "the module has no `.target`",
            )
            .help("add a line such as `.target sm_80` after `.version`"),
        );
    }
    let mut allowed = Allowed {
        version: module.version.map(|(version, _)| version),
        target: None,
    };
    for word in &module.target {
        let known_option = matches!(
            word.text,
            "texmode_unified" | "texmode_independent" | "debug" | "map_f64_to_f32"
        );
        match Target::from_text(word.text) {
            Some(target) => {
                allowed.target = allowed.target.max(Some(target));
                target_version(*word, target, module.version, report);
            }
            None if known_option => {}
            None => report.add(
                Diagnostic::new(
                    Code::UnknownTarget,
                    word.span(source),
                    format!("no target is called `{}`", word.text),
                )
                .help("targets are written `sm_80`, `sm_90a`, `sm_100f`"),
            ),
        }
    }
    allowed
}

fn target_version(
    name: Name<'_>,
    target: Target,
    version: Option<(Version, Span)>,
    report: &mut Report,
) {
    let (Some((version, span)), Some(needed)) = (version, target.since()) else {
        return;
    };
    if version < needed {
        report.add(
            Diagnostic::new(
                Code::VersionFloor,
                span,
                format!(
                    "`{}` needs `.version {}.{}` or later",
                    name.text, needed.major, needed.minor
                ),
            )
            .help(format!(
                "write `.version {}.{}`",
                needed.major, needed.minor
            )),
        );
    }
}

fn limits(function: &super::ast::Function<'_>, report: &mut Report) {
    let directive = |name| function.directives.iter().find(|d| d.name == name);
    if let (Some(_), Some(required)) = (directive("maxntid"), directive("reqntid")) {
        report.add(Diagnostic::new(
            Code::UnknownDirective,
            required.span,
            "`.maxntid` and `.reqntid` exclude one another",
        ));
    }
}

fn duplicate(name: Name<'_>, source: &str, report: &mut Report) {
    report.add(Diagnostic::new(
        Code::Duplicate,
        name.span(source),
        format!("`{}` is declared twice here", name.text),
    ));
}
