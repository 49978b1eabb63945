//! What rules look at.

use super::Options;
use crate::ptx::ast::{
    Body, Function, Instruction, Item, Mnemonic, Module, Operand, Statement, Version,
};
use crate::ptx::isa::target::Target;

/// A module, for the rules that look at all of it.
#[derive(Debug)]
pub struct Subject<'m, 'a> {
    /// As read.
    pub module: &'m Module<'a>,
    /// The text it was read from.
    pub source: &'a str,
    /// What it is judged for: what was asked for, or else what it says.
    pub target: Option<Target>,
    /// The same of the version.
    pub version: Option<Version>,
}

impl<'m, 'a> Subject<'m, 'a> {
    pub(super) fn new(module: &'m Module<'a>, source: &'a str, options: &Options) -> Self {
        let own = module.target.iter();
        let own = || own.clone().find_map(|name| name.text.parse().ok());
        Subject {
            module,
            source,
            target: options.target.or_else(own),
            version: options
                .version
                .or(module.version.map(|(version, _)| version)),
        }
    }

    /// The functions that have a body which could be read.
    pub fn functions(&self) -> impl Iterator<Item = FunctionSubject<'_, 'a>> {
        self.module.items.iter().filter_map(|item| match item {
            Item::Function(function) => {
                let body = function.body.as_ref().filter(|body| !body.broken)?;
                Some(FunctionSubject {
                    subject: self,
                    function,
                    body,
                })
            }
            _ => None,
        })
    }
}

/// A function with a body, and what is known of it.
#[derive(Debug)]
pub struct FunctionSubject<'m, 'a> {
    /// The module it stands in.
    pub subject: &'m Subject<'m, 'a>,
    /// Its head.
    pub function: &'m Function<'a>,
    /// Its statements.
    pub body: &'m Body<'a>,
}

impl<'m, 'a> FunctionSubject<'m, 'a> {
    /// Its instructions in the order of the text.
    pub fn instructions(&self) -> impl Iterator<Item = &'m Instruction<'a>> {
        let statements = self.body.statements.iter();
        statements.filter_map(|statement| match statement {
            Statement::Instruction(instruction) => Some(instruction),
            _ => None,
        })
    }

    /// The opcode with its modifiers.
    pub fn mnemonic(&self, instruction: &Instruction<'a>) -> &'m Mnemonic<'a> {
        self.subject.module.mnemonic(instruction)
    }

    /// The operands in the order of the text.
    pub fn operands(&self, instruction: &Instruction<'a>) -> &'m [Operand<'a>] {
        self.body.list(instruction.operands)
    }
}
