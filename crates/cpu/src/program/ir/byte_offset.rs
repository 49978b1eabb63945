//! Distances in bytes that code generation computes with.

/// A signed distance in bytes, which the displacement of a machine instruction can hold.
///
/// Sums, products with a number of lanes and magnitudes of a few of them fit in `i64`, so bounds
/// that follow from them cannot wrap around. Larger distances of PTX are added by an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ByteOffset(i32);

impl ByteOffset {
    pub const ZERO: ByteOffset = ByteOffset(0);

    /// Returns `None` where `bytes` does not fit.
    pub fn new(bytes: i64) -> Option<ByteOffset> {
        i32::try_from(bytes).ok().map(ByteOffset)
    }

    /// The place of a value in a frame or a parameter. None is as large as the range, so that a place
    /// past its end is out of bounds.
    pub fn saturating(bytes: i64) -> ByteOffset {
        let limits = i64::from(i32::MIN)..=i64::from(i32::MAX);
        ByteOffset(bytes.clamp(*limits.start(), *limits.end()) as i32)
    }

    pub fn bytes(self) -> i64 {
        self.0.into()
    }
}
