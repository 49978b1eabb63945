//! The instruction table: the modifiers and operands of each instruction, and the
//! versions and targets that have it.
//!
//! The files `forms/*.txt` are the table, one for each family of instructions. They are the
//! only source for the checker, the version floors and the documentation. The build script,
//! which lists the families, splits them into rows.
//!
//! # Syntax of a row
//!
//! ```text
//! opcode modifiers : operands ; since ; meaning
//! add [rn|rz] [ftz] T=f32|f32x2@8.6/100 : d:T s:T s:T ; 1.4 20 ; arithmetic pure of-operands
//! ```
//!
//! A line that begins with white space continues the row above it, `#` begins a
//! comment, and `$name a|b|c` names a list that all files may use as `$name`.
//!
//! An opcode of several words is written with dots, `cp.async.bulk`. As in ptxas, these words
//! come first and in this order. Only the rows with the longest opcode that the instruction
//! begins with apply to it.
//!
//! The order of modifiers is free, but types, and state spaces, keep the order of the row:
//!
//! | | |
//! |---|---|
//! | `rn\|rz` | one of these is required |
//! | `[rn\|rz]` | one of these is optional |
//! | `T=u32\|s32` | the type T (or U, V, W, X); `[U=b32]` an optional one |
//! | `word@8.6/100a` | a modifier with an additional floor; `@8.6`, `@/90`, `@8.6/100a,103a@8.8` |
//! | `a\|b=>c\|d` | if a or b is present, c or d is required; `!a=>c`: if a is absent |
//! | `a\|b!c\|d` | a or b excludes c and d |
//! | `*` | any other modifiers, unchecked |
//!
//! In a condition `T=f32` means the type of that slot: `T=f32|f64=>rn`.
//!
//! An operand is `kind{count}:type=range?condition`. All parts but the kind are optional:
//!
//! | kind | |
//! |---|---|
//! | `d` | register written |
//! | `D` | the same, or a vector for `.v2`, `.v4`, `.v8`, or `_` |
//! | `s` | register or constant |
//! | `S` | the same, or a vector |
//! | `r` | register |
//! | `R` | register or float constant; with a count also a list, not only of integers |
//! | `m` | source of `mov`: also special registers, addresses, functions, `{a, b}` to pack |
//! | `M` | destination of `mov`: a register, or `{a, b}` to unpack to |
//! | `V` | like `D`, but not `_` |
//! | `W` | like `S`, but elements may be `_` |
//! | `n` | register, constant, or variable of the state space of the instruction |
//! | `g` | register, constant or special register |
//! | `v1`, `v2`, `v4` | register or constant of a video instruction on 1, 2 or 4 parts, with or without a selector, `%r1.b0` |
//! | `w1`, `w2`, `w4` | register written by a video instruction, with or without a selector |
//! | `-v1`, `-r` | negated register, `-%r1.b0` or `-%r1` |
//! | `q` | predicate written |
//! | `Q` | the same, or `_` |
//! | `_` | `_` and nothing else |
//! | `p` | predicate read |
//! | `d/q`, `D/q` | register, or `register\|predicate`; with `D` the register may be `_` |
//! | `q/q` | predicate, or two |
//! | `D\|q`, `q\|q` | `register\|predicate`, `predicate\|predicate`: both are required |
//! | `a` | address in brackets |
//! | `A` | the same, or its register or variable without brackets |
//! | `t` | address with coordinates: `[x, {…}]` |
//! | `[r,s{d}:b32]` | the same, with the elements between the brackets |
//! | `{s:u16=0..3,s:u16}` | list in braces, with the rule of each element |
//! | `i` | constant |
//! | `l` | label |
//! | `L` | list of labels, by `.branchtargets` |
//! | `f` | function, or register with its address |
//! | `x` | anything |
//! | `*` | any further operands, unchecked |
//!
//! - count: `{4}` a list in braces of 4 elements, `{2|4}`, `{1..5}`, which may contain
//!   constants, with `r` not only integers; `{2+2}` a list of 4 whose halves ptxas also checks
//!   by themselves; `{d}` one element for each dimension of the tensor, `.1d` to `.5d`,
//!   `{d-1}`, `{d-2}` that many fewer; `{n/2}` one for every two columns of `.m64n16k8`, `{2x}`
//!   two for each repetition of `.x16`; `{c}`, `{o}`, `{g}` the coordinates, offsets and
//!   derivatives of the geometry
//! - type: `b32`, `T`, `T2` (twice as wide), `Th` (half as wide), `T+` (T or wider),
//!   `b32!` (no other). For an address: the state space of a variable, `a:shared`; the register
//!   type of an address in tensor memory, `a:b32`; a register of 32 or 64 bits, `a:b32+`; or
//!   `a:texref`
//! - range of a constant: `=0..15`, `=4|8|16`, `=%32` (a multiple), `=24..256%8`
//! - condition: `?` is optional, `?word` is present if and only if `.word` is
//!
//! Availability: `8.0 90` from `.version 8.0`, on sm_90 and every higher target; `8.0 90a` on exactly
//! sm_90a; `8.8 100f` on the family of sm_100, which is sm_100f and sm_100a, sm_103f and
//! sm_103a …; `8.6 100a,101a,103a@8.8` on any of these, one of them from a later version;
//! `$name` for a list of targets; `<70@6.4` removed on sm_70 and higher in 6.4. Empty: available
//! in all versions.
//!
//! Meaning: [`Meaning`] in words, one or none of each group. `word?a|b` holds where `.a` or
//! `.b` is present, and overrides a word before it: `ld` is `of-operands of-thread?local`.
//!
//! | | |
//! |---|---|
//! | `arithmetic`, `memory`, `atomic`, `copy`, `matrix`, `texture`, `barrier`, `warp`, `control`, `compare`, `convert`, `move`, `other` | [`Class`]: what it is counted as; required |
//! | `pure`, `load`, `store`, `update`, `fetch`, `jump`, `table`, `return`, `exit`, `trap`, `call`, `effectful` | [`Effect`]: what it does besides its result; required |
//! | `of-operands`, `linear`, `compared`, `shuffled`, `of-warp`, `of-active`, `of-block`, `of-lane`, `of-thread` | [`Outcome`]: what its result depends on; required where it has one |
//! | `by-active`, `by-mask`, `by-warp`, `by-block`, `by-cluster` | [`Convergence`]: the threads that execute it together; none: each alone |
//! | `strong`, `orders`, `aligned`, `arrives`, `carry-in`, `carry-out`, `accumulates`, `absorbs`, `selects`, `cpu` | the fields of [`Meaning`] with these names |

