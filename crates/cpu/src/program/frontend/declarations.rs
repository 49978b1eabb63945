//! The variables that a function declares: registers, and their storage.

use super::build::{Builder, MAX_REGISTERS, too_many_registers};
use super::call_params::CallParam;
use super::module_data::{align_of, size_of};
use super::scope::Symbol;
use crate::program::ir::{Arg, LoweringError, Reg, RegClass, Storage};
use ptx::ast::{Space, Variable};
use ptx::names::Type;

impl<'m, 'a> Builder<'m, 'a> {
    pub fn declare(&mut self, variable: &'m Variable<'a>) -> Result<(), LoweringError> {
        let name = variable.name.text;
        let in_frame = match variable.space {
            Space::Local | Space::Param => self.in_frame(variable)?,
            _ => None,
        };
        if let Some(storage) = in_frame {
            self.declare_name(variable.name, None, Symbol::Variable(storage));
            return Ok(());
        }
        let symbol = match variable.space {
            Space::Reg => return self.declare_register(variable),
            Space::Shared => Symbol::Variable(self.allocate_shared(variable)?),
            Space::Local => Symbol::Variable(self.allocate_local(variable)?),
            Space::Param => Symbol::Variable(Storage::CallParam(self.new_call_param(variable)?)),
            Space::Global | Space::Const
                if let Some(&index) = self.module.inner_variables.get(&variable.span.start) =>
            {
                Symbol::Variable(Storage::Global(index))
            }
            Space::Global | Space::Const | Space::Sreg | Space::Tex => {
                return Err(LoweringError::unsupported(
                    variable.span,
                    format!("{name}: a variable of this state space inside a function"),
                ));
            }
        };
        self.declare_name(variable.name, None, symbol);
        Ok(())
    }

    /// New storage for a local variable.
    pub(in crate::program) fn allocate_local(
        &mut self,
        variable: &Variable<'a>,
    ) -> Result<Storage, LoweringError> {
        let too_large = || LoweringError::invalid(variable.span, "too much local memory");
        let size = size_of(variable).ok_or_else(too_large)?;
        let align = u64::from(align_of(variable));
        let offset = u64::from(self.local_bytes).next_multiple_of(align);
        self.local_bytes = u32::try_from(offset + size).map_err(|_| too_large())?;
        self.local_align = self.local_align.max(align_of(variable));
        let storage = Storage::Local(offset as u32);
        self.note_elements(storage, variable);
        Ok(storage)
    }

    pub fn new_call_param(&mut self, variable: &Variable<'a>) -> Result<u32, LoweringError> {
        let size = size_of(variable)
            .and_then(|size| u32::try_from(size).ok())
            .ok_or_else(|| LoweringError::invalid(variable.span, "the parameter is too large"))?;
        self.call_params.push(CallParam {
            size,
            align: align_of(variable),
        });
        Ok(self.call_params.len() as u32 - 1)
    }

    /// Makes registers for a parameter: its symbol, and all of them as one operand.
    pub(in crate::program) fn formal_registers(
        &mut self,
        formal: &Variable<'a>,
    ) -> Result<(Symbol, Arg), LoweringError> {
        let (class, components) = parts_of(formal)?;
        let first = self.new_register(class);
        (1..components).for_each(|_| {
            self.new_register(class);
        });
        let arg = match components {
            1 => Arg::Reg(first),
            _ => self.vector(first, components),
        };
        Ok((symbol_of(first, components), arg))
    }

    fn declare_register(&mut self, variable: &'m Variable<'a>) -> Result<(), LoweringError> {
        let (class, components) = parts_of(variable)?;
        let symbol = symbol_of(Reg(self.registers.len() as u32), components);
        let count = u64::from(variable.count.unwrap_or(1)) * u64::from(components);
        // A short text can declare four billion registers.
        if count > 1 << 20 {
            return Err(LoweringError::unsupported(
                variable.span,
                "more than 1048576 registers in one declaration",
            ));
        }
        self.declare_name(variable.name, variable.count, symbol);
        let before = self.registers.len();
        let end = before + count as usize;
        self.registers.resize(end.min(MAX_REGISTERS + 1), class);
        // The first that is beyond the limit: a copy of a function may have thousands.
        if before <= MAX_REGISTERS && end > MAX_REGISTERS {
            return Err(too_many_registers(variable.span));
        }
        Ok(())
    }
}

/// The registers of a variable: their class and their number.
fn parts_of(variable: &Variable<'_>) -> Result<(RegClass, u8), LoweringError> {
    let unsupported = |reason: String| LoweringError::unsupported(variable.span, reason);
    match variable.ty {
        Type::B128 if variable.vector > 1 => {
            Err(unsupported("vectors of registers of 128 bits".to_owned()))
        }
        // Two registers of 64 bits.
        Type::B128 => Ok((RegClass::I64, 2)),
        ty => match class_of(ty) {
            Some(class) => Ok((class, variable.vector.max(1))),
            None => Err(unsupported(format!("registers of type .{}", ty.text()))),
        },
    }
}

fn symbol_of(first: Reg, components: u8) -> Symbol {
    match components {
        1 => Symbol::Register(first),
        _ => Symbol::Vector(first, components),
    }
}

/// The register class for a declared type, before [`reg_class`](crate::program::ir::reg_class) chooses.
pub(in crate::program) fn class_of(ty: Type) -> Option<RegClass> {
    Some(match ty {
        Type::Pred => RegClass::Pred,
        Type::F32 => RegClass::F32,
        Type::F64 => RegClass::F64,
        _ => match ty.bits() {
            8 | 16 => RegClass::I16,
            32 => RegClass::I32,
            64 => RegClass::I64,
            _ => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use crate::source::check;

    /// The lines of the problems in functions, which begin in line 4, and a kernel behind them.
    fn refused(functions: &str, kernel: &str) -> Vec<u32> {
        let head = ".version 8.0\n.target sm_80\n.address_size 64\n";
        let text = format!("{head}{functions}.entry k() {{\n{kernel}\nret; }}\n");
        let error = check(&text).unwrap_err();
        let limit = "more than 4194304 registers in a kernel and what it calls";
        for problem in &error.problems {
            assert!(problem.message.ends_with(limit), "{error}");
        }
        error.problems.iter().map(|problem| problem.line).collect()
    }

    #[test]
    fn the_registers_of_all_declarations_have_a_limit() {
        let large = |name: &str| format!(".reg .b32 {name}<1048576>;\n");
        let declared: String = ["a", "b", "c", "d"].map(large).concat();
        // What is beyond the limit is declared.
        let kernel = format!("{declared}.reg .b32 e; .reg .v2 .b32 f;\n.reg .b32 g<4>;\n");
        let uses = "mov.b32 e, f.y; add.u32 g0, g3, d1048575;";
        assert_eq!(refused("", &format!("{kernel}{uses}")), [9]);

        let many: String = (0..1000).map(|n| large(&format!("a{n}_"))).collect();
        assert_eq!(refused("", &many), [9]);
    }

    #[test]
    fn registers_of_inlined_functions_count() {
        let function = ".func f() { .reg .b32 a<1048576>; ret; }\n";
        assert_eq!(refused(function, &"call f;\n".repeat(9)), [4]);
    }
}
