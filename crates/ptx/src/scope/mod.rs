//! Name resolution in a function: what a name means where it stands.
//!
//! A block `{ … }` is a scope. A declaration holds from where it stands to the end of its
//! block, and hides those around it; a label holds in all of its block. `.reg .b32 %r<9>`
//! declares `%r0` to `%r8`: all digits at the end of a name are the number, and `%r08` is
//! `%r8`. The checker, the linter and the CPU device each give names a meaning of their own.
//!
//! ```
//! use ptxkit_ptx::ast::{Item, Name, Statement};
//! use ptxkit_ptx::scope::{Meaning, Scopes};
//!
//! /// The statement that declares a name.
//! #[derive(Clone, Copy, Debug, PartialEq)]
//! struct At(usize);
//!
//! impl Meaning for At {
//!     type Register = usize;
//!
//!     fn register(&self) -> Option<usize> {
//!         Some(self.0)
//!     }
//! }
//!
//! let source = ".version 8.0\n.target sm_80\n.entry k() { .reg .b32 %r<9>; { .reg .b64 %r<2>; } }";
//! let reading = ptxkit_ptx::read(source);
//! let Some(Item::Function(function)) = reading.module.items.first() else { panic!() };
//! let body = function.body.as_ref().unwrap();
//! let mut scopes = Scopes::new(&body.statements, |_| At(0), |_| {});
//! let mut found = Vec::new();
//! for (at, statement) in body.statements.iter().enumerate() {
//!     match statement {
//!         Statement::Begin(_) => scopes.open(),
//!         Statement::End(_) => scopes.close(),
//!         Statement::Variable(one) => scopes.declare(one.name, one.count, At(at)).unwrap(),
//!         _ => {}
//!     }
//!     let known = |name| scopes.find(name).map(|found| (found.meaning, found.number));
//!     found.push((known("%r1"), known("%r8")));
//! }
//! let outer = |number| Some((At(0), number));
//! assert_eq!(found[0], (outer(1), outer(8)));
//! assert_eq!(found[2], (Some((At(2), 1)), outer(8)));
//! assert_eq!(found[3], (outer(1), outer(8)));
//! ```

mod registers;

use crate::ast::{Name, Statement};
use crate::name_map::NameMap;
use registers::Registers;
pub(crate) use registers::numbered;
pub use registers::{number, word};

/// The maximum number of single names that a range of registers is compared with. Bounds
/// the time, which would be quadratic.
pub(crate) const MAX_COMPARED: usize = 256;

/// Up to this number of prefixes the search is linear.
const MAX_LINEAR_SEARCH: usize = 12;

/// What a name stands for; of `%r<9>`, what all of them do.
pub trait Meaning: Copy {
    /// A register.
    type Register: Copy;

    /// The register, if it is one. Most operands are, so that those are found fast.
    fn register(&self) -> Option<Self::Register>;
}

/// A name that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a, M> {
    /// What it means.
    pub meaning: M,
    /// Its number in a range such as `%r<9>`; 0 for others.
    pub number: u32,
    /// The name in its declaration: the `%r` of `%r<9>`.
    pub name: Name<'a>,
}

/// The names in scope at one place of a function.
///
/// One map has the current meaning of each name. The end of a block restores the
/// names that the block shadows. So a lookup costs the same in deeply nested blocks.
#[derive(Debug)]
pub struct Scopes<'a, M: Meaning> {
    names: NameMap<'a, Declared<'a, M>>,
    /// The ranges such as `%r<9>`, by prefix.
    prefix_ranges: Vec<PrefixRanges<'a, M>>,
    /// The index of the ranges of a prefix.
    prefixes: NameMap<'a, usize>,
    /// The declarations of the open blocks, in order.
    undo: Vec<Undo<'a, M>>,
    /// The number of open blocks.
    depth: u32,
    /// The number of blocks opened so far.
    opened: usize,
    /// All labels with the number of their block, in the order of the blocks.
    labels: Vec<(usize, Name<'a>, M)>,
    next_label: usize,
    /// Whether a name such as `%r5` is declared by itself, not by `%r<9>`.
    lone_registers: bool,
    /// The number of such declarations in scope, by prefix.
    single_registers: NameMap<'a, u32>,
    /// Whether there are ranges such as `r<9>`, without `%`.
    bare_ranges: bool,
    /// The ranges whose prefix has no other range and no single register, and single
    /// registers without a number.
    registers: Registers<M::Register>,
}

