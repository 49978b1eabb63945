//! Resolves the operands of the text to arguments.

use super::build::Builder;
use super::ir::{Arg, ArgList, Base, LoweringError, Reg, Storage};
use super::module_data::{ModuleSymbol, align_of, size_of};
use super::scope::Symbol;
use ptx::ast::{AddressBase, Body, Linkage, List, Name, Operand, Variable};
use ptx::names::{Modifier, SpecialRegister};

impl<'m, 'a> Builder<'m, 'a> {
    pub(super) fn lookup(&mut self, name: Name<'a>) -> Result<Symbol, LoweringError> {
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
            ModuleSymbol::Function(_) => Err(LoweringError::unsupported(
                self.module.span(name),
                format!("the address of the function {}", name.text),
            )),
            ModuleSymbol::Opaque => Err(LoweringError::unsupported(
                self.module.span(name),
                format!("{}: a sampler separate from its texture", name.text),
            )),
        }
    }

    /// The storage of a shared variable in this kernel, allocated on first use.
    pub(super) fn allocate_shared(
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
        Ok(storage)
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

    pub(super) fn argument(
        &mut self,
        body: &'m Body<'a>,
        operand: &'m Operand<'a>,
    ) -> Result<Arg, LoweringError> {
        Ok(match operand {
            Operand::Name(name) if name.text == "WARP_SZ" => Arg::Int(32),
            Operand::Name(name) => match self.lookup(*name)? {
                Symbol::Register(reg) => Arg::Reg(reg),
                Symbol::Vector(first, count) => {
                    let start = self.args.len() as u32;
                    let parts = (0..u32::from(count)).map(|i| Arg::Reg(Reg(first.0 + i)));
                    self.args.extend(parts);
                    Arg::List(ArgList {
                        start,
                        len: count.into(),
                    })
                }
                Symbol::Variable(storage) => Arg::Symbol(storage, 0),
                Symbol::Label(_) | Symbol::Targets(_) => {
                    return Err(LoweringError::unsupported(
                        self.module.span(*name),
                        format!("the address of the label {}", name.text),
                    ));
                }
            },
            Operand::Special(register, _) => Arg::Special(*register),
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
                Symbol::Variable(storage) => Arg::Symbol(storage, *offset),
                _ => {
                    return Err(LoweringError::invalid(
                        self.module.span(*name),
                        format!("{} is not a variable", name.text),
                    ));
                }
            },
            Operand::Address { base, offset, .. } => match base {
                AddressBase::Immediate(_) => Arg::Address(Base::Absolute, *offset),
                AddressBase::Name(name) => match self.lookup(*name)? {
                    Symbol::Register(reg) => Arg::Address(Base::Reg(reg), *offset),
                    Symbol::Variable(storage) => Arg::Address(Base::Storage(storage), *offset),
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
            Operand::Element(list, span) => match *body.list(*list) {
                [Operand::Name(name), Operand::Integer(index)] if index.value == 0 => {
                    match self.lookup(name)? {
                        Symbol::Variable(storage) => Arg::Symbol(storage, 0),
                        _ => {
                            return Err(LoweringError::invalid(
                                self.module.span(name),
                                format!("{} is not an array", name.text),
                            ));
                        }
                    }
                }
                _ => {
                    return Err(LoweringError::unsupported(
                        *span,
                        "the address of an element other than the first",
                    ));
                }
            },
            Operand::Arguments(_, span) => {
                return Err(LoweringError::unsupported(
                    *span,
                    "unsupported kind of operand",
                ));
            }
        })
    }

    /// Resolves a list of operands into consecutive arguments.
    pub(super) fn arguments(
        &mut self,
        body: &'m Body<'a>,
        list: List,
    ) -> Result<ArgList, LoweringError> {
        let operands = body.list(list);
        // Nested lists are resolved first: an argument list must be consecutive.
        let mut resolved = [Arg::Sink; 12];
        if operands.len() > resolved.len() {
            let span = body.span;
            return Err(LoweringError::unsupported(span, "more than 12 operands"));
        }
        for (slot, operand) in resolved.iter_mut().zip(operands) {
            *slot = self.argument(body, operand)?;
        }
        let start = self.args.len() as u32;
        self.args.extend_from_slice(&resolved[..operands.len()]);
        Ok(ArgList {
            start,
            len: operands.len() as u32,
        })
    }
}
