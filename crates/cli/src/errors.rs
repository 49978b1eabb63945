//! Messages for the library's errors: what is wrong, where, and what to do.

use super::argument::{ArgumentError, ArgumentProblem};
use super::matching::Understood;
use super::pattern::PatternError;
use super::sample::SampleError;
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
        _ => failure.help("the samples in ptx-samples/ show what a sample holds"),
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
                path.display()
            ))
        }
        _ => failure,
    }
}

/// The message for an image that was not loaded. `name` and `image` are those of the
/// user, and `understood` is the result of the front end.
pub fn of_load(
    error: &LoadError,
    name: &str,
    image: &Image<'_>,
    understood: Option<&Understood>,
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
            match understood.and_then(|understood| understood.errors.as_ref()) {
                Some(errors) => failure.help(format!("ptxkit itself finds this:\n{errors}")),
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

/// The limit of a compiler's findings that are shown.
const SHOWN: usize = 10;

/// A compiler's findings, each with its line of PTX.
pub fn draw_log(error: &JitError, name: &str, text: &str) -> String {
    let lines = LineIndex::new(text);
    let mut drawn = format!("{name} does not compile: {}", error.code);
    // The last line of a log is a summary without a place.
    let placed = error.diagnostics.iter().any(|line| line.line.is_some());
    let mut findings = error
        .diagnostics
        .iter()
        .filter(|finding| finding.line.is_some() || !placed);
    for finding in findings.by_ref().take(SHOWN) {
        drawn += &match finding.line {
            None => format!("\n  {}", finding.message),
            Some(number) => format!(
                "\n  {}\n  --> {name}:{number}\n{number:>5} | {}",
                finding.message,
                lines.text(number)
            ),
        };
    }
    match findings.count() {
        0 => drawn,
        more => format!("{drawn}\n  and {more} more"),
    }
}

/// An error of the driver layer, with what to do about it.
pub fn of_driver(error: &driver::Error) -> Failure {
    let failure = Failure::new(error);
    match error {
        driver::Error::DriverMissing(missing) => Failure::new(missing.reasons())
            .help("install NVIDIA's driver, or run on the CPU with --device cpu"),
        driver::Error::NoSuchDevice { .. } => {
            failure.help("`ptxkit devices` lists what there is; --device cpu runs without a GPU")
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
            "a block can have {limit} bytes in all: give less with --shared"
        )),
        _ => failure,
    }
}
