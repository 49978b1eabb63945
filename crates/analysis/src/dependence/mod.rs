//! How values depend on the thread: the lattice of divergence analysis.
//!
//! A [`Dependence`] says which coordinates of a thread a value may depend on, its
//! [`Sources`], and for integers how: a [`Linear`] value is a sum over the bits of
//! `%tid.x`, over `%tid.y` and `%tid.z`, and of a [`Base`] that all threads share.
//! Bits have a coefficient each, because programs take thread indices apart:
//! `(%tid.x & 3) * 8 + (%tid.x >> 5)` is linear in the bits though it has no stride.
//!
//! [`transfer`] gives the result of an instruction from its operands, and knows no
//! intermediate representation: those who solve over a graph bring their own. Affine
//! values and comparisons are treated as in Sampaio, de Souza, Collange and Pereira:
//! "Divergence Analysis", TOPLAS 35(4), 2013, with bits in place of one stride.
//!
//! Where the base is not a number, sums may wrap around. Whoever tells people of it takes
//! them not to, and whoever compiles may not: [`Wrapping`].

mod transfer;

#[cfg(test)]
mod tests;

pub use transfer::{commutes, compare, exchanged, special, transfer};

use std::ops::BitOr;

/// The coordinates of a thread that a value may depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sources(u16);

impl Sources {
    /// Nothing: all threads of the grid have the same value.
    pub const NONE: Sources = Sources(0);
    /// Bits 0 to 4 of `%tid.x`: where the thread stands in its warp.
    pub const LANES: Sources = Sources(0x1f);
    /// The bits of `%tid.x` above: which warp it is.
    pub const WARP: Sources = Sources(1 << 5);
    /// `%tid.y`
    pub const ROW: Sources = Sources(1 << 6);
    /// `%tid.z`
    pub const PLANE: Sources = Sources(1 << 7);
    /// `%ctaid`: which block it is.
    pub const BLOCK: Sources = Sources(1 << 8);
    /// All that differs between the threads of a block.
    pub const THREAD: Sources = Sources(0xff);

    /// One bit of the lane, 0 to 4.
    pub const fn lane(bit: u32) -> Sources {
        Sources(1 << bit & Self::LANES.0)
    }

    /// Whether one of these is among them.
    pub const fn any(self, of: Sources) -> bool {
        self.0 & of.0 != 0
    }

    /// Those of them that are among these.
    #[must_use]
    pub const fn only(self, of: Sources) -> Sources {
        Sources(self.0 & of.0)
    }

    /// Those of them that are not among these.
    #[must_use]
    pub const fn without(self, of: Sources) -> Sources {
        Sources(self.0 & !of.0)
    }
}

impl BitOr for Sources {
    type Output = Sources;

    fn bitor(self, other: Sources) -> Sources {
        Sources(self.0 | other.0)
    }
}

/// The size of a block in each direction, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// `%ntid.x`, `%ntid.y` and `%ntid.z`.
    pub size: [Option<u32>; 3],
}

impl Shape {
    /// A block of this size.
    pub const fn of(x: u32, y: u32, z: u32) -> Shape {
        Shape {
            size: [Some(x), Some(y), Some(z)],
        }
    }

    /// Whether the lanes of a warp are shown to have one `%tid.y` and one `%tid.z`.
    pub fn has_whole_rows(&self) -> bool {
        let [x, y, z] = self.size;
        x.is_some_and(|x| x % WARP == 0) || y == Some(1) && z == Some(1)
    }
}

/// The threads of a warp.
pub const WARP: u32 = 32;

/// The bits of `%tid.x`: no block is wider than 1024.
pub const BITS: usize = 10;

/// What all threads share of a value: a number, or an unknown with a number added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// The unknown, by a number of the caller's; `None` where there is none.
    pub symbol: Option<u32>,
    /// The number.
    pub offset: i64,
    /// The unknown is a multiple of 2 to this power.
    pub align: u8,
}

impl Base {
    const fn number(offset: i64) -> Base {
        Base {
            symbol: None,
            offset,
            align: MAX_ALIGN,
        }
    }
}

const MAX_ALIGN: u8 = 62;

