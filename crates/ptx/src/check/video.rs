//! Operands of video instructions: bytes and halves of registers.

use super::operand::{Checked, OperandChecker};
use crate::ast::{Operand, Selector};
use crate::isa::{Kind, Lanes};

/// Whether a selector is valid for a source: one byte or half.
fn reads(lanes: Lanes, selector: &str) -> bool {
    let digits = |below: u8| selector.bytes().skip(1).all(|digit| digit < b'0' + below);
    match lanes {
        Lanes::One => selects_one(selector),
        Lanes::Two => selector.starts_with('h') && selector.len() == 3 && digits(4),
        Lanes::Four => selector.starts_with('b') && selector.len() == 5 && digits(8),
    }
}

/// Whether a selector is valid for a destination: several parts are written from highest
/// to lowest.
fn writes(lanes: Lanes, selector: &str) -> bool {
    let digits = selector.as_bytes().get(1..).unwrap_or(&[]);
    let falling = digits.windows(2).all(|pair| pair[0] > pair[1]);
    let below = |number: u8| digits.iter().all(|digit| *digit < b'0' + number);
    match lanes {
        Lanes::One => selects_one(selector),
        Lanes::Two => selector.starts_with('h') && falling && below(2),
        Lanes::Four => selector.starts_with('b') && falling && below(4),
    }
}

fn selects_one(selector: &str) -> bool {
    matches!(selector, "b0" | "b1" | "b2" | "b3" | "h0" | "h1")
}

impl<'a> OperandChecker<'_, '_, '_, 'a> {
    /// A register with an optional selector, or a negated one.
    pub(super) fn video(&self, kind: Kind, operand: &Operand<'a>) -> Checked {
        match (kind, operand) {
            (
                Kind::SelectSource(lanes),
                Operand::Select {
                    name,
                    negated: false,
                    selector,
                },
            ) => {
                self.selector(reads(lanes, selector.text()), selector, operand)?;
                self.register(*name)
            }
            // Only registers have parts.
            (Kind::SelectSource(Lanes::Two | Lanes::Four), Operand::Name(name)) => {
                self.register(*name)
            }
            (Kind::SelectSource(Lanes::Two | Lanes::Four), _) => {
                self.wrong(operand, "expected a register")
            }
            (Kind::SelectSource(Lanes::One), _) => self.source(operand),
            (
                Kind::SelectDestination(lanes),
                Operand::Select {
                    name,
                    negated: false,
                    selector,
                },
            ) => {
                self.selector(writes(lanes, selector.text()), selector, operand)?;
                self.register(*name)
            }
            (Kind::SelectDestination(_), _) => self.destination(operand),
            (
                Kind::NegatedSelect,
                Operand::Select {
                    name,
                    negated: true,
                    selector,
                },
            ) => {
                self.selector(reads(Lanes::One, selector.text()), selector, operand)?;
                self.register(*name)
            }
            (_, Operand::Negated(name)) => self.register(*name),
            _ => self.wrong(operand, "expected a negated register, as `-%r1`"),
        }
    }

    fn selector(&self, known: bool, selector: &Selector, operand: &Operand<'a>) -> Checked {
        if known {
            return Ok(());
        }
        self.wrong(operand, format!("invalid selector `.{}`", selector.text()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_selectors_are_permutations() {
        assert!(reads(Lanes::One, "h1") && !reads(Lanes::One, "h10"));
        assert!(reads(Lanes::Two, "h33") && !reads(Lanes::Two, "h1") && !reads(Lanes::Two, "h40"));
        assert!(reads(Lanes::Four, "b7777") && !reads(Lanes::Four, "b0128"));
    }

    #[test]
    fn destination_selectors_are_masks() {
        assert!(writes(Lanes::One, "b3") && !writes(Lanes::One, "b4"));
        assert!(writes(Lanes::Two, "h10") && !writes(Lanes::Two, "h01"));
        assert!(writes(Lanes::Four, "b310") && !writes(Lanes::Four, "b33"));
    }
}
