//! The compiler: PTX to a binary of the CPU device. PTX that was read once stays in memory,
//! and its kernels are compiled together or one by one.

use std::thread::available_parallelism;

use self_cell::self_cell;

use super::blob::{Image, VariableImage};
use super::codegen::{self, CompilerContexts, HostIsa, KernelCode, Vectorization};
use super::compile::{
    CompileError, CompileErrorKind, CompileOptions, Problem, compile_error, empty_image,
    in_parallel,
};
use super::program::{self, LoweringError, ModuleData, Program, module_data};
use ptx::ast::{Body, Function, FunctionKind, Item, Module};
use ptx::diagnostic::{Diagnostic, LineIndex, Severity};
use ptx::isa::target::Target;
use ptx::line_table::LineTable;
use ptx::{CheckOptions, Level};

self_cell!(
    /// A text and its syntax tree.
    struct Tree {
        owner: String,
        #[covariant]
        dependent: Module,
    }
);

type Declared<'t> = ModuleData<'t, 't>;

self_cell!(
    /// A syntax tree and its symbol table.
    struct Symbols {
        owner: Tree,
        #[covariant]
        dependent: Declared,
    }
);

/// Compiles every kernel of a module for this machine's processor; those of a
/// large module on all cores.
///
/// The result is what `cuModuleLoadData` of [`table`](super::table) takes.
///
/// # Errors
/// All errors in the text, or all instructions that the CPU device does not support, each
/// with its line.
///
/// ```
/// use ptxkit_cpu::{CompileErrorKind, CompileOptions, compile};
///
/// let kernel = |body| format!(".version 8.3\n.target sm_90\n.entry k() {{\n{body}\n}}");
/// let options = CompileOptions::default();
/// let blob = compile(&kernel("ret;"), &options)?;
/// assert!(blob.starts_with(b"PTXKCPU1"));
///
/// let multimem = kernel(".reg .b64 x; multimem.red.relaxed.sys.global.add.u32 [x], 1;");
/// let refused = compile(&multimem, &options).unwrap_err();
/// assert_eq!(refused.kind, CompileErrorKind::NotSupported);
/// assert_eq!(refused.problems[0].line, 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn compile(source: &str, options: &CompileOptions) -> Result<Vec<u8>, CompileError> {
    Ok(compile_image(source, options)?.write())
}

/// Whether [`compile()`] takes a module: all that it does but machine code, which is most of
/// its time.
///
/// # Errors
/// Those of [`compile()`].
pub fn check(source: &str) -> Result<(), CompileError> {
    let source = Source::read(source.to_owned())?;
    let options = CompileOptions {
        vectorization: Vectorization::Never,
    };
    source
        .translate(&options, codegen::check_kernel)
        .map(|_| ())
}

/// Compiles each kernel as a hot one is compiled: with vectors, and for blocks of a size.
///
/// # Errors
/// Those of [`compile()`].
#[doc(hidden)]
pub fn compile_hot(source: &str, block: [u32; 3]) -> Result<(), CompileError> {
    let source = Source::read(source.to_owned())?;
    for index in 0..source.kernels().count() {
        source.compile_kernel(index, Vectorization::Always, Some(block))?;
    }
    Ok(())
}

/// [`compile()`] before serialization.
pub(crate) fn compile_image(source: &str, options: &CompileOptions) -> Result<Image, CompileError> {
    Source::read(source.to_owned())?.compile(options)
}

/// What makes the code of a kernel.
pub(crate) type Backend = fn(
    &mut Program<'_>,
    &HostIsa,
    Vectorization,
    &mut CompilerContexts,
) -> Result<KernelCode, Vec<LoweringError>>;

/// PTX without syntax errors, with its syntax tree and symbol table.
pub(crate) struct Source {
    symbols: Symbols,
    /// Variables that cannot be compiled.
    errors: Vec<LoweringError>,
}

/// The size of PTX in bytes from which all cores read and compile it.
const PARALLEL_FROM: usize = 100_000;

fn threads(source: &str) -> usize {
    match source.len() {
        0..PARALLEL_FROM => 1,
        _ => available_parallelism().map_or(1, usize::from),
    }
}

