//! An instruction against the rows of the table: which it is, and what is
//! wrong if it is none.
//!
//! Which rows an opcode with its modifiers fits, and whether the module may use
//! them, is found once a module and spelling; an instruction that fits costs a
//! look at its operands.

use super::agreement::Wanted;
use super::function::Checker;
use super::operand;
use super::{Allowed, Context};
use crate::ptx::ast::{Instruction, Modifiers, Module, Operand, Span, Version};
use crate::ptx::diagnostic::{Code, Diagnostic};
use crate::ptx::isa::target::{Since, Suffix, TargetRule};
use crate::ptx::isa::{self, Demand, Fit, Form, Misfit, OperandRule, Presence, alternatives};
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
    let Err(found) = fits(checker, spelling, instruction, operands) else {
        return;
    };
    let mnemonic = instruction.opcode_span;
    for mut diagnostic in found {
        // ptxas finds every operand at fault in the line of the opcode.
        let between = Span {
            start: mnemonic.end,
            end: diagnostic.span.start,
        };
        if written(checker.context, between).contains('\n') {
            diagnostic.span = mnemonic;
        }
        checker.report.add(diagnostic);
    }
}

fn fits<'a>(
    checker: &Checker<'_, '_, 'a>,
    spelling: &Spelling,
    instruction: &Instruction<'a>,
    operands: &[Operand<'a>],
) -> Result<(), Vec<Diagnostic>> {
    let context = checker.context;
    let mut forbidden = Vec::new();
    let mut wrong: Option<Diagnostic> = None;
    for candidate in &spelling.candidates {
        if !candidate.counts(operands.len()) {
            continue;
        }
        let checked = candidate
            .places(operands.len())
            .zip(operands)
            .try_for_each(|(place, operand)| operand::check(checker, instruction, place, operand));
        match checked {
            Ok(()) if candidate.permitted => return Ok(()),
            Ok(()) => forbidden.push(candidate),
            Err(found) => wrong = wrong.or(Some(found)),
        }
    }
    if !forbidden.is_empty() {
        return Err(floors(context, instruction, &forbidden));
    }
    if let Some(wrong) = wrong {
        return Err(vec![wrong]);
    }
    match spelling.candidates.first() {
        Some(candidate) => Err(vec![count(context, instruction, candidate, operands.len())]),
        None => misfit(context, instruction).map_or(Ok(()), |found| Err(vec![found])),
    }
}

fn written<'a>(context: &Context<'_, 'a>, span: Span) -> &'a str {
    context
        .source
        .get(span.start as usize..span.end as usize)
        .unwrap_or("")
}

fn count(
    context: &Context<'_, '_>,
    instruction: &Instruction<'_>,
    candidate: &Candidate,
    given: usize,
) -> Diagnostic {
    let (least, most) = (candidate.least, candidate.places.len());
    let wanted = match (least, most) {
        (0, 0) => "no operands".to_owned(),
        (1, 1) => "1 operand".to_owned(),
        _ if least == most => format!("{least} operands"),
        _ => format!("{least} to {most} operands"),
    };
    Diagnostic::new(
        Code::OperandCount,
        instruction.span,
        format!(
            "`{}` takes {wanted}, {given} given",
            written(context, instruction.opcode_span)
        ),
    )
}

