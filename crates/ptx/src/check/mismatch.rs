//! Diagnostics for an instruction that fits no row of its opcode, or only rows
//! that the module's version or target does not have.

use super::Context;
use super::type_match::{self, ExpectedType};
use crate::ast::{Instruction, Modifiers, Span, Version};
use crate::diagnostic::{Code, Diagnostic, suggestion};
use crate::isa::target::Availability;
use crate::isa::{self, ConditionKind, Form, Mismatch, alternatives};
use crate::names::{Modifier, Opcode, Type};

/// The text of the opcode with its modifiers.
pub fn written<'a>(context: &Context<'_, 'a>, span: Span) -> &'a str {
    context
        .source
        .get(span.start as usize..span.end as usize)
        .unwrap_or("")
}

/// The span of the modifier with this index; that of the whole opcode if there is
/// white space between its words.
fn modifier_span(context: &Context<'_, '_>, whole: Span, index: usize) -> Span {
    let mut start = whole.start;
    let spelling = written(context, whole);
    if spelling.contains(|c: char| c.is_whitespace() || c == '/') {
        return whole;
    }
    for (number, word) in spelling.split('.').enumerate() {
        let end = start + word.len() as u32;
        // The opcode comes first.
        if number == index + 1 {
            return Span { start, end };
        }
        start = end + 1;
    }
    whole
}

/// A wrong number of operands; the form takes `min` to `max`.
pub fn count(
    context: &Context<'_, '_>,
    instruction: &Instruction,
    form: &Form,
    (min, max): (usize, usize),
) -> Diagnostic {
    let expected = match (min, max) {
        (0, 0) => "no operands".to_owned(),
        (1, 1) => "1 operand".to_owned(),
        _ if min == max => format!("{min} operands"),
        _ => format!("{min} to {max} operands"),
    };
    let found = instruction.operands.len;
    let spelling = written(context, instruction.opcode_span);
    let message = format!("`{spelling}` takes {expected}, found {found}");
    let diagnostic = Diagnostic::new(Code::OperandCount, instruction.opcode_span, message);
    diagnostic.help(nearest(context, instruction, form))
}

/// A help line with the form that is closest to an instruction.
pub fn nearest(context: &Context<'_, '_>, instruction: &Instruction, form: &Form) -> String {
    let modifiers = context.spellings.modifiers(instruction);
    format!("write `{}`", isa::usage(form, modifiers.as_slice()))
}

/// Suggests a type of the same opcode that accepts the operand.
pub fn other_type(opcode: Opcode, modifiers: &Modifiers, register: Type) -> Option<String> {
    let mut types = modifiers.types();
    let (Some(written), None) = (types.next(), types.next()) else {
        return None;
    };
    let takes = |word: &&Modifier| {
        let Some(ty) = word.as_type().filter(|ty| *ty != written) else {
            return false;
        };
        let expected = ExpectedType {
            ty,
            bits: ty.bits(),
            wider: false,
            alone: false,
            fixed: true,
        };
        let mut other = Modifiers::NONE;
        for modifier in modifiers.as_slice() {
            let replaced = modifier.as_type().is_some();
            other.push(if replaced { **word } else { *modifier });
        }
        let fits = || isa::forms_of(opcode, &other).any(|form| form.fit(&other).is_ok());
        expected.takes(register) && fits()
    };
    let exact = Modifier::from_text(register.text());
    let choices = [
        exact,
        Modifier::from_text(type_match::bits_of(register).text()),
    ];
    let choices: Vec<Modifier> = choices.into_iter().flatten().collect();
    let word = choices.iter().find(takes)?;
    Some(format!(
        "`{}` of `.{}` accepts it",
        opcode.text(),
        word.text()
    ))
}

