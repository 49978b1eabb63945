//! Calls. Device functions are inlined, unless they may call themselves; functions of
//! CUDA's device runtime become calls of the host.

use crate::program::ir::byte_offset::ByteOffset;
use std::collections::HashSet;

use super::build::{Builder, access_of, bits_of};
use super::module_symbol::ModuleSymbol;
use super::scope::Symbol;
use super::stack::{Call, Callee};
use crate::program::ir::{
    Arg, ArgList, Base, LoweringError, Modifiers, RegClass, Step, Storage, SystemCall, Terminator,
};
use ptx::ast::{self, Body, Function, Operand, Space, Span, Statement, Variable};
use ptx::names::{Modifier, Opcode};

/// The limit of nested calls.
const MAX_DEPTH: usize = 64;
/// The limit of blocks in one kernel: its size can double with each level of calls.
const MAX_BLOCKS: usize = 1 << 16;

/// What a call through a register may call, by the function's number; the parameters and the
/// return values of it.
type Indirect<'m, 'a> = (
    Vec<Option<&'m Function<'a>>>,
    &'m [Variable<'a>],
    &'m [Variable<'a>],
);

impl<'m, 'a> Builder<'m, 'a> {
    pub(in crate::program) fn call(
        &mut self,
        body: &'m Body<'a>,
        ast: &'m ast::Instruction,
        line: u32,
    ) -> Result<(), LoweringError> {
        let mut operands = body.list(ast.operands);
        let mut returns: &'m [Operand<'a>] = &[];
        if let [Operand::Arguments(list, _), rest @ ..] = operands {
            returns = body.list(*list);
            operands = rest;
        }
        let (name, operands) = match operands {
            [Operand::Name(name), rest @ ..] => (*name, rest),
            _ => {
                return Err(LoweringError::invalid(
                    ast.span,
                    "a call needs the name of a function",
                ));
            }
        };
        let (arguments, operands): (&'m [Operand<'a>], _) = match operands {
            [Operand::Arguments(list, _), rest @ ..] => (body.list(*list), rest),
            rest => (&[], rest),
        };
        // A register hides a function of its name.
        if let Some(Symbol::Register(address)) = self.find(name) {
            let signature = self.signature_of(body, ast.span, operands)?;
            let (candidates, params, results) = signature;
            let call = Call {
                callee: Callee::Address(address, candidates),
                params,
                returns: results,
                arguments,
                results: returns,
                span: ast.span,
                line,
            };
            return if params.len() == arguments.len() && results.len() == returns.len() {
                self.stack_call(body, &call)
            } else {
                Err(LoweringError::invalid(
                    ast.span,
                    "the call has not the parameters of its prototype",
                ))
            };
        }
        let Some(ModuleSymbol::Function(function)) = self.module.symbols.get(name.text) else {
            return Err(LoweringError::invalid(
                self.module.span(name),
                format!("there is no function {}", name.text),
            ));
        };
        let function = *function;
        if function.params.len() != arguments.len() || function.returns.len() != returns.len() {
            return Err(LoweringError::invalid(
                ast.span,
                format!(
                    "{} takes {} arguments and returns {} values",
                    name.text,
                    function.params.len(),
                    function.returns.len()
                ),
            ));
        }
        match &function.body {
            Some(inner) if self.module.functions.is_recursive(function) => {
                let call = Call {
                    callee: Callee::Function(function, inner),
                    params: &function.params,
                    returns: &function.returns,
                    arguments,
                    results: returns,
                    span: ast.span,
                    line,
                };
                self.stack_call(body, &call)
            }
            Some(inner) => self.inline(body, ast.span, function, inner, returns, arguments),
            None => self.system_call(body, ast.span, name.text, returns, arguments, line),
        }
    }

    fn signature_of(
        &mut self,
        body: &'m Body<'a>,
        span: Span,
        operands: &[Operand<'a>],
    ) -> Result<Indirect<'m, 'a>, LoweringError> {
        let unknown = || {
            let reason = "a call through a register needs a prototype or a list of targets";
            LoweringError::invalid(span, reason)
        };
        let [Operand::Name(name)] = operands else {
            return Err(unknown());
        };
        let found = self.find(*name).ok_or_else(unknown)?;
        let addressed = self.module.functions.addressed();
        let statement = |at: usize| body.statements.get(at);
        match found {
            Symbol::Prototype(at) => match statement(at) {
                Some(Statement::Prototype(prototype)) => {
                    let candidates = addressed.iter().map(|function| Some(*function));
                    Ok((candidates.collect(), &prototype.params, &prototype.returns))
                }
                _ => Err(unknown()),
            },
            Symbol::Targets(at) => match statement(at) {
                Some(Statement::Targets(list)) if list.calls => {
                    let targets = list.targets.iter().map(|target| {
                        match self.module.symbols.get(target.text) {
                            Some(ModuleSymbol::Function(function)) => Ok(*function),
                            _ => Err(unknown()),
                        }
                    });
                    let targets = targets.collect::<Result<Vec<&Function<'a>>, _>>()?;
                    let first = *targets.first().ok_or_else(unknown)?;
                    let names: HashSet<&str> = targets.iter().map(|f| f.name.text).collect();
                    let is_target = |function: &&Function<'a>| names.contains(function.name.text);
                    let candidates = addressed.iter().copied();
                    let candidates = candidates.map(|function| Some(function).filter(is_target));
                    Ok((candidates.collect(), &first.params, &first.returns))
                }
                _ => Err(unknown()),
            },
            _ => Err(unknown()),
        }
    }

    fn inline(
        &mut self,
        caller: &'m Body<'a>,
        span: Span,
        function: &'m Function<'a>,
        body: &'m Body<'a>,
        returns: &'m [Operand<'a>],
        arguments: &'m [Operand<'a>],
    ) -> Result<(), LoweringError> {
        let name = function.name.text;
        if self.calls.len() >= MAX_DEPTH {
            return Err(LoweringError::unsupported(
                span,
                format!("{name} is called through more than {MAX_DEPTH} functions"),
            ));
        }
        let after = self.new_block();
        if after.index() > MAX_BLOCKS {
            return Err(LoweringError::unsupported(
                span,
                "more than 65536 blocks after inlining",
            ));
        }

        // Arguments are resolved in the caller's scope.
        let mut formals = Vec::new();
        for (formal, actual) in function.params.iter().zip(arguments) {
            formals.push(self.bind(caller, formal, actual, true)?);
        }
        let mut results = Vec::new();
        for (formal, actual) in function.returns.iter().zip(returns) {
            let symbol = self.bind(caller, formal, actual, false)?;
            results.push((symbol, self.argument(caller, actual)?));
            formals.push(symbol);
        }

        // The callee sees none of the caller's names.
        let inner = self.scopes_of(body);
        let outer = std::mem::replace(&mut self.scopes, inner);
        for (formal, symbol) in function.params.iter().chain(&function.returns).zip(formals) {
            self.declare_name(formal.name, None, symbol);
        }
        self.calls.push((name, after));
        // The guards of the body are independent of the call's own guard.
        let open = self.suspend_guard();
        self.statements(body);
        self.end_and_open(Terminator::Jump(after), after);
        self.resume_guard(open);
        self.calls.pop();
        self.scopes = outer;

        for ((symbol, actual), formal) in results.into_iter().zip(&function.returns) {
            match (symbol, actual) {
                // The callee writes the caller's variable.
                (Symbol::Variable(from), Arg::Symbol(to, ByteOffset::ZERO)) if from == to => {}
                (Symbol::Register(from), to) => {
                    self.move_parameter(formal, to, Arg::Reg(from), span)?;
                }
                (Symbol::Vector(first, components), to) => {
                    let from = self.vector(first, components);
                    self.move_parameter(formal, to, from, span)?;
                }
                (Symbol::Variable(storage), to) => {
                    self.push_access(Opcode::Ld, formal, to, storage, span)?;
                }
                _ => {
                    return Err(LoweringError::unsupported(
                        span,
                        "a return value of this kind",
                    ));
                }
            }
        }
        Ok(())
    }

    /// The symbol of a formal parameter in this inlined copy of its function.
    fn bind(
        &mut self,
        caller: &'m Body<'a>,
        formal: &'m Variable<'a>,
        actual: &'m Operand<'a>,
        input: bool,
    ) -> Result<Symbol, LoweringError> {
        let arg = self.argument(caller, actual)?;
        if formal.space == Space::Param {
            // A callee cannot write its parameters, so the caller's variable needs
            // no copy.
            if let Arg::Symbol(
                storage @ (Storage::CallParam(_) | Storage::Stack(_)),
                ByteOffset::ZERO,
            ) = arg
            {
                return Ok(Symbol::Variable(storage));
            }
            let storage = match self.in_frame(formal)? {
                Some(storage) => storage,
                None => Storage::CallParam(self.new_call_param(formal)?),
            };
            if input {
                self.push_access(Opcode::St, formal, arg, storage, formal.span)?;
            }
            return Ok(Symbol::Variable(storage));
        }
        let (symbol, to) = self.formal_registers(formal)?;
        if input {
            match arg {
                Arg::Symbol(
                    storage @ (Storage::CallParam(_) | Storage::Stack(_)),
                    ByteOffset::ZERO,
                ) => {
                    self.push_access(Opcode::Ld, formal, to, storage, formal.span)?;
                }
                _ => self.move_parameter(formal, to, arg, formal.span)?,
            }
        }
        Ok(symbol)
    }

    /// Moves a parameter in registers, part by part.
    fn move_parameter(
        &mut self,
        formal: &Variable<'a>,
        to: Arg,
        from: Arg,
        span: Span,
    ) -> Result<(), LoweringError> {
        match (to, from) {
            (Arg::List(to), Arg::List(from)) if to.len == from.len => {
                for part in 0..to.len {
                    let [to, from] = [to, from].map(|list| self.args[(list.start + part) as usize]);
                    self.push_move(bits_of(formal), to, from, span);
                }
            }
            (Arg::Sink, Arg::List(_)) => {}
            (Arg::List(_), _) | (_, Arg::List(_)) => {
                let reason = "an argument with another number of registers than its parameter";
                return Err(LoweringError::unsupported(span, reason));
            }
            _ => self.push_move(bits_of(formal), to, from, span),
        }
        Ok(())
    }

    /// `ld.param` or `st.param` of a whole scalar.
    pub(in crate::program) fn push_access(
        &mut self,
        opcode: Opcode,
        formal: &Variable<'a>,
        value: Arg,
        storage: Storage,
        span: Span,
    ) -> Result<(), LoweringError> {
        let mut modifiers = Modifiers::default();
        modifiers.push(Modifier::Param);
        modifiers.push(access_of(formal, value, span)?);
        let address = Arg::Address(Base::Storage(storage), ByteOffset::ZERO);
        let args = match opcode {
            Opcode::Ld => [value, address],
            _ => [address, value],
        };
        self.push_synthetic(opcode, modifiers, &args, span);
        Ok(())
    }

    fn system_call(
        &mut self,
        caller: &'m Body<'a>,
        span: Span,
        name: &str,
        returns: &'m [Operand<'a>],
        arguments: &'m [Operand<'a>],
        line: u32,
    ) -> Result<(), LoweringError> {
        let (call, types, result): (_, &[Modifier], Option<Modifier>) = match name {
            "vprintf" => (
                SystemCall::Vprintf,
                &[Modifier::B64; 2],
                Some(Modifier::B32),
            ),
            "malloc" => (SystemCall::Malloc, &[Modifier::B64], Some(Modifier::B64)),
            "free" => (SystemCall::Free, &[Modifier::B64], None),
            "__assertfail" => (
                SystemCall::AssertFail,
                &[
                    Modifier::B64,
                    Modifier::B64,
                    Modifier::B32,
                    Modifier::B64,
                    Modifier::B64,
                ],
                None,
            ),
            _ => {
                return Err(LoweringError::invalid(
                    span,
                    format!("{name} is declared but not defined in this module"),
                ));
            }
        };
        if types.len() != arguments.len() || usize::from(result.is_some()) < returns.len() {
            return Err(LoweringError::invalid(
                span,
                format!("{name} takes {} arguments", types.len()),
            ));
        }
        let mut values = Vec::with_capacity(types.len());
        for (&ty, operand) in types.iter().zip(arguments) {
            let arg = self.argument(caller, operand)?;
            let class = if ty == Modifier::B64 {
                RegClass::I64
            } else {
                RegClass::I32
            };
            let reg = Arg::Reg(self.new_register(class));
            let storage = match arg {
                Arg::Symbol(
                    storage @ (Storage::CallParam(_) | Storage::Stack(_)),
                    ByteOffset::ZERO,
                ) => Some(storage),
                _ => None,
            };
            match storage {
                Some(storage) => {
                    let mut modifiers = Modifiers::default();
                    modifiers.push(Modifier::Param);
                    modifiers.push(ty);
                    let address = Arg::Address(Base::Storage(storage), ByteOffset::ZERO);
                    self.push_synthetic(Opcode::Ld, modifiers, &[reg, address], span);
                }
                None => self.push_move(ty, reg, arg, span),
            }
            values.push(reg);
        }
        let start = self.args.len() as u32;
        self.args.extend_from_slice(&values);
        let args = ArgList {
            start,
            len: values.len() as u32,
        };
        let result_register = result.map(|ty| {
            let class = if ty == Modifier::B64 {
                RegClass::I64
            } else {
                RegClass::I32
            };
            self.new_register(class)
        });
        self.push(Step::SystemCall {
            call,
            args,
            result: result_register,
            line,
        });
        if let (Some(reg), Some(ty), [operand]) = (result_register, result, returns) {
            match self.argument(caller, operand)? {
                Arg::Symbol(
                    storage @ (Storage::CallParam(_) | Storage::Stack(_)),
                    ByteOffset::ZERO,
                ) => {
                    let mut modifiers = Modifiers::default();
                    modifiers.push(Modifier::Param);
                    modifiers.push(ty);
                    let address = Arg::Address(Base::Storage(storage), ByteOffset::ZERO);
                    self.push_synthetic(Opcode::St, modifiers, &[address, Arg::Reg(reg)], span);
                }
                to => self.push_move(ty, to, Arg::Reg(reg), span),
            }
        }
        Ok(())
    }
}
