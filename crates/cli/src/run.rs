//! `ptxkit run`: launches a kernel and verifies its results.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::errors::{READABLE, of_argument, of_driver, of_load, of_sample};
use super::launch::{self, Launched};
use super::matching::{Analysis, unknown_kernel};
use super::report::{CacheUse, RunReport, in_ms, to_the_nanosecond};
use super::sample::{ArgKind, Outcome, Sample};
use super::{argument, isolate};
use input::ShowName as _;
use ptxkit::cache::{Cache, Environment, Policy, Slicing};
use ptxkit::driver::{self, Context, CudaError, DriverKind, Selection};
use ptxkit::image::{self, EntryKind, Image, ImageError, UnpackLimit, Unpacker};
use ptxkit::jit::JitOptions;
use ptxkit::loader::{self, LoadError, Loader, Source};
use ptxkit::ptx;
use ptxkit::ptx::signature::{KernelSignature, signatures};
use terminal::failure::{Failure, MISMATCHES, VERIFIED};
use terminal::output::{Escaped, Format, eprint, print};

/// A launch, as options.
#[derive(Debug, clap::Args)]
pub struct LaunchArgs {
    /// A sample (NAME.toml), or PTX, a cubin or a fatbin with --kernel
    pub file: PathBuf,
    /// The kernel to launch; optional if the image has only one
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// Blocks of the grid
    #[arg(long, value_name = "X[,Y,Z]", value_parser = extent)]
    pub grid: Option<[u32; 3]>,
    /// Threads of a block
    #[arg(long, value_name = "X[,Y,Z]", value_parser = extent)]
    pub block: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory
    #[arg(long, value_name = "BYTES")]
    pub shared: Option<u32>,
    /// The number of consecutive launches
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub launches: Option<u32>,
    /// An argument of the kernel, once for each parameter: see below
    #[arg(long = "arg", value_name = "ARG", allow_hyphen_values = true)]
    pub args: Vec<String>,
    /// Where to run: auto, nvidia, nvidia:N or cpu; auto takes a GPU if there
    /// is one
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: Selection,
}

/// The arguments of `ptxkit run`.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    launch: LaunchArgs,
    /// Compile the kernel apart from the others of its module: auto (of a large one),
    /// always or never; the default is PTXKIT_SLICED, or auto
    #[arg(long, value_name = "WHEN")]
    sliced: Option<Slicing>,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// One to three numbers, `16` or `16,16`.
pub fn extent(text: &str) -> Result<[u32; 3], String> {
    let wrong = || "one to three numbers above 0 are expected, as 16 or 16,16,1".to_owned();
    let mut sizes = [1; 3];
    for (axis, word) in text.split(',').enumerate() {
        let size = word.trim().parse().ok().filter(|&size| size > 0);
        *sizes.get_mut(axis).ok_or_else(wrong)? = size.ok_or_else(wrong)?;
    }
    Ok(sizes)
}

/// A finished run.
pub struct Finished {
    pub report: RunReport,
    /// The reason for the selected device.
    pub why: String,
    pub outcome: Outcome,
    /// The error that ended the launches, in full.
    pub error: Option<Failure>,
}

/// Runs the kernel and prints the report; returns the exit status.
pub fn run(args: &RunArgs) -> Result<u8, Failure> {
    let request = Request::read(&args.launch)?;
    if let Some(folder) = isolate::folder() {
        let finished = execute(&request, args)?;
        isolate::hand_over(&folder, &finished)?;
        return Ok(VERIFIED);
    }
    let finished = if request.prints(args.format) {
        isolate::execute()?
    } else {
        execute(&request, args)?
    };
    conclude(&request.sample, finished, args.format)
}

/// The kernel to run, with its image.
pub struct Request {
    pub sample: Sample,
    /// The image's bytes.
    pub bytes: Vec<u8>,
}

