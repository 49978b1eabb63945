//! The instructions of a function, with the registers that each reads and writes.

use std::ops::Range;

use super::HashMap;
use super::effect::{Effect, Terminator};
use ptx::NameMap;
use ptx::ast::{
    AddressBase, Body, Function, FunctionKind, Instruction, Operand, Statement, Variable,
};
use ptx::names::{Opcode, Type};
use ptx::resolution::{Reference, Register, Resolution, VariableId};

/// An instruction of a function, by number in the order of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstructionId(pub u32);

impl InstructionId {
    /// Its index in [`Instructions::steps`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One instruction.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Index into the statements of the body.
    pub statement: u32,
    /// The number of its mnemonic, which has its effect.
    pub mnemonic: u32,
    /// How it transfers control; a call that does not return is a trap.
    pub terminator: Terminator,
    /// Whether it has a guard; the guard is its first read. A guard that always holds is a
    /// read like others.
    pub guarded: bool,
    /// The guard is written with `!`.
    pub negated: bool,
    /// It keeps some of the old value of what it writes: a guard, `%v.x`, `%r.b0`.
    pub partial: bool,
    first: u32,
    written: u32,
    end: u32,
}

impl Step {
    /// Whether the register operand at this place of the function is one that it writes.
    pub(super) const fn is_written(&self, place: usize) -> bool {
        place >= self.written as usize
    }
}

/// A register that an instruction reads or writes.
#[derive(Clone, Copy, Debug)]
pub struct RegisterOperand {
    /// Index into the operand pool of the body; [`RegisterOperand::GUARD`] for a guard.
    pub operand: u32,
    /// Which register.
    pub register: Register,
}

impl RegisterOperand {
    /// A guard is no operand.
    pub const GUARD: u32 = u32::MAX;
    /// The values that `ret` returns are no operands either.
    pub const RETURNED: u32 = u32::MAX - 1;
}

/// A function as a list of instructions.
#[derive(Debug)]
pub struct Instructions<'m, 'a> {
    /// The body as parsed.
    pub body: &'m Body<'a>,
    /// In the order of the text.
    pub steps: Vec<Step>,
    slots: Vec<RegisterOperand>,
    /// What the names in it refer to.
    names: Resolution<'m, 'a>,
    /// The number of registers.
    pub registers: u32,
    /// The index of the instruction behind each label.
    pub(super) labels: Vec<u32>,
    /// Each jump with the labels that it leads to.
    targets: Vec<(InstructionId, u32)>,
    kernel: bool,
    /// An undeclared name is written: it may be any register.
    pub(crate) unclear: bool,
}

/// The parts of the module that [`Instructions`] needs.
pub(crate) struct ModuleInfo<'s, 'm, 'a> {
    pub effects: &'s [Effect],
    pub functions: &'s NameMap<'a, &'m Function<'a>>,
}

impl<'m, 'a> Instructions<'m, 'a> {
    pub(crate) fn new(
        function: &'m Function<'a>,
        body: &'m Body<'a>,
        names: Resolution<'m, 'a>,
        around: &ModuleInfo<'_, 'm, 'a>,
    ) -> Self {
        let statements = body.statements.len();
        let mut reader = Reader {
            around,
            first_written: None,
            written: Vec::new(),
            partial: Vec::new(),
            constants: Vec::new(),
            instructions: Instructions {
                body,
                steps: Vec::with_capacity(statements),
                slots: Vec::with_capacity(statements * 3),
                registers: names.registers,
                names,
                labels: Vec::with_capacity(statements / 32),
                targets: Vec::with_capacity(statements / 32),
                kernel: function.kind == FunctionKind::Entry,
                unclear: false,
            },
        };
        reader.read();
        reader.drop_constant_guards();
        reader.instructions
    }

