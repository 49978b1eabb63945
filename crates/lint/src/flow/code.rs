//! The instructions of a function with what each reads and writes.

use std::collections::HashMap;

use super::effect::{Effect, Ends};
use super::names::{Names, Reference, Register, VariableId};
use ptx::NameMap;
use ptx::ast::{
    AddressBase, Body, Function, FunctionKind, Instruction, Name, Operand, Statement, Targets,
    Variable,
};
use ptx::names::Opcode;

/// An instruction of a function, by number in the order of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstructionId(pub u32);

impl InstructionId {
    /// Its place in [`Code::steps`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One instruction.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Index into the statements of the body.
    pub statement: u32,
    /// Which effect, by the number of its mnemonic.
    pub mnemonic: u32,
    /// Where control goes; what a call does not come back from traps.
    pub ends: Ends,
    /// Whether it has a guard; the guard is the first that it reads.
    pub guarded: bool,
    /// The guard is written with `!`.
    pub negated: bool,
    /// What it writes keeps some of what it was: a guard, `%v.x`, `%r.b0`.
    pub partial: bool,
    first: u32,
    written: u32,
    end: u32,
}

/// A register that an instruction reads or writes.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Place in the operand pool of the body; [`Slot::GUARD`] for a guard.
    pub operand: u32,
    /// Which register.
    pub register: Register,
}

impl Slot {
    /// A guard is no operand.
    pub const GUARD: u32 = u32::MAX;
    /// What `ret` hands back is no operand either.
    pub const RETURNED: u32 = u32::MAX - 1;
}

/// A label, and the instruction behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label<'a> {
    pub scope: u32,
    pub name: Name<'a>,
    pub at: u32,
}

/// A function as a list of instructions.
#[derive(Debug)]
pub struct Code<'m, 'a> {
    /// What was read of it.
    pub body: &'m Body<'a>,
    /// In the order of the text.
    pub steps: Vec<Step>,
    slots: Vec<Slot>,
    /// What each operand of the pool stands for.
    references: Vec<Reference>,
    /// How many registers are told apart.
    pub registers: u32,
    variables: Vec<&'m Variable<'a>>,
    pub(super) labels: Vec<Label<'a>>,
    /// The scope of each jump, and the scope that each scope stands in.
    pub(super) jumps: HashMap<u32, u32>,
    pub(super) scopes: Vec<u32>,
    pub(super) tables: HashMap<&'a str, &'m Targets<'a>>,
    /// So many of the variables are parameters; they come first.
    parameters: u32,
    kernel: bool,
    /// The registers that return values, if the function has such.
    pub returned: Vec<Register>,
    /// The registers that hold arguments from the start on.
    pub arguments: Vec<Register>,
    /// Something is written to what is declared nowhere: any register may be meant.
    pub(crate) unclear: bool,
}

/// What [`Code`] needs to know of the module.
pub(crate) struct Surroundings<'s, 'm, 'a> {
    pub effects: &'s [Effect],
    pub variables: &'s NameMap<'a, &'m Variable<'a>>,
    pub functions: &'s NameMap<'a, &'m Function<'a>>,
}

impl<'m, 'a> Code<'m, 'a> {
    pub(crate) fn new(
        function: &'m Function<'a>,
        body: &'m Body<'a>,
        around: &Surroundings<'_, 'm, 'a>,
    ) -> Self {
        let statements = body.statements.len();
        let mut reader = Reader {
            around,
            names: Names::default(),
            written: Vec::new(),
            code: Code {
                body,
                steps: Vec::with_capacity(statements),
                slots: Vec::with_capacity(statements * 3),
                references: vec![Reference::Nothing; body.operands.len()],
                registers: 0,
                variables: Vec::new(),
                labels: Vec::new(),
                jumps: HashMap::new(),
                scopes: vec![0],
                tables: HashMap::new(),
                parameters: 0,
                kernel: function.kind == FunctionKind::Entry,
                returned: Vec::new(),
                arguments: Vec::new(),
                unclear: false,
            },
        };
        for variable in &function.params {
            if let Reference::Register(register) = reader.names.declare(variable) {
                reader.code.arguments.push(register);
            }
        }
        reader.code.parameters = reader.names.variables.len() as u32;
        for variable in &function.returns {
            if let Reference::Register(register) = reader.names.declare(variable) {
                reader.code.returned.push(register);
            }
        }
        reader.read();
        let mut code = reader.code;
        code.registers = reader.names.registers;
        code.variables = reader.names.variables;
        code
    }

    /// The instruction as read.
    pub fn instruction(&self, id: InstructionId) -> Option<&'m Instruction> {
        let step = self.steps.get(id.index())?;
        match self.body.statements.get(step.statement as usize) {
            Some(Statement::Instruction(instruction)) => Some(instruction),
            _ => None,
        }
    }

    /// The registers that it reads, its guard first.
    pub fn reads(&self, step: &Step) -> &[Slot] {
        &self.slots[step.first as usize..step.written as usize]
    }

    /// The registers that it writes.
    pub fn writes(&self, step: &Step) -> &[Slot] {
        &self.slots[step.written as usize..step.end as usize]
    }

    /// Where its slots lie among all, reads before writes.
    pub(super) fn places(&self, step: &Step) -> (usize, usize, usize) {
        (
            step.first as usize,
            step.written as usize,
            step.end as usize,
        )
    }

    pub(super) fn slot(&self, place: usize) -> Slot {
        self.slots[place]
    }

    pub(super) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// What the operand at this place of the pool stands for.
    pub fn reference(&self, operand: usize) -> Reference {
        self.references.get(operand).copied().unwrap_or_default()
    }

    /// The declaration of a variable.
    pub fn variable(&self, id: VariableId) -> &'m Variable<'a> {
        self.variables[id.0 as usize]
    }

    /// Whether it is a parameter of the function.
    pub fn is_parameter(&self, id: VariableId) -> bool {
        id.0 < self.parameters
    }

    /// Whether the host calls it.
    pub fn is_kernel(&self) -> bool {
        self.kernel
    }

    /// Every instruction with its number.
    pub fn ids(&self) -> impl Iterator<Item = InstructionId> + use<> {
        (0..self.steps.len() as u32).map(InstructionId)
    }
}