impl Request {
    /// Reads the sample, or the image and the arguments.
    ///
    /// # Errors
    /// A file cannot be read, or the options do not describe a launch.
    pub fn read(args: &LaunchArgs) -> Result<Request, Failure> {
        if is_sample(&args.file) {
            refuse_flags(args)?;
            return Request::of_sample(&args.file);
        }
        let bytes = read(&args.file)?;
        let kernel = match &args.kernel {
            Some(kernel) => kernel.clone(),
            None => only_kernel(&args.file, &bytes)?,
        };
        let parsed = argument::parse(&args.args).map_err(|error| of_argument(&error))?;
        let sample = Sample {
            ptx: args.file.clone(),
            kernel,
            grid: args.grid.unwrap_or([1; 3]),
            block: args.block.unwrap_or([1; 3]),
            shared: args.shared.unwrap_or(0),
            launches: args.launches.unwrap_or(1),
            args: parsed,
            globals: Vec::new(),
            expect_error: None,
            expect_output: None,
        };
        Ok(Request { sample, bytes })
    }

    /// Reads a sample.
    ///
    /// # Errors
    /// As for [`read`](Request::read).
    pub fn of_sample(file: &Path) -> Result<Request, Failure> {
        let sample = Sample::load(file).map_err(|error| of_sample(&error))?;
        let bytes = read(&sample.ptx)?;
        Ok(Request { sample, bytes })
    }

    /// Whether the output of the kernel must be separated from ours.
    fn prints(&self, format: Format) -> bool {
        let prints = || {
            self.bytes
                .windows(b"vprintf".len())
                .any(|word| word == b"vprintf")
        };
        self.sample.expect_output.is_some()
            || self.sample.expect_error.is_some()
            || (format == Format::Json && prints())
    }

    /// The image in messages.
    pub fn name(&self) -> String {
        self.sample.ptx.shown().to_string()
    }
}

/// Whether a file is a sample, by its name.
pub fn is_sample(file: &Path) -> bool {
    file.extension().is_some_and(|end| end == "toml")
}

fn refuse_flags(args: &LaunchArgs) -> Result<(), Failure> {
    let flags = [
        ("--kernel", args.kernel.is_some()),
        ("--grid", args.grid.is_some()),
        ("--block", args.block.is_some()),
        ("--shared", args.shared.is_some()),
        ("--launches", args.launches.is_some()),
        ("--arg", !args.args.is_empty()),
    ];
    match flags.iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(Failure::new(format!(
            "{flag} cannot be used with a sample: {} sets it",
            args.file.shown()
        ))
        .help("change the sample, or give its PTX file with the flags")),
        None => Ok(()),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    input::read(path)
        .map_err(|error| Failure::new(format!("{}: {error}", path.shown())).help(READABLE))
}

/// The kernel of an image that has only one.
fn only_kernel(path: &Path, bytes: &[u8]) -> Result<String, Failure> {
    let name = path.shown().to_string();
    let failure = |error: ImageError| Failure::new(format!("{name}: {error}"));
    let mut kernels = BTreeSet::new();
    match open(&name, bytes)? {
        // The images of a fatbin have the same kernels for several architectures.
        Image::Fatbin(fatbin) => {
            let mut unpacker = Unpacker::default();
            let mut limit = UnpackLimit::of_file(bytes.len());
            for entry in &fatbin.entries {
                if entry.kind.is_ptx() || entry.kind == EntryKind::Elf {
                    limit.take(entry).map_err(failure)?;
                    let bytes = unpacker.unpack(entry).map_err(failure)?;
                    kernels.extend(kernels_of(bytes).map_err(failure)?);
                }
            }
        }
        _ => kernels.extend(kernels_of(bytes).map_err(failure)?),
    }
    let kernels: Vec<String> = kernels.into_iter().collect();
    match kernels.as_slice() {
        [kernel] => Ok(kernel.clone()),
        _ => {
            let failure = Failure::new(format!("{name}: which kernel is to run?"));
            let names = terminal::failure::listing(kernels.iter().map(String::as_str));
            Err(failure.help(match kernels.len() {
                0 => "name it with --kernel".to_owned(),
                _ => format!("name one with --kernel: {names}"),
            }))
        }
    }
}

/// The kernels of PTX or a cubin.
fn kernels_of(bytes: &[u8]) -> Result<Vec<String>, ImageError> {
    Ok(match image::open(bytes)? {
        Image::Ptx(ptx) => signatures(&ptx::read(&ptx.source).module, &ptx.source)
            .into_iter()
            .map(|kernel| kernel.name)
            .collect(),
        Image::Cubin(cubin) => cubin
            .contents()?
            .kernels
            .into_iter()
            .map(|kernel| kernel.name)
            .collect(),
        _ => Vec::new(),
    })
}

