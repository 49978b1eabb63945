//! Calls through a stack: of functions that may call themselves, and through registers.
//! Others are inlined.
//!
//! A kernel has one copy of such a function, to which calls jump. A call writes the number
//! of the place to return to and the arguments into a new frame, and moves the frame
//! pointer; the return jumps by that number through a table. Frames lie in the local memory
//! of the thread, behind its variables. No address of code is in memory or in a register of
//! the PTX: an address of a function is an index into a table, too.

use super::build::{Builder, access_of};
use super::frames::{
    Amount, MAX_JUMPS, RETURN_SITE, Signature, Site, Slot, StackFunction, modifiers_of, slot,
    too_many_jumps,
};
use super::scope::Symbol;
use crate::abi::FaultKind;
use crate::program::ir::byte_offset::ByteOffset;
use crate::program::ir::{Arg, Base, Guard, LoweringError, Reg, RegClass, Storage, Terminator};
use ptx::ast::{Body, Function, Operand, Space, Span, Variable};
use ptx::names::{Modifier, Opcode, Type};

/// The limit of bytes of a parameter that a call copies: each part takes two instructions.
const MAX_PARAMETER: u32 = 1 << 16;
/// The limit of parts of parameters that all calls of a kernel copy.
const MAX_COPIES: u32 = 1 << 18;

/// What a call jumps to.
pub(in crate::program) enum Callee<'m, 'a> {
    Function(&'m Function<'a>, &'m Body<'a>),
    /// One of these functions, whose address is in the register, by its number.
    Address(Reg, Vec<Option<&'m Function<'a>>>),
}

/// A call with its formal and actual parameters.
pub(in crate::program) struct Call<'m, 'a> {
    pub callee: Callee<'m, 'a>,
    pub params: &'m [Variable<'a>],
    pub returns: &'m [Variable<'a>],
    pub arguments: &'m [Operand<'a>],
    pub results: &'m [Operand<'a>],
    pub span: Span,
    pub line: u32,
}

impl<'m, 'a> Builder<'m, 'a> {
    /// The storage of a local variable or a `.param` variable of the function that is being
    /// built, if that is called through the stack: each activation has its own.
    pub(in crate::program) fn in_frame(
        &mut self,
        variable: &Variable<'a>,
    ) -> Result<Option<Storage>, LoweringError> {
        let Some(current) = self.stack.current else {
            return Ok(None);
        };
        let function = &mut self.stack.functions[current];
        let slot = slot(variable, &mut function.frame)?;
        Ok(Some(Storage::Stack(slot.offset)))
    }

    fn frame_pointer(&mut self) -> Reg {
        match self.stack.pointer {
            Some(pointer) => pointer,
            None => {
                let pointer = self.new_register(RegClass::I64);
                self.stack.pointer = Some(pointer);
                pointer
            }
        }
    }

    fn stack_function(
        &mut self,
        function: &'m Function<'a>,
        body: &'m Body<'a>,
    ) -> Result<usize, LoweringError> {
        if let Some(&known) = self.stack.by_name.get(function.name.text) {
            return Ok(known);
        }
        let signature = Signature::new(&function.params, &function.returns)?;
        let (entry, leave) = (self.new_block(), self.new_block());
        self.stack.functions.push(StackFunction {
            function,
            body,
            frame: signature.end,
            signature,
            entry,
            leave,
            table: leave,
            registers: 0..0,
            is_recursive: self.module.functions.is_recursive(function),
            sites: Vec::new(),
        });
        let number = self.stack.functions.len() - 1;
        self.stack.by_name.insert(function.name.text, number);
        Ok(number)
    }

