//! Lint rules for PTX that ptxas accepts: one file for each rule, one registry.
//!
//! `W` is for likely mistakes, `P` for performance, `D` for deprecated or fragile
//! code. Errors, `E`, come from [`ptx::check`], and become
//! [`Finding`]s too.
//!
//! A false positive costs more trust than a missed finding: a `W` rule reports only
//! what it can prove.

#![forbid(unsafe_code)]

mod d;
mod finding;
pub mod flow;
mod p;
mod rule;
mod unchanged;
mod w;

pub use finding::{Code, Edit, Finding, Findings, Fix, ParseCodeError};
pub use flow::context::{Flow, FunctionContext, ModuleContext};
pub use rule::{Check, Rule};
pub use unchanged::CleanFunctions;

use flow::Effect;
use ptx::ast::{Body, Function, FunctionKind, Item, Mnemonic, Module, Version};
use ptx::diagnostic::MAX_DIAGNOSTICS;
use ptx::isa::target::Target;
use ptx::resolution::Resolution;

/// The rules to run, and what to check for.
#[derive(Clone, Debug)]
pub struct Options {
    /// The rules to run; by default those with [`Rule::default`].
    pub rules: Vec<&'static Rule>,
    /// Check for this `.target` instead of the module's own.
    pub target: Option<Target>,
    /// Check for this `.version` instead of the module's own.
    pub version: Option<Version>,
}

impl Default for Options {
    fn default() -> Options {
        let rules = RULES.iter().copied().filter(|rule| rule.default);
        Options {
            rules: rules.collect(),
            target: None,
            version: None,
        }
    }
}

/// Runs rules over a module that was parsed from `source`; the findings are in the
/// order of the text.
///
/// The module may have errors: functions that were not parsed in full are skipped.
///
/// ```
/// use ptxkit_lint as lint;
/// let source = ".version 7.8\n.target sm_90\n.address_size 64\n\
///     .global .b32 x; .entry k() { .reg .b32 a; ld.global.b32 a, [x]; shl.b32 a, a, 32; st.global.b32 [x], a; ret; }";
/// let found = lint::run(&ptx::read(source).module, source, &lint::Options::default());
/// assert_eq!(found[0].code.to_string(), "W0103");
/// ```
pub fn run<'a>(module: &Module<'a>, source: &'a str, options: &Options) -> Vec<Finding> {
    let mut findings = Findings::with_limit(MAX_DIAGNOSTICS);
    run_into(module, source, options, &mut findings);
    findings.into_vec()
}

/// Like [`run`], and adds the findings to others.
pub fn run_into<'a>(
    module: &Module<'a>,
    source: &'a str,
    options: &Options,
    findings: &mut Findings,
) {
    let context = ModuleContext::new(module, source, options.target, options.version);
    run_in(&context, options, findings, |function, look| {
        look(function);
    });
}

/// Lints the functions of a module one after the other, each as soon as it is read: for who
/// needs no tree of the whole text.
///
/// ```
/// use ptxkit_lint::{Findings, InTurn, Options};
///
/// let source = ".version 7.8\n.target sm_90\n.address_size 64\n\
///     .entry k() { .reg .b32 a; mov.b32 a, 1; shl.b32 a, a, 32; st.global.b32 [0], a; ret; }";
/// let (module, mut bodies) = ptx::read_outline(source).unwrap();
/// let mut lint = InTurn::new(&module, source, &Options::default()).unwrap();
/// let mut found = Findings::with_limit(100);
/// let check = ptx::CheckOptions::default();
/// ptx::check_bodies(&module, &mut bodies, source, &check, &mut |function, body, names, mnemonics| {
///     assert!(lint.look(function, body, names, mnemonics, &mut found));
/// });
/// lint.end(&mut found);
/// assert_eq!(found.into_vec()[0].code.to_string(), "W0103");
/// ```
#[derive(Debug)]
pub struct InTurn<'m, 'a> {
    context: ModuleContext<'m, 'a>,
    rules: Vec<FunctionRule>,
    effects: Vec<Effect>,
}

