//! What an instruction makes of the dependence of its operands.

use super::{BITS, Dependence, Linear, Shape, Sources, Wrapping, mask};
use ptx::ast::Modifiers;
use ptx::isa::Outcome;
use ptx::names::{Modifier, Opcode, SpecialRegister, Type};

/// What a special register depends on; the symbols are the caller's, one a register.
pub fn special(register: SpecialRegister, shape: &Shape, symbol: u32) -> Dependence {
    use SpecialRegister as S;
    let [x, y, z] = shape.size;
    let uniform = Dependence::uniform(Sources::NONE, symbol);
    let size = |size: Option<u32>| size.map_or(uniform, |n| Dependence::number(i64::from(n)));
    let linear = |linear: Linear| Dependence::linear(linear, Sources::NONE);
    let mut one = Linear::number(0);
    match register {
        S::NtidX => size(x),
        S::NtidY => size(y),
        S::NtidZ => size(z),
        S::TidX => linear(Linear::tid_x(x)),
        S::TidY => {
            one.row = i32::from(y != Some(1));
            linear(one)
        }
        S::TidZ => {
            one.plane = i32::from(z != Some(1));
            linear(one)
        }
        S::Laneid if shape.has_whole_rows() => {
            one.bits[..5].copy_from_slice(&[1, 2, 4, 8, 16]);
            linear(one)
        }
        S::Laneid
        | S::LanemaskEq
        | S::LanemaskLe
        | S::LanemaskLt
        | S::LanemaskGe
        | S::LanemaskGt => Dependence::opaque(Sources::LANES | Sources::ROW | Sources::PLANE),
        S::Tid => Dependence::opaque(Sources::THREAD),
        S::Warpid => Dependence::opaque(Sources::WARP | Sources::ROW | Sources::PLANE),
        S::Clock
        | S::ClockHi
        | S::Clock64
        | S::Globaltimer
        | S::GlobaltimerLo
        | S::GlobaltimerHi => Dependence::opaque(Sources::WARP | Sources::ROW | Sources::PLANE),
        S::Ctaid
        | S::CtaidX
        | S::CtaidY
        | S::CtaidZ
        | S::Clusterid
        | S::ClusterCtaid
        | S::ClusterCtarank
        | S::Smid => Dependence::uniform(Sources::BLOCK, symbol),
        _ => uniform,
    }
}

/// The result of an instruction from its operands, without the places that it writes;
/// `symbol` stands for the result where it is an unknown that all threads share.
///
/// `result` is what its [`Meaning`](ptx::isa::Meaning) says. Unless that
/// [distinguishes operands](Outcome::distinguishes_operands), one operand with the sources of
/// all may stand for them. An address is what is in it. A vector is one operand for each
/// element.
pub fn transfer(
    result: Outcome,
    opcode: Opcode,
    modifiers: &Modifiers,
    operands: &[Dependence],
    symbol: u32,
    wrapping: Wrapping,
) -> Dependence {
    let each = operands.iter().map(|operand| operand.sources);
    let sources = each.fold(Sources::NONE, |all, one| all | one);
    match result {
        // The carry is no operand: who knows where it comes from adds its sources.
        Outcome::Operands => Dependence::function(sources, symbol),
        Outcome::Linear => match integer(opcode, modifiers, operands, symbol, wrapping) {
            Some(linear) => Dependence::linear(linear, sources),
            None => Dependence::function(sources, symbol),
        },
        Outcome::Compared => compared(modifiers, operands, symbol, wrapping),
        Outcome::Shuffled => shuffle(modifiers, operands, sources, symbol),
        Outcome::Warp => Dependence::function(sources.without(Sources::LANES), symbol),
        Outcome::Active => {
            Dependence::function(Sources::WARP | Sources::ROW | Sources::PLANE, symbol)
        }
        Outcome::Block => Dependence::uniform(sources.only(Sources::BLOCK), symbol),
        Outcome::Lane => Dependence::opaque(Sources::LANES | sources),
        // Each thread has memory of its own, and is alone when it comes.
        Outcome::Thread => Dependence::opaque(Sources::THREAD | sources),
    }
}

