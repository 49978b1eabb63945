//! Reductions of bulk copies: what is copied is combined with what is there, an element at a
//! time, each atomically.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::math::convert::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::math::half;
use crate::math::rounding::Rounding;

/// What is done with the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Reduction {
    Add = 1,
    Min = 2,
    Max = 3,
    Inc = 4,
    Dec = 5,
    And = 6,
    Or = 7,
    Xor = 8,
}

impl Reduction {
    /// The reduction with this number; 0 is none.
    pub fn from_number(number: u8) -> Option<Reduction> {
        use Reduction::*;
        let all = [Add, Min, Max, Inc, Dec, And, Or, Xor];
        all.into_iter().find(|&one| one as u8 == number)
    }
}

/// The type of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Number {
    U32 = 0,
    S32 = 1,
    U64 = 2,
    S64 = 3,
    F16 = 4,
    Bf16 = 5,
    F32 = 6,
    F64 = 7,
}

impl Number {
    /// The type with this number.
    pub fn from_number(number: u8) -> Option<Number> {
        use Number::*;
        let all = [U32, S32, U64, S64, F16, Bf16, F32, F64];
        all.get(usize::from(number)).copied()
    }

    pub fn bytes(self) -> usize {
        match self {
            Number::F16 | Number::Bf16 => 2,
            Number::U32 | Number::S32 | Number::F32 => 4,
            Number::U64 | Number::S64 | Number::F64 => 8,
        }
    }
}

/// Combines the element at `place` with `value`; `None` if the type has no such reduction.
///
/// # Safety
/// The element is in memory that this process may write, and is aligned to its size.
pub(super) unsafe fn reduce(
    reduction: Reduction,
    number: Number,
    place: *mut u8,
    value: u64,
) -> Option<()> {
    combined(reduction, number, 0, value)?;
    let combine = |old: u64| combined(reduction, number, old, value);
    let order = Ordering::Relaxed;
    // SAFETY: the caller's contract; other threads access it atomically too, or race.
    let updated = unsafe {
        match number.bytes() {
            2 => AtomicU16::from_ptr(place.cast())
                .fetch_update(order, order, |old| {
                    combine(old.into()).map(|new| new as u16)
                })
                .is_ok(),
            4 => AtomicU32::from_ptr(place.cast())
                .fetch_update(order, order, |old| {
                    combine(old.into()).map(|new| new as u32)
                })
                .is_ok(),
            _ => AtomicU64::from_ptr(place.cast())
                .fetch_update(order, order, combine)
                .is_ok(),
        }
    };
    updated.then_some(())
}

