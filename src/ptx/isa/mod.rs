//! The instruction table: which modifiers and operands each instruction takes,
//! and since when.
//!
//! The table is the files `forms/*.txt`, one a family. What the checker, the
//! version floors and the documentation know of an instruction comes from there.
//!
//! # How a row reads
//!
//! ```text
//! opcode modifiers : operands ; since
//! add [rn|rz] [ftz] T=f32|f32x2@8.6/100 : d:T s:T s:T ; 1.4 20
//! ```
//!
//! A line that begins with white space continues the row above it, `#` begins a
//! comment, and `$name a|b|c` names a list that all files may use as `$name`.
//!
//! An opcode of several words is written with dots, `cp.async.bulk`: these stand
//! first and in this order, as ptxas has it, and of the rows of an instruction
//! only those of the longest opcode that it begins with are looked at.
//!
//! Modifiers stand in any order; types among themselves, and state spaces among
//! themselves, in the order of the row:
//!
//! | | |
//! |---|---|
//! | `rn\|rz` | one of these must stand |
//! | `[rn\|rz]` | one of these may stand |
//! | `T=u32\|s32` | the type called T (or U, V, W, X); `[U=b32]` one that may be left out |
//! | `word@8.6/100a` | a word with a floor of its own, on top of the row's; `@8.6`, `@/90`, `@8.6/100a,103a@8.8` |
//! | `a\|b=>c\|d` | if one of a, b stands, one of c, d must; `!a=>c`: if none of them stands |
//! | `a\|b!c\|d` | a or b does not stand together with c or d |
//! | `*` | whatever else, unchecked |
//!
//! In a condition `T=f32` means the word of that place: `T=f32|f64=>rn`.
//!
//! An operand is `kind{count}:type=range?condition`, all but the kind as needed:
//!
//! | kind | |
//! |---|---|
//! | `d` | register written |
//! | `D` | the same, or a vector as `.v2`, `.v4`, `.v8` say, or `_` |
//! | `s` | register or constant |
//! | `S` | the same, or a vector |
//! | `r` | register |
//! | `m` | what `mov` takes: also special registers, addresses, functions, `{a, b}` packed |
//! | `M` | where `mov` writes: a register, or the `{a, b}` that it is taken apart into |
//! | `V` | as `D`, but never `_` |
//! | `n` | register, constant, or variable of the state space of the instruction |
//! | `g` | register, constant or special register |
//! | `v1`, `v2`, `v4` | register or constant of a video instruction on 1, 2 or 4 parts, with or without a selector, `%r1.b0` |
//! | `w1`, `w2`, `w4` | register that it writes, with or without a selector |
//! | `-v1`, `-r` | negated register, `-%r1.b0` or `-%r1` |
//! | `q` | predicate written |
//! | `Q` | the same, or `_` |
//! | `_` | `_` and nothing else |
//! | `p` | predicate read |
//! | `d/q`, `D/q` | register, or `register\|predicate`; with `D` the register may be `_` |
//! | `q/q` | predicate, or two |
//! | `D\|q`, `q\|q` | `register\|predicate`, `predicate\|predicate`: both must stand |
//! | `a` | address in brackets |
//! | `A` | the same, or its register or variable without brackets |
//! | `t` | address with coordinates: `[x, {…}]` |
//! | `[r,s{d}:b32]` | the same, with what stands between the brackets |
//! | `i` | constant |
//! | `l` | label |
//! | `f` | function, or register with its address |
//! | `x` | anything |
//! | `*` | any further operands, unchecked |
//!
//! - count: `{4}` a list in braces of 4, `{2|4}`, `{1..5}`; `{d}` as many as the
//!   tensor has dimensions, which `.1d` to `.5d` say, `{d-1}`, `{d-2}` so many fewer
//! - type: `b32`, `T`, `T2` (twice as wide), `Th` (half as wide), `T+` (T or wider);
//!   of an address the state space that a variable must lie in: `a:shared`
//! - range of a constant: `=0..15`, `=4|8|16`, `=%32` (a multiple), `=24..256%8`
//! - condition: `?` may be left out, `?word` stands if and only if `.word` does
//!
//! Since: `8.0 90` from `.version 8.0` on, on sm_90 and every higher target;
//! `8.0 90a` on exactly sm_90a; `8.8 100f` on the family of sm_100, which is
//! sm_100f and sm_100a, sm_103f and sm_103a …; `8.6 100a,101a,103a@8.8` on any
//! of these, one of them from a later version on; `$name` for a list of targets;
//! `<70@6.4` gone on sm_70 and higher from 6.4 on. Nothing: as old as PTX.
//! Opcodes without a row are not checked.