fn open<'a>(name: &str, bytes: &'a [u8]) -> Result<Image<'a>, Failure> {
    image::open(bytes)
        .map_err(|error| Failure::new(format!("{name} cannot be run: {error}")).help(READABLE))
}

/// Selects the device, loads, launches.
#[allow(unsafe_code, reason = "the user names the code to be run")]
fn execute(request: &Request, args: &RunArgs) -> Result<Finished, Failure> {
    let selection = args.launch.device;
    let name = request.name();
    let image = open(&name, &request.bytes)?;
    let text = match &image {
        Image::Ptx(ptx) => Some(&*ptx.source),
        _ => None,
    };
    // Parse and check the whole text only after an error: this takes longer than a load from the
    // cache.
    let analysis = || text.map(|text| Analysis::read(text, &name));
    let sample = &request.sample;
    let declared = text.and_then(|text| declaration(text, &sample.kernel));
    let fits = declared.is_some_and(|kernel| {
        let alone = Analysis {
            kernels: vec![kernel],
            errors: None,
        };
        alone.check(sample).is_ok()
    });
    if !fits && let Some(analysis) = analysis() {
        analysis.check(sample)?;
    }
    let selected = driver::select(selection).map_err(|error| of_driver(&error))?;
    let device = selected.device;
    let context = Context::primary(&device).map_err(|error| of_driver(&error))?;
    let mut policy = Policy::from_environment(&Environment::read());
    if let Some(slicing) = args.sliced {
        policy = policy.with_slicing(slicing);
    }
    let loader = Loader::new(context, Cache::new(policy));
    // SAFETY: the user vouches for the binary, as for any program.
    let source = unsafe { Source::image(&name, &request.bytes) };
    let failed = |error: LoadError| {
        if let LoadError::Driver(driver::Error::UnknownKernel {
            name: kernel,
            known,
        }) = &error
        {
            return unknown_kernel(kernel, &name, known.iter().map(String::as_str));
        }
        let analysis = analysis();
        let errors = analysis.as_ref().and_then(|read| read.errors.as_ref());
        // A GPU driver may support PTX that this front end does not: its own error takes precedence.
        match errors.filter(|_| device.driver().kind() == DriverKind::Cpu) {
            Some(errors) => Failure::rendered(errors),
            None => of_load(&error, &name, &image, analysis.as_ref()),
        }
    };
    let module = loader.load_sliced(&source, &JitOptions::default());
    let module = module.map_err(failed)?;
    let kernel = module.kernel(&sample.kernel).map_err(failed)?;
    let launched = launch::launch(sample, &module, &kernel).map_err(|error| match error {
        LoadError::Driver(error) => of_driver(&error),
        error => Failure::new(error),
    })?;
    let report = module.kernel_report(&sample.kernel).cloned();
    let report = report.ok_or_else(|| unknown_kernel(&sample.kernel, &name, [].into_iter()))?;
    let Launched {
        outcome,
        milliseconds,
        error,
    } = launched;
    Ok(Finished {
        report: RunReport {
            device: device.name().map_err(|error| of_driver(&error))?,
            image: match module.report().whole {
                Some(_) => report.image,
                None => format!(
                    "{}, cut into {} slices",
                    report.image,
                    module.report().slices
                ),
            },
            cache: match report.cache {
                // A run loads one module: nothing to share.
                loader::CacheUse::Hit | loader::CacheUse::Shared => CacheUse::Hit,
                loader::CacheUse::Miss => CacheUse::Miss,
                loader::CacheUse::Off => CacheUse::Off,
            },
            key: report.key.map(|key| key.to_string()),
            compile_ms: in_ms(report.compile),
            load_ms: in_ms(report.load),
            launch_ms: milliseconds.map(to_the_nanosecond),
            verified: None,
            mismatches: 0,
        },
        why: format!("{selection}: {}", selected.why),
        outcome,
        error: error.map(|error| fault(&request.sample.kernel, &error, device.driver().kind())),
    })
}

