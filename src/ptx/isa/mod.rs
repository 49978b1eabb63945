//! The instruction table: which modifiers and operands each instruction takes,
//! and since when.
//!
//! The table is `forms.txt`, whose head explains how a row reads. What the
//! checker, the version floors and the documentation know of an instruction
//! comes from there.

use std::sync::OnceLock;

use super::ast::{Modifiers, Version};
use super::names::{Modifier, Opcode, Type};

/// One row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    slots: Vec<Slot>,
    /// In the order of the text.
    pub operands: Vec<OperandRule>,
    /// `*`: modifiers beyond the slots are taken unchecked.
    open_modifiers: bool,
    /// `*`: operands are taken unchecked.
    pub open_operands: bool,
    /// Since when there is this form.
    pub floor: Floor,
    /// As `forms.txt` has it.
    pub text: String,
}

/// What a module must say at least to use a form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Floor {
    /// The lowest `.version`; 0.0 if every one will do.
    pub version: Version,
    /// The number of `sm_90`; 0 if every target will do.
    pub target: u16,
}

/// A place among the modifiers.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    words: Vec<Modifier>,
    required: bool,
    /// The number of the type that it names: 0 for `T=`.
    names_type: Option<usize>,
}

impl Slot {
    /// `.rn`, `.rz` or `.rm`
    pub fn describe(&self) -> String {
        let mut words: Vec<_> = self
            .words
            .iter()
            .map(|w| format!("`.{}`", w.text()))
            .collect();
        match words.pop() {
            Some(last) if words.is_empty() => last,
            Some(last) => format!("{} or {last}", words.join(", ")),
            None => String::new(),
        }
    }

    /// Whether the word here is the type of operands: `.f32` of `add.f32`.
    pub fn names_type(&self) -> bool {
        self.names_type.is_some()
    }
}

/// What may stand in the place of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A register written.
    Destination,
    /// The same, or a vector, or `_`.
    DestinationOrVector,
    /// A register or constant.
    Source,
    /// The same, or a vector.
    SourceOrVector,
    /// The same, or a special register, address or function.
    Movable,
    /// A predicate register written, or `_`.
    PredicateDestination,
    /// `%p|%q`, both written, or `%p` alone: the result of `setp`.
    PredicatePair,
    /// `register|predicate`, or the register alone.
    DestinationAndPredicate,
    /// The same, where the register may be `_`.
    SinkAndPredicate,
    /// A predicate register read; `!%p` too.
    Predicate,
    /// `[%rd1+4]`
    Address,
    /// A number, as in `bar.sync 0`.
    Constant,
    /// A label of the function: `bra LOOP`.
    Label,
    /// Anything: the table says no more.
    Unchecked,
}

/// One operand of a row: `s:T?` in `forms.txt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperandRule {
    /// Before the colon.
    pub kind: Kind,
    /// After the colon.
    pub ty: TypeRule,
    /// `?`: it may be left out.
    pub optional: bool,
}

/// How the type of an operand follows from the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeRule {
    /// The instruction does not say.
    Any,
    /// This type whatever the modifiers: the `.u32` count of `shl`.
    Fixed(Type),
    /// The type of the instruction of this number.
    Same(usize),
    /// Twice as wide: the product of `mul.wide`.
    Twice(usize),
    /// As wide or wider: `ld`, `st` and `cvt`.
    AtLeast(usize),
}

/// The types that an instruction names, in order.
pub type Types = [Option<Type>; 3];

/// Why modifiers do not fit a form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Misfit<'f> {
    /// The modifier of this number has no place in it.
    Extra(usize),
    /// Nothing fills this slot.
    Missing(&'f Slot),
}

