//! What the threads of one block have in a register: for each thread a number,
//! added to quantities that are unknown and the same for all.

use std::cell::OnceCell;
use std::rc::Rc;

use super::threads::coordinates;
use ptx::names::Type;

/// The shape of a block of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape(pub [u32; 3]);

/// The threads of a warp.
pub const WARP: u32 = 32;

impl Shape {
    /// How many threads there are.
    pub fn threads(self) -> u32 {
        self.0.iter().fold(1, |all, side| all.saturating_mul(*side))
    }

    /// `%tid.x`, `%tid.y` or `%tid.z` of a thread.
    pub fn coordinate(self, thread: u32, axis: usize) -> u32 {
        let [x, y, _] = self.0;
        match axis {
            0 => thread % x,
            1 => thread / x % y,
            _ => thread / x / y,
        }
    }

    /// The same of each thread.
    pub fn coordinates(self, axis: usize) -> impl Iterator<Item = u32> {
        coordinates(self.0, self.threads()).map(move |thread| thread[axis])
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            [x, 1, 1] => write!(f, "{x}"),
            [x, y, 1] => write!(f, "{x} x {y}"),
            [x, y, z] => write!(f, "{x} x {y} x {z}"),
        }
    }
}

/// A number for each thread.
#[derive(Clone, Debug)]
pub enum Lanes {
    /// The same for all.
    Same(i64),
    /// One for each.
    Each(Scaled),
}

/// Numbers, each times a factor that is not 0, and what is added to all of them. No product
/// wraps, so that the ends of the numbers are the ends of these. Addresses are mostly so made of
/// `%tid.x`, and need no numbers of their own.
#[derive(Clone, Debug)]
pub struct Scaled {
    numbers: Rc<Numbers>,
    factor: i64,
    added: i64,
}

impl Scaled {
    fn at(&self, thread: usize) -> i64 {
        self.of(self.numbers.of[thread])
    }

    fn of(&self, number: i64) -> i64 {
        number.wrapping_mul(self.factor).wrapping_add(self.added)
    }

    fn all(&self) -> impl Iterator<Item = i64> + '_ {
        self.numbers.of.iter().map(|number| self.of(*number))
    }

    /// What the least and the greatest of numbers become.
    fn ends(&self, (least, most): (i64, i64)) -> (i64, i64) {
        if self.factor < 0 {
            (self.of(most), self.of(least))
        } else {
            (self.of(least), self.of(most))
        }
    }

    fn range(&self) -> (i64, i64) {
        self.ends((self.numbers.least, self.numbers.most))
    }

    /// The same numbers with another factor; `None` where a product would wrap.
    fn with(&self, factor: i64, added: i64) -> Option<Scaled> {
        let fits = |number: i64| number.checked_mul(factor)?.checked_add(added);
        fits(self.numbers.least)?;
        fits(self.numbers.most)?;
        Some(Scaled {
            numbers: self.numbers.clone(),
            factor,
            added,
        })
    }
}

/// The least and the greatest of some numbers.
fn ends_of(numbers: &[i64]) -> (i64, i64) {
    numbers
        .iter()
        .fold((i64::MAX, i64::MIN), |(least, most), number| {
            (least.min(*number), most.max(*number))
        })
}

/// Numbers that are not all the same.
#[derive(Debug)]
pub struct Numbers {
    of: Vec<i64>,
    least: i64,
    most: i64,
    /// The least and the most of each warp, where somebody has asked.
    of_warps: OnceCell<Vec<(i64, i64)>>,
}

impl Lanes {
    /// The number of a thread.
    pub fn at(&self, thread: usize) -> i64 {
        match self {
            Lanes::Same(number) => *number,
            Lanes::Each(each) => each.at(thread),
        }
    }

    /// Whether this is so of all numbers.
    pub(super) fn all(&self, is: impl Fn(i64) -> bool) -> bool {
        match self {
            Lanes::Same(number) => is(*number),
            Lanes::Each(each) => each.all().all(is),
        }
    }

