//! The code of a declared module.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use proc_macro::{TokenStream, TokenTree};
use ptx::signature::{KernelSignature, ParamSignature};

use crate::declaration::{Kernel, Module, Parameter};
use crate::entry;
use crate::failure::Failure;
use crate::size;
use crate::source::{Source, bytes_of};
use crate::template::fill;

/// Methods that all kernels of a module have in common.
const METHODS: [&str; 2] = ["module", "prepare"];

/// The module, with all errors of it.
pub fn module(ptxkit: &TokenStream, module: Module) -> TokenStream {
    let source = match module.origin.read(ptxkit) {
        Ok(source) => source,
        Err(failure) => return failure.into_tokens(),
    };
    let mut code = Code::default();
    let mut failures = Vec::new();
    for kernel in &module.kernels {
        let is_taken = METHODS.contains(&kernel.name.to_string().as_str());
        let checked = if is_taken {
            Err(Failure::new(
                format!(
                    "all declared modules have a method `{0}`: name the kernel otherwise, with \
                 #[link_name = \"{0}\"]",
                    kernel.name
                ),
                kernel.name.span(),
            ))
        } else {
            entry::of(kernel, &source)
        };
        match checked {
            Ok(entry) => code.add(ptxkit, kernel, entry, &source),
            Err(failure) => failures.push(failure),
        }
    }
    if let Err(failure) = Failure::of(failures) {
        return failure.into_tokens();
    }
    code.module(ptxkit, module, &source)
}

/// What the kernels of a module bring to it.
#[derive(Default)]
struct Code {
    fields: TokenStream,
    values: TokenStream,
    methods: TokenStream,
    checks: TokenStream,
    /// What they compare: types as they are written, with sizes and alignments of the PTX. Of
    /// numbers and addresses that are alike one is compared, as each costs the compiler a body to
    /// check: what is wrong with them is known before.
    compared: BTreeSet<String>,
    /// The names in the PTX, as literals with commas.
    names: String,
}