mod document;
mod row;
pub mod special;
pub mod target;

pub use document::{describe, document, since_text, syntax, targets_text};

use std::sync::OnceLock;

use super::ast::{Modifiers, Space};
use super::names::{Modifier, Opcode, Type};
use target::Since;

/// The files of the table.
const FILES: &[&str] = &[
    include_str!("forms/integer.txt"),
    include_str!("forms/extended.txt"),
    include_str!("forms/float.txt"),
    include_str!("forms/half.txt"),
    include_str!("forms/packed.txt"),
    include_str!("forms/convert.txt"),
    include_str!("forms/compare.txt"),
    include_str!("forms/logic.txt"),
    include_str!("forms/video.txt"),
    include_str!("forms/move.txt"),
    include_str!("forms/memory.txt"),
    include_str!("forms/cache.txt"),
    include_str!("forms/fence.txt"),
    include_str!("forms/atomic.txt"),
    include_str!("forms/multimem.txt"),
    include_str!("forms/control.txt"),
    include_str!("forms/barrier.txt"),
    include_str!("forms/warp.txt"),
    include_str!("forms/cluster.txt"),
    include_str!("forms/async.txt"),
    include_str!("forms/bulk.txt"),
    include_str!("forms/tensor_copy.txt"),
    include_str!("forms/mbarrier.txt"),
    include_str!("forms/fabric.txt"),
    include_str!("forms/matrix.txt"),
    include_str!("forms/wmma.txt"),
    include_str!("forms/mma.txt"),
    include_str!("forms/wgmma.txt"),
    include_str!("forms/tcgen05.txt"),
    include_str!("forms/texture.txt"),
    include_str!("forms/surface.txt"),
];

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
}

impl Order {
    fn of(word: Modifier) -> Order {
        match word {
            _ if word.as_type().is_some() => Order::Types,
            Modifier::Const
            | Modifier::Global
            | Modifier::Local
            | Modifier::Param
            | Modifier::ParamEntry
            | Modifier::ParamFunc
            | Modifier::Shared
            | Modifier::SharedCta
            | Modifier::SharedCluster => Order::Spaces,
            _ => Order::Free,
        }
    }
}

/// `.rn`, `.rz` or `.rm`
pub(super) fn alternatives(words: impl Iterator<Item = Modifier>) -> String {
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
    /// A register.
    Register,
    /// A register or constant, or a special register: what `cvt` takes.
    SourceOrSpecial,
    /// A register or constant, special register, address or function.
    Movable,
    /// A register written or the parts that it is taken apart into.
    Unpacked,
    /// A register, a vector as `.v2` says; never `_`.
    Loaded,
    /// A register, constant or the name of a variable of a state space.
    Named,
    /// A register or constant of which a video instruction may take a part:
    /// `%r1.b0`.
    SelectSource(Lanes),
    /// A register of which a video instruction may write a part.
    SelectDestination(Lanes),
    /// `-%r1.b0`
    NegatedSelect,
    /// `-%r1`
    Negated,
    /// A predicate register written.
    PredicateDestination,
    /// A predicate register written, or `_`.
    PredicateOrSink,
    /// `%p|%q`, both written, or `%p` alone: the result of `setp`.
    PredicatePair,
    /// `register|predicate`, or the register alone.
    DestinationAndPredicate,
    /// The same, where the register may be `_`.
    SinkAndPredicate,
    /// `register|predicate`, where the register may be `_`.
    BothRegisterAndPredicate,
    /// `%p|%q`
    BothPredicates,
    /// `_`
    Sink,
    /// A predicate register read; `!%p` too.
    Predicate,
    /// `[%rd1+4]`
    Address,
    /// The same, or what ptxas takes for one beside coordinates: a register or
    /// variable without brackets.
    BareAddress,
    /// `[tensor, {%r1, %r2}]`
    Coordinates,
    /// A number, as in `bar.sync 0`.
    Constant,
    /// A label of the function: `bra LOOP`.
    Label,
    /// A function, or a register with the address of one.
    Function,
    /// Anything: the table says no more.
    Unchecked,
}