/// Reports an opcode of several words that has only the first; `None` if the opcode has no
/// rows.
fn incomplete(instruction: &Instruction) -> Option<Diagnostic> {
    let opcode = instruction.opcode;
    let mut second: Vec<Modifier> = Vec::new();
    for form in isa::forms(opcode) {
        let word = form.opcode_words.first();
        second.extend(word.filter(|word| !second.contains(word)));
    }
    if second.is_empty() {
        return None;
    }
    let next = alternatives(second.into_iter());
    let message = format!("`{}` must be followed by {next}", opcode.text());
    let span = instruction.opcode_span;
    Some(Diagnostic::new(Code::UnknownOpcode, span, message))
}

/// Why the modifiers match no row; `None` if the opcode has no rows.
pub fn modifiers(context: &Context<'_, '_>, instruction: &Instruction) -> Option<Diagnostic> {
    let modifiers = context.spellings.modifiers(instruction);
    if isa::forms_of(instruction.opcode, modifiers)
        .next()
        .is_none()
    {
        return incomplete(instruction);
    }
    let misfits = isa::forms_of(instruction.opcode, modifiers)
        .filter_map(|form| form.fit(modifiers).err().map(|mismatch| (form, mismatch)));
    let all = misfits.clone();
    // The row with the most matching words gives the best message. Among equals it is the
    // one that only lacks a word.
    let (form, (most, mismatch)) = misfits.reduce(|best, other| {
        let lacks = |mismatch: Mismatch<'_>| !matches!(mismatch, Mismatch::Extra(_));
        let (fitting, known) = (other.1.0, best.1.0);
        let better = fitting > known || (fitting == known && lacks(other.1.1) && !lacks(best.1.1));
        if better { other } else { best }
    })?;
    let opcode = form.name();
    let span = instruction.opcode_span;
    let of_types = || {
        let types: Vec<_> = modifiers.types().map(|t| t.text()).collect();
        match types.as_slice() {
            [] => format!("`{opcode}`"),
            types => format!("`{opcode}` of `.{}`", types.join(".")),
        }
    };
    let (code, span, message) = match mismatch {
        Mismatch::Missing(slot) => {
            // Other rows that match equally well may lack another word there.
            let mut words: Vec<Modifier> = Vec::new();
            for (_, (fitting, other)) in all {
                if let Mismatch::Missing(other) = other
                    && fitting == most
                    && other.names_type == slot.names_type
                {
                    let other = other.words.iter().map(|word| word.modifier);
                    words.extend(
                        other
                            .filter(|word| !words.contains(word))
                            .collect::<Vec<_>>(),
                    );
                }
            }
            let message = format!("{} needs {}", of_types(), alternatives(words.into_iter()));
            (Code::MissingModifier, span, message)
        }
        Mismatch::Extra(index) => {
            let word = *modifiers.as_slice().get(index)?;
            let once = modifiers.as_slice().iter().filter(|w| **w == word).count() == 1;
            let mut words = form.slots.iter().flat_map(|slot| &slot.words);
            let message = if once && words.any(|other| other.modifier == word) {
                format!("`.{}` is in the wrong position of `{opcode}`", word.text())
            } else if word.as_type().is_some() {
                format!(
                    "`{opcode}` with these modifiers does not take `.{}`",
                    word.text()
                )
            } else {
                format!("{} does not take `.{}`", of_types(), word.text())
            };
            let span = modifier_span(context, span, index);
            let mut diagnostic = Diagnostic::new(Code::Form, span, message);
            diagnostic.help = suggest_longer_opcode(instruction.opcode, form, word)
                .or_else(|| suggest_word(form, word, modifiers.as_slice()));
            return Some(diagnostic);
        }
        Mismatch::Condition(condition) => {
            let stand = condition.when.iter().map(|word| word.modifier);
            let stand = alternatives(stand.filter(|word| modifiers.has(*word)));
            let then = condition.then.iter().map(|word| word.modifier);
            let excludes = condition.kind == ConditionKind::Excludes;
            let then = alternatives(then.filter(|word| !excludes || modifiers.has(*word)));
            let spelling = written(context, span);
            let code = match condition.kind {
                ConditionKind::Requires => Code::MissingModifier,
                ConditionKind::Excludes => Code::Form,
            };
            let message = match (condition.kind, condition.absent) {
                (ConditionKind::Requires, false) => format!("`{spelling}`: {stand} needs {then}"),
                (ConditionKind::Requires, true) => format!("`{spelling}` needs {then}"),
                (ConditionKind::Excludes, false) => {
                    format!("`{spelling}`: {stand} excludes {then}")
                }
                (ConditionKind::Excludes, true) => format!("`{spelling}` excludes {then}"),
            };
            (code, span, message)
        }
    };
    Some(Diagnostic::new(code, span, message).help(nearest(context, instruction, form)))
}