    /// The instruction as parsed.
    pub fn get(&self, id: InstructionId) -> Option<&'m Instruction> {
        let step = self.steps.get(id.index())?;
        match self.body.statements.get(step.statement as usize) {
            Some(Statement::Instruction(instruction)) => Some(instruction),
            _ => None,
        }
    }

    /// The index of the instruction behind each label that a jump leads to.
    pub(super) fn targets(&self, jump: InstructionId) -> impl Iterator<Item = u32> + '_ {
        let first = self.targets.partition_point(|(id, _)| *id < jump);
        let of_jump = self.targets[first..].iter();
        let of_jump = of_jump.take_while(move |(id, _)| *id == jump);
        of_jump.map(|(_, label)| self.labels[*label as usize])
    }

    /// The registers that it reads, its guard first.
    pub fn reads(&self, step: &Step) -> &[RegisterOperand] {
        &self.slots[step.first as usize..step.written as usize]
    }

    /// The registers that it writes.
    pub fn writes(&self, step: &Step) -> &[RegisterOperand] {
        &self.slots[step.written as usize..step.end as usize]
    }

    /// The range of its register operands, reads before writes.
    pub(super) fn places(&self, step: &Step) -> (usize, usize, usize) {
        (
            step.first as usize,
            step.written as usize,
            step.end as usize,
        )
    }

    /// The range of the register operands of these instructions.
    pub(super) fn places_of(&self, steps: Range<usize>) -> Range<usize> {
        match self.steps.get(steps).unwrap_or_default() {
            [one] => one.first as usize..one.end as usize,
            [first, .., last] => first.first as usize..last.end as usize,
            [] => 0..0,
        }
    }

    pub(super) fn slot(&self, place: usize) -> RegisterOperand {
        self.slots[place]
    }

    /// The register operands of all instructions.
    pub(super) fn slots(&self) -> &[RegisterOperand] {
        &self.slots
    }

    pub(super) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// What the operand with this index in the pool refers to.
    pub fn reference(&self, operand: usize) -> Reference {
        self.names.reference(operand)
    }

    /// The declaration of a variable.
    pub fn variable(&self, id: VariableId) -> &'m Variable<'a> {
        self.names.variable(id)
    }

    /// Whether a register is one of a range, `%r<100>`, as compilers declare them; a
    /// person gives each a name.
    pub fn is_numbered(&self, register: Register) -> bool {
        self.names.is_numbered(register)
    }

    /// Every variable that it declares or names, its parameters first.
    pub fn variables(&self) -> &[&'m Variable<'a>] {
        self.names.variables()
    }

    /// Whether it is a parameter of the function.
    pub fn is_parameter(&self, id: VariableId) -> bool {
        self.names.is_parameter(id)
    }

    /// Whether a register holds an argument at the entry.
    pub fn is_argument(&self, register: Register) -> bool {
        self.names.arguments.contains(&register)
    }

    /// The registers that hold the return values, if there are any.
    pub fn returned(&self) -> &[Register] {
        &self.names.returned
    }

    /// Whether it is a kernel.
    pub fn is_kernel(&self) -> bool {
        self.kernel
    }

    /// Every instruction with its number.
    pub fn ids(&self) -> impl Iterator<Item = InstructionId> + use<> {
        (0..self.steps.len() as u32).map(InstructionId)
    }
}

struct Reader<'s, 'm, 'a> {
    around: &'s ModuleInfo<'s, 'm, 'a>,
    /// What the current instruction writes: nearly all write one register or none.
    first_written: Option<RegisterOperand>,
    /// The others that it writes.
    written: Vec<RegisterOperand>,
    /// The guarded instructions that write a part of a register, guard or not.
    partial: Vec<u32>,
    /// The predicates that a `mov` sets to a constant.
    constants: Vec<(Register, bool)>,
    instructions: Instructions<'m, 'a>,
}

