//! Symbol tables of a module and of the scopes of a function.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

use super::registers::Registers;
use crate::ast::{Function, Name, Prototype, Space, Statement, Targets, Variable};
use crate::names::Type;

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
    fn of(variable: &'m Variable<'a>, role: Role) -> Self {
        match variable.space {
            Space::Reg => Symbol::Register {
                ty: variable.ty,
                vector: variable.vector,
            },
            _ => Symbol::Variable(variable, role),
        }
    }
}

/// The maximum number of single names that a range of registers is compared with. Bounds
/// the time, which would be quadratic.
const MAX_COMPARED: usize = 256;

/// Up to this number of prefixes the search is linear.
const MAX_LINEAR_SEARCH: usize = 12;

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

/// The names in scope at one place of a function.
///
/// One map has the current meaning of each name. The end of a block restores the
/// names that the block shadows. So a lookup costs the same in deeply nested blocks.
#[derive(Debug, Default)]
pub struct Scopes<'m, 'a> {
    names: NameMap<'a, Declared<'m, 'a>>,
    /// The ranges such as `%r<9>`, by prefix.
    prefix_ranges: Vec<PrefixRanges<'m, 'a>>,
    /// The index of the ranges of a prefix.
    prefixes: NameMap<'a, usize>,
    /// The declarations of the open blocks, in order.
    undo: Vec<Undo<'m, 'a>>,
    /// The number of open blocks.
    depth: u32,
    /// The number of blocks opened so far.
    opened: usize,
    /// All labels with the number of their block, in the order of the blocks.
    labels: Vec<(usize, Name<'a>)>,
    next_label: usize,
    /// Whether a name such as `%r5` is declared by itself, not by `%r<9>`.
    lone_registers: bool,
    /// The number of such declarations in scope, by prefix.
    single_registers: NameMap<'a, u32>,
    /// Whether there are ranges such as `r<9>`, without `%`.
    bare_ranges: bool,
    /// The ranges whose prefix has no other range and no single register, and single
    /// registers without a number.
    registers: Registers,
}

#[derive(Clone, Copy, Debug)]
struct Declared<'m, 'a> {
    symbol: Symbol<'m, 'a>,
    name: Name<'a>,
    depth: u32,
}

/// `%r<9>`
#[derive(Clone, Copy, Debug)]
struct Range<'m, 'a> {
    count: u32,
    symbol: Symbol<'m, 'a>,
    name: Name<'a>,
    depth: u32,
}

/// The ranges of one prefix, those of the outermost block first.
#[derive(Debug)]
struct PrefixRanges<'m, 'a> {
    key: u64,
    ranges: Vec<Range<'m, 'a>>,
}

/// The bytes of a prefix as a number, or 0 if it is too long. A function has a handful
/// of prefixes of two or three bytes, so comparing numbers is faster than hashing.
fn key(prefix: &str) -> u64 {
    if prefix.len() > 8 {
        return 0;
    }
    let bytes = prefix.bytes();
    bytes.fold(0, |key, byte| key << 8 | u64::from(byte))
}

/// How the end of a block reverts a declaration.
#[derive(Debug)]
enum Undo<'m, 'a> {
    /// A block began.
    Block,
    Name(&'a str, Option<Declared<'m, 'a>>),
    /// The last range of the prefix with this index.
    Range(usize),
}

impl<'m, 'a> Scopes<'m, 'a> {
    /// The scope of a function with these statements. Calls `duplicate` for each label
    /// that is already declared in its block.
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
                    scopes.labels.push((block, *name));
                }
                _ => {}
            }
        }
        // A stable sort: labels of one block stay in source order.
        scopes.labels.sort_by_key(|(block, _)| *block);
        let of_block = scopes.labels.len();
        scopes.names.reserve(of_block.min(1 << 16));
        scopes.enter(&mut duplicate);
        // Nearly all labels are in the outermost block.
        duplicates(&scopes.labels[scopes.next_label..], duplicate);
        scopes
    }

    /// Enters the next block of the text. Its labels are in scope from its start.
    pub fn open(&mut self) {
        self.enter(|_| {});
    }

    /// Calls `duplicate` for each label that is already declared in the block.
    fn enter(&mut self, mut duplicate: impl FnMut(Name<'a>)) {
        self.undo.push(Undo::Block);
        self.depth += 1;
        while let Some((_, name)) = self
            .labels
            .get(self.next_label)
            .filter(|(block, _)| *block == self.opened)
        {
            let name = *name;
            self.next_label += 1;
            if self.insert(name, Symbol::Label).is_some() {
                duplicate(name);
            }
        }
        self.opened += 1;
    }

    pub fn close(&mut self) {
        // The outermost block is the function's own.
        if self.depth <= 1 {
            return;
        }
        self.depth -= 1;
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Block => return,
                Undo::Name(name, hidden) => {
                    match hidden {
                        Some(hidden) => self.names.insert(name, hidden),
                        None => self.names.remove(name),
                    };
                    if let Some(prefix) = single_register_prefix(name) {
                        self.single_register_ended(prefix);
                    }
                    self.registers.forget_single(key(name));
                }
                Undo::Range(family) => {
                    self.prefix_ranges[family].ranges.pop();
                    self.note(family);
                }
            }
        }
    }

    /// Adds a variable to the innermost block. If the name is already declared there, the
    /// error is the later of the two names.
    pub fn declare(&mut self, variable: &'m Variable<'a>, role: Role) -> Result<(), Name<'a>> {
        let symbol = Symbol::of(variable, role);
        let name = variable.name;
        let before = match variable.count {
            Some(count) => self.insert_range(name, count, symbol),
            None => {
                let range = self.range(name.text);
                let range = range.filter(|range| range.depth == self.depth);
                let range = range.map(|range| range.name);
                self.insert(name, symbol).or(range)
            }
        };
        // `_` is an unnamed parameter.
        match before {
            Some(before) if name.text != "_" => Err(later(before, name)),
            _ => Ok(()),
        }
    }

    /// Adds a table or prototype to the innermost block.
    pub fn declare_table(&mut self, name: Name<'a>, table: Symbol<'m, 'a>) -> Result<(), Name<'a>> {
        match self.insert(name, table) {
            Some(before) => Err(later(before, name)),
            None => Ok(()),
        }
    }

    /// Returns the previous declaration of this name in the innermost block.
    fn insert(&mut self, name: Name<'a>, symbol: Symbol<'m, 'a>) -> Option<Name<'a>> {
        let single_registers = single_register_prefix(name.text);
        self.lone_registers |= single_registers.is_some();
        let declared = Declared {
            symbol,
            name,
            depth: self.depth,
        };
        match symbol {
            Symbol::Register { ty, vector: 1 } if single_registers.is_none() => {
                self.registers.set_single(key(name.text), ty);
            }
            _ => self.registers.forget_single(key(name.text)),
        }
        let hidden = self.names.insert(name.text, declared);
        match hidden {
            Some(before) if before.depth == self.depth => Some(before.name),
            _ => {
                self.undo.push(Undo::Name(name.text, hidden));
                if let Some(prefix) = single_registers {
                    *self.single_registers.entry(prefix).or_default() += 1;
                    self.registers.forget(key(prefix));
                }
                None
            }
        }
    }

    /// Counts down the single registers of this prefix.
    fn single_register_ended(&mut self, prefix: &'a str) {
        match self.single_registers.get_mut(prefix) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.single_registers.remove(prefix);
                if let Some(family) = self.prefixes.get(prefix) {
                    self.note(*family);
                }
            }
        }
    }

    fn insert_range(
        &mut self,
        name: Name<'a>,
        count: u32,
        symbol: Symbol<'m, 'a>,
    ) -> Option<Name<'a>> {
        let singles = self.undo.iter().rev().take(MAX_COMPARED);
        let mut singles = singles.map_while(|undo| match undo {
            Undo::Block => None,
            Undo::Name(single, _) => Some(*single),
            Undo::Range(_) => Some(""),
        });
        let single = singles.find(|single| numbered(single, name.text, count));
        let single = single.map(|text| Name { text });
        let new = self.prefix_ranges.len();
        let family = *self.prefixes.entry(name.text).or_insert(new);
        if family == new {
            self.prefix_ranges.push(PrefixRanges {
                key: key(name.text),
                ranges: Vec::new(),
            });
            self.bare_ranges |= !name.text.starts_with('%');
        }
        let ranges = &mut self.prefix_ranges[family].ranges;
        let before = ranges.last().filter(|range| range.depth == self.depth);
        let before = before.map(|range| range.name).or(single);
        ranges.push(Range {
            count,
            symbol,
            name,
            depth: self.depth,
        });
        self.undo.push(Undo::Range(family));
        self.note(family);
        before
    }

    /// Updates `registers` after a change of the ranges of a prefix.
    fn note(&mut self, family: usize) {
        let PrefixRanges { key, ranges } = &self.prefix_ranges[family];
        match ranges.as_slice() {
            [range] if !self.single_registers.contains_key(range.name.text) => match range.symbol {
                Symbol::Register { ty, vector: 1 } => {
                    self.registers.set(*key, range.name.text, range.count, ty);
                }
                _ => self.registers.forget(*key),
            },
            _ => self.registers.forget(*key),
        }
    }

    /// The fast path of [`get`](Self::get): the type of the register with these name
    /// bytes.
    #[inline]
    pub fn register(&self, word: u64) -> Option<Type> {
        self.registers.get(word)
    }

    /// The symbol of a name in the function.
    pub fn get(&self, name: &str) -> Option<Symbol<'m, 'a>> {
        self.find(name).map(|(symbol, _)| symbol)
    }

    /// The same with the name that declares it.
    #[inline]
    pub fn find(&self, name: &str) -> Option<(Symbol<'m, 'a>, Name<'a>)> {
        let range = self.range(name);
        // Nearly all names are registers of a range that nothing shadows.
        if let Some(range) = range
            && !self.lone_registers
            && name.starts_with('%')
        {
            return Some((range.symbol, range.name));
        }
        match (self.names.get(name), range) {
            (Some(declared), Some(range)) if range.depth > declared.depth => {
                Some((range.symbol, range.name))
            }
            (Some(declared), _) => Some((declared.symbol, declared.name)),
            (None, range) => range.map(|range| (range.symbol, range.name)),
        }
    }

    /// The range of `%r5`: all trailing digits are the number.
    fn range(&self, name: &str) -> Option<&Range<'m, 'a>> {
        let (family, number) = self.family(name)?;
        let mut ranges = family.ranges.iter().rev();
        ranges.find(|range| number < u64::from(range.count))
    }

    /// The ranges with the prefix of a name such as `%r5`, and its number.
    fn family(&self, name: &str) -> Option<(&PrefixRanges<'m, 'a>, u64)> {
        if !ends_in_digit(name) || !(self.bare_ranges || name.starts_with('%')) {
            return None;
        }
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (prefix, digits) = name.split_at_checked(name.len() - digits)?;
        let number = digits.bytes().fold(0_u64, |number, digit| {
            let digit = u64::from(digit - b'0');
            number.saturating_mul(10).saturating_add(digit)
        });
        let key = key(prefix);
        let family = if key == 0 || self.prefix_ranges.len() > MAX_LINEAR_SEARCH {
            self.prefix_ranges.get(*self.prefixes.get(prefix)?)?
        } else {
            self.prefix_ranges.iter().find(|family| family.key == key)?
        };
        Some((family, number))
    }

    /// The declaration, as `%r<9>`, of the range that is too short for `name`.
    pub fn range_before(&self, name: &str) -> Option<String> {
        let range = self.family(name)?.0.ranges.last()?;
        Some(format!("{}<{}>", range.name.text, range.count))
    }

    /// The names in scope, for suggestions.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &'a str> + '_ {
        self.names.keys().copied()
    }
}

