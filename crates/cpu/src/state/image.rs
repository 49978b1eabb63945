//! From the bytes that a caller passes to the code of a module.

use std::borrow::Cow;
use std::ffi::{c_char, c_uint, c_void};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::module::code_failure;
use super::options::Options;
use super::status::{Failure, Result, Status};
use super::user_pointer::UserPointer;
use super::{context, device, fatbin};
use crate::blob::{self, BlobError, Image};
use crate::code::ModuleCode;
use crate::compile::{CompileError, CompileErrorKind, CompileOptions, NEWEST_PTX};
use crate::merge;
use crate::observe::{self, Event, KernelText, Load, Span};
use crate::source::Source;
use ptx::ast::Version;
use ptx::isa::target::{Suffix, Target};
use ptx::slice::SHORTEST;
use ptx::text_of;

/// The first bytes of a file with code for a GPU.
const ELF: [u8; 4] = *b"\x7fELF";

/// The bytes of an ELF header that name the machine, and a GPU's number (`EM_CUDA`).
const ELF_MACHINE: std::ops::Range<usize> = 18..20;
const EM_CUDA: [u8; 2] = [190, 0];

/// Reads the image at a pointer without a length: PTX up to its NUL, or a fatbin or a
/// binary of the CPU device up to the length in its header.
pub(crate) fn load(
    entry: &'static str,
    image: UserPointer<c_void>,
    options: &mut Options,
) -> Result<Arc<ModuleCode>> {
    let start = Instant::now();
    let image = unbounded(image).and_then(|bytes| read(entry, &bytes, options));
    options.finish(start.elapsed())?;
    image
}

fn unbounded<'a>(image: UserPointer<c_void>) -> Result<Cow<'a, [u8]>> {
    // A text may be shorter than the magic: no byte is read after its NUL.
    let starts_with = |magic: &[u8]| -> Result<bool> {
        for (index, byte) in magic.iter().enumerate() {
            if image.cast::<u8>().get_at(index)? != *byte {
                return Ok(false);
            }
        }
        Ok(true)
    };
    if starts_with(&blob::MAGIC)? {
        let header = image.bytes(blob::HEADER)?;
        let length = blob::length(header).ok_or_else(|| {
            bad_blob(&BlobError::Damaged {
                what: "it states no length",
            })
        })?;
        return Ok(image.bytes(length)?.into());
    }
    if starts_with(&ELF)? {
        return Err(foreign(image.bytes(ELF_MACHINE.end)?));
    }
    if starts_with(&fatbin::WRAPPER)? {
        return fatbin::wrapped(image);
    }
    if starts_with(&fatbin::MAGIC)? {
        return Ok(fatbin::bytes(image)?.into());
    }
    Ok(image.cast::<c_char>().text()?.to_bytes().into())
}

/// Reads an image from a file.
pub(crate) fn read_file(
    entry: &'static str,
    path: &Path,
    options: &mut Options,
) -> Result<Arc<ModuleCode>> {
    let start = Instant::now();
    let image = file(path).and_then(|bytes| read(entry, &bytes, options));
    options.finish(start.elapsed())?;
    image
}

/// The bytes of a file.
pub(crate) fn file(path: &Path) -> Result<Vec<u8>> {
    input::read(path)
        .map_err(|error| Status::FILE_NOT_FOUND.because(format!("{}: {error}", path.display())))
}

/// Reads an image of known length.
fn read(entry: &'static str, bytes: &[u8], options: &mut Options) -> Result<Arc<ModuleCode>> {
    let whole = observe::start();
    let code = |image| ModuleCode::compiled(image).map_err(|error| code_failure(&error));
    if bytes.starts_with(&blob::MAGIC) {
        // SAFETY: a binary is machine code, for which the caller of the entry answers.
        let image = unsafe { Image::read(bytes) }.map_err(|error| bad_blob(&error))?;
        let code = code(image)?;
        whole.end(|span| Event::Load(load_of_binary(entry, &code, span)));
        return Ok(Arc::new(code));
    }
    let image = if bytes.starts_with(&fatbin::MAGIC) {
        "fatbin"
    } else {
        "PTX"
    };
    let source = source(bytes, options)?;
    let compile = CompileOptions::from_environment();
    if Loading::of_environment().is_lazy(&source, options) {
        let code = ModuleCode::lazy(source, compile.vectorization);
        if let Some(source) = code.lazy_source() {
            whole.end(|span| Event::Load(load_of(entry, image, &code, (source, true), span)));
        }
        return Ok(Arc::new(code));
    }
    let compiling = observe::start();
    let compiled = compiled(&source, &compile, options)?;
    let code = code(compiled)?;
    compiling.end(|span| {
        Event::Compile(observe::Compile {
            module: code.number(),
            kernel: None,
            is_optimized: false,
            span,
        })
    });
    whole.end(|span| Event::Load(load_of(entry, image, &code, (&source, false), span)));
    Ok(Arc::new(code))
}

