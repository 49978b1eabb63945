//! A text that is linted again after each change: what has no findings is not looked at
//! again until it changes.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, Hasher};

use super::{Findings, ModuleContext, Options};
use ptx::Seed;
use ptx::ast::{FunctionKind, Item, Module, Span};
use ptx::names::{Modifier, Opcode};

/// The functions of a text in which the rules found nothing, from one version of the text to
/// the next.
///
/// ```
/// use ptxkit_lint::{CleanFunctions, Findings, Options};
///
/// let mut clean = CleanFunctions::default();
/// for amount in [4, 32] {
///     let source = format!(
///         ".version 7.8\n.target sm_90\n.address_size 64\n.global .b32 x;\n\
///          .entry k() {{ .reg .b32 a; ld.global.b32 a, [x]; shl.b32 a, a, {amount}; \
///          st.global.b32 [x], a; ret; }}"
///     );
///     let mut findings = Findings::with_limit(100);
///     let module = ptx::read(&source).module;
///     clean.run_into(&module, &source, &Options::default(), &mut findings);
///     assert_eq!(findings.into_vec().is_empty(), amount < 32);
/// }
/// ```
#[derive(Debug, Default)]
pub struct CleanFunctions {
    seed: Seed,
    /// The hash of all that findings in a function depend on besides its own text.
    surroundings: u64,
    /// The hash of the text of each.
    texts: HashSet<u64, Seed>,
}

impl CleanFunctions {
    /// Like [`run_into`](crate::run_into), where the functions that had no findings the last time
    /// have none again: those whose text, and all outside of kernels, is as it was.
    pub fn run_into<'a>(
        &mut self,
        module: &Module<'a>,
        source: &'a str,
        options: &Options,
        findings: &mut Findings,
    ) {
        let surroundings = self.surroundings(module, source, options);
        let known = if surroundings == self.surroundings {
            std::mem::take(&mut self.texts)
        } else {
            HashSet::default()
        };
        let mut clean = HashSet::default();
        let context = ModuleContext::new(module, source, options.target, options.version);
        super::run_in(&context, options, findings, |function, look| {
            let text = self.seed.hash_one(text(source, function.function.span));
            if known.contains(&text) || look(function) {
                clean.insert(text);
            }
        });
        (self.surroundings, self.texts) = (surroundings, clean);
    }

    /// The hash of the options, of the heads of functions and of all that stands outside of
    /// kernels; and of the mnemonics of the module, in any order.
    fn surroundings(&self, module: &Module<'_>, source: &str, options: &Options) -> u64 {
        let mut hasher = self.seed.build_hasher();
        let codes: Vec<_> = options.rules.iter().map(|rule| rule.code).collect();
        let version = module.version.map(|(version, _)| version);
        let size = module.address_size.map(|(size, _)| size);
        let head = (codes, options.target, options.version, version, size);
        format!("{head:?}").hash(&mut hasher);
        module.target.hash(&mut hasher);
        for item in &module.items {
            let span = match item {
                Item::Variable(variable) => {
                    variable.linkage.hash(&mut hasher);
                    variable.span
                }
                Item::Function(function) => match &function.body {
                    Some(body) if function.kind == FunctionKind::Entry => Span {
                        start: function.span.start,
                        end: body.span.start,
                    },
                    _ => function.span,
                },
                Item::Directive(directive) => directive.span,
            };
            text(source, span).hash(&mut hasher);
        }
        let known = module.mnemonics.iter().filter(|mnemonic| {
            mnemonic.opcode != Opcode::Unknown && !mnemonic.modifiers.has(Modifier::UNKNOWN)
        });
        let sum = known.fold(0, |sum: u64, mnemonic| {
            sum.wrapping_add(self.seed.hash_one(&mnemonic.text))
        });
        hasher.write_u64(sum);
        hasher.finish()
    }
}

fn text(source: &str, span: Span) -> &str {
    let text = source.get(span.start as usize..span.end as usize);
    text.unwrap_or_default()
}
