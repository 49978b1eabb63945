//! Resolves the operands of the text to arguments.

use super::build::Builder;
use super::module_data::{align_of, element_bytes, size_of};
use super::module_symbol::ModuleSymbol;
use super::scope::Symbol;
use crate::program::ir::byte_offset::ByteOffset;
use crate::program::ir::{
    Arg, ArgList, Base, Instruction, LoweringError, Modifiers, Reg, RegClass, Storage,
};
use ptx::ast::{AddressBase, Body, Linkage, List, Name, Operand, Span, Variable};
use ptx::names::{Modifier, Opcode, SpecialRegister, Type};

/// Bytes of shared memory that kernels reach by `%reserved_smem_offset_0` and its like: as
/// many as on a GPU.
const RESERVED_SHARED: u32 = 1024;

/// A constant that may stand for a register.
const WARP_SZ: &str = "WARP_SZ";

impl<'m, 'a> Builder<'m, 'a> {
    pub(in crate::program) fn lookup(&mut self, name: Name<'a>) -> Result<Symbol, LoweringError> {
        if let Some(symbol) = self.find(name) {
            return Ok(symbol);
        }
        let unknown = || {
            let span = self.module.span(name);
            match SpecialRegister::from_text(name.text) {
                Some(_) => LoweringError::unsupported(
                    span,
                    format!("{} as an operand of this instruction", name.text),
                ),
                None => LoweringError::invalid(span, format!("{} is not declared", name.text)),
            }
        };
        match self
            .module
            .symbols
            .get(name.text)
            .copied()
            .ok_or_else(unknown)?
        {
            ModuleSymbol::Global(index) => Ok(Symbol::Variable(Storage::Global(index))),
            ModuleSymbol::Shared(variable) => {
                let storage = self.allocate_shared(variable)?;
                Ok(Symbol::Variable(storage))
            }
            ModuleSymbol::Local(variable) => {
                // One for all functions of the kernel.
                let at = std::ptr::from_ref(variable) as usize;
                let storage = match self.module_locals.get(&at) {
                    Some(&storage) => storage,
                    None => self.allocate_local(variable)?,
                };
                self.module_locals.insert(at, storage);
                Ok(Symbol::Variable(storage))
            }
            ModuleSymbol::Function(function) => match self.module.functions.address(function) {
                Some(address) => Ok(Symbol::Function(address)),
                None => Err(LoweringError::unsupported(
                    self.module.span(name),
                    format!("the address of {}, a kernel or undefined", name.text),
                )),
            },
            ModuleSymbol::Opaque => Err(LoweringError::unsupported(
                self.module.span(name),
                format!("{}: a sampler separate from its texture", name.text),
            )),
        }
    }

    /// The storage of a shared variable in this kernel, allocated on first use.
    pub(in crate::program) fn allocate_shared(
        &mut self,
        variable: &Variable<'a>,
    ) -> Result<Storage, LoweringError> {
        let at = std::ptr::from_ref(variable) as usize;
        if let Some(&storage) = self.shared_storage.get(&at) {
            return Ok(storage);
        }
        let align = align_of(variable);
        let unsized_array = variable.dims.iter().any(Option::is_none);
        let storage = if variable.linkage == Linkage::Extern || unsized_array {
            // The runtime aligns it to 16 bytes.
            self.dynamic_align = self.dynamic_align.max(align).max(16);
            Storage::DynamicShared
        } else {
            let size = size_of(variable);
            let offset = u64::from(self.shared_bytes).next_multiple_of(align.into());
            let end = size.and_then(|size| u32::try_from(offset + size).ok());
            self.shared_bytes =
                end.ok_or_else(|| LoweringError::invalid(variable.span, "too much shared memory"))?;
            Storage::Shared(offset as u32)
        };
        self.shared_storage.insert(at, storage);
        self.note_elements(storage, variable);
        Ok(storage)
    }

