//! Why there is no PTX.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// Why a file was not compiled. `Debug` is the message too: a build script that returns the
/// error shows that.
#[allow(missing_docs, reason = "the messages say it all")]
#[non_exhaustive]
pub enum Error {
    NoBuildScript {
        name: &'static str,
    },
    Outside {
        source: PathBuf,
    },
    NoSource {
        source: PathBuf,
    },
    NoNvcc {
        source: PathBuf,
        tried: Vec<PathBuf>,
    },
    Start {
        nvcc: PathBuf,
        error: io::Error,
    },
    Refused {
        source: PathBuf,
        status: ExitStatus,
        said: String,
    },
    Files {
        folder: PathBuf,
        error: io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoBuildScript { name } => {
                write!(f, "{name} is not set: only a build script can call this")
            }
            Error::Outside { source } => write!(
                f,
                "{} lies outside of the package: give a path below the folder of Cargo.toml",
                source.display()
            ),
            Error::NoSource { source } => write!(f, "{}: no such file", source.display()),
            Error::NoNvcc { source, tried } => {
                write!(
                    f,
                    "{} needs nvcc to compile, and no nvcc is installed: install the CUDA \
                     toolkit, set NVCC to its path, or declare a PTX file in place of the \
                     source. There is none at",
                    source.display()
                )?;
                tried
                    .iter()
                    .try_for_each(|path| write!(f, "\n    {}", path.display()))
            }
            Error::Start { nvcc, error } => {
                write!(f, "{} cannot be started: {error}", nvcc.display())
            }
            Error::Refused {
                source,
                status,
                said,
            } => {
                write!(
                    f,
                    "{} does not compile ({status}):\n{said}",
                    source.display()
                )
            }
            Error::Files { folder, error } => {
                write!(
                    f,
                    "the PTX cannot be written to {}: {error}",
                    folder.display()
                )
            }
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Start { error, .. } | Error::Files { error, .. } => Some(error),
            _ => None,
        }
    }
}
