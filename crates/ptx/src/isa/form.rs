//! One row of the table: where modifiers stand, and which stand together.

use super::operand::{OperandRule, Types};
use super::target::Since;
use crate::ast::Modifiers;
use crate::names::{Modifier, Opcode};

/// Flags that ptxas does not mind to read twice, wherever they may stand.
const REPEATABLE: &[Modifier] = &[
    Modifier::Sat,
    Modifier::Cc,
    Modifier::Sync,
    Modifier::Relu,
    Modifier::Satfinite,
    Modifier::NaN,
    Modifier::Shiftamt,
    Modifier::Approx,
    Modifier::Uni,
];

/// Words that ptxas reads behind every opcode, and asks about only where they
/// mean something.
const IGNORED: &[Modifier] = &[
    Modifier::Finite,
    Modifier::Infinite,
    Modifier::Number,
    Modifier::Notanumber,
    Modifier::Normal,
    Modifier::Subnormal,
    Modifier::AccF16,
    Modifier::AccF32,
    Modifier::B4x16P64,
    Modifier::B6x16P32,
    Modifier::B8x16,
    Modifier::BoxDim,
    Modifier::ElementStride,
    Modifier::Elemtype,
    Modifier::FillMode,
    Modifier::GlobalAddress,
    Modifier::GlobalDim,
    Modifier::GlobalStride,
    Modifier::InterleaveLayout,
    Modifier::Rank,
    Modifier::SwizzleAtomicity,
    Modifier::SwizzleMode,
];

/// One row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    /// The first word of the opcode.
    pub opcode: Opcode,
    /// Its further words: `async`, `bulk` of `cp.async.bulk`.
    pub opcode_words: Vec<Modifier>,
    /// The places of modifiers; types fill theirs in order.
    pub slots: Vec<Slot>,
    /// What stands together and what does not.
    pub conditions: Vec<Condition>,
    /// In the order of the text.
    pub operands: Vec<OperandRule>,
    /// `*`: modifiers beyond the slots are taken unchecked.
    pub open_modifiers: bool,
    /// `*`: operands are taken unchecked.
    pub open_operands: bool,
    /// Since when there is this form.
    pub since: Since,
    /// As the table has it, in one line.
    pub text: String,
}

/// A word of a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    /// The word.
    pub modifier: Modifier,
    /// Since when it may stand here, if later than the form.
    pub since: Option<Since>,
}

/// A place among the modifiers.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// One of these fills it.
    pub words: Vec<Word>,
    /// Whether it must be filled.
    pub required: bool,
    /// The number of the type that it names: 0 for `T=`.
    pub names_type: Option<usize>,
}

impl Slot {
    /// `.rn`, `.rz` or `.rm`
    pub fn describe(&self) -> String {
        alternatives(self.words.iter().map(|word| word.modifier))
    }

    /// Whether its words keep their place among others, and which.
    fn order(&self) -> Order {
        match self.words.first() {
            _ if self.names_type.is_some() => Order::Types,
            Some(word) => Order::of(word.modifier),
            None => Order::Free,
        }
    }

    fn word(&self, modifier: Modifier) -> Option<&Word> {
        self.words.iter().find(|word| word.modifier == modifier)
    }
}

/// Which words have to keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Free,
    /// Among types: `cvt.f32.s32`.
    Types,
    /// Among state spaces, destination first: `cp.async.shared.global`.
    Spaces,
    /// Among layouts, that of A first: `mma.row.col`.
    Layouts,
    /// Among formats, destination first: `ldmatrix.b8x16.b4x16_p64`.
    Formats,
    /// Among operations on bits, in turn: `mma.xor.popc`.
    Operations,
}