    /// Calls `found` for each of these threads with its number.
    pub(super) fn each_of(
        &self,
        threads: std::ops::Range<usize>,
        mut found: impl FnMut(usize, i64),
    ) {
        match self {
            Lanes::Same(number) => threads.for_each(|thread| found(thread, *number)),
            Lanes::Each(each) => {
                let of_threads = each.numbers.of.get(threads.clone()).unwrap_or_default();
                for (thread, number) in threads.zip(of_threads) {
                    found(thread, each.of(*number));
                }
            }
        }
    }

    /// The number, if it is the same for all.
    pub fn same(&self) -> Option<i64> {
        match self {
            Lanes::Same(number) => Some(*number),
            Lanes::Each(..) => None,
        }
    }

    /// The least and the greatest number.
    pub fn range(&self) -> (i64, i64) {
        match self {
            Lanes::Same(number) => (*number, *number),
            Lanes::Each(each) => each.range(),
        }
    }

    /// Calls `found` with the least and the greatest number of each warp, of so many threads.
    pub(super) fn each_warp(&self, threads: usize, found: impl FnMut((i64, i64))) {
        match self {
            Lanes::Same(number) => {
                let warps = threads.div_ceil(WARP as usize);
                std::iter::repeat_n((*number, *number), warps).for_each(found);
            }
            Lanes::Each(each) => {
                let numbers = &each.numbers;
                let all = || numbers.of.chunks(WARP as usize).map(ends_of).collect();
                let all = numbers.of_warps.get_or_init(all).iter();
                all.map(|of_warp| each.ends(*of_warp)).for_each(found);
            }
        }
    }

    pub(super) fn map(&self, change: impl Fn(i64) -> i64) -> Lanes {
        self.mapped(&change)
    }

    /// Compiled once for all changes: a loop for each takes long to compile.
    fn mapped(&self, change: &dyn Fn(i64) -> i64) -> Lanes {
        match self {
            Lanes::Same(number) => Lanes::Same(change(*number)),
            Lanes::Each(each) => Lanes::each(each.all().map(change)),
        }
    }

    pub(super) fn zip(&self, other: &Lanes, join: impl Fn(i64, i64) -> i64) -> Lanes {
        self.zipped(other, &join)
    }

    /// Compiled once, too.
    fn zipped(&self, other: &Lanes, join: &dyn Fn(i64, i64) -> i64) -> Lanes {
        match (self, other) {
            (Lanes::Same(a), Lanes::Same(b)) => Lanes::Same(join(*a, *b)),
            (Lanes::Each(left), Lanes::Same(b)) => Lanes::each(left.all().map(|a| join(a, *b))),
            (Lanes::Same(a), Lanes::Each(right)) => Lanes::each(right.all().map(|b| join(*a, b))),
            (Lanes::Each(left), Lanes::Each(right)) => {
                Lanes::each(left.all().zip(right.all()).map(|(a, b)| join(a, b)))
            }
        }
    }

    /// Those of one where these are not 0, and of another where they are; of so many threads.
    pub(super) fn choose(&self, yes: &Lanes, no: &Lanes, threads: usize) -> Lanes {
        let side = |thread| if self.at(thread) != 0 { yes } else { no };
        Lanes::each((0..threads).map(|thread| side(thread).at(thread)))
    }

    /// Calls `found` with the word of each warp: a bit for each lane whose number is not 0.
    pub(super) fn each_word(&self, threads: usize, found: impl FnMut(u32)) {
        match self {
            Lanes::Same(number) => {
                let word = if *number != 0 { u32::MAX } else { 0 };
                std::iter::repeat_n(word, threads.div_ceil(WARP as usize)).for_each(found);
            }
            Lanes::Each(each) => {
                let word = |lanes: &[i64]| {
                    let bit = |number: &i64| u32::from(each.of(*number) != 0);
                    let bits = lanes.iter().rev();
                    bits.fold(0, |word, number| word << 1 | bit(number))
                };
                let warps = each.numbers.of.chunks(WARP as usize);
                warps.map(word).for_each(found);
            }
        }
    }