/// How many values a video instruction works on at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// `vadd`: a selector is one byte or half, `.b0` or `.h1`.
    One,
    /// `vadd2`: halves in any order, `.h10`.
    Two,
    /// `vadd4`: bytes in any order, `.b3210`.
    Four,
}

/// One operand of a row: `s:T?`.
#[derive(Clone, Debug, PartialEq)]
pub struct OperandRule {
    /// Before the colon.
    pub kind: Kind,
    /// How many elements a list in braces has; `None` for no list.
    pub count: Option<Count>,
    /// Between the brackets of [`Kind::Coordinates`]; anything if empty.
    pub elements: Vec<OperandRule>,
    /// After the colon.
    pub ty: TypeRule,
    /// After the colon of an address: where a variable must lie.
    pub space: Option<Space>,
    /// What a constant may be.
    pub range: Option<Range>,
    /// Whether it must stand.
    pub presence: Presence,
}

/// How many elements a list in braces has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Count {
    /// `{2|4}`: one of these numbers.
    Of(Vec<u8>),
    /// `{d}`, `{d-1}`: the dimensions of the tensor less this number.
    Dimensions(u8),
}

impl Count {
    /// The numbers that it stands for in an instruction with these modifiers.
    pub fn numbers(&self, modifiers: &Modifiers) -> Vec<u8> {
        match self {
            Count::Of(numbers) => numbers.clone(),
            Count::Dimensions(fewer) => DIMENSIONS
                .iter()
                .position(|word| modifiers.has(*word))
                .and_then(|index| (index as u8 + 1).checked_sub(*fewer))
                .into_iter()
                .collect(),
        }
    }
}

/// The words for one, two … dimensions.
const DIMENSIONS: [Modifier; 5] = [
    Modifier::N1d,
    Modifier::N2d,
    Modifier::N3d,
    Modifier::N4d,
    Modifier::N5d,
];

/// Whether an operand must stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Always.
    Required,
    /// `?`: it may be left out.
    Optional,
    /// `?word`: if and only if one of these modifiers stands.
    With(Vec<Modifier>),
}

/// The values that a constant may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// From and to, inclusive; any value if there is none.
    pub spans: Vec<(i64, i64)>,
    /// Only multiples of this.
    pub multiple: i64,
}

impl Range {
    /// Whether `value` is one of them.
    pub fn contains(&self, value: i64) -> bool {
        let within = |&(low, high): &(i64, i64)| (low..=high).contains(&value);
        value % self.multiple == 0 && (self.spans.is_empty() || self.spans.iter().any(within))
    }

    /// `0 to 15`, `4, 8 or 16`, `a multiple of 32`
    pub fn describe(&self) -> String {
        let span = |&(low, high): &(i64, i64)| match low == high {
            true => low.to_string(),
            false => format!("{low} to {high}"),
        };
        let mut spans: Vec<_> = self.spans.iter().map(span).collect();
        let last = spans.pop();
        let spans = match (spans.is_empty(), last) {
            (_, None) => None,
            (true, Some(last)) => Some(last),
            (false, Some(last)) => Some(format!("{} or {last}", spans.join(", "))),
        };
        match (spans, self.multiple) {
            (Some(spans), 1) => spans,
            (Some(spans), multiple) => format!("{spans}, a multiple of {multiple}"),
            (None, multiple) => format!("a multiple of {multiple}"),
        }
    }
}

