//! The lines that messages name.

use std::fmt;

use ptx::line_table::SourceLine;

/// A line of a kernel. Shown as `27 (vecadd.cu:7)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// In the PTX, or in the text from which that was cut; from 1, 0 where unknown.
    pub ptx: u32,
    /// What it was compiled from, by `.loc`.
    pub source: Option<SourceLine>,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line { ptx, source } = self;
        match source {
            Some(source) => write!(f, "{ptx} ({source})"),
            None => write!(f, "{ptx}"),
        }
    }
}

/// Tells which line messages name for a line of the PTX that was compiled.
pub(crate) trait Lines: Sync {
    fn line(&self, compiled: u32) -> Line;
}