    /// Where all are the same, that is one number.
    pub(super) fn each(numbers: impl Iterator<Item = i64>) -> Lanes {
        let of: Vec<i64> = numbers.collect();
        let (least, most) = ends_of(&of);
        if least == most {
            Lanes::Same(least)
        } else {
            Lanes::Each(Scaled {
                numbers: Rc::new(Numbers {
                    of,
                    least,
                    most,
                    of_warps: OnceCell::new(),
                }),
                factor: 1,
                added: 0,
            })
        }
    }

    /// As a register of this width holds them, read as signed. Most are in range.
    pub(super) fn signed(&self, bits: u32) -> Lanes {
        let most = i64::MAX >> (64 - bits.clamp(1, 64));
        if self.lies_in(-most - 1, most) {
            self.clone()
        } else {
            self.map(|number| signed(number, bits))
        }
    }

    /// The same, read as the type says. Of 64 bits, no number is as large that it
    /// matters.
    pub(super) fn read(&self, ty: Type) -> Lanes {
        let bits = ty.bits();
        match ty {
            Type::S8 | Type::S16 | Type::S32 | Type::S64 => self.signed(bits),
            _ if bits >= 64 => self.signed(bits),
            _ => {
                let mask = (1 << bits) - 1;
                if self.lies_in(0, mask) {
                    self.clone()
                } else {
                    self.map(|number| number & mask)
                }
            }
        }
    }

    /// Whether all numbers are from `least` to `most`.
    pub(super) fn lies_in(&self, least: i64, most: i64) -> bool {
        let within = |number: i64| (least..=most).contains(&number);
        match self {
            Lanes::Same(number) => within(*number),
            Lanes::Each(each) => {
                let (first, last) = each.range();
                within(first) && within(last)
            }
        }
    }

    pub(super) fn plus(&self, other: &Lanes) -> Lanes {
        match (self, other) {
            (Lanes::Each(each), Lanes::Same(number)) | (Lanes::Same(number), Lanes::Each(each)) => {
                let added = each.added.checked_add(*number);
                let moved = added.and_then(|added| each.with(each.factor, added));
                let wrapped = || self.zip(other, i64::wrapping_add);
                moved.map_or_else(wrapped, Lanes::Each)
            }
            (Lanes::Each(a), Lanes::Each(b)) if Rc::ptr_eq(&a.numbers, &b.numbers) => {
                let added = a.added.checked_add(b.added);
                let sum = match (a.factor.checked_add(b.factor), added) {
                    (Some(0), Some(added)) => return Lanes::Same(added),
                    (Some(factor), Some(added)) => a.with(factor, added),
                    _ => None,
                };
                sum.map_or_else(|| self.zip(other, i64::wrapping_add), Lanes::Each)
            }
            _ => self.zip(other, i64::wrapping_add),
        }
    }

    pub(super) fn times(&self, factor: i64) -> Lanes {
        let product = match self {
            _ if factor == 0 => return Lanes::Same(0),
            Lanes::Each(each) => {
                let (times, added) = (
                    each.factor.checked_mul(factor),
                    each.added.checked_mul(factor),
                );
                times
                    .zip(added)
                    .and_then(|(times, added)| each.with(times, added))
            }
            Lanes::Same(_) => None,
        };
        product.map_or_else(
            || self.map(|number| number.wrapping_mul(factor)),
            Lanes::Each,
        )
    }
}

