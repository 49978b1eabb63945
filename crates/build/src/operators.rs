//! Rust's operators on values, and what depends on two types.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

use crate::types::{Bitwise, Divide, Integer, Number, NumberKind, Scalar, Signed, Type};
use crate::value::{Operand, Register, Value, Var, mov, multiply_add};

/// `add.rn.f32`, `add.s32`: floats are rounded after each operation, as in Rust, and never
/// contracted to `fma`; integers wrap.
fn rounded<T: Number>(opcode: &str) -> String {
    format!("{opcode}.{}{}", T::ROUND, T::NAME)
}

/// `mul.lo.s32`, `mul.rn.f32`
fn multiply<T: Number>() -> String {
    match T::KIND {
        NumberKind::Integer => format!("mul.lo.{}", T::NAME),
        NumberKind::Float => rounded::<T>("mul"),
    }
}

macro_rules! binary {
    ($($trait:ident, $method:ident, $bound:ident, $mnemonic:expr;)*) => {
        $(
            binary!(@ Value, $trait, $method, $bound, $mnemonic);
            binary!(@ Var, $trait, $method, $bound, $mnemonic);
        )*
    };
    (@ $of:ident, $trait:ident, $method:ident, $bound:ident, $mnemonic:expr) => {
        impl<'k, T: $bound, O: Operand<'k, T>> $trait<O> for $of<'k, T> {
            type Output = Value<'k, T>;

            fn $method(self, other: O) -> Value<'k, T> {
                self.with(&$mnemonic, other)
            }
        }
    };
}

binary! {
    Add, add, Number, rounded::<T>("add");
    Sub, sub, Number, rounded::<T>("sub");
    Mul, mul, Number, multiply::<T>();
    Div, div, Divide, rounded::<T>("div");
    Rem, rem, Integer, format!("rem.{}", T::NAME);
    BitAnd, bitand, Bitwise, format!("and.{}", T::BITS);
    BitOr, bitor, Bitwise, format!("or.{}", T::BITS);
    BitXor, bitxor, Bitwise, format!("xor.{}", T::BITS);
}

macro_rules! shifts {
    ($($of:ident),*) => {
        $(
            /// A shift by the number of bits or more gives 0.
            impl<'k, T: Integer, O: Operand<'k, u32>> Shl<O> for $of<'k, T> {
                type Output = Value<'k, T>;

                fn shl(self, by: O) -> Value<'k, T> {
                    let (value, by) = (self.text(), by.text());
                    self.code().result(&format!("shl.{}", T::BITS), &[&value, &by])
                }
            }

            /// A shift by the number of bits or more gives 0, or -1 of negative numbers.
            impl<'k, T: Integer, O: Operand<'k, u32>> Shr<O> for $of<'k, T> {
                type Output = Value<'k, T>;

                fn shr(self, by: O) -> Value<'k, T> {
                    let (value, by) = (self.text(), by.text());
                    self.code().result(&format!("shr.{}", T::NAME), &[&value, &by])
                }
            }

            impl<'k, T: Signed> Neg for $of<'k, T> {
                type Output = Value<'k, T>;

                fn neg(self) -> Value<'k, T> {
                    self.alone(&format!("neg.{}", T::NAME))
                }
            }

            impl<'k, T: Bitwise> Not for $of<'k, T> {
                type Output = Value<'k, T>;

                fn not(self) -> Value<'k, T> {
                    self.alone(&format!("not.{}", T::BITS))
                }
            }
        )*
    };
}

shifts!(Value, Var);

