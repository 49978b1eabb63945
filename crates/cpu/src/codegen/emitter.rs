//! What the families of instructions write with: operands in, results out.
//!
//! A family is written once, for "the value" of an operand. What that is, the
//! emitter's [`Lane`] says: the register of one thread, or a piece of a vector
//! that holds the register of several neighbouring threads.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use cranelift_codegen::ir::{
    AbiParam, Block, Endianness, FuncRef, InstBuilder, MemFlagsData, Signature, StackSlot, Type,
    Value, types,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, Variable};

use crate::block::{FaultKind, offset};
use crate::math::{Helper, Scalar};
use crate::program::{
    Arg, ArgList, Base, Class, Guard, Instruction, Place, Program, Refusal, Reg, Shape, float_bits,
};
use ptx::ast::Span;
use ptx::names;

/// What the code of a block context never changes while a function runs.
pub(super) const FIXED: MemFlagsData = MemFlagsData::trusted().with_readonly().with_can_move();

/// Lanes keep their order whatever their type.
pub(super) const LANES: MemFlagsData = MemFlagsData::new().with_endianness(Endianness::Little);

/// Lanes of a class in one vector of 16 bytes.
pub(super) fn lanes_in_piece(class: Class) -> u32 {
    if class.bytes() == 8 { 2 } else { 4 }
}

/// Values that the whole function uses, known from its start.
///
/// The rest of the context is loaded where it is used: that costs no more than
/// a value that lives so long in memory that it would be spilled.
#[derive(Clone, Copy)]
pub(super) struct Invariants {
    pub context: Value,
    /// The shared memory in units of 1, 2, 4, 8 and 16 bytes.
    pub shared_units: [Value; 5],
    /// How many of them a group's first thread may start at, of 4 and 8 bytes.
    pub shared_starts: [Value; 2],
}

/// What an instruction is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// The one thread, or what all threads of a group share.
    Whole,
    /// The threads of one vector: 4 of 32 bits or 2 of 64.
    Piece(u32),
    /// One thread of a group.
    Single(u32),
}

/// Where a register is held: in one variable what threads share, else in the
/// vectors of their values.
#[derive(Clone, Debug)]
pub(super) struct Home {
    pub shape: Shape,
    pub variables: Vec<Variable>,
}

/// Variables of the loop over threads.
#[derive(Clone, Copy)]
pub(super) struct ThreadVariables {
    /// Linear index of the (first) thread.
    pub index: Variable,
    pub tid: [Variable; 3],
}

pub(super) struct Emitter<'e, 'a> {
    pub program: &'e Program<'a>,
    pub b: FunctionBuilder<'e>,
    /// Where each register is held.
    pub homes: Vec<Home>,
    /// Threads that run together; 1 in the scalar function.
    pub width: u32,
    /// For whom the next instruction is written.
    pub lane: Lane,
    pub fixed: Invariants,
    pub thread: ThreadVariables,
    /// Where a thread that exits goes.
    pub next_thread: Block,
    /// Returns 1.
    pub fail: Block,
    pub convention: CallConv,
    /// Calls `check_neighbours` and preserves every register, where there is one.
    pub keeper: Option<FuncRef>,
    /// The processor multiplies and adds in one rounding.
    pub has_fma: bool,
    pub has_rounding: bool,
    /// The instruction at hand, for its line and name.
    pub line: u32,
    pub guard: Option<Value>,
    /// What single threads of the group have written.
    pub pending: Vec<(Reg, u32, Value)>,
    /// Where operands and results of texture instructions lie, once there is one.
    pub scratch: Option<StackSlot>,
    /// Values of the step at hand and their vectors.
    pub spreads: Vec<(Value, Value)>,
}

pub(super) type Emitted<T> = Result<T, Refusal>;

/// The type of a class in code.
pub(super) fn type_of(class: Class) -> Type {
    match class {
        Class::Pred => types::I8,
        Class::I16 => types::I16,
        Class::I32 => types::I32,
        Class::I64 => types::I64,
        Class::F32 => types::F32,
        Class::F64 => types::F64,
    }
}

