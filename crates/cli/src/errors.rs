//! Messages for the errors of the library, with help.

use super::argument::{ArgumentError, ArgumentProblem};
use super::matching::Analysis;
use super::pattern::PatternError;
use super::sample::SampleError;
use input::ShowName as _;
use ptxkit::driver::{self, CudaError, DriverKind, JitError};
use ptxkit::image::Image;
use ptxkit::loader::LoadError;
use ptxkit::ptx::diagnostic::LineIndex;
use terminal::failure::Failure;

/// Help for a file that cannot be used.
pub const READABLE: &str = "give a sample (NAME.toml), or a PTX, cubin or fatbin file";

/// The message for a sample that cannot be used.
pub fn of_sample(error: &SampleError) -> Failure {
    let failure = Failure::new(error);
    match error {
        SampleError::Read { .. } => failure.help(READABLE),
        _ => failure.help("see the samples in ptx-samples/"),
    }
}

/// The message for an argument of the command line that cannot be used.
pub fn of_argument(error: &ArgumentError) -> Failure {
    let failure = Failure::new(error);
    match &error.problem {
        ArgumentProblem::Pattern(PatternError::File { path, source })
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            failure.help(format!(
                "`@{}` is read before the launch and must exist; `buf:TYPE:COUNT=PATTERN` \
                 needs no file, and `out:TYPE:COUNT@FILE` writes one",
                path.shown()
            ))
        }
        _ => failure,
    }
}

/// The message for an image that cannot be loaded. `name` and `image` are those of the user, and
/// `analysis` is the result of the front end.
pub fn of_load(
    error: &LoadError,
    name: &str,
    image: &Image<'_>,
    analysis: Option<&Analysis>,
) -> Failure {
    match error {
        LoadError::PtxTooNew { newest, driver, .. } => {
            let lower =
                format!("if the kernels use nothing newer, write `.version {newest}` in the PTX");
            Failure::new(error).help(match driver {
                DriverKind::Cpu => lower,
                _ => format!("update the driver; or, {lower}"),
            })
        }
        LoadError::PtxUsesNewer { .. } => {
            Failure::new(error).help("update the driver, or compile for an older version of PTX")
        }
        LoadError::Driver(driver::Error::Jit(error)) => {
            let text = match image {
                Image::Ptx(ptx) => &ptx.source,
                _ => "",
            };
            let failure = Failure::new(draw_log(error, name, text));
            match analysis.and_then(|analysis| analysis.errors.as_ref()) {
                Some(errors) => failure.help(format!("ptxkit reports:\n{errors}")),
                None if error.code == CudaError::NOT_SUPPORTED => {
                    failure.help("run it on a GPU with --device nvidia")
                }
                None => failure,
            }
        }
        LoadError::Driver(error) => of_driver(error),
        LoadError::NothingFits { .. } => {
            Failure::new(error).help("give PTX, or a binary for this device")
        }
        _ => Failure::new(error),
    }
}

/// The maximum number of compiler errors that are shown.
const MAX_SHOWN: usize = 10;

/// The errors of a compiler, each with its line of PTX.
pub fn draw_log(error: &JitError, name: &str, text: &str) -> String {
    let lines = LineIndex::new(text);
    let mut rendered = format!("{name} does not compile: {}", error.code);
    // The last line of a log is a summary without a line number.
    let placed = error.diagnostics.iter().any(|line| line.line.is_some());
    let mut findings = error
        .diagnostics
        .iter()
        .filter(|finding| finding.line.is_some() || !placed);
    for finding in findings.by_ref().take(MAX_SHOWN) {
        rendered += &match finding.line {
            None => format!("\n  {}", finding.message),
            Some(number) => format!(
                "\n  {}\n  --> {name}:{number}\n{number:>5} | {}",
                finding.message,
                lines.text(number)
            ),
        };
    }
    match findings.count() {
        0 => rendered,
        more => format!("{rendered}\n  and {more} more"),
    }
}

/// The message for an error of the driver layer, with help.
pub fn of_driver(error: &driver::Error) -> Failure {
    let failure = Failure::new(error);
    match error {
        driver::Error::DriverMissing(missing) => Failure::new(missing.reasons())
            .help("install NVIDIA's driver, or run on the CPU with --device cpu"),
        driver::Error::NoSuchDevice { .. } => {
            failure.help("`ptxkit devices` lists the devices; --device cpu runs without a GPU")
        }
        driver::Error::EntryMissing { .. } => {
            failure.help("update the NVIDIA driver, or run with --device cpu")
        }
        driver::Error::BlockTooLarge { limit, .. } => {
            failure.help(format!("give at most {limit} threads with --block"))
        }
        driver::Error::Dimension { what, limit, .. } => {
            failure.help(format!("give at most {limit} with --{what}"))
        }
        driver::Error::SharedMemory { limit, .. } => failure.help(format!(
            "the limit for a block is {limit} bytes: reduce --shared"
        )),
        _ => failure,
    }
}