#[derive(Clone, Copy, Debug)]
struct Declared<'a, M> {
    meaning: M,
    name: Name<'a>,
    depth: u32,
}

/// `%r<9>`
#[derive(Clone, Copy, Debug)]
struct Range<'a, M> {
    count: u32,
    meaning: M,
    name: Name<'a>,
    depth: u32,
}

/// The ranges of one prefix, those of the outermost block first.
#[derive(Debug)]
struct PrefixRanges<'a, M> {
    key: u64,
    ranges: Vec<Range<'a, M>>,
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
enum Undo<'a, M> {
    /// A block began.
    Block,
    Name(&'a str, Option<Declared<'a, M>>),
    /// The last range of the prefix with this index.
    Range(usize),
}

impl<M: Meaning> Default for Scopes<'_, M> {
    fn default() -> Self {
        Scopes {
            names: NameMap::default(),
            prefix_ranges: Vec::new(),
            prefixes: NameMap::default(),
            undo: Vec::new(),
            depth: 0,
            opened: 0,
            labels: Vec::new(),
            next_label: 0,
            lone_registers: false,
            single_registers: NameMap::default(),
            bare_ranges: false,
            registers: Registers::default(),
        }
    }
}

impl<'a, M: Meaning> Scopes<'a, M> {
    /// The scope of a function with these statements. `label` gives the meaning of each
    /// label, in the order of the text. `duplicate` is called for each that is already
    /// declared in its block.
    pub fn new(
        statements: &[Statement<'a>],
        mut label: impl FnMut(Name<'a>) -> M,
        mut duplicate: impl FnMut(Name<'a>),
    ) -> Self {
        let mut scopes = Scopes::default();
        // Blocks of a compiler have some sixteen statements.
        scopes.labels.reserve(statements.len() / 16);
        let mut open = vec![0];
        let (mut blocks, mut variables) = (0, 0);
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
                    scopes.labels.push((block, *name, label(*name)));
                }
                Statement::Variable(_) => variables += 1,
                _ => {}
            }
        }
        // A stable sort: labels of one block stay in source order.
        scopes.labels.sort_by_key(|(block, ..)| *block);
        let names = scopes.labels.len() + variables;
        scopes.names.reserve(names.min(1 << 16));
        scopes.undo.reserve(names);
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
        while let Some(&(_, name, meaning)) = self
            .labels
            .get(self.next_label)
            .filter(|(block, ..)| *block == self.opened)
        {
            self.next_label += 1;
            if self.insert(name, meaning).is_some() {
                duplicate(name);
            }
        }
        self.opened += 1;
    }

    /// Leaves the innermost block.
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

