//! Atomic operations. They are relaxed, and atomic for the device; a
//! [`fence`](crate::Code::fence) orders them with others.

use crate::pointer::{Atomic, Pointer};
use crate::types::sealed::Sealed;
use crate::types::{Element, Scalar, WideInteger};
use crate::value::{Operand, Value};

/// Types that memory can add and exchange atomically: numbers of 32 and 64 bits.
pub trait AtomicAdd: Scalar + Element<Value = Self> + Sealed {
    /// The type of the instruction: that of `i64` is `u64`, whose sum has the same bits.
    #[doc(hidden)]
    const ADD: &'static str;
}

macro_rules! adds {
    ($($ty:ty, $word:literal;)*) => {
        $(impl AtomicAdd for $ty {
            const ADD: &'static str = $word;
        })*
    };
}

adds! {
    i32, "s32";
    u32, "u32";
    i64, "u64";
    u64, "u64";
    f32, "f32";
    f64, "f64";
}

impl<'k, T: AtomicAdd, S: Atomic> Pointer<'k, T, S> {
    /// Adds, and gives what was there before: `atom.add`.
    pub fn atomic_add(&self, value: impl Operand<'k, T>) -> Value<'k, T> {
        self.atomic(&format!("add.{}", T::ADD), &[&value.text()])
    }

    /// Adds: `red.add`.
    pub fn reduce_add(&self, value: impl Operand<'k, T>) {
        self.reduction(&format!("add.{}", T::ADD), &value.text());
    }

    /// Writes, and gives what was there before: `atom.exch`.
    pub fn atomic_exchange(&self, value: impl Operand<'k, T>) -> Value<'k, T> {
        self.atomic(&format!("exch.{}", T::BITS), &[&value.text()])
    }
}

impl<'k, T: AtomicAdd + WideInteger, S: Atomic> Pointer<'k, T, S> {
    /// Writes `new` where `old` is, and gives what was there before: `atom.cas`.
    pub fn atomic_compare_exchange(
        &self,
        old: impl Operand<'k, T>,
        new: impl Operand<'k, T>,
    ) -> Value<'k, T> {
        self.atomic(&format!("cas.{}", T::BITS), &[&old.text(), &new.text()])
    }

    /// Writes the smaller one, and gives what was there before: `atom.min`.
    pub fn atomic_min(&self, value: impl Operand<'k, T>) -> Value<'k, T> {
        self.atomic(&format!("min.{}", T::NAME), &[&value.text()])
    }

    /// Writes the larger one, and gives what was there before: `atom.max`.
    pub fn atomic_max(&self, value: impl Operand<'k, T>) -> Value<'k, T> {
        self.atomic(&format!("max.{}", T::NAME), &[&value.text()])
    }

    /// Clears the bits that are 0 in `value`, and gives what was there before: `atom.and`.
    pub fn atomic_and(&self, value: impl Operand<'k, T>) -> Value<'k, T> {
        self.bits("and", value)
    }

    /// Sets the bits that are 1 in `value`, and gives what was there before: `atom.or`.
    pub fn atomic_or(&self, value: impl Operand<'k, T>) -> Value<'k, T> {
        self.bits("or", value)
    }

    /// Flips the bits that are 1 in `value`, and gives what was there before: `atom.xor`.
    pub fn atomic_xor(&self, value: impl Operand<'k, T>) -> Value<'k, T> {
        self.bits("xor", value)
    }

    fn bits(&self, operation: &str, value: impl Operand<'k, T>) -> Value<'k, T> {
        self.atomic(&format!("{operation}.{}", T::BITS), &[&value.text()])
    }
}