impl Code {
    fn add(
        &mut self,
        ptxkit: &TokenStream,
        kernel: &Kernel,
        entry: &KernelSignature,
        source: &Source,
    ) {
        let span = kernel.name.span();
        let name = TokenStream::from(TokenTree::from(kernel.name.clone()));
        let types = kernel.parameters.iter();
        let types =
            types.map(|parameter| fill("HOLE_0,", std::slice::from_ref(&parameter.ty), span));
        let types: TokenStream = types.collect();
        let visibility = if kernel.is_safe {
            kernel.visibility.clone()
        } else {
            // Whoever has the typed kernel launches it without `unsafe`.
            TokenStream::new()
        };
        let heading = entry::heading(entry);
        let place = entry::place(source, entry.line);
        let about = |what: &str| crate::string(&format!(" {what}`{heading}` ({place})."));
        self.fields.extend(fill(
            "#[doc = HOLE_0] HOLE_1 HOLE_2: HOLE_3::kernels::DeclaredKernel<(HOLE_4)>,",
            &[about(""), visibility, name.clone(), ptxkit.clone(), types],
            span,
        ));

        let link_name = entry::link_name(kernel);
        let _ = write!(self.names, "{link_name:?}, ");
        let block = kernel.block.map(|(block, _)| block);
        let aligns = entry.params.iter();
        let mut aligns: Vec<u32> = aligns.map(pointer_align).collect();
        if aligns.iter().all(|&align| align == 1) {
            aligns.clear();
        }
        self.values.extend(fill(
            &format!(
                // SAFETY: who declared the kernel vouches for it, or for each of its launches.
                "HOLE_0: unsafe {{
                    HOLE_1::kernels::DeclaredKernel::new(&module, {link_name:?}, \
                     ::core::option::Option::{block:?}, &{aligns:?})
                }},"
            ),
            &[name.clone(), ptxkit.clone()],
            span,
        ));

        let parameters = kernel.parameters.iter();
        let parameters = parameters.map(|parameter| {
            let name = TokenTree::from(parameter.name.clone()).into();
            let holes = [name, ptxkit.clone(), parameter.ty.clone()];
            fill(
                "HOLE_0: impl HOLE_1::driver::ArgumentFor<HOLE_2>,",
                &holes,
                span,
            )
        });
        let arguments = kernel.parameters.iter();
        let arguments = arguments.map(|parameter| {
            let name = TokenTree::from(parameter.name.clone()).into();
            fill("HOLE_0,", &[name], span)
        });
        let (safety, unsafety) = if kernel.is_safe {
            ("", "")
        } else {
            (
                "#[doc = \"\"]
            #[doc = \" # Safety\"]
            #[doc = \" It is declared without `safe`: as for `Kernel::launch`.\"]",
                "unsafe",
            )
        };
        let launch = if kernel.is_cooperative {
            "launch_cooperative"
        } else {
            "launch"
        };
        self.methods.extend(fill(
            &format!(
                "HOLE_0
                #[doc = \"\"]
                #[doc = HOLE_1]
                {safety}
                #[allow(clippy::too_many_arguments)]
                HOLE_2 {unsafety} fn HOLE_3(
                    &self,
                    config: HOLE_4::driver::LaunchConfig,
                    stream: &HOLE_4::driver::Stream,
                    HOLE_5
                ) -> ::core::result::Result<(), HOLE_4::loader::LoadError> {{
                    self.HOLE_3.get()?.{launch}(config, stream, (HOLE_6))?;
                    ::core::result::Result::Ok(())
                }}"
            ),
            &[
                kernel.docs.clone(),
                about("Launches "),
                kernel.visibility.clone(),
                name,
                ptxkit.clone(),
                parameters.collect(),
                arguments.collect(),
            ],
            span,
        ));

        let mut rest = &entry.params[..];
        for parameter in &kernel.parameters {
            let (mine, others) = rest.split_at(parameter.entry_parameters());
            rest = others;
            let layout: Vec<_> = mine.iter().map(|param| (param.size, param.align)).collect();
            let written = parameter.written_type();
            let is_new = self.compared.insert(format!("{written} {layout:?}"));
            if let Some(failure) = size::wrong(parameter, mine, source) {
                self.checks.extend(failure.into_tokens());
            } else if is_new || parameter.known_sizes().is_none() {
                self.checks.extend(check(parameter, &written, mine, source));
            }
        }
    }

    fn module(self, ptxkit: &TokenStream, module: Module, source: &Source) -> TokenStream {
        let Code {
            fields,
            values,
            methods,
            checks,
            names,
            ..
        } = self;
        let span = module.name.span();
        let about = format!(" The kernels of `{}`.", source.name);
        let holes = [
            module.docs,
            module.visibility,
            TokenTree::from(module.name).into(),
            ptxkit.clone(),
            crate::string(&about),
            fields,
            values,
            methods,
            checks,
            crate::string(&source.name),
            source.bytes.clone(),
            bytes_of(source.digest),
            module.voucher,
        ];
        let text = format!(
            r#"
            HOLE_0
            #[doc = ""]
            #[doc = HOLE_4]
            HOLE_1 mod HOLE_2 {{
                #[allow(unused_imports)]
                use super::*;
                #[allow(unused_imports)]
                use HOLE_3::kernels::{{check_parameter, check_slice}};

                // The user's own: where `unsafe_code` is forbidden, this is.
                HOLE_12

                #[doc = HOLE_4]
                #[derive(Clone, Debug)]
                pub struct Kernels {{
                    module: HOLE_3::loader::SlicedModule,
                    HOLE_5
                }}

                /// The PTX, with the digest that it is cached under.
                pub const SOURCE: HOLE_3::loader::Source<'static> = {{
                    let source = HOLE_3::loader::Source::new(HOLE_9, HOLE_10);
                    let digest = HOLE_3::cache::Digest::from_bytes(HOLE_11);
                    // SAFETY: the digest is of this PTX, computed by the same run of the compiler.
                    unsafe {{ source.with_digest(digest) }}
                }};

                /// Reads how the module is cut, from the cache or from the PTX. Each kernel is
                /// compiled, or found in the cache, when it is first launched.
                #[allow(dead_code)]
                pub fn load(
                    loader: &HOLE_3::loader::Loader,
                ) -> ::core::result::Result<Kernels, HOLE_3::loader::LoadError> {{
                    load_with(loader, &::core::default::Default::default())
                }}

                /// The same with options of the compiler.
                #[allow(dead_code)]
                pub fn load_with(
                    loader: &HOLE_3::loader::Loader,
                    options: &HOLE_3::jit::JitOptions,
                ) -> ::core::result::Result<Kernels, HOLE_3::loader::LoadError> {{
                    let module = loader.load_sliced(&SOURCE, options)?;
                    ::core::result::Result::Ok(Kernels {{ HOLE_6 module }})
                }}

                impl Kernels {{
                    HOLE_7

                    /// The module.
                    #[allow(dead_code)]
                    pub fn module(&self) -> &HOLE_3::loader::SlicedModule {{
                        &self.module
                    }}

                    /// Compiles the declared kernels that are not in the cache, on all cores, and
                    /// loads them.
                    #[allow(dead_code)]
                    pub fn prepare(&self) -> ::core::result::Result<(), HOLE_3::loader::LoadError> {{
                        let names = HOLE_3::loader::Prepare::Kernels(&[{names}]);
                        self.module.prepare(names, |_| {{}})
                    }}
                }}

                HOLE_8
            }}"#
        );
        fill(&text, &holes, span)
    }
}

/// The alignment of the memory whose address a parameter is, as far as the PTX says.
fn pointer_align(param: &ParamSignature) -> u32 {
    let align = param.pointer.and_then(|pointer| pointer.align);
    align.unwrap_or(1).max(1)
}

/// What the compiler evaluates for a parameter: its size and alignment beside those of the
/// PTX.
fn check(
    parameter: &Parameter,
    written: &str,
    entry: &[ParamSignature],
    source: &Source,
) -> TokenStream {
    let expected: String = entry
        .iter()
        .map(|param| {
            let declared = entry::declared_as(param, source);
            format!("({}, {}, {declared:?}), ", param.size, param.align)
        })
        .collect();
    // So that it is the library's type, and its import is used.
    let slice = match &parameter.slice {
        Some(_) => "check_slice::<HOLE_1>();",
        None => "",
    };
    fill(
        &format!(
            "const _: () = {{ {slice} check_parameter::<HOLE_0>({written:?}, &[{expected}]) }};"
        ),
        &[
            parameter.ty.clone(),
            parameter.slice.clone().unwrap_or_default(),
        ],
        parameter.span,
    )
}
