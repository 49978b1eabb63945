//! How boxes of a tensor lie in memory.

/// Which pieces of a box in shared memory are exchanged, so that threads that read a column of it
/// meet no bank twice (`CUtensorMapSwizzle`). A row of the box has at most as many bytes as the
/// name says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum TensorSwizzle {
    /// None.
    #[default]
    None = 0,
    /// Pieces of 16 bytes within 32.
    Bytes32 = 1,
    /// Pieces of 16 bytes within 64.
    Bytes64 = 2,
    /// Pieces of 16 bytes within 128.
    Bytes128 = 3,
    /// Pieces of 32 bytes within 128 (sm_100).
    Bytes128By32 = 4,
    /// The same, and the halves of 16 bytes in every other row (sm_100).
    Bytes128By32Flip8 = 5,
    /// Pieces of 64 bytes within 128 (sm_100).
    Bytes128By64 = 6,
}

impl TensorSwizzle {
    /// The most bytes of a row of a box.
    pub(super) fn span(self) -> Option<u64> {
        match self {
            TensorSwizzle::None => None,
            TensorSwizzle::Bytes32 => Some(32),
            TensorSwizzle::Bytes64 => Some(64),
            _ => Some(128),
        }
    }
}

/// How many bytes of neighbouring channels lie beside each other (`CUtensorMapInterleave`), in
/// layouts such as NC/8HWC8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum TensorInterleave {
    /// All of them.
    #[default]
    None = 0,
    /// 16 bytes.
    Bytes16 = 1,
    /// 32 bytes.
    Bytes32 = 2,
}

/// How many bytes L2 fetches at once (`CUtensorMapL2promotion`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum L2Promotion {
    /// What is read.
    #[default]
    None = 0,
    /// 64 bytes.
    Bytes64 = 1,
    /// 128 bytes.
    Bytes128 = 2,
    /// 256 bytes.
    Bytes256 = 3,
}

/// Columns of an image's pixels, for convolutions (`cuTensorMapEncodeIm2col`). The tensor has
/// the dimensions channels, width, height and depth, if it has these, and images.
///
/// ```
/// use ptxkit::driver::Im2col;
/// // For a filter of 3 by 3: one pixel around the image, 64 pixels at once.
/// let columns = Im2col {
///     lower: vec![-1, -1],
///     upper: vec![-1, -1],
///     channels: 32,
///     pixels: 64,
/// };
/// assert_eq!(columns.lower.len(), 2); // width and height
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Im2col {
    /// Where the first pixels of columns are: offsets from the first pixel of an image, those of
    /// the width first.
    pub lower: Vec<i32>,
    /// The same from its last pixel.
    pub upper: Vec<i32>,
    /// Channels of a pixel that are copied, at most 256.
    pub channels: u32,
    /// Pixels of a column, at most 1024.
    pub pixels: u32,
}

/// Columns along the width alone (`cuTensorMapEncodeIm2colWide`, sm_100).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Im2colWide {
    /// Where the first pixels of columns are, as an offset from the first of a row.
    pub lower: i32,
    /// The same from the last of a row.
    pub upper: i32,
    /// Channels of a pixel that are copied, at most 256.
    pub channels: u32,
    /// Pixels of a column, at most 1024; `None` for 128 of an instruction with
    /// `.im2col::w::128`.
    pub pixels: Option<u32>,
}
