//! What no tensor map has.

use std::fmt;

/// Why there is no tensor map of a tensor. Dimensions are counted from 0, which is the one whose
/// elements are contiguous.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorMapError {
    /// Fewer or more dimensions than such a map has.
    Rank {
        /// How many the tensor has.
        given: usize,
        /// The fewest; 5 are the most.
        least: usize,
    },
    /// A list has not a number for each dimension.
    Count {
        /// Such as `strides`.
        what: &'static str,
        /// How many numbers it should have.
        expected: usize,
        /// How many it has.
        given: usize,
    },
    /// A number is too small or too large.
    Range {
        /// Such as `elements of a box`.
        what: &'static str,
        /// The dimension, if there is one for each.
        dimension: Option<usize>,
        /// The number.
        given: i64,
        /// The smallest.
        least: i64,
        /// The largest.
        most: i64,
    },
    /// A number is no multiple of another.
    Multiple {
        /// Such as `bytes of the stride`.
        what: &'static str,
        /// The dimension, if there is one for each.
        dimension: Option<usize>,
        /// The number.
        given: u64,
        /// What it must be a multiple of.
        of: u64,
    },
    /// A row of the box is longer than what is swizzled.
    Swizzle {
        /// Bytes of a row.
        row: u64,
        /// The most bytes.
        span: u64,
    },
    /// Two choices exclude each other.
    Conflict {
        /// What was chosen.
        chosen: &'static str,
        /// What it needs.
        needs: &'static str,
    },
    /// The tensor reaches over the end of its memory.
    Extent {
        /// Bytes from its first to its last element, or the largest number.
        bytes: u64,
        /// Bytes of the memory.
        capacity: usize,
    },
}

impl fmt::Display for TensorMapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let along = |dimension: &Option<usize>| match dimension {
            Some(dimension) => format!(" along dimension {dimension}"),
            None => String::new(),
        };
        f.write_str("no tensor map: ")?;
        match self {
            TensorMapError::Rank { given, least } => {
                write!(f, "{given} dimensions, {least} to 5 are possible")
            }
            TensorMapError::Count {
                what,
                expected,
                given,
            } => write!(f, "{given} {what} given, {expected} expected"),
            TensorMapError::Range {
                what,
                dimension,
                given,
                least,
                most,
            } => write!(
                f,
                "{given} {what}{}, {least} to {most} are possible",
                along(dimension)
            ),
            TensorMapError::Multiple {
                what,
                dimension,
                given,
                of,
            } => {
                write!(
                    f,
                    "{given} {what}{}, which is no multiple of {of}: the next one is ",
                    along(dimension)
                )?;
                match given.checked_next_multiple_of(*of) {
                    Some(next) => write!(f, "{next}"),
                    None => write!(f, "{}", given / of * of),
                }
            }
            TensorMapError::Swizzle { row, span } => write!(
                f,
                "a row of the box has {row} bytes, and this swizzling takes at most {span}: make \
                 the box narrower along dimension 0, or swizzle more bytes or none"
            ),
            TensorMapError::Conflict { chosen, needs } => write!(f, "{chosen} needs {needs}"),
            TensorMapError::Extent { bytes, capacity } => write!(
                f,
                "the tensor reaches over {bytes} bytes, and the memory has {capacity}"
            ),
        }
    }
}

impl std::error::Error for TensorMapError {}
