//! Name resolution: the register or variable that a name in a function refers to.

use ptx::NameMap;
use ptx::ast::{Space, Variable};

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

/// The names that are in scope at one place of a function.
#[derive(Debug, Default)]
pub(super) struct Names<'m, 'a> {
    /// `%r<9>`, innermost block last.
    ranges: Vec<Range<'a>>,
    singles: NameMap<'a, Reference>,
    /// The declarations that open blocks shadow; `None` marks the start of a block.
    undo: Vec<Option<(&'a str, Option<Reference>)>>,
    depths: Vec<usize>,
    /// The first bytes of the registers such as `%r5` that have been declared alone, not by
    /// `%r<9>`: a bit each.
    lone: u128,
    /// The number of registers.
    pub registers: u32,
    /// The registers that are declared one by one, in order.
    pub single: Vec<Register>,
    /// By [`VariableId`].
    pub variables: Vec<&'m Variable<'a>>,
}

/// The bytes of a prefix as one number, 0 for one that is too long. Most have two or
/// three.
fn key(prefix: &[u8]) -> u64 {
    match prefix.len() {
        0..=8 => prefix
            .iter()
            .fold(0, |key, byte| key << 8 | u64::from(*byte)),
        _ => 0,
    }
}

/// The bit of the first byte of a name.
fn first_byte(name: &str) -> u128 {
    1 << (name.as_bytes().first().copied().unwrap_or(0) & 127)
}

#[derive(Debug)]
struct Range<'a> {
    prefix: &'a str,
    key: u64,
    count: u32,
    first: u32,
}

impl<'m, 'a> Names<'m, 'a> {
    pub fn open(&mut self) {
        self.undo.push(None);
        self.depths.push(self.ranges.len());
    }

    pub fn close(&mut self) {
        let Some(depth) = self.depths.pop() else {
            return;
        };
        self.ranges.truncate(depth);
        while let Some(Some((name, before))) = self.undo.pop() {
            match before {
                Some(before) => self.singles.insert(name, before),
                None => self.singles.remove(name),
            };
        }
    }

    pub fn declare(&mut self, variable: &'m Variable<'a>) -> Reference {
        let name = variable.name.text;
        if variable.space != Space::Reg {
            let id = VariableId(self.variables.len() as u32);
            self.variables.push(variable);
            return self.insert(name, Reference::Variable(id));
        }
        let first = self.registers;
        let count = variable.count.unwrap_or(1);
        self.registers = first.saturating_add(count).min(MAX_REGISTERS);
        match variable.count {
            Some(count) => {
                self.ranges.push(Range {
                    prefix: name,
                    key: key(name.as_bytes()),
                    count,
                    first,
                });
                Reference::Nothing
            }
            None => {
                let register = Register(first.min(MAX_REGISTERS - 1));
                self.single.push(register);
                if name.ends_with(|last: char| last.is_ascii_digit()) {
                    self.lone |= first_byte(name);
                }
                self.insert(name, Reference::Register(register))
            }
        }
    }

    fn insert(&mut self, name: &'a str, reference: Reference) -> Reference {
        let before = self.singles.insert(name, reference);
        if !self.depths.is_empty() {
            self.undo.push(Some((name, before)));
        }
        reference
    }

    /// What `name` refers to; a variable of the module gets its id on first use.
    pub fn get(&mut self, name: &'a str, module: &NameMap<'a, &'m Variable<'a>>) -> Reference {
        // What stands alone is declared in a block inside of that of the range.
        if self.lone & first_byte(name) != 0
            && let Some(known @ Reference::Register(_)) = self.singles.get(name)
        {
            return *known;
        }
        if let Some(register) = self.numbered(name) {
            return Reference::Register(register);
        }
        if let Some(known) = self.singles.get(name) {
            return *known;
        }
        match module.get(name) {
            Some(variable) if variable.space != Space::Reg => {
                let id = VariableId(self.variables.len() as u32);
                self.variables.push(variable);
                // The end of a block does not end the scope of the module's names.
                self.singles.insert(name, Reference::Variable(id));
                Reference::Variable(id)
            }
            _ => Reference::Nothing,
        }
    }

    /// `%r5` of `%r<9>`
    fn numbered(&self, name: &str) -> Option<Register> {
        const MOST_DIGITS: usize = 9;
        let bytes = name.as_bytes();
        let (mut length, mut number, mut power) = (bytes.len(), 0, 1);
        while let Some(digit) = length.checked_sub(1).map(|last| bytes[last])
            && digit.is_ascii_digit()
        {
            if bytes.len() - length == MOST_DIGITS {
                return None;
            }
            length -= 1;
            number += u32::from(digit - b'0') * power;
            power = power.wrapping_mul(10);
        }
        if length == bytes.len() {
            return None;
        }
        let prefix = &bytes[..length];
        let mut ranges = self.ranges.iter().rev();
        let key = key(prefix);
        let same = |range: &&Range<'_>| {
            range.key == key && (key != 0 || range.prefix.as_bytes() == prefix)
        };
        let range = ranges.find(|range| same(range) && number < range.count)?;
        let register = range.first.saturating_add(number);
        Some(Register(register.min(MAX_REGISTERS - 1)))
    }
}