impl Order {
    fn of(word: Modifier) -> Order {
        match word {
            // The metadata of `spcompress` are a type too, which no register has.
            _ if word.as_type().is_some() || word == Modifier::B2 => Order::Types,
            Modifier::Const
            | Modifier::Global
            | Modifier::Local
            | Modifier::Param
            | Modifier::ParamEntry
            | Modifier::ParamFunc
            | Modifier::Shared
            | Modifier::SharedCta
            | Modifier::SharedCluster => Order::Spaces,
            Modifier::Row | Modifier::Col => Order::Layouts,
            Modifier::B8x16 | Modifier::B6x16P32 | Modifier::B4x16P64 => Order::Formats,
            Modifier::And | Modifier::Or | Modifier::Xor | Modifier::Popc => Order::Operations,
            _ => Order::Free,
        }
    }
}

/// `.rn`, `.rz` or `.rm`
pub fn alternatives(words: impl Iterator<Item = Modifier>) -> String {
    let mut words: Vec<_> = words.map(|word| format!("`.{}`", word.text())).collect();
    match words.pop() {
        Some(last) if words.is_empty() => last,
        Some(last) => format!("{} or {last}", words.join(", ")),
        None => String::new(),
    }
}

/// `a|b=>c|d` or `a|b!c|d`
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// If one of these stands …
    pub when: Vec<ConditionWord>,
    /// … or, with `!`, if none does,
    pub absent: bool,
    /// then one of …
    pub demand: Demand,
    /// … these must stand, or none may.
    pub then: Vec<ConditionWord>,
}

/// What a condition asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// `=>`: one of the words must stand.
    Needs,
    /// `!`: none of the words may stand.
    Excludes,
}

/// A word of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConditionWord {
    /// The word.
    pub modifier: Modifier,
    /// The type that it has to be, as of `T=f32`; anywhere if `None`.
    pub of: Option<usize>,
}

impl ConditionWord {
    fn stands(self, modifiers: &Modifiers, types: &Types) -> bool {
        match self.of {
            Some(number) => {
                let ty = types.get(number).copied().flatten();
                ty.is_some() && ty == self.modifier.as_type()
            }
            None => modifiers.has(self.modifier),
        }
    }
}

impl Condition {
    fn holds(&self, modifiers: &Modifiers, types: &Types) -> bool {
        let any = |words: &[ConditionWord]| words.iter().any(|w| w.stands(modifiers, types));
        any(&self.when) == self.absent || any(&self.then) == (self.demand == Demand::Needs)
    }

    /// `.ca` or `.cg`: the words that are asked for or excluded.
    pub fn describe(&self) -> String {
        alternatives(self.then.iter().map(|word| word.modifier))
    }
}

/// Modifiers laid into the slots of a form.
#[derive(Clone, Debug)]
pub struct Fit<'f> {
    /// What the words of `T=`, `U=` … are.
    pub types: Types,
    /// Since when there is the form, and each of the words that has a floor of
    /// its own: a module may use the instruction where it may use them all.
    pub since: Vec<&'f Since>,
}