impl PartialEq for Lanes {
    fn eq(&self, other: &Lanes) -> bool {
        match (self, other) {
            (Lanes::Same(a), Lanes::Same(b)) => a == b,
            (Lanes::Each(a), Lanes::Each(b)) => {
                (a.factor, a.added) == (b.factor, b.added) && Rc::ptr_eq(&a.numbers, &b.numbers)
                    || a.numbers.of.len() == b.numbers.of.len() && a.all().eq(b.all())
            }
            _ => false,
        }
    }
}

/// An unknown quantity that all threads of a block share, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SymbolId(pub u32);

/// A sum of few unknown quantities, each times a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Symbols {
    len: u8,
    /// By rising number; none has the factor 0.
    all: [(SymbolId, i64); Symbols::MAX],
}

impl Symbols {
    const MAX: usize = 4;

    pub(super) fn one(symbol: SymbolId) -> Symbols {
        let mut symbols = Symbols {
            len: 1,
            ..Symbols::default()
        };
        symbols.all[0] = (symbol, 1);
        symbols
    }

    /// The quantities with their factors.
    pub fn all(&self) -> &[(SymbolId, i64)] {
        &self.all[..usize::from(self.len)]
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `None` where there are too many.
    pub(super) fn plus(&self, other: &Symbols) -> Option<Symbols> {
        let mut sum = Symbols::default();
        let (mut left, mut right) = (self.all().iter().peekable(), other.all().iter().peekable());
        loop {
            let next = match (left.peek(), right.peek()) {
                (None, None) => return Some(sum),
                (Some(a), Some(b)) if a.0 == b.0 => {
                    let both = (a.0, a.1.checked_add(b.1)?);
                    left.next();
                    right.next();
                    both
                }
                (Some(a), b) if b.is_none_or(|b| a.0 < b.0) => *left.next()?,
                _ => *right.next()?,
            };
            if next.1 != 0 {
                *sum.all.get_mut(usize::from(sum.len))? = next;
                sum.len += 1;
            }
        }
    }

    pub(super) fn times(&self, factor: i64) -> Option<Symbols> {
        if factor == 0 {
            return Some(Symbols::default());
        }
        let mut product = *self;
        for (_, times) in &mut product.all[..usize::from(self.len)] {
            *times = times.checked_mul(factor)?;
        }
        Some(product)
    }

    /// The same without one of them, and its factor.
    pub(super) fn without(&self, symbol: SymbolId) -> (Symbols, i64) {
        let mut rest = Symbols::default();
        let mut factor = 0;
        for (id, times) in self.all() {
            if *id == symbol {
                factor = *times
            } else {
                rest.all[usize::from(rest.len)] = (*id, *times);
                rest.len += 1;
            }
        }
        (rest, factor)
    }

    /// `None` where a factor is no multiple.
    pub(super) fn divided(&self, by: i64) -> Option<Symbols> {
        let mut quotient = *self;
        for (_, times) in &mut quotient.all[..usize::from(self.len)] {
            if by == 0 || *times % by != 0 {
                return None;
            }
            *times /= by;
        }
        Some(quotient)
    }
}

/// Unknown quantities and a number for each thread, added. With unknown ones,
/// arithmetic is taken not to wrap.
#[derive(Clone, Debug, PartialEq)]
pub struct Sum {
    /// What is unknown.
    pub symbols: Symbols,
    /// What is known.
    pub lanes: Lanes,
}

impl Sum {
    pub(super) fn number(number: i64) -> Sum {
        Sum::exact(Lanes::Same(number))
    }

    pub(super) fn exact(lanes: Lanes) -> Sum {
        Sum {
            symbols: Symbols::default(),
            lanes,
        }
    }

    pub(super) fn symbol(symbol: SymbolId) -> Sum {
        Sum {
            symbols: Symbols::one(symbol),
            lanes: Lanes::Same(0),
        }
    }

    /// Whether nothing in it is unknown.
    pub fn is_exact(&self) -> bool {
        self.symbols.is_empty()
    }

    /// Whether it is the same for all threads.
    pub fn is_uniform(&self) -> bool {
        self.lanes.same().is_some()
    }

