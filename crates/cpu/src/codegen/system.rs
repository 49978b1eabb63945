//! Calls of the CUDA runtime's own functions.

use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::emitter::{Emitted, Emitter};
use crate::math::Helper;
use crate::program::{ArgList, Class, Reg, SystemCall};

impl Emitter<'_, '_> {
    pub fn system_call(
        &mut self,
        call: SystemCall,
        args: ArgList,
        result: Option<Reg>,
        line: u32,
    ) -> Emitted<()> {
        self.line = line;
        self.set_guard(None);
        let mut values: Vec<Value> = Vec::with_capacity(5);
        for &arg in self.list(args) {
            let narrow = match arg {
                crate::program::Arg::Reg(reg) => {
                    matches!(self.program.registers[reg.index()], Class::I32 | Class::F32)
                }
                _ => false,
            };
            let ty = if narrow { types::I32 } else { types::I64 };
            values.push(self.read(arg, ty)?);
        }
        let context = self.fixed.context;
        let thread = self.thread_index();
        let line = self.int(types::I32, line.into());
        let value = match (call, values.as_slice()) {
            (SystemCall::Vprintf, &[format, arguments]) => {
                Some(self.call(Helper::vprintf, &[context, format, arguments]))
            }
            (SystemCall::Malloc, &[bytes]) => Some(self.call(Helper::malloc, &[context, bytes])),
            (SystemCall::Free, &[address]) => {
                let failed = self.call(Helper::free, &[context, thread, line, address]);
                self.fail_if(failed);
                None
            }
            (SystemCall::AssertFail, &[message, file, source_line, function, _]) => {
                let args = [context, thread, line, message, file, source_line, function];
                let failed = self.call(Helper::assertfail, &args);
                self.fail_if(failed);
                None
            }
            // Building gives each call its number of arguments.
            _ => None,
        };
        if let (Some(value), Some(reg)) = (value, result) {
            self.set_register(reg, value);
        }
        Ok(())
    }

    /// Stops where the runtime has recorded a fault.
    fn fail_if(&mut self, failed: Value) {
        let on = self.b.create_block();
        let fail = self.fail;
        self.b.ins().brif(failed, fail, &[], on, &[]);
        self.b.switch_to_block(on);
    }
}
