//! The emitter: reads operands and writes results for all kinds of instructions.

mod called_check;
pub(super) mod checked_address;
mod cold_code;
mod constants;
pub(super) mod first_code;
mod helper_call;
pub(super) mod machine_code;
mod nan;
pub(super) mod recent_constants;
mod registers;
pub(super) mod rounding;
pub(super) mod thread_state;
pub(super) mod thunks;
pub(super) mod variables;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    Block, FuncRef, InstBuilder, MemFlagsData, StackSlot, Type, Value, types,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, Variable};

use self::first_code::FirstCode;
use self::machine_code::Encoded;
use self::recent_constants::RecentConstants;
use crate::abi::offset;
use crate::program::{
    Arg, ArgList, Base, Guard, Instruction, LoweringError, Program, RegClass, Storage,
};
use ptx::ast::Span;
use ptx::names;

/// Fields of the block context that do not change while a function runs.
pub(in crate::codegen) const READONLY: MemFlagsData =
    MemFlagsData::trusted().with_readonly().with_can_move();

/// Values that are computed once, in the prologue.
///
/// Other fields of the context are loaded where they are used: a value that is live
/// in the whole function would be spilled, which costs as much.
#[derive(Clone, Copy)]
pub(in crate::codegen) struct Invariants {
    pub context: Value,
    /// The size of shared memory in units of 1, 2, 4, 8 and 16 bytes; `None` in first code.
    pub shared_units: Option<[Value; 5]>,
}

/// The thunk of the slow path.
#[derive(Clone, Copy)]
pub(in crate::codegen) struct SlowCheck {
    pub thunk: FuncRef,
    /// Where the context is for it.
    pub context: StackSlot,
}

/// Where the value of a register is.
#[derive(Clone, Copy, Debug)]
pub(in crate::codegen) struct Location {
    /// None where one block alone has the register. A variable takes space for each of the function's
    /// blocks.
    pub variable: Option<Variable>,
    /// The value that the block has last written to it then.
    pub value: Option<Value>,
}

/// Variables of the loop over threads.
#[derive(Clone, Copy)]
pub(in crate::codegen) struct ThreadVariables {
    /// Linear index of the thread.
    pub index: Variable,
    pub tid: [Variable; 3],
}

pub(in crate::codegen) struct Emitter<'e, 'a> {
    pub program: &'e Program<'a>,
    pub b: FunctionBuilder<'e>,
    /// By register.
    pub locations: Vec<Location>,
    pub fixed: Invariants,
    pub thread: ThreadVariables,
    /// The latch of the loop over threads.
    pub next_thread: Block,
    /// Returns 1: a fault has been recorded.
    pub fail: Block,
    pub convention: CallConv,
    /// Where calls of thunks can be patched; `None` in first code.
    pub slow_check: Option<SlowCheck>,
    /// In first code, where it has a thread loop of its own.
    pub first_code: Option<FirstCode>,
    pub recent_constants: RecentConstants,
    pub encoded: Encoded,
    /// The processor has fused multiply-add.
    pub has_fma: bool,
    /// The processor rounds to integral values (SSE4.1).
    pub has_rounding: bool,
    pub has_wide_atomics: bool,
    /// The code tells the sanitizer of its accesses.
    pub is_sanitized: bool,
    /// NaNs get the bits that a GPU gives them.
    pub has_gpu_nans: bool,
    /// PTX line of the current instruction.
    pub line: u32,
    /// The guard of the current instruction.
    pub guard: Option<Value>,
    /// The stack slot for operands and results of texture instructions.
    pub texture_slot: Option<StackSlot>,
}

pub(in crate::codegen) type EmitResult<T> = Result<T, LoweringError>;

/// Cranelift's type for a register class.
pub(in crate::codegen) fn type_of(class: RegClass) -> Type {
    match class {
        RegClass::Pred => types::I8,
        RegClass::I16 => types::I16,
        RegClass::I32 => types::I32,
        RegClass::I64 => types::I64,
        RegClass::F32 => types::F32,
        RegClass::F64 => types::F64,
    }
}

/// Cranelift's type for values of a PTX type, if there is one.
pub(in crate::codegen) fn native(ty: names::Type) -> Option<Type> {
    use names::Type as T;
    Some(match ty {
        T::F32 | T::Tf32 => types::F32,
        T::F64 => types::F64,
        T::Pred => types::I8,
        _ => match ty.bits() {
            8 => types::I8,
            16 => types::I16,
            32 => types::I32,
            64 => types::I64,
            _ => return None,
        },
    })
}

pub(in crate::codegen) fn is_signed(ty: names::Type) -> bool {
    use names::Type as T;
    matches!(ty, T::S8 | T::S16 | T::S32 | T::S64 | T::S16x2 | T::S8x4)
}

