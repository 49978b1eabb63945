//! Parses the rows of the table; see [`super`] for their syntax.

use super::meaning::Column;
use super::target::{Availability, TargetRule};
use super::{
    Condition, ConditionKind, ConditionWord, Count, Form, Kind, OperandRule, Presence, Range,
    Scale, Slot, TypeBase, TypeRule, Word,
};
use crate::ast::Space;
use crate::names::{Modifier, Opcode, Type};

/// The lists `$name words` of all files of the table.
pub type Lists<'t> = [(&'t str, &'t str)];

/// The maximum nesting of lists.
const MAX_LIST_DEPTH: u8 = 4;

/// The form that a line describes; the error is the invalid part.
pub fn row(line: &str, lists: &Lists<'_>) -> Result<Form, String> {
    let mut colons = line.match_indices(':').map(|(at, _)| at);
    let colon = colons.find(|at| line[..*at].ends_with(' ') || at + 1 == line.len());
    let (modifiers, rest) = line.split_at(colon.ok_or("no ` :`")?);
    let rest = &rest[1..];
    let (operands, rest) = rest.split_once(';').unwrap_or((rest, ""));
    let (since, meaning) = rest.split_once(';').unwrap_or((rest, ""));
    let mut words = modifiers.split_ascii_whitespace();
    let name = words.next().unwrap_or("");
    let (first, further) = name.split_once('.').unwrap_or((name, ""));
    let further = further.split('.').filter(|word| !word.is_empty());
    let mut form = Form {
        opcode: Opcode::from_text(first).ok_or_else(|| format!("no opcode `{name}`"))?,
        opcode_words: further
            .map(|word| Modifier::from_text(word).ok_or_else(|| format!("opcode `{name}`")))
            .collect::<Result<_, _>>()?,
        slots: Vec::new(),
        conditions: Vec::new(),
        operands: Vec::new(),
        open_modifiers: false,
        open_operands: false,
        since: since_of(since.split_ascii_whitespace(), lists)
            .ok_or_else(|| format!("since `{since}`"))?,
        meaning: Column::parse(meaning)?,
        text: line.to_owned(),
    };
    for word in words {
        if word == "*" {
            form.open_modifiers = true;
        } else if word.contains(['>', '!']) {
            let condition = condition(word, lists);
            form.conditions
                .push(condition.ok_or_else(|| format!("condition `{word}`"))?);
        } else {
            form.slots
                .push(slot(word, lists).ok_or_else(|| format!("modifier `{word}`"))?);
        }
    }
    if form.slots.len() > 64 {
        return Err("more than 64 slots".to_owned());
    }
    for word in operands.split_ascii_whitespace() {
        if word == "*" {
            form.open_operands = true;
        } else {
            let rule = operand_rule(word, lists).ok_or_else(|| format!("operand `{word}`"))?;
            form.operands.push(rule);
        }
    }
    Ok(form)
}

/// `8.0 90a,100f@8.8 <110@9.0`
pub(super) fn since_of<'t>(
    words: impl Iterator<Item = &'t str>,
    lists: &Lists<'_>,
) -> Option<Availability> {
    let mut since = Availability::default();
    for word in words {
        if let Some(gone) = word.strip_prefix('<') {
            let (target, version) = gone.split_once('@')?;
            since.removed = Some((target.parse().ok()?, version.parse().ok()?));
        } else if word.contains('.') && !word.contains([',', '@']) {
            since.version = word.parse().ok()?;
        } else {
            targets(word, lists, &mut since.targets, 0)?;
        }
    }
    Some(since)
}

/// `100a,103a@8.8,$name`
fn targets(text: &str, lists: &Lists<'_>, into: &mut Vec<TargetRule>, depth: u8) -> Option<()> {
    for word in text.split(',') {
        if let Some(name) = word.strip_prefix('$') {
            targets(named(name, lists, depth)?, lists, into, depth + 1)?;
            continue;
        }
        let (target, version) = match word.split_once('@') {
            Some((target, version)) => (target, version.parse().ok()?),
            None => (word, Default::default()),
        };
        into.push(TargetRule {
            target: target.parse().ok()?,
            version,
        });
    }
    Some(())
}

fn named<'t>(name: &str, lists: &Lists<'t>, depth: u8) -> Option<&'t str> {
    let (_, words) = lists.iter().find(|(known, _)| *known == name)?;
    (depth < MAX_LIST_DEPTH).then_some(*words)
}

