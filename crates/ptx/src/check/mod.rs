//! Semantic checks: finds the errors that `ptxas` reports.
//!
//! In doubt, the checks accept. A module that ptxas accepts and this rejects cannot be
//! used, while ptxas reports an error that this misses.

mod address;
mod call;
mod codegen;
mod directive;
mod form;
mod function;
mod head;
mod initializer;
mod linkage;
mod memo;
mod mismatch;
mod mma;
mod mov;
mod operand;
mod range;
mod references;
pub mod resolution;
mod symbols;
mod texture;
mod type_match;
mod variable;
mod vector;
mod video;

use std::cell::Cell;
use std::collections::HashSet;
use std::ops::Range;

use super::ast::{Body, DirectiveKind, Function, Item, Mnemonic, Module, Name, Span, Version};
use super::diagnostic::{Code, Diagnostic, Report};
use super::isa::special;
use super::isa::target::{Availability, Target};
use super::names::SpecialRegister;
use super::parse::{Bodies, CheckBody, read_outline};
use super::requirements::{Requirement, Requirements};
use super::threads::{on_threads, parts, shares};
use super::version::Floor;
pub(crate) use codegen::SYSTEM;
use linkage::Declarations;
pub use references::{Reference, references};
use resolution::Resolution;
use symbols::{ModuleSymbols, Symbol};
use variable::DeclarationPlace;

/// The module-level state of the check.
struct Context<'m, 'a> {
    source: &'a str,
    module: &'m Module<'a>,
    spellings: form::Spellings,
    symbols: ModuleSymbols<'m, 'a>,
    allowed: Allowed,
    /// The lowest `.version` that has all that was accepted so far.
    floor: Cell<Version>,
    /// The body is of a kernel without `.minperctamemory`, which some registers need.
    no_cta_memory: Cell<bool>,
}

impl Context<'_, '_> {
    /// The error if the module may not use what is required.
    fn missing_requirement(&self, requirement: Requirement) -> Option<Diagnostic> {
        let found = self.allowed.missing_requirement(requirement);
        if found.is_none() {
            self.require(requirement.floor.version);
        }
        found
    }

    /// Whether the module may use a special register.
    fn special(&self, register: SpecialRegister, span: Span) -> Result<(), Diagnostic> {
        self.allowed.special(register, span)?;
        self.require(self.allowed.first(&special::of(register).since));
        let of_cta_memory = matches!(
            register,
            SpecialRegister::Perctamemorysize | SpecialRegister::Perctamemoryoffset
        );
        if of_cta_memory && self.no_cta_memory.get() {
            let message = format!(
                "`{}` needs `.minperctamemory` on the kernel",
                register.text()
            );
            return Err(Diagnostic::new(Code::OperandKind, span, message));
        }
        Ok(())
    }

    /// Notes that something was accepted which needs this `.version`.
    fn require(&self, version: Version) {
        self.floor.set(self.floor.get().max(version));
    }
}

/// What the module may use, by its head. A missing directive permits everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Allowed {
    version: Option<Version>,
    target: Option<Target>,
    /// `.target texmode_independent`: samplers are separate from textures.
    independent: bool,
    /// ptxas generates code, with addresses of 64 bits.
    codegen: bool,
}

impl Allowed {
    /// The error if the module uses something that it may not.
    fn missing_requirement(self, requirement: Requirement) -> Option<Diagnostic> {
        let Requirement { what, floor, span } = requirement;
        let Floor { version, target } = floor;
        if self.version.is_some_and(|allowed| allowed < version) {
            let message = format!("{what} needs `.version {version}` or later");
            let help = format!("write `.version {version}` in the first line");
            Some(Diagnostic::new(Code::VersionFloor, span, message).help(help))
        } else if self.target.is_some_and(|allowed| allowed.number < target) {
            let message = format!("{what} needs `.target sm_{target}` or higher");
            let help = format!("compile for sm_{target}, or do without");
            Some(Diagnostic::new(Code::TargetFloor, span, message).help(help))
        } else {
            None
        }
    }

    /// Whether the module's `.version` is older than this; false without a `.version`.
    fn before(self, major: u8, minor: u8) -> bool {
        self.version
            .is_some_and(|version| version < Version { major, minor })
    }