mod count;
mod document;
mod form;
#[cfg(test)]
mod lines;
mod meaning;
mod operand;
mod row;
pub mod special;
mod summary;
pub mod target;

pub use count::Count;
pub use document::{describe, document, since_text, syntax, targets_text, usage};
pub(super) use form::alternatives;
pub use form::{Condition, ConditionKind, ConditionWord, Fit, Form, Mismatch, Slot, Word};
pub use meaning::{Class, Convergence, Effect, Meaning, Outcome, form, meaning};
pub use operand::{
    KINDS, Kind, Lanes, OperandRule, Presence, Range, Scale, TypeBase, TypeRule, Types,
};
pub use summary::{special_summary, summary};

use std::sync::OnceLock;

use super::ast::Modifiers;
use super::names::{Modifier, Opcode};

/// A row of the table. What tells which instructions it is for is read at compile time, the
/// rest when somebody asks for it: a module uses few rows, and parsing one takes microseconds.
struct Row {
    /// The first word of its opcode.
    opcode: &'static str,
    /// The other words of its opcode.
    opcode_words: &'static [Modifier],
    /// Groups of modifiers of which it requires one.
    required: &'static [&'static [Modifier]],
    /// As written in the table, on one line.
    text: &'static str,
    form: OnceLock<Option<Box<Form>>>,
}

