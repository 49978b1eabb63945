//! Lowers the statements of a kernel to basic blocks.

use std::collections::HashMap;

use super::call_params::CallParam;
use super::frames::Stack;
use super::module_data::{ModuleData, align_of, size_of};
use super::scope::{Scopes, Symbol};
use crate::abi::FaultKind;
use crate::blob::ParamLayout;
use crate::program::ir::{
    Arg, ArgList, Base, BasicBlock, BlockId, Guard, Instruction, LoweringError, Modifiers, Program,
    Reg, RegClass, Step, Storage, Terminator, can_speculate,
};
use crate::program::passes::memory_access;
use ptx::ast::{self, Body, Function, FunctionDirective, Name, Operand, Span, Statement, Variable};
use ptx::isa::Effect;
use ptx::names::{Modifier, Opcode, Type};
use ptx::scope;

/// The limit of registers in a kernel, with those of the functions that it calls.
pub(in crate::program) const MAX_REGISTERS: usize = 1 << 22;

pub(in crate::program) fn too_many_registers(span: Span) -> LoweringError {
    let reason = format!("more than {MAX_REGISTERS} registers in a kernel and what it calls");
    LoweringError::unsupported(span, reason)
}

pub(in crate::program) struct Builder<'m, 'a> {
    pub module: &'m ModuleData<'m, 'a>,
    pub scopes: Scopes<'a>,
    pub registers: Vec<RegClass>,
    pub args: Vec<Arg>,
    pub call_params: Vec<CallParam>,
    pub errors: Vec<LoweringError>,
    blocks: Vec<Option<BasicBlock>>,
    /// Those that have ended, in that order.
    ended: Vec<BlockId>,
    current: BlockId,
    steps: Vec<Step>,
    /// The guard under which the current block runs, and the block that follows
    /// the guarded instructions.
    open_guard: Option<(Guard, BlockId)>,
    pub shared_storage: HashMap<usize, Storage>,
    /// The storage of the module's `.local` variables.
    pub module_locals: HashMap<usize, Storage>,
    /// The bytes of an element of each array of one dimension that an index may stand
    /// behind; `None` where arrays with the same storage differ.
    pub elements: HashMap<Storage, Option<u32>>,
    pub shared_bytes: u32,
    /// Offset of the reserved shared memory, if the kernel uses it.
    pub reserved_shared: Option<u32>,
    /// Alignment of the dynamic shared memory; 1 if there is none.
    pub dynamic_align: u32,
    pub local_bytes: u32,
    /// The largest alignment of a local variable.
    pub local_align: u32,
    carry: Option<Reg>,
    /// The bytes that the next load needs, by a `.pragma` before it.
    pub used_bytes: Option<u64>,
    /// The functions being inlined, outermost first, and the block that each
    /// returns to.
    pub calls: Vec<(&'a str, BlockId)>,
    pub stack: Stack<'m, 'a>,
    /// The parts of parameters that calls through the stack copy, so far.
    pub copies: u32,
}

/// The program of a kernel, before its passes.
pub(in crate::program) struct Built<'m, 'a> {
    pub program: Program<'a>,
    pub stack: Stack<'m, 'a>,
    /// The blocks in the order of the text.
    pub ended: Vec<BlockId>,
    pub call_params: Vec<CallParam>,
}

/// Reads one kernel.
pub(in crate::program) fn build<'m, 'a>(
    module: &'m ModuleData<'m, 'a>,
    kernel: &'m Function<'a>,
    body: &'m Body<'a>,
    block: Option<[u32; 3]>,
) -> Result<Built<'m, 'a>, Vec<LoweringError>> {
    let mut builder = Builder {
        module,
        scopes: Scopes::default(),
        registers: Vec::new(),
        args: Vec::with_capacity(3 * body.statements.len()),
        call_params: Vec::new(),
        errors: Vec::new(),
        blocks: vec![None],
        ended: Vec::new(),
        current: BlockId(0),
        steps: Vec::new(),
        open_guard: None,
        shared_storage: HashMap::new(),
        module_locals: HashMap::new(),
        elements: HashMap::new(),
        used_bytes: None,
        shared_bytes: 0,
        reserved_shared: None,
        dynamic_align: 1,
        local_bytes: 0,
        local_align: 1,
        carry: None,
        calls: Vec::new(),
        stack: Stack::default(),
        copies: 0,
    };
    builder.scopes = builder.scopes_of(body);
    let mut params = Vec::new();
    let mut param_bytes = 0_u32;
    for param in &kernel.params {
        let align = align_of(param);
        let size = size_of(param).and_then(|size| u32::try_from(size).ok());
        let Some((size, end)) = size.and_then(|size| {
            let offset = param_bytes.checked_next_multiple_of(align)?;
            Some((size, offset.checked_add(size)?))
        }) else {
            return Err(vec![LoweringError::invalid(
                param.span,
                "the parameter is too large",
            )]);
        };
        let offset = end - size;
        params.push(ParamLayout {
            offset,
            size,
            align,
        });
        param_bytes = end;
        let symbol = Symbol::Variable(Storage::Param(offset));
        builder.declare_name(param.name, None, symbol);
    }
    builder.statements(body);
    builder.end(Terminator::Exit);
    builder.stack_functions();

    let shared = u64::from(builder.shared_bytes).next_multiple_of(builder.dynamic_align.into());
    let Ok(shared_bytes) = u32::try_from(shared) else {
        return Err(vec![LoweringError::invalid(
            module.span(kernel.name),
            "too much shared memory",
        )]);
    };
    if builder.errors.is_empty() && builder.registers.len() > MAX_REGISTERS {
        builder.report(too_many_registers(module.span(kernel.name)));
    }
    if !builder.errors.is_empty() {
        return Err(builder.errors);
    }
    // Nothing jumps to a block that was never ended.
    let unreachable = || BasicBlock {
        steps: Vec::new(),
        terminator: Terminator::Exit,
    };
    let required_threads = thread_directive(&kernel.directives, "reqntid");
    let mut program = Program {
        name: kernel.name.text,
        line: module.line(module.span(kernel.name)),
        registers: builder.registers,
        blocks: builder
            .blocks
            .into_iter()
            .map(|b| b.unwrap_or_else(unreachable))
            .collect(),
        args: builder.args,
        params,
        param_bytes,
        shared_bytes,
        local_bytes: builder.local_bytes,
        local_align: builder.local_align,
        required_threads,
        block: required_threads.or(block),
        required_cluster: thread_directive(&kernel.directives, "reqnctapercluster"),
        explicit_cluster: kernel
            .directives
            .iter()
            .any(|d| d.name == "explicitcluster"),
        max_threads: thread_directive(&kernel.directives, "maxntid"),
        carry: builder.carry,
        counts_in_shared: false,
    };
    program.counts_in_shared = memory_access::counts_in_shared(&program);
    Ok(Built {
        program,
        stack: builder.stack,
        ended: builder.ended,
        call_params: builder.call_params,
    })
}

/// The block dimensions that a directive names; missing ones are 1.
fn thread_directive(directives: &[FunctionDirective<'_>], name: &str) -> Option<[u32; 3]> {
    let found = directives.iter().find(|d| d.name == name)?;
    let at = |i: usize| found.values.get(i).copied().unwrap_or(1);
    Some([at(0), at(1), at(2)])
}

impl<'m, 'a> Builder<'m, 'a> {
    pub fn new_register(&mut self, class: RegClass) -> Reg {
        // A kernel with one beyond the limit is refused: further ones can be the same.
        if self.registers.len() <= MAX_REGISTERS {
            self.registers.push(class);
        }
        Reg(self.registers.len() as u32 - 1)
    }

    pub fn new_block(&mut self) -> BlockId {
        self.blocks.push(None);
        BlockId(self.blocks.len() as u32 - 1)
    }

    /// Ends the current block and starts a new one, which has no predecessor yet.
    pub fn end(&mut self, terminator: Terminator) {
        let next = self.new_block();
        self.end_and_open(terminator, next);
    }

    /// Opens a block; the current one has ended.
    pub fn open(&mut self, block: BlockId) {
        self.current = block;
    }

    /// A block that only ends.
    pub fn put_block(&mut self, block: BlockId, terminator: Terminator) {
        let steps = Vec::new();
        self.blocks[block.index()] = Some(BasicBlock { steps, terminator });
        self.ended.push(block);
    }

    pub fn end_and_open(&mut self, terminator: Terminator, next: BlockId) {
        let steps = std::mem::take(&mut self.steps);
        self.blocks[self.current.index()] = Some(BasicBlock { steps, terminator });
        self.ended.push(self.current);
        self.current = next;
    }

    /// Ends the block of guarded instructions, if there is one.
    pub fn leave_guard(&mut self) {
        if let Some((_, after)) = self.open_guard.take() {
            self.end_and_open(Terminator::Jump(after), after);
        }
    }

    /// Emits a branch so that the following instructions run only where `guard` is
    /// true.
    pub fn enter_guard(&mut self, guard: Guard) {
        if self.open_guard.is_some_and(|(open, _)| open == guard) {
            return;
        }
        self.leave_guard();
        let inside = self.new_block();
        let after = self.new_block();
        let branch = Terminator::Branch {
            predicate: guard,
            then: inside,
            otherwise: after,
        };
        self.end_and_open(branch, inside);
        self.open_guard = Some((guard, after));
    }

    /// Suspends the open guard while the body of an inlined function is built.
    pub fn suspend_guard(&mut self) -> Option<(Guard, BlockId)> {
        self.open_guard.take()
    }

    pub fn resume_guard(&mut self, guard: Option<(Guard, BlockId)>) {
        self.open_guard = guard;
    }

    pub fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    pub fn report(&mut self, error: LoweringError) {
        self.errors.push(error);
    }

    /// The scopes of a copy of a function with this body: each label gets a block.
    pub fn scopes_of(&mut self, body: &'m Body<'a>) -> Scopes<'a> {
        let label = |_| Symbol::Label(self.new_block());
        Scopes::new(&body.statements, label, |_| {})
    }

    pub fn declare_name(&mut self, name: Name<'a>, count: Option<u32>, symbol: Symbol) {
        // The front end reports what is declared twice.
        let _ = self.scopes.declare(name, count, symbol);
    }

    /// The register with this name, if it is found by a few bytes, as nearly all are.
    #[inline]
    pub fn known_register(&self, name: Name<'a>) -> Option<Reg> {
        let word = self.module.word(name)?;
        let Reg(first) = self.scopes.register(word)?;
        Some(Reg(first + scope::number(word)))
    }

    /// What a name means in the function.
    pub fn find(&self, name: Name<'a>) -> Option<Symbol> {
        if let Some(reg) = self.known_register(name) {
            return Some(Symbol::Register(reg));
        }
        let found = self.scopes.find(name.text)?;
        Some(found.meaning.numbered(found.number))
    }

    pub fn statements(&mut self, body: &'m Body<'a>) {
        for (i, statement) in body.statements.iter().enumerate() {
            match statement {
                Statement::Begin(_) => self.scopes.open(),
                Statement::End(_) => self.scopes.close(),
                Statement::Label(name) => {
                    self.leave_guard();
                    if let Some(Symbol::Label(block)) = self.find(*name) {
                        self.end_and_open(Terminator::Jump(block), block);
                    }
                }
                Statement::Variable(variable) => {
                    if let Err(error) = self.declare(variable) {
                        self.report(error);
                    }
                }
                Statement::Instruction(instruction) => {
                    if let Err(error) = self.instruction(body, instruction) {
                        self.report(error);
                    }
                }
                Statement::Targets(targets) => {
                    self.declare_name(targets.name, None, Symbol::Targets(i));
                }
                Statement::Prototype(prototype) => {
                    self.declare_name(prototype.name, None, Symbol::Prototype(i));
                }
                Statement::Directive(directive) => self.note_used_bytes(directive),
                Statement::Location { .. } => {}
            }
        }
        self.leave_guard();
    }

    fn guard(&mut self, guard: &ast::Guard<'a>) -> Result<Guard, LoweringError> {
        match self.lookup(guard.predicate)? {
            Symbol::Register(reg) => Ok(Guard {
                reg,
                negated: guard.negated,
            }),
            _ => Err(LoweringError::invalid(
                self.module.span(guard.predicate),
                "the guard is not a register",
            )),
        }
    }

    pub fn label(&mut self, name: Name<'a>) -> Result<BlockId, LoweringError> {
        match self.find(name) {
            Some(Symbol::Label(block)) => Ok(block),
            _ => Err(LoweringError::invalid(
                self.module.span(name),
                format!("there is no label {}", name.text),
            )),
        }
    }

    fn instruction(
        &mut self,
        body: &'m Body<'a>,
        ast: &'m ast::Instruction,
    ) -> Result<(), LoweringError> {
        let line = self.module.line(ast.span);
        let used_bytes = self.used_bytes.take();
        let guard = match body.guard(ast) {
            Some(guard) => Some(self.guard(&guard)?),
            None => None,
        };
        if ast.opcode == Opcode::Unknown {
            return Err(LoweringError::invalid(ast.span, "unknown instruction"));
        }
        let modifiers = self.module.ast.mnemonic(ast).modifiers;
        // The front end reports them only where it knows the instruction's forms.
        if modifiers.has(Modifier::UNKNOWN) {
            return Err(LoweringError::unsupported(ast.span, "an unknown modifier"));
        }
        let row = self.module.row(ast);
        let mut instruction = Instruction::of_text(ast, modifiers, row, line);
        if !instruction.meaning.cpu {
            return Err(LoweringError::unsupported(
                ast.span,
                "unsupported instruction",
            ));
        }
        match instruction.meaning.effect {
            Effect::Jump => return self.branch(body, ast, guard),
            Effect::Table => return self.table(body, ast, guard, line),
            Effect::Return => {
                let after = self.calls.last().map(|&(_, after)| after);
                self.guarded_end(guard, after.map_or(Terminator::Exit, Terminator::Jump));
                return Ok(());
            }
            Effect::Exit => {
                self.guarded_end(guard, Terminator::Exit);
                return Ok(());
            }
            Effect::Trap => {
                let trap = Terminator::Fault {
                    kind: FaultKind::Trap,
                    address: None,
                    line,
                };
                self.guarded_end(guard, trap);
                return Ok(());
            }
            Effect::Call => {
                match guard {
                    Some(guard) => self.enter_guard(guard),
                    None => self.leave_guard(),
                }
                self.call(body, ast, line)?;
                self.leave_guard();
                return Ok(());
            }
            Effect::Pure
            | Effect::Load
            | Effect::Store
            | Effect::Update
            | Effect::Fetch
            | Effect::Effectful => {}
        }

        let speculated = guard.filter(|_| can_speculate(ast.opcode, &modifiers));
        match guard {
            Some(guard) if speculated.is_none() => self.enter_guard(guard),
            Some(guard) if self.open_guard.is_some_and(|(open, _)| open == guard) => {}
            _ => self.leave_guard(),
        }
        let inside = self.open_guard.is_some();
        instruction.args = self.arguments(body, ast.operands)?;
        match ast.opcode {
            Opcode::Ld | Opcode::Ldu => self.normalize_access(instruction.args, 1),
            Opcode::St => self.normalize_access(instruction.args, 0),
            _ => {}
        }
        if matches!(ast.opcode, Opcode::Ld | Opcode::St | Opcode::Cvta) {
            self.place_parameters(&mut instruction);
        }
        if modifiers.types().any(|ty| ty == Type::B128) {
            instruction = self.in_halves(&instruction)?;
        }
        if instruction.is_matrix() {
            self.move_constants(&instruction);
        }
        if instruction.meaning.carry_in || instruction.meaning.carry_out {
            self.carry = Some(match self.carry {
                Some(carry) => carry,
                None => self.new_register(RegClass::Pred),
            });
        }
        if !inside {
            instruction.guard = speculated;
        }
        if instruction.is_sync_point() {
            let next = self.new_block();
            self.end_and_open(Terminator::Sync { instruction, next }, next);
        } else if let Some(used) = used_bytes.filter(|_| ast.opcode == Opcode::Ld) {
            self.load_used_bytes(instruction, used);
        } else {
            self.push(Step::Instruction(instruction));
        }
        // Once the guard's register is redefined, the same guard is another
        // condition.
        if let Some((open, _)) = self.open_guard
            && self.writes(&instruction, open.reg)
        {
            self.leave_guard();
        }
        Ok(())
    }

    /// An address of a parameter is that of one of the kernel, but for loads and stores of a device
    /// function, whose own parameters are in local memory.
    fn place_parameters(&self, instruction: &mut Instruction) {
        let words = [Modifier::Param, Modifier::ParamFunc, Modifier::ParamEntry];
        let Some(word) = instruction.modifiers.first_of(&words) else {
            return;
        };
        let ArgList { start, len } = instruction.args;
        let args = &self.args[start as usize..(start + len) as usize];
        let is_variable = args
            .iter()
            .any(|arg| matches!(arg, Arg::Address(Base::Storage(_), _)));
        let is_access = instruction.opcode != Opcode::Cvta && word != Modifier::ParamEntry;
        let is_own = is_access && !is_variable && !self.calls.is_empty();
        let space = if is_own {
            Modifier::Local
        } else {
            Modifier::Param
        };
        let mut modifiers = Modifiers::default();
        for &modifier in instruction.modifiers.as_slice() {
            modifiers.push(if modifier == word { space } else { modifier });
        }
        instruction.modifiers = modifiers;
    }

    /// Moves the constants among the fragments of an operation on matrices to registers.
    fn move_constants(&mut self, instruction: &Instruction) {
        let wide = instruction.modifiers.has(Modifier::F64);
        let list = instruction.args;
        for (n, at) in (list.start..list.start + list.len).enumerate() {
            let operand = self.args[at as usize];
            if !instruction.is_fragment(n, operand) {
                continue;
            }
            let fragment = match operand {
                Arg::List(list) => list.start..list.start + list.len,
                _ => at..at + 1,
            };
            for at in fragment {
                let constant = self.args[at as usize];
                if !matches!(constant, Arg::Int(_) | Arg::Float(_)) {
                    continue;
                }
                let (class, bits) = if wide {
                    (RegClass::I64, Modifier::B64)
                } else {
                    (RegClass::I32, Modifier::B32)
                };
                let register = Arg::Reg(self.new_register(class));
                self.push_move(bits, register, constant, instruction.span);
                self.args[at as usize] = register;
            }
        }
    }

    fn writes(&self, instruction: &Instruction, reg: Reg) -> bool {
        let Some(&first) = self.args.get(instruction.args.start as usize) else {
            return false;
        };
        match first {
            Arg::Reg(r) => r == reg,
            Arg::List(ArgList { start, len }) => {
                (start..start + len).any(|i| self.args.get(i as usize) == Some(&Arg::Reg(reg)))
            }
            _ => false,
        }
    }

    /// Ends the block with `terminator` if `guard` is true.
    fn guarded_end(&mut self, guard: Option<Guard>, terminator: Terminator) {
        match guard {
            Some(guard) => {
                self.enter_guard(guard);
                let after = self.open_guard.take().map(|(_, after)| after);
                let after = after.unwrap_or_else(|| self.new_block());
                self.end_and_open(terminator, after);
            }
            None => {
                self.leave_guard();
                self.end(terminator);
            }
        }
    }

    fn branch(
        &mut self,
        body: &'m Body<'a>,
        ast: &'m ast::Instruction,
        guard: Option<Guard>,
    ) -> Result<(), LoweringError> {
        let [Operand::Name(name)] = body.list(ast.operands) else {
            return Err(LoweringError::invalid(ast.span, "a branch needs one label"));
        };
        let target = self.label(*name)?;
        self.leave_guard();
        match guard {
            Some(predicate) => {
                let next = self.new_block();
                let branch = Terminator::Branch {
                    predicate,
                    then: target,
                    otherwise: next,
                };
                self.end_and_open(branch, next);
            }
            None => self.end(Terminator::Jump(target)),
        }
        Ok(())
    }

    fn table(
        &mut self,
        body: &'m Body<'a>,
        ast: &'m ast::Instruction,
        guard: Option<Guard>,
        line: u32,
    ) -> Result<(), LoweringError> {
        let malformed =
            || LoweringError::invalid(ast.span, "brx.idx needs an index and a list of labels");
        let [index, Operand::Name(list)] = body.list(ast.operands) else {
            return Err(malformed());
        };
        let Some(Symbol::Targets(at)) = self.find(*list) else {
            return Err(malformed());
        };
        let Some(Statement::Targets(table)) = body.statements.get(at) else {
            return Err(malformed());
        };
        let targets = table
            .targets
            .iter()
            .map(|&l| self.label(l))
            .collect::<Result<_, _>>()?;
        let index = self.argument(body, index)?;
        self.guarded_end(
            guard,
            Terminator::Table {
                index,
                targets,
                otherwise: None,
                line,
            },
        );
        Ok(())
    }

    /// Adds a move that is not in the PTX; errors in it are reported at `span`.
    pub fn push_move(&mut self, ty: Modifier, to: Arg, from: Arg, span: Span) {
        let mut modifiers = Modifiers::default();
        modifiers.push(ty);
        self.push_synthetic(Opcode::Mov, modifiers, &[to, from], span);
    }

    pub fn push_synthetic(
        &mut self,
        opcode: Opcode,
        modifiers: Modifiers,
        args: &[Arg],
        span: Span,
    ) {
        let start = self.args.len() as u32;
        self.args.extend_from_slice(args);
        let args = ArgList {
            start,
            len: args.len() as u32,
        };
        let line = self.module.line(span);
        let instruction = Instruction::new(opcode, modifiers, args, span, line);
        self.push(Step::Instruction(instruction));
    }
}

/// The type of a move that keeps the bits of a parameter.
pub(in crate::program) fn bits_of(formal: &Variable<'_>) -> Modifier {
    match (formal.ty, formal.ty.bits()) {
        (Type::Pred, _) => Modifier::Pred,
        (Type::F32, _) => Modifier::F32,
        (Type::F64, _) => Modifier::F64,
        (_, 8) => Modifier::B8,
        (_, 16) => Modifier::B16,
        // Of two such parts.
        (_, 64 | 128) => Modifier::B64,
        _ => Modifier::B32,
    }
}

/// The type of an access to a parameter: of each part, if the value is in several registers.
pub(in crate::program) fn access_of(
    formal: &Variable<'_>,
    value: Arg,
    span: Span,
) -> Result<Modifier, LoweringError> {
    let bits = formal.ty.bits() * u32::from(formal.vector.max(1));
    let reason = match value {
        Arg::List(list) => match bits / list.len.max(1) {
            8 => return Ok(Modifier::B8),
            16 => return Ok(Modifier::B16),
            32 => return Ok(Modifier::B32),
            64 => return Ok(Modifier::B64),
            _ => "a vector as a parameter of this type",
        },
        Arg::Int(_) | Arg::Float(_) if bits > 64 => "a constant as a parameter of 128 bits",
        _ => return Ok(bits_of(formal)),
    };
    Err(LoweringError::unsupported(span, reason))
}
