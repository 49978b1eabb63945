//! What integer instructions make of the numbers of threads.

use super::evaluate::{Evaluator, Place};
use super::lanes::{Lanes, Sum, signed};
use ptx::ast::{Instruction, Mnemonic, Operand};
use ptx::names::{Modifier, Opcode, Type};

impl Evaluator<'_, '_, '_> {
    /// The result of integer arithmetic in a place.
    pub(super) fn arithmetic(
        &mut self,
        instruction: &Instruction,
        mnemonic: &Mnemonic<'_>,
        place: Place,
    ) -> Option<Sum> {
        let operands = &self.flow.instructions.body.operands;
        let mut sum = |index| self.operand(index, place).sum();
        Sum::of(instruction, mnemonic, operands, &mut sum)
    }
}

impl Sum {
    /// The result of integer arithmetic on sums: `operand` gives that of an operand, by
    /// its index in the pool.
    pub(super) fn of(
        instruction: &Instruction,
        mnemonic: &Mnemonic<'_>,
        operands: &[Operand<'_>],
        operand: &mut dyn FnMut(usize) -> Option<Sum>,
    ) -> Option<Sum> {
        let modifiers = &mnemonic.modifiers;
        let has = |word| modifiers.has(word);
        let ty = modifiers.types().last()?;
        let bits = ty.bits();
        let first = instruction.operands.start as usize;
        let count = instruction.operands.len as usize;
        let is_vector = matches!(operands.get(first + 1), Some(Operand::Vector(..)));
        let mut sum = |number: usize| {
            if number < count {
                operand(first + number)
            } else {
                None
            }
        };
        if mnemonic.opcode == Opcode::Mov {
            return if is_vector { None } else { sum(1) };
        }
        if ty == Type::Pred {
            let truth = |sum: Sum| match sum.is_exact() {
                true if sum.lanes.lies_in(0, 1) => Some(sum.lanes),
                true => Some(sum.lanes.map(|n| i64::from(n != 0))),
                false => None,
            };
            let a = truth(sum(1)?)?;
            if mnemonic.opcode == Opcode::Not {
                return Some(Sum::exact(a.times(-1).plus(&Lanes::Same(1))));
            }
            let b = truth(sum(2)?)?;
            return Some(Sum::exact(match mnemonic.opcode {
                Opcode::And => a.zip(&b, |a, b| a & b),
                Opcode::Or => a.zip(&b, |a, b| a | b),
                Opcode::Xor => a.zip(&b, |a, b| a ^ b),
                _ => return None,
            }));
        }
        if !super::effect::is_integer(ty) || has(Modifier::Sat) || has(Modifier::Cc) {
            return None;
        }
        let wide = has(Modifier::Wide);
        let result_bits = if wide { bits * 2 } else { bits };
        let exact = |sum: &Sum| sum.is_exact().then(|| sum.lanes.read(ty));
        let fit = |lanes: Lanes| Some(Sum::exact(lanes.signed(result_bits)));
        // In 32 bits, numbers wrap; sums of unknown ones are taken not to.
        let wrapped = |sum: Sum| {
            if sum.is_exact() {
                Sum::exact(sum.lanes.signed(result_bits))
            } else {
                sum
            }
        };
        match mnemonic.opcode {
            Opcode::Cvta => sum(1),
            Opcode::Cvt => {
                let from = modifiers.types().last()?;
                let to = modifiers.types().next()?;
                if !super::effect::is_integer(to) {
                    return None;
                }
                let given = sum(1)?;
                if given.is_exact() {
                    let lanes = given.lanes.read(from).signed(to.bits());
                    Some(Sum::exact(lanes))
                } else {
                    (to.bits() >= 32 && bits >= 32).then_some(given)
                }
            }
            Opcode::Add => Some(sum(1)?.plus(&sum(2)?)?),
            Opcode::Sub => Some(wrapped(sum(1)?.minus(&sum(2)?)?)),
            Opcode::Neg => Some(wrapped(sum(1)?.times(-1)?)),
            Opcode::Mul | Opcode::Mul24 | Opcode::Mad | Opcode::Mad24 => {
                let (a, b) = (sum(1)?, sum(2)?);
                let product = match (exact(&a), exact(&b)) {
                    (Some(a), Some(b)) => match has(Modifier::Hi) {
                        true if bits == 32 => fit(a.zip(&b, |a, b| a.wrapping_mul(b) >> 32))?,
                        true => return None,
                        false => fit(a.zip(&b, i64::wrapping_mul))?,
                    },
                    (None, Some(factor)) if !has(Modifier::Hi) => a.times(factor.same()?)?,
                    (Some(factor), None) if !has(Modifier::Hi) => b.times(factor.same()?)?,
                    _ => return None,
                };
                match mnemonic.opcode {
                    Opcode::Mad | Opcode::Mad24 => product.plus(&sum(3)?),
                    _ => Some(product),
                }
            }
            Opcode::Shl => {
                let (a, by) = (sum(1)?, sum(2)?);
                match (exact(&a), by.as_number()) {
                    (_, Some(by)) if (0..62).contains(&by) => {
                        Some(wrapped(if by < i64::from(bits) {
                            a.times(1 << by)?
                        } else {
                            Sum::number(0)
                        }))
                    }
                    (Some(a), None) if by.is_exact() => fit(a.zip(&by.lanes, |a, by| {
                        if (0..i64::from(bits)).contains(&by) {
                            a << by
                        } else {
                            0
                        }
                    })),
                    _ => None,
                }
            }
            Opcode::Shr => {
                let (a, by) = (sum(1)?, sum(2)?);
                let shift = move |a: i64, by: i64| a >> by.clamp(0, 63);
                match (exact(&a), by.as_number()) {
                    (Some(a), Some(by)) if a.lies_in(0, (1 << by.clamp(0, 62)) - 1) => {
                        Some(Sum::number(0))
                    }
                    (Some(a), _) if by.is_exact() => fit(a.zip(&by.lanes, shift)),
                    // A multiple of the power of two is shifted on its own.
                    (None, Some(by)) if (0..31).contains(&by) => Some(Sum {
                        symbols: a.symbols.divided(1 << by)?,
                        lanes: a.lanes.map(|n| n >> by),
                    }),
                    _ => None,
                }
            }
            Opcode::And => {
                let (a, b) = (sum(1)?, sum(2)?);
                let low = |mask: i64| (0..1 << 62).contains(&mask) && (mask + 1) & mask == 0;
                match (exact(&a), exact(&b)) {
                    (Some(a), Some(Lanes::Same(mask))) if low(mask) && a.lies_in(0, mask) => fit(a),
                    (Some(a), Some(b)) => fit(a.zip(&b, |a, b| a & b)),
                    (None, Some(mask)) | (Some(mask), None) => {
                        let sum = if a.is_exact() { b } else { a };
                        let mask = mask.same().filter(|mask| low(*mask))?;
                        sum.symbols.divided(mask + 1)?;
                        fit(sum.lanes.map(|n| n & mask))
                    }
                    _ => None,
                }
            }
            Opcode::Or => {
                let (a, b) = (sum(1)?, sum(2)?);
                match (exact(&a), exact(&b)) {
                    (Some(a), Some(b)) => fit(a.zip(&b, |a, b| a | b)),
                    // Bits that are surely 0 are set: a sum.
                    (None, Some(_)) => disjoint(&a, &b),
                    (Some(_), None) => disjoint(&b, &a),
                    _ => None,
                }
            }
            Opcode::Div | Opcode::Rem => {
                let (a, b) = (sum(1)?, sum(2)?);
                let divides = mnemonic.opcode == Opcode::Div;
                match (exact(&a), exact(&b)) {
                    (Some(a), Some(b)) => fit(a.zip(&b, |a, b| {
                        if divides {
                            a.checked_div(b).unwrap_or(0)
                        } else {
                            a.checked_rem(b).unwrap_or(0)
                        }
                    })),
                    (None, Some(by)) => {
                        let by = by.same().filter(|by| *by > 0)?;
                        let symbols = a.symbols.divided(by)?;
                        if divides {
                            Some(Sum {
                                symbols,
                                lanes: a.lanes.map(|n| n.div_euclid(by)),
                            })
                        } else {
                            fit(a.lanes.map(|n| n.rem_euclid(by)))
                        }
                    }
                    _ => None,
                }
            }
            Opcode::Xor | Opcode::Min | Opcode::Max => {
                let (a, b) = (exact(&sum(1)?)?, exact(&sum(2)?)?);
                fit(match mnemonic.opcode {
                    Opcode::Xor => a.zip(&b, |a, b| a ^ b),
                    Opcode::Min => a.zip(&b, i64::min),
                    _ => a.zip(&b, i64::max),
                })
            }
            Opcode::Not => fit(exact(&sum(1)?)?.times(-1).plus(&Lanes::Same(-1))),
            Opcode::Abs => fit(exact(&sum(1)?)?.map(i64::wrapping_abs)),
            Opcode::Popc => {
                fit(exact(&sum(1)?)?.map(|a| i64::from((unsigned(a, bits)).count_ones())))
            }
            Opcode::Clz => fit(exact(&sum(1)?)?
                .map(|a| i64::from(unsigned(a, bits).leading_zeros()) - i64::from(64 - bits))),
            Opcode::Brev if bits == 32 => {
                fit(exact(&sum(1)?)?.map(|a| i64::from((a as u32).reverse_bits())))
            }
            Opcode::Bfe => {
                let a = exact(&sum(1)?)?;
                let (from, len) = (sum(2)?.as_number()?, sum(3)?.as_number()?);
                let whole = (0..32).contains(&from)
                    && (1..=32).contains(&len)
                    && from + len <= i64::from(bits);
                if !whole {
                    return None;
                }
                let is_signed = matches!(ty, Type::S32 | Type::S64);
                fit(a.map(|a| {
                    let field = a >> from;
                    if is_signed {
                        signed(field, len as u32)
                    } else {
                        field & ((1 << len) - 1)
                    }
                }))
            }
            Opcode::Lop3 if bits == 32 => {
                let lanes = [exact(&sum(1)?)?, exact(&sum(2)?)?, exact(&sum(3)?)?];
                let table = sum(4)?.as_number()?;
                let [a, b, c] = &lanes;
                let both = a.zip(b, |a, b| a << 32 | b & 0xFFFF_FFFF);
                fit(both.zip(c, |both, c| lop3(both >> 32, both, c, table)))
            }
            Opcode::Setp | Opcode::Set => {
                // Two results, or one combined with another predicate, are not followed.
                if count != 3 || mnemonic.opcode == Opcode::Set {
                    return None;
                }
                let relation = Relation::of(mnemonic)?;
                let (a, b) = (sum(1)?, sum(2)?);
                match (exact(&a), exact(&b)) {
                    (Some(a), Some(b)) => Some(Sum::exact(relation.of_both(&a, &b))),
                    _ => {
                        let apart = a.minus(&b)?;
                        let both = || relation.of_both(&apart.lanes, &Lanes::Same(0));
                        apart.is_exact().then(|| Sum::exact(both()))
                    }
                }
            }
            _ => None,
        }
    }
}

/// How a comparison has it between a difference and 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `=`
    Equal,
    /// `!=`
    Different,
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
}

