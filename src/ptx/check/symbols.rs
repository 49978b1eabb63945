//! Names and what they stand for, scope by scope.

use std::collections::HashMap;

use crate::ptx::ast::{Function, Name, Space, Statement, Variable};
use crate::ptx::names::Type;

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
pub enum Symbol<'m, 'a> {
    Register {
        ty: Type,
        vector: u8,
    },
    Variable(&'m Variable<'a>, Role),
    Function(&'m Function<'a>),
    /// A label, or a table of labels or functions, or a prototype.
    Label,
}

/// Whose a variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Of the module or the function where it stands.
    Own,
    /// A parameter of the kernel.
    KernelParameter,
    /// A parameter of the function, which the caller wrote.
    Parameter,
    /// What the function returns, which the caller reads.
    Returned,
}

/// Names of the whole module. They are visible before their declaration too:
/// whether ptxas minds, depends on what they are.
#[derive(Debug, Default)]
pub struct ModuleSymbols<'m, 'a> {
    names: HashMap<&'a str, (Symbol<'m, 'a>, bool)>,
}

impl<'m, 'a> ModuleSymbols<'m, 'a> {
    /// Adds a name. `once`: it may have no second declaration of this kind.
    pub fn declare(&mut self, name: &'a str, symbol: Symbol<'m, 'a>, once: bool) -> Result<(), ()> {
        match self.names.get_mut(name) {
            Some((_, defined)) if *defined && once => Err(()),
            // The definition knows most of a function; a declaration after it
            // adds nothing.
            Some((known, defined)) => {
                if once {
                    *known = symbol;
                }
                *defined |= once;
                Ok(())
            }
            None => {
                self.names.insert(name, (symbol, once));
                Ok(())
            }
        }
    }

    pub fn get(&self, name: &str) -> Option<Symbol<'m, 'a>> {
        self.names.get(name).map(|(symbol, _)| *symbol)
    }

    pub fn names(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.names.keys().copied()
    }
}

/// Names inside a function: a stack of blocks.
#[derive(Debug, Default)]
pub struct Scopes<'m, 'a> {
    blocks: Vec<Block<'m, 'a>>,
    /// Labels of every block; a jump may come before its label.
    labels: HashMap<(&'a str, usize), ()>,
    opened: usize,
}

#[derive(Debug, Default)]
struct Block<'m, 'a> {
    number: usize,
    names: HashMap<&'a str, Symbol<'m, 'a>>,
    /// `%r<9>`: prefix → how many, and what.
    ranges: HashMap<&'a str, (u32, Symbol<'m, 'a>)>,
}

impl<'m, 'a> Scopes<'m, 'a> {
    /// The scope of a function whose statements are these. Calls `duplicate`
    /// for each label that its block has already.
    pub fn new(statements: &[Statement<'a>], mut duplicate: impl FnMut(Name<'a>)) -> Self {
        let mut scopes = Scopes::default();
        let mut open = vec![0];
        let mut blocks = 0;
        for statement in statements {
            match statement {
                Statement::Begin(_) => {
                    blocks += 1;
                    open.push(blocks);
                }
                Statement::End(_) => {
                    open.pop();
                }
                statement => {
                    let Some(name) = label(statement) else {
                        continue;
                    };
                    let block = open.last().copied().unwrap_or(0);
                    if scopes.labels.insert((name.text, block), ()).is_some() {
                        duplicate(name);
                    }
                }
            }
        }
        scopes.open();
        scopes
    }

    /// Enters the next block of the text.
    pub fn open(&mut self) {
        self.blocks.push(Block {
            number: self.opened,
            ..Block::default()
        });
        self.opened += 1;
    }

    pub fn close(&mut self) {
        // The outermost block is the function's own.
        if self.blocks.len() > 1 {
            self.blocks.pop();
        }
    }

    /// Adds a variable to the innermost block; an error if it has one of the
    /// name already.
    pub fn declare(&mut self, variable: &'m Variable<'a>, role: Role) -> Result<(), ()> {
        let symbol = match variable.space {
            Space::Reg => Symbol::Register {
                ty: variable.ty,
                vector: variable.vector,
            },
            _ => Symbol::Variable(variable, role),
        };
        let Some(block) = self.blocks.last_mut() else {
            return Ok(());
        };
        let name = variable.name.text;
        let before = match variable.count {
            Some(count) => block.ranges.insert(name, (count, symbol)).map(|_| ()),
            None => {
                let in_range = block.in_range(name).is_some();
                let before = block.names.insert(name, symbol);
                before.map(|_| ()).or(in_range.then_some(()))
            }
        };
        // `_` names a parameter that has no name.
        match before {
            Some(()) if name != "_" => Err(()),
            _ => Ok(()),
        }
    }

    /// What a name stands for here, the module not counted.
    pub fn get(&self, name: &str) -> Option<Symbol<'m, 'a>> {
        let declared = self.blocks.iter().rev().find_map(|block| {
            block
                .names
                .get(name)
                .copied()
                .or_else(|| block.in_range(name))
        });
        declared.or_else(|| self.is_label(name).then_some(Symbol::Label))
    }

    pub fn is_label(&self, name: &str) -> bool {
        self.blocks
            .iter()
            .any(|block| self.labels.contains_key(&(name, block.number)))
    }

    /// Every name that can be said here, for suggestions.
    pub fn names(&self) -> impl Iterator<Item = &'a str> + '_ {
        let declared = self
            .blocks
            .iter()
            .flat_map(|block| block.names.keys().copied());
        declared.chain(self.labels.keys().map(|(name, _)| *name))
    }
}

/// The name before the colon, if the statement has one.
fn label<'a>(statement: &Statement<'a>) -> Option<Name<'a>> {
    match statement {
        Statement::Label(name) => Some(*name),
        Statement::Targets(targets) => Some(targets.name),
        Statement::Prototype(prototype) => Some(prototype.name),
        _ => None,
    }
}

impl<'m, 'a> Block<'m, 'a> {
    /// `%r5` of `%r<9>`.
    fn in_range(&self, name: &str) -> Option<Symbol<'m, 'a>> {
        if self.ranges.is_empty() {
            return None;
        }
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        // A prefix may end in digits itself: `%r1<9>` declares `%r10`.
        (prefix.len()..name.len()).find_map(|end| {
            let (count, symbol) = self.ranges.get(&name[..end])?;
            let number: u32 = name[end..].parse().ok()?;
            (number < *count).then_some(*symbol)
        })
    }
}