    pub(super) fn as_number(&self) -> Option<i64> {
        self.is_exact().then(|| self.lanes.same()).flatten()
    }

    pub(super) fn plus(&self, other: &Sum) -> Option<Sum> {
        Some(Sum {
            symbols: self.symbols.plus(&other.symbols)?,
            lanes: self.lanes.plus(&other.lanes),
        })
    }

    pub(super) fn times(&self, factor: i64) -> Option<Sum> {
        Some(Sum {
            symbols: self.symbols.times(factor)?,
            lanes: self.lanes.times(factor),
        })
    }

    pub(super) fn minus(&self, other: &Sum) -> Option<Sum> {
        self.plus(&other.times(-1)?)
    }
}

/// The number that a register of this width holds, read as signed.
pub(super) fn signed(number: i64, bits: u32) -> i64 {
    let unused = 64 - bits.clamp(1, 64);
    number << unused >> unused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaled_numbers_are_those_that_each_thread_works_out() {
        let threads = 64;
        let thread = Lanes::each(0..threads);
        let numbers = |lanes: &Lanes| -> Vec<i64> {
            let threads = 0..threads as usize;
            threads.map(|thread| lanes.at(thread)).collect()
        };
        for factor in [-3, -1, 0, 1, 4, 1 << 60, i64::MAX] {
            for added in [0, -7, i64::MIN, i64::MAX] {
                let lanes = thread.times(factor).plus(&Lanes::Same(added));
                let expected: Vec<i64> = (0..threads)
                    .map(|thread| thread.wrapping_mul(factor).wrapping_add(added))
                    .collect();
                assert_eq!(numbers(&lanes), expected, "{factor} {added}");
                let ends = |of: &[i64]| (*of.iter().min().unwrap(), *of.iter().max().unwrap());
                assert_eq!(lanes.range(), ends(&expected), "{factor} {added}");
                let mut of_warps = Vec::new();
                lanes.each_warp(threads as usize, |of_warp| of_warps.push(of_warp));
                let expected: Vec<_> = expected.chunks(WARP as usize).map(ends).collect();
                assert_eq!(of_warps, expected, "{factor} {added}");
                let mut words = Vec::new();
                lanes.each_word(threads as usize, |word| words.push(word));
                let bits = |of: &[i64]| {
                    (0..)
                        .zip(of)
                        .fold(0, |all, (lane, n)| all | u32::from(*n != 0) << lane)
                };
                let all = numbers(&lanes);
                let expected: Vec<u32> = all.chunks(WARP as usize).map(bits).collect();
                assert_eq!(words, expected, "{factor} {added}");
            }
        }
        let four = thread.times(4);
        assert_eq!(four.plus(&thread.times(-4)), Lanes::Same(0));
        assert_eq!(four.plus(&thread), Lanes::each((0..threads).map(|n| n * 5)));
    }

    #[test]
    fn each_thread_has_the_number_of_its_choice() {
        let thread = Lanes::each(0..64);
        let even = Lanes::each((0..64).map(|n| 1 - n % 2));
        let chosen = even.choose(&thread.times(-1), &Lanes::Same(7), 64);
        let expected = Lanes::each((0..64).map(|n| if n % 2 == 0 { -n } else { 7 }));
        assert_eq!(chosen, expected);
        // The same for all is one number.
        assert_eq!(
            even.choose(&Lanes::Same(7), &Lanes::Same(7), 64),
            Lanes::Same(7)
        );
        let words = |lanes: &Lanes| {
            let mut words = Vec::new();
            lanes.each_word(40, |word| words.push(word));
            words
        };
        assert_eq!(words(&Lanes::Same(3)), [u32::MAX; 2]);
        assert_eq!(words(&Lanes::Same(0)), [0; 2]);
        assert_eq!(words(&Lanes::each(0..40)), [u32::MAX - 1, 0xFF]);
    }
}