impl Source {
    /// Reads PTX.
    ///
    /// # Errors
    /// All syntax errors.
    pub(crate) fn read(text: String) -> Result<Source, CompileError> {
        let mut diagnostics = Vec::new();
        let tree = Tree::new(text, |text| {
            let reading = ptx::read_parallel(text, threads(text));
            diagnostics = reading.diagnostics;
            reading.module
        });
        if diagnostics.iter().any(is_error) {
            return Err(invalid(tree.borrow_owner(), &diagnostics));
        }
        let mut errors = Vec::new();
        let symbols = Symbols::new(tree, |tree| {
            let (data, found) = module_data(tree.borrow_dependent(), tree.borrow_owner());
            errors = found;
            data
        });
        Ok(Source { symbols, errors })
    }

    pub(crate) fn text(&self) -> &str {
        self.symbols.borrow_owner().borrow_owner()
    }

    fn module(&self) -> &Module<'_> {
        self.symbols.borrow_owner().borrow_dependent()
    }

    fn data(&self) -> &ModuleData<'_, '_> {
        self.symbols.borrow_dependent()
    }

    pub(crate) fn line_table(&self) -> LineTable {
        LineTable::new(self.module(), self.text())
    }

    /// The architecture of the `.target`.
    pub(crate) fn target(&self) -> Option<Target> {
        let mut words = self.module().target.iter();
        words.find_map(|word| word.text.parse().ok())
    }

    /// Its number, 0 if there is none.
    fn target_number(&self) -> u32 {
        self.target().map_or(0, |target| target.number.into())
    }

    /// The variables of the module.
    pub(crate) fn variables(&self) -> &[VariableImage] {
        &self.data().variables
    }

    /// The kernels, in the order of the text.
    pub(crate) fn kernels(&self) -> impl Iterator<Item = (&Function<'_>, &Body<'_>)> {
        self.module().items.iter().filter_map(|item| match item {
            Item::Function(function) if function.kind == FunctionKind::Entry => {
                Some((function, function.body.as_ref()?))
            }
            _ => None,
        })
    }

    /// Whether the checker finds no error, and the variables can be compiled. What is
    /// wrong with a kernel is then that this device does not support something.
    pub(crate) fn is_valid(&self) -> bool {
        self.errors.is_empty() && self.checked().is_ok()
    }

    /// The code of an instruction relies on its operands: that there are as many as its form has, in the
    /// state spaces that it has.
    fn checked(&self) -> Result<(), CompileError> {
        let text = self.text();
        let options = CheckOptions {
            level: Level::Codegen,
            ..CheckOptions::default()
        };
        let found = ptx::check_parallel(self.module(), text, &options, threads(text));
        if found.iter().any(is_error) {
            Err(invalid(text, &found))
        } else {
            Ok(())
        }
    }

    /// Compiles all kernels; those of a long text on all cores.
    ///
    /// # Errors
    /// What is wrong with any of them.
    pub(crate) fn compile(&self, options: &CompileOptions) -> Result<Image, CompileError> {
        self.translate(options, codegen::compile_kernel)
    }

    pub(crate) fn translate(
        &self,
        options: &CompileOptions,
        backend: Backend,
    ) -> Result<Image, CompileError> {
        self.checked()?;
        let kernels: Vec<_> = self.kernels().collect();
        let host = codegen::host().map_err(unsupported_host)?;
        let compiled = in_parallel(&kernels, threads(self.text()), |contexts, kernel| {
            let how = (options.vectorization, backend, None);
            self.translate_one(host, *kernel, how, contexts)
        });
        let mut image = empty_image(host, self.variables().to_vec());
        image.line_table = self.line_table();
        if options.vectorization == Vectorization::WhenHot {
            image.tier_up = true;
            image.ptx = self.text().to_owned();
        }
        let (mut errors, target) = (self.errors.clone(), self.target_number());
        for result in compiled {
            match result {
                Ok((program, code)) => image.add(&program, &code, target),
                Err(found) => errors.extend(found),
            }
        }
        if errors.is_empty() {
            Ok(image)
        } else {
            Err(compile_error(self.text(), self.data(), errors))
        }
    }

    /// Compiles one kernel of a module that [is valid](Self::is_valid) to an image without variables:
    /// for blocks of a size alone, if there is one.
    ///
    /// # Errors
    /// What is wrong with it, in lines of the whole text.
    pub(crate) fn compile_kernel(
        &self,
        index: usize,
        vectorization: Vectorization,
        block: Option<[u32; 3]>,
    ) -> Result<Image, CompileError> {
        let host = codegen::host().map_err(unsupported_host)?;
        let mut image = empty_image(host, Vec::new());
        if let Some(kernel) = self.kernels().nth(index) {
            let mut contexts = CompilerContexts::take();
            let compiled = self.translate_one(
                host,
                kernel,
                (vectorization, codegen::compile_kernel, block),
                &mut contexts,
            );
            contexts.give_back();
            let (program, code) =
                compiled.map_err(|errors| compile_error(self.text(), self.data(), errors))?;
            image.add(&program, &code, self.target_number());
        }
        Ok(image)
    }

    fn translate_one<'s>(
        &'s self,
        host: &HostIsa,
        (function, body): (&'s Function<'s>, &'s Body<'s>),
        (vectorization, backend, block): (Vectorization, Backend, Option<[u32; 3]>),
        contexts: &mut CompilerContexts,
    ) -> Result<(Program<'s>, KernelCode), Vec<LoweringError>> {
        let mut program = program::lower(self.data(), function, body, block)?;
        let code = backend(&mut program, host, vectorization, contexts)?;
        Ok((program, code))
    }
}

