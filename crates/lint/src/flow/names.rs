//! The registers and variables that the names in a function refer to.

use ptx::NameMap;
use ptx::ast::{Name, Space, Statement, Targets, Variable};
use ptx::scope::{self, Meaning, Scopes};

/// A register of the function, by number; `%r<9>` is nine of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Register(pub u32);

/// A variable in memory or a parameter that the function names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariableId(pub u32);

/// What a name in an operand refers to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reference {
    /// Neither a register nor a variable: a label, a function, a number …
    #[default]
    Nothing,
    /// A register.
    Register(Register),
    /// The address of a variable.
    Variable(VariableId),
}

/// Registers beyond this number share one id: a text may declare billions.
const MAX_REGISTERS: u32 = 1 << 22;

/// What a declaration declares.
#[derive(Clone, Copy, Debug)]
enum Declared<'m, 'a> {
    /// A register, the first of `%r<9>`, or a variable.
    Reference(Reference),
    /// A label, by number in the order of the text.
    Label(u32),
    /// `.branchtargets`
    Targets(&'m Targets<'a>),
}

impl Meaning for Declared<'_, '_> {
    type Register = Register;

    fn register(&self) -> Option<Register> {
        match self {
            Declared::Reference(Reference::Register(register)) => Some(*register),
            _ => None,
        }
    }
}

/// The names that are in scope at one place of a function.
#[derive(Debug)]
pub(super) struct Names<'m, 'a> {
    source: &'a str,
    scopes: Scopes<'a, Declared<'m, 'a>>,
    /// The variables of the module that were named so far.
    of_module: NameMap<'a, VariableId>,
    /// The number of registers.
    pub registers: u32,
    /// The registers that are declared one by one, in order.
    pub single: Vec<Register>,
    /// By [`VariableId`].
    pub variables: Vec<&'m Variable<'a>>,
}

impl<'m, 'a> Names<'m, 'a> {
    pub fn new(statements: &[Statement<'a>], source: &'a str) -> Self {
        let mut labels = 0..;
        let label = |_| Declared::Label(labels.next().unwrap_or(u32::MAX));
        Names {
            source,
            scopes: Scopes::new(statements, label, |_| {}),
            of_module: NameMap::default(),
            registers: 0,
            single: Vec::new(),
            variables: Vec::new(),
        }
    }

    pub fn open(&mut self) {
        self.scopes.open();
    }

    pub fn close(&mut self) {
        self.scopes.close();
    }

    /// Declares a register or variable; nothing is returned for `%r<9>`.
    pub fn declare(&mut self, variable: &'m Variable<'a>) -> Reference {
        let reference = match variable.space {
            Space::Reg => {
                let first = self.registers;
                let count = variable.count.unwrap_or(1);
                self.registers = first.saturating_add(count).min(MAX_REGISTERS);
                let register = Register(first.min(MAX_REGISTERS - 1));
                if variable.count.is_none() {
                    self.single.push(register);
                }
                Reference::Register(register)
            }
            _ => Reference::Variable(self.add(variable)),
        };
        self.bind(
            variable.name,
            variable.count,
            Declared::Reference(reference),
        );
        match variable.count {
            Some(_) => Reference::Nothing,
            None => reference,
        }
    }

    pub fn declare_targets(&mut self, targets: &'m Targets<'a>) {
        self.bind(targets.name, None, Declared::Targets(targets));
    }

    fn bind(&mut self, name: Name<'a>, count: Option<u32>, declared: Declared<'m, 'a>) {
        // A name that is declared twice is an error of the checker.
        let _ = self.scopes.declare(name, count, declared);
    }

    fn add(&mut self, variable: &'m Variable<'a>) -> VariableId {
        self.variables.push(variable);
        VariableId(self.variables.len() as u32 - 1)
    }

    /// The register that a name refers to, where that is found fast.
    #[inline]
    pub fn register(&self, name: Name<'a>) -> Option<Register> {
        let word = scope::word(name, self.source)?;
        let first = self.scopes.register(word)?;
        Some(numbered(first, scope::number(word)))
    }

    /// What a name refers to; a variable of the module gets its id on first use.
    pub fn get(&mut self, name: Name<'a>, module: &NameMap<'a, &'m Variable<'a>>) -> Reference {
        if let Some(found) = self.scopes.find(name.text) {
            return match found.meaning {
                Declared::Reference(Reference::Register(first)) => {
                    Reference::Register(numbered(first, found.number))
                }
                Declared::Reference(reference) => reference,
                Declared::Label(_) | Declared::Targets(_) => Reference::Nothing,
            };
        }
        if let Some(id) = self.of_module.get(name.text) {
            return Reference::Variable(*id);
        }
        match module.get(name.text) {
            Some(variable) if variable.space != Space::Reg => {
                let id = self.add(variable);
                self.of_module.insert(name.text, id);
                Reference::Variable(id)
            }
            _ => Reference::Nothing,
        }
    }

    /// Calls `target` with the number of each label that a jump to this name leads to.
    pub fn targets(&self, name: Name<'a>, mut target: impl FnMut(u32)) {
        match self.scopes.get(name.text) {
            Some(Declared::Label(number)) => target(number),
            Some(Declared::Targets(table)) => {
                for name in &table.targets {
                    if let Some(Declared::Label(number)) = self.scopes.get(name.text) {
                        target(number);
                    }
                }
            }
            _ => {}
        }
    }
}

/// A register of a range.
fn numbered(first: Register, number: u32) -> Register {
    Register(first.0.saturating_add(number).min(MAX_REGISTERS - 1))
}
