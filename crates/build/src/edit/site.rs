//! One instruction of a module that was read.

use ptx::ast::{AddressBase, Body, Function, Guard, Instruction, Modifiers, Module, Operand, Span};
use ptx::names::Opcode;

use crate::code::Code;
use crate::value::Value;

/// An instruction, and where it is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Site<'a> {
    /// The kernel or function.
    pub function: &'a str,
    /// The opcode.
    pub opcode: Opcode,
    /// The words after the opcode, types included.
    pub modifiers: Modifiers,
    /// The guard `@%p`.
    pub predicate: Option<Guard<'a>>,
    /// The operands, results first.
    pub operands: Vec<Operand<'a>>,
    /// The instruction as it is written, with its guard and semicolon.
    pub text: &'a str,
    /// The span of [`text`](Site::text).
    pub span: Span,
}

impl<'a> Site<'a> {
    pub(super) fn new(
        source: &'a str,
        module: &Module<'a>,
        function: &Function<'a>,
        body: &Body<'a>,
        instruction: &Instruction,
    ) -> Site<'a> {
        let Span { start, end } = instruction.span;
        Site {
            function: function.name.text,
            opcode: instruction.opcode,
            modifiers: module.mnemonic(instruction).modifiers,
            predicate: body.guard(instruction),
            operands: body.list(instruction.operands).to_vec(),
            text: source.get(start as usize..end as usize).unwrap_or_default(),
            span: instruction.span,
        }
    }

    /// Its guard as a value of code that is added there: whether the thread executes the
    /// instruction. `None` if all do that reach it.
    pub fn guard<'k>(&self, code: Code<'k>) -> Option<Value<'k, bool>> {
        let Guard { predicate, negated } = self.predicate?;
        let value = code.existing(predicate.text);
        Some(if negated { !value } else { value })
    }

    /// The address that it accesses, in code that is added there: a register of 64 bits or the
    /// address of a variable, with the offset. `None` if it has no address.
    pub fn address<'k>(&self, code: Code<'k>) -> Option<Value<'k, u64>> {
        let address = self.operands.iter().find_map(|operand| match *operand {
            Operand::Address { base, offset, .. } => Some((base, offset)),
            _ => None,
        });
        let (AddressBase::Name(base), offset) = address? else {
            return None;
        };
        let base = code.result("mov.u64", &[&base.text]);
        Some(match offset {
            0 => base,
            _ => code.result("add.s64", &[&base.reg, &offset]),
        })
    }
}
