//! What an array is made of.

use api::ArrayFormat;

use crate::driver::pod::Pod;
use crate::driver::pod::param::DeviceField;
use crate::driver::pod::vector::*;

/// The bits of an IEEE half-precision number, for arrays of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct F16(pub u16);

// SAFETY: 16 bits; any are a value.
unsafe impl Pod for F16 {}
// SAFETY: as above, with the alignment of `half`.
unsafe impl DeviceField for F16 {}

mod sealed {
    pub trait Sealed {}
}

/// A type that an array can have as its texels: a number, or 2 or 4 of a kind,
/// as Rust's arrays or as [CUDA's vectors](Float4).
pub trait Texel: Pod + sealed::Sealed {
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
