//! What names mean to the checker, and the names of a module.

use crate::ast::{Function, Name, Prototype, Space, Targets, Variable};
use crate::name_map::NameMap;
use crate::names::Type;
use crate::scope::{self, MAX_COMPARED, Meaning, numbered};

/// The meaning of a name.
#[derive(Clone, Copy, Debug)]
pub enum Symbol<'m, 'a> {
    Register {
        ty: Type,
        vector: u8,
    },
    Variable(&'m Variable<'a>, Role),
    Function(&'m Function<'a>),
    Label,
    /// `.branchtargets`, `.calltargets`
    Targets(&'m Targets<'a>),
    Prototype(&'m Prototype<'a>),
}

impl<'m, 'a> Symbol<'m, 'a> {
    /// The symbol of a variable.
    pub fn of(variable: &'m Variable<'a>, role: Role) -> Self {
        match variable.space {
            Space::Reg => Symbol::Register {
                ty: variable.ty,
                vector: variable.vector,
            },
            _ => Symbol::Variable(variable, role),
        }
    }
}

impl Meaning for Symbol<'_, '_> {
    type Register = Type;

    fn register(&self) -> Option<Type> {
        match self {
            Symbol::Register { ty, vector: 1 } => Some(*ty),
            _ => None,
        }
    }
}

/// The names in scope at one place of a function.
pub type Scopes<'m, 'a> = scope::Scopes<'a, Symbol<'m, 'a>>;

/// The role of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A variable of the module, or a local variable of the function.
    Own,
    /// A parameter of the kernel.
    KernelParameter,
    /// A parameter of the function, written by the caller.
    Parameter,
    /// A return parameter, read by the caller.
    Returned,
}

/// The names declared so far in a module: a declaration precedes its uses.
#[derive(Debug, Default)]
pub struct ModuleSymbols<'m, 'a> {
    names: NameMap<'a, (Symbol<'m, 'a>, Name<'a>)>,
    /// `%r<9>` outside functions, as in PTX 1.x.
    ranges: Vec<(Name<'a>, u32, Symbol<'m, 'a>)>,
}

impl<'m, 'a> ModuleSymbols<'m, 'a> {
    pub fn declare(&mut self, name: Name<'a>, symbol: Symbol<'m, 'a>) {
        self.names.insert(name.text, (symbol, name));
    }

    pub fn declare_variable(&mut self, variable: &'m Variable<'a>) {
        let symbol = Symbol::of(variable, Role::Own);
        match variable.count {
            Some(count) => self.ranges.push((variable.name, count, symbol)),
            None => self.declare(variable.name, symbol),
        }
    }

    pub fn get(&self, name: &str) -> Option<Symbol<'m, 'a>> {
        self.find(name).map(|(symbol, _)| symbol)
    }

    /// The same with the name that declares it.
    pub fn find(&self, name: &str) -> Option<(Symbol<'m, 'a>, Name<'a>)> {
        let found = self.names.get(name).copied();
        found.or_else(|| {
            let mut ranges = self.ranges.iter().take(MAX_COMPARED);
            let range = ranges.find(|(prefix, count, _)| numbered(name, prefix.text, *count));
            range.map(|(prefix, _, symbol)| (*symbol, *prefix))
        })
    }

    pub fn names(&self) -> impl ExactSizeIterator<Item = &'a str> + '_ {
        self.names.keys().copied()
    }
}
