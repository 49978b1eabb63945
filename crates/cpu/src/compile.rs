//! PTX text → the CPU device's binary.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};
use std::thread::{self, available_parallelism};

use super::blob::{Image, KernelImage, LanesImage};
use super::codegen::{self, Code, KernelCode, Tools};
use super::program::{self, ModuleData, Program, Refusal, module_data};
use ptx::ast::{Body, Function, FunctionKind, Item, Span};
use ptx::diagnostic::{LineIndex, Severity};

/// What a compilation may choose.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CompileOptions {
    /// Whether kernels run several neighbouring threads at once.
    pub lanes: Lanes,
}

impl CompileOptions {
    /// What the variable `PTXKIT_CPU_LANES` says: `always`, `auto`, `never`, or
    /// `hot`, which is the default ([`Lanes`]). Any other word is the default
    /// too, with one warning a process.
    pub fn from_environment() -> CompileOptions {
        let lanes = match std::env::var("PTXKIT_CPU_LANES").as_deref() {
            Ok("always") => Lanes::Always,
            Ok("auto") => Lanes::Auto,
            Ok("never") => Lanes::Never,
            Ok("hot") | Err(_) => Lanes::WhenHot,
            Ok(word) => {
                static WARNED: Once = Once::new();
                WARNED.call_once(|| {
                    tracing::warn!(
                        "PTXKIT_CPU_LANES={word} is not known: use hot, auto, always or never"
                    );
                });
                Lanes::WhenHot
            }
        };
        CompileOptions { lanes }
    }
}

/// When a kernel gets a second function that runs several threads at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lanes {
    /// Where it is likely to be faster, once the kernel has run for a while.
    /// Good code takes several times as long to compile, so that happens in the
    /// background, while the kernel runs in code that was quick to make.
    #[default]
    WhenHot,
    /// At once, where it is likely to be faster.
    Auto,
    /// Wherever it is possible.
    Always,
    /// The smallest binary, compiled fastest.
    Never,
}

/// Why a module cannot be compiled: everything found, in the order of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompileError {
    /// [`Invalid`](CompileErrorKind::Invalid) if any of the problems is.
    pub kind: CompileErrorKind,
    /// At least one.
    pub problems: Vec<Problem>,
}

/// Whose fault it is, and which CUDA error a load gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompileErrorKind {
    /// The text is not PTX (`CUDA_ERROR_INVALID_PTX`).
    Invalid,
    /// It is PTX that the CPU device cannot run (`CUDA_ERROR_NOT_SUPPORTED`).
    NotSupported,
}

/// One line of a compilation's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// 1-based line of the PTX; 0 where none can be named.
    pub line: u32,
    /// Without the line; instructions that cannot run are quoted.
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
/// Everything wrong with the text, or every instruction that the CPU device
/// cannot run, each by its name and line.
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

/// The same, before it is bytes.
pub(crate) fn compile_image(source: &str, options: &CompileOptions) -> Result<Image, CompileError> {
    let reading = ptx::read(source);
    let lines = LineIndex::new(source);
    let wrong: Vec<Problem> = reading
        .diagnostics
        .iter()
        .filter(|d| d.severity == Severity::Error)
        .map(|d| Problem {
            line: lines.locate(d.span.start).line,
            message: d.message.clone(),
        })
        .collect();
    if !wrong.is_empty() {
        return Err(CompileError {
            kind: CompileErrorKind::Invalid,
            problems: wrong,
        });
    }
    let unavailable = |message| CompileError {
        kind: CompileErrorKind::NotSupported,
        problems: vec![Problem { line: 0, message }],
    };
    let host = codegen::host().map_err(unavailable)?;

    let (data, mut refusals) = module_data(&reading.module, source);
    let mut image = Image {
        arch: std::env::consts::ARCH.to_owned(),
        features: codegen::features().into_iter().map(str::to_owned).collect(),
        variables: data.variables.clone(),
        ptx: match options.lanes {
            Lanes::WhenHot => source.to_owned(),
            _ => String::new(),
        },
        ..Image::default()
    };
    image.append(&host.keeper);
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
    let compiled = in_parallel(&kernels, threads, |tools, (function, body)| {
        let mut program = program::build(&data, function, body)?;
        let code = codegen::compile_kernel(&mut program, host, options.lanes, tools)?;
        Ok::<_, Vec<Refusal>>((program, code))
    });
    for result in compiled {
        match result {
            Ok((program, code)) => image.add(&program, &code),
            Err(found) => refusals.extend(found),
        }
    }
    if refusals.is_empty() {
        Ok(image)
    } else {
        Err(refused(source, &data, refusals))
    }
}

/// From so many bytes of PTX on, kernels are compiled on all cores.
const PARALLEL_FROM: usize = 100_000;

/// Does `work` on each of `items` with this many threads, each with its own tools;
/// the results are in the order of the items.
fn in_parallel<T: Sync, R: Send + Sync>(
    items: &[T],
    threads: usize,
    work: impl Fn(&mut Tools, &T) -> R + Sync,
) -> impl Iterator<Item = R> {
    let results: Vec<OnceLock<R>> = items.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut tools = Tools::default();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let (Some(item), Some(result)) = (items.get(at), results.get(at)) else {
                break;
            };
            // Each index is taken once.
            let _ = result.set(work(&mut tools, item));
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
        let lanes = code.lanes.as_ref().map(|(code, width)| LanesImage {
            code: self.append(code),
            width: *width,
        });
        self.kernels.push(KernelImage {
            name: program.name.to_owned(),
            line: program.line,
            scalar,
            lanes,
            params: program.params.clone(),
            param_bytes: program.param_bytes,
            shared_bytes: program.shared_bytes,
            local_bytes: program.local_bytes,
            slots: code.slots,
            stateless: code.stateless,
            sync_points: code.points.clone(),
            required_threads: program.required_threads,
            max_threads: program.max_threads,
        });
    }

    /// Adds a function; it starts where the processor likes functions to start.
    /// The keeper is the first of all.
    fn append(&mut self, code: &Code) -> u32 {
        let start = self.code.len().next_multiple_of(FUNCTION_ALIGN);
        self.code.resize(start, 0);
        self.code.extend_from_slice(&code.bytes);
        for &call in &code.calls {
            let at = start + call as usize;
            let distance = -(at as i64 + 4);
            self.code[at..at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
        }
        start as u32
    }
}

/// Constants behind a function are vectors of up to 16 bytes; the instruction
/// cache has lines of 64.
const FUNCTION_ALIGN: usize = 64;

fn refused(source: &str, data: &ModuleData<'_, '_>, refusals: Vec<Refusal>) -> CompileError {
    let invalid = refusals.iter().any(|r| r.invalid);
    let mut problems: Vec<Problem> = refusals
        .into_iter()
        .map(|refusal| {
            let at = refusal.span;
            if at == Span::default() {
                return Problem {
                    line: 0,
                    message: refusal.reason,
                };
            }
            let text = source
                .get(at.start as usize..at.end as usize)
                .unwrap_or_default();
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let message = if refusal.invalid {
                format!("{}: `{text}`", refusal.reason)
            } else {
                format!("the CPU device cannot run `{text}`: {}", refusal.reason)
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
            lanes: Lanes::Never,
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
