//! Checks heads: `.version` and `.target` of a module, parameters and directives of
//! a function.

use super::variable::{self, DeclarationPlace};
use super::{Allowed, CheckOptions, Context, Level, directive};
use crate::ast::{
    Directive, DirectiveKind, Function, FunctionDirective, FunctionKind, Item, Module, Name, Span,
    Version,
};
use crate::diagnostic::{Code, Diagnostic, Report};
use crate::features::{self, function_directive};
use crate::isa::target::Target;
use crate::requirements::PARAMETER_BYTES;
use crate::signature::parameter_bytes;

/// The options of `.target` besides architectures.
const OPTIONS: &[&str] = &[
    "texmode_unified",
    "texmode_independent",
    "debug",
    "map_f64_to_f32",
];

/// Checks the head; returns what the module may use.
pub fn check(
    module: &Module<'_>,
    source: &str,
    as_if: &CheckOptions,
    report: &mut Report,
) -> Allowed {
    let start = head_end(module, source);
    let mut allowed = Allowed::default();
    match module.version {
        None => report.add(
            Diagnostic::new(Code::MissingVersion, start, "the module has no `.version`")
                .help("begin with a line such as `.version 8.0`"),
        ),
        Some((version, span)) => {
            allowed.version = Some(version);
            if !features::is_version(version) {
                report.add(unknown_version(version, span));
            }
        }
    }
    if module.target.is_empty() {
        report.add(
            Diagnostic::new(Code::MissingTarget, start, "the module has no `.target`")
                .help("add a line such as `.target sm_80` after `.version`"),
        );
    }
    for (index, word) in module.target.iter().enumerate() {
        if let Some(target) = known(*word) {
            // The last one wins.
            allowed.target = Some(target);
        } else if index == 0 || !OPTIONS.contains(&word.text) {
            unknown(*word, source, report);
        }
    }
    allowed.version = as_if.version.or(allowed.version);
    allowed.target = as_if.target.or(allowed.target);
    allowed.codegen = as_if.level == Level::Codegen && matches!(module.address_size, Some((64, _)));
    allowed.independent = module
        .target
        .iter()
        .any(|word| word.text == "texmode_independent");
    options(module, &module.target, allowed, None, source, report);
    if !module.items.is_empty() {
        version_of_target(&module.target, allowed, source, report);
    }
    allowed
}