impl Row {
    const fn new(
        opcode: &'static str,
        opcode_words: &'static [Modifier],
        required: &'static [&'static [Modifier]],
        text: &'static str,
    ) -> Row {
        Row {
            opcode,
            opcode_words,
            required,
            text,
            form: OnceLock::new(),
        }
    }

    fn form(&self) -> Option<&Form> {
        // A test parses every row, so no error is lost here.
        let parse = || row::row(self.text, LISTS).ok().map(Box::new);
        self.form.get_or_init(parse).as_deref()
    }

    /// The number of words of the opcode behind the first, if these modifiers begin with them.
    fn begins(&self, modifiers: &[Modifier]) -> Option<usize> {
        let begins = modifiers.starts_with(self.opcode_words);
        begins.then_some(self.opcode_words.len())
    }

    /// Whether these modifiers have a word of each group that the row requires.
    fn may_fit(&self, modifiers: &[Modifier]) -> bool {
        let has_one = |group: &&[Modifier]| group.iter().any(|word| modifiers.contains(word));
        self.required.iter().all(has_one)
    }
}

// The build script writes `LISTS` and `ROWS`, sorted by opcode.
include!(concat!(env!("OUT_DIR"), "/rows.rs"));

/// The rows of all opcodes with this first word.
fn rows(opcode: Opcode) -> &'static [Row] {
    let word = opcode.text();
    let behind = &ROWS[ROWS.partition_point(|row| row.opcode < word)..];
    &behind[..behind.partition_point(|row| row.opcode == word)]
}

/// The forms of an instruction: the rows with the longest opcode that it begins with.
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

/// Those of the [`forms_of`] an instruction that its modifiers may fit, and maybe others: rows
/// that require another word are not parsed.
pub fn candidates(opcode: Opcode, modifiers: &Modifiers) -> Vec<&'static Form> {
    let rows = rows(opcode);
    let words = modifiers.as_slice();
    let longest = rows.iter().filter_map(|row| row.begins(words)).max();
    let rows = rows
        .iter()
        .filter(|row| longest.is_some() && row.begins(words) == longest);
    let rows = rows.filter(|row| row.may_fit(words));
    rows.filter_map(Row::form).collect()
}

/// The forms of all opcodes with this first word; empty if the table has none.
///
/// ```
/// use ptxkit_ptx::{isa, names::Opcode};
/// let forms = isa::forms(Opcode::Activemask);
/// assert_eq!(forms[0].slots[0].describe(), "`.b32`");
/// ```
pub fn forms(opcode: Opcode) -> &'static [Form] {
    static FORMS: [OnceLock<Vec<Form>>; Opcode::ALL.len()] =
        [const { OnceLock::new() }; Opcode::ALL.len()];
    let all = || rows(opcode).iter().filter_map(Row::form).cloned().collect();
    match FORMS.get(opcode as usize) {
        Some(forms) => forms.get_or_init(all),
        None => &[],
    }
}

/// The modifiers that an instruction with these modifiers may have, for suggestions.
pub fn words<'w>(
    opcode: Opcode,
    written: &'w [Modifier],
) -> impl Iterator<Item = &'static str> + 'w {
    let forms = forms(opcode).iter();
    let forms = forms.filter(|form| written.iter().all(|word| form.may_have(*word)));
    forms.flat_map(|form| {
        let slots = form.slots.iter().flat_map(|slot| &slot.words);
        let words = form.opcode_words.iter().copied();
        let words = words.chain(slots.map(|word| word.modifier));
        words.map(Modifier::text)
    })
}