/// Suggests the suggest_longer_opcode opcodes that have this type: `mul.lo` for `mul.s32`.
fn suggest_longer_opcode(opcode: Opcode, form: &Form, word: Modifier) -> Option<String> {
    word.as_type()?;
    let takes = |form: &&Form| {
        let mut words = form.slots.iter().flat_map(|slot| &slot.words);
        words.any(|known| known.modifier == word)
    };
    let mut second: Vec<_> = isa::forms(opcode)
        .iter()
        .filter(|other| form.opcode_words.is_empty() && other.opcode_words.len() == 1)
        .filter(takes)
        .filter_map(|other| other.opcode_words.first().copied())
        .collect();
    second.dedup();
    let next = alternatives(second.iter().copied());
    (!second.is_empty()).then(|| {
        format!(
            "for `.{}`, `{}` must be followed by {next}",
            word.text(),
            opcode.text()
        )
    })
}

/// Suggests a spelling for a word that a form does not take.
fn suggest_word(form: &Form, word: Modifier, written: &[Modifier]) -> Option<String> {
    let free = form
        .slots
        .iter()
        .filter(|slot| !slot.words.iter().any(|w| written.contains(&w.modifier)))
        .flat_map(|slot| &slot.words)
        .map(|word| word.modifier.text());
    let near = suggestion(word.text(), free);
    near.or_else(|| Some(format!("write `{}`", isa::usage(form, written))))
}