/// A constant on the left: `1.0 - x`.
macro_rules! constants {
    ($($trait:ident, $method:ident, $mnemonic:ident $arguments:tt for $($ty:ty),*;)*) => {
        $($(
            impl<'k> $trait<Value<'k, $ty>> for $ty {
                type Output = Value<'k, $ty>;

                fn $method(self, other: Value<'k, $ty>) -> Value<'k, $ty> {
                    let (a, b) = (self.text(), other.text());
                    other.code.result(&$mnemonic::<$ty>$arguments, &[&a, &b])
                }
            }
        )*)*
    };
}

constants! {
    Add, add, rounded("add") for i16, u16, i32, u32, i64, u64, f32, f64;
    Sub, sub, rounded("sub") for i16, u16, i32, u32, i64, u64, f32, f64;
    Mul, mul, multiply() for i16, u16, i32, u32, i64, u64, f32, f64;
    Div, div, rounded("div") for i16, u16, i32, u32, i64, u64, f32, f64;
}

/// Assignments. They take `self` by value, as the closures of both branches of an `if_else` may
/// assign to one variable.
#[allow(clippy::should_implement_trait, reason = "the traits take `&mut self`")]
impl<'k, T: Number> Var<'k, T> {
    /// `self = self + by`
    pub fn add_assign(self, by: impl Operand<'k, T>) {
        self.assign(&rounded::<T>("add"), &[&self.reg(), &by.text()]);
    }

    /// `self = self - by`
    pub fn sub_assign(self, by: impl Operand<'k, T>) {
        self.assign(&rounded::<T>("sub"), &[&self.reg(), &by.text()]);
    }

    /// `self = self * by`
    pub fn mul_assign(self, by: impl Operand<'k, T>) {
        self.assign(&multiply::<T>(), &[&self.reg(), &by.text()]);
    }

    /// `self = a * b + self`, as [`mul_add`](Register::mul_add) rounds it.
    pub fn mul_add_assign(self, a: impl Operand<'k, T>, b: impl Operand<'k, T>) {
        let mnemonic = multiply_add::<T>();
        self.assign(&mnemonic, &[&a.text(), &b.text(), &self.reg()]);
    }
}

impl<'k> Value<'k, f32> {
    /// About 1/√x: `rsqrt.approx`.
    pub fn rsqrt_approx(self) -> Value<'k, f32> {
        self.alone("rsqrt.approx.f32")
    }

    /// About 2ˣ: `ex2.approx`.
    pub fn exp2_approx(self) -> Value<'k, f32> {
        self.alone("ex2.approx.f32")
    }

    /// About log₂ x: `lg2.approx`.
    pub fn log2_approx(self) -> Value<'k, f32> {
        self.alone("lg2.approx.f32")
    }

    /// About the sine, of radians: `sin.approx`.
    pub fn sin_approx(self) -> Value<'k, f32> {
        self.alone("sin.approx.f32")
    }

    /// About the cosine, of radians: `cos.approx`.
    pub fn cos_approx(self) -> Value<'k, f32> {
        self.alone("cos.approx.f32")
    }

    /// About the hyperbolic tangent: `tanh.approx`, from sm_75.
    pub fn tanh_approx(self) -> Value<'k, f32> {
        self.alone("tanh.approx.f32")
    }
}

/// Predicates.
impl<'k> Value<'k, bool> {
    /// `a` where it is true, else `b`: `selp`. Both are computed already.
    pub fn select<T: Scalar>(self, a: impl Operand<'k, T>, b: impl Operand<'k, T>) -> Value<'k, T> {
        let (a, b, p) = (a.text(), b.text(), self.text());
        let mnemonic = format!("selp.{}", mov::<T>());
        self.code.result(&mnemonic, &[&a, &b, &p])
    }

    /// The lanes of `mask` for which it is true, one bit each: `vote.sync.ballot`.
    pub fn ballot(self, mask: impl Operand<'k, u32>) -> Value<'k, u32> {
        self.vote("vote.sync.ballot.b32", mask.text())
    }

    /// Whether it is true for any lane of `mask`: `vote.sync.any`.
    pub fn any(self, mask: impl Operand<'k, u32>) -> Value<'k, bool> {
        self.vote("vote.sync.any.pred", mask.text())
    }

    /// Whether it is true for all lanes of `mask`: `vote.sync.all`.
    pub fn all(self, mask: impl Operand<'k, u32>) -> Value<'k, bool> {
        self.vote("vote.sync.all.pred", mask.text())
    }

    fn vote<U: Type>(self, mnemonic: &str, mask: String) -> Value<'k, U> {
        let p = self.text();
        self.code.result(mnemonic, &[&p, &mask])
    }
}

impl<'k> Value<'k, u32> {
    /// The sum over the lanes of `mask`: `redux.sync.add`, from sm_80.
    pub fn warp_sum(self, mask: impl Operand<'k, u32>) -> Value<'k, u32> {
        self.with("redux.sync.add.u32", mask)
    }

    /// The product in 64 bits: `mul.wide`.
    pub fn mul_wide(self, by: impl Operand<'k, u32>) -> Value<'k, u64> {
        self.with("mul.wide.u32", by)
    }
}

impl<'k> Value<'k, i32> {
    /// The product in 64 bits: `mul.wide`.
    pub fn mul_wide(self, by: impl Operand<'k, i32>) -> Value<'k, i64> {
        self.with("mul.wide.s32", by)
    }
}

/// The instruction that converts T to U.
pub(crate) fn conversion<T: Number, U: Number>() -> String {
    use NumberKind::{Float as F, Integer as I};
    let rounding = match (T::KIND, U::KIND) {
        _ if T::NAME == U::NAME => return format!("mov.{}", mov::<T>()),
        (I, I) if T::BYTES == U::BYTES => return format!("mov.{}", T::BITS),
        (I, I) => "",
        (I, F) => ".rn",
        (F, I) => ".rzi",
        // Of two formats of 16 bits neither has all numbers of the other.
        (F, F) if T::BYTES < U::BYTES => "",
        (F, F) => ".rn",
    };
    format!("cvt{rounding}.{}.{}", U::NAME, T::NAME)
}