    pub(in crate::program) fn stack_call(
        &mut self,
        body: &'m Body<'a>,
        call: &Call<'m, 'a>,
    ) -> Result<(), LoweringError> {
        let signature = Signature::new(call.params, call.returns)?;
        self.stack.outgoing = self.stack.outgoing.max(signature.end);
        let pointer = self.frame_pointer();
        let formals = call.params.iter().zip(&signature.params);
        for ((formal, slot), actual) in formals.zip(call.arguments) {
            let actual = self.argument(body, actual)?;
            self.copy(Opcode::St, formal, *slot, actual, call.span)?;
        }
        let site = self.stack.sites.len();
        let number = Arg::Int(site as u64);
        self.frame_access(Opcode::St, Modifier::B32, RETURN_SITE, number, call.span);

        let (enter, back) = (self.new_block(), self.new_block());
        let jump = self.jump_to(call, &signature, site)?;
        self.end_and_open(Terminator::Jump(enter), enter);
        self.move_pointer(Opcode::Add, pointer, call.span);
        self.end_and_open(jump, back);
        self.move_pointer(Opcode::Sub, pointer, call.span);
        self.stack.sites.push(Site {
            caller: self.stack.current,
            enter,
            back,
        });

        let formals = call.returns.iter().zip(&signature.returns);
        for ((formal, slot), actual) in formals.zip(call.results) {
            let actual = self.argument(body, actual)?;
            self.copy(Opcode::Ld, formal, *slot, actual, call.span)?;
        }
        Ok(())
    }