/// What is taken of arithmetic on unknowns, which may wrap around in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrapping {
    /// That it does not: unknowns are as small as people think of them.
    Ignored,
    /// Nothing: what is said holds for all that the unknowns may be.
    Possible,
}

/// A sum over the bits of the thread's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linear {
    /// What each bit of `%tid.x` adds.
    pub bits: [i32; BITS],
    /// What each step of `%tid.y` adds.
    pub row: i32,
    /// What each step of `%tid.z` adds.
    pub plane: i32,
    /// What all threads have.
    pub base: Base,
}

impl Linear {
    /// A number.
    pub const fn number(number: i64) -> Linear {
        Linear {
            bits: [0; BITS],
            row: 0,
            plane: 0,
            base: Base::number(number),
        }
    }

    /// An unknown that all threads share.
    pub const fn symbol(symbol: u32, align: u8) -> Linear {
        let mut linear = Linear::number(0);
        linear.base.symbol = Some(symbol);
        linear.base.align = align;
        linear
    }

    /// `%tid.x` of a block that is at most this wide.
    pub fn tid_x(width: Option<u32>) -> Linear {
        let mut linear = Linear::number(0);
        for bit in 0..BITS {
            if width.is_none_or(|width| 1 << bit < width) {
                linear.bits[bit] = 1 << bit;
            }
        }
        linear
    }

    /// Whether all threads have the same.
    pub fn is_uniform(&self) -> bool {
        self.bits == [0; BITS] && self.row == 0 && self.plane == 0
    }

    /// The number that it is, if it is one.
    pub fn as_number(&self) -> Option<i64> {
        (self.is_uniform() && self.base.symbol.is_none()).then_some(self.base.offset)
    }

    /// What each step of `%tid.x` adds, if it is the same for all.
    pub fn stride(&self) -> Option<i32> {
        let stride = self.bits[0];
        let mut bits = (0..BITS).map(|bit| stride.checked_mul(1 << bit) == Some(self.bits[bit]));
        bits.all(|same| same).then_some(stride)
    }

    /// The coordinates with a coefficient.
    pub fn sources(&self) -> Sources {
        let bits = (0..BITS).filter(|bit| self.bits[*bit] != 0);
        let mut sources = bits.fold(Sources::NONE, |sources, bit| {
            sources
                | match bit {
                    0..5 => Sources::lane(bit as u32),
                    _ => Sources::WARP,
                }
        });
        if self.row != 0 {
            sources = sources | Sources::ROW;
        }
        if self.plane != 0 {
            sources = sources | Sources::PLANE;
        }
        sources
    }

    /// What it is for a thread, but for the unknown.
    pub fn at(&self, [x, y, z]: [u32; 3]) -> i64 {
        let bits = (0..BITS).filter(|bit| x >> bit & 1 != 0);
        let sum: i64 = bits.map(|bit| i64::from(self.bits[bit])).sum();
        let rows = i64::from(self.row) * i64::from(y) + i64::from(self.plane) * i64::from(z);
        self.base.offset.wrapping_add(sum + rows)
    }

    /// The least and the greatest that threads have, but for the unknown.
    pub fn range(&self) -> (i64, i64) {
        let (mut low, mut high) = (self.base.offset, self.base.offset);
        let rows = i64::from(self.row) * 1023;
        let planes = i64::from(self.plane) * 63;
        for part in self.bits.iter().map(|part| i64::from(*part)) {
            low = low.saturating_add(part.min(0));
            high = high.saturating_add(part.max(0));
        }
        for part in [rows, planes] {
            low = low.saturating_add(part.min(0));
            high = high.saturating_add(part.max(0));
        }
        (low, high)
    }

    /// Whether a register of so many bits holds it in every thread, and it is at
    /// least 0.
    fn fits(&self, bits: u32, signed: bool, wrapping: Wrapping) -> bool {
        let bits = bits - u32::from(signed);
        match (self.base.symbol, wrapping) {
            (Some(_), Wrapping::Ignored) => true,
            (Some(_), Wrapping::Possible) => self.is_beside(bits),
            (None, _) => {
                let (low, high) = self.range();
                let limit = 1_i64.checked_shl(bits).filter(|limit| *limit > 0);
                low >= 0 && high < limit.unwrap_or(i64::MAX)
            }
        }
    }