impl Relation {
    /// That of a `setp` of integers.
    pub(super) fn of(mnemonic: &Mnemonic<'_>) -> Option<Relation> {
        let has = |word| mnemonic.modifiers.has(word);
        Some(match () {
            () if has(Modifier::Eq) => Relation::Equal,
            () if has(Modifier::Ne) => Relation::Different,
            () if has(Modifier::Lt) || has(Modifier::Lo) => Relation::Below,
            () if has(Modifier::Le) || has(Modifier::Ls) => Relation::AtMost,
            () if has(Modifier::Gt) || has(Modifier::Hi) => Relation::Above,
            () if has(Modifier::Ge) || has(Modifier::Hs) => Relation::AtLeast,
            () => return None,
        })
    }

    /// 1 for the threads where it holds between their numbers, 0 for the others.
    fn of_both(self, a: &Lanes, b: &Lanes) -> Lanes {
        let ((a_least, a_most), (b_least, b_most)) = (a.range(), b.range());
        let ends = a_least.checked_sub(b_most).zip(a_most.checked_sub(b_least));
        match ends.and_then(|(least, most)| self.of_all(least, most)) {
            // A guard that the whole block passes, mostly.
            Some(holds) => Lanes::Same(i64::from(holds)),
            None => a.zip(b, |a, b| i64::from(self.holds(a.wrapping_sub(b)))),
        }
    }

