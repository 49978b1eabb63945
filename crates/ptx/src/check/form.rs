//! Matches an instruction against the rows of the table, and reports why it
//! matches none.
//!
//! The rows that an opcode with its modifiers fits, and whether the module may
//! use them, are computed once for each spelling in a module, and kept for the next module.
//! Each instruction then costs a check of its operands.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::function::Checker;
use super::memo::AcceptedKeys;
use super::type_match::ExpectedType;
use super::{Allowed, mismatch, operand};
use crate::ast::{Instruction, Mnemonic, MnemonicId, Modifiers, Operand, Span, Version};
use crate::diagnostic::{Code, Diagnostic};
use crate::isa::target::Availability;
use crate::isa::{self, Fit, Form, Kind, OperandRule, Presence, Types};
use crate::name_map::Seed;
use crate::names::{Modifier, Opcode};
use crate::token::bank;

/// The matching rows of each opcode with modifiers in the module: one entry for
/// each of [`Module::mnemonics`].
pub struct Spellings {
    allowed: Allowed,
    all: Vec<Rc<Spelling>>,
}

/// The spellings of modules with the same head.
struct Known {
    allowed: Allowed,
    spellings: HashMap<(Opcode, Modifiers), Rc<Spelling>, Seed>,
}

/// The maximum number of heads, and of spellings for each of them. A module that a service loads
/// has some hundred spellings.
const MAX_KNOWN: (usize, usize) = (4, 512);

thread_local! {
    /// Services check small modules, which use the same few instructions.
    static KNOWN: RefCell<Vec<Known>> = const { RefCell::new(Vec::new()) };
}

impl Known {
    /// The spellings for a head, which moves to the end; those of the first go for a new one.
    fn of(allowed: Allowed, all: &mut Vec<Known>) -> &mut Known {
        let at = all.iter().position(|known| known.allowed == allowed);
        match at {
            Some(at) => all[at..].rotate_left(1),
            None => {
                if all.len() == MAX_KNOWN.0 {
                    all.remove(0);
                }
                let spellings = HashMap::default();
                all.push(Known { allowed, spellings });
            }
        }
        let last = all.len() - 1;
        &mut all[last]
    }

    fn spelling(&mut self, mnemonic: &Mnemonic<'_>) -> Rc<Spelling> {
        let (opcode, modifiers) = (mnemonic.opcode, mnemonic.modifiers);
        // The modifiers do not have the number of a bank.
        if modifiers.has(Modifier::Const)
            && let Some(bank) = mnemonic.text.split('.').find_map(bank)
        {
            return Rc::new(Spelling::new(opcode, &modifiers, Some(bank), self.allowed));
        }
        let key = (opcode, modifiers);
        if let Some(known) = self.spellings.get(&key) {
            return known.clone();
        }
        if self.spellings.len() == MAX_KNOWN.1 {
            self.spellings.clear();
        }
        let new = Rc::new(Spelling::new(opcode, &modifiers, None, self.allowed));
        self.spellings.insert(key, new.clone());
        new
    }
}

/// An opcode with its modifiers.
pub struct Spelling {
    modifiers: Modifiers,
    /// It has an unknown word, which the parser has reported.
    unknown: bool,
    /// Whether the check of an operand depends only on its [key](super::memo), not on
    /// the value of a constant.
    pub memoizable: bool,
    pub accepted: AcceptedKeys,
    /// The rows that it matches; those that the module may use come first, of
    /// them the oldest.
    candidates: Vec<Candidate>,
}

/// A row that a spelling matches.
struct Candidate {
    form: &'static Form,
    /// The operands that these modifiers allow.
    places: Vec<OperandSlot>,
    min_operands: usize,
    since: Vec<&'static Availability>,
    /// The first `.version` that has it.
    first: Version,
    permitted: bool,
}

