//! A row of the table: the slots of modifiers, and their valid combinations.

use super::meaning::Column;
use super::operand::{OperandRule, Presence, Scale, TypeBase, Types};
use super::target::Availability;
use crate::ast::Modifiers;
use crate::names::{Modifier, Opcode, Type};

/// Flags that ptxas accepts twice.
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

/// Modifiers that ptxas accepts after every opcode, and ignores where they have no meaning.
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

/// A row of the table: one form of an instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    /// The first word of the opcode.
    pub opcode: Opcode,
    /// The other words of the opcode: `async` and `bulk` for `cp.async.bulk`.
    pub opcode_words: Vec<Modifier>,
    /// The slots of modifiers. Types fill theirs in order.
    pub slots: Vec<Slot>,
    /// Required and excluded combinations of modifiers.
    pub conditions: Vec<Condition>,
    /// In source order.
    pub operands: Vec<OperandRule>,
    /// `*`: modifiers beyond the slots are accepted unchecked.
    pub open_modifiers: bool,
    /// `*`: further operands are accepted unchecked.
    pub open_operands: bool,
    /// The versions and targets that have this form.
    pub since: Availability,
    /// What it means; [`Form::meaning`] reads it.
    pub(super) meaning: Column,
    /// The row as written in the table, on one line.
    pub text: String,
}

/// An alternative of a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    /// The modifier.
    pub modifier: Modifier,
    /// Its availability here, if it is later than that of the form.
    pub since: Option<Availability>,
}

/// A slot for a modifier.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// The alternatives.
    pub words: Vec<Word>,
    /// Whether one of them is required.
    pub required: bool,
    /// The number of the type of this slot: 0 for `T=`.
    pub names_type: Option<usize>,
}

impl Slot {
    /// `.rn`, `.rz` or `.rm`
    pub fn describe(&self) -> String {
        alternatives(self.words.iter().map(|word| word.modifier))
    }

    /// The group within which the modifiers of the slot keep their order.
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

/// Groups of modifiers that keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Free,
    /// Types: `cvt.f32.s32`.
    Types,
    /// State spaces, destination first: `cp.async.shared.global`.
    Spaces,
    /// Layouts, that of A first: `mma.row.col`.
    Layouts,
    /// Formats, destination first: `ldmatrix.b8x16.b4x16_p64`.
    Formats,
    /// Bit operations in order: `mma.xor.popc`.
    Operations,
}

impl Order {
    fn of(word: Modifier) -> Order {
        match word {
            // The metadata of `spcompress` is a type too, although no register has it.
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
    /// If one of these is present …
    pub when: Vec<ConditionWord>,
    /// … or, with `!`, if none is,
    pub absent: bool,
    /// then one of the following …
    pub kind: ConditionKind,
    /// … is required, or all are excluded.
    pub then: Vec<ConditionWord>,
}

/// The kind of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionKind {
    /// `=>`: one of the modifiers is required.
    Requires,
    /// `!`: the modifiers are excluded.
    Excludes,
}

/// A modifier in a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConditionWord {
    /// The modifier.
    pub modifier: Modifier,
    /// The number of the type that it must be, as in `T=f32`; anywhere if `None`.
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
        any(&self.when) == self.absent || any(&self.then) == (self.kind == ConditionKind::Requires)
    }

    /// `.ca` or `.cg`: the required or excluded modifiers.
    pub fn describe(&self) -> String {
        alternatives(self.then.iter().map(|word| word.modifier))
    }
}

/// A match of modifiers with the slots of a form.
#[derive(Clone, Debug)]
pub struct Fit<'f> {
    /// The types of `T=`, `U=` …
    pub types: Types,
    /// The availability of the form and of its modifiers. A module may use the instruction if
    /// it may use all of these.
    pub since: Vec<&'f Availability>,
}