/// Why modifiers do not fit a form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mismatch<'f> {
    /// The modifier of this number has no place in it.
    Extra(usize),
    /// Nothing fills this slot.
    Missing(&'f Slot),
    /// What stands together must not, or not alone.
    Condition(&'f Condition),
}

/// Of `.acc::f16` and `.acc::f32` ptxas takes one, even where it ignores both.
fn accumulates_twice(word: Modifier, before: &[Modifier]) -> bool {
    let precision = [Modifier::AccF16, Modifier::AccF32];
    precision.contains(&word) && before.iter().any(|word| precision.contains(word))
}

impl Form {
    /// Whether the other form differs in its lists of registers alone, as where
    /// targets make other instructions of one.
    pub fn is_twin(&self, other: &Form) -> bool {
        let alike = |(one, other): (&OperandRule, &OperandRule)| {
            one == other || (one.count.is_some() && other.count.is_some())
        };
        self.operands.len() == other.operands.len()
            && self.operands.iter().zip(&other.operands).all(alike)
    }

    /// The opcode in full: `cp.async.bulk`.
    pub fn name(&self) -> &str {
        self.text.split_whitespace().next().unwrap_or_default()
    }

    /// Whether some spelling of the form has this word, its type or opcode included.
    pub fn may_have(&self, word: Modifier) -> bool {
        let words = self.slots.iter().flat_map(|slot| &slot.words);
        self.opcode_words.contains(&word) || words.into_iter().any(|w| w.modifier == word)
    }

    /// Lays modifiers into the slots, or says why they do not fit and how many
    /// of them did.
    ///
    /// Modifiers may stand in any order, as ptxas has it; types may not.
    pub fn fit(&self, modifiers: &Modifiers) -> Result<Fit<'_>, (usize, Mismatch<'_>)> {
        let mut filled = 0_u64;
        let mut types = Types::default();
        let mut mismatch = None;
        let mut fitting = 0;
        let mut since = vec![&self.since];
        let words = modifiers.as_slice();
        for (index, &word) in words.iter().enumerate().skip(self.opcode_words.len()) {
            let order = Order::of(word);
            match self.place(word, order, filled) {
                Some((place, slot, known)) => {
                    filled |= 1 << place;
                    fitting += 1;
                    if let Some(ty) = slot.names_type.and_then(|number| types.get_mut(number)) {
                        *ty = word.as_type();
                    }
                    since.extend(&known.since);
                }
                // What goes unchecked speaks for no row, if it is a type.
                None if self.open_modifiers => fitting += usize::from(order != Order::Types),
                None if REPEATABLE.contains(&word) && words[..index].contains(&word) => {}
                None if self.ignores(word) && !accumulates_twice(word, &words[..index]) => {}
                None => mismatch = mismatch.or(Some(Mismatch::Extra(index))),
            }
        }
        if let Some(mismatch) = mismatch {
            return Err((fitting, mismatch));
        }
        let mut slots = self.slots.iter().enumerate();
        let missing = slots.find(|(place, slot)| slot.required && filled & (1 << place) == 0);
        if let Some((_, slot)) = missing {
            return Err((fitting, Mismatch::Missing(slot)));
        }
        let broken = |condition: &&Condition| !condition.holds(modifiers, &types);
        match self.conditions.iter().find(broken) {
            Some(condition) => Err((fitting, Mismatch::Condition(condition))),
            None => Ok(Fit { types, since }),
        }
    }

    /// Whether ptxas reads a word behind this opcode and never asks about it.
    fn ignores(&self, word: Modifier) -> bool {
        let known = match word {
            // These share a place with types that only some opcodes ask about.
            Modifier::Pred | Modifier::Texref | Modifier::Samplerref | Modifier::Surfref => {
                self.takes_halves()
            }
            Modifier::B2 => !self.takes_halves(),
            _ => IGNORED.contains(&word),
        };
        known && self.slots.iter().all(|slot| slot.word(word).is_none())
    }

    /// Whether the opcode has forms of half precision; `mul.lo` counts as
    /// another opcode than `mul`.
    fn takes_halves(&self) -> bool {
        let product = [Modifier::Lo, Modifier::Hi, Modifier::Wide];
        let has = |form: &Form, word| form.slots.iter().any(|slot| slot.word(word).is_some());
        let of_opcode = super::forms(self.opcode).iter();
        !product.iter().any(|word| has(self, *word))
            && of_opcode
                .filter(|form| form.opcode_words == self.opcode_words)
                .any(|form| has(form, Modifier::F16))
    }

    /// The first free slot for a word. One that keeps its order passes over
    /// free slots of its like only if they may stay empty.
    fn place(&self, word: Modifier, order: Order, filled: u64) -> Option<(usize, &Slot, &Word)> {
        let slots = self.slots.iter().enumerate();
        for (place, slot) in slots.filter(|(place, _)| filled & (1 << place) == 0) {
            let ordered = order != Order::Free && slot.order() == order;
            if order == Order::Types && !ordered {
                continue;
            }
            match slot.word(word) {
                Some(known) => return Some((place, slot, known)),
                None if ordered && slot.required => return None,
                None => {}
            }
        }
        None
    }
}
