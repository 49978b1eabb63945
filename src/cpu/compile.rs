//! PTX text → the CPU device's binary.

use std::fmt;

/// What a compilation may choose.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CompileOptions {}

/// Why a module cannot be compiled: everything found, in the order of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompileError {
    pub kind: CompileErrorKind,
    /// At least one.
    pub problems: Vec<Problem>,
}

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

/// Compiles every kernel of a module for this machine's processor.
///
/// The result is what [`Image::read`](super::blob::Image::read) takes.
///
/// # Errors
/// Everything wrong with the text, or every instruction that the CPU device
/// cannot run, each by its name and line.
pub fn compile(_source: &str, _options: &CompileOptions) -> Result<Vec<u8>, CompileError> {
    Err(CompileError {
        kind: CompileErrorKind::NotSupported,
        problems: Vec::new(),
    })
}