    /// The value of a special register that names a part of the reserved shared memory. A
    /// kernel that names one has such memory beside its own variables.
    fn reserved_offset(
        &mut self,
        register: SpecialRegister,
        span: Span,
    ) -> Result<Option<u32>, LoweringError> {
        use SpecialRegister as S;
        let within = match register {
            S::ReservedSmemOffsetBegin | S::ReservedSmemOffset0 => 0,
            S::ReservedSmemOffset1 => RESERVED_SHARED / 2,
            S::ReservedSmemOffsetEnd => RESERVED_SHARED,
            S::ReservedSmemOffsetCap => return Ok(Some(RESERVED_SHARED)),
            _ => return Ok(None),
        };
        let start = match self.reserved_shared {
            Some(start) => start,
            None => {
                let start = self.shared_bytes.checked_next_multiple_of(16);
                let end = start.and_then(|start| start.checked_add(RESERVED_SHARED));
                let too_large = || LoweringError::invalid(span, "too much shared memory");
                self.shared_bytes = end.ok_or_else(too_large)?;
                let start = self.shared_bytes - RESERVED_SHARED;
                *self.reserved_shared.insert(start)
            }
        };
        Ok(Some(start + within))
    }

    fn register(&mut self, name: Name<'a>) -> Result<Reg, LoweringError> {
        match self.lookup(name)? {
            Symbol::Register(reg) => Ok(reg),
            _ => Err(LoweringError::invalid(
                self.module.span(name),
                format!("{} is not a register", name.text),
            )),
        }
    }

    /// Operands of a load or store in one form: a vector of one element is that element, and an
    /// element of an array as the address, which operand `address` is, the address of it.
    pub(in crate::program) fn normalize_access(&mut self, args: ArgList, address: u32) {
        let args = args.start as usize..(args.start + args.len) as usize;
        for (number, at) in (0..).zip(args) {
            match self.args[at] {
                Arg::List(ArgList { start, len: 1 }) => self.args[at] = self.args[start as usize],
                Arg::Symbol(storage, offset) if number == address => {
                    self.args[at] = Arg::Address(Base::Storage(storage), offset);
                }
                _ => {}
            }
        }
    }

    /// Those of nearly all operands.
    #[inline]
    fn plain_argument(&self, operand: &'m Operand<'a>) -> Option<Arg> {
        match operand {
            Operand::Name(name) if name.text != WARP_SZ => {
                Some(Arg::Reg(self.known_register(*name)?))
            }
            Operand::Address {
                base: AddressBase::Name(name),
                offset,
                ..
            } => Some(Arg::Address(
                Base::Reg(self.known_register(*name)?),
                ByteOffset::new(*offset)?,
            )),
            Operand::Integer(n) => Some(Arg::Int(n.value)),
            Operand::Float(f) => Some(Arg::Float(f.value)),
            _ => None,
        }
    }

    /// The components of a vector of registers, as one operand.
    pub(in crate::program) fn vector(&mut self, first: Reg, components: u8) -> Arg {
        let start = self.args.len() as u32;
        let parts = (0..u32::from(components)).map(|i| Arg::Reg(Reg(first.0 + i)));
        self.args.extend(parts);
        Arg::List(ArgList {
            start,
            len: components.into(),
        })
    }

