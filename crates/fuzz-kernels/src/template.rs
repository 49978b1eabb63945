//! The table of instruction templates, `templates.txt`, and operations made from its rows.

use std::sync::LazyLock;

use crate::kernel::{Class, Float, Guard, Op, Operand, Register};
use crate::random::Random;

/// Where a template may stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The reference interpreter executes it.
    pub reference: bool,
    /// All lanes of a known mask execute it together.
    pub warp: bool,
    /// That mask is of 32 lanes.
    pub full: bool,
    /// All threads of the block execute it together.
    pub block: bool,
}

/// An operand of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Register(Class),
    Result(Class, Float),
    Integer(Class),
    Float,
    Double,
    Small,
    Range(u64, u64),
}

/// A row of the table.
#[derive(Clone, Debug)]
pub struct Template {
    /// The heading above it.
    pub group: &'static str,
    /// Its weight among those of the group.
    pub weight: u32,
    /// Where it may stand.
    pub needs: Needs,
    text: &'static str,
    destinations: Vec<Slot>,
    sources: Vec<Slot>,
}

/// The rows of the table.
pub static TEMPLATES: LazyLock<Vec<Template>> = LazyLock::new(|| {
    let mut group = "";
    let mut templates = Vec::new();
    for line in include_str!("templates.txt").lines() {
        if line.is_empty() || line.starts_with('#') {
        } else if let Some(heading) = line.strip_prefix('[') {
            group = heading.trim_end_matches(']');
        } else {
            // A test reads the table: a row that is not one does not get this far.
            templates.extend(template(group, line));
        }
    }
    templates
});

fn template(group: &'static str, line: &'static str) -> Option<Template> {
    let (head, rest) = line.split_once(" | ")?;
    let mut head = head.split(' ');
    let weight = head.next()?.parse().ok()?;
    let mut needs = Needs::default();
    for flag in head {
        match flag {
            "ref" => needs.reference = true,
            "warp" => needs.warp = true,
            "full" => (needs.warp, needs.full) = (true, true),
            "block" => needs.block = true,
            "shared" => {}
            _ => return None,
        }
    }
    let mut columns = rest.split(" :");
    let text = columns.next()?;
    let mut slots =
        || -> Option<Vec<Slot>> { columns.next()?.split_whitespace().map(slot).collect() };
    Some(Template {
        group,
        weight,
        needs,
        text,
        destinations: slots()?,
        sources: slots()?,
    })
}

fn slot(word: &str) -> Option<Slot> {
    if let Some(range) = word.strip_prefix('#') {
        let (low, high) = range.split_once("..")?;
        return Some(Slot::Range(low.parse().ok()?, high.parse().ok()?));
    }
    Some(match word {
        "R" => Slot::Register(Class::Word),
        "D" => Slot::Register(Class::Double),
        "h" => Slot::Register(Class::Half),
        "p" | "q" => Slot::Register(Class::Predicate),
        "r" => Slot::Integer(Class::Word),
        "d" => Slot::Integer(Class::Double),
        "f" => Slot::Float,
        "g" => Slot::Double,
        "n" => Slot::Small,
        "F" => Slot::Result(Class::Word, Float::F32),
        "G" => Slot::Result(Class::Double, Float::F64),
        "H" => Slot::Result(Class::Half, Float::F16),
        "B" => Slot::Result(Class::Half, Float::Bf16),
        "X" => Slot::Result(Class::Word, Float::F16x2),
        "Y" => Slot::Result(Class::Word, Float::Bf16x2),
        _ => return None,
    })
}

impl Template {
    /// An operation by this row, with random variants and operands.
    pub fn instantiate(&self, random: &mut Random) -> Op {
        let text = choose(self.text, random);
        let mut operands = Vec::new();
        let mut floats = Vec::new();
        for slot in &self.destinations {
            let class = match *slot {
                Slot::Register(class) | Slot::Integer(class) => class,
                Slot::Result(class, float) => {
                    floats.push((operands.len(), float));
                    class
                }
                Slot::Float | Slot::Small | Slot::Range(..) => Class::Word,
                Slot::Double => Class::Double,
            };
            // Destinations of one instruction must differ.
            let mut number = random.below(class.count());
            let taken = |number| Operand::Register(Register { class, number });
            while operands.contains(&taken(number)) {
                number = (number + 1) % class.count();
            }
            operands.push(taken(number));
        }
        operands.extend(self.sources.iter().map(|slot| slot.source(random)));
        // A lone mnemonic has all operands, and the guard.
        let text = if text.contains(' ') {
            text.split("; ").map(str::to_owned).collect()
        } else {
            let names: Vec<String> = (0..operands.len()).map(|n| format!("${n}")).collect();
            vec![format!("?{text} {}", names.join(", "))]
        };
        let may_guard = text.iter().any(|line| line.starts_with('?'));
        let guard = (may_guard && random.chance(30)).then(|| guard(random));
        Op {
            text,
            operands,
            floats,
            guard,
        }
    }
}

