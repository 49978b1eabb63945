//! An instruction against the rows of the table: which it is, and what is
//! wrong if it is none.
//!
//! Which rows an opcode with its modifiers fits, and whether the module may use
//! them, is found once a module and spelling; an instruction that fits costs a
//! look at its operands.

use super::agreement::Wanted;
use super::function::Checker;
use super::{Allowed, misfit, operand};
use crate::ptx::ast::{Instruction, Modifiers, Module, Operand, Span};
use crate::ptx::diagnostic::Diagnostic;
use crate::ptx::isa::target::Since;
use crate::ptx::isa::{self, Fit, Form, OperandRule, Presence};
use crate::ptx::names::{Modifier, Opcode};

/// What the table says of each opcode with modifiers that the module uses: one
/// for each of [`Module::mnemonics`].
pub struct Spellings(Vec<Spelling>);

/// An opcode with its modifiers.
pub struct Spelling {
    /// The rows that it fits, those first that the module may use.
    candidates: Vec<Candidate>,
}

/// A row that a spelling fits.
struct Candidate {
    form: &'static Form,
    /// The operands that may stand with these modifiers.
    places: Vec<Place>,
    least: usize,
    since: Vec<&'static Since>,
    permitted: bool,
}

/// The place of an operand.
pub struct Place {
    pub rule: &'static OperandRule,
    pub wanted: Option<Wanted>,
    /// 2 of `.v2`; 1 if the instruction says nothing of vectors.
    pub vector: u32,
}

impl Spellings {
    pub fn new(module: &Module<'_>, allowed: Allowed) -> Spellings {
        let mnemonics = module.mnemonics.iter();
        Spellings(
            mnemonics
                .map(|m| Spelling::new(m.opcode, &m.modifiers, allowed))
                .collect(),
        )
    }
}

impl Spelling {
    fn new(opcode: Opcode, modifiers: &Modifiers, allowed: Allowed) -> Spelling {
        let mut candidates: Vec<Candidate> = isa::forms_of(opcode, modifiers)
            .filter_map(|form| {
                Some(Candidate::new(
                    form,
                    form.fit(modifiers).ok()?,
                    modifiers,
                    allowed,
                ))
            })
            .collect();
        candidates.sort_by_key(|candidate| !candidate.permitted);
        Spelling { candidates }
    }
}

impl Candidate {
    fn new(
        form: &'static Form,
        fit: Fit<'static>,
        modifiers: &Modifiers,
        allowed: Allowed,
    ) -> Candidate {
        let stands = |rule: &&OperandRule| match &rule.presence {
            Presence::With(words) => words.iter().any(|word| modifiers.has(*word)),
            _ => true,
        };
        let vector = match modifiers.first_of(&[Modifier::V2, Modifier::V4, Modifier::V8]) {
            Some(Modifier::V2) => 2,
            Some(Modifier::V4) => 4,
            Some(_) => 8,
            None => 1,
        };
        let places: Vec<Place> = form
            .operands
            .iter()
            .filter(stands)
            .map(|rule| Place {
                rule,
                wanted: Wanted::new(rule.ty, &fit.types),
                vector,
            })
            .collect();
        Candidate {
            form,
            least: places.iter().filter(|place| !place.optional()).count(),
            places,
            permitted: fit.since.iter().all(|since| allowed.permits(since)),
            since: fit.since,
        }
    }

    /// Whether so many operands may stand.
    fn counts(&self, operands: usize) -> bool {
        operands >= self.least && (self.form.open_operands || operands <= self.places.len())
    }

    /// The places of so many operands: those that may be left out are filled
    /// from the left.
    fn places(&self, operands: usize) -> impl Iterator<Item = &Place> {
        let mut beyond = operands.saturating_sub(self.least);
        self.places.iter().filter(move |place| {
            let stands = !place.optional() || beyond > 0;
            beyond -= usize::from(place.optional() && beyond > 0);
            stands
        })
    }
}

impl Place {
    fn optional(&self) -> bool {
        self.rule.presence == Presence::Optional
    }
}

/// Checks an instruction against its rows.
pub fn check<'a>(checker: &mut Checker<'_, '_, 'a>, instruction: &Instruction<'a>) {
    let spellings = &checker.context.spellings.0;
    let Some(spelling) = spellings.get(instruction.mnemonic.index()) else {
        return;
    };
    let operands = checker.body.list(instruction.operands);
    let Err(mut found) = fits(checker, spelling, instruction, operands) else {
        return;
    };
    let mnemonic = instruction.opcode_span;
    // ptxas finds every operand at fault in the line of the opcode.
    let between = Span {
        start: mnemonic.end,
        end: found.span.start,
    };
    if misfit::written(checker.context, between).contains('\n') {
        found.span = mnemonic;
    }
    checker.report.add(found);
}

fn fits<'a>(
    checker: &Checker<'_, '_, 'a>,
    spelling: &Spelling,
    instruction: &Instruction<'a>,
    operands: &[Operand<'a>],
) -> Result<(), Diagnostic> {
    let context = checker.context;
    let mut forbidden = Vec::new();
    // Of the rows with a wrong operand, that with most right ones before it.
    let mut wrong: Option<(usize, Diagnostic)> = None;
    for candidate in &spelling.candidates {
        if !candidate.counts(operands.len()) {
            continue;
        }
        let mut right = 0;
        let mut pairs = candidate.places(operands.len()).zip(operands);
        let checked = pairs.try_for_each(|(place, operand)| {
            operand::check(checker, instruction, place, operand)?;
            right += 1;
            Ok(())
        });
        match checked {
            Ok(()) if candidate.permitted => return Ok(()),
            Ok(()) => forbidden.push((candidate.form, candidate.since.as_slice())),
            Err(found) if wrong.as_ref().is_none_or(|(most, _)| right > *most) => {
                wrong = Some((right, found));
            }
            Err(_) => {}
        }
    }
    if !forbidden.is_empty() {
        return misfit::floor(context, instruction, &forbidden).map_or(Ok(()), Err);
    }
    if let Some((_, wrong)) = wrong {
        return Err(wrong);
    }
    let found = match spelling.candidates.first() {
        Some(candidate) => {
            let counts = (candidate.least, candidate.places.len());
            Some(misfit::count(context, instruction, candidate.form, counts))
        }
        None => misfit::modifiers(context, instruction),
    };
    found.map_or(Ok(()), Err)
}