    pub(in crate::program) fn argument(
        &mut self,
        body: &'m Body<'a>,
        operand: &'m Operand<'a>,
    ) -> Result<Arg, LoweringError> {
        Ok(match operand {
            Operand::Name(name) if name.text == WARP_SZ => Arg::Int(32),
            Operand::Name(name) => match self.lookup(*name)? {
                Symbol::Register(reg) => Arg::Reg(reg),
                Symbol::Vector(first, count) => self.vector(first, count),
                Symbol::Variable(storage) => Arg::Symbol(storage, ByteOffset::ZERO),
                Symbol::Function(address) => Arg::Int(address),
                Symbol::Label(_) | Symbol::Targets(_) | Symbol::Prototype(_) => {
                    return Err(LoweringError::unsupported(
                        self.module.span(*name),
                        format!("the address of the label {}", name.text),
                    ));
                }
            },
            Operand::Special(register, span) => match self.reserved_offset(*register, *span)? {
                Some(offset) => Arg::Int(offset.into()),
                None => Arg::Special(*register),
            },
            Operand::Component { name, component } => match self.lookup(*name)? {
                Symbol::Vector(first, count) if *component < count => {
                    Arg::Reg(Reg(first.0 + u32::from(*component)))
                }
                _ => {
                    return Err(LoweringError::invalid(
                        self.module.span(*name),
                        format!("{} has no such component", name.text),
                    ));
                }
            },
            Operand::Integer(n) => Arg::Int(n.value),
            Operand::Float(f) => Arg::Float(f.value),
            Operand::Not(name) => Arg::Not(self.register(*name)?),
            Operand::Negated(name) => Arg::Select {
                reg: self.register(*name)?,
                negated: true,
                selector: Modifier::NONE,
            },
            Operand::Select {
                name,
                negated,
                selector,
            } => Arg::Select {
                reg: self.register(*name)?,
                negated: *negated,
                // Code generation rejects selectors that no table has.
                selector: Modifier::from_text(selector.text()).unwrap_or(Modifier::UNKNOWN),
            },
            Operand::Offset { name, offset } => match self.lookup(*name)? {
                Symbol::Variable(storage) => {
                    self.symbol_at(storage, *offset, self.module.span(*name))
                }
                Symbol::Register(reg) => {
                    self.register_plus(reg, *offset, self.module.span(*name))?
                }
                _ => {
                    return Err(LoweringError::invalid(
                        self.module.span(*name),
                        format!("{} is neither a register nor a variable", name.text),
                    ));
                }
            },
            Operand::Address { base, offset, .. } => match base {
                AddressBase::Immediate(span) => self.address_at(Base::Absolute, *offset, *span),
                AddressBase::Name(name) => match self.lookup(*name)? {
                    Symbol::Register(reg) => {
                        self.address_at(Base::Reg(reg), *offset, self.module.span(*name))
                    }
                    Symbol::Variable(storage) => {
                        self.address_at(Base::Storage(storage), *offset, self.module.span(*name))
                    }
                    _ => {
                        return Err(LoweringError::invalid(
                            self.module.span(*name),
                            format!("{} is neither a register nor a variable", name.text),
                        ));
                    }
                },
            },
            Operand::Vector(list, _) | Operand::Pair(list, _) | Operand::Indexed(list, _) => {
                Arg::List(self.arguments(body, *list)?)
            }
            Operand::Sink(_) => Arg::Sink,
            Operand::Element(list, span) => self.element(body, *list, *span)?,
            Operand::Arguments(_, span) => {
                return Err(LoweringError::unsupported(
                    *span,
                    "unsupported kind of operand",
                ));
            }
        })
    }

    /// The address of an element of an array, `name[4]`.
    fn element(
        &mut self,
        body: &'m Body<'a>,
        list: List,
        span: Span,
    ) -> Result<Arg, LoweringError> {
        let [Operand::Name(array), index] = body.list(list) else {
            return Err(LoweringError::invalid(span, "not an element of an array"));
        };
        let Symbol::Variable(storage) = self.lookup(*array)? else {
            let message = format!("{} is not a variable", array.text);
            return Err(LoweringError::invalid(span, message));
        };
        let Operand::Integer(index) = index else {
            return Err(LoweringError::unsupported(span, "an index in a register"));
        };
        let offset = match self.elements.get(&storage) {
            _ if index.value == 0 => 0,
            Some(Some(bytes)) => index.value.wrapping_mul(u64::from(*bytes)),
            _ => {
                let reason = "an index into this array other than 0";
                return Err(LoweringError::unsupported(span, reason));
            }
        };
        Ok(self.symbol_at(storage, offset.cast_signed(), span))
    }

    /// An address operand. A distance that no [`ByteOffset`] holds is added to the base before.
    fn address_at(&mut self, base: Base, bytes: i64, span: Span) -> Arg {
        match (ByteOffset::new(bytes), base) {
            (Some(offset), _) => Arg::Address(base, offset),
            (None, Base::Reg(reg)) => self.address_from(Arg::Reg(reg), bytes, span),
            (None, Base::Storage(storage)) => {
                self.address_from(Arg::Symbol(storage, ByteOffset::ZERO), bytes, span)
            }
            (None, Base::Absolute) => self.address_from(Arg::Int(0), bytes, span),
        }
    }

    fn address_from(&mut self, base: Arg, bytes: i64, span: Span) -> Arg {
        Arg::Address(Base::Reg(self.sum(base, bytes, span)), ByteOffset::ZERO)
    }

    /// The address of a variable, or of a place at a distance from it.
    fn symbol_at(&mut self, storage: Storage, bytes: i64, span: Span) -> Arg {
        match ByteOffset::new(bytes) {
            Some(offset) => Arg::Symbol(storage, offset),
            None => Arg::Reg(self.sum(Arg::Symbol(storage, ByteOffset::ZERO), bytes, span)),
        }
    }

    /// A register with an address and a distance added.
    fn sum(&mut self, address: Arg, bytes: i64, span: Span) -> Reg {
        self.integer_sum(address, bytes, (RegClass::I64, Modifier::U64), span)
    }

