//! The number that each thread of a block has in a register, where nothing but its
//! index decides: `%tid.x % 3`, `selp 4, 1, %p`.

use std::rc::Rc;

use super::truth::Truths;
use super::values::{Definition, ValueId};
use ptx::ast::{Instruction, Operand};
use ptx::names::{Modifier, Opcode, Type};

/// By thread, in the order of lanes and warps.
pub(super) type Numbers = Rc<[i64]>;

impl Truths<'_, '_, '_> {
    /// The numbers of an operand.
    pub fn numbers(
        &mut self,
        instruction: &Instruction,
        number: u32,
        depth: usize,
    ) -> Option<Numbers> {
        let known = self.dependences.operand(instruction, number);
        if let Some(linear) = known.linear {
            let exact = linear.base.symbol.is_none();
            return exact.then(|| {
                self.block
                    .threads()
                    .map(|thread| linear.at(thread))
                    .collect()
            });
        }
        let place = (instruction.operands.start + number) as usize;
        match self.function.body.operands.get(place)? {
            Operand::Name(_) => self.of_value(self.flow.values.of_operand(place), depth),
            _ => None,
        }
    }

    fn of_value(&mut self, value: ValueId, depth: usize) -> Option<Numbers> {
        if let Some(known) = self.numbers.get(&value) {
            return known.clone();
        }
        let found = depth
            .checked_sub(1)
            .and_then(|depth| self.computed_numbers(value, depth));
        self.numbers.insert(value, found.clone());
        found
    }

    fn computed_numbers(&mut self, value: ValueId, depth: usize) -> Option<Numbers> {
        let flow = self.flow;
        let Definition::Written(id) = flow.values.definition(value)? else {
            return None;
        };
        let instruction = flow.instructions.get(id)?;
        let modifiers = &self.function.mnemonic(instruction).modifiers;
        let ty = modifiers.types().next()?;
        let plain = flow.values.prior(value).is_none()
            && super::effect::is_integer(ty)
            && modifiers.types().count() == 1
            && !modifiers.has(Modifier::Sat)
            && !modifiers.has(Modifier::Cc)
            && !modifiers.has(Modifier::Wide)
            && !modifiers.has(Modifier::Hi);
        if !plain {
            return None;
        }
        if instruction.opcode == Opcode::Selp {
            let condition = self.operand(instruction, 3, depth)?;
            if !condition.may[0].and(condition.may[1]).is_empty() {
                return None;
            }
            let (a, b) = (
                self.numbers(instruction, 1, depth)?,
                self.numbers(instruction, 2, depth)?,
            );
            let holds = |at: usize| condition.may[0].contains(at);
            let choose = |at| if holds(at) { a[at] } else { b[at] };
            return Some((0..a.len()).map(choose).collect());
        }
        let compute = operation(instruction.opcode)?;
        let (a, b) = (
            self.numbers(instruction, 1, depth)?,
            self.numbers(instruction, 2, depth)?,
        );
        let of = |number: i64| of_type(number, ty);
        let each = a.iter().zip(b.iter());
        each.map(|(a, b)| Some(of(compute(of(*a), of(*b))?)))
            .collect::<Option<Vec<_>>>()
            .map(Rc::from)
    }
}

/// What a register of the type has; of 64 bits without a sign, only the small.
fn of_type(number: i64, ty: Type) -> i64 {
    let unused = 64 - ty.bits();
    match ty {
        Type::S8 | Type::S16 | Type::S32 | Type::S64 => number << unused >> unused,
        _ => number & (u64::MAX >> unused) as i64,
    }
}

/// What an instruction computes from two numbers of its type; `None` for a division by
/// zero and the like.
fn operation(opcode: Opcode) -> Option<fn(i64, i64) -> Option<i64>> {
    Some(match opcode {
        Opcode::Add => |a, b| Some(a.wrapping_add(b)),
        Opcode::Sub => |a, b| Some(a.wrapping_sub(b)),
        Opcode::Mul => |a, b| Some(a.wrapping_mul(b)),
        Opcode::And => |a, b| Some(a & b),
        Opcode::Or => |a, b| Some(a | b),
        Opcode::Xor => |a, b| Some(a ^ b),
        Opcode::Min => |a, b| Some(a.min(b)),
        Opcode::Max => |a, b| Some(a.max(b)),
        Opcode::Div => i64::checked_div,
        Opcode::Rem => i64::checked_rem,
        Opcode::Shl => |a, b| a.checked_shl(u32::try_from(b).ok()?),
        Opcode::Shr => |a, b| a.checked_shr(u32::try_from(b).ok()?),
        _ => return None,
    })
}