/// Why no row fits the modifiers; `None` if the opcode has no rows.
fn misfit(context: &Context<'_, '_>, instruction: &Instruction<'_>) -> Option<Diagnostic> {
    let modifiers = &context.module.mnemonic(instruction).modifiers;
    let misfits =
        isa::forms_of(instruction.opcode, modifiers).filter_map(|form| form.fit(modifiers).err());
    // The row that most words fit says most; of two, the one that only lacks
    // something.
    let (_, misfit) = misfits.reduce(|best, other| {
        let lacks = |misfit: Misfit<'_>| !matches!(misfit, Misfit::Extra(_));
        let better = other.0 > best.0 || (other.0 == best.0 && lacks(other.1) && !lacks(best.1));
        if better { other } else { best }
    })?;
    let opcode = instruction.opcode.text();
    let span = instruction.opcode_span;
    let of_types = || {
        let types: Vec<_> = modifiers.types().map(|t| t.text()).collect();
        match types.as_slice() {
            [] => format!("`{opcode}`"),
            types => format!("`{opcode}` of `.{}`", types.join(".")),
        }
    };
    Some(match misfit {
        Misfit::Missing(slot) => {
            let message = format!("{} needs {}", of_types(), slot.describe());
            Diagnostic::new(Code::MissingModifier, span, message)
        }
        Misfit::Extra(index) => {
            let word = modifiers.as_slice().get(index)?;
            let message = if word.as_type().is_some() {
                format!(
                    "`{opcode}` with these modifiers does not take `.{}`",
                    word.text()
                )
            } else {
                format!("{} does not take `.{}`", of_types(), word.text())
            };
            Diagnostic::new(Code::Form, span, message)
        }
        Misfit::Condition(condition) => {
            let stand = condition.when.iter().map(|word| word.modifier);
            let stand = alternatives(stand.filter(|word| modifiers.has(*word)));
            let then = condition.describe();
            let spelling = written(context, span);
            match (condition.demand, condition.absent) {
                (Demand::Needs, false) => Diagnostic::new(
                    Code::MissingModifier,
                    span,
                    format!("`{spelling}`: {stand} needs {then}"),
                ),
                (Demand::Needs, true) => Diagnostic::new(
                    Code::MissingModifier,
                    span,
                    format!("`{spelling}` needs {then}"),
                ),
                (Demand::Excludes, false) => Diagnostic::new(
                    Code::Form,
                    span,
                    format!("`{spelling}`: {stand} does not go with {then}"),
                ),
                (Demand::Excludes, true) => Diagnostic::new(
                    Code::Form,
                    span,
                    format!("`{spelling}` does not go with {then}"),
                ),
            }
        }
    })
}

/// What the module would have to say to use one of the rows.
fn floors(
    context: &Context<'_, '_>,
    instruction: &Instruction<'_>,
    forbidden: &[&Candidate],
) -> Vec<Diagnostic> {
    let allowed = context.allowed;
    let spelling = written(context, instruction.opcode_span);
    let refusing = |candidate: &&Candidate| {
        let mut since = candidate.since.iter().copied();
        since.find(|since| !allowed.permits(since))
    };
    // The row that asks for least.
    let Some(since) = forbidden
        .iter()
        .filter_map(refusing)
        .min_by_key(|s| s.version)
    else {
        return Vec::new();
    };
    let span = instruction.opcode_span;
    let mut found = Vec::new();
    let versions = allowed.target.map(|target| since.versions(target));
    let (first, gone) = versions.flatten().unwrap_or((since.version, None));
    if allowed.version.is_some_and(|version| version < first) {
        let Version { major, minor } = first;
        found.push(
            Diagnostic::new(
                Code::VersionFloor,
                span,
                format!("`{spelling}` needs `.version {major}.{minor}` or later"),
            )
            .help(format!(
                "write `.version {major}.{minor}` in the first line"
            )),
        );
    }
    if versions == Some(None) {
        let targets = targets(&since.targets);
        found.push(
            Diagnostic::new(
                Code::TargetFloor,
                span,
                format!("`{spelling}` needs `.target` {targets}"),
            )
            .help(format!("compile for {targets}, or do without")),
        );
    } else if let (true, Some((number, _))) = (gone.is_some(), since.gone) {
        let opcode = instruction.opcode.text();
        let message = format!("`{spelling}` is gone since sm_{number}");
        let diagnostic = Diagnostic::new(Code::TargetFloor, span, message);
        found.push(diagnostic.help(format!(
            "write `{opcode}.sync` with a mask of lanes as the last operand"
        )));
    }
    found
}

/// `sm_90 or higher`, `sm_100a, sm_103a or the family sm_100f`
fn targets(rules: &[TargetRule]) -> String {
    let one = |rule: &TargetRule| match rule.target.suffix {
        Suffix::None => format!("`{}` or higher", rule.target),
        Suffix::Family => format!("the family `{}`", rule.target),
        Suffix::Specific => format!("`{}`", rule.target),
    };
    let mut words: Vec<_> = rules.iter().map(one).collect();
    match words.pop() {
        Some(last) if words.is_empty() => last,
        Some(last) => format!("{} or {last}", words.join(", ")),
        None => String::new(),
    }
}