#[cfg(test)]
mod tests {
    use super::target::Target;
    use super::*;
    use crate::ast::{Space, Version};
    use crate::names::Type;

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
    fn every_row_is_valid() {
        for row in &ROWS {
            let form = row::row(row.text, LISTS);
            let form = form.unwrap_or_else(|problem| panic!("{problem}: {}", row.text));
            assert_eq!(form.opcode.text(), row.opcode, "{}", row.text);
            assert_eq!(form.opcode_words, row.opcode_words, "{}", row.text);
        }
        let mut names: Vec<_> = LISTS.iter().map(|(name, _)| name).collect();
        names.sort();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all, "two lists of one name: {names:?}");
    }

    #[test]
    fn rows_continue_on_indented_lines() {
        let lines: Vec<_> =
            lines::lines("# no\nadd T=u32 :\n  # or\n    d:T\n\n$a b|\n c\n").collect();
        assert_eq!(lines, ["add T=u32 : d:T", "$a b| c"]);
        assert_eq!(lines::list(&lines[0]), None);
        assert_eq!(lines::list(&lines[1]), Some(("a", "b| c")));
    }

    #[test]
    fn heads_have_the_words_that_a_row_requires() {
        let lists = [("y", "p|$z"), ("z", "q@7.0|r")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let row = "cp.async ca|cg@8.0 [x] $y T=u32 U=$z@8.1 [V=$z] ca=>x T=u32!x : a|b ; 8.0 90";
        let head = lines::Head::new(row, &lists);
        assert_eq!((head.opcode, head.opcode_words), ("cp", vec!["async"]));
        let required = [&["ca", "cg"][..], &["p", "q", "r"], &["u32"], &["q", "r"]];
        assert_eq!(head.required, required);
    }

    /// For each form, the modifiers that it requires, alone and with each optional one.
    #[test]
    fn candidates_are_the_forms_that_fit() {
        let mut fitting = 0;
        for form in Opcode::ALL.iter().flat_map(|opcode| forms(*opcode)) {
            let slots = &form.slots;
            for optional in std::iter::once(None).chain((0..slots.len()).map(Some)) {
                let mut modifiers = Modifiers::default();
                let mut words = form.opcode_words.clone();
                let taken = |(at, slot): &(usize, &Slot)| slot.required || optional == Some(*at);
                for (at, slot) in slots.iter().enumerate().filter(taken) {
                    let last = optional == Some(at);
                    let word = if last {
                        slot.words.last()
                    } else {
                        slot.words.first()
                    };
                    words.extend(word.map(|word| word.modifier));
                }
                if !words.iter().all(|word| modifiers.push(*word)) {
                    continue;
                }
                let fits = |form: &&Form| form.fit(&modifiers).is_ok();
                let all = forms_of(form.opcode, &modifiers).filter(fits);
                let all: Vec<_> = all.map(|form| &form.text).collect();
                let few = candidates(form.opcode, &modifiers);
                let few: Vec<_> = few
                    .into_iter()
                    .filter(fits)
                    .map(|form| &form.text)
                    .collect();
                assert_eq!(few, all, "{} {modifiers:?}", form.text);
                fitting += all.len();
            }
        }
        assert!(fitting > 1000, "{fitting}");
    }

    #[test]
    fn only_types_are_ordered() {
        assert!(fits(Opcode::Add, "rn.f32") && fits(Opcode::Add, "f32.rn"));
        assert!(fits(Opcode::Cvt, "rn.f32.s32") && !fits(Opcode::Cvt, "rn.s32.f32"));
        assert!(fits(Opcode::Cvt, "rzi.s32.f32"));
        assert!(fits(Opcode::Cvt, "sat.s32.u32") && !fits(Opcode::Cvt, "sat.s64.u32"));
    }

    #[test]
    fn mismatches_name_the_missing_modifier() {
        let form = forms(Opcode::Div)
            .iter()
            .find(|f| f.fit(&modifiers("rn.f32")).is_ok())
            .unwrap();
        let Err((1, Mismatch::Missing(slot))) = form.fit(&modifiers("f32")) else {
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
    fn parses_operand_rules() {
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