impl Form {
    /// Lays modifiers into the slots: the types that they name, or why they do
    /// not fit and how many of them did.
    ///
    /// Modifiers may stand in any order, as ptxas has it; types may not.
    pub fn fit(&self, modifiers: &Modifiers) -> Result<Types, (usize, Misfit<'_>)> {
        let mut filled = 0_u64;
        let mut types = Types::default();
        let mut misfit = None;
        let mut fitting = 0;
        for (index, &word) in modifiers.as_slice().iter().enumerate() {
            let is_type = word.as_type().is_some();
            let mut places = self.slots.iter().enumerate().filter(|(place, slot)| {
                filled & (1 << place) == 0 && (!is_type || slot.names_type())
            });
            let place = if is_type {
                places.next().filter(|(_, slot)| slot.words.contains(&word))
            } else {
                places.find(|(_, slot)| slot.words.contains(&word))
            };
            match place {
                Some((place, slot)) => {
                    filled |= 1 << place;
                    fitting += 1;
                    if let Some(number) = slot.names_type {
                        types[number] = word.as_type();
                    }
                }
                // What goes unchecked speaks for no row, if it is a type.
                None if self.open_modifiers => fitting += usize::from(!is_type),
                // ptxas does not mind a word said twice.
                None if !is_type && modifiers.as_slice()[..index].contains(&word) => {}
                None => misfit = misfit.or(Some(Misfit::Extra(index))),
            }
        }
        if let Some(misfit) = misfit {
            return Err((fitting, misfit));
        }
        let missing = self
            .slots
            .iter()
            .enumerate()
            .find(|(place, slot)| slot.required && filled & (1 << place) == 0);
        match missing {
            Some((_, slot)) => Err((fitting, Misfit::Missing(slot))),
            None => Ok(types),
        }
    }
}

/// The forms of an opcode; none if the table does not know it.
pub fn forms(opcode: Opcode) -> &'static [Form] {
    static TABLE: OnceLock<Vec<Vec<Form>>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let mut table = vec![Vec::new(); Opcode::ALL.len()];
        for (opcode, form) in rows(include_str!("forms.txt")).flatten() {
            table[opcode as usize].push(form);
        }
        table
    });
    &table[opcode as usize]
}

/// The rows of a table; `None` for one that makes no sense.
fn rows(text: &str) -> impl Iterator<Item = Option<(Opcode, Form)>> {
    let lines = || text.lines().map(str::trim).filter(|l| !l.is_empty());
    let lists: Vec<(&str, &str)> = lines()
        .filter_map(|line| line.strip_prefix('$')?.split_once(' '))
        .collect();
    lines()
        .filter(|line| !line.starts_with(['#', '$']))
        .map(move |line| row(line, &lists))
}

fn row(line: &str, lists: &[(&str, &str)]) -> Option<(Opcode, Form)> {
    let (modifiers, rest) = line
        .split_once(" :")
        .or(line.strip_suffix(':').map(|l| (l, "")))?;
    let (operands, floor) = rest.split_once(';').unwrap_or((rest, ""));
    let mut words = modifiers.split_whitespace();
    let opcode = Opcode::from_text(words.next()?)?;
    let mut form = Form {
        slots: Vec::new(),
        operands: Vec::new(),
        open_modifiers: false,
        open_operands: false,
        floor: floor_of(floor)?,
        text: line.to_owned(),
    };
    for word in words {
        match word {
            "*" => form.open_modifiers = true,
            _ => form.slots.push(slot(word, lists)?),
        }
    }
    for word in operands.split_whitespace() {
        match word {
            "*" => form.open_operands = true,
            _ => form.operands.push(operand_rule(word)?),
        }
    }
    Some((opcode, form))
}

fn floor_of(text: &str) -> Option<Floor> {
    let mut words = text.split_whitespace();
    let mut floor = Floor {
        version: Version { major: 1, minor: 0 },
        target: 0,
    };
    if let Some((major, minor)) = words.next().map(|w| w.split_once('.')).unwrap_or(None) {
        floor.version = Version {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        };
    }
    if let Some(target) = words.next() {
        floor.target = target.parse().ok()?;
    }
    Some(floor)
}

