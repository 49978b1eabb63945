//! Software floating point: each operation is computed exactly with integers, then rounded
//! once to any format in any rounding mode.

use super::rounding::Rounding;

/// A binary floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    /// Bits of the significand, with the hidden one.
    precision: u32,
    /// Power of two of the least subnormal number.
    least: i32,
    /// Power of two of the largest numbers.
    most: i32,
}

impl Format {
    pub(super) const F16: Format = Format {
        precision: 11,
        least: -24,
        most: 15,
    };
    pub(super) const BF16: Format = Format {
        precision: 8,
        least: -133,
        most: 127,
    };
    pub(super) const TF32: Format = Format {
        precision: 11,
        least: -136,
        most: 127,
    };
    pub(super) const F32: Format = Format {
        precision: 24,
        least: -149,
        most: 127,
    };
    pub(super) const F64: Format = Format {
        precision: 53,
        least: -1074,
        most: 1023,
    };
    pub(super) const E5M2: Format = Format {
        precision: 3,
        least: -16,
        most: 15,
    };
    /// The largest exponent encodes numbers, except for one NaN; there is no infinity.
    pub(super) const E4M3: Format = Format {
        precision: 4,
        least: -9,
        most: 8,
    };

    /// All bits encode numbers.
    pub(super) const E2M3: Format = Format {
        precision: 4,
        least: -3,
        most: 2,
    };
    pub(super) const E3M2: Format = Format {
        precision: 3,
        least: -4,
        most: 4,
    };
    pub(super) const E2M1: Format = Format {
        precision: 2,
        least: -1,
        most: 2,
    };

    /// The power of two of the last bit of numbers with this exponent.
    pub(super) fn unit(self, exponent: i32) -> i32 {
        self.least.max(exponent + 1 - self.precision as i32)
    }

    /// The sign's bit.
    fn sign_shift(self) -> u32 {
        let exponents = (self.most - self.least + 1) as u32 + 2 - self.precision;
        self.precision - 1 + exponents.next_power_of_two().trailing_zeros()
    }

    /// The bits of infinity.
    fn infinity(self) -> u64 {
        let exponent = (self.most - self.least + 3) as u64 - u64::from(self.precision);
        exponent << (self.precision - 1)
    }

    /// A NaN: all bits but the sign, as PTX makes them.
    pub(super) fn nan(self) -> u64 {
        (1 << self.sign_shift()) - 1
    }
}

/// A decoded number: infinite, NaN, or `±significand * 2^exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    NaN,
    Infinite { negative: bool },
    Finite(Finite),
}

/// `±significand * 2^exponent`. Zero has a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Finite {
    pub(super) negative: bool,
    /// Below 2^127, and of an operand below 2^126.
    pub(super) significand: u128,
    pub(super) exponent: i32,
    /// The sticky bit: the magnitude is larger by less than `2^exponent`. The significand has
    /// at least 60 bits then.
    pub(super) inexact: bool,
}

impl Number {
    pub(super) fn from_bits(bits: u64, format: Format) -> Number {
        let Format {
            precision, least, ..
        } = format;
        let negative = bits >> format.sign_shift() & 1 != 0;
        let magnitude = bits & ((1 << format.sign_shift()) - 1);
        if magnitude == format.infinity() {
            return Number::Infinite { negative };
        }
        if magnitude > format.infinity() {
            return Number::NaN;
        }
        let stored = (magnitude >> (precision - 1)) as i32;
        let fraction = magnitude & ((1 << (precision - 1)) - 1);
        let (significand, exponent) = match stored {
            0 => (fraction, least),
            _ => (fraction | 1 << (precision - 1), least + stored - 1),
        };
        Number::Finite(Finite {
            negative,
            significand: significand.into(),
            exponent,
            inexact: false,
        })
    }

    pub(super) fn from_integer(negative: bool, magnitude: u64) -> Number {
        Number::Finite(Finite {
            negative,
            significand: magnitude.into(),
            exponent: 0,
            inexact: false,
        })
    }

    /// Rounds to a format, and returns its bits.
    pub(super) fn to_bits(self, format: Format, rounding: Rounding) -> u64 {
        let (negative, magnitude) = match self {
            Number::NaN => return format.nan(),
            Number::Infinite { negative } => (negative, format.infinity()),
            Number::Finite(finite) => (finite.negative, finite.round(format, rounding)),
        };
        u64::from(negative) << format.sign_shift() | magnitude
    }
}

impl Finite {
    fn round(self, format: Format, rounding: Rounding) -> u64 {
        let Format {
            precision,
            least,
            most,
        } = format;
        if self.significand == 0 {
            return 0;
        }
        let length = (u128::BITS - self.significand.leading_zeros()) as i32;
        let mut exponent = (self.exponent + length - precision as i32).max(least);
        let shift = exponent - self.exponent;
        // The retained bits, whether the rest is at least half of the last place, and
        // whether it is not exactly that half.
        let (retained, half, rest) = match shift {
            ..=0 => (self.significand << -shift, false, self.inexact),
            1..128 => {
                let below = self.significand & ((1 << shift) - 1);
                let half = below >> (shift - 1) != 0;
                (
                    self.significand >> shift,
                    half,
                    below & ((1 << (shift - 1)) - 1) != 0 || self.inexact,
                )
            }
            _ => (0, false, true),
        };
        // At most 53 bits are retained.
        let mut retained = retained as u64;
        let away = match rounding {
            Rounding::Nearest => half && (rest || retained & 1 != 0),
            Rounding::Away => half,
            Rounding::Zero => false,
            Rounding::Down => self.negative && (half || rest),
            Rounding::Up => !self.negative && (half || rest),
        };
        retained += u64::from(away);
        if retained >> precision != 0 {
            retained >>= 1;
            exponent += 1;
        }
        let normal = retained >> (precision - 1) != 0;
        if normal && exponent + precision as i32 - 1 > most {
            let to_infinity = match rounding {
                Rounding::Nearest | Rounding::Away => true,
                Rounding::Zero => false,
                Rounding::Down => self.negative,
                Rounding::Up => !self.negative,
            };
            return format.infinity() - u64::from(!to_infinity);
        }
        // The hidden bit of a normal number adds 1 to the stored exponent.
        (((exponent - least) as u64) << (precision - 1)) + retained
    }