/// The later of two names in the text. Labels are declared at the start of a block, so
/// the order of the declarations is another one.
fn later<'a>(a: Name<'a>, b: Name<'a>) -> Name<'a> {
    if a.text.as_ptr() > b.text.as_ptr() {
        a
    } else {
        b
    }
}

/// The `%r` of `%r5`.
fn single_register_prefix(name: &str) -> Option<&str> {
    let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (prefix.starts_with('%') && prefix.len() < name.len()).then_some(prefix)
}

fn ends_in_digit(name: &str) -> bool {
    name.as_bytes().last().is_some_and(u8::is_ascii_digit)
}

/// Whether `name` is one of the registers `prefix<count>`.
fn numbered(name: &str, prefix: &str, count: u32) -> bool {
    let Some(digits) = name.strip_prefix(prefix) else {
        return false;
    };
    // `%r07` is not a name of the range.
    let canonical = digits == "0" || !digits.starts_with('0');
    canonical
        && digits.bytes().all(|digit| digit.is_ascii_digit())
        && digits.parse::<u32>().is_ok_and(|number| number < count)
}

/// Finds labels that are already declared in their block. `labels` are in block order.
fn duplicates<'a>(labels: &[(usize, Name<'a>)], mut duplicate: impl FnMut(Name<'a>)) {
    for block in labels.chunk_by(|a, b| a.0 == b.0).filter(|b| b.len() > 1) {
        let mut seen = NameMap::default();
        for (_, name) in block {
            if seen.insert(name.text, ()).is_some() {
                duplicate(*name);
            }
        }
    }
}