    /// Whether it holds of all differences from the least to the greatest, if of all or none.
    fn of_all(self, least: i64, most: i64) -> Option<bool> {
        let has_zero = (least..=most).contains(&0) && least != most;
        let equality = matches!(self, Relation::Equal | Relation::Different);
        let [first, last] = [least, most].map(|difference| self.holds(difference));
        (first == last && !(equality && has_zero)).then_some(first)
    }

    /// Where this does not hold.
    pub fn negated(self) -> Relation {
        match self {
            Relation::Equal => Relation::Different,
            Relation::Different => Relation::Equal,
            Relation::Below => Relation::AtLeast,
            Relation::AtMost => Relation::Above,
            Relation::Above => Relation::AtMost,
            Relation::AtLeast => Relation::Below,
        }
    }

    /// Whether it holds of a difference.
    pub fn holds(self, difference: i64) -> bool {
        match self {
            Relation::Equal => difference == 0,
            Relation::Different => difference != 0,
            Relation::Below => difference < 0,
            Relation::AtMost => difference <= 0,
            Relation::Above => difference > 0,
            Relation::AtLeast => difference >= 0,
        }
    }
}

fn unsigned(number: i64, bits: u32) -> u64 {
    number as u64 & (u64::MAX >> (64 - bits.clamp(1, 64)))
}