impl<'m, 'a> Reader<'_, 'm, 'a> {
    fn read(&mut self) {
        let body = self.instructions.body;
        for (index, statement) in body.statements.iter().enumerate() {
            match statement {
                Statement::Label(_) => {
                    let next = self.instructions.steps.len() as u32;
                    self.instructions.labels.push(next);
                }
                Statement::Instruction(instruction) => {
                    self.instruction(index as u32, instruction);
                }
                Statement::Begin(_)
                | Statement::End(_)
                | Statement::Variable(_)
                | Statement::Targets(_)
                | Statement::Location(_)
                | Statement::Prototype(_)
                | Statement::Directive(_) => {}
            }
        }
    }

    fn instruction(&mut self, statement: u32, instruction: &Instruction) {
        let effects = self.around.effects;
        let mnemonic = instruction.mnemonic.index();
        let Some(effect) = effects.get(mnemonic) else {
            return;
        };
        let mut step = Step {
            statement,
            mnemonic: mnemonic as u32,
            terminator: effect.terminator,
            guarded: false,
            negated: false,
            partial: effect.meaning.accumulates,
            first: self.instructions.slots.len() as u32,
            written: 0,
            end: 0,
        };
        let behind = instruction.operands.start + instruction.operands.len;
        if let Some(guard) = self.instructions.body.guard(instruction)
            && let Reference::Register(register) =
                self.instructions.names.reference(behind as usize)
        {
            step.guarded = true;
            step.negated = guard.negated;
            let operand = RegisterOperand::GUARD;
            self.instructions
                .slots
                .push(RegisterOperand { operand, register });
        }
        let first = instruction.operands.start;
        let mut written = u32::from(effect.writes);
        if instruction.opcode == Opcode::Call {
            written = self.call(instruction, &mut step);
        }
        let mut operands = instruction.operands.len;
        if let Terminator::Jump | Terminator::IndirectJump = effect.terminator {
            self.jump(instruction);
            // The last is a label or a table of labels.
            operands = operands.saturating_sub(1);
        }
        let body = self.instructions.body;
        let listed = body
            .operands
            .get(first as usize..(first + operands) as usize);
        for (place, operand) in (first..).zip(listed.unwrap_or_default()) {
            let is_written = place < first + written;
            // Nearly all are registers and numbers.
            match operand {
                Operand::Name(_) => self.name(place, is_written),
                Operand::Integer(_) => {}
                other => self.other_operand(place, other, is_written, &mut step),
            }
        }
        if instruction.opcode == Opcode::Ret {
            let operand = RegisterOperand::RETURNED;
            let Instructions { names, slots, .. } = &mut self.instructions;
            let returned = names.returned.iter().copied();
            slots.extend(returned.map(|register| RegisterOperand { operand, register }));
        }
        if instruction.opcode == Opcode::Mov && !step.partial && !step.guarded {
            self.constant(instruction, effect);
        }
        if step.guarded {
            if step.partial {
                self.partial.push(self.instructions.steps.len() as u32);
            }
            step.partial = true;
        }
        step.written = self.instructions.slots.len() as u32;
        if let Some(one) = self.first_written.take() {
            self.instructions.slots.push(one);
            if !self.written.is_empty() {
                self.instructions.slots.append(&mut self.written);
            }
        }
        step.end = self.instructions.slots.len() as u32;
        self.instructions.steps.push(step);
    }

    fn jump(&mut self, instruction: &Instruction) {
        let id = InstructionId(self.instructions.steps.len() as u32);
        let behind = instruction.operands.start + instruction.operands.len;
        let Instructions { names, targets, .. } = &mut self.instructions;
        let last = names.reference((behind as usize).saturating_sub(1));
        names.each_target(last, |label| targets.push((id, label)));
    }

    /// Notes `mov.pred p, 1`.
    fn constant(&mut self, instruction: &Instruction, effect: &Effect) {
        let operands = self.instructions.body.list(instruction.operands);
        if effect.types.first() == Some(&Some(Type::Pred))
            && let [_, Operand::Integer(integer)] = operands
            && let (Some(slot), []) = (self.first_written, self.written.as_slice())
        {
            self.constants.push((slot.register, integer.value != 0));
        }
    }

    /// What executes under a predicate that is always true has no guard. Compilers
    /// instantiate inline assembly with such predicates.
    fn drop_constant_guards(&mut self) {
        if self.constants.is_empty() {
            return;
        }
        let Instructions { steps, slots, .. } = &mut self.instructions;
        let mut constants: HashMap<Register, (bool, u32)> = HashMap::default();
        for (register, is) in &self.constants {
            constants.insert(*register, (*is, 0));
        }
        for step in steps.iter() {
            for slot in &slots[step.written as usize..step.end as usize] {
                if let Some((_, writes)) = constants.get_mut(&slot.register) {
                    *writes += 1;
                }
            }
        }
        for (at, step) in (0..).zip(steps) {
            let guard = slots[step.first as usize..].first();
            let constant = guard.and_then(|guard| constants.get(&guard.register));
            if step.guarded
                && step.terminator == Terminator::FallThrough
                && constant == Some(&(!step.negated, 1))
            {
                step.guarded = false;
                step.partial = self.partial.binary_search(&at).is_ok();
            }
        }
    }

    /// The number of operands that a call writes: the list before the callee.
    fn call(&self, instruction: &Instruction, step: &mut Step) -> u32 {
        let operands = self.instructions.body.list(instruction.operands);
        let returns = matches!(operands, [Operand::Arguments(..), Operand::Name(_), ..]);
        if let Some(Operand::Name(callee)) = operands.get(usize::from(returns))
            && let Some(function) = self.around.functions.get(callee.text)
            && function.directives.iter().any(|d| d.name == "noreturn")
        {
            step.terminator = Terminator::Trap;
        }
        u32::from(returns)
    }

    fn operand(&mut self, place: u32, written: bool, step: &mut Step) {
        let body = self.instructions.body;
        if let Some(operand) = body.operands.get(place as usize) {
            self.other_operand(place, operand, written, step);
        }
    }

    fn other_operand(&mut self, place: u32, operand: &Operand<'a>, written: bool, step: &mut Step) {
        match *operand {
            Operand::Name(_) => self.name(place, written),
            Operand::Component { .. } | Operand::Select { .. } => {
                step.partial |= written;
                self.name(place, written);
            }
            Operand::Not(_)
            | Operand::Negated(_)
            | Operand::Offset { .. }
            | Operand::Address {
                base: AddressBase::Name(_),
                ..
            } => self.name(place, false),
            Operand::Vector(list, _) | Operand::Pair(list, _) | Operand::Arguments(list, _) => {
                for element in list.start..list.start + list.len {
                    self.operand(element, written, step);
                }
            }
            Operand::Element(list, _) | Operand::Indexed(list, _) => {
                for element in list.start..list.start + list.len {
                    self.operand(element, false, step);
                }
            }
            Operand::Special(..)
            | Operand::Integer(_)
            | Operand::Float(_)
            | Operand::Sink(_)
            | Operand::Address { .. } => {}
        }
    }

    #[inline(always)]
    fn name(&mut self, operand: u32, written: bool) {
        match self.instructions.names.reference(operand as usize) {
            Reference::Register(register) => {
                let slot = RegisterOperand { operand, register };
                match written {
                    true if self.first_written.is_none() => self.first_written = Some(slot),
                    true => self.written.push(slot),
                    false => self.instructions.slots.push(slot),
                }
            }
            Reference::Variable(_) => {}
            Reference::Nothing | Reference::Label(_) | Reference::Targets(_) => {
                self.instructions.unclear |= written;
            }
        }
    }
}