/// How the type of an operand follows from the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeRule {
    /// Where the type comes from.
    pub base: TypeBase,
    /// Its width beside that type's.
    pub scale: Scale,
    /// A wider register will do: `ld`, `st` and `cvt`.
    pub wider: bool,
}

/// Where the type of an operand comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeBase {
    /// The instruction does not say.
    Any,
    /// This type whatever the modifiers: the `.u32` count of `shl`.
    Fixed(Type),
    /// The type of the instruction of this number.
    Named(usize),
}

/// A width beside another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Half as wide.
    Half,
    /// As wide.
    Same,
    /// Twice as wide: the product of `mul.wide`.
    Twice,
}

/// The types that an instruction names, in order.
pub type Types = [Option<Type>; 5];

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
pub enum Misfit<'f> {
    /// The modifier of this number has no place in it.
    Extra(usize),
    /// Nothing fills this slot.
    Missing(&'f Slot),
    /// What stands together must not, or not alone.
    Condition(&'f Condition),
}

impl Form {
    /// Lays modifiers into the slots, or says why they do not fit and how many
    /// of them did.
    ///
    /// Modifiers may stand in any order, as ptxas has it; types may not.
    pub fn fit(&self, modifiers: &Modifiers) -> Result<Fit<'_>, (usize, Misfit<'_>)> {
        let mut filled = 0_u64;
        let mut types = Types::default();
        let mut misfit = None;
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
                None if IGNORED.contains(&word)
                    && self.slots.iter().all(|slot| slot.word(word).is_none()) => {}
                None => misfit = misfit.or(Some(Misfit::Extra(index))),
            }
        }
        if let Some(misfit) = misfit {
            return Err((fitting, misfit));
        }
        let mut slots = self.slots.iter().enumerate();
        let missing = slots.find(|(place, slot)| slot.required && filled & (1 << place) == 0);
        if let Some((_, slot)) = missing {
            return Err((fitting, Misfit::Missing(slot)));
        }
        let broken = |condition: &&Condition| !condition.holds(modifiers, &types);
        match self.conditions.iter().find(broken) {
            Some(condition) => Err((fitting, Misfit::Condition(condition))),
            None => Ok(Fit { types, since }),
        }
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

/// The table as text, and what has been read of it.
struct Table {
    lists: Vec<(&'static str, &'static str)>,
    /// By opcode: its rows, and its forms once they are asked for. A module
    /// uses few of the opcodes, and reading a row takes microseconds.
    opcodes: Vec<(Vec<&'static str>, OnceLock<Vec<Form>>)>,
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = Table {
            lists: Vec::new(),
            opcodes: Opcode::ALL.iter().map(|_| Default::default()).collect(),
        };
        for line in FILES.iter().flat_map(|file| row::lines(file)) {
            if let Some(list) = row::list(line) {
                table.lists.push(list);
            } else if let Some(opcode) = row::opcode(line) {
                table.opcodes[opcode as usize].0.push(line);
            }
        }
        table
    })
}

/// The forms of an instruction: of those of its first word, the ones with the
/// longest opcode that it begins with.
pub fn forms_of(
    opcode: Opcode,
    modifiers: &Modifiers,
) -> impl Iterator<Item = &'static Form> + Clone {
    let words = modifiers.as_slice();
    let begun = forms(opcode)
        .iter()
        .filter(move |form| words.starts_with(&form.opcode_words));
    let longest = begun.clone().map(|form| form.opcode_words.len()).max();
    begun.filter(move |form| Some(form.opcode_words.len()) == longest)
}