/// A load of PTX, for the observer.
fn load_of<'a>(
    entry: &'static str,
    image: &'static str,
    code: &ModuleCode,
    (source, is_lazy): (&'a Source, bool),
    span: Span,
) -> Load<'a> {
    let kernels = source.kernels().map(|(function, _)| KernelText {
        name: function.name.text,
        text: function.span.start as usize..function.span.end as usize,
    });
    Load {
        entry,
        module: code.number(),
        image,
        target: source.target().map(|target| target.to_string()),
        ptx: Some(source.text()),
        kernels: kernels.collect(),
        is_lazy,
        span,
    }
}

/// A load of a binary, for the observer.
fn load_of_binary<'a>(entry: &'static str, code: &'a ModuleCode, span: Span) -> Load<'a> {
    let kernels = code.names().map(|name| KernelText { name, text: 0..0 });
    Load {
        entry,
        module: code.number(),
        image: "binary of the CPU device",
        target: None,
        ptx: None,
        kernels: kernels.collect(),
        is_lazy: false,
        span,
    }
}

/// When kernels are compiled: `CUDA_MODULE_LOADING`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loading {
    /// With their module.
    Eager,
    /// Each when it is first asked for.
    Lazy,
    /// Eagerly where that is soon done.
    Default,
}

impl Loading {
    pub(crate) fn of_environment() -> Loading {
        match std::env::var("CUDA_MODULE_LOADING").as_deref() {
            Ok("EAGER") => Loading::Eager,
            Ok("LAZY") => Loading::Lazy,
            _ => Loading::Default,
        }
    }

    /// `CU_MODULE_…_LOADING`
    pub(crate) fn mode(self) -> c_uint {
        match self {
            Loading::Eager => 1,
            Loading::Lazy | Loading::Default => 2,
        }
    }

    /// Whether the kernels of a module are compiled later. If there is anything wrong with
    /// it, the load must say so, and a verbose log has a line for each kernel.
    fn is_lazy(self, source: &Source, options: &Options) -> bool {
        let is_long = || source.text().len() >= SHORTEST && source.kernels().nth(1).is_some();
        let wanted = match self {
            Loading::Eager => false,
            Loading::Lazy => true,
            Loading::Default => is_long(),
        };
        wanted && !options.is_verbose() && source.is_valid()
    }
}

/// Compiles PTX to a binary of the CPU device; a binary stays as it is.
pub(crate) fn assemble(bytes: &[u8], options: &mut Options) -> Result<Vec<u8>> {
    if bytes.starts_with(&blob::MAGIC) {
        // SAFETY: it is checked for damage, and not loaded.
        unsafe { Image::read(bytes) }.map_err(|error| bad_blob(&error))?;
        return Ok(bytes.to_vec());
    }
    let source = source(bytes, options)?;
    let image = compiled(&source, &CompileOptions::from_environment(), options)?;
    Ok(image.write())
}

/// Reads PTX.
fn source(bytes: &[u8], options: &mut Options) -> Result<Source> {
    if bytes.starts_with(&ELF) {
        return Err(foreign(bytes));
    }
    let text: Cow<'_, str> = if bytes.starts_with(&fatbin::MAGIC) {
        fatbin::ptx(bytes)?.into()
    } else {
        text_of(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
    };
    if !begins_as_ptx(&text) {
        return Err(Status::INVALID_IMAGE
            .because("the image is neither PTX nor a fatbin nor a binary of the CPU device"));
    }
    check_version(&text, options)?;
    let linked =
        merge::with_device_runtime(&text).map_err(|why| Status::INVALID_PTX.because(why))?;
    let text = linked.map_or(text, Cow::Owned);
    let source = Source::read(text.into_owned());
    let source = source.or_else(|error| Err(refused(&error, options)?))?;
    check_target(&source, options)?;
    Ok(source)
}

/// Refuses PTX for other architectures if the user names the device's own.
fn check_target(source: &Source, options: &mut Options) -> Result {
    let device = device::named_capability(context::current_device());
    let (Some((major, minor)), Some(target)) = (device, source.target()) else {
        return Ok(());
    };
    let device = Target {
        number: (major * 10 + minor).unsigned_abs() as u16, // at most three digits
        suffix: Suffix::Specific,
    };
    if target.compiles_for(device) {
        return Ok(());
    }
    let problem = format!(
        "Program with .target '{target}' cannot be compiled to architecture 'sm_{}'",
        device.number
    );
    options.error(&format!("ptxas fatal   : {problem}\n"))?;
    Err(Status::INVALID_PTX.because(format!(
        "{problem}: {} names the device's architecture",
        device::TARGET
    )))
}