/// `a|b@8.6/100a|$list`
fn words(text: &str, lists: &Lists<'_>, into: &mut Vec<Word>, depth: u8) -> Option<()> {
    into.reserve(1 + text.bytes().filter(|byte| *byte == b'|').count());
    for word in text.split('|').map(str::trim) {
        let (word, floor) = match word.split_once('@') {
            Some((word, floor)) => (word, Some(word_since(floor, lists)?)),
            None => (word, None),
        };
        match word.strip_prefix('$') {
            Some(name) => {
                let first = into.len();
                words(named(name, lists, depth)?, lists, into, depth + 1)?;
                // A floor after a list applies to its words without one.
                for word in &mut into[first..] {
                    word.since = word.since.take().or(floor.clone());
                }
            }
            None => into.push(Word {
                modifier: Modifier::from_text(word)?,
                since: floor,
            }),
        }
    }
    Some(())
}

/// `8.6/100a,103a@8.8`, `8.6`, `/90`
fn word_since(text: &str, lists: &Lists<'_>) -> Option<Availability> {
    let (version, place) = text.split_once('/').unwrap_or((text, ""));
    since_of(
        [version, place].into_iter().filter(|part| !part.is_empty()),
        lists,
    )
}

/// `T=a|b`, `[a|b]`
fn slot(word: &str, lists: &Lists<'_>) -> Option<Slot> {
    let (word, required) = match word.strip_prefix('[').and_then(|w| w.strip_suffix(']')) {
        Some(inner) => (inner, false),
        None => (word, true),
    };
    let (choices, names_type) = match word.split_once('=') {
        Some((name, choices)) => (choices, Some(type_number(name)?)),
        None => (word, None),
    };
    let mut slot = Slot {
        words: Vec::new(),
        required,
        names_type,
    };
    words(choices, lists, &mut slot.words, 0)?;
    Some(slot)
}

/// `a|b=>c|d`, `!a=>b`, `a|b!c|d`, `T=f32=>ftz`
fn condition(word: &str, lists: &Lists<'_>) -> Option<Condition> {
    let (when, then, kind) = match word.split_once("=>") {
        Some((when, then)) => (when, then, ConditionKind::Requires),
        None => {
            let (when, then) = word.split_once('!')?;
            (when, then, ConditionKind::Excludes)
        }
    };
    let (when, absent) = match when.strip_prefix('!') {
        Some(when) => (when, true),
        None => (when, false),
    };
    Some(Condition {
        when: condition_words(when, lists)?,
        absent,
        kind,
        then: condition_words(then, lists)?,
    })
}

fn condition_words(text: &str, lists: &Lists<'_>) -> Option<Vec<ConditionWord>> {
    let (choices, of) = match text.split_once('=') {
        Some((name, choices)) => (choices, Some(type_number(name)?)),
        None => (text, None),
    };
    let mut found = Vec::new();
    words(choices, lists, &mut found, 0)?;
    let of_slot = |word: Word| ConditionWord {
        modifier: word.modifier,
        of,
    };
    Some(found.into_iter().map(of_slot).collect())
}

fn type_number(name: &str) -> Option<usize> {
    ["T", "U", "V", "W", "X"].iter().position(|n| *n == name)
}

/// `kind{count}:type=range?condition`
fn operand_rule(word: &str, lists: &Lists<'_>) -> Option<OperandRule> {
    if let Some(inner) = word.strip_prefix('[') {
        return elements(Kind::Coordinates, inner, ']', lists);
    }
    if let Some(inner) = word.strip_prefix('{') {
        return elements(Kind::Elements, inner, '}', lists);
    }
    let (word, presence) = presence_of(word, lists)?;
    let (word, range) = match word.split_once('=') {
        Some((word, range)) => (word, Some(range_of(range)?)),
        None => (word, None),
    };
    let (kind, ty) = word.split_once(':').unwrap_or((word, ""));
    // `/q` may also follow the type.
    let (ty, letters) = match ty.strip_suffix("/q") {
        Some(ty) => (ty, format!("{kind}/q")),
        None => (ty, kind.to_owned()),
    };
    let (letters, count) = match letters.split_once('{') {
        Some((letters, count)) => (letters, Some(count_of(count.strip_suffix('}')?)?)),
        None => (letters.as_str(), None),
    };
    let kind = Kind::from_letters(letters)?;
    let space = match kind {
        Kind::Address | Kind::BareAddress => space_of(ty),
        _ => None,
    };
    Some(OperandRule {
        kind,
        count,
        elements: Vec::new(),
        ty: type_rule(if space.is_some() { "" } else { ty })?,
        space,
        range,
        presence,
    })
}

