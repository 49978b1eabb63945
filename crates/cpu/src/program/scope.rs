//! Lexical scopes of a function.

use std::collections::HashMap;

use super::ir::{BlockId, Reg, Storage};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Symbol {
    Register(Reg),
    /// `.reg .v4 .f32 %v`: the first component and the number of components.
    Vector(Reg, u8),
    /// `%r<9>`: `%r0` is the first.
    Range(Reg, u32),
    Variable(Storage),
    Label(BlockId),
}

/// The scopes of one function instance, innermost last.
#[derive(Default)]
pub(super) struct Scopes<'a> {
    stack: Vec<HashMap<&'a str, Symbol>>,
}

impl<'a> Scopes<'a> {
    pub fn enter(&mut self) {
        self.stack.push(HashMap::new());
    }

    pub fn leave(&mut self) {
        self.stack.pop();
    }

    pub fn declare(&mut self, name: &'a str, symbol: Symbol) {
        if let Some(scope) = self.stack.last_mut() {
            scope.insert(name, symbol);
        }
    }

    pub fn find(&self, name: &str) -> Option<Symbol> {
        // `%r12` may be declared as `%r<13>`. The stem itself may end in digits.
        let digits = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        for scope in self.stack.iter().rev() {
            match scope.get(name) {
                // The stem of a range without a number is not a register.
                Some(Symbol::Range(..)) | None => {}
                Some(&symbol) => return Some(symbol),
            }
            for split in digits..name.len() {
                let (stem, number) = name.split_at(split);
                if let Some(&Symbol::Range(first, count)) = scope.get(stem)
                    && (number.len() == 1 || !number.starts_with('0'))
                    && let Ok(number) = number.parse::<u32>()
                    && number < count
                {
                    return Some(Symbol::Register(Reg(first.0 + number)));
                }
            }
        }
        None
    }
}
