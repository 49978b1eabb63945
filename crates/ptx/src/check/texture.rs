//! Texture and surface operands: `[texture, sampler, {x, y}]`, and handles.

use super::operand::{Checked, Direction, OperandChecker};
use super::symbols::Symbol;
use super::type_match::{self, ExpectedType};
use crate::ast::{AddressBase, List, Name, Operand, Space};
use crate::diagnostic::{Code, Diagnostic};
use crate::features::since;
use crate::isa::{Count, Kind};
use crate::names::{Modifier, Opcode, Type};
use crate::requirements::Requirement;
use crate::version::Floor;

/// The type of the first coordinate of an array.
const LAYER: ExpectedType = ExpectedType {
    ty: Type::U32,
    bits: 32,
    wider: false,
    alone: false,
    fixed: true,
};

/// The type of an offset in texels.
const OFFSET: ExpectedType = ExpectedType {
    ty: Type::S32,
    bits: 32,
    wider: false,
    alone: false,
    fixed: true,
};

/// A texture or surface by its address in a register.
const INDIRECT: Floor = since(3, 1, 20);

/// The same with separate samplers.
const INDIRECT_SEPARATE: Floor = since(4, 3, 20);

/// A sampler in unified mode, or an offset.
const SAMPLER_OR_OFFSET: Floor = since(4, 3, 30);

impl<'a> OperandChecker<'_, '_, '_, 'a> {
    /// `[texture, {x, y}]`, `[texture, sampler, {x, y}]`, `[surface, {x, y}]`.
    /// The expected type is that of the coordinates.
    pub(super) fn texture(&self, operand: &Operand<'a>) -> Checked {
        let Operand::Indexed(list, span) = *operand else {
            let message = "expected coordinates in these brackets, as in `[texture, {x, y}]`";
            return self.wrong(operand, message);
        };
        let samples = matches!(self.instruction.opcode, Opcode::Tex | Opcode::Tld4);
        let apart = self.checker.context.allowed.independent;
        let opaque = if samples { Type::Texref } else { Type::Surfref };
        match self.checker.body.list(list) {
            [texture, coordinates] if !(samples && apart) => {
                self.opaque(texture, opaque)?;
                self.texture_coordinates(coordinates)
            }
            [texture, sampler, coordinates, offset @ ..] if samples && offset.len() < 2 => {
                if !offset.is_empty() {
                    self.needs("an offset inside the brackets", SAMPLER_OR_OFFSET, operand)?;
                } else if !apart {
                    self.needs("a sampler in unified mode", SAMPLER_OR_OFFSET, operand)?;
                }
                self.opaque(texture, opaque)?;
                let kind = if apart {
                    Type::Samplerref
                } else {
                    Type::Texref
                };
                self.opaque(sampler, kind)?;
                let cubes = [Modifier::Cube, Modifier::Acube];
                let modifiers = self.checker.modifiers(self.instruction);
                if !apart && modifiers.first_of(&cubes).is_some() {
                    let message = "a cube takes a sampler only with `.target texmode_independent`";
                    return self.wrong(operand, message);
                }
                self.texture_coordinates(coordinates)?;
                offset.iter().try_for_each(|offset| self.offset(offset))
            }
            _ => Err(Diagnostic::new(
                Code::OperandCount,
                span,
                if samples && apart {
                    "expected a texture, a sampler and coordinates"
                } else {
                    "expected a texture or surface and coordinates"
                },
            )),
        }
    }

    /// `[texture]` of a query. In unified mode a query of a sampler takes the texture.
    pub(super) fn handle(&self, operand: &Operand<'a>, opaque: Type) -> Checked {
        let opaque = match opaque {
            Type::Samplerref if !self.checker.context.allowed.independent => Type::Texref,
            opaque => opaque,
        };
        match *operand {
            Operand::Address {
                base: AddressBase::Name(name),
                offset: 0,
                ..
            } => self.named_opaque(operand, name, opaque),
            _ => self.wrong(operand, format!("expected a `.{}`", opaque.text())),
        }
    }

    fn opaque(&self, operand: &Operand<'a>, opaque: Type) -> Checked {
        match *operand {
            Operand::Name(name) => self.named_opaque(operand, name, opaque),
            _ => self.wrong(operand, format!("expected a `.{}`", opaque.text())),
        }
    }

    /// A variable of that type, or a register of 64 bits that holds its address.
    fn named_opaque(&self, operand: &Operand<'a>, name: Name<'a>, opaque: Type) -> Checked {
        match self.checker.symbol(name.text) {
            None if !self.checker.is_special(name) => Ok(()),
            Some(Symbol::Variable(variable, _)) if variable.ty == opaque => Ok(()),
            // `.tex .u64 t` declares a texture in PTX 1.x.
            Some(Symbol::Variable(variable, _))
                if variable.space == Space::Tex && opaque == Type::Texref =>
            {
                Ok(())
            }
            Some(Symbol::Register { ty, vector: 1 })
                if type_match::is_address(ty) && ty.bits() == 64 =>
            {
                let samples = matches!(self.instruction.opcode, Opcode::Tex | Opcode::Tld4);
                let floor = if samples && self.checker.context.allowed.independent {
                    INDIRECT_SEPARATE
                } else {
                    INDIRECT
                };
                self.needs("the address of a texture or surface", floor, operand)
            }
            _ => self.wrong(
                operand,
                format!(
                    "expected a `.{}` or a 64-bit register with its address",
                    opaque.text()
                ),
            ),
        }
    }

    /// Reports an error if the module's version or target does not support this.
    fn needs(&self, what: &'static str, floor: Floor, operand: &Operand<'a>) -> Checked {
        let span = self.span(operand);
        let requirement = Requirement { what, floor, span };
        match self.checker.context.missing_requirement(requirement) {
            Some(wrong) => Err(wrong),
            None => Ok(()),
        }
    }

    /// The offset that ptxas also takes inside the brackets: any vector, whatever
    /// the geometry.
    fn offset(&self, operand: &Operand<'a>) -> Checked {
        let place = OperandChecker {
            expected: Some(OFFSET),
            ..*self
        };
        place.list(Kind::Source, &[1, 2, 4], operand)
    }

    /// One coordinate for each dimension; the first of an array is the layer.
    fn texture_coordinates(&self, operand: &Operand<'a>) -> Checked {
        let modifiers = self.checker.modifiers(self.instruction);
        let counts = Count::Coordinates.numbers(modifiers);
        let layers = [
            Modifier::A1d,
            Modifier::A2d,
            Modifier::Acube,
            Modifier::A2dms,
        ];
        let Operand::Vector(list, span) = *operand else {
            return match *operand {
                Operand::Name(name) => match self.checker.symbol(name.text) {
                    Some(Symbol::Register { ty, vector }) if vector > 1 => {
                        self.check_type(name, ty)
                    }
                    _ => self.register(name),
                },
                _ => self.wrong(operand, "expected coordinates in registers"),
            };
        };
        if !counts.iter().any(|count| u32::from(*count) == list.len) {
            let message = format!(
                "{} coordinates do not match the geometry of the texture",
                list.len
            );
            return Err(Diagnostic::new(Code::OperandCount, span, message));
        }
        if modifiers.first_of(&layers).is_none() {
            return self.elements(list, span, Direction::Read, true);
        }
        let [layer, ..] = self.checker.body.list(list) else {
            return Ok(());
        };
        let place = OperandChecker {
            expected: Some(LAYER),
            ..*self
        };
        place.source(layer)?;
        let remaining = List {
            start: list.start + 1,
            len: list.len - 1,
        };
        self.elements(remaining, span, Direction::Read, true)
    }
}