/// Reports the version or target that the module needs for one of these forms. A form
/// needs everything in its list.
pub fn floor(
    context: &Context<'_, '_>,
    instruction: &Instruction,
    forbidden: &[(&Form, &[&'static Availability])],
) -> Option<Diagnostic> {
    let allowed = context.allowed;
    let (form, since) = forbidden
        .iter()
        .filter_map(|(form, since)| {
            let mut since = since.iter().copied();
            Some((*form, since.find(|since| !allowed.permits(since))?))
        })
        // The row with the lowest floor.
        .min_by_key(|(_, since)| since.version)?;
    let span = instruction.opcode_span;
    let what = named(form, since).map_or_else(
        || format!("`{}`", written(context, span)),
        |word| format!("`.{}` of `{}`", word.text(), written(context, span)),
    );
    let versions = allowed.target.map(|target| since.versions(target));
    let (first, gone) = versions.flatten().unwrap_or((since.version, None));
    let too_old = allowed.version.filter(|version| *version < first);
    if let (Some(target), Some(None)) = (allowed.target, versions) {
        let targets = isa::targets_text(&since.targets);
        let message = format!("{what} needs {targets}, the target is {target}");
        let help = match too_old {
            Some(_) => format!("compile for {targets}, with `.version {first}`"),
            None => format!("compile for {targets}, or do without"),
        };
        return Some(Diagnostic::new(Code::TargetFloor, span, message).help(help));
    }
    if let Some(version) = too_old {
        let Version { major, minor } = first;
        let message =
            format!("{what} needs `.version {major}.{minor}` or later, this is {version}");
        let help = format!("write `.version {major}.{minor}` in the first line");
        return Some(Diagnostic::new(Code::VersionFloor, span, message).help(help));
    }
    let (Some(_), Some((number, version))) = (gone, since.removed) else {
        return None;
    };
    let on = match number {
        0 => String::new(),
        number => format!(" on sm_{number} and higher"),
    };
    let message = format!("{what} was removed{on} in PTX ISA {version}");
    let mut diagnostic = Diagnostic::new(Code::TargetFloor, span, message);
    // Without a successor there is nothing to suggest.
    let opcode = instruction.opcode;
    let synchronised = |form: &Form| {
        let slots = || form.slots.iter().filter(|slot| slot.required);
        slots().any(|slot| {
            slot.words
                .iter()
                .any(|word| word.modifier == Modifier::Sync)
        })
    };
    if isa::forms(opcode).iter().any(synchronised) {
        diagnostic.help = Some(format!(
            "write `{}.sync` with a mask of lanes as the last operand",
            opcode.text()
        ));
        return Some(diagnostic);
    }
    // For `div.f32` of old versions a missing `.rn` is the better message.
    modifiers(context, instruction)
        .filter(|found| found.code == Code::MissingModifier)
        .or(Some(diagnostic))
}

/// The word with this floor; `None` if it is that of the form.
fn named(form: &Form, since: &Availability) -> Option<Modifier> {
    let mut words = form.slots.iter().flat_map(|slot| &slot.words);
    let own = |since_of_word: &Availability| std::ptr::eq(since_of_word, since);
    let word = words.find(|word| word.since.as_ref().is_some_and(own));
    word.map(|word| word.modifier)
}

#[cfg(test)]
mod tests {
    use crate::{check, read};

    /// The diagnostics of one line in a kernel, with their help.
    fn messages(head: &str, line: &str) -> String {
        let source = format!(
            "{head}\n.entry k() {{ .reg .b32 %r<4>; .reg .f32 %f<4>; .reg .pred %p; {line} }}"
        );
        let found = check(&read(&source).module, &source);
        let [found] = found.as_slice() else {
            panic!("{found:#?}");
        };
        let span = &source[found.span.start as usize..found.span.end as usize];
        let help = found.help.as_deref().unwrap_or("");
        format!("{span}: {} ({help})", found.message)
    }

    #[test]
    fn messages_name_the_wrong_word_and_the_fix() {
        let head = ".version 8.0\n.target sm_80";
        assert_eq!(
            messages(head, "mul.s32 %r1, %r1, %r1;"),
            "s32: `mul` with these modifiers does not take `.s32` \
             (for `.s32`, `mul` must be followed by `.lo`, `.hi` or `.wide`)"
        );
        assert_eq!(
            messages(head, "mul24.hi.sat.s32 %r1, %r1, %r1;"),
            "sat: `mul24.hi` of `.s32` does not take `.sat` (write `mul24.hi.s32 d, a, b`)"
        );
        assert_eq!(
            messages(head, "sqrt.f32 %f1, %f2;"),
            "sqrt.f32: `sqrt` of `.f32` needs `.approx`, `.rn`, `.rz`, `.rm` or `.rp` \
             (write `sqrt(.approx|.rn|.rz|.rm|.rp).f32 d, a`)"
        );
        assert_eq!(
            messages(head, "add.s32 %f1, %r1, %r2;"),
            "%f1: `%f1` is `.f32`, expected `.s32` (`add` of `.f32` accepts it)"
        );
        assert_eq!(
            messages(head, "st.global.f32 %f1, [%r1];"),
            "%f1: expected an address in brackets (write `st.global.f32 [a], b`)"
        );
    }

    #[test]
    fn floors_suggest_what_to_write() {
        let line = "elect.sync _|%p, -1;";
        assert_eq!(
            messages(".version 7.8\n.target sm_80", line),
            "elect.sync: `elect.sync` needs sm_90 or higher, the target is sm_80 \
             (compile for sm_90 or higher, with `.version 8.0`)"
        );
        assert_eq!(
            messages(".version 7.8\n.target sm_90", line),
            "elect.sync: `elect.sync` needs `.version 8.0` or later, this is 7.8 \
             (write `.version 8.0` in the first line)"
        );
        assert_eq!(
            messages(".version 7.0\n.target sm_70", "shfl.up.b32 %r1, %r1, 1, 0;"),
            "shfl.up.b32: `shfl.up.b32` was removed on sm_70 and higher in PTX ISA 6.4 \
             (write `shfl.sync` with a mask of lanes as the last operand)"
        );
    }
}
