//! Which types of registers and constants an operand accepts.
//!
//! A register matches an instruction type of the same size if one of the two is
//! untyped (`.b32`) or both are of the same class. The exceptions are those of
//! ptxas, recorded for every register type in every kind of operand.

use crate::ast::FloatValue;
use crate::isa::{Scale, TypeBase, TypeRule, Types};
use crate::names::Type;

/// The required type of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedType {
    pub ty: Type,
    pub bits: u32,
    /// A wider register is accepted.
    pub wider: bool,
    /// No register of another type is accepted.
    pub alone: bool,
    /// The type is fixed by the operand and independent of the instruction: the count of
    /// `shl.b64` is a `.u32`.
    pub fixed: bool,
}

/// The class of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Untyped: `.b32`.
    Bits,
    Integer,
    /// A scalar float.
    Float,
    /// `.f16x2`
    Halves,
    /// `.u16x2`, `.s8x4`: registers are `.b32`.
    Integers,
    /// `.bf16`, `.tf32`, `.e4m3x2` …: no register has the type, `.b` ones hold it.
    Opaque,
    Predicate,
}

fn class(ty: Type) -> Class {
    match ty {
        Type::B8 | Type::B16 | Type::B32 | Type::B64 | Type::B128 => Class::Bits,
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => Class::Integer,
        Type::S8 | Type::S16 | Type::S32 | Type::S64 => Class::Integer,
        Type::F16 | Type::F32 | Type::F64 => Class::Float,
        Type::F16x2 => Class::Halves,
        Type::U16x2 | Type::S16x2 | Type::U8x4 | Type::S8x4 => Class::Integers,
        Type::Pred => Class::Predicate,
        _ => Class::Opaque,
    }
}

impl ExpectedType {
    /// The type that a rule asks for in an instruction with these types.
    pub fn new(rule: TypeRule, types: &Types) -> Option<ExpectedType> {
        let (ty, fixed) = match rule.base {
            TypeBase::Any => return None,
            TypeBase::Fixed(ty) => (ty, true),
            TypeBase::Named(number) => (types.get(number).copied().flatten()?, false),
        };
        let bits = match rule.scale {
            Scale::Half => ty.bits() / 2,
            Scale::Same => ty.bits(),
            Scale::Twice => ty.bits() * 2,
        };
        Some(ExpectedType {
            ty,
            bits,
            wider: rule.wider,
            alone: rule.alone,
            fixed,
        })
    }

    /// Whether a register of this type is accepted.
    pub fn takes(self, register: Type) -> bool {
        let expected = class(self.ty);
        if self.alone {
            return register == self.ty;
        }
        // ptxas accepts `.f16x2` as a predicate.
        if expected == Class::Predicate {
            return register == Type::Pred || (register == Type::F16x2 && !self.fixed);
        }
        let wider = self.wider && expected != Class::Opaque && register.bits() > self.bits;
        if register.bits() != self.bits && !wider {
            return false;
        }
        match (class(register), expected) {
            (Class::Bits, _) => true,
            (Class::Predicate, _) => false,
            (_, Class::Bits) => true,
            (Class::Integer, Class::Integer) => true,
            // Only integers may use a part of a wider register.
            (Class::Float, Class::Float) => register == self.ty,
            (Class::Halves, Class::Integer) => !self.fixed,
            (Class::Halves, Class::Halves | Class::Integers) => true,
            _ => false,
        }
    }

    /// Whether the operand is a number, such as the count of `shl`, and not the
    /// bits of a value.
    pub fn is_count(self) -> bool {
        self.fixed && class(self.ty) == Class::Integer
    }

    /// Whether an integer constant is accepted.
    pub fn takes_integer(self) -> bool {
        matches!(
            class(self.ty),
            Class::Bits | Class::Integer | Class::Predicate
        )
    }

    /// Whether a float constant is accepted.
    pub fn takes_float(self, value: FloatValue) -> bool {
        match class(self.ty) {
            Class::Float => self.ty != Type::F16,
            // An untyped operand takes a float of its size: 0f3F800000 is a `.b32`.
            Class::Bits => match value {
                FloatValue::F32(_) => self.bits == 32,
                FloatValue::F64(_) => self.bits == 64,
            },
            _ => false,
        }
    }

    /// Whether a vector of these registers is accepted as a vector of floats. ptxas allows
    /// it for loads, stores and textures.
    pub fn takes_integers_for_floats(self, register: Type) -> bool {
        let float = class(self.ty) == Class::Float;
        float && class(register) == Class::Integer && register.bits() == self.bits
    }

    /// Whether a function is accepted. Its address is accepted for any size.
    pub fn takes_function(self) -> bool {
        !self.fixed
    }

    /// `.f32`, or the width in bits if the operand is wider than the type.
    pub fn describe(self) -> String {
        if self.bits == self.ty.bits() {
            format!("`.{}`", self.ty.text())
        } else {
            format!("a register of {} bits", self.bits)
        }
    }
}

/// Whether a register is untyped.
pub fn is_bits(ty: Type) -> bool {
    class(ty) == Class::Bits
}

