//! The types of values, and what each can do.

use sealed::Sealed;

pub(crate) mod sealed {
    /// Keeps the traits of this crate to its types.
    pub trait Sealed {}
}

/// The registers that hold a type: the `.f32` of `.reg .f32 %f<9>;`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    Predicate,
    B16,
    B32,
    F32,
    B64,
    F64,
}

impl Class {
    pub const ALL: [Class; 6] = [
        Class::Predicate,
        Class::B16,
        Class::B32,
        Class::F32,
        Class::B64,
        Class::F64,
    ];

    /// The type in the declaration, and what the names of such registers begin with.
    pub const fn words(self) -> (&'static str, &'static str) {
        match self {
            Class::Predicate => ("pred", "p"),
            Class::B16 => ("b16", "rs"),
            Class::B32 => ("b32", "r"),
            Class::F32 => ("f32", "f"),
            Class::B64 => ("b64", "rd"),
            Class::F64 => ("f64", "fd"),
        }
    }
}

/// A type that a register can have: Rust's numbers, `bool` for predicates, and [`F16`],
/// [`Bf16`] and [`F16x2`].
pub trait Type: Copy + Sealed + 'static {
    /// The type in instructions, without its dot: `f32`, `s32`, `pred`.
    const NAME: &'static str;
    /// The untyped bits of the same size: `b32`; `pred` for predicates.
    const BITS: &'static str;
    #[doc(hidden)]
    const CLASS: Class;
}

/// A type that memory and parameters can have: every [`Type`] but `bool`.
pub trait Scalar: Type {
    /// The size in bytes, which is also the alignment.
    const BYTES: usize;
    /// The type in loads and stores: `f32`; `b16` for [`F16`].
    const MEMORY: &'static str;
}

/// A type with `+`, `-`, `*` and comparisons.
pub trait Number: Scalar {
    #[doc(hidden)]
    const KIND: NumberKind;
    /// `rn.` where a result is rounded, so that it is never fused with the next operation.
    #[doc(hidden)]
    const ROUND: &'static str;
}

/// What conversions depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    Integer,
    Float,
}

/// Integers of 16, 32 and 64 bits.
pub trait Integer: Number + Bitwise {}

/// Integers of 32 and 64 bits, which [`count_ones`](crate::Register::count_ones) and its kind
/// take.
pub trait WideInteger: Integer {}

/// `f32` and `f64`.
pub trait Float: Number {}

/// Numbers with a sign.
pub trait Signed: Number {}

/// Numbers with `/`: all but the half precisions.
pub trait Divide: Number {}

/// Types with `&`, `|`, `^` and `!`: integers and predicates.
pub trait Bitwise: Type {}

/// Types of 32 bits, which shuffles pass between the threads of a warp.
pub trait Word: Scalar {}

/// An element of memory. A byte is loaded into a register of 32 bits.
pub trait Element: Sealed + Copy + 'static {
    /// The type of a loaded element.
    type Value: Scalar;
    /// The size in bytes, which is also the alignment.
    const SIZE: usize;
    /// The type in loads and stores: `f32`, `u8`.
    const WORD: &'static str;
}

/// Elements that one instruction loads or stores `N` of: up to 16 bytes.
#[diagnostic::on_unimplemented(
    message = "no instruction loads or stores {N} elements of type `{Self}`",
    note = "2 or 4, of up to 16 bytes together"
)]
pub trait Vector<const N: usize>: Element {}

/// An IEEE half: a type only, without Rust values.
#[derive(Clone, Copy, Debug)]
pub struct F16;

/// A bfloat16: a type only, without Rust values.
#[derive(Clone, Copy, Debug)]
pub struct Bf16;

/// Two IEEE halves in 32 bits: a type only, without Rust values.
#[derive(Clone, Copy, Debug)]
pub struct F16x2;

macro_rules! scalars {
    ($($ty:ty, $name:literal, $bits:literal, $memory:literal, $class:ident, $bytes:literal;)*) => {
        $(
            impl Sealed for $ty {}
            impl Type for $ty {
                const NAME: &'static str = $name;
                const BITS: &'static str = $bits;
                const CLASS: Class = Class::$class;
            }
            impl Scalar for $ty {
                const BYTES: usize = $bytes;
                const MEMORY: &'static str = $memory;
            }
            impl Element for $ty {
                type Value = $ty;
                const SIZE: usize = $bytes;
                const WORD: &'static str = $memory;
            }
        )*
    };
}

scalars! {
    i16, "s16", "b16", "s16", B16, 2;
    u16, "u16", "b16", "u16", B16, 2;
    i32, "s32", "b32", "s32", B32, 4;
    u32, "u32", "b32", "u32", B32, 4;
    i64, "s64", "b64", "s64", B64, 8;
    u64, "u64", "b64", "u64", B64, 8;
    f32, "f32", "b32", "f32", F32, 4;
    f64, "f64", "b64", "f64", F64, 8;
    F16, "f16", "b16", "b16", B16, 2;
    Bf16, "bf16", "b16", "b16", B16, 2;
    F16x2, "f16x2", "b32", "b32", B32, 4;
}

impl Sealed for bool {}
impl Type for bool {
    const NAME: &'static str = "pred";
    const BITS: &'static str = "pred";
    const CLASS: Class = Class::Predicate;
}

macro_rules! bytes {
    ($($ty:ty, $value:ty, $name:literal;)*) => {
        $(
            impl Sealed for $ty {}
            impl Element for $ty {
                type Value = $value;
                const SIZE: usize = 1;
                const WORD: &'static str = $name;
            }
        )*
    };
}

bytes! {
    i8, i32, "s8";
    u8, u32, "u8";
}

macro_rules! numbers {
    ($($ty:ty, $kind:ident, $round:literal;)*) => {
        $(
            impl Number for $ty {
                const KIND: NumberKind = NumberKind::$kind;
                const ROUND: &'static str = $round;
            }
        )*
    };
}

numbers! {
    i16, Integer, "";
    u16, Integer, "";
    i32, Integer, "";
    u32, Integer, "";
    i64, Integer, "";
    u64, Integer, "";
    f32, Float, "rn.";
    f64, Float, "rn.";
    F16, Float, "rn.";
    Bf16, Float, "rn.";
}

macro_rules! implement {
    ($($name:path => $($ty:ty),*;)*) => {
        $($(impl $name for $ty {})*)*
    };
}

implement! {
    Integer => i16, u16, i32, u32, i64, u64;
    WideInteger => i32, u32, i64, u64;
    Float => f32, f64;
    Signed => i16, i32, i64, f32, f64, F16, Bf16;
    Divide => i16, u16, i32, u32, i64, u64, f32, f64;
    Bitwise => bool, i16, u16, i32, u32, i64, u64;
    Word => i32, u32, f32, F16x2;
    Vector<2> => i8, u8, i16, u16, i32, u32, i64, u64, f32, f64, F16, Bf16, F16x2;
    Vector<4> => i8, u8, i16, u16, i32, u32, f32, F16, Bf16, F16x2;
}