/// `r,s{d}:b32]?condition`: the text after the first bracket or brace.
fn elements(kind: Kind, text: &str, close: char, lists: &Lists<'_>) -> Option<OperandRule> {
    let (inner, rest) = text.rsplit_once(close)?;
    let (rest, presence) = presence_of(rest, lists)?;
    if !rest.is_empty() {
        return None;
    }
    let elements = inner.split(',').map(|element| operand_rule(element, lists));
    Some(OperandRule {
        kind,
        count: None,
        elements: elements.collect::<Option<_>>()?,
        ty: type_rule("")?,
        space: None,
        range: None,
        presence,
    })
}

/// Splits off `?` or `?word`.
fn presence_of<'t>(word: &'t str, lists: &Lists<'_>) -> Option<(&'t str, Presence)> {
    Some(match word.split_once('?') {
        Some((word, "")) => (word, Presence::Optional),
        Some((word, condition)) => {
            let words = condition_words(condition, lists)?;
            let modifiers = words.into_iter().map(|word| word.modifier).collect();
            (word, Presence::With(modifiers))
        }
        None => (word, Presence::Required),
    })
}

/// The state space of `a:shared`.
fn space_of(text: &str) -> Option<Space> {
    [Space::Global, Space::Shared]
        .into_iter()
        .find(|space| space.text() == text)
}

/// `4`, `2|4`, `1..5`, `2+2`, `d`, `d-1`, `n/2`, `2x`
fn count_of(text: &str) -> Option<Count> {
    if let Some(fewer) = text.strip_prefix('d') {
        let fewer = match fewer.strip_prefix('-') {
            Some(fewer) => fewer.parse().ok()?,
            None => 0,
        };
        return Some(Count::Dimensions(fewer));
    }
    if let Some(divisor) = text.strip_prefix("n/") {
        return Some(Count::Columns(divisor.parse().ok()?));
    }
    match text {
        "x" => return Some(Count::Repeats(1)),
        "2x" => return Some(Count::Repeats(2)),
        "4x" => return Some(Count::Repeats(4)),
        "c" => return Some(Count::Coordinates),
        "o" => return Some(Count::Offsets),
        "g" => return Some(Count::Derivatives),
        _ => {}
    }
    if text.contains('+') {
        let pieces: Option<_> = text.split('+').map(|piece| piece.parse().ok()).collect();
        return Some(Count::Pieces(pieces?));
    }
    let mut numbers = Vec::new();
    for part in text.split('|') {
        match part.split_once("..") {
            Some((low, high)) => {
                numbers.extend(low.parse::<u8>().ok()?..=high.parse::<u8>().ok()?);
            }
            None => numbers.push(part.parse().ok()?),
        }
    }
    Some(Count::Of(numbers))
}

/// `0..15`, `4|8|16`, `%32`, `24..256%8`
fn range_of(text: &str) -> Option<Range> {
    let (text, multiple) = match text.split_once('%') {
        Some((text, multiple)) => (text, multiple.parse().ok()?),
        None => (text, 1),
    };
    let mut range = Range {
        spans: Vec::new(),
        multiple,
    };
    for part in text.split('|').filter(|part| !part.is_empty()) {
        let (low, high) = part.split_once("..").unwrap_or((part, part));
        range.spans.push((low.parse().ok()?, high.parse().ok()?));
    }
    (multiple > 0).then_some(range)
}

/// `b32`, `b32+`, `b32!`, `T`, `T2`, `T+`, `Th`
fn type_rule(text: &str) -> Option<TypeRule> {
    let (wider, alone) = (text.ends_with('+'), text.ends_with('!'));
    let text = if wider || alone {
        &text[..text.len() - 1]
    } else {
        text
    };
    let named = |text: &str| text.get(..1).and_then(type_number).map(TypeBase::Named);
    let (base, scale) = match text.as_bytes() {
        [] => (TypeBase::Any, Scale::Same),
        [_] => (named(text)?, Scale::Same),
        [b'T'..=b'X', b'2'] => (named(text)?, Scale::Twice),
        [b'T'..=b'X', b'h'] => (named(text)?, Scale::Half),
        _ => (TypeBase::Fixed(Type::from_text(text)?), Scale::Same),
    };
    Some(TypeRule {
        base,
        scale,
        wider,
        alone,
    })
}