    /// The first `.version` that has something on the module's target.
    fn first(self, since: &Availability) -> Version {
        let first = self.target.and_then(|target| since.versions(target));
        first.map_or(since.version, |(first, _)| first)
    }

    fn permits(self, since: &Availability) -> bool {
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

    /// The `.version` or `.target` that the module needs, with the code of the error.
    fn required_floor(self, since: &Availability) -> (Code, String) {
        let first = self.target.and_then(|target| since.versions(target));
        match (first, since.targets.first()) {
            (None, Some(rule)) if self.target.is_some() => (
                Code::TargetFloor,
                format!("`.target {}` or higher", rule.target),
            ),
            _ => {
                let version = self.first(since);
                (Code::VersionFloor, format!("`.version {version}` or later"))
            }
        }
    }

    /// Whether the module may use a special register.
    fn special(self, register: SpecialRegister, span: Span) -> Result<(), Diagnostic> {
        let since = &special::of(register).since;
        if self.permits(since) {
            return Ok(());
        }
        let (code, expected) = self.required_floor(since);
        let message = format!("`{}` needs {expected}", register.text());
        Err(Diagnostic::new(code, span, message))
    }
}

/// Checks a module that was read from `source`.
///
/// Returns the errors in source order. Errors that the parser has reported are not
/// included.
///
/// ```
/// let source = ".version 8.0\n.target sm_80\n.entry k() { .reg .f32 a; div.f32 a, a, a; }";
/// let reading = ptxkit_ptx::read(source);
/// let found = ptxkit_ptx::check(&reading.module, source);
/// assert_eq!(found[0].code.to_string(), "E0104");
/// ```
pub fn check<'a>(module: &Module<'a>, source: &'a str) -> Vec<Diagnostic> {
    check_with(module, source, &CheckOptions::default())
}

/// The options of [`check_with`].
///
/// ```
/// use ptxkit_ptx::{CheckOptions, check_with, isa::target::Target, read};
///
/// let source = ".version 8.0\n.target sm_90\n.entry k() { .reg .pred p; elect.sync _|p, 1; }";
/// let mut older = CheckOptions::default();
/// older.target = Target::from_text("sm_80");
/// let found = check_with(&read(source).module, source, &older);
/// assert_eq!(found[0].code.to_string(), "E0402");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Check for this `.version` instead of the module's own.
    pub version: Option<Version>,
    /// Check for this `.target` instead of the module's own.
    pub target: Option<Target>,
    /// Which errors to check for.
    pub level: Level,
}

/// The errors that a check looks for.
///
/// ```
/// use ptxkit_ptx::{CheckOptions, Level, check, check_with, read};
///
/// let source = ".version 8.0\n.target sm_90\n.address_size 64\n\
///     .extern .func f();\n.entry k() { call f; ret; }";
/// let module = read(source).module;
/// assert_eq!(check(&module, source), []);
/// let mut options = CheckOptions::default();
/// options.level = Level::Codegen;
/// assert_eq!(check_with(&module, source, &options)[0].code.to_string(), "E0501");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Level {
    /// The rules of the language: `ptxas -arch=compute_90`.
    #[default]
    Language,
    /// Also the errors of code generation for the module as a whole program:
    /// `ptxas -arch=sm_90`.
    Codegen,
}

/// Like [`check`], with options.
pub fn check_with<'a>(
    module: &Module<'a>,
    source: &'a str,
    options: &CheckOptions,
) -> Vec<Diagnostic> {
    let mut report = Report::default();
    check_into(module, source, options, &mut report);
    report.into_vec()
}

/// Like [`check_with`], on up to `threads` threads. A short text is checked by the calling one, and
/// so is, once more, a text with errors: the result is that of `check_with`.
///
/// ```
/// use ptxkit_ptx::{CheckOptions, check, check_parallel, read_parallel};
///
/// let kernels = (0..9000).map(|n| format!(".entry k{n}()\n{{\n\tbar.sync \tx;\n\tret;\n}}\n"));
/// let source = format!(".version 8.0\n.target sm_80\n{}", kernels.collect::<String>());
/// let module = read_parallel(&source, 4).module;
/// let options = CheckOptions::default();
/// assert_eq!(check_parallel(&module, &source, &options, 4), check(&module, &source));
/// ```
pub fn check_parallel<'a>(
    module: &Module<'a>,
    source: &'a str,
    options: &CheckOptions,
    threads: usize,
) -> Vec<Diagnostic> {
    let count = parts(source.len(), threads);
    if count > 1 && is_right(module, source, options, count) {
        return Vec::new();
    }
    check_with(module, source, options)
}