    /// The jump to the callee, which will return to `site`.
    fn jump_to(
        &mut self,
        call: &Call<'m, 'a>,
        signature: &Signature,
        site: usize,
    ) -> Result<Terminator, LoweringError> {
        let (address, candidates) = match &call.callee {
            &Callee::Function(function, body) => {
                let number = self.stack_function(function, body)?;
                let callee = &mut self.stack.functions[number];
                callee.sites.push(site);
                return Ok(Terminator::Jump(callee.entry));
            }
            Callee::Address(address, candidates) => (*address, candidates),
        };
        let line = call.line;
        self.stack.jumps += candidates.len();
        if self.stack.jumps > MAX_JUMPS {
            return Err(too_many_jumps(call.span));
        }
        let wrong = self.new_block();
        let fault = Terminator::Fault {
            kind: FaultKind::BadCall,
            address: Some(address),
            line,
        };
        self.put_block(wrong, fault);
        let mut targets = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let callable = candidate.and_then(|function| Some((function, function.body.as_ref()?)));
            let Some((function, body)) = callable else {
                targets.push(wrong);
                continue;
            };
            if Signature::new(&function.params, &function.returns)? != *signature {
                targets.push(wrong);
                continue;
            }
            let number = self.stack_function(function, body)?;
            let callee = &mut self.stack.functions[number];
            callee.sites.push(site);
            targets.push(callee.entry);
        }
        // The number of the function, or a larger one.
        let [offset, least] = [(); 2].map(|()| Arg::Reg(self.new_register(RegClass::I64)));
        let index = Arg::Reg(self.new_register(RegClass::I32));
        let first = Arg::Int(self.module.functions.first());
        let limit = Arg::Int(u32::MAX.into());
        let u64 = [Modifier::U64];
        self.push_with(
            Opcode::Sub,
            &u64,
            &[offset, Arg::Reg(address), first],
            call.span,
        );
        self.push_with(Opcode::Min, &u64, &[least, offset, limit], call.span);
        let convert = [Modifier::U32, Modifier::U64];
        self.push_with(Opcode::Cvt, &convert, &[index, least], call.span);
        Ok(Terminator::Table {
            index,
            targets,
            otherwise: Some(wrong),
            line,
        })
    }

    /// Builds the functions that were called through the stack, and those that they call.
    pub(in crate::program) fn stack_functions(&mut self) {
        let mut number = 0;
        while let Some(callee) = self.stack.functions.get(number) {
            let (function, body) = (callee.function, callee.body);
            if let Err(error) = self.stack_body(number, function, body) {
                self.report(error);
            }
            number += 1;
        }
        self.stack.current = None;
    }

    fn stack_body(
        &mut self,
        number: usize,
        function: &'m Function<'a>,
        body: &'m Body<'a>,
    ) -> Result<(), LoweringError> {
        let span = self.module.span(function.name);
        let line = self.module.line(span);
        let pointer = self.frame_pointer();
        let first = self.registers.len() as u32;
        let callee = &self.stack.functions[number];
        let (entry, leave, signature) = (callee.entry, callee.leave, callee.signature.clone());
        self.stack.current = Some(number);
        self.open(entry);
        self.scopes = self.scopes_of(body);

        let (overflow, fits) = (self.new_block(), self.new_block());
        let reg = self.new_register(RegClass::Pred);
        let at = self.args.len() + 2;
        let compared = [Arg::Reg(reg), Arg::Reg(pointer), Arg::Int(0)];
        self.push_with(
            Opcode::Setp,
            &[Modifier::Gt, Modifier::U64],
            &compared,
            span,
        );
        self.stack.amounts.push((at, Amount::Limit(number)));
        let check = Terminator::Branch {
            predicate: Guard {
                reg,
                negated: false,
            },
            then: overflow,
            otherwise: fits,
        };
        self.end_and_open(check, fits);
        let fault = Terminator::Fault {
            kind: FaultKind::Stack,
            address: None,
            line,
        };
        self.put_block(overflow, fault.clone());

        // Registers among the return values, which the end stores.
        let mut results = Vec::new();
        let params = function.params.iter().zip(&signature.params);
        let returns = function.returns.iter().zip(&signature.returns);
        let params = params.map(|formal| (formal, true));
        for ((formal, slot), is_param) in params.chain(returns.map(|formal| (formal, false))) {
            let symbol = match formal.space {
                Space::Param => Symbol::Variable(Storage::Stack(slot.offset)),
                _ => {
                    let (symbol, value) = self.formal_registers(formal)?;
                    let storage = Storage::Stack(slot.offset);
                    if is_param {
                        self.push_access(Opcode::Ld, formal, value, storage, span)?;
                    } else {
                        results.push((formal, value, storage));
                    }
                    symbol
                }
            };
            self.declare_name(formal.name, None, symbol);
        }
        self.calls = vec![(function.name.text, leave)];
        self.statements(body);
        self.end_and_open(Terminator::Jump(leave), leave);
        for (formal, value, storage) in results {
            self.push_access(Opcode::St, formal, value, storage, span)?;
        }
        let index = Arg::Reg(self.new_register(RegClass::I32));
        let address = Arg::Address(
            Base::Reg(pointer),
            ByteOffset::saturating(RETURN_SITE.into()),
        );
        let load = [Modifier::Local, Modifier::B32];
        self.push_with(Opcode::Ld, &load, &[index, address], span);
        let wrong = self.new_block();
        self.put_block(wrong, fault);
        let table = self.new_block();
        let returns = Terminator::Table {
            index,
            targets: Vec::new(),
            otherwise: Some(wrong),
            line,
        };
        self.end_and_open(Terminator::Jump(table), table);
        self.put_block(table, returns);
        let last = self.registers.len() as u32;
        let callee = &mut self.stack.functions[number];
        callee.registers = first..last;
        callee.table = table;
        Ok(())
    }

    /// Moves the frame pointer by the frame of the function that is being built.
    fn move_pointer(&mut self, opcode: Opcode, pointer: Reg, span: Span) {
        let pointer = Arg::Reg(pointer);
        let at = self.args.len() + 2;
        self.push_with(
            opcode,
            &[Modifier::U64],
            &[pointer, pointer, Arg::Int(0)],
            span,
        );
        if let Some(current) = self.stack.current {
            self.stack.amounts.push((at, Amount::Frame(current)));
        }
    }

    /// Stores an argument to the new frame, or loads a return value from it.
    fn copy(
        &mut self,
        opcode: Opcode,
        formal: &Variable<'a>,
        slot: Slot,
        actual: Arg,
        span: Span,
    ) -> Result<(), LoweringError> {
        if slot.size == 0 && !formal.dims.is_empty() {
            let reason = "a parameter without a size in a call through the stack";
            return Err(LoweringError::unsupported(formal.span, reason));
        }
        let Arg::Symbol(storage @ (Storage::CallParam(_) | Storage::Stack(_)), ByteOffset::ZERO) =
            actual
        else {
            if formal.ty == Type::Pred {
                let reason = "a predicate as the parameter of a call through the stack";
                return Err(LoweringError::unsupported(span, reason));
            }
            if actual != Arg::Sink {
                let ty = access_of(formal, actual, span)?;
                self.frame_access(opcode, ty, slot.offset, actual, span);
            }
            return Ok(());
        };
        if slot.size > MAX_PARAMETER {
            let size = slot.size;
            let reason = format!("a parameter of {size} bytes: at most {MAX_PARAMETER} are copied");
            return Err(LoweringError::unsupported(formal.span, reason));
        }
        let (mut at, mut bytes) = (0, slot.align.min(8));
        while at < slot.size {
            while at + bytes > slot.size {
                bytes /= 2;
            }
            if self.copies >= MAX_COPIES {
                let reason = "calls through the stack copy more than 262144 parts of parameters";
                return Err(LoweringError::unsupported(span, reason));
            }
            self.copies += 1;
            let (ty, class) = match bytes {
                1 => (Modifier::B8, RegClass::I16),
                2 => (Modifier::B16, RegClass::I16),
                4 => (Modifier::B32, RegClass::I32),
                _ => (Modifier::B64, RegClass::I64),
            };
            let part = Arg::Reg(self.new_register(class));
            let param = Arg::Address(Base::Storage(storage), ByteOffset::saturating(at.into()));
            let modifiers = [Modifier::Param, ty];
            if opcode == Opcode::St {
                self.push_with(Opcode::Ld, &modifiers, &[part, param], span);
                self.frame_access(Opcode::St, ty, slot.offset + at, part, span);
            } else {
                self.frame_access(Opcode::Ld, ty, slot.offset + at, part, span);
                self.push_with(Opcode::St, &modifiers, &[param, part], span);
            }
            at += bytes;
        }
        Ok(())
    }

    /// An access to the frame behind that of the function that is being built.
    fn frame_access(&mut self, opcode: Opcode, ty: Modifier, offset: u32, value: Arg, span: Span) {
        let pointer = self.frame_pointer();
        let address = Arg::Address(Base::Reg(pointer), ByteOffset::saturating(offset.into()));
        let (at, args) = match opcode {
            Opcode::Ld => (1, [value, address]),
            _ => (0, [address, value]),
        };
        if let Some(current) = self.stack.current {
            let at = self.args.len() + at;
            self.stack.amounts.push((at, Amount::Frame(current)));
        }
        self.push_with(opcode, &[Modifier::Local, ty], &args, span);
    }

    fn push_with(&mut self, opcode: Opcode, modifiers: &[Modifier], args: &[Arg], span: Span) {
        self.push_synthetic(opcode, modifiers_of(modifiers), args, span);
    }
}