/// An operand of a form, with its rule resolved for these modifiers.
pub struct OperandSlot {
    pub rule: &'static OperandRule,
    pub expected: Option<ExpectedType>,
    /// 2 for `.v2`; 1 if the instruction has no vector modifier.
    pub vector: u32,
    /// The allowed numbers of elements of a list in braces.
    pub counts: Vec<u8>,
    /// The elements of an address with coordinates.
    pub elements: Vec<OperandSlot>,
}

impl Spellings {
    pub fn new(allowed: Allowed) -> Spellings {
        Spellings {
            allowed,
            all: Vec::new(),
        }
    }

    /// Adds those of these mnemonics that are new, which follow the known ones.
    pub fn extend(&mut self, mnemonics: &[Mnemonic<'_>]) {
        let new = mnemonics.get(self.all.len()..).unwrap_or_default();
        if new.is_empty() {
            return;
        }
        KNOWN.with_borrow_mut(|known| {
            let known = Known::of(self.allowed, known);
            self.all.extend(new.iter().map(|one| known.spelling(one)));
        });
    }

    /// Adds for each mnemonic that the list lacks whether it is memoizable.
    pub fn list_memoizable(&self, list: &mut Vec<bool>) {
        let new = self.all.get(list.len()..).unwrap_or_default();
        list.extend(new.iter().map(|spelling| spelling.memoizable));
    }

    pub fn get(&self, id: MnemonicId) -> Option<&Spelling> {
        self.all.get(id.index()).map(Rc::as_ref)
    }

    /// The modifiers of an instruction.
    pub fn modifiers(&self, instruction: &Instruction) -> &Modifiers {
        let spelling = self.get(instruction.mnemonic);
        spelling.map_or(const { &Modifiers::NONE }, |spelling| &spelling.modifiers)
    }
}

impl Spelling {
    fn new(opcode: Opcode, modifiers: &Modifiers, bank: Option<u8>, allowed: Allowed) -> Spelling {
        let bank = bank.map(of_bank);
        let mut candidates: Vec<Candidate> = isa::candidates(opcode, modifiers)
            .into_iter()
            .filter_map(|form| {
                Some(Candidate::new(
                    form,
                    form.fit(modifiers).ok()?,
                    bank,
                    modifiers,
                    allowed,
                ))
            })
            .collect();
        candidates.sort_by_key(|candidate| (!candidate.permitted, candidate.first));
        let unknown = opcode == Opcode::Unknown || modifiers.has(Modifier::UNKNOWN);
        let ranged =
            |candidate: &Candidate| candidate.places.iter().any(OperandSlot::depends_on_value);
        Spelling {
            modifiers: *modifiers,
            unknown,
            // `range` looks at the constants of `createpolicy`, `call` at all.
            memoizable: !unknown
                && !matches!(opcode, Opcode::Call | Opcode::Createpolicy)
                && !candidates.iter().any(ranged),
            accepted: AcceptedKeys::default(),
            candidates,
        }
    }
}

/// The versions that have this bank of constant memory.
fn of_bank(bank: u8) -> &'static Availability {
    static FIRST: Availability = until_2_2(0, 0);
    static OTHER: Availability = until_2_2(1, 5);
    if bank == 0 { &FIRST } else { &OTHER }
}

const fn until_2_2(major: u8, minor: u8) -> Availability {
    Availability {
        version: Version { major, minor },
        targets: Vec::new(),
        removed: Some((0, Version { major: 2, minor: 2 })),
    }
}

impl Candidate {
    fn new(
        form: &'static Form,
        mut fit: Fit<'static>,
        bank: Option<&'static Availability>,
        modifiers: &Modifiers,
        allowed: Allowed,
    ) -> Candidate {
        fit.since.extend(bank);
        let places = OperandSlot::all(&form.operands, &fit.types, modifiers);
        Candidate {
            form,
            min_operands: places.iter().filter(|place| !place.optional()).count(),
            places,
            first: fit
                .since
                .iter()
                .map(|since| allowed.first(since))
                .max()
                .unwrap_or_default(),
            permitted: fit.since.iter().all(|since| allowed.permits(since)),
            since: fit.since,
        }
    }

