//! Operands of the text → resolved arguments.

use super::build::Builder;
use super::data::{ModuleSymbol, align_of, size_of};
use super::scope::Symbol;
use super::{Arg, ArgList, Base, Place, Refusal, Reg};
use ptx::ast::{AddressBase, Body, Linkage, List, Name, Operand, Variable};
use ptx::names::{Modifier, SpecialRegister};

impl<'m, 'a> Builder<'m, 'a> {
    pub(super) fn lookup(&mut self, name: Name<'a>) -> Result<Symbol, Refusal> {
        if let Some(symbol) = self.scopes.find(name.text) {
            return Ok(symbol);
        }
        let unknown = || {
            let span = self.module.span(name);
            match SpecialRegister::from_text(name.text) {
                Some(_) => Refusal::unsupported(span, format!("{} without `mov`", name.text)),
                None => Refusal::invalid(span, format!("{} is not declared", name.text)),
            }
        };
        match self
            .module
            .symbols
            .get(name.text)
            .copied()
            .ok_or_else(unknown)?
        {
            ModuleSymbol::Global(index) => Ok(Symbol::Variable(Place::Global(index))),
            ModuleSymbol::Shared(variable) => {
                let place = self.place_shared(variable)?;
                Ok(Symbol::Variable(place))
            }
            ModuleSymbol::Function(_) => Err(Refusal::unsupported(
                self.module.span(name),
                format!("the address of the function {}", name.text),
            )),
            ModuleSymbol::Opaque => Err(Refusal::unsupported(
                self.module.span(name),
                format!("{}: samplers apart from their textures", name.text),
            )),
        }
    }

    /// The place of a shared variable in this kernel, taken on first use.
    pub(super) fn place_shared(&mut self, variable: &Variable<'a>) -> Result<Place, Refusal> {
        let at = std::ptr::from_ref(variable) as usize;
        if let Some(&place) = self.shared_places.get(&at) {
            return Ok(place);
        }
        let align = align_of(variable);
        let unsized_array = variable.dims.iter().any(Option::is_none);
        let place = if variable.linkage == Linkage::Extern || unsized_array {
            // The runtime puts it at a multiple of 16.
            self.dynamic_align = self.dynamic_align.max(align).max(16);
            Place::DynamicShared
        } else {
            let size = size_of(variable);
            let offset = u64::from(self.shared_bytes).next_multiple_of(align.into());
            let end = size.and_then(|size| u32::try_from(offset + size).ok());
            self.shared_bytes =
                end.ok_or_else(|| Refusal::invalid(variable.span, "too much shared memory"))?;
            Place::Shared(offset as u32)
        };
        self.shared_places.insert(at, place);
        Ok(place)
    }

    fn register(&mut self, name: Name<'a>) -> Result<Reg, Refusal> {
        match self.lookup(name)? {
            Symbol::Register(reg) => Ok(reg),
            _ => Err(Refusal::invalid(
                self.module.span(name),
                format!("{} is not a register", name.text),
            )),
        }
    }

    pub(super) fn argument(
        &mut self,
        body: &'m Body<'a>,
        operand: &'m Operand<'a>,
    ) -> Result<Arg, Refusal> {
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
                Symbol::Variable(place) => Arg::Symbol(place, 0),
                Symbol::Label(_) | Symbol::Range(..) => {
                    return Err(Refusal::unsupported(
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
                    return Err(Refusal::invalid(
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
                // No table has every selector: those that none has are refused later.
                selector: Modifier::from_text(selector.text()).unwrap_or(Modifier::UNKNOWN),
            },
            Operand::Offset { name, offset } => match self.lookup(*name)? {
                Symbol::Variable(place) => Arg::Symbol(place, *offset),
                _ => {
                    return Err(Refusal::invalid(
                        self.module.span(*name),
                        format!("{} is not a variable", name.text),
                    ));
                }
            },
            Operand::Address { base, offset, .. } => match base {
                AddressBase::Immediate(_) => Arg::Address(Base::Absolute, *offset),
                AddressBase::Name(name) => match self.lookup(*name)? {
                    Symbol::Register(reg) => Arg::Address(Base::Reg(reg), *offset),
                    Symbol::Variable(place) => Arg::Address(Base::Place(place), *offset),
                    _ => {
                        return Err(Refusal::invalid(
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
            Operand::Arguments(_, span) | Operand::Element(_, span) => {
                return Err(Refusal::unsupported(*span, "this kind of operand"));
            }
        })
    }

    /// Resolves a list of operands into consecutive arguments.
    pub(super) fn arguments(&mut self, body: &'m Body<'a>, list: List) -> Result<ArgList, Refusal> {
        let operands = body.list(list);
        // Nested lists go first: an argument list must be consecutive.
        let mut resolved = [Arg::Sink; 12];
        if operands.len() > resolved.len() {
            let span = body.span;
            return Err(Refusal::unsupported(span, "so many operands"));
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
