//! The rounding that an instruction names.

use crate::math::rounding::Rounding;
use crate::program::Instruction;
use ptx::names::Modifier as M;

/// The rounding of a conversion: to an integer or to a floating-point format.
pub(in crate::codegen) fn rounding_of(i: &Instruction) -> Option<Rounding> {
    let found = i.modifiers.first_of(&[
        M::Rn,
        M::Rz,
        M::Rm,
        M::Rp,
        M::Rna,
        M::Rni,
        M::Rzi,
        M::Rmi,
        M::Rpi,
    ])?;
    Some(match found {
        M::Rz | M::Rzi => Rounding::Zero,
        M::Rm | M::Rmi => Rounding::Down,
        M::Rp | M::Rpi => Rounding::Up,
        M::Rna => Rounding::Away,
        _ => Rounding::Nearest,
    })
}