    /// What it is in a wider register, where each thread's is extended.
    fn extended(&self, bits: u32, signed: bool, symbol: u32, wrapping: Wrapping) -> Option<Linear> {
        match (wrapping, self.as_number()) {
            (Wrapping::Ignored, _) => Some(*self),
            (_, Some(number)) if !signed => Some(Linear::number(number & mask(bits))),
            (_, Some(_)) => Some(*self),
            _ if self.fits(bits, signed, wrapping) => Some(*self),
            _ if self.is_uniform() => Some(Linear::symbol(symbol, self.align().min(bits) as u8)),
            _ => None,
        }
    }

    /// Whether all that is added to the unknown is in bits where that has none, so that
    /// nothing is carried. The unknown itself may be negative.
    fn is_beside(&self, bits: u32) -> bool {
        let (low, high) = self.range();
        low >= 0 && high <= mask(u32::from(self.base.align).min(bits))
    }

    /// All of it is a multiple of 2 to this power.
    fn align(&self) -> u32 {
        let parts = self.bits.iter().chain([&self.row, &self.plane]);
        let all = parts.fold(self.base.offset, |all, part| all | i64::from(*part));
        all.trailing_zeros().min(u32::from(self.base.align))
    }

    fn map(&self, each: impl Fn(i64) -> Option<i64>) -> Option<Linear> {
        let mut result = *self;
        let parts = result.bits.iter_mut();
        for part in parts.chain([&mut result.row, &mut result.plane]) {
            *part = i32::try_from(each(i64::from(*part))?).ok()?;
        }
        result.base.offset = each(result.base.offset)?;
        Some(result)
    }

    /// The same with a number added.
    #[must_use]
    pub fn moved(mut self, by: i64) -> Option<Linear> {
        self.base.offset = self.base.offset.checked_add(by)?;
        Some(self)
    }

    /// The sum; the symbol is the one of the result where both have an unknown.
    fn plus(&self, other: &Linear, symbol: u32) -> Option<Linear> {
        let mut sum = *self;
        for (part, added) in sum.bits.iter_mut().zip(other.bits) {
            *part = part.checked_add(added)?;
        }
        sum.row = sum.row.checked_add(other.row)?;
        sum.plane = sum.plane.checked_add(other.plane)?;
        let offset = self.base.offset.checked_add(other.base.offset)?;
        sum.base = match (self.base.symbol, other.base.symbol) {
            (Some(_), Some(_)) => Base {
                symbol: Some(symbol),
                offset,
                align: self.base.align.min(other.base.align),
            },
            (None, _) => Base {
                offset,
                ..other.base
            },
            (Some(_), None) => Base {
                offset,
                ..self.base
            },
        };
        Some(sum)
    }

    /// The difference. One unknown less the same is nothing.
    pub fn minus(&self, other: &Linear, symbol: u32) -> Option<Linear> {
        let (mut left, mut right) = (*self, *other);
        if left.base.symbol == right.base.symbol {
            left.base = Base::number(left.base.offset);
            right.base = Base::number(right.base.offset);
        }
        left.plus(&right.times(-1, symbol)?, symbol)
    }

    fn times(&self, factor: i64, symbol: u32) -> Option<Linear> {
        if factor == 0 {
            return Some(Linear::number(0));
        }
        let mut result = self.map(|part| part.checked_mul(factor))?;
        if result.base.symbol.is_some() && factor != 1 {
            let more = factor.trailing_zeros();
            result.base.symbol = Some(symbol);
            result.base.align = MAX_ALIGN.min((u32::from(self.base.align) + more) as u8);
        }
        Some(result)
    }

    /// The low bits, where each of them is that of one coordinate, or of the base.
    fn low(&self, count: u32) -> Option<Linear> {
        let mask = mask(count);
        let unknown = self.base.symbol.is_some() && u32::from(self.base.align) < count;
        let rows = (i64::from(self.row) | i64::from(self.plane)) & mask != 0;
        if unknown || rows || count > 31 {
            return None;
        }
        let mut low = Linear::number(self.base.offset & mask);
        let mut taken = low.base.offset;
        for (part, own) in low.bits.iter_mut().zip(self.bits) {
            let own = i64::from(own) & mask;
            if own & taken != 0 {
                return None;
            }
            taken |= own;
            *part = own as i32;
        }
        Some(low)
    }