/// A sum of multiples of a power of two, and numbers below that power.
fn disjoint(sum: &Sum, low: &Sum) -> Option<Sum> {
    let factors = sum.symbols.all().iter().map(|(_, times)| *times);
    let zeros = factors.fold(0, |bits, times| bits | times).trailing_zeros();
    let limit = 1_i64 << zeros.min(31);
    let fits = |lanes: &Lanes| lanes.lies_in(0, limit - 1);
    if !fits(&low.lanes) || !fits(&sum.lanes) {
        return None;
    }
    Some(Sum {
        symbols: sum.symbols,
        lanes: sum.lanes.zip(&low.lanes, |a, b| a | b),
    })
}

/// The bitwise function of three words that a truth table of 8 bits says.
fn lop3(a: i64, b: i64, c: i64, table: i64) -> i64 {
    let rows = (0..8).filter(|row| table >> row & 1 != 0);
    rows.fold(0, |all, row| {
        let a = if row & 4 != 0 { a } else { !a };
        let b = if row & 2 != 0 { b } else { !b };
        let c = if row & 1 != 0 { c } else { !c };
        all | a & b & c
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_is_decided_where_it_is_the_same_for_all_differences() {
        let relations = [
            Relation::Equal,
            Relation::Different,
            Relation::Below,
            Relation::AtMost,
            Relation::Above,
            Relation::AtLeast,
        ];
        for relation in relations {
            for least in -2..=2 {
                for most in least..=2 {
                    let first = relation.holds(least);
                    let same = (least..=most).all(|one| relation.holds(one) == first);
                    let expected = same.then_some(first);
                    let found = relation.of_all(least, most);
                    assert_eq!(found, expected, "{relation:?} {least} {most}");
                }
            }
        }
    }
}