fn is_error(diagnostic: &Diagnostic) -> bool {
    diagnostic.severity == Severity::Error
}

fn invalid(text: &str, diagnostics: &[Diagnostic]) -> CompileError {
    let lines = LineIndex::new(text);
    let errors = diagnostics.iter().filter(|found| is_error(found));
    let problems = errors.map(|error| Problem {
        line: lines.locate(error.span.start).line,
        message: error.message.clone(),
    });
    CompileError {
        kind: CompileErrorKind::Invalid,
        problems: problems.collect(),
    }
}

fn unsupported_host(message: String) -> CompileError {
    CompileError {
        kind: CompileErrorKind::NotSupported,
        problems: vec![Problem { line: 0, message }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Their code would rely on operands that they do not have.
    #[test]
    fn instructions_that_fit_no_form_are_refused() {
        let ones = "1,".repeat(129);
        let sevens = "7,".repeat(600);
        for wrong in [
            "st.global.v4.u32 [%x], {1, 2, 3};",
            &format!("st.global.u32 [%x], {{{ones} 1}};"),
            "ld.param.b32 {%r0, %r1, %r2}, [p];",
            &format!("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r0}}, [%r1], {sevens} 7;"),
            "cp.async.ca.shared.global [frame+4096], [%x], 16;",
            "tcgen05.mma.cta_group::1.kind::mxf4 [%r0], %x, %x, %r1, %p;",
            "ld.shared.pred %p, [%r0];",
            ".pragma \"used_bytes_mask 1\"; ld.global.pred %p, [%x];",
        ] {
            let source = format!(
                ".version 8.6\n.target sm_100a\n.address_size 64\n.entry k(.param .u64 p) {{\n\
                 .reg .b64 %x; .reg .b32 %r<4>; .reg .pred %p; .local .align 16 .b8 frame[8192];\n\
                 {wrong}\n}}"
            );
            let refused = compile(&source, &CompileOptions::default()).map(|_| ());
            let refused = refused.expect_err(wrong);
            assert_eq!(refused.kind, CompileErrorKind::Invalid, "{wrong}");
            assert_eq!(refused.problems[0].line, 6, "{wrong}");
            assert!(check(&source).is_err(), "{wrong}");
        }
    }

    #[test]
    fn many_threads_compile_what_one_does() {
        let kernels: String = (0..20)
            .map(|n| format!(".entry k{n}() {{ .reg .b32 %r; mov.u32 %r, {n}; ret; }}\n"))
            .collect();
        let small = format!(".version 8.0\n.target sm_90\n{kernels}");
        let large = format!("{small}{}", "// nothing\n".repeat(PARALLEL_FROM / 10));
        assert!(small.len() < PARALLEL_FROM && large.len() > PARALLEL_FROM);
        // Other binaries have the text in them.
        let options = CompileOptions {
            vectorization: Vectorization::Never,
        };
        assert!(compile(&small, &options).unwrap() == compile(&large, &options).unwrap());
        // Refusals keep their order.
        let multimem = "multimem.red.relaxed.sys.global.add.u32 [0], 1; mov.u32 %r, 1";
        let wrong = large.replace("mov.u32 %r, 1", multimem);
        let refused = compile(&wrong, &options).unwrap_err();
        let lines: Vec<u32> = refused
            .problems
            .iter()
            .map(|problem| problem.line)
            .collect();
        assert_eq!(lines, [4, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22]);
    }
}