/// A comparison, and the predicate that it is combined with.
fn compared(
    modifiers: &Modifiers,
    operands: &[Dependence],
    symbol: u32,
    wrapping: Wrapping,
) -> Dependence {
    let [a, b, rest @ ..] = operands else {
        return Dependence::opaque(Sources::THREAD);
    };
    let result = compare(modifiers, a, b, symbol, wrapping);
    let rest = rest.iter().map(|operand| operand.sources);
    let sources = rest.fold(result.sources, |all, one| all | one);
    Dependence::function(sources, symbol)
}

fn shuffle(
    modifiers: &Modifiers,
    operands: &[Dependence],
    sources: Sources,
    symbol: u32,
) -> Dependence {
    let [value, from, clamp, ..] = operands else {
        return Dependence::opaque(Sources::THREAD);
    };
    // The whole warp is one segment.
    let whole = clamp.as_number().is_some_and(|clamp| clamp & 0x1f00 == 0);
    if !modifiers.has(Modifier::Idx) || !whole || from.sources.any(Sources::LANES) {
        return Dependence::function(sources | value.sources, symbol);
    }
    let lane = from.as_number().map(|lane| (lane & 31) as u32);
    match (&value.linear, lane) {
        (Some(linear), Some(lane)) => Dependence::linear(linear.of_lane(lane), value.sources),
        _ => Dependence::function(sources.without(Sources::LANES), symbol),
    }
}

/// Whether an operation on two values gives the same for both orders, but for the payload of a NaN.
#[must_use]
pub fn commutes(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::Add
            | Opcode::Mul
            | Opcode::Min
            | Opcode::Max
            | Opcode::And
            | Opcode::Or
            | Opcode::Xor
    )
}

/// A butterfly of which every lane adds up the same: what a commutative operation on
/// a value and the same of the lane across `bit` depends on.
#[must_use]
pub fn exchanged(value: &Dependence, bit: u32, symbol: u32) -> Dependence {
    Dependence::function(value.sources.without(Sources::lane(bit)), symbol)
}

fn is_integer(ty: Type) -> bool {
    use Type as T;
    matches!(
        ty,
        T::B8
            | T::B16
            | T::B32
            | T::B64
            | T::U8
            | T::U16
            | T::U32
            | T::U64
            | T::S8
            | T::S16
            | T::S32
            | T::S64
    )
}

fn is_signed(ty: Type) -> bool {
    matches!(ty, Type::S8 | Type::S16 | Type::S32 | Type::S64)
}

