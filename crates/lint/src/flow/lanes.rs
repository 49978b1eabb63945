//! What the threads of one block have in a register: for each thread a number,
//! added to quantities that are unknown and the same for all.

use std::cell::OnceCell;
use std::rc::Rc;

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
    /// One for each, and what is added to all of them.
    Each(Rc<Numbers>, i64),
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
            Lanes::Each(each, added) => each.of[thread].wrapping_add(*added),
        }
    }

    /// Whether this is so of all numbers.
    pub(super) fn all(&self, is: impl Fn(i64) -> bool) -> bool {
        match self {
            Lanes::Same(number) => is(*number),
            Lanes::Each(each, added) => each.of.iter().all(|n| is(n.wrapping_add(*added))),
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
            Lanes::Each(each, added) => {
                let of_threads = each.of.get(threads.clone()).unwrap_or_default();
                for (thread, number) in threads.zip(of_threads) {
                    found(thread, number.wrapping_add(*added));
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
            Lanes::Each(each, added) => {
                let (least, most) = (each.least, each.most);
                (least.wrapping_add(*added), most.wrapping_add(*added))
            }
        }
    }

    /// The least and the greatest number of each warp, of so many threads.
    pub(super) fn of_warps(&self, threads: usize) -> Vec<(i64, i64)> {
        match self {
            Lanes::Same(number) => vec![(*number, *number); threads.div_ceil(WARP as usize)],
            Lanes::Each(each, added) => {
                let ends = |lanes: &[i64]| {
                    let (least, most) = (lanes.iter().min(), lanes.iter().max());
                    (least.copied().unwrap_or(0), most.copied().unwrap_or(0))
                };
                let all = || each.of.chunks(WARP as usize).map(ends).collect();
                let all = each.of_warps.get_or_init(all).iter();
                let moved = |(least, most): &(i64, i64)| {
                    (least.wrapping_add(*added), most.wrapping_add(*added))
                };
                all.map(moved).collect()
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
            Lanes::Each(each, added) => {
                let numbers = each.of.iter();
                Lanes::each(numbers.map(|number| change(number.wrapping_add(*added))))
            }
        }
    }

    pub(super) fn zip(&self, other: &Lanes, join: impl Fn(i64, i64) -> i64) -> Lanes {
        self.zipped(other, &join)
    }

    /// Compiled once, too.
    fn zipped(&self, other: &Lanes, join: &dyn Fn(i64, i64) -> i64) -> Lanes {
        match (self, other) {
            (_, Lanes::Same(b)) => self.map(|a| join(a, *b)),
            (Lanes::Same(a), _) => other.map(|b| join(*a, b)),
            (Lanes::Each(left, a), Lanes::Each(right, b)) => {
                let numbers = left.of.iter().zip(&right.of);
                Lanes::each(numbers.map(|(x, y)| join(x.wrapping_add(*a), y.wrapping_add(*b))))
            }
        }
    }

    /// Where all are the same, that is one number.
    pub(super) fn each(numbers: impl Iterator<Item = i64>) -> Lanes {
        let (mut least, mut most) = (i64::MAX, i64::MIN);
        let noted = numbers.inspect(|number| {
            least = least.min(*number);
            most = most.max(*number);
        });
        let of: Vec<i64> = noted.collect();
        match least == most {
            true => Lanes::Same(least),
            false => Lanes::Each(
                Numbers {
                    of,
                    least,
                    most,
                    of_warps: OnceCell::new(),
                }
                .into(),
                0,
            ),
        }
    }

    /// As a register of this width holds them, read as signed. Most are in range.
    pub(super) fn signed(&self, bits: u32) -> Lanes {
        let most = i64::MAX >> (64 - bits.clamp(1, 64));
        match self.lies_in(-most - 1, most) {
            true => self.clone(),
            false => self.map(|number| signed(number, bits)),
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
                match self.lies_in(0, mask) {
                    true => self.clone(),
                    false => self.map(|number| number & mask),
                }
            }
        }
    }

    /// Whether all numbers are from `least` to `most`.
    pub(super) fn lies_in(&self, least: i64, most: i64) -> bool {
        let within = |number: i64| (least..=most).contains(&number);
        match self {
            Lanes::Same(number) => within(*number),
            Lanes::Each(each, added) => {
                let end = |number: i64| number.checked_add(*added).is_some_and(within);
                end(each.least) && end(each.most)
            }
        }
    }

    pub(super) fn plus(&self, other: &Lanes) -> Lanes {
        match (self, other) {
            (Lanes::Each(each, a), Lanes::Same(b)) | (Lanes::Same(b), Lanes::Each(each, a)) => {
                Lanes::Each(each.clone(), a.wrapping_add(*b))
            }
            _ => self.zip(other, i64::wrapping_add),
        }
    }
}

impl PartialEq for Lanes {
    fn eq(&self, other: &Lanes) -> bool {
        match (self, other) {
            (Lanes::Same(a), Lanes::Same(b)) => a == b,
            (Lanes::Each(a, plus), Lanes::Each(b, also)) => {
                plus == also && Rc::ptr_eq(a, b)
                    || a.of.len() == b.of.len()
                        && (0..a.of.len()).all(|at| self.at(at) == other.at(at))
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
            match *id == symbol {
                true => factor = *times,
                false => {
                    rest.all[usize::from(rest.len)] = (*id, *times);
                    rest.len += 1;
                }
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
            lanes: self.lanes.map(|number| number.wrapping_mul(factor)),
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