/// Checks a `.target` within a function. The code after it is still checked against the
/// target of the head.
pub fn target(words: &[Name<'_>], context: &Context<'_, '_>, report: &mut Report) {
    let Context {
        source,
        module,
        allowed,
        ..
    } = *context;
    let mut here = allowed;
    for word in words {
        if let Some(target) = known(*word) {
            here.target = Some(target);
        } else if !OPTIONS.contains(&word.text) {
            unknown(*word, source, report);
        }
    }
    let mode = if allowed.independent {
        "texmode_independent"
    } else {
        "texmode_unified"
    };
    options(module, words, here, Some(mode), source, report);
    version_of_target(words, here, source, report);
}

/// The target that a word names.
fn known(word: Name<'_>) -> Option<Target> {
    Target::from_text(word.text).filter(|target| target.since().is_some())
}

/// The first item of the module, or the end of the text.
fn head_end(module: &Module<'_>, source: &str) -> Span {
    let item = module.items.first().map(item_span);
    let size = module.address_size.map(|(_, span)| span);
    let first = size.or(item);
    let start = first.map_or(source.len() as u32, |span| span.start);
    Span { start, end: start }
}

fn item_span(item: &Item<'_>) -> Span {
    match item {
        Item::Variable(variable) => variable.span,
        Item::Function(function) => function.span,
        Item::Directive(directive) => directive.span,
    }
}

fn unknown_version(version: Version, span: Span) -> Diagnostic {
    let newest = features::NEWEST;
    let message = if version > newest {
        format!("PTX version {version} is not supported: the newest known version is {newest}")
    } else {
        format!("there is no PTX version {version}")
    };
    Diagnostic::new(Code::UnknownVersion, span, message).help(format!("write `.version {newest}`"))
}

fn unknown(word: Name<'_>, source: &str, report: &mut Report) {
    report.add(
        Diagnostic::new(
            Code::UnknownTarget,
            word.span(source),
            format!("unknown target `{}`", word.text),
        )
        .help("targets are written `sm_80`, `sm_90a`, `sm_100f`"),
    );
}

/// Checks `texmode_…`, `debug` and `map_f64_to_f32` of a `.target`, also against the
/// `mode` of an earlier one.
fn options<'a>(
    module: &Module<'_>,
    words: &[Name<'a>],
    allowed: Allowed,
    mut mode: Option<&'a str>,
    source: &str,
    report: &mut Report,
) {
    for word in words {
        let wrong = match word.text {
            "map_f64_to_f32" if allowed.target.is_some_and(|target| target.number >= 13) => {
                "`map_f64_to_f32` needs a target without `.f64`: sm_12 or lower"
            }
            "debug" if !has_section(module) => {
                "the target has `debug`, but the module has no `.section`"
            }
            "texmode_unified" | "texmode_independent" => {
                if mode
                    .replace(word.text)
                    .is_none_or(|before| before == word.text)
                {
                    continue;
                }
                "`texmode_unified` and `texmode_independent` are mutually exclusive"
            }
            _ => continue,
        };
        report.add(Diagnostic::new(
            Code::UnknownTarget,
            word.span(source),
            wrong,
        ));
    }
}

fn has_section(module: &Module<'_>) -> bool {
    module.items.iter().any(|item| {
        matches!(
            item,
            Item::Directive(Directive {
                kind: DirectiveKind::Section { .. } | DirectiveKind::Dwarf,
                ..
            })
        )
    })
}

/// Checks that the module's version has its targets.
fn version_of_target(words: &[Name<'_>], allowed: Allowed, source: &str, report: &mut Report) {
    let (Some(version), Some(target)) = (allowed.version, allowed.target) else {
        return;
    };
    let Some(needed) = target.since().filter(|needed| version < *needed) else {
        return;
    };
    if let Some(word) = words.last() {
        report.add(
            Diagnostic::new(
                Code::VersionFloor,
                word.span(source),
                format!("`{target}` needs `.version {needed}` or later"),
            )
            .help(format!("write `.version {needed}`")),
        );
    }
}

/// The head of a kernel or function: parameters, results, directives.
pub fn function(function: &Function<'_>, context: &Context<'_, '_>, report: &mut Report) {
    let count = function.params.len();
    for (index, param) in function.params.iter().enumerate() {
        let place = DeclarationPlace::Parameter {
            kind: function.kind,
            last: index + 1 == count,
            declared: function.body.is_none(),
        };
        variable::check(param, place, context, report);
    }
    for result in &function.returns {
        let declared = function.body.is_none();
        variable::check(
            result,
            DeclarationPlace::Return { declared },
            context,
            report,
        );
    }
    variable::several_results(&function.returns, report);
    let span = function.name.span(context.source);
    if function.kind == FunctionKind::Entry {
        let bytes = parameter_bytes(function);
        let most = PARAMETER_BYTES[2];
        if bytes > most {
            let message = format!("{bytes} bytes of parameters, the limit for a kernel is {most}");
            report.add(Diagnostic::new(Code::Limit, span, message));
        }
    } else {
        for param in function.returns.iter().chain(&function.params) {
            if param.name.text == "_" {
                report.add(Diagnostic::new(
                    Code::Duplicate,
                    param.name.span(context.source),
                    "a parameter of a function needs a name",
                ));
            }
        }
    }
    if function.attributes.managed {
        let message = "`.managed` is only for variables";
        report.add(Diagnostic::new(Code::UnknownDirective, span, message));
    }
    if function.attributes.unified.is_some() {
        report.add(separate_compilation(span));
    }
    directives(&function.directives, function.kind, context, report);
    let noreturn = named(&function.directives, "noreturn");
    if let (Some(noreturn), false) = (noreturn, function.returns.is_empty()) {
        report.add(Diagnostic::new(
            Code::UnknownDirective,
            noreturn.span,
            "a function with results returns",
        ));
    }
}

/// The error for what ptxas only accepts with `--compile-only`.
pub fn separate_compilation(span: Span) -> Diagnostic {
    Diagnostic::new(
        Code::UnknownDirective,
        span,
        "`.unified` needs separate compilation (`ptxas --compile-only`)",
    )
}

fn named<'d, 'a>(
    directives: &'d [FunctionDirective<'a>],
    name: &str,
) -> Option<&'d FunctionDirective<'a>> {
    directives.iter().find(|directive| directive.name == name)
}

/// Pairs of mutually exclusive directives.
const EXCLUSIVE: &[(&str, &str)] = &[
    ("maxntid", "reqntid"),
    ("reqnctapercluster", "maxclusterrank"),
];

/// Checks the values of the directives of a function, and their combinations.
pub fn directives(
    directives: &[FunctionDirective<'_>],
    kind: FunctionKind,
    context: &Context<'_, '_>,
    report: &mut Report,
) {
    for directive in directives {
        directive::pragma(&directive.strings, false, context.source, report);
    }
    let mut wrong = |span, message: String| {
        report.add(Diagnostic::new(Code::UnknownDirective, span, message));
    };
    for (index, directive) in directives.iter().enumerate() {
        let FunctionDirective { name, span, .. } = *directive;
        let Some(rule) = function_directive(name, kind) else {
            continue;
        };
        if !rule.zero && directive.values.contains(&0) {
            wrong(span, format!("the values of `.{name}` must be at least 1"));
        }
        if let Some(until) = rule.until
            && !context.allowed.before(until.major, until.minor)
        {
            wrong(span, format!("`.{name}` was removed in PTX {until}"));
        }
        if !rule.repeats && named(&directives[..index], name).is_some() {
            wrong(span, format!("duplicate `.{name}`"));
        }
    }
    for (one, other) in EXCLUSIVE {
        if let (Some(_), Some(other)) = (named(directives, one), named(directives, other)) {
            wrong(
                other.span,
                format!("`.{one}` and `.{}` are mutually exclusive", other.name),
            );
        }
    }
    if let Some(clusters) = named(directives, "blocksareclusters")
        && (named(directives, "reqntid").is_none()
            || named(directives, "reqnctapercluster").is_none())
    {
        wrong(
            clusters.span,
            "`.blocksareclusters` needs `.reqntid` and `.reqnctapercluster`".into(),
        );
    }
}