/// A random guard.
pub fn guard(random: &mut Random) -> Guard {
    Guard {
        predicate: random.below(Class::Predicate.count()),
        negated: random.chance(50),
    }
}

impl Slot {
    fn source(self, random: &mut Random) -> Operand {
        let register = |class: Class, random: &mut Random| {
            let number = random.below(class.count());
            Operand::Register(Register { class, number })
        };
        match self {
            Slot::Register(class) | Slot::Result(class, _) => register(class, random),
            Slot::Integer(class) if random.chance(80) => register(class, random),
            Slot::Integer(Class::Double) => Operand::Integer(integer(random, 64)),
            Slot::Integer(_) => Operand::Integer(integer(random, 32)),
            Slot::Float | Slot::Small if random.chance(75) => register(Class::Word, random),
            Slot::Float => Operand::Float(float(random)),
            Slot::Small => Operand::Integer(random.below(72) as u64),
            Slot::Double if random.chance(75) => register(Class::Double, random),
            Slot::Double => Operand::Double(double(random)),
            Slot::Range(low, high) => {
                Operand::Integer(low + random.below((high - low + 1) as usize) as u64)
            }
        }
    }
}

/// An integer that is often at a limit.
pub fn integer(random: &mut Random, bits: u32) -> u64 {
    let value = match random.below(6) {
        0 => random.below(9) as u64,
        1 => (random.below(9) as u64).wrapping_neg(),
        2 => 1 << random.below(bits as usize),
        3 => (1u64 << random.below(bits as usize)).wrapping_sub(1),
        4 => 1 << (bits - 1),
        _ => random.bits(),
    };
    value & (u64::MAX >> (64 - bits))
}

/// The bits of an `f32` that is often special.
pub fn float(random: &mut Random) -> u32 {
    const SPECIAL: [u32; 14] = [
        0,
        0x8000_0000,
        0x3F80_0000,
        0xBF80_0000,
        0x7F80_0000,
        0xFF80_0000,
        0x7FC0_0000,
        0x0000_0001,
        0x807F_FFFF,
        0x0080_0000,
        0x7F7F_FFFF,
        0x4F00_0000,
        0x3F00_0000,
        0x4B00_0001,
    ];
    match random.below(3) {
        0 => *random.pick(&SPECIAL),
        // Near 1.
        1 => (0x3A00_0000 + random.below(0x0B00_0000)) as u32 | (random.bits() as u32 & 1 << 31),
        _ => random.bits() as u32,
    }
}

/// The bits of an `f64` that is often special.
pub fn double(random: &mut Random) -> u64 {
    match random.below(3) {
        // As an `f32`, so that conversions are exact.
        0 => f64::from(f32::from_bits(float(random) & 0xFFBF_FFFF)).to_bits(),
        1 => 0x3FE0_0000_0000_0000 + random.below(1 << 60) as u64 / 16,
        _ => random.bits() & 0xFFF7_FFFF_FFFF_FFFF,
    }
}

/// Replaces each `(a|b)` by one of its words.
fn choose(text: &str, random: &mut Random) -> String {
    let mut chosen = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('(') {
        let (words, after) = after.split_once(')').unwrap_or((after, ""));
        let words: Vec<&str> = words.split('|').collect();
        chosen += before;
        chosen += words[random.below(words.len())];
        rest = after;
    }
    chosen + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rows_are_read() {
        let rows = include_str!("templates.txt")
            .lines()
            .filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
        for row in rows.clone() {
            assert!(template("", row).is_some(), "{row}");
        }
        assert_eq!(TEMPLATES.len(), rows.count());
    }
}