pub type NameMap<'a, V> = HashMap<&'a str, V, Seed>;

/// A fast hash for short names and for numbers of more than one byte. The seed is random for
/// each process, so that no text can be crafted from names that collide.
#[derive(Clone, Debug)]
pub struct Seed(u64);

impl Default for Seed {
    fn default() -> Self {
        static SEED: OnceLock<u64> = OnceLock::new();
        Seed(*SEED.get_or_init(|| RandomState::new().build_hasher().finish()))
    }
}

impl BuildHasher for Seed {
    type Hasher = NameHasher;

    fn build_hasher(&self) -> NameHasher {
        NameHasher(self.0)
    }
}

pub struct NameHasher(u64);

impl NameHasher {
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * 0x9E37_79B9_7F4A_7C15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        let fold = |last, byte: &u8| last << 8 | u64::from(*byte);
        self.mix(rest.iter().fold(bytes.len() as u64, fold));
    }

    /// Ignores the terminator of a string: `write` mixes in its length.
    fn write_u8(&mut self, _: u8) {}

    fn write_u32(&mut self, number: u32) {
        self.mix(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::Item;
    use crate::read;

    /// The operand of each `mov` of a kernel: the type of the register, or `label`.
    fn resolved(body: &str) -> (Vec<&'static str>, Vec<String>) {
        let source = format!(".entry k() {{ {body} }}");
        let reading = read(&source);
        assert_eq!(reading.diagnostics, []);
        let Some(Item::Function(function)) = reading.module.items.first() else {
            panic!("no function in {body}");
        };
        let body = function.body.as_ref().unwrap();
        let mut twice = Vec::new();
        let mut scopes = Scopes::new(&body.statements, |name| twice.push(name.text.to_owned()));
        let mut found = Vec::new();
        for statement in &body.statements {
            match statement {
                Statement::Begin(_) => scopes.open(),
                Statement::End(_) => scopes.close(),
                Statement::Variable(variable) => {
                    if let Err(name) = scopes.declare(variable, Role::Own) {
                        twice.push(name.text.to_owned());
                    }
                }
                Statement::Instruction(instruction) => {
                    for operand in body.list(instruction.operands) {
                        let name = &source[operand.span(&source).start as usize..];
                        let end = name.find([',', ';']).unwrap();
                        found.push(match scopes.get(&name[..end]) {
                            Some(Symbol::Register { ty, .. }) => ty.text(),
                            Some(Symbol::Label) => "label",
                            Some(_) => "variable",
                            None => "?",
                        });
                    }
                }
                _ => {}
            }
        }
        (found, twice)
    }

    /// Expectations recorded from ptxas 13.5.
    #[test]
    fn the_innermost_declaration_shadows_others() {
        let (found, twice) = resolved(
            ".reg .b32 %r<9>; .reg .f32 x; mov x, %r8, %r08, %r9, %r, L;\n\
             { .reg .b64 %r<2>, x; .reg .pred %r7; L: mov x, %r1, %r5, %r7, M; }\n\
             mov x, %r1, %r7, L; M: { .reg .b16 M; mov M; } mov M;",
        );
        assert_eq!(twice, [""; 0]);
        assert_eq!(
            found,
            [
                "f32", "b32", "b32", "?", "?", "?", "b64", "b64", "b32", "pred", "label", "f32",
                "b32", "b32", "?", "b16", "label"
            ]
        );
    }

    #[test]
    fn a_block_declares_a_name_once() {
        let (_, twice) = resolved(
            "A: A: { A: ret; } .reg .b32 %x<3>; .reg .b32 %x2; .reg .b32 %x3; .reg .f32 %x<2>;\n\
             .reg .b32 %y, %z1, %z02; .reg .b32 %z<1>; .reg .b32 %z<2>; { .reg .b32 %y; } .reg .b16 B; B: .reg .b32 C, C; { .reg .b32 C; }",
        );
        assert_eq!(twice, ["A", "%x2", "%x", "%z", "B", "C"]);
    }
}