/// The new element.
fn combined(reduction: Reduction, number: Number, old: u64, value: u64) -> Option<u64> {
    use Number::*;
    use Reduction::*;
    let narrow = |bits: u64| bits as u32;
    Some(match (reduction, number) {
        (And, U32 | U64) => old & value,
        (Or, U32 | U64) => old | value,
        (Xor, U32 | U64) => old ^ value,
        (Add, U32 | S32) => narrow(old).wrapping_add(narrow(value)).into(),
        (Add, U64 | S64) => old.wrapping_add(value),
        (Inc, U32) if narrow(old) >= narrow(value) => 0,
        (Inc, U32) => old + 1,
        (Dec, U32) if narrow(old) == 0 || narrow(old) > narrow(value) => value,
        (Dec, U32) => old - 1,
        (Min, U32 | U64) => old.min(value),
        (Max, U32 | U64) => old.max(value),
        (Min, S32) => {
            let [old, value] = [old, value].map(|bits| narrow(bits).cast_signed());
            old.min(value).cast_unsigned().into()
        }
        (Max, S32) => {
            let [old, value] = [old, value].map(|bits| narrow(bits).cast_signed());
            old.max(value).cast_unsigned().into()
        }
        (Min, S64) => old.cast_signed().min(value.cast_signed()).cast_unsigned(),
        (Max, S64) => old.cast_signed().max(value.cast_signed()).cast_unsigned(),
        (Add, F16) => half::add_f16(narrow(old), narrow(value)).into(),
        (Add, Bf16) => half::add_bf16(narrow(old), narrow(value)).into(),
        (Add, F32) => {
            // In global memory subnormal numbers are flushed, as `red` does.
            let [old, value] = [old, value].map(|bits| flushed(f32::from_bits(narrow(bits))));
            let sum = flushed(old + value);
            if sum.is_nan() {
                0x7FFF_FFFF
            } else {
                sum.to_bits().into()
            }
        }
        (Add, F64) => (f64::from_bits(old) + f64::from_bits(value)).to_bits(),
        (Min | Max, F16 | Bf16) => {
            let widen = if number == F16 {
                f16_to_f32
            } else {
                bf16_to_f32
            };
            let [a, b] = [old, value].map(|bits| widen(narrow(bits)));
            let nearest = Rounding::Nearest as u32;
            let narrow = if number == F16 {
                f32_to_f16
            } else {
                f32_to_bf16
            };
            // Zeros have an order, and a number is chosen before NaN.
            let chosen = match (a.is_nan(), b.is_nan()) {
                (true, _) => b,
                (_, true) => a,
                _ if a.total_cmp(&b).is_lt() == (reduction == Min) => a,
                _ => b,
            };
            narrow(chosen, nearest).into()
        }
        _ => return None,
    })
}

fn flushed(value: f32) -> f32 {
    if value.is_subnormal() {
        0.0_f32.copysign(value)
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reductions_of_each_type() {
        let word = |value: i32| u64::from(value.cast_unsigned());
        let single = |value: f32| u64::from(value.to_bits());
        for (reduction, number, old, value, expected) in [
            (Reduction::Add, Number::U32, word(-1), 3, 2),
            (Reduction::Add, Number::U64, u64::MAX, 3, 2),
            (Reduction::Min, Number::U32, word(-1), 3, 3),
            (Reduction::Min, Number::S32, word(-1), 3, word(-1)),
            (Reduction::Max, Number::S64, u64::MAX, 3, 3),
            (Reduction::Inc, Number::U32, 4, 5, 5),
            (Reduction::Inc, Number::U32, 5, 5, 0),
            (Reduction::Dec, Number::U32, 0, 5, 5),
            (Reduction::Dec, Number::U32, 9, 5, 5),
            (Reduction::Dec, Number::U32, 4, 5, 3),
            (Reduction::Xor, Number::U64, 6, 3, 5),
            (Reduction::Add, Number::F16, 0x3C00, 0x4000, 0x4200),
            (Reduction::Max, Number::Bf16, 0x3F80, 0xC000, 0x3F80),
            (
                Reduction::Add,
                Number::F32,
                single(1.5),
                single(2.0),
                single(3.5),
            ),
            (Reduction::Add, Number::F32, 1, 1, 0),
        ] {
            assert_eq!(combined(reduction, number, old, value), Some(expected));
            let mut memory = old;
            let place = (&raw mut memory).cast();
            // SAFETY: a local variable, as large and as aligned as any of them.
            unsafe { reduce(reduction, number, place, value) }.unwrap();
            assert_eq!(memory, expected, "{reduction:?} {number:?}");
        }
        assert_eq!(combined(Reduction::And, Number::F32, 0, 0), None);
        assert_eq!(combined(Reduction::Inc, Number::S32, 0, 0), None);
    }

    #[test]
    fn they_are_their_numbers() {
        for number in 1..=8 {
            assert_eq!(Reduction::from_number(number).unwrap() as u8, number);
        }
        assert_eq!(Reduction::from_number(0), None);
        for number in 0..8 {
            assert_eq!(Number::from_number(number).unwrap() as u8, number);
        }
        assert_eq!(Number::from_number(8), None);
    }
}
