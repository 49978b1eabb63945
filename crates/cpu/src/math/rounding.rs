//! Rounding modes.

/// A rounding mode, with the number by which it is passed to helpers.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// To the nearest, ties to even: `.rn`, `.rni`.
    Nearest = 0,
    /// Toward zero: `.rz`, `.rzi`.
    Zero = 1,
    /// Toward negative infinity: `.rm`, `.rmi`.
    Down = 2,
    /// Toward positive infinity: `.rp`, `.rpi`.
    Up = 3,
    /// To the nearest, ties away from zero: `.rna`.
    Away = 4,
}

impl Rounding {
    /// The rounding mode with this number; `Nearest` if it is out of range.
    pub fn from_number(number: u32) -> Rounding {
        match number {
            1 => Rounding::Zero,
            2 => Rounding::Down,
            3 => Rounding::Up,
            4 => Rounding::Away,
            _ => Rounding::Nearest,
        }
    }
}