fn slot(word: &str, lists: &[(&str, &str)]) -> Option<Slot> {
    let (word, required) = match word.strip_prefix('[').and_then(|w| w.strip_suffix(']')) {
        Some(inner) => (inner, false),
        None => (word, true),
    };
    let (words, names_type) = match word.split_once('=') {
        Some((name, words)) => (words, Some(type_number(name)?)),
        None => (word, None),
    };
    let mut slot = Slot {
        words: Vec::new(),
        required,
        names_type,
    };
    for word in words.split('|') {
        match word.strip_prefix('$') {
            Some(list) => {
                let (_, words) = lists.iter().find(|(name, _)| *name == list)?;
                for word in words.split('|') {
                    slot.words.push(Modifier::from_text(word)?);
                }
            }
            None => slot.words.push(Modifier::from_text(word)?),
        }
    }
    Some(slot)
}

fn type_number(name: &str) -> Option<usize> {
    ["T", "U", "V"].iter().position(|n| *n == name)
}

fn operand_rule(word: &str) -> Option<OperandRule> {
    let (word, optional) = match word.strip_suffix('?') {
        Some(word) => (word, true),
        None => (word, false),
    };
    let (word, with_predicate) = match word.strip_suffix("/q") {
        Some(word) => (word, true),
        None => (word, false),
    };
    let (kind, ty) = word.split_once(':').unwrap_or((word, ""));
    let kind = match (kind, with_predicate) {
        ("d", false) => Kind::Destination,
        ("D", false) => Kind::DestinationOrVector,
        ("d", true) => Kind::DestinationAndPredicate,
        ("D", true) => Kind::SinkAndPredicate,
        ("s", false) => Kind::Source,
        ("S", false) => Kind::SourceOrVector,
        ("m", false) => Kind::Movable,
        ("q", false) => Kind::PredicateDestination,
        ("q", true) => Kind::PredicatePair,
        ("p", false) => Kind::Predicate,
        ("a", false) => Kind::Address,
        ("i", false) => Kind::Constant,
        ("l", false) => Kind::Label,
        ("x", false) => Kind::Unchecked,
        _ => return None,
    };
    let ty = match ty.as_bytes() {
        [] => TypeRule::Any,
        [b'T'..=b'V', b'2'] => TypeRule::Twice(type_number(&ty[..1])?),
        [b'T'..=b'V', b'+'] => TypeRule::AtLeast(type_number(&ty[..1])?),
        [b'T'..=b'V'] => TypeRule::Same(type_number(ty)?),
        _ => TypeRule::Fixed(Type::from_text(ty)?),
    };
    Some(OperandRule { kind, ty, optional })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modifiers(text: &str) -> Modifiers {
        let mut modifiers = Modifiers::default();
        for word in text.split('.') {
            assert!(modifiers.push(Modifier::from_text(word).unwrap()));
        }
        modifiers
    }

    fn fits(opcode: Opcode, text: &str) -> bool {
        forms(opcode)
            .iter()
            .any(|f| f.fit(&modifiers(text)).is_ok())
    }

    #[test]
    fn every_row_makes_sense() {
        for (line, row) in include_str!("forms.txt")
            .lines()
            .filter(|l| !l.is_empty() && !l.starts_with(['#', '$']))
            .zip(rows(include_str!("forms.txt")))
        {
            assert!(row.is_some(), "{line}");
        }
    }

    #[test]
    fn order_matters_for_types_alone() {
        assert!(fits(Opcode::Add, "rn.f32") && fits(Opcode::Add, "f32.rn"));
        assert!(fits(Opcode::Cvt, "rn.f32.s32") && !fits(Opcode::Cvt, "rn.s32.f32"));
        assert!(fits(Opcode::Cvt, "rzi.s32.f32"));
        assert!(fits(Opcode::Cvt, "sat.s32.u32") && !fits(Opcode::Cvt, "sat.s64.u32"));
    }

    #[test]
    fn misfits_say_what_is_missing() {
        let form = forms(Opcode::Div)
            .iter()
            .find(|f| f.fit(&modifiers("rn.f32")).is_ok())
            .unwrap();
        let Err((1, Misfit::Missing(slot))) = form.fit(&modifiers("f32")) else {
            panic!("{form:?}");
        };
        assert!(
            slot.describe().ends_with("`.rm` or `.rp`"),
            "{}",
            slot.describe()
        );
    }
}