    /// Adds a name to the innermost block, or so many: `%r<9>`.
    ///
    /// # Errors
    /// The name is already declared there; it is the later of the two.
    pub fn declare(&mut self, name: Name<'a>, count: Option<u32>, is: M) -> Result<(), Name<'a>> {
        let before = match count {
            Some(count) => self.insert_range(name, count, is),
            None => {
                let range = self.range(name.text);
                let range = range.filter(|(range, _)| range.depth == self.depth);
                let range = range.map(|(range, _)| range.name);
                self.insert(name, is).or(range)
            }
        };
        // `_` is an unnamed parameter.
        match before {
            Some(before) if name.text != "_" => Err(later(before, name)),
            _ => Ok(()),
        }
    }

    /// Returns the previous declaration of this name in the innermost block.
    fn insert(&mut self, name: Name<'a>, meaning: M) -> Option<Name<'a>> {
        let single_registers = single_register_prefix(name.text);
        self.lone_registers |= single_registers.is_some();
        let declared = Declared {
            meaning,
            name,
            depth: self.depth,
        };
        match meaning.register() {
            Some(register) if single_registers.is_none() => {
                self.registers.set_single(key(name.text), register);
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

    fn insert_range(&mut self, name: Name<'a>, count: u32, meaning: M) -> Option<Name<'a>> {
        // Most functions declare no register such as `%r5` by itself.
        let may_meet = self.lone_registers || !name.text.starts_with('%');
        let compared = if may_meet { MAX_COMPARED } else { 0 };
        let singles = self.undo.iter().rev().take(compared);
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
            meaning,
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
            [range] if !self.single_registers.contains_key(range.name.text) => {
                match range.meaning.register() {
                    Some(register) => {
                        let name = range.name.text;
                        self.registers.set(*key, name, range.count, register);
                    }
                    None => self.registers.forget(*key),
                }
            }
            _ => self.registers.forget(*key),
        }
    }

    /// The fast path of [`find`](Self::find): the register with these bytes, a
    /// [`word`]. If it is one of a range, its number is [`number`] of them.
    #[inline]
    pub fn register(&self, word: u64) -> Option<M::Register> {
        self.registers.get(word)
    }

    /// The same of a name with so many digits at its end.
    #[inline]
    pub(crate) fn numbered_register(&self, word: u64, digits: u32) -> Option<M::Register> {
        self.registers.get_numbered(word, digits)
    }

    /// The meaning of a name.
    pub fn get(&self, name: &str) -> Option<M> {
        self.find(name).map(|found| found.meaning)
    }

    /// The same with the name that declares it, and its number.
    #[inline]
    pub fn find(&self, name: &str) -> Option<Found<'a, M>> {
        let range = self.range(name).map(|(range, number)| {
            let found = Found {
                meaning: range.meaning,
                number,
                name: range.name,
            };
            (found, range.depth)
        });
        // Nearly all names are registers of a range that nothing shadows.
        if let Some((range, _)) = range
            && !self.lone_registers
            && name.starts_with('%')
        {
            return Some(range);
        }
        match (self.names.get(name), range) {
            (Some(declared), Some((range, depth))) if depth > declared.depth => Some(range),
            (Some(declared), _) => Some(Found {
                meaning: declared.meaning,
                number: 0,
                name: declared.name,
            }),
            (None, range) => range.map(|(range, _)| range),
        }
    }

    /// The range of `%r5`, and its number.
    fn range(&self, name: &str) -> Option<(&Range<'a, M>, u32)> {
        let (family, number) = self.family(name)?;
        let mut ranges = family.ranges.iter().rev();
        let range = ranges.find(|range| number < u64::from(range.count))?;
        Some((range, number as u32))
    }

    /// The ranges with the prefix of a name such as `%r5`, and its number.
    fn family(&self, name: &str) -> Option<(&PrefixRanges<'a, M>, u64)> {
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
    if !name.starts_with('%') || !ends_in_digit(name) {
        return None;
    }
    Some(name.trim_end_matches(|c: char| c.is_ascii_digit()))
}

fn ends_in_digit(name: &str) -> bool {
    name.as_bytes().last().is_some_and(u8::is_ascii_digit)
}

/// Finds labels that are already declared in their block. `labels` are in block order.
fn duplicates<'a, M>(labels: &[(usize, Name<'a>, M)], mut duplicate: impl FnMut(Name<'a>)) {
    for block in labels.chunk_by(|a, b| a.0 == b.0).filter(|b| b.len() > 1) {
        let mut seen = NameMap::default();
        for (_, name, _) in block {
            if seen.insert(name.text, ()).is_some() {
                duplicate(*name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::{Item, Space};
    use crate::names::Type;
    use crate::read;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Is {
        Register(Type),
        Variable,
        Label,
    }

    impl Meaning for Is {
        type Register = Type;

        fn register(&self) -> Option<Type> {
            match self {
                Is::Register(ty) => Some(*ty),
                Is::Variable | Is::Label => None,
            }
        }
    }

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
        let mut scopes = Scopes::new(
            &body.statements,
            |_| Is::Label,
            |name| twice.push(name.text.to_owned()),
        );
        let mut found = Vec::new();
        for statement in &body.statements {
            match statement {
                Statement::Begin(_) => scopes.open(),
                Statement::End(_) => scopes.close(),
                Statement::Variable(variable) => {
                    let is = match variable.space {
                        Space::Reg => Is::Register(variable.ty),
                        _ => Is::Variable,
                    };
                    if let Err(name) = scopes.declare(variable.name, variable.count, is) {
                        twice.push(name.text.to_owned());
                    }
                }
                Statement::Instruction(instruction) => {
                    for operand in body.list(instruction.operands) {
                        let name = &source[operand.span(&source).start as usize..];
                        let end = name.find([',', ';']).unwrap();
                        found.push(match scopes.get(&name[..end]) {
                            Some(Is::Register(ty)) => ty.text(),
                            Some(Is::Label) => "label",
                            Some(Is::Variable) => "variable",
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