/// Why modifiers do not match a form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mismatch<'f> {
    /// The modifier with this index has no slot.
    Extra(usize),
    /// This slot is empty.
    Missing(&'f Slot),
    /// A condition is not met.
    Condition(&'f Condition),
}

/// ptxas accepts only one of `.acc::f16` and `.acc::f32`, even where it ignores both.
fn accumulates_twice(word: Modifier, before: &[Modifier]) -> bool {
    let precision = [Modifier::AccF16, Modifier::AccF32];
    precision.contains(&word) && before.iter().any(|word| precision.contains(word))
}

impl Form {
    /// Whether the other form differs only in its register lists, which depend on the target.
    pub fn is_twin(&self, other: &Form) -> bool {
        let same = |(one, other): (&OperandRule, &OperandRule)| {
            one == other || (one.count.is_some() && other.count.is_some())
        };
        self.operands.len() == other.operands.len()
            && self.operands.iter().zip(&other.operands).all(same)
    }

    /// The full opcode: `cp.async.bulk`.
    pub fn name(&self) -> &str {
        self.text.split_whitespace().next().unwrap_or_default()
    }

    /// The operands that an instruction with these modifiers has, without regard to those
    /// that may be left out.
    pub fn present<'f>(
        &'f self,
        modifiers: &'f Modifiers,
    ) -> impl Iterator<Item = &'f OperandRule> + 'f {
        self.operands.iter().filter(|rule| match &rule.presence {
            Presence::With(words) => words.iter().any(|word| modifiers.has(*word)),
            Presence::Required | Presence::Optional => true,
        })
    }

    /// The type of each operand, where the instruction says it.
    pub fn operand_types(&self, modifiers: &Modifiers, fit: &Fit<'_>) -> Vec<Option<Type>> {
        let types = self.present(modifiers).map(|rule| {
            let ty = match rule.ty.base {
                TypeBase::Any => None,
                TypeBase::Fixed(ty) => Some(ty),
                TypeBase::Named(number) => fit.types.get(number).copied().flatten(),
            };
            ty.filter(|_| rule.ty.scale == Scale::Same)
        });
        types.collect()
    }

    /// The number of operands that it writes; they come first.
    pub fn writes(&self, modifiers: &Modifiers) -> u8 {
        let written = self
            .present(modifiers)
            .take_while(|rule| rule.kind.is_written());
        u8::try_from(written.count()).unwrap_or(u8::MAX)
    }

    /// Whether some spelling of the form contains this word, including types and opcode words.
    pub fn may_have(&self, word: Modifier) -> bool {
        let words = self.slots.iter().flat_map(|slot| &slot.words);
        self.opcode_words.contains(&word) || words.into_iter().any(|w| w.modifier == word)
    }

    /// Matches modifiers with the slots. The error is the mismatch, and the number of modifiers
    /// that did match.
    ///
    /// As in ptxas, the order of modifiers is free, that of types is not.
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
                // An unchecked type does not count as a match.
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

    /// Whether ptxas ignores a modifier of this opcode.
    fn ignores(&self, word: Modifier) -> bool {
        let known = match word {
            // These share a position with types that only some opcodes check.
            Modifier::Pred | Modifier::Texref | Modifier::Samplerref | Modifier::Surfref => {
                self.takes_halves()
            }
            Modifier::B2 => !self.takes_halves(),
            _ => IGNORED.contains(&word),
        };
        known && self.slots.iter().all(|slot| slot.word(word).is_none())
    }

    /// Whether the opcode has half-precision forms. `mul.lo` and `mul` are different opcodes
    /// here.
    fn takes_halves(&self) -> bool {
        let product = [Modifier::Lo, Modifier::Hi, Modifier::Wide];
        let has = |form: &Form, word| form.slots.iter().any(|slot| slot.word(word).is_some());
        let of_opcode = super::forms(self.opcode).iter();
        !product.iter().any(|word| has(self, *word))
            && of_opcode
                .filter(|form| form.opcode_words == self.opcode_words)
                .any(|form| has(form, Modifier::F16))
    }

    /// The first free slot for a modifier. An ordered modifier skips free slots of its group
    /// only if they are optional.
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
