//! The compiler: PTX to a binary of the CPU device.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};
use std::thread::{self, available_parallelism};

use super::blob::{Image, KernelImage, VectorFunction};
use super::codegen::{self, CompilerContexts, HostIsa, KernelCode, MachineCode, Vectorization};
use super::processor;
use super::program::{self, LoweringError, ModuleData, Program, module_data};
use ptx::ast::{Body, Function, FunctionKind, Item, Span, Version};
use ptx::diagnostic::{LineIndex, Severity};

/// The newest PTX version that the device reads. Instructions that it does not support are
/// errors that name them.
pub const NEWEST_PTX: Version = Version { major: 9, minor: 5 };

/// The options of a compilation.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CompileOptions {
    /// When kernels are vectorized.
    pub vectorization: Vectorization,
}

impl CompileOptions {
    /// The options in the variable `PTXKIT_CPU_LANES`: `always`, `auto`, `never`, or `hot`,
    /// which is the default ([`Vectorization`]). An unknown value means the default, with
    /// one warning per process.
    pub fn from_environment() -> CompileOptions {
        let vectorization = match std::env::var("PTXKIT_CPU_LANES").as_deref() {
            Ok("always") => Vectorization::Always,
            Ok("auto") => Vectorization::Auto,
            Ok("never") => Vectorization::Never,
            Ok("hot") | Err(_) => Vectorization::WhenHot,
            Ok(word) => {
                static WARNED: Once = Once::new();
                WARNED.call_once(|| {
                    tracing::warn!(
                        "PTXKIT_CPU_LANES={word} is unknown: use hot, auto, always or never"
                    );
                });
                Vectorization::WhenHot
            }
        };
        CompileOptions { vectorization }
    }
}

/// Why a module cannot be compiled: all problems found, in the order of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompileError {
    /// [`Invalid`](CompileErrorKind::Invalid) if any of the problems is.
    pub kind: CompileErrorKind,
    /// At least one.
    pub problems: Vec<Problem>,
}

/// The kind of a failure, which decides the CUDA error of a module load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompileErrorKind {
    /// The text is not PTX (`CUDA_ERROR_INVALID_PTX`).
    Invalid,
    /// The CPU device does not support an instruction (`CUDA_ERROR_NOT_SUPPORTED`).
    NotSupported,
}

/// A problem, which is one line of the compilation log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// 1-based line of the PTX; 0 if unknown.
    pub line: u32,
    /// The message, without the line. It quotes the instruction.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        f.write_str(&self.message)
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for CompileError {}

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
/// let kernel = |body| format!(".version 8.0\n.target sm_90\n.entry k() {{\n{body}\n}}");
/// let options = CompileOptions::default();
/// let blob = compile(&kernel("ret;"), &options)?;
/// assert!(blob.starts_with(b"PTXKCPU1"));
///
/// let refused = compile(&kernel("wgmma.fence.sync.aligned;"), &options).unwrap_err();
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
    let options = CompileOptions {
        vectorization: Vectorization::Never,
    };
    translate(source, &options, codegen::check_kernel).map(|_| ())
}

/// [`compile()`] before serialization.
pub(crate) fn compile_image(source: &str, options: &CompileOptions) -> Result<Image, CompileError> {
    translate(source, options, codegen::compile_kernel)
}

/// What makes the code of a kernel.
type Backend = fn(
    &mut Program<'_>,
    &HostIsa,
    Vectorization,
    &mut CompilerContexts,
) -> Result<KernelCode, Vec<LoweringError>>;

fn translate(
    source: &str,
    options: &CompileOptions,
    backend: Backend,
) -> Result<Image, CompileError> {
    let reading = ptx::read(source);
    let lines = LineIndex::new(source);
    let syntax_errors: Vec<Problem> = reading
        .diagnostics
        .iter()
        .filter(|d| d.severity == Severity::Error)
        .map(|d| Problem {
            line: lines.locate(d.span.start).line,
            message: d.message.clone(),
        })
        .collect();
    if !syntax_errors.is_empty() {
        return Err(CompileError {
            kind: CompileErrorKind::Invalid,
            problems: syntax_errors,
        });
    }
    let unsupported_host = |message| CompileError {
        kind: CompileErrorKind::NotSupported,
        problems: vec![Problem { line: 0, message }],
    };
    let host = codegen::host().map_err(unsupported_host)?;

    let (data, mut errors) = module_data(&reading.module, source);
    let mut image = Image {
        arch: std::env::consts::ARCH.to_owned(),
        features: processor::features()
            .into_iter()
            .map(str::to_owned)
            .collect(),
        variables: data.variables.clone(),
        ptx: match options.vectorization {
            Vectorization::WhenHot => source.to_owned(),
            _ => String::new(),
        },
        ..Image::default()
    };
    image.append(&host.slow_path_thunk);
    let kernels: Vec<(&Function<'_>, &Body<'_>)> = reading
        .module
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Function(function) if function.kind == FunctionKind::Entry => {
                Some((function, function.body.as_ref()?))
            }
            _ => None,
        })
        .collect();
    let threads = match source.len() {
        0..PARALLEL_FROM => 1,
        _ => available_parallelism().map_or(1, usize::from),
    };
    let compiled = in_parallel(&kernels, threads, |contexts, (function, body)| {
        let mut program = program::build(&data, function, body)?;
        let code = backend(&mut program, host, options.vectorization, contexts)?;
        Ok::<_, Vec<LoweringError>>((program, code))
    });
    for result in compiled {
        match result {
            Ok((program, code)) => image.add(&program, &code),
            Err(found) => errors.extend(found),
        }
    }
    if errors.is_empty() {
        Ok(image)
    } else {
        Err(compile_error(source, &data, errors))
    }
}