impl<'e, 'a> Emitter<'e, 'a> {
    /// The error that the device does not support the instruction.
    pub fn unsupported<T>(&self, instruction: &Instruction, reason: &str) -> EmitResult<T> {
        Err(LoweringError::unsupported(instruction.span, reason))
    }

    /// Operand `i` of an instruction.
    pub fn arg(&self, instruction: &Instruction, i: usize) -> EmitResult<Arg> {
        self.program
            .list(instruction.args)
            .get(i)
            .copied()
            .ok_or_else(|| LoweringError::invalid(instruction.span, "an operand is missing"))
    }

    pub fn arg_count(&self, instruction: &Instruction) -> usize {
        instruction.args.len as usize
    }

    /// The `n`-th type among the modifiers.
    pub fn ty(&self, instruction: &Instruction, n: usize) -> EmitResult<names::Type> {
        instruction
            .modifiers
            .types()
            .nth(n)
            .ok_or_else(|| LoweringError::invalid(instruction.span, "its type is missing"))
    }

    /// Cranelift's type for the `n`-th type among the modifiers.
    pub fn native(&self, instruction: &Instruction, n: usize) -> EmitResult<Type> {
        let ty = self.ty(instruction, n)?;
        native(ty).ok_or_else(|| {
            LoweringError::unsupported(instruction.span, format!("values of type .{}", ty.text()))
        })
    }

    /// The operand as a value of type `ty`. A register of another class is bitcast; a
    /// wider one is truncated, a narrower one zero-extended. The value of a constant
    /// depends on the type of the instruction: where the result's register has another
    /// class, [`mov_operand`](Self::mov_operand) reads the operand.
    pub fn read(&mut self, arg: Arg, ty: Type) -> EmitResult<Value> {
        if let Some(bits) = Self::constant_bits(arg, ty)? {
            return Ok(self.constant(ty, bits));
        }
        let unsupported =
            || LoweringError::unsupported(Span::default(), "unsupported kind of operand");
        Ok(match arg {
            Arg::Reg(reg) => {
                let value = self.register(reg);
                self.coerce(value, ty)
            }
            Arg::Not(reg) => {
                let value = self.register(reg);
                let value = self.not(value);
                self.coerce(value, ty)
            }
            Arg::Special(register) => {
                let value = self.special(register)?;
                self.coerce(value, ty)
            }
            Arg::Symbol(storage, offset) => {
                let value = self.storage_address(storage, offset.bytes());
                self.coerce(value, ty)
            }
            Arg::Sink => self.zero(ty),
            Arg::List(list) => match *self.program.list(list) {
                // `{%r7}` is its element.
                [element] => self.read(element, ty)?,
                _ => return Err(unsupported()),
            },
            // Constants are read above.
            Arg::Int(_) | Arg::Float(_) | Arg::Address(..) | Arg::Select { .. } => {
                return Err(unsupported());
            }
        })
    }

    /// Operand `i` of an instruction that moves bits, as the type `ty` of the result's
    /// register. The bits of a constant are those in the type of the instruction:
    /// `mov.b32` of 1 has the bits 1 also in a register of class `F32`.
    pub fn mov_operand(
        &mut self,
        instruction: &Instruction,
        i: usize,
        ty: Type,
    ) -> EmitResult<Value> {
        let native = self.native(instruction, 0)?;
        match Self::constant_bits(self.arg(instruction, i)?, native)? {
            Some(bits) => Ok(self.constant(ty, bits)),
            None => self.operand(instruction, i, ty),
        }
    }

    /// Predicate operand `i`, 0 or 1. Every constant other than 0 is true.
    pub fn predicate(&mut self, instruction: &Instruction, i: usize) -> EmitResult<Value> {
        match self.arg(instruction, i)? {
            Arg::Int(n) => Ok(self.int(types::I8, u64::from(n != 0))),
            Arg::Float(_) => Err(LoweringError::invalid(
                instruction.span,
                "a floating-point constant as a predicate",
            )),
            _ => self.operand(instruction, i, types::I8),
        }
    }

    /// Reads operand `i` as type `ty`.
    pub fn operand(&mut self, instruction: &Instruction, i: usize, ty: Type) -> EmitResult<Value> {
        let arg = self.arg(instruction, i)?;
        self.read(arg, ty).map_err(|mut error| {
            error.span = instruction.span;
            error
        })
    }

    /// Writes the result to operand 0.
    pub fn result(&mut self, instruction: &Instruction, value: Value) -> EmitResult<()> {
        let arg = self.arg(instruction, 0)?;
        self.write(instruction, arg, value)
    }

    /// The same for an integer that is sign-extended to a wider register.
    pub fn result_signed(
        &mut self,
        instruction: &Instruction,
        value: Value,
        signed: bool,
    ) -> EmitResult<()> {
        let arg = self.arg(instruction, 0)?;
        self.write_extended(instruction, arg, value, signed)
    }