impl<'m, 'a> InTurn<'m, 'a> {
    /// For the functions of an outline, as [`ptx::read_outline`] gives it. `None` where rules
    /// need the whole module: some look at all of it, and what a function calls counts.
    pub fn new(module: &'m Module<'a>, source: &'a str, options: &Options) -> Option<Self> {
        let calls = module.items.iter().any(|item| match item {
            Item::Function(function) => {
                function.kind == FunctionKind::Func && function.body.is_some()
            }
            _ => false,
        });
        let (of_modules, rules) = split(options);
        if calls || !of_modules.is_empty() {
            return None;
        }
        Some(InTurn {
            context: ModuleContext::new(module, source, options.target, options.version),
            rules,
            effects: Vec::new(),
        })
    }

    /// Runs the rules over a function with this body, whose names refer to these, and whose
    /// instructions have the numbers of these mnemonics; whether they have something to say. The
    /// mnemonics are those of the function before and more.
    pub fn look(
        &mut self,
        function: &Function<'a>,
        body: &Body<'a>,
        names: Resolution<'_, 'a>,
        mnemonics: &[Mnemonic<'a>],
        findings: &mut Findings,
    ) -> bool {
        let known = self.effects.len().min(mnemonics.len());
        self.effects
            .extend(mnemonics[known..].iter().map(Effect::of));
        let (context, effects) = (&self.context, &self.effects);
        let names = Some(names);
        let function = FunctionContext::new(context, function, body, names, mnemonics, effects);
        !look(&function, &self.rules, findings)
    }

    /// Adds what depends on all functions.
    pub fn end(self, findings: &mut Findings) {
        findings.settle(true);
    }
}

/// A rule with its check of a function.
type FunctionRule = (&'static Rule, fn(&FunctionContext<'_, '_>, &mut Findings));

/// A rule with its check of a module.
type ModuleRule = (&'static Rule, fn(&ModuleContext<'_, '_>, &mut Findings));

/// The rules that check modules, and those that check functions.
fn split(options: &Options) -> (Vec<ModuleRule>, Vec<FunctionRule>) {
    let (mut of_modules, mut of_functions) = (Vec::new(), Vec::new());
    for rule in &options.rules {
        match rule.check {
            Check::Module(check) => of_modules.push((*rule, check)),
            Check::Function(check) => of_functions.push((*rule, check)),
        }
    }
    (of_modules, of_functions)
}

/// Runs rules over a function; whether they have nothing to say of it.
fn look(
    function: &FunctionContext<'_, '_>,
    rules: &[FunctionRule],
    findings: &mut Findings,
) -> bool {
    let said = findings.said();
    for (rule, check) in rules {
        check(function, findings.of(rule));
    }
    findings.said() == said
}

/// Calls back for each function: `look` runs the rules over it, and tells whether they have
/// nothing to say of it.
fn run_in<'m, 'a>(
    context: &'m ModuleContext<'m, 'a>,
    options: &Options,
    findings: &mut Findings,
    mut each: impl FnMut(&FunctionContext<'m, 'a>, &mut dyn FnMut(&FunctionContext<'m, 'a>) -> bool),
) {
    let (of_modules, of_functions) = split(options);
    for (rule, check) in of_modules {
        check(context, findings.of(rule));
    }
    if of_functions.is_empty() {
        return;
    }
    for function in context.functions() {
        each(&function, &mut |function| {
            look(function, &of_functions, findings)
        });
    }
    let mut bodies = context.module.items.iter().filter_map(|item| match item {
        Item::Function(function) => function.body.as_ref(),
        _ => None,
    });
    findings.settle(bodies.all(|body| !body.broken));
}

impl Rule {
    /// The rule of this code or name.
    ///
    /// ```
    /// let rule = ptxkit_lint::Rule::find("shift-beyond-width").unwrap();
    /// assert_eq!(rule.code.to_string(), "W0103");
    /// ```
    pub fn find(code_or_name: &str) -> Option<&'static Rule> {
        RULES
            .iter()
            .copied()
            .find(|rule| rule.name == code_or_name || rule.code.to_string() == code_or_name)
    }

    /// Whether it is new, and may still change: it runs only where the user asks for such rules.
    pub fn is_preview(&self) -> bool {
        PREVIEW.contains(&self.code)
    }
}

/// Every rule, in the order of the codes.
pub static RULES: &[&Rule] = &[
    &w::uninitialised_register::RULE,
    &w::unused_result::RULE,
    &w::shift_beyond_width::RULE,
    &w::bit_field_beyond_width::RULE,
    &w::truncated_immediate::RULE,
    &w::unreachable_code::RULE,
    &w::missing_return::RULE,
    &w::endless_loop::RULE,
    &w::return_value_not_set::RULE,
    &w::invariant_loop::RULE,
    &w::always_traps::RULE,
    &w::divergent_barrier::RULE,
    &w::divergent_warp_operation::RULE,
    &w::shared_race::RULE,
    &w::barrier_beyond_launch_bounds::RULE,
    &w::early_exit_before_barrier::RULE,
    &w::barrier_under_bound::RULE,
    &w::global_race::RULE,
    &w::stuck_barrier::RULE,
    &w::barrier_counts::RULE,
    &w::unawaited_arrival::RULE,
    &w::member_mask::RULE,
    &w::grid_race::RULE,
    &w::unfenced_lock::RULE,
    &w::narrow_scope::RULE,
    &w::unlocked_store::RULE,
    &w::overlapping_parts::RULE,
    &w::copy_without_wait::RULE,
    &w::bulk_copy_without_wait::RULE,
    &w::wgmma_without_wait::RULE,
    &w::uninitialised_mbarrier::RULE,
    &w::ignored_wait::RULE,
    &w::unexpected_bytes::RULE,
    &w::mbarrier_before_init::RULE,
    &w::unarrived_wait::RULE,
    &w::read_before_copied::RULE,
    &w::early_bulk_reuse::RULE,
    &w::repeated_parity::RULE,
    &w::weak_alignment::RULE,
    &w::misaligned_offset::RULE,
    &w::out_of_bounds::RULE,
    &w::unconverted_parameter::RULE,
    &w::wrong_address_space::RULE,
    &w::misaligned_stride::RULE,
    &w::misaligned_in_parameter::RULE,
    &w::parameter_as_shared::RULE,
    &w::inverted_bound::RULE,
    &w::unused_bound::RULE,
    &w::wrapped_index::RULE,
    &w::null_address::RULE,
    &p::local_memory::RULE,
    &p::uncoalesced_access::RULE,
    &p::bank_conflict::RULE,
    &p::generic_address::RULE,
    &p::scalar_accesses::RULE,
    &p::divergent_constant::RULE,
    &p::staged_copy::RULE,
    &p::invariant_load::RULE,
    &p::contended_atomic::RULE,
    &p::software_atomic::RULE,
    &p::double_precision::RULE,
    &p::division_by_power_of_two::RULE,
    &p::division_by_constant::RULE,
    &p::exact_division::RULE,
    &p::float_division::RULE,
    &p::mixed_flushing::RULE,
    &p::reciprocal_root::RULE,
    &p::unfused_product::RULE,
    &p::multiply_24::RULE,
    &p::shuffled_reduction::RULE,
    &p::no_launch_bounds::RULE,
    &p::low_occupancy::RULE,
    &p::partial_warp::RULE,
    &p::repeated_barrier::RULE,
    &p::redundant_fence::RULE,
    &p::single_warp_barrier::RULE,
    &p::unreachable_min_blocks::RULE,
    &d::unsynchronized_warp::RULE,
    &d::texture_reference::RULE,
    &d::before_abi::RULE,
    &d::maxnctapersm::RULE,
    &d::dwarf_of_ptx_1::RULE,
    &d::narrow_special::RULE,
    &d::small_addresses::RULE,
    &d::one_chip::RULE,
    &d::newer_version::RULE,
    &d::non_ascii::RULE,
    &d::clashing_name::RULE,
];

/// The codes of [`RULES`] that are new: each has to be right on much production code before it
/// leaves this list.
pub static PREVIEW: &[Code] = &[];

#[cfg(test)]
mod tests;