/// The forms of all opcodes with this first word; none if the table does not
/// know it.
///
/// ```
/// use ptxkit::ptx::{isa, names::Opcode};
/// let forms = isa::forms(Opcode::Activemask);
/// assert_eq!(forms[0].slots[0].describe(), "`.b32`");
/// ```
pub fn forms(opcode: Opcode) -> &'static [Form] {
    let table = table();
    let Some((rows, forms)) = table.opcodes.get(opcode as usize) else {
        return &[];
    };
    forms.get_or_init(|| {
        let forms = rows.iter().map(|line| row::row(line, &table.lists));
        // A test reads every row, so none is lost here.
        forms.filter_map(Result::ok).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::target::Target;
    use super::*;
    use crate::ptx::ast::Version;

    fn modifiers(text: &str) -> Modifiers {
        let mut modifiers = Modifiers::default();
        for word in text.split('.').filter(|word| !word.is_empty()) {
            assert!(modifiers.push(Modifier::from_text(word).unwrap()));
        }
        modifiers
    }

    fn fits(opcode: Opcode, text: &str) -> bool {
        forms(opcode)
            .iter()
            .any(|f| f.fit(&modifiers(text)).is_ok())
    }

    fn row(line: &str) -> Form {
        let lists = [("round", "rn|rz"), ("big", "100a,103a@8.8")];
        row::row(line, &lists).unwrap()
    }

    #[test]
    fn every_row_makes_sense() {
        let lines: Vec<&str> = FILES.iter().flat_map(|file| row::lines(file)).collect();
        let lists: Vec<_> = lines.iter().filter_map(|line| row::list(line)).collect();
        for line in &lines {
            if line.starts_with('$') {
                assert!(row::list(line).is_some(), "{line}");
            } else if let Err(problem) = row::row(line, &lists) {
                panic!("{problem}: {line}");
            }
        }
        let mut names: Vec<_> = lists.iter().map(|(name, _)| name).collect();
        names.sort();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all, "two lists of one name: {names:?}");
    }

    #[test]
    fn rows_go_on_in_the_next_line() {
        let lines: Vec<_> =
            row::lines("# no\nadd T=u32 :\n  # or\n    d:T\n\n$a b|\n c\n").collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        let form = row::row(lines[0], &[]).unwrap();
        assert_eq!(
            (form.text.as_str(), form.operands.len()),
            ("add T=u32 : d:T", 1)
        );
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

    #[test]
    fn conditions() {
        let form = row("add [rn|rz] [ftz] [sat] [noftz] T=f32|f16 sat=>rn ftz!noftz T=f16=>ftz :");
        let fits = |text: &str| form.fit(&modifiers(text)).is_ok();
        assert!(fits("rn.sat.f32") && fits("f32") && fits("f16.ftz"));
        assert!(!fits("sat.f32") && !fits("rz.sat.f32"));
        assert!(!fits("ftz.noftz.f32") && !fits("f16"));
        let form = row("add [rn|rz] [ftz] !rn=>ftz :");
        let fits = |text: &str| form.fit(&modifiers(text)).is_ok();
        assert!(fits("rn") && fits("ftz") && !fits("") && !fits("rz"));
    }

    #[test]
    fn words_have_floors() {
        let form = row("add [$round@8.6/100a] T=f32|f64@/90 : d:T ; 2.0 20");
        let permits = |text: &str, major, minor, target: &str| {
            let fit = form.fit(&modifiers(text)).unwrap();
            let version = Version { major, minor };
            let target: Target = target.parse().unwrap();
            fit.since.iter().all(|s| s.permits(version, target))
        };
        assert!(permits("f32", 2, 0, "20") && !permits("f32", 1, 4, "20"));
        assert!(permits("rn.f32", 8, 6, "100a") && !permits("rn.f32", 8, 6, "100"));
        assert!(!permits("rn.f32", 8, 5, "100a"));
        assert!(permits("f64", 2, 0, "90") && !permits("f64", 9, 0, "89"));
    }

    #[test]
    fn targets_have_versions_and_families() {
        let permits = |since: &str, major, minor, target: &str| {
            let form = row(&format!("add : ; {since}"));
            let target = target.parse().unwrap();
            form.since.permits(Version { major, minor }, target)
        };
        assert!(permits("8.6 $big", 8, 6, "100a") && !permits("8.6 $big", 8, 6, "103a"));
        assert!(permits("8.6 $big", 8, 8, "103a") && !permits("8.6 $big", 8, 8, "103"));
        assert!(permits("8.8 100f", 8, 8, "103a") && permits("8.8 100f", 8, 8, "100f"));
        assert!(!permits("8.8 100f", 8, 8, "100") && !permits("8.8 100f", 8, 8, "120a"));
        assert!(!permits("8.8 103f", 8, 8, "100a") && !permits("8.8 103a", 8, 8, "103f"));
        assert!(permits("3.0 30 <70@6.4", 6, 3, "70") && !permits("3.0 30 <70@6.4", 6, 4, "70"));
        assert!(permits("3.0 30 <70@6.4", 9, 0, "62") && permits("", 1, 0, "10"));
    }

    #[test]
    fn opcodes_of_several_words_come_first() {
        let looked_at = |opcode, text| forms_of(opcode, &modifiers(text)).collect::<Vec<_>>();
        for form in looked_at(Opcode::Mbarrier, "arrive.expect_tx.b64") {
            assert_eq!(form.opcode_words, [Modifier::Arrive, Modifier::ExpectTx]);
        }
        for form in looked_at(Opcode::Mbarrier, "arrive.b64.expect_tx") {
            assert_eq!(form.opcode_words, [Modifier::Arrive]);
        }
        assert!(looked_at(Opcode::Mbarrier, "b64.arrive").is_empty());
    }

    #[test]
    fn spaces_keep_their_order() {
        let form = row("cp.async ca|cg shared|shared::cta global [L2::64B] :");
        let fits = |text: &str| form.fit(&modifiers(text)).is_ok();
        assert!(fits("async.ca.shared.global") && fits("async.shared.L2::64B.global.cg"));
        assert!(!fits("async.ca.global.shared") && !fits("async.ca.shared.shared.global"));
    }

    #[test]
    fn coordinates_have_elements() {
        let form = row("cp.async.bulk 2d|3d im2col : [r,r:u64?im2col,s{d-2}:b32] a:shared");
        let [tensor, address] = form.operands.as_slice() else {
            panic!("{form:?}");
        };
        let [map, other, coordinates] = tensor.elements.as_slice() else {
            panic!("{tensor:?}");
        };
        assert_eq!((tensor.kind, map.kind), (Kind::Coordinates, Kind::Register));
        assert_eq!(other.presence, Presence::With(vec![Modifier::Im2col]));
        let numbers = |text| {
            coordinates
                .count
                .as_ref()
                .map(|c| c.numbers(&modifiers(text)))
        };
        assert_eq!((numbers("3d"), numbers("")), (Some(vec![1]), Some(vec![])));
        assert_eq!(address.space, Some(Space::Shared));
    }

    #[test]
    fn operands_of_every_shape() {
        let form = row("add cas|exch T=f32 : d/q:T2 D:b32/q s{2|4}:Th=24..256%8?exch a? r=4|8|16");
        let [first, second, third, fourth, fifth] = form.operands.as_slice() else {
            panic!("{form:?}");
        };
        assert_eq!(first.kind, Kind::DestinationAndPredicate);
        assert_eq!(first.ty.scale, Scale::Twice);
        assert_eq!(second.ty.base, TypeBase::Fixed(Type::B32));
        let two_or_four = Some(Count::Of(vec![2, 4]));
        assert_eq!((&third.count, third.ty.scale), (&two_or_four, Scale::Half));
        assert_eq!(third.presence, Presence::With(vec![Modifier::Exch]));
        let range = third.range.as_ref().unwrap();
        assert!(range.contains(24) && !range.contains(16) && !range.contains(28));
        assert_eq!(range.describe(), "24 to 256, a multiple of 8");
        assert_eq!(fourth.presence, Presence::Optional);
        assert_eq!(fifth.range.as_ref().unwrap().describe(), "4, 8 or 16");
    }
}