    pub fn write_extended(
        &mut self,
        instruction: &Instruction,
        arg: Arg,
        value: Value,
        signed: bool,
    ) -> EmitResult<()> {
        let mut value = value;
        if let Arg::Reg(reg) = arg {
            let bits = self.program.registers[reg.index()].bytes() * 8;
            let from = self.b.func.dfg.value_type(value);
            if signed && from.is_int() && from.bits() < bits {
                let to = Type::int(bits as u16).unwrap_or(types::I64);
                value = self.b.ins().sextend(to, value);
            }
        }
        self.write(instruction, arg, value)
    }

    pub fn write(&mut self, instruction: &Instruction, arg: Arg, value: Value) -> EmitResult<()> {
        match arg {
            Arg::Reg(reg) => {
                self.set_register(reg, value);
                Ok(())
            }
            Arg::Sink => Ok(()),
            _ => Err(LoweringError::invalid(
                instruction.span,
                "the result operand is not a register",
            )),
        }
    }

    /// The negation of a predicate.
    pub fn not(&mut self, predicate: Value) -> Value {
        self.b.ins().bxor_imm_u(predicate, 1)
    }

    /// Linear index of the thread.
    pub fn thread_index(&mut self) -> Value {
        self.b.use_var(self.thread.index)
    }

    /// Sets the guard of the following instruction.
    pub fn set_guard(&mut self, guard: Option<Guard>) {
        self.guard = None;
        self.guard = guard.map(|guard| self.guard_value(guard));
    }

    /// 1 where the guard is true.
    pub fn guard_value(&mut self, guard: Guard) -> Value {
        let value = self.register(guard.reg);
        if guard.negated {
            self.not(value)
        } else {
            value
        }
    }

    /// The bits of `value` as type `ty`, truncated or zero-extended.
    pub fn coerce(&mut self, value: Value, ty: Type) -> Value {
        let from = self.b.func.dfg.value_type(value);
        if from == ty {
            return value;
        }
        let flags = MemFlagsData::new();
        let int = |bits: u32| Type::int(bits as u16).unwrap_or(types::I64);
        let mut value = value;
        if from.is_float() {
            value = self.b.ins().bitcast(int(from.bits()), flags, value);
        }
        let wanted = int(ty.bits());
        if from.bits() > ty.bits() {
            value = self.b.ins().ireduce(wanted, value);
        } else if from.bits() < ty.bits() {
            value = self.b.ins().uextend(wanted, value);
        }
        if ty.is_float() {
            value = self.b.ins().bitcast(ty, flags, value);
        }
        value
    }

    pub fn icmp_imm(&mut self, cc: IntCC, a: Value, b: i64) -> Value {
        let ty = self.b.func.dfg.value_type(a);
        let b = self.int(ty, b.cast_unsigned());
        self.b.ins().icmp(cc, a, b)
    }

    /// The address of a storage location in its own state space. Module variables
    /// get their generic address.
    pub fn storage_address(&mut self, storage: Storage, at: i64) -> Value {
        match storage {
            Storage::Global(index) => {
                let context = self.fixed.context;
                let globals = self
                    .b
                    .ins()
                    .load(types::I64, READONLY, context, offset::GLOBALS);
                let address = self
                    .b
                    .ins()
                    .load(types::I64, READONLY, globals, index as i32 * 8);
                self.add_offset(address, at)
            }
            Storage::Shared(base) | Storage::Local(base) | Storage::Param(base) => {
                self.int(types::I64, i64::from(base).wrapping_add(at).cast_unsigned())
            }
            Storage::DynamicShared => {
                let base = i64::from(self.program.shared_bytes);
                self.int(types::I64, base.wrapping_add(at).cast_unsigned())
            }
            // Promotion and the lowering of calls have replaced all of these.
            Storage::CallParam(_) | Storage::Stack(_) => self.int(types::I64, 0),
        }
    }

    /// A 64-bit field of the block context.
    pub fn context_word(&mut self, at: i32) -> Value {
        let context = self.fixed.context;
        self.b.ins().load(types::I64, READONLY, context, at)
    }

    pub fn add_offset(&mut self, address: Value, offset: i64) -> Value {
        if offset == 0 {
            address
        } else {
            self.b.ins().iadd_imm_s(address, offset)
        }
    }

    pub fn list(&self, list: ArgList) -> &'e [Arg] {
        self.program.list(list)
    }

    /// Base and offset of address operand `i`.
    pub fn address(&self, instruction: &Instruction, i: usize) -> EmitResult<(Base, i64)> {
        match self.arg(instruction, i)? {
            Arg::Address(base, offset) => Ok((base, offset.bytes())),
            // `name[4]`
            Arg::Symbol(storage, offset) => Ok((Base::Storage(storage), offset.bytes())),
            _ => Err(LoweringError::invalid(
                instruction.span,
                "an address is missing",
            )),
        }
    }
}