/// Checks the items of a module in so many shares, each on a thread.
fn is_right<'a>(
    module: &Module<'a>,
    source: &'a str,
    options: &CheckOptions,
    count: usize,
) -> bool {
    let weights = module.items.iter().map(|item| {
        let span = item.span();
        span.end.saturating_sub(span.start) as usize
    });
    let found = on_threads(shares(weights, count), |share| {
        let mut report = Report::with_limit(1);
        check_each(module, source, options, share, &mut report);
        report.into_vec().is_empty()
    });
    found.into_iter().all(|right| right)
}

/// Like [`check_with`], and adds the errors to a report.
pub fn check_into<'a>(
    module: &Module<'a>,
    source: &'a str,
    options: &CheckOptions,
    report: &mut Report,
) {
    let all = 0..module.items.len();
    check_each(module, source, options, all, report);
}

/// The `.version` that a module needs for all that it uses, as far as the table knows;
/// `None` for one with mistakes.
pub(crate) fn floor<'a>(
    module: &Module<'a>,
    source: &'a str,
    options: &CheckOptions,
) -> Option<Version> {
    let mut report = Report::with_limit(1);
    let all = 0..module.items.len();
    let floor = check_each(module, source, options, all, &mut report);
    report.into_vec().is_empty().then_some(floor)
}

/// Whether a text surely has no errors: where `false`, it may have some, and [`check`] tells.
///
/// Takes less time than [`read`](super::read) and [`check`]: each function is checked as soon as
/// it is read, and the next one takes its memory. Of instructions that differ only in the
/// numbers of their registers and in their constants, the first one is checked.
///
/// ```
/// use ptxkit_ptx::{CheckOptions, is_surely_valid};
///
/// let source = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { ret; }\n";
/// assert!(is_surely_valid(source, &CheckOptions::default()));
/// assert!(!is_surely_valid(&source.replace("ret", "rte"), &CheckOptions::default()));
/// ```
pub fn is_surely_valid(source: &str, options: &CheckOptions) -> bool {
    let outline = read_outline(source);
    outline.is_some_and(|(module, bodies)| {
        let mut bodies = bodies.skimmed();
        check_bodies(&module, &mut bodies, source, options, &mut |_, _, _, _| {})
    })
}

/// What is called back with a function, its body, what the names in it refer to, and the
/// mnemonics of all bodies so far.
pub type FoundBody<'f, 'm, 'a> =
    dyn FnMut(&'m Function<'a>, &Body<'a>, Resolution<'_, 'a>, &[Mnemonic<'a>]) + 'f;

/// Like [`is_surely_valid`] of a text that [`read_outline`] has read, and calls back with each
/// function, its body, what its names refer to, and the mnemonics of all bodies so far.
///
/// What was called back with says nothing where the result is `false`.
pub fn check_bodies<'m, 'a>(
    module: &'m Module<'a>,
    bodies: &mut Bodies<'a>,
    source: &'a str,
    options: &CheckOptions,
    found: &mut FoundBody<'_, 'm, 'a>,
) -> bool {
    if options.level != Level::Language {
        return false;
    }
    let mut report = Report::with_limit(1);
    let mut read = true;
    let each = |function: &'m Function<'a>, check: &mut CheckBody<'_, 'a>| {
        read = read && bodies.read(function, check);
    };
    let all = 0..module.items.len();
    check_items(module, source, options, all, &mut report, each, found);
    read && report.into_vec().is_empty()
}

