//! What an array is made of.

use crate::driver::pod::Plain;
use crate::driver::pod::vector::*;

/// The type of one channel of a texel (`CUarray_format`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
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

/// The bits of an IEEE half-precision number, for arrays of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct F16(pub u16);

// SAFETY: 16 bits; any are a value.
unsafe impl Plain for F16 {}

mod sealed {
    pub trait Sealed {}
}

/// A type that an array can have as its texels: a number, or 2 or 4 of a kind,
/// as Rust's arrays or as [CUDA's vectors](Float4).
pub trait Texel: Plain + sealed::Sealed {
    /// The type of a channel.
    const FORMAT: ArrayFormat;
    /// How many channels: 1, 2 or 4.
    const CHANNELS: u32;
}

macro_rules! texels {
    ($($channel:ty: $format:ident $(, $two:ident, $four:ident)?;)*) => { $(
        texels!(@one $channel, $format, 1);
        texels!(@one [$channel; 2], $format, 2);
        texels!(@one [$channel; 4], $format, 4);
        $(texels!(@one $two, $format, 2);
        texels!(@one $four, $format, 4);)?
    )* };
    (@one $texel:ty, $format:ident, $channels:literal) => {
        impl sealed::Sealed for $texel {}
        impl Texel for $texel {
            const FORMAT: ArrayFormat = ArrayFormat::$format;
            const CHANNELS: u32 = $channels;
        }
        // Copies count in values, the driver counts in texels.
        const _: () = assert!(size_of::<$texel>() == ArrayFormat::$format.bytes() * $channels);
    };
}

texels! {
    u8: U8, UChar2, UChar4;
    u16: U16, UShort2, UShort4;
    u32: U32, UInt2, UInt4;
    i8: I8, Char2, Char4;
    i16: I16, Short2, Short4;
    i32: I32, Int2, Int4;
    F16: F16;
    f32: F32, Float2, Float4;
}