    /// Whether it takes this number of operands.
    fn takes(&self, operands: usize) -> bool {
        operands >= self.min_operands && (self.form.open_operands || operands <= self.places.len())
    }

    /// The slots of this number of operands: optional ones are filled from the left.
    fn places(&self, operands: usize) -> impl Iterator<Item = &OperandSlot> {
        let mut beyond = operands.saturating_sub(self.min_operands);
        self.places.iter().filter(move |place| {
            let stands = !place.optional() || beyond > 0;
            beyond -= usize::from(place.optional() && beyond > 0);
            stands
        })
    }
}

impl OperandSlot {
    /// The slots that these modifiers allow.
    fn all(
        rules: &'static [OperandRule],
        types: &Types,
        modifiers: &Modifiers,
    ) -> Vec<OperandSlot> {
        let vector = match modifiers.first_of(&[Modifier::V2, Modifier::V4, Modifier::V8]) {
            Some(Modifier::V2) => 2,
            Some(Modifier::V4) => 4,
            Some(_) => 8,
            None => 1,
        };
        let stands = |rule: &&OperandRule| match &rule.presence {
            Presence::With(words) => words.iter().any(|word| modifiers.has(*word)),
            _ => true,
        };
        let place = |rule: &'static OperandRule| OperandSlot {
            rule,
            expected: ExpectedType::new(rule.ty, types),
            vector,
            counts: match &rule.count {
                Some(count) => count.numbers(modifiers),
                None => Vec::new(),
            },
            elements: OperandSlot::all(&rule.elements, types, modifiers),
        };
        rules.iter().filter(stands).map(place).collect()
    }

    /// Whether the operand takes only certain constants.
    fn depends_on_value(&self) -> bool {
        self.rule.range.is_some() || self.elements.iter().any(OperandSlot::depends_on_value)
    }

    fn optional(&self) -> bool {
        self.rule.presence == Presence::Optional
    }

    /// Whether the check of the operand looks up every name in it.
    fn looks_up(&self, operand: &Operand<'_>) -> bool {
        if matches!(
            self.rule.kind,
            Kind::Unchecked | Kind::Function | Kind::Coordinates | Kind::Elements
        ) {
            return false;
        }
        match operand {
            Operand::Vector(..) => self.expected.is_some(),
            Operand::Name(_)
            | Operand::Component { .. }
            | Operand::Not(_)
            | Operand::Integer(_)
            | Operand::Float(_)
            | Operand::Special(..)
            | Operand::Sink(_)
            | Operand::Pair(..)
            | Operand::Address { .. } => true,
            _ => false,
        }
    }
}

/// Checks an instruction against its rows. `true` if every name in it has been
/// looked up.
pub fn check<'a>(checker: &mut Checker<'_, '_, 'a>, instruction: &Instruction) -> bool {
    let Some(spelling) = checker.context.spellings.get(instruction.mnemonic) else {
        return false;
    };
    if spelling.unknown {
        return false;
    }
    let operands = checker.body.list(instruction.operands);
    let mut found = match fits(checker, spelling, instruction, operands) {
        Ok(looked_up) => return looked_up,
        Err(found) => found,
    };
    let mnemonic = instruction.opcode_span;
    // ptxas reports every wrong operand on the line of the opcode.
    let between = Span {
        start: mnemonic.end,
        end: found.span.start,
    };
    if mismatch::written(checker.context, between).contains('\n') {
        found.span = mnemonic;
    }
    checker.report.add(found);
    false
}