/// Whether a register holds one or two floats.
pub fn is_float(ty: Type) -> bool {
    matches!(class(ty), Class::Float | Class::Halves)
}

/// Whether a register holds an integer.
pub fn is_integer(ty: Type) -> bool {
    class(ty) == Class::Integer
}

/// Whether a register can hold an address. ptxas accepts any size.
pub fn is_address(ty: Type) -> bool {
    matches!(class(ty), Class::Bits | Class::Integer) && ty != Type::B128
}

/// The untyped type of the same size.
pub fn bits_of(ty: Type) -> Type {
    match ty.bits() {
        8 => Type::B8,
        16 => Type::B16,
        64 => Type::B64,
        128 => Type::B128,
        // A predicate counts as a register of 32 bits in a vector.
        _ => Type::B32,
    }
}

/// Whether two registers may be elements of one vector.
pub fn compatible_in_vector(left: Type, right: Type) -> bool {
    let compatible = match (class(left), class(right)) {
        (Class::Bits, _) | (_, Class::Bits) => true,
        (left, right) => left == right,
    };
    compatible && bits_of(left) == bits_of(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGISTERS: &[Type] = &[
        Type::B8,
        Type::B16,
        Type::B32,
        Type::B64,
        Type::B128,
        Type::U8,
        Type::U16,
        Type::U32,
        Type::U64,
        Type::S8,
        Type::S16,
        Type::S32,
        Type::S64,
        Type::F16,
        Type::F16x2,
        Type::F32,
        Type::F64,
        Type::Pred,
    ];

    fn taken(ty: Type, wider: bool, fixed: bool) -> String {
        let expected = ExpectedType {
            ty,
            bits: ty.bits(),
            wider,
            alone: false,
            fixed,
        };
        let taken = REGISTERS
            .iter()
            .filter(|register| expected.takes(**register));
        taken.map(|ty| ty.text()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn registers_match_as_in_ptxas() {
        let exact = |ty| taken(ty, false, false);
        assert_eq!(exact(Type::U16), "b16 u16 s16");
        assert_eq!(exact(Type::S32), "b32 u32 s32 f16x2");
        assert_eq!(exact(Type::B32), "b32 u32 s32 f16x2 f32");
        assert_eq!(exact(Type::B64), "b64 u64 s64 f64");
        assert_eq!(exact(Type::F16), "b16 f16");
        assert_eq!(exact(Type::F16x2), "b32 f16x2");
        assert_eq!(exact(Type::Bf16), "b16");
        assert_eq!(exact(Type::Bf16x2), "b32");
        assert_eq!(exact(Type::F32), "b32 f32");
        assert_eq!(exact(Type::F32x2), "b64");
        assert_eq!(exact(Type::U16x2), "b32 f16x2");
        assert_eq!(exact(Type::E4m3x2), "b16");
        assert_eq!(exact(Type::Pred), "f16x2 pred");
        assert_eq!(taken(Type::U32, false, true), "b32 u32 s32");
        assert_eq!(taken(Type::Pred, false, true), "pred");
    }

    #[test]
    fn wider_registers() {
        let wider = |ty| taken(ty, true, false);
        assert_eq!(wider(Type::U32), "b32 b64 b128 u32 u64 s32 s64 f16x2");
        assert_eq!(wider(Type::F32), "b32 b64 b128 f32");
        assert_eq!(
            wider(Type::B16),
            "b16 b32 b64 b128 u16 u32 u64 s16 s32 s64 f16 f16x2 f32 f64"
        );
        assert_eq!(wider(Type::F16), "b16 b32 b64 b128 f16");
        assert_eq!(wider(Type::Bf16), "b16");
    }

    #[test]
    fn constants() {
        let expected = |ty: Type| ExpectedType {
            ty,
            bits: ty.bits(),
            wider: false,
            alone: false,
            fixed: false,
        };
        let (single, double) = (FloatValue::F32(0), FloatValue::F64(0));
        assert!(expected(Type::F32).takes_float(double) && expected(Type::F64).takes_float(single));
        assert!(
            expected(Type::B32).takes_float(single) && !expected(Type::B32).takes_float(double)
        );
        assert!(
            !expected(Type::U32).takes_float(single) && !expected(Type::F16).takes_float(single)
        );
        assert!(expected(Type::U16).takes_integer() && expected(Type::Pred).takes_integer());
        assert!(!expected(Type::F32).takes_integer() && !expected(Type::U16x2).takes_integer());
    }

    #[test]
    fn adjacent_elements_of_a_vector() {
        assert!(
            compatible_in_vector(Type::B32, Type::F32)
                && compatible_in_vector(Type::U32, Type::S32)
        );
        assert!(
            compatible_in_vector(Type::B32, Type::Pred)
                && !compatible_in_vector(Type::U32, Type::Pred)
        );
        assert!(
            !compatible_in_vector(Type::U32, Type::F32)
                && !compatible_in_vector(Type::B16, Type::B32)
        );
        assert!(
            compatible_in_vector(Type::F16x2, Type::B32)
                && !compatible_in_vector(Type::F16x2, Type::U32)
        );
    }
}
