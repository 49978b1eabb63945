//! The types of accesses.

use crate::simd::lower::{Lowered, Unsupported};
use crate::simd::machine::Memory;
use ptx::names::Type;

/// A type in memory.
#[derive(Clone, Copy)]
pub(in crate::simd::lower) struct Element {
    pub bytes: u32,
    pub signed: bool,
}

impl Element {
    pub fn of(ty: Type) -> Lowered<Element> {
        let signed = matches!(ty, Type::S8 | Type::S16 | Type::S32 | Type::S64);
        match ty.bits() {
            bits @ (8 | 16 | 32 | 64) if ty != Type::Pred => Ok(Element {
                bytes: bits / 8,
                signed,
            }),
            _ => Err(Unsupported("an access of this type")),
        }
    }

    /// The bounds in the context are in units of up to 16 bytes.
    pub fn check_width(self, count: usize) -> Lowered<()> {
        match self.bytes as usize * count {
            0..=16 => Ok(()),
            _ => Err(Unsupported("an access of more than 16 bytes")),
        }
    }

    pub fn is_wide(self) -> bool {
        self.bytes == 8
    }

    pub fn memory(self) -> Memory {
        Memory {
            bytes: self.bytes as u8,
            signed: self.signed,
            wide: true,
        }
    }
}