#[cfg(test)]
mod tests {
    use crate::source::check;

    const HEAD: &str = ".version 8.3\n.target sm_90\n.address_size 64\n";

    /// The problems in a module whose text begins in line 4.
    #[track_caller]
    fn refused(text: &str, expected: &[(u32, &str)]) {
        let error = check(&format!("{HEAD}{text}")).unwrap_err();
        assert_eq!(error.problems.len(), expected.len(), "{error}");
        for (problem, (line, reason)) in error.problems.iter().zip(expected) {
            assert_eq!(problem.line, *line, "{error}");
            assert!(problem.message.contains(reason), "{error}");
        }
    }

    #[test]
    fn large_parameters_are_refused() {
        let text = ".func big(.param .align 8 .b8 a[200000000]) {
            { .param .align 8 .b8 b[200000000]; call big, (b); } ret; }
            .entry k() { .param .align 8 .b8 b[200000000]; call big, (b); ret; }";
        let reason = "a parameter of 200000000 bytes: at most 65536 are copied";
        refused(text, &[(4, reason)]);

        // Of five calls four fit; no other does.
        let function =
            ".func f(.param .b8 a[65536]) { { .param .b8 b[65536]; call f, (b); } ret; }";
        let calls = "call f, (b);\n".repeat(5);
        let text = format!("{function}\n.entry k() {{ .param .b8 b[65536];\n{calls}ret; }}");
        let reason = "copy more than 262144 parts of parameters";
        refused(&text, &[(4, reason), (10, reason)]);
    }

    #[test]
    fn parameters_without_a_size_are_refused() {
        let text = ".func v(.param .b32 n, .param .b8 rest[]) {
            { .param .b32 m; .param .b8 b[4]; call v, (m, b); } ret; }
            .entry k() { .param .b32 m; .param .b8 b[4]; call v, (m, b); ret; }";
        refused(text, &[(4, "a parameter without a size")]);
    }

    #[test]
    fn constants_of_128_bits_are_refused() {
        let text = ".func f(.param .b128 p) { { .param .b128 q; call f, (q); } ret; }
            .entry k() { call f, (5); ret; }";
        refused(text, &[(5, "a constant as a parameter of 128 bits")]);
    }
}