/// The sum that the result of integer arithmetic is.
fn integer(
    opcode: Opcode,
    modifiers: &Modifiers,
    operands: &[Dependence],
    symbol: u32,
    wrapping: Wrapping,
) -> Option<Linear> {
    let has = |word| modifiers.has(word);
    let plain = !has(Modifier::Sat) && !has(Modifier::Cc);
    if !plain || !modifiers.types().all(is_integer) {
        return None;
    }
    let ty = modifiers.types().last()?;
    // `0xFFFFFFFF` is -1 to 32 bits.
    let unused = 64 - ty.bits();
    let signed = |linear: Linear| match linear.as_number() {
        Some(number) => Linear::number(number << unused >> unused),
        None => linear,
    };
    let operand = |place: usize| Some(signed(operands.get(place)?.linear?));
    let number = |place: usize| operand(place)?.as_number();
    let (a, b) = (operand(0)?, operand(1));
    // Whole and not negative, so that a logical shift and a division are what they seem.
    let natural = a.fits(ty.bits(), is_signed(ty), wrapping);
    let possible = wrapping == Wrapping::Possible;
    // An unknown may be negative, and division rounds to 0.
    let divisible = natural && !(possible && is_signed(ty) && a.base.symbol.is_some());
    let result = match opcode {
        // Of several parts a number is made that is none of them.
        Opcode::Mov => (operands.len() == 1).then_some(a),
        // An address of one space is at a distance from the generic one.
        Opcode::Cvta if possible => a.plus(&Linear::symbol(symbol, 0), symbol),
        Opcode::Cvta => (operands.len() == 1).then_some(a),
        Opcode::Cvt => convert(modifiers, operands.first()?.linear?, symbol, wrapping),
        Opcode::Add => a.plus(&b?, symbol),
        Opcode::Sub => a.minus(&b?, symbol),
        Opcode::Neg => a.times(-1, symbol),
        Opcode::Not => Linear::number(-1).minus(&a, symbol),
        // These take 24 bits of their operands.
        Opcode::Mul24 | Opcode::Mad24 if possible => None,
        Opcode::Mul | Opcode::Mul24 | Opcode::Mad | Opcode::Mad24 if !has(Modifier::Hi) => {
            let wide = has(Modifier::Wide);
            let side = |side: Linear| {
                if wide {
                    side.extended(ty.bits(), is_signed(ty), symbol, wrapping)
                } else {
                    Some(side)
                }
            };
            let (a, b) = (side(a)?, side(b?)?);
            let from = |linear: &Linear| {
                let number = linear.as_number()?;
                let unsigned = wide && !is_signed(ty);
                Some(if unsigned {
                    number & mask(ty.bits())
                } else {
                    number
                })
            };
            let product = match (from(&a), from(&b)) {
                (_, Some(factor)) => a.times(factor, symbol),
                (Some(factor), _) => b.times(factor, symbol),
                _ => multiple(&a, &b, symbol),
            }?;
            match opcode {
                Opcode::Mad | Opcode::Mad24 if wide => {
                    product.plus(&operands.get(2)?.linear?, symbol)
                }
                Opcode::Mad | Opcode::Mad24 => product.plus(&operand(2)?, symbol),
                _ => Some(product),
            }
        }
        Opcode::Shl => {
            let by = u32::try_from(number(1)?).ok()?;
            let factor = 1_i64.checked_shl(by).filter(|_| by < ty.bits().min(62))?;
            a.times(factor, symbol)
        }
        Opcode::Shr if natural => {
            let by = u32::try_from(number(1)?).ok()?;
            a.shift_right(by.min(62), symbol)
        }
        Opcode::Div if divisible => a.shift_right(power(number(1)?)?, symbol),
        Opcode::Rem if divisible => a.and(mask(power(number(1)?)?), symbol),
        Opcode::And => match (a.as_number(), number(1)) {
            (_, Some(number)) => a.and(number, symbol),
            (Some(number), _) => b?.and(number, symbol),
            _ => None,
        },
        Opcode::Or => match (a.as_number(), number(1)) {
            // `x | number` is `(x & !number) + number`.
            (_, Some(number)) => a.and(!number, symbol)?.plus(&b?, symbol),
            (Some(number), _) => b?.and(!number, symbol)?.plus(&a, symbol),
            _ => a.joined(&b?, symbol).or_else(|| b?.joined(&a, symbol)),
        },
        Opcode::Xor => match (a.as_number(), number(1)) {
            (_, Some(number)) => a.xor(number, symbol),
            (Some(number), _) => b?.xor(number, symbol),
            _ => a.joined(&b?, symbol).or_else(|| b?.joined(&a, symbol)),
        },
        Opcode::Bfe if natural && !is_signed(ty) => {
            let (from, count) = (number(1)?, number(2)?);
            let from = u32::try_from(from).ok().filter(|from| *from < 32)?;
            let count = u32::try_from(count)
                .ok()
                .filter(|count| from.saturating_add(*count) < 32)?;
            a.shift_right(from, symbol)?.and(mask(count), symbol)
        }
        _ => None,
    };
    let narrow = |linear: Linear| match linear.as_number() {
        Some(number) if !has(Modifier::Wide) => {
            let to = modifiers.types().next().unwrap_or(ty);
            let unused = 64 - to.bits();
            let unsigned = opcode == Opcode::Cvt && !is_signed(to);
            if unsigned {
                Linear::number(number & mask(to.bits()))
            } else {
                Linear::number(number << unused >> unused)
            }
        }
        _ => linear,
    };
    result.map(narrow)
}

/// The product of two unknowns, of which their alignment is known.
fn multiple(a: &Linear, b: &Linear, symbol: u32) -> Option<Linear> {
    let both = a.is_uniform() && b.is_uniform();
    let align = (a.align() + b.align()).min(62) as u8;
    both.then(|| Linear::symbol(symbol, align))
}

/// The exponent of a power of two.
fn power(number: i64) -> Option<u32> {
    (number.count_ones() == 1 && number > 0).then(|| number.trailing_zeros())
}