/// The size of PTX in bytes from which kernels are compiled on all cores.
const PARALLEL_FROM: usize = 100_000;

/// Does `work` on each of `items` with this many threads, each with its own contexts;
/// the results are in the order of the items.
fn in_parallel<T: Sync, R: Send + Sync>(
    items: &[T],
    threads: usize,
    work: impl Fn(&mut CompilerContexts, &T) -> R + Sync,
) -> impl Iterator<Item = R> {
    let results: Vec<OnceLock<R>> = items.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut contexts = CompilerContexts::default();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let (Some(item), Some(result)) = (items.get(at), results.get(at)) else {
                break;
            };
            // Each index is taken once.
            let _ = result.set(work(&mut contexts, item));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(items.len()) {
            // Where no more threads can be started, the others do the work.
            let _ = thread::Builder::new().spawn_scoped(scope, worker);
        }
        worker();
    });
    results.into_iter().filter_map(OnceLock::into_inner)
}

impl Image {
    fn add(&mut self, program: &Program<'_>, code: &KernelCode) {
        let scalar = self.append(&code.scalar);
        let vector = code.vector.as_ref().map(|(code, width)| VectorFunction {
            offset: self.append(code),
            width: *width,
        });
        self.kernels.push(KernelImage {
            name: program.name.to_owned(),
            line: program.line,
            scalar,
            vector,
            params: program.params.clone(),
            param_bytes: program.param_bytes,
            shared_bytes: program.shared_bytes,
            local_bytes: program.local_bytes,
            slots: code.slots,
            stateless: code.stateless,
            sync_points: code.sync_points.clone(),
            matrices: code.matrices.clone(),
            required_threads: program.required_threads,
            required_cluster: program.required_cluster,
            max_threads: program.max_threads,
        });
    }

    /// Appends an aligned function, and patches its calls of the slow-path thunk, which is at
    /// offset 0.
    fn append(&mut self, code: &MachineCode) -> u32 {
        let start = self.code.len().next_multiple_of(FUNCTION_ALIGN);
        self.code.resize(start, 0);
        self.code.extend_from_slice(&code.bytes);
        for &call in &code.thunk_calls {
            let at = start + call as usize;
            let distance = -(at as i64 + 4);
            self.code[at..at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
        }
        start as u32
    }
}

/// The size of a cache line. The constants after a function need alignment 16.
const FUNCTION_ALIGN: usize = 64;

fn compile_error(
    source: &str,
    data: &ModuleData<'_, '_>,
    errors: Vec<LoweringError>,
) -> CompileError {
    let invalid = errors.iter().any(|r| r.invalid);
    let mut problems: Vec<Problem> = errors
        .into_iter()
        .map(|error| {
            let at = error.span;
            if at == Span::default() {
                return Problem {
                    line: 0,
                    message: error.reason,
                };
            }
            let text = quoted(source.get(at.start as usize..at.end as usize));
            let message = if error.invalid {
                format!("{}: `{text}`", error.reason)
            } else {
                format!("the CPU device cannot run `{text}`: {}", error.reason)
            };
            Problem {
                line: data.line(at),
                message,
            }
        })
        .collect();
    problems.sort_by_key(|p| p.line);
    problems.dedup();
    CompileError {
        kind: if invalid {
            CompileErrorKind::Invalid
        } else {
            CompileErrorKind::NotSupported
        },
        problems,
    }
}

/// The characters of a statement that a message quotes.
const QUOTED: usize = 120;

/// A statement on one short line.
fn quoted(text: Option<&str>) -> String {
    let mut line = String::new();
    for word in text.unwrap_or_default().split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if let Some((end, _)) = line.char_indices().nth(QUOTED) {
            line.truncate(end);
            line.push('…');
            break;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let wrong = large.replace("mov.u32 %r, 1", "wgmma.fence.sync.aligned; mov.u32 %r, 1");
        let refused = compile(&wrong, &options).unwrap_err();
        let lines: Vec<u32> = refused
            .problems
            .iter()
            .map(|problem| problem.line)
            .collect();
        assert_eq!(lines, [4, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22]);
    }

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..1000).collect();
        for threads in [0, 1, 7] {
            let doubled = in_parallel(&items, threads, |_, item| 2 * item);
            assert!(doubled.eq(items.iter().map(|item| 2 * item)), "{threads}");
        }
    }
}
