//! The formats of the channels of arrays.

/// The type of one channel of a texel (`CUarray_format`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ArrayFormat {
    /// 8 bits, unsigned.
    U8 = 0x01,
    /// 16 bits, unsigned.
    U16 = 0x02,
    /// 32 bits, unsigned.
    U32 = 0x03,
    /// 8 bits, signed.
    I8 = 0x08,
    /// 16 bits, signed.
    I16 = 0x09,
    /// 32 bits, signed.
    I32 = 0x0a,
    /// IEEE half precision.
    F16 = 0x10,
    /// IEEE single precision.
    F32 = 0x20,
}

impl ArrayFormat {
    /// The format with a number of the C API, if it is one of these.
    pub fn from_raw(format: u32) -> Option<ArrayFormat> {
        use ArrayFormat::*;
        [U8, U16, U32, I8, I16, I32, F16, F32]
            .into_iter()
            .find(|known| *known as u32 == format)
    }

    /// Bytes of a channel.
    pub const fn bytes(self) -> usize {
        match self {
            ArrayFormat::U8 | ArrayFormat::I8 => 1,
            ArrayFormat::U16 | ArrayFormat::I16 | ArrayFormat::F16 => 2,
            ArrayFormat::U32 | ArrayFormat::I32 | ArrayFormat::F32 => 4,
        }
    }

    /// Whether a texture gives its texels as integers unless told otherwise.
    pub const fn is_integer(self) -> bool {
        !matches!(self, ArrayFormat::F16 | ArrayFormat::F32)
    }
}