struct Reader<'s, 'm, 'a> {
    around: &'s Surroundings<'s, 'm, 'a>,
    names: Names<'m, 'a>,
    /// Of the instruction that is read.
    written: Vec<Slot>,
    code: Code<'m, 'a>,
}

impl<'m, 'a> Reader<'_, 'm, 'a> {
    fn read(&mut self) {
        let body = self.code.body;
        let mut scope = 0;
        for (index, statement) in body.statements.iter().enumerate() {
            match statement {
                Statement::Begin(_) => {
                    self.code.scopes.push(scope);
                    scope = self.code.scopes.len() as u32 - 1;
                    self.names.open();
                }
                Statement::End(_) => {
                    scope = self.code.scopes[scope as usize];
                    self.names.close();
                }
                Statement::Variable(variable) => {
                    self.names.declare(variable);
                }
                Statement::Label(name) => self.code.labels.push(Label {
                    scope,
                    name: *name,
                    at: self.code.steps.len() as u32,
                }),
                Statement::Targets(targets) => {
                    self.code.tables.insert(targets.name.text, targets);
                }
                Statement::Instruction(instruction) => {
                    self.instruction(index as u32, instruction, scope);
                }
                Statement::Location(_) | Statement::Prototype(_) | Statement::Directive(_) => {}
            }
        }
    }

    fn instruction(&mut self, statement: u32, instruction: &Instruction, scope: u32) {
        let effects = self.around.effects;
        let mnemonic = instruction.mnemonic.index();
        let Some(effect) = effects.get(mnemonic) else {
            return;
        };
        let mut step = Step {
            statement,
            mnemonic: mnemonic as u32,
            ends: effect.ends,
            guarded: false,
            negated: false,
            partial: effect.reads_results,
            first: self.code.slots.len() as u32,
            written: 0,
            end: 0,
        };
        if let Some(guard) = self.code.body.guard(instruction)
            && let Reference::Register(register) = self.lookup(guard.predicate)
        {
            step.guarded = true;
            step.partial = true;
            step.negated = guard.negated;
            let operand = Slot::GUARD;
            self.code.slots.push(Slot { operand, register });
        }
        let first = instruction.operands.start;
        let mut written = u32::from(effect.writes);
        if instruction.opcode == Opcode::Call {
            written = self.call(instruction, &mut step);
        }
        if effect.ends != Ends::No && scope != 0 {
            self.code.jumps.insert(self.code.steps.len() as u32, scope);
        }
        for place in 0..instruction.operands.len {
            self.operand(first + place, place < written, &mut step);
        }
        if instruction.opcode == Opcode::Ret {
            let operand = Slot::RETURNED;
            let returned = self.code.returned.iter().copied();
            let slots = returned.map(|register| Slot { operand, register });
            self.code.slots.extend(slots);
        }
        step.written = self.code.slots.len() as u32;
        self.code.slots.append(&mut self.written);
        step.end = self.code.slots.len() as u32;
        self.code.steps.push(step);
    }

    /// How many operands of a call are written: the list before the callee.
    fn call(&self, instruction: &Instruction, step: &mut Step) -> u32 {
        let operands = self.code.body.list(instruction.operands);
        let returns = matches!(operands, [Operand::Arguments(..), Operand::Name(_), ..]);
        if let Some(Operand::Name(callee)) = operands.get(usize::from(returns))
            && let Some(function) = self.around.functions.get(callee.text)
            && function.directives.iter().any(|d| d.name == "noreturn")
        {
            step.ends = Ends::Trap;
        }
        u32::from(returns)
    }

    fn lookup(&mut self, name: Name<'a>) -> Reference {
        self.names.get(name.text, self.around.variables)
    }

    fn operand(&mut self, place: u32, written: bool, step: &mut Step) {
        let Some(&operand) = self.code.body.operands.get(place as usize) else {
            return;
        };
        match operand {
            Operand::Name(name) => self.name(place, name, written),
            Operand::Component { name, .. } | Operand::Select { name, .. } => {
                step.partial |= written;
                self.name(place, name, written);
            }
            Operand::Not(name) | Operand::Negated(name) | Operand::Offset { name, .. } => {
                self.name(place, name, false);
            }
            Operand::Address {
                base: AddressBase::Name(name),
                ..
            } => self.name(place, name, false),
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

    fn name(&mut self, operand: u32, name: Name<'a>, written: bool) {
        let reference = self.lookup(name);
        if let Some(known) = self.code.references.get_mut(operand as usize) {
            *known = reference;
        }
        self.code.unclear |= written && reference == Reference::Nothing;
        if let Reference::Register(register) = reference {
            let slot = Slot { operand, register };
            match written {
                true => self.written.push(slot),
                false => self.code.slots.push(slot),
            }
        }
    }
}