/// A conversion of integers; one that is not the same number in each thread is none.
fn convert(
    modifiers: &Modifiers,
    value: Linear,
    symbol: u32,
    wrapping: Wrapping,
) -> Option<Linear> {
    let mut types = modifiers.types();
    let (to, from) = (types.next()?, types.next()?);
    if value.base.symbol.is_some() {
        return if to.bits() > from.bits() {
            value.extended(from.bits(), is_signed(from), symbol, wrapping)
        } else {
            Some(value)
        };
    }
    let (low, high) = value.range();
    let fits = |ty: Type| {
        if is_signed(ty) {
            low >= !mask(ty.bits() - 1) && high <= mask(ty.bits() - 1)
        } else {
            low >= 0 && high <= mask(ty.bits().min(63))
        }
    };
    if let Some(number) = value.as_number() {
        let unused = 64 - from.bits();
        let signed = number << unused >> unused;
        let number = if is_signed(from) {
            signed
        } else {
            signed & mask(from.bits())
        };
        return Some(Linear::number(number));
    }
    (fits(from) && fits(to)).then_some(value)
}

/// How a comparison depends on the thread: by the difference of its sides, `a - b`.
///
/// A side of lanes that all lie between two multiples of what is else added is the
/// same for a warp: `%tid.x >= roundup(n, 32)`.
pub fn compare(
    modifiers: &Modifiers,
    a: &Dependence,
    b: &Dependence,
    symbol: u32,
    wrapping: Wrapping,
) -> Dependence {
    let sources = a.sources | b.sources;
    let block = sources.only(Sources::BLOCK);
    let difference = match (&a.linear, &b.linear) {
        (Some(a), Some(b)) if is_true_difference(modifiers, a, b, wrapping) => a.minus(b, symbol),
        _ => None,
    };
    let Some(difference) = difference else {
        return Dependence::function(sources, symbol);
    };
    let sources = difference.sources() | block;
    let known = match orders(modifiers) {
        Some(after) => same_for_lanes(&difference, after),
        None => false,
    };
    let sources = if known {
        sources.without(Sources::LANES)
    } else {
        sources
    };
    Dependence::function(sources, symbol)
}

/// Whether two sides compare as their difference does. Equality holds modulo the width.
fn is_true_difference(modifiers: &Modifiers, a: &Linear, b: &Linear, wrapping: Wrapping) -> bool {
    let Some(ty) = modifiers.types().last() else {
        return false;
    };
    let fits = |side: &Linear| side.fits(ty.bits(), is_signed(ty), wrapping);
    let is_equality = modifiers.first_of(&[Modifier::Eq, Modifier::Ne]).is_some();
    match wrapping {
        Wrapping::Ignored => true,
        Wrapping::Possible => is_integer(ty) && (is_equality || fits(a) && fits(b)),
    }
}

/// For `a < b` and `a >= b` 0, for `a <= b` and `a > b` 1: the first difference on the
/// other side.
fn orders(modifiers: &Modifiers) -> Option<i64> {
    use Modifier as M;
    if modifiers.first_of(&[M::Lt, M::Ge, M::Lo, M::Hs]).is_some() {
        return Some(0);
    }
    let through = modifiers.first_of(&[M::Le, M::Gt, M::Ls, M::Hi]);
    through.map(|_| 1)
}

/// Whether all lanes of a warp are on one side of `after`, or all on the other.
fn same_for_lanes(difference: &Linear, after: i64) -> bool {
    let mut rest = *difference;
    // Sums of these and the offset may take more than 64 bits.
    let lanes = rest.bits[..5].iter().map(|part| i128::from(*part));
    let lanes: Vec<i128> = lanes.collect();
    rest.bits[..5].fill(0);
    let others = rest.bits[5..BITS].iter().chain([&rest.row, &rest.plane]);
    let steps = others.fold(0, |all, part| all | i64::from(*part));
    let align = steps.trailing_zeros().min(u32::from(rest.base.align));
    let offset = i128::from(rest.base.offset) - i128::from(after);
    let low: i128 = lanes.iter().map(|part| (*part).min(0)).sum();
    let high: i128 = lanes.iter().map(|part| (*part).max(0)).sum();
    (offset + low) >> align == (offset + high) >> align
}
