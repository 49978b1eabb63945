//! Documentation of the forms of an opcode, in the style of the PTX ISA.

use std::fmt::Write as _;

use super::target::{Availability, Suffix, TargetRule};
use super::{
    Condition, ConditionKind, ConditionWord, Count, Form, Kind, OperandRule, Presence, Scale, Slot,
    TypeBase, TypeRule, forms,
};
use crate::names::{Modifier, Opcode};

/// Slots with more alternatives than this get their own line.
const MAX_INLINE: usize = 4;

/// The maximum number of alternatives that a usage line lists.
const MAX_CHOICES: usize = 6;

/// The names of the types in rows.
const TYPES: [&str; 5] = ["T", "U", "V", "W", "X"];

/// Documents the forms of an opcode: syntax, operands and floors. Empty if the table does not
/// have the opcode.
///
/// ```
/// use ptxkit_ptx::{isa, names::Opcode};
/// let text = isa::document(Opcode::Activemask);
/// assert!(text.starts_with("activemask.b32 d;\n"), "{text}");
/// ```
pub fn document(opcode: Opcode) -> String {
    let forms = forms(opcode).iter().map(describe);
    forms.collect::<Vec<_>>().join("\n")
}

/// Documents one form: `add{.sat}.s32 d, a, b;`, its modifiers and operands.
pub fn describe(form: &Form) -> String {
    let mut text = format!("{};\n", syntax(form));
    let mut line = |name: &str, what: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "    {name:<10} {what}");
    };
    for (index, slot) in form.slots.iter().enumerate() {
        if is_listed(slot) {
            line(&format!(".{}", slot_name(slot, index)), words(slot));
        } else {
            for word in slot.words.iter().filter(|word| word.since.is_some()) {
                let since = word.since.as_ref().map(since_text).unwrap_or_default();
                line(&format!(".{}", word.modifier.text()), since);
            }
        }
    }
    for condition in &form.conditions {
        line("", condition_text(condition));
    }
    for (name, rule) in operand_names(form).iter().zip(&form.operands) {
        let what = operand_text(rule);
        if !what.is_empty() {
            line(name, what);
        }
    }
    line("since", since_text(&form.since));
    text
}

/// `add{.sat}.s32 d, a, b`
pub fn syntax(form: &Form) -> String {
    let mut text = form.opcode.text().to_owned();
    for word in &form.opcode_words {
        text.push('.');
        text.push_str(word.text());
    }
    for (index, slot) in form.slots.iter().enumerate() {
        let choices = if is_listed(slot) {
            format!(".{}", slot_name(slot, index))
        } else {
            let words = slot.words.iter();
            let words: Vec<_> = words.map(|w| format!(".{}", w.modifier.text())).collect();
            words.join("|")
        };
        text.push_str(&match (slot.required, slot.words.len()) {
            (false, _) => format!("{{{choices}}}"),
            (true, 1) => choices,
            (true, _) if is_listed(slot) => choices,
            (true, _) => format!("({choices})"),
        });
    }
    if form.open_modifiers {
        text.push_str("{…}");
    }
    push_operands(&mut text, form, |_| None);
    text
}

/// `add.f32 d, a, b`: a form with the modifiers that are already written, and the alternatives
/// for missing ones.
pub fn usage(form: &Form, written: &[Modifier]) -> String {
    let mut text = form.opcode.text().to_owned();
    for word in &form.opcode_words {
        text.push('.');
        text.push_str(word.text());
    }
    let stands = |word: &Modifier| written.contains(word);
    let mut left: Vec<Modifier> = written
        .iter()
        .skip(form.opcode_words.len())
        .copied()
        .collect();
    for slot in &form.slots {
        let fits = |word: &Modifier| slot.words.iter().any(|w| w.modifier == *word);
        if let Some(at) = left.iter().position(fits) {
            let _ = write!(text, ".{}", left.remove(at).text());
            continue;
        }
        let words = slot.words.iter();
        let mut words: Vec<_> = words.map(|w| format!(".{}", w.modifier.text())).collect();
        if words.len() > MAX_CHOICES {
            words.truncate(MAX_CHOICES);
            words.push("…".to_owned());
        }
        match words.as_slice() {
            _ if !slot.required => {}
            [word] => text.push_str(word),
            words => {
                let _ = write!(text, "({})", words.join("|"));
            }
        }
    }
    push_operands(&mut text, form, |words| Some(words.iter().any(stands)));
    text
}