    fn is_zero(self) -> bool {
        self.significand == 0
    }
}

/// The sum; `rounding` decides the sign of an exact zero.
pub(super) fn add(a: Number, b: Number, rounding: Rounding) -> Number {
    match (a, b) {
        (Number::NaN, _) | (_, Number::NaN) => Number::NaN,
        (Number::Infinite { negative: x }, Number::Infinite { negative: y }) if x != y => {
            Number::NaN
        }
        (Number::Infinite { .. }, _) => a,
        (_, Number::Infinite { .. }) => b,
        (Number::Finite(a), Number::Finite(b)) => Number::Finite(add_finite(a, b, rounding)),
    }
}

/// Both operands are exact.
fn add_finite(a: Finite, b: Finite, rounding: Rounding) -> Finite {
    if a.is_zero() && b.is_zero() {
        let negative = if a.negative == b.negative {
            a.negative
        } else {
            rounding == Rounding::Down
        };
        return Finite { negative, ..a };
    }
    if a.is_zero() || b.is_zero() {
        return if a.is_zero() { b } else { a };
    }
    // Both with the highest bit at the same place, so that the exponents order
    // them; a bit above is left for the carry. Bits are lost only where the
    // operands are so far apart that at most one leading bit cancels.
    let top = |n: Finite| {
        let shift = n.significand.leading_zeros() - 2;
        (n.significand << shift, n.exponent - shift as i32)
    };
    let (mut large, mut small) = (a, b);
    if (top(a).1, top(a).0) < (top(b).1, top(b).0) {
        (large, small) = (b, a);
    }
    let ((x, exponent), (y, below)) = (top(large), top(small));
    let distance = (exponent - below) as u32;
    let (y, lost) = match distance {
        0..128 => (y >> distance, y & ((1 << distance) - 1) != 0),
        _ => (0, true),
    };
    let (significand, negative) = if large.negative == small.negative {
        (x + y, large.negative)
    } else {
        // Bits of the subtrahend were lost: the difference is less by a fraction.
        (x - y - u128::from(lost), large.negative)
    };
    if significand == 0 {
        return Finite {
            negative: rounding == Rounding::Down,
            significand: 0,
            exponent: 0,
            inexact: false,
        };
    }
    Finite {
        negative,
        significand,
        exponent,
        inexact: lost,
    }
}

/// The product of two numbers of at most 63 bits.
pub(super) fn mul(a: Number, b: Number) -> Number {
    match (a, b) {
        (Number::NaN, _) | (_, Number::NaN) => Number::NaN,
        (Number::Infinite { negative }, other) | (other, Number::Infinite { negative }) => {
            match other {
                Number::Finite(n) if n.is_zero() => Number::NaN,
                Number::Finite(n) => Number::Infinite {
                    negative: negative != n.negative,
                },
                Number::Infinite { negative: n } => Number::Infinite {
                    negative: negative != n,
                },
                Number::NaN => Number::NaN,
            }
        }
        (Number::Finite(a), Number::Finite(b)) => Number::Finite(Finite {
            negative: a.negative != b.negative,
            significand: a.significand * b.significand,
            exponent: a.exponent + b.exponent,
            inexact: false,
        }),
    }
}

/// The quotient of two exact numbers of at most 53 bits.
pub(super) fn div(a: Number, b: Number) -> Number {
    match (a, b) {
        (Number::NaN, _) | (_, Number::NaN) => Number::NaN,
        (Number::Infinite { .. }, Number::Infinite { .. }) => Number::NaN,
        (Number::Infinite { negative }, Number::Finite(b)) => Number::Infinite {
            negative: negative != b.negative,
        },
        (Number::Finite(a), Number::Infinite { negative }) => Number::Finite(Finite {
            negative: a.negative != negative,
            significand: 0,
            exponent: 0,
            inexact: false,
        }),
        (Number::Finite(a), Number::Finite(b)) => {
            let negative = a.negative != b.negative;
            if b.is_zero() {
                return if a.is_zero() {
                    Number::NaN
                } else {
                    Number::Infinite { negative }
                };
            }
            if a.is_zero() {
                return Number::Finite(Finite { negative, ..a });
            }
            // 126 bits by at most 53 give 73 or more.
            let shift = a.significand.leading_zeros() - 2;
            let dividend = a.significand << shift;
            Number::Finite(Finite {
                negative,
                significand: dividend / b.significand,
                exponent: a.exponent - shift as i32 - b.exponent,
                inexact: dividend % b.significand != 0,
            })
        }
    }
}

/// The square root of an exact number.
pub(super) fn sqrt(a: Number) -> Number {
    match a {
        Number::Finite(n) if n.is_zero() => a,
        Number::Infinite { negative: false } => a,
        Number::Finite(n) if !n.negative => {
            // 125 bits or more give 63, and the exponent must be even.
            let mut shift = n.significand.leading_zeros() - 2;
            shift -= (n.exponent - shift as i32).rem_euclid(2) as u32;
            let square = n.significand << shift;
            let root = square.isqrt();
            Number::Finite(Finite {
                negative: false,
                significand: root,
                exponent: (n.exponent - shift as i32) / 2,
                inexact: root * root != square,
            })
        }
        _ => Number::NaN,
    }
}