    /// `%r + 1` as an operand: of integers, in the width of the register.
    fn register_plus(&mut self, reg: Reg, value: i64, span: Span) -> Result<Arg, LoweringError> {
        let class = self.registers[reg.index()];
        let ty = match class {
            RegClass::I16 => Modifier::U16,
            RegClass::I32 => Modifier::U32,
            RegClass::I64 => Modifier::U64,
            RegClass::Pred | RegClass::F32 | RegClass::F64 => {
                let reason = "a sum with a register that is no integer, as an operand";
                return Err(LoweringError::unsupported(span, reason));
            }
        };
        let sum = self.integer_sum(Arg::Reg(reg), value, (class, ty), span);
        Ok(Arg::Reg(sum))
    }

    fn integer_sum(
        &mut self,
        to: Arg,
        value: i64,
        (class, ty): (RegClass, Modifier),
        span: Span,
    ) -> Reg {
        let sum = self.new_register(class);
        let mut modifiers = Modifiers::default();
        modifiers.push(ty);
        let args = [Arg::Reg(sum), to, Arg::Int(value.cast_unsigned())];
        self.push_synthetic(Opcode::Add, modifiers, &args, span);
        sum
    }

    /// Notes the size of the elements of an array in shared or local memory.
    pub(in crate::program) fn note_elements(&mut self, storage: Storage, variable: &Variable<'a>) {
        let bytes = match variable.dims.len() {
            1 => u32::try_from(element_bytes(variable)).ok(),
            _ => None,
        };
        // All arrays in dynamic shared memory have one storage.
        let known = self.elements.entry(storage).or_insert(bytes);
        if *known != bytes {
            *known = None;
        }
    }

    /// Resolves a list of operands into consecutive arguments.
    pub(in crate::program) fn arguments(
        &mut self,
        body: &'m Body<'a>,
        list: List,
    ) -> Result<ArgList, LoweringError> {
        let operands = body.list(list);
        // Nested lists are resolved first: an argument list must be consecutive.
        let mut few = [Arg::Sink; 12];
        let mut many = Vec::new();
        let resolved = match few.get_mut(..operands.len()) {
            Some(few) => few,
            None => {
                many.resize(operands.len(), Arg::Sink);
                &mut many[..]
            }
        };
        for (slot, operand) in resolved.iter_mut().zip(operands) {
            *slot = match self.plain_argument(operand) {
                Some(plain) => plain,
                None => self.argument(body, operand)?,
            };
        }
        let start = self.args.len() as u32;
        self.args.extend_from_slice(resolved);
        Ok(ArgList {
            start,
            len: operands.len() as u32,
        })
    }

    /// The same on values of 64 bits, of which each of 128 bits has two.
    pub(in crate::program) fn in_halves(
        &mut self,
        instruction: &Instruction,
    ) -> Result<Instruction, LoweringError> {
        let Instruction {
            opcode, span, line, ..
        } = *instruction;
        if matches!(opcode, Opcode::Cp | Opcode::Clusterlaunchcontrol) {
            // It reads no value of the type, or does not mind what the value is.
            return Ok(*instruction);
        }
        if !matches!(
            opcode,
            Opcode::Mov | Opcode::Ld | Opcode::Ldu | Opcode::St | Opcode::Atom
        ) {
            return Err(LoweringError::unsupported(span, "values of type .b128"));
        }
        let mut modifiers = Modifiers::default();
        for &word in instruction.modifiers.as_slice() {
            modifiers.push(match word.as_type() {
                Some(Type::B128) => Modifier::B64,
                _ => word,
            });
        }
        let list = instruction.args;
        for at in list.start..list.start + list.len {
            let Some(Arg::List(outer)) = self.args.get(at as usize).copied() else {
                continue;
            };
            // `{%rq0, %rq1}` is a list of lists.
            let mut parts = Vec::new();
            for inner in outer.start..outer.start + outer.len {
                match self.args[inner as usize] {
                    Arg::List(ArgList { start, len }) => {
                        let inner = start as usize..(start + len) as usize;
                        parts.extend_from_slice(&self.args[inner]);
                    }
                    Arg::Sink if opcode != Opcode::Mov => parts.extend([Arg::Sink; 2]),
                    part => parts.push(part),
                }
            }
            let start = self.args.len() as u32;
            let len = parts.len() as u32;
            self.args.extend(parts);
            self.args[at as usize] = Arg::List(ArgList { start, len });
        }
        Ok(Instruction::new(opcode, modifiers, list, span, line))
    }
}
