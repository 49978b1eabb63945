//! Reading and writing registers.

use cranelift_codegen::ir::{InstBuilder, Value};

use super::{Emitter, type_of};
use crate::program::Reg;

impl Emitter<'_, '_> {
    /// The value of a register.
    pub fn register(&mut self, reg: Reg) -> Value {
        let location = &self.locations[reg.index()];
        match (location.value, location.variable) {
            (Some(value), _) => value,
            (None, Some(variable)) => self.b.use_var(variable),
            // Such a register is written first.
            (None, None) => {
                let ty = type_of(self.program.registers[reg.index()]);
                self.zero(ty)
            }
        }
    }

    pub fn set_register(&mut self, reg: Reg, value: Value) {
        let class = self.program.registers[reg.index()];
        let mut value = self.coerce(value, type_of(class));
        if let Some(guard) = self.guard {
            let old = self.register(reg);
            value = self.b.ins().select(guard, value, old);
        }
        match self.locations[reg.index()].variable {
            Some(variable) => self.b.def_var(variable, value),
            None => self.locations[reg.index()].value = Some(value),
        }
    }
}
