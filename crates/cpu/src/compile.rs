//! What compiling takes and gives: options, errors, and the image that kernels are put in.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};
use std::thread;

use super::blob::{Image, KernelImage, VariableImage, VectorFunction};
use super::codegen::{CompilerContexts, HostIsa, KernelCode, MachineCode, Vectorization};
use super::processor;
use super::program::{LoweringError, ModuleData, Program};
use super::sanitizer::Checks;
use ptx::ast::{Span, Version};

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
    /// The options in the variable `PTXKIT_CPU_LANES`: `always`, `never`, or `hot`, which
    /// is the default ([`Vectorization`]). An unknown value means the default, with
    /// one warning per process.
    pub fn from_environment() -> CompileOptions {
        let vectorization = match std::env::var("PTXKIT_CPU_LANES").as_deref() {
            Ok("always") => Vectorization::Always,
            Ok("never") => Vectorization::Never,
            Ok("hot") | Err(_) => Vectorization::WhenHot,
            Ok(word) => {
                static WARNED: Once = Once::new();
                WARNED.call_once(|| {
                    tracing::warn!("PTXKIT_CPU_LANES={word} is unknown: use hot, always or never");
                });
                Vectorization::WhenHot
            }
        };
        // A sanitizer is told of the accesses of one thread at a time.
        let vectorization = if Checks::of_process().any() {
            Vectorization::Never
        } else {
            vectorization
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

/// An image without kernels.
pub(super) fn empty_image(host: &HostIsa, variables: Vec<VariableImage>) -> Image {
    let mut image = Image {
        arch: std::env::consts::ARCH.to_owned(),
        features: processor::features()
            .into_iter()
            .map(str::to_owned)
            .collect(),
        variables,
        ..Image::default()
    };
    image.append(&host.thunks.code);
    image
}

/// Does `work` on each of `items` with this many threads, each with its own contexts;
/// the results are in the order of the items.
pub(super) fn in_parallel<T: Sync, R: Send + Sync>(
    items: &[T],
    threads: usize,
    work: impl Fn(&mut CompilerContexts, &T) -> R + Sync,
) -> impl Iterator<Item = R> {
    let results: Vec<OnceLock<R>> = items.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut contexts = CompilerContexts::take();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let (Some(item), Some(result)) = (items.get(at), results.get(at)) else {
                break;
            };
            // Each index is taken once.
            let _ = result.set(work(&mut contexts, item));
        }
        contexts.give_back();
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
    pub(super) fn add(&mut self, program: &Program<'_>, code: &KernelCode, target: u32) {
        let vector = code.vector.as_ref();
        let feature = vector.and_then(|vector| vector.machine_code.feature);
        if let Some(feature) = feature.filter(|name| !self.features.iter().any(|f| f == name)) {
            self.features.push(feature.to_owned());
        }
        let scalar = self.append(&code.scalar);
        let vector = vector.map(|vector| VectorFunction {
            offset: self.append(&vector.machine_code),
            width: vector.width,
            packed_bytes: vector.packed_bytes,
        });
        self.kernels.push(KernelImage {
            name: program.name.to_owned(),
            target,
            line: program.line,
            scalar,
            vector,
            params: program.params.clone(),
            param_bytes: program.param_bytes,
            shared_bytes: program.shared_bytes,
            local_bytes: program.local_frame(),
            slots: code.slots,
            stateless: code.stateless,
            sync_points: code.sync_points.clone(),
            matrices: code.matrices.clone(),
            required_threads: program.required_threads,
            block: program.block,
            required_cluster: program.required_cluster,
            explicit_cluster: program.explicit_cluster,
            max_threads: program.max_threads,
        });
    }

    /// Appends an aligned function, and patches its calls of the thunks at the start.
    fn append(&mut self, code: &MachineCode) -> u32 {
        let start = self.code.len().next_multiple_of(FUNCTION_ALIGN);
        self.code.resize(start, 0);
        self.code.extend_from_slice(&code.bytes);
        for &(call, thunk) in &code.thunk_calls {
            let at = start + call as usize;
            let distance = i64::from(thunk) - (at as i64 + 4);
            self.code[at..at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
        }
        start as u32
    }
}

/// The size of a cache line. The constants after a function need alignment 16.
const FUNCTION_ALIGN: usize = 64;

pub(super) fn compile_error(
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
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..1000).collect();
        for threads in [0, 1, 7] {
            let doubled = in_parallel(&items, threads, |_, item| 2 * item);
            assert!(doubled.eq(items.iter().map(|item| 2 * item)), "{threads}");
        }
    }
}
