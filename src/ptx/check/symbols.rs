//! Names and what they stand for, scope by scope.

use std::collections::HashMap;

use crate::ptx::ast::{Function, Name, Prototype, Space, Statement, Targets, Variable};
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
    Label,
    /// `.branchtargets`, `.calltargets`
    Targets(&'m Targets<'a>),
    Prototype(&'m Prototype<'a>),
}

/// A range of registers is compared with so many single names: a text may not
/// choose how long that takes.
const COMPARED: usize = 256;

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

/// Names of the module, as far as it has been read: a name is declared before
/// it is used.
#[derive(Debug, Default)]
pub struct ModuleSymbols<'m, 'a> {
    names: HashMap<&'a str, Symbol<'m, 'a>>,
}

impl<'m, 'a> ModuleSymbols<'m, 'a> {
    pub fn declare(&mut self, name: &'a str, symbol: Symbol<'m, 'a>) {
        self.names.insert(name, symbol);
    }

    pub fn get(&self, name: &str) -> Option<Symbol<'m, 'a>> {
        self.names.get(name).copied()
    }

    pub fn names(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.names.keys().copied()
    }
}

/// Names inside a function: a stack of blocks.
#[derive(Debug, Default)]
pub struct Scopes<'m, 'a> {
    blocks: Vec<Block<'m, 'a>>,
    /// Labels of every block, and whether they have been passed: a jump may
    /// come before its label.
    labels: HashMap<(&'a str, usize), bool>,
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
                Statement::Label(name) => {
                    let block = open.last().copied().unwrap_or(0);
                    if scopes.labels.insert((name.text, block), false).is_some() {
                        duplicate(*name);
                    }
                }
                _ => {}
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
        let Some(count) = variable.count else {
            let label = self.labels.get(&(name, block.number)) == Some(&true);
            let known = label || block.in_range(name).is_some();
            let known = block.names.insert(name, symbol).is_some() || known;
            return if known { Err(()) } else { Ok(()) };
        };
        let mut singles = block.names.keys().take(COMPARED);
        let single = singles.any(|single| numbered(single, name, count));
        let known = block.ranges.insert(name, (count, symbol)).is_some();
        if known || single { Err(()) } else { Ok(()) }
    }

    /// Passes a label; an error if the block has something else of the name.
    pub fn label(&mut self, name: Name<'a>) -> Result<(), ()> {
        let Some(block) = self.blocks.last() else {
            return Ok(());
        };
        self.labels.insert((name.text, block.number), true);
        if block.names.contains_key(name.text) {
            return Err(());
        }
        Ok(())
    }

    /// Adds a table or prototype to the innermost block.
    pub fn declare_table(&mut self, name: Name<'a>, table: Symbol<'m, 'a>) -> Result<(), ()> {
        let Some(block) = self.blocks.last_mut() else {
            return Ok(());
        };
        let label = self.labels.contains_key(&(name.text, block.number));
        match block.names.insert(name.text, table) {
            None if !label => Ok(()),
            _ => Err(()),
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

/// Whether `name` is one of the registers `prefix<count>`.
fn numbered(name: &str, prefix: &str, count: u32) -> bool {
    let number = name
        .strip_prefix(prefix)
        .filter(|digits| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()));
    number.is_some_and(|digits| digits.parse::<u32>().is_ok_and(|number| number < count))
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