/// Appends the operands. `known` decides whether an operand that depends on modifiers is
/// present, if that is known.
fn push_operands(text: &mut String, form: &Form, known: impl Fn(&[Modifier]) -> Option<bool>) {
    let names = operand_names(form);
    for (index, (name, rule)) in names.iter().zip(&form.operands).enumerate() {
        let comma = if index == 0 { " " } else { ", " };
        let stands = match &rule.presence {
            Presence::Required => Some(true),
            Presence::Optional => None,
            Presence::With(words) => known(words),
        };
        match stands {
            Some(true) => {
                text.push_str(comma);
                text.push_str(name);
            }
            Some(false) => {}
            None => {
                let _ = write!(text, "{{{comma}{name}}}");
            }
        }
    }
    if form.open_operands {
        text.push_str(" …");
    }
}

fn is_listed(slot: &Slot) -> bool {
    slot.words.len() > MAX_INLINE
}

/// `type` for the only type, `T` for one of several; other slots are numbered.
fn slot_name(slot: &Slot, index: usize) -> String {
    match slot.names_type.and_then(|number| TYPES.get(number)) {
        Some(name) => (*name).to_owned(),
        None => format!("m{}", index + 1),
    }
}

fn words(slot: &Slot) -> String {
    let word = |word: &super::Word| match &word.since {
        Some(since) => format!(".{} ({})", word.modifier.text(), since_text(since)),
        None => format!(".{}", word.modifier.text()),
    };
    slot.words.iter().map(word).collect::<Vec<_>>().join(", ")
}

fn condition_text(condition: &Condition) -> String {
    let list = |words: &[ConditionWord]| {
        let words = words.iter().map(|word| match word.of {
            Some(number) => format!(".{} as {}", word.modifier.text(), TYPES[number]),
            None => format!(".{}", word.modifier.text()),
        });
        words.collect::<Vec<_>>().join(" or ")
    };
    let (when, then) = (list(&condition.when), list(&condition.then));
    match (condition.kind, condition.absent) {
        (ConditionKind::Requires, false) => format!("{when} only with {then}"),
        (ConditionKind::Requires, true) => format!("without {when} only with {then}"),
        (ConditionKind::Excludes, false) => format!("{when} not with {then}"),
        (ConditionKind::Excludes, true) => format!("without {when} not with {then}"),
    }
}

/// `d`, `a`, `b`, `[e]`, `p` …: results are named d, predicates p and q.
fn operand_names(form: &Form) -> Vec<String> {
    let mut sources = "abcefghijklmno".chars();
    let mut source = || sources.next().unwrap_or('x').to_string();
    let mut results = ["d", "d2", "d3", "d4"].into_iter();
    let mut result = || results.next().unwrap_or("d").to_owned();
    let name = |rule: &OperandRule| {
        let name = match rule.kind {
            Kind::Sink => "_".to_owned(),
            Kind::PredicateDestination => "p".to_owned(),
            Kind::PredicatePair => "p{|q}".to_owned(),
            Kind::BothPredicates => "p|q".to_owned(),
            Kind::DestinationAndPredicate | Kind::SinkAndPredicate => format!("{}{{|p}}", result()),
            Kind::BothRegisterAndPredicate => format!("{}|p", result()),
            Kind::Destination | Kind::DestinationOrVector => result(),
            Kind::Unpacked | Kind::Loaded => result(),
            Kind::Predicate => "c".to_owned(),
            Kind::Address | Kind::BareAddress => format!("[{}]", source()),
            Kind::Coordinates => {
                let elements = rule.elements.iter().map(|element| match element.count {
                    Some(_) => format!("{{{}}}", source()),
                    None => source(),
                });
                format!("[{}]", elements.collect::<Vec<_>>().join(", "))
            }
            Kind::Elements => {
                let elements: Vec<_> = rule.elements.iter().map(|_| source()).collect();
                format!("{{{}}}", elements.join(", "))
            }
            Kind::Label => "label".to_owned(),
            Kind::Targets => "targets".to_owned(),
            Kind::Function => "function".to_owned(),
            _ => source(),
        };
        match rule.count {
            Some(_) => format!("{{{name}…}}"),
            None => name,
        }
    };
    form.operands.iter().map(name).collect()
}