    /// What `and` with a number leaves.
    fn and(&self, number: i64, symbol: u32) -> Option<Linear> {
        let Some(low) = self.low(significant(number)) else {
            return self.and_beside(number, symbol);
        };
        let taken = low.map(|part| Some(part & number))?;
        if number >= 0 {
            Some(taken)
        } else {
            self.minus(&low, symbol)?.plus(&taken, symbol)
        }
    }

    /// The same of an unknown with what is beside it.
    fn and_beside(&self, number: i64, symbol: u32) -> Option<Linear> {
        self.base.symbol?;
        let cut = number.trailing_zeros().min(62) as u8;
        if self.is_uniform() {
            return Some(Linear::symbol(symbol, cut));
        }
        if !self.is_beside(31) {
            return None;
        }
        let mut beside = *self;
        beside.base = Base::number(self.base.offset);
        let beside = beside.low(u32::from(self.base.align).min(31))?;
        let mut taken = beside.map(|part| Some(part & number))?;
        taken.base.symbol = Some(symbol);
        taken.base.align = self.base.align.max(cut);
        Some(taken)
    }

    /// An unknown of which so many low bits are cut off, with all that is added to it.
    fn unknown_alone(&self, cut: u32, symbol: u32) -> Option<Linear> {
        let align = u32::from(self.base.align);
        let (least, most) = self.range();
        let below = self.is_uniform() || least >= 0 && most <= mask(align) && align <= cut;
        (self.base.symbol.is_some() && below).then(|| Linear::symbol(symbol, cut.min(62) as u8))
    }

    fn xor(&self, number: i64, symbol: u32) -> Option<Linear> {
        if number < 0 {
            // `x ^ number` is `!(x ^ !number)`, and `!x` is `-1 - x`.
            let other = self.xor(!number, symbol)?;
            return Linear::number(-1).minus(&other, symbol);
        }
        let low = self.low(significant(number))?;
        let mut changed = low;
        for part in &mut changed.bits {
            let own = i64::from(*part);
            *part = i32::try_from((own & !number) - (own & number)).ok()?;
        }
        changed.base.offset ^= number;
        self.minus(&low, symbol)?.plus(&changed, symbol)
    }

    fn shift_right(&self, by: u32, symbol: u32) -> Option<Linear> {
        let Some(low) = self.low(by) else {
            let mut whole = self.unknown_alone(by, symbol)?;
            whole.base.align = 0;
            return Some(whole);
        };
        let mut result = self.minus(&low, symbol)?.map(|part| Some(part >> by))?;
        if result.base.symbol.is_some() && by > 0 {
            result.base.symbol = Some(symbol);
            result.base.align = result.base.align.saturating_sub(by as u8);
        }
        Some(result)
    }

    /// The bits that may be set, where each is that of one coordinate, or of the number.
    fn occupied(&self) -> Option<i64> {
        let (low, high) = self.range();
        let small = low >= 0 && high < 1 << 31 && self.base.symbol.is_none();
        if !small || self.row != 0 || self.plane != 0 || self.low(31)? != *self {
            return None;
        }
        let parts = self.bits.iter().map(|part| i64::from(*part));
        Some(parts.fold(self.base.offset, |all, part| all | part))
    }

    /// `or` and `xor` of values without a bit in common: their sum.
    fn joined(&self, other: &Linear, symbol: u32) -> Option<Linear> {
        let apart = || {
            let (low, high) = other.range();
            let below = other.base.symbol.is_none() && low >= 0;
            below && high <= mask(self.align().min(62))
        };
        let disjoint = || Some(self.occupied()? & other.occupied()? == 0);
        (apart() || disjoint() == Some(true))
            .then(|| self.plus(other, symbol))
            .flatten()
    }