/// The type in code of a value of a PTX type; `None` for what code cannot hold.
pub(super) fn native(ty: names::Type) -> Option<Type> {
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

/// The bits of a constant where the instruction has a value of type `ty`; `None`
/// for any other operand.
fn constant_bits(arg: Arg, ty: Type) -> Emitted<Option<u64>> {
    match arg {
        Arg::Int(_) if ty.is_float() => Err(Refusal::invalid(
            Span::default(),
            "an integer, where a floating-point constant belongs",
        )),
        Arg::Int(n) => Ok(Some(n)),
        Arg::Float(value) => Ok(Some(float_bits(value, ty.bytes().into()))),
        _ => Ok(None),
    }
}

pub(super) fn is_signed(ty: names::Type) -> bool {
    use names::Type as T;
    matches!(ty, T::S8 | T::S16 | T::S32 | T::S64 | T::S16x2)
}

impl<'e, 'a> Emitter<'e, 'a> {
    /// The instruction cannot be run, for this reason.
    pub fn refuse<T>(&self, instruction: &Instruction, reason: &str) -> Emitted<T> {
        Err(Refusal::unsupported(instruction.span, reason))
    }

    /// Operand `i` of an instruction.
    pub fn arg(&self, instruction: &Instruction, i: usize) -> Emitted<Arg> {
        self.program
            .list(instruction.args)
            .get(i)
            .copied()
            .ok_or_else(|| Refusal::invalid(instruction.span, "an operand is missing"))
    }

    pub fn arg_count(&self, instruction: &Instruction) -> usize {
        instruction.args.len as usize
    }

    /// The `n`-th type among the modifiers.
    pub fn ty(&self, instruction: &Instruction, n: usize) -> Emitted<names::Type> {
        instruction
            .modifiers
            .types()
            .nth(n)
            .ok_or_else(|| Refusal::invalid(instruction.span, "its type is missing"))
    }

    /// The type in code of the `n`-th type.
    pub fn native(&self, instruction: &Instruction, n: usize) -> Emitted<Type> {
        let ty = self.ty(instruction, n)?;
        native(ty).ok_or_else(|| {
            Refusal::unsupported(instruction.span, format!("values of type .{}", ty.text()))
        })
    }

    /// An integer constant, cut to the type's width; the same in every lane.
    pub fn int(&mut self, ty: Type, value: u64) -> Value {
        let value = self.amount(ty, value);
        self.spread(value)
    }

    /// A constant that stays one number: the amount of a shift.
    pub fn amount(&mut self, ty: Type, value: u64) -> Value {
        let masked = value & (u64::MAX >> (64 - ty.lane_bits().clamp(1, 64)));
        self.b.ins().iconst(ty, masked.cast_signed())
    }

    pub fn float(&mut self, ty: Type, value: f64) -> Value {
        let value = if ty == types::F32 {
            self.b.ins().f32const(value as f32)
        } else {
            self.b.ins().f64const(value)
        };
        self.spread(value)
    }

    /// A floating-point constant by its bits.
    pub fn float_bits(&mut self, ty: Type, bits: u64) -> Value {
        let value = if ty == types::F32 {
            self.b.ins().f32const(Ieee32::with_bits(bits as u32))
        } else {
            self.b.ins().f64const(Ieee64::with_bits(bits))
        };
        self.spread(value)
    }

    /// The operand as a value of type `ty`: registers of another type give
    /// their bits, wider ones their low bits, narrower ones are zero-extended.
    /// The type of the instruction decides about a constant: where a register is
    /// held as another type, [`moved`](Self::moved) reads the operand.
    pub fn read(&mut self, arg: Arg, ty: Type) -> Emitted<Value> {
        if let Some(bits) = constant_bits(arg, ty)? {
            return Ok(self.constant(ty, bits));
        }
        Ok(match arg {
            Arg::Reg(reg) => {
                let value = self.register(reg);
                self.reshape(value, ty)
            }
            Arg::Not(reg) => {
                let value = self.register(reg);
                let value = self.not(value);
                self.reshape(value, ty)
            }
            Arg::Special(register) => {
                let value = self.special(register)?;
                let value = self.spread_affine(register, value);
                self.reshape(value, ty)
            }
            Arg::Symbol(place, offset) => {
                let value = self.place_address(place, offset);
                let value = self.spread(value);
                self.reshape(value, ty)
            }
            Arg::Sink => self.zero(ty),
            // Constants have been read above.
            Arg::Int(_) | Arg::Float(_) | Arg::Address(..) | Arg::List(_) | Arg::Select { .. } => {
                return Err(Refusal::unsupported(
                    Span::default(),
                    "this kind of operand",
                ));
            }
        })
    }

    /// A constant by its bits.
    fn constant(&mut self, ty: Type, bits: u64) -> Value {
        if ty.is_float() {
            self.float_bits(ty, bits)
        } else {
            self.int(ty, bits)
        }
    }

    /// Operand `i` of an instruction that moves bits, in the type `held` of the
    /// result's register. The bits of a constant are those that the type of the
    /// instruction gives it: `mov.b32` of 1 is 1 in a register held as `f32`, too.
    pub fn moved(&mut self, instruction: &Instruction, i: usize, held: Type) -> Emitted<Value> {
        let ty = self.native(instruction, 0)?;
        match constant_bits(self.arg(instruction, i)?, ty)? {
            Some(bits) => Ok(self.constant(held, bits)),
            None => self.operand(instruction, i, held),
        }
    }

    /// Predicate operand `i`, 0 or 1. Every constant but 0 is true.
    pub fn predicate(&mut self, instruction: &Instruction, i: usize) -> Emitted<Value> {
        match self.arg(instruction, i)? {
            Arg::Int(n) => Ok(self.int(types::I8, u64::from(n != 0))),
            Arg::Float(_) => Err(Refusal::invalid(
                instruction.span,
                "a floating-point constant, where a predicate belongs",
            )),
            _ => self.operand(instruction, i, types::I8),
        }
    }

    /// Reads operand `i` as type `ty`.
    pub fn operand(&mut self, instruction: &Instruction, i: usize, ty: Type) -> Emitted<Value> {
        let arg = self.arg(instruction, i)?;
        self.read(arg, ty).map_err(|mut refusal| {
            refusal.span = instruction.span;
            refusal
        })
    }

    /// Writes the result to operand 0.
    pub fn result(&mut self, instruction: &Instruction, value: Value) -> Emitted<()> {
        let arg = self.arg(instruction, 0)?;
        self.write(instruction, arg, value)
    }

    /// The same for an integer that a wider register takes sign-extended.
    pub fn result_signed(
        &mut self,
        instruction: &Instruction,
        value: Value,
        signed: bool,
    ) -> Emitted<()> {
        let arg = self.arg(instruction, 0)?;
        self.write_extended(instruction, arg, value, signed)
    }

    pub fn write_extended(
        &mut self,
        instruction: &Instruction,
        arg: Arg,
        value: Value,
        signed: bool,
    ) -> Emitted<()> {
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

    pub fn write(&mut self, instruction: &Instruction, arg: Arg, value: Value) -> Emitted<()> {
        match arg {
            Arg::Reg(reg) => {
                self.set_register(reg, value);
                Ok(())
            }
            Arg::Sink => Ok(()),
            _ => Err(Refusal::invalid(
                instruction.span,
                "the result needs a register",
            )),
        }
    }

    /// A predicate's opposite.
    pub fn not(&mut self, predicate: Value) -> Value {
        if self.b.func.dfg.value_type(predicate).is_vector() {
            self.b.ins().bnot(predicate)
        } else {
            self.b.ins().bxor_imm_u(predicate, 1)
        }
    }

    /// Linear index of the thread that the lane at hand stands for.
    pub fn thread_index(&mut self) -> Value {
        let first = self.b.use_var(self.thread.index);
        match self.lane {
            Lane::Single(lane) => self.add_offset(first, lane.into()),
            _ => first,
        }
    }

    /// What follows changes registers only where the guard holds.
    pub fn set_guard(&mut self, guard: Option<Guard>) {
        self.guard = None;
        self.guard = guard.map(|guard| self.holds(guard));
    }

    /// 1 where the guard holds.
    pub fn holds(&mut self, guard: Guard) -> Value {
        let value = self.register(guard.reg);
        if guard.negated {
            self.not(value)
        } else {
            value
        }
    }

    /// The bits of `value` as type `ty`: cut, or extended with zeros.
    pub fn reshape(&mut self, value: Value, ty: Type) -> Value {
        let from = self.b.func.dfg.value_type(value);
        if from.is_vector() {
            let wanted = self.shaped(ty);
            return if from == wanted {
                value
            } else {
                self.b.ins().bitcast(wanted, LANES, value)
            };
        }
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

    pub fn zero(&mut self, ty: Type) -> Value {
        if ty.is_float() {
            self.float(ty, 0.0)
        } else {
            self.int(ty, 0)
        }
    }

    pub fn icmp(&mut self, cc: IntCC, a: Value, b: Value) -> Value {
        self.b.ins().icmp(cc, a, b)
    }

    pub fn icmp_imm(&mut self, cc: IntCC, a: Value, b: i64) -> Value {
        let ty = self.b.func.dfg.value_type(a).lane_type();
        let b = self.int(ty, b.cast_unsigned());
        self.b.ins().icmp(cc, a, b)
    }

    pub fn fcmp(&mut self, cc: FloatCC, a: Value, b: Value) -> Value {
        if !self.b.func.dfg.value_type(a).is_vector() {
            return self.b.ins().fcmp(cc, a, b);
        }
        // Two comparisons that Cranelift has no vector instruction for.
        let (first, second) = match cc {
            FloatCC::OrderedNotEqual => (FloatCC::Ordered, FloatCC::NotEqual),
            FloatCC::UnorderedOrEqual => (FloatCC::Unordered, FloatCC::Equal),
            _ => return self.b.ins().fcmp(cc, a, b),
        };
        let first = self.b.ins().fcmp(first, a, b);
        let second = self.b.ins().fcmp(second, a, b);
        if cc == FloatCC::OrderedNotEqual {
            self.b.ins().band(first, second)
        } else {
            self.b.ins().bor(first, second)
        }
    }

    pub fn select(&mut self, condition: Value, a: Value, b: Value) -> Value {
        let ty = self.b.func.dfg.value_type(a);
        if !ty.is_vector() {
            return self.b.ins().select(condition, a, b);
        }
        let mask = self.b.func.dfg.value_type(condition);
        let condition = if mask == ty {
            condition
        } else {
            self.b.ins().bitcast(ty, LANES, condition)
        };
        self.b.ins().bitselect(condition, a, b)
    }

    /// Calls a function of the runtime.
    pub fn call(&mut self, helper: Helper, args: &[Value]) -> Value {
        let (params, result) = helper.signature();
        let ty = |scalar: Scalar| match scalar {
            Scalar::I32 => types::I32,
            Scalar::I64 => types::I64,
            Scalar::F32 => types::F32,
            Scalar::F64 => types::F64,
        };
        let mut signature = Signature::new(self.convention);
        signature
            .params
            .extend(params.iter().map(|&p| AbiParam::new(ty(p))));
        signature.returns.push(AbiParam::new(ty(result)));
        debug_assert_eq!(params.len(), args.len(), "{}", helper.name());
        let signature = self.b.import_signature(signature);
        let at = helper as i32 * 8;
        let helpers = self.word(offset::HELPERS);
        let function = self.b.ins().load(types::I64, FIXED, helpers, at);
        let call = self.b.ins().call_indirect(signature, function, args);
        self.b.inst_results(call)[0]
    }

    /// A helper over plain operands: sources from 1 on, then `extra` constants.
    pub fn call_over(
        &mut self,
        instruction: &Instruction,
        helper: Helper,
        ty: Type,
        sources: usize,
        extra: &[u32],
    ) -> Emitted<Value> {
        let mut args = Vec::with_capacity(sources + extra.len());
        for i in 1..=sources {
            args.push(self.operand(instruction, i, ty)?);
        }
        for &n in extra {
            args.push(self.int(types::I32, n.into()));
        }
        Ok(self.call(helper, &args))
    }

    /// Stops with a fault that is no access. Ends the block.
    pub fn fault(&mut self, kind: FaultKind) {
        let thread = self.thread_index();
        let kind = self.int(types::I32, kind as u64);
        let zero = self.int(types::I64, 0);
        let access = self.int(types::I32, 0);
        let line = self.int(types::I32, self.line.into());
        let context = self.fixed.context;
        self.call(Helper::fault, &[context, kind, thread, zero, access, line]);
        let fail = self.fail;
        self.b.ins().jump(fail, &[]);
    }

    /// The address of a place in its own space; module variables, which have
    /// none, at their generic address.
    pub fn place_address(&mut self, place: Place, at: i64) -> Value {
        match place {
            Place::Global(index) => {
                let context = self.fixed.context;
                let globals = self
                    .b
                    .ins()
                    .load(types::I64, FIXED, context, offset::GLOBALS);
                let address = self
                    .b
                    .ins()
                    .load(types::I64, FIXED, globals, index as i32 * 8);
                self.add_offset(address, at)
            }
            Place::Shared(base) | Place::Local(base) | Place::Param(base) => {
                self.int(types::I64, (i64::from(base) + at).cast_unsigned())
            }
            Place::DynamicShared => {
                let base = i64::from(self.program.shared_bytes);
                self.int(types::I64, (base + at).cast_unsigned())
            }
            // Areas have become registers or local memory before this.
            Place::Area(_) => self.int(types::I64, 0),
        }
    }

    /// A word of the context.
    pub fn word(&mut self, at: i32) -> Value {
        let context = self.fixed.context;
        self.b.ins().load(types::I64, FIXED, context, at)
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

    /// The address operand `i`: what it counts from, and the offset.
    pub fn address(&self, instruction: &Instruction, i: usize) -> Emitted<(Base, i64)> {
        match self.arg(instruction, i)? {
            Arg::Address(base, offset) => Ok((base, offset)),
            // `[x]` may be written without brackets nowhere.
            _ => Err(Refusal::invalid(instruction.span, "an address is missing")),
        }
    }
}