fn operand_text(rule: &OperandRule) -> String {
    let mut parts = Vec::new();
    parts.extend(rule.count.as_ref().map(Count::describe));
    let ty = type_text(rule.ty);
    let kind = match rule.kind {
        // Already shown by the syntax.
        Kind::Sink | Kind::Label | Kind::Targets | Kind::Elements | Kind::Unchecked => "",
        Kind::Address | Kind::Coordinates if rule.space.is_none() => "",
        kind => kind.describe(),
    };
    if !kind.is_empty() {
        parts.push(kind.to_owned());
    }
    if let (false, Some(ty)) = (kind.is_empty(), ty) {
        parts.push(ty);
    }
    if let Some(space) = rule.space {
        parts.push(format!("in .{}", space.text()));
    }
    if let Some(range) = &rule.range {
        parts.push(format!("({})", range.describe()));
    }
    match &rule.presence {
        Presence::With(words) => parts.push(format!("with {}", dotted(words))),
        Presence::Optional | Presence::Required => {}
    }
    parts.join(" ")
}

fn dotted(words: &[Modifier]) -> String {
    let words = words.iter().map(|word| format!(".{}", word.text()));
    words.collect::<Vec<_>>().join(" or ")
}

/// `of .u32`, `of T`, `twice as wide as T`
fn type_text(rule: TypeRule) -> Option<String> {
    let base = match rule.base {
        TypeBase::Any => return None,
        TypeBase::Fixed(ty) => format!(".{}", ty.text()),
        TypeBase::Named(number) => (*TYPES.get(number)?).to_owned(),
    };
    Some(match (rule.scale, rule.wider) {
        _ if rule.alone => format!("of {base} and no other type"),
        (Scale::Same, false) => format!("of {base}"),
        (Scale::Same, true) => format!("of {base} or wider"),
        (Scale::Twice, _) => format!("twice as wide as {base}"),
        (Scale::Half, _) => format!("half as wide as {base}"),
    })
}

/// `PTX ISA 8.6, sm_100a or the family sm_100f`
pub fn since_text(since: &Availability) -> String {
    let mut text = match (since.version.major, since.version.minor) {
        (0, _) => String::new(),
        (major, minor) => format!("PTX ISA {major}.{minor}"),
    };
    if !since.targets.is_empty() {
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&targets_text(&since.targets));
    }
    if let Some((number, version)) = since.removed {
        let _ = write!(text, "; removed on sm_{number} and higher in {version}");
    }
    if text.is_empty() {
        text.push_str("the beginning");
    }
    text
}

/// `sm_90 or higher`, `sm_100a, sm_103a or the family sm_100f`
pub fn targets_text(rules: &[TargetRule]) -> String {
    let one = |rule: &TargetRule| {
        let target = match rule.target.suffix {
            Suffix::None => format!("{} or higher", rule.target),
            Suffix::Family => format!("the family {}", rule.target),
            Suffix::Specific => rule.target.to_string(),
        };
        match rule.version.major {
            0 => target,
            _ => format!("{target} (from {} on)", rule.version),
        }
    };
    let mut words: Vec<_> = rules.iter().map(one).collect();
    match words.pop() {
        Some(last) if words.is_empty() => last,
        Some(last) => format!("{} or {last}", words.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::row;
    use super::*;

    fn described(line: &'static str) -> String {
        let lists = [("round", "rn|rz|rm|rp")];
        describe(&row::row(line, &lists).unwrap())
    }

    #[test]
    fn documents_forms() {
        assert_eq!(
            described("mul wide T=u16|u32 : d:T2 s:T s:T"),
            "mul.wide(.u16|.u32) d, a, b;
    d          register twice as wide as T
    a          register or constant of T
    b          register or constant of T
    since      the beginning\n"
        );
        assert_eq!(
            described(
                "cvt [$round] [sat@8.1/90] T=f16|f32|f64|u8|s8 U=f32 U=f32!sat : d:T+ s:U=0..15 a:shared? ; 1.4 100a,100f@8.8"
            ),
            "cvt{.rn|.rz|.rm|.rp}{.sat}.T.f32 d, a{, [b]};
    .sat       PTX ISA 8.1, sm_90 or higher
    .T         .f16, .f32, .f64, .u8, .s8
               .f32 as U not with .sat
    d          register of T or wider
    a          register or constant of U (0 to 15)
    [b]        address in .shared
    since      PTX ISA 1.4, sm_100a or the family sm_100f (from 8.8 on)\n"
        );
    }

    #[test]
    fn every_form_documents_each_operand_and_its_floor() {
        for &opcode in Opcode::ALL {
            for form in forms(opcode) {
                let text = describe(form);
                let first = text.lines().next().unwrap_or("");
                assert!(first.starts_with(opcode.text()), "{text}");
                assert!(
                    !text.contains("{}") && text.contains("    since "),
                    "{text}"
                );
            }
        }
    }
}