/// The signature of a kernel, parsed from its declaration only; `None` if that is not found. A
/// comment may contain another declaration of the same name, so on a mismatch the whole text decides.
fn declaration(text: &str, kernel: &str) -> Option<KernelSignature> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%');
    let (start, _) = text.match_indices(kernel).find(|(at, name)| {
        let before = text[..*at].trim_end();
        before.len() < *at
            && before.ends_with(".entry")
            && !text[at + name.len()..].starts_with(is_name)
    })?;
    let rest = &text[start..];
    let body = rest.find('{')?;
    let alone = format!(".entry {}{{ ret; }}", &rest[..body]);
    let reading = ptx::read(&alone);
    let mut kernels = signatures(&reading.module, &alone);
    let mut found = kernels.pop()?;
    let before = text[..start].bytes().filter(|byte| *byte == b'\n').count() as u32;
    found.line += before;
    found
        .params
        .iter_mut()
        .for_each(|param| param.line += before);
    (kernels.is_empty() && found.name == kernel && reading.diagnostics.is_empty()).then_some(found)
}

/// The message for an error of the kernel.
pub fn fault(kernel: &str, error: &driver::Error, kind: DriverKind) -> Failure {
    let failure = Failure::new(format!("kernel `{kernel}`: {error}"));
    match (kind, error.code()) {
        // A GPU reports the error, the CPU device also the location.
        (DriverKind::Nvidia, Some(CudaError::ILLEGAL_ADDRESS | CudaError::MISALIGNED_ADDRESS)) => {
            failure
                .help("run it with --device cpu, which names the thread, the address and the line")
        }
        _ => failure,
    }
}

/// Verifies and saves the results, and prints the report.
fn conclude(sample: &Sample, finished: Finished, format: Format) -> Result<u8, Failure> {
    let Finished {
        mut report,
        why,
        outcome,
        error,
    } = finished;
    if let (Some(error), None) = (error, &sample.expect_error) {
        return Err(error);
    }
    for (arg, bytes) in sample.args.iter().zip(&outcome.args) {
        if let ArgKind::Buffer(buffer) = &arg.kind
            && let Some(path) = &buffer.save
        {
            std::fs::write(path, bytes)
                .map_err(|error| Failure::new(format!("{}: {error}", path.shown())))?;
        }
    }
    let verdict = sample.check(&outcome);
    report.verified = verdict.as_ref().map(|verdict| verdict.verified);
    report.mismatches = verdict.as_ref().map_or(0, |verdict| verdict.mismatches);
    eprint(&Escaped::lines(&outcome.stderr).to_string());
    match format {
        Format::Text => {
            let error = outcome.error.as_deref();
            print(&outcome.stdout);
            print(&report.text(&why, sample.launches, verdict.as_ref(), error));
        }
        // Standard output only contains the JSON.
        Format::Json => {
            eprint(&outcome.stdout);
            print(&report.json());
        }
    }
    Ok(match report.verified {
        Some(false) => MISMATCHES,
        _ => VERIFIED,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declaration_is_read_alone() {
        let head = ".version 8.0\n.target sm_80\n.address_size 64\n";
        let text = format!(
            "{head}.visible .entry scale2(.param .u32 n) {{ ret; }}\n// .entry scale \n\
             .visible .entry scale(\n\t.param .u64 out, // {{ not the body\n\
             \t.param .f32 factor\n)\n.reqntid 32\n{{ ret; }}\n"
        );
        let whole = signatures(&ptx::read(&text).module, &text);
        let params = |text: &str, kernel| declaration(text, kernel).map(|found| found.params);
        // Comments before the kernel or in its declaration need the whole text.
        assert_eq!(params(&text, "scale"), None);
        assert_eq!(params(&text, "scale2").as_ref(), Some(&whole[0].params));
        for absent in ["scal", "out", ""] {
            assert_eq!(params(&text, absent), None, "{absent}");
        }
        let plain = text
            .replace("// .entry scale ", "")
            .replace("// { not the body", "");
        assert_eq!(params(&plain, "scale").as_ref(), Some(&whole[1].params));
    }

    #[test]
    fn extents() {
        assert_eq!(extent("4"), Ok([4, 1, 1]));
        assert_eq!(extent("4, 2,3"), Ok([4, 2, 3]));
        for wrong in ["", "0", "4,", "1,2,3,4", "x", "-1", "4294967296"] {
            assert!(extent(wrong).is_err(), "{wrong}");
        }
    }
}
