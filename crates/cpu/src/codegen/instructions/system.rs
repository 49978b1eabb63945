//! Calls of CUDA's device runtime: `vprintf`, `malloc`, `free`, `__assertfail`.

use cranelift_codegen::ir::{InstBuilder, Value, types};

use crate::codegen::emitter::{EmitResult, Emitter};
use crate::program::{ArgList, Reg, RegClass, SystemCall};
use crate::runtime::Helper;

impl Emitter<'_, '_> {
    pub fn system_call(
        &mut self,
        call: SystemCall,
        args: ArgList,
        result: Option<Reg>,
        line: u32,
    ) -> EmitResult<()> {
        self.line = line;
        self.set_guard(None);
        let mut values: Vec<Value> = Vec::with_capacity(5);
        for &arg in self.list(args) {
            let narrow = match arg {
                crate::program::Arg::Reg(reg) => {
                    matches!(
                        self.program.registers[reg.index()],
                        RegClass::I32 | RegClass::F32
                    )
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
            (SystemCall::Malloc, &[bytes]) => {
                Some(self.call(Helper::malloc, &[context, thread, line, bytes]))
            }
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
            // Lowering has checked the number of arguments.
            _ => None,
        };
        if let (Some(value), Some(reg)) = (value, result) {
            self.set_register(reg, value);
        }
        Ok(())
    }

    /// Ends the function if the helper has recorded a fault.
    pub fn fail_if(&mut self, failed: Value) {
        let ok = self.b.create_block();
        let fail = self.fail;
        self.b.ins().brif(failed, fail, &[], ok, &[]);
        self.enter(ok);
    }
}
