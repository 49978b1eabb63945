//! What tensors are made of.

use crate::driver::pod::Pod;
use crate::driver::pod::texel::F16;

/// The type of a tensor's elements (`CUtensorMapDataType`). Out of bounds, and for reductions, it
/// matters what the bits mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u32)]
pub enum TensorElement {
    /// 8 bits of any kind.
    U8 = 0,
    /// Unsigned, 16 bits.
    U16 = 1,
    /// Unsigned, 32 bits.
    U32 = 2,
    /// Signed, 32 bits.
    S32 = 3,
    /// Unsigned, 64 bits.
    U64 = 4,
    /// Signed, 64 bits.
    S64 = 5,
    /// Half precision.
    F16 = 6,
    /// Single precision.
    F32 = 7,
    /// Double precision.
    F64 = 8,
    /// The upper half of single precision.
    Bf16 = 9,
    /// Single precision, subnormal numbers as 0.
    F32Ftz = 10,
    /// Single precision, rounded to 10 bits of fraction.
    Tf32 = 11,
    /// The same, subnormal numbers as 0.
    Tf32Ftz = 12,
    /// 4 bits, 16 of them in 8 bytes of shared memory (`16U4_ALIGN8B`, sm_100).
    U4Align8 = 13,
    /// 4 bits, 16 of them in 16 bytes of shared memory (`16U4_ALIGN16B`, sm_100).
    U4Align16 = 14,
    /// 6 bits, 16 of them in 16 bytes of shared memory (`16U6_ALIGN16B`, sm_100).
    U6Align16 = 15,
}

impl TensorElement {
    /// Bits of an element in global memory.
    pub const fn bits(self) -> u64 {
        match self {
            TensorElement::U4Align8 | TensorElement::U4Align16 => 4,
            TensorElement::U6Align16 => 6,
            TensorElement::U8 => 8,
            TensorElement::U16 | TensorElement::F16 | TensorElement::Bf16 => 16,
            TensorElement::U64 | TensorElement::S64 | TensorElement::F64 => 64,
            _ => 32,
        }
    }

    /// Whether what lies outside of the tensor can be NaN.
    pub(super) const fn is_float(self) -> bool {
        use TensorElement::*;
        matches!(self, F16 | F32 | F64 | Bf16 | F32Ftz | Tf32 | Tf32Ftz)
    }

    /// Whether 16 elements of fewer than 8 bits take 16 bytes of shared memory.
    pub(super) const fn is_spread(self) -> bool {
        matches!(self, TensorElement::U4Align16 | TensorElement::U6Align16)
    }
}

/// A type of which there are tensors.
pub trait TensorValue: Pod {
    /// What a tensor map calls it.
    const ELEMENT: TensorElement;
}

macro_rules! values {
    ($($(#[$feature:meta])? $value:ty: $element:ident;)*) => { $(
        $(#[$feature])?
        impl TensorValue for $value {
            const ELEMENT: TensorElement = TensorElement::$element;
        }
        $(#[$feature])?
        const _: () = assert!(size_of::<$value>() as u64 * 8 == TensorElement::$element.bits());
    )* };
}

values! {
    u8: U8;
    i8: U8;
    u16: U16;
    i16: U16;
    u32: U32;
    i32: S32;
    u64: U64;
    i64: S64;
    F16: F16;
    f32: F32;
    f64: F64;
    #[cfg(feature = "half")] half::f16: F16;
    #[cfg(feature = "half")] half::bf16: Bf16;
    #[cfg(feature = "float8")] float8::F8E4M3: U8;
    #[cfg(feature = "float8")] float8::F8E5M2: U8;
}