/// Checks a share of the items; of those before it only what they declare.
fn check_each<'a>(
    module: &Module<'a>,
    source: &'a str,
    options: &CheckOptions,
    share: Range<usize>,
    report: &mut Report,
) -> Version {
    let mut memoizable = Vec::new();
    let each = |function: &Function<'a>, check: &mut CheckBody<'_, 'a>| {
        if let Some(body) = &function.body {
            check(body, &module.mnemonics, &mut memoizable);
        }
    };
    let found: &mut FoundBody<'_, '_, '_> = &mut |_, _, _, _| {};
    let whole_module = share.start == 0;
    let floor = check_items(module, source, options, share, report, each, found);
    if options.level == Level::Codegen && whole_module {
        codegen::check(module, source, report);
    }
    floor
}

/// Checks a share of the items one after the other; `each` has the body of a function
/// checked, and `found` has what its names refer to then.
fn check_items<'m, 'a>(
    module: &'m Module<'a>,
    source: &'a str,
    options: &CheckOptions,
    share: Range<usize>,
    report: &mut Report,
    mut each: impl FnMut(&'m Function<'a>, &mut CheckBody<'_, 'a>),
    found: &mut FoundBody<'_, 'm, 'a>,
) -> Version {
    let allowed = head::check(module, source, options, report);
    let mut requirements = Requirements::new(source);
    let mut context = Context {
        source,
        module,
        spellings: form::Spellings::new(allowed),
        symbols: ModuleSymbols::default(),
        allowed,
        floor: Cell::default(),
        no_cta_memory: Cell::default(),
    };
    if let Some(since) = allowed.target.and_then(Target::since) {
        context.require(since);
    }
    for wrong in requirements
        .head(module)
        .filter_map(|need| context.missing_requirement(need))
    {
        report.add(wrong);
    }
    let mut declarations = Declarations::default();
    let mut files = HashSet::new();
    for (index, item) in module.items.iter().enumerate().take(share.end) {
        let is_checked = index >= share.start;
        let missing = |requirement| context.missing_requirement(requirement);
        for wrong in requirements.item(item).filter_map(missing) {
            report.add(wrong);
        }
        match item {
            Item::Variable(variable) => {
                if is_checked {
                    variable::check(variable, DeclarationPlace::Module, &context, report);
                }
                declarations.variable(variable, source, report);
                context.symbols.declare_variable(variable);
                if !is_checked {
                    continue;
                }
                let symbol = |name: &str| context.symbols.get(name);
                if let Some(wrong) = initializer::check(variable, source, symbol) {
                    report.add(wrong);
                }
            }
            Item::Function(function) => {
                if is_checked {
                    head::function(function, &context, report);
                }
                declarations.function(function, report);
                let symbol = Symbol::Function(function);
                context.symbols.declare(function.name, symbol);
                if is_checked {
                    each(function, &mut |body, mnemonics, memoizable| {
                        context.spellings.extend(mnemonics);
                        context.spellings.list_memoizable(memoizable);
                        let (context, requirements) = (&context, &mut requirements);
                        let names = function::check(function, body, context, requirements, report);
                        found(function, body, names, mnemonics);
                    });
                }
            }
            Item::Directive(directive) => match &directive.kind {
                DirectiveKind::Alias { name, function } => {
                    declarations.alias(*name, *function, source, report);
                }
                DirectiveKind::File { index, .. } if !files.insert(*index) => {
                    let message = format!("duplicate file number {index}");
                    report.add(Diagnostic::new(Code::Duplicate, directive.span, message));
                }
                DirectiveKind::Pragma(strings) => {
                    directive::pragma(strings, false, source, report);
                }
                DirectiveKind::Dwarf if !allowed.before(2, 0) => {
                    let message = "`@@DWARF` was removed in PTX 2.0";
                    report.add(
                        Diagnostic::new(Code::UnknownDirective, directive.span, message)
                            .help("write a `.section`"),
                    );
                }
                DirectiveKind::File { .. }
                | DirectiveKind::Section { .. }
                | DirectiveKind::Target(_)
                | DirectiveKind::Dwarf => {}
            },
        }
    }
    context.floor.get()
}

fn duplicate(name: Name<'_>, source: &str, report: &mut Report) {
    report.add(Diagnostic::new(
        Code::Duplicate,
        name.span(source),
        format!("`{}` is already declared in this scope", name.text),
    ));
}