fn fits<'a>(
    checker: &Checker<'_, '_, 'a>,
    spelling: &Spelling,
    instruction: &Instruction,
    operands: &[Operand<'a>],
) -> Result<bool, Diagnostic> {
    let context = checker.context;
    let mut forbidden = Vec::new();
    // Of the rows with a wrong operand, the one that matches most operands before it.
    let mut wrong: Option<(usize, Diagnostic, &Candidate)> = None;
    for candidate in &spelling.candidates {
        if !candidate.takes(operands.len()) {
            continue;
        }
        let mut right = 0;
        let mut looked_up = operands.len() <= candidate.places.len();
        let mut pairs = candidate.places(operands.len()).zip(operands);
        let checked = pairs.try_for_each(|(place, operand)| {
            operand::check(checker, instruction, place, operand)?;
            right += 1;
            looked_up &= place.looks_up(operand);
            Ok(())
        });
        match checked {
            Ok(()) if candidate.permitted => {
                context.require(candidate.first);
                return Ok(looked_up);
            }
            Ok(()) => forbidden.push((candidate.form, candidate.since.as_slice())),
            Err(found) if wrong.as_ref().is_none_or(|(most, ..)| right > *most) => {
                wrong = Some((right, found, candidate));
            }
            Err(_) => {}
        }
    }
    // A row of another target that differs only in its register lists gives no better message.
    if let Some((.., row)) = &wrong
        && row.permitted
    {
        forbidden.retain(|(other, _)| !row.form.is_twin(other));
    }
    if !forbidden.is_empty() {
        return mismatch::floor(context, instruction, &forbidden).map_or(Ok(false), Err);
    }
    if let Some((_, mut wrong, row)) = wrong {
        if wrong.help.is_none() && wrong.code == Code::OperandKind {
            wrong.help = Some(mismatch::nearest(context, instruction, row.form));
        }
        return Err(wrong);
    }
    let found = match spelling.candidates.first() {
        Some(candidate) => {
            let counts = (candidate.min_operands, candidate.places.len());
            Some(mismatch::count(
                context,
                instruction,
                candidate.form,
                counts,
            ))
        }
        None => mismatch::modifiers(context, instruction),
    };
    found.map_or(Ok(false), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check, read};

    /// An operand for this rule whose names are all undeclared.
    fn undeclared_operand(rule: &OperandRule, modifiers: &Modifiers) -> String {
        let name = match rule.kind {
            Kind::Address => "[%nope]".to_owned(),
            Kind::Coordinates => "[%nope, {%nope}]".to_owned(),
            Kind::PredicatePair | Kind::BothPredicates => "%nope|%nope".to_owned(),
            _ => "%nope".to_owned(),
        };
        match &rule.count {
            Some(count) => {
                let length = count
                    .numbers(modifiers)
                    .first()
                    .map_or(1, |n| usize::from(*n));
                format!("{{{}}}", vec![name; length].join(","))
            }
            None => name,
        }
    }

    /// The names of an instruction that matches a row are looked up only once: every
    /// kind of operand must do so.
    #[test]
    fn no_operand_hides_an_undeclared_name() {
        for &opcode in Opcode::ALL {
            for form in isa::forms(opcode) {
                let mut words = vec![opcode.text().to_owned()];
                words.extend(form.opcode_words.iter().map(|w| w.text().to_owned()));
                let required = form.slots.iter().filter(|slot| slot.required);
                words.extend(required.map(|slot| slot.words[0].modifier.text().to_owned()));
                let mut modifiers = Modifiers::NONE;
                for word in &words[1..] {
                    modifiers.push(Modifier::from_text(word).unwrap());
                }
                for operand in 0..form.operands.len() {
                    let operands = form.operands.iter().enumerate();
                    let operands = operands
                        .filter(|(at, rule)| *at == operand || rule.presence == Presence::Required);
                    let operands: Vec<_> = operands
                        .map(|(_, rule)| undeclared_operand(rule, &modifiers))
                        .collect();
                    let source = format!(
                        ".version 9.5\n.target sm_100a\n.entry k() {{ {} {}; }}",
                        words.join("."),
                        operands.join(", ")
                    );
                    let reading = read(&source);
                    let found = check(&reading.module, &source);
                    let all = reading.diagnostics.iter().chain(&found);
                    let mut undeclared =
                        all.filter(|d| d.code.number() == 201 || d.code.number() < 10);
                    let fixed = form
                        .operands
                        .iter()
                        .all(|r| matches!(r.kind, Kind::Sink | Kind::Constant));
                    assert!(fixed || undeclared.next().is_some(), "{source}");
                }
            }
        }
    }
}