    /// What a lane has of it, for all lanes of its warp.
    fn of_lane(mut self, lane: u32) -> Linear {
        for bit in 0..5 {
            if lane >> bit & 1 != 0 {
                let part = i64::from(self.bits[bit]);
                self.base.offset = self.base.offset.wrapping_add(part);
            }
            self.bits[bit] = 0;
        }
        self
    }
}

/// So many low bits.
fn mask(count: u32) -> i64 {
    1_i64
        .checked_shl(count)
        .map_or(-1, |bit| bit.wrapping_sub(1))
}

/// The bits up to the last that differs from the sign.
fn significant(number: i64) -> u32 {
    64 - number.leading_zeros().max(number.leading_ones())
}

/// How a value depends on the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependence {
    /// All that it may depend on.
    pub sources: Sources,
    /// How, where that is known.
    pub linear: Option<Linear>,
}

impl Dependence {
    /// A number.
    pub const fn number(number: i64) -> Dependence {
        Dependence {
            sources: Sources::NONE,
            linear: Some(Linear::number(number)),
        }
    }

    /// An unknown that all threads of a block share.
    pub const fn uniform(sources: Sources, symbol: u32) -> Dependence {
        Dependence {
            sources,
            linear: Some(Linear::symbol(symbol, 0)),
        }
    }

    /// Some function of these.
    pub const fn opaque(sources: Sources) -> Dependence {
        Dependence {
            sources,
            linear: None,
        }
    }

    /// Some function of these: an unknown with this symbol, if the threads of a block
    /// share it.
    pub const fn function(sources: Sources, symbol: u32) -> Dependence {
        if sources.any(Sources::THREAD) {
            Dependence::opaque(sources)
        } else {
            Dependence::uniform(sources, symbol)
        }
    }

    /// A sum, which depends on what is in it; `block` is what its base depends on.
    fn linear(linear: Linear, block: Sources) -> Dependence {
        Dependence {
            sources: linear.sources() | block.only(Sources::BLOCK),
            linear: Some(linear),
        }
    }

    /// The same to the threads that share all but so many low bits of `%tid.x`: what those
    /// have in common is part of the unknown.
    #[must_use]
    pub fn of_group(&self, lane_bits: usize, symbol: u32) -> Dependence {
        let lanes = (0..lane_bits.min(5)).map(|bit| Sources::lane(bit as u32));
        let lanes = lanes.fold(Sources::NONE, |all, lane| all | lane);
        let sources = self.sources.only(lanes);
        let Some(mut linear) = self.linear else {
            return Dependence::function(sources, symbol);
        };
        let others = linear.bits[lane_bits.min(BITS)..].iter_mut();
        let others = others.chain([&mut linear.row, &mut linear.plane]);
        let shared = others.fold(0, |all, part| all | std::mem::take(part));
        if shared != 0 {
            linear.base.symbol = Some(symbol);
            linear.base.align = linear.base.align.min(shared.trailing_zeros() as u8);
        }
        Dependence {
            sources,
            linear: Some(linear),
        }
    }

    /// Whether all threads of a block have the same.
    pub const fn is_uniform(&self) -> bool {
        !self.sources.any(Sources::THREAD)
    }

    /// The number that it is, if it is one.
    pub fn as_number(&self) -> Option<i64> {
        self.linear?.as_number()
    }

    /// One of the two, and it is not known which: a phi of a uniform branch.
    #[must_use]
    pub fn join(&self, other: &Dependence, symbol: u32) -> Dependence {
        if self == other {
            return *self;
        }
        let sources = self.sources | other.sources;
        // The same steps from two bases are steps from one that is not known.
        if let (Some(one), Some(two)) = (&self.linear, &other.linear)
            && (one.bits, one.row, one.plane) == (two.bits, two.row, two.plane)
        {
            let apart = one.base.offset ^ two.base.offset;
            let align = one.base.align.min(two.base.align);
            let align = apart.trailing_zeros().min(u32::from(align)) as u8;
            let mut linear = *one;
            linear.base = Base {
                symbol: Some(symbol),
                offset: one.base.offset & mask(u32::from(align)),
                align,
            };
            return Dependence {
                sources,
                linear: Some(linear),
            };
        }
        Dependence::function(sources, symbol)
    }
}