/// Whether a text begins with `.version`, after spaces and comments: otherwise NVIDIA's driver does
/// not take it for PTX.
fn begins_as_ptx(text: &str) -> bool {
    let mut rest = text.trim_start();
    while let Some(comment) = rest.strip_prefix('/') {
        let end = match comment.chars().next() {
            Some('/') => comment.split_once('\n'),
            Some('*') => comment[1..].split_once("*/"),
            _ => None,
        };
        rest = end.map_or("", |(_, after)| after.trim_start());
    }
    rest.starts_with(".version")
}

/// Compiles all kernels.
fn compiled(source: &Source, compile: &CompileOptions, options: &mut Options) -> Result<Image> {
    let compiled = source.compile(compile);
    let image = compiled.or_else(|error| Err(refused(&error, options)?))?;
    options.verbose(|| describe(&image))?;
    Ok(image)
}

/// The line of the module's `.version` and its number; `None` if there is none, which
/// the compiler reports.
fn version(text: &str) -> Option<(usize, (u32, u32))> {
    let (line, rest) = (1..)
        .zip(text.lines())
        .find_map(|(number, line)| Some((number, line.trim_start().strip_prefix(".version")?)))?;
    let (major, minor) = rest.split("//").next()?.trim().split_once('.')?;
    Some((line, (major.parse().ok()?, minor.parse().ok()?)))
}

fn check_version(text: &str, options: &mut Options) -> Result {
    let Some((line, (major, minor))) = version(text).filter(|(_, found)| {
        let Version { major, minor } = NEWEST_PTX;
        *found > (major.into(), minor.into())
    }) else {
        return Ok(());
    };
    let problem =
        format!("Unsupported .version {major}.{minor}; current version is '{NEWEST_PTX}'");
    options.error(&format!(
        "ptxas application ptx input, line {line}; fatal   : {problem}\n"
    ))?;
    Err(Status::UNSUPPORTED_PTX_VERSION.because(problem))
}

/// Writes the errors of a compilation to the log, as ptxas does.
fn refused(error: &CompileError, options: &mut Options) -> Result<Failure> {
    let status = match error.kind {
        CompileErrorKind::Invalid => Status::INVALID_PTX,
        CompileErrorKind::NotSupported => Status::NOT_SUPPORTED,
    };
    for problem in &error.problems {
        let message = &problem.message;
        options.error(&match problem.line {
            0 => format!("ptxas error   : {message}\n"),
            line => format!("ptxas application ptx input, line {line}; error   : {message}\n"),
        })?;
    }
    options.error("ptxas fatal   : Ptx assembly aborted due to errors\n")?;
    Ok(status.because(error.to_string()))
}

/// A line for each kernel, for the verbose log.
fn describe(image: &Image) -> String {
    let line = |kernel: &blob::KernelImage| {
        format!(
            "info    : kernel '{}': {} bytes of parameters, {} bytes of shared memory, {} bytes of local memory\n",
            kernel.name, kernel.param_bytes, kernel.shared_bytes, kernel.local_bytes
        )
    };
    image.kernels.iter().map(line).collect()
}

/// The failure of an ELF file, which is a cubin if its machine is `EM_CUDA`.
fn foreign(elf: &[u8]) -> Failure {
    if elf.get(ELF_MACHINE) != Some(&EM_CUDA) {
        return Status::INVALID_IMAGE.because("the image is an ELF file that is no cubin");
    }
    Status::NO_BINARY_FOR_GPU.because(format!(
        "the image is a cubin, which a GPU runs and the CPU device does not: {}",
        fatbin::ADVICE
    ))
}

fn bad_blob(error: &BlobError) -> Failure {
    let status = match error {
        BlobError::Version { .. } | BlobError::Processor { .. } => Status::NO_BINARY_FOR_GPU,
        _ => Status::INVALID_IMAGE,
    };
    status.because(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_behind_comments() {
        assert_eq!(
            version("// .version 1.0\n\n  .version 9.6 // new\n.target sm_90"),
            Some((3, (9, 6)))
        );
        assert_eq!(version(".version x.y"), None);
    }

    #[test]
    fn what_is_not_for_this_device_is_told_apart() {
        let status = |bytes: &[u8]| assemble(bytes, &mut Options::default()).unwrap_err().status;
        assert_eq!(status(b"\x7fELF\x02\x01"), Status::INVALID_IMAGE);
        let cubin = [&ELF[..], &[0; 14], &EM_CUDA].concat();
        assert_eq!(status(&cubin), Status::NO_BINARY_FOR_GPU);
        assert_eq!(status(&fatbin::MAGIC), Status::INVALID_IMAGE);
        assert_eq!(status(b"hello"), Status::INVALID_IMAGE);
        assert_eq!(status(b"\xff.version"), Status::INVALID_IMAGE);
        assert_eq!(status(b"PTXKCPU1"), Status::INVALID_IMAGE);
        assert_eq!(status(b".version 9.6\n"), Status::UNSUPPORTED_PTX_VERSION);
    }
}
